//! What stands out of a number of alike values.

use crate::words::count;

/// Number of interquartile ranges beyond the quartiles from which a value stands out (Tukey's outer fence).
const FENCES: f64 = 3.0;

/// Minimum number of values among which one can stand out.
pub(crate) const LEAST: usize = 4;

/// Median and scatter of values.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scatter {
    pub(crate) median: f64,
    low: f64,
    high: f64,
}

impl Scatter {
    /// Describes values; `None` for too few. `least` is the smallest interquartile range that is assumed: values are no more exact.
    pub(crate) fn of(values: &[f64], least: f64) -> Option<Self> {
        if values.len() < LEAST {
            return None;
        }
        let sorted = stats::sorted(values);
        let (first, third) = (
            stats::quantile(&sorted, 0.25),
            stats::quantile(&sorted, 0.75),
        );
        let range = (third - first).max(least);
        Some(Self {
            median: stats::quantile(&sorted, 0.5),
            low: first - FENCES * range,
            high: third + FENCES * range,
        })
    }

    pub(crate) fn is_above(&self, value: f64) -> bool {
        value > self.high
    }

    pub(crate) fn is_outside(&self, value: f64) -> bool {
        value > self.high || value < self.low
    }
}

/// Returns the number of standard deviations by which a count exceeds its expectation.
pub(crate) fn z(found: usize, mean: f64, variance: f64) -> f64 {
    match variance > 0.0 {
        true => (count(found) - mean) / variance.sqrt(),
        false => 0.0,
    }
}

/// Returns the probability of at least `found` of `n` events, each of which happens with probability `chance`. Where these differ, it is an
/// upper bound for numbers above their mean (Hoeffding).
pub(crate) fn binomial_sf(found: usize, n: usize, chance: f64) -> f64 {
    if found == 0 || chance >= 1.0 {
        return 1.0;
    }
    if found > n || chance <= 0.0 {
        return 0.0;
    }
    let ln_of = |k: usize| {
        let ways = stats::ln_gamma(count(n) + 1.0)
            - stats::ln_gamma(count(k) + 1.0)
            - stats::ln_gamma(count(n - k) + 1.0);
        ways + count(k) * chance.ln() + count(n - k) * (-chance).ln_1p()
    };
    let sum: f64 = (found..=n).map(|k| ln_of(k).exp()).sum();
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tails_of_counts() {
        let near = |a: f64, b: f64| assert!((a - b).abs() <= 1e-12, "{a} {b}");
        near(binomial_sf(2, 3, 0.5), 0.5);
        near(binomial_sf(3, 3, 0.25), 1.0 / 64.0);
        near(binomial_sf(1, 4, 0.1), 1.0 - 0.9_f64.powi(4));
        near(binomial_sf(0, 4, 0.1), 1.0);
        near(binomial_sf(5, 4, 0.1), 0.0);
        near(binomial_sf(4, 4, 1.0), 1.0);
    }

    #[test]
    fn one_of_many_stands_out_and_none_of_alike_ones() {
        let mut values: Vec<f64> = (0..60).map(|n| 1.0 + 0.001 * f64::from(n % 7)).collect();
        let scatter = Scatter::of(&values, 0.0).unwrap();
        assert!(values.iter().all(|value| !scatter.is_outside(*value)));
        values.push(1.3);
        let scatter = Scatter::of(&values, 0.0).unwrap();
        assert!(scatter.is_above(1.3) && !scatter.is_above(1.007));
        // A tenth of the values is a stage of the job, not an outlier, only where it widens the quartiles.
        assert_eq!(Scatter::of(&[1.0, 2.0], 0.0), None);
    }
}
