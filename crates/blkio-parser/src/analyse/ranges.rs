//! Sets of numbers that come as ranges.

/// Ranges that wait before they are put in order, unless as many stretches are kept.
const WAITING: usize = 1 << 15;

/// First and last number of a range.
pub(super) type Range = (u64, u64);

/// A set of numbers. Memory: 16 bytes for each of twice the stretches of numbers without a gap.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges {
    /// In no order; the first of them are stretches without a gap.
    ranges: Vec<Range>,
    stretches: usize,
}

impl Ranges {
    /// Adds `first..=last`.
    #[inline]
    pub(super) fn add(&mut self, first: u64, last: u64) {
        if let Some(open) = self.ranges.last_mut()
            && open.0 <= first
            && first <= open.1.saturating_add(1)
        {
            open.1 = open.1.max(last);
            return;
        }
        if self.ranges.len() >= WAITING.max(2 * self.stretches) {
            self.in_order();
            self.stretches = self.ranges.len();
        }
        self.ranges.push((first, last));
    }

    /// Returns the set as its stretches without a gap, in order.
    pub(super) fn in_order(&mut self) -> &[Range] {
        self.ranges.sort_unstable();
        self.ranges.dedup_by(|next, before| {
            let is_joined = next.0 <= before.1.saturating_add(1);
            if is_joined {
                before.1 = before.1.max(next.1);
            }
            is_joined
        });
        &self.ranges
    }

    /// Forgets all numbers.
    pub(super) fn clear(&mut self) {
        self.ranges.clear();
        self.stretches = 0;
    }
}

/// Returns how many numbers there are in these stretches.
pub(super) fn count(ranges: &[Range]) -> u64 {
    ranges.iter().map(|(first, last)| last - first + 1).sum()
}

/// Returns how many numbers two sets, as stretches in order, have in common.
pub(super) fn common(a: &[Range], b: &[Range]) -> u64 {
    let (mut a, mut b) = (a.iter().peekable(), b.iter().peekable());
    let mut common = 0;
    while let (Some(one), Some(other)) = (a.peek(), b.peek()) {
        let (first, last) = (one.0.max(other.0), one.1.min(other.1));
        if first <= last {
            common += last - first + 1;
        }
        if one.1 < other.1 {
            a.next();
        } else {
            b.next();
        }
    }
    common
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn sets_are_those_of_single_numbers(
            sets in prop::collection::vec(prop::collection::vec((0_u64..300, 0_u64..30), 0..60), 2),
            place in prop::sample::select(vec![0, (1 << 40) - 150, u64::MAX - 400]),
        ) {
            let mut models = Vec::new();
            let mut found = Vec::new();
            for ranges in &sets {
                let mut set = Ranges::default();
                let mut model = BTreeSet::new();
                for (at, (first, more)) in ranges.iter().enumerate() {
                    let first = place + first;
                    set.add(first, first + more);
                    if at % 20 == 7 {
                        set.in_order();
                    }
                    model.extend(first..=first + more);
                }
                let stretches = set.in_order().to_vec();
                prop_assert!(stretches.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                prop_assert_eq!(count(&stretches), model.len() as u64);
                found.push(stretches);
                models.push(model);
            }
            let model = models[0].intersection(&models[1]).count();
            prop_assert_eq!(common(&found[0], &found[1]), model as u64);
        }
    }
}
