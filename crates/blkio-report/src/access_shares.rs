//! Shares of accesses by how often sectors are accessed.

use std::collections::BTreeMap;

/// Returns the shares of all accesses that go to the most accessed hundredths of the sectors.
#[must_use]
pub fn hottest(histogram: &BTreeMap<u64, u64>, percents: &[u64]) -> Vec<(u64, f64)> {
    let sectors: u128 = histogram.values().map(|n| u128::from(*n)).sum();
    let product = |(count, n): (&u64, &u64)| u128::from(*count) * u128::from(*n);
    let accesses: u128 = histogram.iter().map(product).sum();
    if accesses == 0 {
        return Vec::new();
    }
    let share = |percent: u64| {
        // A part of a sector counts as such.
        let mut left = sectors as f64 * percent as f64 / 100.0;
        let mut sum = 0.0;
        for (count, n) in histogram.iter().rev() {
            let taken = left.min(*n as f64);
            sum += taken * *count as f64;
            left -= taken;
        }
        sum / accesses as f64
    };
    percents.iter().map(|p| (*p, share(*p))).collect()
}

/// Returns the cumulative share of distinct sectors by access count.
#[must_use]
pub fn cumulative(histogram: &BTreeMap<u64, u64>) -> Vec<(u64, f64)> {
    let total: u64 = histogram.values().sum();
    let mut below = 0;
    histogram
        .iter()
        .map(|(count, sectors)| {
            below += sectors;
            (*count, below as f64 / total as f64)
        })
        .collect()
}
