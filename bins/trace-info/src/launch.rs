//! `trace-info launch`.

use clap::Args;
use cli::Outcome;
use trace_report::launch::{Answer, Question, document};

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::empty;
use crate::part::PartArgs;

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

pub(crate) fn run(args: &LaunchArgs) -> anyhow::Result<Outcome> {
    let mut question = Question::default();
    question.part = args.part.choice();
    question.series = args.series;
    let report = &args.report;
    let to = Destination::open(report)?;
    let (answered, end) = empty::read_each(
        report,
        &report.traces()?,
        &question.part.arg_keys(),
        |_| {},
        |input| Answer::new(&question, &input.label, &input.trace),
    )?;
    to.write(document(&question, &answered).map_err(explain)?)?;
    end.outcome(report)
}
