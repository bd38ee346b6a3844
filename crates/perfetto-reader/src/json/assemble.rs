//! Creates processes, threads and tracks once the whole file is known.

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{
    Pid, Process, ProcessId, StrId, Thread, ThreadId, Tid, TraceBuilder, Track, TrackId, TrackKind,
};

use super::merge::Merged;
use super::part::{Id, Lane, LaneKey, Naming, Says};
use super::share::{AsyncEvent, SharedLanes};

/// First number assigned to processes and threads that the file identifies by text: above all
/// numbers that systems assign, and within 32 bits.
const ARTIFICIAL: i64 = 4_000_000_000;

/// Assigns a track to each lane and applies the names of metadata events.
pub(super) fn assemble(merged: Merged, compat: bool) -> TraceBuilder {
    let Merged {
        builder,
        lanes,
        texts,
        mut namings,
        asyncs,
        ..
    } = merged;
    let mut directory = Directory {
        compat,
        builder,
        texts,
        devices: FxHashSet::default(),
        artificial: FxHashMap::default(),
        processes: FxHashMap::default(),
        threads: FxHashMap::default(),
        tracks: FxHashMap::default(),
    };
    directory.find_devices(&lanes);
    for (i, lane) in lanes.iter().enumerate() {
        let track = directory.track_of(lane);
        if let Some(id) = trace_model::LaneId::new(i) {
            directory.builder.set_lane(id, Some(track));
        }
    }
    directory.share_lanes(&lanes, asyncs);
    // The latest name counts, wherever it is in the file.
    namings.sort_by_key(|n| n.ts);
    if compat {
        drop_names_of_texts(&lanes, &mut namings);
    }
    for naming in namings {
        directory.apply(naming.pid, naming.tid, naming.says);
    }
    directory.builder
}

/// Key of a track: each value has at most one track.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Place {
    Thread(ThreadId),
    ProcessInstants(ProcessId),
    GlobalInstants,
    Counter(ProcessId, Option<ThreadId>, StrId),
}

struct Directory {
    compat: bool,
    builder: TraceBuilder,
    /// Texts of lanes and namings.
    texts: trace_model::StringTable,
    /// Processes that are devices: their thread 0 is a stream, not a main thread.
    devices: FxHashSet<Id>,
    artificial: FxHashMap<StrId, i64>,
    processes: FxHashMap<Id, ProcessId>,
    threads: FxHashMap<(ProcessId, Id), ThreadId>,
    tracks: FxHashMap<Place, TrackId>,
}

impl Directory {
    fn find_devices(&mut self, lanes: &[Lane]) {
        for lane in lanes {
            if let LaneKey::Thread { pid, .. } = lane.key
                && lane.is_device
            {
                let pid = self.process_key(pid);
                self.devices.insert(pid);
            }
        }
    }

    /// The reference stores numbers in 32 bits and treats others as missing.
    fn number_key(&self, id: Id) -> Id {
        match id {
            Id::Int(n) if self.compat && u32::try_from(n).is_err() => Id::Missing,
            other => other,
        }
    }

    fn process_key(&self, pid: Id) -> Id {
        match self.number_key(pid) {
            Id::Missing => Id::Int(0),
            other => other,
        }
    }

    /// Returns the number assigned to a text; equal texts have equal numbers.
    fn artificial(&mut self, text: StrId) -> i64 {
        let next = ARTIFICIAL + i64::try_from(self.artificial.len()).unwrap_or(0);
        *self.artificial.entry(text).or_insert(next)
    }

    fn string(&mut self, text: StrId) -> StrId {
        self.builder.string(self.texts.get(text))
    }

    fn process(&mut self, pid: Id) -> ProcessId {
        let key = self.process_key(pid);
        if let Some(&process) = self.processes.get(&key) {
            return process;
        }
        let row = match key {
            Id::Text(text) => Process {
                name: Some(self.string(text)),
                artificial: true,
                ..Process::new(Pid(self.artificial(text)))
            },
            Id::Int(n) => Process::new(Pid(n)),
            Id::Missing => Process::new(Pid(0)),
        };
        let number = row.pid.0;
        let process = self.builder.process(row);
        self.processes.insert(key, process);
        if self.compat {
            self.thread_row(process, number, Id::Int(number));
        }
        process
    }

    fn thread(&mut self, pid: Id, tid: Id) -> ThreadId {
        let process = self.process(pid);
        let row = &self.builder.processes_mut()[process.index()];
        let (number, is_artificial) = (row.pid.0, row.artificial);
        let has_main =
            self.compat || (!is_artificial && !self.devices.contains(&self.process_key(pid)));
        let tid = match self.number_key(tid) {
            Id::Missing | Id::Int(0) if has_main => Id::Int(number),
            Id::Missing => Id::Int(0),
            // The reference numbers texts: a thread with the name of its process is the main
            // thread.
            Id::Text(text) if self.compat && self.artificial(text) == number => {
                let thread = self.thread_row(process, number, Id::Int(number));
                let name = self.string(text);
                self.builder.threads_mut()[thread.index()]
                    .name
                    .get_or_insert(name);
                return thread;
            }
            other => other,
        };
        self.thread_row(process, number, tid)
    }

    fn thread_row(&mut self, process: ProcessId, pid: i64, tid: Id) -> ThreadId {
        if let Some(&thread) = self.threads.get(&(process, tid)) {
            return thread;
        }
        let row = match tid {
            Id::Text(text) => Thread {
                name: Some(self.string(text)),
                artificial: true,
                ..Thread::new(Tid(self.artificial(text)), Some(process))
            },
            Id::Int(n) => Thread {
                is_main: n == pid,
                ..Thread::new(Tid(n), Some(process))
            },
            Id::Missing => Thread::new(Tid(0), Some(process)),
        };
        let thread = self.builder.thread(row);
        self.threads.insert((process, tid), thread);
        thread
    }

    fn track_of(&mut self, lane: &Lane) -> TrackId {
        match lane.key {
            LaneKey::Thread { pid, tid } => {
                let thread = self.thread(pid, tid);
                let process = self.process(pid);
                let track = Track {
                    thread: Some(thread),
                    process: Some(process),
                    ..Track::new(TrackKind::Thread)
                };
                self.track(Place::Thread(thread), track)
            }
            LaneKey::ProcessInstants { pid } => {
                let process = self.process(pid);
                let track = Track {
                    process: Some(process),
                    ..Track::new(TrackKind::ProcessInstant)
                };
                self.track(Place::ProcessInstants(process), track)
            }
            LaneKey::GlobalInstants => {
                let track = Track::new(TrackKind::GlobalInstant);
                self.track(Place::GlobalInstants, track)
            }
            LaneKey::Counter { pid, tid, name } => {
                let process = self.process(pid);
                let thread = (tid != Id::Missing).then(|| self.thread(pid, tid));
                let track = Track {
                    process: Some(process),
                    thread,
                    name: Some(self.string(name)),
                    ..Track::new(TrackKind::JsonCounter)
                };
                self.track(Place::Counter(process, thread, name), track)
            }
            LaneKey::Async(key) => {
                let name = lane.first.and_then(|(_, name)| name);
                let name = name.map(|name| self.string(name));
                let track = match key.local_to {
                    Some(pid) => Track {
                        process: Some(self.process(pid)),
                        name,
                        ..Track::new(TrackKind::ProcessAsync)
                    },
                    None => Track {
                        name,
                        ..Track::new(TrackKind::GlobalAsync)
                    },
                };
                self.builder.track(track)
            }
        }
    }

    /// Moves async events to the lanes on which they are displayed.
    fn share_lanes(&mut self, lanes: &[Lane], mut asyncs: Vec<AsyncEvent>) {
        asyncs.retain(|a| a.event < self.builder.events.len());
        asyncs.sort_by_key(|a| a.ts);
        let mut shared = SharedLanes::default();
        for event in asyncs {
            let process = match lanes.get(event.lane.index()).map(|lane| lane.key) {
                Some(LaneKey::Async(key)) => key.local_to.map(|pid| self.process(pid)),
                _ => continue,
            };
            let lane = shared.lane_of(&event, process, |name| {
                let kind = match process {
                    Some(_) => TrackKind::ProcessAsync,
                    None => TrackKind::GlobalAsync,
                };
                let track = Track {
                    name: name.map(|name| self.string(name)),
                    process,
                    is_lane: true,
                    ..Track::new(kind)
                };
                let track = self.builder.track(track);
                self.builder.lane(Some(track))
            });
            self.builder.events.move_event(event.event, lane);
        }
    }

    fn track(&mut self, place: Place, track: Track) -> TrackId {
        let builder = &mut self.builder;
        *self
            .tracks
            .entry(place)
            .or_insert_with(|| builder.track(track))
    }

    fn apply(&mut self, pid: Id, tid: Id, says: Says) {
        let process = self.process(pid).index();
        match says {
            Says::ProcessName(text) => {
                let name = self.string(text);
                self.builder.processes_mut()[process].name = Some(name);
            }
            Says::ProcessLabels(text) => {
                let labels = self.string(text);
                self.builder.processes_mut()[process].labels = Some(labels);
            }
            Says::ProcessSortIndex(n) => self.builder.processes_mut()[process].sort_index = Some(n),
            Says::ThreadName(text) => {
                let name = self.string(text);
                let thread = self.thread(pid, tid).index();
                self.builder.threads_mut()[thread].name = Some(name);
            }
            Says::ThreadSortIndex(n) => {
                let thread = self.thread(pid, tid).index();
                self.builder.threads_mut()[thread].sort_index = Some(n);
            }
            Says::Nothing => {}
        }
        if self.compat {
            self.thread(pid, tid);
        }
    }
}

/// In the reference, every event on a process or thread that is identified by text renames it to
/// that text, so other names last only until the next event.
fn drop_names_of_texts(lanes: &[Lane], namings: &mut [Naming]) {
    let mut renamed = FxHashSet::default();
    for lane in lanes {
        match lane.key {
            LaneKey::Thread { pid, tid } => renamed.extend([(pid, None), (pid, Some(tid))]),
            LaneKey::ProcessInstants { pid } | LaneKey::Counter { pid, .. } => {
                renamed.insert((pid, None));
            }
            _ => {}
        }
    }
    for naming in namings.iter_mut().rev() {
        let is_overruled = match (naming.says, naming.pid, naming.tid) {
            (Says::ProcessName(_), pid @ Id::Text(_), _) => renamed.contains(&(pid, None)),
            (Says::ThreadName(_), pid, tid @ Id::Text(_)) => renamed.contains(&(pid, Some(tid))),
            _ => false,
        };
        if is_overruled {
            naming.says = Says::Nothing;
        }
        renamed.extend([(naming.pid, None), (naming.pid, Some(naming.tid))]);
    }
}
