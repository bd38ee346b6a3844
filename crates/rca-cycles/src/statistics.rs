//! Two samples compared.

use stats::{ln_gamma, mann_whitney, student_quantile, student_sf2};

use crate::num::real;

/// Mean, variance (n-1) and size.
pub(crate) fn moments(values: &[f64]) -> (f64, f64, f64) {
    let n = real(values.len());
    if values.is_empty() {
        return (0.0, 0.0, 0.0);
    }
    let mean = values.iter().sum::<f64>() / n;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let variance = if n > 1.0 { squares / (n - 1.0) } else { 0.0 };
    (mean, variance, n)
}

/// Difference of means `b - a` with its 95 % interval by Welch's approximation.
pub(crate) fn difference(a: &[f64], b: &[f64]) -> (f64, f64, f64) {
    let (ma, va, na) = moments(a);
    let (mb, vb, nb) = moments(b);
    let delta = mb - ma;
    let (sa, sb) = (va / na.max(1.0), vb / nb.max(1.0));
    let error = (sa + sb).sqrt();
    let freedom = freedom(sa, sb, na, nb);
    let reach = student_quantile(0.975, freedom) * error;
    (delta, delta - reach, delta + reach)
}

fn freedom(sa: f64, sb: f64, na: f64, nb: f64) -> f64 {
    let below = sa * sa / (na - 1.0).max(1.0) + sb * sb / (nb - 1.0).max(1.0);
    if below > 0.0 {
        ((sa + sb) * (sa + sb) / below).max(1.0)
    } else {
        (na + nb - 2.0).max(1.0)
    }
}

/// Two-sided probability that the samples come from one distribution: Mann-Whitney's test from eight values a side on, else
/// Welch's test.
pub(crate) fn p_value(a: &[f64], b: &[f64]) -> f64 {
    if a.len() < 2 || b.len() < 2 {
        return 1.0;
    }
    if a.len() >= 8 && b.len() >= 8 {
        mann_whitney(a, b)
    } else {
        welch(a, b)
    }
}

fn welch(a: &[f64], b: &[f64]) -> f64 {
    let (ma, va, na) = moments(a);
    let (mb, vb, nb) = moments(b);
    let (sa, sb) = (va / na, vb / nb);
    let delta = (mb - ma).abs();
    if delta <= 0.0 {
        return 1.0;
    }
    // Samples without spread differ for sure; but of few values nothing is for sure.
    let error = (sa + sb).sqrt().max(delta * 1e-9);
    let freedom = freedom(sa, sb, na, nb);
    student_sf2(delta / error, freedom)
}

/// Probability that at least `hits` of `drawn` different things that are drawn from `all` are among the
/// first `part` of them (hypergeometric).
pub(crate) fn tail_of_draws(hits: usize, drawn: usize, part: usize, all: usize) -> f64 {
    let factorial = |n: usize| ln_gamma(real(n) + 1.0);
    let choose = |n: usize, k: usize| factorial(n) - factorial(k) - factorial(n - k);
    let (drawn, part) = (drawn.min(all), part.min(all));
    let least = hits.max((drawn + part).saturating_sub(all));
    let each = (least..=drawn.min(part)).map(|k| {
        let ways = choose(part, k) + choose(all - part, drawn - k) - choose(all, drawn);
        ways.exp()
    });
    each.sum::<f64>().min(1.0)
}

/// Probabilities adjusted for their number by Benjamini and Hochberg.
pub(crate) fn adjusted(p: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&a, &b| p[b].total_cmp(&p[a]));
    let mut out = vec![1.0; p.len()];
    let mut least: f64 = 1.0;
    for (i, &at) in order.iter().enumerate() {
        least = least.min(p[at] * real(p.len()) / real(p.len() - i));
        out[at] = least;
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b.abs().max(1e-3), "{a} for {b}");
    }

    #[test]
    fn draws_are_those_of_an_urn() {
        // Two of three drawn from 5 of 10: (10 * 5 + 10) / 120.
        near(tail_of_draws(2, 3, 5, 10), 0.5);
        near(tail_of_draws(6, 6, 10, 20), 210.0 / 38_760.0);
        near(tail_of_draws(0, 4, 7, 9), 1.0);
        near(tail_of_draws(3, 4, 8, 9), 1.0);
        near(tail_of_draws(5, 4, 8, 9), 0.0);
    }

    #[test]
    fn adjustment_keeps_order_and_never_lowers() {
        let got = adjusted(&[0.01, 0.04, 0.03, 0.5]);
        for (g, w) in got.iter().zip([0.04, 0.053_333_333, 0.053_333_333, 0.5]) {
            near(*g, w);
        }
    }
}
