//! Compares the stacks of two traces.

use std::collections::BTreeMap;

use crate::analyse::Answer;
use crate::merge::frames;

/// One stack in two traces.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// The frames from the outermost inwards.
    pub frames: Vec<String>,
    /// Number of distinct launch calls in the first and the second trace; 0 if the stack does not
    /// occur.
    pub launches: [usize; 2],
    /// Number of kernels.
    pub kernels: [usize; 2],
    /// Kernel time; 0 if not measured.
    pub gpu_ns: [i64; 2],
}

/// Joins the stacks of two answers by their frames. Order: largest change of kernel time first,
/// then of launches, then by frames.
pub fn compare(first: &Answer, second: &Answer) -> Vec<Difference> {
    let mut rows: BTreeMap<Vec<String>, Difference> = BTreeMap::new();
    for (side, answer) in [first, second].into_iter().enumerate() {
        for stack in &answer.groups {
            let frames = frames(answer, stack.group.stack);
            let row = rows.entry(frames.clone()).or_insert_with(|| Difference {
                frames,
                launches: [0; 2],
                kernels: [0; 2],
                gpu_ns: [0; 2],
            });
            row.launches[side] += stack.group.count();
            row.kernels[side] += stack.kernels();
            let ns = stack.measures.as_ref().map_or(0, |m| m.gpu.total_ns);
            row.gpu_ns[side] = row.gpu_ns[side].saturating_add(ns);
        }
    }
    let mut rows: Vec<Difference> = rows.into_values().collect();
    rows.sort_by_key(|r| {
        (
            std::cmp::Reverse(r.gpu_ns[0].abs_diff(r.gpu_ns[1])),
            std::cmp::Reverse(r.launches[0].abs_diff(r.launches[1])),
        )
    });
    rows
}
