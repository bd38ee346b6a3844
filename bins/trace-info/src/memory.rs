//! `trace-info memory`.

use std::path::PathBuf;

use clap::Args;
use cli::Outcome;
use torch_dumps::Dump;
use torch_dumps::memory;
use trace_report::memory::{Answer, Question, document};
use trace_report::snapshots;

use crate::args::ReportArgs;
use crate::document::{Destination, explain};
use crate::part::PartArgs;
use crate::{dump_files, empty};

pub(crate) const HELP: &str = "\
From PyTorch's allocation events (profile_memory=True) and counters of memory.
The first number of a window or step is what was in use when it began. A step is
the time between its ends on the host.

Memory snapshots of PyTorch (torch.cuda.memory._dump_snapshot) are read without
running their pickle: who holds the peak, by category and stack; fragmentation.
Sizes are those asked for; a stack is shown by its innermost frame of Python
outside of PyTorch.

Example:
  trace-info memory t.json.gz
  trace-info memory snapshot.pickle --format csv --output holders.csv
  trace-info memory t.json.gz --per-step
  trace-info memory t.json.gz --series 500 --json";

#[derive(Debug, Args)]
pub(crate) struct MemoryArgs {
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    /// Also the course of each line in N stretches of time
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub(crate) series: u32,
    #[command(flatten)]
    pub(crate) part: PartArgs,
}

pub(crate) fn run(args: &MemoryArgs) -> anyhow::Result<Outcome> {
    let mut question = Question::default();
    question.part = args.part.choice();
    question.series = args.series;
    if args.series > 0 && question.part.by_step() {
        return Err(cli::usage("--series does not go with steps: give --window"));
    }
    let report = &args.report;
    if let Some(dumps) = trace_input::dumps(&report.files)? {
        return snapshots(args, &dumps);
    }
    let to = Destination::open(report)?;
    let (answered, end) = empty::read_each(
        report,
        &report.traces()?,
        &question.arg_keys(),
        |options| options.counters = true,
        |input| Answer::new(&question, &input.label, &input.trace),
    )?;
    to.write(document(&question, &answered).map_err(explain)?)?;
    end.outcome(report)
}

/// Answers about memory snapshots of PyTorch.
fn snapshots(args: &MemoryArgs, dumps: &[PathBuf]) -> anyhow::Result<Outcome> {
    if !args.part.choice().is_whole() {
        return Err(cli::usage(
            "a memory snapshot has no steps and no clock of a trace: --series N shows its course",
        ));
    }
    let report = &args.report;
    cli::refuse_overwrite(dumps, &report.output.output)?;
    let to = Destination::open(report)?;
    let labels = trace_input::labels(dumps);
    let found = dump_files::read(
        dumps,
        &report.input,
        report.verbosity,
        |path, dump| match dump {
            Dump::Memory(snapshot) => Ok(Ok(snapshot)),
            Dump::Flight(_) => Ok(Err(format!(
                "{} is a Flight Recorder dump: give the dumps of all ranks to `trace-info comm`",
                path.display()
            ))),
        },
    )?;
    let snapshots = found.read.into_iter();
    let snapshots = snapshots.map(|(at, snapshot)| {
        let label = labels.get(at).cloned().unwrap_or_default();
        memory::Answer::new(label, snapshot, args.series)
    });
    let answers: Vec<memory::Answer> = snapshots.collect();
    let document = snapshots::document(&answers, args.series > 0, report.form());
    to.write(document.map_err(explain)?)?;
    found.error.map_or(Ok(Outcome::Fine), Err)
}
