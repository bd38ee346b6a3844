//! The steps of a recording: what the engine marks, else the cycles of its loop.

use critical_path::{Mark, marks};
use trace_model::kernel::TraceIndex;

use crate::{Method, Options, Phase, spans};

/// Returns the steps of a recording and how they were found: `annotation` for the marks of the engine or of a `pattern`, `cycle` for
/// the cycles of its loop, `gpu_burst` for bursts of GPU work that repeat where no host code does, `whole` for none, in which
/// case the whole recording is one step.
///
/// Cost: that of [`critical_path::marks`], and that of [`spans`] if there are no marks.
#[must_use]
pub fn step_marks(index: &TraceIndex<'_>, pattern: Option<&str>) -> (Vec<Mark>, &'static str) {
    let found = marks(index, pattern);
    match (found.is_empty(), pattern.is_some()) {
        (false, _) => return (found, "annotation"),
        (true, true) => return (found, "whole"),
        (true, false) => {}
    }
    let Ok((method, cycles)) = spans(index.trace(), &Options::default()) else {
        return (Vec::new(), "whole");
    };
    let cycles = cycles.iter().filter(|cycle| cycle.partial.is_none());
    let cycles: Vec<Mark> = cycles.map(|c| mark(c.phase, c.host_ns)).collect();
    match method {
        Method::Whole => (Vec::new(), "whole"),
        _ if cycles.is_empty() => (Vec::new(), "whole"),
        Method::Device => (cycles, "gpu_burst"),
        _ => (cycles, "cycle"),
    }
}

/// Returns a cycle as the mark of a step.
pub(crate) fn mark(phase: Phase, (begin_ns, end_ns): (i64, i64)) -> Mark {
    Mark {
        name: phase.name().to_owned(),
        begin_ns,
        end_ns,
    }
}
