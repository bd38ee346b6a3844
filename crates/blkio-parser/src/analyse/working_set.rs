//! Distinct blocks of 4 KiB.

use rustc_hash::FxHashMap;

use super::Analyser;
use crate::event::{Event, EventKind};
use crate::rwbs::Direction;

/// Words of a page of the map: 4,096 blocks, 16 MiB of the device.
const WORDS: usize = 64;
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
    numbers: FxHashMap<u64, usize>,
    last: Option<(u64, usize)>,
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

impl WorkingSet {
    fn page(&mut self, number: u64) -> Option<&mut Page> {
        let place = match self.last {
            Some((last, place)) if last == number => place,
            _ => *self.numbers.entry(number).or_insert_with(|| {
                self.pages.push(Page {
                    read: [0; WORDS],
                    written: [0; WORDS],
                });
                self.pages.len() - 1
            }),
        };
        self.last = Some((number, place));
        self.pages.get_mut(place)
    }

    /// Marks blocks `first..=last`.
    fn mark(&mut self, first: u64, last: u64, write: bool) {
        for word in first >> 6..=last >> 6 {
            let from = if word == first >> 6 { first & 63 } else { 0 };
            let to = if word == last >> 6 { last & 63 } else { 63 };
            let mask = (u64::MAX << from) & (u64::MAX >> (63 - to));
            let place = crate::num::index(word & 63);
            if let Some(page) = self.page(word >> 6) {
                let words = if write {
                    &mut page.written
                } else {
                    &mut page.read
                };
                if let Some(bits) = words.get_mut(place) {
                    *bits |= mask;
                }
            }
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
        if event.kind != EventKind::Issue || !event.direction.is_data() || event.nr_sector == 0 {
            return;
        }
        let sectors = u64::from(event.nr_sector).min(MAX_SECTORS);
        let last = event.sector.saturating_add(sectors - 1);
        let write = event.direction == Direction::Write;
        self.mark(event.sector / SECTORS, last / SECTORS, write);
    }
}
