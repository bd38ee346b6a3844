//! The same collectives on several ranks: whose clock is off, who comes last, who waits.

use std::collections::BTreeMap;

use trace_model::{Rank, SliceId, Trace};

use crate::measure::CollectiveRun;
use trace_model::kernel::collective::{Collective, CollectiveOp};

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

/// How the clocks of ranks differ.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Alignment {
    /// By rank in the order given: what its clock is ahead of the first one's, in nanoseconds, the
    /// traces' base times already taken into account. None if no collective joins it to the others.
    pub ahead_ns: Vec<Option<i64>>,
    /// How many collectives each offset is the median of.
    pub samples: Vec<usize>,
}

/// One collective on all ranks that recorded it. Times are those of the first rank's clock.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct CollectiveWait {
    /// What it is, as the first of the ranks says.
    pub what: Collective,
    /// Place of each member in the list of ranks, ascending.
    pub members: Vec<usize>,
    /// The kernels of the members.
    pub kernels: Vec<SliceId>,
    /// How long each member waited for the last one to start.
    pub wait_ns: Vec<i64>,
    /// The member (place in the list of ranks) that started last; none if several did.
    pub last: Option<usize>,
    /// Longest wait.
    pub spread_ns: i64,
    /// From the last start to the last end: the time without waiting, if no member's recording is missing.
    pub transfer_ns: i64,
}

impl CollectiveWait {
    /// The bus bandwidth over [`CollectiveWait::transfer_ns`] in 10⁹ bytes per second. None where a rank of the group is missing: it may
    /// have been the last to start, and the time would count waiting for it.
    pub fn transfer_busbw(&self) -> Option<f64> {
        let recorded = u32::try_from(self.members.len()).ok()?;
        (recorded >= self.what.group_size?).then(|| self.what.busbw(self.transfer_ns))?
    }
}

/// Which collective a run is: those with equal keys on different ranks are one.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Key {
    /// Group, operation, sequence number, and how often these occurred before.
    Numbered(String, Option<CollectiveOp>, i64, usize),
    /// Group (if any), operation and kernel name, and how often these occurred before.
    Counted(Option<String>, Option<CollectiveOp>, String, usize),
}

impl Key {
    fn is_annotated(&self) -> bool {
        match self {
            Self::Numbered(..) => true,
            Self::Counted(group, ..) => group.is_some(),
        }
    }
}

struct Matched {
    /// (member, place in its runs), ascending by member.
    runs: Vec<(usize, usize)>,
    annotated: bool,
}

/// Joins runs of different ranks: by process group and sequence number, else the k-th of a group
/// and operation, else the k-th of a kernel name. Sends and receives have no common instant and
/// are left out, and so are counted ones of which the ranks have different numbers.
fn matched(ranks: &[RankTrace<'_>]) -> Vec<Matched> {
    let mut table: BTreeMap<Key, Vec<(usize, usize)>> = BTreeMap::new();
    let mut totals: BTreeMap<Key, Vec<(usize, usize)>> = BTreeMap::new();
    for (member, rank) in ranks.iter().enumerate() {
        let mut seen: BTreeMap<Key, usize> = BTreeMap::new();
        for (place, run) in rank.runs.iter().enumerate() {
            let what = &run.what;
            if matches!(
                what.op,
                Some(CollectiveOp::Send | CollectiveOp::Recv | CollectiveOp::SendRecv)
            ) {
                continue;
            }
            let base = match (what.seq, &what.group) {
                (Some(seq), group) => {
                    Key::Numbered(group.clone().unwrap_or_default(), what.op, seq, 0)
                }
                (None, Some(group)) => Key::Counted(Some(group.clone()), what.op, String::new(), 0),
                (None, None) => {
                    let name = rank.trace.slice(run.kernel).name().unwrap_or("");
                    Key::Counted(None, what.op, name.to_owned(), 0)
                }
            };
            let k = seen.entry(base.clone()).or_default();
            let key = match base.clone() {
                Key::Numbered(group, op, seq, _) => Key::Numbered(group, op, seq, *k),
                Key::Counted(group, op, name, _) => Key::Counted(group, op, name, *k),
            };
            *k += 1;
            table.entry(key).or_default().push((member, place));
        }
        for (base, count) in seen {
            totals.entry(base).or_default().push((member, count));
        }
    }
    let even = |key: &Key| match key {
        Key::Numbered(..) => true,
        Key::Counted(group, op, name, _) => {
            let base = Key::Counted(group.clone(), *op, name.clone(), 0);
            totals
                .get(&base)
                .is_some_and(|t| t.windows(2).all(|w| w[0].1 == w[1].1))
        }
    };
    table
        .into_iter()
        .filter(|(key, runs)| runs.len() > 1 && even(key))
        .map(|(key, runs)| Matched {
            runs,
            annotated: key.is_annotated(),
        })
        .collect()
}

/// Absolute start and end of a run by its own rank's clock.
fn absolute(rank: &RankTrace<'_>, place: usize) -> (i64, i64) {
    let kernel = rank.trace.slice(rank.runs[place].kernel);
    let base = rank.trace.meta().base_time_ns;
    (
        kernel.ts().nanos().saturating_add(base),
        kernel.end().nanos().saturating_add(base),
    )
}

/// Estimates how far each rank's clock is ahead of the first one's: a collective ends at the same
/// time everywhere, so the median of the differences of its ends is the offset. Only collectives
/// with arguments count, unless there are none. Ranks without a group in common with the first are
/// aligned through others.
pub fn align_ranks(ranks: &[RankTrace<'_>]) -> Alignment {
    let all = matched(ranks);
    let annotated = all.iter().any(|m| m.annotated);
    let usable: Vec<&Matched> = all.iter().filter(|m| m.annotated == annotated).collect();
    let mut out = Alignment {
        ahead_ns: vec![None; ranks.len()],
        samples: vec![0; ranks.len()],
    };
    let Some(first) = out.ahead_ns.first_mut() else {
        return out;
    };
    *first = Some(0);
    loop {
        let mut next = None;
        for member in (0..ranks.len()).filter(|m| out.ahead_ns[*m].is_none()) {
            let mut differences: Vec<i64> = usable
                .iter()
                .filter_map(|m| {
                    let mine = m.runs.iter().find(|r| r.0 == member)?;
                    let known = m.runs.iter().find(|r| out.ahead_ns[r.0].is_some())?;
                    let end = |r: &(usize, usize)| absolute(&ranks[r.0], r.1).1;
                    let behind = out.ahead_ns[known.0].unwrap_or(0);
                    Some(end(mine).saturating_sub(end(known)).saturating_add(behind))
                })
                .collect();
            if !differences.is_empty() {
                differences.sort_unstable();
                // The lower of two middle values, so that the result is one of the observations.
                let median = differences[(differences.len() - 1) / 2];
                next = Some((member, median, differences.len()));
                break;
            }
        }
        let Some((member, median, samples)) = next else {
            return out;
        };
        out.ahead_ns[member] = Some(median);
        out.samples[member] = samples;
    }
}

/// Who waited how long for whom, for each collective that at least two aligned ranks recorded, in
/// ascending time.
pub fn collective_waits(ranks: &[RankTrace<'_>], alignment: &Alignment) -> Vec<CollectiveWait> {
    let ahead = |member: usize| alignment.ahead_ns.get(member).copied().flatten();
    let mut waits: Vec<(i64, CollectiveWait)> = matched(ranks)
        .into_iter()
        .filter_map(|m| {
            let runs: Vec<(usize, usize)> = m
                .runs
                .into_iter()
                .filter(|r| ahead(r.0).is_some())
                .collect();
            let times: Vec<(i64, i64)> = runs
                .iter()
                .map(|r| {
                    let (start, end) = absolute(&ranks[r.0], r.1);
                    let ahead = ahead(r.0).unwrap_or(0);
                    (start.saturating_sub(ahead), end.saturating_sub(ahead))
                })
                .collect();
            let last_start = times.iter().map(|t| t.0).max()?;
            let last_end = times.iter().map(|t| t.1).max()?;
            if times.len() < 2 {
                return None;
            }
            let wait_ns: Vec<i64> = times
                .iter()
                .map(|t| last_start.saturating_sub(t.0))
                .collect();
            let mut last = (0..wait_ns.len()).filter(|at| wait_ns.get(*at) == Some(&0));
            let last = last.next().filter(|_| last.next().is_none());
            let run = |r: &(usize, usize)| &ranks[r.0].runs[r.1];
            Some((
                last_start,
                CollectiveWait {
                    what: run(runs.first()?).what.clone(),
                    members: runs.iter().map(|r| r.0).collect(),
                    kernels: runs.iter().map(|r| run(r).kernel).collect(),
                    spread_ns: wait_ns.iter().copied().max().unwrap_or(0),
                    last: last.and_then(|at| Some(runs.get(at)?.0)),
                    wait_ns,
                    transfer_ns: last_end.saturating_sub(last_start),
                },
            ))
        })
        .collect();
    waits.sort_by_key(|w| w.0);
    waits.into_iter().map(|w| w.1).collect()
}
