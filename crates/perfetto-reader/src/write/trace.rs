//! Writes a whole trace from the store to a file.

use std::io::{self, Write};

use rustc_hash::FxHashSet;
use trace_model::{
    ArgValue, ClockDomain, ProcessId, Slice, ThreadId, Trace, Track, TrackId, TrackKind, Unit,
    bare_key,
};

use crate::proto::schema;
use crate::write::encode::Encoder;
use crate::write::flows::{FlowIds, SliceFlows};
use crate::write::spec::{CounterUnit, TrackSpec, WriterOptions, WriterTrack};
use crate::write::stream::TraceWriter;

/// First number assigned to processes and threads without a 32-bit number.
const FIRST_MADE_UP: i32 = 1 << 30;

/// Writes a whole trace as Perfetto protobuf and returns the output.
///
/// Reading the file back gives the same slices (time, duration, name, category, arguments,
/// nesting), arrows, counters, processes and threads. Limits of the format:
///
/// * a slice that outlives its parent goes to a sibling track, where it has no parent;
/// * arrows lose category and name, and an arrow that runs backwards in time is reversed;
/// * arguments with raw JSON become texts; CPU times of slices are left out;
/// * process and thread numbers that are texts or do not fit in 32 bits are replaced;
/// * a trace that begins before time zero is moved, and its base time with it.
///
/// # Errors
///
/// Returns an error if writing fails.
pub fn write_trace<W: Write>(trace: &Trace, out: W) -> io::Result<W> {
    write_moved(trace, 0, Some(super::chrome::shift(trace)), out)
}

/// Same as [`write_trace`], as one of several traces in a file, which are written one after the other. `part` is its number; times must
/// be of one clock, and numbers of processes must differ.
///
/// # Errors
///
/// Returns an error if writing fails.
pub fn write_part<W: Write>(trace: &Trace, part: u32, out: W) -> io::Result<W> {
    write_moved(trace, part, None, out)
}

/// Writes a trace that is alone in its file with times that are later by `alone` nanoseconds, or one of several.
fn write_moved<W: Write>(trace: &Trace, part: u32, alone: Option<i64>, out: W) -> io::Result<W> {
    let shift = alone.unwrap_or(0);
    let meta = trace.meta();
    // A recording without a base time has none afterwards.
    let base = match meta.base_time_ns {
        0 => 0,
        base => base.saturating_sub(shift),
    };
    let clock = match meta.clock {
        ClockDomain::KinetoRelative => ClockDomain::BootTime,
        other => other,
    };
    let mut options = WriterOptions::new(clock, (base != 0).then_some(base));
    options.uuid_seed = u64::from(part) << 40;
    let writer = TraceWriter::new(out, options)?;
    let mut export = Export::new(trace, writer);
    export.shift = shift;
    export.is_alone = alone.is_some();
    export.run()
}

struct Export<'t, W: Write> {
    trace: &'t Trace,
    writer: TraceWriter<W>,
    processes: Vec<Option<WriterTrack>>,
    threads: Vec<Option<WriterTrack>>,
    tracks: Vec<Option<WriterTrack>>,
    pids: Vec<i32>,
    tids: Vec<i32>,
    /// The uuids of the tracks that threads run on, by thread.
    uuids: Vec<Option<u64>>,
    /// Nanoseconds that are added to all times.
    shift: i64,
    /// `true` if no other trace is in the file.
    is_alone: bool,
}

impl<'t, W: Write> Export<'t, W> {
    fn new(trace: &'t Trace, writer: TraceWriter<W>) -> Self {
        let pids = numbers(trace.processes().iter().map(|p| (p.pid.0, p.artificial)));
        let tids = numbers(trace.threads().iter().map(|t| (t.tid.0, t.artificial)));
        let mut uuids = vec![None; trace.threads().len()];
        for track in trace
            .tracks()
            .iter()
            .filter(|t| t.kind == TrackKind::Thread)
        {
            if let Some(uuid) = track.thread.and_then(|id| uuids.get_mut(id.index())) {
                *uuid = uuid.or(track.uuid);
            }
        }
        Self {
            trace,
            writer,
            uuids,
            shift: 0,
            is_alone: false,
            processes: vec![None; trace.processes().len()],
            threads: vec![None; trace.threads().len()],
            tracks: vec![None; trace.tracks().len()],
            pids,
            tids,
        }
    }

    /// Writes the properties of the recording, including its rank in the job.
    fn metadata(&mut self) -> io::Result<()> {
        let meta = self.trace.meta();
        let job = stated_job(self.trace);
        let entries = meta
            .entries
            .iter()
            .map(|(key, text)| (key.as_str(), text.as_str()));
        let entries = entries.filter(|(key, _)| crate::json::is_metadata(key));
        // Without it equal correlations of two processes would be one. It holds for the whole file.
        let within = meta.launches_within_process && self.is_alone;
        let within = within.then_some((crate::json::LAUNCHES_WITHIN_PROCESS, "true"));
        let more = job.as_deref().map(|job| (JOB, job));
        let issues = crate::source_issues::stated(self.trace);
        let issues = issues.as_deref();
        let issues = issues.map(|issues| (crate::source_issues::KEY, issues));
        self.writer
            .metadata(entries.chain(more).chain(within).chain(issues))
    }

    fn run(mut self) -> io::Result<W> {
        self.metadata()?;
        for i in 0..self.processes.len() {
            if let Some(id) = ProcessId::new(i) {
                self.process(id)?;
            }
        }
        for i in 0..self.threads.len() {
            if let Some(id) = ThreadId::new(i) {
                self.thread(id)?;
            }
        }
        for id in self.trace.track_ids() {
            self.track(id)?;
        }
        self.events()?;
        self.writer.finish()
    }

    fn bytes(&self, text: Option<trace_model::StrId>) -> Option<Vec<u8>> {
        text.map(|id| self.trace.text(id).as_bytes().to_vec())
    }

    fn process(&mut self, id: ProcessId) -> io::Result<WriterTrack> {
        if let Some(track) = self.processes[id.index()] {
            return Ok(track);
        }
        let process = self.trace.process(id);
        let track = self.writer.process_from(schema::ProcessDescriptor {
            pid: Some(self.pids[id.index()]),
            process_name: self.bytes(process.name),
            process_labels: self.bytes(process.labels).into_iter().collect(),
            legacy_sort_index: process.sort_index.and_then(|n| i32::try_from(n).ok()),
            ..schema::ProcessDescriptor::default()
        })?;
        self.processes[id.index()] = Some(track);
        Ok(track)
    }

    fn thread(&mut self, id: ThreadId) -> io::Result<WriterTrack> {
        if let Some(track) = self.threads[id.index()] {
            return Ok(track);
        }
        let thread = self.trace.thread(id);
        let tid = self.tids[id.index()];
        let process = match thread.process {
            Some(process) => Some((self.process(process)?, self.pids[process.index()])),
            None => None,
        };
        let uuid = self.uuids.get(id.index()).copied().flatten();
        let descriptor = schema::ThreadDescriptor {
            pid: Some(process.map_or(tid, |(_, pid)| pid)),
            tid: Some(tid),
            thread_name: self.bytes(thread.name),
            legacy_sort_index: thread.sort_index.and_then(|n| i32::try_from(n).ok()),
            ..schema::ThreadDescriptor::default()
        };
        let parent = process.map(|(track, _)| track);
        let track = self.writer.thread_from(parent, descriptor, uuid)?;
        self.threads[id.index()] = Some(track);
        Ok(track)
    }

    fn track(&mut self, id: TrackId) -> io::Result<WriterTrack> {
        if let Some(track) = self.tracks[id.index()] {
            return Ok(track);
        }
        let trace = self.trace;
        let track: &Track = trace.track(id);
        let written = match (track.kind, track.thread) {
            (TrackKind::Thread, Some(thread)) => self.thread(thread)?,
            _ => {
                let parent = match (track.parent, track.thread, track.process) {
                    (Some(parent), _, _) if track.kind != TrackKind::ThreadOverflow => {
                        Some(self.track(parent)?)
                    }
                    (_, Some(thread), _) => Some(self.thread(thread)?),
                    (_, None, Some(process)) => Some(self.process(process)?),
                    _ => None,
                };
                let name = match track.kind {
                    TrackKind::ThreadOverflow => Some("overlapping slices"),
                    _ => track.name.map(|n| trace.text(n)),
                };
                let spec = TrackSpec {
                    name,
                    parent,
                    uuid: track.uuid,
                    unmerged: matches!(
                        track.kind,
                        TrackKind::ThreadOverflow
                            | TrackKind::ThreadChildUnmerged
                            | TrackKind::ProcessChildUnmerged
                            | TrackKind::GlobalUnmerged
                    ),
                };
                if track.kind.is_counter() {
                    let unit = match (track.unit, track.unit_name) {
                        (Some(Unit::Nanos), _) => CounterUnit::Nanos,
                        (Some(Unit::Count), _) => CounterUnit::Count,
                        (Some(Unit::Bytes), _) => CounterUnit::Bytes,
                        (_, Some(name)) => CounterUnit::Named(trace.text(name)),
                        (Some(Unit::None) | None, None) => CounterUnit::None,
                        (Some(unit), None) => CounterUnit::Named(unit.perfetto_name()),
                    };
                    self.writer.counter_track(&spec, unit)?
                } else {
                    self.writer.track(&spec)?
                }
            }
        };
        self.tracks[id.index()] = Some(written);
        Ok(written)
    }

    fn events(&mut self) -> io::Result<()> {
        let trace = self.trace;
        let mut has_children = vec![false; trace.len()];
        for slice in trace.slices() {
            if let Some(parent) = slice.parent() {
                has_children[parent.id().index()] = true;
            }
        }
        let flow_ids = FlowIds::new(trace);
        let mut flows = SliceFlows::default();
        let mut counters = trace.counters().iter().peekable();
        for slice in trace.slices() {
            while let Some(sample) = counters.next_if(|c| c.ts <= slice.ts()) {
                let track = self.track(sample.track)?;
                let at = sample.ts.nanos().saturating_add(self.shift);
                self.writer.counter(track, at, sample.value)?;
            }
            flow_ids.of(slice.id(), &mut flows);
            let is_leaf = !has_children[slice.id().index()];
            self.slice(slice, is_leaf, &flows)?;
        }
        for sample in counters {
            let track = self.track(sample.track)?;
            let at = sample.ts.nanos().saturating_add(self.shift);
            self.writer.counter(track, at, sample.value)?;
        }
        Ok(())
    }

    fn slice(&mut self, slice: Slice<'t>, is_leaf: bool, flows: &SliceFlows) -> io::Result<()> {
        let track = self.track(slice.track_id())?;
        let ts = slice.ts().nanos().saturating_add(self.shift);
        let end = slice.dur().map(|dur| ts.saturating_add(dur.get()));
        let order = |slice: Slice<'_>| slice.id().index() as u64 + 1;
        let parent = slice.parent().map(order);
        self.writer
            .nested_slice(track, (ts, end), order(slice), parent, is_leaf, |encoder| {
                encoder.names(slice.name(), slice.category());
                encoder.flows(&flows.through, &flows.terminating);
                encode_typed(encoder.event, slice);
                let plain = slice
                    .args()
                    .filter(|(key, _)| !is_typed(key))
                    .map(|(key, value)| (bare_key(key), value));
                encoder.args(plain);
            })
    }
}

/// Key of the properties of a distributed job.
pub(super) const JOB: &str = "distributedInfo";

/// Returns the properties of the job as JSON, if no entry of the recording has them.
pub(super) fn stated_job(trace: &Trace) -> Option<String> {
    let meta = trace.meta();
    let is_stated = meta.entry(JOB).is_some();
    let job = meta.distributed.as_ref().filter(|_| !is_stated)?;
    let job = serde_json::json!({
        "backend": job.backend,
        "rank": job.rank.map(|rank| rank.0),
        "world_size": job.world_size,
    });
    Some(job.to_string())
}

/// Returns `true` for arguments that track events have fields for, or that a compatible reader
/// adds.
fn is_typed(key: &str) -> bool {
    matches!(
        key,
        "correlation_id"
            | "source.file_name"
            | "source.function_name"
            | "source.line_number"
            | "legacy_event.passthrough_utid"
    )
}

fn encode_typed(event: &mut Encoder, slice: Slice<'_>) {
    let mut location = Encoder::default();
    for (key, value) in slice.args().filter(|(key, _)| is_typed(key)) {
        match (key, value) {
            ("correlation_id", ArgValue::UInt(n)) => event.uint(52, n),
            ("correlation_id", ArgValue::Str(text)) => event.bytes(53, text.as_bytes()),
            ("source.file_name", ArgValue::Str(text)) => location.bytes(2, text.as_bytes()),
            ("source.function_name", ArgValue::Str(text)) => location.bytes(3, text.as_bytes()),
            ("source.line_number", ArgValue::UInt(n)) => location.uint(4, n),
            _ => {}
        }
    }
    if !location.is_empty() {
        event.bytes(33, location.as_slice());
    }
}

/// Returns 32-bit numbers: the given ones where they fit and are real, generated ones otherwise.
fn numbers(given: impl Iterator<Item = (i64, bool)> + Clone) -> Vec<i32> {
    let real = |(n, artificial): (i64, bool)| match artificial {
        false => i32::try_from(n).ok(),
        true => None,
    };
    let used: FxHashSet<i32> = given.clone().filter_map(real).collect();
    let mut next = FIRST_MADE_UP;
    given
        .map(|number| {
            real(number).unwrap_or_else(|| {
                while used.contains(&next) {
                    next = next.wrapping_add(1);
                }
                let made_up = next;
                next = next.wrapping_add(1);
                made_up
            })
        })
        .collect()
}
