//! Aligns the clocks of all ranks with that of the first one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};

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
/// Cost: a pass over the collectives, and for each rank one over its collectives with the rank that it is compared with; where
/// not all ranks share enough with the root, also one over the members of the collectives of each aligned rank.
pub fn clocks(ranks: &[Vec<RankRun<'_>>], collectives: &[Matched]) -> Vec<Option<RankClock>> {
    let mut out: Vec<Option<RankClock>> = vec![None; ranks.len()];
    let Some(first) = out.first_mut() else {
        return out;
    };
    *first = Some(RankClock {
        fit: ClockFit::reference(),
        via: 0,
    });
    let ends = Ends::new(ranks, collectives);
    let mut unknown = ranks.len() - 1;
    let mut depth = vec![0_usize; ranks.len()];
    // Aligned ranks whose partners are not counted yet, nearest to the root first.
    let mut uncounted: BTreeSet<(usize, usize)> = [(0, 0)].into();
    let mut candidates: BinaryHeap<Reverse<Candidate>> = BinaryHeap::new();
    while unknown > 0 {
        // Partners of a rank are no better than those of a rank that shares enough nearer to the root.
        while let Some(&(way, from)) = uncounted.first()
            && candidates
                .peek()
                .is_none_or(|best| (false, way) <= (best.0.is_few, best.0.way))
        {
            uncounted.remove(&(way, from));
            for (to, n) in ends.shared(from) {
                if out.get(to).is_some_and(Option::is_none) {
                    candidates.push(Reverse(Candidate {
                        is_few: n < ENOUGH,
                        way,
                        shared: Reverse(n),
                        from,
                        to,
                    }));
                }
            }
        }
        let Some(Reverse(Candidate { way, from, to, .. })) = candidates.pop() else {
            return out;
        };
        let is_known = out.get(to).is_none_or(Option::is_some);
        let Some(parent) = out.get(from).copied().flatten().filter(|_| !is_known) else {
            continue;
        };
        let observations: Vec<(i64, i64)> = ends
            .common(to, from)
            .map(|(own, other)| (own, parent.fit.to_reference(other)))
            .collect();
        let Some(mut fit) = fit(&observations) else {
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
        if let Some(slot) = depth.get_mut(to) {
            *slot = way + 1;
        }
        if let Some(slot) = out.get_mut(to) {
            *slot = Some(RankClock { fit, via: from });
        }
        unknown -= 1;
        uncounted.insert((way + 1, to));
    }
    out
}

/// A rank that can be aligned with an aligned one; the best is the least.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Candidate {
    is_few: bool,
    /// Distance of the aligned rank from the root.
    way: usize,
    shared: Reverse<usize>,
    from: usize,
    to: usize,
}

/// Ends of the synchronizing collectives that several ranks recorded.
struct Ends {
    /// Members of each collective.
    members: Vec<Vec<usize>>,
    /// Collectives of each rank, ascending, with its first end in each.
    of_rank: Vec<Vec<(usize, i64)>>,
}

impl Ends {
    fn new(ranks: &[Vec<RankRun<'_>>], collectives: &[Matched]) -> Self {
        let mut out = Self {
            members: Vec::new(),
            of_rank: vec![Vec::new(); ranks.len()],
        };
        let joined = collectives
            .iter()
            .filter(|m| m.runs.len() > 1 && is_synchronising(op_of(ranks, m)));
        for matched in joined {
            let number = out.members.len();
            let mut members = Vec::with_capacity(matched.runs.len());
            for (member, place) in &matched.runs {
                let run = ranks.get(*member).and_then(|runs| runs.get(*place));
                let (Some(run), Some(own)) = (run, out.of_rank.get_mut(*member)) else {
                    continue;
                };
                members.push(*member);
                if own.last().is_none_or(|last| last.0 != number) {
                    own.push((number, run.end_ns));
                }
            }
            out.members.push(members);
        }
        out
    }

    /// Counts the pairs of runs that a rank shares with each other rank.
    fn shared(&self, rank: usize) -> BTreeMap<usize, usize> {
        let mut counts = vec![0_usize; self.of_rank.len()];
        for (number, _) in self.of_rank.get(rank).into_iter().flatten() {
            let members = self.members.get(*number).map_or(&[][..], Vec::as_slice);
            let own = members.iter().filter(|member| **member == rank).count();
            for member in members.iter().filter(|member| **member != rank) {
                if let Some(count) = counts.get_mut(*member) {
                    *count += own;
                }
            }
        }
        let counted = counts.into_iter().enumerate();
        counted.filter(|(_, n)| *n > 0).collect()
    }

    /// Returns the ends of two ranks in the collectives that both recorded.
    fn common(&self, one: usize, other: usize) -> impl Iterator<Item = (i64, i64)> {
        let of = |rank: usize| self.of_rank.get(rank).map_or(&[][..], Vec::as_slice);
        let mut others = of(other).iter().peekable();
        of(one).iter().filter_map(move |(number, end)| {
            while others.next_if(|next| next.0 < *number).is_some() {}
            let found = others.peek().filter(|next| next.0 == *number)?;
            Some((*end, found.1))
        })
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
    use trace_model::kernel::collective::Collective;

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

    /// Reference model: looks at all pairs of ranks each time.
    fn slow_clocks(ranks: &[Vec<RankRun<'_>>], collectives: &[Matched]) -> Vec<Option<RankClock>> {
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
                    (n < ENOUGH, way, Reverse(n), from, to)
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

    /// Ranks of a generated job: each collective has some of the members of a group, which end at about the same time.
    fn generated(seed: u64) -> (Vec<Vec<RankRun<'static>>>, Vec<Matched>) {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut below = |n: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            usize::try_from((state >> 33) % n).unwrap()
        };
        let size = 2 + below(9);
        let what: &'static Collective = Box::leak(Box::new(Collective::named(
            "",
            Some(CollectiveOp::AllReduce),
        )));
        let mut ranks: Vec<Vec<RankRun<'static>>> = vec![Vec::new(); size];
        let mut collectives = Vec::new();
        for number in 0..40 + below(60) {
            let first = below(size as u64);
            let many = 1 + below(size as u64);
            let mut runs: Vec<(usize, usize)> = Vec::new();
            for (rank, own) in ranks.iter_mut().enumerate() {
                if (rank + size - first) % size < many {
                    let end_ns = i64::try_from(number * 1000 + below(90) + rank * 77).unwrap();
                    runs.push((rank, own.len()));
                    own.push(RankRun {
                        kernel: "",
                        what: Some(what),
                        seq: None,
                        device: trace_model::DeviceId(0),
                        stream: trace_model::StreamId(0),
                        library: trace_model::kernel::CommLibrary::Nccl,
                        pair: None,
                        end_ns,
                    });
                }
            }
            collectives.push(Matched { group: 0, runs });
        }
        (ranks, collectives)
    }

    #[test]
    fn the_tree_is_that_of_all_pairs() {
        for seed in 0..300 {
            let (ranks, collectives) = generated(seed);
            assert_eq!(
                clocks(&ranks, &collectives),
                slow_clocks(&ranks, &collectives),
                "seed {seed}"
            );
        }
    }
}
