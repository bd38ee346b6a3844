//! Distinct blocks of 4 KiB.

use super::Analyser;
use super::ranges::{Ranges, common, count};
use super::runs::{Batch, Run};
use crate::rwbs::Direction;

/// Sectors of a block.
const SECTORS: u64 = 8;
/// More sectors than a request can have: its byte counter has 32 bits.
pub(crate) const MAX_SECTORS: u64 = 1 << 23;

/// Distinct blocks of each window of time, one after the other. Those of all time are known where accesses are counted:
/// [`SectorAccess::distinct_blocks`](super::access::SectorAccess::distinct_blocks).
#[derive(Debug, Clone)]
pub struct WindowedSet {
    width_ns: u64,
    /// The open window, and where it begins.
    window: u64,
    start_ns: u64,
    read: Ranges,
    written: Ranges,
    closed: Vec<(u64, Blocks)>,
}

/// Windows that are kept.
const MAX_WINDOWS: usize = 1 << 16;

impl WindowedSet {
    /// For windows of this width, from the first issue on. Of runs, which lie within 10 ms, the width is a multiple of that.
    #[must_use]
    pub fn new(width_ns: u64) -> Self {
        Self {
            width_ns: width_ns.max(1),
            window: 0,
            start_ns: 0,
            read: Ranges::default(),
            written: Ranges::default(),
            closed: Vec::new(),
        }
    }

    /// Returns the width of the windows.
    #[must_use]
    pub fn width_ns(&self) -> u64 {
        self.width_ns
    }

    /// Window and distinct blocks, of the first windows that are not empty. The last one is there after
    /// [`WindowedSet::finish`].
    #[must_use]
    pub fn windows(&self) -> &[(u64, Blocks)] {
        &self.closed
    }

    /// Closes the last window; call once after the last event.
    pub fn finish(&mut self) {
        let (read, written) = (self.read.in_order(), self.written.in_order());
        let both = common(read, written);
        let (read, write) = (count(read), count(written));
        let union = read + write - both;
        if union > 0 && self.closed.len() < MAX_WINDOWS {
            let blocks = Blocks {
                read,
                write,
                both,
                union,
            };
            self.closed.push((self.window, blocks));
        }
        self.read.clear();
        self.written.clear();
    }
}

impl Analyser for WindowedSet {
    fn observe(&mut self, batch: &Batch) {
        batch.runs.iter().for_each(|run| self.add(run));
    }
}

impl WindowedSet {
    #[inline]
    fn add(&mut self, run: &Run) {
        if run.since_ns.wrapping_sub(self.start_ns) >= self.width_ns {
            self.finish();
            self.window = run.since_ns / self.width_ns;
            self.start_ns = self.window * self.width_ns;
        }
        if let Some((first, last)) = blocks_of(run) {
            match run.direction {
                Direction::Write => self.written.add(first, last),
                _ => self.read.add(first, last),
            }
        }
    }
}

/// Returns the first and last block of the data of a run.
#[inline]
fn blocks_of(run: &Run) -> Option<(u64, u64)> {
    if !run.is_data() {
        return None;
    }
    let sectors = run.sectors() * u64::from(run.count);
    let last = run.sector.saturating_add(sectors - 1);
    Some((run.sector / SECTORS, last / SECTORS))
}

/// Distinct blocks by who touched them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use proptest::prelude::*;
    use std::collections::{BTreeMap, BTreeSet};

    proptest! {
        #[test]
        fn windows_hold_the_distinct_blocks_of_their_time(
            requests in prop::collection::vec((0_u64..50, 0_u64..70_000, 1_u32..40_000, any::<bool>()), 1..100)
        ) {
            let mut set = WindowedSet::new(10);
            let mut now = 7;
            let mut model: BTreeMap<u64, [BTreeSet<u64>; 2]> = BTreeMap::new();
            for (gap, sector, nr_sector, write) in requests {
                now += if model.is_empty() { 0 } else { gap };
                let direction = if write { Direction::Write } else { Direction::Read };
                let event = Event { t_ns: now, sector, nr_sector, bytes: nr_sector * 512, direction, ..Event::BLANK };
                set.add(&Run::of(&event, now - 7));
                let sets = model.entry((now - 7) / 10).or_default();
                sets[usize::from(write)].extend(sector / 8..=(sector + u64::from(nr_sector) - 1) / 8);
            }
            let model: Vec<(u64, Blocks)> = model
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
            set.finish();
            prop_assert_eq!(set.windows(), &model);
        }
    }
}
