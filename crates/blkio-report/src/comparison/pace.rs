//! The time per byte of a part of a run, and what it is made of.
//!
//! An application of `n` threads that each wait for a request, pause and issue the next moves `n` requests in the time of a latency
//! and a pause. So the time per byte is `(latency + pause) / (n * size)`; the pause is what is left of `n` times the time per request.

use std::collections::BTreeMap;
use std::ops::Range;

use blkio_companions::num::whole;
use blkio_parser::Stats;
use blkio_parser::analyse::samples::Sample;

use crate::limit::Load;

/// Batches of successive requests whose means show how much those of all may vary.
const BATCHES: usize = 32;
/// Fewest requests of a batch.
const LEAST_OF_BATCH: usize = 8;
/// Share of the requests below which those of a direction are not the application's: a file system writes beside it.
const FEW: f64 = 0.01;
/// Share of the requests that may be deeper than the threads of an application: those of a file system or another process.
const STRAY: f64 = 0.005;
/// Largest deviation of the numbers of requests by depth of an application that issues in rounds.
const ROUND: f64 = 0.2;
/// Share of requests deeper than any was from which a number of threads is excluded.
const EXCLUDED: f64 = 2.0 * STRAY;

/// Requests of one direction.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Way {
    pub(super) requests: f64,
    bytes: f64,
    latency_ns: f64,
}

impl Way {
    pub(super) fn size(&self) -> f64 {
        self.bytes / self.requests.max(1.0)
    }

    pub(super) fn latency(&self) -> f64 {
        self.latency_ns / self.requests.max(1.0)
    }
}

/// Means of successive requests.
#[derive(Debug, Clone, Copy, Default)]
struct Batch {
    requests: f64,
    bytes: f64,
    latency_ns: f64,
    time_ns: f64,
}

impl Batch {
    fn add(&mut self, sample: &Sample) {
        self.requests += 1.0;
        self.bytes += f64::from(sample.bytes);
        self.latency_ns += sample.latency_ns as f64;
    }
}

/// What was measured of a part of a run.
#[derive(Debug, Clone, Default)]
pub(super) struct Pace {
    /// Requests from the first issue to the last completion of each stretch of the part, one after the other.
    pub(super) loads: Vec<Load>,
    /// Reads and writes.
    pub(super) ways: [Way; 2],
    /// Time without breaks, of the requests that are kept.
    pub(super) time_ns: f64,
    /// Breaks: up to three long pauses in each stretch.
    pub(super) breaks_ns: f64,
    /// Share of the requests that go on where one of the 32 before ended.
    pub(super) sequential: Option<f64>,
    batches: Vec<Batch>,
    /// Requests by how many were in flight when they were issued, themselves included.
    depths: BTreeMap<u64, u64>,
}

impl Pace {
    /// Measures the requests of some stretches of the trace's clock; `None` where none completed.
    pub(super) fn of(stats: &Stats, stretches: &[Range<u64>]) -> Option<Self> {
        let detail = stats.newest.as_ref()?.detail.as_ref()?;
        let samples = &detail.samples;
        let all = |of: &Range<u64>| samples.within(of.start, of.end);
        let mut counts = [0; 2];
        for sample in stretches.iter().flat_map(all).flatten() {
            if let Some(count) = counts.get_mut(usize::from(sample.is_write)) {
                *count += 1;
            }
        }
        let count: usize = counts.iter().sum();
        let is_few = counts.map(|of| (of as f64) < FEW * count as f64);
        let is_own = |of: &Sample| is_few.get(usize::from(of.is_write)) != Some(&true);
        let blocks = |of: &Range<u64>| {
            let mut blocks = all(of);
            for block in &mut blocks {
                block.retain(is_own);
            }
            blocks
        };
        let size = (count / BATCHES).max(LEAST_OF_BATCH);
        let mut pace = Self::default();
        let mut continued = (0.0, 0.0);
        for stretch in stretches {
            let load = Load::of(samples, stretch.start, stretch.end);
            if load.requests == 0 {
                continue;
            }
            let (_, breaks_ns) = load.breaks();
            pace.breaks_ns += breaks_ns as f64;
            pace.time_ns += load.time_ns.saturating_sub(breaks_ns) as f64;
            let break_ns = load.shortest_break_ns().unwrap_or(u64::MAX);
            for block in blocks(stretch) {
                pace.batches(&block, size, break_ns);
                pace.depths(&block);
            }
            for slot in 0..2 {
                let share = crate::document::sequential_share;
                let share = share(stats, stretch.start, stretch.end, slot);
                let writes = load.writes as f64;
                let of = [load.requests as f64 - writes, writes];
                if let (Some(share), Some(of)) = (share, of.get(slot)) {
                    continued.0 += share * of;
                    continued.1 += of;
                }
            }
            pace.loads.push(load);
        }
        pace.sequential = (continued.1 > 0.0).then(|| continued.0 / continued.1);
        (!pace.loads.is_empty()).then_some(pace)
    }

    fn batches(&mut self, block: &[Sample], size: usize, break_ns: u64) {
        let Some(first) = block.first() else { return };
        let (mut begin_ns, mut busy_until) = (first.issue_ns, first.issue_ns);
        let (mut batch, mut paused_ns) = (Batch::default(), 0);
        for (at, sample) in block.iter().enumerate() {
            let gap = sample.issue_ns.saturating_sub(busy_until);
            if gap >= break_ns {
                paused_ns += gap;
            }
            if at > 0 && at.is_multiple_of(size) {
                batch.time_ns = (sample.issue_ns - begin_ns).saturating_sub(paused_ns) as f64;
                self.batches.push(std::mem::take(&mut batch));
                (begin_ns, paused_ns) = (sample.issue_ns, 0);
            }
            batch.add(sample);
            busy_until = busy_until.max(sample.issue_ns.saturating_add(sample.latency_ns));
            if let Some(way) = self.ways.get_mut(usize::from(sample.is_write)) {
                way.requests += 1.0;
                way.bytes += f64::from(sample.bytes);
                way.latency_ns += sample.latency_ns as f64;
            }
        }
        if batch.requests * 2.0 >= size as f64 {
            batch.time_ns = (busy_until - begin_ns).saturating_sub(paused_ns) as f64;
            self.batches.push(batch);
        }
    }

    /// Counts requests by depth: a place is free before it is taken.
    fn depths(&mut self, block: &[Sample]) {
        let ends = block
            .iter()
            .map(|of| of.issue_ns.saturating_add(of.latency_ns));
        let mut ends: Vec<u64> = ends.collect();
        ends.sort_unstable();
        let mut completed = 0;
        for (issued, sample) in block.iter().enumerate() {
            while completed < issued
                && ends
                    .get(completed)
                    .is_some_and(|end| *end <= sample.issue_ns)
            {
                completed += 1;
            }
            *self
                .depths
                .entry((issued - completed) as u64 + 1)
                .or_default() += 1;
        }
    }

    /// Returns the factor from the mean latency to the time that the device takes for a round, of an application that issues so many requests
    /// at once, waits for all, and pauses; `None` for any other. Its pauses are those in which nothing is in flight: that a request waits for
    /// the others of its round is no think time.
    pub(super) fn round(&self, threads: u64) -> Option<f64> {
        let share = |depth: u64| {
            let count = self.depths.get(&depth).copied().unwrap_or(0);
            count as f64 * threads as f64 / self.requests().max(1.0)
        };
        let is_even =
            (1..=threads).all(|depth| (1.0 - ROUND..=1.0 + ROUND).contains(&share(depth)));
        let busy_ns: u64 = self.loads.iter().map(|load| load.busy_ns).sum();
        let of_round = busy_ns as f64 * threads as f64 / self.requests().max(1.0);
        (threads > 1 && is_even).then(|| of_round / self.latency().max(1e-9))
    }

    /// Measures latency by rounds: by what a device takes for all requests of one.
    pub(super) fn by_rounds(&mut self, factor: f64) {
        for way in &mut self.ways {
            way.latency_ns *= factor;
        }
        for batch in &mut self.batches {
            batch.latency_ns *= factor;
        }
    }

    fn sum(&self, of: fn(&Way) -> f64) -> f64 {
        self.ways.iter().map(of).sum()
    }

    pub(super) fn requests(&self) -> f64 {
        self.sum(|way| way.requests)
    }

    /// Mean size in bytes.
    pub(super) fn size(&self) -> f64 {
        self.sum(|way| way.bytes) / self.requests().max(1.0)
    }

    /// Mean latency in nanoseconds.
    pub(super) fn latency(&self) -> f64 {
        self.sum(|way| way.latency_ns) / self.requests().max(1.0)
    }

    /// Nanoseconds from one request to the next.
    pub(super) fn interval(&self) -> f64 {
        self.time_ns / self.requests().max(1.0)
    }

    /// Nanoseconds a byte.
    pub(super) fn per_byte(&self) -> f64 {
        self.interval() / self.size().max(1.0)
    }

    /// Share of the requests that are writes.
    pub(super) fn write_share(&self) -> f64 {
        let [_, write] = &self.ways;
        write.requests / self.requests().max(1.0)
    }

    /// Share of the requests that go on where any before ended, at most: what is counted is those that go on where one of their own
    /// direction ended, which in one stream of both is rarer the more they are mixed.
    pub(super) fn sequential_of_all(&self) -> Option<f64> {
        let writes = self.write_share();
        let same = writes.powi(2) + (1.0 - writes).powi(2);
        self.sequential.map(|share| (share / same).min(1.0))
    }

    /// Pause of each of so many threads between a completion and its next issue.
    pub(super) fn pause(&self, threads: u64) -> f64 {
        threads as f64 * self.interval() - self.latency()
    }

    /// Squared standard error of the mean of a value of batches.
    fn error(&self, value: impl Fn(&Batch) -> f64) -> f64 {
        let count = self.batches.len() as f64;
        if count < 2.0 {
            return f64::INFINITY;
        }
        let values = || self.batches.iter().map(&value);
        let mean = values().sum::<f64>() / count;
        let squares = values().map(|of| (of - mean).powi(2)).sum::<f64>();
        squares / (count - 1.0) / count
    }

    pub(super) fn error_of_latency(&self) -> f64 {
        self.error(|batch| batch.latency_ns / batch.requests)
    }

    pub(super) fn error_of_size(&self) -> f64 {
        self.error(|batch| batch.bytes / batch.requests)
    }

    pub(super) fn error_of_pause(&self, threads: u64) -> f64 {
        let threads = threads as f64;
        self.error(|batch| (threads * batch.time_ns - batch.latency_ns) / batch.requests)
    }

    /// Squared relative error of the time per byte.
    pub(super) fn error_of_per_byte(&self) -> f64 {
        self.error(|batch| batch.time_ns / batch.bytes.max(1.0)) / self.per_byte().powi(2)
    }

    /// Returns the numbers of threads that the depths allow. At least so many were seen, but for strays. Were there more, each request would have found
    /// all that were seen in flight with the probability of the binomial distribution, if threads are independent: from a hundredth
    /// of the requests on, that would have shown.
    pub(super) fn threads(&self) -> Range<u64> {
        let all: u64 = self.depths.values().sum();
        let most = whole(all as f64 * STRAY);
        let mut deeper = 0;
        let deepest = self.depths.iter().rev().find(|(_, count)| {
            deeper += **count;
            deeper > most
        });
        let least = deepest.map_or(1, |(depth, _)| *depth);
        if self.round(least).is_some() {
            return least..least + 1;
        }
        let in_flight = self.latency() / self.interval().max(1e-9);
        let deep: u64 = self.depths.range(least..).map(|(_, count)| *count).sum();
        let deep = deep as f64 / all.max(1) as f64;
        // Requests that come together are as deep as they are many, far more often than threads by themselves would be: of those that found
        // all others but one, some would have found that one, too.
        let is_excluded = |threads: u64| {
            let p = in_flight / threads as f64;
            let (as_deep, deeper) = (tail(threads - 1, p, least - 1), tail(threads - 1, p, least));
            deeper > EXCLUDED || deep * deeper > EXCLUDED * as_deep
        };
        let more = (least + 1..=least * 8 + 64).find(|threads| is_excluded(*threads));
        least..more.unwrap_or(least * 8 + 65)
    }
}

/// Probability that at least so many of some threads are in flight that are with this probability each.
fn tail(threads: u64, probability: f64, least: u64) -> f64 {
    let p = probability.clamp(0.0, 1.0);
    if p >= 1.0 {
        return 1.0;
    }
    let mut term = (threads as f64 * (-p).ln_1p()).exp();
    if term <= 0.0 {
        // Nearly all are in flight all the time.
        return 1.0;
    }
    let mut below = 0.0;
    for count in 0..least.min(threads + 1) {
        below += term;
        term *= (threads - count) as f64 / (count + 1) as f64 * p / (1.0 - p);
    }
    (1.0 - below).max(0.0)
}
