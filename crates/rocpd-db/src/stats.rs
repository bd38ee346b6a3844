//! Sums over durations, exact.

use crate::numbers::{real, real_i128};

/// Count, sum, extremes and spread of durations; integers throughout, so the order of records does not matter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Stat {
    /// How many.
    pub calls: u64,
    /// Their sum, ns.
    pub total_ns: i128,
    /// The sum of their squares, ns².
    pub squares_ns2: i128,
    /// The shortest, ns.
    pub min_ns: i64,
    /// The longest, ns.
    pub max_ns: i64,
}

impl Default for Stat {
    fn default() -> Self {
        Self {
            calls: 0,
            total_ns: 0,
            squares_ns2: 0,
            min_ns: i64::MAX,
            max_ns: i64::MIN,
        }
    }
}

impl Stat {
    /// Adds a duration.
    #[inline]
    pub fn add(&mut self, duration_ns: i64) {
        let wide = i128::from(duration_ns);
        self.calls += 1;
        self.total_ns += wide;
        self.squares_ns2 = self.squares_ns2.saturating_add(wide * wide);
        self.min_ns = self.min_ns.min(duration_ns);
        self.max_ns = self.max_ns.max(duration_ns);
    }

    /// Adds all that another one counted.
    pub fn merge(&mut self, other: &Self) {
        self.calls += other.calls;
        self.total_ns += other.total_ns;
        self.squares_ns2 = self.squares_ns2.saturating_add(other.squares_ns2);
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    /// The mean, ns; 0 of none.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.calls == 0 {
            return 0.0;
        }
        real_i128(self.total_ns) / real_i128(i128::from(self.calls))
    }

    /// The sample standard deviation (divisor n − 1), ns; `None` of fewer than two.
    #[must_use]
    pub fn stddev_ns(&self) -> Option<f64> {
        if self.calls < 2 {
            return None;
        }
        let n = i128::from(self.calls);
        // n·Σd² − (Σd)² is an exact integer: nothing cancels.
        let spread = n
            .checked_mul(self.squares_ns2)
            .zip(self.total_ns.checked_mul(self.total_ns))
            .map_or_else(
                || {
                    let mean = self.mean_ns();
                    real_i128(n) * (real_i128(self.squares_ns2) - real_i128(n) * mean * mean)
                },
                |(squares, square)| real_i128(squares - square),
            );
        Some((spread.max(0.0) / real_i128(n) / real_i128(n - 1)).sqrt())
    }

    /// The share of a total, percent; none of a total of 0, as division by 0 gives NULL in SQL.
    #[must_use]
    pub fn share_pct(&self, of_ns: i128) -> Option<f64> {
        (of_ns != 0).then(|| real_i128(self.total_ns) * 100.0 / real_i128(of_ns))
    }
}

/// Quantiles and spread of a list of durations.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[non_exhaustive]
pub struct Quantiles {
    /// Median, ns.
    pub p50_ns: f64,
    /// 90 % are at most this long, ns.
    pub p90_ns: f64,
    /// 95 %, ns.
    pub p95_ns: f64,
    /// 99 %, ns.
    pub p99_ns: f64,
    /// 99.9 %, ns.
    pub p999_ns: f64,
    /// Median distance from the median, ns.
    pub mad_ns: f64,
}

impl Quantiles {
    /// Sorts durations and returns their quantiles. Linear interpolation between the two nearest (type 7 of Hyndman and Fan).
    #[must_use]
    pub fn of(durations_ns: &mut [i64]) -> Self {
        durations_ns.sort_unstable();
        let at = |percent| ::stats::percentile(durations_ns, percent);
        let p50_ns = at(50.0);
        let mut found = Self {
            p50_ns,
            p90_ns: at(90.0),
            p95_ns: at(95.0),
            p99_ns: at(99.0),
            p999_ns: at(99.9),
            mad_ns: 0.0,
        };
        let mut distances: Vec<f64> = durations_ns
            .iter()
            .map(|&d| (real(d) - p50_ns).abs())
            .collect();
        distances.sort_unstable_by(f64::total_cmp);
        if !distances.is_empty() {
            found.mad_ns = ::stats::quantile(&distances, 0.5);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spread_of_known_numbers() {
        let mut stat = Stat::default();
        for duration in [2, 4, 4, 4, 5, 5, 7, 9] {
            stat.add(duration);
        }
        assert_eq!((stat.calls, stat.total_ns), (8, 40));
        assert_eq!((stat.min_ns, stat.max_ns), (2, 9));
        assert_eq!(stat.mean_ns().to_bits(), 5.0_f64.to_bits());
        assert!((stat.stddev_ns().unwrap() - (32.0_f64 / 7.0).sqrt()).abs() < 1e-15);
        let mut one = Stat::default();
        one.add(3);
        assert_eq!(one.stddev_ns(), None);
    }

    #[test]
    fn large_equal_durations_have_no_spread() {
        let mut stat = Stat::default();
        for _ in 0..1000 {
            stat.add(1 << 60);
        }
        assert!(stat.stddev_ns().unwrap() < 1e6);
        let mut small = Stat::default();
        for _ in 0..1000 {
            small.add(1_000_000_007);
        }
        assert_eq!(small.stddev_ns().unwrap().to_bits(), 0.0_f64.to_bits());
    }

    #[test]
    fn quantiles_between_neighbours() {
        let mut durations: Vec<i64> = (1..=101).rev().collect();
        let found = Quantiles::of(&mut durations);
        assert_eq!(found.p50_ns.to_bits(), 51.0_f64.to_bits());
        assert_eq!(found.p90_ns.to_bits(), 91.0_f64.to_bits());
        assert!((found.p999_ns - 100.9).abs() < 1e-9);
        assert_eq!(found.mad_ns.to_bits(), 25.0_f64.to_bits());
    }
}
