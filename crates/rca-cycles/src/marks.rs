//! The steps of a recording: what the engine marks, else the cycles of its loop.

use critical_path::{Mark, marks};
use trace_model::kernel::TraceIndex;

use crate::{Method, Options, spans};

/// Returns the steps of a recording and how they were found: `annotation` for the marks of the engine or of a `pattern`, `cycle` for
/// the cycles of its loop, `whole` for none, in which case the whole recording is one step.
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
    // Bursts of the device have no host interval with which a step could begin.
    let is_of_host = !matches!(method, Method::Device | Method::Whole);
    let cycles = cycles.iter().filter(|cycle| cycle.partial.is_none());
    let cycles: Vec<Mark> = cycles
        .map(|cycle| Mark {
            name: cycle.phase.name().to_owned(),
            begin_ns: cycle.host_ns.0,
            end_ns: cycle.host_ns.1,
        })
        .collect();
    match is_of_host && !cycles.is_empty() {
        true => (cycles, "cycle"),
        false => (Vec::new(), "whole"),
    }
}
