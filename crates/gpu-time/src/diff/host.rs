//! What the hosts of two traces spend on a step: the functions and operators that take longer.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_model::interval::Interval;
use trace_model::kernel::Activity;
use trace_model::step_name::without_numbers;
use trace_model::{Slice, StrId, TrackId, Waiting};

use crate::own_time::{Owner, within};
use crate::split::Step;
use crate::work::GpuWork;

/// Time of one function or operator per step of both sides, on the threads that launch GPU activity,
/// without what it calls. Waits for the GPU and for input do not count: they follow from other time.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HostChange {
    /// Kind of step, as an index of [`Comparison::kinds`](crate::diff::Comparison::kinds).
    pub step_kind: usize,
    /// Name in the second trace, else in the first.
    pub name: String,
    /// Mean time per step of each side, in nanoseconds.
    pub per_step_ns: [f64; 2],
}

impl HostChange {
    /// Returns the second time minus the first.
    pub fn diff_ns(&self) -> f64 {
        self.per_step_ns[1] - self.per_step_ns[0]
    }
}

/// Functions and operators by kind of step, largest difference first. `places` are the indices of
/// the steps of each kind and side. Names that differ in numbers only, such as those of lines, are
/// one. A side without Python functions and operators in its steps gives no rows.
pub(crate) fn changes(
    works: [&GpuWork<'_>; 2],
    steps: [&[Step]; 2],
    places: &[[Vec<usize>; 2]],
) -> Vec<HostChange> {
    // By kind and name: time of each side, and the name to show.
    let mut table: BTreeMap<(usize, String), ([i64; 2], String)> = BTreeMap::new();
    let mut has_any = [false; 2];
    for side in 0..2 {
        for ((kind, name), ns) in times(works[side], steps[side], side, places) {
            let text = works[side].trace().text(name);
            let key = (kind, without_numbers(text).into_owned());
            let (sums, shown) = table.entry(key).or_default();
            sums[side] += ns;
            if *shown != text && (shown.is_empty() || side == 1) {
                text.clone_into(shown);
            }
            has_any[side] = true;
        }
    }
    if has_any != [true; 2] {
        return Vec::new();
    }
    #[expect(clippy::cast_precision_loss, reason = "a mean")]
    let mean = |ns: i64, steps: usize| ns as f64 / steps.max(1) as f64;
    let mut out: Vec<HostChange> = table
        .into_iter()
        .filter_map(|((step_kind, _), (sums, name))| {
            let steps = places.get(step_kind)?;
            Some(HostChange {
                step_kind,
                name,
                per_step_ns: [mean(sums[0], steps[0].len()), mean(sums[1], steps[1].len())],
            })
        })
        .collect();
    out.sort_by(|a, b| b.diff_ns().abs().total_cmp(&a.diff_ns().abs()));
    out
}

/// Returns the time of each name by kind of step. A step lasts on the host until the next one begins.
fn times(
    work: &GpuWork<'_>,
    steps: &[Step],
    side: usize,
    places: &[[Vec<usize>; 2]],
) -> BTreeMap<(usize, StrId), i64> {
    let mut windows: Vec<(Interval, usize)> = Vec::new();
    for (kind, places) in places.iter().enumerate() {
        for &place in &places[side] {
            let Some(step) = steps.get(place) else {
                continue;
            };
            let end = match steps.get(place + 1) {
                Some(next) => next.range.start,
                None => step.range.end,
            };
            windows.push(((step.range.start.nanos(), end.nanos()), kind));
        }
    }
    windows.sort_unstable();
    let spans: Vec<Interval> = windows.iter().map(|window| window.0).collect();
    let mut tracks: BTreeSet<TrackId> = BTreeSet::new();
    for event in work.events() {
        tracks.extend(work.launch_of(event).map(Slice::track_id));
    }
    let mut waits: FxHashMap<StrId, bool> = FxHashMap::default();
    for name in work.trace().slices().filter_map(Slice::name_id) {
        waits.entry(name).or_insert_with(|| {
            Waiting::of_own_time(work.trace().text(name)) == Some(Waiting::Input)
        });
    }
    let owner = |slice: Slice<'_>| {
        let name = slice.name().unwrap_or("");
        if slice.name_id().and_then(|id| waits.get(&id)) == Some(&true) {
            return Owner::Nobody;
        }
        match work.index().activity(slice) {
            Activity::SyncApi if !name.contains("WaitEvent") => Owner::Nobody,
            Activity::MemcpyApi if !name.contains("Async") => Owner::Nobody,
            // Built-in functions and calls of the driver belong to the function that calls them.
            Activity::PythonFunction if !name.starts_with('<') => Owner::Of(slice.name_id()),
            Activity::CpuOp => Owner::Of(slice.name_id()),
            _ => Owner::Around,
        }
    };
    let mut sums = BTreeMap::new();
    for track in tracks {
        within(work.trace(), track, &spans, owner, |at, name, ns| {
            if let (Some((_, kind)), Some(name)) = (windows.get(at), name) {
                *sums.entry((*kind, name)).or_default() += ns;
            }
        });
    }
    sums
}
