//! Bytes by address and time.

use rustc_hash::FxHashMap;

use super::Analyser;
use super::runs::{Batch, Run};
use super::traffic::SECOND;
use crate::event::{Event, EventKind};
use crate::num::index;

/// Sectors of 64 MiB.
const BIN_SECTORS: u64 = 64 * 2048;
/// Cells that are kept.
const MAX_CELLS: usize = 1 << 21;
/// Cells that are found without looking them up.
const OPEN: usize = 32;

/// Address bin and second.
type Place = (u64, u64);

/// A matrix of bytes, 64 MiB of address by a second since the first issue; requests are split at the borders.
#[derive(Debug, Clone, Default)]
pub struct HeatMap {
    first_ns: Option<u64>,
    /// A second since the first issue, with its first nanosecond.
    second: (u64, u64),
    cells: FxHashMap<Place, [u64; 2]>,
    /// Cells on their way to the others, by the end of their address bin: cell and bytes.
    open: [(Place, [u64; 2]); OPEN],
    /// Bytes without a cell, because there were too many cells.
    pub bytes_without_cell: u64,
}

impl HeatMap {
    fn add(&mut self, cell: Place, bytes: u64, slot: usize) {
        let Some(open) = self.open.get_mut(index(cell.0) % OPEN) else {
            return;
        };
        let full = (open.0 != cell).then(|| std::mem::replace(open, (cell, [0; 2])));
        if let Some(sum) = open.1.get_mut(slot) {
            *sum += bytes;
        }
        if let Some(full) = full {
            self.settle(full);
        }
    }

    fn add_run(&mut self, run: &Run) {
        if run.since_ns.wrapping_sub(self.second.1) >= SECOND {
            let second = run.since_ns / SECOND;
            self.second = (second, second * SECOND);
        }
        let second = self.second.0;
        let mut start = run.sector;
        let end = run.end();
        while start < end {
            let bin = start / BIN_SECTORS;
            let stop = (bin + 1).saturating_mul(BIN_SECTORS).min(end);
            self.add((bin, second), (stop - start) * 512, run.direction.slot());
            start = stop;
        }
    }

    fn settle(&mut self, (cell, bytes): (Place, [u64; 2])) {
        if bytes == [0; 2] {
            return;
        }
        if self.cells.len() >= MAX_CELLS && !self.cells.contains_key(&cell) {
            self.bytes_without_cell += bytes.iter().sum::<u64>();
        } else {
            let cell = self.cells.entry(cell).or_default();
            cell.iter_mut().zip(bytes).for_each(|(sum, b)| *sum += b);
        }
    }

    /// Rows of address bin, second, bytes, in that order.
    #[must_use]
    pub fn rows(&mut self) -> Vec<(u64, u64, u64)> {
        let rows = self.rows_by_direction().into_iter();
        rows.map(|(bin, second, [read, write])| (bin, second, read + write))
            .collect()
    }

    /// As [`HeatMap::rows`], with bytes read and written.
    #[must_use]
    pub fn rows_by_direction(&mut self) -> Vec<(u64, u64, [u64; 2])> {
        for open in std::mem::take(&mut self.open) {
            self.settle(open);
        }
        let mut rows: Vec<_> = self.cells.iter().map(|((a, t), b)| (*a, *t, *b)).collect();
        rows.sort_unstable();
        rows
    }
}

impl Analyser for HeatMap {
    fn observe(&mut self, event: &Event) {
        if event.kind != EventKind::Issue {
            return;
        }
        let first = *self.first_ns.get_or_insert(event.t_ns);
        if !event.direction.is_data() || event.nr_sector == 0 {
            return;
        }
        self.add_run(&Run::of(event, event.t_ns.saturating_sub(first)));
    }

    fn observe_batch(&mut self, batch: &Batch) {
        let runs = batch.runs.iter().filter(|run| run.is_data());
        runs.for_each(|run| self.add_run(run));
    }
}
