//! The command line.

use std::path::PathBuf;

use clap::{Args, Parser, ValueEnum};
use cli::{FormatArgs, HasJson, InputArgs, VerbosityArgs};

const AFTER_HELP: &str = "\
A and B are folders with *_perf_data.csv files (searched through), one such file
with its *_counters_data.csv beside it, or a table of samples (CSV or Parquet)
with the columns metric, value and optionally unit, group, run, cycle, workload;
CSV plain or compressed (gzip, zstd, xz). Results of vllm bench serve and
sglang.bench_serving (JSON, best with details) and scrapes of Prometheus metrics
are such tables too.

Recording an input: export per-cycle data of both runs with the same anchor and
load, at least 20 cycles a side, and record counters with it.

Example:
  perf-compare normal_perf_data abnormal_perf_data
  perf-compare --gate --min-effect 2% main.csv this.csv --junit junit.xml
  perf-compare --compat Processed -o reports

Exit codes: 0 report written; 1 changed for the worse (--gate), no pair written
(--compat); 2 wrong usage; 3 unreadable input; 4 not comparable (see --force), or
the gate cannot decide; 5 output not written.";

/// Did the second run differ from the first, by how much, and why?
///
/// Compares microseconds per cycle by permutation of blocks of cycles, controls the rate of false
/// findings, and names the cause from counters and times.
#[derive(Debug, Parser)]
#[command(
    name = "perf-compare",
    version,
    after_help = AFTER_HELP,
    infer_long_args = true,
    max_term_width = 80
)]
pub(crate) struct Cli {
    /// Baseline and candidate; with --compat, folders and files of pairs
    #[arg(value_name = "INPUT", required_unless_present_any = ["print_signatures", "baseline"])]
    pub(crate) inputs: Vec<PathBuf>,
    /// File for the report ('-' is standard output); with --compat, the folder for all of them
    #[arg(
        short,
        long,
        value_name = "PATH",
        visible_alias = "report_dir",
        alias = "report-dir"
    )]
    pub(crate) output: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) format: FormatArgs<Format>,
    /// Also write a self-contained page with distributions and intervals
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Compare although the two are not comparable
    #[arg(long)]
    pub(crate) force: bool,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
    #[command(flatten)]
    pub(crate) statistics: StatisticsArgs,
    #[command(flatten)]
    pub(crate) gate: GateArgs,
    #[command(flatten)]
    pub(crate) compat: CompatArgs,
    #[command(flatten)]
    pub(crate) input: InputArgs,
}

/// Formats of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum Format {
    /// At most 25 lines for people
    #[default]
    Text,
    /// One JSON document, exact values
    Json,
    /// One row per function or metric
    Csv,
    /// Markdown for a pull request
    Md,
}

impl HasJson for Format {
    const JSON: Self = Self::Json;
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Statistics")]
pub(crate) struct StatisticsArgs {
    /// Permutations of each test
    #[arg(long, value_name = "N", default_value_t = 9_999)]
    pub(crate) permutations: usize,
    /// Resamples of each interval
    #[arg(long, value_name = "N", default_value_t = 1_999)]
    pub(crate) resamples: usize,
    /// Seed of all random numbers [default: 20240229]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// False discovery rate
    #[arg(long, value_name = "RATE", default_value_t = 0.05)]
    pub(crate) level: f64,
    /// Ignore changes below this part of the cycle (a gate: of the metric) [default: 0.5%]
    #[arg(long, value_name = "PERCENT", value_parser = percent)]
    pub(crate) min_effect: Option<f64>,
    /// Ignore changes below this many microseconds per cycle
    #[arg(long, value_name = "US", default_value_t = 20.0)]
    pub(crate) min_effect_us: f64,
    /// Call equal what differs by no more than this
    #[arg(long, value_name = "PERCENT", value_parser = percent, default_value = "3%")]
    pub(crate) equivalence: f64,
    /// Assume nothing about the dependence between tests (Benjamini-Yekutieli)
    #[arg(long)]
    pub(crate) any_dependence: bool,
    /// Match these processes with each other, by number
    #[arg(long, value_name = "A:B", value_parser = pids)]
    pub(crate) map: Vec<(i64, i64)>,
    /// Declare two anchors to cut the same cycles, under different names
    #[arg(long, value_name = "A=B", value_parser = anchors)]
    pub(crate) same_anchor: Vec<(String, String)>,
    /// Add signatures of causes from a TOML file
    #[arg(long, value_name = "FILE")]
    pub(crate) signatures: Vec<PathBuf>,
    /// Print the built-in signatures, which document the format, and end
    #[arg(long)]
    pub(crate) print_signatures: bool,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Gate")]
pub(crate) struct GateArgs {
    /// Exit with 1 for a regression, 4 if it cannot be determined
    #[arg(long)]
    pub(crate) gate: bool,
    /// Change that fails the gate
    #[arg(
        long,
        value_enum,
        value_name = "WHAT",
        default_value_t,
        requires = "gate"
    )]
    pub(crate) fail_on: FailOn,
    /// The baseline, instead of the first input
    #[arg(long, value_name = "PATH")]
    pub(crate) baseline: Option<PathBuf>,
    /// Write the candidate as a table of samples, to be a baseline later
    #[arg(long, value_name = "FILE")]
    pub(crate) save_baseline: Option<PathBuf>,
    /// Write the gate's cases as JUnit XML
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Write the report as Markdown
    #[arg(long, value_name = "FILE")]
    pub(crate) markdown: Option<PathBuf>,
}

/// Changes that fail a gate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum FailOn {
    /// A change for the worse
    #[default]
    Regressed,
    /// Any change
    Changed,
}

impl From<FailOn> for perf_compare::FailOn {
    fn from(value: FailOn) -> Self {
        match value {
            FailOn::Regressed => Self::Regressed,
            FailOn::Changed => Self::Changed,
        }
    }
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Published comparison")]
pub(crate) struct CompatArgs {
    /// Make the published comparison of all normal/abnormal pairs, into the folder -o
    #[arg(long)]
    pub(crate) compat: bool,
    /// Roles whose scores stay below this are alike
    #[arg(long, value_name = "SCORE", default_value_t = 5.0)]
    pub(crate) similarity_threshold: f64,
    /// Warn about roles that differ by more than this
    #[arg(long, value_name = "SCORE", default_value_t = 50.0)]
    pub(crate) warning_threshold: f64,
    /// Keep the similarity threshold as given
    #[arg(long)]
    pub(crate) disable_threshold_fit: bool,
    /// Accepted and ignored; -v tells more
    #[arg(long, hide = true)]
    pub(crate) debug: bool,
}

/// Parses `2%` or `2`, in percent.
fn percent(text: &str) -> Result<f64, String> {
    let number = text.trim().trim_end_matches('%').trim();
    match number.parse::<f64>() {
        Ok(value) if value.is_finite() && (0.0..=1000.0).contains(&value) => Ok(value),
        _ => Err("give a percentage such as 2%".to_owned()),
    }
}

/// Parses `Scheduler.run_batch=EngineCore.step`.
fn anchors(text: &str) -> Result<(String, String), String> {
    text.split_once('=')
        .map(|(a, b)| (a.trim().to_owned(), b.trim().to_owned()))
        .filter(|(a, b)| !a.is_empty() && !b.is_empty())
        .ok_or_else(|| "give two names of anchors, baseline=candidate".to_owned())
}

/// Parses `11:22`.
fn pids(text: &str) -> Result<(i64, i64), String> {
    let parse = |text: &str| text.trim().parse::<i64>().ok();
    text.split_once(':')
        .and_then(|(a, b)| Some((parse(a)?, parse(b)?)))
        .ok_or_else(|| "give two process numbers, baseline:candidate".to_owned())
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
    fn spellings() {
        let parse = |line: &str| {
            Cli::try_parse_from(std::iter::once("perf-compare").chain(line.split_whitespace()))
        };
        let cli = parse("a b --format json --force --map 1:2").unwrap();
        assert_eq!(
            (cli.inputs.len(), cli.format.format(), cli.force),
            (2, Format::Json, true)
        );
        assert_eq!(cli.statistics.map, [(1, 2)]);
        let cli = parse("--gate --fail-on regressed --min-effect 2% --baseline a b").unwrap();
        assert_eq!(cli.statistics.min_effect, Some(2.0));
        let cli = parse("--compat x y -o out --similarity-threshold 3").unwrap();
        assert!(cli.compat.compat && cli.compat.similarity_threshold < 4.0);
        assert!(parse("").is_err());
        assert!(parse("a b --min-effect many").is_err());
    }
}
