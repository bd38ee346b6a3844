//! Random numbers that are the same on every machine.

use super::whole;

/// SplitMix64 generator: small, fast, the same on every machine.
#[derive(Debug, Clone)]
pub(super) struct Random(pub(super) u64);

impl Random {
    pub(super) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Returns a number from 0 (inclusive) to 1 (exclusive).
    pub(super) fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    pub(super) fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit.max(1)
    }

    pub(super) fn exponential(&mut self, mean: f64) -> u64 {
        whole(-(1.0 - self.unit()).ln() * mean)
    }

    /// Returns a number with a heavy tail: the exponent 2.5 has a variance, but no third moment.
    pub(super) fn pareto(&mut self, mean: f64) -> u64 {
        let least = mean * (PARETO - 1.0) / PARETO;
        whole(least * (1.0 - self.unit()).powf(-1.0 / PARETO))
    }

    /// Returns a rank from 0 to below `count`; rank `n` has a probability proportional to
    /// `1 / (n + 1)^exponent`. Uses the inverse of the integral, which approximates the sum well
    /// enough for a generated trace.
    pub(super) fn zipf(&mut self, count: u64, exponent: f64) -> u64 {
        let (first, last) = (0.5, count as f64 + 0.5);
        let u = self.unit();
        let x = if (exponent - 1.0).abs() < 1e-9 {
            first * (last / first).powf(u)
        } else {
            let power = 1.0 - exponent;
            let (low, high) = (first.powf(power), last.powf(power));
            (low + u * (high - low)).powf(1.0 / power)
        };
        whole(x - 0.5).min(count.saturating_sub(1))
    }
}

/// Exponent of the tail of latencies.
const PARETO: f64 = 2.5;
