//! Bytes by bin of time, those of each request spread evenly over the time it was in flight.

use std::collections::BTreeMap;
use std::ops::Range;

use super::traffic::MAX_BINS;
use crate::num::index;

/// Bytes read and written by bin since an origin.
///
/// A request in flight from `a` to `b` has moved `bytes * (t - a) / (b - a)` bytes by time `t`, rounded down. A bin holds the
/// difference of two such amounts, so the bins of a request add up to its bytes. A request whose duration the clock could not
/// resolve counts entirely in the bin of its begin. Bins beyond [`MAX_BINS`] are not kept.
#[derive(Debug, Clone, Default)]
pub struct SpreadBins {
    width_ns: u64,
    origin_ns: u64,
    /// Completions come in order of time, so that most of them are for the same bin.
    open: (u64, [u64; 2]),
    closed: BTreeMap<u64, [u64; 2]>,
}

impl SpreadBins {
    pub(super) fn new(width_ns: u64, origin_ns: u64) -> Self {
        Self {
            width_ns: width_ns.max(1),
            origin_ns,
            ..Self::default()
        }
    }

    /// Takes a request, of reads or of writes by `slot`. What passed before the origin is in the first bin.
    pub(super) fn add(&mut self, slot: usize, flight: Range<u64>, bytes: u64) {
        let since = |t_ns: u64| t_ns.saturating_sub(self.origin_ns);
        let (first, last) = (
            since(flight.start) / self.width_ns,
            since(flight.end.saturating_sub(1).max(flight.start)) / self.width_ns,
        );
        if first == last {
            return self.put(first, slot, bytes);
        }
        let length = u128::from(flight.end - flight.start);
        let mut done = 0;
        for bin in first..=last.min(MAX_BINS) {
            let end = (bin + 1).saturating_mul(self.width_ns);
            let end = end.saturating_add(self.origin_ns).min(flight.end);
            let passed = u128::from(end - flight.start);
            // At most `bytes`.
            let until = u64::try_from(u128::from(bytes) * passed / length).unwrap_or(bytes);
            if until > done {
                self.put(bin, slot, until - done);
            }
            done = until;
        }
    }

    fn put(&mut self, bin: u64, slot: usize, bytes: u64) {
        if bin != self.open.0 {
            self.close();
            self.open.0 = bin;
        }
        if let Some(sum) = self.open.1.get_mut(slot) {
            *sum += bytes;
        }
    }

    fn close(&mut self) {
        let (bin, amounts) = self.open;
        self.open.1 = [0, 0];
        if bin < MAX_BINS && amounts != [0, 0] {
            let sums = self.closed.entry(bin).or_default();
            for (sum, amount) in sums.iter_mut().zip(amounts) {
                *sum += amount;
            }
        }
    }

    /// Returns the largest number of bytes read, and written, in one bin.
    #[must_use]
    pub fn most(&self) -> [u64; 2] {
        let mut most = [0, 0];
        for (bin, amounts) in &self.closed {
            let open = if *bin == self.open.0 {
                self.open.1
            } else {
                [0, 0]
            };
            for ((most, amount), open) in most.iter_mut().zip(amounts).zip(open) {
                *most = (*most).max(amount + open);
            }
        }
        if !self.closed.contains_key(&self.open.0) {
            for (most, amount) in most.iter_mut().zip(self.open.1) {
                *most = (*most).max(amount);
            }
        }
        most
    }

    /// Returns the bytes read and written in each of the first `length` bins.
    #[must_use]
    pub fn dense(&self, length: u64) -> [Vec<u64>; 2] {
        let mut all = self.clone();
        all.close();
        let length = index(length.min(MAX_BINS));
        [0, 1].map(|slot| {
            let mut bytes = vec![0; length];
            for (bin, amounts) in &all.closed {
                if let (Some(sum), Some(amount)) = (bytes.get_mut(index(*bin)), amounts.get(slot)) {
                    *sum = *amount;
                }
            }
            bytes
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn bytes_are_spread_over_the_time_in_flight() {
        let of = |flight: Range<u64>, bytes| {
            let mut bins = SpreadBins::new(SECOND, 0);
            bins.add(1, flight, bytes);
            let [reads, writes] = bins.dense(4);
            assert_eq!(reads, [0; 4]);
            writes
        };
        let half = SECOND / 2;
        assert_eq!(of(5..6, 4096), [4096, 0, 0, 0]);
        assert_eq!(of(3 * SECOND..3 * SECOND, 4096), [0, 0, 0, 4096]);
        // The end of a second is no part of the next.
        assert_eq!(of(half..SECOND, 100), [100, 0, 0, 0]);
        assert_eq!(of(half..3 * SECOND + half, 3000), [500, 1000, 1000, 500]);
        assert_eq!(of(SECOND - 1..SECOND + 2, 1000), [333, 667, 0, 0]);
        // Beyond what is kept, and at the end of time.
        assert_eq!(of(u64::MAX - 5..u64::MAX, 7), [0; 4]);
        assert_eq!(of(0..u64::MAX, 1 << 32), [0; 4]);
    }

    proptest! {
        #[test]
        fn bins_hold_what_passes_nanosecond_by_nanosecond(
            requests in prop::collection::vec((0_u64..300, 0_u64..80, 0_u64..500, 0_usize..2), 1..40),
            width_ns in 1_u64..50,
            origin_ns in 0_u64..40,
        ) {
            let mut bins = SpreadBins::new(width_ns, origin_ns);
            let mut model = [vec![0_u64; 400], vec![0_u64; 400]];
            for (start, length, bytes, slot) in requests {
                bins.add(slot, start..start + length, bytes);
                let bin = |t: u64| usize::try_from(t.saturating_sub(origin_ns) / width_ns).unwrap();
                if length == 0 {
                    model[slot][bin(start)] += bytes;
                }
                for passed in 0..length {
                    let part = bytes * (passed + 1) / length - bytes * passed / length;
                    model[slot][bin(start + passed)] += part;
                }
            }
            prop_assert_eq!(bins.dense(400), model);
        }
    }
}
