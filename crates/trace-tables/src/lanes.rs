//! Display lanes: rows on which viewers show the slices of many small related tracks.
//!
//! Tracks with one name under one parent (an async operation is a separate track, and there can be
//! thousands) share a small set of lanes. The rule is that of the reference's
//! `importers/common/track_compressor.cc`: a track keeps its lane until another track takes it;
//! else it takes the first lane without an open slice; else a new lane is created.

use std::collections::HashMap;

use trace_model::{LaneTimes, ProcessId, Slice, StrId, ThreadId, Trace, Track, TrackId, TrackKind};

/// Assigns display lanes to the slices of a trace, which must come in processing order.
///
/// A lane has the number of its first track, so the lane of a slice on an unshared track is its
/// track. Numbers from the count of tracks on denote lanes whose first track already gave its
/// number to another lane. A track that the reader marks as a lane ([`Track::is_lane`]) is
/// unchanged. Memory: some tens of bytes per shared track.
///
/// Nesting is not affected: depth and parent are those of the slice's own track.
#[derive(Debug)]
pub struct Lanes {
    /// Group whose lanes the track shares, by track.
    group: Vec<Option<usize>>,
    groups: Vec<Group>,
    /// `true` if the track's number is that of a lane, by track.
    used: Vec<bool>,
    next: usize,
}

/// Properties that the tracks of a group share.
#[derive(PartialEq, Eq, Hash)]
struct GroupKey {
    kind: TrackKind,
    name: Option<StrId>,
    parent: Option<TrackId>,
    process: Option<ProcessId>,
    thread: Option<ThreadId>,
}

/// Lanes that the tracks of a group share.
#[derive(Debug, Default)]
struct Group {
    /// Number of the lane, and the last track on it.
    lanes: Vec<(usize, TrackId)>,
    /// Time from which no slice is open on the lane.
    free_at: LaneTimes,
    /// Last lane of each track.
    last: HashMap<TrackId, usize>,
}

impl Group {
    /// Takes a lane for a slice of a track and returns its number; `None` if a new one is needed.
    fn take(&mut self, track: TrackId, start: i64, end: i64) -> Option<usize> {
        let last = self.last.get(&track).copied();
        let own = last.filter(|at| self.lanes[*at].1 == track);
        let at = own.or_else(|| self.free_at.first_until(start))?;
        self.lanes[at].1 = track;
        let free_at = self.free_at.get(at).map_or(end, |time| time.max(end));
        self.free_at.set(at, free_at);
        self.last.insert(track, at);
        Some(self.lanes[at].0)
    }

    fn push(&mut self, number: usize, track: TrackId, end: i64) {
        self.last.insert(track, self.lanes.len());
        self.lanes.push((number, track));
        self.free_at.push(end);
    }
}

impl Lanes {
    /// Creates the lanes for the tracks of `trace`, without slices.
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
                    groups.push(Group::default());
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

    /// Returns the lane of the next slice in processing order. Cost: logarithmic in the number of
    /// lanes of its group.
    pub fn lane_of(&mut self, slice: Slice<'_>) -> usize {
        let track = slice.track_id();
        let Some(group) = self.group.get(track.index()).copied().flatten() else {
            return track.index();
        };
        let group = &mut self.groups[group];
        let start = slice.ts().nanos();
        let end = slice
            .dur()
            .map_or(i64::MAX, |dur| start.saturating_add(dur.get()));
        if let Some(number) = group.take(track, start, end) {
            return number;
        }
        let number = if std::mem::replace(&mut self.used[track.index()], true) {
            self.next += 1;
            self.next - 1
        } else {
            track.index()
        };
        group.push(number, track, end);
        number
    }
}

/// Returns the group whose lanes a track shares. An overflow track, whose parent is the track of
/// the overlapping slices, belongs to the group of that track.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn lanes_are_those_of_asking_one_after_the_other(
            slices in prop::collection::vec((0_usize..6, 0_i64..20, prop_oneof![9 => 0_i64..60, 1 => Just(i64::MAX)]), 0..80)
        ) {
            let mut group = Group::default();
            // Track, and the time from which it is free.
            let mut twin: Vec<(usize, i64)> = Vec::new();
            let mut start = 0;
            for (track, gap, dur) in slices {
                start += gap;
                let end = start.saturating_add(dur);
                let found = twin
                    .iter()
                    .position(|(owner, _)| *owner == track)
                    .or_else(|| twin.iter().position(|(_, free_at)| *free_at <= start));
                let id = TrackId::new(track).unwrap();
                prop_assert_eq!(group.take(id, start, end), found);
                match found {
                    Some(at) => twin[at] = (track, twin[at].1.max(end)),
                    None => {
                        group.push(twin.len(), id, end);
                        twin.push((track, end));
                    }
                }
            }
        }
    }
}
