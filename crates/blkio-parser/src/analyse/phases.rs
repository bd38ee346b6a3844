//! Phases of a run found from its traffic: weights or KV written, idle, read back token by token.
//!
//! The series of bins is cut where that lowers the squared error of four features most: the logarithms of bytes read and
//! written, the share of reads, and the logarithm of the mean size of requests. Each cut costs three times the logarithm of the length per feature, so noise is not cut.

use std::collections::BTreeMap;

use super::traffic::{Amount, FINE_BINS, Traffic};

/// Most bins that are cut; longer runs get wider bins.
const MAX_BINS: usize = 1500;
/// Shortest phase in bins.
const SHORTEST: usize = 3;
const FEATURES: usize = 4;

/// What a phase mostly does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Label {
    /// More than half of the bytes are written: weights stored, or prefill writing the KV cache.
    WriteHeavy,
    /// More than half of the bytes are read: loading, or decode.
    ReadHeavy,
    /// Less than a hundredth of the usual traffic.
    Idle,
}

impl Label {
    /// Name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::WriteHeavy => "write-heavy",
            Self::ReadHeavy => "read-heavy",
            Self::Idle => "idle",
        }
    }
}

/// A phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
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
pub struct Phases {
    /// In order of time, without gaps.
    pub phases: Vec<Phase>,
    /// Width of the bins in which boundaries lie.
    pub bin_ns: u64,
    /// End of the last write-heavy phase before reading dominates, and start of the reading; nanoseconds since the first
    /// issue.
    pub boundary_ns: Option<(u64, u64)>,
}

/// The phases of a trace: from bins of 10 ms for runs of up to fifteen seconds, else of 100 ms and wider.
#[must_use]
pub fn of(traffic: &Traffic) -> Phases {
    let first = traffic.first_issue_ns.unwrap_or(0);
    let fine = (traffic.last_issue_ns.saturating_sub(first)) / 10_000_000 < FINE_BINS;
    let ([read, write], grid_ns) = if fine {
        (&traffic.hundredths, 10_000_000)
    } else {
        (&traffic.tenths, 100_000_000)
    };
    detect(&read.finish(), &write.finish(), grid_ns)
}

/// Finds the phases in traffic by bins of this width since the first issue. Cost: the square of the number of bins, at most
/// a few million steps.
#[must_use]
pub fn detect(read: &BTreeMap<u64, Amount>, write: &BTreeMap<u64, Amount>, grid_ns: u64) -> Phases {
    let last = |bins: &BTreeMap<u64, Amount>| bins.keys().next_back().copied();
    let Some(last) = last(read).max(last(write)) else {
        return Phases::default();
    };
    let factor = (last / MAX_BINS as u64) + 1;
    let count = crate::num::index(last / factor + 1);
    let mut bins = vec![(Amount::default(), Amount::default()); count];
    for (bin, amount) in read {
        if let Some((sum, _)) = bins.get_mut(crate::num::index(bin / factor)) {
            sum.add(*amount);
        }
    }
    for (bin, amount) in write {
        if let Some((_, sum)) = bins.get_mut(crate::num::index(bin / factor)) {
            sum.add(*amount);
        }
    }
    let bin_ns = factor * grid_ns;
    let mut phases: Vec<Phase> = Vec::new();
    let usual = usual_bytes(&bins);
    for range in cut(&features(&bins)) {
        let mut phase = Phase {
            label: Label::Idle,
            start_ns: (range.start as u64).saturating_mul(bin_ns),
            // The last bin may end beyond the largest time.
            end_ns: (range.end as u64).saturating_mul(bin_ns),
            read: Amount::default(),
            write: Amount::default(),
        };
        let length = range.len() as f64;
        for (read, write) in bins.get(range).unwrap_or_default() {
            phase.read.add(*read);
            phase.write.add(*write);
        }
        let bytes = (phase.read.bytes + phase.write.bytes) as f64;
        phase.label = if bytes / length < usual / 100.0 || bytes <= 0.0 {
            Label::Idle
        } else if phase.write.bytes > phase.read.bytes {
            Label::WriteHeavy
        } else {
            Label::ReadHeavy
        };
        match phases.last_mut() {
            // Pieces of one kind are one phase, whatever their rates.
            Some(before) if before.label == phase.label => {
                before.end_ns = phase.end_ns;
                before.read.add(phase.read);
                before.write.add(phase.write);
            }
            _ => phases.push(phase),
        }
    }
    let boundary_ns = boundary(&phases);
    Phases {
        phases,
        bin_ns,
        boundary_ns,
    }
}

/// The traffic of a busy bin: the 95th percentile.
fn usual_bytes(bins: &[(Amount, Amount)]) -> f64 {
    let mut bytes: Vec<u64> = bins.iter().map(|(r, w)| r.bytes + w.bytes).collect();
    bytes.sort_unstable();
    let rank = crate::num::nearest_rank(95.0, bytes.len() as u64);
    let p95 = bytes.get(crate::num::index(rank.saturating_sub(1)));
    match p95 {
        // Nearly always idle: take the busiest bin.
        Some(0) | None => bytes.last().map_or(0.0, |b| *b as f64),
        Some(bytes) => *bytes as f64,
    }
}

/// The largest reading phase decides; prefill ends with the last writing phase before it.
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

/// Features by bin, each with mean 0 and variance 1.
fn features(bins: &[(Amount, Amount)]) -> Vec<[f64; FEATURES]> {
    let mut features: Vec<[f64; FEATURES]> = bins
        .iter()
        .map(|(read, write)| {
            let total = read.bytes + write.bytes;
            let requests = (read.ios + write.ios).max(1);
            let share = if total == 0 {
                0.5
            } else {
                read.bytes as f64 / total as f64
            };
            [
                (read.bytes as f64).ln_1p(),
                (write.bytes as f64).ln_1p(),
                share,
                (total as f64 / requests as f64).ln_1p(),
            ]
        })
        .collect();
    let n = features.len() as f64;
    for feature in 0..FEATURES {
        let value = |row: &[f64; FEATURES]| row.get(feature).copied().unwrap_or(0.0);
        let mean = features.iter().map(value).sum::<f64>() / n;
        let variance = features
            .iter()
            .map(|row| (value(row) - mean).powi(2))
            .sum::<f64>()
            / n;
        let scale = if variance > 1e-12 {
            variance.sqrt().recip()
        } else {
            0.0
        };
        for row in &mut features {
            if let Some(value) = row.get_mut(feature) {
                *value = (*value - mean) * scale;
            }
        }
    }
    features
}

/// The optimal cuts, by dynamic programming over the place of the last cut.
fn cut(features: &[[f64; FEATURES]]) -> Vec<std::ops::Range<usize>> {
    let n = features.len();
    let shortest = SHORTEST.min(n.max(1));
    // Sums and sums of squares up to each bin.
    let mut sums = vec![[0.0; FEATURES]; n + 1];
    let mut squares = vec![0.0; n + 1];
    for (at, row) in features.iter().enumerate() {
        let mut sum = sums.get(at).copied().unwrap_or_default();
        let mut square: f64 = squares.get(at).copied().unwrap_or_default();
        for (sum, value) in sum.iter_mut().zip(row) {
            *sum += value;
            square += value * value;
        }
        if let Some(next) = sums.get_mut(at + 1) {
            *next = sum;
        }
        if let Some(next) = squares.get_mut(at + 1) {
            *next = square;
        }
    }
    let cost = |from: usize, to: usize| -> f64 {
        let (Some(a), Some(b), Some(sa), Some(sb)) = (
            sums.get(from),
            sums.get(to),
            squares.get(from),
            squares.get(to),
        ) else {
            return f64::INFINITY;
        };
        let length = (to - from) as f64;
        let mean_part: f64 = a.iter().zip(b).map(|(a, b)| (b - a).powi(2) / length).sum();
        (sb - sa - mean_part).max(0.0)
    };
    let penalty = 3.0 * FEATURES as f64 * (n.max(2) as f64).ln() / 3.0;
    let mut best = vec![(f64::INFINITY, 0_usize); n + 1];
    if let Some(first) = best.first_mut() {
        *first = (-penalty, 0);
    }
    for to in shortest..=n {
        let mut chosen = (f64::INFINITY, 0);
        for from in (0..=to - shortest).filter(|from| *from == 0 || *from >= shortest) {
            let before = best.get(from).map_or(f64::INFINITY, |(cost, _)| *cost);
            let total = before + cost(from, to) + penalty;
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

#[cfg(test)]
mod tests {
    use super::*;

    const GRID_NS: u64 = 100_000_000;

    #[test]
    fn writing_silence_and_reading_are_told_apart() {
        let amount = |bytes| Amount { ios: 1, bytes };
        let write: BTreeMap<u64, Amount> = (0..20).map(|bin| (bin, amount(1 << 20))).collect();
        let read: BTreeMap<u64, Amount> = (50..120).map(|bin| (bin, amount(3 << 20))).collect();
        let found = detect(&read, &write, GRID_NS);
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
    fn nothing_has_no_phases() {
        assert_eq!(
            detect(&BTreeMap::new(), &BTreeMap::new(), GRID_NS),
            Phases::default()
        );
    }
}
