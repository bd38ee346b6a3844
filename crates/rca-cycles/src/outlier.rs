//! Interference: functions that are slow in a few cycles and as always in the others.

use crate::analysis::Cycle;
use crate::measure::Function;
use crate::num::{median, median_with_zeros, nanos, real, span};
use crate::phase::Phase;

/// A function that is slow in a few cycles only.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Interference {
    /// Which function, by place in the list of functions.
    pub function: usize,
    /// Phase of the cycles it is compared with.
    pub phase: Phase,
    /// The slow cycles.
    pub cycles: Vec<u32>,
    /// Mean excess over the median in those, ns.
    pub excess_ns: i64,
}

/// A cycle is slow if it exceeds the median by more than this many deviations (1.4826 MAD), where
/// a normal sample does so about once in a billion,
const DEVIATIONS: f64 = 6.0;
/// and by this share of the function's median,
const OWN_SHARE: f64 = 0.25;
/// and by this share of the cycle.
const CYCLE_SHARE: f64 = 0.01;
/// Slowness in a larger share of cycles is no interference.
pub const MOST: f64 = 0.3;

/// The median of values of cycles of this length, and from where on one is slow. As many cycles more have the value zero.
#[must_use]
pub fn limit(values: &[f64], zeros: usize, length: f64) -> (f64, f64) {
    let middle = median_with_zeros(values, zeros);
    let mut deviations: Vec<f64> = values.iter().map(|v| (v - middle).abs()).collect();
    let deviation = if middle == 0.0 {
        median_with_zeros(&deviations, zeros)
    } else {
        // At most half of the values are zeros then, so that writing them down costs no more than the others did.
        deviations.extend(std::iter::repeat_n(middle.abs(), zeros));
        median(&deviations)
    };
    let mad = 1.4826 * deviation;
    let above = (DEVIATIONS * mad)
        .max(OWN_SHARE * middle)
        .max(CYCLE_SHARE * length);
    (middle, middle + above)
}

/// Cost: the functions that each cycle has, not all functions for each cycle.
pub(crate) fn interference(cycles: &[Cycle], functions: &[Function]) -> Vec<Interference> {
    let mut found = Vec::new();
    for phase in [Phase::Prefill, Phase::Decode, Phase::Mixed, Phase::Unknown] {
        let counts = |c: &Cycle| c.phase == phase && c.partial.is_none();
        let lengths: Vec<f64> = cycles
            .iter()
            .filter(|c| counts(c))
            .map(|c| span(c.length_ns()))
            .collect();
        if lengths.len() < 8 {
            continue;
        }
        let length = median(&lengths);
        let mut own: Vec<(u32, f64)> = Vec::new();
        let mut values: Vec<f64> = Vec::new();
        for (f, function) in functions.iter().enumerate() {
            own.clear();
            own.extend(
                function
                    .cells
                    .iter()
                    .filter(|cell| cycles.get(cell.cycle as usize).is_some_and(counts))
                    .map(|cell| (cell.cycle, span(cell.self_ns))),
            );
            values.clear();
            values.extend(own.iter().map(|o| o.1));
            // Times are not negative, so a cycle without the function is never slow.
            let (middle, limit) = limit(&values, lengths.len() - own.len(), length);
            let slow: Vec<(u32, f64)> = own.iter().copied().filter(|o| o.1 > limit).collect();
            if slow.is_empty() || real(slow.len()) > MOST * real(lengths.len()) {
                continue;
            }
            let excess: f64 = slow.iter().map(|o| o.1 - middle).sum();
            found.push(Interference {
                function: f,
                phase,
                excess_ns: nanos(excess / real(slow.len())),
                cycles: slow.into_iter().map(|o| o.0).collect(),
            });
        }
    }
    found.sort_by_key(|i| {
        let count = i64::try_from(i.cycles.len()).unwrap_or(i64::MAX);
        (
            std::cmp::Reverse(i.excess_ns.saturating_mul(count)),
            i.function,
        )
    });
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zeros_that_are_only_counted_are_zeros() {
        let mut state = 1_u64;
        let mut next = |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((state >> 33) % below).unwrap()
        };
        for _ in 0..500 {
            let (some, zeros) = (next(9), next(9));
            let values: Vec<f64> = (0..some).map(|_| real(next(5) * 100)).collect();
            let mut written = values.clone();
            written.extend(std::iter::repeat_n(0.0, zeros));
            let same = |(a, b): (f64, f64), (c, d): (f64, f64)| {
                a.to_bits() == c.to_bits() && b.to_bits() == d.to_bits()
            };
            let by_hand = {
                let mid = |list: &[f64]| {
                    let mut list = list.to_vec();
                    list.sort_by(f64::total_cmp);
                    match list.len() {
                        0 => 0.0,
                        n => f64::midpoint(list[(n - 1) / 2], list[n / 2]),
                    }
                };
                let middle = mid(&written);
                let off: Vec<f64> = written.iter().map(|v| (v - middle).abs()).collect();
                let above = (DEVIATIONS * (1.4826 * mid(&off)))
                    .max(OWN_SHARE * middle)
                    .max(0.07);
                (middle, middle + above)
            };
            assert!(
                same(limit(&values, zeros, 7.0), by_hand),
                "{values:?} and {zeros}"
            );
            assert!(same(limit(&written, 0, 7.0), by_hand), "{written:?}");
        }
    }
}
