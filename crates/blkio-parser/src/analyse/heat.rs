//! Bytes by address and time.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::Analyser;
use super::runs::{Batch, Run};
use super::traffic::SECOND;
use crate::event::{Event, EventKind, SECTOR_BYTES};
use crate::num::index;

/// Sectors of 64 MiB.
const BIN_SECTORS: u64 = 64 * 2048;
/// Cells that are kept.
const MAX_CELLS: usize = 1 << 21;
/// Cells that are found without looking them up.
const OPEN: usize = 32;

/// Address bin and second.
type Place = (u64, u64);
/// Address bin, time bin, bytes read and written.
pub type Row = (u64, u64, [u64; 2]);

/// The map in bins that are wide enough for a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scaled {
    /// Bytes of an address bin.
    pub address_bin_bytes: u64,
    /// Nanoseconds of a time bin; the first begins at the first issue.
    pub time_bin_ns: u64,
    /// The lowest address bin with bytes, counted from address 0.
    pub first_address_bin: u64,
    /// Address bins from the lowest to the highest with bytes.
    pub address_bins: u64,
    /// Time bins from the first issue to the last with bytes.
    pub time_bins: u64,
    /// Cells with bytes, by address bin (from address 0), then time bin.
    pub rows: Vec<Row>,
}

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
    pub fn rows_by_direction(&mut self) -> Vec<Row> {
        for open in std::mem::take(&mut self.open) {
            self.settle(open);
        }
        let mut rows: Vec<_> = self.cells.iter().map(|((a, t), b)| (*a, *t, *b)).collect();
        rows.sort_unstable();
        rows
    }

    /// As [`HeatMap::rows_by_direction`], in bins so wide that there are at most so many of addresses, from the lowest to the
    /// highest with bytes, and so many of time.
    #[must_use]
    pub fn scaled(&mut self, most_addresses: u64, most_times: u64) -> Scaled {
        let rows = self.rows_by_direction();
        let low = rows.first().map_or(0, |row| row.0);
        let high = rows.last().map_or(0, |row| row.0);
        let seconds = rows.iter().map(|row| row.1 + 1).max().unwrap_or(0);
        let wide = seconds.div_ceil(most_times).max(1);
        let mut tall = (high - low + 1).div_ceil(most_addresses).max(1);
        // Bins begin at multiples of their height, so that one more may be touched.
        while high / tall - low / tall >= most_addresses {
            tall += 1;
        }
        let mut cells: BTreeMap<Place, [u64; 2]> = BTreeMap::new();
        for (address, second, bytes) in rows {
            let cell = cells.entry((address / tall, second / wide)).or_default();
            cell.iter_mut().zip(bytes).for_each(|(sum, b)| *sum += b);
        }
        Scaled {
            address_bin_bytes: tall.saturating_mul(BIN_SECTORS * SECTOR_BYTES),
            time_bin_ns: wide.saturating_mul(SECOND),
            first_address_bin: low / tall,
            address_bins: high / tall - low / tall + 1,
            time_bins: seconds.div_ceil(wide).max(1),
            rows: cells.into_iter().map(|((a, t), b)| (a, t, b)).collect(),
        }
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
        let runs = batch.shape.runs.iter().filter(|run| run.is_data());
        runs.for_each(|run| self.add_run(run));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rwbs::Direction;

    #[test]
    fn a_scaled_map_has_all_bytes_in_few_bins() {
        let mut map = HeatMap::default();
        for number in 0..2000_u64 {
            let is_write = number % 3 == 0;
            map.observe(&Event {
                t_ns: number * SECOND,
                // From 3 GiB on, over a border of bins each time.
                sector: 50 * BIN_SECTORS - 4 + number * BIN_SECTORS,
                nr_sector: 8,
                bytes: 4096,
                direction: if is_write {
                    Direction::Write
                } else {
                    Direction::Read
                },
                ..Event::BLANK
            });
        }
        let scaled = map.scaled(512, 1024);
        assert_eq!((scaled.time_bin_ns, scaled.time_bins), (2 * SECOND, 1000));
        let tall = 4 * BIN_SECTORS * 512;
        assert_eq!(
            (scaled.address_bin_bytes, scaled.first_address_bin),
            (tall, 12)
        );
        assert_eq!(scaled.address_bins, 501);
        let sum = |slot: usize| scaled.rows.iter().map(|row| row.2[slot]).sum::<u64>();
        assert_eq!((sum(0), sum(1)), (1333 * 4096, 667 * 4096));
        // A write and a read in the first two seconds, both whole in the first 256 MiB of the map.
        assert_eq!(scaled.rows[0], (12, 0, [4096, 4096]));
        assert_eq!(map.rows().iter().map(|row| row.2).sum::<u64>(), 2000 * 4096);
    }

    #[test]
    fn nothing_has_an_empty_map() {
        assert!(HeatMap::default().scaled(512, 1024).rows.is_empty());
    }
}
