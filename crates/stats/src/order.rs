//! Order statistics.

/// Returns the values in ascending order.
#[must_use]
pub fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted
}

/// Returns the `q` quantile (0 to 1) of ascending values; NaN without values. See [`quantile_at`].
#[must_use]
pub fn quantile(sorted: &[f64], q: f64) -> f64 {
    quantile_at(sorted.len(), q, |at| {
        sorted.get(at).copied().unwrap_or(f64::NAN)
    })
    .unwrap_or(f64::NAN)
}

/// Returns the `q` quantile (0 to 1) of `n` ascending values, which `at` returns by index from 0;
/// `None` without values.
///
/// Linear interpolation between neighbours, at `q (n − 1)`: Hyndman and Fan's type 7, numpy's `linear` with its way of
/// rounding (from the nearer neighbour), so that results are equal to the last bit. Cost: two calls of `at`.
///
/// ```
/// let sorted = [10_i64, 20];
/// let p90 = stats::quantile_at(sorted.len(), 0.9, |at| sorted[at] as f64);
/// assert_eq!(p90, Some(19.0));
/// ```
pub fn quantile_at(n: usize, q: f64, at: impl Fn(usize) -> f64) -> Option<f64> {
    let last = n.checked_sub(1)?;
    let (low, share) = quantile_position(last, q);
    let (a, b) = (at(low), at((low + 1).min(last)));
    let d = b - a;
    Some(if share < 0.5 {
        a + d * share
    } else {
        b - d * (1.0 - share)
    })
}

/// Returns the `percent` percentile (0 to 100) of ascending integers; 0 without values. See
/// [`quantile_at`].
///
/// ```
/// assert_eq!(stats::percentile(&[10, 20, 30, 40], 50.0), 25.0);
/// ```
#[must_use]
pub fn percentile(sorted: &[i64], percent: f64) -> f64 {
    let at = |at: usize| sorted.get(at).map_or(0.0, |value| *value as f64);
    quantile_at(sorted.len(), percent / 100.0, at).unwrap_or(0.0)
}

/// Returns the index below the `q` quantile of values numbered from 0 to `last`, and the fraction
/// of the distance to the next value, for sources that return only some of their values.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a position between 0 and `last`"
)]
#[must_use]
pub fn quantile_position(last: usize, q: f64) -> (usize, f64) {
    let position = last as f64 * q.clamp(0.0, 1.0);
    let low = position.floor();
    (low as usize, position - low)
}

/// Returns the rank, from 1 to `n`, of the `percentile` (0 to 100) among `n` values:
/// `ceil(percentile / 100 n)`; 0 without values.
///
/// The value of that rank is a recorded one, not an interpolated one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "the value is clamped to 1..=n before"
)]
#[must_use]
pub fn nearest_rank(percentile: f64, n: u64) -> u64 {
    if n == 0 {
        return 0;
    }
    ((percentile / 100.0 * n as f64).ceil().clamp(1.0, n as f64) as u64).min(n)
}

/// Returns the median, the mean of the middle two of an even number; NaN without values.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    quantile(&sorted(values), 0.5)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the last bit is the point")]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_rounded_from_the_nearer_neighbour() {
        assert_eq!(quantile(&[0.0, 10.0], 0.9), 10.0 - 10.0 * (1.0 - 0.9));
        assert_eq!(quantile(&[0.0, 10.0], 0.1), 1.0);
        assert_eq!(quantile(&[3.0], 0.99), 3.0);
        assert_eq!(quantile(&[1.0, 2.0], -1.0), 1.0);
        assert_eq!(quantile(&[1.0, 2.0], 2.0), 2.0);
        assert!(quantile(&[], 0.5).is_nan());
        assert_eq!(median(&[3.0, 1.0, 2.0, 10.0]), 2.5);
    }

    #[test]
    fn ranks_round_up() {
        let ranks = [50.0, 99.0, 100.0, 0.0].map(|p| nearest_rank(p, 10));
        assert_eq!(ranks, [5, 10, 10, 1]);
        assert_eq!(nearest_rank(50.0, 0), 0);
    }
}
