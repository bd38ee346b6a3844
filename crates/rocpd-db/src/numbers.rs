//! Conversions between integers and reals, each with its limits.

/// 2^63, the first real that is no `i64`.
const TWO_63: f64 = 9_223_372_036_854_775_808.0;

/// The nearest real.
#[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
pub(crate) fn real(value: i64) -> f64 {
    value as f64
}

/// The nearest real.
#[expect(clippy::cast_precision_loss, reason = "rounding is what is asked for")]
pub(crate) fn real_i128(value: i128) -> f64 {
    value as f64
}

/// An integer that a real is exactly.
pub(crate) fn whole(value: f64) -> Option<i64> {
    (value.fract() == 0.0 && (-TWO_63..TWO_63).contains(&value)).then(|| truncated(value))
}

/// The integer part; limits of `i64` where it is outside, 0 for NaN.
#[expect(
    clippy::cast_possible_truncation,
    reason = "cutting off is what is asked for, and `as` saturates"
)]
pub(crate) fn truncated(value: f64) -> i64 {
    value as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_numbers_only() {
        assert_eq!(whole(4.0), Some(4));
        assert_eq!(whole(4.5), None);
        assert_eq!(whole(TWO_63), None);
        assert_eq!(whole(-TWO_63), Some(i64::MIN));
        assert_eq!(whole(f64::NAN), None);
    }
}
