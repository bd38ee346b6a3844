//! Assigns a track to every lane at the end of reading.

use rustc_hash::FxHashMap;
use trace_model::{LaneId, ProcessId, StrId, ThreadId, TraceBuilder, Track, TrackId, TrackKind};

use crate::proto::tracks::{Base, Lane, LaneKey, Merge, Owner, Tracks};

/// Name of the track of events that name none.
pub(super) const DEFAULT_TRACK: &str = "Default Track";

/// Creates tracks from lanes and descriptors.
pub(crate) struct Placer<'a> {
    tracks: &'a Tracks,
    builder: &'a mut TraceBuilder,
    /// Tracks by uuid; `None` if the chain of parents is broken.
    by_uuid: FxHashMap<u64, Option<TrackId>>,
    by_thread: FxHashMap<ThreadId, TrackId>,
    instants: FxHashMap<ProcessId, TrackId>,
    asyncs: FxHashMap<(u64, Option<StrId>, Option<ProcessId>), TrackId>,
    thread_counters: FxHashMap<(ThreadId, TrackKind), TrackId>,
    /// Names from first events, by uuid.
    first_names: FxHashMap<u64, StrId>,
}

/// Assigns a track to every lane. Lanes whose tracks cannot be resolved get none.
pub(crate) fn place_lanes(tracks: &Tracks, builder: &mut TraceBuilder) {
    let first_names = tracks
        .lanes
        .iter()
        .filter_map(|lane| match lane.key {
            LaneKey::On(Base::Uuid(uuid)) => Some((uuid, lane.first.1?)),
            _ => None,
        })
        .collect();
    let mut placer = Placer {
        tracks,
        builder,
        by_uuid: FxHashMap::default(),
        by_thread: FxHashMap::default(),
        instants: FxHashMap::default(),
        asyncs: FxHashMap::default(),
        thread_counters: FxHashMap::default(),
        first_names,
    };
    for (i, lane) in tracks.lanes.iter().enumerate() {
        let track = placer.track_of(lane);
        if let Some(id) = LaneId::new(i) {
            placer.builder.set_lane(id, track);
        }
    }
}

impl Placer<'_> {
    fn track_of(&mut self, lane: &Lane) -> Option<TrackId> {
        match lane.key {
            LaneKey::On(base) => self.base_track(base),
            LaneKey::Legacy {
                base,
                of_thread,
                unshared,
            } => {
                let owner = self.tracks.owner_of(base).ok()?;
                let track = self.base_track(base)?;
                let is_shared = self.builder.tracks_mut()[track.index()].kind.is_merged();
                let is_good = (!of_thread || matches!(owner, Some(Owner::Thread(_))))
                    && !(unshared && is_shared);
                is_good.then_some(track)
            }
            LaneKey::GlobalInstant => {
                Some(self.builder.track(Track::new(TrackKind::GlobalInstant)))
            }
            LaneKey::ProcessInstant(base) => {
                let process = self.process(base)?;
                if let Some(&track) = self.instants.get(&process) {
                    return Some(track);
                }
                let track = self.builder.track(Track {
                    process: Some(process),
                    ..Track::new(TrackKind::ProcessInstant)
                });
                self.instants.insert(process, track);
                Some(track)
            }
            LaneKey::Async { id, scope, local } => {
                let process = match local {
                    Some(base) => Some(self.process(base)?),
                    None => None,
                };
                let key = (id, scope, process);
                if let Some(&track) = self.asyncs.get(&key) {
                    return Some(track);
                }
                let kind = match process {
                    Some(_) => TrackKind::ProcessAsync,
                    None => TrackKind::GlobalAsync,
                };
                let track = self.builder.track(Track {
                    name: lane.first.1,
                    process,
                    ..Track::new(kind)
                });
                self.asyncs.insert(key, track);
                Some(track)
            }
            LaneKey::ThreadTime(base) => self.thread_counter(base, TrackKind::ThreadTime),
            LaneKey::Instructions(base) => self.thread_counter(base, TrackKind::ThreadInstructions),
        }
    }

    fn base_track(&mut self, base: Base) -> Option<TrackId> {
        match self.tracks.settled(base)? {
            Base::Uuid(uuid) => self.uuid_track(uuid),
            Base::Thread(thread) => Some(self.thread_track(thread, None)),
            Base::OfSequence(_) => None,
        }
    }

    fn process(&mut self, base: Base) -> Option<ProcessId> {
        let owner = self.tracks.owner_of(base).ok()??;
        Tracks::process_of(self.builder, owner)
    }

    fn thread_counter(&mut self, base: Base, kind: TrackKind) -> Option<TrackId> {
        let Some(Owner::Thread(thread)) = self.tracks.owner_of(base).ok()? else {
            return None;
        };
        if let Some(&track) = self.thread_counters.get(&(thread, kind)) {
            return Some(track);
        }
        let name = match kind {
            TrackKind::ThreadTime => "thread_time",
            _ => "thread_instruction_count",
        };
        let track = Track {
            name: Some(self.builder.string(name)),
            thread: Some(thread),
            process: self.builder.threads_mut()[thread.index()].process,
            ..Track::new(kind)
        };
        let track = self.builder.track(track);
        self.thread_counters.insert((thread, kind), track);
        Some(track)
    }

    fn thread_track(&mut self, thread: ThreadId, uuid: Option<u64>) -> TrackId {
        if let Some(&track) = self.by_thread.get(&thread) {
            let slot = &mut self.builder.tracks_mut()[track.index()].uuid;
            *slot = slot.or(uuid);
            return track;
        }
        let track = Track {
            thread: Some(thread),
            process: self.builder.threads_mut()[thread.index()].process,
            uuid,
            ..Track::new(TrackKind::Thread)
        };
        let track = self.builder.track(track);
        self.by_thread.insert(thread, track);
        track
    }

    /// Returns the track with this uuid; creates it and its ancestors if needed.
    fn uuid_track(&mut self, uuid: u64) -> Option<TrackId> {
        if let Some(&known) = self.by_uuid.get(&uuid) {
            return known;
        }
        let made = self.new_uuid_track(uuid);
        self.by_uuid.insert(uuid, made);
        made
    }

    fn new_uuid_track(&mut self, uuid: u64) -> Option<TrackId> {
        let owner = self.tracks.owner_of(Base::Uuid(uuid)).ok()?;
        let first_name = self.first_names.get(&uuid).copied();
        let Some(descriptor) = self.tracks.descriptors.get(&uuid) else {
            let name = match uuid {
                0 => Some(self.builder.string(DEFAULT_TRACK)),
                _ => first_name,
            };
            return Some(self.builder.track(Track {
                name,
                uuid: Some(uuid),
                ..Track::new(TrackKind::Global)
            }));
        };
        if let (Some(Owner::Thread(thread)), false) = (descriptor.owner, descriptor.separate) {
            return Some(self.thread_track(thread, Some(uuid)));
        }
        let process = owner.and_then(|owner| Tracks::process_of(self.builder, owner));
        let thread = match owner {
            Some(Owner::Thread(thread)) => Some(thread),
            _ => None,
        };
        let is_root = descriptor.owner.is_some();
        let parent = if is_root {
            None
        } else {
            self.parent(descriptor.parent)
        };
        let counter = descriptor.counter;
        let merges = descriptor.merge != Merge::No && !is_root;
        let kind = match (owner, counter.is_some(), merges) {
            (Some(Owner::Thread(_)), true, _) => TrackKind::ThreadCounter,
            (Some(Owner::Process(_)), true, _) => TrackKind::ProcessCounter,
            (None, true, _) => TrackKind::GlobalCounter,
            (Some(Owner::Thread(_)), false, true) => TrackKind::ThreadChild,
            (Some(Owner::Thread(_)), false, false) => TrackKind::ThreadChildUnmerged,
            (Some(Owner::Process(_)), false, true) => TrackKind::ProcessChild,
            (Some(Owner::Process(_)), false, false) => TrackKind::ProcessChildUnmerged,
            (None, false, true) => TrackKind::Global,
            (None, false, false) => TrackKind::GlobalUnmerged,
        };
        let name = match descriptor.name {
            Some(name) => Some(name),
            None if is_root || counter.is_some() => None,
            None => first_name,
        };
        Some(self.builder.track(Track {
            kind,
            name,
            parent,
            process,
            thread,
            uuid: Some(uuid),
            unit: counter.and_then(|c| c.unit),
            unit_name: counter.and_then(|c| c.unit_name),
            is_lane: false,
        }))
    }

    /// Returns the parent track, unless it is that of a thread or process, whose children are
    /// roots.
    fn parent(&mut self, uuid: u64) -> Option<TrackId> {
        let is_root = self
            .tracks
            .descriptors
            .get(&uuid)
            .is_some_and(|d| d.owner.is_some());
        if uuid == 0 || is_root {
            None
        } else {
            self.uuid_track(uuid)
        }
    }
}
