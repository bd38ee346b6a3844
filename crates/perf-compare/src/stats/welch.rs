//! Mean, spread, and Welch's test.

use super::student_sf2;

/// Number, mean and sample standard deviation of some values.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Moments {
    pub(crate) n: usize,
    pub(crate) mean: f64,
    /// With n − 1 in the denominator; NaN with fewer than two values.
    pub(crate) std: f64,
}

impl Moments {
    /// Values that are NaN do not take part. The sums are compensated (Kahan), and the deviations are those of
    /// Welford, so that equal values have no spread whatever their size.
    pub(crate) fn of(values: impl Iterator<Item = f64>) -> Self {
        let (mut n, mut sum, mut lost) = (0_usize, 0.0_f64, 0.0_f64);
        let (mut mean, mut squares) = (0.0_f64, 0.0_f64);
        for value in values.filter(|value| !value.is_nan()) {
            n += 1;
            let y = value - lost;
            let t = sum + y;
            lost = t - sum - y;
            if lost.is_nan() {
                // An infinite value stays the sum.
                lost = 0.0;
            }
            sum = t;
            let delta = value - mean;
            mean += delta / n as f64;
            squares += delta * (value - mean);
        }
        Self {
            n,
            mean: if n == 0 { f64::NAN } else { sum / n as f64 },
            std: if n < 2 {
                f64::NAN
            } else {
                (squares / (n - 1) as f64).sqrt()
            },
        }
    }
}

/// Two-sided p of Welch's t test, with the degrees of freedom of Welch and Satterthwaite.
///
/// No spread on either side: NaN for equal means, 0 for different ones.
pub(crate) fn welch_p(one: Moments, two: Moments) -> f64 {
    let (v1, v2) = (
        one.std * one.std / one.n as f64,
        two.std * two.std / two.n as f64,
    );
    let df = (v1 + v2).powi(2) / (v1 * v1 / (one.n as f64 - 1.0) + v2 * v2 / (two.n as f64 - 1.0));
    let df = if df.is_nan() { 1.0 } else { df };
    student_sf2((one.mean - two.mean) / (v1 + v2).sqrt(), df)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "planted numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn moments_of_equal_huge_values_have_no_spread() {
        let m = Moments::of([24_867_202_484_509.465; 9].into_iter());
        assert_eq!(m.std, 0.0);
        assert_eq!(m.mean, 24_867_202_484_509.465);
        assert!(Moments::of([1.0].into_iter()).std.is_nan());
    }

    #[test]
    fn an_infinite_value_makes_the_mean_infinite() {
        let m = Moments::of([1.0, f64::NEG_INFINITY, 3.0].into_iter());
        assert_eq!(m.mean, f64::NEG_INFINITY);
        assert!(m.std.is_nan());
    }

    #[test]
    fn welch_by_hand() {
        // 1..5 against 3..7: t = 2, df = 8, so p = 0.0805...
        let one = Moments::of((1..=5).map(f64::from));
        let two = Moments::of((3..=7).map(f64::from));
        assert!((welch_p(one, two) - 0.080_516_238).abs() < 1e-7);
        let flat = |mean| Moments {
            n: 3,
            mean,
            std: 0.0,
        };
        assert!(welch_p(flat(1.0), flat(1.0)).is_nan());
        assert_eq!(welch_p(flat(1.0), flat(2.0)), 0.0);
    }
}
