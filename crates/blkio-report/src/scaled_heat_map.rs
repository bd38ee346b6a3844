//! The heat map in bins that are wide enough for a picture.

use std::collections::BTreeMap;

use blkio_parser::SECTOR_BYTES;
use blkio_parser::analyse::heat::{BIN_SECTORS, HeatMap, Row};
use blkio_parser::analyse::traffic::SECOND;

/// The map in bins that are wide enough for a picture.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Scaled {
    /// Bytes of an address bin.
    pub(crate) address_bin_bytes: u64,
    /// Nanoseconds of a time bin; the first begins at the first issue.
    pub(crate) time_bin_ns: u64,
    /// The lowest address bin with bytes, counted from address 0.
    pub(crate) first_address_bin: u64,
    /// Address bins from the lowest to the highest with bytes.
    pub(crate) address_bins: u64,
    /// Time bins from the first issue to the last with bytes.
    pub(crate) time_bins: u64,
    /// Cells with bytes, by address bin (from address 0), then time bin.
    pub(crate) rows: Vec<Row>,
}

/// Returns the map in bins so wide that there are at most so many of addresses, from the lowest to the highest with bytes, and so
/// many of time, once the map is finished.
pub(crate) fn scaled(map: &HeatMap, most_addresses: u64, most_times: u64) -> Scaled {
    let (address_cell, time_cell) = map.cell();
    let rows = map.rows();
    let low = rows.first().map_or(0, |row| row.0);
    let high = rows.last().map_or(0, |row| row.0);
    let times = rows.iter().map(|row| row.1 + 1).max().unwrap_or(0);
    let wide = times.div_ceil(most_times).max(1);
    let mut tall = (high - low + 1).div_ceil(most_addresses).max(1);
    // Bins begin at multiples of their height, so that one more may be touched.
    while high / tall - low / tall >= most_addresses {
        tall += 1;
    }
    let mut cells: BTreeMap<(u64, u64), [u64; 2]> = BTreeMap::new();
    for (address, time, bytes) in rows {
        let cell = cells.entry((address / tall, time / wide)).or_default();
        cell.iter_mut().zip(bytes).for_each(|(sum, b)| *sum += b);
    }
    Scaled {
        address_bin_bytes: tall.saturating_mul(BIN_SECTORS * SECTOR_BYTES * address_cell),
        time_bin_ns: wide.saturating_mul(SECOND * time_cell),
        first_address_bin: low / tall,
        address_bins: high / tall - low / tall + 1,
        time_bins: times.div_ceil(wide).max(1),
        rows: cells.into_iter().map(|((a, t), b)| (a, t, b)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use blkio_parser::analyse::Analyser as _;
    use blkio_parser::analyse::runs::{Batch, Run};
    use blkio_parser::{Format, Reader};

    /// Returns the map of an issue log.
    fn map_of(log: &str) -> HeatMap {
        let mut map = HeatMap::default();
        let events = Reader::new("log", log.as_bytes(), Format::FiveColumn);
        let runs = events.map(|event| event.map(|event| Run::of(&event, event.t_ns)));
        let mut batch = Batch::default();
        batch.runs = runs.map(Result::unwrap).collect();
        map.observe(&batch);
        map.finish();
        map
    }

    #[test]
    fn a_scaled_map_has_all_bytes_in_few_bins() {
        let line = |number: u64| {
            let letter = if number.is_multiple_of(3) { "W" } else { "R" };
            // From 3 GiB on, over a border of bins each time.
            let sector = 50 * BIN_SECTORS - 4 + number * BIN_SECTORS;
            format!("{}, {letter}, 4096, {sector}, 8\n", number * SECOND)
        };
        let map = map_of(&(0..2000).map(line).collect::<String>());
        let scaled = scaled(&map, 512, 1024);
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
    }

    #[test]
    fn nothing_has_an_empty_map() {
        assert!(scaled(&HeatMap::default(), 512, 1024).rows.is_empty());
    }
}
