//! The first and the last data request of each bin of time, so that stretches made of bins have exact ends.

use std::ops::Range;

/// Bins that are kept; beyond, two become one.
const MAX_ROWS: usize = 1 << 17;

/// First and last times by bin, since the first issue.
#[derive(Debug, Clone, Default)]
pub struct Edges {
    /// First and last time of each bin with requests, in order.
    rows: Vec<(u64, u64)>,
    /// Width of a bin in units of the smallest.
    wide: u64,
    /// Bin of the last row.
    open: u64,
}

impl Edges {
    /// Takes requests from one time to another, both in this bin of the smallest width.
    #[inline]
    pub(super) fn add(&mut self, bin: u64, from_ns: u64, until_ns: u64) {
        let bin = bin / self.wide.max(1);
        match self.rows.last_mut() {
            Some((_, last)) if self.open == bin => *last = until_ns.max(*last),
            _ => self.begin(bin, from_ns, until_ns),
        }
    }

    #[cold]
    fn begin(&mut self, bin: u64, from_ns: u64, until_ns: u64) {
        if self.rows.len() >= MAX_ROWS {
            self.wide = self.wide.max(1) * 2;
            let pairs = self.rows.chunks(2);
            self.rows = pairs
                .filter_map(|rows| Some((rows.first()?.0, rows.last()?.1)))
                .collect();
        }
        self.open = bin;
        self.rows.push((from_ns, until_ns));
    }

    /// Returns the first and last request of a stretch; `None` if it has none.
    #[must_use]
    pub fn within(&self, stretch: &Range<u64>) -> Option<(u64, u64)> {
        let from = self.rows.partition_point(|(_, last)| *last < stretch.start);
        let until = self.rows.partition_point(|(first, _)| *first < stretch.end);
        let rows = self.rows.get(from..until)?;
        let (first, last) = (rows.first()?.0, rows.last()?.1);
        let end = stretch.end.saturating_sub(1);
        Some((
            first.clamp(stretch.start, end),
            last.clamp(stretch.start, end),
        ))
    }
}
