//! The time per byte of a part of a run, and what it is made of.
//!
//! An application of `n` threads that each wait for a request, flush, pause and issue the next moves `n` requests in the time of a latency,
//! a flush and a pause. So the time per byte is `(latency + flush + pause) / (n * size)`; the pause is what is left of `n` times the time per
//! request. How many threads there are shows where they do not pause, or issue in rounds ([`Manner`]); else depths allow a range of numbers.

use std::collections::BTreeMap;
use std::ops::Range;

use blkio_companions::num::whole;
use blkio_parser::Stats;
use blkio_parser::analyse::samples::Sample;

use crate::limit::Load;
use crate::loss::Loss;

/// Batches of successive requests whose means show how much those of all may vary.
const BATCHES: usize = 32;
/// Fewest requests of a batch.
const LEAST_OF_BATCH: usize = 8;
/// Share of the requests below which those of a direction are not the application's: a file system writes beside it.
const FEW: f64 = 0.01;
/// Share of the requests that may be deeper than the threads of an application: those of a file system or another process.
const STRAY: f64 = 0.005;
/// Rounds below which none are told, and fewest requests of a mean one.
const LEAST_ROUNDS: usize = 8;
const LEAST_OF_ROUND: f64 = 1.5;
/// Share of a round's time in which its requests are issued, at most. Of threads that overlap by chance it is a third and more.
const ROUND: f64 = 0.2;
/// Share of the requests that may come alone, of an application that issues in rounds.
const SINGLE: f64 = 0.2;
/// Share of the mean latency, and of the time from request to request, up to which the time from a completion to the next issue is no pause, and the share of the issues of which that
/// holds where threads do not pause.
const NO_PAUSE: f64 = 0.15;
const MOST_ISSUES: f64 = 0.9;
/// Standard errors by which a spread differs from that of a number of threads.
const SURE: f64 = 3.0;
/// Share of requests issued as another completes, beyond those that are so by chance, below which they come at a pace of their own.
const OWN_PACE: f64 = 0.5;
/// Flushes for each request below which none are told.
const FEW_FLUSHES: f64 = 0.01;
/// Fewest batches of each half of a run of two parts, and the share of the squares between batches that two means must not leave.
const LEAST_OF_HALF: usize = 4;
const LEFT_OF_HALVES: f64 = 0.2;
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
    flush_ns: f64,
    time_ns: f64,
}

impl Batch {
    /// Goes on with the next.
    fn join(&mut self, next: &Self) {
        self.requests += next.requests;
        self.bytes += next.bytes;
        self.latency_ns += next.latency_ns;
        self.flush_ns += next.flush_ns;
        self.time_ns += next.time_ns;
    }

    fn add(&mut self, sample: &Sample) {
        if !sample.is_data() {
            self.flush_ns += sample.latency_ns as f64;
            return;
        }
        self.requests += 1.0;
        self.bytes += f64::from(sample.bytes);
        self.latency_ns += sample.latency_ns as f64;
    }
}

/// How an application issues its requests, as far as the trace shows.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(super) enum Manner {
    /// So many at once, then it waits for all of them and pauses.
    Rounds {
        /// Mean number of requests of a round.
        requests: f64,
        /// Mean time with requests in flight of a round, in nanoseconds.
        busy_ns: f64,
    },
    /// One as soon as another completes, after so many nanoseconds.
    AtOnce {
        /// Mean time from a completion to the next issue.
        pause_ns: f64,
    },
    /// Neither.
    #[default]
    Other,
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
    /// Sums of successive requests: how many, of the others that each found in flight, and of the squares of that.
    found: Vec<[f64; 3]>,
    /// Flushes, and the sum of their latencies in nanoseconds.
    pub(super) flushes: f64,
    flush_ns: f64,
    pub(super) manner: Manner,
    /// Share of the requests whose completion was lost. Amounts are of all that were issued, latencies and depths of those that are known.
    pub(super) lost: f64,
    /// Latencies in ascending order.
    latencies: Vec<u64>,
}

/// What [`Manner`] is found from.
#[derive(Debug, Default)]
struct Stretches {
    /// Times with requests in flight: number of requests, time in which they are issued, whole time.
    busy: Vec<(u64, u64, u64)>,
    /// Times from a completion to the next issue that it may have caused: of the completions that none followed, the last.
    pauses: Vec<u64>,
    issues: u64,
}

impl Pace {
    /// Measures the requests of some stretches of the trace's clock that are `wanted`; `None` where none completed.
    pub(super) fn of(
        stats: &Stats,
        stretches: &[Range<u64>],
        wanted: &dyn Fn(&Sample) -> bool,
    ) -> Option<Self> {
        let detail = stats.newest.as_ref()?.detail.as_ref()?;
        let samples = &detail.samples;
        let all = |of: &Range<u64>| {
            let mut blocks = samples.within(of.start, of.end);
            for block in &mut blocks {
                block.retain(wanted);
            }
            blocks.retain(|block| !block.is_empty());
            blocks
        };
        let mut counts = [0; 2];
        let data = |of: &&Sample| of.is_data();
        let blocks: Vec<Vec<Vec<Sample>>> = stretches.iter().map(all).collect();
        for sample in blocks.iter().flatten().flatten().filter(data) {
            if let Some(count) = counts.get_mut(usize::from(sample.is_write())) {
                *count += 1;
            }
        }
        let count: usize = counts.iter().sum();
        let is_few = counts.map(|of| (of as f64) < FEW * count as f64);
        let is_own =
            |of: &Sample| !of.is_data() || is_few.get(usize::from(of.is_write())) != Some(&true);
        let size = (count / BATCHES).max(LEAST_OF_BATCH);
        let loss = Loss::of(stats);
        let mut pace = Self {
            lost: loss.all,
            ..Self::default()
        };
        let mut continued = (0.0, 0.0);
        let mut found = Stretches::default();
        for (stretch, mut blocks) in stretches.iter().zip(blocks) {
            let load = Load::of_blocks(&blocks, loss.all);
            if load.requests == 0 {
                continue;
            }
            let (_, breaks_ns) = load.breaks();
            pace.breaks_ns += breaks_ns as f64;
            pace.time_ns += load.time_ns.saturating_sub(breaks_ns) as f64;
            let break_ns = load.shortest_break_ns().unwrap_or(u64::MAX);
            for block in &mut blocks {
                block.retain(is_own);
                pace.batches(block, size, break_ns);
                pace.depths(block, size);
                found.add(block);
                pace.latencies
                    .extend(block.iter().filter(data).map(|of| of.latency_ns));
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
        pace.latencies.sort_unstable();
        pace.add_lost(&loss);
        pace.manner = pace.manner_of(found);
        (!pace.loads.is_empty()).then_some(pace)
    }

    /// Counts the requests whose completion was lost as those that have one.
    fn add_lost(&mut self, loss: &Loss) {
        for (way, lost) in self.ways.iter_mut().zip(loss.ways) {
            let issued = 1.0 / (1.0 - lost).max(1e-9);
            way.requests *= issued;
            way.bytes *= issued;
            way.latency_ns *= issued;
        }
        let issued = 1.0 / self.kept();
        self.flushes *= issued;
        self.flush_ns *= issued;
        for batch in &mut self.batches {
            batch.requests *= issued;
            batch.bytes *= issued;
            batch.latency_ns *= issued;
            batch.flush_ns *= issued;
        }
    }

    /// Share of the requests whose completion is known.
    fn kept(&self) -> f64 {
        (1.0 - self.lost).max(1e-9)
    }

    /// How requests are issued.
    fn manner_of(&self, mut found: Stretches) -> Manner {
        let several = || found.busy.iter().filter(|(requests, ..)| *requests > 1);
        let sum = |of: fn(&(u64, u64, u64)) -> u64| several().map(of).sum::<u64>() as f64;
        let (issuing, busy) = (sum(|of| of.1), sum(|of| of.2));
        let together = sum(|of| of.0);
        let (rounds, requests) = (found.busy.len() as f64, self.requests());
        if found.busy.len() >= LEAST_ROUNDS
            && self.flushes_per_request() < FEW_FLUSHES
            && issuing <= ROUND * busy
            && requests * self.kept() - together <= SINGLE * requests * self.kept()
            && requests >= LEAST_OF_ROUND * rounds
        {
            let busy: u64 = found.busy.iter().map(|(.., busy)| busy).sum();
            return Manner::Rounds {
                requests: requests / rounds,
                busy_ns: busy as f64 / rounds,
            };
        }
        // Threads that take turns are idle for about as long as others are served.
        let short = NO_PAUSE * self.latency().min(self.interval());
        found.pauses.retain(|pause| *pause as f64 <= short);
        let count = found.pauses.len() as f64;
        if self.least_threads() > 1
            && count >= MOST_ISSUES * self.kept() * found.issues as f64
            && count > 0.0
        {
            let sum: u64 = found.pauses.iter().sum();
            return Manner::AtOnce {
                pause_ns: sum as f64 / count,
            };
        }
        Manner::Other
    }

    /// Share of the requests that are issued as another completes.
    pub(super) fn following(&self) -> f64 {
        let requests: f64 = self.loads.iter().map(|of| of.requests as f64).sum();
        let share = |of: &Load| of.following_share() * of.requests as f64;
        self.loads.iter().map(share).sum::<f64>() / requests.max(1.0)
    }

    /// Returns `true` if requests come neither in rounds nor as others complete, beyond chance: they have a pace of their own, or long pauses.
    pub(super) fn is_at_own_pace(&self) -> bool {
        let requests: f64 = self.loads.iter().map(|of| of.requests as f64).sum();
        let share = |of: &Load| of.following_beyond_chance() * of.requests as f64;
        let following = self.loads.iter().map(share).sum::<f64>() / requests.max(1.0);
        self.manner == Manner::Other && following < OWN_PACE
    }

    /// Requests at a time, where [`Manner`] shows them.
    pub(super) fn known_threads(&self) -> Option<f64> {
        match self.manner {
            Manner::Rounds { requests, .. } => Some(requests),
            Manner::AtOnce { pause_ns } => {
                Some((self.latency() + self.flush() + pause_ns) / self.interval().max(1e-9))
            }
            Manner::Other => None,
        }
    }

    fn batches(&mut self, block: &[Sample], size: usize, break_ns: u64) {
        let Some(first) = block.first() else { return };
        let (mut begin_ns, mut busy_until) = (first.issue_ns, first.issue_ns);
        let (mut batch, mut paused_ns) = (Batch::default(), 0);
        for sample in block {
            let gap = sample.issue_ns.saturating_sub(busy_until);
            if gap >= break_ns {
                paused_ns += gap;
            }
            if sample.is_data() && batch.requests >= size as f64 {
                batch.time_ns = (sample.issue_ns - begin_ns).saturating_sub(paused_ns) as f64;
                self.batches.push(std::mem::take(&mut batch));
                (begin_ns, paused_ns) = (sample.issue_ns, 0);
            }
            batch.add(sample);
            busy_until = busy_until.max(sample.end_ns());
            if !sample.is_data() {
                self.flushes += 1.0;
                self.flush_ns += sample.latency_ns as f64;
            } else if let Some(way) = self.ways.get_mut(usize::from(sample.is_write())) {
                way.requests += 1.0;
                way.bytes += f64::from(sample.bytes);
                way.latency_ns += sample.latency_ns as f64;
            }
        }
        batch.time_ns = (busy_until - begin_ns).saturating_sub(paused_ns) as f64;
        let is_whole = batch.requests * 2.0 >= size as f64;
        match self.batches.last_mut() {
            // Few requests may have taken long: they count where they come.
            Some(last) if !is_whole => last.join(&batch),
            _ if batch.requests > 0.0 => self.batches.push(batch),
            _ => {}
        }
    }

    /// Counts requests by depth: a place is free before it is taken.
    fn depths(&mut self, block: &[Sample], size: usize) {
        let mut sums = [0.0; 3];
        let mut ends: Vec<u64> = block.iter().map(Sample::end_ns).collect();
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
            let others = (issued - completed) as u64;
            *self.depths.entry(others + 1).or_default() += 1;
            let [count, sum, squares] = &mut sums;
            *count += 1.0;
            *sum += others as f64;
            *squares += (others as f64).powi(2);
            if *count >= size as f64 {
                self.found.push(std::mem::take(&mut sums));
            }
        }
    }

    /// Returns `true` if so many independent threads may have issued the requests. The others that a request finds in flight are distributed
    /// binomially: the fewer threads, the less their number varies for its mean.
    pub(super) fn allows_threads(&self, threads: f64) -> bool {
        let [count, sum, squares] = self.found.iter().fold([0.0; 3], |all, of| {
            [all[0] + of[0], all[1] + of[1], all[2] + of[2]]
        });
        if count <= 0.0 || self.found.len() < BATCHES / 2 {
            return true;
        }
        let mean = sum / count;
        let variance = squares / count - mean * mean;
        // Each stretch's mean square distance from the mean of all.
        let of_each = self
            .found
            .iter()
            .map(|[count, sum, squares]| (squares - 2.0 * mean * sum) / count + mean * mean);
        let batches = self.found.len() as f64;
        let spread = of_each.map(|of| (of - variance).powi(2)).sum::<f64>();
        let error = (spread / (batches - 1.0) / batches).sqrt();
        let wanted = mean * (1.0 - mean / (threads - 1.0).max(mean.max(1e-9)));
        (variance - wanted).abs() <= SURE * error.max(f64::EPSILON)
    }

    /// Measures latency by rounds, where requests come in rounds: by what the device takes for all requests of one. That a request waits
    /// for the others of its round is no think time.
    pub(super) fn by_rounds(mut self) -> Self {
        if let Manner::Rounds { busy_ns, .. } = self.manner {
            self.scale_latency(busy_ns / self.latency().max(1e-9));
        }
        self
    }

    fn scale_latency(&mut self, factor: f64) {
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

    /// Bytes read and written.
    pub(super) fn bytes(&self) -> [f64; 2] {
        self.ways.map(|way| way.bytes)
    }

    /// Mean size in bytes.
    pub(super) fn size(&self) -> f64 {
        self.sum(|way| way.bytes) / self.requests().max(1.0)
    }

    /// Mean latency in nanoseconds.
    pub(super) fn latency(&self) -> f64 {
        self.sum(|way| way.latency_ns) / self.requests().max(1.0)
    }

    /// Mean time of the flushes of a request in nanoseconds.
    pub(super) fn flush(&self) -> f64 {
        self.flush_ns / self.requests().max(1.0)
    }

    /// Mean time of a flush in nanoseconds.
    pub(super) fn mean_flush(&self) -> f64 {
        self.flush_ns / self.flushes.max(1.0)
    }

    pub(super) fn flushes_per_request(&self) -> f64 {
        self.flushes / self.requests().max(1.0)
    }

    /// Returns the latency that this share of the requests does not exceed, in nanoseconds.
    pub(super) fn latency_at(&self, share: f64) -> f64 {
        let rank = whole((share * self.latencies.len() as f64).ceil().max(1.0)) - 1;
        let at = blkio_companions::num::index(rank);
        self.latencies.get(at).map_or(0.0, |ns| *ns as f64)
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
    pub(super) fn pause(&self, threads: f64) -> f64 {
        threads * self.interval() - self.latency() - self.flush()
    }

    /// Squared standard error of the mean of a value of batches.
    fn error(&self, value: impl Fn(&Batch) -> f64) -> f64 {
        let count = self.batches.len() as f64;
        if count < 2.0 {
            return f64::INFINITY;
        }
        let values: Vec<f64> = self.batches.iter().map(&value).collect();
        let squares = squares(&values);
        // Where another process or phase ends halfway, its end is no noise.
        let halves = LEAST_OF_HALF..(values.len() + 1).saturating_sub(LEAST_OF_HALF);
        let left = halves.filter_map(|at| {
            let (before, after) = values.split_at_checked(at)?;
            Some(self::squares(before) + self::squares(after))
        });
        match left.min_by(f64::total_cmp) {
            Some(left) if left <= LEFT_OF_HALVES * squares => left / (count - 2.0) / count,
            _ => squares / (count - 1.0) / count,
        }
    }

    pub(super) fn error_of_latency(&self) -> f64 {
        self.error(|batch| batch.latency_ns / batch.requests)
    }

    pub(super) fn error_of_size(&self) -> f64 {
        self.error(|batch| batch.bytes / batch.requests)
    }

    pub(super) fn error_of_flush(&self) -> f64 {
        self.error(|batch| batch.flush_ns / batch.requests)
    }

    pub(super) fn error_of_pause(&self, threads: f64) -> f64 {
        self.error(|batch| {
            (threads * batch.time_ns - batch.latency_ns - batch.flush_ns) / batch.requests
        })
    }

    /// Squared relative error of the time per byte.
    pub(super) fn error_of_per_byte(&self) -> f64 {
        self.error(|batch| batch.time_ns / batch.bytes.max(1.0)) / self.per_byte().powi(2)
    }

    /// Number of threads that was seen, but for strays.
    pub(super) fn least_threads(&self) -> u64 {
        let all: u64 = self.depths.values().sum();
        let most = whole(all as f64 * STRAY);
        let mut deeper = 0;
        let deepest = self.depths.iter().rev().find(|(_, count)| {
            deeper += **count;
            deeper > most
        });
        deepest.map_or(1, |(depth, _)| *depth)
    }

    /// Returns the numbers of threads that the depths allow. At least so many were seen, but for strays. Were there more, each request would have found
    /// all that were seen in flight with the probability of the binomial distribution, if threads are independent: from a hundredth
    /// of the requests on, that would have shown.
    pub(super) fn threads(&self) -> Range<u64> {
        let all: u64 = self.depths.values().sum();
        let least = self.least_threads();
        // Those that are seen: depths are of them.
        let in_flight = self.kept() * (self.latency() + self.flush()) / self.interval().max(1e-9);
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

/// Sum of the squares of the distances from the mean.
fn squares(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / (values.len() as f64).max(1.0);
    values.iter().map(|of| (of - mean).powi(2)).sum()
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

impl Stretches {
    /// Takes requests in order of issue.
    fn add(&mut self, block: &[Sample]) {
        let mut ends: Vec<u64> = block.iter().map(Sample::end_ns).collect();
        ends.sort_unstable();
        let mut completed = 0;
        let mut free: Vec<u64> = Vec::new();
        // Requests of the open stretch, its first and last issue, and its end so far.
        let mut open: Option<(u64, u64, u64, u64)> = None;
        for (issued, sample) in block.iter().enumerate() {
            while let Some(end) = ends.get(completed)
                && *end <= sample.issue_ns
                && completed < issued
            {
                free.push(*end);
                completed += 1;
            }
            self.issues += 1;
            self.pauses
                .extend(free.pop().map(|end| sample.issue_ns - end));
            match &mut open {
                Some((requests, _, last, end)) if sample.issue_ns <= *end => {
                    *requests += 1;
                    *last = sample.issue_ns;
                    *end = sample.end_ns().max(*end);
                }
                _ => {
                    self.close(open);
                    open = Some((1, sample.issue_ns, sample.issue_ns, sample.end_ns()));
                }
            }
        }
        self.close(open);
    }

    fn close(&mut self, open: Option<(u64, u64, u64, u64)>) {
        self.busy
            .extend(open.map(|(requests, first, last, end)| (requests, last - first, end - first)));
    }
}
