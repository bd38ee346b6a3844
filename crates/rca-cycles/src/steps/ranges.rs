//! Steps by the ranges that a program marked, whatever it calls them.

use std::collections::BTreeMap;

use rustc_hash::{FxHashMap, FxHashSet};
use trace_model::{Slice, SliceId, StrId};

use super::{Found, LEAST_REACH, Method, Span, Steps, TopCall, repeats};
use crate::num::{real, row, span};
use crate::phase::{stated, without_numbers};
use crate::timeline::{Kind, Timeline};

/// Ranges nest a few levels deep; steps are at one of the outer ones.
const LEVELS: usize = 8;
/// What recurs less often is no loop.
const LEAST: usize = 3;

/// A marked range.
#[derive(Clone, Copy)]
struct Range {
    slice: SliceId,
    name: StrId,
    kind: u32,
    thread: u32,
    ts: i64,
    end: i64,
}

/// The outermost ranges that recur and fill at least half of the time from the first to the last.
/// Ranges whose names say prefill or decode are steps side by side; others that take turns are the
/// parts of one.
pub(super) fn by_ranges(timeline: &Timeline<'_>) -> Option<Found> {
    let mut kinds = Kinds::default();
    let marked = marked(timeline, &mut kinds);
    for level in 0..LEVELS {
        let of = |p: usize| marked[p].get(level).map_or(&[][..], Vec::as_slice);
        let Some(reference) = (0..marked.len()).max_by_key(|&p| (of(p).len(), usize::MAX - p))
        else {
            continue;
        };
        let Some(first) = cut(timeline, of(reference), &kinds) else {
            continue;
        };
        let processes = (0..marked.len()).map(|p| match p == reference {
            true => first.spans.clone(),
            false => cut(timeline, of(p), &kinds).map_or_else(Vec::new, |c| c.spans),
        });
        return Some(Found {
            method: Method::Ranges,
            engine: None,
            anchor: match first.called.1 {
                Some(name) => timeline.trace.text(name).to_owned(),
                None => kinds.names[first.called.0 as usize].clone(),
            },
            steps: Steps::Spans(processes.collect()),
        });
    }
    None
}

/// Names that differ in their numbers only are of one kind.
#[derive(Default)]
struct Kinds {
    of_name: FxHashMap<StrId, u32>,
    of_text: FxHashMap<String, u32>,
    /// The kind, and whether it says what the step is for.
    names: Vec<String>,
    states_phase: Vec<bool>,
}

impl Kinds {
    fn of(&mut self, timeline: &Timeline<'_>, name: StrId) -> u32 {
        if let Some(&kind) = self.of_name.get(&name) {
            return kind;
        }
        let text = without_numbers(timeline.trace.text(name));
        let next = row(self.names.len());
        let kind = *self.of_text.entry(text.clone()).or_insert(next);
        if kind == next {
            self.states_phase.push(stated(&text).is_some());
            self.names.push(text);
        }
        self.of_name.insert(name, kind);
        kind
    }
}

/// The ranges of each process by how many others they are in, in order of time.
fn marked(timeline: &Timeline<'_>, kinds: &mut Kinds) -> Vec<Vec<Vec<Range>>> {
    let mut marked = vec![Vec::new(); timeline.members.len()];
    let is_range = |s: &Slice<'_>| timeline.kind(*s) == Kind::Annotation;
    for slice in timeline.trace.slices().filter(is_range) {
        let range = slice.range();
        let (ts, end) = (range.start.nanos(), range.end.nanos());
        let Some(name) = slice.name_id().filter(|_| end > ts) else {
            continue;
        };
        let level = slice.ancestors().filter(is_range).take(LEVELS).count();
        let levels: &mut Vec<Vec<Range>> = &mut marked[timeline.process(slice) as usize];
        if level >= LEVELS {
            continue;
        }
        if levels.len() <= level {
            levels.resize_with(level + 1, Vec::new);
        }
        levels[level].push(Range {
            slice: slice.id(),
            name,
            kind: kinds.of(timeline, name),
            thread: timeline.thread(slice),
            ts,
            end,
        });
    }
    marked
}

/// The steps of a level, and what they are called.
struct Cut {
    called: Called,
    spans: Vec<Span>,
}

/// A kind, or one name of it where each of its names recurs, as those of layers do.
type Called = (u32, Option<StrId>);

fn cut(timeline: &Timeline<'_>, level: &[Range], kinds: &Kinds) -> Option<Cut> {
    let list = in_turn(level);
    let called = called(&list);
    let mut sums: BTreeMap<Called, (usize, i64)> = BTreeMap::new();
    for (range, called) in list.iter().zip(&called) {
        let sum = sums.entry(*called).or_default();
        sum.0 += 1;
        sum.1 += range.end - range.ts;
    }
    let states = |kind: u32| kinds.states_phase[kind as usize];
    let of_phases: Vec<Range> = list.iter().copied().filter(|r| states(r.kind)).collect();
    let cut = if of_phases.len() >= LEAST {
        let (most, _) = sums
            .iter()
            .filter(|s| states(s.0.0))
            .max_by_key(|s| s.1.0)?;
        Cut {
            called: *most,
            spans: of_phases.iter().map(alone).collect(),
        }
    } else {
        let recurring = sums.iter().filter(|s| s.1.0 >= LEAST);
        let (longest, (count, _)) = recurring.max_by_key(|s| s.1.1)?;
        parts(&list, &called, *count).unwrap_or_else(|| {
            let own = list.iter().zip(&called).filter(|r| r.1 == longest);
            Cut {
                called: *longest,
                spans: own.map(|r| alone(r.0)).collect(),
            }
        })
    };
    fills(timeline, &cut.spans).then_some(cut)
}

/// What each range is called.
fn called(list: &[Range]) -> Vec<Called> {
    let mut names: BTreeMap<u32, (usize, FxHashSet<StrId>)> = BTreeMap::new();
    for range in list {
        let of = names.entry(range.kind).or_default();
        of.0 += 1;
        of.1.insert(range.name);
    }
    let recur = |kind: u32| {
        let of = names.get(&kind);
        of.is_some_and(|(count, names)| names.len() > 1 && *count >= LEAST * names.len())
    };
    let each = list.iter();
    each.map(|r| (r.kind, recur(r.kind).then_some(r.name)))
        .collect()
}

fn alone(range: &Range) -> Span {
    Span {
        start: range.ts,
        end: range.end,
        first: range.slice,
    }
}

/// The ranges in order, of all threads if these take turns, else of the thread with most.
fn in_turn(level: &[Range]) -> Vec<Range> {
    let turns = level
        .windows(2)
        .all(|w| w[0].thread == w[1].thread || w[0].end <= w[1].ts);
    if turns {
        return level.to_vec();
    }
    let mut counts: BTreeMap<u32, usize> = BTreeMap::new();
    for range in level {
        *counts.entry(range.thread).or_default() += 1;
    }
    let most = counts.iter().max_by_key(|(t, n)| (**n, u32::MAX - **t));
    let busiest = most.map(|(thread, _)| *thread);
    let own = level.iter().filter(|r| Some(r.thread) == busiest);
    own.copied().collect()
}

/// Ranges that take turns, put together: each step from the first part to the last. There are as many
/// as calls of what takes most of the time, give or take one that the recording cuts off.
fn parts(list: &[Range], called: &[Called], count: usize) -> Option<Cut> {
    let calls: Vec<TopCall<Called>> = list
        .iter()
        .zip(called)
        .map(|(r, &name)| TopCall {
            name,
            ts: r.ts,
            end: r.end,
            process: 0,
        })
        .collect();
    let found = repeats(&calls, 2)?;
    if found.starts.len().abs_diff(count) > 1 {
        return None;
    }
    let spans = found.starts.iter().enumerate().filter_map(|(i, &start)| {
        let next = found.starts.get(i + 1).copied().unwrap_or(i64::MAX);
        let from = list.partition_point(|r| r.ts < start);
        let to = list.partition_point(|r| r.ts < next);
        let of = list.get(from..to)?;
        Some(Span {
            start,
            end: of.iter().map(|r| r.end).max()?.min(next),
            first: of.first()?.slice,
        })
    });
    Some(Cut {
        called: found.opening,
        spans: spans.collect(),
    })
}

/// Do the steps fill half of the time from the first to the last, and is that more than a moment?
fn fills(timeline: &Timeline<'_>, spans: &[Span]) -> bool {
    let (Some(first), Some(last)) = (spans.first(), spans.last()) else {
        return false;
    };
    let reach = last.end - first.start;
    let busy: i64 = spans.iter().map(|s| s.end - s.start).sum();
    let whole = timeline.trace.span();
    let enough = LEAST_REACH * span(whole.duration().get());
    real(spans.len()) >= real(LEAST) && span(busy) >= 0.5 * span(reach) && span(reach) >= enough
}
