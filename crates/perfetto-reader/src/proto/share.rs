//! Assigns display lanes as the reference does, for `compat`.
//!
//! In the reference's tables, the tracks of one name (or merge key) under one parent share a small
//! set of lanes, and slices nest on the lane on which they were displayed. A track keeps its lane
//! while a slice is open on it; then the next track takes it over, even if the count of open slices
//! is wrong because of unmatched ends. Two simultaneous instants on one lane nest even if they
//! belong to two tracks. Source: `track_compressor.cc` and `track_event_tracker.cc`.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use rustc_hash::FxHashMap;
use trace_model::{LaneId, ProcessId, StrId, ThreadId, Track, TrackKind};

use crate::proto::emit::{Action, Resolved};
use crate::proto::import::Importer;
use crate::proto::tracks::{Base, LaneKey, Merge, Owner, Tracks};

/// Effect of an event on the count of open slices of its lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    Begin,
    End,
    /// Begin and end.
    Instant,
    /// No effect, but the event may name its track.
    Name,
}

/// An event on a track that may share its lane.
#[derive(Clone, Copy, Debug)]
pub(super) struct Record {
    ts: i64,
    /// Its index among the builder's events; `None` if only the count changes.
    event: Option<usize>,
    key: LaneKey,
    name: Option<StrId>,
    op: Op,
}

/// Identifies the tracks that share lanes.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
enum Group {
    Declared {
        kind: TrackKind,
        owner: Option<Owner>,
        parent: u64,
        by_key: bool,
        key: Option<StrId>,
    },
    Async {
        process: Option<ProcessId>,
        scope: Option<StrId>,
        first_name: Option<StrId>,
    },
}

/// How a track creates lanes of its group.
#[derive(Clone, Copy, Debug)]
struct Factory {
    group: Group,
    kind: TrackKind,
    name: Option<StrId>,
    process: Option<ProcessId>,
    thread: Option<ThreadId>,
    uuid: Option<u64>,
}

#[derive(Debug)]
struct Shared {
    cookie: u64,
    open: u32,
    lane: Option<LaneId>,
    factory: Factory,
}

/// Assigns lanes in order of time.
struct Compressor<'i, 'o> {
    importer: &'i mut Importer<'o>,
    /// By uuid, once the track had an event; `None` if the track is not shared.
    factories: FxHashMap<u64, Option<Factory>>,
    groups: FxHashMap<Group, Vec<Shared>>,
    /// The first name of an async identity.
    first_names: FxHashMap<(Option<ProcessId>, u64), Option<StrId>>,
}

impl Importer<'_> {
    /// Records an event that was passed to the builder with index `event`.
    pub(super) fn note_shared(&mut self, ts: i64, event: usize, what: &Resolved) {
        if ts < 0 || self.builder.events.len() == event {
            return;
        }
        let Some(key) = self.tracks.lanes.get(what.lane.index()).map(|l| l.key) else {
            return;
        };
        let op = match what.action {
            Action::Begin => Op::Begin,
            Action::End => Op::End,
            Action::Instant => Op::Instant,
            // Rejected on such tracks, but the event names them.
            Action::Complete(_) | Action::Flow(_) => Op::Name,
            Action::State | Action::Counters => return,
        };
        let record = |key, op, event| Record {
            ts,
            event,
            key,
            name: what.name,
            op,
        };
        match key {
            LaneKey::On(Base::Uuid(_) | Base::OfSequence(_)) | LaneKey::Legacy { .. } => {
                self.shared.push(record(key, op, Some(event)));
            }
            LaneKey::Async { .. } | LaneKey::GlobalInstant | LaneKey::ProcessInstant(_) => {
                // The track that the event names is counted too, although nothing is displayed on
                // it.
                if let Base::Uuid(_) | Base::OfSequence(_) = what.base {
                    self.shared.push(record(LaneKey::On(what.base), op, None));
                }
                if let LaneKey::Async { .. } = key {
                    let op = match what.phase {
                        b'b' | b'S' => Op::Begin,
                        b'e' | b'T' => Op::End,
                        _ => Op::Instant,
                    };
                    self.shared.push(record(key, op, Some(event)));
                }
            }
            LaneKey::On(Base::Thread(_)) | LaneKey::ThreadTime(_) | LaneKey::Instructions(_) => {}
        }
    }

    /// Moves the events of shared tracks to the lanes on which they are displayed.
    pub(super) fn share_lanes(&mut self) {
        let mut records = std::mem::take(&mut self.shared);
        records.sort_by_key(|record| record.ts);
        let mut compressor = Compressor {
            importer: self,
            factories: FxHashMap::default(),
            groups: FxHashMap::default(),
            first_names: FxHashMap::default(),
        };
        for record in records {
            compressor.event(&record);
        }
    }
}

impl Compressor<'_, '_> {
    fn event(&mut self, record: &Record) {
        let tracks = &self.importer.tracks;
        let (factory, cookie) = match record.key {
            LaneKey::On(base) | LaneKey::Legacy { base, .. }
                if matches!(base, Base::OfSequence(_)) =>
            {
                let Some(Base::Uuid(uuid)) = tracks.settled(base) else {
                    return;
                };
                match self.factory(uuid, record.name) {
                    Some(factory) => (factory, uuid),
                    None => return,
                }
            }
            LaneKey::Legacy {
                base,
                of_thread: true,
                ..
            } if !matches!(
                self.importer.tracks.owner_of(base),
                Ok(Some(Owner::Thread(_)))
            ) =>
            {
                return;
            }
            LaneKey::On(Base::Uuid(uuid))
            | LaneKey::Legacy {
                base: Base::Uuid(uuid),
                ..
            } => match self.factory(uuid, record.name) {
                Some(factory) => (factory, uuid),
                None => return,
            },
            LaneKey::Async { id, scope, local } => {
                let Some(factory) = self.async_factory(id, scope, local, record.name) else {
                    return;
                };
                (factory, id)
            }
            _ => return,
        };
        if record.op == Op::Name {
            return;
        }
        let lanes = self.groups.entry(factory.group).or_default();
        let shared = lane_for(lanes, cookie, factory);
        match record.op {
            Op::Begin => shared.open += 1,
            Op::End => shared.open = shared.open.saturating_sub(1),
            Op::Instant | Op::Name => {}
        }
        let lane = match shared.lane {
            Some(lane) => lane,
            None => {
                let factory = &shared.factory;
                let track = self.importer.builder.track(Track {
                    name: factory.name,
                    process: factory.process,
                    thread: factory.thread,
                    uuid: factory.uuid,
                    is_lane: true,
                    ..Track::new(factory.kind)
                });
                *shared.lane.insert(self.importer.builder.lane(Some(track)))
            }
        };
        if let Some(event) = record.event {
            self.importer.builder.events.move_event(event, lane);
        }
    }

    /// Returns the lane factory of a declared track. The first call fixes its name.
    fn factory(&mut self, uuid: u64, event_name: Option<StrId>) -> Option<Factory> {
        if let Some(&known) = self.factories.get(&uuid) {
            return known;
        }
        let made = self.new_factory(uuid, event_name);
        self.factories.insert(uuid, made);
        made
    }

    fn new_factory(&mut self, uuid: u64, event_name: Option<StrId>) -> Option<Factory> {
        let tracks = &self.importer.tracks;
        let owner = tracks.owner_of(Base::Uuid(uuid)).ok()?;
        let descriptor = tracks.descriptors.get(&uuid);
        let parent = descriptor.map_or(0, |d| d.parent);
        let (name, merge) = match descriptor {
            Some(d) if d.owner.is_some() || d.counter.is_some() || d.is_state => (None, Merge::No),
            Some(d) => (d.name.or(event_name), d.merge),
            None if uuid == 0 => (None, Merge::ByName),
            None => (event_name, Merge::ByName),
        };
        let name = match (uuid, descriptor) {
            (0, None) => Some(self.importer.builder.string(super::place::DEFAULT_TRACK)),
            _ => name,
        };
        if parent != 0 {
            self.parent(parent);
        }
        let (by_key, key) = match merge {
            Merge::No => return None,
            Merge::ByName => (false, name),
            Merge::ByKey(key) => (true, key),
        };
        let kind = match owner {
            Some(Owner::Thread(_)) => TrackKind::ThreadChild,
            Some(Owner::Process(_)) => TrackKind::ProcessChild,
            None => TrackKind::Global,
        };
        let process = owner.and_then(|o| Tracks::process_of(&mut self.importer.builder, o));
        Some(Factory {
            group: Group::Declared {
                kind,
                owner,
                parent,
                by_key,
                key,
            },
            kind,
            name,
            process,
            thread: match owner {
                Some(Owner::Thread(thread)) => Some(thread),
                _ => None,
            },
            uuid: Some(uuid),
        })
    }

    /// Creates the first lane of a parent track if it has none: a child track implies it.
    fn parent(&mut self, uuid: u64) {
        let Some(factory) = self.factory(uuid, None) else {
            return;
        };
        let lanes = self.groups.entry(factory.group).or_default();
        if lanes.is_empty() {
            lane_for(lanes, 0, factory);
        }
    }

    fn async_factory(
        &mut self,
        id: u64,
        scope: Option<StrId>,
        local: Option<Base>,
        name: Option<StrId>,
    ) -> Option<Factory> {
        let process = match local {
            Some(base) => {
                let owner = self.importer.tracks.owner_of(base).ok()??;
                Some(Tracks::process_of(&mut self.importer.builder, owner)?)
            }
            None => None,
        };
        let first_name = *self.first_names.entry((process, id)).or_insert(name);
        Some(Factory {
            group: Group::Async {
                process,
                scope,
                first_name,
            },
            kind: match process {
                Some(_) => TrackKind::ProcessAsync,
                None => TrackKind::GlobalAsync,
            },
            name,
            process,
            thread: None,
            uuid: None,
        })
    }
}

/// Returns the lane of a track: its current one, else the first without an open slice, else a new
/// one.
#[expect(
    clippy::indexing_slicing,
    reason = "places found in, or just added to, the list"
)]
fn lane_for(lanes: &mut Vec<Shared>, cookie: u64, factory: Factory) -> &mut Shared {
    let found = lanes
        .iter()
        .position(|lane| lane.cookie == cookie)
        .or_else(|| lanes.iter().position(|lane| lane.open == 0));
    let at = match found {
        Some(at) => {
            lanes[at].cookie = cookie;
            at
        }
        None => {
            lanes.push(Shared {
                cookie,
                open: 0,
                lane: None,
                factory,
            });
            lanes.len() - 1
        }
    };
    &mut lanes[at]
}
