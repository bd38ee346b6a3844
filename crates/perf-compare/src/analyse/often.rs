//! Cycles that are slow every now and then on one side: too many of them for pauses, too few for all cycles to be slower. The
//! others are as long as those of the other side.

use super::panel::Panel;
use super::{pauses, together};
use crate::document::{Pauses, Role};
use crate::stats::{deviation, mean, median};

/// A cycle is slow if it is longer than the other side's median by this many of its median absolute deviations,
const DEVIATIONS: f64 = 8.0;
/// and by this part of it.
const PART: f64 = 0.08;
/// Fewest slow cycles, and fewest times that slow ones follow others.
const FEWEST: usize = 5;
const EPISODES: usize = 3;
/// Maximum share of slow cycles on the slow side, and on the other side.
const MOST: f64 = 0.7;
const OTHERS: f64 = 0.05;
/// Part of the cycles that may lie in the middle between the two kinds.
const BETWEEN: f64 = 0.12;
/// What else is in order differs by no more than this part.
const SAME: f64 = 0.04;
/// or than this part of what the slow ones take longer.
const REST: f64 = 0.15;
/// Quantities of the work of steps that differ by this part make slow cycles ones with more work.
const WORK: f64 = 0.1;
/// Chance below which one side is said to have more of them.
const CHANCE: f64 = 0.05;

/// Compares how often cycles are slow; `None` where neither side has two such kinds of cycles that the other lacks.
pub(super) fn compare(panel: &Panel, roles: &[Role]) -> Option<Pauses> {
    if panel.by_run {
        return None;
    }
    [1, 0]
        .into_iter()
        .find_map(|more| of_side(panel, roles, more))
}

fn of_side(panel: &Panel, roles: &[Role], more: usize) -> Option<Pauses> {
    let lengths = panel.lengths();
    let of = lengths.each_ref().map(Vec::len);
    if of.iter().any(|n| *n < 10) {
        return None;
    }
    let other = 1 - more;
    let usual = median(&lengths[other]);
    let spread = deviation(&lengths[other]);
    let limit = usual + (DEVIATIONS * spread).max(PART * usual);
    let is_slow = lengths
        .each_ref()
        .map(|side| side.iter().map(|x| *x > limit).collect::<Vec<bool>>());
    let cycles = is_slow
        .each_ref()
        .map(|side| side.iter().filter(|slow| **slow).count());
    // Slow cycles that come in a row are of one beginning.
    let onsets = |side: usize| {
        let begins = |pair: &&[bool]| !pair[0] && pair[1];
        let after_others = is_slow[side].windows(2).filter(begins).count();
        after_others + usize::from(is_slow[side].first() == Some(&true))
    };
    let too_many = |side: usize, part: f64| cycles[side] as f64 > part * of[side] as f64;
    if cycles[more] < FEWEST || onsets(more) < EPISODES || too_many(more, MOST) {
        return None;
    }
    if too_many(other, OTHERS) {
        return None;
    }
    let places = |slow: bool| -> Vec<usize> {
        let all = is_slow[more].iter().enumerate();
        all.filter(|(_, own)| **own == slow)
            .map(|(at, _)| at)
            .collect()
    };
    let (slow, rest) = (places(true), places(false));
    let at = |places: &[usize], values: &[f64]| -> Vec<f64> {
        places
            .iter()
            .filter_map(|at| values.get(*at).copied())
            .collect()
    };
    let typical = median(&at(&rest, &lengths[more]));
    let excess = median(&at(&slow, &lengths[more])) - typical;
    // Those that are not slow are as on the other side, and few are between: a side that drifts or wanders has all lengths.
    // A cycle after a slow one may have less left to do.
    let near = (SAME * usual).max(3.0 * spread).max(REST * excess);
    let is_same = (typical - usual).abs() <= near;
    let middle = (typical + 0.3 * excess)..(typical + 0.7 * excess);
    let between = lengths[more].iter().filter(|x| middle.contains(x)).count();
    if !is_same
        || between as f64 > BETWEEN * of[more] as f64
        || does_more(panel, more, &slow, &rest)
    {
        return None;
    }
    // After each cycle that is not slow one may begin.
    let quiet = |side: usize| 1 + of[side] - cycles[side];
    let p = pauses::by_chance(
        onsets(more),
        onsets(0) + onsets(1),
        quiet(more),
        quiet(other),
    );
    if p > CHANCE {
        return None;
    }
    let times = |column: &super::panel::Column| {
        let values = &column.values[more];
        let whole = values.len() == of[more];
        whole.then(|| [mean(&at(&rest, values)), mean(&at(&slow, values))])
    };
    let mut functions = together::functions(panel, roles, more, excess, &times);
    if functions.is_empty() {
        functions.extend(together::one_each(panel, roles, more, &slow));
    }
    let waits_for_input = functions.is_empty();
    if waits_for_input {
        functions = together::inputs(panel, roles, more, excess, &times);
    }
    let numbers = slow
        .iter()
        .filter_map(|at| Some(panel.cycles[more].get(*at)?.0))
        .collect();
    let mut excess_us = [None; 2];
    excess_us[more] = Some(excess);
    Some(Pauses {
        cycles,
        pauses: cycles,
        of,
        excess_us,
        mean_us: lengths.each_ref().map(|side| mean(side)),
        p,
        established: true,
        often: true,
        more_in_candidate: more == 1,
        numbers,
        waits_for_input: waits_for_input && !functions.is_empty(),
        every: None,
        functions,
    })
}

/// Returns `true` if the slow cycles did other work than the rest, as the names of their steps have it.
pub(super) fn does_more(panel: &Panel, side: usize, slow: &[usize], rest: &[usize]) -> bool {
    let stated = |places: &[usize], name: &str| -> Vec<f64> {
        let works = places
            .iter()
            .filter_map(|at| panel.works[side].get(*at)?.as_ref());
        works.filter_map(|work| work.get(name).copied()).collect()
    };
    let works = panel.works[side].iter().flatten();
    let names: std::collections::BTreeSet<&str> =
        works.flat_map(|work| work.keys().copied()).collect();
    names.into_iter().any(|name| {
        let (a, b) = (median(&stated(rest, name)), median(&stated(slow, name)));
        (b - a).abs() > WORK * a.abs().max(b.abs())
    })
}
