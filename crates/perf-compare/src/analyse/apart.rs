//! What a change of the steps' work can explain, set apart from the rest.
//!
//! Two captures of one server nearly always differ in the lengths of contexts, and often in the number of requests. That makes
//! some functions slower and leaves others alone: attention follows the context, everything else the tokens of a step. A function
//! whose change lies between none and that in proportion to its work is set apart; what is left is judged as if the work were the
//! same. Without knowing how far each function follows its work no more can be said, so that what is set apart is the most that
//! the work explains.

use std::collections::{BTreeMap, BTreeSet};

use trace_model::kernel::KernelClass;

use super::panel::Pairing;
use crate::document::{Finding, Quantity, Role, Workload};
use crate::side::{Capture, Class, Cycle, DeviceTime, Function};
use crate::stats::{mean, median};
use crate::verdict::roles_by_place;

/// Quantities that differ by less are the same.
const LEAST: f64 = 0.02;
/// A function may follow its work by this part more than in proportion: tiles and waves are whole.
const BEYOND: f64 = 0.08;
/// Part of what a cycle changed by that must be left for another cause to be named.
const LEFT: f64 = 0.2;
/// Part of a cycle that must be left.
const LEFT_OF_CYCLE: f64 = 0.005;

/// Smallest and largest factor that a change of work can explain in the time of a function.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Range(f64, f64);

impl Range {
    const NONE: Self = Self(1.0, 1.0);

    fn with(self, factor: f64) -> Self {
        Self(self.0.min(factor), self.1.max(factor))
    }

    fn holds(self, ratio: f64) -> bool {
        self != Self::NONE && (self.0 / (1.0 + BEYOND)..=self.1 * (1.0 + BEYOND)).contains(&ratio)
    }
}

/// A function of a role.
type Key = (Option<usize>, String, Class);

/// How the work of the steps of one type of cycle differs between the sides, and the functions that this explains.
pub(super) struct Apart {
    cycle_type: String,
    quantities: Vec<Quantity>,
    /// Typical time per cycle of each explained function on each side.
    functions: BTreeMap<Key, [f64; 2]>,
    /// The factor by which all kernels became slower or faster beyond their work, at least and at most, where one factor is
    /// needed for some of them and fits all.
    common: Option<Range>,
    /// The same of these kernels, of whose change the work explains what is beyond that factor.
    partly: BTreeMap<Key, [f64; 2]>,
    places: [Vec<Option<usize>>; 2],
}

/// Values of each quantity that the steps of a side state.
fn stated<'c>(captures: &[&'c Capture]) -> BTreeMap<&'c str, Vec<f64>> {
    let mut all: BTreeMap<&str, Vec<f64>> = BTreeMap::new();
    let cycles = captures.iter().flat_map(|c| &c.cycles);
    for (name, n) in cycles.filter_map(|c| c.work.as_ref()).flatten() {
        all.entry(name).or_default().push(*n);
    }
    all
}

/// What functions may change by: those whose work is tokens, and those that read contexts.
fn ranges(sides: [&BTreeMap<&str, Vec<f64>>; 2]) -> [Range; 2] {
    let (mut tokens, mut contexts) = (Range::NONE, Range::NONE);
    for (name, before) in sides[0] {
        let Some(after) = sides[1].get(name) else {
            continue;
        };
        for of in [median, mean] {
            let (a, b) = (of(before), of(after));
            let ratio = b / a;
            match (a > 0.0, b > 0.0) {
                (false, false) => continue,
                // Work of a kind that one side has not: of any size.
                (false, true) => {
                    (tokens, contexts) = (tokens.with(f64::INFINITY), contexts.with(f64::INFINITY));
                    continue;
                }
                (true, false) => {
                    (tokens, contexts) = (tokens.with(0.0), contexts.with(0.0));
                    continue;
                }
                _ if (ratio - 1.0).abs() < LEAST => continue,
                _ => {}
            }
            // Attention over a prompt grows with the square of its tokens.
            let square = if name.starts_with("prompt") { 2 } else { 1 };
            contexts = contexts.with(ratio).with(ratio.powi(square));
            if !name.contains("context") && *name != "cached tokens" {
                tokens = tokens.with(ratio);
            }
        }
    }
    [tokens, contexts]
}

/// A kernel's times, and what its work explains.
struct Grown {
    key: Key,
    times: [f64; 2],
    range: Range,
}

/// The factor by which all kernels changed beyond their work: each alone changed by its ratio at most, if it does not follow its
/// work, and by what exceeds the growth of its work at least. `None` unless one factor other than 1 is in the range of nearly all.
fn common(kernels: &[Grown]) -> Option<Range> {
    /// Least difference from 1, part of the time that must fit, kernels that are enough to speak of all, least part of one.
    const LEAST: f64 = 1.05;
    const FIT: f64 = 0.9;
    const SEVERAL: usize = 4;
    const SMALL: f64 = 0.002;
    let time = |g: &Grown| g.times[0].max(g.times[1]);
    let all: f64 = kernels.iter().map(time).sum();
    let counted: Vec<&Grown> = kernels.iter().filter(|g| time(g) >= SMALL * all).collect();
    if counted.len() < SEVERAL {
        return None;
    }
    let bounds = |g: &Grown| {
        let ratio = g.times[1] / g.times[0];
        [
            ratio / (g.range.1 * (1.0 + BEYOND)),
            ratio * (1.0 + BEYOND) / g.range.0,
        ]
    };
    let fits = |factor: f64| {
        let own = counted.iter().filter(|g| {
            let [low, high] = bounds(g);
            (low..=high).contains(&factor)
        });
        own.map(|g| time(g)).sum::<f64>() >= FIT * all
    };
    // From where no kernel with a share of its own asks for more, to where none that does not follow its work is left out.
    let weighty = || {
        counted
            .iter()
            .filter(|g| time(g) >= (1.0 - FIT) / 2.0 * all)
    };
    let low = weighty().map(|g| bounds(g)[0]).fold(0.0, f64::max);
    let ratios = weighty().map(|g| g.times[1] / (g.times[0] * g.range.0));
    let high = ratios.fold(f64::INFINITY, f64::min);
    let (slower, faster) = (low >= LEAST, high * (1.0 + BEYOND) <= 1.0 / LEAST);
    let nearest = if slower { low } else { high * (1.0 + BEYOND) };
    let is_found = (slower || faster) && low <= high * (1.0 + BEYOND) && fits(nearest);
    is_found.then(|| Range(low.min(high), high.max(low)))
}

impl Apart {
    /// `None` where the steps of both sides do not state their work, or it is the same.
    pub(super) fn of(pairing: &Pairing<'_>, roles: &[Role]) -> Option<Self> {
        let work = pairing.sides.each_ref().map(|side| stated(side));
        let quantities: Vec<Quantity> = work[0]
            .iter()
            .filter_map(|(name, before)| {
                let (a, b) = (median(before), median(work[1].get(name)?));
                let differs = (b - a).abs() >= LEAST * a.abs().max(b.abs()) && a.max(b) > 0.0;
                differs.then(|| Quantity {
                    name: (*name).to_owned(),
                    values: [a, b],
                })
            })
            .collect();
        let [tokens, contexts] = ranges([&work[0], &work[1]]);
        if contexts == Range::NONE {
            return None;
        }
        let places = [0, 1].map(|side| roles_by_place(&pairing.sides[side], roles, side));
        let mut times: BTreeMap<Key, [Vec<f64>; 2]> = BTreeMap::new();
        let mut kinds: BTreeMap<Key, Option<KernelClass>> = BTreeMap::new();
        for (side, captures) in pairing.sides.iter().enumerate() {
            for f in captures.iter().flat_map(|c| &c.functions) {
                let key = key(f, &places[side]);
                kinds.entry(key.clone()).or_insert(f.kernel);
                let known = f.dur_us.iter().copied().filter(|d| !d.is_nan());
                times.entry(key).or_default()[side].extend(known);
            }
        }
        let typical = |values: &Vec<f64>| match median(values) {
            none if values.is_empty() || none.is_nan() => 0.0,
            // Functions of some cycles only.
            none if none <= 0.0 => mean(values),
            typical => typical,
        };
        let range_of = |key: &Key| match (key.2, kinds.get(key).copied().flatten()) {
            // Waits follow what they wait for.
            (Class::Sync | Class::Requests | Class::Blocked | Class::RunQueue, _) => None,
            (
                Class::Kernel,
                None
                | Some(
                    KernelClass::Attention
                    | KernelClass::KvCache
                    | KernelClass::Softmax
                    | KernelClass::Other,
                ),
            ) => Some(contexts),
            _ => Some(tokens),
        };
        let kernels: Vec<Grown> = times
            .iter()
            .filter(|(key, _)| key.2 == Class::Kernel)
            .filter_map(|(key, values)| {
                let times = values.each_ref().map(typical);
                let range = range_of(key)?;
                let key = key.clone();
                (times[0] > 0.0 && times[1] > 0.0).then_some(Grown { key, times, range })
            })
            .collect();
        let common = common(&kernels);
        let mut partly: BTreeMap<Key, [f64; 2]> = BTreeMap::new();
        if common.is_some() {
            partly.extend(kernels.into_iter().map(|g| (g.key, g.times)));
        }
        let functions = times
            .into_iter()
            .filter(|(key, _)| !partly.contains_key(key))
            .filter_map(|(key, values)| {
                let range = range_of(&key)?;
                let [a, b] = values.each_ref().map(typical);
                let is_explained = match (a > 0.0, b > 0.0) {
                    // What is as before says that not all is slower, whatever its work is.
                    (true, true) => range.holds(b / a) && (b / a - 1.0).abs() >= LEAST,
                    // Other shapes are work for other kernels.
                    (true, false) | (false, true) => key.2.on_device() && range != Range::NONE,
                    (false, false) => false,
                };
                is_explained.then_some((key, [a, b]))
            })
            .collect();
        Some(Self {
            cycle_type: pairing.cycle_type.clone(),
            quantities,
            functions,
            common,
            partly,
            places,
        })
    }

    /// The same captures as if the work were the same. What the explained functions take longer is taken from the cycles too,
    /// unless it is `hidden` behind something else.
    pub(super) fn rest(&self, pairing: &Pairing<'_>, hidden: bool) -> [Vec<Capture>; 2] {
        [0, 1].map(|side| {
            let captures = pairing.sides[side].iter();
            captures.map(|c| self.without(c, side, hidden)).collect()
        })
    }

    fn without(&self, capture: &Capture, side: usize, hidden: bool) -> Capture {
        let mut taken = vec![vec![0.0; capture.cycles.len()]; capture.processes.len()];
        let mut of_device = taken.clone();
        let functions = capture
            .functions
            .iter()
            .map(|f| {
                let mut f = f.clone();
                let key = key(&f, &self.places[side]);
                let factor = match (self.functions.get(&key), self.partly.get(&key)) {
                    (Some([a, b]), _) => {
                        f.apart = true;
                        // As long as on the side where it takes less.
                        a.min(*b) / [a, b][side]
                    }
                    // As much longer as all kernels are.
                    (None, Some([a, b])) => {
                        let whole = a * self.factor();
                        whole.min(*b) / [&whole, b][side]
                    }
                    (None, None) => return f,
                };
                if (hidden && f.class.on_device()) || !factor.is_finite() {
                    return f;
                }
                for (at, dur) in f.dur_us.iter_mut().enumerate() {
                    if let (Some(sum), false) = (taken[f.process].get_mut(at), dur.is_nan()) {
                        let less = *dur * (1.0 - factor);
                        *sum += less;
                        if f.class.on_device() {
                            of_device[f.process][at] += less;
                        }
                    }
                    *dur *= factor;
                }
                f
            })
            .collect();
        let cycles = capture.cycles.iter().enumerate().map(|(at, cycle)| {
            // Of ranks side by side the one with most of it.
            let most = taken.iter().map(|own| own[at]).fold(0.0, f64::max);
            let dur_us = match hidden {
                true => cycle.dur_us,
                false => (cycle.dur_us - most).max(0.01 * cycle.dur_us),
            };
            Cycle {
                dur_us,
                apart_us: if hidden { most } else { 0.0 },
                work: None,
                ..cycle.clone()
            }
        });
        // What is not known stays so.
        let left = |(busy, less): (&f64, &f64)| match busy.is_nan() {
            true => f64::NAN,
            false => (busy - less).max(0.0),
        };
        let device_times = capture.device_times.iter().zip(&of_device);
        let device_times = device_times.map(|(times, less)| {
            let busy = times.busy_us.iter().zip(less);
            DeviceTime {
                busy_us: busy.map(left).collect(),
                exposed_us: times.exposed_us.clone(),
            }
        });
        Capture {
            cycles: cycles.collect(),
            functions,
            device_times: device_times.collect(),
            file: capture.file.clone(),
            kind: capture.kind.clone(),
            anchors: capture.anchors.clone(),
            processes: capture.processes.clone(),
            device_counters: capture.device_counters.clone(),
            counters: capture.counters.clone(),
            ..*capture
        }
    }

    /// The factor by which all kernels changed beyond their work, the one nearest to none.
    fn factor(&self) -> f64 {
        self.common
            .map_or(1.0, |range| if range.0 > 1.0 { range.0 } else { range.1 })
    }

    /// The most that the work explains of what a cycle takes longer, on the busiest rank, in microseconds.
    fn explained_us(&self) -> f64 {
        let mut by_role: BTreeMap<Option<usize>, f64> = BTreeMap::new();
        for ((role, _, _), [a, b]) in &self.functions {
            *by_role.entry(*role).or_default() += b - a;
        }
        for ((role, _, _), [a, b]) in &self.partly {
            *by_role.entry(*role).or_default() += b - a * self.factor();
        }
        let each = by_role.into_values();
        each.fold(
            0.0,
            |most: f64, own| if own.abs() > most.abs() { own } else { most },
        )
    }

    /// For the report.
    pub(super) fn told(&self) -> Workload {
        let names: BTreeSet<&String> = self.functions.keys().map(|key| &key.1).collect();
        Workload {
            quantities: self.quantities.clone(),
            explained_us: self.explained_us(),
            functions: names.into_iter().cloned().collect(),
            kernels_beyond_pct: self
                .common
                .map(|Range(low, high)| [low, high].map(|factor| (factor - 1.0) * 100.0)),
        }
    }

    /// Returns `true` if the work explains how this function changed.
    pub(super) fn explains(&self, finding: &Finding) -> bool {
        let own = finding.cycle_type.split('/').next() == Some(self.cycle_type.as_str());
        own && self.functions.keys().any(|(role, name, class)| {
            let is_role = finding.role.is_none() || *role == finding.role;
            is_role && *name == finding.name && class.name() == finding.class
        })
    }
}

fn key(function: &Function, places: &[Option<usize>]) -> Key {
    let role = places.get(function.process).copied().flatten();
    (role, function.name.clone(), function.class)
}

/// What the typical cycle changed by, relative to before.
fn change(sides: [&[&Capture]; 2]) -> f64 {
    let [a, b] = sides.map(|captures| {
        let cycles = captures.iter().flat_map(|c| &c.cycles);
        median(&cycles.map(|c| c.dur_us).collect::<Vec<f64>>())
    });
    (b - a) / a
}

/// Returns `true` if enough of a change is left for a cause in this direction.
pub(super) fn is_left(whole: [&[&Capture]; 2], rest: [&[&Capture]; 2], direction: &str) -> bool {
    let sign = if direction == "better" { -1.0 } else { 1.0 };
    sign * change(rest) >= LEFT_OF_CYCLE.max(LEFT * change(whole).abs())
}

/// Returns `true` if most of what a cycle takes longer is left when the work is set apart.
pub(super) fn is_most_left(whole: [&[&Capture]; 2], rest: [&[&Capture]; 2]) -> bool {
    const NOTICED: f64 = 0.02;
    let (all, left) = (change(whole), change(rest));
    all.abs() >= NOTICED && left / all >= 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges_of(pairs: &[(&'static str, f64, f64)]) -> [Range; 2] {
        let side = |of: fn(&(&'static str, f64, f64)) -> f64| -> BTreeMap<&str, Vec<f64>> {
            pairs.iter().map(|p| (p.0, vec![of(p); 5])).collect()
        };
        ranges([&side(|p| p.1), &side(|p| p.2)])
    }

    #[test]
    fn what_follows_what() {
        let [tokens, contexts] = ranges_of(&[
            ("requests", 32.0, 32.0),
            ("context tokens", 30_000.0, 45_000.0),
        ]);
        assert_eq!(tokens, Range::NONE);
        assert!(contexts.holds(1.0) && contexts.holds(1.25) && contexts.holds(1.5));
        assert!(!contexts.holds(1.7) && !contexts.holds(0.8));
        // Without a change of its work a function is not set apart, even if it is as before.
        assert!(!tokens.holds(1.0) && !tokens.holds(1.01));
        let [tokens, contexts] = ranges_of(&[("requests", 40.0, 32.0)]);
        assert!(tokens.holds(0.8) && tokens.holds(1.0) && !tokens.holds(1.3));
        assert_eq!(tokens, contexts);
        let [tokens, contexts] = ranges_of(&[("prompt tokens", 100.0, 300.0)]);
        assert!(!tokens.holds(8.0) && contexts.holds(8.0));
        let [tokens, _] = ranges_of(&[("prompt tokens", 0.0, 300.0)]);
        assert!(tokens.holds(1000.0));
    }
}
