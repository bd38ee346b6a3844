//! Completions that a recording lost, and what was in flight without them.
//!
//! A tracer that loses events loses completions more often than issues, one here and one there, so what it kept is taken for a random part.
//! Amounts are of what was issued, and times of what is known by the share that was kept.

use blkio_parser::Stats;
use blkio_parser::analyse::traffic::DATA;

use crate::document::amounts;

/// Share of the requests without a completion from which some were lost rather than cut off by the ends of the recording.
const LEAST: f64 = 0.005;
/// Times the largest depth that requests without a completion must be for the same.
const DEEP: u64 = 2;
/// Share kept below which the inversion of [`busy_ns`] is ill-conditioned.
const ENOUGH: f64 = 0.7;

/// Shares of the completions that were lost.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub(crate) struct Loss {
    /// Share lost of all requests, with or without data.
    pub(crate) all: f64,
    /// Shares lost of reads and of writes.
    pub(crate) ways: [f64; 2],
}

impl Loss {
    /// Returns those of a trace; nothing where completions are whole or were not recorded at all.
    pub(crate) fn of(stats: &Stats) -> Self {
        let Some(pairing) = stats.newest.as_ref().filter(|of| of.matching.pairs > 0) else {
            return Self::default();
        };
        let matching = &pairing.matching;
        let (pairs, missing) = (matching.pairs, matching.unmatched_issues);
        let all = missing as f64 / (pairs + missing) as f64;
        if all < LEAST || missing <= DEEP * pairing.depth.all.max() {
            return Self::default();
        }
        let issued = amounts(stats);
        let ways = DATA.map(|direction| {
            let ios = issued.get(&direction).map_or(0, |(amount, _)| amount.ios);
            let paired = pairing.latency.get(direction.slot());
            let paired = paired.map_or(0, |of| of.count);
            // A request that the driver gave back is issued twice.
            match matching.requeues {
                0 if ios > 0 => 1.0 - paired as f64 / ios as f64,
                _ => all,
            }
        });
        Self {
            all,
            ways: ways.map(|of| of.clamp(0.0, 1.0)),
        }
    }
}

/// Weight of the time at a depth in what is added to the time with a request in flight, where this share of the requests is not seen.
///
/// Each of the `n` requests in flight is seen with probability `s`, so the generating function of the observed depths at `z` is that of the
/// true depths at `1 - s + s z`. The true share of time with no request in flight is therefore the function of the observed depths at
/// `-(1 - s) / s`. With few requests seen, that estimate is too noisy, and only the time in which a request is alone counts.
pub(crate) fn hidden_weight(lost: f64, depth: u64) -> f64 {
    let kept = (1.0 - lost).max(1e-9);
    if kept < ENOUGH {
        return if depth == 1 { lost / kept } else { 0.0 };
    }
    -(-lost / kept).powi(i32::try_from(depth).unwrap_or(i32::MAX))
}

/// Returns the time with requests in flight, of the times at each depth seen.
pub(crate) fn busy_ns(lost: f64, seen_ns: u64, time_at: impl Iterator<Item = (u64, u64)>) -> f64 {
    let hidden: f64 = time_at
        .filter(|(depth, _)| *depth > 0)
        .map(|(depth, ns)| hidden_weight(lost, depth) * ns as f64)
        .sum();
    (seen_ns as f64 + hidden).max(seen_ns as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Requests that each last one tick and a half begin at random: what is seen of them gives the time with any in flight.
    #[test]
    fn the_time_with_requests_in_flight_is_found_without_some_of_them() {
        let mut state = 7_u64;
        let mut random = move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            (state >> 11) as f64 / (1_u64 << 53) as f64
        };
        for (load, lost) in [(0.3, 0.1), (1.0, 0.2), (3.0, 0.05)] {
            let ticks = 200_000;
            let (mut all, mut seen) = (vec![0_u64; ticks + 9], vec![0_u64; ticks + 9]);
            for at in 0..ticks {
                if random() < load / 6.0 {
                    let is_seen = random() >= lost;
                    for place in at..at + 6 {
                        all[place] += 1;
                        seen[place] += u64::from(is_seen);
                    }
                }
            }
            let busy = |of: &[u64]| of.iter().filter(|depth| **depth > 0).count() as u64;
            let times = seen.iter().map(|depth| (*depth, 1));
            let found = busy_ns(lost, busy(&seen), times);
            let wanted = busy(&all) as f64;
            assert!(
                (found / wanted - 1.0).abs() < 0.01,
                "{load} {found} {wanted}"
            );
            assert!(busy(&seen) as f64 <= found);
        }
    }
}
