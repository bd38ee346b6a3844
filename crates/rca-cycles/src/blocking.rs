//! Calls that launch work and wait for it.

use rustc_hash::FxHashMap;
use trace_model::{SliceId, Trace};

use crate::num::{median, span};
use crate::timeline::{Kind, Work};

/// A call that returns sooner did not wait, ns.
pub(crate) const LEAST_WAIT: i64 = 10_000;
/// A call that launches work and takes this many times as long as most waits for room in the queue,
const LONG_CALL: f64 = 10.0;
/// where so many pieces of work are queued.
const FULL_QUEUE: usize = 500;

/// Finds the calls of a process that launch `work` and return only when it is done, or when the queue has room: until when
/// they wait, in nanoseconds.
///
/// Cost: two sorts of the work.
pub(crate) fn blocking_calls(trace: &Trace, work: &[&Work]) -> FxHashMap<SliceId, i64> {
    // The last work of each call.
    let mut last: FxHashMap<SliceId, &Work> = FxHashMap::default();
    for w in work {
        if let Some((call, _)) = w.launch {
            let known = last.entry(call).or_insert(w);
            if known.end < w.end {
                *known = w;
            }
        }
    }
    let range = |call: SliceId| {
        let slice = trace.slice(call);
        (slice.ts().nanos(), slice.end().nanos())
    };
    let lengths: Vec<f64> = last
        .keys()
        .map(|c| range(*c))
        .map(|r| span(r.1 - r.0))
        .collect();
    let long = LONG_CALL * median(&lengths);
    let mut calls: Vec<i64> = work
        .iter()
        .filter_map(|w| w.launch.map(|l| l.1.min(w.ts)))
        .collect();
    calls.sort_unstable();
    let linked = work.iter().filter(|w| w.launch.is_some());
    let mut ends: Vec<i64> = linked.map(|w| w.end).collect();
    ends.sort_unstable();
    let queued = |t: i64| {
        let begun = calls.partition_point(|c| *c < t);
        begun.saturating_sub(ends.partition_point(|e| *e <= t))
    };
    last.into_iter()
        .filter_map(|(call, done)| {
            let (start, end) = range(call);
            if end - start < LEAST_WAIT {
                return None;
            }
            // A slow call may last until a short kernel is done and not have waited for it.
            let is_waiting = done.kind == Kind::Copy || 2 * (done.end - done.ts) >= end - start;
            let is_full = || span(end - start) >= long && queued(start) >= FULL_QUEUE;
            match done.end {
                done if done <= end && done > start && is_waiting => Some((call, done)),
                _ if is_full() => Some((call, end)),
                _ => None,
            }
        })
        .collect()
}

/// Returns `true` if a call that waits does little else: it lasts while its work does, or while what is queued ahead of that
/// does.
pub(crate) fn only_waits((start, end): (i64, i64), work: &Work) -> bool {
    2 * (work.end - work.ts) >= end - start || work.ts - start >= LEAST_WAIT
}
