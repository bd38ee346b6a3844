//! How far apart samples are. A counter that takes every so manyth access spaces them evenly; what follows from random samples then does
//! not hold: of a program that repeats itself, pairs of accesses may never be sampled together.

use crate::evidence::{bin, from};
use crate::quantile::real;
use crate::record::{LOAD, STORE};

/// Fewest intervals that show anything.
const FEWEST: u64 = 100;
/// Bins of intervals.
const BINS: usize = 520;

/// Windows that rows are counted in, at most, and at least where they are compared.
const WINDOWS: usize = 4096;
const FEWEST_WINDOWS: usize = 128;
/// Fewest rows in a window on average.
const FEWEST_ROWS: f64 = 20.0;
/// Median of the square of a normally distributed number of variance 1.
const MEDIAN_SQUARE: f64 = 0.4549;
/// Share of the variance of random samples below which samples are not random.
const REGULAR: f64 = 0.35;

/// Numbers of rows in windows of equal length, which doubles as time goes on.
///
/// Whatever a program does, numbers of random samples with probability `p` vary by at least `1 - p` times their mean. Those of a counter
/// vary less. Neighbours are compared, so that what changes slowly does not matter, and the median is taken of what changes at times.
#[derive(Debug, Clone, Default)]
struct Counts {
    start: Option<u64>,
    /// Length of a window as a power of two.
    width: u32,
    counts: Vec<u32>,
}

impl Counts {
    fn add(&mut self, time: u64) {
        let since = time.saturating_sub(*self.start.get_or_insert(time));
        let mut at = usize::try_from(since >> self.width).unwrap_or(usize::MAX);
        while at >= WINDOWS {
            self.counts = joined(&self.counts);
            self.width += 1;
            at = usize::try_from(since >> self.width).unwrap_or(usize::MAX);
        }
        if self.counts.len() <= at {
            self.counts.resize(at + 1, 0);
        }
        if let Some(count) = self.counts.get_mut(at) {
            *count = count.saturating_add(1);
        }
    }

    fn are_regular(&self, period: f64) -> bool {
        let mut counts = self.counts.clone();
        // The last window is cut off.
        counts.pop();
        while counts.len() >= FEWEST_WINDOWS {
            let rows: u64 = counts.iter().copied().map(u64::from).sum();
            let mean = real(rows) / real(counts.len() as u64);
            let mut squares: Vec<u64> = counts
                .windows(2)
                .map(|pair| match pair {
                    [a, b] => u64::from(a.abs_diff(*b)).pow(2),
                    _ => 0,
                })
                .collect();
            squares.sort_unstable();
            let median = squares.get(squares.len() / 2).copied().unwrap_or(0);
            let variance = real(median) / 2.0 / MEDIAN_SQUARE;
            // Windows without rows have no variance.
            let empty = counts.iter().filter(|count| **count == 0).count();
            let is_busy = mean >= FEWEST_ROWS && empty * 10 < counts.len();
            if is_busy && variance < REGULAR * (1.0 - 1.0 / period) * mean {
                return true;
            }
            counts = joined(&counts);
        }
        false
    }
}

/// Windows of twice the length.
fn joined(counts: &[u32]) -> Vec<u32> {
    let sum = |pair: &[u32]| {
        pair.iter()
            .fold(0_u32, |sum, count| sum.saturating_add(*count))
    };
    counts.chunks(2).map(sum).collect()
}

/// Times between the rows of a kind.
#[derive(Debug, Clone)]
struct Gaps {
    windows: Counts,
    last: Option<u64>,
    count: u64,
    bins: Vec<u64>,
}

impl Default for Gaps {
    fn default() -> Self {
        Self {
            windows: Counts::default(),
            last: None,
            count: 0,
            bins: vec![0; BINS],
        }
    }
}

impl Gaps {
    fn add(&mut self, time: u64) {
        self.windows.add(time);
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
        self.quantile(high) < factor * self.quantile(low) || self.windows.are_regular(period)
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
        for at in 0..period * 6000 {
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
                (13, 18_000_000),
            ] {
                assert!(!found(burst, pause, period, true), "{period}, {burst}");
                let told = found(burst, pause, period, false);
                assert!(told, "{period}, {burst}");
            }
        }
    }
}
