//! The extent of a cycle: the host's from start to start, and the device's where work outlasts that.
//!
//! A cycle ends where the next one starts on the host, or where its own work ends on the device if that is later, and begins
//! where the cycle before it ended: so cycles never overlap, and what their code costs lies within them. The time of a *step*
//! is another notion, which `critical-path` defines (see `paths`).

use rustc_hash::FxHashMap;
use trace_model::Timestamp;
use trace_model::interval::IntervalSet;

use crate::cut::{Cuts, Window};
use crate::measure::Activity;
use crate::num::row;
use crate::timeline::{Kind, Timeline, Work};

/// Waits that are shorter are noise of launching, ns.
const LEAST_WAIT: i64 = 1_000_000;

/// The extent of one cycle, ns.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct StepTime {
    /// End of the step before, or start on the host, or end of earlier work that it was queued behind.
    pub(crate) start: i64,
    /// Start of the next on the host, or end of its work on the device.
    pub(crate) end: i64,
    /// How long a first step was queued behind earlier work; not part of its time.
    pub(crate) queued_ns: i64,
}

impl StepTime {
    /// The host's part as the time of a step.
    pub(crate) fn of_window(w: &Window) -> Self {
        Self {
            start: w.start,
            end: w.end,
            queued_ns: 0,
        }
    }
}

/// The times of the cycles of `cuts`; `work` are the places of each cycle's work in the timeline.
pub(crate) fn step_times(
    timeline: &Timeline<'_>,
    cuts: &Cuts,
    (process, doing): (u32, &Activity),
    work: &[Vec<u32>],
) -> Vec<StepTime> {
    let windows = cuts.cycles();
    let main = main_stream(timeline, process);
    let mut times: Vec<StepTime> = Vec::with_capacity(windows.len());
    let mut last_end = i64::MIN;
    for (i, w) in windows.iter().enumerate() {
        let own = || {
            let places = work[i].iter().map(|&k| &timeline.work[k as usize]);
            places.filter(|one| one.process == process)
        };
        let on_main = own().filter(|one| Some(one.stream) == main);
        let device_end = on_main
            .map(|one| one.end)
            .max()
            .or_else(|| own().map(|one| one.end).max());
        let follows = last_end > w.start || (i > 0 && windows[i - 1].end == w.start);
        let start = match follows {
            true => w.start.max(last_end),
            false => queued_until(timeline, w, &own().collect::<Vec<_>>(), main, doing),
        };
        let end = w.end.max(device_end.unwrap_or(w.end)).max(start);
        times.push(StepTime {
            start,
            end,
            queued_ns: if follows { 0 } else { start - w.start },
        });
        last_end = end;
    }
    times
}

/// The stream of a process that computes most.
fn main_stream(timeline: &Timeline<'_>, process: u32) -> Option<u32> {
    let mut sums: FxHashMap<u32, i64> = FxHashMap::default();
    let computes = |w: &&Work| w.process == process && w.kind == Kind::Compute;
    for w in timeline.work.iter().filter(computes) {
        *sums.entry(w.stream).or_default() += w.end - w.ts;
    }
    let most = sums.into_iter().max_by_key(|&(s, ns)| (ns, u32::MAX - s));
    most.map(|m| m.0)
}

/// Until when a step that no recorded step precedes was queued behind earlier work: recorded work that an
/// earlier call launched; a blocking call with the device idle in the recording, which waits for work
/// that was not recorded; or a first kernel that starts long after its launch on a stream that is free.
fn queued_until(
    timeline: &Timeline<'_>,
    w: &Window,
    own: &[&Work],
    main: Option<u32>,
    doing: &Activity,
) -> i64 {
    let linked = own.iter().filter(|o| o.launch.is_some());
    let Some(first) = linked.clone().map(|o| o.ts).min() else {
        return w.start;
    };
    let mut start = w.start;
    let earlier = timeline.work.iter().filter(|o| {
        o.ts < first && o.end > w.start && o.launch.is_none_or(|(_, call)| call < w.start)
    });
    start = start.max(earlier.map(|o| o.end).max().unwrap_or(start));
    let busy = doing.compute.union(&doing.communication);
    let idle_in = |from: i64, to: i64| {
        let range = trace_model::TimeRange::new(
            Timestamp::from_nanos(from),
            Timestamp::from_nanos(to.max(from)),
        );
        (to - from) - busy.clip(range).measure().get()
    };
    let mostly_idle = |from: i64, to: i64| {
        to - from >= LEAST_WAIT && idle_in(from, to).saturating_mul(10) >= (to - from) * 9
    };
    for &(from, to) in doing.sync.as_slice() {
        if from >= start && to <= w.end && mostly_idle(from, to) && mostly_idle(start, to) {
            start = to;
        }
    }
    let on_main = linked.filter(|o| Some(o.stream) == main && o.ts >= start);
    if let Some(first) = on_main.min_by_key(|o| (o.ts, o.slice))
        && let Some((_, call)) = first.launch
        && mostly_idle(call.max(start), first.ts)
        && mostly_idle(start, first.ts)
    {
        start = first.ts;
    }
    start
}

/// What the host did in the host interval of a cycle: how long it was not waiting, ns.
pub(crate) fn host_part(doing: &Activity, w: &Window) -> i64 {
    let range =
        trace_model::TimeRange::new(Timestamp::from_nanos(w.start), Timestamp::from_nanos(w.end));
    let host: IntervalSet = doing.host.clip(range);
    host.subtract(&doing.sync.clip(range)).measure().get()
}

/// The work of one process in order of end, as places in the timeline's list.
pub(crate) fn by_end(timeline: &Timeline<'_>, process: u32) -> Vec<u32> {
    let mut list: Vec<u32> = (0..timeline.work.len())
        .filter(|&i| timeline.work[i].process == process)
        .map(row)
        .collect();
    list.sort_by_key(|&i| {
        let w = &timeline.work[i as usize];
        (w.end, w.ts, w.slice)
    });
    list
}
