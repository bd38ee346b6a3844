//! The step of each cycle as `critical-path` defines it: its time, its budget and its verdict.

use std::collections::BTreeMap;

use critical_path::{
    Graph, Mark, Part, PartOptions, ReplayError, StepRow, Steps, bound_by, step_rows,
};
use rustc_hash::FxHashMap;
use trace_model::Trace;
use trace_model::kernel::{TraceIndex, Vocabulary};

use crate::analysis::Analysis;
use crate::marks::mark;
use crate::num::span;
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
    joined: Option<Joined>,
}

/// What is known of the steps of a recording only together with those of other ranks.
#[derive(Debug, Default)]
struct Joined {
    rank: u32,
    /// Time of the paths of its steps by rank.
    path_ns: BTreeMap<u32, i64>,
    left_out: usize,
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
            joined: None,
        }
    }

    /// Returns the step of a cycle; `None` if nothing of it was recorded that a step could end with, or if other ranks were not
    /// recorded then ([`join`](Self::join)).
    pub fn of_cycle(&self, cycle: usize) -> Option<&StepRow> {
        let at = (*self.of_cycle.get(cycle)?)?;
        self.steps.as_ref()?.steps.get(at)
    }

    /// Takes the recording out, with its steps, to be joined with those of other ranks; `None` if that was done before.
    pub fn take_part(&mut self) -> Option<Part> {
        self.part.take()
    }

    /// Replaces the steps by those that this recording, as `rank`, has in the graph of all ranks, and the error of the model by
    /// that of the graph: time that a rank waits is then what the rank that comes last does. `path_ns` is the time of the paths of
    /// its steps by rank.
    ///
    /// Begin and end remain in the clock of this recording, durations are those of the graph. Steps that the graph leaves out, as
    /// other ranks were not recorded then, are left out here.
    pub fn join(
        &mut self,
        rank: u32,
        (rows, replay): (Vec<StepRow>, ReplayError),
        path_ns: BTreeMap<u32, i64>,
    ) {
        let Some(steps) = self.steps.as_mut() else {
            return;
        };
        let own = std::mem::replace(&mut steps.steps, rows);
        steps.replay = replay;
        let place: FxHashMap<u32, usize> = steps
            .steps
            .iter()
            .enumerate()
            .map(|(at, row)| (row.step, at))
            .collect();
        let moved = own.iter().map(|before| {
            let at = *place.get(&before.step)?;
            let row = &mut steps.steps[at];
            (row.host_begin_ns, row.host_end_ns) = (before.host_begin_ns, before.host_end_ns);
            row.device_begin_ns = before.device_begin_ns;
            row.device_end_ns = before.device_end_ns;
            (row.begin_ns, row.end_ns) = (before.begin_ns, before.end_ns);
            Some(at)
        });
        let moved: Vec<Option<usize>> = moved.collect();
        for at in &mut self.of_cycle {
            *at = at.and_then(|before| moved.get(before).copied().flatten());
        }
        self.joined = Some(Joined {
            rank,
            path_ns,
            left_out: moved.iter().filter(|at| at.is_none()).count(),
        });
    }

    /// Returns `true` if the steps are those of the graph of all ranks.
    pub fn is_joined(&self) -> bool {
        self.joined.is_some()
    }

    /// Returns the number of steps left out because other ranks were not recorded then.
    pub fn left_out(&self) -> usize {
        self.joined.as_ref().map_or(0, |joined| joined.left_out)
    }

    /// Returns the rank on which most of the path of these steps lies and its share of them, 0 to 1; `None` if that is this
    /// recording's own or if it is not joined with others.
    pub(crate) fn elsewhere(&self, steps: &[&StepRow]) -> Option<(u32, f64)> {
        let joined = self.joined.as_ref()?;
        let others = joined
            .path_ns
            .iter()
            .filter(|(rank, _)| **rank != joined.rank);
        let (rank, _) = others.max_by_key(|(rank, ns)| (**ns, std::cmp::Reverse(**rank)))?;
        let total: i64 = steps.iter().map(|step| step.duration_ns).sum();
        let away: i64 = steps.iter().map(|step| step.other_ranks_ns).sum();
        let is_most = away.saturating_mul(2) > total;
        is_most.then(|| (*rank, span(away) / span(total.max(1))))
    }

    /// Returns how well typical latencies alone reproduce the steps.
    pub fn error(&self) -> Option<&ReplayError> {
        Some(&self.steps.as_ref()?.replay)
    }

    /// Returns `true` if all that was recorded are captures of graphs, whose launches ran on no GPU.
    pub(crate) fn is_capture(&self) -> bool {
        self.steps.as_ref().is_some_and(|steps| steps.is_capture)
    }

    /// Returns what bounds steps, as text.
    pub(crate) fn bound_by(&self, steps: &[&StepRow]) -> Option<String> {
        (!steps.is_empty()).then_some(())?;
        Some(bound_by(steps, self.error()?))
    }
}

fn marks(analysis: &Analysis) -> Vec<Mark> {
    let cycles = analysis.cycles.iter();
    let mut marks: Vec<Mark> = cycles.map(|c| mark(c.phase, c.host_ns)).collect();
    marks.sort_by_key(|mark| mark.begin_ns);
    marks
}
