//! Counts accesses of each sector by operation letters, and of each block of 4 KiB by direction.
//!
//! Counts change only where requests begin and end; requests that follow each other without a gap cancel at once, the other
//! places are kept sorted (`AccessDeltas`), and one walk over the device in the end gives all counts.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Analyser;
use super::access_deltas::{AccessDeltas, for_each_in_order};
use super::runs::{Batch, Run};
use super::working_set::Blocks;
use crate::rwbs::Direction;

/// Sequential runs of one operation that are followed at once.
const RUNS: usize = 4;

/// Sectors of a block of 4 KiB.
const BLOCK: u64 = 8;

/// The runs of one operation that may go on, as first sector and what is behind the last one.
#[derive(Debug, Clone, Copy, Default)]
struct Open {
    direction: Option<Direction>,
    runs: [(u64, u64); RUNS],
    oldest: usize,
}

impl Open {
    /// Takes a request; gives the run that is not followed any more.
    #[inline]
    fn add(&mut self, start: u64, end: u64) -> Option<(u64, u64)> {
        for run in &mut self.runs {
            if run.1 == start && run.0 < run.1 {
                run.1 = end;
                return None;
            }
        }
        let run = self.runs.get_mut(self.oldest)?;
        let left = std::mem::replace(run, (start, end));
        self.oldest = (self.oldest + 1) % RUNS;
        Some(left)
    }
}

/// Access count to number of places with that count.
#[derive(Debug, Clone, Default)]
struct Counts {
    places: FxHashMap<i64, u64>,
    /// Where the count changed last, and the count from there on.
    from: u64,
    count: i64,
}

impl Counts {
    /// The count changes at a place, which is not before those of earlier calls.
    #[inline]
    fn change(&mut self, place: u64, by: i64) {
        // A count below 0 is of changes of the same place that are still to come.
        if self.count > 0 && place > self.from {
            *self.places.entry(self.count).or_default() += place - self.from;
        }
        self.from = place;
        self.count += by;
    }

    fn histogram(self) -> BTreeMap<u64, u64> {
        let places = self.places.into_iter();
        places
            .map(|(count, places)| (count.cast_unsigned(), places))
            .collect()
    }
}

/// Access counts. Memory follows the number of distinct places where requests begin or end.
#[derive(Debug, Clone, Default)]
pub struct SectorAccess {
    open: Vec<Open>,
    /// At twice the number of the operation letters; one behind for what the counts of blocks of 4 KiB change at more: a
    /// request counts for all of a block that it begins or ends in the middle of.
    deltas: Vec<AccessDeltas>,
    /// `true` if there are any of those.
    has_cuts: bool,
    /// Smallest first sector.
    pub min_sector: Option<u64>,
    /// Largest first sector.
    pub max_sector: Option<u64>,
    /// Maximum number of sectors of a request.
    pub max_sectors: u32,
    /// Access count to number of distinct sectors with that count, by number of operation letters. This and what follows is
    /// known once [`SectorAccess::finish`] was called.
    pub operations: Vec<BTreeMap<u64, u64>>,
    /// The same of reads and writes together.
    pub sectors: BTreeMap<u64, u64>,
    /// Distinct sectors by direction, reads first.
    pub distinct_sectors: [u64; 2],
    /// Access count to number of distinct blocks of 4 KiB by direction, reads first: a request counts once for each block it touches.
    pub blocks: [BTreeMap<u64, u64>; 2],
    /// The same of reads and writes together.
    pub all_blocks: BTreeMap<u64, u64>,
}

impl Analyser for SectorAccess {
    fn observe(&mut self, batch: &Batch) {
        for run in &batch.runs {
            self.add(run);
        }
    }
}

impl SectorAccess {
    fn add(&mut self, run: &Run) {
        let sectors = u64::from(run.nr_sector);
        let last = run.sector + sectors * (u64::from(run.count) - 1);
        self.min_sector = Some(self.min_sector.unwrap_or(u64::MAX).min(run.sector));
        self.max_sector = Some(self.max_sector.unwrap_or(0).max(last));
        self.max_sectors = self.max_sectors.max(run.nr_sector);
        let number = usize::from(run.rwbs);
        if number >= self.open.len() {
            self.open.resize_with(number + 1, Default::default);
            self.deltas.resize_with(2 * number + 2, Default::default);
        }
        let Some(open) = self.open.get_mut(number).filter(|_| sectors > 0) else {
            return;
        };
        open.direction = Some(run.direction);
        let of = number << 1;
        if let Some((start, end)) = open.add(run.sector, last.saturating_add(sectors)) {
            self.settle(of, start, end);
        }
        if !(run.sector | sectors).is_multiple_of(BLOCK) {
            self.has_cuts = true;
            for start in (0..u64::from(run.count)).map(|i| run.sector + i * sectors) {
                self.cut(of | 1, start, start.saturating_add(sectors));
            }
        }
    }

    #[inline]
    fn settle(&mut self, of: usize, start: u64, end: u64) {
        if start < end
            && let Some(deltas) = self.deltas.get_mut(of)
        {
            deltas.begin(start);
            deltas.end(end);
        }
    }

    /// A request that does not begin and end with a block of 4 KiB.
    fn cut(&mut self, of: usize, start: u64, end: u64) {
        let Some(deltas) = self.deltas.get_mut(of) else {
            return;
        };
        if !start.is_multiple_of(BLOCK) {
            deltas.begin(start / BLOCK * BLOCK);
        }
        if !end.is_multiple_of(BLOCK) {
            deltas.end((end / BLOCK + 1).saturating_mul(BLOCK));
        }
    }

    /// Returns how many distinct blocks of 4 KiB were accessed, once [`SectorAccess::finish`] was called.
    #[must_use]
    pub fn distinct_blocks(&self) -> Blocks {
        let blocks = |histogram: &BTreeMap<u64, u64>| histogram.values().sum::<u64>();
        let [read, write] = self.blocks.each_ref().map(blocks);
        let union = blocks(&self.all_blocks);
        Blocks {
            read,
            write,
            both: read + write - union,
            union,
        }
    }

    /// Counts; call once after the last event. Takes about the time of merging all places.
    pub fn finish(&mut self) {
        let open = std::mem::take(&mut self.open);
        for (of, open) in (0..).step_by(2).zip(&open) {
            for (start, end) in open.runs {
                self.settle(of, start, end);
            }
        }
        let mut operations = vec![Counts::default(); open.len()];
        let (mut sectors, mut all_blocks) = <(Counts, Counts)>::default();
        let mut blocks = <[Counts; 2]>::default();
        let mut sectors_of = <[Counts; 2]>::default();
        let has_cuts = self.has_cuts;
        for_each_in_order(std::mem::take(&mut self.deltas), |of, (sector, by)| {
            let number = of >> 1;
            let direction = open.get(number).and_then(|open| open.direction);
            let direction = direction.filter(|direction| direction.is_data());
            let is_cut = of & 1 != 0;
            if !is_cut {
                if let Some(counts) = operations.get_mut(number) {
                    counts.change(sector, by);
                }
                if let Some(direction) = direction {
                    sectors.change(sector, by);
                    // Of whole blocks alone their number tells that of sectors.
                    let counts = sectors_of.get_mut(direction.slot());
                    if let Some(counts) = counts.filter(|_| has_cuts) {
                        counts.change(sector, by);
                    }
                }
            }
            if let Some(direction) = direction
                && (is_cut || sector.is_multiple_of(BLOCK))
            {
                // Rounded up, because what ends behind the last of all sectors has no multiple to end at.
                let block = sector.div_ceil(BLOCK);
                if let Some(counts) = blocks.get_mut(direction.slot()) {
                    counts.change(block, by);
                }
                all_blocks.change(block, by);
            }
        });
        self.operations = operations.into_iter().map(Counts::histogram).collect();
        self.sectors = sectors.histogram();
        self.blocks = blocks.map(Counts::histogram);
        let distinct = |histogram: &BTreeMap<u64, u64>| histogram.values().sum::<u64>();
        self.distinct_sectors = if has_cuts {
            sectors_of.map(|counts| distinct(&counts.histogram()))
        } else {
            self.blocks
                .each_ref()
                .map(|blocks| distinct(blocks) * BLOCK)
        };
        self.all_blocks = all_blocks.histogram();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use crate::num::index;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn blocks_are_counted_once_for_each_request_that_touches_them(
            requests in prop::collection::vec((0_u64..2000, 1_u32..90, 1_u32..4), 0..100),
            unit in prop::sample::select(vec![1_u32, 4, 8]),
        ) {
            let mut access = SectorAccess::default();
            let mut array = [0_u64; 2600];
            for (start, sectors, count) in requests {
                let mut run = Run::of(&Event { sector: start * u64::from(unit), nr_sector: sectors * unit, ..Event::BLANK }, 0);
                run.count = count;
                access.add(&run);
                let sectors = u64::from(run.nr_sector);
                for request in 0..u64::from(count) {
                    let first = run.sector + request * sectors;
                    (first / 8..=(first + sectors - 1) / 8).for_each(|block| array[index(block)] += 1);
                }
            }
            let mut model = BTreeMap::new();
            for count in array.into_iter().filter(|c| *c > 0) {
                *model.entry(count).or_insert(0_u64) += 1;
            }
            access.finish();
            prop_assert_eq!(access.all_blocks, model);
        }

        #[test]
        fn the_sweep_counts_as_an_array_does(
            requests in prop::collection::vec((0_u16..2000, 1_u16..300), 0..200),
            unit in prop::sample::select(vec![1_u32, 8]),
        ) {
            let mut access = SectorAccess::default();
            // By operation: reads, writes.
            let mut arrays = [[0_u64; 2300]; 2];
            for (start, sectors) in requests {
                let nr_sector = u32::from(sectors) * unit;
                let direction = if start % 3 == 0 { Direction::Write } else { Direction::Read };
                let rwbs = u16::try_from(direction.slot()).unwrap();
                let sector = u64::from(start) * u64::from(unit);
                access.add(&Run::of(&Event { sector, nr_sector, rwbs, direction, ..Event::BLANK }, 0));
                let range = usize::from(start)..usize::from(start) + usize::from(sectors);
                arrays[direction.slot()][range].iter_mut().for_each(|c| *c += 1);
            }
            let histogram = |counts: &[u64]| {
                let mut histogram = BTreeMap::new();
                for count in counts.iter().filter(|c| **c > 0) {
                    *histogram.entry(*count).or_default() += u64::from(unit);
                }
                histogram
            };
            access.finish();
            let models = arrays.each_ref().map(|counts| histogram(counts));
            let distinct = models.each_ref().map(|model| model.values().sum::<u64>());
            prop_assert_eq!(access.distinct_sectors, distinct);
            for (found, model) in access.operations.iter().zip(&models) {
                prop_assert_eq!(found, model);
            }
            let all: Vec<u64> = arrays[0].iter().zip(&arrays[1]).map(|(a, b)| a + b).collect();
            let model = histogram(&all);
            prop_assert_eq!(access.sectors, model);
        }
    }
}
