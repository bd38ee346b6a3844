//! Estimates the difference between the clocks of two ranks from common instants.
//!
//! The end of a collective that needs data of every rank happens on all of them at nearly the same
//! time. The differences of these ends are the offset of the clocks plus noise that is as likely
//! positive as negative when ranks are alike. Everything here is a median, which up to half of the
//! observations may contradict, and every interval follows from the sign test: it assumes nothing
//! of the noise but that symmetry. What it cannot see is a lag that one rank always has.

use crate::real::{count, nearest, real};
use serde::Serialize;

/// Probability that an interval does not cover the truth.
const MISS: f64 = 0.0001;

/// A line through differences of clocks.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct ClockFit {
    /// Instant on the rank's own clock for which the offset is stated: the middle of the
    /// observations, in nanoseconds.
    pub at_ns: i64,
    /// Lead of the clock over the reference at that instant, in nanoseconds.
    pub ahead_ns: i64,
    /// Half the width of the interval around [`ClockFit::ahead_ns`] that covers the truth in 9,999 of
    /// 10,000 cases, in nanoseconds. With fewer than 15 observations it is their whole range.
    pub ahead_error_ns: i64,
    /// Excess speed of the clock, in nanoseconds per second (parts per billion). Zero if the
    /// observations do not exclude zero.
    pub drift_ppb: f64,
    /// Lower bound of the drift, with the same confidence; infinite if there are too few
    /// observations.
    pub drift_low_ppb: f64,
    /// Upper bound of the drift, with the same confidence; infinite if there are too few
    /// observations.
    pub drift_high_ppb: f64,
    /// Number of collectives to which the line is fitted.
    pub samples: usize,
    /// Median distance of the observations from the line, in nanoseconds.
    pub noise_ns: i64,
}

impl ClockFit {
    /// Returns the fit of the reference's own clock.
    pub fn reference() -> Self {
        Self {
            at_ns: 0,
            ahead_ns: 0,
            ahead_error_ns: 0,
            drift_ppb: 0.0,
            drift_low_ppb: 0.0,
            drift_high_ppb: 0.0,
            samples: 0,
            noise_ns: 0,
        }
    }

    /// Returns the lead of the clock over the reference when it shows `own_ns`.
    pub fn ahead_at(&self, own_ns: i64) -> i64 {
        let since = real(own_ns.saturating_sub(self.at_ns));
        self.ahead_ns
            .saturating_add(nearest(since * self.drift_ppb * 1e-9))
    }

    /// Returns the reference's time when the clock shows `own_ns`.
    pub fn to_reference(&self, own_ns: i64) -> i64 {
        own_ns.saturating_sub(self.ahead_at(own_ns))
    }

    /// Returns half the width of the interval around [`ClockFit::to_reference`]: that of the
    /// offset, plus the error of the drift, which grows with the distance from the middle.
    pub fn error_at(&self, own_ns: i64) -> i64 {
        if self.samples == 0 {
            return 0;
        }
        let since = real(own_ns.saturating_sub(self.at_ns)).abs();
        let slope = (self.drift_high_ppb - self.drift_ppb).max(self.drift_ppb - self.drift_low_ppb);
        let from_drift = if slope.is_finite() {
            nearest(since * slope * 1e-9)
        } else {
            0
        };
        self.ahead_error_ns.saturating_add(from_drift)
    }
}

/// Fits a line to observations `(own, reference)` of equal instants on two clocks. `None` without
/// observations. Cost: sorts.
///
/// The slope is the median of the slopes between observations half the series apart; no two of
/// these share an observation, so that the sign test holds for them exactly. Below 12 observations
/// clocks count as equally fast.
pub fn fit(observations: &[(i64, i64)]) -> Option<ClockFit> {
    let mut points: Vec<(i64, i64)> = observations
        .iter()
        .map(|(own, reference)| (*own, own.saturating_sub(*reference)))
        .collect();
    points.sort_unstable();
    let n = points.len();
    // Offsets may be as large as the time since 1970; after subtracting their middle they are
    // small.
    let mut raw: Vec<i64> = points.iter().map(|p| p.1).collect();
    raw.sort_unstable();
    let base = *raw.get(n.checked_sub(1)? / 2)?;
    let at_ns = points.get(n / 2)?.0;
    let small: Vec<(f64, f64)> = points
        .iter()
        .map(|p| {
            (
                real(p.0.saturating_sub(at_ns)),
                real(p.1.saturating_sub(base)),
            )
        })
        .collect();

    let (mut drift, mut low, mut high) = (0.0, f64::NEG_INFINITY, f64::INFINITY);
    if n >= 12 {
        let half = n / 2;
        let mut slopes: Vec<f64> = small
            .iter()
            .zip(small.iter().skip(half))
            .filter(|(a, b)| b.0 > a.0)
            .map(|(a, b)| (b.1 - a.1) / (b.0 - a.0))
            .collect();
        slopes.sort_unstable_by(f64::total_cmp);
        if let Some((middle, lower, upper)) = median_interval(&slopes) {
            (low, high) = (lower, upper);
            if lower > 0.0 || upper < 0.0 {
                drift = middle;
            }
        }
    }
    let mut residuals: Vec<f64> = small.iter().map(|(t, d)| d - drift * t).collect();
    residuals.sort_unstable_by(f64::total_cmp);
    let (middle, lower, upper) =
        median_interval(&residuals).unwrap_or((0.0, *residuals.first()?, *residuals.last()?));
    let mut noise: Vec<f64> = residuals.iter().map(|r| (r - middle).abs()).collect();
    noise.sort_unstable_by(f64::total_cmp);
    Some(ClockFit {
        at_ns,
        ahead_ns: base.saturating_add(nearest(middle)),
        // One more for rounding.
        ahead_error_ns: nearest((upper - middle).max(middle - lower).ceil()).saturating_add(1),
        drift_ppb: drift * 1e9,
        drift_low_ppb: low * 1e9,
        drift_high_ppb: high * 1e9,
        samples: n,
        noise_ns: noise.get(n / 2).map_or(0, |x| nearest(*x)),
    })
}

/// The median of sorted values and the interval of the sign test around it: from the `k`-th
/// smallest to the `k`-th largest, `k` the largest number for which a fair coin thrown `n` times
/// shows fewer than `k` heads with a chance of at most [`MISS`] / 2. With too few values for any
/// `k` it is the range of all.
fn median_interval(sorted: &[f64]) -> Option<(f64, f64, f64)> {
    let n = sorted.len();
    // The lower of two middle values, as in the clocks of `nccl-stacks`: one of the observations.
    let middle = *sorted.get(n.checked_sub(1)? / 2)?;
    let k = order_of_bound(n).max(1);
    Some((middle, *sorted.get(k - 1)?, *sorted.get(n - k)?))
}

fn order_of_bound(n: usize) -> usize {
    if n > 1000 {
        // The normal approximation; 3.8906 is the quantile of 1 - MISS / 2.
        let k = count(n) / 2.0 - 3.8906 * count(n).sqrt() / 2.0;
        return usize::try_from(nearest(k.floor())).unwrap_or(0);
    }
    let mut term = 0.5_f64.powi(i32::try_from(n).unwrap_or(i32::MAX));
    let mut sum = 0.0;
    for k in 0..n {
        // `term` is the probability of exactly k heads.
        sum += term;
        if sum > MISS / 2.0 {
            return k;
        }
        term *= count(n - k) / count(k + 1);
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A linear congruential generator, so that the tests need no package.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: i64) -> i64 {
            self.0 = self
                .0
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            i64::try_from(self.0 >> 33).unwrap() % n
        }
    }

    #[test]
    fn the_order_of_the_bound_is_that_of_the_binomial_table() {
        // P(X < 1) = 2^-15 = 0.0000305 <= 0.00005 < 2^-14.
        assert_eq!(order_of_bound(14), 0);
        assert_eq!(order_of_bound(15), 1);
        // P(X <= 2 | 20) = 0.000201, P(X <= 1 | 20) = 0.0000200.
        assert_eq!(order_of_bound(20), 2);
        assert!(order_of_bound(1000).abs_diff(order_of_bound(1001)) <= 1);
    }

    #[test]
    fn offset_and_drift_of_clocks_are_covered() {
        let mut dice = Dice(7);
        for run in 0..200 {
            let n = 20 + dice.below(200);
            let offset = dice.below(1 << 40) - (1 << 39);
            let drift = real(dice.below(40_001) - 20_000);
            let points: Vec<(i64, i64)> = (0..n)
                .map(|i| {
                    let t = 1_700_000_000_000_000_000 + i * 2_000_000 + dice.below(500_000);
                    let ahead =
                        offset + nearest(real(t - 1_700_000_000_000_000_000) * drift * 1e-9);
                    // One observation in ten is far off.
                    let wild = if dice.below(10) == 0 {
                        dice.below(1_000_000)
                    } else {
                        0
                    };
                    (t + ahead + dice.below(801) - 400, t + wild)
                })
                .collect();
            let fit = fit(&points).unwrap();
            assert!(
                fit.drift_low_ppb <= drift && drift <= fit.drift_high_ppb,
                "run {run}: drift {drift} {fit:?}"
            );
            for (own, _) in [points[0], points[points.len() - 1]] {
                let truth =
                    offset + nearest(real(own - offset - 1_700_000_000_000_000_000) * drift * 1e-9);
                let error = fit.ahead_at(own) - truth;
                assert!(
                    error.abs() <= fit.error_at(own),
                    "run {run}: {error} {fit:?}"
                );
            }
        }
    }

    #[test]
    fn few_observations_have_no_drift_and_the_range_as_interval() {
        let f = fit(&[(10, 0), (1012, 1000), (2017, 2000)]).unwrap();
        assert_eq!((f.ahead_ns, f.ahead_error_ns, f.drift_ppb), (12, 6, 0.0));
        assert_eq!(fit(&[]), None);
    }
}
