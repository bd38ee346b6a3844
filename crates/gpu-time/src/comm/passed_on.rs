//! Delays that ranks pass on: a rank that waits in one group arrives late in another, and the ranks
//! there wait for the one that delayed it.

use std::collections::HashMap;

use rustc_hash::FxBuildHasher;

use crate::comm::cause::{Cause, CauseKind};
use crate::comm::digest::RankDigest;
use crate::comm::job::{CollectiveTime, avoidable, is_late, waiting};

/// Part of a delay, and the collective that it comes from.
struct Share {
    origin: usize,
    ns: i64,
}

/// Charges the delay of each late collective to its origins: sets
/// [`CollectiveTime::passed_on_ns`] and [`CollectiveTime::charged_ns`], and the cause of delays that
/// are passed on for the larger part.
///
/// The last rank of a collective came later than the one before it (its *predecessor*) by its own
/// work, and by its waits since both last left a collective together. The waits are charged to the
/// last ranks of the collectives in which it waited, whose delay may be passed on as well. Cost: for
/// each late collective the collectives of its last rank since then.
pub(crate) fn charge(digests: &[RankDigest], collectives: &mut [CollectiveTime]) {
    let at: HashMap<(usize, usize), usize, FxBuildHasher> = collectives
        .iter()
        .enumerate()
        .flat_map(|(number, c)| c.matched.runs.iter().map(move |run| (*run, number)))
        .collect();
    let history = History {
        digests,
        collectives,
        at,
    };
    let late: Vec<(usize, Vec<Share>)> = history
        .collectives
        .iter()
        .enumerate()
        .filter(|(_, c)| is_late(c))
        .map(|(number, c)| (number, history.origins(number, c.late_ns.unwrap_or(0))))
        .collect();
    let mut charged = vec![0_i64; collectives.len()];
    let mut passed_on: Vec<(usize, i64, Option<usize>)> = Vec::new();
    for (number, shares) in &late {
        let Some(c) = collectives.get(*number) else {
            continue;
        };
        let others = waiting(c);
        let (mut sum, mut largest) = (0_i64, None::<&Share>);
        for share in shares {
            sum = sum.saturating_add(share.ns);
            if let Some(slot) = charged.get_mut(share.origin) {
                *slot = slot.saturating_add(share.ns.saturating_mul(others));
            }
            if largest.is_none_or(|largest| share.ns > largest.ns) {
                largest = Some(share);
            }
        }
        if let Some(slot) = charged.get_mut(*number) {
            *slot = slot.saturating_add(avoidable(c) - sum.saturating_mul(others));
        }
        // The larger part decides what the delay is called.
        let is_most = sum.saturating_mul(2) > c.late_ns.unwrap_or(0);
        let origin = largest.filter(|_| is_most).and_then(|share| {
            let origin = collectives.get(share.origin)?;
            Some(origin.matched.runs.get(origin.last?)?.0)
        });
        passed_on.push((*number, sum, origin));
    }
    for (c, charged) in collectives.iter_mut().zip(charged) {
        c.charged_ns = charged;
    }
    for (number, sum, origin) in passed_on {
        let Some(c) = collectives.get_mut(number) else {
            continue;
        };
        c.passed_on_ns = sum;
        let origin = origin.and_then(|member| digests.get(member));
        if let (Some(origin), Some(cause)) = (origin, &mut c.cause) {
            *cause = Cause {
                kind: CauseKind::PassedOn,
                name: Some(format!("rank {}", origin.rank)),
                here_ns: sum,
                others_ns: 0,
                here_count: 0,
                others_count: 0,
                lateness_ns: cause.lateness_ns,
            };
        }
    }
}

struct History<'a> {
    digests: &'a [RankDigest],
    collectives: &'a [CollectiveTime],
    /// Collective of each run of each member.
    at: HashMap<(usize, usize), usize, FxBuildHasher>,
}

impl History<'_> {
    /// Returns the collectives that delayed the last rank of collective `number`, with their parts of
    /// its delay `late_ns`.
    fn origins(&self, number: usize, late_ns: i64) -> Vec<Share> {
        let mut out = Vec::new();
        // Delays to trace back: a collective, and the time to explain. Each is earlier than the one
        // that leads to it.
        let mut open = vec![(number, late_ns, true)];
        while let Some((number, ns, is_first)) = open.pop() {
            let mut rest = ns;
            for (before, wait_ns) in self.waits_before(number) {
                let part = wait_ns.min(rest);
                rest -= part;
                open.push((before, part, false));
                if rest == 0 {
                    break;
                }
            }
            if !is_first && rest > 0 {
                out.push(Share {
                    origin: number,
                    ns: rest,
                });
            }
        }
        out
    }

    /// Returns the collectives in which the last rank of collective `number` waited since it was last
    /// in one with its predecessor, latest first, with its waits.
    fn waits_before(&self, number: usize) -> impl Iterator<Item = (usize, i64)> {
        let found = self.collectives.get(number).and_then(|c| {
            let last = c.last?;
            let &(member, place) = c.matched.runs.get(last)?;
            // The run that started last but this one.
            let starts = c.start_ns.iter().enumerate().filter(|(i, _)| *i != last);
            let (before, _) = starts
                .filter_map(|(i, start)| Some((i, (*start)?)))
                .max_by_key(|(i, start)| (*start, std::cmp::Reverse(*i)))?;
            let predecessor = c.matched.runs.get(before)?.0;
            let digest = self.digests.get(member)?;
            let start_ns = digest.runs.get(place)?.start_ns;
            Some((member, place, predecessor, digest, start_ns))
        });
        found
            .into_iter()
            .flat_map(move |(member, place, predecessor, digest, start_ns)| {
                let earlier = (0..place).rev().filter_map(move |place| {
                    let run = digest.runs.get(place)?;
                    let number = *self.at.get(&(member, place))?;
                    // One that is still running delays nothing.
                    (run.end_ns <= start_ns).then_some(number)
                });
                let together = move |number: &usize| {
                    let c = self.collectives.get(*number);
                    c.is_some_and(|c| c.matched.runs.iter().any(|run| run.0 == predecessor))
                };
                earlier
                    .take_while(move |number| !together(number))
                    .filter_map(move |number| {
                        let c = self.collectives.get(number).filter(|c| is_late(c))?;
                        let at = c.matched.runs.iter().position(|run| run.0 == member)?;
                        let wait_ns = c.wait_ns.get(at).copied().flatten()?;
                        (c.last != Some(at) && wait_ns > c.error_ns).then_some((number, wait_ns))
                    })
            })
    }
}
