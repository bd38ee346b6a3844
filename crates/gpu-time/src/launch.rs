//! From the launch call to the start of the work, and how much work was queued.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::kernel::Activity;
use trace_model::{DeviceId, StreamId};

use crate::spread::Spread;
use crate::work::{GpuWork, WorkKind};

/// What was launched, and how.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum LaunchKind {
    /// Everything.
    All,
    /// A kernel by a call of its own.
    Kernel,
    /// Work of a graph.
    Graph,
    /// A copy.
    Memcpy,
    /// A fill.
    Memset,
}

impl LaunchKind {
    /// Stable machine name.
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

/// The way of a number of launches to the device. For each launch that does not start before its
/// call, `latency == in_call + queued + dispatch`, exactly.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct LaunchTimes {
    /// Start of the work minus start of the call; negative where the clocks disagree.
    pub latency: Spread,
    /// Of that, while the call ran.
    pub in_call: Spread,
    /// Of that, after the call, while earlier work of the same stream ran.
    pub queued: Spread,
    /// Of that, the rest: after the call and after earlier work.
    pub dispatch: Spread,
    /// How long the calls took; a call that launched several pieces of work counts once.
    pub call: Spread,
    /// Work that starts before its call does.
    pub negative: u64,
}

/// One group of launches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct LaunchRow {
    /// The stream, or all of them.
    pub stream: Option<(DeviceId, StreamId)>,
    /// What was launched.
    pub kind: LaunchKind,
    /// How long it took.
    pub times: LaunchTimes,
}

/// How much work a stream had waiting, over time: work counts from the start of its call to its own
/// start.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DepthRow {
    /// The device.
    pub device: DeviceId,
    /// The stream.
    pub stream: StreamId,
    /// From the first call to the last start.
    pub span_ns: i64,
    /// The most that waited.
    pub max: u64,
    /// The mean over time.
    pub mean: f64,
    /// Part of the time in which nothing waited, in percent.
    pub empty_pct: f64,
}

/// The queue of a stream in one stretch of time.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct DepthPoint {
    /// The device.
    pub device: DeviceId,
    /// The stream.
    pub stream: StreamId,
    /// Start of the stretch.
    pub start_ns: i64,
    /// End of the stretch.
    pub end_ns: i64,
    /// The most that waited.
    pub max: u64,
    /// The mean over time.
    pub mean: f64,
}

/// What launches took.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Launches {
    /// All streams together first, then each.
    pub rows: Vec<LaunchRow>,
    /// One for each stream.
    pub depth: Vec<DepthRow>,
    /// The queues over time.
    pub series: Vec<DepthPoint>,
    /// Work whose call is known.
    pub linked: u64,
    /// Work whose call is not in the trace.
    pub unlinked: u64,
    /// Their time.
    pub unlinked_ns: i64,
}

#[derive(Default)]
struct Group {
    latency: Vec<i64>,
    in_call: Vec<i64>,
    queued: Vec<i64>,
    dispatch: Vec<i64>,
    call: Vec<i64>,
    negative: u64,
}

type Key = (Option<(DeviceId, StreamId)>, LaunchKind);

/// Measures the launches of `work`; the series has `points` stretches of equal length, none if 0.
///
/// Cost: a look-up of the call for each piece of work, and sorts.
pub fn launches(work: &GpuWork<'_>, points: u32) -> Launches {
    let mut out = Launches::default();
    let mut groups: BTreeMap<Key, Group> = BTreeMap::new();
    let mut ends: BTreeMap<(DeviceId, StreamId), i64> = BTreeMap::new();
    let mut edges: BTreeMap<(DeviceId, StreamId), Vec<(i64, i8)>> = BTreeMap::new();
    let mut seen: rustc_hash::FxHashSet<trace_model::SliceId> = Default::default();
    for event in work.events() {
        let stream = (event.device, event.stream);
        let previous = ends.insert(
            stream,
            event
                .end_ns
                .max(*ends.get(&stream).unwrap_or(&event.end_ns)),
        );
        let Some(call) = work.launch_of(event) else {
            out.unlinked += 1;
            out.unlinked_ns += event.dur_ns();
            continue;
        };
        out.linked += 1;
        let (called, returned, start) = (call.ts().nanos(), call.end().nanos(), event.start_ns);
        let kind = match (work.index().activity(call), event.kind) {
            (Activity::GraphLaunch, _) => LaunchKind::Graph,
            (_, WorkKind::Kernel) => LaunchKind::Kernel,
            (_, WorkKind::Memcpy) => LaunchKind::Memcpy,
            (_, WorkKind::Memset) => LaunchKind::Memset,
        };
        let latency = start - called;
        let parts = (latency >= 0).then(|| {
            let in_call = latency.min(returned - called);
            let wait = latency - in_call;
            let behind = previous.map_or(0, |end| end.min(start) - returned);
            let queued = behind.clamp(0, wait);
            (in_call, queued, wait - queued)
        });
        let first = seen.insert(call.id());
        for key in [
            (None, LaunchKind::All),
            (None, kind),
            (Some(stream), LaunchKind::All),
        ] {
            let group = groups.entry(key).or_default();
            group.latency.push(latency);
            if let Some((in_call, queued, dispatch)) = parts {
                group.in_call.push(in_call);
                group.queued.push(queued);
                group.dispatch.push(dispatch);
            } else {
                group.negative += 1;
            }
            if first {
                group.call.push(returned - called);
            }
        }
        let edges = edges.entry(stream).or_default();
        if latency > 0 {
            edges.push((called, 1));
            edges.push((start, -1));
        }
    }
    out.rows = groups
        .into_iter()
        .map(|((stream, kind), mut group)| LaunchRow {
            stream,
            kind,
            times: LaunchTimes {
                latency: Spread::of(&mut group.latency),
                in_call: Spread::of(&mut group.in_call),
                queued: Spread::of(&mut group.queued),
                dispatch: Spread::of(&mut group.dispatch),
                call: Spread::of(&mut group.call),
                negative: group.negative,
            },
        })
        .collect();
    let bounds = edges.values().flatten().map(|e| e.0);
    let (first, last) = (bounds.clone().min(), bounds.max());
    for ((device, stream), mut edges) in edges {
        // Ends before starts: what starts as another is called does not wait with it.
        edges.sort_unstable();
        let all = depth(&edges);
        out.depth.push(DepthRow {
            device,
            stream,
            span_ns: all.span_ns,
            max: all.max,
            mean: all.mean(),
            empty_pct: crate::account::percent(all.empty_ns, all.span_ns).unwrap_or(100.0),
        });
        if let (Some(first), Some(last)) = (first, last)
            && points > 0
        {
            series(&edges, (first, last), points, |start_ns, end_ns, d| {
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

/// The depth over all of the edges.
fn depth(edges: &[(i64, i8)]) -> Depth {
    let mut out = Depth::default();
    let (Some(first), Some(last)) = (edges.first(), edges.last()) else {
        return out;
    };
    out.span_ns = last.0 - first.0;
    let (mut at, mut depth) = (first.0, 0_i64);
    for &(time, step) in edges {
        out.add(depth, time - at);
        at = time;
        depth += i64::from(step);
    }
    out
}

/// The depth in `points` stretches of equal length between two instants.
fn series(
    edges: &[(i64, i8)],
    (first, last): (i64, i64),
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
