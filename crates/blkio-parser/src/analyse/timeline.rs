//! Latencies by time of issue, which can be cut by time once phases are known.
//!
//! A million are kept one by one. Beyond, they are counted by stretches of time and bins of half a percent; when those are
//! too many, stretches become twice as long.

use std::ops::Range;

use super::distribution::{Distribution, bin_of, top_of};
use crate::num::index;
use crate::rwbs::Direction;

/// Latencies that are kept one by one, and counts after that.
const KEPT: usize = 1 << 20;
/// Stretches of time at the beginning of counting.
const STRETCH_NS: u64 = 100_000_000;
/// Latencies that wait to be counted together.
const WAITING: usize = 1 << 17;
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
    /// By stretch, direction and bin of the latency, in order. Empty while all are kept.
    counts: Vec<(u64, u64)>,
    /// What is yet to be counted.
    waiting: Vec<u64>,
}

impl Default for Timeline {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            most: KEPT,
            stretch_ns: STRETCH_NS,
            counts: Vec::new(),
            waiting: Vec::new(),
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
        if !self.is_exact() {
            return self.count(sample);
        }
        self.kept.push(sample);
        if self.kept.len() > self.most {
            let kept = std::mem::take(&mut self.kept);
            kept.into_iter().for_each(|sample| self.count(sample));
        }
    }

    fn count(&mut self, sample: Sample) {
        let stretch = sample.issue_ns / self.stretch_ns;
        let bin = bin_of(sample.latency_ns) as u64;
        let key = (stretch << 1 | u64::from(sample.write)) << BIN_BITS | bin;
        self.waiting.push(key);
        if self.waiting.len() >= WAITING {
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.waiting.sort_unstable();
        let counts = std::mem::take(&mut self.counts);
        let mut known = counts.into_iter().peekable();
        for key in self.waiting.drain(..) {
            while let Some(count) = known.next_if(|(known, _)| *known <= key) {
                add(&mut self.counts, count);
            }
            add(&mut self.counts, (key, 1));
        }
        self.counts.extend(known);
        while self.counts.len() > self.most {
            self.stretch_ns = self.stretch_ns.saturating_mul(2);
            let mut counts = std::mem::take(&mut self.counts);
            for (key, _) in &mut counts {
                let stretch = *key >> (BIN_BITS + 1) >> 1;
                *key = stretch << (BIN_BITS + 1) | *key & ((1 << (BIN_BITS + 1)) - 1);
            }
            counts.sort_by_key(|(key, _)| *key);
            counts
                .into_iter()
                .for_each(|count| add(&mut self.counts, count));
        }
    }

    /// Counts what waits; call once after the last request.
    pub(super) fn finish(&mut self) {
        if !self.waiting.is_empty() {
            self.settle();
        }
    }

    /// Returns `true` if every request is in the range that its own time is in, with its own latency.
    #[must_use]
    pub fn is_exact(&self) -> bool {
        self.counts.is_empty() && self.waiting.is_empty()
    }

    /// Returns the latencies of reads and writes issued in each of some ranges of time, which are in order and do not overlap.
    #[must_use]
    pub fn within(&self, ranges: &[Range<u64>]) -> Vec<[Distribution; 2]> {
        let mut found = vec![<[Distribution; 2]>::default(); ranges.len()];
        let mut put = |time_ns: u64, write: bool, latency_ns: u64, times: u64| {
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
            put(sample.issue_ns, sample.write, sample.latency_ns, 1);
        }
        for (key, count) in self.counts.iter().copied() {
            let start = (key >> (BIN_BITS + 1)).saturating_mul(self.stretch_ns);
            let middle = start.saturating_add(self.stretch_ns / 2);
            let bin = index(key & ((1 << BIN_BITS) - 1));
            put(middle, key >> BIN_BITS & 1 == 1, top_of(bin), count);
        }
        found
    }
}

/// Takes a count that comes behind all others.
fn add(counts: &mut Vec<(u64, u64)>, (key, count): (u64, u64)) {
    match counts.last_mut() {
        Some((last, sum)) if *last == key => *sum += count,
        _ => counts.push((key, count)),
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
                    let mut model: Vec<u64> = samples
                        .iter()
                        .filter(|(t, _, w)| range.contains(t) && *w == write)
                        .map(|(_, latency, _)| *latency)
                        .collect();
                    model.sort_unstable();
                    prop_assert_eq!(values.count, model.len() as u64);
                    prop_assert_eq!(values.percentiles(&[100.0]).first().copied(), model.last().copied());
                    prop_assert_eq!(values.sum, model.iter().map(|v| u128::from(*v)).sum::<u128>());
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
        timeline.finish();
        assert!(!timeline.is_exact() && timeline.counts.len() <= 100);
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
