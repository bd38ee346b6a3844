//! Selects the launch among the calls of one id.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::ids::{ProcessId, SliceId};
use crate::kernel::{Activity, ActivityMap};
use crate::time::Timestamp;
use crate::trace::{Slice, Trace};

/// Maximum number of calls of one id that are examined one by one.
pub(super) const FEW: usize = 16;

/// Many calls of one id, ranked so that the launch is found without examining all of them: where a
/// producer writes the same id everywhere, there are as many activities as calls.
#[derive(Clone, Debug)]
pub(super) struct Crowd {
    pub(super) id: i64,
    /// `true` if the calls belong to several processes.
    ambiguous: bool,
    all: Ranked,
    /// Calls by process, ascending.
    by_process: Vec<(ProcessId, Ranked)>,
}

/// Calls by their similarity to launches.
#[derive(Clone, Debug, Default)]
struct Ranked {
    /// Calls that are neither, where a flow starts, that are launches, and both; each in ascending
    /// time.
    ranks: [Vec<SliceId>; 4],
}

impl Ranked {
    /// Returns the best call: of the highest rank the last one that began by `before`, if given and
    /// there is one, else the earliest.
    fn best(&self, trace: &Trace, before: Option<Timestamp>) -> Option<SliceId> {
        let calls = self.ranks.iter().rev().find(|calls| !calls.is_empty())?;
        let ts = |call: &SliceId| trace.slice(*call).ts();
        let last = before.and_then(|time| {
            let after = calls.partition_point(|call| ts(call) <= time);
            let last = calls.get(after.checked_sub(1)?)?;
            // Of calls with the same begin, the first counts.
            calls.get(calls.partition_point(|call| ts(call) < ts(last)))
        });
        last.or(calls.first()).copied()
    }
}

impl Crowd {
    /// Creates a crowd from more than a few `calls` in ascending time.
    pub(super) fn new(id: i64, calls: &[SliceId], trace: &Trace, activities: &ActivityMap) -> Self {
        let (mut all, mut by_process) = (Ranked::default(), BTreeMap::<_, Ranked>::new());
        for call in calls {
            let rank = rank_of(trace.slice(*call), activities);
            all.ranks[rank].push(*call);
            let own = by_process.entry(process_of(trace.slice(*call)));
            own.or_default().ranks[rank].push(*call);
        }
        Self {
            id,
            ambiguous: by_process.len() > 1,
            all,
            by_process: by_process
                .into_iter()
                .filter_map(|(process, ranked)| Some((process?, ranked)))
                .collect(),
        }
    }

    /// Returns the launch as [`choose`] does; `calls` are all calls of this id.
    pub(super) fn launch_of<'t>(
        &self,
        work: Slice<'t>,
        calls: &[SliceId],
        by: &ActivityMap,
    ) -> Option<Slice<'t>> {
        let trace = work.trace();
        let home = process_of(work);
        let own = home.and_then(|home| {
            let at = self.by_process.binary_search_by_key(&home, |own| own.0);
            Some(&self.by_process.get(at.ok()?)?.1)
        });
        if self.ambiguous {
            // Tails of flow arrows are preferred to all other calls.
            let mut tails: Vec<SliceId> = trace
                .flows_to(work.id())
                .map(|(_, flow)| flow.from)
                .filter(|from| calls.binary_search(from).is_ok())
                .filter(|from| own.is_none() || process_of(trace.slice(*from)) == home)
                .collect();
            tails.sort_unstable();
            tails.dedup();
            if !tails.is_empty() {
                return choose(&tails, true, work, by);
            }
        }
        let best = own
            .unwrap_or(&self.all)
            .best(trace, self.ambiguous.then(|| work.ts()));
        Some(trace.slice(best?))
    }
}

/// Returns the rank of a call: whether it is named as a launch, and whether a flow starts there.
fn rank_of(call: Slice<'_>, activities: &ActivityMap) -> usize {
    let launches = matches!(
        activities.of(call),
        Activity::Launch | Activity::GraphLaunch
    );
    let starts_flow = call.trace().flows_from(call.id()).next().is_some();
    usize::from(launches) * 2 + usize::from(starts_flow)
}

/// Returns `true` if the calls belong to several processes.
pub(super) fn are_ambiguous(calls: &[SliceId], trace: &Trace) -> bool {
    let mut processes = calls.iter().map(|id| process_of(trace.slice(*id)));
    let first = processes.next();
    processes.any(|process| Some(process) != first)
}

/// Returns the launch as [`CorrelationIndex::launch_of`](super::CorrelationIndex::launch_of) does,
/// among these calls; examines each.
pub(super) fn choose<'t>(
    calls: &[SliceId],
    ambiguous: bool,
    work: Slice<'t>,
    activities: &ActivityMap,
) -> Option<Slice<'t>> {
    let trace = work.trace();
    let home = process_of(work);
    let is_tail = |s: &Slice<'_>| {
        trace
            .flows_to(work.id())
            .any(|(_, flow)| flow.from == s.id())
    };
    let several = calls.iter().map(|id| trace.slice(*id));
    several.max_by_key(|s| {
        let before = s.ts() <= work.ts();
        (
            home.is_some() && process_of(*s) == home,
            ambiguous && is_tail(s),
            rank_of(*s, activities),
            (ambiguous && before).then_some(s.ts()),
            Reverse(s.id()),
        )
    })
}

fn process_of(slice: Slice<'_>) -> Option<ProcessId> {
    slice.track().process
}
