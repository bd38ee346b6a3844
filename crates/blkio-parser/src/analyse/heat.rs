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
/// Cells that are kept; with more, cells become wider.
const MAX_CELLS: usize = 1 << 19;
/// Cells that are found without looking them up.
const OPEN: usize = 512;

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
///
/// Of more than half a million cells two become one, as often as needed, so that the map has all bytes whatever their addresses.
#[derive(Debug, Clone)]
pub struct HeatMap {
    first_ns: Option<u64>,
    /// How often addresses and times were halved.
    coarser: (u32, u32),
    /// The open bin of time, with its first nanosecond.
    open_time: (u64, u64),
    /// Bytes of the open bin of time by address bin.
    cells: FxHashMap<u64, [u64; 2]>,
    /// Cells on their way to these, by the end of their address bin: bin and bytes.
    open: Vec<(u64, [u64; 2])>,
    /// The cells of earlier times.
    rows: Vec<Row>,
}

impl Default for HeatMap {
    fn default() -> Self {
        Self {
            first_ns: None,
            coarser: (0, 0),
            open_time: (0, 0),
            cells: FxHashMap::default(),
            open: vec![(0, [0; 2]); OPEN],
            rows: Vec::new(),
        }
    }
}

impl HeatMap {
    #[inline]
    fn add(&mut self, bin: u64, bytes: u64, slot: usize) {
        let Some(open) = self.open.get_mut(index(bin) % OPEN) else {
            return;
        };
        let full = (open.0 != bin).then(|| std::mem::replace(open, (bin, [0; 2])));
        if let Some(sum) = open.1.get_mut(slot) {
            *sum += bytes;
        }
        if let Some(full) = full {
            self.settle(full);
        }
    }

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
            self.add(bin, (stop - start) * SECTOR_BYTES, run.direction.slot());
            start = stop;
        }
    }

    fn settle(&mut self, (bin, bytes): (u64, [u64; 2])) {
        if bytes != [0; 2] {
            add_to(self.cells.entry(bin).or_default(), bytes);
        }
    }

    /// Closes the open bin of time, and opens that of this time since the first issue.
    fn close(&mut self, since_ns: u64) {
        for (bin, bytes) in &mut self.open {
            let bytes = std::mem::take(bytes);
            if bytes != [0; 2] {
                add_to(self.cells.entry(*bin).or_default(), bytes);
            }
        }
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

    /// Cells with bytes, by address then time, once [`HeatMap::finish`] was called.
    #[must_use]
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Size of a cell: bins of 64 MiB, and seconds.
    #[must_use]
    pub fn cell(&self) -> (u64, u64) {
        (1 << self.coarser.0, 1 << self.coarser.1)
    }

    /// The map in bins so wide that there are at most so many of addresses, from the lowest to the highest with bytes, and so
    /// many of time, once [`HeatMap::finish`] was called.
    #[must_use]
    pub fn scaled(&self, most_addresses: u64, most_times: u64) -> Scaled {
        let rows = &self.rows;
        let low = rows.first().map_or(0, |row| row.0);
        let high = rows.last().map_or(0, |row| row.0);
        let times = rows.iter().map(|row| row.1 + 1).max().unwrap_or(0);
        let wide = times.div_ceil(most_times).max(1);
        let mut tall = (high - low + 1).div_ceil(most_addresses).max(1);
        // Bins begin at multiples of their height, so that one more may be touched.
        while high / tall - low / tall >= most_addresses {
            tall += 1;
        }
        let mut cells: BTreeMap<Place, [u64; 2]> = BTreeMap::new();
        for (address, time, bytes) in rows {
            let cell = cells.entry((address / tall, time / wide)).or_default();
            add_to(cell, *bytes);
        }
        Scaled {
            address_bin_bytes: tall.saturating_mul((BIN_SECTORS * SECTOR_BYTES) << self.coarser.0),
            time_bin_ns: wide.saturating_mul(SECOND << self.coarser.1),
            first_address_bin: low / tall,
            address_bins: high / tall - low / tall + 1,
            time_bins: times.div_ceil(wide).max(1),
            rows: cells.into_iter().map(|((a, t), b)| (a, t, b)).collect(),
        }
    }
}

fn add_to(sums: &mut [u64; 2], bytes: [u64; 2]) {
    sums.iter_mut().zip(bytes).for_each(|(sum, b)| *sum += b);
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
        for run in &batch.shape.runs {
            if run.is_data() {
                self.add_run(run);
            }
        }
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
        map.finish();
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
        let rows = map.rows();
        assert_eq!(
            rows.iter().map(|row| row.2[0] + row.2[1]).sum::<u64>(),
            2000 * 4096
        );
    }

    #[test]
    fn too_many_cells_become_wider_ones_with_the_same_bytes() {
        let mut map = HeatMap::default();
        let mut twin = HeatMap::default();
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
            twin.observe(event);
            map.observe(event);
            if event.t_ns % (100 * SECOND) == 5 {
                map.close(event.t_ns);
                map.make_coarser();
                map.close(event.t_ns);
            }
        }
        map.finish();
        twin.finish();
        assert!(map.coarser.0 > 0 && map.coarser.1 > 0);
        let (addresses, times) = map.coarser;
        let mut cells: BTreeMap<Place, [u64; 2]> = BTreeMap::new();
        for (address, time, bytes) in twin.rows() {
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

    #[test]
    fn nothing_has_an_empty_map() {
        assert!(HeatMap::default().scaled(512, 1024).rows.is_empty());
    }
}
