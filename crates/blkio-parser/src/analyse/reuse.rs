//! Reuse distance: how many other blocks are touched before a block is touched again.
//!
//! Every block has one mark, at the position of its last touch; the distance of a touch is the number of marks behind the
//! block's own. Positions are renumbered when they run out, so memory follows the number of distinct blocks and a touch costs
//! a few cache lines. A touch that follows the one before as it did last time has the same distance, so of a sequential run
//! only the first touch is counted, and its marks move as one.
//!
//! After five million touches of more than a quarter of a million blocks, one group of eight blocks in eight is watched,
//! chosen by a hash of its address, and counts eight times, distances as well: spatially hashed sampling as in SHARDS
//! (Waldspurger and others, FAST 2015).

use super::Analyser;
use super::distribution::Distribution;
use super::marks::Marks;
use super::numbers::Numbers;
use super::runs::{Batch, Run as Requests};
use crate::event::{Event, EventKind};
use crate::num::{bit_length, index, spread};

/// Positions at the beginning.
const POSITIONS: usize = 1 << 16;
/// Binary digits of the number of blocks whose last positions are kept together.
const PAGE_BITS: u32 = 6;

/// Touches and distinct blocks up to which every block is watched.
const EXACT_TOUCHES: u64 = 5_000_000;
const EXACT_BLOCKS: u64 = 1 << 18;
/// Binary digits of the number of blocks that are watched together, and one group in how many is.
const GROUP_BITS: u32 = 3;
const ONE_IN: u64 = 8;

/// Whether the blocks of a group are among those that are watched.
fn is_watched(group: u64) -> bool {
    spread(group, ONE_IN.ilog2()) == 0
}

/// Runs of which the places are fetched at a time, and blocks from which on that pays: their positions are not near the
/// processor any more.
const AHEAD: usize = 64;
const FAR: usize = 1 << 17;

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
    /// Where the last positions of the blocks of a page are.
    pages: Numbers,
    /// [`PAGE_BITS`], or [`GROUP_BITS`] of what is watched.
    page_bits: u32,
    /// The position of a block's last touch plus 1, or 0.
    last: Vec<u32>,
    marks: Marks,
    next: usize,
    run: Run,
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
            page_bits: PAGE_BITS,
            last: Vec::new(),
            marks: Marks::new(POSITIONS),
            next: 0,
            run: Run::default(),
            exact_until: (EXACT_TOUCHES, EXACT_BLOCKS),
            weight: 1,
            accesses: 0,
            cold: 0,
            distances: Distribution::default(),
            log2: [0; 65],
        }
    }

    /// The same, with every block watched however many there are.
    #[must_use]
    pub fn exactly(mut self) -> Self {
        self.exact_until = (u64::MAX, u64::MAX);
        self
    }

    /// How many blocks one that is watched stands for: 1 when all are.
    #[must_use]
    pub fn sampled_one_in(&self) -> u64 {
        self.weight
    }

    /// Bytes of a block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block_sectors * 512
    }

    /// Where the last position of a block is kept.
    #[inline]
    fn slot(&mut self, block: u64) -> usize {
        let page = block >> self.page_bits;
        let (place, is_new) = self.pages.place(page, self.last.len());
        if is_new {
            self.last.resize(place + (1 << self.page_bits), 0);
        }
        place + index(block & self.place_in_page())
    }

    /// The digits of a block's number that say where it is in its page.
    #[inline]
    fn place_in_page(&self) -> u64 {
        (1 << self.page_bits) - 1
    }

    /// Looks at the places that these requests need. Of one request these lie behind each other and each is waited for; those
    /// of many requests are on their way at once, and near the processor afterwards.
    fn fetch(&self, runs: &[Requests]) {
        let mut positions = [0; AHEAD];
        for (run, position) in runs.iter().zip(&mut positions) {
            let (mut block, _) = self.block_of(run.sector);
            if self.weight > 1 {
                let (last, _) = self.block_of(run.end().saturating_sub(1));
                let groups = block >> GROUP_BITS..=last >> GROUP_BITS;
                let Some(group) = groups.into_iter().find(|group| is_watched(*group)) else {
                    continue;
                };
                block = block.max(group << GROUP_BITS);
            }
            let page = self.pages.known(block >> self.page_bits);
            let place = index(block & self.place_in_page());
            let last = page.and_then(|page| self.last.get(page + place));
            *position = last.copied().unwrap_or(0);
        }
        let mut seen = 0;
        for position in positions {
            seen ^= self.marks.fetch(index(u64::from(position)));
        }
        std::hint::black_box(seen);
    }

    /// Touches successive blocks.
    fn touch(&mut self, first: u64, last: u64) {
        let mut block = first;
        loop {
            let end = last.min(block | self.place_in_page());
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
        let touches = run.touches as u64 * self.weight;
        match run.before {
            None => {
                self.accesses += touches;
                self.cold += touches;
            }
            Some(before) => {
                self.marks.clear(before, run.touches);
                self.count(run.distance * self.weight, touches);
            }
        }
        self.marks.set(run.now, run.touches);
    }

    /// Counts touches that are not the first of their block.
    fn count(&mut self, distance: u64, touches: u64) {
        self.accesses += touches;
        self.distances.add_many(distance, touches);
        let bits = index(bit_length(distance).into());
        if let Some(count) = self.log2.get_mut(bits) {
            *count += touches;
        }
    }

    /// Forgets all blocks but some, which stand for the others from now on.
    fn sample(&mut self) {
        self.settle();
        self.weight = ONE_IN;
        self.page_bits = GROUP_BITS;
        let last = std::mem::take(&mut self.last);
        for (page, place) in std::mem::take(&mut self.pages).in_order() {
            let blocks = last.get(place..place + (1 << PAGE_BITS));
            let groups = blocks.unwrap_or_default().chunks(1 << GROUP_BITS);
            for (blocks, group) in groups.zip(page << (PAGE_BITS - GROUP_BITS)..) {
                if is_watched(group) && blocks.iter().any(|last| *last > 0) {
                    self.pages.place(group, self.last.len());
                    self.last.extend_from_slice(blocks);
                }
            }
        }
        self.renumber();
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
        for runs in batch.shape.runs.chunks(AHEAD) {
            if self.last.len() >= FAR {
                self.fetch(runs);
            }
            for run in runs {
                if run.is_data() {
                    self.add(run);
                }
            }
        }
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
        if self.weight == 1 {
            self.touch(first, last);
            let (touches, blocks) = self.exact_until;
            if self.accesses > touches && self.cold > blocks {
                self.sample();
            }
        } else {
            for group in first >> GROUP_BITS..=last >> GROUP_BITS {
                if is_watched(group) {
                    let blocks = group << GROUP_BITS;
                    self.touch(first.max(blocks), last.min(blocks | self.place_in_page()));
                }
            }
        }
        if requests.count == 1 {
            return;
        }
        // A block that one request ends in and the next begins in is touched by both, with nothing between.
        let others = u64::from(requests.count) - 1;
        let (_, step) = self.block_of(sectors);
        let again = match (place, step) {
            (0, 0) => return,
            (_, 0) if self.weight == 1 => others,
            _ => {
                let starts = (1..=others).map(|i| self.block_of(requests.sector + i * sectors));
                let cut = starts.filter(|(block, place)| {
                    *place != 0 && (self.weight == 1 || is_watched(block >> GROUP_BITS))
                });
                cut.count() as u64 * self.weight
            }
        };
        self.count(0, again);
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
                reuse.add(&Requests::of(&event, 0));
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
