//! Kernels relative to the others of their device.
//!
//! Where all kernels of a device are slow together for some cycles (its clock, its temperature, what else uses it), the times of
//! each resemble their neighbours so much that few cycles count as independent, and one kernel that became slower cannot be told
//! from that. Relative to the other kernels of the same cycle it can: what they have in common is divided out.

use std::collections::BTreeMap;

use super::panel::{Column, Panel};
use crate::side::Class;
use crate::stats::{Compared, Effort, compare_columns, mean, median};

/// Kernels of a device from which on the others say what is common.
const SEVERAL: usize = 5;
/// Part of the variance about each side's mean that may be left: with more, little was common.
const LEFT: f64 = 0.25;
/// Part of the relative change that the change itself must reach, in the same direction: where all others changed, a kernel that
/// did not has changed relative to them.
const OWN: f64 = 0.5;

/// Columns by role and device, as places.
type Groups<'p> = BTreeMap<(Option<usize>, &'p str), Vec<usize>>;

/// Variance about the mean of each side.
fn variance(sides: &[Vec<f64>; 2]) -> f64 {
    let own = |side: &Vec<f64>| {
        let middle = mean(side);
        side.iter().map(|x| (x - middle).powi(2)).sum::<f64>()
    };
    sides.iter().map(own).sum()
}

/// What all kernels of a group take in a cycle relative to their own means, by cycle: the median over kernels.
fn common(columns: &[&Column]) -> [Vec<f64>; 2] {
    let means: Vec<f64> = columns.iter().map(|c| mean(&c.values.concat())).collect();
    [0, 1].map(|side| {
        let n = columns.first().map_or(0, |c| c.values[side].len());
        let at = |i: usize| {
            let each = columns.iter().zip(&means);
            median(
                &each
                    .map(|(c, mean)| c.values[side][i] / mean)
                    .collect::<Vec<f64>>(),
            )
        };
        (0..n).map(at).collect()
    })
}

/// Replaces what was found about a kernel by what is found about it relative to the others of its device, where neighbouring cycles
/// resemble each other and the others vary with it. `found` is in the order of the columns.
pub(super) fn refine(panel: &Panel, found: &mut [Compared], effort: Effort) {
    if panel.by_run {
        return;
    }
    let is_kernel = |c: &Column| {
        let always = |side: &Vec<f64>| side.iter().all(|x| *x > 0.0);
        c.key.kind == "function" && c.key.class == Class::Kernel && c.values.iter().all(always)
    };
    let mut groups: Groups<'_> = BTreeMap::new();
    for (at, column) in panel.columns.iter().enumerate() {
        if is_kernel(column) {
            let group = groups
                .entry((column.key.role, &column.key.device))
                .or_default();
            group.push(at);
        }
    }
    let mut relative: Vec<(usize, [Vec<f64>; 2])> = Vec::new();
    for places in groups.into_values() {
        let lengths = |at: &usize| panel.columns[*at].values.each_ref().map(Vec::len);
        let first = places.first().map(lengths);
        let members: Vec<usize> = places
            .into_iter()
            .filter(|at| Some(lengths(at)) == first)
            .collect();
        let is_slow = |at: &usize| found.get(*at).is_some_and(|f| f.dependence.established);
        if members.len() < SEVERAL || !members.iter().any(is_slow) {
            continue;
        }
        let columns: Vec<&Column> = members.iter().map(|at| &panel.columns[*at]).collect();
        let common = common(&columns);
        for (at, column) in members.iter().zip(columns).filter(|(at, _)| is_slow(at)) {
            let values = [0, 1].map(|side| {
                let each = column.values[side].iter().zip(&common[side]);
                each.map(|(x, all)| x / all).collect::<Vec<f64>>()
            });
            if variance(&values) < LEFT * variance(&column.values) {
                relative.push((*at, values));
            }
        }
    }
    let columns: Vec<[Vec<f64>; 2]> = relative.iter().map(|r| r.1.clone()).collect();
    let compared = compare_columns(&columns, effort);
    for ((at, _), other) in relative.iter().zip(compared) {
        let Some(own) = found.get_mut(*at) else {
            continue;
        };
        let same = own.delta * other.delta > 0.0 && own.delta.abs() >= OWN * other.delta.abs();
        if same && other.p < own.p {
            *own = Compared {
                relative: true,
                ..other
            };
        }
    }
}
