//! Bytes by address and time.

use rustc_hash::FxHashMap;

use super::Analyser;
use super::runs::{Batch, Run};
use super::traffic::SECOND;
use crate::event::SECTOR_BYTES;

/// Sectors of 64 MiB.
pub const BIN_SECTORS: u64 = 64 * 2048;
/// Cells that are kept; with more, cells become wider.
const MAX_CELLS: usize = 1 << 19;

/// Address bin, time bin, bytes read and written.
pub type Row = (u64, u64, [u64; 2]);

/// A matrix of bytes, 64 MiB of address by a second since the first issue; requests are split at the borders.
///
/// Beyond half a million cells, neighbours are merged in pairs as often as needed, so the map holds bytes at any address.
#[derive(Debug, Clone, Default)]
pub struct HeatMap {
    /// How often addresses and times were halved.
    coarser: (u32, u32),
    /// The open bin of time, with its first nanosecond.
    open_time: (u64, u64),
    /// Bytes of the open bin of time by address bin.
    cells: FxHashMap<u64, [u64; 2]>,
    /// The cells of earlier times.
    rows: Vec<Row>,
}

impl HeatMap {
    fn add_run(&mut self, run: &Run) {
        let is_over = run.since_ns.wrapping_sub(self.open_time.1) >= SECOND << self.coarser.1;
        if is_over || self.cells.len() >= MAX_CELLS {
            self.close(run.since_ns);
        }
        let bin_sectors = BIN_SECTORS << self.coarser.0;
        let mut start = run.sector;
        let end = run.end();
        while start < end {
            let bin = start / bin_sectors;
            let stop = (bin + 1).saturating_mul(bin_sectors).min(end);
            let sums = self.cells.entry(bin).or_default();
            if let Some(sum) = sums.get_mut(run.direction.slot()) {
                *sum += (stop - start) * SECTOR_BYTES;
            }
            start = stop;
        }
    }

    /// Closes the open bin of time, and opens that of this time since the first issue.
    fn close(&mut self, since_ns: u64) {
        let time = self.open_time.0;
        let cells = self.cells.drain();
        self.rows
            .extend(cells.map(|(bin, bytes)| (bin, time, bytes)));
        while self.rows.len() > MAX_CELLS {
            self.put_in_order();
            if self.rows.len() > MAX_CELLS / 2 {
                self.make_coarser();
            }
        }
        let width_ns = SECOND << self.coarser.1;
        let time = since_ns / width_ns;
        self.open_time = (time, time * width_ns);
    }

    /// By address bin, then time bin. Cells come once unless time stepped back.
    fn put_in_order(&mut self) {
        self.rows.sort_unstable();
        self.rows.dedup_by(|next, before| {
            let is_same = (next.0, next.1) == (before.0, before.1);
            if is_same {
                add_to(&mut before.2, next.2);
            }
            is_same
        });
    }

    /// Makes cells wider in the direction in which there are more bins for a picture that is twice as wide as it is high.
    fn make_coarser(&mut self) {
        let extent = |bin: fn(&Row) -> u64| {
            let bins = || self.rows.iter().map(bin);
            let (low, high) = (bins().min().unwrap_or(0), bins().max().unwrap_or(0));
            high - low
        };
        let by_address = extent(|row| row.0).saturating_mul(2) >= extent(|row| row.1);
        let (addresses, times) = if by_address { (1, 0) } else { (0, 1) };
        self.coarser.0 += addresses;
        self.coarser.1 += times;
        for row in &mut self.rows {
            row.0 >>= addresses;
            row.1 >>= times;
        }
        self.put_in_order();
    }

    /// Closes what is open; call once after the last event.
    pub fn finish(&mut self) {
        self.close(self.open_time.1);
        self.put_in_order();
    }

    /// Returns the cells with bytes, by address then time, once [`HeatMap::finish`] was called.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Size of a cell: bins of 64 MiB, and seconds.
    #[must_use]
    pub fn cell(&self) -> (u64, u64) {
        (1 << self.coarser.0, 1 << self.coarser.1)
    }
}

fn add_to(sums: &mut [u64; 2], bytes: [u64; 2]) {
    sums.iter_mut().zip(bytes).for_each(|(sum, b)| *sum += b);
}

impl Analyser for HeatMap {
    fn observe(&mut self, batch: &Batch) {
        for run in batch.runs.iter().filter(|run| run.is_data()) {
            self.add_run(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::event::Event;
    use std::collections::BTreeMap;

    fn run(event: Event) -> Run {
        Run::of(&event, event.t_ns)
    }

    #[test]
    fn too_many_cells_become_wider_ones_with_the_same_bytes() {
        let mut map = HeatMap::default();
        let mut model = HeatMap::default();
        let events: Vec<Event> = (0..3_000_u64)
            .flat_map(|number| {
                let sector =
                    move |at: u64| (number * 7 + at * 11) % 1_000 * BIN_SECTORS + BIN_SECTORS - 8;
                (0..10).map(move |at| Event {
                    t_ns: number * SECOND / 3 + at,
                    sector: sector(at),
                    nr_sector: 16,
                    bytes: 8192,
                    ..Event::BLANK
                })
            })
            .collect();
        for event in &events {
            model.add_run(&run(*event));
            map.add_run(&run(*event));
            if event.t_ns % (100 * SECOND) == 5 {
                map.close(event.t_ns);
                map.make_coarser();
                map.close(event.t_ns);
            }
        }
        map.finish();
        model.finish();
        assert!(map.coarser.0 > 0 && map.coarser.1 > 0);
        let (addresses, times) = map.coarser;
        let mut cells: BTreeMap<(u64, u64), [u64; 2]> = BTreeMap::new();
        for (address, time, bytes) in model.rows() {
            add_to(
                cells
                    .entry((address >> addresses, time >> times))
                    .or_default(),
                *bytes,
            );
        }
        let rows: Vec<Row> = cells.into_iter().map(|((a, t), b)| (a, t, b)).collect();
        assert_eq!(map.rows, rows);
    }
}
