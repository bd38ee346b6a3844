//! The command line.

use std::path::PathBuf;

use crate::empty::EmptyArgs;
use crate::{
    comm, critical_path, diff, gpu, idle, kernels, launch, memory, ops, rewrite, roofline,
};
use clap::{Args, CommandFactory as _, Parser, Subcommand, ValueEnum};
use cli::{FormatArgs, HasJson, InputArgs, OutputArgs, VerbosityArgs};
use trace_report::Form;

const AFTER_HELP: &str = "\
Recording an input:
  PyTorch    with torch.profiler.profile() as p: step()
             p.export_chrome_trace(\"t.json.gz\")
  vLLM       set --profiler-config, then POST /start_profile and /stop_profile
  SGLang     python3 -m sglang.profiler, or POST /start_profile
  ROCm       rocprofv3 --sys-trace --output-format pftrace -- python3 serve.py
  Perfetto   tracebox -c config.pbtx --txt -o t.pftrace

Example:
  trace-info t.json.gz
  trace-info tables t.json.gz --table slice --output slices.csv

Exit codes: 0 done; 1 trace not complete (--check), no GPU activity
(--fail-on-empty); 2 wrong usage; 3 unreadable trace; 4 the traces do not hold
what is asked for; 5 output not written.";

/// What is in a trace, what is missing in it, and where GPU time goes
///
/// Reads Chrome/Kineto JSON, Perfetto protobuf and rocPD databases, plain or compressed; '-' is standard input.
/// Folders stand for the traces in them; a package of databases is one trace with all their processes. Without a
/// subcommand the files are summarised.
#[derive(Debug, Parser)]
#[command(
    name = "trace-info",
    version,
    after_help = AFTER_HELP,
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true,
    infer_long_args = true,
    max_term_width = 80
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
    #[command(flatten)]
    pub(crate) summary: SummaryArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Say what is in each trace and what is wrong with it
    #[command(after_help = SUMMARY_HELP)]
    Summary(SummaryArgs),
    /// Print a table of the trace: slices, flows, counters and more
    #[command(after_help = TABLES_HELP)]
    Tables(TablesArgs),
    /// Write the trace in another format
    #[command(after_help = CONVERT_HELP)]
    Convert(ConvertArgs),
    /// Write a smaller copy: a window, some ranks, fewer arguments and stacks
    #[command(after_help = rewrite::SLIM_HELP)]
    Slim(rewrite::SlimArgs),
    /// Write the traces of all ranks as one, on one clock
    #[command(after_help = rewrite::MERGE_HELP)]
    Merge(rewrite::MergeArgs),
    /// Write a copy that viewers show whole: overlaps in lanes, open slices closed
    #[command(after_help = rewrite::REPAIR_HELP)]
    Repair(rewrite::RepairArgs),
    /// Report where GPU time goes: busy, idle, exposed communication
    #[command(after_help = gpu::HELP)]
    Gpu(gpu::GpuArgs),
    /// Report durations of kernels by name, class, operator, module, shape or stream
    #[command(after_help = kernels::HELP)]
    Kernels(kernels::KernelsArgs),
    /// Attribute GPU idle time to its cause
    #[command(after_help = idle::HELP)]
    Idle(idle::IdleArgs),
    /// Report launch latency, launch gaps and queue depth
    #[command(after_help = launch::HELP)]
    Launch(launch::LaunchArgs),
    /// Report allocated and reserved memory
    #[command(after_help = memory::HELP)]
    Memory(memory::MemoryArgs),
    /// Report collectives of all ranks: bandwidth, exposure, clocks, waits, stragglers
    #[command(after_help = comm::HELP)]
    Comm(comm::CommArgs),
    /// Compare two traces of one model, step with step and kernel with kernel
    #[command(after_help = diff::HELP)]
    Diff(diff::DiffArgs),
    /// Report step times, the critical path of each step, and what a change would gain
    #[command(after_help = critical_path::HELP)]
    CriticalPath(critical_path::CriticalPathArgs),
    /// Report how far each operator and each step is from the limit of its device
    #[command(after_help = roofline::HELP)]
    Roofline(roofline::RooflineArgs),
    /// Report operators of the host: time, calls, memory, FLOPs; copies by direction
    #[command(after_help = ops::HELP)]
    Ops(ops::OpsArgs),
}

/// Output formats of the analyses.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ReportFormat {
    /// Aligned text for people
    #[default]
    Text,
    /// One JSON document with all tables, exact values
    Json,
    /// The main table as comma-separated values with a header line
    Csv,
    /// Text with Markdown tables
    Md,
    /// The main table as a Parquet file; needs --output
    Parquet,
}

impl HasJson for ReportFormat {
    const JSON: Self = Self::Json;
}

/// What all analyses of traces take.
#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    /// Traces to analyse, or folders or packages of them ('-' is standard input)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs<ReportFormat>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) empty: EmptyArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

impl ReportArgs {
    /// Returns what is made of the answer.
    pub(crate) fn form(&self) -> Form {
        match self.format.format() {
            ReportFormat::Text | ReportFormat::Md => Form::Text,
            ReportFormat::Json => Form::Tables,
            ReportFormat::Csv | ReportFormat::Parquet => Form::MainTable,
        }
    }

    /// Returns the traces to read.
    pub(crate) fn traces(&self) -> anyhow::Result<Vec<PathBuf>> {
        let traces = trace_input::expand(&self.files, self.verbosity)?;
        cli::refuse_overwrite(&traces, &self.output.output)?;
        Ok(traces)
    }
}

/// Heading of the options that choose rules, in help.
pub(crate) const RULES: &str = "Rules";

const SUMMARY_HELP: &str = "\
A trace is complete (`healthy` in JSON) if nothing of it was lost, cut or left
out. Issues are listed with the place of their first occurrence.

Example:
  trace-info summary rank*.json.gz --json | jq '.traces[].healthy'";

const TABLES_HELP: &str = "\
The columns are those of Perfetto's trace processor. Times are nanoseconds, pid
and tid as they were written; with --compat they, and the names and reals, are
shown as the trace processor shows them, and null is \\N.

A folder or an archive of several traces, or a pattern, gives one table of them
all, with the name of its trace before each row, in the column `trace`.

Example:
  trace-info tables t.json.gz --table slice --output slices.csv";

const CONVERT_HELP: &str = "\
perfetto is one file for ui.perfetto.dev and other tools; chrome-json is one for
analysers of PyTorch traces, whatever the input was; parquet is a new folder
with one file for each table, each with its schema version in the metadata. The
output appears when it is complete, or not at all.

Example:
  trace-info convert t.json.gz --to parquet --output t.tables
  trace-info convert report.sqlite --output t.json.gz --redact
  duckdb -c \"SELECT count(*) FROM 't.tables/slice.parquet'\"";

#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    /// Traces to summarise, or folders or packages of them ('-' is standard input)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// Exit with 1 if a trace is not complete
    #[arg(long)]
    pub(crate) check: bool,
    #[command(flatten)]
    pub(crate) empty: EmptyArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs<SummaryFormat>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Output formats of the summary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum SummaryFormat {
    /// Aligned text for people
    #[default]
    Text,
    /// One JSON document, exact values
    Json,
}

impl HasJson for SummaryFormat {
    const JSON: Self = Self::Json;
}

#[derive(Debug, Args)]
pub(crate) struct TablesArgs {
    /// The trace, or a folder, an archive or a glob of several ('-' is standard input)
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Which table
    #[arg(long, value_enum, value_name = "TABLE")]
    pub(crate) table: TableName,
    // Not `FormatArgs`: a second one of another type would get the default of the first.
    /// Format of the table
    #[arg(long, value_enum, value_name = "FORMAT", default_value_t)]
    format: TableFormat,
    /// Short for --format json
    #[arg(long, conflicts_with = "format")]
    json: bool,
    /// Read and show everything as Perfetto's trace processor does
    #[arg(long)]
    pub(crate) compat: bool,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Output formats of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TableFormat {
    /// Comma-separated values with a header line
    #[default]
    Csv,
    /// One JSON document with columns and rows
    Json,
    /// A Parquet file; needs --output
    Parquet,
}

impl TablesArgs {
    /// Returns the requested format.
    pub(crate) fn format(&self) -> TableFormat {
        if self.json {
            TableFormat::Json
        } else {
            self.format
        }
    }
}

/// Tables, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum TableName {
    /// Slices and instants in processing order
    Slice,
    /// Arrows between slices
    Flow,
    /// Samples of counters
    Counter,
    /// Rows that slices or samples are on
    Track,
    /// Processes
    Process,
    /// Threads
    Thread,
    /// Arguments of slices
    Args,
    /// What was odd about the file
    Stats,
}

impl From<TableName> for trace_tables::Table {
    fn from(name: TableName) -> Self {
        match name {
            TableName::Slice => Self::Slice,
            TableName::Flow => Self::Flow,
            TableName::Counter => Self::Counter,
            TableName::Track => Self::Track,
            TableName::Process => Self::Process,
            TableName::Thread => Self::Thread,
            TableName::Args => Self::Args,
            TableName::Stats => Self::Stats,
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The trace ('-' is standard input)
    #[arg(value_name = "TRACE")]
    pub(crate) trace: PathBuf,
    /// Format to write [default: by the end of the output's name]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub(crate) to: Option<Target>,
    /// Where to write: a file or '-', a new folder for parquet
    #[arg(short, long, value_name = "PATH")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) copy: CopyArgs,
}

/// What all commands that write a copy of a trace take.
#[derive(Debug, Args)]
pub(crate) struct CopyArgs {
    /// Replace names of hosts, users, processes and ranges, folders and GPU UUIDs by pseudonyms
    #[arg(long)]
    pub(crate) redact: bool,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Output formats of a conversion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Target {
    /// A Perfetto protobuf trace
    Perfetto,
    /// Chrome JSON, as PyTorch's profiler writes it; compressed if the output ends in .gz
    ChromeJson,
    /// A folder of Parquet tables
    Parquet,
}

/// Refuses a first argument that names no file and resembles a subcommand.
///
/// # Errors
///
/// Returns a usage error with the closest subcommand.
pub(crate) fn refuse_unknown_command(files: &[PathBuf]) -> anyhow::Result<()> {
    let Some(word) = files.first().and_then(|file| file.to_str()) else {
        return Ok(());
    };
    let is_word = !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic());
    if !is_word || PathBuf::from(word).exists() {
        return Ok(());
    }
    let cli = Cli::command();
    let names = cli.get_subcommands().map(clap::Command::get_name);
    let closest = names
        .map(|name| (distance(word, name), name))
        .filter(|(far, name)| *far <= 2.min(name.len() / 2) || name.starts_with(word))
        .min();
    match closest {
        Some((_, name)) => Err(cli::usage(format!(
            "no subcommand or file is named `{word}`: did you mean `{name}`?"
        ))),
        None => Ok(()),
    }
}

/// Returns the number of letters to insert, remove or replace to turn one word into the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.bytes().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.bytes().enumerate() {
            let replaced = diagonal + usize::from(!x.eq_ignore_ascii_case(&y));
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(row[j] + 1).min(diagonal + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("trace-info").chain(line.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn files_alone_mean_summary() {
        let cli = parse("a.json b.json --json").unwrap();
        assert!(cli.command.is_none());
        assert_eq!(cli.summary.files.len(), 2);
        assert_eq!(cli.summary.format.format(), SummaryFormat::Json);
    }

    #[test]
    fn table_arguments_may_be_shortened_but_not_left_out() {
        let cli = parse("tables - --tab slice --form parquet --comp --out x").unwrap();
        let Some(Command::Tables(args)) = cli.command else {
            panic!("tables expected");
        };
        assert_eq!(args.table, TableName::Slice);
        assert_eq!(args.format(), TableFormat::Parquet);
        assert!(args.compat);
        assert!(parse("tables t.json").is_err());
        assert!(parse("tables t.json --table slices").is_err());
        assert!(parse("convert t.json --to perfetto").is_err());
    }

    #[test]
    fn every_table_has_its_name() {
        for (name, table) in TableName::value_variants()
            .iter()
            .zip(trace_tables::Table::ALL)
        {
            let value = name.to_possible_value().unwrap();
            assert_eq!(value.get_name(), table.name());
            assert_eq!(trace_tables::Table::from(*name), table);
        }
    }
}
