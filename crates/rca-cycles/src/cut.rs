//! From steps to cycles: where each begins and ends, and which are only partly recorded.

use rustc_hash::FxHashSet;
use trace_model::interval::IntervalSet;
use trace_model::{Slice, SliceId, StrId, TimeRange, Timestamp, Waiting};

use crate::engine::{Engine, any, is_wrapper};
use crate::num::{median, real, row, span};
use crate::steps::{Found, Method, Steps};
use crate::timeline::{Kind, Timeline};
use crate::waits;

/// Why a cycle does not count.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Partial {
    /// The recording begins inside.
    Head,
    /// The recording ends inside.
    Tail,
    /// The device was not recorded yet, or no longer.
    NoDeviceWork,
}

impl Partial {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Head => "head",
            Self::Tail => "tail",
            Self::NoDeviceWork => "no_device_work",
        }
    }
}

/// The host interval of one cycle of one process, ns. What is launched inside belongs to the cycle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Window {
    pub(crate) start: i64,
    /// Where the next one begins.
    pub(crate) end: i64,
    pub(crate) anchor: Option<SliceId>,
    pub(crate) partial: Option<Partial>,
    /// How long the engine waited for requests at its end, if that is far longer than a step, ns.
    pub(crate) idle_ns: i64,
}

impl Window {
    /// A cycle without a call or range of its own.
    fn between(start: i64, end: i64) -> Self {
        Self {
            start,
            end,
            anchor: None,
            partial: None,
            idle_ns: 0,
        }
    }
}

/// The cycles of each process, and whose count.
pub(crate) struct Cuts {
    /// By process; empty where the process has no steps of its own.
    pub(crate) windows: Vec<Vec<Window>>,
    /// By process and window: the cycle.
    pub(crate) cycle: Vec<Vec<Option<u32>>>,
    pub(crate) reference: usize,
    /// By process: the thread that its steps are of, where a call or range says so.
    pub(crate) threads: Vec<Option<u32>>,
}

impl Cuts {
    pub(crate) fn cycles(&self) -> &[Window] {
        self.windows.get(self.reference).map_or(&[], Vec::as_slice)
    }

    /// The cycles of `process` that reach into a stretch of time, with the part of it in each.
    pub(crate) fn within(
        &self,
        process: u32,
        (from, to): (i64, i64),
    ) -> impl Iterator<Item = (u32, (i64, i64))> {
        let mut p = process as usize;
        if self.windows.get(p).is_none_or(Vec::is_empty) {
            p = self.reference;
        }
        let list = self.windows.get(p).map_or(&[][..], Vec::as_slice);
        let cycles = self.cycle.get(p).map_or(&[][..], Vec::as_slice);
        let first = list.partition_point(|w| w.end <= from);
        let reach = list.iter().zip(cycles).skip(first);
        reach
            .take_while(move |(w, _)| w.start < to)
            .filter_map(move |(w, cycle)| {
                let part = (w.start.max(from), w.end.min(to));
                (part.0 < part.1).then_some(((*cycle)?, part))
            })
    }

    /// The cycle of `process` that instant `at` lies in.
    pub(crate) fn at(&self, process: u32, at: i64) -> Option<u32> {
        let mut p = process as usize;
        if self.windows.get(p).is_none_or(Vec::is_empty) {
            p = self.reference;
        }
        let list = self.windows.get(p)?;
        let i = list.partition_point(|w| w.start <= at).checked_sub(1)?;
        (at < list[i].end).then(|| self.cycle[p][i])?
    }
}

pub(crate) fn cut(timeline: &Timeline<'_>, found: &Found, engines: &[Engine]) -> Cuts {
    let n = timeline.members.len();
    let mut windows: Vec<Vec<Window>> = vec![Vec::new(); n];
    let mut threads: Vec<Option<u32>> = vec![None; n];
    let thread_of = |slice: SliceId| timeline.thread(timeline.trace.slice(slice));
    match &found.steps {
        Steps::Calls(calls) => {
            let engine = found.engine.and_then(|i| engines.get(i));
            // What is between two layers is no part of a layer.
            let is_step = found.method != Method::Layers;
            for (process, list) in calls.iter().enumerate() {
                windows[process] = of_calls(timeline, list, engine, is_step);
                let first = windows[process].iter().find_map(|w| w.anchor);
                threads[process] = first.map(thread_of);
            }
        }
        Steps::Spans(spans) => {
            for (process, list) in spans.iter().enumerate() {
                let marks: Vec<Window> = list
                    .iter()
                    .map(|s| window((s.start, s.end), timeline.trace.slice(s.first)))
                    .collect();
                threads[process] = list.first().map(|s| thread_of(s.first));
                windows[process] = start_to_start(timeline, threads[process], marks);
            }
        }
        Steps::Times {
            process,
            starts,
            end,
            thread,
            ..
        } => {
            threads[*process as usize] = *thread;
            let ends = starts.iter().skip(1).chain(std::iter::once(end));
            windows[*process as usize] = starts
                .iter()
                .zip(ends)
                .map(|(&start, &end)| Window::between(start, end))
                .collect();
        }
    }
    let most = windows.iter().map(Vec::len).max().unwrap_or(0);
    let reference = windows.iter().position(|w| w.len() == most).unwrap_or(0);
    let cycle = windows
        .iter()
        .enumerate()
        .map(|(p, list)| align(&windows[reference], list, p == reference))
        .collect();
    let mut cuts = Cuts {
        windows,
        cycle,
        reference,
        threads,
    };
    flag_without_device(timeline, &mut cuts);
    cuts
}

/// The cycle of each window of another process: the one that starts nearest, no further away than
/// half a period. Where a fifth of them has none, clocks differ or ranks drift: then the first goes with
/// the first and so on, if there are as many.
fn align(reference: &[Window], list: &[Window], same: bool) -> Vec<Option<u32>> {
    if same {
        return (0..list.len()).map(|i| Some(row(i))).collect();
    }
    let lengths: Vec<f64> = reference
        .windows(2)
        .map(|w| span(w[1].start - w[0].start))
        .collect();
    let reach = median(&lengths) / 2.0;
    let nearest: Vec<Option<u32>> = list
        .iter()
        .map(|w| {
            let next = reference.partition_point(|r| r.start <= w.start);
            let near = [next.checked_sub(1), Some(next)]
                .into_iter()
                .flatten()
                .filter_map(|i| Some((i, (reference.get(i)?.start - w.start).abs())))
                .min_by_key(|x| x.1)?;
            (reference.len() == 1 || span(near.1) <= reach).then(|| row(near.0))
        })
        .collect();
    let lost = nearest.iter().filter(|c| c.is_none()).count();
    if list.len() == reference.len() && real(lost) > 0.2 * real(list.len()) {
        return (0..list.len()).map(|i| Some(row(i))).collect();
    }
    nearest
}

/// The frame of the step that only wraps it, or the step.
fn outermost<'t>(step: Slice<'t>) -> Slice<'t> {
    let mut top = step;
    for up in step.ancestors() {
        if !up.name().is_some_and(is_wrapper) {
            break;
        }
        top = up;
    }
    top
}

fn of_calls(
    timeline: &Timeline<'_>,
    calls: &[SliceId],
    engine: Option<&Engine>,
    is_step: bool,
) -> Vec<Window> {
    let trace = timeline.trace;
    let all: Vec<Slice<'_>> = calls.iter().map(|&c| trace.slice(c)).collect();
    // Threads that take turns share the ranges of one loop.
    let turns = all
        .windows(2)
        .all(|w| w[0].track_id() == w[1].track_id() || w[0].end() <= w[1].ts());
    let marked = |s: &Slice<'_>| timeline.kind(*s) == Kind::Annotation;
    if turns && all.iter().all(marked) {
        return ranges(timeline, &all);
    }
    // One thread drives the engine; calls of others are not steps.
    let mut per_thread: std::collections::BTreeMap<u32, usize> = std::collections::BTreeMap::new();
    for &c in calls {
        *per_thread
            .entry(timeline.thread(trace.slice(c)))
            .or_default() += 1;
    }
    let Some((&thread, _)) = per_thread.iter().max_by_key(|(t, n)| (**n, u32::MAX - **t)) else {
        return Vec::new();
    };
    let steps: Vec<Slice<'_>> = calls
        .iter()
        .map(|&c| trace.slice(c))
        .filter(|s| timeline.thread(*s) == thread)
        .map(outermost)
        .collect();
    let Some(first) = steps.first() else {
        return Vec::new();
    };
    if timeline.kind(*first) == Kind::Annotation {
        return ranges(timeline, &steps);
    }
    let around = first.parent().map(|p| p.id());
    let siblings: Vec<Slice<'_>> = trace
        .slices()
        .filter(|s| {
            timeline.kind(*s).is_code()
                && timeline.thread(*s) == thread
                && s.parent().map(|p| p.id()) == around
        })
        .collect();
    pieces(timeline, (thread, is_step), &steps, &siblings, engine)
}

/// Ranges that a program marked: what the host does between two of them (scheduling, waiting for
/// tokens, output) belongs to the earlier one.
fn ranges(timeline: &Timeline<'_>, steps: &[Slice<'_>]) -> Vec<Window> {
    let each = steps.iter();
    let windows: Vec<Window> = each
        .map(|s| window((s.ts().nanos(), s.end().nanos()), *s))
        .collect();
    let thread = steps.first().map(|s| timeline.thread(*s));
    start_to_start(timeline, thread, windows)
}

/// A gap beyond so many periods and so many ns is a pause between requests if the thread waits for input in so much of it.
const PAUSE: (f64, i64, f64) = (5.0, 50_000_000, 0.9);

/// Extends each step to the start of the next: scheduling, pauses and whatever else is between two steps are time that
/// tokens take. Where an engine waits for requests for long, that is noted. The last one ends with its
/// own call or range; where that leaves out much of what others have after theirs, it is partial, unless steps are few.
fn start_to_start(
    timeline: &Timeline<'_>,
    thread: Option<u32>,
    mut windows: Vec<Window>,
) -> Vec<Window> {
    let starts: Vec<i64> = windows.iter().map(|w| w.start).collect();
    let periods: Vec<f64> = starts.windows(2).map(|s| span(s[1] - s[0])).collect();
    let period = median(&periods);
    let mut idle: Option<IntervalSet> = None;
    let process = windows
        .iter()
        .find_map(|w| w.anchor)
        .map_or(0, |anchor| timeline.process(timeline.trace.slice(anchor)));
    let mut is_idle = |from: i64, to: i64| {
        let idle = idle.get_or_insert_with(|| {
            let is_input = |waiting| waiting == Waiting::Input;
            let all = waits::own_time(timeline, process, &is_input);
            thread
                .and_then(|thread| all.get(&thread).cloned())
                .unwrap_or_default()
        });
        let range = TimeRange::new(Timestamp::from_nanos(from), Timestamp::from_nanos(to));
        span(idle.clip(range).measure().get()) >= PAUSE.2 * span(to - from)
    };
    let mut after: Vec<f64> = Vec::with_capacity(periods.len());
    for (w, &next) in windows.iter_mut().zip(starts.iter().skip(1)) {
        let gap = next - w.end;
        if span(gap) > PAUSE.0 * period && gap > PAUSE.1 && is_idle(w.end, next) {
            w.idle_ns = gap;
        }
        after.push(span(gap.max(0)));
        w.end = next.max(w.start);
    }
    if windows.len() >= 8
        && median(&after) > 0.1 * period
        && let Some(last) = windows.last_mut()
    {
        last.partial.get_or_insert(Partial::Tail);
    }
    windows
}

/// A cycle that `first` opens; what the recording did not see the end of is not whole.
fn window((start, end): (i64, i64), first: Slice<'_>) -> Window {
    Window {
        start,
        end,
        anchor: Some(first.id()),
        partial: first.dur().is_none().then_some(Partial::Tail),
        idle_ns: 0,
    }
}

/// Which of the calls between two steps open the later one, and whether a rule of the engine says so.
fn opens(between: &[Slice<'_>], before: i64, after: i64, engine: Option<&Engine>) -> (usize, bool) {
    fn name<'t>(s: &Slice<'t>) -> &'t str {
        s.name().unwrap_or("")
    }
    if let Some(engine) = engine {
        let results = between
            .iter()
            .rposition(|s| any(&engine.result, name(s)))
            .map_or(0, |i| i + 1);
        let begin = between[results..]
            .iter()
            .position(|s| any(&engine.begin, name(s)));
        if let Some(begin) = begin {
            return (results + begin, true);
        }
        if results > 0 {
            return (results, true);
        }
    }
    // The widest pause; of equal ones the last.
    let mut end = before;
    let mut widest = (i64::MIN, 0);
    for (i, s) in between.iter().enumerate() {
        let gap = s.ts().nanos() - end;
        if gap >= widest.0 {
            widest = (gap, i);
        }
        end = end.max(s.end().nanos());
    }
    if after - end > widest.0 {
        return (between.len(), false);
    }
    (widest.1, false)
}

/// Where each step opens: by the rules, else with the call that most steps open with where they are cut at the widest pause. A
/// step that stalls is cut like the others then.
fn openings(
    between: &[Vec<Slice<'_>>],
    steps: &[Slice<'_>],
    engine: Option<&Engine>,
) -> Vec<usize> {
    let mut counts: std::collections::BTreeMap<Option<StrId>, usize> =
        std::collections::BTreeMap::new();
    let each = steps.windows(2).zip(&between[1..]).map(|(pair, list)| {
        let (before, after) = (pair[0].end().nanos(), pair[1].ts().nanos());
        opens(list, before, after, engine)
    });
    let found: Vec<(usize, bool)> = each.collect();
    let name_at = |list: &[Slice<'_>], cut: usize| list.get(cut).and_then(|s| s.name_id());
    for (&(cut, by_rule), list) in found.iter().zip(&between[1..]) {
        if !by_rule {
            *counts.entry(name_at(list, cut)).or_default() += 1;
        }
    }
    // None where steps open with themselves.
    let usual = counts
        .iter()
        .max_by_key(|(name, n)| (**n, std::cmp::Reverse(**name)))
        .map(|(name, _)| *name);
    let each = found.iter().zip(&between[1..]);
    each.map(|(&(cut, by_rule), list)| {
        let known = match usual {
            Some(usual) if name_at(list, cut) == usual => Some(cut),
            Some(Some(name)) => list.iter().position(|s| s.name_id() == Some(name)),
            Some(None) => Some(list.len()),
            None => None,
        };
        known.filter(|_| !by_rule).unwrap_or(cut)
    })
    .collect()
}

fn pieces(
    timeline: &Timeline<'_>,
    (thread, is_step): (u32, bool),
    steps: &[Slice<'_>],
    siblings: &[Slice<'_>],
    engine: Option<&Engine>,
) -> Vec<Window> {
    let ids: FxHashSet<SliceId> = steps.iter().map(|s| s.id()).collect();
    // Siblings by the step they come before; the last list follows the last step.
    let mut between: Vec<Vec<Slice<'_>>> = vec![Vec::new(); steps.len() + 1];
    let mut at = 0;
    for s in siblings {
        if ids.contains(&s.id()) {
            at += 1;
        } else if let Some(list) = between.get_mut(at) {
            list.push(*s);
        }
    }
    let mut starts: Vec<i64> = Vec::with_capacity(steps.len());
    let mut own_ends: Vec<i64> = Vec::with_capacity(steps.len());
    let mut opening: FxHashSet<_> = FxHashSet::default();
    let mut closing: FxHashSet<_> = FxHashSet::default();
    for (i, cut) in (1..).zip(openings(&between, steps, engine)) {
        let list = &between[i];
        let (before, after) = (steps[i - 1].end().nanos(), steps[i].ts().nanos());
        opening.extend(list[cut..].iter().filter_map(|s| s.name_id()));
        closing.extend(list[..cut].iter().filter_map(|s| s.name_id()));
        let end = list[..cut].iter().map(|s| s.end().nanos()).max();
        own_ends.push(end.unwrap_or(before).max(before));
        starts.push(list.get(cut).map_or(after, |s| s.ts().nanos()));
    }
    // The first step opens with what others open with.
    let head = &between[0];
    let first_cut = if engine.is_some() && steps.len() == 1 {
        opens(head, i64::MIN / 2, steps[0].ts().nanos(), engine).0
    } else {
        let known = |s: &Slice<'_>| {
            s.name_id()
                .is_some_and(|n| opening.contains(&n) && !closing.contains(&n))
        };
        head.len() - head.iter().rev().take_while(|s| known(s)).count()
    };
    starts.insert(
        0,
        head.get(first_cut)
            .map_or(steps[0].ts().nanos(), |s| s.ts().nanos()),
    );
    let tail = &between[steps.len()];
    let known = |s: &Slice<'_>| s.name_id().is_some_and(|n| closing.contains(&n));
    let last_cut = tail.iter().take_while(|s| known(s)).count();
    let last_step = steps[steps.len() - 1];
    let mut last_end = last_step.end().nanos();
    for s in &tail[..last_cut] {
        last_end = last_end.max(s.end().nanos());
    }
    own_ends.push(last_end);
    let lengths: Vec<f64> = starts.windows(2).map(|w| span(w[1] - w[0])).collect();
    let period = if lengths.is_empty() {
        span(last_end - starts[0])
    } else {
        median(&lengths)
    };
    let mut windows: Vec<Window> = (0..steps.len())
        .map(|i| {
            let own = own_ends[i];
            let next = starts.get(i + 1).copied();
            let near = |n: &i64| !is_step && span(n - own) <= 0.25 * period;
            Window {
                start: starts[i],
                end: next.filter(near).unwrap_or(own),
                anchor: Some(steps[i].id()),
                partial: steps[i].dur().is_none().then_some(Partial::Tail),
                idle_ns: 0,
            }
        })
        .collect();
    if is_step {
        windows = start_to_start(timeline, Some(thread), windows);
    }
    flag_incomplete(
        &mut windows,
        &between,
        &closing,
        &opening,
        first_cut,
        last_cut,
    );
    add_rest(timeline, thread, &mut windows, period);
    windows
}

/// A first cycle that lacks what others open with, or a last that lacks what others close with.
fn flag_incomplete(
    windows: &mut [Window],
    between: &[Vec<Slice<'_>>],
    closing: &FxHashSet<trace_model::StrId>,
    opening: &FxHashSet<trace_model::StrId>,
    first_cut: usize,
    last_cut: usize,
) {
    let usual = |names: &FxHashSet<trace_model::StrId>| {
        let inner = &between[1..between.len() - 1];
        let mut always: Vec<trace_model::StrId> = names
            .iter()
            .copied()
            .filter(|n| {
                let having = inner
                    .iter()
                    .filter(|l| l.iter().any(|s| s.name_id() == Some(*n)))
                    .count();
                real(having) >= 0.8 * real(inner.len())
            })
            .collect();
        always.sort_unstable();
        always
    };
    let lacks = |have: &[Slice<'_>], names: &[trace_model::StrId]| {
        names
            .iter()
            .any(|n| !have.iter().any(|s| s.name_id() == Some(*n)))
    };
    let only_open: FxHashSet<_> = opening.difference(closing).copied().collect();
    let only_close: FxHashSet<_> = closing.difference(opening).copied().collect();
    if let (Some(first), Some(head)) = (windows.first_mut(), between.first())
        && lacks(&head[first_cut.min(head.len())..], &usual(&only_open))
    {
        first.partial = Some(Partial::Head);
    }
    if let (Some(last), Some(tail)) = (windows.last_mut(), between.last())
        && lacks(&tail[..last_cut.min(tail.len())], &usual(&only_close))
    {
        last.partial = Some(Partial::Tail);
    }
}

/// What the thread did before the first cycle and after the last is part of cycles whose step was
/// not recorded.
fn add_rest(timeline: &Timeline<'_>, thread: u32, windows: &mut Vec<Window>, period: f64) {
    let (Some(first), Some(last)) = (windows.first().copied(), windows.last().copied()) else {
        return;
    };
    let (mut head, mut tail) = (first.start, last.end);
    for s in timeline.trace.slices() {
        if timeline.thread(s) != thread || !timeline.kind(s).is_code() {
            continue;
        }
        let (ts, end) = (s.ts().nanos(), s.end().nanos());
        // Frames around the loop are no part of it.
        if span(end - ts) > 3.0 * period && ts < first.start && end > first.start {
            continue;
        }
        if end <= first.start {
            head = head.min(ts);
        }
        if ts >= last.end {
            tail = tail.max(end);
        }
    }
    let enough = |ns: i64| windows.len() > 1 && span(ns) > 0.02 * period;
    let (add_head, add_tail) = (enough(first.start - head), enough(tail - last.end));
    if add_tail {
        windows.push(Window {
            start: last.end,
            end: tail,
            anchor: None,
            partial: Some(Partial::Tail),
            idle_ns: 0,
        });
    }
    if add_head {
        // No longer than a period: before that there were other things.
        let earliest = first.start - crate::num::nanos(1.5 * period);
        windows.insert(
            0,
            Window {
                start: head.max(earliest),
                end: first.start,
                anchor: None,
                partial: Some(Partial::Head),
                idle_ns: 0,
            },
        );
    }
}

/// Cycles at either end without work on the device, where most have some.
fn flag_without_device(timeline: &Timeline<'_>, cuts: &mut Cuts) {
    let mut has = vec![false; cuts.cycles().len()];
    for work in &timeline.work {
        let at = work.launch.map_or(work.ts, |l| l.1);
        if let Some(c) = cuts.at(work.process, at)
            && let Some(flag) = has.get_mut(c as usize)
        {
            *flag = true;
        }
    }
    let with = has.iter().filter(|h| **h).count();
    if real(with) < 0.6 * real(has.len()) {
        return;
    }
    let reference = cuts.reference;
    let Some(list) = cuts.windows.get_mut(reference) else {
        return;
    };
    let ends = has.iter().take_while(|h| !**h).count();
    let back = has.iter().rev().take_while(|h| !**h).count();
    let n = list.len();
    for (i, w) in list.iter_mut().enumerate() {
        if (i < ends || i >= n - back) && w.partial.is_none() {
            w.partial = Some(Partial::NoDeviceWork);
        }
    }
}
