//! Pairs of query and key that attention computes.

use crate::recorded::times;

/// Which keys a query sees.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Mask {
    /// All of them.
    All,
    /// Query i sees the keys up to i: the first query is lined up with the first key (`is_causal` of PyTorch).
    First,
    /// The last query is lined up with the last key (flash attention), and sees so many keys before and after that one; all
    /// of them where there is no number.
    Last {
        left: Option<u128>,
        right: Option<u128>,
    },
}

impl Mask {
    /// A causal mask of flash attention.
    pub(crate) const CAUSAL: Self = Self::Last {
        left: None,
        right: Some(0),
    };
}

/// Σ of 1..=n.
fn triangle(n: u128) -> u128 {
    times(n, n.saturating_add(1)) / 2
}

fn signed(n: u128) -> i128 {
    i128::try_from(n).unwrap_or(i128::MAX)
}

fn unsigned(n: i128) -> u128 {
    u128::try_from(n).unwrap_or(0)
}

/// Σ of i + `first`, kept between 0 and `k`, over the `q` values of i from 0 on.
fn ramp(q: u128, k: u128, first: i128) -> u128 {
    // Values of i below `from` give 0, those from `to` on give k.
    let from = unsigned(first.saturating_neg()).min(q);
    let to = unsigned(signed(k).saturating_sub(first)).clamp(from, q);
    let rising = to - from;
    let start = unsigned(signed(from).saturating_add(first));
    times(rising, start)
        .saturating_add(triangle(rising) - rising)
        .saturating_add(times(q - to, k))
}

/// Pairs of one sequence of `q` queries and `k` keys.
pub(crate) fn pairs(q: u128, k: u128, mask: Mask) -> u128 {
    match mask {
        Mask::All => times(q, k),
        // Query i (from 0) sees min(i + 1, k) keys.
        Mask::First => {
            let short = q.min(k);
            triangle(short).saturating_add(times(q - short, k))
        }
        // Query i is lined up with key i + own.
        Mask::Last { left, right } => {
            let own = signed(k).saturating_sub(signed(q));
            let up_to = match right {
                Some(right) => ramp(q, k, own.saturating_add(signed(right)).saturating_add(1)),
                None => times(q, k),
            };
            let before = left.map_or(0, |left| ramp(q, k, own.saturating_sub(signed(left))));
            up_to.saturating_sub(before)
        }
    }
}

/// Keys of one sequence that any query sees: those before the window of the first query are not read.
pub(crate) fn seen(q: u128, k: u128, mask: Mask) -> u128 {
    match mask {
        Mask::Last {
            left: Some(left), ..
        } => {
            let first = signed(k)
                .saturating_sub(signed(q))
                .saturating_sub(signed(left));
            k - unsigned(first).min(k)
        }
        _ => k,
    }
}

/// Sum of `count` over `n` sequences of `q` queries and `k` keys together, whose lengths, which are not recorded, are as even as
/// possible.
///
/// Any other split of equal totals has more pairs.
pub(crate) fn even(
    n: u128,
    (q, k): (u128, u128),
    mask: Mask,
    count: fn(u128, u128, Mask) -> u128,
) -> u128 {
    if n == 0 {
        return 0;
    }
    let (q_each, q_more) = (q / n, q % n);
    let (k_each, k_more) = (k / n, k % n);
    // The sequences with one more query or key come first: three runs of equal sequences.
    let both = q_more.min(k_more);
    let either = q_more.max(k_more);
    let one = |more_q: bool, more_k: bool| {
        count(
            q_each + u128::from(more_q),
            k_each + u128::from(more_k),
            mask,
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

    fn masks() -> Vec<Mask> {
        let windows = [None, Some(0), Some(1), Some(3), Some(20)];
        let pairs = windows
            .iter()
            .flat_map(|left| windows.iter().map(move |right| (*left, *right)));
        let bands = pairs.map(|(left, right)| Mask::Last { left, right });
        bands.chain([Mask::All, Mask::First]).collect()
    }

    /// The mask, position by position.
    fn sees(q: u128, k: u128, mask: Mask, i: u128, j: u128) -> bool {
        match mask {
            Mask::All => true,
            Mask::First => j <= i,
            Mask::Last { left, right } => {
                let distance = signed(j) - (signed(i) + signed(k) - signed(q));
                left.is_none_or(|left| -distance <= signed(left))
                    && right.is_none_or(|right| distance <= signed(right))
            }
        }
    }

    #[test]
    fn pairs_and_keys_are_those_of_the_mask() {
        for (q, k) in (0..9).flat_map(|q| (0..9).map(move |k| (q, k))) {
            for mask in masks() {
                let all = || (0..q).flat_map(|i| (0..k).map(move |j| (i, j)));
                let found = all().filter(|(i, j)| sees(q, k, mask, *i, *j)).count();
                assert_eq!(pairs(q, k, mask), found as u128, "{q} {k} {mask:?}");
                // A key that is never seen lies before the window, if queries are not fewer than none.
                let read = (0..k).filter(|j| (0..q).any(|i| sees(q, k, mask, i, *j)));
                let read = read.count() as u128;
                if let Mask::Last { left: Some(_), .. } = mask
                    && q > 0
                {
                    assert_eq!(seen(q, k, mask), read, "{q} {k} {mask:?}");
                }
            }
        }
    }

    #[test]
    fn an_even_split_is_one_sequence_after_the_other() {
        for n in 1..5 {
            for (q, k) in (0..12).flat_map(|q| (0..12).map(move |k| (q, k))) {
                for mask in masks() {
                    let split = |total: u128, i: u128| total / n + u128::from(i < total % n);
                    let sum = (0..n).map(|i| pairs(split(q, i), split(k, i), mask));
                    assert_eq!(even(n, (q, k), mask, pairs), sum.sum::<u128>());
                }
            }
        }
        assert_eq!(even(0, (3, 3), Mask::All, pairs), 0);
    }

    #[test]
    fn enormous_lengths_do_not_overflow() {
        let most = u128::from(u64::MAX);
        let mask = Mask::Last {
            left: Some(most),
            right: Some(0),
        };
        assert!(pairs(most, most, mask) > 0);
        assert_eq!(seen(1, most, mask), most);
    }
}
