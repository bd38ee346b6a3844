//! Analyzes all ranks of a job together: clocks, wait time, and straggler.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::Serialize;
use trace_model::kernel::collective::Collective;

use crate::comm::cause::{self, Cause};
use crate::comm::digest::{RankDigest, Run};
use crate::comm::passed_on;
use rank_align::real::{count, real};
use rank_align::{
    AlignedRun, Arrivals, Group, JobSize, Matched, RankClock, RankRun, clocks, is_synchronising,
    match_ranks, may_lack_members, share_clocks,
};

/// One collective on the ranks that recorded it. Times are nanoseconds on the first rank's clock,
/// base time included.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct CollectiveTime {
    /// Its group and kernels.
    pub matched: Matched,
    /// The collective, as recorded by the first rank that has metadata.
    pub what: Collective,
    /// `true` if it ends at the same time on all ranks. Wait time is known only for these.
    pub synchronising: bool,
    /// Number of members of the group that did not record it; `None` if the members are unknown.
    pub missing: Option<usize>,
    /// `true` if neither the members nor the size of the group are known, and the job has more ranks than are recorded: any
    /// of these may be a member.
    pub of_larger_job: bool,
    /// Start of each of its runs, if the rank's clock is known.
    pub start_ns: Vec<Option<i64>>,
    /// Time from the start of each of its runs until the last one started. Empty unless at least
    /// two ranks of known clock recorded it, it is synchronizing, and no member of the group is
    /// known to be missing: that member may have come last.
    pub wait_ns: Vec<Option<i64>>,
    /// Shortest duration: the time of the collective without waiting.
    pub latency_ns: i64,
    /// Time from the first to the last recorded start; `None` if it is not synchronizing or
    /// recorded on fewer than two ranks of known clock.
    pub skew_ns: Option<i64>,
    /// Time from the first to the last end.
    pub end_skew_ns: Option<i64>,
    /// Half the width of the interval around the skew: the errors of the two clocks.
    pub error_ns: i64,
    /// Index in `matched.runs` of the run that started last; `None` if several did.
    pub last: Option<usize>,
    /// Index of the run that started first; `None` if several did.
    pub first: Option<usize>,
    /// Delay of the last run behind the one before it. Multiplied by the number of waiting ranks,
    /// it is the time lost to the last rank alone.
    pub late_ns: Option<i64>,
    /// Part of `late_ns` by which collectives of other groups delayed the last run: the rank waited
    /// in them since it last met the rank that came before it here.
    pub passed_on_ns: i64,
    /// Time that other ranks lost to the last run's own delay, here and in later collectives to
    /// which ranks passed it on. For a message between two ranks, that of the side that came later,
    /// in later collectives only.
    pub charged_ns: i64,
    /// Ranks that caused `passed_on_ns`: index of the digest, and its part.
    #[serde(skip)]
    pub origins: Vec<(usize, i64)>,
    /// Where waits are unknown because of a missing member: time from the start of each of its runs
    /// until the last recorded one, which is a lower bound of its wait. Else empty.
    pub least_wait_ns: Vec<Option<i64>>,
    /// `true` if one run ends before another starts, by more than the clocks' errors. Then the runs
    /// are not one collective, or a clock is wrong.
    pub contradiction: bool,
    /// Cause of the late start of the last run; `None` if it was late by less than the error.
    pub cause: Option<Cause>,
}

impl CollectiveTime {
    /// Returns `true` if a member of the group is not recorded: the latency may include waiting for
    /// it, so that no bandwidth can be derived. Where the size of the group is unknown, a single
    /// run counts as an incomplete record, and so does any collective of a job with more ranks than
    /// are recorded.
    pub fn includes_waiting(&self) -> bool {
        let runs = self.matched.runs.len();
        let members = self.missing.map(|missing| runs + missing);
        may_lack_members(runs, members, self.what.group_size, self.of_larger_job)
    }

    /// Returns `true` if the wait times of its runs are known.
    pub fn knows_waits(&self) -> bool {
        !self.wait_ns.is_empty()
    }

    /// Returns the algorithm bandwidth in bytes per second: message size divided by latency. The
    /// message size is the larger of input and output: the output of gathers, the input of
    /// scatters. `None` where [`CollectiveTime::includes_waiting`].
    pub fn algbw_bytes_per_s(&self) -> Option<f64> {
        let what = (!self.includes_waiting()).then_some(&self.what)?;
        Some(what.algbw(self.latency_ns)? * 1e9)
    }

    /// Returns the bus bandwidth in bytes per second: the algorithm bandwidth times the factor of
    /// nccl-tests.
    pub fn busbw_bytes_per_s(&self) -> Option<f64> {
        let what = (!self.includes_waiting()).then_some(&self.what)?;
        Some(what.busbw(self.latency_ns)? * 1e9)
    }

    /// Returns `true` if the last rank was late by waits in other groups, at least in part.
    pub fn is_delayed_by_others(&self) -> bool {
        self.passed_on_ns > 0
    }

    /// Returns the sum of all wait times.
    pub fn total_wait_ns(&self) -> i64 {
        self.wait_ns.iter().flatten().sum()
    }
}

/// Wait time of one rank, and the delay that it caused to other ranks.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[non_exhaustive]
pub struct RankSummary {
    /// Number of synchronizing collectives with known wait times in which it took part.
    pub collectives: usize,
    /// Time that it waited for other ranks.
    pub waited_ns: i64,
    /// Time that other ranks waited in collectives where it came last, without delays that others
    /// passed on to it, and with those that it passed on to others, also by messages between two ranks.
    pub inflicted_ns: i64,
    /// Part of `inflicted_ns` that it would have avoided by arriving with the rank before it.
    pub avoidable_ns: i64,
    /// Number of times it came last, by more than the error of the clocks.
    pub times_last: usize,
    /// Number of times it came first.
    pub times_first: usize,
    /// Causes of its late arrivals, largest first: (cause, count, avoidable time).
    pub causes: Vec<(Cause, usize, i64)>,
}

/// The rank that delayed the other ranks most.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Straggler {
    /// Index of its digest.
    pub member: usize,
    /// Time that the other ranks waited for it.
    pub inflicted_ns: i64,
    /// Part of `inflicted_ns` that it would have avoided by arriving with the rank before it.
    pub avoidable_ns: i64,
    /// Its share of all avoidable time, 0 to 1.
    pub share: f64,
    /// Number of times it came last.
    pub times_last: usize,
    /// Number of standard deviations by which its avoidable time exceeds the expectation if every
    /// rank were equally likely to come last in each collective.
    pub z: f64,
    /// `true` if `z` exceeds 3. Otherwise the delay may be chance; single late arrivals are never
    /// certain.
    pub persistent: bool,
}

/// Lower bound of the time that ranks waited for one rank, in collectives of which a member of the
/// group is not recorded. That member may only have started later still.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct LeastWaiting {
    /// Index of the digest of the rank that started last of those recorded.
    pub member: usize,
    /// Number of times it did, by more than the error of the clocks.
    pub times_last: usize,
    /// Number of collectives of which at least two ranks of known clock are recorded.
    pub collectives: usize,
    /// Time that the other recorded ranks waited at least until it started.
    pub wait_ns: i64,
    /// The same for all recorded ranks that started last.
    pub total_ns: i64,
}

/// Result of [`Job::new`].
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Job {
    /// Clock of each digest relative to the first one's; `None` if no synchronizing collective
    /// joins it to the others.
    pub clocks: Vec<Option<RankClock>>,
    /// Groups of ranks.
    pub groups: Vec<Group>,
    /// All collectives, by group and time.
    pub collectives: Vec<CollectiveTime>,
    /// Summary of each digest.
    pub ranks: Vec<RankSummary>,
    /// The rank that cost the other ranks most, if any cost more than the clocks' error.
    pub straggler: Option<Straggler>,
    /// Waiting that is certain although a member of each group is missing; see [`LeastWaiting`].
    pub least_waiting: Option<LeastWaiting>,
}

impl Job {
    /// Matches the collectives of `digests`, which are in order of rank
    /// ([`crate::comm::assign_ranks`]), aligns their clocks and computes wait times.
    ///
    /// Cost: n log n in the number of collective kernels.
    pub fn new(digests: &[RankDigest]) -> Self {
        let runs: Vec<Vec<RankRun<'_>>> = digests.iter().map(runs_of).collect();
        let matching = match_ranks(&runs);
        let mut clocks = clocks(&runs, &matching.collectives);
        let recordings: Vec<Option<&str>> = digests.iter().map(RankDigest::recording).collect();
        share_clocks(&mut clocks, &recordings);
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
        let mut job = Self {
            least_waiting: least_waiting(&collectives),
            clocks,
            groups: matching.groups,
            collectives,
            ranks: Vec::new(),
            straggler: None,
        };
        job.charge(digests);
        job
    }

    /// Charges all delays to the ranks that caused them, from the waits of [`Self::collectives`]: needed again only where these were
    /// changed, such as by joining jobs. `digests` are those of all members.
    ///
    /// Cost: for each late collective the runs of its last rank since it last met the one before it.
    pub fn charge(&mut self, digests: &[RankDigest]) {
        passed_on::charge(digests, &mut self.collectives);
        self.ranks = summaries(digests, &self.collectives);
        self.straggler = straggler(&self.collectives, &self.ranks);
    }

    /// Returns the number of kernels without a counterpart on another rank, in groups of at least
    /// two recorded ranks.
    pub fn unmatched(&self) -> usize {
        let shared = |c: &&CollectiveTime| {
            let group = self.groups.get(c.matched.group);
            group.is_some_and(|g| g.members.len() > 1)
        };
        let alone = |c: &&CollectiveTime| c.matched.runs.len() == 1;
        self.collectives.iter().filter(shared).filter(alone).count()
    }

    /// Returns `true` if the wait times of any collective are known.
    pub fn knows_waits(&self) -> bool {
        self.ranks.iter().any(|rank| rank.collectives > 0)
    }

    /// Returns the number of collectives recorded by several ranks but not by every member of the
    /// group: their wait times are unknown.
    pub fn incomplete(&self) -> usize {
        let several = |c: &&CollectiveTime| c.matched.runs.len() > 1 && c.synchronising;
        let all = self.collectives.iter().filter(several);
        all.filter(|c| c.includes_waiting()).count()
    }

    /// Returns the number of collectives whose runs contradict each other.
    pub fn contradictions(&self) -> usize {
        self.collectives.iter().filter(|c| c.contradiction).count()
    }

    /// Returns the collectives whose last rank was late by more than the error, those first whose
    /// last rank cost the others most.
    pub fn late(&self) -> Vec<&CollectiveTime> {
        let mut late: Vec<&CollectiveTime> =
            self.collectives.iter().filter(|c| is_late(c)).collect();
        late.sort_by_key(|c| std::cmp::Reverse((c.charged_ns, avoidable(c))));
        late
    }
}

/// Returns `true` if the last rank was late by more than the clocks' errors.
pub(crate) fn is_late(c: &CollectiveTime) -> bool {
    !c.contradiction && c.late_ns.is_some_and(|late| late > c.error_ns)
}

/// Returns the time that the other ranks lost to the last one alone.
pub(crate) fn avoidable(c: &CollectiveTime) -> i64 {
    c.late_ns.unwrap_or(0).saturating_mul(waiting(c))
}

/// Returns the number of ranks that waited for the last one.
pub(crate) fn waiting(c: &CollectiveTime) -> i64 {
    let waiting = c.wait_ns.iter().flatten().count().saturating_sub(1);
    i64::try_from(waiting).unwrap_or(i64::MAX)
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

/// Returns the runs of a rank in the form of [`rank_align`].
fn runs_of(digest: &RankDigest) -> Vec<RankRun<'_>> {
    let run = |run: &Run| RankRun {
        kernel: digest.kernel_name(run),
        what: digest.what(run),
        seq: run.seq,
        device: run.device,
        stream: run.stream,
        library: run.library,
        pair: digest.what(run).and_then(|what| what.pair(digest.rank.0)),
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
    if group.key.pair.is_some() && matched.runs.len() == 2 {
        Arc::make_mut(&mut what.kind).set_message();
    }
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
        passed_on_ns: 0,
        charged_ns: 0,
        origins: Vec::new(),
        least_wait_ns: Vec::new(),
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
        // The last of the recorded ranks may have waited for one that is not recorded.
        if !arrivals.contradiction {
            out.least_wait_ns = arrivals.wait_ns;
        }
        return Some(out);
    }
    out.late_ns = Some(arrivals.late_ns);
    out.first = arrivals.first;
    out.last = arrivals.last;
    out.wait_ns = arrivals.wait_ns;
    Some(out)
}

fn summaries(digests: &[RankDigest], collectives: &[CollectiveTime]) -> Vec<RankSummary> {
    let mut out = vec![RankSummary::default(); digests.len()];
    let mut causes: Vec<BTreeMap<Cause, (usize, i64)>> = vec![BTreeMap::new(); digests.len()];
    for c in collectives.iter().filter(|c| c.charged_ns > 0) {
        // What a message passed on costs nothing in the message itself, of which no wait is counted.
        if let Some((later, _)) = passed_on::waiting_side(digests, c).map(|side| side.later)
            && let Some(rank) = out.get_mut(later)
        {
            rank.inflicted_ns = rank.inflicted_ns.saturating_add(c.charged_ns);
            rank.avoidable_ns = rank.avoidable_ns.saturating_add(c.charged_ns);
        }
    }
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
            // The charge differs from the delay by what others passed on to it, and it to others.
            let passed_on = c.charged_ns.saturating_sub(avoidable(c));
            if is_late(c) {
                rank.inflicted_ns += c.total_wait_ns() + passed_on;
                rank.times_last += 1;
                rank.avoidable_ns += c.charged_ns;
                if let (Some(cause), Some(causes)) = (&c.cause, causes.get_mut(run.0)) {
                    let sum = causes.entry(cause.kind_and_name()).or_default();
                    sum.0 += 1;
                    sum.1 += c.charged_ns;
                }
            } else {
                rank.inflicted_ns += c.total_wait_ns();
            }
        }
    }
    for (rank, causes) in out.iter_mut().zip(causes) {
        rank.causes = causes.into_iter().map(|(c, (n, ns))| (c, n, ns)).collect();
        rank.causes.sort_by_key(|c| std::cmp::Reverse((c.2, c.1)));
    }
    out
}

fn least_waiting(collectives: &[CollectiveTime]) -> Option<LeastWaiting> {
    // By the rank that started last of those recorded: how often, and the time waited for it.
    let mut by_member: BTreeMap<usize, (usize, i64)> = BTreeMap::new();
    let (mut known, mut total_ns) = (0, 0);
    for c in collectives.iter().filter(|c| !c.least_wait_ns.is_empty()) {
        known += 1;
        let waits: i64 = c.least_wait_ns.iter().flatten().sum();
        let mut last = c.least_wait_ns.iter().zip(&c.matched.runs);
        let last = last.find(|(wait, _)| **wait == Some(0));
        let shortest = c.least_wait_ns.iter().flatten().filter(|wait| **wait > 0);
        let is_late = shortest.min().is_some_and(|wait| *wait > c.error_ns);
        if let Some((_, run)) = last.filter(|_| is_late) {
            let sum = by_member.entry(run.0).or_default();
            *sum = (sum.0 + 1, sum.1.saturating_add(waits));
            total_ns += waits;
        }
    }
    let (member, (times_last, wait_ns)) = by_member
        .into_iter()
        .max_by_key(|(member, sum)| (sum.1, std::cmp::Reverse(*member)))?;
    Some(LeastWaiting {
        member,
        times_last,
        collectives: known,
        wait_ns,
        total_ns,
    })
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
    // Expectation and variance under chance: the sum of w / m, and of w^2 (1 / m) (1 - 1 / m).
    let (mut mean, mut variance) = (0.0, 0.0);
    for c in collectives.iter().filter(|c| is_late(c)) {
        if c.matched.runs.iter().any(|r| r.0 == member) {
            let w = real(c.charged_ns);
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
