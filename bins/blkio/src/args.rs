//! The command line.

use std::path::PathBuf;

use blkio_parser::Format as TraceFormat;
use blkio_parser::analyse::user_phases::Named;
use blkio_report::device_names::DeviceChoice;
use clap::{Args, Parser, Subcommand};
use cli::{ByteSize, FormatArgs, InputArgs, OutputArgs, VerbosityArgs};

const AFTER_HELP: &str = "\
Trace formats, told apart by content: five-column, collector, tracefs,
perf-script, trace-cmd, blk-tracer, blk-tracer-classic, blkparse, blktrace,
blktrace-ftrace, biosnoop. A binary blktrace is given as all its per-CPU files,
as its name without .blktrace.N, or as the folder they are in; a folder that
`blkio collect` wrote is a trace, too.

Example:
  blkio stats kv-bpftrace-block.txt --json
  blkio stats huge.txt --traffic-only
  blkio compare before/blk after/blk
  blkio cheops25 flexgen-kv-offload-opt-6.7b-bs-64-ext4-trace --figure 5

Exit codes: 0 done; 1 a quality gate (--max-loss, --max-malformed) is not met; 2
wrong usage; 3 unreadable input; 4 a recording without requests, recording is not
possible here; 5 output not written.";

/// Block I/O of model and KV-cache offloading, from trace to figures.
#[derive(Debug, Parser)]
#[command(name = "blkio", version, after_help = AFTER_HELP, infer_long_args = true, max_term_width = 80)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What files are, and how healthy
    Info(InfoArgs),
    /// All analyses of a trace, in one pass
    Stats(Box<StatsArgs>),
    /// Events as one table: Parquet or CSV, by the name of the output
    ///
    /// Columns: t_ns (whole nanoseconds of the trace's own clock), kind, device, rwbs, direction, sector, nr_sector, bytes,
    /// cpu, pid, comm, error. What the trace does not tell is null, in CSV empty. In Parquet the texts are dictionaries, and
    /// the file's metadata has the inputs with their formats, clocks and losses under `inputs`.
    Convert(ConvertArgs),
    /// The figures of the published study as SVG, PNG, PDF and CSV
    Cheops25(CheopsArgs),
    /// Bandwidths of a folder of deepnvme logs
    Deepnvme(DeepnvmeArgs),
    /// Stacks of issued requests by kind of I/O
    Stacks(StacksArgs),
    /// fio's totals beside those of a trace
    Fio(FioArgs),
    /// Two traces side by side
    #[command(
        override_usage = "blkio compare [OPTIONS] <A> <B>\n       blkio compare [OPTIONS] <A>... --with <B>..."
    )]
    Compare(CompareArgs),
    /// Print the version
    Version,
    /// A made-up trace with known truth
    Synth(SynthArgs),
    /// Record a trace without loss (needs root)
    Collect(CollectArgs),
}

#[derive(Debug, Args)]
pub(crate) struct InfoArgs {
    /// Files of any kind this tool reads ('-' is standard input)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// How traces are read.
#[derive(Debug, Args)]
pub(crate) struct TraceArgs {
    /// Format of the trace, instead of telling it from the content
    #[arg(long, value_name = "NAME", help_heading = "Trace", value_parser = trace_format)]
    pub(crate) trace_format: Option<TraceFormat>,
    /// Only requests of this device, as MAJOR:MINOR or by name (nvme0n1, sda, dm-0)
    #[arg(long, value_name = "M:N|NAME", help_heading = "Trace", value_parser = DeviceChoice::parse)]
    pub(crate) device: Option<DeviceChoice>,
    /// How far lines may step back in time without holding everything
    #[arg(long, value_name = "TIME", help_heading = "Trace", default_value = "1s", value_parser = nanoseconds)]
    pub(crate) reorder: u64,
}

#[derive(Debug, Args)]
pub(crate) struct StatsArgs {
    /// Traces; several are read as one ('-' is standard input)
    #[arg(value_name = "FILE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// GPU utilisation of nvidia-smi, to lay beside the I/O; where the clocks are
    /// known to a second, it also tells phases
    #[arg(long, value_name = "CSV")]
    pub(crate) gpu: Option<PathBuf>,
    /// Standard output of FlexGen or DeepSpeed, for phases and tokens
    #[arg(long, value_name = "LOG")]
    pub(crate) engine: Option<PathBuf>,
    /// Wall clock minus trace clock in seconds, when known
    #[arg(long, value_name = "SECONDS", allow_negative_numbers = true)]
    pub(crate) clock_offset: Option<f64>,
    /// Readings of boot time and wall time (clock.json, manifest.json) of a
    /// trace in boot time that has none itself
    #[arg(long, value_name = "JSON", conflicts_with = "clock_offset")]
    pub(crate) clock: Option<PathBuf>,
    /// Time zone of the GPU's and the engine's wall times (+01:00, UTC), where
    /// the trace has clock anchors [default: UTC]
    #[arg(long, value_name = "ZONE", allow_hyphen_values = true, value_parser = zone)]
    pub(crate) tz: Option<i64>,
    /// Width of the bins of the additional series, from 1ms: traffic issued,
    /// completed and in flight, latency, queue depth [default: 1s, less for
    /// traces shorter than 300 s]
    #[arg(long, value_name = "TIME", value_parser = bin_width)]
    pub(crate) bin: Option<u64>,
    /// What the device can do, to judge what limits the trace: fio's JSON, a
    /// deepnvme log, or a rate (3.2GB/s)
    #[arg(long, value_name = "FILE|RATE")]
    pub(crate) yardstick: Option<String>,
    /// Where these bins begin
    #[arg(long, value_enum, default_value_t = Anchor::First)]
    pub(crate) anchor: Anchor,
    /// A phase in time since the first request, as NAME=START..END
    /// (prefill=0s..21900ms); may be given several times
    #[arg(long = "phase", value_name = "PHASE", value_parser = phase)]
    pub(crate) phases: Vec<Named>,
    /// Phases from a file, one NAME=START..END a line
    #[arg(long, value_name = "FILE")]
    pub(crate) phase_file: Option<PathBuf>,
    /// Age at which an issued request without completion is given up
    #[arg(long, value_name = "TIME", default_value = "5s", value_parser = nanoseconds)]
    pub(crate) stale: u64,
    /// Time without a request that ends a burst
    #[arg(long, value_name = "TIME", default_value = "100ms", value_parser = nanoseconds)]
    pub(crate) burst_gap: u64,
    /// Width of the windows of the working set over time
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = bin_width)]
    pub(crate) working_set_window: u64,
    /// Size of the blocks of reuse distances, a multiple of 1 KiB
    #[arg(long, value_name = "SIZE", default_value = "128K", value_parser = kibibytes)]
    pub(crate) reuse_block: u64,
    /// Compute reuse distances of all blocks; without it, of one block in eight
    /// in traces with very many
    #[arg(long)]
    pub(crate) exact_reuse: bool,
    /// The fast totals: requests, bytes, sizes and series alone. Nothing is paired
    /// (no latency, no queue depth), and no places or blocks are kept
    #[arg(long, visible_alias = "totals-only")]
    pub(crate) traffic_only: bool,
    /// Pair nothing: no latency, no queue depth, no stages, but all else. What is
    /// lost is then judged by the numbers of issues and completions
    #[arg(long)]
    pub(crate) no_latency: bool,
    /// Published time stamps and arithmetic in `series`
    #[arg(long)]
    pub(crate) compat: bool,
    /// Also write a page with plots
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Also write the series and distributions as CSV files into a folder
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The files of --out as Parquet instead of CSV
    #[arg(long, requires = "out")]
    pub(crate) parquet: bool,
    /// Read on as the file grows or is replaced, with its lines said every TIME; an interrupt ends it with the report
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "1s", value_parser = interval)]
    pub(crate) follow: Option<u64>,
    /// With --follow, also end when nothing was added for TIME
    #[arg(long, value_name = "TIME", requires = "follow", value_parser = nanoseconds)]
    pub(crate) until_quiet: Option<u64>,
    /// Fail when more than this share of requests is missing
    #[arg(long, value_name = "PERCENT")]
    pub(crate) max_loss: Option<f64>,
    /// Fail when more lines than this are malformed
    #[arg(long, value_name = "N")]
    pub(crate) max_malformed: Option<u64>,
    /// Short for --format csv
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub(crate) csv: bool,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Where bins of time begin.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Anchor {
    /// At the first request
    First,
    /// At multiples of their width of the trace's clock
    Epoch,
}

#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// Traces, then the table to write (.parquet or .csv)
    #[arg(value_name = "FILE", required = true, num_args = 2..)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CheopsArgs {
    /// A result folder of the published pipeline
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Which figure of the study
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u8).range(2..=6))]
    pub(crate) figure: u8,
    /// The published arithmetic and axes instead of the repaired ones
    #[arg(long)]
    pub(crate) compat: bool,
    /// Folder for the figures [default: only what is printed]
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct DeepnvmeArgs {
    /// Folder of result logs, searched with its folders
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct StacksArgs {
    /// Output of the stack-counting script or of any map keyed by stacks (and by
    /// more: comm, pid), or a trace whose events have call chains (perf script,
    /// tracefs)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Classes of your own, before the built-in ones: on each line a class, then
    /// beginnings of function names that mean it
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    /// Folded stacks for flame graph tools
    #[arg(long)]
    pub(crate) folded: bool,
    /// Also draw a flame graph
    #[arg(long, value_name = "SVG")]
    pub(crate) svg: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct FioArgs {
    /// fio's result as JSON
    #[arg(value_name = "JSON")]
    pub(crate) file: PathBuf,
    /// The trace of the same run
    #[arg(long = "trace", id = "traces", value_name = "FILE", required = true, num_args = 1..)]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CompareArgs {
    /// The trace to compare with and the trace to judge; of several files each,
    /// those before and behind --with
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) files: Vec<PathBuf>,
    /// The files of the trace to judge, read as one
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    pub(crate) with: Vec<PathBuf>,
    /// For two recordings of one run: also report the offset of their clocks, from
    /// the requests that both contain
    #[arg(long)]
    pub(crate) clocks: bool,
    #[command(flatten)]
    pub(crate) trace: TraceArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct SynthArgs {
    /// What to make, as a JSON object (--help has its fields). Without it a small KV-offloading run
    ///
    /// Fields, all of which may be left out: requests, prefill_share (0 to 1), silence_ns (between prefill and decode),
    /// mean_gap_ns, arrivals (poisson, constant, bursts), mean_latency_ns, latency_law (exponential, constant, uniform,
    /// pareto), cache_bytes, first_sector, pattern (loop, sequential, strided, zipf, random), streams, stride_bytes,
    /// zipf_exponent, sizes (an object of bytes and weights, {"4096": 3, "131072": 1}), noise_share (0 to 1),
    /// lost_completions (0 to 1), reorder_ns, start_ns.
    #[arg(long, value_name = "FILE")]
    pub(crate) spec: Option<PathBuf>,
    /// Seed of the random numbers
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Requests, in place of the specification's
    #[arg(long, value_name = "N")]
    pub(crate) requests: Option<u64>,
    /// Two-line events with completions instead of the five-column issue log
    #[arg(long)]
    pub(crate) events: bool,
    /// Write the truth here, as JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) truth: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct CollectArgs {
    /// Device or partition to trace (/dev/nvme0n1); the whole disk is traced
    #[arg(value_name = "DEVICE")]
    pub(crate) device: PathBuf,
    /// New folder for the recording; should not be on the traced device
    #[arg(long, value_name = "DIR")]
    pub(crate) out: PathBuf,
    /// How to record [default: bpftrace where it works, else tracefs]
    #[arg(long, value_enum)]
    pub(crate) method: Option<Method>,
    /// Seconds to record when no command is given
    #[arg(long, value_name = "S", default_value_t = 10.0)]
    pub(crate) seconds: f64,
    /// Print the bpftrace script and stop
    #[arg(long)]
    pub(crate) print_script: bool,
    /// Command to run while recording
    #[arg(last = true, value_name = "COMMAND")]
    pub(crate) command: Vec<String>,
    #[command(flatten)]
    pub(crate) script: ScriptArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// What the bpftrace script writes.
#[derive(Debug, Args)]
pub(crate) struct ScriptArgs {
    /// Lines at issue and at completion, which loses completions under load: to
    /// compare
    #[arg(long, help_heading = "bpftrace", conflicts_with_all = ["with_submitter", "comm"])]
    pub(crate) events: bool,
    /// Name the process that queued a request, not the worker that issued it
    #[arg(long, help_heading = "bpftrace")]
    pub(crate) with_submitter: bool,
    /// Only requests that processes of this name issued (queued, with
    /// --with-submitter)
    #[arg(long, value_name = "NAME", help_heading = "bpftrace", value_parser = comm)]
    pub(crate) comm: Option<String>,
}

/// Ways to record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Method {
    /// The shipped bpftrace script
    Bpftrace,
    /// An instance of tracefs
    Tracefs,
}

fn trace_format(text: &str) -> Result<TraceFormat, String> {
    TraceFormat::from_name(text).ok_or_else(|| {
        let names: Vec<&str> = TraceFormat::ALL
            .iter()
            .map(|format| format.name())
            .collect();
        format!("one of {}", names.join(", "))
    })
}

/// Returns a process name that can stand in a script.
fn comm(text: &str) -> Result<String, String> {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || " _-.:/#+@()".contains(c);
    if (1..16).contains(&text.len()) && text.chars().all(is_plain) {
        Ok(text.to_owned())
    } else {
        Err("up to 15 letters, digits, blanks or any of _-.:/#+@()".to_owned())
    }
}

/// `+01:00`, `-0530`, `2`, `UTC`: local time minus UTC in nanoseconds.
fn zone(text: &str) -> Result<i64, String> {
    let expected = || "expected a zone such as +01:00, -05:30 or UTC".to_owned();
    if matches!(text, "UTC" | "utc" | "Z") {
        return Ok(0);
    }
    let (sign, rest) = match text.strip_prefix('-') {
        Some(rest) => (-1, rest),
        None => (1, text.strip_prefix('+').unwrap_or(text)),
    };
    let (hours, minutes) = match (rest.split_once(':'), rest.len()) {
        (Some(parts), _) => parts,
        (None, 4) => rest.split_at_checked(2).ok_or_else(expected)?,
        (None, _) => (rest, "0"),
    };
    let number = |text: &str, most: u8| text.parse::<u8>().ok().filter(|n| *n <= most);
    match (number(hours, 14), number(minutes, 59)) {
        (Some(hours), Some(minutes)) => {
            let seconds = i64::from(hours) * 3600 + i64::from(minutes) * 60;
            Ok(sign * seconds * 1_000_000_000)
        }
        _ => Err(expected()),
    }
}

/// `NAME=START..END`, the ends as times.
pub(crate) fn phase(text: &str) -> Result<Named, String> {
    let expected = || "expected NAME=START..END, for example prefill=0s..21900ms".to_owned();
    let (name, ends) = text.rsplit_once('=').ok_or_else(expected)?;
    let (start, end) = ends.split_once("..").ok_or_else(expected)?;
    let zero = start
        .chars()
        .all(|c| matches!(c, '0' | '.') || c.is_ascii_alphabetic());
    let start_ns = if zero && start.starts_with('0') {
        0
    } else {
        nanoseconds(start)?
    };
    let end_ns = nanoseconds(end)?;
    if name.is_empty() || start_ns >= end_ns {
        return Err("a phase has a name and ends after it starts".to_owned());
    }
    Ok(Named {
        name: name.to_owned(),
        start_ns,
        end_ns,
    })
}

/// Returns what may follow `--follow`: a time, and no file.
fn interval(text: &str) -> Result<u64, String> {
    nanoseconds(text).map_err(|expected| format!("{expected}; the file goes before --follow"))
}

/// Returns a width of bins: a time from a millisecond on.
fn bin_width(text: &str) -> Result<u64, String> {
    match nanoseconds(text)? {
        width if width < 1_000_000 => Err("bins are 1ms wide or more".to_owned()),
        width => Ok(width),
    }
}

/// Returns a size of blocks in whole KiB.
fn kibibytes(text: &str) -> Result<u64, String> {
    let size: ByteSize = text
        .parse()
        .map_err(|e: cli::ByteSizeError| e.to_string())?;
    match size.bytes() {
        bytes if bytes == 0 || !bytes.is_multiple_of(1024) => {
            Err("not a multiple of 1K".to_owned())
        }
        bytes => Ok(bytes / 1024),
    }
}

/// `1s`, `1.5s`, `250ms`, `10us`, `5ns`.
pub(crate) fn nanoseconds(text: &str) -> Result<u64, String> {
    let at = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let (whole, decimals) = number.split_once('.').unwrap_or((number, ""));
    let unit: u64 = match unit {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" | "" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        _ => return Err("a number with ns, us, ms, s or min".to_owned()),
    };
    let value = || {
        // Decimals below a nanosecond are cut off.
        let mut part = 0;
        let mut place = unit;
        for digit in decimals.chars() {
            place /= 10;
            part += u64::from(digit.to_digit(10)?) * place;
        }
        let whole: u64 = whole.parse().ok()?;
        whole.checked_mul(unit)?.checked_add(part)
    };
    value()
        .filter(|n| *n > 0)
        .ok_or_else(|| "a number above zero with ns, us, ms, s or min".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory as _;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn only_what_reads_a_trace_is_under_the_heading_of_traces() {
        for command in Cli::command().get_subcommands() {
            for argument in command.get_arguments() {
                let is_of_traces = ["trace_format", "device", "reorder"];
                let wanted = is_of_traces.contains(&argument.get_id().as_str());
                let heading = argument.get_help_heading();
                let is_positional = argument.is_positional();
                assert_eq!(
                    heading == Some("Trace"),
                    wanted && !is_positional,
                    "{} {argument}",
                    command.get_name()
                );
            }
        }
    }

    #[test]
    fn times_and_devices() {
        assert_eq!(nanoseconds("250ms"), Ok(250_000_000));
        assert_eq!(nanoseconds("3"), Ok(3_000_000_000));
        assert!(nanoseconds("0s").is_err() && nanoseconds("1h").is_err());
        assert_eq!(nanoseconds("1.5s"), Ok(1_500_000_000));
        assert_eq!(nanoseconds("0.25min"), Ok(15_000_000_000));
        assert_eq!(nanoseconds("2.0000000019"), Ok(2_000_000_001));
        for wrong in ["1.5.2s", ".5s", "0.0s", "1.s5", "18446744073709551615.9s"] {
            assert!(nanoseconds(wrong).is_err(), "{wrong}");
        }
        let named = phase("decode=0.0s..2.5s").unwrap();
        assert_eq!((named.start_ns, named.end_ns), (0, 2_500_000_000));
        assert_eq!(bin_width("1ms"), Ok(1_000_000));
        assert!(bin_width("999us").is_err());
        let hour = 3_600_000_000_000;
        for (text, ns) in [
            ("+01:00", hour),
            ("UTC", 0),
            ("-0530", -hour * 11 / 2),
            ("2", 2 * hour),
        ] {
            assert_eq!(zone(text), Ok(ns), "{text}");
        }
        assert!(zone("+15:00").is_err() && zone("CET").is_err() && zone("1:60").is_err());
        let found = phase("decode=0..90min").unwrap();
        assert_eq!((found.start_ns, found.end_ns), (0, 5_400_000_000_000));
        assert_eq!(phase("a=b=1s..2500ms").unwrap().name, "a=b");
        for wrong in ["a", "a=1s", "=0s..1s", "a=2s..1s", "a=1s..1s", "a=0h..x"] {
            assert!(phase(wrong).is_err(), "{wrong}");
        }
    }
}
