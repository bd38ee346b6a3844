//! A candidate that becomes slower within itself while the baseline does not: a leak, a growing list, a device that warms up.

use std::collections::BTreeSet;

use super::panel::{Column, Panel};
use super::together;
use crate::document::{Growth, Role};
use crate::stats::{drift, median};

/// Cycles of each side that a growth is told from.
pub(super) const FEWEST: usize = 20;
/// Least growth from the first cycles to the last, as a part of the first ones,
pub(super) const LEAST: f64 = 0.05;
/// and relative to what the levels of the baseline differ by.
pub(super) const BEYOND: f64 = 2.0;
/// Part of its growth at which the candidate may begin above the baseline.
const START: f64 = 0.3;
/// Quantities of the work of steps that grow by this part explain a growth.
const WORK: f64 = 0.05;
/// Parts of a side whose levels are compared.
pub(super) const PARTS: usize = 8;

/// Medians of parts of a series, in the order of time.
pub(super) fn levels(values: &[f64], parts: usize) -> Vec<f64> {
    let size = (values.len() / parts).max(3);
    let whole = values.chunks(size).filter(|part| part.len() >= 2);
    whole.map(median).collect()
}

/// Median of the first cycles, and of the last.
fn ends(values: &[f64]) -> Option<[f64; 2]> {
    let n = (values.len() / 10).max(3);
    let first = values.get(..n)?;
    let last = values.get(values.len() - n..)?;
    Some([median(first), median(last)])
}

/// The growth of the candidate; `None` unless it is beyond what the baseline's level varies by, and no part of it goes back.
pub(super) fn of(panel: &Panel, roles: &[Role]) -> Option<Growth> {
    let lengths = panel.lengths();
    if panel.by_run || lengths.iter().any(|side| side.len() < FEWEST) {
        return None;
    }
    let change = drift(&lengths[1]).filter(|change| *change > 0.0)?;
    // Both drift: that is another finding.
    if drift(&lengths[0]).is_some_and(|own| own.abs() > change / 4.0) {
        return None;
    }
    let [from, to] = ends(&lengths[1])?;
    let usual = levels(&lengths[0], PARTS);
    let low = usual.iter().copied().fold(f64::INFINITY, f64::min);
    let high = usual.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let growth = to - from;
    let is_large = growth > LEAST * from && growth > BEYOND * (high - low);
    let begins_alike = from - high <= START * growth;
    // What wanders goes up and down again.
    let quarters = levels(&lengths[1], 4);
    let rises = quarters.windows(2).all(|pair| pair[1] > pair[0]);
    if !is_large || !begins_alike || !rises || work_grows(panel) {
        return None;
    }
    let times = |column: &Column| {
        let values = &column.values[1];
        let whole = values.len() == lengths[1].len();
        ends(values).filter(|_| whole)
    };
    Some(Growth {
        cycle_us: [from, to],
        since: None,
        ends: false,
        baseline_us: median(&lengths[0]),
        functions: together::functions(panel, roles, 1, growth, &times),
    })
}

/// Returns `true` if the steps of the candidate did more and more, as their names have it, by more than those of the baseline did: contexts
/// grow with each step, and the baseline shows what that costs.
fn work_grows(panel: &Panel) -> bool {
    let grown = |side: usize, name: &str| {
        let own = panel.works[side].iter().flatten();
        let values: Vec<f64> = own.filter_map(|work| work.get(name).copied()).collect();
        ends(&values).map_or(0.0, |[from, to]| to / from - 1.0)
    };
    let works = panel.works[1].iter().flatten();
    let names: BTreeSet<&str> = works.flat_map(|work| work.keys().copied()).collect();
    names.into_iter().any(|name| {
        let usual = grown(0, name).max(0.0);
        grown(1, name) > WORK + 1.5 * usual
    })
}
