//! Which process answers to which: by what they do and their rank, never by their process numbers.

use std::collections::{BTreeMap, BTreeSet};

use crate::document::Role;
use crate::side::{Capture, Class, Process};

/// Cost of another device, and of another host.
const OTHER_DEVICE: f64 = 0.5;
const OTHER_HOST: f64 = 0.5;
/// Cost of another rank.
const OTHER_RANK: f64 = 0.5;

/// Names of the functions of both captures by their rank in byte order.
fn ranks(captures: [&Capture; 2]) -> BTreeMap<&str, u32> {
    let functions = captures.into_iter().flat_map(|c| &c.functions);
    let names: BTreeSet<&str> = functions.map(|f| f.name.as_str()).collect();
    names.into_iter().zip(0..).collect()
}

/// Time by function, as a share, functions ascending; collectives wait for others and say nothing about the process.
type Profile = Vec<(u32, f64)>;

/// The profiles of all processes, in one pass.
fn profiles(capture: &Capture, ranks: &BTreeMap<&str, u32>) -> Vec<Profile> {
    let mut sums = vec![BTreeMap::<u32, f64>::new(); capture.processes.len()];
    for function in &capture.functions {
        let rank = ranks.get(function.name.as_str());
        let own = sums.get_mut(function.process).zip(rank);
        if let Some((own, rank)) = own.filter(|_| function.class != Class::Collective) {
            let total: f64 = function.dur_us.iter().filter(|dur| !dur.is_nan()).sum();
            *own.entry(*rank).or_default() += total;
        }
    }
    let shares = |sums: BTreeMap<u32, f64>| {
        let all: f64 = sums.values().sum();
        let share = |sum: f64| if all > 0.0 { sum / all } else { sum };
        sums.into_iter().map(|(at, sum)| (at, share(sum))).collect()
    };
    sums.into_iter().map(shares).collect()
}

/// Half the sum of differences of the shares: 0 for equal profiles, 1 for disjoint ones.
fn distance(one: &Profile, two: &Profile) -> f64 {
    let mut rest = two.iter().peekable();
    let mut both = 0.0;
    for (name, share) in one {
        while rest.next_if(|(other, _)| other < name).is_some() {}
        if let Some((_, other)) = rest.next_if(|(other, _)| other == name) {
            both += share.min(*other);
        }
    }
    1.0 - both
}

fn cost((p, one): (&Process, &Profile), (q, two): (&Process, &Profile)) -> f64 {
    let mut cost = distance(one, two);
    if p.devices != q.devices {
        cost += OTHER_DEVICE;
    }
    if p.rank.is_some() && q.rank.is_some() && p.rank != q.rank {
        cost += OTHER_RANK;
    }
    if !p.host.is_empty() && !q.host.is_empty() && p.host != q.host {
        cost += OTHER_HOST;
    }
    cost
}

/// Matches the processes of two captures, one to one, at least cost; `map` forces pairs of process numbers.
pub(super) fn assign(a: &Capture, b: &Capture, map: &[(i64, i64)]) -> Vec<Role> {
    let (n, m) = (a.processes.len(), b.processes.len());
    let ranks = ranks([a, b]);
    let (ours, theirs) = (profiles(a, &ranks), profiles(b, &ranks));
    let rows = a.processes.iter().zip(&ours);
    let mut costs: Vec<Vec<f64>> = rows
        .map(|one| {
            let columns = b.processes.iter().zip(&theirs);
            columns.map(|two| cost(one, two)).collect()
        })
        .collect();
    let real = costs.clone();
    for &(one, two) in map {
        let i = a.processes.iter().position(|p| p.pid == one);
        let j = b.processes.iter().position(|p| p.pid == two);
        if let (Some(i), Some(j)) = (i, j) {
            costs[i][j] = -1000.0;
        }
    }
    let matching = Matching::least_cost(&costs, m);
    let pairs = matching.pairs();
    let total = |pairs: &[(usize, usize)]| pairs.iter().map(|&(i, j)| costs[i][j]).sum::<f64>();
    let best = total(&pairs);
    pairs
        .iter()
        .enumerate()
        .map(|(role, &(i, j))| {
            let margin = (n.max(m) > 1).then(|| total(&matching.without(i, j).pairs()) - best);
            Role {
                role,
                pids: [a.processes[i].pid, b.processes[j].pid],
                ranks: [&a.processes[i], &b.processes[j]]
                    .map(|process| process.rank.as_ref().map(ToString::to_string)),
                places: [i, j],
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

/// Optimal assignment by shortest augmenting paths (Kuhn 1955, in the form with potentials).
#[derive(Clone)]
struct Matching<'c> {
    costs: &'c [Vec<f64>],
    columns: usize,
    /// Counted from 1, as columns and rows are in all of these; 0 is where a path begins.
    row_potential: Vec<f64>,
    column_potential: Vec<f64>,
    /// The row of each column, 0 for none.
    owner: Vec<usize>,
}

/// What a pair costs that is not to be.
const FORBIDDEN: f64 = 1e6;

impl<'c> Matching<'c> {
    /// O(n³).
    fn least_cost(costs: &'c [Vec<f64>], columns: usize) -> Self {
        let n = costs.len().max(columns);
        let mut matching = Self {
            costs,
            columns,
            row_potential: vec![0.0; n + 1],
            column_potential: vec![0.0; n + 1],
            owner: vec![0; n + 1],
        };
        for row in 1..=n {
            matching.augment(row, None);
        }
        matching
    }

    /// The best matching in which this pair of this one is parted, from 0. One path leads there: O(n²).
    fn without(&self, i: usize, j: usize) -> Self {
        let mut other = self.clone();
        other.owner[j + 1] = 0;
        other.augment(i + 1, Some(j + 1));
        other
    }

    fn cost(&self, row: usize, column: usize) -> f64 {
        let known = self.costs.get(row - 1).and_then(|r| r.get(column - 1));
        // Surplus processes stay alone at a price above any match.
        known.copied().unwrap_or(100.0)
    }

    /// Finds a column for a row that has none, but not `forbidden` at once.
    fn augment(&mut self, row: usize, forbidden: Option<usize>) {
        let n = self.owner.len() - 1;
        self.owner[0] = row;
        let mut column = 0;
        let mut least = vec![f64::INFINITY; n + 1];
        let mut before = vec![0_usize; n + 1];
        let mut used = vec![false; n + 1];
        loop {
            used[column] = true;
            let current = self.owner[column];
            let (mut step, mut next) = (f64::INFINITY, 0);
            for j in 1..=n {
                if used[j] {
                    continue;
                }
                let barred = current == row && forbidden == Some(j);
                let cost = self.cost(current, j) + if barred { FORBIDDEN } else { 0.0 };
                let reduced = cost - self.row_potential[current] - self.column_potential[j];
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
                    self.row_potential[self.owner[j]] += step;
                    self.column_potential[j] -= step;
                } else {
                    least[j] -= step;
                }
            }
            column = next;
            if self.owner[column] == 0 {
                break;
            }
        }
        while column != 0 {
            let previous = before[column];
            self.owner[column] = self.owner[previous];
            column = previous;
        }
    }

    /// Pairs from 0, ascending by the first number.
    fn pairs(&self) -> Vec<(usize, usize)> {
        let owned = self.owner.iter().enumerate().skip(1);
        let mut pairs: Vec<(usize, usize)> = owned
            .map(|(column, row)| (row - 1, column - 1))
            .filter(|&(i, j)| i < self.costs.len() && j < self.columns)
            .collect();
        pairs.sort_unstable();
        pairs
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn least_cost(costs: &[Vec<f64>], columns: usize) -> Vec<(usize, usize)> {
        Matching::least_cost(costs, columns).pairs()
    }

    /// The least sum over all ways to give rows from `row` on columns of their own, as many as there are.
    fn by_trying(costs: &[Vec<f64>], columns: usize, row: usize, taken: u32) -> f64 {
        let surplus = costs.len().saturating_sub(columns);
        let alone = row - taken.count_ones() as usize;
        let Some(own) = costs.get(row) else {
            return 0.0;
        };
        let free = (0..columns).filter(|j| taken & (1 << j) == 0);
        free.map(|j| own[j] + by_trying(costs, columns, row + 1, taken | 1 << j))
            .chain((alone < surplus).then(|| by_trying(costs, columns, row + 1, taken)))
            .fold(f64::INFINITY, f64::min)
    }

    #[test]
    fn as_trying_all() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            u32::try_from((state >> 33) % below).unwrap()
        };
        let total = |costs: &[Vec<f64>], pairs: &[(usize, usize)]| {
            pairs.iter().map(|&(i, j)| costs[i][j]).sum::<f64>()
        };
        for _ in 0..300 {
            let (rows, columns) = (next(5) as usize + 1, next(5) as usize + 1);
            // Eighths add up exactly.
            let mut row = || (0..columns).map(|_| f64::from(next(20)) / 8.0).collect();
            let costs: Vec<Vec<f64>> = (0..rows).map(|_| row()).collect();
            let matching = Matching::least_cost(&costs, columns);
            let pairs = matching.pairs();
            assert_eq!(pairs.len(), rows.min(columns));
            let best = by_trying(&costs, columns, 0, 0);
            assert!((total(&costs, &pairs) - best).abs() < 1e-9, "{costs:?}");
            for &(i, j) in pairs.iter().filter(|_| rows.max(columns) > 1) {
                let mut barred = costs.clone();
                barred[i][j] += FORBIDDEN;
                let other = matching.without(i, j).pairs();
                let best = by_trying(&barred, columns, 0, 0);
                assert!(!other.contains(&(i, j)), "{costs:?}");
                assert!((total(&costs, &other) - best).abs() < 1e-9, "{costs:?}");
            }
        }
    }

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
