//! Values and their percentiles, exact for as long as that is cheap.

use stats::nearest_rank;

use crate::num::{bit_length, index};

/// Values that are kept one by one; beyond, they are counted in bins.
pub(super) const EXACT: usize = 1 << 21;
/// Significant bits of a bin: it is narrower than 1/256 of its values.
const BITS: u32 = 8;

/// A set of values: count, sum, extremes, and percentiles by nearest rank.
///
/// Up to two million values the percentiles are exact; beyond, they are within 0.4 % (a bin's upper end, never above the
/// largest value). The order of values does not matter.
#[derive(Debug, Clone, Default)]
pub struct Distribution {
    values: Vec<u64>,
    bins: Vec<u64>,
    /// Number of values.
    pub count: u64,
    /// Their sum.
    pub sum: u128,
    squares: f64,
    /// The smallest, 0 without values.
    pub min: u64,
    /// The largest, 0 without values.
    pub max: u64,
}

/// Returns the bin of a value.
pub(super) fn bin_of(value: u64) -> usize {
    let length = bit_length(value);
    if length <= BITS + 1 {
        return index(value);
    }
    let shift = length - BITS - 1;
    index((u64::from(shift) << BITS) + (value >> shift))
}

/// Returns the largest value of a bin.
pub(super) fn top_of(bin: usize) -> u64 {
    let bin = bin as u64;
    if bin < 2 << BITS {
        return bin;
    }
    let shift = (bin >> BITS) - 1;
    let mantissa = bin - (shift << BITS);
    // The last bin ends at the largest number, where the shift overflows to nothing.
    ((mantissa + 1) << shift).wrapping_sub(1)
}

impl Distribution {
    /// Takes a value.
    #[inline]
    pub fn add(&mut self, value: u64) {
        if self.count == 0 {
            self.min = value;
        }
        self.count += 1;
        self.sum += u128::from(value);
        self.squares += value as f64 * value as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.bins.is_empty() {
            self.values.push(value);
            if self.values.len() > EXACT {
                self.go_to_bins();
            }
        } else {
            self.count_in_bin(value);
        }
    }

    /// Takes a value several times.
    pub fn add_many(&mut self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        if self.count == 0 {
            self.min = value;
        }
        self.count += times;
        self.sum += u128::from(value) * u128::from(times);
        self.squares += value as f64 * value as f64 * times as f64;
        self.min = self.min.min(value);
        self.max = self.max.max(value);
        if self.bins.is_empty() {
            let room = EXACT.saturating_sub(self.values.len());
            if times <= room as u64 {
                self.values.extend((0..times).map(|_| value));
                return;
            }
            self.go_to_bins();
        }
        if let Some(bin) = self.bins.get_mut(bin_of(value)) {
            *bin += times;
        }
    }

    /// Counts in bins from now on, if there are more values than this with those that are still to come.
    pub(super) fn keep_at_most(&mut self, most: usize, coming: u64) {
        if self.bins.is_empty() && self.count.saturating_add(coming) > most as u64 {
            self.go_to_bins();
        }
    }

    fn go_to_bins(&mut self) {
        self.bins = vec![0; bin_of(u64::MAX) + 1];
        for value in std::mem::take(&mut self.values) {
            self.count_in_bin(value);
        }
    }

    fn count_in_bin(&mut self, value: u64) {
        if let Some(bin) = self.bins.get_mut(bin_of(value)) {
            *bin += 1;
        }
    }

    /// Returns `true` if percentiles are exact.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.bins.is_empty()
    }

    /// Mean, `None` without values.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// Standard deviation of the values as a whole population, `None` without values.
    #[must_use]
    pub fn deviation(&self) -> Option<f64> {
        let mean = self.mean()?;
        Some(
            (self.squares / self.count as f64 - mean * mean)
                .max(0.0)
                .sqrt(),
        )
    }

    /// Returns the percentiles by nearest rank, `v[ceil(p/100*n) - 1]`, in the order asked for; empty without values.
    #[must_use]
    pub fn percentiles(&mut self, percentiles: &[f64]) -> Vec<u64> {
        if self.count == 0 {
            return Vec::new();
        }
        self.settle();
        percentiles
            .iter()
            .map(|percentile| self.at_rank(nearest_rank(*percentile, self.count)))
            .collect()
    }

    /// Sorts the values, which percentiles would do.
    pub(crate) fn settle(&mut self) {
        self.values.sort_unstable();
    }

    fn at_rank(&self, rank: u64) -> u64 {
        if self.is_exact() {
            let place = index(rank.saturating_sub(1));
            return self.values.get(place).copied().unwrap_or(self.max);
        }
        let mut seen = 0;
        for (bin, count) in self.bins.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return top_of(bin).clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// Counts by the number of significant bits of `value / unit`.
    #[must_use]
    pub fn log2_counts(&self, unit: u64) -> Vec<(u32, u64)> {
        let mut counts = [0_u64; 65];
        let mut add = |value: u64, times: u64| {
            let bits = index(bit_length(value / unit.max(1)).into());
            if let Some(count) = counts.get_mut(bits) {
                *count += times;
            }
        };
        self.values.iter().for_each(|value| add(*value, 1));
        for (bin, count) in self.bins.iter().enumerate().filter(|(_, c)| **c > 0) {
            add(top_of(bin), *count);
        }
        (0..).zip(counts).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn bins_are_narrow_and_in_order(value in any::<u64>(), shift in 0_u32..64) {
            let value = value >> shift;
            let bin = bin_of(value);
            let top = top_of(bin);
            prop_assert!(top >= value);
            prop_assert!((top - value) as f64 <= value as f64 / 256.0);
            prop_assert!(bin == 0 || top_of(bin - 1) < value);
        }
    }

    #[test]
    fn many_times_is_once_many_times() {
        for times in [0, 1, 5, EXACT as u64, EXACT as u64 + 1] {
            let (mut many, mut single) = (Distribution::default(), Distribution::default());
            for value in [7, 300, 3] {
                many.add_many(value, times);
                (0..times).for_each(|_| single.add(value));
            }
            assert_eq!(many.is_exact(), single.is_exact(), "{times}");
            assert_eq!((many.count, many.sum), (single.count, single.sum));
            assert_eq!((many.min, many.max), (single.min, single.max));
            assert_eq!(many.deviation(), single.deviation());
            let ranks = [0.0, 33.0, 34.0, 99.0];
            assert_eq!(many.percentiles(&ranks), single.percentiles(&ranks));
        }
    }

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let mut values = Distribution::default();
        (1..=10).for_each(|v| values.add(v * 10));
        assert_eq!(
            values.percentiles(&[0.0, 10.0, 10.1, 50.0, 90.0, 99.9, 100.0]),
            [10, 10, 20, 50, 90, 100, 100]
        );
        assert_eq!(values.mean(), Some(55.0));
        assert!(Distribution::default().percentiles(&[50.0]).is_empty());
    }

    #[test]
    fn many_values_stay_within_half_a_percent() {
        let mut values = Distribution::default();
        for v in 0..3_000_000_u64 {
            values.add(v * 7 % 3_000_000);
        }
        assert!(!values.is_exact());
        let p50 = values.percentiles(&[50.0])[0] as f64;
        assert!((p50 / 1_500_000.0 - 1.0).abs() < 0.005, "{p50}");
        assert_eq!(values.max, 2_999_999);
    }
}
