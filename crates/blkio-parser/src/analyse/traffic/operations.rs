//! What is kept of each text of operation letters, and of the largest requests.

use rustc_hash::FxHashMap;

use super::Amount;
use super::bins::{Bins, SECOND, Stretch};
use crate::analyse::runs::Run;
use crate::num::spread;

/// Binary digits of the number of sizes that are counted without looking them up.
const RECENT_BITS: u32 = 4;

/// What is known of one text of operation letters.
#[derive(Debug, Clone, Default)]
pub struct PerOperation {
    /// Requests by size in bytes.
    pub sizes: FxHashMap<u32, u64>,
    /// Sizes on their way to these, by their hash, with the requests of each.
    recent_sizes: [(u32, u64); 1 << RECENT_BITS],
    open_second: Stretch,
    open_kib: Amount,
    /// KiB (each request cut to whole KiB) by whole second of the trace's clock, for the published figures.
    pub kib_per_second: Bins,
}

impl PerOperation {
    #[inline]
    pub(super) fn add(&mut self, run: &Run) {
        let count = u64::from(run.count);
        if let Some(recent) = self
            .recent_sizes
            .get_mut(spread(run.bytes.into(), RECENT_BITS))
        {
            if recent.0 == run.bytes {
                recent.1 += count;
            } else {
                let before = std::mem::replace(recent, (run.bytes, count));
                self.settle_size(before);
            }
        }
        if !self.open_second.contains(run.t_ns) {
            self.settle_second();
            self.open_second = Stretch::of_bin(run.t_ns, SECOND);
        }
        self.open_kib.ios += count;
        self.open_kib.bytes += u64::from(run.bytes >> 10) * count;
    }

    fn settle_size(&mut self, (bytes, requests): (u32, u64)) {
        if requests > 0 {
            *self.sizes.entry(bytes).or_default() += requests;
        }
    }

    fn settle_second(&mut self) {
        let amount = std::mem::take(&mut self.open_kib);
        if amount.ios > 0 {
            self.kib_per_second
                .add(self.open_second.from_ns / SECOND, amount);
        }
    }

    pub(super) fn settle(&mut self) {
        for recent in std::mem::take(&mut self.recent_sizes) {
            self.settle_size(recent);
        }
        self.settle_second();
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
