//! `trace-info launch`.

use clap::Args;
use cli::Outcome;
use gpu_time::tables::{self, RowKey};
use gpu_time::{
    GpuWork, IdleVerdict, LaunchKind, Launches, Note, Recorder, idle_parts, launch_parts,
};
use report::human;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty;
use crate::kernels::precise;
use crate::part::{self, PartArgs};

pub(crate) const HELP: &str = "\
For each kernel, memcpy and memset, from the start of its launch API call to its
own start:
  latency              all of it
  launch API time      of it, while the call ran
  queue delay          after the call, while earlier work of the stream ran
  start latency        the rest, if the stream was idle when the call returned,
                       or ran dry before the usual latency had passed
  gap after queued work  the rest, if the work was ready before that
What bounds the GPU is decided as in `trace-info idle`: it is launch-bound if it
idles for a fifth of the time or more and most of that is in launch calls and
their latency. A queue holds work from its launch call to its start. CSV and Parquet hold the
latencies, JSON the queues too.
A window, or a step with --step-by time, counts launches whose work starts in it
and samples queue depth over its time. A step by launch counts launches that
were called in it, and its queue depth is limited to these.

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
    idle: IdleVerdict,
    recorder: Recorder,
    parts: Vec<(RowKey, Launches)>,
    notes: Vec<Note>,
}

impl Answer {
    fn rows(&self) -> impl Iterator<Item = (RowKey, &Launches)> {
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
            let trace = input.label.clone();
            let (how, notes) = args.part.resolve(input, &work)?;
            let parts = launch_parts(&work, &how, args.series).into_iter();
            let idle = idle_parts(&work, &how, 0);
            let idle = idle.iter().filter(|part| args.part.wants(part.step));
            let idle = IdleVerdict::of(idle.map(|part| &part.idle));
            let answer = Answer {
                parts: parts
                    .filter(|part| args.part.wants(part.step))
                    .map(|part| (part::of(&trace, &how, part.step), part.launches))
                    .collect(),
                trace,
                idle,
                recorder: Recorder::of(&input.trace),
                notes,
            };
            Ok((answer, part::no_gpu_work(&work, &how)))
        },
    )?;
    let answers = &each.results;
    let all: Vec<(RowKey, &Launches)> = answers.iter().flat_map(Answer::rows).collect();
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
        let parts: Vec<&Launches> = answer.parts.iter().map(|part| &part.1).collect();
        document.sentence(gpu_time::answer::launch(
            &parts,
            &answer.idle,
            answer.recorder,
        ));
        document.notes(&answer.notes);
        people(args, answer, &mut document)?;
    }
    document.write(to)?;
    each.end(report)
}

fn people(args: &LaunchArgs, answer: &Answer, document: &mut Document) -> anyhow::Result<()> {
    let rows: Vec<(RowKey, &Launches)> = answer.rows().collect();
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
    let unmeasured = rows.iter().any(|(_, l)| {
        let mut rows = l.rows.iter();
        let all = rows.find(|row| row.stream.is_none() && row.kind == LaunchKind::All);
        all.is_some_and(|row| row.times.queue_gap.count > 0 && row.times.queue_gap.median_ns <= 1.0)
    });
    if unmeasured {
        let text = "1 ns or less between queued work: this recorder lets work begin where the work \
                    before it ends, so launch gaps are not measured";
        document.line("resolution", text);
    }
    // The sentence says why there are no latencies.
    if sum(|l| l.calls) == 0 {
        return Ok(());
    }
    if args.part.by_step() {
        if !rows.is_empty() {
            document.table("", tables::launch_steps(&rows)?);
        }
        return Ok(());
    }
    for (_, result) in &rows {
        document.table("", tables::launches_narrow(result)?);
    }
    if rows.iter().any(|row| !row.1.depth.is_empty()) {
        document.table("queues", tables::depth(&rows)?);
    }
    if args.series > 0 {
        document.table("queues over time", tables::depth_series(&rows, true)?);
    }
    Ok(())
}
