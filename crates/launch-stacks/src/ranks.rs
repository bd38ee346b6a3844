//! Joins the same collectives on several ranks: clock offsets, last rank, wait times.

use std::collections::BTreeSet;
use std::sync::Arc;

use rank_align::{
    AlignedRun, Arrivals, Group, JobSize, Matched, Matching, RankClock, RankRun, is_synchronising,
    may_lack_members,
};
use trace_model::kernel::collective::Collective;
use trace_model::{Rank, SliceId, Trace};

use crate::measure::CollectiveRun;

/// The collectives of one rank.
#[derive(Clone, Copy, Debug)]
pub struct RankTrace<'a> {
    /// The rank.
    pub rank: Rank,
    /// Its trace, for times.
    pub trace: &'a Trace,
    /// Its collectives in ascending time.
    pub runs: &'a [CollectiveRun],
}

/// Joined collectives of the ranks, and their clock differences.
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Alignment {
    /// Clock of each rank, in the order given, relative to the first one's. `None` if no collective
    /// that waits for all ranks joins the rank to the others.
    pub clocks: Vec<Option<RankClock>>,
    /// The collectives; indices of runs refer to [`RankTrace::runs`].
    pub joined: Matching,
}

impl Alignment {
    /// Returns the offset of a rank's clock ahead of the first one's in the middle of the
    /// recording, in nanoseconds, after applying the traces' base times.
    pub fn ahead_ns(&self, member: usize) -> Option<i64> {
        let clock = self.clocks.get(member).copied().flatten()?;
        Some(clock.fit.ahead_ns)
    }

    /// Returns the number of collectives of a rank that another rank recorded as well.
    pub fn collectives(&self, member: usize) -> usize {
        let all = self.joined.collectives.iter();
        all.filter(|c| c.runs.len() > 1 && c.runs.iter().any(|r| r.0 == member))
            .count()
    }

    /// Returns the number of ranks that could be joined with the others in more than one way.
    pub fn ambiguous(&self) -> usize {
        let groups = self.joined.groups.iter();
        let members: BTreeSet<usize> = groups.flat_map(|g| g.ambiguous.iter().copied()).collect();
        members.len()
    }
}

/// One collective on all ranks that recorded it. Times are on the first rank's clock.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CollectiveWait {
    /// Description of the collective, from the first of the ranks.
    pub what: Collective,
    /// Index of each member in the list of ranks, ascending.
    pub members: Vec<usize>,
    /// The kernels of the members.
    pub kernels: Vec<SliceId>,
    /// Wait time of each member for the last recorded one to start.
    pub wait_ns: Vec<i64>,
    /// `true` if no member of the group is known to be missing. A missing one may have started
    /// last, so that all waits are lower bounds.
    pub complete: bool,
    /// The member (index in the list of ranks) that started last; `None` if it was late by less
    /// than the error of the clocks, or if a member is missing.
    pub last: Option<usize>,
    /// Longest wait.
    pub spread_ns: i64,
    /// Time from the last start to the last end: the time without waiting, if no member's recording
    /// is missing.
    pub transfer_ns: i64,
}

impl CollectiveWait {
    /// Returns the bus bandwidth over [`CollectiveWait::transfer_ns`] in 10⁹ bytes per second.
    /// `None` if a rank of the group is missing: it may have been the last to start, and the time
    /// would include waiting for it.
    pub fn transfer_busbw(&self) -> Option<f64> {
        self.complete.then(|| self.what.busbw(self.transfer_ns))?
    }
}

/// How long a collective takes when nobody is waited for.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Transfer {
    /// What it is, as the first of the ranks that knows says.
    pub what: Collective,
    /// The shortest duration over all ranks, which is that of the last one to arrive. It needs no common clock.
    pub latency_ns: i64,
}

fn job_size(ranks: &[RankTrace<'_>]) -> JobSize {
    let stated = |rank: &RankTrace<'_>| rank.trace.meta().distributed.as_ref()?.world_size;
    JobSize::of(ranks.iter().map(stated))
}

/// What the runs of one collective are, as the first one that knows the size says, else the first that knows the operation.
fn what_of<'a>(runs: impl Iterator<Item = &'a CollectiveRun> + Clone) -> Option<&'a Collective> {
    let sized = runs.clone().find(|run| run.what.bytes.is_some());
    let named = || runs.clone().find(|run| run.what.op.is_some());
    Some(&sized.or_else(named)?.what)
}

/// For each rank, for each of its runs: how long its collective takes without waiting. None where a member of the group may be missing:
/// its durations may then all include waiting for that one.
pub fn transfers(ranks: &[RankTrace<'_>], alignment: &Alignment) -> Vec<Vec<Option<Transfer>>> {
    let size = job_size(ranks);
    let mut out: Vec<Vec<Option<Transfer>>> =
        ranks.iter().map(|r| vec![None; r.runs.len()]).collect();
    for matched in &alignment.joined.collectives {
        let group = alignment.joined.groups.get(matched.group);
        let members = group.and_then(|g| g.key.members()).map(|m| m.len());
        let runs = matched
            .runs
            .iter()
            .filter_map(|(member, place)| ranks.get(*member)?.runs.get(*place));
        let recorded = matched.runs.len();
        let (Some(what), Some(latency_ns)) = (
            what_of(runs.clone()),
            runs.clone().map(|run| run.duration_ns).min(),
        ) else {
            continue;
        };
        let mut what = what.clone();
        if group.is_some_and(|group| group.key.pair.is_some()) {
            Arc::make_mut(&mut what.kind).group_size = Some(2);
        }
        if what.group_size.is_none()
            && let Some(world) = size.all_recorded()
            && recorded == world as usize
        {
            Arc::make_mut(&mut what.kind).set_group_size(world);
        }
        if may_lack_members(recorded, members, what.group_size, size.is_part()) {
            continue;
        }
        for (member, place) in &matched.runs {
            if let Some(place) = out.get_mut(*member).and_then(|runs| runs.get_mut(*place)) {
                *place = Some(Transfer {
                    what: what.clone(),
                    latency_ns,
                });
            }
        }
    }
    out
}

/// Joins the collectives of `ranks` and estimates their clocks: [`rank_align::match_ranks`], [`rank_align::clocks`].
pub fn align_ranks(ranks: &[RankTrace<'_>]) -> Alignment {
    let runs: Vec<Vec<RankRun<'_>>> = ranks.iter().map(runs_of).collect();
    let joined = rank_align::match_ranks(&runs);
    Alignment {
        clocks: rank_align::clocks(&runs, &joined.collectives),
        joined,
    }
}

fn runs_of<'a>(rank: &RankTrace<'a>) -> Vec<RankRun<'a>> {
    let base = rank.trace.meta().base_time_ns;
    let runs = rank.runs.iter().map(|run| {
        let kernel = rank.trace.slice(run.kernel);
        RankRun {
            kernel: kernel.name().unwrap_or(""),
            what: Some(&run.what),
            seq: run.what.seq,
            device: run.device,
            stream: run.stream,
            library: run.library,
            pair: run.what.pair(rank.rank.0),
            end_ns: kernel.end().nanos().saturating_add(base),
        }
    });
    runs.collect()
}

/// Returns wait times and the last rank of each collective that waits for all ranks and that at
/// least two aligned ranks recorded, in ascending time. Contradictory runs, where one ends before
/// another one starts, are left out.
pub fn collective_waits(ranks: &[RankTrace<'_>], alignment: &Alignment) -> Vec<CollectiveWait> {
    let joined = &alignment.joined;
    let all = joined.collectives.iter();
    let mut waits: Vec<(i64, CollectiveWait)> = all
        .filter_map(|matched| {
            let group = joined.groups.get(matched.group)?;
            wait(ranks, alignment, group, matched)
        })
        .collect();
    waits.sort_by_key(|w| w.0);
    waits.into_iter().map(|w| w.1).collect()
}

fn wait(
    ranks: &[RankTrace<'_>],
    alignment: &Alignment,
    group: &Group,
    matched: &Matched,
) -> Option<(i64, CollectiveWait)> {
    let known: Vec<(usize, &CollectiveRun, AlignedRun)> = matched
        .runs
        .iter()
        .filter_map(|&(member, place)| {
            let clock = alignment.clocks.get(member).copied().flatten()?;
            let rank = ranks.get(member)?;
            let run = rank.runs.get(place)?;
            let kernel = rank.trace.slice(run.kernel);
            let base = rank.trace.meta().base_time_ns;
            let absolute = |t: i64| t.saturating_add(base);
            let (start, end) = (kernel.ts().nanos(), kernel.end().nanos());
            Some((member, run, clock.align(absolute(start), absolute(end))))
        })
        .collect();
    let what = what_of(known.iter().map(|r| r.1))?.clone();
    if !is_synchronising(what.op) {
        return None;
    }
    let runs: Vec<Option<AlignedRun>> = known.iter().map(|r| Some(r.2)).collect();
    let arrivals = Arrivals::of(&runs).filter(|a| !a.contradiction)?;
    let members = group.key.members().map(|members| members.len());
    let is_part = job_size(ranks).is_part();
    let complete = !may_lack_members(known.len(), members, what.group_size, is_part);
    let last = arrivals.last.filter(|_| complete && arrivals.is_late());
    let last_start = known.iter().map(|r| r.2.start_ns).max()?;
    let wait = CollectiveWait {
        members: known.iter().map(|r| r.0).collect(),
        kernels: known.iter().map(|r| r.1.kernel).collect(),
        spread_ns: arrivals.skew_ns,
        last: last.and_then(|at| Some(known.get(at)?.0)),
        complete,
        wait_ns: arrivals.wait_ns.into_iter().flatten().collect(),
        transfer_ns: arrivals.transfer_ns,
        what,
    };
    Some((last_start, wait))
}
