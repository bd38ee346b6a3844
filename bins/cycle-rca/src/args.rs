//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use cli::{Format, FormatArgs, HasJson, InputArgs, OutputArgs, VerbosityArgs};
use trace_input::ClassesArgs;

const AFTER_HELP: &str = "\
Recording an input:
  PyTorch    with torch.profiler.profile(with_stack=True) as p: step()
             p.export_chrome_trace(\"t.json.gz\")
  vLLM       set --profiler-config, then POST /start_profile and /stop_profile
  SGLang     POST /start_profile with {\"with_stack\": true}

Example:
  cycle-rca analyse t.json.gz
  cycle-rca batch runs -o out --format json | jq '.cases[].culprits[0]'

Exit codes: 0 done; 1 steps that alarm (sentinel); 2 wrong usage; 3 unreadable
trace; 4 no cycles or period found, sides not comparable (batch); 5 output not
written.";

/// From a serving trace to cycles, per-cycle performance and the cause
#[derive(Debug, Parser)]
#[command(
    name = "cycle-rca",
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
    /// Cut traces into cycles and say what each spent its time on
    Analyse(AnalyseArgs),
    /// Compare all pairs of folders `normal` and `abnormal` and name the culprits
    Batch(BatchArgs),
    /// Find the period of a trace; JSON with --output or --compat, unless a format
    /// is given
    Period(PeriodArgs),
    /// Watch steps by what their workload says they should take
    #[command(subcommand)]
    Sentinel(SentinelCommand),
    /// Say what the machines of a recording are made of, by its topo_component.csv
    Topology(TopologyArgs),
}

/// What a cycle is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Divide {
    /// One step of the engine
    #[default]
    Token,
    /// One layer of the model
    Layer,
}

/// What periods are found by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Method {
    /// The best that there is
    #[default]
    Auto,
    /// Calls of a Python function
    Python,
    /// The rhythm of probes in user space
    Probe,
    /// The rhythm of kernels
    Cuda,
}

/// Formats of results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum ResultFormat {
    /// Aligned text for people
    #[default]
    Text,
    /// One JSON document, exact values
    Json,
    /// The cycles as comma-separated values
    Csv,
    /// Time of each function in each cycle as a Parquet file; needs --output
    Parquet,
}

impl HasJson for ResultFormat {
    const JSON: Self = Self::Json;
}

/// How cycles are cut; the same for one trace and for pairs.
#[derive(Debug, Clone, Args)]
pub(crate) struct CutArgs {
    /// Function or range that is one step, instead of one that is found; a pattern
    /// with *, or a name without its number, means several
    #[arg(long, value_name = "NAME")]
    pub(crate) marker: Option<String>,
    /// Rules of engines, instead of those that come along
    #[arg(long, value_name = "FILE")]
    pub(crate) rules: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) classes: ClassesArgs,
    /// Compute what the published reference computes, defects included
    #[arg(long, conflicts_with = "classes")]
    pub(crate) compat: bool,
    /// What a cycle is
    #[arg(long, value_enum, default_value_t)]
    pub(crate) divide_by: Divide,
    /// With --compat: leave out what no step owns
    #[arg(long)]
    pub(crate) anchor_only: bool,
    /// With --compat: join the steps of several processes to one cycle
    #[arg(long)]
    pub(crate) align: bool,
    /// With --compat: cores of the host, instead of an estimate (-1)
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    pub(crate) cpu_cores: Option<i64>,
}

#[derive(Debug, Args)]
pub(crate) struct AnalyseArgs {
    /// Traces, or folders that are searched for traces
    #[arg(value_name = "PATH", required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Write the reports of each trace to this folder; ./results with --compat and
    /// with options that write files
    #[arg(long, value_name = "DIR")]
    pub(crate) output_dir: Option<PathBuf>,
    /// Also write the tables of functions and counters by cycle
    #[arg(long)]
    pub(crate) export_perf_data: bool,
    /// Also write a report in Markdown of the cycles that stand out, and the calls
    /// as a graph in DOT
    #[arg(long)]
    pub(crate) markdown: bool,
    /// Leave out of that report what passes nine tenths of its time on
    #[arg(long, requires = "markdown")]
    pub(crate) aggressive: bool,
    /// Also write the events of every cycle, a file each
    #[arg(long)]
    pub(crate) debug_export_cycles: bool,
    /// Take pairs of micro_event.csv and macro_counter.csv for traces
    #[arg(long)]
    pub(crate) csv: bool,
    /// Log of the engine's configuration, to be told beside the cycles
    #[arg(long, value_name = "FILE")]
    pub(crate) serving_log: Option<PathBuf>,
    /// Only list the functions that could be steps
    #[arg(long)]
    pub(crate) info: bool,
    /// Write cycles, phases, exposed communication and what costs most as tracks
    /// to open beside the trace
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write answer, steps and costs as one page for a browser
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cut: CutArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs<ResultFormat>,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct BatchArgs {
    /// Folder that is searched for folders `normal` with a sibling `abnormal`
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// Folder for the tables and reports of all cases
    #[arg(short = 'o', long, value_name = "OUT", default_value = "batch_results")]
    pub(crate) output_dir: PathBuf,
    /// Share of pairs without a difference that may give a culprit
    #[arg(long, value_name = "P", default_value_t = 0.05)]
    pub(crate) alpha: f64,
    /// Write cycles, phases, exposed communication and culprits of the abnormal
    /// sides as tracks to open beside the traces
    #[arg(long, value_name = "FILE")]
    pub(crate) perfetto: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cut: CutArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PeriodArgs {
    /// The trace ('-' is standard input)
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// What periods are found by
    #[arg(long, value_enum, default_value_t)]
    pub(crate) method: Method,
    /// Write the trace with the periods that each method finds
    #[arg(long, value_name = "FILE")]
    pub(crate) export_annotated_json: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) cut: CutArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// How much of a topology is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum TopologyReport {
    /// Hosts, and how many components there are of each category
    #[default]
    Summary,
    /// The components too, with all that is known of them
    Detailed,
}

#[derive(Debug, Args)]
pub(crate) struct TopologyArgs {
    /// The table, or the folder that has it
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// How much is shown
    #[arg(long, value_enum, default_value_t)]
    pub(crate) report: TopologyReport,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Subcommand)]
pub(crate) enum SentinelCommand {
    /// Fit the model of latency to steps of a healthy system
    Fit(FitArgs),
    /// Say which steps took longer than the model expects; exit code 1 on an alarm;
    /// JSON with --output, unless a format is given
    Watch(WatchArgs),
}

/// How often and how long growing files and addresses are read.
#[derive(Debug, Args)]
pub(crate) struct PaceArgs {
    /// Seconds between two looks at a growing file or an address
    #[arg(long, value_name = "SECONDS", default_value_t = 5.0, value_parser = seconds)]
    pub(crate) interval: f64,
    /// End after this many seconds [default: never; fit: 600]
    #[arg(long = "for", value_name = "SECONDS", value_parser = seconds)]
    pub(crate) during: Option<f64>,
}

impl PaceArgs {
    pub(crate) fn pace(&self) -> serving_watch::Pace {
        use std::time::Duration;
        serving_watch::Pace {
            interval: Duration::from_secs_f64(self.interval),
            during: self.during.map(Duration::from_secs_f64),
        }
    }
}

/// Parses seconds: more than nothing, less than a hundred years.
fn seconds(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 3.2e9 => Ok(value),
        _ => Err("expected seconds, more than 0".to_owned()),
    }
}

/// Parses hours, within limits that charts can have.
fn hours(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(value) if value > 0.0 && value < 1e6 => Ok(value),
        _ => Err("expected hours, more than 0".to_owned()),
    }
}

#[derive(Debug, Args)]
pub(crate) struct FitArgs {
    /// Tables of steps (.csv), logs of vLLM or SGLang (.log), traces that state
    /// their batches, or addresses of metrics (http://HOST:PORT/metrics)
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::Url)]
    pub(crate) files: Vec<PathBuf>,
    /// Hours between two false alarms that limits are set for
    #[arg(long, value_name = "HOURS", default_value_t = rca_cycles::sentinel::HOURS, value_parser = hours)]
    pub(crate) false_alarm_hours: f64,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Tables of steps (.csv), logs of vLLM or SGLang (.log), traces that state
    /// their batches, or addresses of metrics (http://HOST:PORT/metrics), which
    /// are asked until --for is over
    #[arg(value_name = "FILE", required = true, value_hint = clap::ValueHint::Url)]
    pub(crate) files: Vec<PathBuf>,
    /// The model that `sentinel fit` wrote
    #[arg(long, value_name = "FILE")]
    pub(crate) model: PathBuf,
    /// Wait for lines that are added to tables and logs, until --for is over
    #[arg(long)]
    pub(crate) follow: bool,
    /// Write the state as metrics for Prometheus (a textfile collector reads it)
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics: Option<PathBuf>,
    /// Send a JSON document to this address when an alarm begins or ends
    #[arg(long, value_name = "URL", value_hint = clap::ValueHint::Url)]
    pub(crate) webhook: Option<String>,
    #[command(flatten)]
    pub(crate) pace: PaceArgs,
    #[command(flatten)]
    pub(crate) format: FormatArgs,
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

/// Unless a format is given: text on standard output, JSON in a file.
pub(crate) fn format_of(given: &FormatArgs, output: &OutputArgs) -> Format {
    given.format_or(if output.output.is_some() {
        Format::Json
    } else {
        Format::Text
    })
}
