//! Work of a rank between two collectives: kernels and gaps of the device, functions of the
//! launching thread.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use serde::Serialize;
use trace_model::interval::Interval;
use trace_model::{DeviceId, Slice, Trace, TrackId};

use crate::comm::digest::{DeviceWork, Names, Run};
use crate::own_time::{Owner, within};

/// Maximum number of entries kept for each collective on each side; the totals include the others.
const KEPT: usize = 24;

/// Name for the time of a thread in which no slice is open.
pub(crate) const OUTSIDE: &str = "(outside of any slice)";

/// Time of one kernel or host function before a collective.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Spent {
    /// Index of the name in the digest's names.
    pub name: u32,
    /// Number of occurrences, including those cut by the window.
    pub count: u32,
    /// Time in the window; for host slices, time outside of their children.
    pub ns: i64,
}

/// Work of a rank since the collective before, in nanoseconds.
///
/// On the device the window is from the latest end of earlier collectives to the start of this one;
/// on the host from the launch of the collective before to that of this one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Before {
    /// `true` if there is a collective before this one on the device.
    pub has_previous: bool,
    /// Length of the device's window.
    pub window_ns: i64,
    /// Part of it in which the device was idle.
    pub idle_ns: i64,
    /// Part of it after the last GPU activity ended.
    pub last_gap_ns: i64,
    /// GPU activity other than communication, by name, longest first, at most 24 entries.
    pub device: Vec<Spent>,
    /// Time of all GPU activity in the window, including activity that is not listed; overlapping
    /// activity counts more than once.
    pub device_ns: i64,
    /// Length of the host's window; 0 if one of the launches is unknown.
    pub host_window_ns: i64,
    /// Functions of the launching thread by name, longest first, at most 24 entries.
    pub host: Vec<Spent>,
}

/// Returns the work before each run. Cost: linear in the GPU activities and in the slices of the
/// launching threads, after the sort of the runs.
pub(crate) fn all<'t>(
    trace: &'t Trace,
    devices: &BTreeMap<DeviceId, DeviceWork<'t>>,
    runs: &[Run],
    threads: &[Option<TrackId>],
    names: &mut Names<'t>,
) -> Vec<Before> {
    let mut out = vec![Before::default(); runs.len()];
    let mut by_device: BTreeMap<DeviceId, Vec<usize>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        by_device.entry(run.device).or_default().push(at);
    }
    for (device, places) in by_device {
        if let Some(work) = devices.get(&device) {
            on_device(work, runs, &places, names, &mut out);
        }
    }
    let mut by_thread: BTreeMap<TrackId, Vec<(i64, usize)>> = BTreeMap::new();
    for (at, (run, thread)) in runs.iter().zip(threads).enumerate() {
        if let (Some(thread), Some(launch)) = (thread, run.launch_ns) {
            by_thread.entry(*thread).or_default().push((launch, at));
        }
    }
    for (thread, mut launches) in by_thread {
        launches.sort_unstable();
        on_host(trace, thread, &launches, names, &mut out);
    }
    out
}

/// Sums by name.
#[derive(Default)]
struct Sums(HashMap<u32, (u32, i64), FxBuildHasher>);

impl Sums {
    fn add(&mut self, name: u32, ns: i64) {
        let sum = self.0.entry(name).or_default();
        sum.0 += 1;
        sum.1 += ns;
    }

    fn list(self) -> Vec<Spent> {
        let mut list: Vec<Spent> = self
            .0
            .into_iter()
            .map(|(name, (count, ns))| Spent { name, count, ns })
            .collect();
        list.sort_unstable_by_key(|s| (std::cmp::Reverse(s.ns), s.name));
        list.truncate(KEPT);
        list
    }
}

fn on_device<'t>(
    work: &DeviceWork<'t>,
    runs: &[Run],
    places: &[usize],
    names: &mut Names<'t>,
    out: &mut [Before],
) {
    let mut latest: Option<i64> = None;
    // Work before this index ended before the window.
    let mut low = 0;
    let busy = work.busy.as_slice();
    for &at in places {
        let (Some(run), Some(before)) = (runs.get(at), out.get_mut(at)) else {
            continue;
        };
        before.has_previous = latest.is_some();
        let first = || busy.first().map_or(run.start_ns, |b| b.0);
        let (start, end) = (latest.unwrap_or_else(first), run.start_ns);
        latest = Some(latest.map_or(run.end_ns, |l| l.max(run.end_ns)));
        if start >= end {
            continue;
        }
        before.window_ns = end - start;
        while work.others.get(low).is_some_and(|w| w.0.1 <= start) {
            low += 1;
        }
        let mut sums = Sums::default();
        let mut last_end = start;
        for ((from, to), slice) in work.others.iter().skip(low).take_while(|w| w.0.0 < end) {
            let ns = (*to).min(end) - (*from).max(start);
            if ns > 0 {
                sums.add(names.place(slice.name().unwrap_or("")), ns);
                before.device_ns += ns;
                last_end = last_end.max((*to).min(end));
            }
        }
        before.device = sums.list();
        before.last_gap_ns = end - last_end;
        let from = busy.partition_point(|b| b.1 <= start);
        let covered: i64 = busy
            .iter()
            .skip(from)
            .take_while(|b| b.0 < end)
            .map(|b| b.1.min(end) - b.0.max(start))
            .sum();
        before.idle_ns = before.window_ns - covered;
    }
}

fn on_host<'t>(
    trace: &'t Trace,
    thread: TrackId,
    launches: &[(i64, usize)],
    names: &mut Names<'t>,
    out: &mut [Before],
) {
    let windows: Vec<(i64, i64, usize)> = launches
        .windows(2)
        .map(|w| (w[0].0, w[1].0, w[1].1))
        .filter(|w| w.0 < w.1)
        .collect();
    let mut sums: Vec<Sums> = windows.iter().map(|_| Sums::default()).collect();
    let mut covered = vec![0_i64; windows.len()];
    let spans: Vec<Interval> = windows.iter().map(|w| (w.0, w.1)).collect();
    let named = |slice: Slice<'_>| Owner::Of(slice.name_id());
    within(trace, thread, &spans, named, |at, name, ns| {
        if let (Some(sum), Some(covered)) = (sums.get_mut(at), covered.get_mut(at)) {
            sum.add(names.place(name.map_or("", |n| trace.text(n))), ns);
            *covered += ns;
        }
    });
    for ((window, mut sum), covered) in windows.iter().zip(sums).zip(covered) {
        let length = window.1 - window.0;
        if covered < length {
            sum.add(names.place(OUTSIDE), length - covered);
        }
        if let Some(before) = out.get_mut(window.2) {
            before.host_window_ns = length;
            before.host = sum.list();
        }
    }
}
