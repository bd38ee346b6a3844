//! How soon after its call submitted work begins: tells work that waits for its own launch from
//! work that waits in a queue.

use std::collections::{BTreeMap, VecDeque};

use rustc_hash::FxHashSet;
use trace_model::{DeviceId, SliceId, StreamId};

use crate::idle::PLAUSIBLE_LATENCY_NS;
use crate::launch::{LaunchKind, kind_of};
use crate::work::GpuWork;

/// Maximum number of unfinished activities ahead of a launch whose latency is a sample: behind more,
/// the work waits in a queue.
const MOST_AHEAD: usize = 2;

/// Typical time from the return of a launch call to the start of its work where nothing else delays
/// it, by kind of launch.
pub(crate) struct Submission {
    typical: BTreeMap<LaunchKind, i64>,
}

#[derive(Default)]
struct Samples {
    /// Launches that found the device idle: only their latency delays the work.
    onto_idle: Vec<i64>,
    /// Launches with little work ahead: none of them is shorter than the latency.
    all: Vec<i64>,
}

impl Submission {
    /// Cost: a pass over the activities, and sorts.
    pub(crate) fn new(work: &GpuWork<'_>) -> Self {
        let mut devices: BTreeMap<DeviceId, i64> = BTreeMap::new();
        let mut streams: BTreeMap<(DeviceId, StreamId), VecDeque<i64>> = BTreeMap::new();
        let mut seen: FxHashSet<SliceId> = FxHashSet::default();
        let mut samples: BTreeMap<LaunchKind, Samples> = BTreeMap::new();
        for event in work.events() {
            let latest = devices.entry(event.device).or_insert(i64::MIN);
            let device_end = *latest;
            *latest = device_end.max(event.end_ns);
            let ends = streams.entry((event.device, event.stream)).or_default();
            // Only the first activity of a graph waits for the call.
            if let Some(call) = work.launch_of(event)
                && seen.insert(call.id())
            {
                let returned = call.end().nanos();
                let ns = event.start_ns.saturating_sub(returned).max(0);
                let ahead = ends.iter().filter(|end| **end > returned).count();
                if ns <= PLAUSIBLE_LATENCY_NS && ahead <= MOST_AHEAD {
                    let of = samples.entry(kind_of(work, call, event)).or_default();
                    of.all.push(ns);
                    if device_end <= returned {
                        of.onto_idle.push(ns);
                    }
                }
            }
            ends.push_back(event.end_ns);
            if ends.len() > MOST_AHEAD + 1 {
                ends.pop_front();
            }
        }
        let typical = samples.into_iter().filter_map(|(kind, mut of)| {
            let quartile = nth(&mut of.all, 4)?;
            let median = nth(&mut of.onto_idle, 2).unwrap_or(quartile);
            Some((kind, median.min(quartile)))
        });
        Self {
            typical: typical.collect(),
        }
    }

    /// Returns `true` if work that began at `start` waited for its launch: its call returned at
    /// `returned`, before earlier work ended at `dry`, but so shortly before that the latency of the
    /// launch explains the start better than the end of that work.
    pub(crate) fn delays(&self, kind: LaunchKind, returned: i64, dry: i64, start: i64) -> bool {
        let Some(typical) = self.typical.get(&kind) else {
            return false;
        };
        let ready = returned.saturating_add(*typical);
        start.saturating_sub(ready) <= ready.saturating_sub(dry)
    }
}

/// Returns the value below which one of `parts` equal parts of the values lies.
fn nth(values: &mut [i64], parts: usize) -> Option<i64> {
    values.sort_unstable();
    values.get(values.len().saturating_sub(1) / parts).copied()
}
