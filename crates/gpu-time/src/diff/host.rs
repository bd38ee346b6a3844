//! What the hosts of two traces spend on a step: the functions and operators that take longer.

use std::collections::{BTreeMap, BTreeSet};

use rustc_hash::FxHashMap;
use serde::Serialize;
use trace_model::interval::Interval;
use trace_model::kernel::Activity;
use trace_model::step_name::without_numbers;
use trace_model::{Slice, StrId, TrackId, Waiting, takes_requests};

use crate::own_time::{Owner, within};
use crate::split::Step;
use crate::work::GpuWork;

/// What a row of host time is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum HostKind {
    /// A function or an operator.
    Code,
    /// A call of the CUDA or HIP API that waits for nothing.
    Call,
    /// A function that waits for something from outside: requests, data, a lock, time to pass.
    InputWait,
    /// A call that waits for the GPU. Its time follows from that of the GPU.
    DeviceWait,
}

/// Time of one function, operator or API call per step of both sides, on the threads that launch GPU
/// activity, without what it calls.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HostChange {
    /// Kind of step, as an index of [`Comparison::kinds`](crate::diff::Comparison::kinds).
    pub step_kind: usize,
    /// Name in the second trace, else in the first.
    pub name: String,
    /// What it is.
    pub kind: HostKind,
    /// Mean number of times per step of each side that it begins.
    pub calls_per_step: [f64; 2],
    /// Mean time per step of each side, in nanoseconds.
    pub per_step_ns: [f64; 2],
}

impl HostChange {
    /// Returns the second number of times per step minus the first.
    pub fn more_calls(&self) -> f64 {
        self.calls_per_step[1] - self.calls_per_step[0]
    }

    /// Returns the second time minus the first.
    pub fn diff_ns(&self) -> f64 {
        self.per_step_ns[1] - self.per_step_ns[0]
    }
}

/// Functions and operators by kind of step, largest difference first. `places` are the indices of
/// the steps of each kind and side. Names that differ in numbers only, such as those of lines, are
/// one. A side without host slices in its steps gives no rows.
pub(crate) fn changes(
    works: [&GpuWork<'_>; 2],
    steps: [&[Step]; 2],
    places: &[[Vec<usize>; 2]],
) -> Vec<HostChange> {
    // By kind of step and name: time and number of each side, and the name to show.
    let mut table: BTreeMap<(usize, String), Row> = BTreeMap::new();
    let mut has_any = [false; 2];
    for side in 0..2 {
        for ((kind, name), (what, ns, count)) in times(works[side], steps[side], side, places) {
            let text = works[side].trace().text(name);
            let key = (kind, without_numbers(text).into_owned());
            let row = table.entry(key).or_insert_with(|| Row {
                kind: what,
                ns: [0; 2],
                count: [0; 2],
                shown: String::new(),
            });
            row.ns[side] += ns;
            row.count[side] += count;
            let shown = &mut row.shown;
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
        .filter_map(|((step_kind, _), row)| {
            let steps = places.get(step_kind)?;
            let per_step = |sums: [i64; 2]| [0, 1].map(|i| mean(sums[i], steps[i].len()));
            Some(HostChange {
                step_kind,
                name: row.shown,
                kind: row.kind,
                calls_per_step: per_step(row.count),
                per_step_ns: per_step(row.ns),
            })
        })
        .collect();
    out.sort_by(|a, b| b.diff_ns().abs().total_cmp(&a.diff_ns().abs()));
    out
}

struct Row {
    kind: HostKind,
    ns: [i64; 2],
    count: [i64; 2],
    shown: String,
}

/// What a name is, its time, and how often it begins.
type Sum = (HostKind, i64, i64);

/// Returns the sums of each name by kind of step. A step lasts on the host until the next one begins.
fn times(
    work: &GpuWork<'_>,
    steps: &[Step],
    side: usize,
    places: &[[Vec<usize>; 2]],
) -> BTreeMap<(usize, StrId), Sum> {
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
    let waits_for_input =
        |slice: Slice<'_>| slice.name_id().and_then(|id| waits.get(&id)) == Some(&true);
    // `None` for what belongs to the slice around it.
    let kind_of = |slice: Slice<'_>| {
        let name = slice.name().unwrap_or("");
        let activity = work.index().activity(slice);
        let is_code = matches!(activity, Activity::PythonFunction | Activity::CpuOp);
        // What waits within a function that takes requests waits for these, by whatever primitive.
        if is_code && waits_for_input(slice) {
            let taker = slice
                .ancestors()
                .find(|p| p.name().is_some_and(takes_requests));
            return match taker {
                Some(_) if !takes_requests(name) => None,
                _ => Some(HostKind::InputWait),
            };
        }
        match activity {
            Activity::SyncApi if !name.contains("WaitEvent") => Some(HostKind::DeviceWait),
            Activity::MemcpyApi if !name.contains("Async") => Some(HostKind::DeviceWait),
            activity if activity.is_api() => Some(HostKind::Call),
            // Built-in functions belong to the function that calls them.
            Activity::PythonFunction if !name.starts_with('<') => Some(HostKind::Code),
            Activity::CpuOp => Some(HostKind::Code),
            _ => None,
        }
    };
    let owner = |slice: Slice<'_>| match kind_of(slice) {
        Some(_) => Owner::Of(slice.name_id()),
        None => Owner::Around,
    };
    let mut sums: BTreeMap<(usize, StrId), Sum> = BTreeMap::new();
    let mut kinds: FxHashMap<StrId, HostKind> = FxHashMap::default();
    for track in tracks {
        for id in work.trace().slices_on(track) {
            let slice = work.trace().slice(*id);
            let (Some(name), Some(what)) = (slice.name_id(), kind_of(slice)) else {
                continue;
            };
            kinds.entry(name).or_insert(what);
            let begin = slice.ts().nanos();
            let after = spans.partition_point(|span| span.0 <= begin);
            let at = after.checked_sub(1).and_then(|at| windows.get(at));
            if let Some((_, kind)) = at.filter(|((_, end), _)| begin < *end) {
                sums.entry((*kind, name)).or_insert((what, 0, 0)).2 += 1;
            }
        }
        within(work.trace(), track, &spans, owner, |at, name, ns| {
            if let (Some((_, kind)), Some(name)) = (windows.get(at), name)
                && let Some(what) = kinds.get(&name)
            {
                sums.entry((*kind, name)).or_insert((*what, 0, 0)).1 += ns;
            }
        });
    }
    sums
}
