//! `trace-info launch`.

use clap::Args;
use gpu_time::tables::{self, Of};
use gpu_time::{GpuWork, Launches, Note, launch_parts};
use report::human;
use shell::Outcome;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty;
use crate::kernels::precise;
use crate::part::{self, PartArgs};

pub(crate) const HELP: &str = "\
For each kernel, copy and fill, from the start of its call to its own start:
  latency  all of it = in call + queued + dispatch
  in call  while the call ran
  queued   after the call, while earlier work of the stream ran
  dispatch the rest
  call     how long the call took
Queues hold what was called and has not started. CSV and Parquet are the
latencies; JSON has the queues too.
Of a window, and of a step with --step-by time, are the launches whose work
starts in it, and queues while it lasts. A step by launch has those that were
called in it, and queues of nothing else.

Example:
  trace-info launch t.json.gz
  trace-info launch t.json.gz --series 200 --json";

#[derive(Debug, Args)]
pub(crate) struct LaunchArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Also the depth of each queue in N stretches of time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) series: u32,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

struct Answer {
    trace: String,
    parts: Vec<(Of, Launches)>,
    notes: Vec<Note>,
}

impl Answer {
    fn rows(&self) -> impl Iterator<Item = (Of, &Launches)> {
        self.parts
            .iter()
            .map(|(of, launches)| (of.clone(), launches))
    }
}

pub(crate) fn run(args: &LaunchArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let to = Destination::open(report)?;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| args.part.keep_args(options),
        |input| {
            let work = GpuWork::new(&input.trace);
            let trace = trace_input::short_name(&input.name).to_owned();
            let (how, notes) = args.part.resolve(input, &work)?;
            let parts = launch_parts(&work, &how, args.series).into_iter();
            let answer = Answer {
                parts: parts
                    .map(|part| (part::of(&trace, &how, part.step), part.launches))
                    .collect(),
                trace,
                notes,
            };
            Ok((answer, part::no_gpu_work(&work, &how)))
        },
    )?;
    let answers = &each.results;
    let all: Vec<(Of, &Launches)> = answers.iter().flat_map(Answer::rows).collect();
    let notes = answers
        .iter()
        .flat_map(|a| a.notes.iter().map(|n| (a.trace.as_str(), n)));
    let mut document = Document::new(tables::SCHEMA_VERSION);
    document.tables = vec![tables::launches(&all)?, tables::depth(&all)?];
    if args.series > 0 {
        document.tables.push(tables::depth_series(&all, false)?);
    }
    document.tables.push(tables::notes(notes)?);
    for (answer, why) in each.with_reasons() {
        document.heading(&answer.trace);
        if empty::instead_of_tables(&mut document, why) {
            continue;
        }
        document.notes(&answer.notes);
        people(args, answer, &mut document)?;
    }
    document.write(to)?;
    each.end(report)
}

fn people(args: &LaunchArgs, answer: &Answer, document: &mut Document) -> anyhow::Result<()> {
    let rows: Vec<(Of, &Launches)> = answer.rows().collect();
    let sum = |f: fn(&Launches) -> u64| rows.iter().map(|row| f(row.1)).sum::<u64>();
    document.line("linked", human::count(sum(|l| l.linked)));
    let unlinked = sum(|l| l.unlinked);
    if unlinked > 0 {
        let ns = rows.iter().map(|row| row.1.unlinked_ns).sum();
        let time = human::duration(precise(ns));
        let count = human::count(unlinked);
        document.line("unlinked", format!("{count}, {time} of work"));
    }
    let negative = sum(|l| l.rows.first().map_or(0, |row| row.times.negative));
    if negative > 0 {
        let text = "start before their call does: clocks disagree";
        document.line("skewed", format!("{} {text}", human::count(negative)));
    }
    if args.part.per_step {
        if !rows.is_empty() {
            document.table("", tables::launch_steps(&rows)?);
        }
        return Ok(());
    }
    for (_, result) in &rows {
        document.table("", tables::launches_narrow(result)?);
    }
    document.table("queues", tables::depth(&rows)?);
    if args.series > 0 {
        document.table("queues over time", tables::depth_series(&rows, true)?);
    }
    Ok(())
}
