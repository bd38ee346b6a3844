//! Requests one by one, each with its issue and completion.

use std::path::PathBuf;

use crate::analyse::pairing::{Pairing, Policy};
use crate::analyse::pairs::Pairs;
use crate::analyse::runs::Runs;
use crate::analyse::traffic::Grid;
use crate::error::Result;
use crate::event::{EventKind, Symbols};
use crate::pipeline::{self, Outcome, Pass, ReadOptions};
use crate::rwbs::Direction;

/// A request with its issue and completion. Texts are numbers of [`Symbols`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Request {
    /// The kernel's device number; 0 where the trace names none.
    pub dev: u32,
    /// First sector of 512 bytes.
    pub sector: u64,
    /// Bytes.
    pub bytes: u32,
    /// Number of the operation letters.
    pub rwbs: u16,
    /// What they mean.
    pub direction: Direction,
    /// Process that issued it, 0 where unknown.
    pub pid: u32,
    /// Number of its name, 0 where unknown.
    pub comm: u32,
    /// When it was issued, for the last time.
    pub issue_ns: u64,
    /// When it completed.
    pub complete_ns: u64,
    /// When it was issued for the first time, if the driver gave it back since.
    pub first_issue_ns: Option<u64>,
    /// When the first of its bios was queued, where the trace says.
    pub queued_ns: Option<u64>,
}

/// Reads a trace and passes its requests on in the order of completion, paired as [`Stats::newest`](crate::Stats::newest) is.
///
/// The trace is read twice: only at its end it is known whether requests of one place were in flight at once. Memory is that of
/// the requests in flight.
///
/// # Errors
///
/// As [`pipeline::read`]; standard input and pipes cannot be read twice.
pub fn read_requests(
    paths: &[PathBuf],
    options: &ReadOptions,
    stale_ns: u64,
    take: &mut dyn FnMut(&[Request], &Symbols),
) -> Result<Outcome> {
    let (policy, pass, first) = first_pass(paths, options, stale_ns)?;
    let Some(policy) = policy else {
        // Nothing completed.
        return Ok(first);
    };
    let mut pairing = Pairing::of_requests(policy, stale_ns);
    let outcome = pipeline::read_pass(paths, options, pass, &mut |events, symbols| {
        pairing.observe_all(&events);
        let requests = pairing.take_requests();
        if !requests.is_empty() {
            take(&requests, symbols);
        }
    })?;
    Ok(outcome.unwrap_or(first))
}

/// Returns the policy, `None` for a trace without completions, and the pass that gives the right order.
fn first_pass(
    paths: &[PathBuf],
    options: &ReadOptions,
    stale_ns: u64,
) -> Result<(Option<Policy>, Pass, Outcome)> {
    for pass in [Pass::Streaming, Pass::Holding] {
        let grid = Grid::new(1_000_000_000, false);
        let (mut pairs, mut runs) = (Pairs::new(stale_ns, grid), Runs::within(grid));
        let mut completions = 0;
        let read = pipeline::read_pass(paths, options, pass, &mut |events, _| {
            let ends = events
                .iter()
                .filter(|event| event.kind == EventKind::Complete);
            completions += ends.count();
            pairs.take(&std::sync::Arc::new(runs.batch(events)));
        })?;
        if let Some(read) = read {
            pairs.finish();
            return Ok(((completions > 0).then(|| pairs.policy()), pass, read));
        }
    }
    Ok((None, Pass::Holding, Outcome::default()))
}
