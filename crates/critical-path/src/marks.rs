//! Finds the step marks that an engine records.

use trace_model::ProcessId;
use trace_model::kernel::TraceIndex;

use crate::steps::Mark;

/// Finds the step marks of a trace as [`gpu_time::step_marks`] does.
pub fn marks(index: &TraceIndex<'_>, pattern: Option<&str>) -> Vec<Mark> {
    let found = gpu_time::step_marks(index, pattern).into_iter();
    found.map(Mark::from).collect()
}

/// Finds the step marks of each process as [`gpu_time::step_marks_by_process`] does.
pub fn marks_by_process(index: &TraceIndex<'_>) -> Vec<(Option<ProcessId>, Vec<Mark>)> {
    let found = gpu_time::step_marks_by_process(index).into_iter();
    found
        .map(|(process, steps)| (process, steps.into_iter().map(Mark::from).collect()))
        .collect()
}

impl From<gpu_time::Step> for Mark {
    fn from(step: gpu_time::Step) -> Self {
        Self {
            name: step.name,
            begin_ns: step.range.start.nanos(),
            end_ns: step.range.end.nanos(),
        }
    }
}
