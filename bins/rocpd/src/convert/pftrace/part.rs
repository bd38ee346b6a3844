//! One trace file: tracks as they are needed, slices, arrows, counters.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io::Write;

use perfetto_reader::proto::schema::ProcessDescriptor;
use perfetto_reader::write::{
    CounterUnit, EventData, TraceWriter, TrackSpec, WriterOptions, WriterTrack,
};
use rocpd_db::{
    Agent, AllocLevel, AllocType, Allocation, Copy, Dispatch, Event, Filter, KernelNames, Order,
    PmcEvent, Process, Region, RocpdSet, domain_of, slice_category,
};
use rustc_hash::{FxHashMap, FxHashSet};
use serde_json::json;
use trace_model::{ArgValue, ClockDomain};

use super::items::Item;
use crate::args::{AgentIndex, ConvertArgs, Overlap};

/// Sums of counters by event.
pub(super) struct Counters {
    /// By partition and event id: counter name and sum over instances.
    by_event: FxHashMap<(usize, i64), Vec<(usize, f64)>>,
    names: Vec<String>,
}

impl Counters {
    pub(super) fn read(set: &RocpdSet, args: &ConvertArgs) -> anyhow::Result<Self> {
        let mut counters = Self {
            by_event: FxHashMap::default(),
            names: Vec::new(),
        };
        if args.perfetto.no_counters {
            return Ok(counters);
        }
        let filter = Filter::default();
        let mut numbers: FxHashMap<(usize, i64), usize> = FxHashMap::default();
        for row in set.scan::<PmcEvent<'_>>(&filter, Order::Stored)? {
            let row = row?;
            let (Some(event), Some(pmc)) = (row.event_id, row.pmc) else {
                continue;
            };
            let names = &mut counters.names;
            let number = *numbers
                .entry((row.partition, row.pmc_id))
                .or_insert_with(|| {
                    names
                        .iter()
                        .position(|name| *name == pmc.name)
                        .unwrap_or_else(|| {
                            names.push(pmc.name.clone());
                            names.len() - 1
                        })
                });
            let sums = counters.by_event.entry((row.partition, event)).or_default();
            match sums.iter_mut().find(|(known, _)| *known == number) {
                Some((_, sum)) => *sum += row.value,
                None => sums.push((number, row.value)),
            }
        }
        Ok(counters)
    }

    fn of(&self, process: &Process, event: Option<Event<'_>>) -> &[(usize, f64)] {
        event
            .and_then(|event| self.by_event.get(&(process.partition, event.id)))
            .map(Vec::as_slice)
            .unwrap_or_default()
    }
}

/// Key of a track, within the set.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum Key {
    /// Partition, row id of the process.
    Process(usize, i64),
    /// Partition, row id of the thread.
    Thread(usize, i64),
    /// A track of a name under a process.
    Named(usize, i64, String),
}

/// A change of a counter's value.
#[derive(Debug, Clone, std::marker::Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Change {
    /// The value becomes this real number, and belongs to a holder.
    Set(u64, u64),
    /// The value becomes 0 if it still belongs to the holder.
    Clear(u64),
    /// The value grows or shrinks.
    Add(i64),
}

/// A counter of the file.
#[derive(Debug)]
struct Counter {
    key: Key,
    track: WriterTrack,
    total: i64,
    holder: u64,
}

/// What is held from one part to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// Counter and size by process and address.
    allocated: FxHashMap<(usize, i64, i64), (Key, i64)>,
    /// Bytes by counter.
    totals: Vec<(Key, i64)>,
    /// What is still to come.
    pending: Vec<(i64, Key, i64)>,
}

/// Numbers of a part for the manifest.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Report {
    pub(super) events: u64,
    pub(super) bytes: u64,
    pub(super) first_ns: Option<i64>,
    pub(super) last_ns: Option<i64>,
    pub(super) clipped: u64,
    pub(super) unmatched_frees: u64,
}

impl Report {
    pub(super) fn json(&self, file: &str) -> serde_json::Value {
        json!({
            "file": file,
            "events": self.events,
            "bytes": self.bytes,
            "start_ns": self.first_ns,
            "end_ns": self.last_ns,
            "clipped": self.clipped,
            "unmatched_frees": self.unmatched_frees,
        })
    }
}

/// A finished part.
pub(super) struct Done<W> {
    pub(super) file: String,
    pub(super) out: W,
    pub(super) report: Report,
    pub(super) live: Live,
}

/// A trace file under construction.
pub(super) struct Part<'a, W: Write> {
    file: String,
    writer: TraceWriter<W>,
    args: &'a ConvertArgs,
    counters: &'a Counters,
    names: KernelNames,
    /// Begin and end of the part, where they are known.
    cut: (Option<i64>, Option<i64>),
    tracks: FxHashMap<Key, WriterTrack>,
    /// Device tracks: for each the ends of its lanes.
    lanes: FxHashMap<Key, Vec<(i64, WriterTrack)>>,
    /// Numbers of queues per agent, in order of appearance.
    queues: FxHashMap<(usize, i64), Vec<i64>>,
    counter_tracks: Vec<Counter>,
    counter_numbers: FxHashMap<Key, usize>,
    /// Changes to come: time, order, counter, what.
    pending: BinaryHeap<Reverse<(i64, u64, usize, Change)>>,
    order: u64,
    live: Live,
    report: Report,
    last_ns: i64,
}

impl<'a, W: Write> Part<'a, W> {
    pub(super) fn new(
        file: String,
        out: W,
        set: &'a RocpdSet,
        filter: &Filter,
        args: &'a ConvertArgs,
        counters: &'a Counters,
        cut: (Option<i64>, Option<i64>),
    ) -> anyhow::Result<Self> {
        let options = WriterOptions::new(ClockDomain::BootTime, None);
        let mut part = Self {
            file,
            writer: TraceWriter::new(out, options)?,
            args,
            counters,
            names: KernelNames::from(&args.names),
            cut,
            tracks: FxHashMap::default(),
            lanes: FxHashMap::default(),
            queues: FxHashMap::default(),
            counter_tracks: Vec::new(),
            counter_numbers: FxHashMap::default(),
            pending: BinaryHeap::new(),
            order: 0,
            live: Live::default(),
            report: Report::default(),
            last_ns: i64::MIN,
        };
        part.describe(set, filter)?;
        Ok(part)
    }

    /// Declares all processes and threads.
    fn describe(&mut self, set: &RocpdSet, filter: &Filter) -> anyhow::Result<()> {
        let mut used: FxHashSet<i64> = FxHashSet::default();
        for process in set.processes() {
            if filter
                .guids
                .as_ref()
                .is_some_and(|guids| !guids.contains(&process.guid))
            {
                continue;
            }
            let threads: Vec<_> = set
                .threads()
                .filter(|(of, _)| of.guid == process.guid)
                .map(|(_, thread)| thread)
                .collect();
            // Viewers tell processes apart by number only: those of another node are moved.
            let mut offset = 0_i64;
            while used.contains(&(process.pid + offset))
                || threads
                    .iter()
                    .any(|thread| used.contains(&(thread.tid + offset)))
            {
                offset += 1 << 22;
            }
            used.insert(process.pid + offset);
            used.extend(threads.iter().map(|thread| thread.tid + offset));
            let number = |id: i64| i32::try_from(id + offset).unwrap_or(i32::MAX);
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
            let track = self.writer.process_from(descriptor)?;
            let key = Key::Process(process.partition, process.id);
            self.tracks.insert(key, track);
            let basename = program.rsplit('/').next().unwrap_or(program);
            let mut count = 0;
            for thread in threads {
                let name = if thread.tid == process.pid {
                    basename.to_owned()
                } else {
                    count += 1;
                    format!("THREAD {count}")
                };
                let track = self.writer.thread(
                    track,
                    number(process.pid),
                    number(thread.tid),
                    Some(&name),
                )?;
                self.tracks
                    .insert(Key::Thread(process.partition, thread.id), track);
            }
        }
        Ok(())
    }

    pub(super) fn bytes_written(&self) -> u64 {
        self.writer.bytes_written()
    }

    /// Goes on with counters of the parts before.
    pub(super) fn resume(&mut self, live: Live, at: i64) -> anyhow::Result<()> {
        for (key, total) in &live.totals {
            let counter = self.counter(key, CounterUnit::Bytes)?;
            self.later(at, counter, Change::Add(*total));
        }
        for (time, key, change) in &live.pending {
            let counter = self.counter(key, CounterUnit::Bytes)?;
            self.later(*time, counter, Change::Add(*change));
        }
        self.live.allocated = live.allocated;
        Ok(())
    }

    /// Adds a record, from `from` on.
    pub(super) fn add(&mut self, item: &Item<'_>, from: i64) -> anyhow::Result<()> {
        let start = item.start_ns().max(from);
        let (end, clipped) = match self.cut.1 {
            Some(cut) if item.end_ns() > cut => (cut, true),
            _ => (item.end_ns(), false),
        };
        let clipped = clipped || start > item.start_ns();
        self.flush_until(start)?;
        let span = Span {
            start,
            end: end.max(start),
            clipped,
            first: start == item.start_ns(),
        };
        match item {
            Item::Region(region) => self.region(region, span)?,
            Item::Dispatch(dispatch) => self.dispatch(dispatch, span)?,
            Item::Copy(copy) => self.copy(copy, span)?,
            Item::Allocation(allocation) => {
                if span.first {
                    self.allocation(allocation)?;
                }
                return Ok(());
            }
        }
        self.report.clipped += u64::from(clipped);
        self.report.events += 1;
        self.report.first_ns = Some(self.report.first_ns.map_or(start, |first| first.min(start)));
        self.report.last_ns = Some(
            self.report
                .last_ns
                .map_or(span.end, |last| last.max(span.end)),
        );
        Ok(())
    }

    /// Writes what is still to come before `until` and completes the file.
    pub(super) fn finish(mut self, until: i64) -> anyhow::Result<Done<W>> {
        self.flush_until(until)?;
        let mut report = self.report;
        let mut live = self.live;
        for Reverse((time, _, counter, change)) in self.pending.into_sorted_vec().into_iter().rev()
        {
            if let (Change::Add(change), Some(counter)) = (change, self.counter_tracks.get(counter))
            {
                live.pending.push((time, counter.key.clone(), change));
            }
        }
        for counter in self
            .counter_tracks
            .into_iter()
            .filter(|counter| counter.total != 0)
        {
            live.totals.push((counter.key, counter.total));
        }
        let bytes = self.writer.bytes_written();
        let out = self.writer.finish()?;
        report.bytes = bytes;
        Ok(Done {
            file: self.file,
            out,
            report,
            live,
        })
    }

    /// Counter values up to a time.
    fn flush_until(&mut self, until: i64) -> anyhow::Result<()> {
        while let Some(Reverse((at, _, number, change))) = self.pending.peek().copied()
            && at <= until
        {
            self.pending.pop();
            let Some(counter) = self.counter_tracks.get_mut(number) else {
                continue;
            };
            let value = match change {
                Change::Set(bits, holder) => {
                    counter.holder = holder;
                    f64::from_bits(bits)
                }
                Change::Clear(holder) if counter.holder == holder => 0.0,
                Change::Clear(_) => continue,
                Change::Add(change) => {
                    counter.total += change;
                    real(counter.total)
                }
            };
            // Of several changes at one time the last one counts.
            let same =
                |next: &Reverse<(i64, u64, usize, Change)>| next.0.0 == at && next.0.2 == number;
            if self.pending.peek().is_some_and(same) {
                continue;
            }
            self.last_ns = self.last_ns.max(at);
            let track = counter.track;
            self.writer.counter(track, self.last_ns, value)?;
        }
        if until != i64::MAX {
            self.last_ns = self.last_ns.max(until);
        }
        Ok(())
    }

    fn later(&mut self, at: i64, counter: usize, change: Change) {
        self.order += 1;
        self.pending
            .push(Reverse((at, self.order, counter, change)));
    }

    /// A value that holds from one time to another.
    fn hold(&mut self, counter: usize, value: f64, start: i64, end: Option<i64>) {
        let holder = self.order + 1;
        self.later(start, counter, Change::Set(value.to_bits(), holder));
        if let Some(end) = end {
            self.later(end, counter, Change::Clear(holder));
        }
    }

    fn slice(
        &mut self,
        track: WriterTrack,
        span: Span,
        data: &EventData<'_>,
    ) -> anyhow::Result<()> {
        self.writer
            .complete(track, span.start, span.end - span.start, data)?;
        Ok(())
    }

    fn flow(&self, process: &Process, event: Option<Event<'_>>) -> Option<u64> {
        use std::hash::BuildHasher as _;
        let stack = event?.stack_id.filter(|id| *id != 0)?;
        if self.args.perfetto.no_flows {
            return None;
        }
        // Stable, and different for equal ids of different processes.
        let hash = rustc_hash::FxBuildHasher.hash_one((process.guid.as_str(), stack));
        Some(hash.max(1))
    }

    fn region(&mut self, r: &Region<'_>, span: Span) -> anyhow::Result<()> {
        let process_key = Key::Process(r.process.partition, r.process.id);
        let thread = r.thread.map(|t| Key::Thread(r.process.partition, t.id));
        let Some(&track) = thread
            .and_then(|key| self.tracks.get(&key))
            .or_else(|| self.tracks.get(&process_key))
        else {
            return Ok(());
        };
        let category = r.category();
        let name = r.message.as_deref().or(r.name).unwrap_or("?");
        let mut args = Vec::new();
        self.times(&mut args, (r.start_ns, r.end_ns));
        args.extend([
            ("tid", maybe(r.thread.map(|t| t.tid))),
            ("kind", Some(ArgValue::Str(category.unwrap_or_default()))),
            ("operation", r.name.map(ArgValue::Str)),
            ("corr_id", maybe(r.event.and_then(|e| e.stack_id))),
            (
                "ancestor_id",
                maybe(r.event.and_then(|e| e.parent_stack_id)),
            ),
        ]);
        let args = self.finish_args(args, span);
        let is_marker = domain_of(category) == "MARKER";
        let flow = if is_marker || !span.first {
            None
        } else {
            self.flow(r.process, r.event)
        };
        let data = EventData {
            name: Some(name),
            category: slice_category(category),
            args: &args,
            flows: flow.as_slice(),
            terminating_flows: &[],
        };
        self.slice(track, span, &data)?;
        // Samples of rocprof-sys carry values.
        let counters = self.counters;
        for (number, value) in counters.of(r.process, r.event) {
            let name = format!("PMC {}", counters.names[*number]);
            let counter = self.counter(&key_of(r.process, name), CounterUnit::None)?;
            self.hold(counter, *value, span.start, None);
        }
        Ok(())
    }

    fn dispatch(&mut self, r: &Dispatch<'_>, span: Span) -> anyhow::Result<()> {
        let index = self.args.agent_index_value;
        let name = self.names.of(r);
        let track = match self.args.perfetto.group_by_queue {
            true => {
                let label = self.queue_label(r, index);
                self.lane(r.process, label, span)?
            }
            false => self.lane(
                r.process,
                format!("STREAM [{}]", r.stream_id.unwrap_or(0)),
                span,
            )?,
        };
        let agent = r.agent.map(|agent| index.label(agent)).unwrap_or_default();
        let workgroup = shape(r.workgroup);
        let grid = shape(r.grid);
        let category = r
            .event
            .and_then(|e| e.category)
            .unwrap_or_default()
            .to_owned();
        let counters = self.counters;
        let sums = counters.of(r.process, r.event);
        let mut args = Vec::new();
        self.times(&mut args, (r.start_ns, r.end_ns));
        args.extend([
            ("kind", Some(ArgValue::Str(&category))),
            ("agent", Some(ArgValue::Str(&agent))),
            ("corr_id", maybe(r.event.and_then(|e| e.stack_id))),
            ("queue", maybe(r.queue_id)),
            ("tid", maybe(r.thread.map(|t| t.tid))),
            ("kernel_id", maybe(r.kernel_id)),
            ("Scratch_Size", maybe(r.scratch_bytes)),
            ("LDS_Block_Size", maybe(r.lds_bytes)),
            ("workgroup_size", Some(ArgValue::Str(&workgroup))),
            ("grid_size", Some(ArgValue::Str(&grid))),
            ("stream_id", maybe(r.stream_id)),
        ]);
        for (number, value) in sums {
            args.push((
                counters.names[*number].as_str(),
                Some(ArgValue::Real(*value)),
            ));
        }
        let args = self.finish_args(args, span);
        let flow = if span.first {
            self.flow(r.process, r.event)
        } else {
            None
        };
        let data = EventData {
            name: Some(&name),
            category: Some("kernel_dispatch"),
            args: &args,
            flows: flow.as_slice(),
            terminating_flows: &[],
        };
        self.slice(track, span, &data)?;
        for (number, value) in sums {
            let (label, at) = match r.agent {
                Some(agent) => index.parts(agent),
                None => ("Agent", 0),
            };
            let name = format!("{label} [{at}] PMC {}", counters.names[*number]);
            let counter = self.counter(&key_of(r.process, name), CounterUnit::None)?;
            self.hold(counter, *value, span.start, Some(span.end));
        }
        Ok(())
    }

    fn queue_label(&mut self, r: &Dispatch<'_>, index: AgentIndex) -> String {
        let agent = r.agent.map_or(0, |agent| agent.id);
        let queues = self.queues.entry((r.process.partition, agent)).or_default();
        let id = r.queue_id.unwrap_or(0);
        let number = queues
            .iter()
            .position(|known| *known == id)
            .unwrap_or_else(|| {
                queues.push(id);
                queues.len() - 1
            });
        let (label, at) = r.agent.map_or(("Agent", 0), |agent| index.parts(agent));
        format!("COMPUTE {label} [{at}] QUEUE [{number}] {}", kind(r.agent))
    }

    fn copy(&mut self, r: &Copy<'_>, span: Span) -> anyhow::Result<()> {
        let index = self.args.agent_index_value;
        let label = match self.args.perfetto.group_by_queue {
            true => format!(
                "COPY to AGENT [{}] THREAD [{}] ({})",
                r.dst_agent.and_then(|a| a.logical_index).unwrap_or(0),
                r.thread.map_or(0, |t| t.tid),
                kind(r.dst_agent)
            ),
            false => format!("STREAM [{}]", r.stream_id.unwrap_or(0)),
        };
        let track = self.lane(r.process, label, span)?;
        let src = r
            .src_agent
            .map(|agent| index.dashed(agent))
            .unwrap_or_default();
        let dst = r
            .dst_agent
            .map(|agent| index.dashed(agent))
            .unwrap_or_default();
        let category = r
            .event
            .and_then(|e| e.category)
            .unwrap_or_default()
            .to_owned();
        let name = r.name.unwrap_or("?");
        let mut args = Vec::new();
        self.times(&mut args, (r.start_ns, r.end_ns));
        args.extend([
            ("kind", Some(ArgValue::Str(&category))),
            ("operation", Some(ArgValue::Str(name))),
            ("src_agent", Some(ArgValue::Str(&src))),
            ("dst_agent", Some(ArgValue::Str(&dst))),
            ("copy_bytes", Some(ArgValue::Int(r.size_bytes))),
            ("corr_id", maybe(r.event.and_then(|e| e.stack_id))),
            ("tid", maybe(r.thread.map(|t| t.tid))),
            ("stream_id", maybe(r.stream_id)),
        ]);
        let args = self.finish_args(args, span);
        let flow = if span.first {
            self.flow(r.process, r.event)
        } else {
            None
        };
        let data = EventData {
            name: Some(name),
            category: Some("memory_copy"),
            args: &args,
            flows: flow.as_slice(),
            terminating_flows: &[],
        };
        self.slice(track, span, &data)?;
        if !self.args.perfetto.no_counters
            && span.first
            && let Some(agent) = r.dst_agent
        {
            let (label, at) = index.parts(agent);
            let name = format!("COPY BYTES to {label} [{at}] ({})", kind(r.dst_agent));
            let counter = self.counter(&key_of(r.process, name), CounterUnit::Bytes)?;
            self.later(r.start_ns, counter, Change::Add(r.size_bytes));
            self.later(
                r.end_ns.max(r.start_ns),
                counter,
                Change::Add(-r.size_bytes),
            );
        }
        Ok(())
    }

    /// Bytes in use change when the call ends; frees are matched by address.
    fn allocation(&mut self, r: &Allocation<'_>) -> anyhow::Result<()> {
        if self.args.perfetto.no_counters
            || matches!(r.level, AllocLevel::Scratch | AllocLevel::Virtual)
        {
            return Ok(());
        }
        let place = (r.process.partition, r.process.id, r.address.unwrap_or(0));
        let at = r.end_ns.max(r.start_ns);
        let before = self.live.allocated.remove(&place);
        let gives = matches!(r.kind, AllocType::Alloc | AllocType::Realloc);
        match &before {
            Some((key, size)) => {
                let counter = self.counter(key, CounterUnit::Bytes)?;
                self.later(at, counter, Change::Add(-size));
            }
            None if !gives => self.report.unmatched_frees += 1,
            None => {}
        }
        if gives {
            let name = match r.agent {
                Some(agent) => {
                    let (label, index) = self.args.agent_index_value.parts(agent);
                    format!("ALLOCATE BYTES on {label} [{index}] ({})", kind(r.agent))
                }
                None => "ALLOCATE BYTES".to_owned(),
            };
            let key = key_of(r.process, name);
            let counter = self.counter(&key, CounterUnit::Bytes)?;
            self.later(at, counter, Change::Add(r.size_bytes));
            self.live.allocated.insert(place, (key, r.size_bytes));
        }
        Ok(())
    }

    fn counter(&mut self, key: &Key, unit: CounterUnit<'_>) -> anyhow::Result<usize> {
        if let Some(&number) = self.counter_numbers.get(key) {
            return Ok(number);
        }
        let Key::Named(partition, process, name) = key else {
            anyhow::bail!("a counter without name");
        };
        let mut spec = TrackSpec::default();
        spec.name = Some(name);
        spec.parent = self
            .tracks
            .get(&Key::Process(*partition, *process))
            .copied();
        let track = self.writer.counter_track(&spec, unit)?;
        self.counter_tracks.push(Counter {
            key: key.clone(),
            track,
            total: 0,
            holder: 0,
        });
        self.counter_numbers
            .insert(key.clone(), self.counter_tracks.len() - 1);
        Ok(self.counter_tracks.len() - 1)
    }

    /// The track of a device on which nothing overlaps with a slice.
    fn lane(&mut self, process: &Process, name: String, span: Span) -> anyhow::Result<WriterTrack> {
        let parent = self
            .tracks
            .get(&Key::Process(process.partition, process.id))
            .copied();
        let raw = self.args.perfetto.overlap == Overlap::Raw;
        let key = Key::Named(process.partition, process.id, name);
        let lanes = self.lanes.entry(key.clone()).or_default();
        for (end, track) in lanes.iter_mut() {
            if raw || *end <= span.start {
                *end = span.end.max(*end);
                return Ok(*track);
            }
        }
        let Key::Named(_, _, name) = key else {
            anyhow::bail!("a device track without name");
        };
        let name = match lanes.len() {
            0 => name,
            more => format!("{name} #{}", more + 1),
        };
        let mut spec = TrackSpec::default();
        spec.name = Some(&name);
        spec.parent = parent;
        let track = self.writer.track(&spec)?;
        lanes.push((span.end, track));
        Ok(track)
    }

    fn times<'v>(&self, args: &mut Vec<(&'v str, Option<ArgValue<'v>>)>, (start, end): (i64, i64)) {
        args.extend([
            ("begin_ns", Some(ArgValue::Int(start))),
            ("end_ns", Some(ArgValue::Int(end))),
            ("delta_ns", Some(ArgValue::Int(end.saturating_sub(start)))),
        ]);
    }

    /// The arguments that there are, if any are wanted.
    fn finish_args<'v>(
        &self,
        args: Vec<(&'v str, Option<ArgValue<'v>>)>,
        span: Span,
    ) -> Vec<(&'v str, ArgValue<'v>)> {
        let mut out: Vec<(&str, ArgValue<'_>)> = match self.args.perfetto.no_annotations {
            true => Vec::new(),
            false => args
                .into_iter()
                .filter_map(|(key, value)| Some((key, value?)))
                .collect(),
        };
        if span.clipped {
            out.push(("clipped", ArgValue::Bool(true)));
        }
        out
    }
}

/// The part of a record that is written.
#[derive(Debug, Clone, std::marker::Copy)]
struct Span {
    start: i64,
    end: i64,
    clipped: bool,
    /// The record begins here.
    first: bool,
}

fn maybe<'v>(value: Option<i64>) -> Option<ArgValue<'v>> {
    value.map(ArgValue::Int)
}

fn kind(agent: Option<&Agent>) -> &str {
    agent
        .and_then(|agent| agent.kind.as_deref())
        .unwrap_or("UNK")
}

fn shape(sizes: [Option<i64>; 3]) -> String {
    let [x, y, z] = sizes.map(|size| size.unwrap_or(0));
    format!(
        "{} (x={x}, y={y}, z={z})",
        x.saturating_mul(y).saturating_mul(z)
    )
}

fn key_of(process: &Process, name: String) -> Key {
    Key::Named(process.partition, process.id, name)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "counters are reals in the format; whole ones below 2^53 stay exact"
)]
fn real(value: i64) -> f64 {
    value as f64
}
