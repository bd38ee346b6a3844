//! Parts of a job: ranks that no synchronizing collective joins to the others, such as stages of a pipeline or independent replicas. Waits
//! within a part need no clock common to the whole job.

use std::collections::{BTreeMap, HashMap};
use std::mem;

use gpu_time::comm::{Job, RankClock, RankDigest, RankSource};
use trace_model::Rank;

/// The job, with each part analyzed by itself.
pub(super) struct Parts {
    pub(super) job: Job,
    /// Part of each rank; `None` for ranks that share no synchronizing collective with another one.
    pub(super) of: Vec<Option<usize>>,
    /// Clock of each rank against that of the first rank of its part.
    pub(super) clocks: Vec<Option<RankClock>>,
}

/// Analyzes the part of the first rank, and then each other part as a job of its own.
pub(super) fn analyse(digests: &mut [RankDigest]) -> Parts {
    let job = Job::new(digests);
    let is_joined = job.clocks.iter().flatten().count() > 1;
    let of = job
        .clocks
        .iter()
        .map(|clock| (is_joined && clock.is_some()).then_some(0));
    let mut out = Parts {
        of: of.collect(),
        clocks: job.clocks.clone(),
        job,
    };
    let apart = out.apart();
    if apart.is_empty() {
        return out;
    }
    let mut is_apart = vec![false; digests.len()];
    for member in apart.iter().flatten() {
        if let Some(slot) = is_apart.get_mut(*member) {
            *slot = true;
        }
    }
    // The parts are matched again, by the same rules: of the first matching only the names of the groups stay.
    let mut groups: HashMap<(usize, usize), usize> = HashMap::new();
    out.job.collectives.retain(|c| {
        let first = c.matched.runs.first();
        let is_replaced = c.synchronising
            && first.is_some_and(|run| is_apart.get(run.0).copied().unwrap_or(false));
        if is_replaced {
            groups.extend(c.matched.runs.iter().map(|run| (*run, c.matched.group)));
        }
        !is_replaced
    });
    let ranks = u32::try_from(digests.len()).ok();
    let is_whole = digests.iter().all(|digest| digest.world_size == ranks);
    let number = usize::from(is_joined);
    for (number, members) in (number..).zip(&apart) {
        let take = |member: &usize| {
            let slot = digests.get_mut(*member)?;
            Some(mem::replace(
                slot,
                RankDigest::empty("", Rank(0), RankSource::Place),
            ))
        };
        let mut part: Vec<RankDigest> = members.iter().filter_map(take).collect();
        let worlds: Vec<Option<u32>> = part.iter().map(|digest| digest.world_size).collect();
        if is_whole {
            // All ranks of the job have a recording, so all of the part do.
            for digest in &mut part {
                digest.world_size = u32::try_from(members.len()).ok();
            }
        }
        out.take(Job::new(&part), number, members, &groups);
        for ((digest, world), member) in part.into_iter().zip(worlds).zip(members) {
            if let Some(slot) = digests.get_mut(*member) {
                *slot = digest;
                slot.world_size = world;
            }
        }
    }
    out.job.collectives.sort_by_key(|c| c.matched.group);
    // Messages between two ranks pass delays on from part to part.
    out.job.charge(digests);
    out
}

impl Parts {
    /// Returns the ranks of each part but that of the first rank.
    fn apart(&self) -> Vec<Vec<usize>> {
        // Each rank points to one of its part, in the end to the first.
        let mut first: Vec<usize> = (0..self.of.len()).collect();
        for c in self.job.collectives.iter().filter(|c| c.synchronising) {
            let mut runs = c.matched.runs.iter();
            let Some((one, _)) = runs.next() else {
                continue;
            };
            for (other, _) in runs {
                let (a, b) = (root(&mut first, *one), root(&mut first, *other));
                if let Some(slot) = first.get_mut(a.max(b)) {
                    *slot = a.min(b);
                }
            }
        }
        let mut parts: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (member, part) in self.of.iter().enumerate() {
            if part.is_none() {
                parts
                    .entry(root(&mut first, member))
                    .or_default()
                    .push(member);
            }
        }
        parts
            .into_values()
            .filter(|members| members.len() > 1)
            .collect()
    }

    /// Takes over what was found in a part.
    fn take(
        &mut self,
        found: Job,
        number: usize,
        members: &[usize],
        groups: &HashMap<(usize, usize), usize>,
    ) {
        for mut c in found.collectives.into_iter().filter(|c| c.synchronising) {
            for run in &mut c.matched.runs {
                run.0 = members.get(run.0).copied().unwrap_or(run.0);
            }
            let group = c.matched.runs.iter().find_map(|run| groups.get(run));
            // What the first matching takes for no synchronizing collective stays with it.
            let Some(group) = group else {
                continue;
            };
            c.matched.group = *group;
            self.job.collectives.push(c);
        }
        for (member, clock) in members.iter().zip(found.clocks) {
            if let Some(slot) = self.of.get_mut(*member) {
                *slot = clock.is_some().then_some(number);
            }
            if let Some(slot) = self.clocks.get_mut(*member) {
                *slot = clock;
            }
        }
    }
}

/// Returns the first rank that a rank points to, and shortens the way.
fn root(first: &mut [usize], mut at: usize) -> usize {
    while let Some(next) = first.get(at).copied().filter(|next| *next != at) {
        let after = first.get(next).copied().unwrap_or(next);
        if let Some(slot) = first.get_mut(at) {
            *slot = after;
        }
        at = next;
    }
    at
}
