//! Processes descriptors of tracks, processes and threads.

use trace_model::{ProcessId, StrId, ThreadId, TraceBuilder, Unit};

use super::{Counter, Descriptor, Merge, Owner, Tracks};
use crate::proto::annotation::intern_bytes;
use crate::proto::schema;

/// Result of processing a descriptor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    New,
    Known,
    /// pid, tid, parent or kind differ from an earlier descriptor.
    Conflict,
    /// The uuid or the numbers are missing.
    Incomplete,
}

impl Tracks {
    /// Processes a track descriptor.
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

    /// Returns how the track merges with its siblings.
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
    /// creates it if needed.
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
            // Another track claims the same numbers: they were reused.
            (true, (Some(pid), Some(tid))) => {
                self.threads.remove(&(machine, pid, tid));
                Owner::Thread(self.thread(builder, machine, pid, tid))
            }
            (true, (Some(pid), None)) => {
                // The threads of the old process are gone.
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

    /// Applies the names of a process descriptor in the older form.
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

    /// Applies the names of a thread descriptor in the older form.
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

    /// Names processes and threads that track events use and that have no name yet.
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
}

/// Returns the unit if it has a type of its own.
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
