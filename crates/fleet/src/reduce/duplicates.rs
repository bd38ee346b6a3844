//! Several recordings of one rank.

use std::collections::{BTreeMap, BTreeSet};

use gpu_time::comm::{RankDigest, RankSource};

use super::Member;
use crate::finding::{Finding, Kind, Strength};

/// What was left out.
#[derive(Default)]
pub(super) struct LeftOut {
    /// Number of recordings.
    pub(super) files: usize,
    /// Ranks of which no recording is left.
    pub(super) ranks: BTreeSet<u32>,
    pub(super) findings: Vec<Finding>,
}

/// Takes one of several recordings of a rank with the same content, and none of several that differ: nothing tells which of these belongs to
/// the job. Where more than half of the ranks have several recordings, these are sessions, and all stay for
/// [`gpu_time::comm::assign_ranks`] to refuse.
pub(super) fn leave_out(members: &mut Vec<Member>, digests: &mut Vec<RankDigest>) -> LeftOut {
    let mut out = LeftOut::default();
    let mut by_rank: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
    for (at, digest) in digests.iter().enumerate() {
        if digest.rank_source != RankSource::Place {
            by_rank.entry(digest.rank.0).or_default().push(at);
        }
    }
    let several = by_rank.values().filter(|places| places.len() > 1).count();
    if several * 2 > by_rank.len() {
        return out;
    }
    let mut dropped: BTreeSet<usize> = BTreeSet::new();
    for (rank, mut places) in by_rank.into_iter().filter(|(_, places)| places.len() > 1) {
        let name = |at: &usize| digests.get(*at).map_or("", |digest| digest.source.as_str());
        // The name of a copy is that of the original and more.
        places.sort_by_key(|at| (name(at).len(), name(at)));
        let names: Vec<String> = places.iter().map(|at| name(at).to_owned()).collect();
        let names = crate::words::list(&names);
        let same = |a: &usize, b: &usize| {
            let (one, other) = (digests.get(*a), digests.get(*b));
            let size = |at: &usize| members.get(*at).map(|member| member.summary.quality.bytes);
            one.zip(other).is_some_and(|(one, other)| {
                one.base_time_ns == other.base_time_ns && one.runs == other.runs
            }) && size(a) == size(b)
        };
        let is_copy = places.windows(2).all(|pair| match pair {
            [a, b] => same(a, b),
            _ => false,
        });
        let title = match is_copy {
            true => format!(
                "Rank {rank} has several recordings with the same content, {names}: the first of these is compared"
            ),
            false => format!(
                "Rank {rank} has several recordings that differ, {names}: none of them is compared; name the one that belongs to the job"
            ),
        };
        let finding = Finding::new(
            Kind::Duplicate,
            &rank.to_string(),
            Strength::Established,
            title,
        );
        out.findings.push(finding.of_ranks([rank]));
        if !is_copy {
            out.ranks.insert(rank);
        }
        dropped.extend(places.into_iter().skip(usize::from(is_copy)));
    }
    out.files = dropped.len();
    let mut at = 0;
    members.retain(|_| {
        at += 1;
        !dropped.contains(&(at - 1))
    });
    at = 0;
    digests.retain(|_| {
        at += 1;
        !dropped.contains(&(at - 1))
    });
    out
}
