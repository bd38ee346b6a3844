//! How far apart samples are. A counter that takes every so manyth access spaces them evenly; what follows from random samples then does
//! not hold: of a program that repeats itself, pairs of accesses may never be sampled together.

use crate::evidence::{bin, from};
use crate::quantile::real;
use crate::record::{LOAD, STORE};

/// Fewest intervals that show anything.
const FEWEST: u64 = 100;
/// Bins of intervals.
const BINS: usize = 520;

/// Times between the rows of a kind.
#[derive(Debug, Clone)]
struct Gaps {
    last: Option<u64>,
    count: u64,
    bins: Vec<u64>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            last: None,
            count: 0,
            bins: vec![0; BINS],
        }
    }
}

impl Gaps {
    fn add(&mut self, time: u64) {
        if let Some(last) = self.last.replace(time)
            && let Some(count) = self.bins.get_mut(usize::from(bin(time - last)))
        {
            *count += 1;
            self.count += 1;
        }
    }

    fn quantile(&self, q: f64) -> f64 {
        let mut below = 0;
        for (at, count) in (0_u16..).zip(&self.bins) {
            below += count;
            if real(below) >= q * real(self.count) {
                return from(at);
            }
        }
        0.0
    }

    /// Whether intervals differ less than those of random samples. Of these 10 % are shorter than 0.105 and 40 % than 0.51 of the mean,
    /// a factor of 4.8; pauses of the program only make that larger. Short periods leave few different intervals.
    fn is_even(&self, period: f64) -> bool {
        if self.count < FEWEST {
            return false;
        }
        let (low, high, factor) = match period {
            period if period < 5.0 => (0.05, 0.75, 1.5),
            period if period < 20.0 => (0.05, 0.5, 2.2),
            _ => (0.1, 0.4, 2.9),
        };
        self.quantile(high) < factor * self.quantile(low)
    }
}

/// Times between rows, loads, and stores.
#[derive(Debug, Default)]
pub(crate) struct Spacing([Gaps; 3]);

impl Spacing {
    /// Adds a row, in order of time.
    pub(crate) fn add(&mut self, op: u8, time: u64) {
        let [all, loads, stores] = &mut self.0;
        all.add(time);
        match op {
            LOAD => loads.add(time),
            STORE => stores.add(time),
            _ => {}
        }
    }

    /// Whether samples are spaced evenly, of which loads and stores stand for so many accesses on average.
    pub(crate) fn is_even(&self, [load_period, store_period]: [f64; 2]) -> bool {
        let [all, loads, stores] = &self.0;
        let is_even = |gaps: &Gaps, period: f64| period > 1.0 && gaps.is_even(period);
        // Loads and stores of different periods together have intervals of neither.
        let is_one = load_period < 1.5 * store_period && store_period < 1.5 * load_period;
        is_even(loads, load_period)
            || is_even(stores, store_period)
            || is_one && is_even(all, load_period)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whether every so manyth access, or each at random, is found to be evenly spaced: bursts of accesses 50 ns apart, then a pause.
    fn found(burst: u64, pause: u64, period: u64, at_random: bool) -> bool {
        let (mut spacing, mut state) = (Spacing::default(), 88_172_645_463_325_252_u64);
        for at in 0..period * 2000 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let is_kept = match at_random {
                true => (state >> 20).is_multiple_of(period),
                false => at.is_multiple_of(period),
            };
            if is_kept {
                spacing.add(LOAD, at * 50 + at / burst * pause);
            }
        }
        spacing.is_even([real(period); 2])
    }

    #[test]
    fn counters_are_told_from_random_samples() {
        for period in [2, 3, 5, 7, 10, 20, 100, 1000] {
            for (burst, pause) in [
                (1 << 40, 0),
                (10_000, 1_000_000),
                (700, 20_000_000),
                (31, 1000),
                (53, 18_000_000),
            ] {
                assert!(!found(burst, pause, period, true), "{period}, {burst}");
                let told = found(burst, pause, period, false);
                // Where few samples of a burst are followed by a pause, there is no telling.
                assert!(told || burst / period < 4, "{period}, {burst}");
            }
        }
    }
}
