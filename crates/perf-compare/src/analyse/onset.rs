//! A candidate that becomes slower at once, from one of its cycles on, while the baseline does not: a clock that is capped, a neighbour that
//! arrives, a path of the code that is taken from then on. Bit by bit it is growth.

use super::growth::{BEYOND, FEWEST, LEAST, PARTS, levels};
use super::often::does_more;
use super::panel::{Column, Panel};
use super::together;
use crate::document::{Growth, Role};
use crate::stats::{deviation, median, quantile, sorted};

/// Fewest cycles of each of the two levels.
const EACH: usize = 6;
/// Part of the cycles within the slow stretch that may be fast, and of those outside that may be slow.
const ODD: f64 = 0.06;
/// The levels are apart by this many median absolute deviations of the wider one,
const APART: f64 = 4.0;
/// and the lower one is that of the baseline up to this part of the difference.
const SAME: f64 = 0.3;

/// The threshold between two groups of values: the one with the most variance between the groups (Otsu 1979).
fn threshold(values: &[f64]) -> Option<f64> {
    let all = sorted(values);
    let n = all.len();
    let sum: f64 = all.iter().sum();
    let mut below = 0.0;
    let mut best: Option<(f64, f64)> = None;
    for (at, pair) in all.windows(2).enumerate() {
        below += pair[0];
        let (count, rest) = ((at + 1) as f64, (n - at - 1) as f64);
        let apart = (sum - below) / rest - below / count;
        let between = count * rest * apart * apart;
        if best.is_none_or(|(most, _)| between > most) {
            best = Some((between, f64::midpoint(pair[0], pair[1])));
        }
    }
    best.map(|(_, at)| at)
}

/// The stretch of slow values: from the first one to the last that are not alone.
fn stretch(is_slow: &[bool]) -> Option<(usize, usize)> {
    // One slow value by itself is an outlier.
    let with_next = |at: usize| is_slow[at] && is_slow.get(at + 1) == Some(&true);
    let first = (0..is_slow.len()).find(|at| with_next(*at))?;
    let last = (0..is_slow.len()).rev().find(|at| with_next(*at))? + 1;
    Some((first, last))
}

/// Where the candidate is slower in one stretch of cycles and as the baseline in the others.
pub(super) fn of(panel: &Panel, roles: &[Role]) -> Option<Growth> {
    let lengths = panel.lengths();
    if panel.by_run || lengths.iter().any(|side| side.len() < FEWEST) {
        return None;
    }
    let [baseline, own] = &lengths;
    let limit = threshold(own)?;
    let is_slow: Vec<bool> = own.iter().map(|length| *length > limit).collect();
    let (first, last) = stretch(&is_slow)?;
    let (slow, rest): (Vec<usize>, Vec<usize>) =
        (0..own.len()).partition(|at| (first..=last).contains(at));
    let odd = slow.iter().filter(|at| !is_slow[**at]).count();
    let odd = odd + rest.iter().filter(|at| is_slow[**at]).count();
    // Cycles that are slow at the start are those of a warm-up.
    let is_stretch = first >= EACH && slow.len() >= EACH && odd as f64 <= ODD * own.len() as f64;
    if !is_stretch {
        return None;
    }
    let at = |places: &[usize], values: &[f64]| -> Vec<f64> {
        let each = places.iter().filter_map(|at| values.get(*at).copied());
        each.collect()
    };
    let (before, after) = (at(&rest, own), at(&slow, own));
    let [from, to, usual] = [median(&before), median(&after), median(baseline)];
    let jump = to - from;
    let spread = deviation(&before)
        .max(deviation(&after))
        .max(deviation(baseline));
    let of_baseline = levels(baseline, PARTS);
    let low = of_baseline.iter().copied().fold(f64::INFINITY, f64::min);
    let high = of_baseline
        .iter()
        .copied()
        .fold(f64::NEG_INFINITY, f64::max);
    let is_large = jump > LEAST * from && jump > BEYOND * (high - low) && jump > APART * spread;
    // What wanders has values between the levels.
    let is_apart = quantile(&sorted(&after), 0.1) > quantile(&sorted(&before), 0.9);
    let is_alike = (from - usual).abs() <= SAME * jump;
    if !is_large || !is_apart || !is_alike || does_more(panel, 1, &slow, &rest) {
        return None;
    }
    let times = |column: &Column| {
        let values = &column.values[1];
        let whole = values.len() == own.len();
        whole.then(|| [median(&at(&rest, values)), median(&at(&slow, values))])
    };
    let number = |at: usize| panel.cycles[1].get(at).map_or(0, |cycle| cycle.0);
    Some(Growth {
        cycle_us: [from, to],
        since: Some([number(first), number(last)]),
        ends: own.len() - 1 - last >= 2,
        baseline_us: usual,
        functions: together::functions(panel, roles, 1, jump, &times),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_levels_are_divided_between_them() {
        let values = [10.0, 11.0, 10.0, 30.0, 31.0, 29.0, 11.0];
        let at = threshold(&values).unwrap_or(0.0);
        assert!(at > 11.0 && at < 29.0, "{at}");
        assert_eq!(threshold(&[1.0]), None);
    }

    #[test]
    fn a_stretch_begins_and_ends_with_neighbours() {
        let slow = |text: &str| text.bytes().map(|b| b == b'S').collect::<Vec<bool>>();
        assert_eq!(stretch(&slow("..S...SSSS.SS")), Some((6, 12)));
        assert_eq!(stretch(&slow("..S...S...")), None);
        assert_eq!(stretch(&[]), None);
    }
}
