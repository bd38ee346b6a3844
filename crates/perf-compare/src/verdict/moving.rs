//! Imbalance between ranks that moves: in every step, or in every layer of one, another rank comes last, so that none is late
//! by itself. Experts that get uneven numbers of tokens do this.

use std::collections::BTreeMap;

use super::observe::roles_by_place;
use super::signal::Signal;
use crate::document::Role;
use crate::side::{Capture, Class, Function};
use crate::stats::{deviation, mean, median};

/// A cycle is uneven if ranks wait longer in it than in the baseline's typical one, by this many of its deviations,
const DEVIATIONS: f64 = 5.0;
/// and by this part of that and of the typical cycle.
const PART: f64 = 0.25;
const PART_OF_CYCLE: f64 = 0.01;

/// One side, function by function, with the roles of its processes.
struct Ranks<'c> {
    captures: &'c [&'c Capture],
    places: Vec<Option<usize>>,
}

/// The same function on several ranks of one capture.
type ByRole<'c> = Vec<(usize, &'c Function)>;

impl<'c> Ranks<'c> {
    fn new(captures: &'c [&'c Capture], roles: &[Role], side: usize) -> Self {
        Self {
            captures,
            places: roles_by_place(captures, roles, side),
        }
    }

    /// Functions of a class that several ranks have, by capture and name.
    fn shared(&self, class: Class) -> Vec<(&'c Capture, BTreeMap<&'c str, ByRole<'c>>)> {
        let each = self.captures.iter().map(|capture| {
            let mut by_name: BTreeMap<&str, ByRole<'c>> = BTreeMap::new();
            for function in capture.functions.iter().filter(|f| f.class == class) {
                if let Some(role) = self.places.get(function.process).copied().flatten() {
                    let own = by_name.entry(&function.name).or_default();
                    own.push((role, function));
                }
            }
            by_name.retain(|_, own| own.len() > 1);
            (*capture, by_name)
        });
        each.collect()
    }
}

/// How long ranks wait for each other in a cycle, and who is last.
#[derive(Clone, Copy)]
struct Waited {
    /// What a rank that waits waits on average, us.
    us: f64,
    /// The rank that waits least.
    last: usize,
}

/// By cycle, where all ranks were observed.
fn waits(ranks: &Ranks<'_>) -> Vec<Waited> {
    let mut all = Vec::new();
    for (capture, by_name) in ranks.shared(Class::Collective) {
        for at in 0..capture.cycles.len() {
            let mut own: BTreeMap<usize, f64> = BTreeMap::new();
            for each in by_name.values() {
                let shortest = each.iter().map(|(_, f)| f.dur_us[at]);
                let shortest = shortest.fold(f64::NAN, f64::min);
                for (role, f) in each {
                    *own.entry(*role).or_default() += f.dur_us[at] - shortest;
                }
            }
            let sum: f64 = own.values().sum();
            let last = own.iter().min_by(|a, b| a.1.total_cmp(b.1));
            if let Some((last, _)) = last.filter(|_| own.len() > 1 && sum.is_finite()) {
                all.push(Waited {
                    us: sum / (own.len() - 1) as f64,
                    last: *last,
                });
            }
        }
    }
    all
}

/// In a cycle: by how much the slowest rank of a kernel exceeds the mean of the others.
fn unevenness(own: &[(usize, &Function)], at: usize) -> f64 {
    let durs: Vec<f64> = own.iter().map(|(_, f)| f.dur_us[at]).collect();
    let most = durs.iter().copied().fold(f64::NAN, f64::max);
    let others = (durs.iter().sum::<f64>() - most) / (durs.len() - 1) as f64;
    most - others
}

/// Time of a function's calls in a cycle beyond that of as many of the shortest.
fn beyond_shortest(f: &Function, at: usize) -> f64 {
    let single = f.single.as_ref();
    let shortest = single.map_or(f64::NAN, |single| single.shortest_us[at]);
    f.dur_us[at] - f.calls[at] * shortest
}

/// In a cycle: longest minus shortest call of a function, mean over the ranks.
fn mean_range(own: &[(usize, &Function)], at: usize) -> f64 {
    let each = own.iter().map(|(_, f)| range_of_calls(f, at));
    mean(&each.filter(|us| us.is_finite()).collect::<Vec<f64>>())
}

/// Longest minus shortest call of a function in a cycle.
fn range_of_calls(f: &Function, at: usize) -> f64 {
    let single = f.single.as_ref();
    single.map_or(f64::NAN, |single| {
        single.longest_us[at] - single.shortest_us[at]
    })
}

/// Returns the kernel whose mean grew most between the sides; `of` computes the value of a cycle.
fn most_grown<'c>(
    ranks: &[Ranks<'c>; 2],
    of: impl Fn(&[(usize, &'c Function)], usize) -> f64,
) -> Option<(&'c str, [Vec<f64>; 2])> {
    let mut found: BTreeMap<&str, [Vec<f64>; 2]> = BTreeMap::new();
    for (side, ranks) in ranks.iter().enumerate() {
        for (capture, by_name) in ranks.shared(Class::Kernel) {
            for (name, own) in by_name {
                let each = (0..capture.cycles.len()).map(|at| of(&own, at));
                let known = each.filter(|us| us.is_finite());
                found.entry(name).or_default()[side].extend(known);
            }
        }
    }
    let grown = |values: &[Vec<f64>; 2]| mean(&values[1]) - mean(&values[0]);
    let both = found
        .into_iter()
        .filter(|(_, values)| values.iter().all(|side| !side.is_empty()));
    both.filter(|(_, values)| grown(values) > 0.0)
        .max_by(|a, b| grown(&a.1).total_cmp(&grown(&b.1)))
}

/// All quantities of imbalance that moves.
pub(super) fn signals(sides: [&[&Capture]; 2], roles: &[Role], out: &mut Vec<Signal>) {
    if roles.len() < 2 {
        return;
    }
    let ranks = [0, 1].map(|side| Ranks::new(sides[side], roles, side));
    between_steps(&ranks, sides, roles, out);
    within_steps(&ranks, out);
}

/// The rank that comes last changes from step to step.
fn between_steps(
    ranks: &[Ranks<'_>; 2],
    sides: [&[&Capture]; 2],
    roles: &[Role],
    out: &mut Vec<Signal>,
) {
    let [before, after] = ranks.each_ref().map(waits);
    let times = [&before, &after].map(|side| side.iter().map(|w| w.us).collect::<Vec<f64>>());
    if times.iter().any(Vec::is_empty) {
        return;
    }
    let cycles = sides[0].iter().flat_map(|capture| &capture.cycles);
    let cycle = median(&cycles.map(|c| c.dur_us).collect::<Vec<f64>>());
    let usual = median(&times[0]);
    let least = (DEVIATIONS * deviation(&times[0]))
        .max(PART * usual)
        .max(PART_OF_CYCLE * cycle);
    let uneven: Vec<&Waited> = after.iter().filter(|w| w.us > usual + least).collect();
    let mut last: BTreeMap<usize, usize> = BTreeMap::new();
    for waited in &uneven {
        *last.entry(waited.last).or_default() += 1;
    }
    let most = last.values().copied().max().unwrap_or(0);
    if uneven.is_empty() {
        return;
    }
    let mut order: Vec<(usize, usize)> = last.into_iter().collect();
    order.sort_by_key(|(role, n)| (std::cmp::Reverse(*n), *role));
    let named = order.iter().filter_map(|(role, n)| {
        let device = roles.get(*role)?.device(1);
        Some(format!("{device} in {n}"))
    });
    let named: Vec<String> = named.collect();
    let place = format!("{} of {} cycles", named.join(", "), after.len());
    out.extend(Signal::series(
        "rank_moving_wait_us",
        &place,
        "us per cycle and rank that waits",
        times,
    ));
    // Of two ranks the one that is last more often has half of them at least.
    let others = (uneven.len() - most) as f64 / uneven.len() as f64;
    let evenly = 1.0 - 1.0 / roles.len() as f64;
    out.extend(Signal::point(
        "rank_moving_pct",
        "all ranks",
        "% of what evenly divided lateness is",
        [0.0, (others / evenly * 100.0).min(100.0)],
    ));
    if let Some((name, values)) = most_grown(ranks, unevenness) {
        out.extend(Signal::series(
            "rank_moving_kernel_us",
            name,
            "us per cycle beyond the other ranks",
            values,
        ));
    }
}

/// The rank that comes last changes within a step: on every rank some collectives take longer than others, and some calls of a
/// kernel.
fn within_steps(ranks: &[Ranks<'_>; 2], out: &mut Vec<Signal>) {
    let waited = ranks.each_ref().map(|ranks| {
        let mut all = Vec::new();
        for (capture, by_name) in ranks.shared(Class::Collective) {
            for at in 0..capture.cycles.len() {
                let mut own: BTreeMap<usize, f64> = BTreeMap::new();
                for (role, f) in by_name.values().flatten() {
                    *own.entry(*role).or_default() += beyond_shortest(f, at);
                }
                // A rank that is always late waits in no call.
                let least = own.values().copied().reduce(|a, b| match a.is_nan() {
                    true => a,
                    false if b.is_nan() => b,
                    false => a.min(b),
                });
                all.extend(least.filter(|us| us.is_finite()));
            }
        }
        all
    });
    let shortest = ranks.each_ref().map(|ranks| {
        let mut all = Vec::new();
        for (capture, by_name) in ranks.shared(Class::Collective) {
            for at in 0..capture.cycles.len() {
                let own = by_name.values().flatten().filter_map(|(_, f)| {
                    let us = f.single.as_ref()?.shortest_us[at];
                    (!us.is_nan()).then_some(us)
                });
                all.extend(own.reduce(f64::min));
            }
        }
        all
    });
    out.extend(Signal::series(
        "rank_moving_within_us",
        "the rank that waits least",
        "us per cycle beyond its shortest calls",
        waited,
    ));
    out.extend(Signal::series(
        "collective_shortest_us",
        "all ranks",
        "us",
        shortest,
    ));
    if let Some((name, values)) = most_grown(ranks, mean_range) {
        out.extend(Signal::series(
            "rank_moving_calls_us",
            name,
            "us from the shortest to the longest call, mean of ranks",
            values,
        ));
    }
}
