//! Two samples compared.

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
    let reach = t_quantile_975(freedom) * error;
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

/// Two-sided probability that the samples come from one distribution: Mann-Whitney's test with the
/// normal approximation and correction for ties and continuity from eight values a side on, else
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
    t_tail(delta / error, freedom)
}

fn mann_whitney(a: &[f64], b: &[f64]) -> f64 {
    let mut all: Vec<(f64, bool)> = a
        .iter()
        .map(|&v| (v, false))
        .chain(b.iter().map(|&v| (v, true)))
        .collect();
    all.sort_by(|x, y| x.0.total_cmp(&y.0));
    let (na, nb) = (real(a.len()), real(b.len()));
    let n = na + nb;
    let (mut rank_sum, mut ties) = (0.0, 0.0);
    let mut i = 0;
    while i < all.len() {
        let mut j = i + 1;
        while j < all.len() && all[j].0.total_cmp(&all[i].0).is_eq() {
            j += 1;
        }
        let t = real(j - i);
        let rank = real(i + j + 1) / 2.0;
        rank_sum += rank * real(all[i..j].iter().filter(|v| v.1).count());
        ties += t * t * t - t;
        i = j;
    }
    let u = rank_sum - nb * (nb + 1.0) / 2.0;
    let variance = na * nb / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)));
    if variance <= 0.0 {
        return 1.0;
    }
    let distance = ((u - na * nb / 2.0).abs() - 0.5).max(0.0);
    normal_tail(distance / variance.sqrt())
}

/// Two-sided tail of the normal distribution (Abramowitz and Stegun 7.1.26 is too coarse far out;
/// this is the continued fraction there and the series near zero).
pub(crate) fn normal_tail(z: f64) -> f64 {
    let z = z.abs();
    if z < 2.5 {
        // Series of the error function.
        let x = z / std::f64::consts::SQRT_2;
        let mut term = x;
        let mut sum = x;
        for n in 1..80_u32 {
            let n = f64::from(n);
            term *= -x * x / n;
            sum += term / (2.0 * n + 1.0);
        }
        return (1.0 - sum * std::f64::consts::FRAC_2_SQRT_PI).clamp(0.0, 1.0);
    }
    let mut fraction = 0.0;
    for k in (1..60_u32).rev() {
        fraction = f64::from(k) / (z + fraction);
    }
    let density = (-z * z / 2.0).exp() / (2.0 * std::f64::consts::PI).sqrt();
    (2.0 * density / (z + fraction)).min(1.0)
}

/// Two-sided tail of Student's distribution.
pub(crate) fn t_tail(t: f64, freedom: f64) -> f64 {
    let x = freedom / (freedom + t * t);
    incomplete_beta(x, freedom / 2.0, 0.5)
}

fn t_quantile_975(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0_f64, 1000.0_f64);
    for _ in 0..80 {
        let middle = f64::midpoint(low, high);
        if t_tail(middle, freedom) > 0.05 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

/// Logarithm of the gamma function (Lanczos, g = 7, n = 9).
fn ln_gamma(x: f64) -> f64 {
    const C: [f64; 9] = [
        0.999_999_999_999_809_9,
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
        let pi = std::f64::consts::PI;
        return (pi / (pi * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let t = x + 7.5;
    let mut sum = C[0];
    for (i, c) in C.iter().enumerate().skip(1) {
        sum += c / (x + real(i));
    }
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * t.ln() - t + sum.ln()
}

/// Regularised incomplete beta function by its continued fraction (Lentz).
fn incomplete_beta(x: f64, a: f64, b: f64) -> f64 {
    if x <= 0.0 {
        return 0.0;
    }
    if x >= 1.0 {
        return 1.0;
    }
    let front =
        (ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b) + a * x.ln() + b * (1.0 - x).ln()).exp();
    if x > (a + 1.0) / (a + b + 2.0) {
        return 1.0 - front * fraction(1.0 - x, b, a) / b;
    }
    front * fraction(x, a, b) / a
}

fn fraction(x: f64, a: f64, b: f64) -> f64 {
    const TINY: f64 = 1e-300;
    let keep = |v: f64| if v.abs() < TINY { TINY } else { v };
    let mut c = 1.0;
    let mut d = 1.0 / keep(1.0 - (a + b) * x / (a + 1.0));
    let mut h = d;
    for m in 1..300_u32 {
        let m = f64::from(m);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        d = 1.0 / keep(1.0 + even * d);
        c = keep(1.0 + even / c);
        h *= d * c;
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        d = 1.0 / keep(1.0 + odd * d);
        c = keep(1.0 + odd / c);
        let step = d * c;
        h *= step;
        if (step - 1.0).abs() < 1e-14 {
            break;
        }
    }
    h
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
    fn tails_are_those_of_the_tables() {
        near(normal_tail(1.959_963_985), 0.05);
        near(normal_tail(3.290_526_731), 0.001);
        near(t_tail(2.228_138_852, 10.0), 0.05);
        near(t_tail(12.706_204_74, 1.0), 0.05);
        near(t_quantile_975(4.0), 2.776_445_105);
    }

    #[test]
    fn ranks_of_separate_samples() {
        let a: Vec<f64> = (0..10).map(f64::from).collect();
        let b: Vec<f64> = (20..30).map(f64::from).collect();
        // U = 0, z = (50 - 0.5) / sqrt(175).
        near(mann_whitney(&a, &b), normal_tail(49.5 / 175_f64.sqrt()));
        near(mann_whitney(&a, &a), 1.0);
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
