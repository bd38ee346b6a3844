//! Steps by the marks of the engine, as `critical-path` finds them.

use std::collections::BTreeMap;

use critical_path::{Mark, marks_by_process};
use rustc_hash::FxHashMap;
use trace_model::kernel::{NamePattern, TraceIndex, Vocabulary};
use trace_model::step_name::STEP_PATTERNS;
use trace_model::{ProcessId, SliceId, StrId};

use super::{Found, Method, Span, Steps, engine_of};
use crate::engine::Engine;
use crate::phase::family;
use crate::timeline::{Kind, Timeline};

/// Finds the steps that the engine marks, and the most of one process; `None` if there are fewer than two.
pub(super) fn by_marks(
    timeline: &Timeline<'_>,
    engines: &[Engine],
    names: &[StrId],
) -> Option<(Found, usize)> {
    let trace = timeline.trace;
    let patterns: Vec<NamePattern> = STEP_PATTERNS.iter().map(|p| NamePattern::glob(p)).collect();
    let is_mark = |name: &StrId| patterns.iter().any(|p| p.matches(trace.text(*name)));
    if !names.iter().any(is_mark) {
        return None;
    }
    let index = TraceIndex::new(trace, Vocabulary::of(trace));
    let found = marks_by_process(&index);
    let count = found.iter().map(|(_, marks)| marks.len()).max()?;
    if count < 2 {
        return None;
    }
    let slices = slices_of(timeline, &found);
    let mut spans: Vec<Vec<Span>> = vec![Vec::new(); timeline.members.len()];
    let mut called: BTreeMap<&str, usize> = BTreeMap::new();
    for ((_, marks), slices) in found.iter().zip(slices) {
        for (mark, slice) in marks.iter().zip(slices) {
            let Some(first) = slice else { continue };
            *called.entry(&mark.name).or_default() += 1;
            let process = timeline.process(trace.slice(first));
            spans.get_mut(process as usize)?.push(Span {
                start: mark.begin_ns,
                end: mark.end_ns,
                first,
            });
        }
    }
    let found = Found {
        method: Method::Ranges,
        engine: engine_of(timeline, engines, names),
        anchor: common_name(&called)?,
        steps: Steps::Spans(spans),
    };
    Some((found, count))
}

/// Returns the slice of each mark: the one of its name that lies in it.
fn slices_of(
    timeline: &Timeline<'_>,
    found: &[(Option<ProcessId>, Vec<Mark>)],
) -> Vec<Vec<Option<SliceId>>> {
    let trace = timeline.trace;
    let places: FxHashMap<Option<ProcessId>, usize> = found
        .iter()
        .enumerate()
        .map(|(at, (process, _))| (*process, at))
        .collect();
    let mut slices: Vec<Vec<Option<SliceId>>> = found
        .iter()
        .map(|(_, marks)| vec![None; marks.len()])
        .collect();
    for slice in trace.slices() {
        if timeline.kind(slice) != Kind::Annotation {
            continue;
        }
        let thread = slice.track().thread;
        let process = thread.and_then(|thread| trace.thread(thread).process);
        let Some(&place) = places.get(&process) else {
            continue;
        };
        let (at, marks) = (slice.ts().nanos(), &found[place].1);
        let Some(mark) = marks
            .partition_point(|mark| mark.begin_ns <= at)
            .checked_sub(1)
        else {
            continue;
        };
        if at <= marks[mark].end_ns && slice.name() == Some(marks[mark].name.as_str()) {
            slices[place][mark].get_or_insert(slice.id());
        }
    }
    slices
}

/// Returns the name of the steps if they share one, else the family that most of them are of.
fn common_name(called: &BTreeMap<&str, usize>) -> Option<String> {
    if let (1, Some((name, _))) = (called.len(), called.first_key_value()) {
        return Some((*name).to_owned());
    }
    let mut families: BTreeMap<String, usize> = BTreeMap::new();
    for (name, count) in called {
        *families.entry(family(name)).or_default() += count;
    }
    let most = families
        .iter()
        .max_by_key(|(name, count)| (**count, std::cmp::Reverse(*name)));
    most.map(|(name, _)| name.clone())
}
