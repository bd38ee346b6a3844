//! What is asked, as arguments of a command line.

use std::path::PathBuf;

use clap::Args;
use cli::{InputArgs, VerbosityArgs};
use findings::Choice;
use trace_input::ClassesArgs;

/// What is asked of which recordings.
#[derive(Debug, Args)]
pub struct Question {
    /// Recordings, and logs beside them
    #[arg(value_name = "PATH", required_unless_present_any = ["baseline", "candidate"])]
    pub paths: Vec<PathBuf>,
    /// Recordings before, to compare with --candidate
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "candidate", conflicts_with = "paths")]
    pub baseline: Vec<PathBuf>,
    /// Recordings after
    #[arg(long, value_name = "PATH", num_args = 1.., requires = "baseline")]
    pub candidate: Vec<PathBuf>,
    /// Only these steps, from 1; a single one is compared with its neighbours
    #[arg(long, value_name = "N|A..B", value_parser = steps)]
    pub step: Option<(u32, u32)>,
    /// Only steps within these nanoseconds of the recording
    #[arg(long, value_name = "A..B", value_parser = window)]
    pub window: Option<(i64, i64)>,
    /// Only steps of this phase: prefill, decode, mixed, or a name of steps
    #[arg(long, value_name = "NAME")]
    pub phase: Option<String>,
    /// The rank that is explained
    #[arg(long, value_name = "N")]
    pub rank: Option<u32>,
    /// The rank of a file, where it is stated wrongly or not at all
    #[arg(long, value_name = "FILE=N", value_parser = rank_of)]
    pub rank_of: Vec<(String, u32)>,
    /// Take each recording by itself: answer for the first one (or --rank), without captures and logs beside it
    #[arg(long)]
    pub no_join: bool,
    /// Steps are slices of this name (* any text, ? any character, | or)
    #[arg(long, value_name = "PATTERN")]
    pub step_pattern: Option<String>,
    /// How kernels are classified
    #[command(flatten)]
    pub classes: ClassesArgs,
    /// How inputs are read
    #[command(flatten)]
    pub input: InputArgs,
    /// Notes and progress
    #[command(flatten)]
    pub verbosity: VerbosityArgs,
}

impl Question {
    /// Returns the question of everything that there is at some paths, each taken as it is.
    #[must_use]
    pub fn of(paths: Vec<PathBuf>, input: InputArgs, verbosity: VerbosityArgs) -> Self {
        Self {
            paths,
            baseline: Vec::new(),
            candidate: Vec::new(),
            step: None,
            window: None,
            phase: None,
            rank: None,
            rank_of: Vec::new(),
            no_join: false,
            step_pattern: None,
            classes: ClassesArgs::default(),
            input,
            verbosity,
        }
    }

    /// Returns the part of the recordings that is asked for.
    #[must_use]
    pub fn choice(&self) -> Choice {
        Choice {
            steps: self.step,
            window_ns: self.window,
            phase: self.phase.clone(),
            rank: self.rank,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_are_parsed() {
        assert_eq!(steps("3"), Ok((3, 3)));
        assert_eq!(steps("12..40"), Ok((12, 40)));
        assert!(steps("0").is_err() && steps("5..2").is_err());
        assert_eq!(window("-5..7"), Ok((-5, 7)));
        assert!(window("7..7").is_err());
        assert_eq!(rank_of("a=b.json=3"), Ok(("a=b.json".to_owned(), 3)));
    }
}
