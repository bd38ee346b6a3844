//! When requests were slow: latencies that can still be cut by time once phases are known.
//!
//! A million are kept one by one. Beyond, they are counted by stretches of time and bins of half a percent; when those are
//! too many, stretches become twice as long.

use std::ops::Range;

use rustc_hash::FxHashMap;

use super::distribution::{Distribution, bin_of, top_of};
use crate::num::index;
use crate::rwbs::Direction;

/// Latencies that are kept one by one, and counts after that.
const KEPT: usize = 1 << 20;
/// Stretches of time at the beginning of counting.
const STRETCH_NS: u64 = 100_000_000;
/// Bits for the bin of a latency.
const BIN_BITS: u32 = 16;

/// A request with its latency.
#[derive(Debug, Clone, Copy)]
struct Sample {
    issue_ns: u64,
    latency_ns: u64,
    write: bool,
}

/// Latencies of reads and writes by time of issue.
#[derive(Debug, Clone)]
pub struct Timeline {
    kept: Vec<Sample>,
    most: usize,
    stretch_ns: u64,
    /// By stretch, direction and bin of the latency. Empty while all are kept.
    counts: FxHashMap<u64, u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            most: KEPT,
            stretch_ns: STRETCH_NS,
            counts: FxHashMap::default(),
        }
    }
}

impl Timeline {
    /// Takes a data request.
    pub(super) fn add(&mut self, issue_ns: u64, latency_ns: u64, direction: Direction) {
        let sample = Sample {
            issue_ns,
            latency_ns,
            write: direction == Direction::Write,
        };
        if !self.counts.is_empty() {
            self.count(sample);
        } else {
            self.kept.push(sample);
            if self.kept.len() > self.most {
                let kept = std::mem::take(&mut self.kept);
                kept.into_iter().for_each(|sample| self.count(sample));
            }
        }
    }

    fn count(&mut self, sample: Sample) {
        let stretch = sample.issue_ns / self.stretch_ns;
        let bin = bin_of(sample.latency_ns) as u64;
        let key = (stretch << 1 | u64::from(sample.write)) << BIN_BITS | bin;
        *self.counts.entry(key).or_default() += 1;
        if self.counts.len() > self.most {
            self.stretch_ns = self.stretch_ns.saturating_mul(2);
            let before = std::mem::take(&mut self.counts);
            #[expect(
                clippy::iter_over_hash_type,
                reason = "sums do not depend on the order"
            )]
            for (key, count) in before {
                let stretch = key >> (BIN_BITS + 1) >> 1;
                let rest = key & ((1 << (BIN_BITS + 1)) - 1);
                *self
                    .counts
                    .entry(stretch << (BIN_BITS + 1) | rest)
                    .or_default() += count;
            }
        }
    }

    /// Whether every request is in the range that its own time is in, with its own latency.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counts.is_empty()
    }

    /// Latencies of reads and writes issued in each of some ranges of time, which are in order and do not overlap.
    #[must_use]
    pub fn within(&self, ranges: &[Range<u64>]) -> Vec<[Distribution; 2]> {
        let mut found = vec![<[Distribution; 2]>::default(); ranges.len()];
        let mut add = |time_ns: u64, write: bool, latency_ns: u64, times: u64| {
            let at = ranges.partition_point(|range| range.end <= time_ns);
            if ranges.get(at).is_some_and(|range| range.start <= time_ns)
                && let Some(values) = found
                    .get_mut(at)
                    .and_then(|v| v.get_mut(usize::from(write)))
            {
                values.add_many(latency_ns, times);
            }
        };
        for sample in &self.kept {
            add(sample.issue_ns, sample.write, sample.latency_ns, 1);
        }
        // Percentiles do not depend on the order, sums of squares do in their last digits.
        let mut counts: Vec<(u64, u64)> = self.counts.iter().map(|(k, c)| (*k, *c)).collect();
        counts.sort_unstable();
        for (key, count) in counts {
            let start = (key >> (BIN_BITS + 1)).saturating_mul(self.stretch_ns);
            let middle = start.saturating_add(self.stretch_ns / 2);
            let bin = index(key & ((1 << BIN_BITS) - 1));
            add(middle, key >> BIN_BITS & 1 == 1, top_of(bin), count);
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_hold_their_own_requests(
            samples in prop::collection::vec((0_u64..1000, 0_u64..5000, any::<bool>()), 0..200),
            cuts in prop::collection::btree_set(0_u64..1000, 2..6),
        ) {
            let mut timeline = Timeline::default();
            for (issue_ns, latency_ns, write) in &samples {
                let direction = if *write { Direction::Write } else { Direction::Read };
                timeline.add(*issue_ns, *latency_ns, direction);
            }
            let cuts: Vec<u64> = cuts.into_iter().collect();
            let ranges: Vec<Range<u64>> = cuts.windows(2).map(|w| w[0]..w[1]).collect();
            for (range, found) in ranges.iter().zip(timeline.within(&ranges)) {
                for (write, mut values) in [false, true].into_iter().zip(found) {
                    let mut twin: Vec<u64> = samples
                        .iter()
                        .filter(|(t, _, w)| range.contains(t) && *w == write)
                        .map(|(_, latency, _)| *latency)
                        .collect();
                    twin.sort_unstable();
                    prop_assert_eq!(values.count, twin.len() as u64);
                    prop_assert_eq!(values.percentiles(&[100.0]).first().copied(), twin.last().copied());
                    prop_assert_eq!(values.sum, twin.iter().map(|v| u128::from(*v)).sum::<u128>());
                }
            }
        }
    }

    #[test]
    fn many_are_counted_in_stretches() {
        let mut timeline = Timeline {
            most: 100,
            ..Timeline::default()
        };
        for number in 0..10_000_u64 {
            // A latency that grows tenfold halfway.
            let latency_ns = if number < 5_000 { 1_000 } else { 10_000 } + number % 100;
            timeline.add(number * 10_000_000, latency_ns, Direction::Read);
        }
        assert!(!timeline.is_exact() && timeline.counts.len() <= 101);
        let half = 50_000_000_000;
        let [mut early, mut late] =
            <[_; 2]>::try_from(timeline.within(&[0..half, half..2 * half])).unwrap();
        assert_eq!(early[0].count + late[0].count, 10_000);
        let p50 = |values: &mut Distribution| values.percentiles(&[50.0])[0];
        assert!((1_000..1_110).contains(&p50(&mut early[0])));
        assert!((10_000..10_150).contains(&p50(&mut late[0])));
        assert_eq!(early[1].count, 0);
    }
}
