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

#[cfg(test)]
mod tests {
    use super::*;

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
