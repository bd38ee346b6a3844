//! Distribution of durations.

use serde::Serialize;
use stats::percentile;

/// Distribution of durations in nanoseconds.
///
/// Quantiles, including the median, are those of [`percentile`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Spread {
    /// Number of values.
    pub count: u64,
    /// Sum.
    pub sum_ns: i64,
    /// Arithmetic mean; 0 without values.
    pub mean_ns: f64,
    /// Minimum.
    pub min_ns: i64,
    /// Maximum.
    pub max_ns: i64,
    /// Sample standard deviation (divided by n - 1); `None` for fewer than two values.
    pub std_ns: Option<f64>,
    /// The median.
    pub median_ns: f64,
    /// The 90th percentile.
    pub p90_ns: f64,
    /// The 95th percentile.
    pub p95_ns: f64,
    /// The 99th percentile.
    pub p99_ns: f64,
}

impl Spread {
    /// Returns the distribution of `values`, which it sorts. Cost: the sort.
    #[expect(clippy::cast_precision_loss, reason = "statistics")]
    pub fn of(values: &mut [i64]) -> Self {
        values.sort_unstable();
        let (Some(&min_ns), Some(&max_ns)) = (values.first(), values.last()) else {
            return Self::default();
        };
        let sum: i128 = values.iter().map(|v| i128::from(*v)).sum();
        let n = values.len() as f64;
        let mean_ns = sum as f64 / n;
        let squares: f64 = values.iter().map(|v| (*v as f64 - mean_ns).powi(2)).sum();
        Self {
            count: values.len() as u64,
            sum_ns: i64::try_from(sum).unwrap_or(i64::MAX),
            mean_ns,
            min_ns,
            max_ns,
            std_ns: (values.len() > 1).then(|| (squares / (n - 1.0)).sqrt()),
            median_ns: percentile(values, 50.0),
            p90_ns: percentile(values, 90.0),
            p95_ns: percentile(values, 95.0),
            p99_ns: percentile(values, 99.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_interpolate() {
        let s = Spread::of(&mut [40, 10, 30, 20]);
        assert_eq!((s.count, s.sum_ns, s.min_ns, s.max_ns), (4, 100, 10, 40));
        // numpy.quantile([10, 20, 30, 40], [0.5, 0.9, 0.95, 0.99])
        let got = [s.mean_ns, s.median_ns, s.p90_ns, s.p95_ns, s.p99_ns];
        for (got, want) in got.iter().zip([25.0, 25.0, 37.0, 38.5, 39.7]) {
            assert!((got - want).abs() < 1e-9, "{got} against {want}");
        }
        let std = s.std_ns.unwrap();
        assert!((std - 12.909_944_487_358_056).abs() < 1e-9);
        assert_eq!(Spread::of(&mut []), Spread::default());
        assert_eq!(Spread::of(&mut [7]).std_ns, None);
    }
}
