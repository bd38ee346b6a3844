//! The command line.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Parser, ValueEnum};
use cli::{ByteSize, FormatArgs, HasJson, InputArgs, OutputArgs, VerbosityArgs};
use trace_input::ClassesArgs;

const HELP: &str = "\
SHOW TABLES lists the tables, DESCRIBE kernels the columns of one; docs/guide/tables.md
has all of them. Plain PerfettoSQL works on slice, thread, process, thread_track,
process_track, counter, flow and args. Functions beyond SQL: extract_arg(arg_set_id, key)
as text, extract_arg_int, extract_arg_real; str_split(text, separator, n);
overlap_ns(ts, dur, ts, dur); FROM ancestor_slice(id), descendant_slice(id). Findings of
why are `findings`, logs of block I/O `block_requests`, captures of memtrace `accesses`;
tables of rocPD and Nsight Systems have their own names.

Example:
  inferscope sql \"SELECT name, sum(dur) AS ns FROM kernels GROUP BY name ORDER BY ns DESC\" run/
  inferscope sql --file query.sql rank*.json.gz --format csv -o answer.csv
  inferscope sql \"SELECT title, gain_pct FROM findings\" run/
  inferscope sql run/";

/// SQL over recordings of any format, their logs, data sets of `inferscope export`, and answers of `inferscope fleet`
#[derive(Debug, Parser)]
#[command(name = "sql", version, after_help = HELP, max_term_width = 100)]
pub(crate) struct SqlCli {
    /// Statements, separated by semicolons (- or none: from standard input, or a prompt on a terminal), then recordings and logs,
    /// folders of them, or one data set or answer of a fleet
    #[arg(value_name = "QUERY|PATH", value_hint = clap::ValueHint::AnyPath)]
    pub(crate) words: Vec<OsString>,
    /// Read the statements from FILE
    #[arg(long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Rows of each result [default: 100 as text, all otherwise; 0: all]
    #[arg(long, value_name = "N")]
    pub(crate) limit: Option<usize>,
    /// Memory for sorts, joins and aggregations, and for recordings that are kept [default: 4G]
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,
    /// Read as Perfetto's trace processor does, where this reader is more exact: times in binary64 microseconds, its nesting and
    /// arrows
    #[arg(long)]
    pub(crate) compat: bool,
    /// Allow statements to write and read files in DIR: COPY ... TO, CREATE EXTERNAL TABLE
    #[arg(long, value_name = "DIR")]
    pub(crate) allow_write: Option<PathBuf>,
    /// Run queries on the executors of the scheduler at HOST:PORT, which see the same paths
    #[cfg(feature = "cluster")]
    #[arg(long, value_name = "HOST:PORT")]
    pub(crate) cluster: Option<trace_cluster::Address>,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs<FormatName>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Formats, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum FormatName {
    /// Aligned columns
    #[default]
    Text,
    /// Comma-separated values with a header line
    Csv,
    /// A list of objects for each statement
    Json,
    /// Parquet, of one query
    Parquet,
    /// Arrow's file format, of one query
    Arrow,
}

impl HasJson for FormatName {
    const JSON: Self = Self::Json;
}
