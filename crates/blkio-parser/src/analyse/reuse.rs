//! Reuse distance: how many other blocks are touched before a block is touched again.
//!
//! Every block has one mark, at the position of its last touch; the distance of a touch is the number of marks behind the
//! block's own. Positions are renumbered when they run out, so memory follows the number of distinct blocks, and a touch costs
//! the logarithm of that.
//!
//! After five million touches of more than a quarter of a million blocks, one group of eight blocks in eight is watched,
//! chosen by a hash of its address, and counts eight times, distances as well: spatially hashed sampling as in SHARDS
//! (Waldspurger and others, FAST 2015).

use rustc_hash::FxHashMap;

use super::Analyser;
use super::distribution::Distribution;
use super::marks::Marks;
use super::runs::{Batch, Run};
use crate::num::{bit_length, index, spread};

/// Positions at the beginning.
const POSITIONS: usize = 1 << 16;
/// Touches and distinct blocks up to which every block is watched.
const EXACT_TOUCHES: u64 = 5_000_000;
const EXACT_BLOCKS: u64 = 1 << 18;
/// Blocks that are watched together, and one group in how many is.
const GROUP: u64 = 8;
const ONE_IN: u64 = 8;

/// Returns `true` if the blocks of a group are among those that are watched.
fn is_watched(group: u64) -> bool {
    spread(group, ONE_IN.ilog2()) == 0
}

/// Reuse distances of blocks of one size.
#[derive(Debug, Clone)]
pub struct Reuse {
    block_sectors: u64,
    /// Binary digits of the size, when it is a power of two.
    shift: Option<u32>,
    /// Where the last positions of the blocks of a group are.
    groups: FxHashMap<u64, usize>,
    /// The position of each block's last touch plus 1, or 0.
    last: Vec<u32>,
    marks: Marks,
    next: usize,
    /// Touches and blocks up to which all blocks are watched.
    exact_until: (u64, u64),
    /// How many blocks one that is watched stands for.
    weight: u64,
    /// Touches.
    pub accesses: u64,
    /// First touches.
    pub cold: u64,
    /// Distances of the others.
    pub distances: Distribution,
    log2: [u64; 65],
}

impl Reuse {
    /// Returns an analysis of blocks of this many sectors.
    #[must_use]
    pub fn new(block_sectors: u64) -> Self {
        let block_sectors = block_sectors.max(1);
        let is_power = block_sectors.is_power_of_two();
        Self {
            block_sectors,
            shift: is_power.then(|| block_sectors.trailing_zeros()),
            groups: FxHashMap::default(),
            last: Vec::new(),
            marks: Marks::new(POSITIONS),
            next: 0,
            exact_until: (EXACT_TOUCHES, EXACT_BLOCKS),
            weight: 1,
            accesses: 0,
            cold: 0,
            distances: Distribution::default(),
            log2: [0; 65],
        }
    }

    /// Watches every block however many there are.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.exact_until = (u64::MAX, u64::MAX);
        self
    }

    /// Returns how many blocks one that is watched stands for: 1 when all are.
    #[must_use]
    pub fn sampled_one_in(&self) -> u64 {
        self.weight
    }

    /// Returns the bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_sectors * 512
    }

    /// Returns the block that a sector is in.
    #[inline]
    fn block_of(&self, sector: u64) -> u64 {
        match self.shift {
            Some(shift) => sector >> shift,
            None => sector / self.block_sectors,
        }
    }

    fn add(&mut self, run: &Run) {
        let first = self.block_of(run.sector);
        let last = self.block_of(run.end().saturating_sub(1));
        for group in first / GROUP..=last / GROUP {
            if self.weight == 1 || is_watched(group) {
                let start = group * GROUP;
                self.touch(
                    group,
                    first.max(start) - start,
                    last.min(start + GROUP - 1) - start,
                );
            }
        }
        // A block that one request ends in and the next begins in is touched by both, with nothing between.
        let starts = (1..u64::from(run.count)).map(|n| run.sector + n * run.sectors());
        let cut = starts.filter(|start| {
            let block = self.block_of(*start);
            block * self.block_sectors != *start && (self.weight == 1 || is_watched(block / GROUP))
        });
        let again = cut.count() as u64 * self.weight;
        self.accesses += again;
        self.count(0, again);
        let (touches, blocks) = self.exact_until;
        if self.weight == 1 && self.accesses > touches && self.cold > blocks {
            self.sample();
        }
    }

    /// Touches the blocks of a group from one to another.
    fn touch(&mut self, group: u64, first: u64, last: u64) {
        let next = self.last.len();
        let place = *self.groups.entry(group).or_insert(next);
        if place == next {
            self.last.resize(next + index(GROUP), 0);
        }
        for place in place + index(first)..=place + index(last) {
            if self.next >= self.marks.positions() {
                self.renumber();
            }
            let Some(known) = self.last.get_mut(place) else {
                return;
            };
            // Positions are as many as four times the distinct blocks, which memory limits far below 32 bits.
            let now = u32::try_from(self.next + 1).unwrap_or(u32::MAX);
            match std::mem::replace(known, now) {
                0 => self.cold += self.weight,
                before => {
                    let before = index(u64::from(before)) - 1;
                    let distance = self.marks.behind(before) * self.weight;
                    self.marks.clear(before);
                    self.count(distance, self.weight);
                }
            }
            self.accesses += self.weight;
            self.marks.set(self.next);
            self.next += 1;
        }
    }

    /// Counts touches that are not the first of their block.
    fn count(&mut self, distance: u64, touches: u64) {
        self.distances.add_many(distance, touches);
        let bits = index(bit_length(distance).into());
        if let Some(count) = self.log2.get_mut(bits) {
            *count += touches;
        }
    }

    /// Forgets all blocks but some, which stand for the others from now on.
    fn sample(&mut self) {
        self.weight = ONE_IN;
        let last = std::mem::take(&mut self.last);
        let groups = std::mem::take(&mut self.groups).into_iter();
        let mut groups: Vec<(u64, usize)> =
            groups.filter(|(group, _)| is_watched(*group)).collect();
        groups.sort_unstable();
        for (group, place) in groups {
            self.groups.insert(group, self.last.len());
            let blocks = last.get(place..place + index(GROUP));
            self.last.extend_from_slice(blocks.unwrap_or_default());
        }
        self.renumber();
    }

    /// Gives the marks the smallest positions in the same order, and room for three times as many.
    fn renumber(&mut self) {
        let touched = self.last.iter_mut().filter(|last| **last > 0);
        let mut touched: Vec<&mut u32> = touched.collect();
        touched.sort_unstable();
        self.next = touched.len();
        self.marks = Marks::new((4 * self.next).next_power_of_two().max(POSITIONS));
        for (place, last) in touched.into_iter().enumerate() {
            *last = u32::try_from(place + 1).unwrap_or(u32::MAX);
            self.marks.set(place);
        }
    }

    /// Sorts what percentiles need; call once after the last event.
    pub fn finish(&mut self) {
        self.distances.settle();
    }

    /// Returns the distances by number of significant bits (0 is distance 0, 1 is 1, 2 is 2 and 3).
    pub fn log2_histogram(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(self.log2).filter(|(_, count)| *count > 0)
    }

    /// Returns the miss ratio of an LRU cache by its size in blocks, at powers of two up to where only first touches miss.
    #[must_use]
    pub fn miss_ratio_curve(&self) -> Vec<(u64, f64)> {
        let mut curve = Vec::new();
        let mut hits = 0;
        if self.accesses == 0 {
            return curve;
        }
        // A cache of 2^k blocks hits distances below 2^k, which are those of up to k bits.
        for (bits, count) in (0..63_u32).zip(self.log2) {
            hits += count;
            let ratio = (self.accesses - hits) as f64 / self.accesses as f64;
            curve.push((1_u64 << bits, ratio));
            if hits + self.cold == self.accesses {
                break;
            }
        }
        curve
    }

    /// Returns the blocks that an LRU cache needs so that this share (0 to 1) of all accesses hits; `None` when first touches alone are more.
    #[must_use]
    pub fn cache_blocks_for(&mut self, share: f64) -> Option<u64> {
        let wanted = share * self.accesses as f64;
        let reused = self.distances.count as f64;
        if reused < wanted || self.distances.count == 0 {
            return None;
        }
        let found = self.distances.percentiles(&[wanted / reused * 100.0]);
        found.first().map(|distance| distance + 1)
    }
}

impl Analyser for Reuse {
    fn observe(&mut self, batch: &Batch) {
        for run in batch.runs.iter().filter(|run| run.is_data()) {
            self.add(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use proptest::prelude::*;

    fn touch(reuse: &mut Reuse, block: u64) {
        reuse.touch(block / GROUP, block % GROUP, block % GROUP);
    }

    proptest! {
        #[test]
        fn distances_are_those_of_counting(
            starts in prop::collection::vec((0_u64..40, 1_u64..12), 1..60)
        ) {
            let blocks: Vec<u64> = starts.iter().flat_map(|(start, n)| *start..start + n).collect();
            let mut reuse = Reuse::new(8);
            // Few positions, so that renumbering is met.
            reuse.marks = Marks::new(64);
            let mut model = Vec::new();
            for (at, block) in blocks.iter().enumerate() {
                touch(&mut reuse, *block);
                if let Some(before) = blocks[..at].iter().rposition(|b| b == block) {
                    let mut between = blocks[before + 1..at].to_vec();
                    between.sort_unstable();
                    between.dedup();
                    model.push(between.len() as u64);
                }
            }
            let mut distinct = blocks.clone();
            reuse.finish();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(reuse.cold, distinct.len() as u64);
            prop_assert_eq!(reuse.distances.count, model.len() as u64);
            prop_assert_eq!(reuse.distances.sum, model.iter().map(|d| u128::from(*d)).sum::<u128>());
            prop_assert_eq!(reuse.distances.max, model.iter().copied().max().unwrap_or(0));
        }
    }

    #[test]
    fn a_sample_of_blocks_stands_for_all() {
        let (loops, blocks) = (5_u64, 1 << 16);
        let touches = |reuse: &mut Reuse| {
            for number in 0..loops * blocks {
                // All blocks in an order that jumps about.
                let sector = number * 7_919 % blocks * 8;
                let event = Event {
                    sector,
                    nr_sector: 8,
                    ..Event::BLANK
                };
                reuse.add(&Run::of(&event, 0));
            }
            reuse.finish();
        };
        let mut exact = Reuse::new(8).exactly();
        touches(&mut exact);
        let found = (exact.accesses, exact.cold, exact.sampled_one_in());
        assert_eq!(found, (loops * blocks, blocks, 1));
        let mut sampled = Reuse::new(8);
        sampled.exact_until = (blocks, blocks / 2);
        touches(&mut sampled);
        assert_eq!(sampled.sampled_one_in(), ONE_IN);
        assert_eq!(sampled.accesses, sampled.cold + sampled.distances.count);
        let near = |a: u64, b: u64| a.abs_diff(b) as f64 <= 0.03 * b as f64;
        let median = |reuse: &mut Reuse| reuse.distances.percentiles(&[50.0])[0];
        for (a, b) in [
            (sampled.accesses, exact.accesses),
            (sampled.cold, exact.cold),
            (median(&mut sampled), median(&mut exact)),
        ] {
            assert!(near(a, b), "{a} and {b}");
        }
    }

    #[test]
    fn a_loop_hits_once_the_cache_holds_it() {
        let mut reuse = Reuse::new(8);
        (0..1000_u64).for_each(|i| touch(&mut reuse, i % 100));
        reuse.finish();
        assert_eq!(reuse.cold, 100);
        assert_eq!(reuse.cache_blocks_for(0.9), Some(100));
        assert_eq!(reuse.cache_blocks_for(0.95), None);
        let curve = reuse.miss_ratio_curve();
        assert_eq!(curve.first(), Some(&(1, 1.0)));
        assert_eq!(curve.last(), Some(&(128, 0.1)));
    }
}
