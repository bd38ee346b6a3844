//! Tracks: what descriptors say, which processes and threads there are, and in the end the place of
//! every lane.
//!
//! Descriptors may come after the events that use them, so events get *lanes* while they are read
//! and lanes get tracks at the end.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{
    LaneId, Pid, Process, ProcessId, StrId, Thread, ThreadId, Tid, TraceBuilder, Unit,
};

use crate::proto::annotation::intern_bytes;
use crate::proto::schema;
use crate::proto::wire::low32;

/// Longest chain of parents.
pub(super) const MAX_ANCESTORS: usize = 100;

/// To whom a track belongs by its own descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Thread(ThreadId),
    Process(ProcessId),
}

/// Whether siblings of one name share lanes in viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    ByName,
    ByKey(Option<StrId>),
    No,
}

/// What a counter's descriptor says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counter {
    pub(crate) multiplier: i64,
    pub(crate) incremental: bool,
    pub(crate) unit: Option<Unit>,
    pub(crate) unit_name: Option<StrId>,
    /// 1 if it counts the CPU time of its thread, 2 if its instructions.
    pub(crate) builtin: i32,
}

/// A declared track.
#[derive(Clone, Debug)]
pub(crate) struct Descriptor {
    pub(crate) parent: u64,
    pub(crate) name: Option<StrId>,
    pub(crate) owner: Option<Owner>,
    /// pid, and tid of a thread, as declared.
    numbers: (Option<i32>, Option<i32>),
    /// Keep apart from the thread's own track.
    pub(crate) separate: bool,
    pub(crate) merge: Merge,
    pub(crate) counter: Option<Counter>,
    pub(crate) is_state: bool,
}

/// The track of an event before it is resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Base {
    Uuid(u64),
    Thread(ThreadId),
}

/// What a lane stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum LaneKey {
    /// The track itself.
    On(Base),
    /// Instants of the whole trace.
    GlobalInstant,
    /// Instants of the process that the track belongs to.
    ProcessInstant(Base),
    /// An async identity of the trace, or of the process that the track belongs to.
    Async {
        id: u64,
        scope: Option<StrId>,
        local: Option<Base>,
    },
    /// CPU time of the thread that the track belongs to (older form).
    ThreadTime(Base),
    /// Instructions of the thread that the track belongs to (older form).
    Instructions(Base),
    /// The track itself, for a legacy event in `compat`: only if it belongs to a thread, or shares no
    /// lanes with siblings.
    Legacy {
        base: Base,
        of_thread: bool,
        unshared: bool,
    },
}

/// A lane: what it stands for and the first event on it, which names a track without name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) key: LaneKey,
    pub(crate) first: (i64, Option<StrId>),
}

/// What came of a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    New,
    Known,
    /// Another pid, tid, parent or kind than before.
    Conflict,
    /// No uuid, or no numbers.
    Incomplete,
}

/// Lanes to remember.
const RECENT: usize = 32;

/// All that is known of tracks while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    pub(crate) descriptors: FxHashMap<u64, Descriptor>,
    pub(crate) lanes: Vec<Lane>,
    index: FxHashMap<LaneKey, LaneId>,
    uuids: FxHashMap<u64, LaneId>,
    /// Lanes that were asked for lately, by a few bits of their uuid.
    recent: [Option<(u64, LaneId)>; RECENT],
    processes: FxHashMap<(u32, i32), ProcessId>,
    threads: FxHashMap<(u32, i32, i32), ThreadId>,
    /// The uuid that declared a process or thread, to notice numbers that are used again.
    declared_by: FxHashMap<Owner, u64>,
    /// Every process has a row for its main thread, and threads are named, as in Perfetto's tables.
    compat: bool,
    /// Threads that descriptors named.
    named: FxHashSet<ThreadId>,
    pub(crate) repaired: u32,
}

impl Tracks {
    /// Nothing known yet; with processes and threads as in Perfetto's tables if `compat`.
    pub(crate) fn new(compat: bool) -> Self {
        Self {
            compat,
            ..Self::default()
        }
    }

    /// The lane of the track with this uuid.
    #[inline]
    pub(crate) fn uuid_lane(&mut self, builder: &mut TraceBuilder, uuid: u64) -> LaneId {
        let slot = low32(uuid ^ (uuid >> 32)) as usize % RECENT;
        if let Some((known, lane)) = self.recent[slot]
            && known == uuid
        {
            return lane;
        }
        let lane = match self.uuids.get(&uuid) {
            Some(&lane) => lane,
            None => {
                let lane = self.new_lane(builder, LaneKey::On(Base::Uuid(uuid)));
                self.uuids.insert(uuid, lane);
                lane
            }
        };
        self.recent[slot] = Some((uuid, lane));
        lane
    }

    /// The lane that stands for `key`.
    pub(crate) fn lane(&mut self, builder: &mut TraceBuilder, key: LaneKey) -> LaneId {
        if let LaneKey::On(Base::Uuid(uuid)) = key {
            return self.uuid_lane(builder, uuid);
        }
        if let Some(&lane) = self.index.get(&key) {
            return lane;
        }
        let lane = self.new_lane(builder, key);
        self.index.insert(key, lane);
        lane
    }

    fn new_lane(&mut self, builder: &mut TraceBuilder, key: LaneKey) -> LaneId {
        self.lanes.push(Lane {
            key,
            first: (i64::MAX, None),
        });
        builder.lane(None)
    }

    /// Notes an event that may name its track.
    #[inline]
    pub(crate) fn note_name(&mut self, lane: LaneId, ts: i64, name: Option<StrId>) {
        if let Some(lane) = self.lanes.get_mut(lane.index())
            && ts < lane.first.0
            && name.is_some()
        {
            lane.first = (ts, name);
        }
    }

    /// The process of that number, which is made if it is new.
    pub(crate) fn process(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        pid: i32,
    ) -> ProcessId {
        if let Some(&process) = self.processes.get(&(machine, pid)) {
            return process;
        }
        self.start_process(builder, machine, pid)
    }

    fn start_process(&mut self, builder: &mut TraceBuilder, machine: u32, pid: i32) -> ProcessId {
        let process = builder.process(Process::new(Pid(pid.into())));
        self.processes.insert((machine, pid), process);
        let main = self.threads.get(&(machine, pid, pid)).copied();
        match main {
            Some(main) if builder.threads_mut()[main.index()].process.is_none() => {
                builder.threads_mut()[main.index()].process = Some(process);
            }
            _ if self.compat => {
                self.threads.remove(&(machine, pid, pid));
                self.thread(builder, machine, pid, pid);
            }
            _ => {}
        }
        process
    }

    /// The thread of those numbers, which is made if it is new.
    pub(crate) fn thread(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        pid: i32,
        tid: i32,
    ) -> ThreadId {
        if let Some(&thread) = self.threads.get(&(machine, pid, tid)) {
            return thread;
        }
        let thread = builder.thread(Thread {
            is_main: tid == pid,
            ..Thread::new(Tid(tid.into()), None)
        });
        self.threads.insert((machine, pid, tid), thread);
        let process = self.process(builder, machine, pid);
        builder.threads_mut()[thread.index()].process = Some(process);
        thread
    }

    /// Does a thread keep the name that a descriptor gave it, whatever a metadata event says?
    pub(crate) fn keeps_name(&self, thread: ThreadId) -> bool {
        self.compat && self.named.contains(&thread)
    }

    /// The process that owns a thread or is the owner itself.
    pub(crate) fn process_of(builder: &mut TraceBuilder, owner: Owner) -> Option<ProcessId> {
        match owner {
            Owner::Process(process) => Some(process),
            Owner::Thread(thread) => builder.threads_mut()[thread.index()].process,
        }
    }

    /// Takes a track descriptor in.
    pub(crate) fn declare(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        track: &schema::TrackDescriptor,
    ) -> Declared {
        let Some(uuid) = track.uuid else {
            return Declared::Incomplete;
        };
        let numbers = match (&track.thread, &track.process) {
            (Some(thread), _) if thread.pid.is_none() || thread.tid.is_none() => {
                return Declared::Incomplete;
            }
            (Some(thread), _) => (thread.pid, thread.tid),
            (None, Some(process)) if process.pid.is_none() => return Declared::Incomplete,
            (None, Some(process)) => (process.pid, None),
            (None, None) => (None, None),
        };
        let parent = track.parent_uuid.unwrap_or(0);
        if uuid == 0 && parent != 0 {
            return Declared::Incomplete;
        }
        let is_root = numbers.0.is_some();
        let counter = track.counter.as_ref().filter(|_| !is_root);
        let name = self.track_name(builder, track);
        let merge = self.merge(builder, track);
        let is_state = track.state.is_some() && !is_root && counter.is_none();
        let counter = counter.map(|c| self.counter(builder, c));
        let result = match self.descriptors.get_mut(&uuid) {
            Some(known) => {
                let mut same = (known.parent, known.numbers, known.counter.is_some())
                    == (parent, numbers, counter.is_some());
                if self.compat {
                    let details = |c: Counter| (c.multiplier, c.incremental, c.builtin);
                    same &= (known.merge, known.is_state, known.counter.map(details))
                        == (merge, is_state, counter.map(details));
                }
                if !same {
                    if self.compat {
                        self.name_owners(builder, machine, track);
                    }
                    return Declared::Conflict;
                }
                if known.name.is_none() || (known.merge == Merge::No && name.is_some()) {
                    known.name = name;
                }
                Declared::Known
            }
            None => {
                let owner = self.owner(builder, machine, uuid, numbers);
                let descriptor = Descriptor {
                    parent,
                    name,
                    owner,
                    numbers,
                    separate: track.disallow_merging_with_system_tracks == Some(true),
                    merge,
                    counter,
                    is_state,
                };
                self.descriptors.insert(uuid, descriptor);
                Declared::New
            }
        };
        if self.compat {
            self.name_owners(builder, machine, track);
            return result;
        }
        let owner = self.descriptors.get(&uuid).and_then(|d| d.owner);
        match (owner, &track.thread, &track.process) {
            (Some(Owner::Thread(id)), Some(thread), _) => self.name_thread(builder, id, thread),
            (Some(Owner::Process(id)), None, Some(process)) => {
                self.name_process(builder, id, process);
            }
            _ => {}
        }
        result
    }

    /// How the siblings of a track merge.
    fn merge(&mut self, builder: &mut TraceBuilder, track: &schema::TrackDescriptor) -> Merge {
        match (track.sibling_merge_behavior, &track.sibling_merge_key) {
            (Some(2), _) => Merge::No,
            (Some(3), Some(key)) => Merge::ByKey(Some(builder.string(key))),
            (Some(3), None) => Merge::ByKey(
                track
                    .sibling_merge_key_int
                    .map(|key| builder.string(&format!("sibling_merge_key_int:{key}"))),
            ),
            _ => Merge::ByName,
        }
    }

    /// Names the thread or process that has the numbers of a descriptor now, whoever declared it;
    /// it is made if it is new.
    fn name_owners(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        track: &schema::TrackDescriptor,
    ) {
        match (&track.thread, &track.process) {
            (Some(thread), _) => {
                self.declare_thread(builder, machine, thread);
            }
            (None, Some(process)) => {
                self.declare_process(builder, machine, process);
            }
            (None, None) => {}
        }
    }

    fn owner(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        uuid: u64,
        numbers: (Option<i32>, Option<i32>),
    ) -> Option<Owner> {
        let owner = match numbers {
            (Some(pid), Some(tid)) => Owner::Thread(self.thread(builder, machine, pid, tid)),
            (Some(pid), None) => Owner::Process(self.process(builder, machine, pid)),
            (None, _) => return None,
        };
        let owner = match (self.declared_by.contains_key(&owner), numbers) {
            (false, _) => owner,
            // Another track claims the same numbers: they were used again.
            (true, (Some(pid), Some(tid))) => {
                self.threads.remove(&(machine, pid, tid));
                Owner::Thread(self.thread(builder, machine, pid, tid))
            }
            (true, (Some(pid), None)) => {
                // The threads of the old process are gone with it.
                self.threads
                    .retain(|&(m, p, _), _| (m, p) != (machine, pid));
                Owner::Process(self.start_process(builder, machine, pid))
            }
            (true, (None, _)) => owner,
        };
        self.declared_by.insert(owner, uuid);
        Some(owner)
    }

    fn track_name(
        &mut self,
        builder: &mut TraceBuilder,
        track: &schema::TrackDescriptor,
    ) -> Option<StrId> {
        let name = track
            .name
            .as_ref()
            .or(track.static_name.as_ref())
            .or(track.atrace_name.as_ref());
        if let Some(name) = name {
            return Some(self.text(builder, name));
        }
        match track.counter.as_ref()?.r#type {
            Some(1) => Some(builder.string("thread_time")),
            Some(2) => Some(builder.string("thread_instruction_count")),
            _ => None,
        }
    }

    fn counter(
        &mut self,
        builder: &mut TraceBuilder,
        counter: &schema::CounterDescriptor,
    ) -> Counter {
        let (unit, unit_name) = match (counter.r#type, counter.unit) {
            (Some(1), _) => (Some(Unit::Nanos), None),
            (Some(2), _) => (Some(Unit::Count), None),
            (_, Some(1)) => (Some(Unit::Nanos), None),
            (_, Some(2)) => (Some(Unit::Count), None),
            (_, Some(3)) => (Some(Unit::Bytes), None),
            _ => match counter.unit_name.as_ref().filter(|n| !n.is_empty()) {
                Some(name) => (known_unit(name), Some(self.text(builder, name))),
                None => (None, None),
            },
        };
        Counter {
            multiplier: counter.unit_multiplier.unwrap_or(0),
            incremental: counter.is_incremental == Some(true),
            unit,
            unit_name,
            builtin: counter.r#type.unwrap_or(0),
        }
    }

    fn text(&mut self, builder: &mut TraceBuilder, bytes: &[u8]) -> StrId {
        intern_bytes(&mut builder.events.strings, bytes, &mut self.repaired)
    }

    fn name_thread(
        &mut self,
        builder: &mut TraceBuilder,
        id: ThreadId,
        thread: &schema::ThreadDescriptor,
    ) {
        if let Some(name) = thread.thread_name.as_ref().filter(|n| !n.is_empty()) {
            let name = self.text(builder, name);
            builder.threads_mut()[id.index()].name = Some(name);
            self.named.insert(id);
        }
        if let Some(index) = thread.legacy_sort_index {
            builder.threads_mut()[id.index()].sort_index = Some(index.into());
        }
    }

    fn name_process(
        &mut self,
        builder: &mut TraceBuilder,
        id: ProcessId,
        process: &schema::ProcessDescriptor,
    ) {
        let known = builder.processes_mut()[id.index()].name;
        if let Some(name) = process.process_name.as_ref().filter(|n| !n.is_empty())
            && known.is_none()
        {
            let name = self.text(builder, name);
            builder.processes_mut()[id.index()].name = Some(name);
        }
        if !process.process_labels.is_empty() {
            let labels = process.process_labels.join(&b","[..]);
            let labels = self.text(builder, &labels);
            builder.processes_mut()[id.index()].labels = Some(labels);
        }
        if let Some(index) = process.legacy_sort_index {
            builder.processes_mut()[id.index()].sort_index = Some(index.into());
        }
    }

    /// A process descriptor in the older form: names only.
    pub(crate) fn declare_process(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        process: &schema::ProcessDescriptor,
    ) -> Declared {
        let Some(pid) = process.pid else {
            return Declared::Incomplete;
        };
        let id = self.process(builder, machine, pid);
        self.name_process(builder, id, process);
        Declared::Known
    }

    /// A thread descriptor in the older form: names only.
    pub(crate) fn declare_thread(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        thread: &schema::ThreadDescriptor,
    ) -> Declared {
        let (Some(pid), Some(tid)) = (thread.pid, thread.tid) else {
            return Declared::Incomplete;
        };
        let id = self.thread(builder, machine, pid, tid);
        self.name_thread(builder, id, thread);
        Declared::Known
    }

    /// Names of processes and threads that track events use and nobody has named.
    pub(crate) fn name_from_tree(
        &mut self,
        builder: &mut TraceBuilder,
        machine: u32,
        tree: &schema::ProcessTree,
    ) {
        for process in &tree.processes {
            let known = process
                .pid
                .and_then(|pid| self.processes.get(&(machine, pid)).copied());
            if let (Some(id), Some(name)) = (known, process.cmdline.first())
                && builder.processes_mut()[id.index()].name.is_none()
            {
                let name = self.text(builder, name);
                builder.processes_mut()[id.index()].name = Some(name);
            }
        }
        for thread in &tree.threads {
            let (Some(tid), Some(tgid), Some(name)) = (thread.tid, thread.tgid, &thread.name)
            else {
                continue;
            };
            if let Some(&id) = self.threads.get(&(machine, tgid, tid))
                && builder.threads_mut()[id.index()].name.is_none()
            {
                let name = self.text(builder, name);
                builder.threads_mut()[id.index()].name = Some(name);
            }
        }
    }

    /// The owner of a track: its own, or that of the nearest ancestor that has one. `None` for the
    /// trace as a whole; an error for chains that loop, are too long or miss an ancestor.
    pub(crate) fn owner_of(&self, base: Base) -> Result<Option<Owner>, BrokenChain> {
        let uuid = match base {
            Base::Thread(thread) => return Ok(Some(Owner::Thread(thread))),
            Base::Uuid(uuid) => uuid,
        };
        self.check_chain(uuid)?;
        let mut at = uuid;
        while let Some(descriptor) = self.descriptors.get(&at) {
            if descriptor.owner.is_some() {
                return Ok(descriptor.owner);
            }
            if descriptor.parent == 0 {
                break;
            }
            at = descriptor.parent;
        }
        Ok(None)
    }

    fn check_chain(&self, uuid: u64) -> Result<(), BrokenChain> {
        let mut at = uuid;
        for step in 0..MAX_ANCESTORS {
            match self.descriptors.get(&at) {
                _ if at == 0 => return Ok(()),
                Some(descriptor) if descriptor.parent == 0 => return Ok(()),
                // A loop never gets to 0, and ends with the steps.
                Some(descriptor) => at = descriptor.parent,
                // A track that only events mention stands by itself.
                None if step == 0 || self.uuids.contains_key(&at) => return Ok(()),
                None => return Err(BrokenChain),
            }
        }
        Err(BrokenChain)
    }
}

/// The ancestors of a track cannot be resolved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BrokenChain;

/// The units that have a type of their own.
fn known_unit(name: &[u8]) -> Option<Unit> {
    [
        Unit::Nanos,
        Unit::Bytes,
        Unit::Count,
        Unit::BytesPerSecond,
        Unit::Percent,
        Unit::Hertz,
        Unit::Watts,
        Unit::Celsius,
    ]
    .into_iter()
    .find(|unit| unit.perfetto_name().as_bytes() == name)
}
