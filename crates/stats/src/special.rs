//! Tails and quantiles of distributions.

use statrs::distribution::{ContinuousCDF as _, Normal};
use statrs::function::beta::checked_beta_reg;
use statrs::function::erf::erfc;
use statrs::function::gamma;

/// Returns ln Γ(x) for x > 0.
#[must_use]
pub fn ln_gamma(x: f64) -> f64 {
    gamma::ln_gamma(x)
}

/// Returns the probability that Student's t with `df` degrees of freedom is farther from 0 than `t`, on either side.
#[must_use]
pub fn student_sf2(t: f64, df: f64) -> f64 {
    if t.is_nan() || df.is_nan() {
        return f64::NAN;
    }
    if t.is_infinite() {
        return 0.0;
    }
    let x = (df / (df + t * t)).clamp(0.0, 1.0);
    checked_beta_reg(df / 2.0, 0.5, x).map_or(f64::NAN, |p| p.clamp(0.0, 1.0))
}

/// Returns the value that Student's t with `df` degrees of freedom is below with probability `p`, by bisection of its tail.
#[must_use]
pub fn student_quantile(p: f64, df: f64) -> f64 {
    // Beyond this the difference to the normal distribution is below one part in a million.
    if df > 1e6 {
        return normal_quantile(p);
    }
    let tail = 2.0 * p.min(1.0 - p);
    let (mut low, mut high) = (0.0, 1.0);
    while student_sf2(high, df) > tail && high < 1e12 {
        high *= 2.0;
    }
    for _ in 0..100 {
        let middle = f64::midpoint(low, high);
        if student_sf2(middle, df) > tail {
            low = middle;
        } else {
            high = middle;
        }
    }
    if p < 0.5 { -high } else { high }
}

/// Returns the probability that a standard normal value is above `z`.
#[must_use]
pub fn normal_sf(z: f64) -> f64 {
    0.5 * erfc(z / std::f64::consts::SQRT_2)
}

/// Returns the value that a standard normal is below with probability `p`; infinite at 0 and 1.
#[must_use]
pub fn normal_quantile(p: f64) -> f64 {
    if p.is_nan() {
        return p;
    }
    Normal::standard().inverse_cdf(p.clamp(0.0, 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(x: f64, y: f64, tolerance: f64) {
        assert!((x - y).abs() <= tolerance * y.abs().max(1e-300), "{x} {y}");
    }

    #[test]
    fn values_of_printed_tables() {
        near(ln_gamma(5.0), 24.0_f64.ln(), 1e-13);
        near(ln_gamma(0.5), std::f64::consts::PI.sqrt().ln(), 1e-13);
        near(student_sf2(12.706_204_736, 1.0), 0.05, 1e-9);
        near(student_sf2(2.228_138_852, 10.0), 0.05, 1e-8);
        near(student_sf2(2.0, 2.0), 1.0 - 2.0 / 6.0_f64.sqrt(), 1e-12);
        near(normal_sf(1.959_963_984_540_054), 0.025, 1e-9);
        near(normal_sf(6.0), 9.865_876_450_376_98e-10, 1e-9);
        near(normal_quantile(0.975), 1.959_963_984_540_054, 1e-9);
        near(student_quantile(0.975, 10.0), 2.228_138_852, 1e-8);
        assert!(student_sf2(f64::INFINITY, 3.0).abs() < 1e-300);
    }

    /// With three degrees the tail is elementary; with many it is that of the normal distribution but for terms in 1 / df
    /// (Abramowitz and Stegun 26.7.5).
    #[test]
    fn tails_hold_for_few_and_for_many_degrees() {
        for t in [0.1_f64, 0.5, 1.0, 1.7, 2.0, 3.0] {
            let angle = (t / 3.0_f64.sqrt()).atan();
            let within = 2.0 / std::f64::consts::PI * (angle + angle.sin() * angle.cos());
            near(student_sf2(t, 3.0), 1.0 - within, 1e-9);
            for df in [1e4, 1e5, 9e5] {
                let density = (-t * t / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
                let first = density * (t.powi(3) + t) / (4.0 * df);
                near(student_sf2(t, df), 2.0 * (normal_sf(t) + first), 2e-5);
            }
        }
    }
}
