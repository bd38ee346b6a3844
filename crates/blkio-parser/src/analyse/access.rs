//! How often each sector is accessed, by operation letters.
//!
//! The count of a sector changes only where requests begin and end. Those places are kept with the change at each, and
//! requests that follow each other without a gap cancel at once, so memory follows the number of distinct borders: neither
//! the number of requests nor the address range matters.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Analyser;
use crate::event::{Event, EventKind};

/// Sequential runs of one operation that are followed at once.
const RUNS: usize = 4;

/// Access counts of one text of operation letters.
#[derive(Debug, Clone, Default)]
pub struct Accesses {
    changes: FxHashMap<u64, i64>,
    runs: [(u64, u64); RUNS],
    oldest: usize,
}

impl Accesses {
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
            *self.changes.entry(start).or_default() += 1;
            *self.changes.entry(end).or_default() -= 1;
        }
    }

    /// Access count to number of distinct sectors with that count.
    #[must_use]
    pub fn histogram(&mut self) -> BTreeMap<u64, u64> {
        for (start, end) in std::mem::take(&mut self.runs) {
            self.settle(start, end);
        }
        let mut changes: Vec<(u64, i64)> = self.changes.iter().map(|(p, c)| (*p, *c)).collect();
        changes.sort_unstable();
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
        self.min_sector = Some(self.min_sector.unwrap_or(u64::MAX).min(event.sector));
        self.max_sector = Some(self.max_sector.unwrap_or(0).max(event.sector));
        self.max_sectors = self.max_sectors.max(event.nr_sector);
        let number = usize::from(event.rwbs);
        if number >= self.operations.len() {
            self.operations.resize_with(number + 1, Default::default);
        }
        if event.nr_sector > 0
            && let Some(operation) = self.operations.get_mut(number)
        {
            let end = event.sector.saturating_add(event.nr_sector.into());
            operation.add(event.sector, end);
        }
    }
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
        fn the_sweep_counts_as_an_array_does(
            requests in prop::collection::vec((0_u8..200, 1_u8..30), 0..200)
        ) {
            let mut accesses = Accesses::default();
            let mut array = [0_u64; 240];
            for (start, sectors) in requests {
                accesses.add(start.into(), u64::from(start) + u64::from(sectors));
                let range = usize::from(start)..usize::from(start) + usize::from(sectors);
                array[range].iter_mut().for_each(|c| *c += 1);
            }
            let mut twin = BTreeMap::new();
            for count in array.into_iter().filter(|c| *c > 0) {
                *twin.entry(count).or_insert(0_u64) += 1;
            }
            prop_assert_eq!(accesses.histogram(), twin);
        }
    }
}
