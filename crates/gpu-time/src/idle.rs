//! Idle time and what the device was waiting for.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_model::interval::IntervalSet;
use trace_model::kernel::Activity;
use trace_model::{DeviceId, StreamId, ThreadId, TimeRange, Timestamp};

use crate::kernels::Running;
use crate::work::{GpuEvent, GpuWork};

/// What a stretch of idle time was spent on, judged by the work that ends the gap and the call that
/// launched it. Every nanosecond of a gap has one cause.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IdleCause {
    /// The call was not made yet.
    HostWait,
    /// The call was not made yet, and its thread was waiting for the device: in a synchronisation or
    /// a blocking copy.
    Synchronisation,
    /// The call had been made after the device ran dry, and the work had not begun: the time of the
    /// call itself and of the way to the device.
    LaunchLatency,
    /// The call had been made before the device ran dry: the work was queued and waited for the
    /// queue, for memory operations of the hardware, or for work elsewhere.
    KernelWait,
    /// The call is not in the trace.
    Other,
}

impl IdleCause {
    /// All causes.
    pub const ALL: [Self; 5] = [
        Self::HostWait,
        Self::Synchronisation,
        Self::LaunchLatency,
        Self::KernelWait,
        Self::Other,
    ];

    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::HostWait => "host_wait",
            Self::Synchronisation => "synchronisation",
            Self::LaunchLatency => "launch_latency",
            Self::KernelWait => "kernel_wait",
            Self::Other => "other",
        }
    }
}

/// Idle time by cause. The causes add up to `idle_ns`, exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct IdleTime {
    /// How many gaps.
    pub gaps: u64,
    /// All of it.
    pub idle_ns: i64,
    /// See [`IdleCause::HostWait`].
    pub host_wait_ns: i64,
    /// See [`IdleCause::Synchronisation`].
    pub synchronisation_ns: i64,
    /// See [`IdleCause::LaunchLatency`].
    pub launch_latency_ns: i64,
    /// See [`IdleCause::KernelWait`].
    pub kernel_wait_ns: i64,
    /// See [`IdleCause::Other`].
    pub other_ns: i64,
}

impl IdleTime {
    /// The time of one cause.
    pub fn of(&self, cause: IdleCause) -> i64 {
        match cause {
            IdleCause::HostWait => self.host_wait_ns,
            IdleCause::Synchronisation => self.synchronisation_ns,
            IdleCause::LaunchLatency => self.launch_latency_ns,
            IdleCause::KernelWait => self.kernel_wait_ns,
            IdleCause::Other => self.other_ns,
        }
    }

    fn add(&mut self, gap: &Self) {
        self.gaps += gap.gaps;
        self.idle_ns += gap.idle_ns;
        self.host_wait_ns += gap.host_wait_ns;
        self.synchronisation_ns += gap.synchronisation_ns;
        self.launch_latency_ns += gap.launch_latency_ns;
        self.kernel_wait_ns += gap.kernel_wait_ns;
        self.other_ns += gap.other_ns;
    }
}

/// Whose idle time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum IdleScope {
    /// No device did anything.
    Trace,
    /// No stream of the device did anything.
    Device,
    /// The stream did nothing.
    Stream,
}

impl IdleScope {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Trace => "trace",
            Self::Device => "device",
            Self::Stream => "stream",
        }
    }
}

/// The idle time of one stream, one device or the trace, between its first work and its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct IdleRow {
    /// Whose.
    pub scope: IdleScope,
    /// The device, but for the trace.
    pub device: Option<DeviceId>,
    /// The stream, for streams.
    pub stream: Option<StreamId>,
    /// From the first start to the last end.
    pub span_ns: i64,
    /// Something ran.
    pub busy_ns: i64,
    /// The rest, by cause.
    pub time: IdleTime,
}

/// One gap.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Gap {
    /// When it starts.
    pub start_ns: i64,
    /// When it ends.
    pub end_ns: i64,
    /// The device of the work that ends it.
    pub device: DeviceId,
    /// The stream of the work that ends it.
    pub stream: StreamId,
    /// Its causes.
    pub time: IdleTime,
    /// The work that ran last before it.
    pub before: String,
    /// The work that ends it.
    pub after: String,
    /// The call that launched that work.
    pub call: Option<String>,
}

impl Gap {
    /// The cause of most of it.
    pub fn cause(&self) -> IdleCause {
        let most = |a: IdleCause, b: IdleCause| {
            if self.time.of(b) > self.time.of(a) {
                b
            } else {
                a
            }
        };
        IdleCause::ALL.into_iter().fold(IdleCause::HostWait, most)
    }
}

/// Idle time of the trace, of each device and of each stream, and the longest gaps.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Idle {
    /// The trace first, then each device with its streams.
    pub rows: Vec<IdleRow>,
    /// The longest gaps in which no device did anything, longest first.
    pub gaps: Vec<Gap>,
    /// The start of the first work; 0 without any.
    pub start_ns: i64,
    /// Gaps of the trace that end with work that starts before its call does: the clocks of host and
    /// device disagree.
    pub skewed: u64,
}

/// Calls by which a thread waits for the device.
struct Waits {
    by_thread: FxHashMap<Option<ThreadId>, IntervalSet>,
}

impl Waits {
    fn new(work: &GpuWork<'_>) -> Self {
        let mut by_thread: FxHashMap<_, IntervalSet> = FxHashMap::default();
        for call in work.index().activities().calls() {
            let call = work.trace().slice(*call);
            let name = call.name().unwrap_or("");
            let waits = match work.index().activity(call) {
                Activity::SyncApi => !name.contains("WaitEvent"),
                Activity::MemcpyApi => !name.contains("Async"),
                _ => false,
            };
            if waits {
                let thread = call.track().thread;
                let span = (call.ts().nanos(), call.end().nanos());
                by_thread.entry(thread).or_default().cover(span);
            }
        }
        Self { by_thread }
    }
}

/// A gap before it is judged: between which events.
type RawGap<'e> = (i64, &'e GpuEvent, &'e GpuEvent);

/// The line of one scope.
#[derive(Default)]
struct Line<'e> {
    first: Option<i64>,
    latest: Option<&'e GpuEvent>,
    busy: Running,
    gaps: Vec<RawGap<'e>>,
}

impl<'e> Line<'e> {
    fn add(&mut self, event: &'e GpuEvent) {
        self.first.get_or_insert(event.start_ns);
        self.busy.cover(event.interval());
        match self.latest {
            Some(latest) if event.end_ns <= latest.end_ns => {}
            latest => {
                if let Some(latest) = latest
                    && event.start_ns > latest.end_ns
                {
                    self.gaps.push((latest.end_ns, latest, event));
                }
                self.latest = Some(event);
            }
        }
    }
}

/// Attributes the idle time of `work`; keeps the `longest` gaps.
///
/// Cost: a pass over the device work, and a look-up of the call for each gap.
pub fn idle(work: &GpuWork<'_>, longest: usize) -> Idle {
    let mut all = Line::default();
    let mut devices: BTreeMap<DeviceId, Line<'_>> = BTreeMap::new();
    let mut streams: BTreeMap<(DeviceId, StreamId), Line<'_>> = BTreeMap::new();
    for event in work.events() {
        all.add(event);
        devices.entry(event.device).or_default().add(event);
        let key = (event.device, event.stream);
        streams.entry(key).or_default().add(event);
    }
    let mut out = Idle::default();
    let Some(first) = all.first else {
        return out;
    };
    out.start_ns = first;
    let waits = Waits::new(work);
    let mut judged: Vec<(IdleTime, RawGap<'_>)> = Vec::new();
    for gap in &all.gaps {
        let (time, skewed) = judge(work, &waits, gap);
        out.skewed += u64::from(skewed);
        judged.push((time, *gap));
    }
    let mut total = IdleTime::default();
    judged.iter().for_each(|(time, _)| total.add(time));
    out.rows
        .push(row(IdleScope::Trace, (None, None), &all, total));
    let of_line = |line: &Line<'_>| {
        let mut time = IdleTime::default();
        for gap in &line.gaps {
            time.add(&judge(work, &waits, gap).0);
        }
        time
    };
    for (device, line) in &devices {
        let key = (Some(*device), None);
        out.rows
            .push(row(IdleScope::Device, key, line, of_line(line)));
        let of_device = (*device, StreamId(i64::MIN))..=(*device, StreamId(i64::MAX));
        for ((_, stream), line) in streams.range(of_device) {
            let key = (Some(*device), Some(*stream));
            out.rows
                .push(row(IdleScope::Stream, key, line, of_line(line)));
        }
    }
    judged.sort_by_key(|(time, gap)| (std::cmp::Reverse(time.idle_ns), gap.0));
    let gaps = judged.into_iter().take(longest);
    out.gaps = gaps
        .map(|(time, (start_ns, before, after))| Gap {
            start_ns,
            end_ns: after.start_ns,
            device: after.device,
            stream: after.stream,
            time,
            before: work.name(before).to_owned(),
            after: work.name(after).to_owned(),
            call: work
                .launch_of(after)
                .and_then(|call| call.name())
                .map(str::to_owned),
        })
        .collect();
    out
}

fn row(
    scope: IdleScope,
    (device, stream): (Option<DeviceId>, Option<StreamId>),
    line: &Line<'_>,
    time: IdleTime,
) -> IdleRow {
    let end = line.latest.map_or(0, |event| event.end_ns);
    IdleRow {
        scope,
        device,
        stream,
        span_ns: end - line.first.unwrap_or(end),
        busy_ns: line.busy.measure_ns,
        time,
    }
}

/// The causes of one gap, and whether the work starts before its call does.
fn judge(work: &GpuWork<'_>, waits: &Waits, gap: &RawGap<'_>) -> (IdleTime, bool) {
    let (start, _, after) = *gap;
    let end = after.start_ns;
    let mut time = IdleTime {
        gaps: 1,
        idle_ns: end - start,
        ..IdleTime::default()
    };
    let Some(call) = work.launch_of(after) else {
        time.other_ns = time.idle_ns;
        return (time, false);
    };
    let called = call.ts().nanos();
    let skewed = called > end;
    if called <= start {
        // What was still being called when the device ran dry was not queued yet.
        let until = call.end().nanos().clamp(start, end);
        time.launch_latency_ns = until - start;
        time.kernel_wait_ns = end - until;
        return (time, skewed);
    }
    let called = called.min(end);
    let before = TimeRange::new(Timestamp::from_nanos(start), Timestamp::from_nanos(called));
    let waited = waits.by_thread.get(&call.track().thread);
    time.synchronisation_ns = waited.map_or(0, |set| set.clip(before).measure().get());
    time.host_wait_ns = called - start - time.synchronisation_ns;
    time.launch_latency_ns = end - called;
    (time, skewed)
}
