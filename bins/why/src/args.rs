//! The command lines.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser};
use cli::{InputArgs, VerbosityArgs};
use findings::Choice;

const AFTER_HELP: &str = "\
Paths are files, folders, patterns and archives: Kineto JSON, Perfetto, rocPD,
Nsight Systems exports, and beside them block I/O logs with readings of wall
time, logs of nvidia-smi, and of vLLM and SGLang. What they are is found by
content; ranks of one job are joined.

Examples:
  inferscope why traces/ -o why.html
  inferscope why rank*.json.gz disk.events.txt --phase decode
  inferscope why --baseline before/ --candidate after/ --markdown
  inferscope why trace.json.gz --step 812
  inferscope why trace.json.gz --json --limit 20

Exit codes: 0 answered; 1 --fail-on is met; 2 wrong usage; 3 the recordings do
not hold the answer, or cannot be read; 5 an output cannot be written.";

/// Why steps of an inference take as long as they do
#[derive(Debug, Parser)]
#[command(name = "why", version, after_help = AFTER_HELP, infer_long_args = true, max_term_width = 80)]
pub(crate) struct WhyCli {
    #[command(flatten)]
    pub(crate) question: Question,
    /// Print the whole answer as JSON
    #[arg(long, conflicts_with = "markdown", help_heading = "Output")]
    pub(crate) json: bool,
    /// Print the answer as Markdown, for an issue or a job summary
    #[arg(long, help_heading = "Output")]
    pub(crate) markdown: bool,
    /// With --json: at most N findings, no figures, at most 25 kB
    #[arg(long, value_name = "N", requires = "json", help_heading = "Output")]
    pub(crate) limit: Option<usize>,
    /// With --limit: continue behind the finding that `cursor` named
    #[arg(long, value_name = "ID", requires = "limit", help_heading = "Output")]
    pub(crate) after: Option<String>,
    /// Write the answer as one page that opens from disk
    #[arg(short, long, value_name = "PAGE", help_heading = "Output")]
    pub(crate) output: Option<PathBuf>,
    /// Write findings, steps and paths as tracks, to be opened beside the recording
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) perfetto: Option<PathBuf>,
    /// Write GPU time by launch stack as a profile for speedscope
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(crate) speedscope: Option<PathBuf>,
    /// Replace outputs that exist already
    #[arg(long, help_heading = "Output")]
    pub(crate) force: bool,
    /// End with exit code 1 if a finding of this kind is at least likely, or one costs this much of a step (5%, 2ms)
    #[arg(long, value_name = "KIND|COST", value_parser = fail_on, help_heading = "Output")]
    pub(crate) fail_on: Vec<FailOn>,
}

/// Print one finding of why with all its evidence
#[derive(Debug, Parser)]
#[command(name = "show", version, infer_long_args = true, max_term_width = 80)]
pub(crate) struct ShowCli {
    /// Its id, as why prints it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) question: Question,
    /// Print it as JSON
    #[arg(long, help_heading = "Output")]
    pub(crate) json: bool,
}

/// Cut the step that a finding costs most out of its recording
#[derive(Debug, Parser)]
#[command(name = "extract", version, infer_long_args = true, max_term_width = 80)]
pub(crate) struct ExtractCli {
    /// Its id, as why prints it
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) question: Question,
    /// The Perfetto trace to write
    #[arg(short, long, value_name = "FILE", help_heading = "Output")]
    pub(crate) output: PathBuf,
}

/// What is asked of which recordings.
#[derive(Debug, Args)]
pub(crate) struct Question {
    /// Recordings, and logs beside them
    #[arg(value_name = "PATH", required_unless_present_any = ["baseline", "candidate"])]
    pub(crate) paths: Vec<PathBuf>,
    /// Recordings before, to compare with --candidate
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "candidate", conflicts_with = "paths")]
    pub(crate) baseline: Vec<PathBuf>,
    /// Recordings after
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "baseline")]
    pub(crate) candidate: Vec<PathBuf>,
    /// Only these steps, from 1; a single one is compared with its neighbours
    #[arg(long, value_name = "N|A..B", value_parser = steps)]
    pub(crate) step: Option<(u32, u32)>,
    /// Only steps within these nanoseconds of the recording
    #[arg(long, value_name = "A..B", value_parser = window)]
    pub(crate) window: Option<(i64, i64)>,
    /// Only steps of this phase: prefill, decode, mixed, or a name of steps
    #[arg(long, value_name = "NAME")]
    pub(crate) phase: Option<String>,
    /// The rank that is explained
    #[arg(long, value_name = "N")]
    pub(crate) rank: Option<u32>,
    /// The rank of a file, where it is stated wrongly or not at all
    #[arg(long, value_name = "FILE=N", value_parser = rank_of)]
    pub(crate) rank_of: Vec<(String, u32)>,
    /// Take each recording by itself: answer for the first one (or --rank), without captures and logs beside it
    #[arg(long)]
    pub(crate) no_join: bool,
    /// Steps are slices of this name (* any text, ? any character, | or)
    #[arg(long, value_name = "PATTERN")]
    pub(crate) step_pattern: Option<String>,
    #[command(flatten)]
    pub(crate) input: InputArgs,
    #[command(flatten)]
    pub(crate) verbosity: VerbosityArgs,
}

impl Question {
    pub(crate) fn choice(&self) -> Choice {
        Choice {
            steps: self.step,
            window_ns: self.window,
            phase: self.phase.clone(),
            rank: self.rank,
        }
    }
}

/// When the exit code is 1.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum FailOn {
    Kind(String),
    /// Share of the steps of a phase, in percent.
    Share(f64),
    /// Time of a step.
    Cost(i64),
}

fn fail_on(text: &str) -> Result<FailOn, String> {
    let number = |text: &str| {
        text.trim()
            .parse::<f64>()
            .ok()
            .filter(|n| n.is_finite() && *n >= 0.0)
    };
    if let Some(share) = text.strip_suffix('%').and_then(number) {
        return Ok(FailOn::Share(share));
    }
    for (unit, ns) in [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9)] {
        if let Some(cost) = text.strip_suffix(unit).and_then(number) {
            #[expect(clippy::cast_possible_truncation, reason = "casts of reals saturate")]
            return Ok(FailOn::Cost((cost * ns) as i64));
        }
    }
    let kinds = findings::Catalogue::builtin().kinds();
    match kinds.iter().any(|kind| kind.name == text) {
        true => Ok(FailOn::Kind(text.to_owned())),
        false => {
            let names: Vec<&str> = kinds.iter().map(|kind| kind.name.as_str()).collect();
            Err(format!(
                "expected a share (5%), a time (2ms) or one of {}",
                names.join(", ")
            ))
        }
    }
}

fn steps(text: &str) -> Result<(u32, u32), String> {
    let number = |text: &str| {
        let found = text.trim().parse::<u32>().ok().filter(|n| *n > 0);
        found.ok_or_else(|| format!("expected a number of a step from 1, not {text:?}"))
    };
    match text.split_once("..") {
        None => number(text).map(|n| (n, n)),
        Some((first, last)) => {
            let (first, last) = (number(first)?, number(last.trim_start_matches('='))?);
            match first <= last {
                true => Ok((first, last)),
                false => Err(format!(
                    "invalid steps {text:?}: the last is before the first"
                )),
            }
        }
    }
}

fn window(text: &str) -> Result<(i64, i64), String> {
    let parts = text
        .split_once("..")
        .and_then(|(begin, end)| Some((begin.trim().parse().ok()?, end.trim().parse().ok()?)));
    match parts {
        Some((begin, end)) if begin < end => Ok((begin, end)),
        Some(_) => Err(format!("invalid window {text:?}: end before start")),
        None => Err("expected A..B in nanoseconds of the recording".to_owned()),
    }
}

fn rank_of(text: &str) -> Result<(String, u32), String> {
    let parts = text.rsplit_once('=');
    let parts = parts.and_then(|(file, rank)| Some((file.to_owned(), rank.trim().parse().ok()?)));
    parts.ok_or_else(|| "expected FILE=N".to_owned())
}

/// Returns the words of a command line as one line.
pub(crate) fn command_line(words: &[OsString]) -> String {
    let words = words.iter().enumerate().map(|(at, word)| {
        let word = word.to_string_lossy();
        match at {
            // The name of the executable may have a folder.
            0 => word.rsplit(['/', '\\']).next().unwrap_or(&word).to_owned(),
            _ => word.into_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_and_conditions_are_parsed() {
        assert_eq!(steps("3"), Ok((3, 3)));
        assert_eq!(steps("12..40"), Ok((12, 40)));
        assert!(steps("0").is_err() && steps("5..2").is_err());
        assert_eq!(window("-5..7"), Ok((-5, 7)));
        assert!(window("7..7").is_err());
        assert_eq!(fail_on("5%"), Ok(FailOn::Share(5.0)));
        assert_eq!(fail_on("2ms"), Ok(FailOn::Cost(2_000_000)));
        assert_eq!(
            fail_on("host_bound"),
            Ok(FailOn::Kind("host_bound".to_owned()))
        );
        assert!(fail_on("something").unwrap_err().contains("rank_skew"));
        assert_eq!(rank_of("a=b.json=3"), Ok(("a=b.json".to_owned(), 3)));
    }

    #[test]
    fn the_command_lines_are_consistent() {
        crate::command().debug_assert();
        crate::show_command().debug_assert();
        crate::extract_command().debug_assert();
    }
}
