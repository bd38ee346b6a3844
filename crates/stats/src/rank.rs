//! Rank tests.

use crate::special::normal_sf;

/// Returns the ranks, from 1, of the values of both samples together (ties share their mean rank), and Σ(t³ − t) over groups of
/// ties.
#[must_use]
pub fn pooled_ranks(one: &[f64], two: &[f64]) -> (Vec<f64>, f64) {
    let value = |at: usize| {
        if at < one.len() {
            one[at]
        } else {
            two[at - one.len()]
        }
    };
    let n = one.len() + two.len();
    let mut order: Vec<usize> = (0..n).collect();
    order.sort_by(|&a, &b| value(a).total_cmp(&value(b)));
    let mut ranks = vec![0.0; n];
    let mut ties = 0.0;
    let mut from = 0;
    while from < n {
        let mut to = from + 1;
        // The two zeros are equal, as in arithmetic.
        while to < n && value(order[to]) - value(order[from]) == 0.0 {
            to += 1;
        }
        let rank = (from + to + 1) as f64 / 2.0;
        for &at in &order[from..to] {
            ranks[at] = rank;
        }
        let t = (to - from) as f64;
        ties += t * t * t - t;
        from = to;
    }
    (ranks, ties)
}

/// Returns the two-sided p of the Mann–Whitney test.
///
/// Exact if the smaller side has at most 8 values and no two values are equal, else the normal
/// approximation with correction for ties and continuity; 1 if all values are equal, NaN if any
/// value is NaN.
#[must_use]
pub fn mann_whitney(one: &[f64], two: &[f64]) -> f64 {
    if one.iter().chain(two).any(|value| value.is_nan()) {
        return f64::NAN;
    }
    let (n1, n2) = (one.len(), two.len());
    let (ranks, ties) = pooled_ranks(one, two);
    let (m1, m2) = (n1 as f64, n2 as f64);
    let u1 = ranks[..n1].iter().sum::<f64>() - m1 * (m1 + 1.0) / 2.0;
    let u = u1.max(m1 * m2 - u1);
    if ties == 0.0
        && n1.min(n2) <= 8
        && let Some(p) = exact_tail(u, n1.min(n2), n1.max(n2))
    {
        return (2.0 * p).min(1.0);
    }
    let n = m1 + m2;
    let spread = (m1 * m2 / 12.0 * (n + 1.0 - ties / (n * (n - 1.0)))).sqrt();
    let z = (u - m1 * m2 / 2.0 - 0.5) / spread;
    if z.is_nan() || spread <= 0.0 {
        return 1.0;
    }
    (2.0 * normal_sf(z)).clamp(0.0, 1.0)
}

/// Returns the probability of a statistic of at least `u`, by counting: the numbers of orders with
/// each value are the coefficients of the Gaussian binomial. `None` if the counts would not fit.
fn exact_tail(u: f64, small: usize, large: usize) -> Option<f64> {
    const LARGEST: usize = 100_000;
    if large > LARGEST {
        return None;
    }
    let size = small * large + 1;
    let mut counts = vec![0_i128; size];
    *counts.first_mut()? = 1;
    for i in 1..=small {
        // times (1 − q^(large + i)), divided by (1 − q^i); wrapping sums are exact modulo 2^128.
        for at in (large + i..size).rev() {
            counts[at] = counts[at].wrapping_sub(counts[at - large - i]);
        }
        for at in i..size {
            counts[at] = counts[at].wrapping_add(counts[at - i]);
        }
    }
    let total: f64 = counts.iter().map(|&count| count as f64).sum();
    // P(U >= u) = P(U <= mn − u)
    let rest = small as f64 * large as f64 - u;
    let below: f64 = (0_u32..)
        .zip(&counts)
        .take_while(|(at, _)| f64::from(*at) <= rest)
        .map(|(_, &count)| count as f64)
        .sum();
    Some(below / total)
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "planted numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn exact_small_samples() {
        // Complete separation: 2 / C(n1 + n2, n1).
        assert!((mann_whitney(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]) - 0.1).abs() < 1e-12);
        let a: Vec<f64> = (0..7).map(f64::from).collect();
        let b: Vec<f64> = (10..17).map(f64::from).collect();
        assert!((mann_whitney(&a, &b) - 2.0 / 3432.0).abs() < 1e-12);
        // By hand for 2 v 2: U is 0..4 with counts 1 1 2 1 1.
        assert!((mann_whitney(&[1.0, 3.0], &[2.0, 4.0]) - 4.0 / 6.0).abs() < 1e-12);
    }

    #[test]
    fn ties_use_the_normal_approximation() {
        assert_eq!(mann_whitney(&[1.0, 1.0], &[1.0, 1.0]), 1.0);
        // U = 8.5, mean 4.5, variance 9/12 (7 − 6/30): z = 3.5/2.2583
        let p = mann_whitney(&[1.0, 2.0, 3.0], &[3.0, 4.0, 5.0]);
        assert!((p - 2.0 * normal_sf(3.5 / (0.75 * 6.8_f64).sqrt())).abs() < 1e-12);
    }

    #[test]
    fn a_large_exact_sample_agrees_with_the_approximation() {
        let a: Vec<f64> = (0..8).map(|i| f64::from(i) * 30.0 + 0.5).collect();
        let b: Vec<f64> = (0..238).map(f64::from).collect();
        let exact = mann_whitney(&a, &b);
        // A tie selects the approximation, which hardly changes the result.
        let mut tied = b.clone();
        tied[237] = tied[236];
        let near = mann_whitney(&a, &tied);
        assert!((exact - near).abs() < 0.01, "{exact} {near}");
    }
}
