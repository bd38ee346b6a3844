//! What completes at which depth, and when nothing does.

use std::collections::BTreeMap;

use blkio_parser::analyse::samples::Sample;

use super::{LEAST_OF_DEPTH, Load};

/// Time without a completion, in latencies of requests like the one that ends it, from which the device stands still.
const STALL: f64 = 20.0;

/// Requests of a stretch that is taken for what the device can do: at least so many, and so many times those in flight at most.
const FEWEST: f64 = 64.0;
const AROUND: f64 = 16.0;

/// The successive requests that complete fastest.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Best {
    /// How many.
    pub requests: u64,
    /// Requests per nanosecond.
    pub per_ns: f64,
    /// Mean number of requests in flight meanwhile.
    pub depth: f64,
}

/// Times in which a device stands still.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stalls {
    /// How many there are.
    pub count: u64,
    /// Their sum in nanoseconds.
    pub sum_ns: u64,
    /// The longest in nanoseconds.
    pub longest_ns: u64,
    /// Median latency of requests like the one that ended the longest.
    pub usual_ns: u64,
}

impl Load {
    /// Looks for the successive requests of a block that complete fastest: so many that those in flight before and behind count for little.
    pub(super) fn best_of(&mut self, block: &[Sample], ends: &[u64]) {
        let deepest = self.deepest().unwrap_or(1.0);
        let count = blkio_companions::num::index(blkio_companions::num::whole(
            (AROUND * deepest).max(FEWEST),
        ));
        if ends.len() < 2 * count {
            return;
        }
        let all = ends.iter().zip(ends.iter().skip(count));
        let Some((from_ns, to_ns)) = all.min_by_key(|(from, to)| *to - *from) else {
            return;
        };
        let took_ns = (to_ns - from_ns).max(1) as f64;
        let per_ns = count as f64 / took_ns;
        if self.best.is_some_and(|best| best.per_ns >= per_ns) {
            return;
        }
        let overlap = |of: &Sample| {
            let end_ns = of.end_ns().min(*to_ns);
            end_ns.saturating_sub(of.issue_ns.max(*from_ns)) as f64
        };
        self.best = Some(Best {
            requests: count as u64,
            per_ns,
            depth: block.iter().map(overlap).sum::<f64>() / took_ns,
        });
    }

    /// Adds the times of a block in which nothing completes although requests are in flight, far longer than requests like the one that
    /// completes first take.
    pub(super) fn stall(&mut self, block: &[Sample], typical: &BTreeMap<Kind, u64>) {
        let mut by_end: Vec<&Sample> = block.iter().collect();
        by_end.sort_by_key(|of| (of.end_ns(), of.issue_ns));
        // The earliest issue among the requests that complete at a place or later.
        let mut oldest = vec![u64::MAX; by_end.len() + 1];
        for (at, sample) in by_end.iter().enumerate().rev() {
            let later = oldest.get(at + 1).copied().unwrap_or(u64::MAX);
            if let Some(slot) = oldest.get_mut(at) {
                *slot = later.min(sample.issue_ns);
            }
        }
        let mut before_ns = 0;
        for (sample, oldest) in by_end.iter().zip(&oldest) {
            let still_ns = sample.end_ns().saturating_sub(before_ns.max(*oldest));
            before_ns = sample.end_ns();
            let Some(usual) = typical.get(&Kind::of(sample)) else {
                continue;
            };
            let least = STALL * *usual as f64;
            if still_ns as f64 >= least && sample.latency_ns as f64 >= least {
                self.stalls.count += 1;
                self.stalls.sum_ns += still_ns;
                if still_ns > self.stalls.longest_ns {
                    self.stalls.longest_ns = still_ns;
                    self.stalls.usual_ns = *usual;
                }
            }
        }
    }
}

/// Requests that should take about as long as each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Kind {
    slot: usize,
    /// Doublings of the size.
    size: u32,
}

impl Kind {
    fn of(sample: &Sample) -> Self {
        Self {
            slot: sample.direction.slot(),
            size: sample.bytes.max(1).ilog2(),
        }
    }
}

/// Returns `false` if completions follow each other so closely that the device cannot have stood still.
pub(super) fn may_stall(block: &[Sample], ends: &[u64]) -> bool {
    let latencies = || block.iter().map(|of| of.latency_ns);
    let least = STALL * latencies().min().unwrap_or(0) as f64;
    let first = block.first().map(|of| of.issue_ns);
    let before = first.into_iter().chain(ends.iter().copied());
    let longest = before.zip(ends).map(|(a, b)| b.saturating_sub(a)).max();
    longest.unwrap_or(0) as f64 >= least && latencies().max().unwrap_or(0) as f64 >= least
}

/// Median latencies of the kinds of which there are enough.
pub(super) fn typical(blocks: &[Vec<Sample>]) -> BTreeMap<Kind, u64> {
    let mut all: BTreeMap<Kind, Vec<u64>> = BTreeMap::new();
    for sample in blocks.iter().flatten() {
        all.entry(Kind::of(sample))
            .or_default()
            .push(sample.latency_ns);
    }
    all.retain(|_, of| of.len() as u64 >= LEAST_OF_DEPTH);
    let median = |mut of: Vec<u64>| {
        let middle = of.len() / 2;
        *of.select_nth_unstable(middle).1
    };
    all.into_iter()
        .map(|(kind, of)| (kind, median(of)))
        .collect()
}
