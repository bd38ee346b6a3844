//! Display lanes of async events as the reference makes them, for `compat`.
//!
//! In the reference's tables the async identities whose first events have the same name share a
//! small set of lanes, and slices nest on the lane that they are drawn on. An identity keeps its
//! lane until another one takes it, which can as soon as the count of open slices is zero, be the
//! slices closed or not. Facts from `track_compressor.cc`.

use rustc_hash::FxHashMap;
use trace_model::{LaneId, ProcessId, StrId};

/// What an event does to the count of open slices of its lane.
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
    /// Its place among the events.
    pub(super) event: usize,
    /// The lane of its identity.
    pub(super) lane: LaneId,
    pub(super) name: Option<StrId>,
    pub(super) change: Change,
}

/// Identities that share lanes: those of this process, or of all, with this first name.
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

/// The lanes made so far.
#[derive(Debug, Default)]
pub(super) struct SharedLanes {
    first_names: FxHashMap<LaneId, Option<StrId>>,
    groups: FxHashMap<Group, Vec<Shared>>,
}

impl SharedLanes {
    /// The lane on which the next event in processing order is drawn. `make` makes one of a name.
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
