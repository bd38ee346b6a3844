//! Groups of collectives that state none, such as those that run in CUDA graphs.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use gpu_time::comm::{RankDigest, Run, is_synchronising};

use super::Member;
use crate::words::real;

/// Collectives whose group cannot be told: left out of clocks and waits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Unknown {
    pub(super) ranks: usize,
    pub(super) runs: usize,
}

/// Names the group of collectives that state none by what the heads of the recordings list: the only group of the rank that none of its
/// other collectives name. Where several groups are possible, it is the largest one whose members end together, and if that cannot be told the
/// collectives are left out: ends of different groups compared with each other give false clocks and waits. Recordings that list no groups stay as they are: their ends decide.
///
/// A few kernels without metadata among many with it, such as those whose launch precedes the recording, belong to the group of their
/// stream and stay as they are.
pub(super) fn name(digests: &mut [RankDigest], members: &[Member]) -> Unknown {
    let mut out = Unknown::default();
    let ends = Ends::of(digests, members);
    for (digest, member) in digests.iter_mut().zip(members) {
        let groups = &member.summary.groups;
        if groups.is_empty() {
            continue;
        }
        let unnamed = unnamed(digest);
        if unnamed.is_empty() {
            continue;
        }
        let named: BTreeSet<String> = digest
            .runs
            .iter()
            .filter_map(|run| digest.what(run)?.group.clone())
            .collect();
        // Groups of the same members wait for the same ranks.
        let mut possible: BTreeMap<String, &str> = BTreeMap::new();
        for group in groups.iter().filter(|group| !named.contains(&group.name)) {
            possible.entry(group.members()).or_insert(&group.name);
        }
        let mut kinds: BTreeMap<(u32, usize), u32> = BTreeMap::new();
        let mut left_out: BTreeSet<usize> = BTreeSet::new();
        let mut decided: BTreeMap<Vec<usize>, Option<usize>> = BTreeMap::new();
        for place in unnamed {
            let Some(kind) = digest.runs.get(place).map(|run| run.kind) else {
                continue;
            };
            let size = digest
                .kinds
                .get(kind as usize)
                .and_then(|what| what.group_size);
            let fits =
                |members: &str| size.is_none_or(|size| members.split(',').count() == size as usize);
            let fitting: Vec<usize> = possible
                .iter()
                .enumerate()
                .filter(|(_, (members, _))| fits(members))
                .map(|(number, _)| number)
                .collect();
            let chosen = match fitting.as_slice() {
                [] => None,
                [one] => Some(*one),
                several => *decided.entry(several.to_vec()).or_insert_with(|| {
                    let members = |number: &usize| possible.keys().nth(*number);
                    ends.decide(digest.rank.0, several.iter().filter_map(members))
                        .and_then(|at| several.get(at).copied())
                }),
            };
            let found = chosen.and_then(|number| Some((number, possible.iter().nth(number)?)));
            let Some((number, (members, group))) = found else {
                left_out.insert(place);
                continue;
            };
            let named_kind = match kinds.get(&(kind, number)) {
                Some(known) => *known,
                None => {
                    let Some(mut what) = digest.kinds.get(kind as usize).cloned() else {
                        continue;
                    };
                    let of = Arc::make_mut(&mut what.kind);
                    of.group = Some((*group).to_owned());
                    of.ranks = Some(members.clone());
                    of.group_size = u32::try_from(members.split(',').count()).ok();
                    digest.kinds.push(what);
                    let new = u32::try_from(digest.kinds.len() - 1).unwrap_or(u32::MAX);
                    kinds.insert((kind, number), new);
                    new
                }
            };
            if let Some(run) = digest.runs.get_mut(place) {
                run.kind = named_kind;
            }
        }
        if !left_out.is_empty() {
            out.ranks += 1;
            out.runs += left_out.len();
            let mut place = 0;
            digest.runs.retain(|_| {
                place += 1;
                !left_out.contains(&(place - 1))
            });
        }
    }
    out
}

/// Largest scatter of the ends of one collective within the smallest group.
const TOGETHER_NS: f64 = 10_000.0;

/// Smallest scatter that is assumed: recordings are no more exact.
const LEAST_NS: f64 = 200.0;

/// Excess over the scatter within a group up to which a larger group ends together.
const EXCESS: f64 = 3.0;

/// Minimum number of collectives to compare.
const LEAST: usize = 16;

/// Number of members of a group that are compared.
const COMPARED: usize = 8;

/// Ends of the unnamed collectives of each rank.
struct Ends(BTreeMap<u32, Vec<i64>>);

impl Ends {
    fn of(digests: &[RankDigest], members: &[Member]) -> Self {
        let lists = digests.iter().zip(members);
        let lists = lists.filter(|(_, member)| !member.summary.groups.is_empty());
        let each = lists.map(|(digest, _)| {
            let places = unnamed(digest).into_iter();
            let runs = places.filter_map(|place| digest.runs.get(place));
            (digest.rank.0, runs.map(|run| digest.end_ns(run)).collect())
        });
        Self(each.collect())
    }

    /// Returns the scatter of the differences of the ends of two ranks; `None` if they recorded different numbers of collectives. The
    /// offset of the clocks does not matter.
    fn scatter(&self, one: u32, other: u32) -> Option<f64> {
        let (one, other) = (self.0.get(&one)?, self.0.get(&other)?);
        if one.len() != other.len() || one.len() < LEAST {
            return None;
        }
        let apart: Vec<f64> = one.iter().zip(other).map(|(a, b)| real(a - b)).collect();
        let middle = stats::median(&apart);
        let off: Vec<f64> = apart.iter().map(|apart| (apart - middle).abs()).collect();
        Some(stats::quantile(&stats::sorted(&off), 0.9))
    }

    /// Returns which of several groups of a rank its collectives belong to: the largest one whose members end together; `None` if that
    /// cannot be told. A group that holds another one waits for all of it, so that ends within the smallest tell the scatter.
    fn decide<'t>(&self, rank: u32, groups: impl Iterator<Item = &'t String>) -> Option<usize> {
        let sets = groups.map(|text| {
            let inner = text.trim_start_matches('[').trim_end_matches(']');
            let numbers = inner.split(',').map(|n| n.trim().parse().ok());
            numbers.collect::<Option<BTreeSet<u32>>>()
        });
        let sets: Vec<BTreeSet<u32>> = sets.collect::<Option<_>>()?;
        let mut order: Vec<usize> = (0..sets.len()).collect();
        order.sort_by_key(|at| sets.get(*at).map(BTreeSet::len));
        let mut inside: BTreeSet<u32> = [rank].into();
        let (mut found, mut limit) = (None, TOGETHER_NS);
        for at in order {
            let set = sets.get(at)?;
            if !inside.is_subset(set) {
                return None;
            }
            let new: Vec<u32> = set.difference(&inside).copied().collect();
            let every = new.len().div_ceil(COMPARED).max(1);
            let chosen: Vec<u32> = new.iter().step_by(every).copied().collect();
            let scatters = chosen.iter().filter_map(|other| self.scatter(rank, *other));
            let scatters: Vec<f64> = scatters.collect();
            // Recordings that are cut cannot be compared; most of the group must be.
            if scatters.len() * 2 <= chosen.len() {
                return None;
            }
            let middle = stats::median(&scatters);
            if middle > limit {
                break;
            }
            limit = EXCESS * middle.max(LEAST_NS);
            (found, inside) = (Some(at), set.clone());
        }
        found
    }
}

/// Returns the places of the collectives without a group on streams where these are the most.
fn unnamed(digest: &RankDigest) -> Vec<usize> {
    let mut by_stream: BTreeMap<_, (usize, Vec<usize>)> = BTreeMap::new();
    for (place, run) in digest.runs.iter().enumerate() {
        let of = by_stream
            .entry((run.device, run.stream, run.library))
            .or_default();
        match states_group(digest, run) {
            true => of.0 += 1,
            false if waits_for_all(digest, run) => of.1.push(place),
            false => {}
        }
    }
    let most = by_stream
        .into_values()
        .filter(|(named, unnamed)| unnamed.len() > *named);
    most.flat_map(|(_, unnamed)| unnamed).collect()
}

fn states_group(digest: &RankDigest, run: &Run) -> bool {
    let what = digest.what(run);
    what.is_some_and(|what| what.group.is_some() || what.pair(digest.rank.0).is_some())
}

/// Returns `true` unless the operation is one in which a rank does not wait for all others.
fn waits_for_all(digest: &RankDigest, run: &Run) -> bool {
    let op = digest.what(run).and_then(|what| what.op);
    op.is_none() || is_synchronising(op)
}
