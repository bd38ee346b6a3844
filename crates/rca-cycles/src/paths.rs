//! The step of each cycle as `critical-path` defines it: its time, its budget and its verdict.

use critical_path::{
    Graph, Mark, Part, PartOptions, ReplayError, StepRow, Steps, bound_by, step_rows,
};
use rustc_hash::FxHashMap;
use trace_model::Trace;
use trace_model::kernel::{TraceIndex, Vocabulary};

use crate::analysis::Analysis;
use crate::steps::Method;

/// The steps of the cycles of a recording.
///
/// A cycle is cut on the host, so that the code of a cycle can be compared with that of another. Its *step* begins where the
/// work of the step before ended and ends with its own last work: steps add up to the window however far the host runs ahead.
#[derive(Debug, Default)]
pub struct StepPaths {
    steps: Option<Steps>,
    /// By cycle: place of its step.
    of_cycle: Vec<Option<usize>>,
    part: Option<Part>,
}

impl StepPaths {
    /// Determines the steps of the cycles of `analysis`.
    ///
    /// Cost: reads the trace again; a pass over the path of each step.
    pub fn new(trace: &Trace, analysis: &Analysis) -> Self {
        let marks = match analysis.method {
            Method::Whole => Vec::new(),
            _ => marks(analysis),
        };
        let index = TraceIndex::new(trace, Vocabulary::of(trace));
        let part = Part::new(
            &index,
            analysis.rank.unwrap_or(0),
            &marks,
            PartOptions::default(),
        );
        let graph = Graph::new(vec![part], None);
        let steps = step_rows(&graph).ok();
        let part = graph.into_parts().pop();
        let rows = steps.as_ref().map_or(&[][..], |found| &found.steps);
        let by_begin: FxHashMap<i64, usize> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| (row.host_begin_ns, at))
            .collect();
        let of_cycle = analysis.cycles.iter().enumerate();
        let of_cycle = of_cycle.map(|(at, cycle)| match marks.is_empty() {
            true => (at == 0 && !rows.is_empty()).then_some(0),
            false => by_begin.get(&cycle.host_ns.0).copied(),
        });
        Self {
            of_cycle: of_cycle.collect(),
            steps,
            part,
        }
    }

    /// Returns the step of a cycle; `None` if nothing of it was recorded that a step could end with.
    pub fn of_cycle(&self, cycle: usize) -> Option<&StepRow> {
        let at = (*self.of_cycle.get(cycle)?)?;
        self.steps.as_ref()?.steps.get(at)
    }

    /// Takes the recording out, with its steps, to be joined with those of other ranks; `None` if that was done before.
    pub fn take_part(&mut self) -> Option<Part> {
        self.part.take()
    }

    /// Returns how well typical latencies alone reproduce the steps.
    pub fn error(&self) -> Option<&ReplayError> {
        Some(&self.steps.as_ref()?.replay)
    }

    /// Returns what bounds steps, as text.
    pub(crate) fn bound_by(&self, steps: &[&StepRow]) -> Option<String> {
        (!steps.is_empty()).then_some(())?;
        Some(bound_by(steps, self.error()?))
    }
}

fn marks(analysis: &Analysis) -> Vec<Mark> {
    let cycles = analysis.cycles.iter();
    let mut marks: Vec<Mark> = cycles
        .map(|cycle| Mark {
            name: cycle.phase.name().to_owned(),
            begin_ns: cycle.host_ns.0,
            end_ns: cycle.host_ns.1,
        })
        .collect();
    marks.sort_by_key(|mark| mark.begin_ns);
    marks
}
