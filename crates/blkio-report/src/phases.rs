//! Detects phases of a run from its traffic: weights or KV written, idle, read back token by token.
//!
//! The series of bins is cut where that lowers the squared error of four features most: the logarithms of bytes read and
//! written, the share of reads, and the logarithm of the mean size of requests. Where the utilisation of a GPU is known at the
//! same time, it is the fifth. Each cut costs three times the logarithm of the length per feature, so noise is not cut.
//!
//! Pieces that do the same are one phase, unless one moves a hundred times as much as the other, or the GPU did something else for seconds: traffic alone does not show where
//! computing begins that keeps the device as busy as before.

use std::collections::BTreeMap;
use std::ops::Range;

use blkio_parser::analyse::traffic::{Amount, FINE_BINS, SECOND, Traffic};

/// Maximum number of bins that are cut; longer runs get wider bins.
const MAX_BINS: usize = 1500;
/// Shortest phase in bins.
const SHORTEST: usize = 3;
/// Features of the traffic, and behind them the GPU's.
const FEATURES: usize = 5;
const GPU: usize = FEATURES - 1;
/// What a cut costs per feature, times the logarithm of the number of bins.
const PENALTY: f64 = 3.0;
/// Ratio of two rates from which pieces are different phases whatever they do: the lower is idle beside the higher.
const UNLIKE: f64 = 100.0;
/// Shortest phase that only the GPU tells from its neighbours: three bins of a second, for its readings are a fifth of a
/// second apart, and its clock may be off by as much as a second.
const SHORTEST_OF_GPU_NS: u64 = 3 * SECOND;

/// What a phase mostly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Label {
    /// More than half of the bytes are written: weights stored, or prefill writing the KV cache.
    WriteHeavy,
    /// More than half of the bytes are read: loading, or decode.
    ReadHeavy,
    /// Less than a hundredth of the usual traffic, in bytes and in requests.
    Idle,
}

impl Label {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteHeavy => "write-heavy",
            Self::ReadHeavy => "read-heavy",
            Self::Idle => "idle",
        }
    }
}

/// A GPU's utilisation that held for some time.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct GpuSpan {
    /// Nanoseconds since the first issue.
    pub time_ns: Range<u64>,
    /// Percent.
    pub percent: f64,
}

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Phase {
    /// What it mostly does.
    pub label: Label,
    /// Nanoseconds since the first issue.
    pub start_ns: u64,
    /// Nanoseconds since the first issue.
    pub end_ns: u64,
    /// Reads.
    pub read: Amount,
    /// Writes.
    pub write: Amount,
}

/// Phases of a run, and where prefill ends.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Phases {
    /// In order of time, without gaps.
    pub phases: Vec<Phase>,
    /// Width of the bins in which boundaries lie.
    pub bin_ns: u64,
    /// End of the last write-heavy phase before reading dominates, and start of the reading; nanoseconds since the first
    /// issue.
    pub boundary_ns: Option<(u64, u64)>,
    /// `true` if a GPU's utilisation was among the features.
    pub with_gpu: bool,
}

impl Phase {
    /// Goes on with the next phase, which is then a part of this one.
    pub(crate) fn join(&mut self, next: &Self) {
        self.end_ns = next.end_ns;
        self.read.add(next.read);
        self.write.add(next.write);
    }
}

/// What happened in a bin.
#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    read: Amount,
    write: Amount,
    /// Mean utilisation, where it is known.
    gpu: Option<f64>,
}

impl Bin {
    fn bytes(&self) -> u64 {
        self.read.bytes + self.write.bytes
    }

    fn ios(&self) -> u64 {
        self.read.ios + self.write.ios
    }
}

/// Returns the phases of a trace: from bins of 10 ms for runs of up to fifteen seconds, else of 100 ms and wider. What a GPU did
/// meanwhile counts where it is known; without it, give none.
#[must_use]
pub fn of(traffic: &Traffic, gpu: &[GpuSpan]) -> Phases {
    let first = traffic.first_issue_ns.unwrap_or(0);
    let fine = (traffic.last_issue_ns.saturating_sub(first)) / 10_000_000 < FINE_BINS;
    let ([read, write], grid_ns) = if fine {
        (&traffic.hundredths, 10_000_000)
    } else {
        (&traffic.tenths, 100_000_000)
    };
    detect(&read.finish(), &write.finish(), grid_ns, gpu)
}

/// Finds the phases in traffic by bins of this width since the first issue, and in what a GPU did meanwhile. Cost: the square
/// of the number of bins, at most a few million steps.
#[must_use]
pub fn detect(
    read: &BTreeMap<u64, Amount>,
    write: &BTreeMap<u64, Amount>,
    grid_ns: u64,
    gpu: &[GpuSpan],
) -> Phases {
    let last = |bins: &BTreeMap<u64, Amount>| bins.keys().next_back().copied();
    let Some(last) = last(read).max(last(write)) else {
        return Phases::default();
    };
    let factor = (last / MAX_BINS as u64) + 1;
    let count = blkio_companions::num::index(last / factor + 1);
    let bin_ns = factor.saturating_mul(grid_ns);
    let mut bins = vec![Bin::default(); count];
    for (bin, amount) in read {
        if let Some(sum) = bins.get_mut(blkio_companions::num::index(bin / factor)) {
            sum.read.add(*amount);
        }
    }
    for (bin, amount) in write {
        if let Some(sum) = bins.get_mut(blkio_companions::num::index(bin / factor)) {
            sum.write.add(*amount);
        }
    }
    for (bin, mean) in bins.iter_mut().zip(means(gpu, bin_ns, count)) {
        bin.gpu = mean;
    }
    let with_gpu = bins.iter().any(|bin| bin.gpu.is_some());
    let usual = [Bin::bytes, Bin::ios].map(|of| usual(&bins, of));
    let rows = features(&bins);
    let cuts = Cuts::new(&rows, with_gpu);
    let mut pieces: Vec<(Label, Range<usize>)> = Vec::new();
    for range in cuts.best() {
        let label = label(bins.get(range.clone()).unwrap_or_default(), usual);
        match pieces.last_mut() {
            // Pieces of one kind are one phase, unless one is idle beside the other. The GPU may tell them apart.
            Some((kind, before))
                if *kind == label && !with_gpu && !are_unlike(&bins, before, &range) =>
            {
                before.end = range.end;
            }
            _ => pieces.push((label, range)),
        }
    }
    if with_gpu {
        cuts.join(&mut pieces, bin_ns);
    } else {
        sharpen(&bins, &mut pieces);
    }
    let phase = |(label, range): (Label, Range<usize>)| {
        let mut phase = Phase {
            label,
            start_ns: (range.start as u64).saturating_mul(bin_ns),
            // The last bin may end beyond the largest time.
            end_ns: (range.end as u64).saturating_mul(bin_ns),
            read: Amount::default(),
            write: Amount::default(),
        };
        for bin in bins.get(range).unwrap_or_default() {
            phase.read.add(bin.read);
            phase.write.add(bin.write);
        }
        phase
    };
    let phases: Vec<Phase> = pieces.into_iter().map(phase).collect();
    let boundary_ns = boundary(&phases);
    Phases {
        phases,
        bin_ns,
        boundary_ns,
        with_gpu,
    }
}

/// Returns the mean of what held in each of so many bins from the first issue on, weighted by time; `None` where nothing is known.
#[must_use]
pub fn means(gpu: &[GpuSpan], bin_ns: u64, count: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0.0); count];
    for held in gpu.iter().filter(|held| !held.time_ns.is_empty()) {
        let (from, until) = (held.time_ns.start, held.time_ns.end);
        let first = blkio_companions::num::index(from / bin_ns);
        let last = blkio_companions::num::index((until - 1) / bin_ns).min(count.saturating_sub(1));
        for (bin, sum) in sums.iter_mut().enumerate().take(last + 1).skip(first) {
            let start = (bin as u64).saturating_mul(bin_ns);
            let end = start.saturating_add(bin_ns).min(until);
            let time = end.saturating_sub(start.max(from)) as f64;
            sum.0 += held.percent * time;
            sum.1 += time;
        }
    }
    let mean = |(sum, time): (f64, f64)| (time > 0.0).then(|| sum / time);
    sums.into_iter().map(mean).collect()
}

/// Returns what some bins mostly do.
///
/// Many small requests are no idleness, though they move little beside large ones.
fn label(bins: &[Bin], [usual_bytes, usual_ios]: [f64; 2]) -> Label {
    let [mut read, mut write, mut ios] = [0; 3];
    for bin in bins {
        read += bin.read.bytes;
        write += bin.write.bytes;
        ios += bin.ios();
    }
    let bytes = (read + write) as f64;
    let is_less = |sum: f64, usual: f64| sum / (bins.len() as f64) < usual / 100.0;
    if is_less(bytes, usual_bytes) && is_less(ios as f64, usual_ios) || bytes <= 0.0 {
        Label::Idle
    } else if write > read {
        Label::WriteHeavy
    } else {
        Label::ReadHeavy
    }
}

/// Mean bytes and requests of a bin.
fn means_of(bins: &[Bin], range: &Range<usize>) -> [f64; 2] {
    let own = bins.get(range.clone()).unwrap_or_default();
    let sum = |of: fn(&Bin) -> u64| own.iter().map(of).sum::<u64>() as f64;
    [Bin::bytes, Bin::ios].map(|of| sum(of) / (own.len() as f64).max(1.0))
}

/// Returns `true` if one piece moves so little beside the other, in bytes and in requests, as [`Label::Idle`] beside the usual traffic.
fn are_unlike(bins: &[Bin], a: &Range<usize>, b: &Range<usize>) -> bool {
    let (a, b) = (means_of(bins, a), means_of(bins, b));
    a.iter()
        .zip(b)
        .all(|(a, b)| a.min(b) > 0.0 && a.max(b) >= UNLIKE * a.min(b))
}

/// Moves the cuts between pieces of unlike rates to where these change: requests with pauses between them leave bins empty, and the first
/// bins that are not look like the piece before rather than the mean of their own.
fn sharpen(bins: &[Bin], pieces: &mut [(Label, Range<usize>)]) {
    for at in 1..pieces.len() {
        let Some([(_, left), (_, right)]) = pieces.get_mut(at - 1..=at) else {
            return;
        };
        if !are_unlike(bins, left, right) {
            continue;
        }
        let ([a, _], [b, _]) = (means_of(bins, left), means_of(bins, right));
        let between = (a * b).sqrt();
        let is_left = |at: usize| {
            let bytes = bins.get(at).map_or(0.0, |bin| bin.bytes() as f64);
            (bytes >= between) == (a > b)
        };
        let mut cut = left.end;
        while cut > left.start + 1 && !is_left(cut - 1) {
            cut -= 1;
        }
        while cut >= left.end && cut + 1 < right.end && is_left(cut) {
            cut += 1;
        }
        left.end = cut;
        right.start = cut;
    }
}

/// Returns the traffic of a busy bin, in bytes or in requests: the 95th percentile.
fn usual(bins: &[Bin], of: fn(&Bin) -> u64) -> f64 {
    let mut values: Vec<u64> = bins.iter().map(of).collect();
    values.sort_unstable();
    let rank = stats::nearest_rank(95.0, values.len() as u64);
    let p95 = values.get(blkio_companions::num::index(rank.saturating_sub(1)));
    match p95 {
        // Nearly always idle: take the busiest bin.
        Some(0) | None => values.last().map_or(0.0, |value| *value as f64),
        Some(value) => *value as f64,
    }
}

/// Returns the largest reading phase decides; prefill ends with the last writing phase before it.
fn boundary(phases: &[Phase]) -> Option<(u64, u64)> {
    let (decode, phase) = phases
        .iter()
        .enumerate()
        .filter(|(_, p)| p.label == Label::ReadHeavy)
        .max_by_key(|(at, p)| (p.read.bytes, std::cmp::Reverse(*at)))?;
    let prefill = phases
        .get(..decode)?
        .iter()
        .rev()
        .find(|p| p.label == Label::WriteHeavy)?;
    Some((prefill.end_ns, phase.start_ns))
}

/// Features by bin, each with mean 0 and variance 1 over the bins where it is known.
fn features(bins: &[Bin]) -> Vec<[Option<f64>; FEATURES]> {
    let mut features: Vec<[Option<f64>; FEATURES]> = bins
        .iter()
        .map(|bin| {
            let total = bin.bytes();
            let requests = (bin.read.ios + bin.write.ios).max(1);
            let share = if total == 0 {
                0.5
            } else {
                bin.read.bytes as f64 / total as f64
            };
            [
                Some((bin.read.bytes as f64).ln_1p()),
                Some((bin.write.bytes as f64).ln_1p()),
                Some(share),
                Some((total as f64 / requests as f64).ln_1p()),
                bin.gpu,
            ]
        })
        .collect();
    for feature in 0..FEATURES {
        let value = |row: &[Option<f64>; FEATURES]| row.get(feature).copied().flatten();
        let known = || features.iter().filter_map(value);
        let n = known().count() as f64;
        let mean = known().sum::<f64>() / n;
        let variance = known().map(|value| (value - mean).powi(2)).sum::<f64>() / n;
        let scale = if variance > 1e-12 {
            variance.sqrt().recip()
        } else {
            0.0
        };
        for row in &mut features {
            if let Some(Some(value)) = row.get_mut(feature) {
                *value = (*value - mean) * scale;
            }
        }
    }
    features
}

/// Sums up to a bin.
#[derive(Debug, Clone, Copy, Default)]
struct Sums {
    traffic: [f64; GPU],
    /// Sums of the squares.
    traffic_squares: f64,
    gpu: f64,
    gpu_squares: f64,
    /// Bins in which the GPU is known.
    gpu_bins: u32,
}

/// What cuts between bins cost and save.
struct Cuts {
    /// Sums of all bins before each bin, then of all bins.
    sums: Vec<Sums>,
    /// Cost of a cut for each feature.
    penalty: f64,
    with_gpu: bool,
}

impl Cuts {
    fn new(rows: &[[Option<f64>; FEATURES]], with_gpu: bool) -> Self {
        let mut sum = Sums::default();
        let mut sums = vec![sum];
        for row in rows {
            for (sum_of, value) in sum.traffic.iter_mut().zip(row) {
                let value = value.unwrap_or(0.0);
                *sum_of += value;
                sum.traffic_squares += value * value;
            }
            if let Some(Some(value)) = row.get(GPU) {
                sum.gpu += value;
                sum.gpu_squares += value * value;
                sum.gpu_bins += 1;
            }
            sums.push(sum);
        }
        Self {
            sums,
            penalty: PENALTY * (rows.len().max(2) as f64).ln(),
            with_gpu,
        }
    }

    fn between(&self, range: &Range<usize>) -> Option<(&Sums, &Sums)> {
        Some((self.sums.get(range.start)?, self.sums.get(range.end)?))
    }

    /// Squared error of the traffic's features in a piece.
    fn traffic(&self, range: &Range<usize>) -> f64 {
        let Some((from, to)) = self.between(range) else {
            return f64::INFINITY;
        };
        let length = range.len() as f64;
        let sums = from.traffic.iter().zip(&to.traffic);
        let of_means: f64 = sums.map(|(a, b)| (b - a).powi(2) / length).sum();
        (to.traffic_squares - from.traffic_squares - of_means).max(0.0)
    }

    /// Returns the same of the GPU, as far as it is known.
    fn gpu(&self, range: &Range<usize>) -> f64 {
        let Some((from, to)) = self.between(range) else {
            return f64::INFINITY;
        };
        let known = f64::from(to.gpu_bins - from.gpu_bins);
        if known > 0.0 {
            let of_mean = (to.gpu - from.gpu).powi(2) / known;
            (to.gpu_squares - from.gpu_squares - of_mean).max(0.0)
        } else {
            0.0
        }
    }

    /// Returns the optimal pieces, by dynamic programming over the place of the last cut.
    fn best(&self) -> Vec<Range<usize>> {
        let n = self.sums.len() - 1;
        let shortest = SHORTEST.min(n.max(1));
        let cost = |range: &Range<usize>| {
            let gpu = if self.with_gpu { self.gpu(range) } else { 0.0 };
            self.traffic(range) + gpu
        };
        let features = if self.with_gpu { FEATURES } else { GPU };
        let penalty = self.penalty * features as f64;
        let mut best = vec![(f64::INFINITY, 0_usize); n + 1];
        if let Some(first) = best.first_mut() {
            *first = (-penalty, 0);
        }
        for to in shortest..=n {
            let mut chosen = (f64::INFINITY, 0);
            for from in (0..=to - shortest).filter(|from| *from == 0 || *from >= shortest) {
                let before = best.get(from).map_or(f64::INFINITY, |(cost, _)| *cost);
                let total = before + cost(&(from..to)) + penalty;
                if total < chosen.0 {
                    chosen = (total, from);
                }
            }
            if let Some(place) = best.get_mut(to) {
                *place = chosen;
            }
        }
        let mut ranges = Vec::new();
        let mut end = n;
        while end > 0 {
            let start = best.get(end).map_or(0, |(_, from)| *from);
            ranges.push(start..end);
            end = start;
        }
        ranges.reverse();
        ranges
    }

    /// Joins pieces of one kind, those first between which the GPU differs least, until each cut that is left between two of a
    /// kind is worth its cost by the GPU alone and has enough time on both sides.
    fn join(&self, pieces: &mut Vec<(Label, Range<usize>)>, bin_ns: u64) {
        loop {
            let worth = |at: usize| {
                let (Some((kind, left)), Some((other, right))) =
                    (pieces.get(at), pieces.get(at + 1))
                else {
                    return None;
                };
                if kind != other {
                    return None;
                }
                let saved = self.gpu(&(left.start..right.end)) - self.gpu(left) - self.gpu(right);
                let shorter = left.len().min(right.len()) as u64;
                let is_short = shorter.saturating_mul(bin_ns) < SHORTEST_OF_GPU_NS;
                (is_short || saved <= self.penalty).then_some((at, saved))
            };
            let least = (0..pieces.len().saturating_sub(1))
                .filter_map(worth)
                .min_by(|a, b| a.1.total_cmp(&b.1));
            let Some((at, _)) = least else { return };
            let (_, right) = pieces.remove(at + 1);
            if let Some((_, left)) = pieces.get_mut(at) {
                left.end = right.end;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRID_NS: u64 = 100_000_000;

    #[test]
    fn writing_silence_and_reading_are_told_apart() {
        let amount = |bytes| Amount { ios: 1, bytes };
        let write: BTreeMap<u64, Amount> = (0..20).map(|bin| (bin, amount(1 << 20))).collect();
        let read: BTreeMap<u64, Amount> = (50..120).map(|bin| (bin, amount(3 << 20))).collect();
        let found = detect(&read, &write, GRID_NS, &[]);
        let labels: Vec<Label> = found.phases.iter().map(|p| p.label).collect();
        assert_eq!(labels, [Label::WriteHeavy, Label::Idle, Label::ReadHeavy]);
        assert_eq!(found.boundary_ns, Some((20 * GRID_NS, 50 * GRID_NS)));
        assert_eq!(
            found.phases[2].read,
            Amount {
                ios: 70,
                bytes: 210 << 20
            }
        );
    }

    #[test]
    fn many_small_requests_are_no_idleness() {
        let amount = |ios, bytes| Amount { ios, bytes };
        let large = (0..40).map(|bin| (bin, amount(10, 10 << 20)));
        let small = (40..80).map(|bin| (bin, amount(10, 10 << 12)));
        let write: BTreeMap<u64, Amount> = large.chain(small).collect();
        let found = detect(&BTreeMap::new(), &write, GRID_NS, &[]);
        let labels: Vec<Label> = found.phases.iter().map(|p| p.label).collect();
        assert_eq!(labels, [Label::WriteHeavy]);
        assert_eq!(found.phases[0].write.ios, 800);
    }

    /// A burst, and then single requests with pauses that leave bins empty: two phases, cut where the burst ends, however long the second is.
    #[test]
    fn a_burst_is_cut_from_the_slow_requests_behind_it() {
        let amount = |ios, bytes| Amount { ios, bytes };
        for (burst, slow, step) in [(25, 540, 2), (25, 1060, 2), (33, 330, 3), (40, 90, 1)] {
            for is_before in [true, false] {
                let place = |bin: u64| {
                    if is_before {
                        bin
                    } else {
                        burst + slow - 1 - bin
                    }
                };
                let fast = (0..burst).map(|bin| (place(bin), amount(480, 480 << 16)));
                let rest = (burst..burst + slow).step_by(step);
                let rest = rest.map(|bin| (place(bin), amount(1, 1 << 16)));
                let read: BTreeMap<u64, Amount> = fast.chain(rest).collect();
                let found = detect(&read, &BTreeMap::new(), GRID_NS, &[]);
                let cuts: Vec<u64> = found.phases.iter().map(|p| p.start_ns / GRID_NS).collect();
                let wanted = if is_before { burst } else { slow };
                assert_eq!(cuts.len(), 2, "{burst} {slow} {step} {is_before}: {cuts:?}");
                assert!(
                    cuts[1].abs_diff(wanted) <= 1,
                    "{burst} {slow} {step}: {cuts:?}"
                );
            }
        }
    }

    #[test]
    fn nothing_has_no_phases() {
        assert_eq!(
            detect(&BTreeMap::new(), &BTreeMap::new(), GRID_NS, &[]),
            Phases::default()
        );
    }

    /// Readings every 201 ms from 50 ms before the first issue on, of what held until then.
    fn gpu(percent: impl Fn(u64) -> f64) -> Vec<GpuSpan> {
        let reading = |number: u64| {
            let time = |number: u64| (number * 201_000_000).saturating_sub(50_000_000);
            let time_ns = time(number)..time(number + 1);
            let percent = percent(time_ns.end);
            GpuSpan { time_ns, percent }
        };
        (0..300).map(reading).collect()
    }

    /// Reading at a rate that varies a little, for a minute.
    fn reading() -> BTreeMap<u64, Amount> {
        let amount = |bin: u64| Amount {
            ios: 8,
            bytes: (8 << 17) + ((bin * 7919 % 13) << 12),
        };
        (0..600).map(|bin| (bin, amount(bin))).collect()
    }

    #[test]
    fn what_only_the_gpu_shows_is_a_boundary() {
        let (read, write) = (reading(), BTreeMap::new());
        let alone = detect(&read, &write, GRID_NS, &[]);
        assert_eq!((alone.phases.len(), alone.with_gpu), (1, false));
        let noise = |t_ns: u64| (t_ns / 201_000_000 * 31 % 17) as f64;
        let step = |t_ns: u64| if t_ns < 30_000_000_000 { 0.0 } else { 60.0 };
        let found = detect(
            &read,
            &write,
            GRID_NS,
            &gpu(|t_ns| step(t_ns) + noise(t_ns)),
        );
        let spans: Vec<(Label, u64)> = found.phases.iter().map(|p| (p.label, p.end_ns)).collect();
        assert!(found.with_gpu);
        assert_eq!(spans.len(), 2, "{spans:?}");
        assert_eq!(spans[0].0, Label::ReadHeavy);
        // A reading tells of the fifth of a second before it.
        assert!(
            spans[0].1.abs_diff(30_000_000_000) <= 201_000_000 + GRID_NS,
            "{spans:?}"
        );
        let bytes: u64 = found.phases.iter().map(|p| p.read.bytes).sum();
        assert_eq!(bytes, alone.phases[0].read.bytes);
        // Neither noise nor what comes and goes with each token, nor where readings are missing.
        for quiet in [
            gpu(noise),
            gpu(|t_ns| noise(t_ns) + 60.0 * (t_ns / 1_000_000_000 % 2) as f64),
            gpu(noise).split_off(150),
        ] {
            assert_eq!(detect(&read, &write, GRID_NS, &quiet).phases.len(), 1);
        }
    }

    #[test]
    fn a_gpu_moves_no_boundary_of_the_traffic() {
        let amount = |bytes| Amount { ios: 1, bytes };
        let write: BTreeMap<u64, Amount> = (0..80).map(|bin| (bin, amount(1 << 20))).collect();
        let read: BTreeMap<u64, Amount> = (150..300).map(|bin| (bin, amount(3 << 20))).collect();
        let wanted = detect(&read, &write, GRID_NS, &[]);
        assert_eq!(wanted.phases.len(), 3);
        for early_ns in [0, 300_000_000, 700_000_000] {
            let percent = |t_ns: u64| {
                let t_ns = t_ns + early_ns;
                let busy = (8_000_000_000..15_000_000_000).contains(&t_ns);
                if busy { 97.0 } else { 20.0 + (t_ns % 7) as f64 }
            };
            let found = detect(&read, &write, GRID_NS, &gpu(percent));
            assert_eq!(found.phases, wanted.phases);
            assert_eq!(found.boundary_ns, wanted.boundary_ns);
        }
    }

    #[test]
    fn utilisation_of_a_bin_is_weighted_by_time() {
        let held = |from_ns, until_ns, percent| GpuSpan {
            time_ns: from_ns..until_ns,
            percent,
        };
        let known = [
            held(5, 20, 100.0),
            held(20, 25, 40.0),
            held(7, 7, 9.0),
            held(38, u64::MAX, 60.0),
        ];
        let found = means(&known, 10, 4);
        assert_eq!(found, [Some(100.0), Some(100.0), Some(40.0), Some(60.0)]);
        assert_eq!(means(&[], 10, 2), [None, None]);
    }
}
