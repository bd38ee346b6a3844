//! How often each sector is accessed, by operation letters.
//!
//! The count of a sector changes only where requests begin and end. Those places are kept with the change at each, and
//! requests that follow each other without a gap cancel at once, so memory follows the number of distinct borders: neither
//! the number of requests nor the address range matters. Borders on the grid of 4 KiB lie in small pages, 64 KiB of the
//! device each, so a device that is used densely costs little more than four bytes per border.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Analyser;
use super::numbers::Numbers;
use super::runs::{Batch, Run};
use crate::event::{Event, EventKind};
use crate::num::index;

/// Sequential runs of one operation that are followed at once.
const RUNS: usize = 4;

/// Sectors between the places that are counted side by side: those of 4 KiB, at which nearly all requests begin and end.
const GRID: u64 = 8;
/// Places of a page: one line of a processor's cache.
const PLACES: u64 = 16;

/// Pages of a region, 1 MiB of the device.
const PAGES: u64 = 16;

/// How much the access count changes, by sector.
#[derive(Debug, Clone, Default)]
struct Borders {
    /// Where the regions are, by number.
    numbers: Numbers,
    /// Where the pages of each region are, plus 1.
    regions: Vec<[u32; 16]>,
    pages: Vec<[i32; 16]>,
    /// Changes off the grid.
    others: FxHashMap<u64, i64>,
}

impl Borders {
    fn add(&mut self, sector: u64, change: i32) {
        if sector.is_multiple_of(GRID)
            && let Some(count) = self.count(sector / GRID)
            && let Some(sum) = count.checked_add(change)
        {
            *count = sum;
        } else {
            *self.others.entry(sector).or_default() += i64::from(change);
        }
    }

    /// The count of a place on the grid.
    #[inline]
    fn count(&mut self, place: u64) -> Option<&mut i32> {
        let number = place / PLACES / PAGES;
        let (region, is_new) = self.numbers.place(number, self.regions.len());
        if is_new {
            self.regions.push([0; 16]);
        }
        let page = self
            .regions
            .get_mut(region)
            .and_then(|pages| pages.get_mut(index(place / PLACES % PAGES)))?;
        if *page == 0 {
            self.pages.push([0; 16]);
            *page = u32::try_from(self.pages.len()).unwrap_or(0);
        }
        let counts = self.pages.get_mut(index((*page).into()).checked_sub(1)?)?;
        counts.get_mut(index(place % PLACES))
    }

    /// Sectors and changes, in order; a sector may come twice.
    fn in_order(&self) -> impl Iterator<Item = (u64, i64)> {
        let regions = self.numbers.in_order();
        let mut others: Vec<(u64, i64)> = self.others.iter().map(|(s, c)| (*s, *c)).collect();
        others.sort_unstable();
        let pages = regions.into_iter().flat_map(|(number, region)| {
            let pages = self.regions.get(region).copied().unwrap_or_default();
            pages.into_iter().zip(number * PAGES..)
        });
        let on_grid = pages.flat_map(|(page, number)| {
            let page = index(page.into()).checked_sub(1);
            let counts = page.and_then(|page| self.pages.get(page));
            let places = counts.into_iter().flatten().zip(number * PLACES..);
            let changes = places.filter(|(change, _)| **change != 0);
            changes.map(|(change, place)| (place * GRID, i64::from(*change)))
        });
        let mut on_grid = on_grid.peekable();
        let mut others = others.into_iter().peekable();
        std::iter::from_fn(move || match (on_grid.peek(), others.peek()) {
            (Some(a), Some(b)) if b.0 < a.0 => others.next(),
            (None, _) => others.next(),
            _ => on_grid.next(),
        })
    }
}

/// Access counts of one text of operation letters.
#[derive(Debug, Clone, Default)]
pub struct Accesses {
    changes: Borders,
    /// What the counts of blocks of 4 KiB change at more, by block: a request counts for all of a block that it begins or
    /// ends in the middle of.
    cut: FxHashMap<u64, i64>,
    runs: [(u64, u64); RUNS],
    oldest: usize,
}

impl Accesses {
    #[inline]
    fn add(&mut self, start: u64, end: u64) {
        for run in &mut self.runs {
            if run.1 == start && run.0 < run.1 {
                run.1 = end;
                return;
            }
        }
        let run = self
            .runs
            .get_mut(self.oldest)
            .map(|run| std::mem::replace(run, (start, end)));
        self.oldest = (self.oldest + 1) % RUNS;
        if let Some((start, end)) = run {
            self.settle(start, end);
        }
    }

    fn settle(&mut self, start: u64, end: u64) {
        if start < end {
            self.changes.add(start, 1);
            self.changes.add(end, -1);
        }
    }

    /// A request that does not begin and end with a block of 4 KiB.
    fn cut(&mut self, start: u64, end: u64) {
        if !start.is_multiple_of(GRID) {
            *self.cut.entry(start / GRID).or_default() += 1;
        }
        if !end.is_multiple_of(GRID) {
            *self.cut.entry(end / GRID + 1).or_default() -= 1;
        }
    }

    /// Changes of the access count of blocks of 4 KiB; a block may come twice.
    fn of_blocks(&self) -> impl Iterator<Item = (u64, i64)> {
        let on_grid = self
            .changes
            .in_order()
            .filter(|(sector, _)| sector.is_multiple_of(GRID));
        let on_grid = on_grid.map(|(sector, change)| (sector / GRID, change));
        on_grid.chain(self.cut.iter().map(|(block, change)| (*block, *change)))
    }

    /// Access count to number of distinct sectors with that count.
    #[must_use]
    pub fn histogram(&mut self) -> BTreeMap<u64, u64> {
        self.settle_runs();
        sweep(self.changes.in_order())
    }

    fn settle_runs(&mut self) {
        for (start, end) in std::mem::take(&mut self.runs) {
            self.settle(start, end);
        }
    }
}

/// From changes of the access count, in order of the sector, to the number of sectors by count.
fn sweep(changes: impl IntoIterator<Item = (u64, i64)>) -> BTreeMap<u64, u64> {
    let mut histogram = BTreeMap::new();
    let mut depth = 0_i64;
    let mut from = 0;
    for (place, change) in changes {
        if let Ok(depth) = u64::try_from(depth)
            && depth > 0
            && place > from
        {
            *histogram.entry(depth).or_default() += place - from;
        }
        depth += change;
        from = place;
    }
    histogram
}

/// Access counts by operation letters.
#[derive(Debug, Clone, Default)]
pub struct SectorAccess {
    /// By number of operation letters.
    pub operations: Vec<Accesses>,
    /// Smallest first sector.
    pub min_sector: Option<u64>,
    /// Largest first sector.
    pub max_sector: Option<u64>,
    /// Most sectors of a request.
    pub max_sectors: u32,
}

impl Analyser for SectorAccess {
    fn observe(&mut self, event: &Event) {
        if event.kind != EventKind::Issue {
            return;
        }
        self.add(&Run::of(event, 0));
    }

    fn observe_batch(&mut self, batch: &Batch) {
        batch.shape.runs.iter().for_each(|run| self.add(run));
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
        if number >= self.operations.len() {
            self.operations.resize_with(number + 1, Default::default);
        }
        if sectors > 0
            && let Some(operation) = self.operations.get_mut(number)
        {
            operation.add(run.sector, last.saturating_add(sectors));
            if !(run.sector | sectors).is_multiple_of(GRID) {
                for start in (0..u64::from(run.count)).map(|i| run.sector + i * sectors) {
                    operation.cut(start, start.saturating_add(sectors));
                }
            }
        }
    }
}

impl SectorAccess {
    /// Access count to number of distinct sectors with that count, over some of the operations together.
    #[must_use]
    pub fn together(&mut self, is_wanted: impl Fn(usize) -> bool) -> BTreeMap<u64, u64> {
        self.all_of(is_wanted, |operation, changes| {
            changes.extend(operation.changes.in_order());
        })
    }

    /// As [`SectorAccess::together`], of distinct blocks of 4 KiB: a request counts once for each block it touches.
    #[must_use]
    pub fn blocks_together(&mut self, is_wanted: impl Fn(usize) -> bool) -> BTreeMap<u64, u64> {
        self.all_of(is_wanted, |operation, changes| {
            changes.extend(operation.of_blocks())
        })
    }

    fn all_of(
        &mut self,
        is_wanted: impl Fn(usize) -> bool,
        extend: impl Fn(&Accesses, &mut Vec<(u64, i64)>),
    ) -> BTreeMap<u64, u64> {
        let mut changes = Vec::new();
        for (number, operation) in self.operations.iter_mut().enumerate() {
            if is_wanted(number) {
                operation.settle_runs();
                extend(operation, &mut changes);
            }
        }
        // Each operation's are mostly in order already, which this sort makes use of.
        changes.sort();
        sweep(changes)
    }
}

/// Shares of all accesses that go to the most accessed hundredths of the sectors.
#[must_use]
pub fn hottest(histogram: &BTreeMap<u64, u64>, percents: &[u64]) -> Vec<(u64, f64)> {
    let sectors: u128 = histogram.values().map(|n| u128::from(*n)).sum();
    let product = |(count, n): (&u64, &u64)| u128::from(*count) * u128::from(*n);
    let accesses: u128 = histogram.iter().map(product).sum();
    if accesses == 0 {
        return Vec::new();
    }
    let share = |percent: u64| {
        // A part of a sector counts as such.
        let mut left = sectors as f64 * percent as f64 / 100.0;
        let mut sum = 0.0;
        for (count, n) in histogram.iter().rev() {
            let taken = left.min(*n as f64);
            sum += taken * *count as f64;
            left -= taken;
        }
        sum / accesses as f64
    };
    percents.iter().map(|p| (*p, share(*p))).collect()
}

/// Cumulative share of distinct sectors by access count.
#[must_use]
pub fn cumulative(histogram: &BTreeMap<u64, u64>) -> Vec<(u64, f64)> {
    let total: u64 = histogram.values().sum();
    let mut below = 0;
    histogram
        .iter()
        .map(|(count, sectors)| {
            below += sectors;
            (*count, below as f64 / total as f64)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let mut twin = BTreeMap::new();
            for count in array.into_iter().filter(|c| *c > 0) {
                *twin.entry(count).or_insert(0_u64) += 1;
            }
            prop_assert_eq!(access.blocks_together(|_| true), twin);
        }

        #[test]
        fn the_sweep_counts_as_an_array_does(
            requests in prop::collection::vec((0_u16..2000, 1_u16..300), 0..200),
            unit in prop::sample::select(vec![1_u64, 8]),
        ) {
            let mut accesses = Accesses::default();
            let mut array = [0_u64; 2300];
            for (start, sectors) in requests {
                let end = u64::from(start) + u64::from(sectors);
                accesses.add(u64::from(start) * unit, end * unit);
                let range = usize::from(start)..usize::from(start) + usize::from(sectors);
                array[range].iter_mut().for_each(|c| *c += 1);
            }
            let mut twin = BTreeMap::new();
            for count in array.into_iter().filter(|c| *c > 0) {
                *twin.entry(count).or_insert(0_u64) += unit;
            }
            prop_assert_eq!(accesses.histogram(), twin);
        }
    }
}
