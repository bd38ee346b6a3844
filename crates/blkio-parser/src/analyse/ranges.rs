//! Sets of numbers that come as ranges.

use crate::radix::by_digits;

/// Ranges that are put in order at a time: few enough to stay near the processor.
const TOGETHER: usize = 1 << 15;

/// First and last number of a range.
pub(super) type Range = (u64, u64);

/// Binary digits of the length of a range, less 1, below its first number in a word.
const LENGTH_BITS: u32 = 24;

/// A set of numbers. Memory: twice 8 bytes for each range, 16 for each stretch of numbers without a gap.
#[derive(Debug, Clone, Default)]
pub(super) struct Ranges {
    /// The range that may go on.
    open: Option<Range>,
    /// Ranges as words of first number and length.
    words: Vec<u64>,
    scratch: Vec<u64>,
    /// Those whose first number is too large for that.
    far: Vec<Range>,
    /// Ranges at which they are put in order.
    limit: usize,
    stretches: Vec<Range>,
}

impl Ranges {
    /// Adds `first..=last`.
    #[inline]
    pub(super) fn add(&mut self, first: u64, last: u64) {
        if let Some(open) = &mut self.open
            && open.0 <= first
            && first <= open.1.saturating_add(1)
        {
            open.1 = open.1.max(last);
            return;
        }
        if let Some(range) = self.open.replace((first, last)) {
            self.push(range);
            if self.words.len() + self.far.len() > self.limit.max(TOGETHER) {
                self.make_stretches_one();
            }
        }
    }

    #[inline]
    fn push(&mut self, (first, last): Range) {
        let more = last - first;
        if first >> (u64::BITS - LENGTH_BITS) == 0 && more >> LENGTH_BITS == 0 {
            self.words.push(first << LENGTH_BITS | more);
        } else {
            self.far.push((first, last));
        }
    }

    fn make_stretches_one(&mut self) {
        self.in_order();
        self.words.clear();
        self.far.clear();
        for range in std::mem::take(&mut self.stretches) {
            self.push(range);
        }
        self.limit = 2 * (self.words.len() + self.far.len());
    }

    /// The set as its stretches without a gap, in order.
    pub(super) fn in_order(&mut self) -> &[Range] {
        if let Some(range) = self.open.take() {
            self.push(range);
        }
        by_digits(&mut self.words, &mut self.scratch, |word| {
            word >> LENGTH_BITS
        });
        let near = self.words.iter().map(|word| {
            let first = word >> LENGTH_BITS;
            (first, first + (word & ((1 << LENGTH_BITS) - 1)))
        });
        self.stretches.clear();
        let mut stretch: Option<Range> = None;
        let take = |range: Range| match &mut stretch {
            Some(stretch) if range.0 <= stretch.1.saturating_add(1) => {
                stretch.1 = stretch.1.max(range.1);
            }
            _ => {
                if let Some(whole) = stretch.replace(range) {
                    self.stretches.push(whole);
                }
            }
        };
        if self.far.is_empty() {
            near.for_each(take);
        } else {
            let mut all: Vec<Range> = near.chain(self.far.iter().copied()).collect();
            all.sort_unstable();
            all.into_iter().for_each(take);
        }
        self.stretches.extend(stretch);
        &self.stretches
    }

    /// Forgets all numbers.
    pub(super) fn clear(&mut self) {
        self.open = None;
        self.words.clear();
        self.far.clear();
        self.limit = 0;
    }
}

/// How many numbers there are in these stretches.
pub(super) fn count(ranges: &[Range]) -> u64 {
    ranges.iter().map(|(first, last)| last - first + 1).sum()
}

/// How many numbers two sets, as stretches in order, have in common.
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
            place in prop::sample::select(vec![0, (1 << 40) - 150, 1 << 40]),
        ) {
            let mut twins = Vec::new();
            let mut found = Vec::new();
            for ranges in &sets {
                let mut set = Ranges::default();
                let mut twin = BTreeSet::new();
                for (at, (first, more)) in ranges.iter().enumerate() {
                    let first = place + first;
                    set.add(first, first + more);
                    if at % 20 == 7 {
                        set.make_stretches_one();
                    }
                    twin.extend(first..=first + more);
                }
                let stretches = set.in_order().to_vec();
                prop_assert!(stretches.windows(2).all(|pair| pair[0].1 + 1 < pair[1].0));
                prop_assert_eq!(count(&stretches), twin.len() as u64);
                found.push(stretches);
                twins.push(twin);
            }
            let twin = twins[0].intersection(&twins[1]).count();
            prop_assert_eq!(common(&found[0], &found[1]), twin as u64);
        }
    }

    #[test]
    fn long_ranges_stay_whole() {
        let mut set = Ranges::default();
        set.add(5, 1 << 30);
        set.add(3, 3);
        set.add((1 << 30) - 7, (1 << 30) + 9);
        set.make_stretches_one();
        assert_eq!(set.in_order(), [(3, 3), (5, (1 << 30) + 9)]);
    }

    #[test]
    fn the_largest_number_ends_a_range() {
        let mut set = Ranges::default();
        set.add(u64::MAX - 1, u64::MAX);
        set.add(0, 0);
        set.add(u64::MAX, u64::MAX);
        assert_eq!(set.in_order(), [(0, 0), (u64::MAX - 1, u64::MAX)]);
    }
}
