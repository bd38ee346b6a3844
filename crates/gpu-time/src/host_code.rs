//! What the threads that launch GPU activity do in between: wait, and for what, or run code.

use rustc_hash::FxHashMap;
use trace_model::interval::{Interval, IntervalSet};
use trace_model::kernel::Activity;
use trace_model::{Slice, SliceId, StrId, ThreadId, TimeRange, Timestamp, TrackId, Waiting};

use crate::work::GpuWork;

/// When threads wait.
pub(crate) struct Waits {
    /// For the device.
    device: FxHashMap<Option<ThreadId>, IntervalSet>,
    /// For something from outside of the thread.
    input: FxHashMap<Option<ThreadId>, IntervalSet>,
}

impl Waits {
    /// Cost: one pass over the slices.
    pub(crate) fn new(work: &GpuWork<'_>) -> Self {
        let mut device: FxHashMap<_, IntervalSet> = FxHashMap::default();
        for call in work.index().activities().calls() {
            let call = work.trace().slice(*call);
            let name = call.name().unwrap_or("");
            let waits = match work.index().activity(call) {
                Activity::SyncApi => !name.contains("WaitEvent"),
                Activity::MemcpyApi => !name.contains("Async"),
                _ => false,
            };
            if waits {
                let thread = call.track().thread;
                device.entry(thread).or_default().cover(range(call));
            }
        }
        let mut input = inputs(work);
        #[expect(clippy::iter_over_hash_type, reason = "each thread for itself")]
        for (thread, set) in &mut input {
            if let Some(waits) = device.get(thread) {
                *set = set.subtract(waits);
            }
        }
        Self { device, input }
    }

    /// Returns how long a thread waits for the device and how long for something from outside, in
    /// nanoseconds. The two do not overlap.
    pub(crate) fn within(&self, thread: Option<ThreadId>, range: TimeRange) -> (i64, i64) {
        let of = |sets: &FxHashMap<_, IntervalSet>| {
            let set = sets.get(&thread);
            set.map_or(0, |set| set.clip(range).measure().get())
        };
        (of(&self.device), of(&self.input))
    }
}

fn range(slice: Slice<'_>) -> Interval {
    (slice.ts().nanos(), slice.end().nanos())
}

fn is_code(activity: Activity) -> bool {
    matches!(activity, Activity::PythonFunction | Activity::CpuOp) || activity.is_api()
}

/// Returns when functions that wait for something from outside of their thread are innermost: code
/// that runs within a wait is no wait.
fn inputs(work: &GpuWork<'_>) -> FxHashMap<Option<ThreadId>, IntervalSet> {
    let trace = work.trace();
    let mut names: FxHashMap<StrId, Option<Waiting>> = FxHashMap::default();
    let mut waiting_for = |slice: Slice<'_>| {
        let name = slice.name_id()?;
        let known = names.entry(name);
        *known.or_insert_with(|| Waiting::of_own_time(trace.text(name)))
    };
    let mut inside: FxHashMap<SliceId, Vec<Interval>> = FxHashMap::default();
    let mut waits: Vec<(Option<ThreadId>, SliceId, Interval)> = Vec::new();
    for slice in trace.slices() {
        if !is_code(work.index().activity(slice)) {
            continue;
        }
        if !inside.is_empty() {
            let mut around = slice.ancestors();
            let around = around.find(|parent| is_code(work.index().activity(*parent)));
            if let Some(list) = around.and_then(|parent| inside.get_mut(&parent.id())) {
                list.push(range(slice));
            }
        }
        if matches!(waiting_for(slice), Some(Waiting::Input | Waiting::Peer)) {
            inside.insert(slice.id(), Vec::new());
            waits.push((slice.track().thread, slice.id(), range(slice)));
        }
    }
    let mut threads: FxHashMap<Option<ThreadId>, Vec<Interval>> = FxHashMap::default();
    for (thread, slice, range) in waits {
        let others = inside.remove(&slice).unwrap_or_default();
        let others: IntervalSet = others.into_iter().collect();
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

/// Returns `true` for functions and operators; built-in functions count only if they wait.
fn is_function(work: &GpuWork<'_>, slice: Slice<'_>) -> bool {
    let name = slice.name().unwrap_or("");
    match work.index().activity(slice) {
        Activity::PythonFunction => !name.starts_with('<') || Waiting::of_own_time(name).is_some(),
        Activity::CpuOp => true,
        _ => false,
    }
}

/// What a thread did in a gap.
pub(crate) enum InGap {
    /// It spent most of the gap in this function or operator.
    Function(String),
    /// It was in several, none of which took most of the gap.
    Several,
    /// Functions and operators cover half of the time or less.
    Nothing,
}

/// Returns what each track was in between two instants, as [`most_of`] does, also where only outlines of the functions and
/// operators are kept.
pub(crate) fn each_most_of(work: &GpuWork<'_>, ranges: &[(TrackId, Interval)]) -> Vec<InGap> {
    let trace = work.trace();
    if !trace.outlines().are_kept() {
        let ranges = ranges.iter();
        return ranges
            .map(|(track, range)| most_of(work, *track, *range))
            .collect();
    }
    let times = ranges.iter().map(|(track, (from, to))| {
        let [from, to] = [*from, *to].map(Timestamp::from_nanos);
        (*track, TimeRange::new(from, to.max(from)))
    });
    let excerpts = trace.excerpts(&times.collect::<Vec<_>>());
    let Some(only) = TrackId::new(0) else {
        return Vec::new();
    };
    let each = excerpts.iter().zip(ranges);
    each.map(|(excerpt, (_, range))| {
        let vocabulary = work.index().vocabulary().clone();
        most_of(&GpuWork::with_vocabulary(excerpt, vocabulary), only, *range)
    })
    .collect()
}

/// Returns what a track was in between two instants: the function or operator whose own time is more
/// than half of it, else the innermost one that covers more than half, with the function that called
/// it: `queue.py(154): get in core.py(700): _process_input_queue`. Built-in functions are part of what
/// calls them, unless they wait.
///
/// Cost: the slices of the track in that time.
fn most_of(work: &GpuWork<'_>, track: TrackId, (from, to): Interval) -> InGap {
    let trace = work.trace();
    let list = trace.slices_on(track);
    let begin = list.partition_point(|s| trace.slice(*s).ts().nanos() <= from);
    let end = list.partition_point(|s| trace.slice(*s).ts().nanos() < to);
    let last = begin.checked_sub(1).and_then(|at| list.get(at));
    let last = last.map(|last| trace.slice(*last));
    let open = last
        .into_iter()
        .flat_map(|last| std::iter::once(last).chain(last.ancestors()));
    // The outermost first, as for those that begin within.
    let mut open: Vec<Slice<'_>> = open.collect();
    open.reverse();
    let inner = list.get(begin..end.max(begin)).unwrap_or_default();
    let mut own: FxHashMap<SliceId, i64> = FxHashMap::default();
    // Begin and end of the innermost one that covers most of the time.
    let mut covers: Option<(i64, SliceId)> = None;
    let most = to.saturating_sub(from).max(0) / 2;
    let mut recorded = IntervalSet::default();
    for slice in open
        .into_iter()
        .chain(inner.iter().map(|s| trace.slice(*s)))
    {
        let ns = slice.end().nanos().min(to) - slice.ts().nanos().max(from);
        if ns <= 0 || !is_function(work, slice) {
            continue;
        }
        recorded.cover((slice.ts().nanos().max(from), slice.end().nanos().min(to)));
        if ns > most && covers.is_none_or(|(least, _)| ns <= least) {
            covers = Some((ns, slice.id()));
        }
        *own.entry(slice.id()).or_default() += ns;
        let caller = slice.ancestors().find(|parent| is_function(work, *parent));
        if let Some(caller) = caller {
            *own.entry(caller.id()).or_default() -= ns;
        }
    }
    let text_of = |slice: SliceId| {
        let slice = trace.slice(slice);
        let caller = slice.ancestors().find(|parent| is_function(work, *parent));
        let name = slice.name().unwrap_or("");
        match caller.and_then(|caller| caller.name()) {
            Some(caller) => format!("{name} in {caller}"),
            None => name.to_owned(),
        }
    };
    let mut sums: FxHashMap<String, i64> = FxHashMap::default();
    #[expect(clippy::iter_over_hash_type, reason = "sums")]
    for (slice, ns) in own {
        *sums.entry(text_of(slice)).or_default() += ns;
    }
    // No two have more than half.
    let by_own = sums.into_iter().find(|(_, ns)| *ns > most);
    match (by_own, covers) {
        (Some((text, _)), _) => InGap::Function(text),
        (None, Some((_, slice))) => InGap::Function(text_of(slice)),
        (None, None) if recorded.measure().get() > most => InGap::Several,
        (None, None) => InGap::Nothing,
    }
}
