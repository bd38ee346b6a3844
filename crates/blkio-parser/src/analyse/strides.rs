//! The commonest start-to-start distances.

use rustc_hash::FxHashMap;

/// Distinct strides that are counted exactly.
const MAX_EXACT: usize = 1 << 18;
/// Distinct strides that are kept once there were more.
const MAX_KEPT: usize = 1 << 11;
/// Strides of more than 63 bits that are counted.
const MAX_FAR: usize = 1 << 10;

/// Counts of strides in sectors. While they are few all are counted; beyond, those that came least often are forgotten again
/// and again, and what is common keeps its place.
#[derive(Debug, Clone)]
pub(super) struct Strides {
    /// The last stride and how often it came in a row, which is not in the counts yet.
    last: (i64, u64),
    counts: FxHashMap<i64, u64>,
    most: usize,
    /// Those of more than 63 bits.
    far: FxHashMap<i128, u64>,
    has_forgotten: bool,
}

impl Default for Strides {
    fn default() -> Self {
        Self::keeping(MAX_EXACT)
    }
}

impl Strides {
    /// Returns a counter that keeps so many distinct strides exactly.
    pub(super) fn keeping(most: usize) -> Self {
        Self {
            last: (0, 0),
            counts: FxHashMap::default(),
            most,
            far: FxHashMap::default(),
            has_forgotten: false,
        }
    }

    #[inline]
    pub(super) fn add(&mut self, from: u64, to: u64) {
        let stride = to.wrapping_sub(from).cast_signed();
        if (stride < 0) == (to < from) {
            self.add_many(stride, 1);
            return;
        }
        let stride = i128::from(to) - i128::from(from);
        if self.far.len() < MAX_FAR || self.far.contains_key(&stride) {
            *self.far.entry(stride).or_default() += 1;
        } else {
            self.has_forgotten = true;
        }
    }

    /// Takes a stride several times.
    #[inline]
    pub(super) fn add_many(&mut self, stride: i64, times: u64) {
        if stride == self.last.0 {
            self.last.1 += times;
        } else {
            self.settle();
            self.last = (stride, times);
        }
    }

    fn settle(&mut self) {
        let (stride, times) = std::mem::take(&mut self.last);
        if times > 0 {
            *self.counts.entry(stride).or_default() += times;
            if self.counts.len() > self.most {
                self.forget();
            }
        }
    }

    /// Forgets the rarer half, and more where many are equally rare.
    #[cold]
    fn forget(&mut self) {
        self.has_forgotten = true;
        self.most = self.most.min(MAX_KEPT);
        let mut counts: Vec<u64> = self.counts.values().copied().collect();
        let rank = counts.len().saturating_sub(self.most / 2);
        let (_, limit, _) = counts.select_nth_unstable(rank);
        let limit = *limit;
        self.counts.retain(|_, count| *count > limit);
        self.counts.shrink_to(2 * self.most);
    }

    /// Counts what is open; call once after the last stride.
    pub(super) fn finish(&mut self) {
        self.settle();
    }

    /// Returns `true` if rare strides were forgotten, and counts may be too low.
    pub(super) fn are_approximate(&self) -> bool {
        self.has_forgotten
    }

    /// Returns the commonest with their counts; at equal counts the smaller first.
    pub(super) fn top(&self, top: usize) -> Vec<(i128, u64)> {
        let near = self.counts.iter();
        let near = near.map(|(stride, count)| (i128::from(*stride), *count));
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
        let mut strides = Strides::keeping(1000);
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
