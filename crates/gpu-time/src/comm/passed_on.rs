//! Delays that ranks pass on: a rank that waits in one group, or for a message, arrives late in another
//! group, and the ranks there wait for the one that delayed it.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use trace_model::kernel::collective::CollectiveOp;

use crate::comm::cause::{Cause, CauseKind};
use crate::comm::digest::RankDigest;
use crate::comm::job::{CollectiveTime, avoidable, is_late, waiting};

/// Maximum number of messages through which a delay is followed back.
const HOPS: usize = 64;

/// Maximum number of runs of a rank that are searched for its last meeting with another one.
const LOOK_BACK: usize = 4_096;

/// Index of a digest, and index of a run in it.
type RunAt = (usize, usize);

/// Part of a delay, and the collective and the rank that it comes from.
struct Share {
    origin: usize,
    member: usize,
    ns: i64,
}

/// A late run, and the run of the rank with which it is compared; without that one, what delayed it is not known.
#[derive(Clone, Copy)]
struct LateRun {
    run: RunAt,
    reference: Option<RunAt>,
}

/// The two sides of a message between two ranks that differ in duration.
#[derive(Clone, Copy)]
pub(crate) struct Sides {
    /// The side that started first, and its wait for the other one.
    pub(crate) waits: (usize, i64),
    /// The side that came later.
    pub(crate) later: RunAt,
}

/// Returns which side of a message between two ranks waited for the other one; `None` for other collectives.
///
/// Both sides end together, so the one that lasts longer started earlier, by the difference of the durations: no clock is needed, and a
/// send that is buffered waits for nobody.
pub(crate) fn waiting_side(digests: &[RankDigest], c: &CollectiveTime) -> Option<Sides> {
    if c.synchronising || c.what.op != Some(CollectiveOp::SendRecv) {
        return None;
    }
    let [one, other] = c.matched.runs.as_slice() else {
        return None;
    };
    let duration = |at: &RunAt| Some(digests.get(at.0)?.runs.get(at.1)?.duration_ns());
    let difference = duration(one)?.saturating_sub(duration(other)?);
    Some(match difference >= 0 {
        true => Sides {
            waits: (one.0, difference),
            later: *other,
        },
        false => Sides {
            waits: (other.0, difference.saturating_neg()),
            later: *one,
        },
    })
}

/// Charges the delay of each late collective to its origins: sets
/// [`CollectiveTime::passed_on_ns`], [`CollectiveTime::origins`] and [`CollectiveTime::charged_ns`], and
/// the cause of delays that are passed on for the larger part.
///
/// The last rank of a collective came later than the one before it (its *predecessor*) by its own
/// work, and by its waits since both last left a collective together. The waits are charged to the
/// last ranks of the collectives in which it waited, whose delay may be passed on as well. Waits for
/// messages count as far as they exceed those of the predecessor, since all ranks of a stage of a
/// pipeline wait for the stage before it. Cost: for
/// each late collective the collectives of its last rank since then.
pub(crate) fn charge(digests: &[RankDigest], collectives: &mut [CollectiveTime]) {
    let at: HashMap<RunAt, usize, FxBuildHasher> = collectives
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
    let mut passed_on: Vec<(usize, BTreeMap<usize, i64>, Option<usize>)> = Vec::new();
    for (number, shares) in &late {
        let Some(c) = collectives.get(*number) else {
            continue;
        };
        let others = waiting(c);
        let (mut sum, mut largest) = (0_i64, None::<&Share>);
        let mut origins: BTreeMap<usize, i64> = BTreeMap::new();
        for share in shares {
            sum = sum.saturating_add(share.ns);
            let of = origins.entry(share.member).or_default();
            *of = of.saturating_add(share.ns);
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
        let origin = largest.filter(|_| is_most).map(|share| share.member);
        passed_on.push((*number, origins, origin));
    }
    for (c, charged) in collectives.iter_mut().zip(charged) {
        c.charged_ns = charged;
        c.passed_on_ns = 0;
        c.origins.clear();
    }
    for (number, origins, origin) in passed_on {
        let Some(c) = collectives.get_mut(number) else {
            continue;
        };
        c.passed_on_ns = origins.values().sum();
        c.origins = origins.into_iter().collect();
        let origin = origin.and_then(|member| digests.get(member));
        if let (Some(origin), Some(cause)) = (origin, &mut c.cause) {
            *cause = Cause {
                kind: CauseKind::PassedOn,
                name: Some(format!("rank {}", origin.rank)),
                here_ns: c.passed_on_ns,
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
    at: HashMap<RunAt, usize, FxBuildHasher>,
}

/// A delay to trace back.
struct Open {
    number: usize,
    late: LateRun,
    ns: i64,
    /// Number of messages on the way here.
    hops: usize,
}

impl History<'_> {
    /// Returns the collectives that delayed the last rank of collective `number`, with their parts of
    /// its delay `late_ns`.
    fn origins(&self, number: usize, late_ns: i64) -> Vec<Share> {
        let mut out = Vec::new();
        let Some(first) = self.late_run(number) else {
            return out;
        };
        // Each is earlier than the one that leads to it.
        let mut open = vec![Open {
            number,
            late: first,
            ns: late_ns,
            hops: 0,
        }];
        let mut is_first = true;
        while let Some(of) = open.pop() {
            let mut rest = of.ns;
            if of.hops <= HOPS {
                for wait in self.waits_before(of.late) {
                    let part = wait.ns.min(rest);
                    rest -= part;
                    open.push(Open {
                        number: wait.number,
                        late: wait.late,
                        ns: part,
                        hops: of.hops + usize::from(wait.is_message),
                    });
                    if rest == 0 {
                        break;
                    }
                }
            }
            if !is_first && rest > 0 {
                out.push(Share {
                    origin: of.number,
                    member: of.late.run.0,
                    ns: rest,
                });
            }
            is_first = false;
        }
        out
    }

    /// Returns the run of a collective that started last, compared with the one before it.
    fn late_run(&self, number: usize) -> Option<LateRun> {
        let c = self.collectives.get(number)?;
        let last = c.last?;
        let starts = c.start_ns.iter().enumerate().filter(|(i, _)| *i != last);
        let before = starts
            .filter_map(|(i, start)| Some((i, (*start)?)))
            .max_by_key(|(i, start)| (*start, std::cmp::Reverse(*i)));
        Some(LateRun {
            run: *c.matched.runs.get(last)?,
            reference: before.and_then(|(i, _)| c.matched.runs.get(i).copied()),
        })
    }

    /// Returns the collectives of a rank before one of its runs, latest first, up to the last one with another rank.
    fn since_met(&self, run: RunAt, other: usize) -> impl Iterator<Item = usize> {
        let (member, place) = run;
        let digest = self.digests.get(member);
        let start_ns = digest.and_then(|digest| Some(digest.runs.get(place)?.start_ns));
        let earlier = (0..place).rev().take(LOOK_BACK).filter_map(move |place| {
            let run = digest?.runs.get(place)?;
            let number = *self.at.get(&(member, place))?;
            // One that is still running delays nothing.
            (run.end_ns <= start_ns?).then_some(number)
        });
        earlier.take_while(move |number| {
            let c = self.collectives.get(*number);
            !c.is_some_and(|c| c.matched.runs.iter().any(|run| run.0 == other))
        })
    }

    /// Returns the message that a collective is for one of its ranks; `None` if it is no message.
    fn message(&self, number: usize, member: usize) -> Option<Message> {
        let c = self.collectives.get(number)?;
        let sides = waiting_side(self.digests, c)?;
        let runs = c.matched.runs.iter();
        let own = *runs.clone().find(|run| run.0 == member)?;
        let digest = self.digests.get(member)?;
        Some(Message {
            op: digest
                .what(digest.runs.get(own.1)?)
                .and_then(|what| what.op),
            wait_ns: if sides.waits.0 == member {
                sides.waits.1
            } else {
                0
            },
            other: *runs.clone().find(|run| run.0 != member)?,
        })
    }

    /// Returns the collectives and messages in which a late rank waited since it was last in a collective with the rank it is compared
    /// with, latest first.
    fn waits_before(&self, late: LateRun) -> Vec<Wait> {
        let Some(reference) = late.reference else {
            return Vec::new();
        };
        let member = late.run.0;
        let messages = self.since_met(reference, member);
        let mut of_reference: Vec<Message> = messages
            .filter_map(|number| self.message(number, reference.0))
            .collect();
        of_reference.reverse();
        // What the other rank waited for messages is no difference between the two.
        let mut common: i64 = of_reference.iter().map(|message| message.wait_ns).sum();
        let mut out = Vec::new();
        for number in self.since_met(late.run, reference.0) {
            if let Some(message) = self.message(number, member) {
                let alike = message.wait_ns.min(common);
                common -= alike;
                // Its counterpart: the latest message in the same direction.
                let same = of_reference.iter().rposition(|of| of.op == message.op);
                let counterpart = same.map(|at| of_reference.remove(at).other);
                if message.wait_ns > alike {
                    out.push(Wait {
                        number,
                        late: LateRun {
                            run: message.other,
                            reference: counterpart.filter(|run| run.0 != message.other.0),
                        },
                        ns: message.wait_ns - alike,
                        is_message: true,
                    });
                }
                continue;
            }
            let Some(c) = self.collectives.get(number).filter(|c| is_late(c)) else {
                continue;
            };
            let at = c.matched.runs.iter().position(|run| run.0 == member);
            let wait = at.and_then(|at| c.wait_ns.get(at).copied().flatten());
            let wait = wait.filter(|wait| c.last != at && *wait > c.error_ns);
            if let Some((ns, late)) = wait.zip(self.late_run(number)) {
                out.push(Wait {
                    number,
                    late,
                    ns,
                    is_message: false,
                });
            }
        }
        out
    }
}

/// One side of a message between two ranks.
struct Message {
    /// Operation of this side: a send or a receive.
    op: Option<CollectiveOp>,
    /// Its wait for the other side.
    wait_ns: i64,
    /// Run of the other side.
    other: RunAt,
}

/// A wait of a rank.
struct Wait {
    number: usize,
    /// The run that it waited for.
    late: LateRun,
    ns: i64,
    is_message: bool,
}
