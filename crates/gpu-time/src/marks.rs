//! Finds the step marks that an engine records.

use trace_model::kernel::{Activity, NamePattern, TraceIndex};
use trace_model::step_name::{STEP_PATTERNS, step_phase};
use trace_model::{ProcessId, ThreadId, TimeRange, Timestamp};

use crate::split::Step;

/// A mark: its name and its time.
struct Mark {
    name: String,
    begin_ns: i64,
    end_ns: i64,
}

impl From<Mark> for Step {
    fn from(mark: Mark) -> Self {
        let [begin, end] = [mark.begin_ns, mark.end_ns].map(Timestamp::from_nanos);
        Self::new(mark.name, TimeRange::new(begin, end))
    }
}

/// Finds the step marks of a trace: the outermost annotations of one thread whose names match
/// `pattern` (a glob, alternatives separated by `|`). Without a pattern, the marks are those that
/// known engines record ([`STEP_PATTERNS`]).
///
/// Without a pattern, marks that name a phase within one that names none (a step of the profiler around the engine's own) give
/// it their name, or divide it where they are several; of those within each other the innermost counts.
///
/// If several threads have marks, the one with the most counts; of equal ones the first. A slice
/// that is not an annotation counts only with a pattern. Cost: one pass over the slices, and the
/// patterns once for each name.
pub fn step_marks(index: &TraceIndex<'_>, pattern: Option<&str>) -> Vec<Step> {
    most(
        by_thread(index, pattern)
            .into_iter()
            .map(|(_, marks)| marks),
    )
}

/// Finds the step marks of each process that has any, as [`step_marks`] does for all: a file may hold several engines, or all
/// ranks of one. Processes are in the order of their first marks.
pub fn step_marks_by_process(index: &TraceIndex<'_>) -> Vec<(Option<ProcessId>, Vec<Step>)> {
    let trace = index.trace();
    let mut by_process: Vec<(Option<ProcessId>, Vec<Vec<Outer>>)> = Vec::new();
    for (thread, marks) in by_thread(index, None) {
        let process = thread.and_then(|thread| trace.thread(thread).process);
        match by_process.iter_mut().find(|known| known.0 == process) {
            Some(known) => known.1.push(marks),
            None => by_process.push((process, vec![marks])),
        }
    }
    let each = by_process.into_iter();
    each.map(|(process, threads)| (process, most(threads.into_iter())))
        .collect()
}

/// Returns the steps of the thread with the most marks, of equal ones the first.
fn most(threads: impl Iterator<Item = Vec<Outer>>) -> Vec<Step> {
    let found = threads.reduce(|best, next| match next.len() > best.len() {
        true => next,
        false => best,
    });
    let found = found.unwrap_or_default();
    let found = found.into_iter().flat_map(Outer::into_marks);
    found.map(Step::from).collect()
}

fn by_thread(index: &TraceIndex<'_>, pattern: Option<&str>) -> Vec<(Option<ThreadId>, Vec<Outer>)> {
    let trace = index.trace();
    let patterns: Vec<NamePattern> = match pattern {
        Some(pattern) => pattern.split('|').map(NamePattern::glob).collect(),
        None => STEP_PATTERNS
            .iter()
            .map(|pattern| NamePattern::glob(pattern))
            .collect(),
    };
    let mut known: Vec<Option<bool>> = vec![None; trace.strings().len()];
    let mut by_thread: Vec<(Option<ThreadId>, Vec<Outer>)> = Vec::new();
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
        let mark = Mark {
            name: trace.text(name).to_owned(),
            begin_ns,
            end_ns,
        };
        match marks.last_mut() {
            // A mark that lies within another one is not a step.
            Some(last) if begin_ns < last.mark.end_ns && end_ns <= last.mark.end_ns => {
                if pattern.is_none() {
                    last.add(mark);
                }
            }
            before => {
                // Times are rounded: one that ends behind the begin of the next ends with it.
                if let Some(last) = before {
                    last.mark.end_ns = last.mark.end_ns.min(begin_ns);
                }
                marks.push(Outer {
                    mark,
                    phases: Vec::new(),
                });
            }
        }
    }
    by_thread
}

/// An outermost mark.
struct Outer {
    mark: Mark,
    /// The innermost marks within it that name a phase, if it names none itself.
    phases: Vec<Mark>,
}

impl Outer {
    /// Takes in a mark that lies within this one, and begins not before those that were taken in.
    fn add(&mut self, inner: Mark) {
        if step_phase(&self.mark.name).is_some() || step_phase(&inner.name).is_none() {
            return;
        }
        match self.phases.last_mut() {
            Some(last) if inner.end_ns <= last.end_ns => *last = inner,
            Some(last) if inner.begin_ns < last.end_ns => {}
            _ => self.phases.push(inner),
        }
    }

    fn into_marks(self) -> Vec<Mark> {
        let Self {
            mut mark,
            mut phases,
        } = self;
        match phases.as_mut_slice() {
            [] => vec![mark],
            [one] => {
                mark.name = std::mem::take(&mut one.name);
                vec![mark]
            }
            // They divide the mark: what lies before the first belongs to it, what lies between two
            // to the earlier one.
            [first, ..] => {
                first.begin_ns = mark.begin_ns;
                let ends: Vec<i64> = phases.iter().skip(1).map(|next| next.begin_ns).collect();
                let ends = ends.into_iter().chain([mark.end_ns]);
                for (phase, end_ns) in phases.iter_mut().zip(ends) {
                    phase.end_ns = end_ns;
                }
                phases
            }
        }
    }
}
