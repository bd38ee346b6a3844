//! `trace-info diff`.

use std::path::Path;

use clap::{Args, ValueEnum};
use cli::{OrExit as _, Outcome, Stage};
use perfetto_reader::ArgPolicy;
use trace_input::{ClassesArgs, NamedTrace};
use trace_report::Error;
use trace_report::diff::{Listing, MatchRules, Question, document, no_gpu_work};

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::empty::EmptyTraces;
use crate::part::PartArgs;

/// What to do if steps cannot be compared.
const REMEDY: &str = "name what marks a step with --per-step --step-pattern, or choose equal stretches with --window";

pub(crate) const HELP: &str = "\
A is the first trace, B the second. Where both have steps of the same kind
(annotations of one phase, such as decode, or whose names differ in numbers
only), these are compared: times are per step, and what lies outside of all steps does not count. Otherwise all of
both recordings is compared. A step lasts as in critical-path, from the end
of the work of the step before to the end of its own; with --window from its first kernel to that
of the next step, and the last step then does not enter the times. Kernels are compared where both traces have the same
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
    /// Functions and operators of the threads that launch, with their own time per step
    Host,
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

impl From<TableName> for Listing {
    fn from(name: TableName) -> Self {
        match name {
            TableName::Kernels => Self::Kernels,
            TableName::Operators => Self::Operators,
            TableName::Totals => Self::Totals,
            TableName::Time => Self::Time,
            TableName::Steps => Self::Steps,
            TableName::Host => Self::Host,
        }
    }
}

impl DiffArgs {
    fn question(&self) -> Question {
        let mut question = Question::default();
        question.part = self.part.choice();
        question.whole = self.whole;
        question.rules = match self.rules {
            RulesName::Structure => MatchRules::Structure,
            RulesName::Hta => MatchRules::Hta,
            RulesName::Tracelens => MatchRules::TraceLens,
        };
        question.vocabulary = self.classes.vocabulary();
        question.table = self.table.map(Listing::from);
        question.top = self.top;
        question.remedy = REMEDY.into();
        question.form = self.report.form();
        question
    }
}

pub(crate) fn run(args: &DiffArgs) -> anyhow::Result<Outcome> {
    let report = &args.report;
    let [first, second] = report.files.as_slice() else {
        return Err(cli::usage("diff needs exactly two traces"));
    };
    cli::refuse_overwrite(&report.files, &report.output.output)?;
    let to = Destination::open(report)?;
    let question = args.question();
    let read = |path: &Path| -> anyhow::Result<NamedTrace> {
        trace_input::read(path, &report.input, report.verbosity, |options| {
            options.args = ArgPolicy::Only(question.arg_keys());
            if args.rules != RulesName::Structure {
                // The other rules use times as recorded.
                options.snap_ns = 0;
            }
        })
    };
    let inputs = [read(first)?, read(second)?];
    let _stage = Stage::start("compare", report.verbosity);
    let names = [inputs[0].name.as_str(), inputs[1].name.as_str()];
    let traces = [&inputs[0].trace, &inputs[1].trace];
    let document = match document(&question, names, traces) {
        Err(error @ Error::NothingToCompare { .. }) if report.empty.fail_on_empty => {
            return Err(error).or_exit(Outcome::ConditionFailed);
        }
        found => found.map_err(explain)?,
    };
    to.write(document)?;
    let mut empty = EmptyTraces::default();
    for (name, trace) in names.into_iter().zip(traces) {
        empty.add(name, no_gpu_work(trace));
    }
    Ok(empty.end(report.empty, report.verbosity))
}
