//! When threads wait for something else than the device.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;
use trace_model::interval::{Interval, IntervalSet};
use trace_model::{SliceId, StrId, Waiting};

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
