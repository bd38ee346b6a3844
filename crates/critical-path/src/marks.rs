//! Finds the step marks that an engine records.

use trace_model::ThreadId;
use trace_model::kernel::{Activity, NamePattern, TraceIndex};

use crate::steps::Mark;

/// Finds the step marks of a trace: the outermost annotations of one thread whose names match
/// `pattern` (a glob, alternatives separated by `|`). Without a pattern, the marks are those that
/// known engines record ([`gpu_time::STEP_PATTERNS`]).
///
/// If several threads have marks, the one with the most counts; of equal ones the first. A slice
/// that is not an annotation counts only with a pattern. Cost: one pass over the slices, and the
/// patterns once for each name.
pub fn marks(index: &TraceIndex<'_>, pattern: Option<&str>) -> Vec<Mark> {
    let trace = index.trace();
    let patterns: Vec<NamePattern> = match pattern {
        Some(pattern) => pattern.split('|').map(NamePattern::glob).collect(),
        None => gpu_time::STEP_PATTERNS
            .iter()
            .map(|pattern| NamePattern::glob(pattern))
            .collect(),
    };
    let mut known: Vec<Option<bool>> = vec![None; trace.strings().len()];
    let mut by_thread: Vec<(Option<ThreadId>, Vec<Mark>)> = Vec::new();
    for slice in trace.slices() {
        let activity = index.activity(slice);
        let fits = activity == Activity::UserAnnotation
            || (pattern.is_some()
                && !activity.is_device_work()
                && !matches!(activity, Activity::GpuAnnotation | Activity::GpuSync));
        let Some(name) = slice.name_id().filter(|_| fits) else {
            continue;
        };
        let Some(known) = known.get_mut(name.index()) else {
            continue;
        };
        let matches = *known.get_or_insert_with(|| {
            let name = trace.text(name);
            patterns.iter().any(|pattern| pattern.matches(name))
        });
        if !matches {
            continue;
        }
        let thread = slice.track().thread;
        let at = by_thread.iter().position(|known| known.0 == thread);
        let at = at.unwrap_or_else(|| {
            by_thread.push((thread, Vec::new()));
            by_thread.len() - 1
        });
        let (begin_ns, end_ns) = (slice.ts().nanos(), slice.end().nanos());
        let marks = &mut by_thread[at].1;
        // A mark that lies within another one or overlaps it is not a step.
        if marks.last().is_none_or(|last| begin_ns >= last.end_ns) {
            marks.push(Mark {
                name: trace.text(name).to_owned(),
                begin_ns,
                end_ns,
            });
        }
    }
    let most = by_thread.iter().map(|(_, marks)| marks.len()).max();
    let found = by_thread
        .into_iter()
        .find(|(_, marks)| Some(marks.len()) == most);
    found.map(|(_, marks)| marks).unwrap_or_default()
}
