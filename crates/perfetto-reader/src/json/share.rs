//! Assigns the display lanes of async events as the reference does, for `compat`.
//!
//! In the reference's tables, async identities whose first events have the same name share a small
//! set of lanes, and slices nest on the lane on which they are displayed. An identity keeps its
//! lane until another one takes it, which is possible as soon as the count of open slices is zero,
//! even if slices are still open. Source: `track_compressor.cc`.

use rustc_hash::FxHashMap;
use trace_model::{LaneId, ProcessId, StrId};

/// Effect of an event on the count of open slices of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change {
    Begin,
    End,
    Instant,
}

/// An async event.
#[derive(Clone, Copy, Debug)]
pub(super) struct AsyncEvent {
    pub(super) ts: i64,
    /// Its index among the events.
    pub(super) event: usize,
    /// The lane of its identity.
    pub(super) lane: LaneId,
    pub(super) name: Option<StrId>,
    pub(super) change: Change,
}

/// Identities that share lanes: those with this first name in this process, or in all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Group {
    process: Option<ProcessId>,
    first_name: Option<StrId>,
}

#[derive(Debug)]
struct Shared {
    identity: LaneId,
    open: u32,
    lane: LaneId,
}

/// The lanes created so far.
#[derive(Debug, Default)]
pub(super) struct SharedLanes {
    first_names: FxHashMap<LaneId, Option<StrId>>,
    groups: FxHashMap<Group, Vec<Shared>>,
}

impl SharedLanes {
    /// Returns the lane on which the next event in processing order is displayed. `make` creates
    /// one with a given name.
    pub(super) fn lane_of(
        &mut self,
        event: &AsyncEvent,
        process: Option<ProcessId>,
        make: impl FnOnce(Option<StrId>) -> LaneId,
    ) -> LaneId {
        let first_name = *self.first_names.entry(event.lane).or_insert(event.name);
        let group = Group {
            process,
            first_name,
        };
        let lanes = self.groups.entry(group).or_default();
        let found = lanes
            .iter()
            .position(|lane| lane.identity == event.lane)
            .or_else(|| lanes.iter().position(|lane| lane.open == 0));
        let at = found.unwrap_or_else(|| {
            lanes.push(Shared {
                identity: event.lane,
                open: 0,
                lane: make(event.name),
            });
            lanes.len() - 1
        });
        let shared = &mut lanes[at];
        shared.identity = event.lane;
        match event.change {
            Change::Begin => shared.open += 1,
            Change::End => shared.open = shared.open.saturating_sub(1),
            Change::Instant => {}
        }
        shared.lane
    }
}
