//! Tracks, processes and threads of a trace, and the final track of every lane.
//!
//! Descriptors may follow the events that use them, so events get *lanes* during reading and lanes
//! get tracks at the end.

mod declare;

pub(crate) use declare::Declared;
use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{
    LaneId, Pid, Process, ProcessId, StrId, Thread, ThreadId, Tid, TraceBuilder, Unit,
};

use crate::proto::wire::low32;

/// Maximum length of a chain of parents.
pub(super) const MAX_ANCESTORS: usize = 100;

/// Owner of a track according to its own descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Owner {
    Thread(ThreadId),
    Process(ProcessId),
}

/// How siblings with one name share lanes in viewers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Merge {
    ByName,
    ByKey(Option<StrId>),
    No,
}

/// Contents of a counter's descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Counter {
    pub(crate) multiplier: i64,
    pub(crate) incremental: bool,
    pub(crate) unit: Option<Unit>,
    pub(crate) unit_name: Option<StrId>,
    /// 1 if it counts the CPU time of its thread, 2 if it counts its instructions.
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
    /// `true` if it is kept apart from the thread's own track.
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
    /// Resolved at the end from the state of the sequence, for `compat`.
    OfSequence(u32),
}

/// An event without a track: it belongs to the thread that its sequence describes, if any.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct OfSequence {
    /// Index of the sequence.
    pub(crate) at: usize,
    /// Generation of its state.
    pub(crate) generation: u32,
    pub(crate) machine: u32,
    /// `true` if the thread of the sequence is acceptable.
    pub(crate) falls_back: bool,
    /// Numbers that override those of the sequence.
    pub(crate) pid: Option<i32>,
    pub(crate) tid: Option<i32>,
}

/// Identity of a lane.
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

/// A lane: its identity and the first event on it, which names a track without a name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lane {
    pub(crate) key: LaneKey,
    pub(crate) first: (i64, Option<StrId>),
}

/// Number of cached lanes.
const RECENT: usize = 32;

/// State of all tracks while a file is read.
#[derive(Debug, Default)]
pub(crate) struct Tracks {
    pub(crate) descriptors: FxHashMap<u64, Descriptor>,
    pub(crate) lanes: Vec<Lane>,
    index: FxHashMap<LaneKey, LaneId>,
    uuids: FxHashMap<u64, LaneId>,
    /// Recently used lanes, by a few bits of their uuid.
    recent: [Option<(u64, LaneId)>; RECENT],
    processes: FxHashMap<(u32, i32), ProcessId>,
    threads: FxHashMap<(u32, i32, i32), ThreadId>,
    /// The uuid that declared a process or thread, to detect reused numbers.
    declared_by: FxHashMap<Owner, u64>,
    /// Gives every process a row for its main thread, and names threads, as in Perfetto's tables.
    compat: bool,
    /// Threads that descriptors named.
    named: FxHashSet<ThreadId>,
    pub(crate) repaired: u32,
    /// The entries that [`Base::OfSequence`] numbers.
    asked: Vec<OfSequence>,
    asked_index: FxHashMap<OfSequence, u32>,
    /// Their results; `None` for numbers that no thread has.
    settled: Vec<Option<Base>>,
}

impl Tracks {
    /// Creates an empty state; with processes and threads as in Perfetto's tables if `compat`.
    pub(crate) fn new(compat: bool) -> Self {
        Self {
            compat,
            ..Self::default()
        }
    }

    /// Returns the lane of the track with this uuid.
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

    /// Returns the lane of `key`.
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

    /// Records an event that may name its track.
    #[inline]
    pub(crate) fn note_name(&mut self, lane: LaneId, ts: i64, name: Option<StrId>) {
        if let Some(lane) = self.lanes.get_mut(lane.index())
            && ts < lane.first.0
            && name.is_some()
        {
            lane.first = (ts, name);
        }
    }

    /// Returns the process with this number; creates it if needed.
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

    /// Returns the thread with these numbers; creates it if needed.
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

    /// Returns `true` if the thread keeps the name from a descriptor, whatever a metadata event
    /// contains.
    pub(crate) fn keeps_name(&self, thread: ThreadId) -> bool {
        self.compat && self.named.contains(&thread)
    }

    /// Returns the process that owns a thread or is the owner itself.
    pub(crate) fn process_of(builder: &mut TraceBuilder, owner: Owner) -> Option<ProcessId> {
        match owner {
            Owner::Process(process) => Some(process),
            Owner::Thread(thread) => builder.threads_mut()[thread.index()].process,
        }
    }

    /// Defers the track of an event to the end.
    pub(crate) fn later(&mut self, asked: OfSequence) -> Base {
        let next = u32::try_from(self.asked.len()).unwrap_or(u32::MAX);
        let number = *self.asked_index.entry(asked).or_insert(next);
        if number == next {
            self.asked.push(asked);
        }
        Base::OfSequence(number)
    }

    /// Returns the deferred entry, if the track was deferred.
    pub(crate) fn asked(&self, base: Base) -> Option<OfSequence> {
        match base {
            Base::OfSequence(number) => self.asked.get(number as usize).copied(),
            Base::Uuid(_) | Base::Thread(_) => None,
        }
    }

    /// Returns the track of an event, given `described` as the thread of its sequence. `None` for
    /// pid or tid 0.
    pub(crate) fn base_of(
        &mut self,
        builder: &mut TraceBuilder,
        asked: &OfSequence,
        described: Option<(i32, i32)>,
    ) -> Option<Base> {
        let can_use = asked.falls_back || asked.tid.is_some();
        if asked.pid.is_none() && !(can_use && described.is_some()) {
            return Some(Base::Uuid(0));
        }
        let (pid, tid) = described.unwrap_or((0, 0));
        let (pid, tid) = match (asked.pid, asked.tid) {
            // A process without a thread: use a number that no thread has.
            (Some(pid), None) => (pid, -1),
            (own, tid_override) => (own.unwrap_or(pid), tid_override.unwrap_or(tid)),
        };
        if pid == 0 || tid == 0 {
            return None;
        }
        let thread = self.thread(builder, asked.machine, pid, tid);
        Some(Base::Thread(thread))
    }

    /// Resolves all deferred tracks.
    pub(crate) fn settle(
        &mut self,
        builder: &mut TraceBuilder,
        described: impl Fn(&OfSequence) -> Option<(i32, i32)>,
    ) {
        for asked in std::mem::take(&mut self.asked) {
            let base = self.base_of(builder, &asked, described(&asked));
            self.settled.push(base);
        }
    }

    /// Returns the track itself; `None` if there is none, or not yet.
    pub(crate) fn settled(&self, base: Base) -> Option<Base> {
        match base {
            Base::OfSequence(number) => self.settled.get(number as usize).copied().flatten(),
            Base::Uuid(_) | Base::Thread(_) => Some(base),
        }
    }

    /// Returns the owner of a track: its own, or that of the nearest ancestor with one. `None` for
    /// the trace as a whole; an error for chains that loop, are too long or miss an ancestor.
    pub(crate) fn owner_of(&self, base: Base) -> Result<Option<Owner>, BrokenChain> {
        let uuid = match self.settled(base) {
            Some(Base::Thread(thread)) => return Ok(Some(Owner::Thread(thread))),
            Some(Base::Uuid(uuid)) => uuid,
            Some(Base::OfSequence(_)) | None => return Err(BrokenChain),
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
                // A loop never reaches 0 and ends with the steps.
                Some(descriptor) => at = descriptor.parent,
                // A track that only events mention is a root.
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
