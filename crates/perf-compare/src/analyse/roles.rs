//! Which process answers to which: by what they do, never by their numbers.

use std::collections::BTreeMap;

use crate::document::Role;
use crate::side::{Capture, Class};

/// Cost of another device, and of another host.
const OTHER_DEVICE: f64 = 0.5;
const OTHER_HOST: f64 = 0.5;

/// Time by function, as a share; collectives wait for others and say nothing about the process.
fn profile(capture: &Capture, process: usize) -> BTreeMap<&str, f64> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for function in &capture.functions {
        if function.process == process && function.class != Class::Collective {
            let total: f64 = function.dur_us.iter().filter(|dur| !dur.is_nan()).sum();
            *sums.entry(&function.name).or_default() += total;
        }
    }
    let all: f64 = sums.values().sum();
    if all > 0.0 {
        for sum in sums.values_mut() {
            *sum /= all;
        }
    }
    sums
}

/// Half the sum of differences of the shares: 0 for equal profiles, 1 for disjoint ones.
fn distance(one: &BTreeMap<&str, f64>, two: &BTreeMap<&str, f64>) -> f64 {
    let both: f64 = one
        .iter()
        .map(|(name, share)| share.min(*two.get(name).unwrap_or(&0.0)))
        .sum();
    1.0 - both
}

fn cost(a: &Capture, b: &Capture, i: usize, j: usize) -> f64 {
    let (p, q) = (&a.processes[i], &b.processes[j]);
    let mut cost = distance(&profile(a, i), &profile(b, j));
    if p.devices != q.devices {
        cost += OTHER_DEVICE;
    }
    if !p.host.is_empty() && !q.host.is_empty() && p.host != q.host {
        cost += OTHER_HOST;
    }
    cost
}

/// Matches the processes of two captures, one to one, at least cost; `map` forces pairs of process numbers.
pub(super) fn assign(a: &Capture, b: &Capture, map: &[(i64, i64)]) -> Vec<Role> {
    let (n, m) = (a.processes.len(), b.processes.len());
    let mut costs: Vec<Vec<f64>> = (0..n)
        .map(|i| (0..m).map(|j| cost(a, b, i, j)).collect())
        .collect();
    let real = costs.clone();
    for &(one, two) in map {
        let i = a.processes.iter().position(|p| p.pid == one);
        let j = b.processes.iter().position(|p| p.pid == two);
        if let (Some(i), Some(j)) = (i, j) {
            costs[i][j] = -1000.0;
        }
    }
    let pairs = least_cost(&costs, m);
    let total = |pairs: &[(usize, usize)]| pairs.iter().map(|&(i, j)| costs[i][j]).sum::<f64>();
    let best = total(&pairs);
    pairs
        .iter()
        .enumerate()
        .map(|(role, &(i, j))| {
            let mut without = costs.clone();
            without[i][j] += 1e6;
            let next = least_cost(&without, m);
            let margin = (n.max(m) > 1).then(|| total(&next) - best);
            Role {
                role,
                pids: [a.processes[i].pid, b.processes[j].pid],
                devices: [
                    a.processes[i].devices.clone(),
                    b.processes[j].devices.clone(),
                ],
                cost: real[i][j],
                margin: margin.filter(|margin| margin.abs() < 1e5),
            }
        })
        .collect()
}

/// Optimal assignment by shortest augmenting paths (Kuhn 1955, in the form with potentials); O(n³).
/// Pairs ascend by the first number.
fn least_cost(costs: &[Vec<f64>], columns: usize) -> Vec<(usize, usize)> {
    let n = costs.len().max(columns);
    let at = |i: usize, j: usize| {
        costs
            .get(i)
            .and_then(|row| row.get(j))
            .copied()
            // Surplus processes stay alone at a price above any match.
            .unwrap_or(100.0)
    };
    let mut row_potential = vec![0.0; n + 1];
    let mut column_potential = vec![0.0; n + 1];
    let mut owner = vec![0_usize; n + 1];
    for row in 1..=n {
        owner[0] = row;
        let mut column = 0;
        let mut least = vec![f64::INFINITY; n + 1];
        let mut before = vec![0_usize; n + 1];
        let mut used = vec![false; n + 1];
        while owner[column] != 0 {
            used[column] = true;
            let current = owner[column];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for j in 1..=n {
                if used[j] {
                    continue;
                }
                let reduced = at(current - 1, j - 1) - row_potential[current] - column_potential[j];
                if reduced < least[j] {
                    least[j] = reduced;
                    before[j] = column;
                }
                if least[j] < step {
                    step = least[j];
                    next = j;
                }
            }
            for j in 0..=n {
                if used[j] {
                    row_potential[owner[j]] += step;
                    column_potential[j] -= step;
                } else {
                    least[j] -= step;
                }
            }
            column = next;
        }
        while column != 0 {
            let previous = before[column];
            owner[column] = owner[previous];
            column = previous;
        }
    }
    let mut pairs: Vec<(usize, usize)> = (1..=n)
        .map(|j| (owner[j] - 1, j - 1))
        .filter(|&(i, j)| i < costs.len() && j < columns)
        .collect();
    pairs.sort_unstable();
    pairs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cheapest_assignment() {
        let costs = vec![
            vec![4.0, 1.0, 3.0],
            vec![2.0, 0.0, 5.0],
            vec![3.0, 2.0, 2.0],
        ];
        assert_eq!(least_cost(&costs, 3), [(0, 1), (1, 0), (2, 2)]);
        assert_eq!(least_cost(&[vec![1.0, 0.5]], 2), [(0, 1)]);
        assert_eq!(least_cost(&[vec![1.0], vec![0.5]], 1), [(1, 0)]);
        assert!(least_cost(&[], 0).is_empty());
    }
}
