//! Reuse distance: how many other blocks are touched before a block is touched again.
//!
//! Every block has one mark, at the position of its last touch; the distance of a touch is the number of marks behind the
//! block's own. Marks are bits with counts per 64, 4,096 and 262,144, and positions are renumbered when they run out, so
//! memory follows the number of distinct blocks and a touch costs a few cache lines. A touch that follows the one before as
//! it did last time has the same distance, so of a sequential run only the first touch is counted, and its marks move as
//! one.

use super::Analyser;
use super::distribution::Distribution;
use super::numbers::Numbers;
use super::runs::{Batch, Run as Requests};
use crate::event::{Event, EventKind};
use crate::num::{bit_length, index};

/// Positions at the beginning.
const POSITIONS: usize = 1 << 16;
/// Blocks whose last positions are kept together.
const PAGE: u64 = 64;

/// Marks at positions, and their number behind one.
#[derive(Debug, Clone)]
struct Marks {
    bits: Vec<u64>,
    /// Marks per word, by group of 64 words.
    words: Vec<[u8; 64]>,
    /// Marks per group, by region of 64 groups.
    groups: Vec<[u32; 64]>,
    /// Marks per region.
    regions: Vec<u32>,
}

impl Marks {
    fn new(positions: usize) -> Self {
        Self {
            bits: vec![0; positions.div_ceil(64)],
            words: vec![[0; 64]; positions.div_ceil(1 << 12)],
            groups: vec![[0; 64]; positions.div_ceil(1 << 18)],
            regions: vec![0; positions.div_ceil(1 << 18)],
        }
    }

    fn positions(&self) -> usize {
        self.bits.len() * 64
    }

    /// Marks `count` positions from `from` on, which are not marked.
    fn set(&mut self, from: usize, count: usize) {
        self.words_of(from, count, |marks, word, mask, many| {
            if let Some(bits) = marks.bits.get_mut(word) {
                *bits |= mask;
            }
            if let Some(count) = marks.of_word(word) {
                *count += many;
            }
            if let Some(count) = marks.of_group(word >> 6) {
                *count += u32::from(many);
            }
            if let Some(count) = marks.regions.get_mut(word >> 12) {
                *count += u32::from(many);
            }
        });
    }

    /// Takes the marks of `count` positions from `from` on, which are all marked.
    fn clear(&mut self, from: usize, count: usize) {
        self.words_of(from, count, |marks, word, mask, many| {
            if let Some(bits) = marks.bits.get_mut(word) {
                *bits &= !mask;
            }
            if let Some(count) = marks.of_word(word) {
                *count -= many;
            }
            if let Some(count) = marks.of_group(word >> 6) {
                *count -= u32::from(many);
            }
            if let Some(count) = marks.regions.get_mut(word >> 12) {
                *count -= u32::from(many);
            }
        });
    }

    fn of_word(&mut self, word: usize) -> Option<&mut u8> {
        self.words.get_mut(word >> 6)?.get_mut(word & 63)
    }

    fn of_group(&mut self, group: usize) -> Option<&mut u32> {
        self.groups.get_mut(group >> 6)?.get_mut(group & 63)
    }

    /// Calls `change` for each word of a range, with the bits in it and their number.
    #[inline]
    fn words_of(&mut self, from: usize, count: usize, change: impl Fn(&mut Self, usize, u64, u8)) {
        let mut at = from;
        let end = from + count;
        while at < end {
            let stop = end.min((at | 63) + 1);
            let many = stop - at;
            let mask = (u64::MAX >> (64 - many)) << (at & 63);
            change(self, at >> 6, mask, u8::try_from(many).unwrap_or(64));
            at = stop;
        }
    }

    /// Marks behind a position.
    #[inline(never)]
    fn behind(&self, position: usize) -> u64 {
        let (word, group, region) = (position >> 6, position >> 12, position >> 18);
        let in_word = self.bits.get(word).map_or(0, |bits| {
            // Two shifts, because one by 64 is none.
            (bits >> (position & 63) >> 1).count_ones()
        });
        let words = self.words.get(group).unwrap_or(&[0; 64]);
        let in_group = bytes_behind(words, word & 63);
        let groups = self.groups.get(region).unwrap_or(&[0; 64]);
        let in_region = counts_behind(groups, group & 63);
        let in_rest: u32 = self
            .regions
            .get(region + 1..)
            .unwrap_or_default()
            .iter()
            .sum();
        u64::from(in_word) + in_group + in_region + u64::from(in_rest)
    }
}

/// For each place of a line of bytes, the bytes behind it.
static BEHIND: [[u64; 8]; 64] = {
    let mut masks = [[0; 8]; 64];
    let mut place = 0;
    while place < 64 {
        let mut at = place + 1;
        while at < 64 {
            masks[place][at / 8] |= 0xff << (8 * (at % 8));
            at += 1;
        }
        place += 1;
    }
    masks
};

/// The sum of the counts behind a place, each at most 64: eight at a time, in pairs, of which no sum passes 16 bits.
#[inline]
fn bytes_behind(counts: &[u8; 64], place: usize) -> u64 {
    const LOW: u64 = 0x00ff_00ff_00ff_00ff;
    let (eights, _) = counts.as_chunks::<8>();
    let mut sums = 0;
    for (eight, behind) in eights.iter().zip(BEHIND.get(place).unwrap_or(&[0; 8])) {
        let eight = u64::from_le_bytes(*eight) & behind;
        sums += (eight & LOW) + (eight >> 8 & LOW);
    }
    sums.wrapping_mul(0x0001_0001_0001_0001) >> 48
}

/// The sum of the counts behind a place, four at a time.
#[inline]
fn counts_behind(counts: &[u32; 64], place: usize) -> u64 {
    let (fours, _) = counts.as_chunks::<4>();
    let (before, behind) = fours.split_at((place / 4 + 1).min(fours.len()));
    let [mut a, mut b, mut c, mut d] = [0; 4];
    for four in behind {
        a += four[0];
        b += four[1];
        c += four[2];
        d += four[3];
    }
    let own = before.last().copied().unwrap_or_default();
    let rest = match place % 4 {
        0 => own[1] + own[2] + own[3],
        1 => own[2] + own[3],
        2 => own[3],
        _ => 0,
    };
    u64::from(a + b + c + d + rest)
}

/// The touches that are not yet in the marks: they have successive positions, and had successive positions before.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    /// Where the first block was marked until now; `None` when the blocks were never touched.
    before: Option<usize>,
    /// Where the first block is to be marked.
    now: usize,
    touches: usize,
    /// The distance of every touch.
    distance: u64,
}

/// Reuse distances of blocks of one size.
#[derive(Debug, Clone)]
pub struct Reuse {
    block_sectors: u64,
    /// Binary digits of the size, when it is a power of two.
    shift: Option<u32>,
    /// Where the last positions of [`PAGE`] blocks are.
    pages: Numbers,
    /// The position of a block's last touch plus 1, or 0.
    last: Vec<u32>,
    marks: Marks,
    next: usize,
    run: Run,
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
        let block_sectors = block_sectors.max(1);
        Self {
            block_sectors,
            shift: block_sectors
                .is_power_of_two()
                .then(|| block_sectors.trailing_zeros()),
            pages: Numbers::default(),
            last: Vec::new(),
            marks: Marks::new(POSITIONS),
            next: 0,
            run: Run::default(),
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

    /// Where the last position of a block is kept.
    #[inline]
    fn slot(&mut self, block: u64) -> usize {
        let (place, is_new) = self.pages.place(block / PAGE, self.last.len());
        if is_new {
            self.last.resize(place + index(PAGE), 0);
        }
        place + index(block % PAGE)
    }

    /// Touches successive blocks.
    fn touch(&mut self, first: u64, last: u64) {
        let mut block = first;
        loop {
            let end = last.min(block | (PAGE - 1));
            let count = index(end - block) + 1;
            if self.next + count > self.marks.positions() {
                self.settle();
                self.renumber();
            }
            let slot = self.slot(block);
            self.touch_slots(slot, count);
            if end == last {
                return;
            }
            block = end + 1;
        }
    }

    /// Touches the blocks of successive slots.
    fn touch_slots(&mut self, mut slot: usize, count: usize) {
        let end = slot + count;
        while let Some(last) = self.last.get_mut(slot..end)
            && let Some(first) = last.first().copied()
        {
            // Blocks that were touched one after the other, or never, until now.
            let step = u32::from(first != 0);
            let mut expected = first;
            let mut alike = 0;
            for last in last.iter() {
                if *last != expected {
                    break;
                }
                alike += 1;
                expected = expected.wrapping_add(step);
            }
            let before = index(first.into()).checked_sub(1);
            let run = &self.run;
            let follow = match (run.before, before) {
                (Some(first), Some(before)) if before == first + run.touches => {
                    run.now.saturating_sub(before).min(alike)
                }
                (None, None) if run.touches > 0 => alike,
                _ => 0,
            };
            let touches = if follow > 0 { follow } else { alike };
            // Positions are as many as four times the distinct blocks, which memory limits far below 32 bits.
            let mut position = u32::try_from(self.next).unwrap_or(u32::MAX);
            for last in last.iter_mut().take(touches) {
                position = position.saturating_add(1);
                *last = position;
            }
            if follow > 0 {
                self.run.touches += touches;
            } else {
                self.settle();
                self.run = Run {
                    before,
                    now: self.next,
                    touches,
                    distance: before.map_or(0, |before| self.marks.behind(before)),
                };
            }
            self.next += touches;
            slot += touches;
        }
    }

    /// Moves the marks of the run and counts its distances.
    fn settle(&mut self) {
        let run = std::mem::take(&mut self.run);
        let touches = run.touches as u64;
        self.accesses += touches;
        match run.before {
            None => self.cold += touches,
            Some(before) => {
                self.marks.clear(before, run.touches);
                self.distances.add_many(run.distance, touches);
                let bits = index(bit_length(run.distance).into());
                if let Some(count) = self.log2.get_mut(bits) {
                    *count += touches;
                }
            }
        }
        self.marks.set(run.now, run.touches);
    }

    /// Counts what is open; call once after the last event.
    pub fn finish(&mut self) {
        self.settle();
        self.distances.settle();
    }

    /// Gives the marks the smallest positions in the same order, and room for three times as many.
    fn renumber(&mut self) {
        let mut slots = vec![u32::MAX; self.marks.positions()];
        for (slot, last) in (0_u32..).zip(&self.last) {
            if let Some(place) = index(u64::from(*last)).checked_sub(1)
                && let Some(to) = slots.get_mut(place)
            {
                *to = slot;
            }
        }
        let blocks = slots.iter().filter(|slot| **slot != u32::MAX).count();
        self.marks = Marks::new((blocks * 4).next_power_of_two().max(POSITIONS));
        self.next = 0;
        self.marks.set(0, blocks);
        for slot in slots.into_iter().filter(|slot| *slot != u32::MAX) {
            self.next += 1;
            if let Some(last) = self.last.get_mut(index(slot.into())) {
                *last = u32::try_from(self.next).unwrap_or(u32::MAX);
            }
        }
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
        self.add(&Requests::of(event, 0));
    }

    fn observe_batch(&mut self, batch: &Batch) {
        let runs = batch.shape.runs.iter().filter(|run| run.is_data());
        runs.for_each(|run| self.add(run));
    }
}

impl Reuse {
    /// The block that a sector is in, and its place there.
    #[inline]
    fn block_of(&self, sector: u64) -> (u64, u64) {
        match self.shift {
            Some(shift) => (sector >> shift, sector & (self.block_sectors - 1)),
            None => (sector / self.block_sectors, sector % self.block_sectors),
        }
    }

    fn add(&mut self, requests: &Requests) {
        let sectors = requests.sectors();
        let whole = sectors * u64::from(requests.count);
        let (first, place) = self.block_of(requests.sector);
        let (last, _) = self.block_of(requests.sector.saturating_add(whole - 1));
        self.touch(first, last);
        if requests.count == 1 {
            return;
        }
        // A block that one request ends in and the next begins in is touched by both, with nothing between.
        let others = u64::from(requests.count) - 1;
        let (_, step) = self.block_of(sectors);
        let again = match (place, step) {
            (0, 0) => return,
            (_, 0) => others,
            _ => {
                let starts = (1..=others).map(|i| self.block_of(requests.sector + i * sectors));
                starts.filter(|(_, place)| *place != 0).count() as u64
            }
        };
        self.accesses += again;
        self.distances.add_many(0, again);
        if let Some(count) = self.log2.first_mut() {
            *count += again;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn distances_are_those_of_counting(
            starts in prop::collection::vec((0_u64..40, 1_u64..12), 1..60)
        ) {
            let blocks: Vec<u64> = starts.iter().flat_map(|(start, n)| *start..start + n).collect();
            let mut reuse = Reuse::new(8);
            // Few positions, so that renumbering is met.
            reuse.marks = Marks::new(64);
            let mut twin = Vec::new();
            for (at, block) in blocks.iter().enumerate() {
                reuse.touch(*block, *block);
                if let Some(before) = blocks[..at].iter().rposition(|b| b == block) {
                    let mut between = blocks[before + 1..at].to_vec();
                    between.sort_unstable();
                    between.dedup();
                    twin.push(between.len() as u64);
                }
            }
            let mut distinct = blocks.clone();
            reuse.finish();
            distinct.sort_unstable();
            distinct.dedup();
            prop_assert_eq!(reuse.cold, distinct.len() as u64);
            prop_assert_eq!(reuse.distances.count, twin.len() as u64);
            prop_assert_eq!(reuse.distances.sum, twin.iter().map(|d| u128::from(*d)).sum::<u128>());
            prop_assert_eq!(reuse.distances.max, twin.iter().copied().max().unwrap_or(0));
        }
    }

    #[test]
    fn marks_are_counted_across_all_levels() {
        let mut marks = Marks::new(1 << 20);
        let places: Vec<usize> = (0..1 << 20).step_by(37).collect();
        places.iter().for_each(|place| marks.set(*place, 1));
        for place in [0, 63, 64, 4095, 4096, (1 << 18) - 1, 1 << 18, (1 << 20) - 1] {
            let twin = places.iter().filter(|p| **p > place).count();
            assert_eq!(marks.behind(place), twin as u64, "{place}");
        }
    }

    #[test]
    fn marks_of_a_range_are_set_and_taken_as_one_by_one() {
        let ranges = [
            (0, 1),
            (3, 61),
            (64, 64),
            (130, 700),
            (4090, 10),
            (1 << 18, 1),
        ];
        let (mut ranged, mut single) = (Marks::new(1 << 19), Marks::new(1 << 19));
        for (from, count) in ranges {
            ranged.set(from, count);
            (from..from + count).for_each(|place| single.set(place, 1));
        }
        ranged.clear(200, 500);
        (200..700).for_each(|place| single.clear(place, 1));
        for place in [0, 2, 63, 127, 199, 300, 699, 4095, 4099, 1 << 18] {
            assert_eq!(ranged.behind(place), single.behind(place), "{place}");
        }
        assert_eq!(ranged.bits, single.bits);
    }

    #[test]
    fn a_loop_hits_once_the_cache_holds_it() {
        let mut reuse = Reuse::new(8);
        (0..1000_u64).for_each(|i| reuse.touch(i % 100, i % 100));
        reuse.finish();
        assert_eq!(reuse.cold, 100);
        assert_eq!(reuse.cache_blocks_for(0.9), Some(100));
        assert_eq!(reuse.cache_blocks_for(0.95), None);
        let curve = reuse.miss_ratio_curve();
        assert_eq!(curve.first(), Some(&(1, 1.0)));
        assert_eq!(curve.last(), Some(&(128, 0.1)));
    }
}
