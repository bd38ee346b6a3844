//! Determines which rank recorded which file.

use cli::{OrExit as _, Outcome};
use trace_model::ranks::{NotOneJob, Recording, assign, misnamed};
use trace_model::{Rank, Trace};

pub use trace_model::ranks::names_have_sizes;

use crate::NamedTrace;

/// The ranks of the traces of a job.
#[derive(Debug)]
pub struct Ranks {
    /// Rank of each trace.
    pub ranks: Vec<Rank>,
    /// Reasons to doubt that the traces are of one job, each as a sentence.
    pub doubts: Vec<String>,
}

/// Returns the rank of each trace of a job, as determined by [`trace_model::ranks::assign`].
///
/// # Errors
///
/// Returns an error if the files are not the ranks of one job; the process then ends with exit code
/// 4.
pub fn ranks(traces: &[NamedTrace]) -> anyhow::Result<Ranks> {
    let files: Vec<Recording<'_>> = traces.iter().map(recording).collect();
    let found = assign(&files).or_exit(Outcome::CannotAnswer)?;
    Ok(Ranks {
        ranks: found.ranks,
        doubts: found.doubts.iter().map(ToString::to_string).collect(),
    })
}

/// Returns the information on the rank in a trace and its name.
fn recording(input: &NamedTrace) -> Recording<'_> {
    let meta = input.trace.meta();
    let start = input.trace.slices().next().map(|s| s.ts().nanos());
    // GPU activities are short: the last start is close to the end of the recording.
    let end = input.trace.slices().next_back().map(|s| s.ts().nanos());
    let since_1970 = |at: i64| at.saturating_add(meta.base_time_ns);
    Recording {
        start_ns: start.map(since_1970),
        end_ns: end.map(since_1970),
        ..Recording::new(&input.name, meta)
    }
}

/// Assigns the exit code of a failed join to files that are not the ranks of one job.
///
/// # Errors
///
/// The error itself.
pub fn refuse_other_jobs<T>(found: Result<T, NotOneJob>) -> anyhow::Result<T> {
    found.or_exit(Outcome::CannotAnswer)
}

/// Returns why the number in the name of a file is not its rank, as a sentence, if it has one that is not.
#[must_use]
pub fn doubt_on_rank(name: &str, trace: &Trace) -> Option<String> {
    misnamed(&Recording::new(name, trace.meta())).map(|doubt| doubt.to_string())
}

/// Returns the rank in the name of a file.
pub fn rank_in_name(path: &str) -> Option<Rank> {
    Rank::from_file_name(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use trace_model::{FinishOptions, TraceBuilder};

    #[test]
    fn equal_ranks_are_refused() {
        let traces = |names: [&str; 2]| {
            names.map(|name| {
                let trace = TraceBuilder::new().finish(&FinishOptions::default());
                NamedTrace::new(name.to_owned(), trace.unwrap())
            })
        };
        let numbers = |names| -> Vec<u32> {
            let found = ranks(&traces(names)).unwrap();
            found.ranks.iter().map(|r| r.0).collect()
        };
        assert_eq!(numbers(["rank5.json", "rank3.json"]), [5, 3]);
        assert_eq!(numbers(["b.json", "a_bs32.json"]), [1, 0]);
        assert!(ranks(&traces(["a/rank1.json", "b/rank1.json"])).is_err());
    }
}
