//! The commonest start-to-start distances.
//!
//! Distinct strides are counted exactly up to a number; beyond, counts live in sets of four, each a line of a processor's
//! cache, and a stride without a place wears down the rarest of its set. What is common keeps its place.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use crate::num::spread;

/// Distinct strides that are counted exactly.
const MAX_EXACT: usize = 1 << 18;
/// Bits of the number of sets after that.
const SET_BITS: u32 = 11;
/// Bits of the number of strides that are counted without looking them up.
const RECENT_BITS: u32 = 6;
/// Strides that are looked up at a time.
const WAITING: usize = 256;
/// Strides of more than 63 bits that are counted.
const MAX_FAR: usize = 1024;

/// A stride in sectors and how often it was seen.
type Count = (i64, u64);

/// Counts of strides.
#[derive(Debug, Clone)]
pub(super) struct Strides {
    /// The stride seen last, and how often in a row.
    last: Count,
    /// Strides on their way to the others, by their hash.
    recent: [Count; 1 << RECENT_BITS],
    /// Strides on their way from there: looked up many at a time, because the table is larger than what is near the
    /// processor, and the ways to several places can be gone at once.
    waiting: Vec<Count>,
    exact: FxHashMap<i64, u64>,
    max_exact: usize,
    /// Empty while all are exact.
    sets: Vec<[Count; 4]>,
    far: BTreeMap<i128, u64>,
    far_is_full: bool,
}

impl Default for Strides {
    fn default() -> Self {
        Self {
            last: (0, 0),
            recent: [(0, 0); 1 << RECENT_BITS],
            waiting: Vec::with_capacity(WAITING),
            exact: FxHashMap::default(),
            max_exact: MAX_EXACT,
            sets: Vec::new(),
            far: BTreeMap::new(),
            far_is_full: false,
        }
    }
}

impl Strides {
    /// Keeps so many distinct strides exactly.
    pub(super) fn keeping(max_exact: usize) -> Self {
        Self {
            max_exact,
            ..Self::default()
        }
    }

    #[inline]
    pub(super) fn add(&mut self, from: u64, to: u64) {
        let stride = to.wrapping_sub(from).cast_signed();
        if (stride < 0) != (to < from) {
            self.add_far(from, to);
        } else {
            self.add_many(stride, 1);
        }
    }

    /// Takes a stride several times.
    #[inline]
    pub(super) fn add_many(&mut self, stride: i64, times: u64) {
        if self.last.0 == stride {
            self.last.1 += times;
        } else {
            let last = std::mem::replace(&mut self.last, (stride, times));
            self.settle_recent(last);
        }
    }

    /// A stride of more than 63 bits.
    fn add_far(&mut self, from: u64, to: u64) {
        let stride = i128::from(to) - i128::from(from);
        if self.far.len() < MAX_FAR || self.far.contains_key(&stride) {
            *self.far.entry(stride).or_default() += 1;
        } else {
            self.far_is_full = true;
        }
    }

    fn settle_recent(&mut self, (stride, count): Count) {
        let Some(recent) = self
            .recent
            .get_mut(spread(stride.cast_unsigned(), RECENT_BITS))
        else {
            return;
        };
        if recent.0 == stride {
            recent.1 += count;
        } else {
            let recent = std::mem::replace(recent, (stride, count));
            self.wait(recent);
        }
    }

    #[inline]
    fn wait(&mut self, (stride, count): Count) {
        if count == 0 {
            return;
        }
        self.waiting.push((stride, count));
        if self.waiting.len() >= WAITING {
            self.settle_waiting();
        }
    }

    fn settle_waiting(&mut self) {
        let mut waiting = std::mem::take(&mut self.waiting);
        waiting.drain(..).for_each(|count| self.settle(count));
        self.waiting = waiting;
    }

    fn settle(&mut self, (stride, count): Count) {
        if self.sets.is_empty() {
            *self.exact.entry(stride).or_default() += count;
            if self.exact.len() > self.max_exact {
                self.go_to_sets();
            }
            return;
        }
        let Some(set) = self.sets.get_mut(spread(stride.cast_unsigned(), SET_BITS)) else {
            return;
        };
        for known in set.iter_mut() {
            if known.0 == stride {
                known.1 += count;
                return;
            }
        }
        if let Some(rarest) = set.iter_mut().min_by_key(|(_, count)| *count) {
            if rarest.1 > count {
                rarest.1 -= count;
            } else {
                *rarest = (stride, count);
            }
        }
    }

    fn go_to_sets(&mut self) {
        self.sets = vec![[(0, 0); 4]; 1 << SET_BITS];
        let mut counts: Vec<Count> = std::mem::take(&mut self.exact).into_iter().collect();
        // From common to rare, so that the rarest find no place.
        counts.sort_unstable_by_key(|(stride, count)| (std::cmp::Reverse(*count), *stride));
        for (stride, count) in counts {
            let set = self.sets.get_mut(spread(stride.cast_unsigned(), SET_BITS));
            if let Some(free) = set.and_then(|set| set.iter_mut().find(|known| known.1 == 0)) {
                *free = (stride, count);
            }
        }
    }

    /// Counts what is open; call once after the last stride.
    pub(super) fn finish(&mut self) {
        let last = std::mem::take(&mut self.last);
        self.settle_recent(last);
        for recent in std::mem::replace(&mut self.recent, [(0, 0); 1 << RECENT_BITS]) {
            self.wait(recent);
        }
        self.settle_waiting();
    }

    /// Whether rare strides were forgotten, and counts may be too low.
    pub(super) fn are_approximate(&self) -> bool {
        !self.sets.is_empty() || self.far_is_full
    }

    /// The commonest with their counts; at equal counts the smaller first.
    pub(super) fn top(&self, top: usize) -> Vec<(i128, u64)> {
        let exact = self.exact.iter().map(|(stride, count)| (*stride, *count));
        let in_sets = self.sets.iter().flatten().copied();
        let near = exact.chain(in_sets).filter(|(_, count)| *count > 0);
        let near = near.map(|(stride, count)| (i128::from(stride), count));
        let far = self.far.iter().map(|(stride, count)| (*stride, *count));
        let mut strides: Vec<(i128, u64)> = near.chain(far).collect();
        strides.sort_unstable_by_key(|(stride, count)| (std::cmp::Reverse(*count), *stride));
        strides.truncate(top);
        strides
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn common_strides_outlast_many_rare_ones() {
        let mut strides = Strides {
            max_exact: 1000,
            ..Strides::default()
        };
        let common = [(256, 9000_u64), (-4096, 7000), (8, 5000)];
        for number in 0..200_000_u64 {
            // A rare stride that comes once, among common ones.
            strides.add(0, (1 << 40) + number * 7919);
            for (at, (stride, count)) in common.iter().enumerate() {
                if number % (200_000 / count) == at as u64 {
                    strides.add(1 << 20, (1_u64 << 20).wrapping_add_signed(*stride));
                }
            }
        }
        strides.finish();
        assert!(strides.are_approximate());
        let top = strides.top(3);
        for ((found, count), (stride, _)) in top.iter().zip(common) {
            assert_eq!(*found, i128::from(stride));
            assert!(*count > 4900, "{count}");
        }
    }

    #[test]
    fn strides_of_more_than_63_bits_are_no_small_ones() {
        let mut strides = Strides::default();
        strides.add(0, u64::MAX);
        strides.add(u64::MAX, 0);
        strides.add(0, u64::MAX);
        strides.add(5, 4);
        strides.finish();
        let all = i128::from(u64::MAX);
        assert_eq!(strides.top(5), [(all, 2), (-all, 1), (-1, 1)]);
        assert!(!strides.are_approximate());
    }
}
