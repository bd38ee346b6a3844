//! `trace-info gpu`.

use clap::Args;
use cli::Outcome;
use gpu_time::comm::HOST_MARKS;
use gpu_time::{PassingTime, PlaceKind};
use perfetto_reader::HostSlices;
use trace_report::gpu::{Answer, Question, document};

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::empty;
use crate::part::{PartArgs, outlining};
use crate::rules::RulesArgs;

pub(crate) const HELP: &str = "\
Times are exact unions of half-open intervals over all streams and devices:
  computation + exposed communication + exposed memcpy + idle = span
Exposed communication is time in which communication runs and no computation;
memcpy does not hide it. Times are nanoseconds (_ns); CSV with the rules of
others has their columns in microseconds (_us), what is not known as nan.
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
    /// For several traces: notes and times of each instead of one table
    #[arg(long)]
    pub(crate) details: bool,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

impl GpuArgs {
    /// Returns the question about these traces.
    fn question(&self, traces: &[std::path::PathBuf]) -> Question {
        let mut question = Question::default();
        question.part = self.part.choice();
        question.rules = self.rules.choice();
        question.by_place = match (self.per_stream, self.per_device) {
            (true, _) => Some(PlaceKind::Stream),
            (_, true) => Some(PlaceKind::Device),
            _ => None,
        };
        question.details = self.details;
        question.remedy = "`trace-info idle --window A..B` says why the GPU idles".into();
        question.threads = self.report.input.threads();
        // Which of host and device waits for the other is said of each trace in words, and needs all calls of the host: of a
        // large recording they are too many to be kept, and the text says so.
        let is_text = cli::in_process::is_active() || self.report.form().is_text();
        question.headline = is_text && !question.is_one_table(traces.len());
        let is_large = traces.iter().any(|path| trace_input::is_large(path));
        question.reads_host = question.headline && !(is_large && question.may_be_lean());
        question
    }
}

pub(crate) fn run(args: &GpuArgs) -> anyhow::Result<Outcome> {
    args.rules.check()?;
    let report = &args.report;
    let to = Destination::open(report)?;
    let traces = report.traces()?;
    let question = args.question(&traces);
    let deciding = |name: &str| question.rules.vocabulary.may_communicate(name);
    let (answered, end) = empty::read_each_passing(
        report,
        &traces,
        &question.arg_keys(),
        |options| {
            if question.needs_launches_only() {
                options.host = HostSlices::Launching(HOST_MARKS.to_vec());
            }
            if let Some(outlined) = question.outlined() {
                options.outline = outlining(&question.part, outlined);
            }
        },
        (|| question.passing(), PassingTime::add, Some(&deciding)),
        |input, passed| match passed {
            Some(passed) => {
                let (label, trace) = (&input.label, &input.trace);
                Ok(Answer::passed(&question, label, trace, passed))
            }
            None => Answer::new(&question, &input.label, &input.trace),
        },
    )?;
    let mut document = document(&question, &answered).map_err(explain)?;
    if question.is_one_table(answered.len()) {
        document.line("more", "notes and times of each trace with --details");
    }
    to.write(document)?;
    end.outcome(report)
}
