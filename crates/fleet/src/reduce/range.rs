//! The steps in which something happened, if these are a part of all.

use crate::words::{count, real};

/// Minimum number of steps in which a part can be told.
const LEAST: usize = 8;

/// Minimum share of the steps of the part in the sum over all.
const MOST: f64 = 0.8;

/// Maximum share of the part in all steps.
const PART: f64 = 0.6;

/// Excess over the median step from which a step counts for the part, as a share of that of the largest one.
const EXCESS: f64 = 0.3;

/// Consecutive steps that hold most of a sum.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Stretch {
    /// Index of the first and of the last one.
    pub(super) first: usize,
    pub(super) last: usize,
    /// Share of the sum, in percent.
    pub(super) share_pct: f64,
}

/// Returns the consecutive steps that hold most of the sum of `values`, one a step; `None` if it is spread over most of them.
///
/// The steps are those with the largest sum of excesses over a level between the median and the largest value (Kadane's algorithm).
pub(super) fn stretch(values: &[i64]) -> Option<Stretch> {
    if values.len() < LEAST {
        return None;
    }
    let all: Vec<f64> = values.iter().map(|value| real(*value)).collect();
    let (middle, most) = (stats::median(&all), all.iter().copied().fold(0.0, f64::max));
    let level = middle + EXCESS * (most - middle);
    let (mut best, mut found) = (0.0, None);
    let (mut sum, mut from) = (0.0, 0);
    for (at, value) in all.iter().enumerate() {
        if sum <= 0.0 {
            (sum, from) = (0.0, at);
        }
        sum += value - level;
        if sum > best {
            (best, found) = (sum, Some((from, at)));
        }
    }
    let (first, last) = found?;
    let total: f64 = all.iter().sum();
    let inside: f64 = all.get(first..=last)?.iter().sum();
    let is_part = count(last - first + 1) <= PART * count(all.len());
    (is_part && total > 0.0 && inside >= MOST * total).then(|| Stretch {
        first,
        last,
        share_pct: inside * 100.0 / total,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_steps_is_found_and_an_even_sum_has_none() {
        let mut values = vec![3_i64; 30];
        for value in values.iter_mut().skip(20).take(6) {
            *value = 1000;
        }
        let found = stretch(&values).unwrap();
        assert_eq!((found.first, found.last), (20, 25));
        assert!((found.share_pct - 600_000.0 / 6072.0).abs() < 1e-9);
        // One weak step within it does not end it.
        values[22] = 200;
        let found = stretch(&values).unwrap();
        assert_eq!((found.first, found.last), (20, 25));
        let even: Vec<i64> = (0..30).map(|n| 1000 + n * 37 % 90).collect();
        assert_eq!(stretch(&even), None);
        assert_eq!(stretch(&[0; 30]), None);
        assert_eq!(stretch(&[1, 0]), None);
    }
}
