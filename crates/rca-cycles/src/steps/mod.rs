//! Which calls are the steps of the engine.

mod marks;
mod ranges;

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::kernel::NamePattern;
use trace_model::{SliceId, StrId};

use crate::analysis::Options;
use crate::compat::DivideBy;
use crate::engine::{Engine, any, is_layer, is_wait, is_wrapper};
use crate::num::{real, row, span};
use crate::phase::{family, without_numbers};
use crate::timeline::{Kind, Timeline};

/// How steps were found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Method {
    /// The caller named the function.
    Marker,
    /// The caller wants layers.
    Layers,
    /// The rules of an engine name it.
    Rules,
    /// The outermost function that recurs and fills the thread.
    CallTree,
    /// The outermost ranges that recur, as a program marked them.
    Ranges,
    /// The sequence of operators on the busiest thread repeats.
    Sequence,
    /// The work on the device comes in bursts of like size.
    Device,
    /// Nothing recurs: all of the trace is one step.
    Whole,
}

impl Method {
    /// Stable machine name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Marker => "marker",
            Self::Layers => "layers",
            Self::Rules => "rules",
            Self::CallTree => "call_tree",
            Self::Ranges => "ranges",
            Self::Sequence => "sequence",
            Self::Device => "device",
            Self::Whole => "whole",
        }
    }
}

/// Steps as found.
pub(crate) enum Steps {
    /// Calls that are steps, by process.
    Calls(Vec<Vec<SliceId>>),
    /// From when to when they are, by process.
    Spans(Vec<Vec<Span>>),
    /// Times at which steps begin, and the end of the last, of one process; the thread that they are of, if it is known.
    Times {
        process: u32,
        starts: Vec<i64>,
        end: i64,
        thread: Option<u32>,
        /// `true` if the host begins them then, and not a device.
        is_host: bool,
    },
}

/// A step from its first range to the end of its last, ns.
#[derive(Clone, Copy)]
pub(crate) struct Span {
    pub(crate) start: i64,
    pub(crate) end: i64,
    pub(crate) first: SliceId,
}

pub(crate) struct Found {
    pub(crate) method: Method,
    pub(crate) engine: Option<usize>,
    /// The function or operator that marks steps.
    pub(crate) anchor: String,
    pub(crate) steps: Steps,
}

impl Found {
    /// Returns `true` if steps begin on the host. Layers are parts of a step.
    pub(crate) fn is_of_host(&self) -> bool {
        match self.steps {
            Steps::Times { is_host, .. } => is_host,
            _ => self.method != Method::Layers,
        }
    }
}

pub(crate) fn find(timeline: &Timeline<'_>, options: &Options) -> Option<Found> {
    let engines = options.engines.as_slice();
    let names = code_names(timeline);
    if let Some(marker) = &options.marker {
        let ids = named(timeline, &names, marker);
        return calls(timeline, &ids).map(|steps| Found {
            method: Method::Marker,
            engine: engine_of(timeline, engines, &names),
            anchor: marker.clone(),
            steps: Steps::Calls(steps),
        });
    }
    if options.divide_by == DivideBy::Layer {
        let ids: FxHashSet<StrId> = names
            .iter()
            .copied()
            .filter(|&n| is_layer(timeline.trace.text(n)))
            .collect();
        let steps = calls(timeline, &ids)?;
        let first = steps.iter().flatten().next()?;
        return Some(Found {
            method: Method::Layers,
            engine: engine_of(timeline, engines, &names),
            anchor: timeline.trace.slice(*first).name().unwrap_or("").to_owned(),
            steps: Steps::Calls(steps),
        });
    }
    by_rules(timeline, engines, &names)
        .or_else(|| marks::by_marks(timeline, engines, &names).map(|found| found.0))
        .or_else(|| by_tree(timeline))
        .or_else(|| ranges::by_ranges(timeline))
        .or_else(|| by_sequence(timeline))
        .or_else(|| by_device(timeline))
        .or_else(|| whole(timeline))
}

/// Names of host code and ranges, in order of first sight.
fn code_names(timeline: &Timeline<'_>) -> Vec<StrId> {
    let mut seen = FxHashSet::default();
    let mut names = Vec::new();
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        if (kind.is_code() || kind == Kind::Annotation)
            && let Some(name) = slice.name_id()
            && seen.insert(name)
        {
            names.push(name);
        }
    }
    names
}

/// The names that a marker means: the one that it is, else those that it is a pattern for, else those
/// that differ from it in their numbers only, else those of the family that it names.
fn named(timeline: &Timeline<'_>, names: &[StrId], marker: &str) -> FxHashSet<StrId> {
    let that = |is: &dyn Fn(&str) -> bool| -> FxHashSet<StrId> {
        let each = names.iter().copied();
        each.filter(|&n| is(timeline.trace.text(n))).collect()
    };
    let bare = |name: &str| {
        let text = without_numbers(name);
        text.trim_end_matches(['#', '_', '-', ':', ' ']).to_owned()
    };
    let pattern = NamePattern::glob(marker);
    let kind = bare(marker);
    let is_family = marker.contains('*');
    let ways: [&dyn Fn(&str) -> bool; 4] = [
        &|name| name == marker,
        &|name| pattern.matches(name),
        &|name| bare(name) == kind,
        &|name| is_family && family(name) == marker,
    ];
    let mut found = ways.iter().map(|way| that(way));
    found.find(|ids| !ids.is_empty()).unwrap_or_default()
}

fn engine_of(timeline: &Timeline<'_>, engines: &[Engine], names: &[StrId]) -> Option<usize> {
    engines.iter().position(|e| {
        e.name != "annotated" && names.iter().any(|&n| any(&e.step, timeline.trace.text(n)))
    })
}

/// The outermost calls of these names, by process; none without any.
fn calls(timeline: &Timeline<'_>, ids: &FxHashSet<StrId>) -> Option<Vec<Vec<SliceId>>> {
    if ids.is_empty() {
        return None;
    }
    let mut by_process = vec![Vec::new(); timeline.members.len()];
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        if !(kind.is_code() || kind == Kind::Annotation) {
            continue;
        }
        let is_step = slice.name_id().is_some_and(|n| ids.contains(&n));
        if is_step
            && !slice
                .ancestors()
                .any(|a| a.name_id().is_some_and(|n| ids.contains(&n)))
        {
            by_process[timeline.process(slice) as usize].push(slice.id());
        }
    }
    by_process
        .iter()
        .any(|p| !p.is_empty())
        .then_some(by_process)
}

/// What steps are called: their name if they share one, else the family that most of them are of. It does not
/// depend on which of them comes first.
fn common_name(timeline: &Timeline<'_>, steps: &[Vec<SliceId>]) -> Option<String> {
    let mut counts: BTreeMap<StrId, usize> = BTreeMap::new();
    for &step in steps.iter().flatten() {
        if let Some(name) = timeline.trace.slice(step).name_id() {
            *counts.entry(name).or_default() += 1;
        }
    }
    let marked = steps
        .iter()
        .flatten()
        .next()
        .map(|&step| timeline.trace.slice(step));
    let marked = marked.is_some_and(|s| timeline.kind(s) == Kind::Annotation);
    let mut names: BTreeMap<String, usize> = BTreeMap::new();
    for (&name, &count) in &counts {
        let text = timeline.trace.text(name);
        let called = match marked && counts.len() > 1 {
            true => family(text),
            false => text.to_owned(),
        };
        *names.entry(called).or_default() += count;
    }
    let most = names
        .iter()
        .max_by_key(|(name, count)| (**count, std::cmp::Reverse(*name)));
    most.map(|(name, _)| name.clone())
}

fn by_rules(timeline: &Timeline<'_>, engines: &[Engine], names: &[StrId]) -> Option<Found> {
    let mut best: Option<(usize, Vec<Vec<SliceId>>, usize)> = None;
    let most = |steps: &[Vec<SliceId>]| steps.iter().map(Vec::len).max().unwrap_or(0);
    for (i, engine) in engines.iter().enumerate() {
        // Patterns in order of preference: the first that is called at all decides.
        for pattern in &engine.step {
            let ids: FxHashSet<StrId> = names
                .iter()
                .copied()
                .filter(|&n| pattern.matches(timeline.trace.text(n)))
                .collect();
            let Some(steps) = calls(timeline, &ids) else {
                continue;
            };
            let count = most(&steps);
            if best.as_ref().is_none_or(|b| count > b.2) {
                best = Some((i, steps, count));
            }
            break;
        }
        if best.is_some() && engine.name != "annotated" {
            break;
        }
    }
    if let Some((i, steps, count)) = best {
        // A range of the profiler may hold several steps that the engine marks, and these may have names in turn.
        if engines[i].name == "annotated"
            && let Some((found, own)) = marks::by_marks(timeline, engines, names)
            && own != count
        {
            return Some(Found {
                method: Method::Rules,
                ..found
            });
        }
        let anchor = common_name(timeline, &steps)?;
        let engine = if engines[i].name == "annotated" {
            engine_of(timeline, engines, names)
        } else {
            Some(i)
        };
        return Some(Found {
            method: Method::Rules,
            engine,
            anchor,
            steps: Steps::Calls(steps),
        });
    }
    engines.iter().enumerate().find_map(|(i, engine)| {
        let ids: FxHashSet<StrId> = names
            .iter()
            .copied()
            .filter(|&n| any(&engine.after, timeline.trace.text(n)))
            .collect();
        let steps = calls(timeline, &ids)?;
        let (process, list) = steps
            .iter()
            .enumerate()
            .max_by_key(|(i, l)| (l.len(), usize::MAX - i))?;
        let first = timeline.trace.slice(*list.first()?);
        let thread = timeline.thread(first);
        let mut end = i64::MIN;
        for slice in timeline.trace.slices() {
            let kind = timeline.kind(slice);
            // Frames that were open all the time end with the trace and say nothing.
            if kind.is_device() || (kind.is_code() && timeline.thread(slice) == thread) {
                let range = slice.range();
                if range.start >= first.ts() {
                    end = end.max(range.end.nanos());
                }
            }
        }
        let mut starts: Vec<i64> = list
            .iter()
            .map(|&s| timeline.trace.slice(s).end().nanos())
            .collect();
        starts.dedup();
        // A last call that only ends the recording begins no step.
        if starts.len() > 1 {
            let lengths: Vec<f64> = starts.windows(2).map(|w| span(w[1] - w[0])).collect();
            let last = *starts.last()?;
            if span(end - last) < 0.5 * crate::num::median(&lengths) {
                end = last;
                starts.pop();
            }
        }
        Some(Found {
            method: Method::Rules,
            engine: Some(i),
            anchor: first.name().unwrap_or("").to_owned(),
            steps: Steps::Times {
                process: crate::num::row(process),
                starts,
                end,
                thread: Some(thread),
                is_host: true,
            },
        })
    })
}

/// Share of a thread's recorded time that steps must reach over: what recurs for a moment is no loop.
const LEAST_REACH: f64 = 0.02;

/// The outermost function that is called at least three times and fills at least half of the time
/// between its first call and its last.
fn by_tree(timeline: &Timeline<'_>) -> Option<Found> {
    struct Sums {
        depth: usize,
        count: usize,
        total: i64,
        first: i64,
        last: i64,
    }
    let mut sums: FxHashMap<(u32, StrId), Sums> = FxHashMap::default();
    let mut extents: Vec<(i64, i64)> = vec![(i64::MAX, i64::MIN); timeline.threads];
    for slice in timeline.trace.slices() {
        if timeline.kind(slice) != Kind::Python {
            continue;
        }
        let (Some(name), Some(dur)) = (slice.name_id(), slice.dur()) else {
            continue;
        };
        let depth = slice.depth();
        let extent = &mut extents[timeline.thread(slice) as usize];
        extent.0 = extent.0.min(slice.ts().nanos());
        extent.1 = extent.1.max(slice.end().nanos());
        let s = sums.entry((timeline.thread(slice), name)).or_insert(Sums {
            depth,
            count: 0,
            total: 0,
            first: slice.ts().nanos(),
            last: 0,
        });
        if depth < s.depth {
            (s.depth, s.count, s.total, s.first) = (depth, 0, 0, slice.ts().nanos());
        }
        if depth == s.depth {
            s.count += 1;
            s.total += dur.get();
            s.last = s.last.max(slice.end().nanos());
        }
    }
    let mut list: Vec<(&(u32, StrId), &Sums)> = sums
        .iter()
        .filter(|((thread, name), s)| {
            let extent = extents[*thread as usize];
            let text = timeline.trace.text(*name);
            let lower = text.to_lowercase();
            s.count >= 3
                && !is_wrapper(text)
                && !is_wait(text)
                && !lower.contains("layer")
                && !lower.starts_with("nn.module")
                && !lower.starts_with("<built-in")
                && span(s.total) >= 0.5 * span(s.last - s.first)
                && span(s.last - s.first) >= LEAST_REACH * span(extent.1 - extent.0)
        })
        .collect();
    list.sort_by_key(|((thread, name), s)| (s.depth, -s.total, *thread, *name));
    let ((_, name), _) = list.first()?;
    let ids: FxHashSet<StrId> = [*name].into_iter().collect();
    Some(Found {
        method: Method::CallTree,
        engine: None,
        anchor: timeline.trace.text(*name).to_owned(),
        steps: Steps::Calls(calls(timeline, &ids)?),
    })
}

/// The operators that occur equally often and in the same order each time, on the thread where the
/// first of them is earliest: others work on its behalf.
fn by_sequence(timeline: &Timeline<'_>) -> Option<Found> {
    let mut busy = vec![0_usize; timeline.threads];
    for slice in timeline.trace.slices() {
        if timeline.kind(slice) == Kind::Launch {
            busy[timeline.thread(slice) as usize] += 1;
        }
    }
    let most = *busy.iter().max().filter(|&&n| n > 0)?;
    let mut calls: Vec<Vec<TopCall<StrId>>> = vec![Vec::new(); timeline.threads];
    for slice in timeline.trace.slices() {
        let thread = timeline.thread(slice) as usize;
        if busy[thread] * 20 < most || !timeline.kind(slice).is_code() {
            continue;
        }
        let inner = slice
            .ancestors()
            .any(|a| matches!(timeline.kind(a), Kind::Op));
        if let (Some(name), false) = (slice.name_id(), inner) {
            let range = slice.range();
            calls[thread].push(TopCall {
                name,
                ts: range.start.nanos(),
                end: range.end.nanos(),
                process: timeline.process(slice),
            });
        }
    }
    let each = calls.iter().enumerate();
    let found = each.filter_map(|(thread, list)| Some((row(thread), repeats(list, 3)?)));
    let (thread, first) = found.min_by_key(|f| f.1.starts.first().copied())?;
    Some(Found {
        method: Method::Sequence,
        engine: None,
        anchor: timeline.trace.text(first.opening).to_owned(),
        steps: Steps::Times {
            process: first.process,
            starts: first.starts,
            end: first.end,
            thread: Some(thread),
            is_host: true,
        },
    })
}

/// A call that is in no operator, or a range that is in no other.
#[derive(Clone)]
struct TopCall<N> {
    name: N,
    ts: i64,
    end: i64,
    process: u32,
}

/// What repeats in a list.
struct Repeats<N> {
    /// The call that opens it.
    opening: N,
    starts: Vec<i64>,
    /// End of the list.
    end: i64,
    process: u32,
}

/// Calls that occur equally often and in the same order each time, at least so many kinds of them.
fn repeats<N: Copy + Eq + std::hash::Hash>(
    list: &[TopCall<N>],
    least_kinds: usize,
) -> Option<Repeats<N>> {
    let mut order: Vec<N> = Vec::new();
    let mut places: FxHashMap<N, Vec<usize>> = FxHashMap::default();
    for (i, call) in list.iter().enumerate() {
        let of = places.entry(call.name).or_default();
        if of.is_empty() {
            order.push(call.name);
        }
        of.push(i);
    }
    // How often most of the kinds of calls recur.
    let mut kinds: std::collections::BTreeMap<usize, usize> = std::collections::BTreeMap::new();
    for name in &order {
        *kinds.entry(places[name].len()).or_default() += 1;
    }
    let mut counts: Vec<(usize, usize)> = kinds
        .into_iter()
        .filter(|&(n, kinds)| n >= 2 && kinds >= least_kinds)
        .collect();
    counts.sort_by_key(|&(n, kinds)| (std::cmp::Reverse(kinds), n));
    for (n, _) in counts {
        let names: Vec<N> = order
            .iter()
            .copied()
            .filter(|name| places[name].len() == n)
            .collect();
        let mark = *names.first()?;
        let at = &places[&mark];
        let in_order = names.iter().filter(|name| {
            let each = places[*name].iter().enumerate();
            each.into_iter()
                .all(|(i, p)| at[i] <= *p && at.get(i + 1).is_none_or(|next| p < next))
        });
        if real(in_order.count()) < 0.8 * real(names.len()) {
            continue;
        }
        let back = shared_head(list, at);
        let opening = list.get(at[0] - back)?;
        let starts: Vec<i64> = at.iter().map(|&i| list[i - back].ts).collect();
        let end = list.iter().map(|c| c.end).max()?;
        return Some(Repeats {
            opening: opening.name,
            starts,
            end,
            process: opening.process,
        });
    }
    None
}

/// How many calls before each of these places are the same everywhere. A recording that begins with
/// a step begins with what steps begin with, though that may occur elsewhere, too.
fn shared_head<N: Eq>(list: &[TopCall<N>], at: &[usize]) -> usize {
    let mut back = 0;
    loop {
        let next = back + 1;
        let Some(first) = at[0].checked_sub(next) else {
            return back;
        };
        let same = at[1..]
            .iter()
            .filter(|&&i| list[i - next].name == list[first].name)
            .count();
        // Not into the step before.
        let free = at.windows(2).all(|w| w[1] - next > w[0]);
        if !free || real(same) < 0.8 * real(at.len() - 1) {
            return back;
        }
        back = next;
    }
}

/// Bursts of work on one device, divided by pauses that stand out. Collectives are work: without them
/// there would be a pause in every layer.
fn by_device(timeline: &Timeline<'_>) -> Option<Found> {
    let mut counts: FxHashMap<(u32, i64), usize> = FxHashMap::default();
    for work in &timeline.work {
        *counts.entry((work.process, work.device)).or_default() += 1;
    }
    let mut places: Vec<((u32, i64), usize)> = counts.into_iter().collect();
    places.sort_by_key(|&(place, n)| (std::cmp::Reverse(n), place));
    let (place, _) = *places.first()?;
    let list: Vec<(i64, i64, StrId)> = timeline
        .work
        .iter()
        .filter(|w| (w.process, w.device) == place)
        .map(|w| (w.ts, w.end, w.name))
        .collect();
    let bursts = crate::period::bursts(&list)?;
    let end = list.iter().map(|w| w.1).max()?;
    let launches = launches_of(timeline, place, &bursts);
    let is_host = launches.is_some();
    let starts = launches.unwrap_or(bursts);
    Some(Found {
        method: Method::Device,
        engine: None,
        anchor: "device".to_owned(),
        steps: Steps::Times {
            process: place.0,
            starts,
            end,
            thread: None,
            is_host,
        },
    })
}

/// When the host launched the first work of each burst; none where that is not recorded of each but the first, or not in order.
///
/// A host that runs ahead launches a burst long before it begins, and what it launches belongs to the step of its launch.
fn launches_of(timeline: &Timeline<'_>, place: (u32, i64), bursts: &[i64]) -> Option<Vec<i64>> {
    let mut work = timeline
        .work
        .iter()
        .filter(|w| (w.process, w.device) == place);
    let launches = bursts.iter().enumerate().map(|(i, &at)| {
        let first = work.find(|w| w.ts == at)?;
        // What was launched before the recording begins with its work.
        match first.launch {
            None if i == 0 => Some(at),
            launch => Some(launch?.1),
        }
    });
    let launches: Vec<i64> = launches.collect::<Option<_>>()?;
    launches.is_sorted_by(|a, b| a < b).then_some(launches)
}

/// All of the trace as one step: from the first operator or call to the end.
fn whole(timeline: &Timeline<'_>) -> Option<Found> {
    let mut start = i64::MAX;
    let (mut end, mut process) = (i64::MIN, 0);
    for slice in timeline.trace.slices() {
        let kind = timeline.kind(slice);
        if matches!(kind, Kind::Op | Kind::Launch | Kind::Api) || kind.is_device() {
            if slice.ts().nanos() < start {
                process = timeline.process(slice);
            }
            start = start.min(slice.ts().nanos());
            end = end.max(slice.end().nanos());
        }
    }
    (start < end).then(|| Found {
        method: Method::Whole,
        engine: None,
        anchor: String::new(),
        steps: Steps::Times {
            process,
            starts: vec![start],
            end,
            thread: None,
            is_host: false,
        },
    })
}
