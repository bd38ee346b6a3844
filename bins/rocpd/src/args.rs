//! The command line.

use std::path::PathBuf;

use clap::{ArgAction, Args, Parser, Subcommand, ValueEnum};
use cli::{FormatArgs, VerbosityArgs};

const AFTER_HELP: &str = "\
Recording an input:
  rocprofv3 --sys-trace --output-format rocpd -- python3 serve.py

Example:
  rocpd summary -i *_results.db --domain-summary
  rocpd query -i run.rpdb --query \"SELECT * FROM top_kernels\"
  rocpd convert -i run/ -f pftrace

Exit codes: 0 done; 2 wrong usage, no such file; 3 unreadable database, failed
query; 4 a format that cannot be written here; 5 output not written. --compat: as
the reference.";

/// Query, summarise, convert, merge and package rocPD databases
///
/// Any number of databases are read as one: files, folders, patterns, .rpdb packages and their index.yaml.
#[derive(Debug, Parser)]
#[command(
    name = "rocpd",
    version,
    after_help = AFTER_HELP,
    max_term_width = 80,
    disable_version_flag = true
)]
pub(crate) struct Cli {
    /// Print the version
    #[arg(short = 'v', long, action = ArgAction::Version)]
    version: Option<bool>,
    #[command(subcommand)]
    pub(crate) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run SQL over all databases
    Query(Box<QueryArgs>),
    /// Say what took how long
    Summary(Box<SummaryArgs>),
    /// Write the records in other formats
    Convert(Box<ConvertArgs>),
    /// Put all databases into one
    Merge(MergeArgs),
    /// Describe a set of databases as a package
    Package(PackageArgs),
    /// Say what the databases hold and how healthy they are: warnings, wrong values, keys that name no row
    Info(InfoArgs),
    /// Print the version
    Version,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Example:
  rocpd convert -i *.db -f pftrace --drop hsa --split-time 32
  rocpd convert -i run.rpdb -f csv --csv-layout classic")]
pub(crate) struct ConvertArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// Formats to write
    #[arg(short = 'f', long, value_enum, ignore_case = true, num_args = 1.., required_unless_present = "list_categories", value_name = "FORMAT")]
    pub(crate) output_format: Vec<ConvertFormat>,
    /// Files and columns of CSV: as in August 2025, or the newer ones
    #[arg(long, value_enum, default_value_t)]
    pub(crate) csv_layout: CsvLayout,
    /// How agents are numbered
    #[arg(long, value_enum, ignore_case = true, default_value_t)]
    pub(crate) agent_index_value: AgentIndex,
    /// Print the categories of the data and stop
    #[arg(long)]
    pub(crate) list_categories: bool,
    #[command(flatten)]
    pub(crate) perfetto: PerfettoArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Perfetto")]
pub(crate) struct PerfettoArgs {
    /// Tracks by queue instead of stream
    #[arg(long)]
    pub(crate) group_by_queue: bool,
    /// Leave arguments of slices out
    #[arg(long)]
    pub(crate) no_annotations: bool,
    /// Keep these arguments of slices only, such as corr_id,kind
    #[arg(
        long,
        value_name = "KEY",
        value_delimiter = ',',
        conflicts_with = "no_annotations"
    )]
    pub(crate) annotations: Option<Vec<String>>,
    /// Show the arguments of calls (args.NAME) in slices
    #[arg(long)]
    pub(crate) annotate_args: bool,
    /// Show counters in slices of kernels also with --no-counters, --no-annotations or --annotations
    #[arg(long)]
    pub(crate) annotate_pmc: bool,
    /// Leave out the arguments of events of the kernel driver (KFD), which are shown without --annotate-args too
    #[arg(long)]
    pub(crate) no_annotate_kfd: bool,
    /// Leave arrows out
    #[arg(long)]
    pub(crate) no_flows: bool,
    /// Leave counters out
    #[arg(long)]
    pub(crate) no_counters: bool,
    /// What happens to device slices of a track that overlap
    #[arg(long, value_enum, default_value_t)]
    pub(crate) overlap: Overlap,
    /// Pack traces with gzip: NAME_results.pftrace.gz
    #[arg(long)]
    pub(crate) gzip: bool,
    /// Several files: so many of equal time, or each of this length (250ms, 2s)
    #[arg(long, value_name = "N|TIME")]
    pub(crate) split_time: Option<String>,
    /// Several files of about this size
    #[arg(long, value_name = "SIZE")]
    pub(crate) split_bytes: Option<cli::ByteSize>,
    /// A file for each process, rank or node
    #[arg(long, value_enum)]
    pub(crate) split_by: Option<SplitBy>,
    /// Accepted and without effect: there is no tracing service
    #[arg(long, value_name = "NAME", hide = true)]
    perfetto_backend: Option<String>,
    /// Accepted and without effect: nothing is buffered
    #[arg(long, value_name = "NAME", hide = true)]
    perfetto_buffer_fill_policy: Option<String>,
    /// Accepted and without effect: nothing is buffered
    #[arg(long, value_name = "KB", hide = true)]
    perfetto_buffer_size: Option<u64>,
    /// Accepted and without effect: there is no shared memory
    #[arg(long, value_name = "KB", hide = true)]
    perfetto_shmem_size_hint: Option<u64>,
}

/// What to do with device slices that overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Overlap {
    /// Each on a track where it overlaps with none
    #[default]
    Lanes,
    /// All on one track, two that overlap both cut in the middle of what they share (flag `clipped`), over all parts
    Split,
    /// All on one track as they are, as nested slices where they nest
    Raw,
}

/// What gets a file of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum SplitBy {
    /// Each process
    Process,
    /// Each rank
    Rank,
    /// Each node
    Node,
}

/// Formats of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertFormat {
    /// CSV files
    Csv,
    /// A Perfetto trace
    #[value(alias = "perfetto")]
    Pftrace,
    /// An OTF2 archive
    Otf2,
    /// A Parquet file for each kind of record
    Parquet,
    /// An Arrow file for each kind of record, names as dictionaries
    Arrow,
    /// A file of JSON lines for each kind of record
    Json,
}

impl ConvertFormat {
    pub(crate) const fn word(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Pftrace => "pftrace",
            Self::Otf2 => "otf2",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
            Self::Json => "json",
        }
    }
}

/// Layouts of CSV.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum CsvLayout {
    /// A file for each API, every text in quotes
    Classic,
    /// One file for all regions
    #[default]
    Unified,
}

/// How agents are numbered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum AgentIndex {
    /// On the machine: `Agent 4`
    Absolute,
    /// Among those visible to the process: `Agent 1`
    #[default]
    Relative,
    /// Among those of their type: `GPU 0`
    TypeRelative,
}

#[derive(Debug, Args)]
pub(crate) struct MergeArgs {
    #[command(flatten)]
    pub(crate) input: Inputs,
    /// Name of the merged database
    #[arg(short, long, value_name = "NAME", default_value = "merged")]
    pub(crate) output_file: String,
    /// Folder of the merged database
    #[arg(
        short = 'd',
        long,
        value_name = "DIR",
        default_value = "./rocpd-output-data"
    )]
    pub(crate) output_path: PathBuf,
    /// One set of tables for all processes, with new ids (of streams and queues too): fast for SQL by other tools
    #[arg(long)]
    pub(crate) reassign_ids: bool,
    /// Move the times of nodes, whose clocks differ: so that recordings begin at once (init), or the first markers with a
    /// message (marker:MESSAGE), or by a file of lines HOST,NANOSECONDS; the first node keeps its times with the former two
    #[arg(long, value_name = "init|marker:MESSAGE|FILE.csv")]
    pub(crate) align: Option<String>,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PackageArgs {
    #[command(flatten)]
    pub(crate) input: Inputs,
    /// Name of the package; .rpdb is added
    #[arg(short = 'd', long, value_name = "NAME")]
    pub(crate) output_path: Option<PathBuf>,
    /// Move the databases into the package
    #[arg(short, long)]
    pub(crate) consolidate: bool,
    /// With --consolidate: copy them instead
    #[arg(long, requires = "consolidate")]
    pub(crate) copy: bool,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    #[command(flatten)]
    pub(crate) input: Inputs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    /// Leave out databases that cannot be read
    #[arg(long)]
    pub(crate) keep_going: bool,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Databases, with or without their option.
#[derive(Debug, Args)]
pub(crate) struct Inputs {
    /// The same as FILE, also behind an option of several values
    #[arg(short, long, value_name = "FILE", num_args = 1.., required_unless_present = "files")]
    input: Vec<PathBuf>,
    /// Databases: files, folders, patterns, packages
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

impl Inputs {
    /// Returns all of them, in the order of the command line within each kind.
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        [self.input.as_slice(), self.files.as_slice()].concat()
    }
}

/// Inputs, and where outputs go.
#[derive(Debug, Args)]
pub(crate) struct SharedArgs {
    #[command(flatten)]
    pub(crate) input: Inputs,
    /// Base name of output files; may have keys such as %hostname% [env: ROCPD_OUTPUT_NAME]
    #[arg(short, long, value_name = "NAME")]
    pub(crate) output_file: Option<String>,
    /// Folder of output files, made if need be [env: ROCPD_OUTPUT_PATH] [default: ./rocpd-output-data]
    #[arg(short = 'd', long, value_name = "DIR")]
    pub(crate) output_path: Option<String>,
    /// Leave out databases that cannot be read
    #[arg(long)]
    pub(crate) keep_going: bool,
    /// Give the numbers, texts and exit codes of the reference where ours are better
    #[arg(long)]
    pub(crate) compat: bool,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Which records.
#[derive(Debug, Args)]
#[command(next_help_heading = "Time window")]
pub(crate) struct WindowArgs {
    /// From this time: nanoseconds, a percentage of the recording, or an offset such as +1.5s
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "start_marker",
        allow_hyphen_values = true
    )]
    pub(crate) start: Option<String>,
    /// From the begin of the marker with this message
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) start_marker: Option<String>,
    /// To this time
    #[arg(
        long,
        value_name = "TIME",
        conflicts_with = "end_marker",
        allow_hyphen_values = true
    )]
    pub(crate) end: Option<String>,
    /// To the end of the marker with this message
    #[arg(long, value_name = "MESSAGE")]
    pub(crate) end_marker: Option<String>,
    /// Which of several markers with the message: a number from 1, first or last
    #[arg(long, value_name = "N")]
    pub(crate) marker_occurrence: Option<String>,
    /// true: records fully inside; false: all that touch the window
    #[arg(long, value_name = "BOOL", default_value = "true")]
    pub(crate) inclusive: String,
    /// Cut records at the edges of the window
    #[arg(long)]
    pub(crate) clip: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Records")]
pub(crate) struct FilterArgs {
    /// Leave out these domains (hsa, hip, marker, rccl, kernel, memory, ...)
    #[arg(
        long,
        visible_alias = "drop-domain",
        value_name = "DOMAIN",
        value_delimiter = ','
    )]
    pub(crate) drop: Vec<String>,
    /// Keep these domains only
    #[arg(long, value_name = "DOMAIN", value_delimiter = ',')]
    pub(crate) keep_domain: Vec<String>,
    /// Keep these categories only
    #[arg(long, value_name = "CATEGORY", value_delimiter = ',')]
    pub(crate) include_category: Vec<String>,
    /// Leave out these categories
    #[arg(long, value_name = "CATEGORY", value_delimiter = ',')]
    pub(crate) exclude_category: Vec<String>,
    /// Keep records at least this long, ns
    #[arg(long, value_name = "NS", default_value_t = 0)]
    pub(crate) min_duration: i64,
    /// Keep records with a name that matches
    #[arg(long, value_name = "REGEX")]
    pub(crate) name_regex: Option<regex::Regex>,
    /// Keep these ranks only
    #[arg(long, value_name = "RANK", value_delimiter = ',')]
    pub(crate) ranks: Vec<i64>,
    /// Keep these hosts only
    #[arg(long, value_name = "HOST", value_delimiter = ',')]
    pub(crate) nodes: Vec<String>,
    /// Keep processes with these guids only
    #[arg(long, value_name = "GUID", value_delimiter = ',')]
    pub(crate) guids: Vec<String>,
    /// Keep processes with these process ids only
    #[arg(long, value_name = "PID", value_delimiter = ',')]
    pub(crate) pids: Vec<i64>,
    /// Keep agents with these absolute indices only
    #[arg(long, value_name = "INDEX", value_delimiter = ',')]
    pub(crate) agents: Vec<i64>,
    /// Keep these streams only
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    pub(crate) streams: Vec<i64>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Kernel names")]
pub(crate) struct NameArgs {
    /// Call kernels by the region they were launched in, where that has a name
    #[arg(long)]
    pub(crate) kernel_rename: bool,
    /// Call kernels by their names in the object file
    #[arg(long)]
    pub(crate) mangled_kernels: bool,
    /// Demangle names of the object file, whatever the recording displays
    #[arg(long, conflicts_with = "mangled_kernels")]
    pub(crate) demangle_kernels: bool,
    /// Cut the parameter lists off kernel names
    #[arg(long)]
    pub(crate) truncate_kernels: bool,
}

#[derive(Debug, Args)]
#[command(after_help = "\
Tables and views are those of the format (rocpd_*, kernels, regions,
memory_copies, top, busy, ...), each over all databases; launch_links, steps and
gaps come on top.

Example:
  rocpd query -i *.db --query \"SELECT * FROM top_kernels\" --format csv")]
pub(crate) struct QueryArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// The query
    #[arg(long, value_name = "SQL")]
    pub(crate) query: String,
    /// Statements to run first
    #[arg(long, value_name = "FILE")]
    pub(crate) script: Option<PathBuf>,
    /// Format of the result
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub(crate) format: QueryFormat,
    /// HTML page in which {{TABLE}} stands for the result
    #[arg(long, value_name = "FILE")]
    pub(crate) template_path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) mail: MailArgs,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Mail")]
pub(crate) struct MailArgs {
    /// Mail the result to these addresses: the file, or as CSV what the console shows
    #[arg(
        long,
        value_name = "ADDRESS",
        value_delimiter = ',',
        requires = "email_from"
    )]
    pub(crate) email_to: Vec<String>,
    /// Address of the sender
    #[arg(long, value_name = "ADDRESS")]
    pub(crate) email_from: Option<String>,
    /// Subject
    #[arg(long, value_name = "TEXT", default_value = "SQLite Query Report")]
    pub(crate) email_subject: String,
    /// Mail server
    #[arg(long, value_name = "HOST", default_value = "localhost")]
    pub(crate) smtp_server: String,
    /// Port of the mail server
    #[arg(long, value_name = "PORT", default_value_t = 25)]
    pub(crate) smtp_port: u16,
    /// User at the mail server; the connection is then encrypted or refused
    #[arg(long, value_name = "NAME", requires = "smtp_password")]
    pub(crate) smtp_user: Option<String>,
    /// Password at the mail server
    #[arg(long, value_name = "TEXT")]
    pub(crate) smtp_password: Option<String>,
    /// Pack the attachment
    #[arg(long)]
    pub(crate) zip_attachments: bool,
    /// Show the first rows in the message
    #[arg(long)]
    pub(crate) inline_preview: bool,
}

/// Formats of a query's result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum QueryFormat {
    /// Aligned text on standard output
    #[default]
    Console,
    /// Comma-separated values
    Csv,
    /// Tab-separated values
    Tsv,
    /// An array of objects
    Json,
    /// An object a line
    Jsonl,
    /// A Markdown table
    Md,
    /// An HTML table
    Html,
    /// An HTML page
    Dashboard,
    /// Pages of monospaced text
    Pdf,
    /// A Parquet file
    Parquet,
    /// An Arrow file
    Arrow,
    /// Not supported: use console and a pipe
    Clipboard,
}

#[derive(Debug, Args)]
pub(crate) struct SummaryArgs {
    #[command(flatten)]
    pub(crate) shared: SharedArgs,
    /// Format of the summaries
    #[arg(short, long, value_enum, ignore_case = true, default_value_t)]
    pub(crate) format: QueryFormat,
    /// Add a summary of domains
    #[arg(long)]
    pub(crate) domain_summary: bool,
    /// Add summaries by process
    #[arg(long)]
    pub(crate) summary_by_rank: bool,
    /// Domains of regions and views to summarise (HIP, HSA, MARKER, KERNEL, MEMORY, ...); NONE: no regions
    #[arg(long, value_name = "DOMAIN", num_args = 1..)]
    pub(crate) region_categories: Option<Vec<String>>,
    /// Add quantiles, bytes, busy times, launch latencies, imbalance of ranks and outliers
    #[arg(long)]
    pub(crate) extended: bool,
    #[command(flatten)]
    pub(crate) names: NameArgs,
    #[command(flatten)]
    pub(crate) filter: FilterArgs,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
}

impl From<CsvLayout> for rocpd_convert::csv::Layout {
    fn from(layout: CsvLayout) -> Self {
        match layout {
            CsvLayout::Classic => Self::Classic,
            CsvLayout::Unified => Self::Unified,
        }
    }
}

impl From<AgentIndex> for rocpd_convert::AgentIndex {
    fn from(index: AgentIndex) -> Self {
        match index {
            AgentIndex::Absolute => Self::Absolute,
            AgentIndex::Relative => Self::Relative,
            AgentIndex::TypeRelative => Self::TypeRelative,
        }
    }
}

impl From<Overlap> for rocpd_convert::pftrace::Overlap {
    fn from(overlap: Overlap) -> Self {
        match overlap {
            Overlap::Lanes => Self::Lanes,
            Overlap::Split => Self::Split,
            Overlap::Raw => Self::Raw,
        }
    }
}

impl From<SplitBy> for rocpd_convert::pftrace::SplitBy {
    fn from(by: SplitBy) -> Self {
        match by {
            SplitBy::Process => Self::Process,
            SplitBy::Rank => Self::Rank,
            SplitBy::Node => Self::Node,
        }
    }
}

impl From<&NameArgs> for rocpd_db::KernelNames {
    fn from(args: &NameArgs) -> Self {
        Self {
            by_region: args.kernel_rename,
            mangled: args.mangled_kernels,
            demangle: args.demangle_kernels,
            truncate: args.truncate_kernels,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn spellings_that_must_stay() {
        let parse = |line: &str| Cli::try_parse_from(line.split(' '));
        assert!(
            parse(
                "rocpd summary -i a.db b.db -d out -o n -f csv --domain-summary --summary-by-rank"
            )
            .is_ok()
        );
        assert!(parse("rocpd query -i a.db b.db --query SELECT --format csv -d out -o n").is_ok());
        assert!(parse("rocpd query -i a.db --query SELECT --format JSON").is_ok());
        assert!(parse("rocpd query -i a.db --query S --email-to a@b.c").is_err());
        assert!(parse("rocpd query --query SELECT").is_err());
        assert!(parse("rocpd info").is_err());
        for line in [
            "rocpd info a.db b.db",
            "rocpd summary a.db --domain-summary b.db",
            "rocpd query a.db --query SELECT",
            "rocpd convert a.db -f csv pftrace",
            "rocpd merge a.db -o all b.db",
            "rocpd package a.db -c",
            "rocpd info a.db -i b.db",
        ] {
            assert!(parse(line).is_ok(), "{line}");
        }
        assert!(parse("rocpd summary -i a.db --start 5 --start-marker x").is_err());
        assert!(parse("rocpd").is_ok());
    }
}
