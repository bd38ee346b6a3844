//! The command lines.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Parser;
use why_input::Question;

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
    fn conditions_are_parsed() {
        assert_eq!(fail_on("5%"), Ok(FailOn::Share(5.0)));
        assert_eq!(fail_on("2ms"), Ok(FailOn::Cost(2_000_000)));
        assert_eq!(
            fail_on("host_bound"),
            Ok(FailOn::Kind("host_bound".to_owned()))
        );
        assert!(fail_on("something").unwrap_err().contains("rank_skew"));
    }

    #[test]
    fn the_command_lines_are_consistent() {
        crate::command().debug_assert();
        crate::show_command().debug_assert();
        crate::extract_command().debug_assert();
    }
}
