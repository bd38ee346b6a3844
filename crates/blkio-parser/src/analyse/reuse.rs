//! Reuse distance: how many other blocks are touched before a block is touched again.
//!
//! Every block has one mark, at the position of its last touch; the distance of a touch is the number of marks behind the
//! block's own. Marks are bits with counts per 64 and per 4,096, and positions are renumbered when they run out, so memory
//! follows the number of distinct blocks and a touch costs a few cache lines.

use rustc_hash::FxHashMap;

use super::Analyser;
use super::distribution::Distribution;
use super::working_set::MAX_SECTORS;
use crate::event::{Event, EventKind};
use crate::num::{bit_length, index};

/// Positions at the beginning.
const POSITIONS: usize = 1 << 16;

/// Reuse distances of blocks of one size.
#[derive(Debug, Clone)]
pub struct Reuse {
    block_sectors: u64,
    last: FxHashMap<u64, u32>,
    bits: Vec<u64>,
    /// Marks per word.
    words: Vec<u8>,
    /// Marks per 64 words.
    groups: Vec<u32>,
    next: usize,
    /// Touches.
    pub accesses: u64,
    /// First touches.
    pub cold: u64,
    /// Distances of the others.
    pub distances: Distribution,
    log2: [u64; 65],
}

impl Reuse {
    /// For blocks of this many sectors.
    #[must_use]
    pub fn new(block_sectors: u64) -> Self {
        Self {
            block_sectors: block_sectors.max(1),
            last: FxHashMap::default(),
            bits: vec![0; POSITIONS / 64],
            words: vec![0; POSITIONS / 64],
            groups: vec![0; POSITIONS / 4096],
            next: 0,
            accesses: 0,
            cold: 0,
            distances: Distribution::default(),
            log2: [0; 65],
        }
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_sectors * 512
    }

    fn set(&mut self, position: usize) {
        if let Some(bits) = self.bits.get_mut(position / 64) {
            *bits |= 1 << (position % 64);
        }
        if let Some(count) = self.words.get_mut(position / 64) {
            *count += 1;
        }
        if let Some(count) = self.groups.get_mut(position / 4096) {
            *count += 1;
        }
    }

    fn clear(&mut self, position: usize) {
        if let Some(bits) = self.bits.get_mut(position / 64) {
            *bits &= !(1 << (position % 64));
        }
        if let Some(count) = self.words.get_mut(position / 64) {
            *count -= 1;
        }
        if let Some(count) = self.groups.get_mut(position / 4096) {
            *count -= 1;
        }
    }

    /// Marks behind a position.
    fn behind(&self, position: usize) -> u64 {
        let word = position / 64;
        let group = position / 4096;
        let in_word = self.bits.get(word).map_or(0, |bits| {
            // Two shifts, because one by 64 is none.
            (bits >> (position % 64) >> 1).count_ones()
        });
        let group_end = ((group + 1) * 64).min(self.words.len());
        let in_group: u32 = self
            .words
            .get(word + 1..group_end)
            .unwrap_or_default()
            .iter()
            .map(|count| u32::from(*count))
            .sum();
        let used = (self.next / 4096 + 1).min(self.groups.len());
        let in_rest: u32 = self
            .groups
            .get(group + 1..used)
            .unwrap_or_default()
            .iter()
            .sum();
        u64::from(in_word) + u64::from(in_group) + u64::from(in_rest)
    }

    fn touch(&mut self, block: u64) {
        self.accesses += 1;
        if self.next >= self.bits.len() * 64 {
            self.renumber();
        }
        let position = self.next;
        self.next += 1;
        let number = u32::try_from(position).unwrap_or(u32::MAX);
        match self.last.insert(block, number) {
            None => self.cold += 1,
            Some(before) => {
                let before = index(before.into());
                let distance = self.behind(before);
                self.clear(before);
                self.distances.add(distance);
                if let Some(count) = self.log2.get_mut(index(bit_length(distance).into())) {
                    *count += 1;
                }
            }
        }
        self.set(position);
    }

    /// Gives the marks the smallest positions in the same order, and room for as many again.
    fn renumber(&mut self) {
        let mut order: Vec<(u32, u64)> = self.last.iter().map(|(b, p)| (*p, *b)).collect();
        order.sort_unstable();
        let room = (order.len() * 2).next_power_of_two().max(POSITIONS);
        self.bits = vec![0; room / 64];
        self.words = vec![0; room / 64];
        self.groups = vec![0; room.div_ceil(4096)];
        for (position, (_, block)) in order.iter().enumerate() {
            let number = u32::try_from(position).unwrap_or(u32::MAX);
            self.last.insert(*block, number);
            self.set(position);
        }
        self.next = order.len();
    }

    /// Distances by number of significant bits (0 is distance 0, 1 is 1, 2 is 2 and 3).
    pub fn log2_histogram(&self) -> impl Iterator<Item = (u32, u64)> {
        (0..).zip(self.log2).filter(|(_, count)| *count > 0)
    }

    /// Miss ratio of an LRU cache by its size in blocks, at powers of two up to where only first touches miss.
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

    /// Blocks an LRU cache needs so that this share (0 to 1) of all accesses hits; `None` when first touches alone are more.
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
    fn observe(&mut self, event: &Event) {
        if event.kind != EventKind::Issue || !event.direction.is_data() || event.nr_sector == 0 {
            return;
        }
        let sectors = u64::from(event.nr_sector).min(MAX_SECTORS);
        let last = event.sector.saturating_add(sectors - 1);
        for block in event.sector / self.block_sectors..=last / self.block_sectors {
            self.touch(block);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distances_are_those_of_counting(blocks in prop::collection::vec(0_u64..40, 1..400)) {
            let mut reuse = Reuse::new(8);
            // Few positions, so that renumbering is met.
            reuse.bits = vec![0; 1];
            reuse.words = vec![0; 1];
            reuse.groups = vec![0; 1];
            let mut twin = Vec::new();
            for (at, block) in blocks.iter().enumerate() {
                reuse.touch(*block);
                if let Some(before) = blocks[..at].iter().rposition(|b| b == block) {
                    let mut between = blocks[before + 1..at].to_vec();
                    between.sort_unstable();
                    between.dedup();
                    twin.push(between.len() as u64);
                }
            }
            let mut distinct = blocks.clone();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(reuse.cold, distinct.len() as u64);
            prop_assert_eq!(reuse.distances.count, twin.len() as u64);
            prop_assert_eq!(reuse.distances.sum, twin.iter().map(|d| u128::from(*d)).sum::<u128>());
            prop_assert_eq!(reuse.distances.max, twin.iter().copied().max().unwrap_or(0));
        }
    }

    #[test]
    fn a_loop_hits_once_the_cache_holds_it() {
        let mut reuse = Reuse::new(8);
        (0..1000_u64).for_each(|i| reuse.touch(i % 100));
        assert_eq!(reuse.cold, 100);
        assert_eq!(reuse.cache_blocks_for(0.9), Some(100));
        assert_eq!(reuse.cache_blocks_for(0.95), None);
        let curve = reuse.miss_ratio_curve();
        assert_eq!(curve.first(), Some(&(1, 1.0)));
        assert_eq!(curve.last(), Some(&(128, 0.1)));
    }
}
