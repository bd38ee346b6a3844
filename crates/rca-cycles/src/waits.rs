//! When threads wait for something else than the device.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::interval::{Interval, IntervalSet};
use trace_model::{SliceId, StrId, Waiting, loads_data};

use crate::timeline::{Kind, Timeline};

/// Returns when functions that wait are innermost, by thread: what runs within a wait is no wait. Profilers put the frames of
/// threads that they cannot tell apart on one row, so that the code of one is within the wait of another.
///
/// Cost: a pass over the slices.
pub(crate) fn own_time(
    timeline: &Timeline<'_>,
    process: u32,
    wanted: &dyn Fn(Waiting) -> bool,
) -> BTreeMap<u32, IntervalSet> {
    let mut names: FxHashMap<StrId, bool> = FxHashMap::default();
    let mut inside: FxHashMap<SliceId, Vec<Interval>> = FxHashMap::default();
    let mut waits: Vec<(u32, SliceId, Interval)> = Vec::new();
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        if !kind.is_code() || timeline.process(slice) != process {
            continue;
        }
        let range = (slice.ts().nanos(), slice.end().nanos());
        if !inside.is_empty() {
            let around = slice.ancestors().find(|p| timeline.kind(*p).is_code());
            if let Some(list) = around.and_then(|parent| inside.get_mut(&parent.id())) {
                list.push(range);
            }
        }
        let is_wait = kind != Kind::Sync
            && slice.name_id().is_some_and(|name| {
                *names.entry(name).or_insert_with(|| {
                    Waiting::of_call(timeline.trace.text(name)).is_some_and(wanted)
                })
            });
        if is_wait {
            inside.insert(slice.id(), Vec::new());
            waits.push((timeline.thread(slice), slice.id(), range));
        }
    }
    let mut threads: BTreeMap<u32, Vec<Interval>> = BTreeMap::new();
    for (thread, slice, range) in waits {
        let others: IntervalSet = inside
            .remove(&slice)
            .unwrap_or_default()
            .into_iter()
            .collect();
        let whole: IntervalSet = std::iter::once(range).collect();
        let own = threads.entry(thread).or_default();
        own.extend_from_slice(whole.subtract(&others).as_slice());
    }
    let sets = threads.into_iter();
    sets.map(|(thread, mut own)| {
        own.sort_unstable();
        (thread, own.into_iter().collect())
    })
    .collect()
}

/// Waits for something else than the device.
pub(crate) fn elsewhere(waiting: Waiting) -> bool {
    waiting != Waiting::Device
}

/// A place that input comes from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Feed {
    /// A function that loads batches of data.
    Loader,
    /// A queue that another thread or process fills.
    Queue,
}

/// Returns what hands over the input that a function returns, if it does: a data loader, or a queue.
///
/// Names are those of Python profilers, of probes (`Queue.get`) and of marked ranges (`enumerate(DataLoader)#…`).
pub(crate) fn feed(name: &str) -> Option<Feed> {
    if loads_data(name) {
        return Some(Feed::Loader);
    }
    let lower = name.to_ascii_lowercase();
    let own = name.rsplit([' ', '.', '/', ':']).next().unwrap_or(name);
    let own = own.trim_end_matches("()");
    let gets = own == "get" || lower.contains(" get of ") || lower.contains("'get' of ");
    (gets && lower.contains("queue")).then_some(Feed::Queue)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_hands_over_input() {
        for (name, want) in [
            (
                "torch/utils/data/dataloader.py(701): __next__",
                Some(Feed::Loader),
            ),
            (
                "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
                Some(Feed::Loader),
            ),
            ("megatron/training.py(40): get_batch", Some(Feed::Loader)),
            ("queue.py(154): get", Some(Feed::Queue)),
            ("multiprocessing/queues.py(103): get", Some(Feed::Queue)),
            ("Queue.get", Some(Feed::Queue)),
            (
                "<built-in method get of _queue.SimpleQueue object at 0x7f>",
                Some(Feed::Queue),
            ),
            (
                "<method 'get' of '_queue.SimpleQueue' objects>",
                Some(Feed::Queue),
            ),
            (
                "sglang/srt/managers/scheduler.py(1700): get_next_batch_to_run",
                None,
            ),
            ("<built-in method get of dict object at 0x1>", None),
            ("threading.py(607): wait", None),
            ("queue.py(122): put", None),
            ("", None),
        ] {
            assert_eq!(feed(name), want, "{name}");
        }
    }
}
