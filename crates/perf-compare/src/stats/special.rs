//! Distribution functions.

use std::f64::consts::{PI, SQRT_2};

/// ln Γ(x) for x > 0, after Lanczos (g = 7, nine terms); relative error below 1e-14.
pub(crate) fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 8] = [
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        return (PI / (PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let mut sum = 0.999_999_999_999_809_9;
    let mut place = 0.0;
    for term in TERMS {
        place += 1.0;
        sum += term / (x + place);
    }
    0.5 * (2.0 * PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Regularised incomplete beta function `I_x(a, b)` by its continued fraction (Lentz's method).
pub(crate) fn beta_inc(a: f64, b: f64, x: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - beta_inc(b, a, 1.0 - x);
    }
    let front = (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (-x).ln_1p()).exp();
    const TINY: f64 = 1e-300;
    let guard = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / guard(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    let mut m = 0.0;
    for _ in 0..10_000 {
        m += 1.0;
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / guard(1.0 + even * d);
        c = guard(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / guard(1.0 + odd * d);
        c = guard(1.0 + odd / c);
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-16 {
            break;
        }
    }
    (front * h / a).clamp(0.0, 1.0)
}

/// Two-sided tail of Student's t with `df` degrees of freedom.
pub(crate) fn student_sf2(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() {
        return f64::NAN;
    }
    if t.is_infinite() {
        return 0.0;
    }
    beta_inc(df / 2.0, 0.5, df / (df + t * t))
}

/// Quantile of Student's t by bisection of its tail; `p` is the probability below.
pub(crate) fn student_quantile(p: f64, df: f64) -> f64 {
    if df > 1e6 {
        return normal_quantile(p);
    }
    let tail = 2.0 * p.min(1.0 - p);
    let (mut low, mut high) = (0.0, 1.0);
    while student_sf2(high, df) > tail && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..200 {
        let middle = 0.5 * (low + high);
        if student_sf2(middle, df) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    if p < 0.5 { -high } else { high }
}

/// Upper tail of the normal distribution; absolute error below 1e-15.
pub(crate) fn normal_sf(z: f64) -> f64 {
    0.5 * erfc(z / SQRT_2)
}

/// Complementary error function: series near zero, continued fraction in the tail.
fn erfc(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < 0.0 {
        return 2.0 - erfc(-x);
    }
    if x < 2.5 {
        // erf x = 2/sqrt(pi) * exp(-x^2) * sum of x^(2n+1) 2^n / (1*3*..*(2n+1))
        let mut term = x;
        let mut sum = x;
        let mut n = 0.0;
        while term > 1e-17 * sum && n < 200.0 {
            n += 1.0;
            term *= 2.0 * x * x / (2.0 * n + 1.0);
            sum += term;
        }
        return 1.0 - 2.0 / PI.sqrt() * (-x * x).exp() * sum;
    }
    let mut fraction = x;
    let mut n = 60.0;
    while n >= 1.0 {
        fraction = x + n / 2.0 / fraction;
        n -= 1.0;
    }
    (-x * x).exp() / PI.sqrt() / fraction
}

/// Quantile of the normal distribution by bisection.
pub(crate) fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() || p <= 0.0 || p >= 1.0 {
        return if p <= 0.0 {
            f64::NEG_INFINITY
        } else if p >= 1.0 {
            f64::INFINITY
        } else {
            p
        };
    }
    let (mut low, mut high) = (-40.0, 40.0);
    for _ in 0..120 {
        let middle = 0.5 * (low + high);
        if normal_sf(middle) > 1.0 - p {
            low = middle;
        } else {
            high = middle;
        }
    }
    0.5 * (low + high)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "planted numbers are exact")]
mod tests {
    use super::*;

    fn near(x: f64, y: f64, tolerance: f64) {
        assert!((x - y).abs() <= tolerance * y.abs().max(1e-300), "{x} {y}");
    }

    #[test]
    fn values_of_printed_tables() {
        near(ln_gamma(5.0), 24.0_f64.ln(), 1e-13);
        near(ln_gamma(0.5), PI.sqrt().ln(), 1e-13);
        near(student_sf2(12.706_204_736, 1.0), 0.05, 1e-9);
        near(student_sf2(2.228_138_852, 10.0), 0.05, 1e-8);
        near(student_sf2(2.0, 2.0), 1.0 - 2.0 / 6.0_f64.sqrt(), 1e-12);
        near(normal_sf(1.959_963_984_540_054), 0.025, 1e-12);
        near(normal_sf(6.0), 9.865_876_450_376_98e-10, 1e-9);
        near(normal_quantile(0.975), 1.959_963_984_540_054, 1e-12);
        near(student_quantile(0.975, 10.0), 2.228_138_852, 1e-8);
        assert_eq!(student_sf2(f64::INFINITY, 3.0), 0.0);
    }
}
