//! A trace without what viewers drop.

use trace_model::{BuildError, Slice, Trace, TrackKind};

use crate::copy::{Edit, copy};

/// A repaired copy, and what was repaired.
#[derive(Debug)]
#[non_exhaustive]
pub struct Repaired {
    /// The copy.
    pub trace: Trace,
    /// Slices that overlap another one of their thread, and are on a track of their own now.
    pub moved: u64,
    /// Slices without end, which end with the slice around them now, or with the trace.
    pub closed: u64,
}

/// Returns a copy in which slices of a track nest and end.
///
/// # Errors
/// As [`TraceBuilder::finish`](trace_model::TraceBuilder::finish).
pub fn repair(trace: &Trace) -> Result<Repaired, BuildError> {
    let is_moved = |slice: &Slice<'_>| slice.track().kind == TrackKind::ThreadOverflow;
    let count = |what: &dyn Fn(&Slice<'_>) -> bool| trace.slices().filter(|s| what(s)).count();
    let (moved, closed) = (count(&is_moved), count(&|slice| slice.dur().is_none()));
    let copied = copy(trace, &mut Closed, |builder| {
        let name = builder.string("overlapping slices");
        for track in builder.tracks_mut() {
            if track.kind == TrackKind::ThreadOverflow {
                track.kind = TrackKind::ThreadChildUnmerged;
                track.name = Some(name);
            }
        }
    })?;
    Ok(Repaired {
        trace: copied,
        moved: moved as u64,
        closed: closed as u64,
    })
}

struct Closed;

impl Edit for Closed {
    fn end(&self, slice: Slice<'_>) -> Option<i64> {
        let mut around = slice.ancestors();
        let parent = around.find_map(|outer| outer.dur().map(|_| outer.end()));
        let end = parent.unwrap_or_else(|| slice.end()).max(slice.ts());
        Some(end.nanos())
    }
}
