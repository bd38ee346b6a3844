//! Many tests at once.

/// Adjusted p values (q) after Benjamini and Hochberg; with `any_dependence` after Benjamini and Yekutieli.
pub(crate) fn adjust(p: &[f64], any_dependence: bool) -> Vec<f64> {
    let m = p.len();
    let mut order: Vec<usize> = (0..m).collect();
    order.sort_by(|&a, &b| p[a].total_cmp(&p[b]));
    let penalty = if any_dependence {
        (1..=m).map(|i| 1.0 / i as f64).sum()
    } else {
        1.0
    };
    let mut q = vec![1.0; m];
    let mut least = 1.0_f64;
    for (rank, &at) in order.iter().enumerate().rev() {
        least = least.min(p[at] * m as f64 * penalty / (rank + 1) as f64);
        q[at] = least;
    }
    q
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let q = adjust(&[0.01, 0.04, 0.03, 0.5], false);
        let expected = [0.04, 0.16 / 3.0, 0.16 / 3.0, 0.5];
        assert!(
            q.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12),
            "{q:?}"
        );
        assert!(adjust(&[0.01, 0.5], true)[0] > adjust(&[0.01, 0.5], false)[0]);
        assert!(adjust(&[], false).is_empty());
    }
}
