//! Finds the step marks that an engine records.

use trace_model::kernel::TraceIndex;

use crate::steps::Mark;

/// Finds the step marks of a trace as [`gpu_time::step_marks`] does.
pub fn marks(index: &TraceIndex<'_>, pattern: Option<&str>) -> Vec<Mark> {
    let found = gpu_time::step_marks(index, pattern).into_iter();
    found
        .map(|step| Mark {
            name: step.name,
            begin_ns: step.range.start.nanos(),
            end_ns: step.range.end.nanos(),
        })
        .collect()
}
