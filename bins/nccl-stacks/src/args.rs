//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use cli::{FormatArgs, HasJson, InputArgs, OutputArgs, VerbosityArgs};
use launch_report::{Style, Weight};
use launch_stacks::Pick;
use trace_model::kernel::KernelRules;

/// The function that the original looks for.
pub(crate) const COMPAT_FUNCTION: &str =
    "/sgl-workspace/sglang/python/sglang/srt/managers/tp_worker.py(232): forward_batch_generation";

/// The kernel that the original looks for.
pub(crate) const COMPAT_KERNEL: &str = "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)";

const AFTER_HELP: &str = "\
Exposed communication is time in which communication runs and no computation;
memcpy does not hide it (as in trace-info). Bandwidths are those of nccl-tests
over the shortest duration of a collective on all its ranks, so they need the
traces of all ranks. Percentiles interpolate between the two nearest values.

Without a choice of kernels all collectives are taken, and without a function or
times the whole trace. Python frames need a recording with stacks; kernels of
CUDA and HIP graphs get the stacks of their capture with --capture.

Recording an input:
  SGLang     POST /start_profile with {\"num_steps\": 5, \"with_stack\": true,
             \"activities\": [\"CPU\", \"GPU\"]}; SGLANG_TORCH_PROFILER_DIR says where
  vLLM       vllm serve M --profiler-config '{\"profiler\": \"torch\",
             \"torch_profiler_dir\": \"/tmp/t\",
             \"torch_profiler_with_stack\": true}',
             then POST /start_profile and /stop_profile
  PyTorch    with torch.profiler.profile(with_stack=True) as p: step()
             p.export_chrome_trace(\"t.json.gz\")
  rocprofv3  rocprofv3 --hip-trace --rccl-trace --kernel-trace --marker-trace
             --output-format pftrace -- python3 serve.py

Example:
  nccl-stacks t.json.gz --function-name '%forward_batch_generation' --index 0

Exit codes: 0 report written, also when nothing was found; 1 nothing found
(--fail-on-empty); 2 wrong usage, no choice among several slices; 3 unreadable
trace; 4 no such function; 5 output not written.";

/// From which host call stacks were these GPU kernels launched, and what did they cost?
///
/// Reads Kineto/Chrome JSON, Perfetto traces and rocPD databases, plain or compressed. Several traces are the
/// ranks of one job: their stacks are merged and late ranks found.
#[derive(Debug, Parser)]
#[command(
    name = "nccl-stacks",
    version,
    after_help = AFTER_HELP,
    infer_long_args = true,
    max_term_width = 80
)]
pub(crate) struct Cli {
    /// Traces, folders of traces or globs ('-' is standard input)
    #[arg(value_name = "TRACE", required = true)]
    pub(crate) traces: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) window: WindowArgs,
    #[command(flatten)]
    pub(crate) kernels: KernelArgs,
    #[command(flatten)]
    pub(crate) stacks: StackArgs,
    #[command(flatten)]
    pub(crate) report: ReportArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs<Format>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
    /// Behave as the original: arrows only, its default function and kernel
    #[arg(long)]
    pub(crate) compat: bool,
}

impl Cli {
    /// Is the report text for reading, rather than of the documented forms?
    pub(crate) fn is_text(&self) -> bool {
        self.format.format() == Format::Text && !self.compat
    }

    /// How is the report written?
    pub(crate) fn style(&self) -> Style {
        Style {
            compat: self.compat,
            diff: self.report.diff,
            by_time: self.is_text(),
            leaf_first: self.report.is_leaf_first(),
            escape: self.report.escape,
            diagnostics: self.report.diagnostics,
            weight: match self.report.value {
                Value::Launches => Weight::Launches,
                Value::GpuNs => Weight::GpuNs,
                Value::ExposedNs => Weight::ExposedNs,
            },
            width: cli::terminal::table_width(),
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Window")]
pub(crate) struct WindowArgs {
    /// Host function whose slice gives the window; with % and _ as SQL LIKE
    #[arg(long, value_name = "NAME", conflicts_with = "window_regex")]
    pub(crate) function_name: Option<String>,
    /// As --function-name, by regular expression
    #[arg(long, value_name = "RE")]
    pub(crate) window_regex: Option<String>,
    /// Which matching slice, from 0
    #[arg(long, value_name = "N", allow_negative_numbers = true, group = "pick")]
    pub(crate) index: Option<i64>,
    /// All matching slices together
    #[arg(long, group = "pick")]
    pub(crate) all_windows: bool,
    /// The first matching slice
    #[arg(long, group = "pick")]
    pub(crate) first: bool,
    /// The last matching slice
    #[arg(long, group = "pick")]
    pub(crate) last: bool,
    /// Matching slices from A to before B
    #[arg(long, value_name = "A..B", group = "pick")]
    pub(crate) nth: Option<Pick>,
    /// Start of the window, with --duration
    #[arg(long, value_name = "NS", allow_negative_numbers = true)]
    pub(crate) start_ts: Option<i64>,
    /// Length of the window, with --start-ts
    #[arg(long, value_name = "NS", allow_negative_numbers = true)]
    pub(crate) duration: Option<i64>,
    /// Only launches on this thread (number or name); may be repeated
    #[arg(long, value_name = "THREAD", allow_negative_numbers = true)]
    pub(crate) thread: Vec<String>,
    /// Only launches of this process; may be repeated
    #[arg(long, value_name = "PID", allow_negative_numbers = true)]
    pub(crate) pid: Vec<i64>,
    /// Only launches inside the selected slice, not merely at its time
    #[arg(long)]
    pub(crate) within: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Kernels")]
pub(crate) struct KernelArgs {
    /// Kernel of exactly this name
    #[arg(long, value_name = "NAME")]
    pub(crate) kernel_name: Option<String>,
    /// Kernels matching a regular expression anywhere; may be repeated
    #[arg(long, value_name = "RE")]
    pub(crate) kernel: Vec<String>,
    /// Kernels whose whole name matches a glob; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub(crate) kernel_glob: Vec<String>,
    /// All collectives: NCCL, RCCL, MSCCL++, custom all-reduce (the default)
    #[arg(long)]
    pub(crate) collectives: bool,
    /// Rows of your own for the table of communication (docs/kernels.md)
    #[arg(long, value_name = "FILE", value_parser = trace_input::kernel_rules, conflicts_with = "compat")]
    pub(crate) classes: Option<KernelRules>,
    /// Last resort: take the k-th launch of a kernel name for its k-th run
    #[arg(long)]
    pub(crate) heuristic: bool,
    /// Traces recorded while the graphs were captured (put after the traces)
    #[arg(long, value_name = "TRACE", num_args = 1..)]
    pub(crate) capture: Vec<PathBuf>,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Stacks")]
pub(crate) struct StackArgs {
    /// Frames above the launch call
    #[arg(
        long,
        value_name = "N",
        default_value_t = 12,
        allow_negative_numbers = true
    )]
    pub(crate) stack_depth: i64,
    /// Numbers inside names that keep equal code apart [default: smart in text, else digits]
    #[arg(long, value_enum, value_name = "LEVEL")]
    pub(crate) normalize: Option<Normalise>,
    /// Which slices become frames
    #[arg(long, value_enum, value_name = "WHICH", default_value_t = Frames::All)]
    pub(crate) frames: Frames,
    /// Write runs of frames that repeat only once
    #[arg(long)]
    pub(crate) collapse_recursion: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Report")]
pub(crate) struct ReportArgs {
    /// Order of frames in text
    #[arg(long, value_enum, value_name = "ORDER", default_value_t = Order::TopDown, group = "direction")]
    pub(crate) order: Order,
    /// Short for --order top-down
    #[arg(long, group = "direction")]
    pub(crate) root_first: bool,
    /// Short for --order leaf-first
    #[arg(long, group = "direction")]
    pub(crate) leaf_first: bool,
    /// Only the first N stacks
    #[arg(long, value_name = "N")]
    pub(crate) top: Option<usize>,
    /// Only stacks with at least N launches
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub(crate) min_count: usize,
    /// What stacks are sorted by [default: gpu in text, else count]
    #[arg(long, value_enum, value_name = "KEY")]
    pub(crate) sort: Option<Sort>,
    /// What folded stacks and flame graphs weigh
    #[arg(long, value_enum, value_name = "WHAT", default_value_t = Value::Launches)]
    pub(crate) value: Value,
    /// Compare the second trace with the first
    #[arg(long)]
    pub(crate) diff: bool,
    /// How kernels were linked, contradictions, what could not be linked
    #[arg(long)]
    pub(crate) diagnostics: bool,
    /// Write control and non-ASCII characters in text as \xNN
    #[arg(long)]
    pub(crate) escape: bool,
    /// Exit with 1 when there are no stacks
    #[arg(long)]
    pub(crate) fail_on_empty: bool,
}

impl ReportArgs {
    /// Is the innermost frame written first?
    pub(crate) fn is_leaf_first(&self) -> bool {
        self.leaf_first || (!self.root_first && self.order == Order::LeafFirst)
    }
}

/// Formats of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// Text for people
    #[default]
    Text,
    /// One JSON document, exact values
    Json,
    /// One line for each stack
    Csv,
    /// Folded stacks, as flame graph tools read them
    Folded,
    /// A flame graph
    Svg,
    /// A self-contained page
    Html,
    /// A profile for speedscope.app
    Speedscope,
    /// Markdown for tickets
    Markdown,
}

impl From<Format> for launch_report::Format {
    fn from(format: Format) -> Self {
        match format {
            Format::Text => Self::Text,
            Format::Json => Self::Json,
            Format::Csv => Self::Csv,
            Format::Folded => Self::Folded,
            Format::Svg => Self::Svg,
            Format::Html => Self::Html,
            Format::Speedscope => Self::Speedscope,
            Format::Markdown => Self::Markdown,
        }
    }
}

impl HasJson for Format {
    const JSON: Self = Self::Json;
}

/// Order of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Order {
    /// Launch call first
    LeafFirst,
    /// Outermost function first
    TopDown,
}

/// Levels of normalisation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Normalise {
    /// Names as they are
    None,
    /// Without digits at the end
    Digits,
    /// Also without layer numbers, addresses and counters
    Smart,
}

/// Filters of frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Frames {
    /// Python functions only
    Python,
    /// All but Python functions
    Ops,
    /// All of them
    All,
    /// All but decorators, built-ins and the like
    NoWrappers,
}

/// Keys to sort by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Sort {
    /// Launches
    Count,
    /// Kernel time
    Gpu,
    /// Exposed communication
    Exposed,
    /// Message bytes
    Bytes,
}

/// Weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Value {
    /// Launch calls
    Launches,
    /// Kernel time
    #[value(name = "gpu_ns")]
    GpuNs,
    /// Exposed communication
    #[value(name = "exposed_ns")]
    ExposedNs,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    fn parse(line: &str) -> Result<Cli, clap::Error> {
        Cli::try_parse_from(std::iter::once("nccl-stacks").chain(line.split_whitespace()))
    }

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn prefixes_and_negative_values() {
        let cli = parse("t.json --func f --ind -1 --stack-d -3 --duration -5 --start 0").unwrap();
        assert_eq!(cli.window.function_name.as_deref(), Some("f"));
        assert_eq!(cli.window.index, Some(-1));
        assert_eq!(cli.stacks.stack_depth, -3);
        assert_eq!(
            (cli.window.start_ts, cli.window.duration),
            (Some(0), Some(-5))
        );
        assert!(parse("t.json --index x").is_err());
        assert!(parse("t.json --norm smart --frames no-wrappers").is_ok());
        assert!(parse("t.json --o x").is_err(), "output or order");
        assert_eq!(
            parse("-- -t.json").unwrap().traces,
            [PathBuf::from("-t.json")]
        );
    }

    #[test]
    fn kernel_options_do_not_shadow_each_other() {
        let cli = parse("t --kernel a --kernel b --kernel-glob c* --kernel-name d").unwrap();
        assert_eq!(cli.kernels.kernel, ["a", "b"]);
        assert_eq!(cli.kernels.kernel_glob, ["c*"]);
        assert_eq!(cli.kernels.kernel_name.as_deref(), Some("d"));
    }

    #[test]
    fn only_one_way_to_pick() {
        assert!(parse("t --first --last").is_err());
        assert!(parse("t --nth 1..3").is_ok());
        assert!(parse("t --nth 3").is_ok());
        assert!(parse("t --nth x").is_err());
    }
}
