//! Converts between exact nanoseconds and the reals of statistics.

/// Returns an integer as a real; exact below 2^53, which is 104 days in nanoseconds.
#[expect(
    clippy::cast_precision_loss,
    reason = "statistics of differences that are far below 2^53"
)]
pub fn real(n: i64) -> f64 {
    n as f64
}

/// Returns a count as a real.
#[expect(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
pub fn count(n: usize) -> f64 {
    n as f64
}

/// Returns the nearest integer, saturating at the ends of the range; 0 for NaN.
#[expect(
    clippy::cast_possible_truncation,
    reason = "casts from reals saturate, which is what is wanted"
)]
pub fn nearest(x: f64) -> i64 {
    x.round() as i64
}

/// Returns the lower median of sorted values.
pub fn lower_median(sorted: &[i64]) -> Option<i64> {
    sorted.get(sorted.len().checked_sub(1)? / 2).copied()
}

/// Returns the lower median of values in any order.
pub fn median(mut values: Vec<i64>) -> Option<i64> {
    values.sort_unstable();
    lower_median(&values)
}
