//! `trace-info ops`.

use clap::{Args, ValueEnum};
use cli::Outcome;
use roofline::OpSort;
use trace_report::ops::{Answer, Question, document};

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::empty;
use crate::part::PartArgs;

pub(crate) const HELP: &str = "\
The operators of the host, as key_averages of PyTorch has them: time without and
with the operators within, GPU time of what they launched, bytes allocated less
released (profile_memory=True), FLOPs of those whose sizes are recorded and that
have a model. A trace without GPU activity has these, too.

Example:
  trace-info ops t.json.gz
  trace-info ops t.json.gz --by shape --sort gpu --top 30
  trace-info ops t.json.gz --format csv --output ops.csv";

#[derive(Debug, Args)]
pub(crate) struct OpsArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Key of the rows
    #[arg(long, value_enum, value_name = "WHAT", default_value_t)]
    pub(crate) by: ByName,
    /// The order, most first
    #[arg(long, value_enum, value_name = "ORDER", default_value_t)]
    pub(crate) sort: SortName,
    /// Rows shown of each trace [default: 20 in text, all otherwise]
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

/// Rows, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ByName {
    /// Operator
    #[default]
    Op,
    /// Operator and shapes of its inputs
    Shape,
}

/// Orders, as arguments.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SortName {
    /// Time on the host without operators within
    #[default]
    Itself,
    /// Time on the host
    Total,
    /// Time of GPU activity
    Gpu,
    /// Number
    Calls,
    /// FLOPs
    Flops,
}

impl From<SortName> for OpSort {
    fn from(name: SortName) -> Self {
        match name {
            SortName::Itself => Self::SelfTime,
            SortName::Total => Self::Total,
            SortName::Gpu => Self::Gpu,
            SortName::Calls => Self::Calls,
            SortName::Flops => Self::Flops,
        }
    }
}

pub(crate) fn run(args: &OpsArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let mut question = Question::default();
    question.part = args.part.choice();
    question.by_shape = args.by == ByName::Shape;
    question.sort = args.sort.into();
    question.top = args.top;
    question.form = report.form();
    if question.part.by_step() {
        return Err(cli::usage(
            "ops takes windows, not steps: --window-of NAME has the operators within a slice",
        ));
    }
    let to = Destination::open(report)?;
    let (answered, end) = empty::read_each(
        report,
        &report.traces()?,
        &question.arg_keys(),
        |_| {},
        |input| Answer::new(&question, &input.label, &input.trace),
    )?;
    to.write(document(&question, &answered).map_err(explain)?)?;
    end.outcome(report)
}
