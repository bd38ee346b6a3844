//! The command line.

use std::num::{NonZeroU32, NonZeroU64};
use std::path::{Path, PathBuf};

use clap::{Args, Parser, Subcommand, ValueEnum};
use cli::{ByteSize, FormatArgs, HasJson, InputArgs, OutputArgs, VerbosityArgs, usage};
use memtrace_run::FigureFormat;

const AFTER_HELP: &str = "\
Recording an input:
  perf mem   perf mem record -F 4000 -k CLOCK_MONOTONIC -- llama-cli ...
             (by frequency: with a fixed period, -c, samples keep step with a
             program that repeats itself, and no class follows)
             perf script -F comm,pid,tid,cpu,time,period,event,addr,ip,sym,dso,weight,data_src
  Valgrind   valgrind --tool=lackey --trace-mem=yes CMD 2> lackey.txt
             (functions by --symbols 108000=CMD where CMD is a PIE)
  memray     memray run -o run.memray.bin app.py
  heaptrack  heaptrack --raw -o run CMD
  one word   perf record -e mem:ADDR/8:rw:u -e mem:ADDR/8:w:u -c 1 -d CMD
             (read perf.data itself: the second event tells stores from loads)
  maps       cat /proc/PID/maps > maps.txt      (before and after loading)
  unmaps     bpftrace -e 'tracepoint:syscalls:sys_enter_munmap /pid == PID/ {
             printf(\"%llu munmap %llx %llu\\n\", nsecs, args->addr, args->len); }'
  KV blocks  (--kv-table) {\"base_address\": 140737488355328, \"block_bytes\": 65536,
             \"blocks\": [{\"block_id\": 0, \"alloc_ns\": 5000, \"free_ns\": 9000}]}
             Block N lies at base_address + N * block_bytes, or at its own
             \"address\". Times are in the clock of the trace; alloc_ns and free_ns
             may be left out. A block that is used again has one entry for each use.

Example:
  memtrace analyse perf.txt.gz --phases phases.json
  memtrace export perf.txt.gz --phases phases.json -o results/run1
  memtrace label perf.txt --maps maps.txt --model m.gguf -o rows.parquet

Exit codes: 0 done; 1 findings; 2 wrong usage; 3 unreadable or incomplete input;
4 this machine cannot collect; 5 output not written.";

/// Formats of output without tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Message {
    /// Text for people
    #[default]
    Text,
    /// One JSON document
    Json,
}

impl HasJson for Message {
    const JSON: Self = Self::Json;
}

/// How long data lives in memory during inference
///
/// Reads perf script text, perf.data, memray captures, heaptrack files, Valgrind Lackey, DAMON records, canonical rows (JSON lines, CSV) and labelled Parquet,
/// plain or compressed; '-' is standard input.
#[derive(Debug, Parser)]
#[command(
    name = "memtrace",
    version,
    after_help = AFTER_HELP,
    arg_required_else_help = true,
    infer_long_args = true,
    max_term_width = 80
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Check the configuration of an experiment
    Validate(ConfigArgs),
    /// List the runs of an experiment
    Plan(ConfigArgs),
    /// Run an experiment, or one command, and collect
    Run(RunArgs),
    /// Read a capture into canonical rows
    Parse(RowsArgs),
    /// Read a capture and label its rows
    Label(RowsArgs),
    /// Compute retention, write-once, reads, working set, locality and more
    Analyse(AnalyseArgs),
    /// Draw figures and a page of an input or a run
    Report(ReportArgs),
    /// Write the folder of a run: traces, metrics, figures, manifest
    Export(ExportArgs),
    /// Check the files of a run and the quality of its trace
    Check(CheckArgs),
    /// Report what this machine can collect, and what is missing
    Doctor(DoctorArgs),
    /// Convert between formats of rows
    Convert(RowsArgs),
    /// Compare the metrics of two inputs or runs
    Compare(CompareArgs),
    /// Print the version
    Version(VersionArgs),
}

/// Version of the reference semantics.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Compat {
    /// mrm-trace 0.1.0
    #[value(name = "mrm-0.1", alias = "mrm-0.1.0")]
    Mrm010,
    /// mrm-trace 0.1.23
    #[value(name = "mrm-0.1.23")]
    Mrm023,
}

/// Options for reading inputs.
#[derive(Debug, Clone, Args)]
pub(crate) struct ReadArgs {
    /// JSON file with 'phase_boundaries'
    #[arg(long, value_name = "FILE")]
    pub(crate) phases: Option<PathBuf>,
    /// Find loading, generation and teardown in the accesses; the input is read twice
    #[arg(long, conflicts_with_all = ["phases", "compat"])]
    pub(crate) infer_phases: bool,
    /// Read, label and compute as a version of the reference does
    #[arg(long, value_enum, value_name = "VERSION")]
    pub(crate) compat: Option<Compat>,
    /// Format of the input, when it is not recognised
    #[arg(long, value_name = "FORMAT")]
    pub(crate) input_format: Option<String>,
    /// Fields of a perf script text, as given to perf script -F [default: detected line by line]
    #[arg(long, value_name = "LIST", conflicts_with_all = ["compat", "input_format"])]
    pub(crate) fields: Option<String>,
    /// Name of the run, for inputs without one [default: the file's name, or with export the name in the rows]
    #[arg(long, value_name = "NAME")]
    pub(crate) run_id: Option<String>,
    /// Keep accesses to the kernel's addresses
    #[arg(long)]
    pub(crate) kernel: bool,
    /// Nanoseconds per instruction, in streams without a clock
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) ns_per_instruction: u64,
    /// Accesses per sample, if the input does not state it; 1 if every access was recorded
    #[arg(long, value_name = "N", conflicts_with = "compat")]
    pub(crate) period: Option<NonZeroU64>,
    /// Clock of the cores: with it latencies are in nanoseconds, without it in cycles of the profiler
    #[arg(long, value_name = "MHZ", conflicts_with = "compat")]
    pub(crate) core_mhz: Option<NonZeroU32>,
    /// Split accesses of Lackey at multiples of SIZE, so that each cache line (64) or page they touch counts
    #[arg(long, value_name = "SIZE")]
    pub(crate) split_bytes: Option<ByteSize>,
    /// Text of nm, or an ELF file, that names the functions of Lackey's instructions, with the address it was loaded at
    #[arg(long, value_name = "[HEX=]FILE")]
    pub(crate) symbols: Vec<String>,
    /// Accesses by functions with this word in their name are stores
    #[arg(long, value_name = "WORD")]
    pub(crate) store_symbols: Vec<String>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Options for labelling rows.
#[derive(Debug, Clone, Args)]
pub(crate) struct LabelArgs {
    /// YAML rules, or 'engines' for the built-in ones of PyTorch, vLLM and TensorRT-LLM
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// JSON list of address ranges and their types
    #[arg(long, value_name = "FILE")]
    pub(crate) ranges: Vec<PathBuf>,
    /// Snapshot of /proc/PID/maps, at the time NS of the trace's clock
    #[arg(long, value_name = "[NS=]FILE")]
    pub(crate) maps: Vec<String>,
    /// GGUF or safetensors file whose tensors are found in the maps
    #[arg(long, value_name = "FILE", requires = "maps")]
    pub(crate) model: Vec<PathBuf>,
    /// Log of mmap and munmap, lines 'TIME_NS mmap|munmap ADDRESS BYTES': the label of a page ends there
    #[arg(long, value_name = "FILE")]
    pub(crate) unmaps: Vec<PathBuf>,
    /// JSON table of KV blocks with the times when they were allocated and freed
    ///
    /// Such as {"base_address": 140737488355328, "block_bytes": 65536, "blocks": [{"block_id": 0, "alloc_ns": 5000, "free_ns": 9000}]}:
    /// block N lies at base_address + N * block_bytes, or at its own "address"; times are in the clock of the trace, and may be left out; a block
    /// that is used again has one entry for each use. docs/memtrace.md has all members.
    #[arg(long, value_name = "FILE")]
    pub(crate) kv_table: Vec<PathBuf>,
    /// Policy for unclassified rows: keep, skip, error, runtime
    #[arg(long, value_name = "POLICY", default_value = "keep")]
    pub(crate) unknown: String,
    /// Bytes of a KV block [default: found from the stores]
    #[arg(long, value_name = "SIZE")]
    pub(crate) kv_block: Option<ByteSize>,
    /// Label rows again that are already labelled; by default they keep their types, and only --kv-table rebuilds their regions
    #[arg(long)]
    pub(crate) relabel: bool,
}

/// Options of the analysis.
#[derive(Debug, Clone, Args)]
pub(crate) struct ComputeArgs {
    /// Memory for rows; the rest is written to disk
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub(crate) memory: ByteSize,
    /// Compute quantiles of more than 65,536 values from a sketch: error at most 0.1 %, less memory and time
    #[arg(long, conflicts_with = "compat")]
    pub(crate) approx: bool,
    /// Folder for data that does not fit in memory [default: the system's]
    #[arg(long, value_name = "DIR")]
    pub(crate) spill_dir: Option<PathBuf>,
    /// Minimum number of samples of a type for a verdict
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) min_samples: u64,
    /// Limit of a class of suitability: high_write_once (0.8), high_retention_s (10), medium_write_once (0.5), medium_retention_s (1)
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(crate) threshold: Vec<String>,
    /// Memory tier to compare the data with, repeatable: NAME:bandwidth=32GB/s,capacity=256GiB,retention=1h,endurance=1e6
    #[arg(long, value_name = "TIER", conflicts_with = "compat")]
    pub(crate) tier: Vec<String>,
    /// TOML file of such tiers: one table per tier, by name
    #[arg(long, value_name = "FILE", conflicts_with = "compat")]
    pub(crate) tiers_file: Option<PathBuf>,
    /// Windows for figures over time
    #[arg(long, value_name = "N", default_value_t = 64)]
    pub(crate) windows: usize,
}

/// A file format of figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum FigureKind {
    Svg,
    Png,
    Pdf,
}

/// Options for drawing figures.
#[derive(Debug, Clone, Args)]
pub(crate) struct FigureArgs {
    /// File formats of figures
    #[arg(
        long,
        value_enum,
        value_name = "KINDS",
        value_delimiter = ',',
        default_value = "svg"
    )]
    pub(crate) figure_format: Vec<FigureKind>,
}

impl FigureArgs {
    /// Returns the formats as library values.
    pub(crate) fn formats(&self) -> Vec<FigureFormat> {
        self.figure_format
            .iter()
            .map(|kind| match kind {
                FigureKind::Svg => FigureFormat::Svg,
                FigureKind::Png => FigureFormat::Png,
                FigureKind::Pdf => FigureFormat::Pdf,
            })
            .collect()
    }
}

#[derive(Debug, Args)]
pub(crate) struct RowsArgs {
    /// The capture ('-' is standard input)
    pub(crate) input: PathBuf,
    /// Output file: .parquet, .csv, or JSON lines for any other name ('-' is standard output)
    #[arg(short, long, value_name = "FILE", default_value = "-")]
    pub(crate) output: PathBuf,
    /// Print what was read and skipped as JSON on standard error
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) label: LabelArgs,
}

/// An input, as an argument or as an option.
#[derive(Debug, Args)]
pub(crate) struct InputPath {
    /// A capture, rows, a trace, or the folder of a run ('-' is standard input)
    #[arg(
        short = 'i',
        long = "input",
        value_name = "INPUT",
        conflicts_with = "path"
    )]
    named: Option<PathBuf>,
    /// The input, in place of --input
    #[arg(value_name = "INPUT", required_unless_present = "named")]
    path: Option<PathBuf>,
}

impl InputPath {
    /// Returns the given input.
    pub(crate) fn get(&self) -> anyhow::Result<&Path> {
        let given = self.named.as_deref().or(self.path.as_deref());
        given.ok_or_else(|| usage("an input is needed"))
    }
}

#[derive(Debug, Args)]
pub(crate) struct AnalyseArgs {
    #[command(flatten)]
    pub(crate) input: InputPath,
    /// Tables of these metrics only: retention_duration, write_once_ratio, read_frequency, working_set_size, access_locality,
    /// inter_access_interval
    #[arg(
        long,
        value_name = "LIST",
        value_delimiter = ',',
        conflicts_with = "table"
    )]
    pub(crate) metrics: Vec<String>,
    /// One table only
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// All summaries below the answers
    #[arg(long, conflicts_with = "table")]
    pub(crate) summaries: bool,
    /// Continue reading as the text grows and print its counts every SECONDS; an interrupt ends it with the analysis
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, require_equals = true, default_missing_value = "1")]
    pub(crate) follow: Option<u64>,
    /// With --follow, also end when nothing was added for SECONDS
    #[arg(long, value_name = "SECONDS", requires = "follow")]
    pub(crate) until_quiet: Option<u64>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) label: LabelArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ReportArgs {
    #[command(flatten)]
    pub(crate) input: InputPath,
    /// Folder for figures, tables and report.html
    #[arg(short, long, value_name = "DIR", default_value = "reports")]
    pub(crate) output: PathBuf,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs<Message>,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) label: LabelArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

/// Layout of an export.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Layout {
    /// The folder of a run
    #[default]
    Run,
    /// A data set for a hub: a card, a manifest of runs, a folder per run; a name used by another input is refused
    Hf,
    /// The same without the card's front matter
    Zenodo,
}

#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    #[command(flatten)]
    pub(crate) input: InputPath,
    /// Folder to write
    #[arg(short, long, value_name = "DIR", default_value = "dist")]
    pub(crate) output: PathBuf,
    /// Layout of the folder
    #[arg(long = "format", value_enum, value_name = "LAYOUT", default_value_t)]
    pub(crate) layout: Layout,
    /// JSON object with additional members for metadata.json
    #[arg(long, value_name = "FILE")]
    pub(crate) metadata: Option<PathBuf>,
    /// Draw no figures
    #[arg(long)]
    pub(crate) no_figures: bool,
    #[command(flatten)]
    pub(crate) figures: FigureArgs,
    /// Print the manifest as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) label: LabelArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The first input or run
    pub(crate) before: PathBuf,
    /// The second
    pub(crate) after: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) read: ReadArgs,
    #[command(flatten)]
    pub(crate) label: LabelArgs,
    #[command(flatten)]
    pub(crate) compute: ComputeArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheckArgs {
    /// The folder of a run, or a trace
    pub(crate) path: PathBuf,
    /// Collector of the trace: perf-mem, perf-mem-labelled, memray, pagefaults, other [default: from the run's metadata]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) profile: Option<String>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ConfigArgs {
    /// The experiment's YAML file
    #[arg(short, long, value_name = "FILE")]
    pub(crate) config: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs<Message>,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// The experiment's YAML file
    #[arg(short, long, value_name = "FILE", conflicts_with = "command")]
    pub(crate) config: Option<PathBuf>,
    /// New folder for the run of a command [default: results/run, or results/run-2, ... where that exists]
    #[arg(short, long, value_name = "DIR", conflicts_with = "config")]
    pub(crate) output: Option<PathBuf>,
    /// Samples a second of each thread, of perf
    #[arg(long, value_name = "N", default_value_t = 4000, conflicts_with_all = ["period", "config"])]
    pub(crate) frequency: u64,
    /// A fixed number of accesses per sample instead: of a program that repeats itself, no class follows then
    #[arg(long, value_name = "N", conflicts_with = "config")]
    pub(crate) period: Option<u64>,
    /// Collector: perf, pagefaults, memray, monitor [default: the first that is usable]
    #[arg(long, value_name = "NAME")]
    pub(crate) collector: Option<String>,
    /// GGUF or safetensors files whose tensors are located in memory [default: those that the command names]
    #[arg(long, value_name = "FILE")]
    pub(crate) model: Vec<PathBuf>,
    /// Text in the engine's output that begins a phase, for example generation='eval time'
    #[arg(long, value_name = "PHASE=TEXT")]
    pub(crate) phase_mark: Vec<String>,
    /// The same with a regular expression, for example generation='eval: +[0-9]+'
    #[arg(long, value_name = "PHASE=REGEX")]
    pub(crate) phase_regex: Vec<String>,
    /// Named pipe to create for lines 'phase NAME start|end', optionally followed by
    /// a time of the clock MONOTONIC in ns [default: one that the command finds in
    /// MEMTRACE_PHASES]
    #[arg(long, value_name = "FILE")]
    pub(crate) phase_pipe: Option<PathBuf>,
    /// Socket to create for such lines [default: one that the command finds in
    /// MEMTRACE_PHASE_SOCKET]
    #[arg(long, value_name = "FILE")]
    pub(crate) phase_socket: Option<PathBuf>,
    /// Limit of a validity class, by its name in the metadata, for example clean_cpu_pct=12
    #[arg(long, value_name = "NAME=NUMBER")]
    pub(crate) limit: Vec<String>,
    #[command(flatten)]
    pub(crate) format: FormatArgs<Message>,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
    /// The command to run and observe
    #[arg(last = true, value_name = "CMD")]
    pub(crate) command: Vec<String>,
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Folder where captures will be written; its disk is checked
    #[arg(long, value_name = "DIR", default_value = ".")]
    pub(crate) out: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs<Message>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
}

#[derive(Debug, Args)]
pub(crate) struct VersionArgs {
    #[command(flatten)]
    pub(crate) format: FormatArgs<Message>,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
