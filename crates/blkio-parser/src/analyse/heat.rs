//! Bytes by address and time.

use rustc_hash::FxHashMap;

use super::Analyser;
use super::traffic::SECOND;
use super::working_set::MAX_SECTORS;
use crate::event::{Event, EventKind};

/// Sectors of 64 MiB.
const BIN_SECTORS: u64 = 64 * 2048;
/// Cells that are kept.
const MAX_CELLS: usize = 1 << 21;

/// A matrix of bytes, 64 MiB of address by a second since the first issue; requests are split at the borders.
#[derive(Debug, Clone, Default)]
pub struct HeatMap {
    first_ns: Option<u64>,
    /// A second since the first issue, with its first nanosecond.
    second: (u64, u64),
    cells: FxHashMap<(u64, u64), u64>,
    open: Option<((u64, u64), u64)>,
    /// Bytes without a cell, because there were too many cells.
    pub bytes_without_cell: u64,
}

impl HeatMap {
    fn add(&mut self, cell: (u64, u64), bytes: u64) {
        match &mut self.open {
            Some((open, sum)) if *open == cell => *sum += bytes,
            _ => {
                self.settle();
                self.open = Some((cell, bytes));
            }
        }
    }

    fn settle(&mut self) {
        let Some((cell, bytes)) = self.open.take() else {
            return;
        };
        if self.cells.len() >= MAX_CELLS && !self.cells.contains_key(&cell) {
            self.bytes_without_cell += bytes;
        } else {
            *self.cells.entry(cell).or_default() += bytes;
        }
    }

    /// Rows of address bin, second, bytes, in that order.
    #[must_use]
    pub fn rows(&mut self) -> Vec<(u64, u64, u64)> {
        self.settle();
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
        let since = event.t_ns.saturating_sub(first);
        if since.wrapping_sub(self.second.1) >= SECOND {
            let second = since / SECOND;
            self.second = (second, second * SECOND);
        }
        let second = self.second.0;
        let mut start = event.sector;
        let end = start.saturating_add(u64::from(event.nr_sector).min(MAX_SECTORS));
        while start < end {
            let bin = start / BIN_SECTORS;
            let stop = (bin + 1).saturating_mul(BIN_SECTORS).min(end);
            self.add((bin, second), (stop - start) * 512);
            start = stop;
        }
    }
}
