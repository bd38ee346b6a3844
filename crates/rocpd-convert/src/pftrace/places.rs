//! Tracks of a file: processes, threads, and lanes of devices.

use std::io::Write;

use crate::Result;
use perfetto_reader::proto::schema::ProcessDescriptor;
use perfetto_reader::write::{TraceWriter, TrackSpec, WriterTrack};
use rocpd_db::{Filter, Process, RocpdSet, Thread};
use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::LaneTimes;

/// Key of a named track under a process.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    pub(super) partition: usize,
    pub(super) process: i64,
    pub(super) name: String,
}

impl Key {
    pub(super) fn new(process: &Process, name: String) -> Self {
        Self {
            partition: process.partition,
            process: process.id,
            name,
        }
    }
}

/// A device with a track of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Device {
    /// A stream of a process.
    Stream(i64),
    /// A queue of an agent: ids of the agent and the queue.
    Queue(i64, i64),
    /// Memcpys to an agent (its index, `CPU` or not) by a thread.
    CopyTo(i64, i64, char),
}

/// The tracks of a device: its name, and the end of each lane.
#[derive(Debug)]
struct Lanes {
    name: String,
    ends: LaneTimes,
    tracks: Vec<WriterTrack>,
}

/// Tracks of a file.
#[derive(Debug, Default)]
pub(super) struct Places {
    /// Tracks of processes by partition and row id.
    processes: FxHashMap<(usize, i64), WriterTrack>,
    threads: FxHashMap<(usize, i64), WriterTrack>,
    /// Lanes by partition, process and device.
    devices: FxHashMap<(usize, i64, Device), Lanes>,
    /// Numbers of queues per agent, in order of appearance.
    queues: FxHashMap<(usize, i64), FxHashMap<i64, usize>>,
}

impl Places {
    pub(super) fn process(&self, partition: usize, id: i64) -> Option<WriterTrack> {
        self.processes.get(&(partition, id)).copied()
    }

    /// Returns the track of a thread; that of its process if there is no thread.
    pub(super) fn thread(&self, process: &Process, thread: Option<&Thread>) -> Option<WriterTrack> {
        thread
            .and_then(|thread| self.threads.get(&(process.partition, thread.id)))
            .copied()
            .or_else(|| self.process(process.partition, process.id))
    }

    /// Declares all processes and threads.
    pub(super) fn describe<W: Write>(
        &mut self,
        writer: &mut TraceWriter<W>,
        set: &RocpdSet,
        filter: &Filter,
    ) -> Result<()> {
        let mut used: FxHashSet<i64> = FxHashSet::default();
        let mut threads_of: FxHashMap<(usize, i64), Vec<&Thread>> = FxHashMap::default();
        for (process, thread) in set.threads() {
            let key = (process.partition, process.id);
            threads_of.entry(key).or_default().push(thread);
        }
        for process in set.processes() {
            if filter
                .guids
                .as_ref()
                .is_some_and(|guids| !guids.contains(&process.guid))
            {
                continue;
            }
            let threads = threads_of
                .remove(&(process.partition, process.id))
                .unwrap_or_default();
            // Viewers distinguish processes by number only: numbers used on another node are
            // shifted.
            let mut offset = 0_i64;
            while used.contains(&(process.pid.wrapping_add(offset)))
                || threads
                    .iter()
                    .any(|thread| used.contains(&(thread.tid.wrapping_add(offset))))
            {
                offset = offset.wrapping_add(1 << 22);
            }
            used.insert(process.pid.wrapping_add(offset));
            used.extend(threads.iter().map(|thread| thread.tid.wrapping_add(offset)));
            let number = |id: i64| i32::try_from(id.wrapping_add(offset)).unwrap_or(i32::MAX);
            let command = process.command.as_deref().unwrap_or_default();
            let words: Vec<&str> = command.split_whitespace().collect();
            let program = words.first().copied().unwrap_or("process");
            let name = match offset {
                0 => program.to_owned(),
                _ => format!("{program} (pid {} on {})", process.pid, process.hostname),
            };
            let descriptor = ProcessDescriptor {
                pid: Some(number(process.pid)),
                cmdline: words.iter().map(|word| word.as_bytes().to_vec()).collect(),
                process_name: Some(name.into_bytes()),
                ..ProcessDescriptor::default()
            };
            let track = writer.process_from(descriptor)?;
            self.processes
                .insert((process.partition, process.id), track);
            let basename = program.rsplit('/').next().unwrap_or(program);
            let mut count = 0;
            for thread in threads {
                let name = if thread.tid == process.pid {
                    basename.to_owned()
                } else {
                    count += 1;
                    format!("THREAD {count}")
                };
                let pid = number(process.pid);
                let track = writer.thread(track, pid, number(thread.tid), Some(&name))?;
                self.threads.insert((process.partition, thread.id), track);
            }
        }
        Ok(())
    }

    /// Returns the number of a queue among those of its agent, in order of appearance.
    pub(super) fn queue_number(&mut self, partition: usize, agent: i64, queue: i64) -> usize {
        let queues = self.queues.entry((partition, agent)).or_default();
        let next = queues.len();
        *queues.entry(queue).or_insert(next)
    }

    /// Returns the track of a device on which nothing overlaps with a slice; with `raw` always the
    /// first one.
    pub(super) fn lane<W: Write>(
        &mut self,
        writer: &mut TraceWriter<W>,
        process: &Process,
        device: Device,
        name: impl FnOnce() -> String,
        (start, end): (i64, i64),
        raw: bool,
    ) -> Result<WriterTrack> {
        let Lanes { name, ends, tracks } = self
            .devices
            .entry((process.partition, process.id, device))
            .or_insert_with(|| Lanes {
                name: name(),
                ends: LaneTimes::default(),
                tracks: Vec::new(),
            });
        let free = if raw {
            (!ends.is_empty()).then_some(0)
        } else {
            ends.first_until(start)
        };
        if let Some((lane, track)) = free.and_then(|lane| Some((lane, *tracks.get(lane)?))) {
            ends.set(lane, ends.get(lane).map_or(end, |until| until.max(end)));
            return Ok(track);
        }
        let numbered;
        let name = match ends.len() {
            0 => name,
            more => {
                numbered = format!("{name} #{}", more + 1);
                &numbered
            }
        };
        let mut spec = TrackSpec::default();
        spec.name = Some(name);
        spec.parent = self
            .processes
            .get(&(process.partition, process.id))
            .copied();
        let track = writer.track(&spec)?;
        ends.push(end);
        tracks.push(track);
        Ok(track)
    }
}
