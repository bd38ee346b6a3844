//! `trace-info gpu`.

use clap::{Args, ValueEnum};
use gpu_time::compat::{hta, tracelens};
use gpu_time::tables::{self, GpuRow};
use gpu_time::{GpuTime, GpuWork, NoGpuWork, Note, PlaceKind, Roles, Rules, account, notes, split};
use shell::Outcome;
use trace_input::NamedTrace;
use trace_model::TimeRange;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty::{self, Answers};
use crate::part::{self, PartArgs};

pub(crate) const HELP: &str = "\
Times are exact unions of half-open intervals over all streams and devices:
  computation + exposed communication + exposed copies + idle = span
Of CSV, times are microseconds with three decimals; of all else, nanoseconds.
A window, and a step with --step-by time, cuts work at its ends, and its length
is the span.

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
    #[command(flatten)]
    pub(crate) part: PartArgs,
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
    /// Collective libraries, expert-parallel dispatch and combine, custom and fused collectives
    #[default]
    Extended,
    /// Communication is kernels named nccl or rccl
    Exact,
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

/// What is said of one trace.
struct Answer {
    trace: String,
    rows: Vec<GpuRow>,
    whole: GpuTime,
    notes: Vec<Note>,
    types: Vec<hta::Combination>,
}

pub(crate) fn run(args: &GpuArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    let report = &args.report;
    let to = Destination::open(report)?;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| args.part.keep_args(options),
        |input| answer(args, input),
    )?;
    document(args, &each)?.write(to)?;
    each.end(report)
}

fn answer(args: &GpuArgs, input: &NamedTrace) -> anyhow::Result<(Answer, Option<NoGpuWork>)> {
    let work = GpuWork::new(&input.trace);
    let rules = Rules::from(args.rules.rules);
    let events = args.rules.events(&work);
    let mut roles = Roles::new(&work, rules);
    let whole = account(&mut roles, &events, None);
    let (mut how, more) = args.part.resolve(input, &work)?;
    how.by_place = match (args.per_stream, args.per_device) {
        (true, _) => Some(PlaceKind::Stream),
        (_, true) => Some(PlaceKind::Device),
        _ => None,
    };
    let mut notes = notes(&work, rules, &events, &whole);
    notes.extend(more);
    let trace = trace_input::short_name(&input.name).to_owned();
    let plain = args.part.is_whole() && how.by_place.is_none();
    let parts = match plain {
        true => Vec::new(),
        false => split(&work, &mut roles, &events, &how),
    };
    let row = |step: Option<usize>, time: GpuTime| GpuRow {
        of: part::of(&trace, &how, step),
        rules,
        events_total: input.trace.meta().events,
        time,
        ..GpuRow::default()
    };
    let mut rows: Vec<GpuRow> = Vec::new();
    for part in &parts {
        rows.push(GpuRow {
            device: part.device.map(|d| d.0),
            stream: part.stream.map(|s| s.0),
            ..row(part.step, part.time)
        });
    }
    if plain {
        rows.push(row(None, whole));
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
    let answer = Answer {
        trace,
        rows,
        whole,
        notes,
        types,
    };
    Ok((answer, part::no_gpu_work(&work, &how)))
}

fn clipped(events: &[gpu_time::GpuEvent], window: Option<TimeRange>) -> u64 {
    let cut = |at: i64| {
        let crosses = |e: &&gpu_time::GpuEvent| e.start_ns < at && at < e.end_ns;
        events.iter().filter(crosses).count() as u64
    };
    window.map_or(0, |w| cut(w.start.nanos()) + cut(w.end.nanos()))
}

fn document(args: &GpuArgs, each: &Answers<Answer>) -> anyhow::Result<Document> {
    let answers = &each.results;
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
    for (answer, why) in each.with_reasons() {
        document.heading(&answer.trace);
        if empty::instead_of_tables(&mut document, why) {
            continue;
        }
        document.notes(&answer.notes);
        if args.part.per_step || args.per_stream || args.per_device {
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
