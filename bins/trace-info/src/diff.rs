//! `trace-info diff`.

use clap::{Args, ValueEnum};
use cli::{OrExit as _, Outcome, Stage};
use gpu_time::diff::{
    ARG_KEYS, Basis, Comparison, ENOUGH_STEPS, Metric, StepKind, compare, compare_chosen, hta,
    tracelens,
};
use gpu_time::tables::{SCHEMA_VERSION, diff as tables};
use gpu_time::{GpuWork, Rules};
use report::{Table, human};
use trace_input::NamedTrace;
use trace_model::step_name::phase_of_word;

use crate::args::{ClassesArgs, ReportArgs, ReportFormat};
use crate::document::{Destination, Document};
use crate::empty::EmptyTraces;
use crate::part::PartArgs;

pub(crate) const HELP: &str = "\
A is the first trace, B the second. Where both have steps of the same kind
(annotations of one phase, such as decode, or whose names differ in numbers
only), these are compared: times are per step, and what lies outside of all steps does not count. Otherwise all of
both recordings is compared. A step lasts on the GPU from its first kernel to
the first of the next step, chosen with --step or not; the last step of a
recording, which has no next, does not enter the times. Kernels are compared where both traces have the same
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
        ] {
            if wanted(name) {
                document.tables.push(match name {
                    TableName::Kernels => tables::kernels(&found, top)?,
                    TableName::Operators => tables::operators(&found, top)?,
                    TableName::Totals => tables::totals(&found.diff, names)?,
                    TableName::Time => tables::time(&found)?,
                    TableName::Steps => tables::steps(&found)?,
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
    lines(&found, &mut document);
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
    let [(a, how_a, chosen_a), (b, how_b, chosen_b)] = found;
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

/// Returns the number of steps of both sides whose times are compared.
fn timed(kind: &StepKind) -> [u64; 2] {
    kind.metric(Metric::Wall).map(|spread| spread.count)
}

/// A step of a kind: by its phase where that is the kind.
fn a_step(kind: &str) -> String {
    match phase_of_word(kind) {
        Some(phase) => format!("a {} step", phase.name()),
        None => format!("a step {kind}"),
    }
}

fn steps_of(kind: &StepKind) -> String {
    match timed(kind) {
        [a, b] if a == b => format!("{a} step{} each", if a == 1 { "" } else { "s" }),
        [a, b] => format!("{a} steps of A and {b} of B"),
    }
}

/// Returns the answer: a sentence for each kind of step, differences that chance does not explain first,
/// those of few steps last, else those with most time.
fn answers(found: &Comparison, unlike: bool) -> Vec<String> {
    if found.is_equal() {
        return vec![
            "A and B do not differ: the same GPU activity with the same times.".to_owned(),
        ];
    }
    if found.kinds.is_empty() {
        return vec!["A and B have nothing in common that can be compared.".to_owned()];
    }
    let mut kinds: Vec<&StepKind> = found.kinds.iter().collect();
    let is_few = |kind: &StepKind| timed(kind).iter().any(|n| *n < ENOUGH_STEPS);
    kinds.sort_by_key(|kind| (!kind.is_significant(), is_few(kind)));
    let more = kinds.split_off(kinds.len().min(MOST_SENTENCES));
    let mut out: Vec<String> = kinds
        .into_iter()
        .map(|kind| answer(found, kind, unlike))
        .collect();
    match more.len() {
        0 => {}
        1 => out.push("Another kind of step is below.".to_owned()),
        n => out.push(format!("{n} other kinds of steps are below.")),
    }
    out
}

/// Maximum number of kinds of steps that have a sentence.
const MOST_SENTENCES: usize = 4;

/// How long both take, and what of the time differs most.
fn answer(found: &Comparison, kind: &StepKind, unlike: bool) -> String {
    let median = |metric: Metric| kind.metric(metric).map(|spread| spread.median_ns);
    let [a, b] = median(Metric::Wall);
    let what = match found.basis {
        Basis::Steps | Basis::StepsByTime => {
            let (median, of) = ("median of", steps_of(kind));
            match phase_of_word(&kind.name) {
                Some(phase) => format!("per {} step ({median} {of})", phase.name()),
                None => format!("per step ({median} {of}, {})", kind.name),
            }
        }
        Basis::Window => "in the window".to_owned(),
        _ => "for all of the recording".to_owned(),
    };
    let parts = [
        (Metric::Idle, "GPU idle"),
        (Metric::Computation, "computation"),
        (Metric::ExposedComm, "exposed communication"),
        (Metric::ExposedOther, "exposed memcpy and other"),
    ];
    let mut changes: Vec<(f64, &str)> = parts
        .iter()
        .map(|(metric, name)| {
            let [a, b] = median(*metric);
            (b - a, *name)
        })
        .filter(|(change, _)| change.abs() >= 1.0)
        .collect();
    changes.sort_by(|x, y| y.0.abs().total_cmp(&x.0.abs()));
    let signed = |ns: f64| match ns < 0.0 {
        true => format!("-{}", human::duration(-ns)),
        false => format!("+{}", human::duration(ns)),
    };
    let changes: Vec<String> = changes
        .iter()
        .take(3)
        .map(|(change, name)| format!("{name} {}", signed(*change)))
        .collect();
    let changes = match changes.is_empty() {
        true => String::new(),
        false => format!("; {}", changes.join(", ")),
    };
    let ratio = match a > 0.0 {
        true => format!(" ({})", human::percent(100.0 * b / a)),
        false => String::new(),
    };
    let word = match b - a {
        _ if kind.is_alike() => "about as fast as",
        change if change > 0.0 => "slower than",
        _ => "faster than",
    };
    let by_step = matches!(found.basis, Basis::Steps | Basis::StepsByTime);
    let few = timed(kind).iter().any(|n| *n < ENOUGH_STEPS);
    let chance = match kind.wall_p {
        _ if !by_step => String::new(),
        _ if few => " Too few steps to tell a difference from chance.".to_owned(),
        Some(p) if !kind.is_alike() && !kind.is_significant() => {
            format!(" Chance can explain this difference (Mann-Whitney p = {p:.2}).")
        }
        _ => String::new(),
    };
    let but = match unlike {
        true => "A and B cannot be compared step with step (see caution): ",
        false => "",
    };
    format!(
        "{but}B is {word} A {what}: {} against {}{ratio}{changes}.{chance}",
        human::duration(b),
        human::duration(a)
    )
}

/// Returns the GPU activities per step of each side if one side has more than one and a half times
/// as many: then the sides do different work.
fn unequal(kind: &StepKind) -> Option<[u64; 2]> {
    let mean = [0, 1].map(|i| kind.events[i].div_ceil(kind.steps[i].max(1)));
    (2 * mean[0].max(mean[1]) > 3 * mean[0].min(mean[1])).then_some(mean)
}

fn lines(found: &Comparison, document: &mut Document) {
    let ns = |ns: i64| human::duration(crate::kernels::precise(ns));
    if found.basis == Basis::StepsByTime {
        let text = "no launch call lies in a step: a step holds the GPU activity that starts in it";
        document.line("steps", text);
    }
    for kind in &found.kinds {
        if let Some([a, b]) = unequal(kind) {
            document.line(
                "caution",
                format!(
                    "{} holds {a} GPU activities in A and {b} in B: not the same work",
                    match kind.name.as_str() {
                        "" => "the recording".to_owned(),
                        name => a_step(name),
                    }
                ),
            );
        }
    }
    for kind in &found.lonely {
        let side = if kind.steps[0] > 0 { "A" } else { "B" };
        let count = human::count(kind.steps[0].max(kind.steps[1]));
        let text = match (phase_of_word(&kind.name), count.as_str()) {
            (Some(phase), "1") => {
                format!("1 {} step is only in {side}: not compared", phase.name())
            }
            (Some(phase), _) => {
                format!(
                    "{count} {} steps are only in {side}: not compared",
                    phase.name()
                )
            }
            (None, "1") => format!("1 step {} is only in {side}: not compared", kind.name),
            (None, _) => format!(
                "{count} steps {} are only in {side}: not compared",
                kind.name
            ),
        };
        document.line("steps", text);
    }
    let [a, b] = found.left_out;
    if a.0 + b.0 > 0 {
        document.line(
            "left out",
            format!(
                "{} GPU activities of A ({}) and {} of B ({}) belong to no step that is compared",
                human::count(a.0),
                ns(a.1),
                human::count(b.0),
                ns(b.1)
            ),
        );
    }
    let only = |status: &str, side: usize| {
        let rows = || found.diff.kernels.iter().filter(|k| k.status() == status);
        let count: u64 = rows().map(|k| k.count[side]).sum();
        let sum: i64 = rows().map(|k| k.ns[side]).sum();
        format!("{} ({})", human::count(count), ns(sum))
    };
    document.line(
        "unpaired",
        format!(
            "{} kernels only in A, {} only in B",
            only("gone", 0),
            only("new", 1)
        ),
    );
}
