//! Selections of a change, computed once before a replay.

use trace_model::kernel::NamePattern;

use crate::change::Selector;
use crate::class::{Class, EdgeKind};
use crate::graph::Graph;
use crate::replay::Window;

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

/// Returns the factor that makes a rank as fast as the median one: the ratio of the times that they
/// spend neither waiting for other ranks nor in transfer.
#[expect(clippy::cast_precision_loss, reason = "a ratio of times")]
pub(crate) fn to_median(graph: &Graph, part: usize, window: Window) -> f64 {
    let whole = window.end_ns.saturating_sub(window.begin_ns);
    let mut shared = vec![0_i64; graph.parts.len()];
    for (at, part) in graph.parts.iter().enumerate() {
        for op in 0..part.ops.len() {
            let end = graph.start_node(at, op) + 1;
            let is_joined = graph.edges(end).any(|edge| edge.kind == EdgeKind::Transfer);
            if is_joined
                && part.ops.start[op] >= window.begin_ns
                && part.ops.end[op] <= window.end_ns
            {
                shared[at] += part.ops.end[op] - part.ops.start[op];
            }
        }
    }
    let mut own: Vec<i64> = shared
        .iter()
        .map(|shared| (whole - shared).max(0))
        .collect();
    let of_rank = own.get(part).copied().unwrap_or(0);
    own.sort_unstable();
    let median = own.get((own.len().max(1) - 1) / 2).copied().unwrap_or(0);
    match of_rank {
        0 => 1.0,
        of_rank => median as f64 / of_rank as f64,
    }
}
