//! `trace-info diff`.

use clap::{Args, ValueEnum};
use cli::{OrExit as _, Outcome, Stage};
use critical_path::{Mark, Part};
use gpu_time::diff::{
    ARG_KEYS, Basis, Comparison, a_step, answers, compare, compare_chosen, hta, lines, steps_of,
    tracelens,
};
use gpu_time::tables::{SCHEMA_VERSION, diff as tables};
use gpu_time::{GpuWork, Rules, Step};
use report::Table;
use trace_input::{ClassesArgs, NamedTrace};
use trace_model::{TimeRange, Timestamp};

use crate::args::{ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty::EmptyTraces;
use crate::part::PartArgs;

pub(crate) const HELP: &str = "\
A is the first trace, B the second. Where both have steps of the same kind
(annotations of one phase, such as decode, or whose names differ in numbers
only), these are compared: times are per step, and what lies outside of all steps does not count. Otherwise all of
both recordings is compared. A step lasts as in critical-path, from the end
of the work of the step before to the end of its own; with --window from its first kernel to that
of the next step, and the last step then does not enter the times. Kernels are compared where both traces have the same
operators and functions around the launch, whatever they are called.

Example:
  trace-info diff h100.json.gz mi300.json.gz
  trace-info diff before.json.gz after.json.gz --window +0ms..+50ms
  trace-info diff before.json.gz after.json.gz --table operators --format csv";

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Compare all of both recordings, not step with step
    #[arg(long, conflicts_with = "per_step")]
    pub(crate) whole: bool,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    /// Only this table; CSV and Parquet have the kernels unless given
    #[arg(long, value_enum, value_name = "TABLE")]
    pub(crate) table: Option<TableName>,
    /// How traces are compared
    #[arg(long, value_enum, value_name = "RULES", default_value_t)]
    pub(crate) rules: RulesName,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
    /// Rows of each list [default: 15 in text, all in other formats]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
}

/// Tables, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// Pairs of kernels at one place of the program
    Kernels,
    /// Operators with the device work that they launched themselves
    Operators,
    /// Both sides, and by what evidence they are matched
    Totals,
    /// What the time of a step is made of on both sides
    Time,
    /// The steps of both sides
    Steps,
    /// Functions and operators of the threads that launch, with their own time per step
    Host,
}

/// Rules, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RulesName {
    /// By structure, then by name, then by class
    #[default]
    Structure,
    /// As HolisticTraceAnalysis: counts and durations by name
    Hta,
    /// As TraceLens: rows of its diff_stats_df
    Tracelens,
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let [first, second] = report.files.as_slice() else {
        return Err(cli::usage("diff needs exactly two traces"));
    };
    cli::refuse_overwrite(&report.files, &report.output.output)?;
    let to = Destination::open(report)?;
    let read = |path| {
        trace_input::read(path, &report.input, report.verbosity, |options| {
            let keys: Vec<&str> = ARG_KEYS
                .iter()
                .chain(rca_cycles::ARG_KEYS)
                .chain(critical_path::ARG_KEYS)
                .copied()
                .collect();
            trace_input::only_args(options, &keys);
            if args.rules != RulesName::Structure {
                // The other rules use times as recorded.
                options.snap_ns = 0;
            }
        })
    };
    let traces = [read(first)?, read(second)?];
    let people = matches!(
        report.format.format(),
        ReportFormat::Text | ReportFormat::Md
    );
    let top = args.top.unwrap_or(if people { 15 } else { usize::MAX });
    let _stage = Stage::start("compare", report.verbosity);
    let document = match args.rules {
        RulesName::Structure => structure(args, &traces, people, top)?,
        RulesName::Hta => {
            let rows = hta::compare(&traces[0].trace, &traces[1].trace);
            compat(|| tables::hta(&rows, top))?
        }
        RulesName::Tracelens => {
            let rows = tracelens::diff_stats(
                &GpuWork::new(&traces[0].trace),
                &GpuWork::new(&traces[1].trace),
            );
            compat(|| tables::tracelens(&rows, top))?
        }
    };
    document.write(to)?;
    let mut empty = EmptyTraces::default();
    for input in &traces {
        let why = gpu_time::no_gpu_work(GpuWork::new(&input.trace).index());
        empty.add(&input.name, why);
    }
    Ok(empty.end(report.empty, report.verbosity))
}

/// Adds the times of steps as `critical-path` has them, so that the time before a step is in that step.
fn add_times(steps: &mut [Step], work: &GpuWork<'_>) {
    let marks: Vec<Mark> = steps
        .iter()
        .map(|step| Mark {
            name: step.name.clone(),
            begin_ns: step.range.start.nanos(),
            end_ns: step.range.end.nanos(),
        })
        .collect();
    let found = match marks.is_empty() {
        true => Vec::new(),
        false => Part::steps_of(work.index(), &marks),
    };
    for step in steps {
        let begin = step.range.start.nanos();
        let at = found.binary_search_by_key(&begin, |found| found.host_ns.0);
        if let Some(found) = at.ok().and_then(|at| found.get(at)) {
            let [begin, end] = [found.begin_ns, found.end_ns].map(Timestamp::from_nanos);
            step.took = Some(TimeRange::new(begin, end));
        }
    }
}

fn compat(table: impl Fn() -> report::Result<Table>) -> anyhow::Result<Document> {
    let mut document = Document::new(SCHEMA_VERSION);
    document.table("", table()?);
    document.tables.push(table()?);
    Ok(document)
}

fn structure(
    args: &DiffArgs,
    traces: &[NamedTrace; 2],
    people: bool,
    top: usize,
) -> anyhow::Result<Document> {
    let (found, why) = compared(args, traces)?;
    let names = [traces[0].name.as_str(), traces[1].name.as_str()];
    let mut document = Document::new(SCHEMA_VERSION);
    let wanted = |name: TableName| args.table.is_none_or(|t| t == name);
    if !people {
        for name in [
            TableName::Kernels,
            TableName::Operators,
            TableName::Totals,
            TableName::Time,
            TableName::Steps,
            TableName::Host,
        ] {
            if wanted(name) {
                document.tables.push(match name {
                    TableName::Kernels => tables::kernels(&found, top)?,
                    TableName::Operators => tables::operators(&found, top)?,
                    TableName::Totals => tables::totals(&found.diff, names)?,
                    TableName::Time => tables::time(&found)?,
                    TableName::Steps => tables::steps(&found)?,
                    TableName::Host => tables::host(&found, top)?,
                });
            }
        }
        return Ok(document);
    }
    for sentence in answers(&found, why.is_some()) {
        document.sentence(sentence);
    }
    for (name, label) in names.into_iter().zip(["A", "B"]) {
        document.line(label, name);
    }
    if let Some(why) = why {
        document.line("caution", why);
    }
    if found.is_equal() {
        return Ok(document);
    }
    for (label, text) in lines(&found) {
        document.line(label, text);
    }
    if wanted(TableName::Time) {
        for kind in &found.kinds {
            let title = match kind.name.as_str() {
                "" => "time".to_owned(),
                name => format!("time of {}, medians of {}", a_step(name), steps_of(kind)),
            };
            document.table(&title, tables::time_narrow(kind)?);
        }
    }
    if args.table == Some(TableName::Steps) || args.part.per_step {
        document.table("steps", tables::steps(&found)?);
    }
    if args.table == Some(TableName::Host) {
        let title = "own time on the launching threads per step, largest difference first";
        document.table(title, tables::host_narrow(&found, top)?);
    }
    if wanted(TableName::Totals) {
        let title = "GPU activity that is compared, and by what it is matched";
        document.table(title, tables::totals_narrow(&found.diff)?);
    }
    let per_step = match found.basis {
        Basis::Steps | Basis::StepsByTime => " per step",
        _ => "",
    };
    if wanted(TableName::Operators) {
        let title = format!("operators{per_step}, largest difference first");
        document.table(&title, tables::operators_narrow(&found, top)?);
    }
    if wanted(TableName::Kernels) {
        let title = format!("kernels{per_step}, largest difference first");
        document.table(&title, tables::kernels_narrow(&found, top)?);
    }
    Ok(document)
}

/// Returns the comparison, and a warning if the two sides are not fully comparable.
fn compared(
    args: &DiffArgs,
    traces: &[NamedTrace; 2],
) -> anyhow::Result<(Comparison, Option<String>)> {
    let mut works =
        [0, 1].map(|i| GpuWork::with_vocabulary(&traces[i].trace, args.classes.vocabulary()));
    let mut windows = [None, None];
    for (work, window) in works.iter_mut().zip(&mut windows) {
        *window = args.part.window(work)?;
        if let Some(window) = window {
            let (start, end) = (window.start.nanos(), window.end.nanos());
            work.retain(|event| start <= event.start_ns && event.start_ns < end);
        }
    }
    let both = [&works[0], &works[1]];
    let empty: Vec<String> = [("A", both[0], windows[0]), ("B", both[1], windows[1])]
        .into_iter()
        .filter(|(_, work, _)| work.events().is_empty())
        .map(|(side, work, window)| {
            let why = match window {
                Some(window) => gpu_time::no_gpu_work_in(work.index(), window),
                None => gpu_time::no_gpu_work(work.index()),
            };
            let why = why.map_or_else(|| "no GPU activity".to_owned(), |why| why.text);
            format!("{side}: {why}")
        })
        .collect();
    if !empty.is_empty() {
        let outcome = match args.report.empty.fail_on_empty {
            true => Outcome::ConditionFailed,
            false => Outcome::CannotAnswer,
        };
        let error = anyhow::anyhow!("cannot compare: {}", empty.join("; "));
        return Err(error).or_exit(outcome);
    }
    let whole = |why| (compare(both, Rules::Extended, None, windows), why);
    if args.whole {
        return Ok(whole(None));
    }
    let found = [0, 1].map(|i| {
        let (steps, how) = args.part.find_steps(&traces[i], both[i]);
        let chosen = args.part.chosen(steps.clone());
        let places: Vec<usize> = chosen.iter().filter_map(|step| step.number).collect();
        (steps, how, args.part.step.is_some().then_some(places))
    });
    for ((all, _, chosen), side) in found.iter().zip(["A", "B"]) {
        if chosen.as_ref().is_some_and(Vec::is_empty) && !all.is_empty() {
            let all = all.len();
            return Err(cli::usage(format!(
                "--step chooses none of the {all} steps of {side}, which count from 0"
            )));
        }
    }
    let [(mut a, how_a, chosen_a), (mut b, how_b, chosen_b)] = found;
    if windows == [None, None] {
        add_times(&mut a, both[0]);
        add_times(&mut b, both[1]);
    }
    let why = match (a.is_empty(), b.is_empty()) {
        (false, false) if how_a.text != how_b.text => Some(format!(
            "the steps are of different kinds: {} in A, {} in B",
            how_a.text, how_b.text
        )),
        (false, false) => {
            let chosen = [chosen_a.as_deref(), chosen_b.as_deref()];
            let result = compare_chosen(both, Rules::Extended, [&a, &b], chosen);
            if !result.kinds.is_empty() {
                return Ok((result, None));
            }
            let kinds = |side: usize| {
                let names = result.lonely.iter().filter(|kind| kind.steps[side] > 0);
                let names: Vec<&str> = names.map(|kind| kind.name.as_str()).collect();
                match names.is_empty() {
                    true => "no step with GPU activity".to_owned(),
                    false => names.join(", "),
                }
            };
            Some(format!(
                "no kind of step is in both: {} in A, {} in B",
                kinds(0),
                kinds(1)
            ))
        }
        (true, true) => Some(format!("neither trace has steps ({})", how_a.text)),
        (true, false) => Some(format!("A has no steps ({})", how_a.text)),
        (false, true) => Some(format!("B has no steps ({})", how_b.text)),
    };
    let remedy = "all of both recordings is compared, which is like with like only if both hold \
                  the same amount of work; name what marks a step with --per-step --step-pattern, \
                  or choose equal stretches with --window";
    if args.part.by_step() {
        let why = why.unwrap_or_default();
        return Err(cli::cannot_answer(format!(
            "{why}: steps cannot be compared"
        )));
    }
    // A window is the remedy that the message recommends.
    let chosen = windows.iter().any(Option::is_some);
    let why = why
        .filter(|_| !chosen)
        .map(|why| format!("{why}: {remedy}"));
    Ok(whole(why))
}
