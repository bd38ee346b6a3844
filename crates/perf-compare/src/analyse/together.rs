//! Which functions take longer in some cycles than in others of the same side, kernels of a device that do so alike as one.

use std::collections::BTreeMap;

use super::panel::{Column, Panel};
use super::pauses::is_input;
use crate::document::{PausedFunction, Role};
use crate::report_text::short;
use crate::side::{Class, is_wait};
use crate::stats::median;
use crate::verdict::is_alike;

/// Part of the time that a function must take to be named.
const NAMED: f64 = 0.2;
/// Functions that are named.
const SHOWN: usize = 3;
/// Kernels of a device from which on all of them may be one.
const SEVERAL: usize = 4;
/// Part of them, by count and by time, that must be slower alike.
const MOST: f64 = 0.6;
/// Factor from which on they are slower at all.
const SLOWER: f64 = 1.05;
/// Kernels with less than this part of the time are not counted one by one.
const SMALL: f64 = 0.002;

/// Kernels of one rank and device.
type Group<'c> = (Vec<&'c Column>, Vec<[f64; 2]>);

fn rank_of(role: Option<usize>, roles: &[Role], side: usize) -> Option<String> {
    let role = roles.iter().find(|known| Some(known.role) == role)?;
    role.ranks[side].clone().filter(|_| roles.len() > 1)
}

/// Kernels that take most of what slow cycles take longer, in each of them another one: what another process, or a debugger, stops; or one
/// kernel, on another rank each time, as experts with uneven numbers of tokens are. `None` where the same ones are slow, or none takes as
/// much.
pub(super) fn one_each(
    panel: &Panel,
    roles: &[Role],
    side: usize,
    slow: &[usize],
) -> Option<PausedFunction> {
    /// Part of the excess of a cycle that one kernel must take, and part of the cycles in which one does.
    const EACH: f64 = 0.5;
    const CYCLES: f64 = 0.6;
    /// Fewest kernels, and part of the cycles that is the most that one of them may have.
    const FEWEST: usize = 3;
    const SAME: f64 = 0.5;
    /// The same of the ranks that one kernel is slow on.
    const SAME_RANK: f64 = 0.75;
    let lengths = panel.lengths().into_iter().nth(side)?;
    let typical = median(&lengths);
    let own = panel.columns.iter().filter(|column| {
        column.key.kind == "function"
            && column.key.class == Class::Kernel
            && column.values[side].len() == lengths.len()
    });
    let own: Vec<(&Column, f64)> = own.map(|c| (c, median(&c.values[side]))).collect();
    let mut found: Vec<(&Column, f64)> = Vec::new();
    for &at in slow {
        let beyond = own
            .iter()
            .map(|(c, usual)| (*c, c.values[side][at] - usual));
        let most = beyond.max_by(|a, b| a.1.total_cmp(&b.1))?;
        if most.1 >= EACH * (lengths.get(at)? - typical) {
            found.push(most);
        }
    }
    let (first, _) = found.first()?;
    let names = most_common(found.iter().map(|(c, _)| c.key.name.as_str()));
    let ranks = most_common(found.iter().map(|(c, _)| c.key.role));
    let is_most = found.len() as f64 >= CYCLES * slow.len() as f64;
    let moves = |(distinct, most): (usize, usize), fewest: usize| {
        distinct >= fewest && most as f64 <= SAME * found.len() as f64
    };
    let times: Vec<f64> = found.iter().map(|(_, us)| *us).collect();
    let of_kernel = |name: String, rank: Option<String>| PausedFunction {
        name,
        device: first.key.device.clone(),
        rank,
        excess_us: median(&times),
    };
    if is_most && moves(names, FEWEST) {
        let place = match ranks.0 {
            1 => first.key.device.as_str(),
            _ => "a GPU",
        };
        let rank = rank_of(first.key.role, roles, side).filter(|_| ranks.0 == 1);
        return Some(of_kernel(
            format!("one kernel of {place}, another one each time,"),
            rank,
        ));
    }
    // Of two ranks the one that is slow more often has half of the cycles at least.
    let is_uneven = ranks.0 > 1 && ranks.1 as f64 <= SAME_RANK * found.len() as f64;
    let is_one = names.0 == 1 && is_most && is_uneven;
    is_one.then(|| {
        let rank = "another rank each time".to_owned();
        of_kernel(first.key.name.clone(), Some(rank))
    })
}

/// How many different values there are, and how often the most common one occurs.
fn most_common<T: Ord>(values: impl Iterator<Item = T>) -> (usize, usize) {
    let mut counts: BTreeMap<T, usize> = BTreeMap::new();
    for value in values {
        *counts.entry(value).or_default() += 1;
    }
    (counts.len(), counts.values().copied().max().unwrap_or(0))
}

/// The waits for input that take most of the `wanted` microseconds, longest first.
pub(super) fn inputs(
    panel: &Panel,
    roles: &[Role],
    side: usize,
    wanted: f64,
    times: &dyn Fn(&Column) -> Option<[f64; 2]>,
) -> Vec<PausedFunction> {
    let own = panel.columns.iter();
    let own = own.filter(|c| c.key.kind == "function" && is_input(&c.key.name, c.key.class));
    let found = own.filter_map(|column| {
        let [before, after] = times(column)?;
        (after - before >= NAMED * wanted).then(|| PausedFunction {
            name: column.key.name.clone(),
            device: column.key.device.clone(),
            rank: rank_of(column.key.role, roles, side),
            excess_us: after - before,
        })
    });
    longest(found.collect())
}

/// The functions with most of the time, in order.
fn longest(mut found: Vec<PausedFunction>) -> Vec<PausedFunction> {
    found.sort_by(|a, b| {
        b.excess_us
            .total_cmp(&a.excess_us)
            .then_with(|| (&a.name, &a.device).cmp(&(&b.name, &b.device)))
    });
    found.truncate(SHOWN);
    found
}

/// The functions that take most of the `wanted` microseconds, longest first: `times` gives what each takes usually, and in the
/// cycles in question. Kernels of a device that are slower by about one factor are one of them.
pub(super) fn functions(
    panel: &Panel,
    roles: &[Role],
    side: usize,
    wanted: f64,
    times: &dyn Fn(&Column) -> Option<[f64; 2]>,
) -> Vec<PausedFunction> {
    let mut groups: BTreeMap<(Option<usize>, &str), Group<'_>> = BTreeMap::new();
    let mut found: Vec<PausedFunction> = Vec::new();
    // Collectives wait for what the others do, and sums repeat their parts.
    let own = panel.columns.iter().filter(|c| {
        c.key.kind == "function"
            && !matches!(c.key.class, Class::Collective | Class::Requests)
            && !is_wait(&c.key.name)
    });
    for column in own {
        let Some([before, after]) = times(column) else {
            continue;
        };
        if column.key.class == Class::Kernel && before > 0.0 {
            let group = groups
                .entry((column.key.role, &column.key.device))
                .or_default();
            group.0.push(column);
            group.1.push([before, after]);
        }
        if after - before >= NAMED * wanted {
            found.push(PausedFunction {
                name: column.key.name.clone(),
                device: column.key.device.clone(),
                rank: rank_of(column.key.role, roles, side),
                excess_us: after - before,
            });
        }
    }
    for ((role, device), (columns, times)) in groups {
        let sum = |at: usize| times.iter().map(|own| own[at]).sum::<f64>();
        let (all, factor) = (sum(0), sum(1) / sum(0));
        let counted = || times.iter().filter(|own| own[0] >= SMALL * all);
        let like = counted().filter(|own| is_alike(own[1] / own[0], factor));
        let (count, time) = like.fold((0.0, 0.0), |sum, own| (sum.0 + 1.0, sum.1 + own[0]));
        let part = (count / counted().count().max(1) as f64).min(time / all);
        let excess = sum(1) - all;
        if counted().count() < SEVERAL || factor < SLOWER || part < MOST || excess < NAMED * wanted
        {
            continue;
        }
        found.retain(|f| f.device != device || !columns.iter().any(|c| c.key.name == f.name));
        found.push(PausedFunction {
            name: format!(
                "all kernels of {device}, slower by {} %,",
                short((factor - 1.0) * 100.0)
            ),
            device: device.to_owned(),
            rank: rank_of(role, roles, side),
            excess_us: excess,
        });
    }
    longest(found)
}
