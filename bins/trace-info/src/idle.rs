//! `trace-info idle`.

use clap::Args;
use cli::Outcome;
use gpu_time::compat::hta::{self, StreamIdle};
use gpu_time::tables::{self, RowKey};
use gpu_time::{Idle, Note, Recorder, idle_parts};
use report::human;

use crate::args::ReportArgs;
use crate::document::{Destination, Document};
use crate::empty;
use crate::gpu::{RulesArgs, RulesName};
use crate::outlined;
use crate::part::{self, PartArgs};

pub(crate) const HELP: &str = "\
Every nanosecond of a gap has one cause, judged by the work that ends the gap
and the call that launched it:
  host wait        CPU-bound: the launch call was not made yet
  input wait       nor could it be: its thread was waiting for requests, data, a
                   lock or another thread (queue, socket, sleep)
  synchronisation  nor could it be: its thread was waiting for the device
  launch call      in the launch API call; long ones load modules or compile
  launch latency   the call returned after the device ran dry, or so shortly
                   before that the usual latency of a launch had not passed;
                   begun at most 50 us later
  kernel wait      ready before that, begun at most 50 us later (text: latency)
  blocked          submitted, begun later than that: the stream was blocked by an
                   event wait or by work that is not recorded
  other            the call is not in the trace (text: unknown)
What bounds the GPU is the cause of more than half of its idle time, if it idles
for a fifth of the time or more.
Rows are of the trace (no device ran), of each device, and of each stream.
A window, and a step with --step-by time, cuts gaps at its ends; time before
the first work and after the last is idle too, and streams without work in it
are left out. A step by launch is the work launched in it: its gaps lie between
its first and its last. So idle time is that of `trace-info gpu` for each part.

Example:
  trace-info idle t.json.gz --longest 20
  trace-info idle t.json.gz --per-step --step-by time --format csv";

#[derive(Debug, Args)]
pub(crate) struct IdleArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// How many of the longest gaps to list
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) longest: usize,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    #[command(flatten)]
    pub(crate) rules: RulesArgs,
}

struct Answer {
    trace: String,
    parts: Vec<(RowKey, Idle)>,
    notes: Vec<Note>,
    hta: Vec<StreamIdle>,
    recorder: Recorder,
}

pub(crate) fn run(args: &IdleArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    if args.rules.linked_only {
        return Err(cli::usage(
            "--linked-only is not for idle: see cause `other`",
        ));
    }
    let is_hta = args.rules.rules == RulesName::Hta;
    if is_hta && !args.part.is_whole() {
        return Err(cli::usage(
            "--rules hta has neither windows nor steps of this kind",
        ));
    }
    let report = &args.report;
    let to = Destination::open(report)?;
    let each = empty::read_each(
        report,
        &report.traces()?,
        |options| {
            args.part.keep_args(options);
            if !is_hta {
                options.outline = args.part.outline(outlined::but_waiting());
            }
        },
        |input| {
            let work = args.rules.work(&input.trace);
            let trace = input.label.clone();
            let rounding = args.rules.hta_rounding;
            if is_hta {
                let events = hta::events(&work, rounding);
                let answer = Answer {
                    trace,
                    parts: Vec::new(),
                    notes: Vec::new(),
                    hta: hta::idle(&work, &events, rounding),
                    recorder: Recorder::of(&input.trace),
                };
                return Ok((answer, gpu_time::no_gpu_work(work.index())));
            }
            let (how, notes) = args.part.resolve(input, &work)?;
            let parts = idle_parts(&work, &how, args.longest).into_iter();
            let answer = Answer {
                parts: parts
                    .filter(|part| args.part.wants(part.step))
                    .map(|part| (part::of(&trace, &how, part.step), part.idle))
                    .collect(),
                trace,
                notes,
                hta: Vec::new(),
                recorder: Recorder::of(&input.trace),
            };
            Ok((answer, part::no_gpu_time(&work, &how)))
        },
    )?;
    let answers = &each.results;
    let mut document = Document::new(tables::SCHEMA_VERSION);
    if is_hta {
        let by_hta = || answers.iter().map(|a| (a.trace.as_str(), a.hta.as_slice()));
        document.tables = vec![tables::hta_idle(by_hta())?];
        document.table("", tables::hta_idle(by_hta())?);
    } else {
        let all: Vec<(RowKey, &Idle)> = answers.iter().flat_map(Answer::rows).collect();
        let notes = answers
            .iter()
            .flat_map(|a| a.notes.iter().map(|n| (a.trace.as_str(), n)));
        document.tables = vec![
            tables::idle(&all)?,
            tables::gaps(&all, false)?,
            tables::notes(notes)?,
        ];
        for (answer, why) in each.with_reasons() {
            document.heading(&answer.trace);
            if empty::instead_of_tables(&mut document, why) {
                continue;
            }
            let parts: Vec<&Idle> = answer.parts.iter().map(|part| &part.1).collect();
            document.sentence(gpu_time::answer::idle(&parts));
            people(args, answer, &mut document)?;
        }
    }
    document.write(to)?;
    each.end(report)
}

impl Answer {
    fn rows(&self) -> impl Iterator<Item = (RowKey, &Idle)> {
        self.parts.iter().map(|(of, idle)| (of.clone(), idle))
    }
}

fn people(args: &IdleArgs, answer: &Answer, document: &mut Document) -> anyhow::Result<()> {
    let rows: Vec<(RowKey, &Idle)> = answer.rows().collect();
    document.notes(&answer.notes);
    let skewed: u64 = rows.iter().map(|row| row.1.skewed).sum();
    if skewed > 0 {
        let text = "gaps end with work that starts before its call does: clocks disagree";
        document.line("skewed", format!("{} {text}", human::count(skewed)));
    }
    let idles: Vec<&Idle> = rows.iter().map(|row| row.1).collect();
    if let Some(host) = gpu_time::answer::host_in_gaps(&idles, answer.recorder) {
        document.line("host", host);
    }
    if args.part.by_step() {
        if !rows.is_empty() {
            document.table("", tables::idle_steps(&rows)?);
        }
        return Ok(());
    }
    for (_, idle) in &rows {
        if idle.rows.iter().any(|row| row.time.idle_ns > 0) {
            document.table("", tables::idle_narrow(idle)?);
        }
    }
    if rows.iter().any(|row| !row.1.gaps.is_empty()) {
        document.table("longest gaps", tables::gaps(&rows, true)?);
    }
    Ok(())
}
