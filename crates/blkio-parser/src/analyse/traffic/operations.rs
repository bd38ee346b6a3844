//! Totals by operation letters, and chains of the largest requests.

use rustc_hash::FxHashMap;

use super::Amount;
use super::bins::{Bins, SECOND};
use crate::analyse::runs::Run;

/// What is known of one text of operation letters.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PerOperation {
    /// Requests by size in bytes.
    pub sizes: FxHashMap<u32, u64>,
    /// KiB (each request cut to whole KiB) by whole second of the trace's clock, for the published figures.
    pub kib_per_second: Bins,
}

impl PerOperation {
    #[inline]
    pub(super) fn add(&mut self, run: &Run) {
        let count = u64::from(run.count);
        *self.sizes.entry(run.bytes).or_default() += count;
        let kib = Amount {
            ios: count,
            bytes: u64::from(run.bytes >> 10) * count,
        };
        self.kib_per_second.add(run.t_ns / SECOND, kib);
    }
}

/// Successive requests of the largest size, which a device or a kernel cuts long transfers into.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Largest {
    /// That size.
    pub bytes: u32,
    /// Maximal chains of such requests without a smaller one of the same direction between, single ones included.
    pub runs: u64,
    /// Requests of the longest chain.
    pub longest_run: u64,
    open: u64,
}

impl Largest {
    #[inline]
    pub(super) fn add(&mut self, bytes: u32, requests: u64) {
        if bytes > self.bytes {
            *self = Self {
                bytes,
                ..Self::default()
            };
        }
        if bytes < self.bytes || bytes == 0 {
            self.open = 0;
            return;
        }
        self.runs += u64::from(self.open == 0);
        self.open += requests;
        self.longest_run = self.longest_run.max(self.open);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_requests_are_chained_until_a_smaller_one_comes() {
        let mut largest = Largest::default();
        for (bytes, requests) in [(0, 1), (8, 2), (16, 3), (16, 1), (8, 1), (16, 1), (0, 1)] {
            largest.add(bytes, requests);
        }
        let found = (largest.bytes, largest.runs, largest.longest_run);
        assert_eq!(found, (16, 2, 4));
        largest.add(32, 1);
        let found = (largest.bytes, largest.runs, largest.longest_run);
        assert_eq!(found, (32, 1, 1));
    }
}
