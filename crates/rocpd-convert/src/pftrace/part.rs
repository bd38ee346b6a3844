//! One trace file: slices, flow arrows and counters of its records.

mod counters;

use std::io::Write;

use perfetto_reader::write::{EventData, TraceWriter, WriterOptions, WriterTrack};
use rocpd_db::{
    Agent, Copy, DeviceNumbers, Dispatch, Event, Filter, Process, Region, RocpdSet, domain_of,
    slice_category,
};
use rustc_hash::FxHashMap;
use trace_model::{ArgValue, ClockDomain};

use super::annotations::{Annotations, Room, Wanted};
use super::call_args::{ArgTable, CallArgs};
use super::overlap::{Cutter, Track, Waiting};
use super::places::{Device, Key, Places};
use super::report::PartReport;
use super::sums::CounterSums;
use super::texts::Texts;
use super::timeline::{Rest, Timeline};
use super::{Options, Overlap, Shown};
use crate::Result;
use crate::items::Item;

/// State that is carried from one part to the next.
#[derive(Debug, Clone, Default)]
pub(super) struct Live {
    /// Counter and size by process and address.
    allocated: FxHashMap<(usize, i64, i64), (Key, i64)>,
    rest: Rest,
}

/// A finished part.
pub(super) struct Done<'a, W> {
    pub(super) out: W,
    pub(super) report: PartReport,
    pub(super) live: Live,
    /// Slices of devices that continue in the next part.
    pub(super) cutter: Cutter<'a>,
}

/// Data that all files of a conversion share.
pub(super) struct Job<'a> {
    pub(super) set: &'a RocpdSet,
    pub(super) options: &'a Options,
    pub(super) sums: CounterSums,
    pub(super) call_args: ArgTable<'a>,
    pub(super) devices: DeviceNumbers,
}

impl Job<'_> {
    /// Returns the numbers of devices if agents alone do not distinguish them.
    fn unclear_devices(&self) -> Option<&DeviceNumbers> {
        (!self.devices.are_plain()).then_some(&self.devices)
    }
}

/// A trace file under construction.
pub(super) struct Part<'a, W: Write> {
    writer: TraceWriter<W>,
    job: &'a Job<'a>,
    /// End of the part, if known.
    end: Option<i64>,
    places: Places,
    timeline: Timeline,
    /// Hardware counters by partition, process, agent and number.
    pmc: FxHashMap<(usize, i64, Option<i64>, usize), usize>,
    texts: Texts,
    room: Room,
    /// Counters of the current record.
    counted: Vec<(usize, f64)>,
    /// Arguments of the current record.
    called: CallArgs,
    /// `true` if slices of devices wait until their cuts are final.
    waits: bool,
    cutter: Cutter<'a>,
    live: Live,
    report: PartReport,
}

impl<'a, W: Write> Part<'a, W> {
    pub(super) fn new(
        file: String,
        out: W,
        job: &'a Job<'a>,
        filter: &Filter,
        end: Option<i64>,
    ) -> Result<Self> {
        let options = WriterOptions::new(ClockDomain::BootTime, None);
        let mut part = Self {
            writer: TraceWriter::new(out, options)?,
            job,
            end,
            places: Places::default(),
            timeline: Timeline::default(),
            pmc: FxHashMap::default(),
            texts: Texts::new(job.options),
            room: Room::default(),
            counted: Vec::new(),
            called: CallArgs::new(),
            waits: job.options.overlap == Overlap::Split,
            cutter: Cutter::default(),
            live: Live::default(),
            report: PartReport {
                file,
                ..PartReport::default()
            },
        };
        part.places.describe(&mut part.writer, job.set, filter)?;
        Ok(part)
    }

    pub(super) fn bytes_written(&self) -> u64 {
        self.writer.bytes_written()
    }

    /// Continues the counters and slices of the parts before.
    pub(super) fn resume(&mut self, live: Live, cutter: Cutter<'a>, at: i64) -> Result<()> {
        self.cutter = cutter;
        for (key, total) in &live.rest.totals {
            let counter = self.bytes_counter(key)?;
            self.timeline.add(at, counter, *total);
        }
        for (time, key, change) in &live.rest.pending {
            let counter = self.bytes_counter(key)?;
            self.timeline.add(*time, counter, *change);
        }
        self.live.allocated = live.allocated;
        Ok(())
    }

    /// Adds a record, starting at `from`.
    pub(super) fn add(&mut self, item: Item<'_, 'a>, from: i64) -> Result<()> {
        let start = item.start_ns().max(from);
        if start < 0 {
            self.report.before_zero += 1;
            return Ok(());
        }
        let (end, clipped) = match self.end {
            Some(cut) if item.end_ns() > cut => (cut, true),
            _ => (item.end_ns(), false),
        };
        let clipped = clipped || start > item.start_ns();
        self.write_ended(start)?;
        self.timeline.flush(&mut self.writer, start)?;
        self.texts.trim();
        let span = Span {
            start,
            end: end.max(start),
            clipped,
            first: start == item.start_ns(),
        };
        self.report.reversed += u64::from(span.first && item.end_ns() < item.start_ns());
        match item {
            Item::Region(region) => {
                self.report.add(span);
                self.region(region, span)?;
            }
            Item::Dispatch(dispatch) => {
                self.device_slice(self.track_of_dispatch(dispatch), item, span)?;
                self.counters(dispatch, span)?;
            }
            Item::Copy(copy) => {
                self.device_slice(self.track_of_copy(copy), item, span)?;
                self.copied_bytes(copy, span)?;
            }
            Item::Allocation(allocation) => {
                if span.first {
                    self.allocation(allocation)?;
                }
            }
        }
        Ok(())
    }

    /// Writes the slice of a device, or stores it until overlapping slices are known.
    fn device_slice(&mut self, track: Track, item: Item<'_, 'a>, span: Span) -> Result<()> {
        if !self.waits {
            return self.write_device_slice(item, span);
        }
        // A record that began in an earlier part waits already. Others cut it before it is cut at
        // the end of the part.
        if span.first {
            let record = item.kept();
            let span = Span {
                end: item.end_ns().max(span.start),
                clipped: false,
                ..span
            };
            self.cutter.add(track, Waiting { record, span });
        }
        Ok(())
    }

    /// Writes the slices that can no longer be cut.
    fn write_ended(&mut self, now: i64) -> Result<()> {
        while let Some(slice) = self.cutter.ended(now) {
            self.write_device_slice(slice.record.item(), slice.span)?;
        }
        Ok(())
    }

    fn write_device_slice(&mut self, item: Item<'_, 'a>, span: Span) -> Result<()> {
        self.report.add(span);
        match item {
            Item::Dispatch(dispatch) => self.dispatch(dispatch, span),
            Item::Copy(copy) => self.copy(copy, span),
            Item::Region(_) | Item::Allocation(_) => Ok(()),
        }
    }

    /// Writes pending data before `until` and completes the file.
    pub(super) fn finish(mut self, until: i64) -> Result<Done<'a, W>> {
        if until == i64::MAX {
            self.write_ended(until)?;
        } else {
            for slice in self.cutter.until(until) {
                self.write_device_slice(slice.record.item(), slice.span)?;
            }
        }
        self.timeline.flush(&mut self.writer, until)?;
        let mut report = self.report;
        report.trace_bytes = self.writer.bytes_written();
        let out = self.writer.finish()?;
        let live = Live {
            allocated: self.live.allocated,
            rest: self.timeline.rest(),
        };
        Ok(Done {
            out,
            report,
            live,
            cutter: self.cutter,
        })
    }

    fn annotations<'v>(&mut self) -> Annotations<'v>
    where
        'a: 'v,
    {
        self.room.open(match &self.job.options.shown {
            Shown::All => Wanted::All,
            Shown::Only(keys) => Wanted::Only(keys),
        })
    }

    /// Returns the flow of a slice, if the record begins with it.
    fn flow(&self, process: &Process, event: Option<Event<'_>>, span: Span) -> Option<u64> {
        use std::hash::BuildHasher as _;
        if !self.job.options.flows || !span.first {
            return None;
        }
        let stack = event?.stack_id.filter(|id| *id != 0)?;
        // Deterministic, and different for equal ids of different processes.
        let hash = rustc_hash::FxBuildHasher.hash_one((process.guid.as_str(), stack));
        Some(hash.max(1))
    }

    fn region(&mut self, r: &Region<'_>, span: Span) -> Result<()> {
        let Some(track) = self.places.thread(r.process, r.thread) else {
            return Ok(());
        };
        let category = r.category();
        let mut called = std::mem::take(&mut self.called);
        self.job.call_args.find(r, &mut called)?;
        let mut args = self.annotations();
        args.times(r.start_ns, r.end_ns);
        args.maybe("tid", r.thread.map(|t| t.tid));
        args.text("kind", category.unwrap_or_default());
        if let Some(name) = r.name {
            args.text("operation", name);
        }
        args.maybe("corr_id", r.event.and_then(|e| e.stack_id));
        args.maybe("ancestor_id", r.event.and_then(|e| e.parent_stack_id));
        for (key, value) in &called {
            args.force(key, ArgValue::Str(value));
        }
        args.clipped(span.clipped);
        let flow = match domain_of(category) {
            "MARKER" => None,
            _ => self.flow(r.process, r.event, span),
        };
        let data = EventData {
            name: Some(r.shown_name().unwrap_or("?")),
            category: slice_category(category),
            args: args.list(),
            flows: flow.as_slice(),
            terminating_flows: &[],
        };
        self.writer
            .complete(track, span.start, span.duration(), &data)?;
        self.room.close(args);
        self.called = called;
        if !self.job.options.counters {
            return Ok(());
        }
        // Samples of rocprof-sys carry values.
        let counted = self.counted(r.process, r.event)?;
        for (number, value) in &counted {
            let counter = self.pmc(r.process, None, *number)?;
            self.timeline.hold(counter, *value, span.start, None);
        }
        self.counted = counted;
        Ok(())
    }

    fn track_of_dispatch(&self, r: &Dispatch<'_>) -> Track {
        let device = match self.job.options.group_by_queue {
            true => Device::Queue(r.agent.map_or(0, |agent| agent.id), r.queue_id.unwrap_or(0)),
            false => Device::Stream(r.stream_id.unwrap_or(0)),
        };
        (r.process.partition, r.process.id, device)
    }

    fn track_of_copy(&self, r: &Copy<'_>) -> Track {
        let device = match self.job.options.group_by_queue {
            true => {
                let agent = r.dst_agent.and_then(|a| a.logical_index).unwrap_or(0);
                let letter = kind(r.dst_agent).chars().next().unwrap_or('U');
                Device::CopyTo(agent, r.thread.map_or(0, |t| t.tid), letter)
            }
            false => Device::Stream(r.stream_id.unwrap_or(0)),
        };
        (r.process.partition, r.process.id, device)
    }

    fn dispatch(&mut self, r: &Dispatch<'_>, span: Span) -> Result<()> {
        let (.., device) = self.track_of_dispatch(r);
        let track = match device {
            Device::Queue(agent, queue) => {
                let partition = r.process.partition;
                let number = self.places.queue_number(partition, agent, queue);
                let (label, at) = self.agent_parts(r.agent);
                let name = || format!("COMPUTE {label} [{at}] QUEUE [{number}] {}", kind(r.agent));
                self.lane(r.process, device, name, span)?
            }
            _ => self.stream(r.process, r.stream_id, span)?,
        };
        let kernel = self.texts.kernel(r);
        let agent = self.texts.agent(r.process.partition, r.agent);
        let workgroup = self.texts.shape(r.workgroup);
        let grid = self.texts.shape(r.grid);
        let counted = self.counted(r.process, r.event)?;
        let mut args = self.annotations();
        args.times(r.start_ns, r.end_ns);
        args.text("kind", r.event.and_then(|e| e.category).unwrap_or_default());
        args.text("agent", self.texts.get(agent));
        args.maybe("corr_id", r.event.and_then(|e| e.stack_id));
        args.maybe("queue", r.queue_id);
        args.maybe("tid", r.thread.map(|t| t.tid));
        args.maybe("kernel_id", r.kernel_id);
        args.maybe("replay_pass", r.replay_pass);
        args.maybe("Scratch_Size", r.scratch_bytes);
        args.maybe("LDS_Block_Size", r.lds_bytes);
        args.text("workgroup_size", self.texts.get(workgroup));
        args.text("grid_size", self.texts.get(grid));
        args.maybe("stream_id", r.stream_id);
        args.maybe(
            "device",
            self.job.unclear_devices().and_then(|d| d.of_dispatch(r)),
        );
        for (number, value) in &counted {
            let (key, value) = (self.job.sums.name(*number), ArgValue::Real(*value));
            match self.job.options.counters_in_slices {
                true => args.force(key, value),
                false => args.add(key, value),
            }
        }
        args.clipped(span.clipped);
        let flow = self.flow(r.process, r.event, span);
        let data = EventData {
            name: Some(self.texts.kernel_text(kernel, r)),
            category: Some("kernel_dispatch"),
            args: args.list(),
            flows: flow.as_slice(),
            terminating_flows: &[],
        };
        slice(&mut self.writer, self.waits, track, span, &data)?;
        self.room.close(args);
        self.counted = counted;
        Ok(())
    }

    fn copy(&mut self, r: &Copy<'_>, span: Span) -> Result<()> {
        let (.., device) = self.track_of_copy(r);
        let track = match device {
            Device::CopyTo(agent, thread, _) => {
                let kind = kind(r.dst_agent);
                let name = || format!("COPY to AGENT [{agent}] THREAD [{thread}] ({kind})");
                self.lane(r.process, device, name, span)?
            }
            _ => self.stream(r.process, r.stream_id, span)?,
        };
        let src = self.texts.dashed(r.process.partition, r.src_agent);
        let dst = self.texts.dashed(r.process.partition, r.dst_agent);
        let name = r.name.unwrap_or("?");
        let mut args = self.annotations();
        args.times(r.start_ns, r.end_ns);
        args.text("kind", r.event.and_then(|e| e.category).unwrap_or_default());
        args.text("operation", name);
        args.text("src_agent", self.texts.get(src));
        args.text("dst_agent", self.texts.get(dst));
        args.int("copy_bytes", r.size_bytes);
        args.maybe("corr_id", r.event.and_then(|e| e.stack_id));
        args.maybe("tid", r.thread.map(|t| t.tid));
        args.maybe("stream_id", r.stream_id);
        args.maybe(
            "device",
            self.job.unclear_devices().and_then(|d| d.of_copy(r)),
        );
        args.clipped(span.clipped);
        let flow = self.flow(r.process, r.event, span);
        let data = EventData {
            name: Some(name),
            category: Some("memory_copy"),
            args: args.list(),
            flows: flow.as_slice(),
            terminating_flows: &[],
        };
        slice(&mut self.writer, self.waits, track, span, &data)?;
        self.room.close(args);
        Ok(())
    }

    /// Returns label and index of an agent; `Agent 0` if there is none.
    fn agent_parts<'v>(&self, agent: Option<&'v Agent>) -> (&'v str, i64) {
        agent.map_or(("Agent", 0), |agent| self.job.options.agents.parts(agent))
    }

    fn stream(
        &mut self,
        process: &Process,
        stream: Option<i64>,
        span: Span,
    ) -> Result<WriterTrack> {
        let stream = stream.unwrap_or(0);
        let name = || format!("STREAM [{stream}]");
        self.lane(process, Device::Stream(stream), name, span)
    }

    fn lane(
        &mut self,
        process: &Process,
        device: Device,
        name: impl FnOnce() -> String,
        span: Span,
    ) -> Result<WriterTrack> {
        let raw = self.job.options.overlap != Overlap::Lanes;
        let times = (span.start, span.end);
        self.places
            .lane(&mut self.writer, process, device, name, times, raw)
    }
}

/// The part of a record that is written.
#[derive(Debug, Clone, std::marker::Copy)]
pub(super) struct Span {
    pub(super) start: i64,
    pub(super) end: i64,
    pub(super) clipped: bool,
    /// `true` if the record begins here.
    pub(super) first: bool,
}

impl Span {
    fn duration(self) -> i64 {
        self.end.saturating_sub(self.start)
    }
}

/// Writes a slice. A slice that waited comes after others that began later: its end is written with
/// it.
fn slice<W: Write>(
    writer: &mut TraceWriter<W>,
    waited: bool,
    track: WriterTrack,
    span: Span,
    data: &EventData<'_>,
) -> std::io::Result<()> {
    if !waited {
        return writer.complete(track, span.start, span.duration(), data);
    }
    if span.duration() == 0 {
        return writer.instant(track, span.start, data);
    }
    writer.begin(track, span.start, data)?;
    writer.end(track, span.end)
}

fn kind(agent: Option<&Agent>) -> &str {
    agent
        .and_then(|agent| agent.kind.as_deref())
        .unwrap_or("UNK")
}
