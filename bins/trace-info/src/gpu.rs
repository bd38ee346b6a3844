//! `trace-info gpu`.

use clap::{Args, ValueEnum};
use gpu_time::compat::{hta, tracelens};
use gpu_time::tables::{self, GpuRow};
use gpu_time::{
    ARG_KEYS, GpuTime, GpuWork, Note, PlaceKind, Roles, Rules, Split, Step, StepRule, WindowSpec,
    account, notes, split, steps,
};
use report::human;
use shell::Outcome;
use trace_input::NamedTrace;
use trace_model::TimeRange;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};

pub(crate) const HELP: &str = "\
Times are exact unions of half-open intervals over all streams and devices:
  computation + exposed communication + exposed copies + idle = span
Of CSV, times are microseconds with three decimals; of all else, nanoseconds.

Example:
  trace-info gpu rank*.json.gz --format csv --output gpu.csv
  trace-info gpu t.json.gz --per-step
  trace-info gpu t.json.gz --window +100ms..+200ms --per-stream";

#[derive(Debug, Args)]
pub(crate) struct GpuArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) rules: RulesArgs,
    /// One account for each stream
    #[arg(long)]
    pub(crate) per_stream: bool,
    /// One account for each device
    #[arg(long, conflicts_with = "per_stream")]
    pub(crate) per_device: bool,
    /// One account for each step that an annotation of the host marks
    #[arg(long)]
    pub(crate) per_step: bool,
    /// Steps are slices of this name (* any text, ? any character, | or)
    #[arg(long, value_name = "PATTERN", requires = "per_step")]
    pub(crate) step_pattern: Option<String>,
    /// What belongs to a step
    #[arg(
        long,
        value_enum,
        value_name = "RULE",
        default_value_t,
        requires = "per_step"
    )]
    pub(crate) step_by: StepBy,
    /// Only A..B, in ns of the trace's clock, or with + from the first GPU work on: +1ms..+2ms
    #[arg(long, value_name = "A..B", allow_hyphen_values = true)]
    pub(crate) window: Option<WindowSpec>,
    /// Only the time of the first slice of this name (* any text, ? any character, | or)
    #[arg(long, value_name = "PATTERN", conflicts_with = "window")]
    pub(crate) window_of: Option<String>,
    /// Of the slices of --window-of the one with this number, from 0
    #[arg(long, value_name = "N", default_value_t, requires = "window_of")]
    pub(crate) window_index: usize,
}

/// Whose rules.
#[derive(Debug, Args)]
pub(crate) struct RulesArgs {
    /// What counts as communication, computation and copying
    #[arg(long, value_enum, value_name = "RULES", default_value_t)]
    pub(crate) rules: RulesName,
    /// Only work whose launch is in the trace, as TraceLens' reports have it
    #[arg(long)]
    pub(crate) linked_only: bool,
    /// With --rules hta: cut events to whole microseconds, as that tool does by default
    #[arg(long)]
    pub(crate) hta_rounding: bool,
}

impl RulesArgs {
    pub(crate) fn check(&self) -> anyhow::Result<()> {
        let is_hta = self.rules == RulesName::Hta;
        if self.hta_rounding && !is_hta {
            return Err(shell::usage("--hta-rounding needs --rules hta"));
        }
        if self.linked_only && is_hta {
            return Err(shell::usage(
                "--linked-only does not go with --rules hta, which has a choice of its own",
            ));
        }
        Ok(())
    }

    /// The device work that the rules keep.
    pub(crate) fn events(&self, work: &GpuWork<'_>) -> Vec<gpu_time::GpuEvent> {
        match (self.rules, self.linked_only) {
            (RulesName::Hta, _) => hta::events(work, self.hta_rounding),
            (_, true) => tracelens::linked(work),
            _ => work.events().to_vec(),
        }
    }
}

/// Rules, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RulesName {
    /// Communication is kernels named nccl or rccl
    #[default]
    Exact,
    /// And custom, symmetric-memory and fused collectives
    Extended,
    /// Window, classes and events of HolisticTraceAnalysis
    Hta,
    /// Classes of TraceLens
    Tracelens,
}

impl From<RulesName> for Rules {
    fn from(name: RulesName) -> Self {
        match name {
            RulesName::Exact => Self::Exact,
            RulesName::Extended => Self::Extended,
            RulesName::Hta => Self::Hta,
            RulesName::Tracelens => Self::TraceLens,
        }
    }
}

/// Rules for steps, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StepBy {
    /// Work that was launched in it
    #[default]
    Launch,
    /// Work that ran in it, cut at its ends
    Time,
}

/// What is said of one trace.
struct Answer {
    trace: String,
    rows: Vec<GpuRow>,
    whole: GpuTime,
    window: Option<TimeRange>,
    notes: Vec<Note>,
    types: Vec<hta::Combination>,
}

pub(crate) fn run(args: &GpuArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    let report = &args.report;
    let to = Destination::open(report)?;
    let each = trace_input::read_each(
        &report.files,
        &report.input,
        report.verbosity,
        |options| trace_input::only_args(options, ARG_KEYS),
        |input| answer(args, input),
    )?;
    document(args, &each.results)?.write(to)?;
    each.failed.map_or(Ok(Outcome::Fine), Err)
}

fn answer(args: &GpuArgs, input: &NamedTrace) -> anyhow::Result<Answer> {
    let work = GpuWork::new(&input.trace);
    let rules = Rules::from(args.rules.rules);
    let events = args.rules.events(&work);
    let mut roles = Roles::new(&work, rules);
    let whole = account(&mut roles, &events, None);
    let mut how = Split::default();
    how.by_place = match (args.per_stream, args.per_device) {
        (true, _) => Some(PlaceKind::Stream),
        (_, true) => Some(PlaceKind::Device),
        _ => None,
    };
    how.window = window(args, &work)?;
    how.step_rule = match args.step_by {
        StepBy::Launch => StepRule::Launch,
        StepBy::Time => StepRule::Time,
    };
    let found: Vec<Step> = match args.per_step {
        true => steps(&work, args.step_pattern.as_deref()),
        false => Vec::new(),
    };
    let mut notes = notes(&work, rules, &events, &whole);
    if args.per_step {
        let note = match found.len() {
            0 => Note::new(
                "no_steps",
                "no annotation is known as a step: name one with --step-pattern",
            ),
            n => Note::new("steps", "annotations of the host").count(n as u64),
        };
        notes.push(note);
        how.steps = Some(found);
    }
    let trace = trace_input::short_name(&input.name).to_owned();
    let plain = !args.per_step && how.by_place.is_none() && how.window.is_none();
    let parts = match plain {
        true => Vec::new(),
        false => split(&work, &mut roles, &events, &how),
    };
    let row = |time: GpuTime| GpuRow {
        trace: trace.clone(),
        rules,
        events_total: input.trace.meta().events,
        time,
        ..GpuRow::default()
    };
    let mut rows: Vec<GpuRow> = Vec::new();
    let found = how.steps.as_deref().unwrap_or(&[]);
    for part in &parts {
        let step = part.step.and_then(|at| found.get(at));
        let no_step = args.per_step.then(|| "(no step)".to_owned());
        rows.push(GpuRow {
            step_index: part.step.map(|at| at as u64),
            step: step.map(|step| step.name.clone()).or(no_step),
            device: part.device.map(|d| d.0),
            stream: part.stream.map(|s| s.0),
            ..row(part.time)
        });
    }
    if plain {
        rows.push(row(whole));
    }
    if let (Some(_), [only]) = (how.window, parts.as_slice()) {
        let outside = (events.len() as u64).saturating_sub(only.time.gpu_events);
        notes.push(
            Note::new("outside", "lie outside of the window and do not count").count(outside),
        );
        let clipped = clipped(&events, how.window);
        notes.push(Note::new("clipped", "are cut at an end of the window").count(clipped));
    }
    let types = match args.rules.rules {
        RulesName::Hta => hta::combinations(&mut roles, &events),
        _ => Vec::new(),
    };
    Ok(Answer {
        trace,
        rows,
        whole,
        window: how.window,
        notes,
        types,
    })
}

fn clipped(events: &[gpu_time::GpuEvent], window: Option<TimeRange>) -> u64 {
    let cut = |at: i64| {
        let crosses = |e: &&gpu_time::GpuEvent| e.start_ns < at && at < e.end_ns;
        events.iter().filter(crosses).count() as u64
    };
    window.map_or(0, |w| cut(w.start.nanos()) + cut(w.end.nanos()))
}

fn window(args: &GpuArgs, work: &GpuWork<'_>) -> anyhow::Result<Option<TimeRange>> {
    if let Some(pattern) = &args.window_of {
        let found = steps(work, Some(pattern));
        let count = found.len();
        let chosen = found.into_iter().nth(args.window_index);
        return match chosen {
            Some(step) => Ok(Some(step.range)),
            None => anyhow::bail!(
                "no slice number {} is named `{pattern}`: there are {count}",
                args.window_index
            ),
        };
    }
    Ok(args.window.and_then(|spec| spec.resolve(work)))
}

fn document(args: &GpuArgs, answers: &[Answer]) -> anyhow::Result<Document> {
    let rows: Vec<GpuRow> = answers.iter().flat_map(|a| a.rows.clone()).collect();
    let notes = answers
        .iter()
        .flat_map(|a| a.notes.iter().map(|n| (a.trace.as_str(), n)));
    let mut document = Document::new(tables::SCHEMA_VERSION);
    document.tables = vec![tables::gpu(&rows)?, tables::notes(notes)?];
    if args.rules.rules == RulesName::Hta {
        let types = answers
            .iter()
            .map(|a| (a.trace.as_str(), a.types.as_slice()));
        document.tables.push(tables::hta_types(types)?);
    }
    document.csv = Some((tables::reference(&rows)?, "nan"));
    for answer in answers {
        document.heading(&answer.trace);
        for note in &answer.notes {
            document.line(note.code, shown(note));
        }
        if let Some(window) = answer.window {
            document.line("window", format!("{}..{} ns", window.start, window.end));
        }
        if args.per_step || args.per_stream || args.per_device {
            if !answer.rows.is_empty() {
                document.table("", tables::parts(&answer.rows)?);
            }
        } else {
            let time = answer.rows.first().map_or(answer.whole, |row| row.time);
            document.table("", tables::profile(&time)?);
        }
        if !answer.types.is_empty() {
            let types = [(answer.trace.as_str(), answer.types.as_slice())];
            document.table("kernel types at once", tables::hta_types(types)?);
        }
    }
    Ok(document)
}

/// A remark with its number, unless it has that in its text.
pub(crate) fn shown(note: &Note) -> String {
    match note.count {
        Some(count) if note.code != "counted" => {
            format!("{} {}", human::count(count), note.text)
        }
        _ => note.text.clone(),
    }
}
