//! Pairs of query and key that attention computes.

use crate::recorded::times;

/// How queries and keys of a causal mask are lined up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Causal {
    /// Every query sees every key.
    No,
    /// The first query sees the first key (`is_causal` of PyTorch).
    First,
    /// The last query sees the last key (flash attention).
    Last,
}

/// Σ of 1..=n.
fn triangle(n: u128) -> u128 {
    times(n, n.saturating_add(1)) / 2
}

/// Pairs of one sequence of `q` queries and `k` keys.
pub(crate) fn pairs(q: u128, k: u128, causal: Causal) -> u128 {
    match causal {
        Causal::No => times(q, k),
        // Query i (from 0) sees min(i + 1, k) keys.
        Causal::First => {
            let short = q.min(k);
            triangle(short).saturating_add(times(q - short, k))
        }
        // Query i sees max(0, k - q + i + 1) keys: the last min(q, k) of the queries see some.
        Causal::Last if q >= k => triangle(k),
        Causal::Last => triangle(k) - triangle(k - q),
    }
}

/// Pairs of `n` sequences whose lengths, which are not recorded, are as even as possible.
///
/// Any other split of equal totals has more pairs.
pub(crate) fn even_pairs(n: u128, q: u128, k: u128, causal: Causal) -> u128 {
    if n == 0 {
        return 0;
    }
    let (q_each, q_more) = (q / n, q % n);
    let (k_each, k_more) = (k / n, k % n);
    // The sequences with one more query or key come first: three runs of equal sequences.
    let both = q_more.min(k_more);
    let either = q_more.max(k_more);
    let one = |more_q: bool, more_k: bool| {
        pairs(
            q_each + u128::from(more_q),
            k_each + u128::from(more_k),
            causal,
        )
    };
    let middle = match q_more > k_more {
        true => one(true, false),
        false => one(false, true),
    };
    times(both, one(true, true))
        .saturating_add(times(either - both, middle))
        .saturating_add(times(n - either, one(false, false)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brute(q: u128, k: u128, causal: Causal) -> u128 {
        let sees = |i: u128, j: u128| match causal {
            Causal::No => true,
            Causal::First => j <= i,
            Causal::Last => j + q <= i + k,
        };
        let all = (0..q).flat_map(|i| (0..k).map(move |j| (i, j)));
        all.filter(|(i, j)| sees(*i, *j)).count() as u128
    }

    #[test]
    fn pairs_are_those_of_the_mask() {
        for q in 0..9 {
            for k in 0..9 {
                for causal in [Causal::No, Causal::First, Causal::Last] {
                    assert_eq!(
                        pairs(q, k, causal),
                        brute(q, k, causal),
                        "{q} {k} {causal:?}"
                    );
                }
            }
        }
    }

    #[test]
    fn an_even_split_is_one_sequence_after_the_other() {
        for n in 1..5 {
            for q in 0..12 {
                for k in 0..12 {
                    let split = |total: u128, i: u128| total / n + u128::from(i < total % n);
                    let sum = (0..n).map(|i| pairs(split(q, i), split(k, i), Causal::Last));
                    assert_eq!(even_pairs(n, q, k, Causal::Last), sum.sum::<u128>());
                }
            }
        }
        assert_eq!(even_pairs(0, 3, 3, Causal::No), 0);
    }
}
