//! Launches: time from the launch API call to the start of the work, and queue depths.

use std::collections::BTreeMap;

use rustc_hash::FxHashSet;
use serde::Serialize;
use trace_model::interval::Interval;
use trace_model::kernel::Activity;
use trace_model::{DeviceId, Slice, SliceId, StreamId, Timestamp};

use crate::split::{Split, StepRule};
use crate::spread::Spread;
use crate::submission::Submission;
use crate::work::{GpuEvent, GpuWork, WorkKind};

/// Kind of a launch.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LaunchKind {
    /// All launches.
    All,
    /// A kernel launched by a call of its own.
    Kernel,
    /// GPU activity of a graph.
    Graph,
    /// A memcpy.
    Memcpy,
    /// A memset.
    Memset,
}

impl LaunchKind {
    /// Returns the stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::All => "all",
            Self::Kernel => "kernel",
            Self::Graph => "graph",
            Self::Memcpy => "memcpy",
            Self::Memset => "memset",
        }
    }
}

/// Latencies of a number of launches. For each launch that does not start before its call, `latency
/// == in_call + queued + dispatch`, exactly.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LaunchTimes {
    /// Start of the work minus start of the call; negative where the clocks disagree.
    pub latency: Spread,
    /// Part of the latency during the launch API call.
    pub in_call: Spread,
    /// Part of the latency after the call, while earlier work of the same stream ran: queue delay.
    pub queued: Spread,
    /// Rest of the latency, after the call and after earlier work: launch gap.
    pub dispatch: Spread,
    /// `dispatch` of launches whose stream was idle when the call returned, or ran dry while the usual
    /// latency of a launch had not passed yet: start latency.
    pub start_latency: Spread,
    /// `dispatch` of all other launches, which were ready when earlier work of the stream ended: the
    /// gap between the two.
    pub queue_gap: Spread,
    /// Durations of the calls; a call that launched several activities counts once.
    pub call: Spread,
    /// Number of activities that start before their call.
    pub negative: u64,
}

/// One group of launches.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LaunchRow {
    /// Stream, or `None` for all streams.
    pub stream: Option<(DeviceId, StreamId)>,
    /// Kind of the launches.
    pub kind: LaunchKind,
    /// Latencies.
    pub times: LaunchTimes,
}

/// Queue depth of a stream over time: an activity is queued from the start of its call to its own
/// start.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DepthRow {
    /// The device.
    pub device: DeviceId,
    /// The stream.
    pub stream: StreamId,
    /// Time from the first call to the last start, or the length of the window.
    pub span_ns: i64,
    /// Maximum depth.
    pub max: u64,
    /// Mean depth over time.
    pub mean: f64,
    /// Share of the time in which the queue was empty, in percent.
    pub empty_pct: f64,
}

/// Queue depth of a stream in one interval.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct DepthPoint {
    /// The device.
    pub device: DeviceId,
    /// The stream.
    pub stream: StreamId,
    /// Start of the interval.
    pub start_ns: i64,
    /// End of the interval.
    pub end_ns: i64,
    /// Maximum depth.
    pub max: u64,
    /// Mean depth over time.
    pub mean: f64,
}

/// Launch latencies and queue depths.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Launches {
    /// All streams together first, then each.
    pub rows: Vec<LaunchRow>,
    /// Queue depth of each stream.
    pub depth: Vec<DepthRow>,
    /// Queue depths over time.
    pub series: Vec<DepthPoint>,
    /// Number of activities whose call is known.
    pub linked: u64,
    /// Number of calls that launched them.
    pub calls: u64,
    /// Number of these calls that found their stream idle: no earlier activity was running when the
    /// call returned, so that the GPU waited for the host.
    pub onto_idle: u64,
    /// Number of these calls that took longer than the first activity that they launched.
    pub longer_than_work: u64,
    /// Number of activities whose call is not in the trace.
    pub unlinked: u64,
    /// Time of these activities.
    pub unlinked_ns: i64,
}

#[derive(Default)]
struct Group {
    latency: Vec<i64>,
    in_call: Vec<i64>,
    queued: Vec<i64>,
    dispatch: Vec<i64>,
    start_latency: Vec<i64>,
    queue_gap: Vec<i64>,
    call: Vec<i64>,
    negative: u64,
}

/// Returns the kind of the launch of an activity.
pub(crate) fn kind_of(work: &GpuWork<'_>, call: Slice<'_>, event: &GpuEvent) -> LaunchKind {
    match (work.index().activity(call), event.kind) {
        (Activity::GraphLaunch, _) | (_, WorkKind::Graph) => LaunchKind::Graph,
        (_, WorkKind::Kernel) => LaunchKind::Kernel,
        (_, WorkKind::Memcpy) => LaunchKind::Memcpy,
        (_, WorkKind::Memset) => LaunchKind::Memset,
    }
}

type Key = (Option<(DeviceId, StreamId)>, LaunchKind);

/// Times of one launch.
struct Way<'e> {
    event: &'e GpuEvent,
    call: SliceId,
    called: i64,
    returned: i64,
    kind: LaunchKind,
    /// End of earlier work of the stream.
    previous: Option<i64>,
}

impl Way<'_> {
    fn stream(&self) -> (DeviceId, StreamId) {
        (self.event.device, self.event.stream)
    }

    /// Returns the time from the start of the call to the start of the work.
    fn latency(&self) -> i64 {
        self.event.start_ns.saturating_sub(self.called)
    }

    /// Returns the parts of the latency: in the call, behind earlier work, the rest; `None` for work that starts before its
    /// call.
    fn parts(&self) -> Option<(i64, i64, i64)> {
        let (start, latency) = (self.event.start_ns, self.latency());
        (latency >= 0).then(|| {
            let in_call = latency.min(self.returned - self.called);
            let wait = latency - in_call;
            let behind = self
                .previous
                .map_or(0, |end| end.min(start) - self.returned);
            let queued = behind.clamp(0, wait);
            (in_call, queued, wait - queued)
        })
    }

    /// Returns the interval in which it was queued.
    fn waits(&self) -> Interval {
        (self.called, self.event.start_ns)
    }
}

/// Returns each activity with its launch, in ascending time of the activity; the launch is `None`
/// if unknown.
fn ways<'e>(work: &'e GpuWork<'_>) -> impl Iterator<Item = (&'e GpuEvent, Option<Way<'e>>)> {
    let mut ends: BTreeMap<(DeviceId, StreamId), i64> = BTreeMap::new();
    work.events().iter().map(move |event| {
        let stream = (event.device, event.stream);
        let latest = ends.get(&stream).copied();
        let previous = ends.insert(stream, event.end_ns.max(latest.unwrap_or(event.end_ns)));
        let way = work.launch_of(event).map(|call| Way {
            event,
            call: call.id(),
            called: call.ts().nanos(),
            returned: call.end().nanos(),
            kind: kind_of(work, call, event),
            previous,
        });
        (event, way)
    })
}

/// The launch of one GPU activity. The parts of the latency add up to it; they are `None` for work that starts before its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct EachLaunch {
    /// The activity.
    pub work: SliceId,
    /// The call.
    pub call: SliceId,
    /// Kind of the launch.
    pub kind: LaunchKind,
    /// Time from the start of the call to the start of the work; negative where the clocks disagree.
    pub latency_ns: i64,
    /// Part of it during the launch API call.
    pub in_call_ns: Option<i64>,
    /// Part of it after the call, while earlier work of the same stream ran.
    pub queued_ns: Option<i64>,
    /// Rest of it.
    pub dispatch_ns: Option<i64>,
}

/// Returns the launch of each GPU activity whose call is known, in ascending time of the activities: the single values behind
/// [`launches`].
///
/// Cost: a look-up of the call for each activity.
pub fn each_launch(work: &GpuWork<'_>) -> Vec<EachLaunch> {
    let known = ways(work).filter_map(|(_, way)| way);
    let launch = |way: Way<'_>| {
        let parts = way.parts();
        EachLaunch {
            work: way.event.slice,
            call: way.call,
            kind: way.kind,
            latency_ns: way.latency(),
            in_call_ns: parts.map(|parts| parts.0),
            queued_ns: parts.map(|parts| parts.1),
            dispatch_ns: parts.map(|parts| parts.2),
        }
    };
    known.map(launch).collect()
}

/// Collects the launches of one part.
#[derive(Default)]
struct Collector {
    out: Launches,
    groups: BTreeMap<Key, Group>,
    edges: BTreeMap<(DeviceId, StreamId), Vec<(i64, i8)>>,
    seen: FxHashSet<SliceId>,
}

impl Collector {
    fn add(&mut self, submission: &Submission, event: &GpuEvent, way: Option<&Way<'_>>) {
        let Some(way) = way else {
            self.out.unlinked += 1;
            self.out.unlinked_ns += event.dur_ns();
            return;
        };
        self.out.linked += 1;
        let start = event.start_ns;
        let latency = way.latency();
        let parts = way.parts();
        let first = self.seen.insert(way.call);
        let is_idle = way.previous.is_none_or(|end| end <= way.returned);
        let is_delayed = |end| first && submission.delays(way.kind, way.returned, end, start);
        let waits_for_launch = is_idle || way.previous.is_some_and(is_delayed);
        if first {
            self.out.calls += 1;
            self.out.onto_idle += u64::from(is_idle);
            let call = way.returned.saturating_sub(way.called);
            self.out.longer_than_work += u64::from(call > event.dur_ns());
        }
        for key in [
            (None, LaunchKind::All),
            (None, way.kind),
            (Some(way.stream()), LaunchKind::All),
        ] {
            let group = self.groups.entry(key).or_default();
            group.latency.push(latency);
            if let Some((in_call, queued, dispatch)) = parts {
                group.in_call.push(in_call);
                group.queued.push(queued);
                group.dispatch.push(dispatch);
                match waits_for_launch {
                    true => group.start_latency.push(dispatch),
                    false => group.queue_gap.push(dispatch),
                }
            } else {
                group.negative += 1;
            }
            if first {
                group.call.push(way.returned - way.called);
            }
        }
    }

    /// Adds a launch to the queue of its stream, cut at the ends of `within`.
    fn queue(&mut self, way: &Way<'_>, within: Option<Interval>) {
        let (mut from, mut to) = way.waits();
        if let Some((start, end)) = within {
            (from, to) = (from.max(start), to.min(end));
            if from >= to {
                return;
            }
        }
        let edges = self.edges.entry(way.stream()).or_default();
        if from < to {
            edges.push((from, 1));
            edges.push((to, -1));
        }
    }

    fn finish(self, within: Option<Interval>, points: u32) -> Launches {
        let mut out = self.out;
        let groups = self.groups.into_iter();
        out.rows = groups
            .map(|((stream, kind), mut group)| LaunchRow {
                stream,
                kind,
                times: LaunchTimes {
                    latency: Spread::of(&mut group.latency),
                    in_call: Spread::of(&mut group.in_call),
                    queued: Spread::of(&mut group.queued),
                    dispatch: Spread::of(&mut group.dispatch),
                    start_latency: Spread::of(&mut group.start_latency),
                    queue_gap: Spread::of(&mut group.queue_gap),
                    call: Spread::of(&mut group.call),
                    negative: group.negative,
                },
            })
            .collect();
        let ends = |edges: &mut dyn Iterator<Item = i64>| {
            let first = edges.next()?;
            Some(edges.fold((first, first), |(a, b), at| (a.min(at), b.max(at))))
        };
        let all = within.or_else(|| ends(&mut self.edges.values().flatten().map(|e| e.0)));
        for ((device, stream), mut edges) in self.edges {
            // Ends sort before starts: work that starts when another is launched is not queued at
            // the same time.
            edges.sort_unstable();
            let own = within.or_else(|| ends(&mut edges.iter().map(|e| e.0)));
            let d = depth(&edges, own.unwrap_or_default());
            out.depth.push(DepthRow {
                device,
                stream,
                span_ns: d.span_ns,
                max: d.max,
                mean: d.mean(),
                empty_pct: crate::account::percent(d.empty_ns, d.span_ns).unwrap_or(100.0),
            });
            if let Some(all) = all.filter(|_| points > 0) {
                series(&edges, all, points, |start_ns, end_ns, d| {
                    out.series.push(DepthPoint {
                        device,
                        stream,
                        start_ns,
                        end_ns,
                        max: d.max,
                        mean: d.mean(),
                    });
                });
            }
        }
        out
    }
}

/// Measures the launches of `work`; the series has `points` intervals of equal length, none if 0.
///
/// Cost: a look-up of the call for each activity, and sorts.
pub fn launches(work: &GpuWork<'_>, points: u32) -> Launches {
    let submission = Submission::new(work);
    let mut all = Collector::default();
    for (event, way) in ways(work) {
        all.add(&submission, event, way.as_ref());
        if let Some(way) = &way {
            all.queue(way, None);
        }
    }
    all.finish(None, points)
}

/// Launches of a part.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct LaunchPart {
    /// Number of the step, for splits by step; `None` for activity outside of all steps.
    pub step: Option<usize>,
    /// Its launches.
    pub launches: Launches,
}

/// Measures launches as [`launches`] does, for the parts that `how` selects. Rows are always split
/// by stream.
///
/// * A window, and a step by [`StepRule::Time`], has the launches whose *work starts* in it, with
///   all of their latency, including time before it. Its queue depths cover its own time, and count
///   all work queued then.
/// * A step by [`StepRule::Launch`] has the launches whose *call starts* in it, and its queue
///   depths count only these. Launches outside of all steps form a part of their own.
///
/// Cost: as [`launches`].
pub fn launch_parts(work: &GpuWork<'_>, how: &Split, points: u32) -> Vec<LaunchPart> {
    let submission = Submission::new(work);
    let steps = how.steps();
    let by_time = how.steps.is_some() && how.step_rule == StepRule::Time;
    let window = how.window.map(|w| (w.start.nanos(), w.end.nanos()));
    let within: Vec<Option<Interval>> = steps
        .iter()
        .map(|step| {
            let left = how.in_window(step.range)?;
            Some((left.start.nanos(), left.end.nanos()))
        })
        .collect();
    let mut parts: Vec<Collector> = Vec::new();
    parts.resize_with(steps.len() + 1, Collector::default);
    for (event, way) in ways(work) {
        let start = Timestamp::from_nanos(event.start_ns);
        let at = match how.step_rule {
            _ if how.steps.is_none() => None,
            StepRule::Time => how.step_at(start),
            StepRule::Launch => way
                .as_ref()
                .and_then(|way| how.step_at(Timestamp::from_nanos(way.called))),
        };
        if how.window.is_none_or(|window| window.contains(start))
            && let Some(part) = parts.get_mut(at.unwrap_or(steps.len()))
        {
            part.add(&submission, event, way.as_ref());
        }
        let Some(way) = &way else {
            continue;
        };
        if by_time {
            for at in how.touched(way.waits()) {
                let within = within.get(at).copied().flatten();
                if let (Some(part), Some(within)) = (parts.get_mut(at), within) {
                    part.queue(way, Some(within));
                }
            }
        } else if let Some(part) = parts.get_mut(at.unwrap_or(steps.len())) {
            part.queue(way, window);
        }
    }
    let parts = parts.into_iter().enumerate();
    parts
        .filter(|(at, part)| match within.get(*at) {
            Some(left) => left.is_some(),
            None => how.steps.is_none() || part.out.linked + part.out.unlinked > 0,
        })
        .map(|(at, part)| LaunchPart {
            step: (at < steps.len()).then_some(at),
            launches: part.finish(
                match by_time {
                    true => within.get(at).copied().flatten(),
                    false => window,
                },
                points,
            ),
        })
        .collect()
}

#[derive(Clone, Copy, Default)]
struct Depth {
    span_ns: i64,
    empty_ns: i64,
    area: i128,
    max: u64,
}

impl Depth {
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    fn mean(&self) -> f64 {
        match self.span_ns {
            0 => 0.0,
            span => self.area as f64 / span as f64,
        }
    }

    fn add(&mut self, depth: i64, ns: i64) {
        self.area += i128::from(depth) * i128::from(ns);
        if depth == 0 {
            self.empty_ns += ns;
        }
        if ns > 0 {
            self.max = self.max.max(u64::try_from(depth).unwrap_or(0));
        }
    }
}

/// Returns the depth between two instants that enclose all edges.
fn depth(edges: &[(i64, i8)], (first, last): Interval) -> Depth {
    let mut out = Depth {
        span_ns: last.saturating_sub(first),
        ..Depth::default()
    };
    let (mut at, mut depth) = (first, 0_i64);
    for &(time, step) in edges {
        out.add(depth, time - at);
        at = time;
        depth += i64::from(step);
    }
    out.add(depth, last - at);
    out
}

/// Emits the depth in `points` intervals of equal length between two instants.
fn series(
    edges: &[(i64, i8)],
    (first, last): Interval,
    points: u32,
    mut emit: impl FnMut(i64, i64, Depth),
) {
    let length = i128::from(last) - i128::from(first);
    let bound = |i: u32| {
        let offset = length * i128::from(i) / i128::from(points);
        first + i64::try_from(offset).unwrap_or(0)
    };
    let (mut next, mut depth) = (0, 0_i64);
    for i in 0..points {
        let (from, to) = (bound(i), bound(i + 1));
        if from == to {
            continue;
        }
        let mut out = Depth {
            span_ns: to - from,
            ..Depth::default()
        };
        let mut at = from;
        while let Some(&(time, step)) = edges.get(next).filter(|e| e.0 < to) {
            out.add(depth, time - at);
            at = time;
            depth += i64::from(step);
            next += 1;
        }
        out.add(depth, to - at);
        emit(from, to, out);
    }
}
