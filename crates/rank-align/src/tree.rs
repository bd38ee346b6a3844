//! Aligns the clocks of all ranks with that of the first one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

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

/// How well a rank is compared with an aligned one, best first: enough shared collectives, a short way to the first rank, many of
/// them, and the order of ranks.
type Link = (bool, usize, Reverse<usize>, usize, usize);

/// The ends of synchronizing collectives, and where each rank has some.
struct Ends {
    /// Of each collective the end by rank.
    lists: Vec<Vec<(usize, i64)>>,
    /// Places of the collectives of each rank, ascending; twice where a rank has two ends of one.
    of: Vec<Vec<usize>>,
}

impl Ends {
    fn new(ranks: &[Vec<RankRun<'_>>], collectives: &[Matched]) -> Self {
        let lists: Vec<Vec<(usize, i64)>> = collectives
            .iter()
            .filter(|m| m.runs.len() > 1 && is_synchronising(op_of(ranks, m)))
            .map(|m| {
                let end = |(member, place): &(usize, usize)| {
                    Some((*member, ranks.get(*member)?.get(*place)?.end_ns))
                };
                m.runs.iter().filter_map(end).collect()
            })
            .collect();
        let mut of = vec![Vec::new(); ranks.len()];
        for (place, list) in lists.iter().enumerate() {
            for (member, _) in list {
                of[*member].push(place);
            }
        }
        Self { lists, of }
    }

    /// Returns how many collectives a rank shares with each other one.
    fn shared(&self, rank: usize) -> Vec<usize> {
        let mut out = vec![0; self.of.len()];
        for place in &self.of[rank] {
            for (member, _) in &self.lists[*place] {
                out[*member] += 1;
            }
        }
        out[rank] = 0;
        out
    }

    /// Returns the ends of the collectives that two ranks share.
    fn of_both(&self, rank: usize, other: usize) -> Vec<(i64, i64)> {
        let mut places = self.of[rank].clone();
        places.dedup();
        let each = places.into_iter().filter_map(|place| {
            let list = &self.lists[place];
            let end = |member: usize| list.iter().find(|e| e.0 == member).map(|e| e.1);
            Some((end(rank)?, end(other)?))
        });
        each.collect()
    }
}

/// Aligns clocks along a tree: the first rank is the root; the next one is a rank that shares
/// enough collectives with an aligned rank, as near to the root as possible, else the one that
/// shares most.
///
/// Cost: for each rank the ranks in its collectives, and n log n in the number of these.
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
    let mut depth = vec![0_usize; ranks.len()];
    // The best link of each rank that is not aligned, and pairs of ranks that cannot be compared.
    let mut links: Vec<Option<Link>> = vec![None; ranks.len()];
    let mut apart: BTreeSet<(usize, usize)> = BTreeSet::new();
    let mut added = Some(0);
    loop {
        if let Some(from) = added.take() {
            let way = depth[from];
            for (to, n) in ends.shared(from).into_iter().enumerate() {
                if n > 0 && out[to].is_none() {
                    let link = (n < ENOUGH, way, Reverse(n), from, to);
                    links[to] = Some(links[to].map_or(link, |known| known.min(link)));
                }
            }
        }
        let unknown = links
            .iter()
            .enumerate()
            .filter(|(to, _)| out[*to].is_none());
        let Some((.., from, to)) = unknown.filter_map(|(_, link)| *link).min() else {
            return out;
        };
        let Some(parent) = out.get(from).copied().flatten() else {
            return out;
        };
        let observations: Vec<(i64, i64)> = ends
            .of_both(to, from)
            .into_iter()
            .map(|(own, other)| (own, parent.fit.to_reference(other)))
            .collect();
        let Some(mut fit) = fit(&observations) else {
            // The next best link of the same rank.
            apart.insert((from, to));
            let shared = ends.shared(to).into_iter().enumerate();
            let others = shared.filter(|(other, n)| {
                *n > 0 && out[*other].is_some() && !apart.contains(&(*other, to))
            });
            let others = others.map(|(other, n)| (n < ENOUGH, depth[other], Reverse(n), other, to));
            links[to] = others.min();
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
        depth[to] = depth[from] + 1;
        out[to] = Some(RankClock { fit, via: from });
        added = Some(to);
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
    use trace_model::kernel::CommLibrary;
    use trace_model::kernel::collective::Collective;
    use trace_model::{DeviceId, StreamId};

    use super::*;

    /// The same tree by looking at all pairs of ranks for each rank.
    fn by_all_pairs(ranks: &[Vec<RankRun<'_>>], collectives: &[Matched]) -> Vec<Option<RankClock>> {
        let mut out: Vec<Option<RankClock>> = vec![None; ranks.len()];
        out[0] = Some(RankClock {
            fit: ClockFit::reference(),
            via: 0,
        });
        let end = |(member, place): &(usize, usize)| (*member, ranks[*member][*place].end_ns);
        let shared = collectives.iter().filter(|m| m.runs.len() > 1);
        let lists: Vec<Vec<(usize, i64)>> =
            shared.map(|m| m.runs.iter().map(end).collect()).collect();
        let mut pairs: BTreeMap<(usize, usize), usize> = BTreeMap::new();
        for list in &lists {
            for (i, a) in list.iter().enumerate() {
                for b in &list[i + 1..] {
                    *pairs.entry((a.0, b.0)).or_default() += 1;
                }
            }
        }
        let mut depth = vec![0_usize; ranks.len()];
        loop {
            let both = pairs
                .iter()
                .flat_map(|(&(a, b), &n)| [(n, a, b), (n, b, a)]);
            let next = both.filter(|(_, from, to)| out[*from].is_some() && out[*to].is_none());
            let next =
                next.min_by_key(|&(n, from, to)| (n < ENOUGH, depth[from], Reverse(n), from, to));
            let Some((_, from, to)) = next else {
                return out;
            };
            let parent = out[from].unwrap();
            let observations = lists.iter().filter_map(|list| {
                let end = |member: usize| list.iter().find(|e| e.0 == member).map(|e| e.1);
                Some((end(to)?, parent.fit.to_reference(end(from)?)))
            });
            let Some(mut fit) = fit(&observations.collect::<Vec<_>>()) else {
                pairs.remove(&(from.min(to), from.max(to)));
                continue;
            };
            if from != 0 {
                fit.ahead_error_ns += parent.fit.error_at(fit.at_ns);
                fit.drift_low_ppb -= parent.fit.drift_ppb - parent.fit.drift_low_ppb;
                fit.drift_high_ppb += parent.fit.drift_high_ppb - parent.fit.drift_ppb;
            }
            depth[to] = depth[from] + 1;
            out[to] = Some(RankClock { fit, via: from });
        }
    }

    #[test]
    fn the_tree_is_that_of_all_pairs() {
        let what = Collective::named("allreduce", Some(CollectiveOp::AllReduce));
        let mut state = 7_u64;
        let mut random = move |below: u64| {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            usize::try_from((state >> 33) % below).unwrap()
        };
        for _ in 0..40 {
            let count = 2 + random(11);
            let ahead: Vec<i64> = (0..count).map(|_| random(1_000_000) as i64).collect();
            let mut ranks: Vec<Vec<RankRun<'_>>> = vec![Vec::new(); count];
            let mut collectives = Vec::new();
            // Groups that overlap, so that some ranks share many collectives and some few or none.
            for at in 0..120 {
                let first = random(count as u64);
                let size = 1 + random(4);
                let mut runs = Vec::new();
                for member in first..(first + size).min(count) {
                    let end_ns = 1_000_000 * at + ahead[member] + random(900) as i64;
                    runs.push((member, ranks[member].len()));
                    ranks[member].push(RankRun {
                        pair: None,
                        kernel: "ncclDevKernel_AllReduce",
                        what: Some(&what),
                        seq: None,
                        device: DeviceId(0),
                        stream: StreamId(7),
                        library: CommLibrary::Nccl,
                        end_ns,
                    });
                }
                collectives.push(Matched { group: 0, runs });
            }
            assert_eq!(
                clocks(&ranks, &collectives),
                by_all_pairs(&ranks, &collectives)
            );
        }
    }

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
