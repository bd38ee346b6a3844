//! `trace-info comm`.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use cli::{OrExit as _, Outcome, Stage};
use gpu_time::comm::CommRules;
use torch_dumps::Dump;
use torch_dumps::flight::{Job, rank_in_name};
use trace_input::ClassesArgs;
use trace_report::comm::{Listing, Question, Ranks};
use trace_report::{Error, flight};

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::part::PartArgs;
use crate::{dump_files, empty};

pub(crate) const HELP: &str = "\
Give all ranks of a job, in any order; missing ranks and captures that begin or
end at different times are fine. Latency is the shortest duration over the
ranks; bandwidths are those of nccl-tests over it. Exposed is communication
while no computation runs; memcpy does not hide it. Percentiles interpolate
between the two nearest values. Clocks are aligned by the ends of collectives
that wait for all ranks. Of a window or of steps, the collectives that start or
were launched in them, in the time of each rank.

Flight Recorder dumps of PyTorch (TORCH_NCCL_TRACE_BUFFER_SIZE), pickle or JSON,
one for each rank: which rank did not arrive at which collective, and the first
call of each group that differs between ranks. A folder is one job.

Example:
  trace-info comm rank*.json.gz
  trace-info comm /tmp/nccl_trace_rank_*
  trace-info comm run/ --table collectives --format csv --output collectives.csv";

#[derive(Debug, Args)]
pub(crate) struct CommArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Only this table; CSV and Parquet have the kernels unless given
    #[arg(long, value_enum, value_name = "TABLE")]
    pub(crate) table: Option<TableName>,
    /// Which kernels are collectives and how they are joined
    #[arg(long, value_enum, value_name = "RULES", default_value_t)]
    pub(crate) rules: RulesName,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
    #[command(flatten)]
    pub(crate) part: PartArgs,
    /// Rows of the lists of types and late arrivals, in text
    #[arg(long, value_name = "N", default_value_t = 12)]
    pub(crate) top: usize,
}

/// Tables, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// One row for each collective kernel of each rank
    Kernels,
    /// One row for each collective: latency, bandwidth, skew, who came last
    Collectives,
    /// One row for each rank: clock, wait time, delay caused to other ranks
    Ranks,
    /// One row for each process group
    Groups,
    /// By operation, group, dtype and size
    Types,
    /// Late arrivals with what the rank did before
    Late,
    /// Collectives that hosts carried out themselves (Gloo, MPI), by rank
    Host,
}

/// Rules, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum RulesName {
    /// All communication, expert-parallel and custom too; joined by number, else by rhythm
    #[default]
    Extended,
    /// As TraceLens' NcclAnalyser: joined by place in the group, clocks as they are
    Tracelens,
}

impl From<TableName> for Listing {
    fn from(name: TableName) -> Self {
        match name {
            TableName::Kernels => Self::Kernels,
            TableName::Collectives => Self::Collectives,
            TableName::Ranks => Self::Ranks,
            TableName::Groups => Self::Groups,
            TableName::Types => Self::Types,
            TableName::Late => Self::Late,
            TableName::Host => Self::Host,
        }
    }
}

pub(crate) fn run(args: &CommArgs) -> anyhow::Result<Outcome> {
    if args.part.per_step {
        return Err(cli::usage(
            "comm joins the collectives of all ranks: choose steps with --step, not --per-step",
        ));
    }
    let report = &args.report;
    if let Some(dumps) = trace_input::dumps(&report.files)? {
        return flight(args, &dumps);
    }
    let to = Destination::open(report)?;
    let mut question = Question::new(report.form());
    question.part = args.part.choice();
    question.rules = match args.rules {
        RulesName::Extended => CommRules::Extended,
        RulesName::Tracelens => CommRules::TraceLens,
    };
    question.vocabulary = args.classes.vocabulary();
    question.table = args.table.map(Listing::from);
    question.top = args.top;
    let paths = trace_input::expand_ranks(&report.files, report.verbosity)?;
    let (answered, end) = empty::read_each(
        report,
        &paths,
        &question.arg_keys(),
        |_| {},
        |input| question.digest(&input.name, &input.label, &input.trace),
    )?;
    let ranks = Ranks::new(answered).map_err(explain)?;
    for note in ranks.notes() {
        report.verbosity.note(format!("warning: {}", note.text));
    }
    let stage = ranks
        .joins(&question)
        .then(|| Stage::start("join", report.verbosity));
    let document = ranks
        .document(&question)
        .map_err(|error| no_table(error, "--rules tracelens has"))?;
    drop(stage);
    to.write(document)?;
    end.outcome(report)
}

/// Words the error of a table that there is not.
fn no_table(error: Error, who: &str) -> anyhow::Error {
    match error {
        Error::NoTable { available } => cli::usage(format!("{who} the tables {available}")),
        error => explain(error),
    }
}

/// Answers about dumps of the Flight Recorder.
fn flight(args: &CommArgs, dumps: &[PathBuf]) -> anyhow::Result<Outcome> {
    if !args.part.choice().is_whole() {
        return Err(cli::usage(
            "Flight Recorder dumps have no steps and no clock of a trace: give no --step and no --window",
        ));
    }
    let report = &args.report;
    cli::refuse_overwrite(dumps, &report.output.output)?;
    let to = Destination::open(report)?;
    let found = dump_files::read(
        dumps,
        &report.input,
        report.verbosity,
        |path, dump| match dump {
            Dump::Flight(dump) => {
                dump.known_rank().or_exit(Outcome::CannotAnswer)?;
                Ok(Ok(dump))
            }
            Dump::Memory(_) => Ok(Err(format!(
                "{} is a memory snapshot: give it to `trace-info memory`",
                path.display()
            ))),
        },
    )?;
    let failed = found.failed.iter().filter_map(|at| dumps.get(*at));
    let unreadable = failed.filter_map(|path| rank_in_name(&path.to_string_lossy()));
    let ranks = found.read.into_iter().map(|(_, dump)| dump).collect();
    let job = Job::beside(ranks, unreadable.collect()).or_exit(Outcome::CannotAnswer)?;
    let table = args.table.map(Listing::from);
    let document = flight::document(&job, table, report.form());
    to.write(document.map_err(|error| no_table(error, "Flight Recorder dumps have"))?)?;
    found.error.map_or(Ok(Outcome::Fine), Err)
}
