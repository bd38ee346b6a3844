//! Reuse distances and the miss ratios that follow from them.

use rustc_hash::FxHashMap;

/// Maximum number of pages that are followed; beyond, a fixed share of the pages stands for all.
const MAX_PAGES: usize = 1 << 20;
/// Steps of the hash of a page.
const HASH_BITS: u32 = 24;
/// Distances up to this are counted one by one.
const FINE: u64 = 64;

/// Reuse distances of pages: how many other pages were touched since the last time.
///
/// Exact by a tree over the times of last touches (Bennett and Kruskal's way); when more than a million pages are followed, the
/// share of the hash space that is followed is halved (fixed-size SHARDS of Waldspurger and others, 2015) and distances and
/// counts are scaled.
#[derive(Debug, Default)]
pub(crate) struct ReuseScan {
    last: FxHashMap<u64, u32>,
    tree: Vec<u32>,
    clock: usize,
    /// Halvings of the followed share.
    halvings: u32,
    /// Estimated accesses by distance, as buckets; see [`bucket`].
    counts: Vec<u64>,
    /// First touches.
    cold: u64,
    touched: u64,
}

/// A bucket of distances: exact to 64, then 16 to each doubling.
fn bucket(distance: u64) -> usize {
    if distance < FINE {
        return usize::try_from(distance).unwrap_or(0);
    }
    let octave = 63 - distance.leading_zeros();
    let step = (distance >> (octave - 4)) & 15;
    64 + ((octave - 6) * 16) as usize + usize::try_from(step).unwrap_or(0)
}

/// The largest distance of a bucket.
fn bucket_top(bucket: usize) -> u64 {
    let Some(above) = bucket.checked_sub(64) else {
        return bucket as u64;
    };
    let octave = u32::try_from(above / 16 + 6).unwrap_or(63);
    let step = (above % 16) as u64;
    ((16 + step + 1) << (octave - 4)) - 1
}

fn hash(page: u64) -> u64 {
    page.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - HASH_BITS)
}

impl ReuseScan {
    pub(crate) fn touch(&mut self, page: u64) {
        self.touched += 1;
        if hash(page) >> (HASH_BITS - self.halvings.min(HASH_BITS)) != 0 {
            return;
        }
        if self.clock + 1 >= self.tree.len() {
            self.compact();
        }
        let weight = 1_u64 << self.halvings;
        self.clock += 1;
        let now = self.clock;
        match self
            .last
            .insert(page, u32::try_from(now).unwrap_or(u32::MAX))
        {
            None => self.cold += weight,
            Some(before) => {
                let before = before as usize;
                let between = self.sum(now - 1) - self.sum(before);
                self.add(before, u32::MAX);
                let at = bucket(u64::from(between) * weight);
                if self.counts.len() <= at {
                    self.counts.resize(at + 1, 0);
                }
                if let Some(count) = self.counts.get_mut(at) {
                    *count += weight;
                }
            }
        }
        self.add(now, 1);
        if self.last.len() > MAX_PAGES && self.halvings < HASH_BITS {
            self.halvings += 1;
            let shift = HASH_BITS - self.halvings;
            self.last.retain(|page, _| hash(*page) >> shift == 0);
            self.compact();
        }
    }

    /// Numbers the last touches anew, from 1, and makes room for as many again.
    fn compact(&mut self) {
        let mut order: Vec<(u32, u64)> = self.last.iter().map(|(page, at)| (*at, *page)).collect();
        order.sort_unstable();
        self.tree = vec![0; (order.len() * 2).max(1 << 12) + 1];
        self.clock = 0;
        for (_, page) in order {
            self.clock += 1;
            let now = self.clock;
            self.last
                .insert(page, u32::try_from(now).unwrap_or(u32::MAX));
            self.add(now, 1);
        }
    }

    /// Adds to a place of the tree; `u32::MAX` takes one away.
    fn add(&mut self, mut at: usize, value: u32) {
        while let Some(node) = self.tree.get_mut(at) {
            *node = node.wrapping_add(value);
            at += at & at.wrapping_neg();
        }
    }

    fn sum(&self, mut at: usize) -> u32 {
        let mut sum = 0_u32;
        while at > 0 {
            sum = sum.wrapping_add(self.tree.get(at).copied().unwrap_or(0));
            at &= at - 1;
        }
        sum
    }

    /// Whether a share of the pages stands for all, and which.
    pub(crate) fn sampled_share(&self) -> f64 {
        0.5_f64.powi(i32::try_from(self.halvings).unwrap_or(i32::MAX))
    }

    pub(crate) fn cold(&self) -> u64 {
        self.cold
    }

    /// Accesses by distance: the largest distance of each bucket and its count, ascending, empty ones left out.
    pub(crate) fn histogram(&self) -> Vec<(u64, u64)> {
        self.counts
            .iter()
            .enumerate()
            .filter(|(_, count)| **count > 0)
            .map(|(at, count)| (bucket_top(at), *count))
            .collect()
    }

    /// Miss ratios of caches of 1, 2, 4, ... pages that evict what was used longest ago, until nothing but first touches misses.
    pub(crate) fn miss_ratios(&self) -> Vec<(u64, f64)> {
        let histogram = self.histogram();
        let hits: u64 = histogram.iter().map(|(_, count)| count).sum();
        let all = hits + self.cold;
        if all == 0 {
            return Vec::new();
        }
        let mut curve = Vec::new();
        let mut pages = 1_u64;
        loop {
            let kept: u64 = histogram
                .iter()
                .filter(|(distance, _)| *distance < pages)
                .map(|(_, count)| count)
                .sum();
            let misses = crate::quantile::real(all - kept);
            curve.push((pages, misses / crate::quantile::real(all)));
            if kept == hits || pages > 1 << 40 {
                return curve;
            }
            pages *= 2;
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn buckets_cover_everything_once() {
        for distance in (0..5000).chain([u64::MAX >> 8, 1 << 40]) {
            let at = bucket(distance);
            assert!(distance <= bucket_top(at), "{distance}");
            assert!(at == 0 || bucket_top(at - 1) < distance, "{distance}");
        }
    }

    #[test]
    fn a_loop_over_n_pages_has_distance_n_minus_1() {
        let mut scan = ReuseScan::default();
        for at in 0..10_u64 * 40 {
            scan.touch(at % 10);
        }
        assert_eq!(scan.histogram(), [(9, 390)]);
        assert_eq!(scan.cold(), 10);
        let curve = scan.miss_ratios();
        assert_eq!(curve.last().map(|(pages, _)| *pages), Some(16));
        assert!((curve.first().unwrap().1 - 1.0).abs() < 1e-12);
        assert!((curve.last().unwrap().1 - 0.025).abs() < 1e-12);
    }

    proptest! {
        #[test]
        fn as_counting_by_hand(pages in prop::collection::vec(0_u64..20, 0..300)) {
            let mut scan = ReuseScan::default();
            for page in &pages {
                scan.touch(*page);
            }
            let mut expected = std::collections::BTreeMap::new();
            for (at, page) in pages.iter().enumerate() {
                if let Some(before) = pages[..at].iter().rposition(|known| known == page) {
                    let mut between = pages[before + 1..at].to_vec();
                    between.sort_unstable();
                    between.dedup();
                    *expected.entry(between.len() as u64).or_insert(0_u64) += 1;
                }
            }
            prop_assert_eq!(scan.histogram(), expected.into_iter().collect::<Vec<_>>());
        }
    }
}
