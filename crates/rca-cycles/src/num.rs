//! The few conversions between integers and reals.

/// A count or index as a real; exact below 2^53.
#[expect(
    clippy::cast_precision_loss,
    reason = "counts of events are far below 2^53"
)]
pub(crate) fn real(count: usize) -> f64 {
    count as f64
}

/// Nanoseconds as a real; statistics only.
#[expect(
    clippy::cast_precision_loss,
    reason = "spans are far below 2^53 ns, which is 104 days"
)]
pub(crate) fn span(ns: i64) -> f64 {
    ns as f64
}

/// A real rounded to nanoseconds; saturates.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` saturates, which is what is wanted of a prediction"
)]
pub(crate) fn nanos(value: f64) -> i64 {
    value.round() as i64
}

/// A place in a table that has at most 2^32 rows, as the rows of a trace do.
#[expect(
    clippy::cast_possible_truncation,
    reason = "rows of a trace have 32-bit ids"
)]
pub(crate) fn row(index: usize) -> u32 {
    debug_assert!(u32::try_from(index).is_ok());
    index as u32
}

/// An index of a bin, from a real that is not negative.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "`as` saturates; callers clamp"
)]
pub(crate) fn bin(value: f64) -> usize {
    value as usize
}

/// The time in microseconds that a reader of binary64 microseconds sees: the double next to the
/// decimal text, as far as nanoseconds go.
pub(crate) fn micros(ns: i64) -> f64 {
    #[expect(
        clippy::cast_precision_loss,
        reason = "whole microseconds since 1970 are below 2^53"
    )]
    let whole = ns.div_euclid(1000) as f64;
    let part = span(ns.rem_euclid(1000));
    if (-9_000_000_000_000..=9_000_000_000_000).contains(&ns) {
        // One division rounds once.
        return span(ns) / 1000.0;
    }
    whole + part / 1000.0
}

/// Median of a list, the mean of the middle two of an even number; 0 of none.
pub(crate) fn median(values: &[f64]) -> f64 {
    median_with_zeros(values, 0)
}

/// [`median`] of these together with as many zeros more.
pub(crate) fn median_with_zeros(values: &[f64], zeros: usize) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let below = sorted.partition_point(|v| *v < 0.0);
    let at = |i: usize| match i.checked_sub(below) {
        None => sorted[i],
        Some(above) if above < zeros => 0.0,
        Some(_) => sorted[i - zeros],
    };
    let n = sorted.len() + zeros;
    match n {
        0 => 0.0,
        _ if n % 2 == 1 => at(n / 2),
        _ => f64::midpoint(at(n / 2 - 1), at(n / 2)),
    }
}

/// [`stats::quantile`] of values in any order; 0 of none.
pub(crate) fn quantile(values: &[f64], q: f64) -> f64 {
    match values {
        [] => 0.0,
        values => stats::quantile(&stats::sorted(values), q),
    }
}

/// Mean and population standard deviation; zeros of none.
pub(crate) fn mean_std(values: &[f64]) -> (f64, f64) {
    if values.is_empty() {
        return (0.0, 0.0);
    }
    let n = real(values.len());
    let mean = values.iter().sum::<f64>() / n;
    let variance = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / n;
    (mean, variance.sqrt())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn microseconds_are_those_of_the_decimal_text() {
        for (ns, text) in [
            (1_700_000_000_000_912_751_i64, "1700000000000912.751"),
            (1_124_477, "1124.477"),
            (132_035, "132.035"),
        ] {
            assert_eq!(micros(ns).to_bits(), text.parse::<f64>().unwrap().to_bits());
        }
    }

    #[test]
    fn order_statistics() {
        assert!((median(&[3.0, 1.0, 2.0, 10.0]) - 2.5).abs() < 1e-12);
        assert!((quantile(&[0.0, 10.0], 0.8) - 8.0).abs() < 1e-12);
        let (mean, std) = mean_std(&[1.0, 3.0]);
        assert!((mean - 2.0).abs() < 1e-12 && (std - 1.0).abs() < 1e-12);
    }
}
