//! Aligns the clocks of all ranks with that of the first one.

use std::collections::BTreeMap;

use serde::Serialize;
use trace_model::kernel::collective::CollectiveOp;

use crate::arrivals::AlignedRun;
use crate::clock::{ClockFit, fit};
use crate::matching::{Matched, RankRun, is_synchronising};

/// Clock of one rank: the fit, and the rank with which it was compared.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankClock {
    /// Its clock against that of the first rank.
    pub fit: ClockFit,
    /// Index of the rank with which it was compared, which is itself aligned with the first; the
    /// errors of that rank are included.
    pub via: usize,
}

impl RankClock {
    /// Converts a run of this rank to the first rank's clock.
    pub fn align(&self, start_ns: i64, end_ns: i64) -> AlignedRun {
        AlignedRun {
            start_ns: self.fit.to_reference(start_ns),
            end_ns: self.fit.to_reference(end_ns),
            error_ns: self.fit.error_at(start_ns),
        }
    }
}

/// Returns the operation of a collective, from the first of its runs that knows it.
fn op_of(ranks: &[Vec<RankRun<'_>>], matched: &Matched) -> Option<CollectiveOp> {
    let mut runs = matched.runs.iter();
    runs.find_map(|(member, place)| ranks.get(*member)?.get(*place)?.what?.op)
}

/// Number of shared collectives that suffices: beyond it, a shorter path to the first rank is worth
/// more than further ones.
const ENOUGH: usize = 30;

/// Aligns clocks along a tree: the first rank is the root; the next one is a rank that shares
/// enough collectives with an aligned rank, as near to the root as possible, else the one that
/// shares most.
///
/// Cost: n log n in the number of collectives, for each rank.
pub fn clocks(ranks: &[Vec<RankRun<'_>>], collectives: &[Matched]) -> Vec<Option<RankClock>> {
    let mut out: Vec<Option<RankClock>> = vec![None; ranks.len()];
    let Some(first) = out.first_mut() else {
        return out;
    };
    *first = Some(RankClock {
        fit: ClockFit::reference(),
        via: 0,
    });
    // Ends of synchronizing collectives, by pair of ranks.
    let ends: Vec<Vec<(usize, i64)>> = collectives
        .iter()
        .filter(|m| m.runs.len() > 1 && is_synchronising(op_of(ranks, m)))
        .map(|m| {
            let end = |(member, place): &(usize, usize)| {
                Some((*member, ranks.get(*member)?.get(*place)?.end_ns))
            };
            m.runs.iter().filter_map(end).collect()
        })
        .collect();
    let mut shared: BTreeMap<(usize, usize), usize> = BTreeMap::new();
    for list in &ends {
        for (i, a) in list.iter().enumerate() {
            for b in list.iter().skip(i + 1) {
                if a.0 != b.0 {
                    *shared.entry((a.0, b.0)).or_default() += 1;
                }
            }
        }
    }
    let mut depth = vec![0_usize; ranks.len()];
    loop {
        let known = |m: usize| out.get(m).is_some_and(Option::is_some);
        let best = shared
            .iter()
            .flat_map(|(&(a, b), &n)| [(n, a, b), (n, b, a)])
            .filter(|(_, from, to)| known(*from) && !known(*to))
            .min_by_key(|&(n, from, to)| {
                let way = depth.get(from).copied().unwrap_or(0);
                (n < ENOUGH, way, std::cmp::Reverse(n), from, to)
            });
        let Some((_, from, to)) = best else {
            return out;
        };
        let Some(parent) = out.get(from).copied().flatten() else {
            return out;
        };
        let observations: Vec<(i64, i64)> = ends
            .iter()
            .filter_map(|list| {
                let end = |member: usize| list.iter().find(|e| e.0 == member).map(|e| e.1);
                Some((end(to)?, parent.fit.to_reference(end(from)?)))
            })
            .collect();
        let Some(mut fit) = fit(&observations) else {
            shared.retain(|pair, _| *pair != (from.min(to), from.max(to)));
            continue;
        };
        if from != 0 {
            // Observed against an estimate: the errors add.
            fit.ahead_error_ns = fit
                .ahead_error_ns
                .saturating_add(parent.fit.error_at(fit.at_ns));
            fit.drift_low_ppb -= parent.fit.drift_ppb - parent.fit.drift_low_ppb;
            fit.drift_high_ppb += parent.fit.drift_high_ppb - parent.fit.drift_ppb;
        }
        let way = depth.get(from).map_or(0, |d| d + 1);
        if let Some(slot) = depth.get_mut(to) {
            *slot = way;
        }
        if let Some(slot) = out.get_mut(to) {
            *slot = Some(RankClock { fit, via: from });
        }
    }
}

/// Gives ranks of one recording one clock: that of the first rank if it is among them, else the one that is known best. `recordings`
/// names the recording of each rank that shares it with others.
pub fn share_clocks(clocks: &mut [Option<RankClock>], recordings: &[Option<&str>]) {
    let mut best: BTreeMap<&str, (usize, RankClock)> = BTreeMap::new();
    for (member, recording) in recordings.iter().enumerate() {
        let (Some(recording), Some(Some(clock))) = (recording, clocks.get(member)) else {
            continue;
        };
        let own = (member, *clock);
        let key = |(member, clock): &(usize, RankClock)| (*member != 0, clock.fit.ahead_error_ns);
        best.entry(*recording)
            .and_modify(|known| {
                if key(&own) < key(known) {
                    *known = own;
                }
            })
            .or_insert(own);
    }
    for (clock, recording) in clocks.iter_mut().zip(recordings) {
        if let Some((via, known)) = recording.and_then(|recording| best.get(recording)) {
            *clock = Some(RankClock {
                fit: known.fit,
                via: *via,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_of_one_recording_have_one_clock() {
        let clock = |ahead_ns: i64, ahead_error_ns: i64| {
            let fit = ClockFit {
                ahead_ns,
                ahead_error_ns,
                samples: 9,
                ..ClockFit::reference()
            };
            Some(RankClock { fit, via: 0 })
        };
        let root = Some(RankClock {
            fit: ClockFit::reference(),
            via: 0,
        });
        let mut clocks = vec![
            root,
            clock(550, 20),
            clock(9_000, 40),
            clock(9_070, 30),
            None,
            clock(7, 7),
        ];
        let recordings = [Some("a"), Some("a"), Some("b"), Some("b"), Some("b"), None];
        share_clocks(&mut clocks, &recordings);
        let ahead: Vec<i64> = clocks.iter().map(|c| c.unwrap().fit.ahead_ns).collect();
        // The first rank's recording is the reference; of the other the clock with the least error.
        assert_eq!(ahead, [0, 0, 9_070, 9_070, 9_070, 7]);
    }
}
