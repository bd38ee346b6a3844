//! Selections of a change, computed once before a replay.

use std::collections::BTreeMap;

use trace_model::kernel::NamePattern;

use crate::change::Selector;
use crate::class::{Class, EdgeKind};
use crate::graph::Graph;
use crate::replay::Window;
use crate::steps::Step;

/// Kernels that fuse with the one ahead of them.
pub(crate) struct Fusion {
    pub(crate) factor: f64,
    /// `true` if an operation fuses with the one ahead, by part and operation.
    pub(crate) joins: Vec<Vec<bool>>,
    /// `true` for each selected operation, by part and operation.
    pub(crate) selected: Vec<Vec<bool>>,
}

/// Returns by part and name whether the selector matches.
pub(crate) fn selected_names(graph: &Graph, selector: &Selector) -> Vec<Vec<bool>> {
    let matches: Box<dyn Fn(&str) -> bool> = match selector {
        Selector::Name(pattern) => Box::new(|name| pattern.matches(name)),
        Selector::Exact(wanted) => Box::new(move |name| name == wanted),
        _ => return Vec::new(),
    };
    let parts = graph.parts.iter();
    parts
        .map(|part| part.names.iter().map(|name| matches(name)).collect())
        .collect()
}

pub(crate) fn fusion(graph: &Graph, name: &NamePattern, factor: f64) -> Fusion {
    let mut out = Fusion {
        factor,
        joins: Vec::new(),
        selected: Vec::new(),
    };
    for part in &graph.parts {
        let names: Vec<bool> = part.names.iter().map(|text| name.matches(text)).collect();
        let ops = &part.ops;
        let selected = |op: usize| {
            matches!(ops.class[op], Class::Kernel(_))
                && names.get(ops.name[op] as usize) == Some(&true)
        };
        let mut joins = vec![false; ops.len()];
        for list in &ops.by_stream {
            for pair in list.windows(2) {
                let (ahead, op) = (pair[0] as usize, pair[1] as usize);
                joins[op] = selected(ahead) && selected(op);
            }
        }
        // A selected kernel without such a neighbour stays as it is.
        let mut all = joins.clone();
        for list in &ops.by_stream {
            for pair in list.windows(2) {
                let (ahead, op) = (pair[0] as usize, pair[1] as usize);
                all[ahead] |= joins[op];
            }
        }
        out.joins.push(joins);
        out.selected.push(all);
    }
    out
}

/// Returns by call whether its thread submits work after it.
pub(crate) fn submits_later(part: &crate::part::Part) -> Vec<bool> {
    let calls = &part.host.calls;
    let mut out = vec![false; calls.len()];
    for thread in &part.host.threads {
        let mut later = false;
        for call in thread.calls.clone().rev() {
            out[call] = later;
            later |= calls.submits(call);
        }
    }
    out
}

/// Returns for each step of a rank, as its recorded end and a factor, what makes it as fast as the median rank in that step:
/// the ratio of the times that they spend neither waiting for other ranks nor in transfer.
///
/// A rank that is late in some steps only loses what these take too long; one factor for all steps would shorten steps that
/// were in time as well, and leave a part of the late ones.
#[expect(clippy::cast_precision_loss, reason = "a ratio of times")]
pub(crate) fn to_median(graph: &Graph, part: usize, window: Window) -> Vec<(i64, f64)> {
    let own: Vec<BTreeMap<u32, i64>> = (0..graph.parts.len())
        .map(|at| own_times(graph, at, window))
        .collect();
    let steps = graph.steps(part).iter().map(|step| {
        let mut all: Vec<i64> = own
            .iter()
            .filter_map(|own| own.get(&step.number).copied())
            .collect();
        all.sort_unstable();
        let median = all.get((all.len().max(1) - 1) / 2);
        let of_rank = own.get(part).and_then(|own| own.get(&step.number));
        let factor = match (median, of_rank) {
            (Some(median), Some(of_rank)) if *of_rank > 0 => *median as f64 / *of_rank as f64,
            _ => 1.0,
        };
        (step.end_ns, factor)
    });
    steps.collect()
}

/// Returns by number of the step the time in it that a rank spends neither waiting for other ranks nor in transfer.
fn own_times(graph: &Graph, at: usize, window: Window) -> BTreeMap<u32, i64> {
    let steps = graph.steps(at);
    let mut own: Vec<i64> = steps.iter().map(|step| step.duration_ns()).collect();
    let ops = &graph.parts[at].ops;
    for op in 0..ops.len() {
        let end = graph.start_node(at, op) + 1;
        if !graph.edges(end).any(|edge| edge.kind == EdgeKind::Transfer) {
            continue;
        }
        // A collective may reach from one step into the next.
        let first = steps.partition_point(|step| step.end_ns <= ops.start[op]);
        for (step, own) in steps.iter().zip(&mut own).skip(first) {
            if step.begin_ns >= ops.end[op] {
                break;
            }
            *own -= ops.end[op].min(step.end_ns) - ops.start[op].max(step.begin_ns);
        }
    }
    let inside = |step: &Step| step.begin_ns >= window.begin_ns && step.end_ns <= window.end_ns;
    let each = steps.iter().zip(own).filter(|(step, _)| inside(step));
    each.map(|(step, own)| (step.number, own.max(0))).collect()
}
