//! Which rank recorded which file.

use shell::OrExit as _;
use trace_model::Rank;
use trace_model::ranks::{Recording, assign};

use crate::NamedTrace;

/// Exit code when several files are of one rank, so that the question cannot be answered from them.
const SAME_RANK: u8 = 4;

/// Returns the rank of each trace of a job, as [`trace_model::ranks::assign`] decides.
///
/// # Errors
///
/// When two files are of one rank; the process then ends with exit code 4.
pub fn ranks(traces: &[NamedTrace]) -> anyhow::Result<Vec<Rank>> {
    let files: Vec<Recording<'_>> = traces.iter().map(recording).collect();
    let found = assign(&files).or_exit(SAME_RANK)?;
    Ok(found.ranks)
}

/// What a trace and its name say of the rank that it is of.
fn recording(input: &NamedTrace) -> Recording<'_> {
    let meta = input.trace.meta();
    let start = input.trace.slices().next().map(|s| s.ts().nanos());
    Recording {
        name: &input.name,
        stated: meta.rank(),
        world_size: meta.distributed.as_ref().and_then(|d| d.world_size),
        start_ns: start.map(|start| start.saturating_add(meta.base_time_ns)),
    }
}

/// Ends a join of several files of one rank with the exit code that says so.
///
/// # Errors
///
/// The refusal itself.
pub fn refuse_same_rank<T>(found: Result<T, trace_model::ranks::SameRank>) -> anyhow::Result<T> {
    found.or_exit(SAME_RANK)
}

/// Returns the rank that the name of a file spells.
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
            names.map(|name| NamedTrace {
                name: name.to_owned(),
                trace: TraceBuilder::new()
                    .finish(&FinishOptions::default())
                    .unwrap(),
            })
        };
        let numbers = |names| -> Vec<u32> {
            let found = ranks(&traces(names)).unwrap();
            found.iter().map(|r| r.0).collect()
        };
        assert_eq!(numbers(["rank5.json", "rank3.json"]), [5, 3]);
        assert_eq!(numbers(["b.json", "a_bs32.json"]), [1, 0]);
        assert!(ranks(&traces(["a/rank1.json", "b/rank1.json"])).is_err());
    }
}
