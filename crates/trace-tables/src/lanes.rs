//! Display lanes: where viewers draw the slices of many small tracks that belong together.
//!
//! Tracks of one name under one parent (an async operation is a track of its own, and there can be
//! thousands) share a small set of lanes. The rule is that of the reference's
//! `importers/common/track_compressor.cc`: a track keeps its lane as long as nobody else took it; else
//! it takes the first lane on which nothing is open; else a new one is opened.

use std::collections::HashMap;

use trace_model::{ProcessId, Slice, StrId, ThreadId, Trace, Track, TrackId, TrackKind};

/// Assigns display lanes to the slices of a trace, which must come in processing order.
///
/// A lane is numbered as the first track that was drawn on it, so that the lane of a slice on a track
/// that shares nothing is its track. Numbers from the count of tracks on stand for lanes whose
/// first track already gave its number to another lane. A track that the reader says is a lane
/// ([`Track::is_lane`]) is left as it is. Memory: a few bytes for each track that is shared.
///
/// Nesting is not affected: depth and parent are those of the slice's own track.
#[derive(Debug)]
pub struct Lanes {
    /// By track: the group whose lanes it shares.
    group: Vec<Option<usize>>,
    groups: Vec<Vec<Lane>>,
    /// By track: is its number that of a lane?
    used: Vec<bool>,
    next: usize,
}

/// What the tracks of a group have in common.
#[derive(PartialEq, Eq, Hash)]
struct GroupKey {
    kind: TrackKind,
    name: Option<StrId>,
    parent: Option<TrackId>,
    process: Option<ProcessId>,
    thread: Option<ThreadId>,
}

#[derive(Debug)]
struct Lane {
    number: usize,
    track: TrackId,
    /// Nothing is open on it from this time on.
    free_at: i64,
}

impl Lanes {
    /// Lanes for the tracks of `trace`; nothing is on them yet.
    #[must_use]
    pub fn new(trace: &Trace) -> Self {
        let tracks = trace.tracks();
        let mut numbers = HashMap::new();
        let mut groups = Vec::new();
        let group = tracks
            .iter()
            .map(|track| {
                let key = group_of(track, tracks)?;
                Some(*numbers.entry(key).or_insert_with(|| {
                    groups.push(Vec::new());
                    groups.len() - 1
                }))
            })
            .collect();
        Self {
            group,
            groups,
            used: vec![false; tracks.len()],
            next: tracks.len(),
        }
    }

    /// The lane of the next slice in processing order. Cost: a walk over the lanes of its group.
    pub fn lane_of(&mut self, slice: Slice<'_>) -> usize {
        let track = slice.track_id();
        let Some(group) = self.group.get(track.index()).copied().flatten() else {
            return track.index();
        };
        let lanes = &mut self.groups[group];
        let start = slice.ts().nanos();
        let end = slice
            .dur()
            .map_or(i64::MAX, |dur| start.saturating_add(dur.get()));
        let found = lanes
            .iter()
            .position(|lane| lane.track == track)
            .or_else(|| lanes.iter().position(|lane| lane.free_at <= start));
        if let Some(lane) = found.map(|at| &mut lanes[at]) {
            lane.track = track;
            lane.free_at = lane.free_at.max(end);
            return lane.number;
        }
        let number = if std::mem::replace(&mut self.used[track.index()], true) {
            self.next += 1;
            self.next - 1
        } else {
            track.index()
        };
        lanes.push(Lane {
            number,
            track,
            free_at: end,
        });
        number
    }
}

/// The group whose lanes a track shares. An overflow track, whose parent is the track it takes the
/// overlapping slices of, belongs to the group of that track.
fn group_of(track: &Track, tracks: &[Track]) -> Option<GroupKey> {
    if track.is_lane || !track.kind.is_merged() {
        return None;
    }
    let main = track
        .parent
        .and_then(|id| tracks.get(id.index()))
        .filter(|p| track.uuid.is_none() && p.kind == track.kind && p.name == track.name)
        .unwrap_or(track);
    Some(GroupKey {
        kind: main.kind,
        name: main.name,
        parent: main.parent,
        process: main.process,
        thread: main.thread,
    })
}
