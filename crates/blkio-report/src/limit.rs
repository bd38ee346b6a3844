//! Judges what limits a stretch of traffic: the application's pauses, flushes, the queue depth, the size of requests, or the device.
//!
//! The judgement goes by Little's law. While requests are in flight, throughput is depth over latency. If latency grows as depth
//! does, throughput stays: the device is at its limit. If latency stays, throughput grows with depth: depth is the limit. A
//! stretch that has only one depth shows neither, also where requests come one at a time: a device that serves one after the other
//! looks the same. Without a yardstick nothing is said of it; another phase of the same recording is one ([`crate::phase_yardsticks`]).

mod progress;

use std::collections::BTreeMap;

use blkio_parser::analyse::samples::{Sample, Samples};

use crate::loss::hidden_weight;

pub use progress::{Best, Stalls};
use progress::{may_stall, typical};

/// Completed requests below which nothing is said.
pub(crate) const LEAST: u64 = 50;
/// Requests that should have been deeper than any was, had there been one more thread, from which there is none.
const MISSED: f64 = 20.0;
/// Standard errors by which a mean latency is taken to be lower.
const SURE: f64 = 3.0;
/// Share of random requests and their mean latency from which a rate measured elsewhere may be that of sequential ones on a device
/// that seeks.
const RANDOM: f64 = 0.5;
const SEEK_NS: f64 = 1e6;
/// Share of time without a request in flight from which pauses of the application are the limit: they are the larger part.
const IDLE: f64 = 0.5;
/// Share of what a device at its limit could do that goes unused, from which the application is the limit: from there on, no pauses gain
/// more than a device twice as fast.
const IDLE_OF_FULL: f64 = 1.0 / 3.0;
/// Share of the requests of the commonest size from which their latencies by depth show what all could do.
const MOSTLY_ALIKE: f64 = 0.9;
/// Share of the requests that follow completions, beyond those that do by chance, from which an application waits for completions.
const FOLLOWING: f64 = 0.5;
/// Requests at a time over their mean number, from which requests that do not follow completions leave the queue short.
const UNEVEN: f64 = 1.5;
/// How many more requests must be in flight where the device does most than otherwise.
const DEEPER: f64 = 1.25;
/// Share of the time in which the device stands still from which it is the limit.
const STALLED: f64 = 0.5;
/// Latencies, and share of the issues, up to which issues follow completions.
const AT_ONCE: f64 = 0.2;
/// Maximum number of pauses that are breaks between phases rather than think time, and the share of the time from which one is.
const MAX_BREAKS: usize = 3;
const BREAK: f64 = 0.05;
/// Requests of a class of depths that counts as evidence.
const LEAST_OF_DEPTH: u64 = 8;
/// Gain of throughput per gain of depth (1: proportional) up to which a device is at its limit, and from which it is not.
const FLAT: f64 = 0.35;
const STEEP: f64 = 0.65;
/// Requests of up to this size are small: a device that is at its limit with them is at its rate of requests.
const SMALL_BYTES: u32 = 16 << 10;
/// Share of a yardstick that counts as reaching it.
const REACHED: f64 = 0.9;
/// Share of a yardstick above which the trace disproves it: no device does more than it can.
const DISPROVED: f64 = 1.05;
/// Share of a yardstick below which there is room.
const ROOM: f64 = 0.7;
/// Largest ratio of two sizes of requests that are alike.
const ALIKE: f64 = 2.0;
/// Size from which requests are compared with a yardstick of unknown size: bandwidths are measured with large ones.
const LARGE_BYTES: f64 = 65_536.0;
/// Error of a gain above which requests at more distant depths are compared.
const VAGUE: f64 = 0.1;

/// What a device can do, measured elsewhere.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct Yardstick {
    /// Where it comes from.
    pub name: String,
    /// Bytes per second of reads and of writes.
    pub bytes_per_s: [Option<f64>; 2],
    /// Requests per second of reads and of writes.
    pub iops: [Option<f64>; 2],
    /// Mean size of the requests that were measured, of reads and of writes; `None` where that is not known.
    pub size_bytes: [Option<f64>; 2],
}

/// Size of the requests of a load relative to those of a yardstick.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeMatch {
    /// They are alike.
    Alike,
    /// The load's are smaller, or small while those of the yardstick are of unknown size: it is a bound, but no aim.
    Smaller,
    /// The load's are larger: it may move more than the yardstick.
    Larger,
}

impl Yardstick {
    /// Compares the mean size of the requests of a load with that of the yardstick, in one direction (0: read, 1: write).
    #[must_use]
    pub fn size_match(&self, load: &Load, slot: usize) -> SizeMatch {
        let mean = load.bytes as f64 / (load.requests as f64).max(1.0);
        match self.size_bytes.get(slot).copied().flatten() {
            Some(size) if mean * ALIKE < size => SizeMatch::Smaller,
            Some(size) if mean > size * ALIKE => SizeMatch::Larger,
            None if mean < LARGE_BYTES => SizeMatch::Smaller,
            _ => SizeMatch::Alike,
        }
    }

    /// Returns the share of the yardstick in bytes and in requests per second that a load of this direction (0: read, 1: write)
    /// reaches; `None` for what the yardstick does not have.
    #[must_use]
    pub fn reached(&self, load: &Load, slot: usize) -> [Option<f64>; 2] {
        let share = |most: [Option<f64>; 2], now: f64| {
            let most = most.get(slot).copied().flatten();
            most.filter(|most| *most > 0.0).map(|most| now / most)
        };
        [
            share(self.bytes_per_s, load.bytes_per_s()),
            share(self.iops, load.iops()),
        ]
    }

    /// Returns the share of the yardstick that disproves it: what the load moves while it is busy, since no device does more than it can.
    #[must_use]
    pub fn disproof(&self, load: &Load, slot: usize) -> Option<f64> {
        let most = self.bytes_per_s.get(slot).copied().flatten();
        let share = most
            .filter(|most| *most > 0.0)
            .map(|most| load.bytes_per_busy_s() / most);
        let is_comparable = load.is_enough() && self.size_match(load, slot) != SizeMatch::Larger;
        share.filter(|share| is_comparable && *share > DISPROVED)
    }
}

/// What limits a stretch of traffic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Limiter {
    /// The application leaves the device without requests.
    ThinkTime,
    /// The device is busy with flushes, and the application waits for them.
    Flush,
    /// More requests at a time would be served as fast each.
    QueueDepth,
    /// The device is at its rate of requests, which are small.
    RequestSize,
    /// The device serves no more however many requests wait.
    Device,
    /// The trace does not show it.
    Unknown,
}

impl Limiter {
    /// Returns `true` if the device serves no more: neither more requests at a time nor shorter pauses would help.
    #[must_use]
    pub const fn is_saturated(self) -> bool {
        matches!(self, Self::Device | Self::RequestSize | Self::Flush)
    }

    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ThinkTime => "think time",
            Self::Flush => "flush",
            Self::QueueDepth => "queue depth",
            Self::RequestSize => "request size",
            Self::Device => "device",
            Self::Unknown => "cannot say",
        }
    }
}

/// Requests by how many were in flight when they were issued, themselves included.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct AtDepth {
    /// Requests.
    pub requests: u64,
    /// Sum of the depths.
    pub depth: u64,
    /// Sum of the latencies in nanoseconds.
    pub latency_ns: u128,
    /// Sum of the squares of the latencies.
    squares: f64,
}

impl AtDepth {
    fn mean_depth(&self) -> f64 {
        self.depth as f64 / self.requests as f64
    }

    pub(crate) fn mean_latency(&self) -> f64 {
        self.latency_ns as f64 / self.requests as f64
    }

    /// Returns the squared relative error of the mean latency.
    pub(crate) fn error(&self) -> f64 {
        let mean = self.mean_latency();
        let variance = self.squares / self.requests as f64 - mean * mean;
        variance.max(0.0) / (mean * mean).max(f64::MIN_POSITIVE) / self.requests as f64
    }
}

/// What was measured of a stretch of traffic.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Load {
    /// Completed data requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those that are writes.
    pub writes: u64,
    /// Time from the first issue to the last completion, in nanoseconds.
    pub time_ns: u64,
    /// Requests without data that completed, such as flushes, and the sum of their latencies.
    pub flushes: u64,
    /// Sum of the latencies of those.
    pub flush_ns: u128,
    /// Time with a request in flight, with data or without; by estimate where completions were lost.
    pub busy_ns: u64,
    /// Share of the requests whose completion was lost, which are in none of the other members: rates are by those that were issued.
    pub lost: f64,
    /// Sum of depth times nanoseconds.
    pub integral: u128,
    /// Pauses without a request in flight, in ascending order.
    gaps_ns: Vec<u64>,
    /// Requests that found no other in flight.
    pub alone: u64,
    /// Requests that were issued soon after a completion that no other request followed.
    pub following: u64,
    /// Maximum number of requests in flight at once.
    pub max_depth: u64,
    /// Sum of the squares of the latencies of all requests.
    squares: f64,
    /// Share of the requests that go on where one of the 32 before ended; `None` where that is not known.
    pub sequential_share: Option<f64>,
    /// The commonest size.
    pub size: u32,
    /// Times in which nothing completes although requests are in flight, far longer than requests take: how many, their sum and the longest.
    pub stalls: Stalls,
    /// What the device does at its best; `None` of few requests.
    pub best: Option<Best>,
    /// Requests of that size and the main direction, by class of depth: 1, 2 and 3, 4 to 7, and so on.
    pub by_depth: [AtDepth; 24],
}

impl Load {
    /// Measures the requests issued from one time until before another, of which this share lost its completion.
    #[must_use]
    pub fn of(samples: &Samples, from_ns: u64, until_ns: u64, lost: f64) -> Self {
        Self::of_blocks(&samples.within(from_ns, until_ns), lost)
    }

    /// Measures requests in blocks of successive ones, each in order of issue.
    pub(crate) fn of_blocks(blocks: &[Vec<Sample>], lost: f64) -> Self {
        let mut load = Self {
            lost,
            ..Self::default()
        };
        let mut sizes: BTreeMap<u32, u64> = BTreeMap::new();
        for sample in blocks.iter().flatten() {
            if !sample.is_data() {
                load.flushes += 1;
                load.flush_ns += u128::from(sample.latency_ns);
                continue;
            }
            load.requests += 1;
            load.bytes += u64::from(sample.bytes);
            load.writes += u64::from(sample.is_write());
            *sizes.entry(sample.bytes).or_default() += 1;
        }
        let common = sizes.iter().max_by_key(|(size, count)| (**count, **size));
        load.size = common.map_or(0, |(size, _)| *size);
        let is_write = load.writes * 2 > load.requests;
        let sorted = |block: &Vec<Sample>| {
            let mut ends: Vec<u64> = block.iter().map(Sample::end_ns).collect();
            ends.sort_unstable();
            ends
        };
        let ends: Vec<Vec<u64>> = blocks.iter().map(sorted).collect();
        let both = || blocks.iter().zip(&ends);
        for (block, ends) in both() {
            load.sweep(block, ends, is_write);
        }
        if both().any(|(block, ends)| may_stall(block, ends)) {
            let typical = typical(blocks);
            for block in blocks {
                load.stall(block, &typical);
            }
        }
        for (block, ends) in both() {
            load.best_of(block, ends);
        }
        load.gaps_ns.sort_unstable();
        if lost > 0.0 {
            let hidden: f64 = blocks.iter().map(|block| hidden_ns(block, lost)).sum();
            load.busy_ns =
                (load.busy_ns + blkio_companions::num::whole(hidden.max(0.0))).min(load.time_ns);
        }
        load
    }

    /// Walks along the requests of a block in order of issue.
    fn sweep(&mut self, block: &[Sample], ends: &[u64], is_write: bool) {
        let (Some(first), Some(last)) = (block.first(), ends.last()) else {
            return;
        };
        self.time_ns += last.saturating_sub(first.issue_ns);
        let soon_ns =
            AT_ONCE * block.iter().map(|of| of.latency_ns as f64).sum::<f64>() / block.len() as f64;
        let mut completed = 0;
        let mut busy_until = first.issue_ns;
        // Completions that no request has followed.
        let mut free: Vec<u64> = Vec::new();
        for (issued, sample) in block.iter().enumerate() {
            while let Some(end) = ends.get(completed)
                && *end <= sample.issue_ns
                && completed < issued
            {
                free.push(*end);
                completed += 1;
            }
            let follows = free.pop();
            let is_soon = |end: u64| (sample.issue_ns - end) as f64 <= soon_ns;
            self.following += u64::from(follows.is_some_and(is_soon));
            let end = sample.end_ns();
            if sample.issue_ns > busy_until {
                self.gaps_ns.push(sample.issue_ns - busy_until);
            }
            self.busy_ns += end.saturating_sub(busy_until.max(sample.issue_ns));
            busy_until = busy_until.max(end);
            self.integral += u128::from(sample.latency_ns);
            self.squares += (sample.latency_ns as f64).powi(2);
            let depth = (issued - completed) as u64 + 1;
            self.max_depth = self.max_depth.max(depth);
            if !sample.is_data() {
                continue;
            }
            self.alone += u64::from(depth == 1);
            if sample.bytes != self.size || sample.is_write() != is_write {
                continue;
            }
            if let Some(class) = self
                .by_depth
                .get_mut(blkio_companions::num::index(depth.ilog2().into()))
            {
                class.requests += 1;
                class.depth += depth;
                class.latency_ns += u128::from(sample.latency_ns);
                class.squares += (sample.latency_ns as f64).powi(2);
            }
        }
    }

    /// Returns the share of the time outside of [`Self::breaks`] in which the device stands still.
    #[must_use]
    pub fn stall_share(&self) -> f64 {
        self.stalls.sum_ns as f64 / (self.work_ns() as f64).max(1.0)
    }

    /// Returns the mean number of requests in flight outside of [`Self::breaks`].
    fn depth_at_work(&self) -> f64 {
        self.in_flight_ns() / (self.work_ns() as f64).max(1.0)
    }

    /// Returns the greatest depth at which requests were issued, as the mean of the class of depths that has enough of them.
    #[must_use]
    pub fn deepest(&self) -> Option<f64> {
        let classes = self.by_depth.iter().rev();
        let mut enough = classes.filter(|of| of.requests >= LEAST_OF_DEPTH);
        enough.next().map(AtDepth::mean_depth)
    }

    /// Returns how much more than now the device does at its best ([`Self::best`]), where it has more requests in flight then; `None` where
    /// it has not, requests are too unlike, or nothing is known. It can do as much all the time, or more.
    #[must_use]
    pub fn most_at_depth(&self) -> Option<f64> {
        let alike: u64 = self.by_depth.iter().map(|of| of.requests).sum();
        let best = self.best?;
        if (alike as f64) < MOSTLY_ALIKE * self.requests as f64
            || self.flushes > 0
            || best.depth * self.issued() < DEEPER * self.depth_at_work()
        {
            return None;
        }
        let now = self.requests as f64 / (self.work_ns() as f64).max(1.0);
        Some(best.per_ns / now)
    }

    /// Returns the share of the requests that are issued as another completes, beyond those of which that is so by chance: of requests
    /// that come at a pace of their own it is about 0.
    #[must_use]
    pub fn following_beyond_chance(&self) -> f64 {
        // Completions come as often as requests, and the share of a latency that counts as at once holds so many of them.
        let chance = 1.0 - (-AT_ONCE * self.depth_at_work()).exp();
        (self.following_share() - chance) / (1.0 - chance).max(1e-9)
    }

    /// Returns `true` if requests come when the application wants them, not when others complete, and leave the queue short for that.
    #[must_use]
    pub fn comes_at_own_pace(&self) -> bool {
        let is_uneven = |deepest: f64| deepest >= UNEVEN * self.depth_at_work();
        self.following_beyond_chance() < FOLLOWING && self.deepest().is_some_and(is_uneven)
    }

    /// Returns the share of the time without a request in flight.
    #[must_use]
    pub fn idle_share(&self) -> f64 {
        if self.time_ns == 0 {
            return 0.0;
        }
        1.0 - self.busy_ns as f64 / self.time_ns as f64
    }

    /// Returns `true` if the device is idle for the most part because the others serve requests then, given the requests of all
    /// devices as one: an application that never stops asking has no think time.
    #[must_use]
    pub fn takes_turns(&self, all: &Self) -> bool {
        all.idle_share() < IDLE && all.idle_share() * 2.0 < self.idle_share()
    }

    /// Returns `true` if requests come one at a time over all devices, given those of all as one: of devices that work independently, some would
    /// have been in flight together by chance. The pauses of a device then are also turns on the others.
    #[must_use]
    pub fn is_one_of_a_sequence(&self, all: &Self) -> bool {
        let others_ns = all.busy_ns.saturating_sub(self.busy_ns) as f64;
        let by_chance = self.requests as f64 * others_ns / (all.time_ns as f64).max(1.0);
        all.max_depth == 1 && by_chance >= MISSED
    }

    /// Returns the mean number of requests in flight while there are any.
    #[must_use]
    pub fn depth_while_busy(&self) -> f64 {
        self.in_flight_ns() / (self.busy_ns as f64).max(1.0)
    }

    /// Depth times nanoseconds, with the requests whose completion was lost.
    fn in_flight_ns(&self) -> f64 {
        self.integral as f64 * self.issued()
    }

    /// Requests issued for each that completed.
    fn issued(&self) -> f64 {
        1.0 / (1.0 - self.lost).max(1e-9)
    }

    /// Returns the number and sum of the pauses that are breaks between phases, in nanoseconds: up to three of at least 5 % of the time each
    /// that are at least twice as long as all others. Pauses that come again and again are no breaks.
    #[must_use]
    pub fn breaks(&self) -> (usize, u64) {
        let longest: Vec<u64> = self
            .gaps_ns
            .iter()
            .rev()
            .take(MAX_BREAKS + 1)
            .copied()
            .collect();
        let least = BREAK * self.time_ns as f64;
        let is_last = |at: &usize| {
            let gap = longest.get(*at).copied().unwrap_or(0);
            let next = longest.get(at + 1).copied().unwrap_or(0);
            gap as f64 >= least && gap > 0 && gap / 2 >= next
        };
        let count = (0..MAX_BREAKS).rev().find(is_last).map_or(0, |at| at + 1);
        (count, longest.iter().take(count).sum())
    }

    /// Returns the length of the shortest of [`Self::breaks`] in nanoseconds; `None` if there are none.
    #[must_use]
    pub fn shortest_break_ns(&self) -> Option<u64> {
        let (count, _) = self.breaks();
        let at = count.checked_sub(1)?;
        self.gaps_ns.iter().rev().nth(at).copied()
    }

    /// Returns the share of the time outside of [`Self::breaks`] without a request in flight.
    #[must_use]
    pub fn think_share(&self) -> f64 {
        let time_ns = self.work_ns();
        if time_ns == 0 {
            return 0.0;
        }
        1.0 - self.busy_ns as f64 / time_ns as f64
    }

    /// Returns the share of flushes in the time of all requests in flight: of the time that the application waits.
    #[must_use]
    pub fn flush_share(&self) -> f64 {
        self.flush_ns as f64 / (self.integral as f64).max(1.0)
    }

    /// Time without [`Self::breaks`], in nanoseconds.
    fn work_ns(&self) -> u64 {
        self.time_ns.saturating_sub(self.breaks().1)
    }

    /// Requests with data and without.
    const fn all(&self) -> u64 {
        self.requests + self.flushes
    }

    /// Returns the share of the requests that were issued as soon as another completed, which each thread of an application without pauses
    /// does. Others come at a pace of their own, or together.
    #[must_use]
    pub fn following_share(&self) -> f64 {
        // What a lost completion was followed by is not known.
        (self.following as f64 * self.issued() / (self.all() as f64).max(1.0)).min(1.0)
    }

    /// Upper bound of the gain of throughput if the application made no pauses; `None` where the trace shows none.
    ///
    /// Without pauses each thread has a request in flight all the time, and that takes no less time than requests that wait least
    /// now, since the queue is no shorter: throughput is at most threads over latency (Little's law). Pauses hide threads, so their number is known only where
    /// one more would have shown: if threads are independent, each request would have found all others in flight with the
    /// probability with which each of them is, to the power of their number.
    #[must_use]
    pub fn most_without_pauses(&self) -> Option<f64> {
        let requests = self.all() as f64;
        let time_ns = self.work_ns() as f64;
        if self.integral == 0 || time_ns <= 0.0 {
            return None;
        }
        let threads = self.max_depth as f64;
        let in_flight = self.in_flight_ns() / time_ns;
        let of_each = in_flight / (threads + 1.0);
        if requests * of_each.powf(threads) < MISSED {
            return None;
        }
        let mean = self.integral as f64 / requests;
        let variance = (self.squares / requests - mean * mean).max(0.0);
        let error = if self.max_depth == 1 {
            0.0
        } else {
            // A latency is rounded to the resolution of the clock, and the edges of a trace are of one request.
            (variance / requests).sqrt() / mean + threads / requests
        };
        let in_flight = self.in_flight_ns() / self.time_ns as f64;
        Some(threads / in_flight * self.waiting() * (1.0 + SURE * error))
    }

    /// Mean latency over that at the depth at which it is least: threads that go on at once may keep out of each other's way, which
    /// pauses prevent.
    fn waiting(&self) -> f64 {
        let classes = || self.by_depth.iter().filter(|of| of.requests > 0);
        let sum: u128 = classes().map(|of| of.latency_ns).sum();
        let count: u64 = classes().map(|of| of.requests).sum();
        let enough = classes().filter(|of| of.requests >= LEAST_OF_DEPTH);
        let least = enough.map(AtDepth::mean_latency).min_by(f64::total_cmp);
        match least {
            Some(least) if least > 0.0 => (sum as f64 / count as f64 / least).max(1.0),
            _ => 1.0,
        }
    }

    /// Median pause without a request in flight, in nanoseconds; `None` without pauses.
    #[must_use]
    pub fn gap_p50_ns(&self) -> Option<u64> {
        self.gaps_ns.get(self.gaps_ns.len() / 2).copied()
    }

    /// Length from which pauses make up half of the time without a request in flight, in nanoseconds; `None` without pauses.
    /// Unlike the median it does not follow many short pauses that add up to little.
    #[must_use]
    pub fn gap_half_ns(&self) -> Option<u64> {
        let whole: u128 = self.gaps_ns.iter().map(|gap| u128::from(*gap)).sum();
        let mut longer = 0;
        self.gaps_ns.iter().rev().copied().find(|gap| {
            longer += u128::from(*gap);
            longer * 2 >= whole
        })
    }

    /// Returns the bytes per second over the whole stretch.
    #[must_use]
    pub fn bytes_per_s(&self) -> f64 {
        self.bytes as f64 * self.issued() / (self.time_ns as f64 / 1e9).max(1e-9)
    }

    /// Returns the bytes per second while requests were in flight.
    #[must_use]
    pub fn bytes_per_busy_s(&self) -> f64 {
        self.bytes as f64 * self.issued() / (self.busy_ns as f64 / 1e9).max(1e-9)
    }

    /// Returns the requests per second over the whole stretch.
    #[must_use]
    pub fn iops(&self) -> f64 {
        self.requests as f64 * self.issued() / (self.time_ns as f64 / 1e9).max(1e-9)
    }

    /// Gain of throughput per gain of depth with its standard error: 0 at a device that is at its limit, 1 where latency does
    /// not depend on depth. `None` where requests came at one depth only.
    ///
    /// The commonest depth is compared with the next lower one that gives a clear answer: a device with several channels that are
    /// all in use gains nothing there, however much it gained from the first request to the second.
    #[must_use]
    pub fn elasticity(&self) -> Option<(f64, f64)> {
        let mut classes = self
            .by_depth
            .iter()
            .filter(|of| of.requests >= LEAST_OF_DEPTH && of.latency_ns > 0);
        let low = classes.next()?;
        let is_higher = |of: &AtDepth, than: &AtDepth| of.mean_depth() >= 1.5 * than.mean_depth();
        let others: Vec<&AtDepth> = classes.collect();
        let high = others.iter().filter(|of| is_higher(of, low));
        let high = *high.max_by_key(|of| of.requests)?;
        let gain = |low: &AtDepth| {
            let depth = (high.mean_depth() / low.mean_depth()).ln();
            let latency = (high.mean_latency() / low.mean_latency()).ln();
            let error = (high.error() + low.error()).sqrt() / depth;
            (1.0 - latency / depth, error)
        };
        let nearest = others
            .iter()
            .rev()
            .copied()
            .filter(|of| is_higher(high, of));
        let clear = nearest.map(gain).find(|(_, error)| *error <= VAGUE);
        Some(clear.unwrap_or_else(|| gain(low)))
    }

    /// Judges what limits the stretch.
    #[must_use]
    pub fn limiter(&self, yardstick: Option<&Yardstick>) -> Limiter {
        if !self.is_enough() {
            return Limiter::Unknown;
        }
        let think = self.think_share();
        let flush = self.flush_share() * (1.0 - think);
        if think >= IDLE {
            return Limiter::ThinkTime;
        }
        if flush >= IDLE {
            return Limiter::Flush;
        }
        if self.stall_share() >= STALLED {
            return Limiter::Device;
        }
        let at_depth = self.most_at_depth();
        // What the device does at its best it would do all the time.
        let unused = at_depth.map_or(0.0, |most| 1.0 - 1.0 / most.max(1.0));
        match self.limiter_while_busy(yardstick) {
            Limiter::Device if think.max(unused) >= IDLE_OF_FULL => Limiter::ThinkTime,
            Limiter::QueueDepth if self.comes_at_own_pace() => Limiter::ThinkTime,
            Limiter::Unknown if self.comes_at_own_pace() && unused >= IDLE_OF_FULL => {
                Limiter::ThinkTime
            }
            // One thread gains what it pauses, whatever the device can do.
            Limiter::Unknown if self.max_depth == 1 && think >= IDLE_OF_FULL => Limiter::ThinkTime,
            limiter => limiter,
        }
    }

    /// Judges what limits the stretch while requests are in flight.
    #[must_use]
    pub fn limiter_while_busy(&self, yardstick: Option<&Yardstick>) -> Limiter {
        let slot = self.slot();
        let yardstick = yardstick.filter(|of| of.disproof(self, slot).is_none());
        let [of_bytes, of_iops] = yardstick.map_or([None; 2], |of| of.reached(self, slot));
        let size = yardstick.map_or(SizeMatch::Alike, |of| of.size_match(self, slot));
        let is_reached = |share: &f64| (REACHED..=DISPROVED).contains(share);
        if size != SizeMatch::Larger && of_bytes.as_ref().is_some_and(is_reached) {
            return Limiter::Device;
        }
        if size == SizeMatch::Alike && of_iops.as_ref().is_some_and(is_reached) {
            return Limiter::RequestSize;
        }
        match self.elasticity() {
            Some((gain, error)) if gain + 2.0 * error <= STEEP && gain <= FLAT => {
                if self.size <= SMALL_BYTES {
                    Limiter::RequestSize
                } else {
                    Limiter::Device
                }
            }
            Some((gain, error)) if gain - 2.0 * error >= FLAT && gain >= STEEP => {
                Limiter::QueueDepth
            }
            // Far below what the device can do with requests in flight all the time: too few of them.
            _ if size == SizeMatch::Alike
                && !self.may_seek()
                && of_bytes.is_some_and(|share| share < ROOM)
                && of_iops.is_none_or(|share| share < ROOM) =>
            {
                Limiter::QueueDepth
            }
            _ => Limiter::Unknown,
        }
    }

    /// Returns `true` if requests are random and slow, as on a device that seeks: a rate of sequential ones is then no aim.
    #[must_use]
    pub fn may_seek(&self) -> bool {
        let is_random = self.sequential_share.is_some_and(|share| share < RANDOM);
        is_random && self.integral as f64 >= SEEK_NS * self.requests as f64
    }

    /// Returns `true` if more than a few requests completed, so that the load can be judged.
    #[must_use]
    pub fn is_enough(&self) -> bool {
        self.requests >= LEAST
    }

    /// 1 if most requests are writes, else 0.
    #[must_use]
    pub fn slot(&self) -> usize {
        usize::from(self.writes * 2 > self.requests)
    }
}

/// Time with a request in flight that the completions of a block do not show, since this share of them was lost.
fn hidden_ns(block: &[Sample], lost: f64) -> f64 {
    let mut ends: Vec<u64> = block.iter().map(Sample::end_ns).collect();
    ends.sort_unstable();
    let mut ends = ends.into_iter().peekable();
    let (mut depth, mut since_ns, mut hidden) = (0_u64, 0, 0.0);
    let mut pass = |depth: u64, t_ns: u64| {
        let lasted = t_ns.saturating_sub(std::mem::replace(&mut since_ns, t_ns));
        if depth > 0 {
            hidden += hidden_weight(lost, depth) * lasted as f64;
        }
    };
    for sample in block {
        while let Some(end) = ends.next_if(|end| *end <= sample.issue_ns && depth > 0) {
            pass(depth, end);
            depth -= 1;
        }
        pass(depth, sample.issue_ns);
        depth += 1;
    }
    for end in ends {
        pass(depth, end);
        depth = depth.saturating_sub(1);
    }
    hidden
}
