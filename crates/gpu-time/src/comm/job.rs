//! All ranks of a job together: clocks, waits, and who made the others wait.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use trace_model::kernel::collective::Collective;

use crate::comm::cause::{self, Cause};
use crate::comm::digest::{RankDigest, Run};
use rank_align::real::{count, real};
use rank_align::{
    AlignedRun, Arrivals, Group, JobSize, Matched, RankClock, RankRun, clocks, is_synchronising,
    match_ranks, may_lack_members,
};

/// One collective on the ranks that recorded it. Times are nanoseconds on the first rank's clock,
/// base time included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CollectiveTime {
    /// Its group and kernels.
    pub matched: Matched,
    /// What it is, as the first rank that knows says.
    pub what: Collective,
    /// Does it end at the same time everywhere? Only of these waits are known.
    pub synchronising: bool,
    /// Members of the group that did not record it; none if the members are not known.
    pub missing: Option<usize>,
    /// `true` if neither the members nor the size of the group are known, and the job has more ranks than are recorded: any
    /// of these may be a member.
    pub of_larger_job: bool,
    /// For each of its runs: start, if the rank's clock is known.
    pub start_ns: Vec<Option<i64>>,
    /// For each of its runs: how long it ran until the last one started. Empty unless at least two
    /// ranks of known clock recorded it, it is synchronising, and no member of the group is known
    /// to be missing: that one may have come last.
    pub wait_ns: Vec<Option<i64>>,
    /// The shortest duration: what is left of the time when nobody is waited for.
    pub latency_ns: i64,
    /// From the first to the last recorded start; none if it is not synchronising or recorded on
    /// fewer than two ranks of known clock.
    pub skew_ns: Option<i64>,
    /// From the first to the last end.
    pub end_skew_ns: Option<i64>,
    /// Half the width of the interval around the skew: the errors of the two clocks.
    pub error_ns: i64,
    /// The run (place in `matched.runs`) that started last; none if several did.
    pub last: Option<usize>,
    /// The run that started first; none if several did.
    pub first: Option<usize>,
    /// How much later the last one came than the one before it; times the number of those who
    /// waited it is what they lost to the last one alone.
    pub late_ns: Option<i64>,
    /// Does one run end before another starts, by more than the clocks' errors? Then the runs are
    /// not one collective, or a clock is wrong.
    pub contradiction: bool,
    /// What made the last one late; none if it was late by less than the error.
    pub cause: Option<Cause>,
}

impl CollectiveTime {
    /// `true` if a member of the group is not recorded: the latency may include waiting for it, so
    /// that no bandwidth follows from it. Where the size of the group is not known, one run alone is
    /// taken for an incomplete record, and so is any of a job with more ranks than are recorded.
    pub fn includes_waiting(&self) -> bool {
        let runs = self.matched.runs.len();
        let members = self.missing.map(|missing| runs + missing);
        may_lack_members(runs, members, self.what.group_size, self.of_larger_job)
    }

    /// `true` if the waits of its runs are known.
    pub fn knows_waits(&self) -> bool {
        !self.wait_ns.is_empty()
    }

    /// Algorithm bandwidth over the latency in bytes per second; none where
    /// [`CollectiveTime::includes_waiting`]: message size (the larger of in
    /// and out, of gathers what comes out, of scatters what goes in) over time.
    pub fn algbw_bytes_per_s(&self) -> Option<f64> {
        let what = (!self.includes_waiting()).then_some(&self.what)?;
        Some(what.algbw(self.latency_ns)? * 1e9)
    }

    /// Bus bandwidth in bytes per second: the algorithm bandwidth times the factor of nccl-tests.
    pub fn busbw_bytes_per_s(&self) -> Option<f64> {
        let what = (!self.includes_waiting()).then_some(&self.what)?;
        Some(what.busbw(self.latency_ns)? * 1e9)
    }

    /// All waits together.
    pub fn total_wait_ns(&self) -> i64 {
        self.wait_ns.iter().flatten().sum()
    }
}

/// What one rank did to the others and they to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankSummary {
    /// Synchronising collectives with known waits that it took part in.
    pub collectives: usize,
    /// How long it waited for others.
    pub waited_ns: i64,
    /// How long others waited in collectives where it came last.
    pub inflicted_ns: i64,
    /// The part of it that would not have been lost had it come with the one before it.
    pub avoidable_ns: i64,
    /// How often it came last, by more than the error of the clocks.
    pub times_last: usize,
    /// How often it came first.
    pub times_first: usize,
    /// The causes of its being last, the largest first: (cause, how often, avoidable time).
    pub causes: Vec<(Cause, usize, i64)>,
}

/// The rank that made the others wait most.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Straggler {
    /// Place of the digest.
    pub member: usize,
    /// How long the others waited for it.
    pub inflicted_ns: i64,
    /// The part that would not have been lost had it come with the one before it.
    pub avoidable_ns: i64,
    /// Its part of all avoidable time, 0 to 1.
    pub share: f64,
    /// How often it was last.
    pub times_last: usize,
    /// How many standard deviations its avoidable time is above what chance would give it if in
    /// each collective every rank were equally likely to come last.
    pub z: f64,
    /// Is that more than 3? If not it may have been its turn; single late arrivals are never
    /// certain.
    pub persistent: bool,
}

/// What [`Job::new`] found.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Job {
    /// By digest: its clock against the first one's; none if no synchronising collective joins it
    /// to the others.
    pub clocks: Vec<Option<RankClock>>,
    /// Groups of ranks.
    pub groups: Vec<Group>,
    /// All collectives, by group and time.
    pub collectives: Vec<CollectiveTime>,
    /// By digest.
    pub ranks: Vec<RankSummary>,
    /// The rank that cost the others most, if any cost more than the clocks' error.
    pub straggler: Option<Straggler>,
}

impl Job {
    /// Matches the collectives of `digests`, which are in order of rank ([`crate::comm::assign_ranks`]),
    /// aligns their clocks and finds out who waited for whom.
    ///
    /// Cost: n log n in the number of collective kernels.
    pub fn new(digests: &[RankDigest]) -> Self {
        let runs: Vec<Vec<RankRun<'_>>> = digests.iter().map(runs_of).collect();
        let matching = match_ranks(&runs);
        let clocks = clocks(&runs, &matching.collectives);
        let size = JobSize::of(digests.iter().map(|d| d.world_size));
        let mut collectives: Vec<CollectiveTime> = matching
            .collectives
            .into_iter()
            .filter_map(|m| {
                let group = matching.groups.get(m.group)?;
                time(digests, size, &clocks, group, m)
            })
            .collect();
        for collective in &mut collectives {
            if is_late(collective) {
                collective.cause = cause::explain(digests, &clocks, collective);
            }
        }
        let ranks = summaries(digests.len(), &collectives);
        let straggler = straggler(&collectives, &ranks);
        Self {
            clocks,
            groups: matching.groups,
            collectives,
            ranks,
            straggler,
        }
    }

    /// Kernels that no other rank has a partner for, of groups of at least two recorded ranks.
    pub fn unmatched(&self) -> usize {
        let shared = |c: &&CollectiveTime| {
            let group = self.groups.get(c.matched.group);
            group.is_some_and(|g| g.members.len() > 1)
        };
        let alone = |c: &&CollectiveTime| c.matched.runs.len() == 1;
        self.collectives.iter().filter(shared).filter(alone).count()
    }

    /// `true` if the waits of any collective are known.
    pub fn knows_waits(&self) -> bool {
        self.ranks.iter().any(|rank| rank.collectives > 0)
    }

    /// Collectives that several ranks recorded, but not every member of the group: their waits are
    /// not known.
    pub fn incomplete(&self) -> usize {
        let several = |c: &&CollectiveTime| c.matched.runs.len() > 1 && c.synchronising;
        let all = self.collectives.iter().filter(several);
        all.filter(|c| c.includes_waiting()).count()
    }

    /// Collectives of which runs contradict each other.
    pub fn contradictions(&self) -> usize {
        self.collectives.iter().filter(|c| c.contradiction).count()
    }

    /// The collectives whose last rank was late by more than the error, most avoidable time first.
    pub fn late(&self) -> Vec<&CollectiveTime> {
        let mut late: Vec<&CollectiveTime> =
            self.collectives.iter().filter(|c| is_late(c)).collect();
        late.sort_by_key(|c| std::cmp::Reverse(avoidable(c)));
        late
    }
}

/// Was the last one late by more than the clocks' errors?
fn is_late(c: &CollectiveTime) -> bool {
    !c.contradiction && c.late_ns.is_some_and(|late| late > c.error_ns)
}

/// What the others lost to the last one alone.
pub(crate) fn avoidable(c: &CollectiveTime) -> i64 {
    let waiting = c.wait_ns.iter().flatten().count().saturating_sub(1);
    let waiting = i64::try_from(waiting).unwrap_or(i64::MAX);
    c.late_ns.unwrap_or(0).saturating_mul(waiting)
}

fn what_of(digests: &[RankDigest], m: &Matched) -> Collective {
    let all = || {
        m.runs.iter().filter_map(|(member, place)| {
            let digest = digests.get(*member)?;
            digest.what(digest.runs.get(*place)?)
        })
    };
    let known = all()
        .find(|w| w.bytes.is_some())
        .or_else(|| all().find(|w| w.op.is_some()));
    let mut what = known
        .or_else(|| all().next())
        .cloned()
        .unwrap_or_else(|| Collective::named("", None));
    let seq = m
        .runs
        .iter()
        .find_map(|(member, place)| digests.get(*member)?.runs.get(*place)?.seq);
    what.seq = seq;
    what
}

/// The runs of a rank as [`rank_align`] takes them.
fn runs_of(digest: &RankDigest) -> Vec<RankRun<'_>> {
    let run = |run: &Run| RankRun {
        kernel: digest.kernel_name(run),
        what: digest.what(run),
        seq: run.seq,
        device: run.device,
        stream: run.stream,
        library: run.library,
        end_ns: digest.end_ns(run),
    };
    digest.runs.iter().map(run).collect()
}

fn time(
    digests: &[RankDigest],
    size: JobSize,
    clocks: &[Option<RankClock>],
    group: &Group,
    matched: Matched,
) -> Option<CollectiveTime> {
    let mut what = what_of(digests, &matched);
    if what.group_size.is_none()
        && let Some(world) = size.all_recorded()
        && matched.runs.len() == world as usize
    {
        Arc::make_mut(&mut what.kind).set_group_size(world);
    }
    let synchronising = is_synchronising(what.op);
    let runs: Vec<_> = matched
        .runs
        .iter()
        .filter_map(|(member, place)| {
            let digest = digests.get(*member)?;
            Some((*member, digest, digest.runs.get(*place)?))
        })
        .collect();
    let latency_ns = runs.iter().map(|r| r.2.duration_ns()).min()?;
    let aligned: Vec<Option<AlignedRun>> = runs
        .iter()
        .map(|(member, digest, run)| {
            let clock = clocks.get(*member).copied().flatten()?;
            Some(clock.align(digest.start_ns(run), digest.end_ns(run)))
        })
        .collect();
    let members = group.key.members();
    let missing = members.map(|m| m.len().saturating_sub(runs.len()));
    let of_larger_job = size.is_part() && missing.is_none() && what.group_size.is_none();
    let mut out = CollectiveTime {
        what,
        synchronising,
        missing,
        of_larger_job,
        start_ns: aligned.iter().map(|a| a.map(|a| a.start_ns)).collect(),
        wait_ns: Vec::new(),
        latency_ns,
        skew_ns: None,
        end_skew_ns: None,
        error_ns: 0,
        last: None,
        first: None,
        late_ns: None,
        contradiction: false,
        cause: None,
        matched,
    };
    let Some(arrivals) = Arrivals::of(&aligned).filter(|_| synchronising) else {
        return Some(out);
    };
    out.skew_ns = Some(arrivals.skew_ns);
    out.end_skew_ns = Some(arrivals.end_skew_ns);
    out.error_ns = arrivals.error_ns;
    out.contradiction = arrivals.contradiction;
    if out.includes_waiting() {
        // Whoever came last of the recorded ranks may have waited for one that is not recorded.
        return Some(out);
    }
    out.late_ns = Some(arrivals.late_ns);
    out.first = arrivals.first;
    out.last = arrivals.last;
    out.wait_ns = arrivals.wait_ns;
    Some(out)
}

fn summaries(members: usize, collectives: &[CollectiveTime]) -> Vec<RankSummary> {
    let mut out = vec![RankSummary::default(); members];
    let mut causes: Vec<BTreeMap<Cause, (usize, i64)>> = vec![BTreeMap::new(); members];
    for c in collectives
        .iter()
        .filter(|c| !c.wait_ns.is_empty() && !c.contradiction)
    {
        for (i, (wait, run)) in c.wait_ns.iter().zip(&c.matched.runs).enumerate() {
            let (Some(wait), Some(rank)) = (wait, out.get_mut(run.0)) else {
                continue;
            };
            rank.collectives += 1;
            rank.waited_ns += wait;
            rank.times_first += usize::from(c.first == Some(i));
            if c.last != Some(i) {
                continue;
            }
            rank.inflicted_ns += c.total_wait_ns();
            if is_late(c) {
                rank.times_last += 1;
                rank.avoidable_ns += avoidable(c);
                if let (Some(cause), Some(causes)) = (&c.cause, causes.get_mut(run.0)) {
                    let sum = causes.entry(cause.kind_and_name()).or_default();
                    sum.0 += 1;
                    sum.1 += avoidable(c);
                }
            }
        }
    }
    for (rank, causes) in out.iter_mut().zip(causes) {
        rank.causes = causes.into_iter().map(|(c, (n, ns))| (c, n, ns)).collect();
        rank.causes.sort_by_key(|c| std::cmp::Reverse((c.2, c.1)));
    }
    out
}

fn straggler(collectives: &[CollectiveTime], ranks: &[RankSummary]) -> Option<Straggler> {
    let total: i64 = ranks.iter().map(|r| r.avoidable_ns).sum();
    let (member, most) = ranks
        .iter()
        .enumerate()
        .max_by_key(|(i, r)| (r.avoidable_ns, std::cmp::Reverse(*i)))?;
    if most.avoidable_ns == 0 {
        return None;
    }
    // Under chance alone: the sum of w / m, and of w^2 (1 / m) (1 - 1 / m).
    let (mut mean, mut variance) = (0.0, 0.0);
    for c in collectives.iter().filter(|c| is_late(c)) {
        if c.matched.runs.iter().any(|r| r.0 == member) {
            let w = real(avoidable(c));
            let p = 1.0 / count(c.wait_ns.iter().flatten().count().max(1));
            mean += w * p;
            variance += w * w * p * (1.0 - p);
        }
    }
    let z = if variance > 0.0 {
        (real(most.avoidable_ns) - mean) / variance.sqrt()
    } else {
        0.0
    };
    Some(Straggler {
        member,
        inflicted_ns: most.inflicted_ns,
        avoidable_ns: most.avoidable_ns,
        share: real(most.avoidable_ns) / real(total.max(1)),
        times_last: most.times_last,
        z,
        persistent: z > 3.0,
    })
}
