//! Sizes of differences: shift, dominance, trimmed means.

use ::stats::{median, pooled_ranks, sorted, student_quantile, student_sf2};

use super::permute::choose;

/// Arithmetic mean; NaN of nothing.
pub(crate) fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Median absolute deviation from the median.
pub(crate) fn deviation(values: &[f64]) -> f64 {
    let middle = median(values);
    let all: Vec<f64> = values.iter().map(|x| (x - middle).abs()).collect();
    median(&all)
}

/// Hodges–Lehmann shift: the median of all differences second − first. Beyond a million pairs every k-th value of
/// each sorted side takes part.
pub(crate) fn hodges_lehmann(one: &[f64], two: &[f64]) -> f64 {
    const LARGEST: usize = 1000;
    let thin = |values: &[f64]| {
        let all = sorted(values);
        let step = all.len().div_ceil(LARGEST).max(1);
        all.into_iter().step_by(step).collect::<Vec<f64>>()
    };
    let (one, two) = (thin(one), thin(two));
    let mut differences: Vec<f64> = two
        .iter()
        .flat_map(|b| one.iter().map(move |a| b - a))
        .collect();
    let middle = differences.len() / 2;
    if differences.is_empty() {
        return f64::NAN;
    }
    let even = differences.len().is_multiple_of(2);
    let (below, at, _) = differences.select_nth_unstable_by(middle, f64::total_cmp);
    let high = *at;
    if !even {
        return high;
    }
    let low = below.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    0.5 * (low + high)
}

/// Cliff's δ: P(second > first) − P(second < first).
pub(crate) fn cliffs_delta(one: &[f64], two: &[f64]) -> f64 {
    let (n1, n2) = (one.len() as f64, two.len() as f64);
    if one.is_empty() || two.is_empty() {
        return f64::NAN;
    }
    let (ranks, _) = pooled_ranks(one, two);
    let sum: f64 = ranks[one.len()..].iter().sum();
    let u = sum - n2 * (n2 + 1.0) / 2.0;
    2.0 * u / (n1 * n2) - 1.0
}

/// Two-sided p of the test of Brunner and Munzel (2000): equal chances to be larger, whatever the spreads.
///
/// Never below the smallest that ranks of so many values can give, 2 / C(n₁ + n₂, n₁): the approximation by Student's t is 0
/// for sides that do not overlap.
pub(crate) fn brunner_munzel(one: &[f64], two: &[f64]) -> f64 {
    let (n1, n2) = (one.len() as f64, two.len() as f64);
    if one.len() < 2 || two.len() < 2 {
        return f64::NAN;
    }
    let (pooled, _) = pooled_ranks(one, two);
    let part = |pooled: &[f64], values: &[f64]| {
        let (own, _) = pooled_ranks(values, &[]);
        let n = values.len() as f64;
        let mean = pooled.iter().sum::<f64>() / n;
        let spread = pooled
            .iter()
            .zip(&own)
            .map(|(all, own)| (all - own - mean + (n + 1.0) / 2.0).powi(2))
            .sum::<f64>()
            / (n - 1.0);
        (mean, spread)
    };
    let (m1, s1) = part(&pooled[..one.len()], one);
    let (m2, s2) = part(&pooled[one.len()..], two);
    let error = n1 * s1 + n2 * s2;
    let least = (2.0 / choose(one.len() + two.len(), one.len()) as f64).min(1.0);
    if error <= 0.0 {
        return if (m1 - m2).abs() > 0.0 { least } else { 1.0 };
    }
    let w = n1 * n2 * (m2 - m1) / ((n1 + n2) * error.sqrt());
    let df = error.powi(2) / ((n1 * s1).powi(2) / (n1 - 1.0) + (n2 * s2).powi(2) / (n2 - 1.0));
    let p = student_sf2(w, df);
    if p < least { least } else { p }
}

/// Mean without the lowest and highest tenth.
pub(crate) fn trimmed_mean(values: &[f64]) -> f64 {
    let sorted = sorted(values);
    let cut = sorted.len() / 10;
    mean(sorted.get(cut..sorted.len() - cut).unwrap_or_default())
}

/// Returns `true` if at most one value in twenty of each side, but at least one, makes up most of the spread about the
/// medians: then the mean says what these few do.
pub(crate) fn few_rule(sides: &[Vec<f64>; 2]) -> bool {
    /// Part of the squared deviations.
    const MOST: f64 = 0.7;
    let (mut far, mut all) = (0.0, 0.0);
    for side in sides {
        if side.len() < 10 {
            return false;
        }
        let middle = median(side);
        let squares: Vec<f64> = side.iter().map(|x| (x - middle).powi(2)).collect();
        let squares = sorted(&squares);
        far += squares
            .iter()
            .rev()
            .take(side.len().div_ceil(20))
            .sum::<f64>();
        all += squares.iter().sum::<f64>();
    }
    far > MOST * all
}

/// Difference of the means without the lowest and highest tenth, with Yuen's 95 % interval, widened by `factor`.
pub(crate) fn trimmed(one: &[f64], two: &[f64], factor: f64) -> Option<(f64, [f64; 2])> {
    let part = |values: &[f64]| {
        let sorted = sorted(values);
        let n = sorted.len();
        let cut = n / 10;
        let kept = sorted.get(cut..n - cut)?;
        if kept.len() < 3 {
            return None;
        }
        let mean = self::mean(kept);
        let clipped = |x: &f64| x.clamp(kept[0], kept[kept.len() - 1]);
        let all: Vec<f64> = sorted.iter().map(clipped).collect();
        let centre = self::mean(&all);
        let squares = all.iter().map(|x| (x - centre).powi(2)).sum::<f64>();
        let h = kept.len() as f64;
        Some((mean, squares / (h * (h - 1.0)), h))
    };
    let (m1, d1, h1) = part(one)?;
    let (m2, d2, h2) = part(two)?;
    let error = (d1 + d2).sqrt() * factor;
    let df = (d1 + d2).powi(2) / (d1 * d1 / (h1 - 1.0) + d2 * d2 / (h2 - 1.0));
    let t = if df.is_nan() {
        0.0
    } else {
        student_quantile(0.975, df)
    };
    let difference = m2 - m1;
    Some((difference, [difference - t * error, difference + t * error]))
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "planted numbers are exact")]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        assert_eq!(hodges_lehmann(&[1.0, 2.0, 3.0], &[11.0, 12.0, 13.0]), 10.0);
        assert_eq!(cliffs_delta(&[1.0, 2.0], &[3.0, 4.0]), 1.0);
        assert_eq!(cliffs_delta(&[1.0, 4.0], &[2.0, 3.0]), 0.0);
        assert!(brunner_munzel(&[1.0, 2.0, 3.0, 4.0], &[1.0, 2.0, 3.0, 4.0]) > 0.99);
        assert!((brunner_munzel(&[1.0, 2.0], &[3.0, 4.0]) - 2.0 / 6.0).abs() < 1e-12);
        let (difference, interval) =
            trimmed(&[1.0, 2.0, 3.0, 2.0], &[5.0, 6.0, 7.0, 6.0], 1.0).unwrap();
        assert_eq!(difference, 4.0);
        assert!(interval[0] > 0.0);
    }

    #[test]
    fn brunner_munzel_of_the_paper() {
        // The pain scores of Brunner and Munzel (2000): W = 3.1375, df = 17.683, p = 0.0058.
        let one = [
            1.0, 2.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 2.0, 4.0, 1.0, 1.0,
        ];
        let two = [3.0, 3.0, 4.0, 3.0, 1.0, 2.0, 3.0, 1.0, 1.0, 5.0, 4.0];
        assert!((brunner_munzel(&one, &two) - 0.005_786).abs() < 1e-5);
    }
}
