//! Distinct blocks of 4 KiB.

use super::Analyser;
use super::numbers::Numbers;
use super::runs::{Batch, Run};
use crate::event::{Event, EventKind};
use crate::num::index;
use crate::rwbs::Direction;

/// Words of a page of the map: 4,096 blocks, 16 MiB of the device.
const WORDS: usize = 64;
/// Blocks of a page.
const BLOCKS: u64 = 64 * WORDS as u64;
/// Sectors of a block.
const SECTORS: u64 = 8;
/// More sectors than a request can have: its byte counter has 32 bits.
pub(crate) const MAX_SECTORS: u64 = 1 << 23;

#[derive(Debug, Clone)]
struct Page {
    read: [u64; WORDS],
    written: [u64; WORDS],
}

/// Which blocks were touched. Memory: two bits per block of every 16 MiB of the device that was touched.
#[derive(Debug, Clone, Default)]
pub struct WorkingSet {
    pages: Vec<Page>,
    numbers: Numbers,
}

/// Distinct blocks of each window of time, one after the other, and of all time.
///
/// Only the set of the open window is written to, request by request. It is small and near the processor; the set of all
/// time takes it over as a whole when the window ends.
#[derive(Debug, Clone)]
pub struct WindowedSet {
    width_ns: u64,
    first_ns: Option<u64>,
    /// The open window, and where it begins.
    window: u64,
    start_ns: u64,
    open: WorkingSet,
    closed: Vec<(u64, Blocks)>,
    before: WorkingSet,
}

/// Windows that are kept.
const MAX_WINDOWS: usize = 1 << 16;

impl WindowedSet {
    /// For windows of this width, from the first issue on. Of runs, which lie within 10 ms, the width is a multiple of that.
    #[must_use]
    pub fn new(width_ns: u64) -> Self {
        Self {
            width_ns: width_ns.max(1),
            first_ns: None,
            window: 0,
            start_ns: 0,
            open: WorkingSet::default(),
            closed: Vec::new(),
            before: WorkingSet::default(),
        }
    }

    /// Width of the windows.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Window and distinct blocks, of the first windows that are not empty.
    #[must_use]
    pub fn windows(&self) -> Vec<(u64, Blocks)> {
        let open = (self.window, self.open.blocks());
        let open = (open.1.union > 0).then_some(open);
        self.closed.iter().copied().chain(open).collect()
    }

    /// Which blocks were touched at any time.
    #[must_use]
    pub fn of_all_time(&self) -> WorkingSet {
        let mut all = self.before.clone();
        all.take_over(&self.open);
        all
    }
}

impl Analyser for WindowedSet {
    fn observe(&mut self, event: &Event) {
        if event.kind != EventKind::Issue {
            return;
        }
        let first = *self.first_ns.get_or_insert(event.t_ns);
        self.add(&Run::of(event, event.t_ns.saturating_sub(first)));
    }

    fn observe_batch(&mut self, batch: &Batch) {
        batch.shape.runs.iter().for_each(|run| self.add(run));
    }
}

impl WindowedSet {
    fn add(&mut self, run: &Run) {
        if run.since_ns.wrapping_sub(self.start_ns) >= self.width_ns {
            let window = run.since_ns / self.width_ns;
            let closed = std::mem::take(&mut self.open);
            self.before.take_over(&closed);
            let blocks = closed.blocks();
            if blocks.union > 0 && self.closed.len() < MAX_WINDOWS {
                self.closed.push((self.window, blocks));
            }
            self.window = window;
            self.start_ns = window * self.width_ns;
        }
        self.open.add(run);
    }
}

/// Distinct blocks by who touched them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Blocks {
    /// Read.
    pub read: u64,
    /// Written.
    pub write: u64,
    /// Read and written.
    pub both: u64,
    /// Touched at all.
    pub union: u64,
}

/// Sets the bits `first..=last`.
#[inline]
fn mark_words(words: &mut [u64; WORDS], first: u64, last: u64) {
    let (start, end) = (index(first >> 6), index(last >> 6));
    let low = u64::MAX << (first & 63);
    let high = u64::MAX >> (63 - (last & 63));
    if start == end {
        if let Some(word) = words.get_mut(start) {
            *word |= low & high;
        }
        return;
    }
    if let Some([first, between @ .., last]) = words.get_mut(start..=end) {
        *first |= low;
        between.fill(u64::MAX);
        *last |= high;
    }
}

impl WorkingSet {
    #[inline]
    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let (place, is_new) = self.numbers.place(number, self.pages.len());
        if is_new {
            self.pages.push(Page {
                read: [0; WORDS],
                written: [0; WORDS],
            });
        }
        self.pages.get_mut(place)
    }

    /// Marks blocks `first..=last`.
    #[inline]
    fn mark(&mut self, first: u64, last: u64, write: bool) {
        let mut from = first;
        loop {
            let to = last.min(from | (BLOCKS - 1));
            if let Some(page) = self.page(from / BLOCKS) {
                let words = if write {
                    &mut page.written
                } else {
                    &mut page.read
                };
                mark_words(words, from % BLOCKS, to % BLOCKS);
            }
            if to == last {
                return;
            }
            from = to + 1;
        }
    }

    #[inline]
    fn add(&mut self, run: &Run) {
        if !run.is_data() {
            return;
        }
        let sectors = run.sectors() * u64::from(run.count);
        let last = run.sector.saturating_add(sectors - 1);
        let write = run.direction == Direction::Write;
        self.mark(run.sector / SECTORS, last / SECTORS, write);
    }

    /// Adds the blocks of another set.
    fn take_over(&mut self, other: &Self) {
        for (number, place) in other.numbers.in_order() {
            let Some((page, from)) = self.page(number).zip(other.pages.get(place)) else {
                continue;
            };
            let read = page.read.iter_mut().zip(&from.read);
            let written = page.written.iter_mut().zip(&from.written);
            read.chain(written).for_each(|(word, from)| *word |= from);
        }
    }

    /// The counts.
    #[must_use]
    pub fn blocks(&self) -> Blocks {
        let mut blocks = Blocks::default();
        for page in &self.pages {
            for (read, written) in page.read.iter().zip(&page.written) {
                blocks.read += u64::from(read.count_ones());
                blocks.write += u64::from(written.count_ones());
                blocks.both += u64::from((read & written).count_ones());
                blocks.union += u64::from((read | written).count_ones());
            }
        }
        blocks
    }
}

impl Analyser for WorkingSet {
    fn observe(&mut self, event: &Event) {
        if event.kind == EventKind::Issue {
            self.add(&Run::of(event, 0));
        }
    }

    fn observe_batch(&mut self, batch: &Batch) {
        batch.shape.runs.iter().for_each(|run| self.add(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn windows_hold_the_distinct_blocks_of_their_time(
            requests in prop::collection::vec((0_u64..50, 0_u64..70_000, 1_u32..40_000, any::<bool>()), 1..100)
        ) {
            let mut set = WindowedSet::new(10);
            let mut events = Vec::new();
            let mut now = 7;
            let mut twin: BTreeMap<u64, [BTreeSet<u64>; 2]> = BTreeMap::new();
            for (gap, sector, nr_sector, write) in requests {
                now += if twin.is_empty() { 0 } else { gap };
                let direction = if write { Direction::Write } else { Direction::Read };
                events.push(Event {
                    t_ns: now, sector, nr_sector, bytes: nr_sector * 512, direction, ..Event::BLANK });
                events.iter().last().into_iter().for_each(|event| set.observe(event));
                let sets = twin.entry((now - 7) / 10).or_default();
                sets[usize::from(write)].extend(sector / 8..=(sector + u64::from(nr_sector) - 1) / 8);
            }
            let twin: Vec<(u64, Blocks)> = twin
                .into_iter()
                .map(|(window, [read, write])| {
                    (window, Blocks {
                        read: read.len() as u64,
                        write: write.len() as u64,
                        both: read.intersection(&write).count() as u64,
                        union: read.union(&write).count() as u64,
                    })
                })
                .collect();
            let all = set.of_all_time().blocks();
            let single = events.iter().fold(WorkingSet::default(), |mut set, event| {
                set.observe(event);
                set
            });
            prop_assert_eq!(all, single.blocks());
            prop_assert_eq!(set.windows(), twin);
        }
    }
}
