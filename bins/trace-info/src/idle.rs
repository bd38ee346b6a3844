//! `trace-info idle`.

use clap::Args;
use cli::Outcome;
use trace_report::Outlined;
use trace_report::idle::{Answer, Question, document};

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::empty;
use crate::part::{PartArgs, outlining};
use crate::rules::RulesArgs;

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

pub(crate) fn run(args: &IdleArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    if args.rules.linked_only {
        return Err(cli::usage(
            "--linked-only is not for idle: see cause `other`",
        ));
    }
    let mut question = Question::default();
    question.part = args.part.choice();
    question.rules = args.rules.choice();
    question.longest = args.longest;
    let is_hta = question.rules.is_hta();
    if is_hta && !question.part.is_whole() {
        return Err(cli::usage(
            "--rules hta has neither windows nor steps of this kind",
        ));
    }
    let report = &args.report;
    let to = Destination::open(report)?;
    let (answered, end) = empty::read_each(
        report,
        &report.traces()?,
        &question.part.arg_keys(),
        |options| {
            if !is_hta {
                options.outline = outlining(&question.part, Outlined::but_waiting());
            }
        },
        |input| Answer::new(&question, &input.label, &input.trace),
    )?;
    to.write(document(&question, &answered).map_err(explain)?)?;
    end.outcome(report)
}
