//! Merges the stacks of several ranks into one table.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use trace_model::SliceId;

use crate::analyse::Answer;
use crate::ranks::CollectiveWait;

/// Contribution of one rank to a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankShare {
    /// Number of distinct launch calls.
    pub launches: usize,
    /// Number of kernels.
    pub kernels: usize,
    /// Kernel time; 0 if not measured.
    pub gpu_ns: i64,
}

/// One stack over all ranks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MergedStack {
    /// The frames from the outermost inwards.
    pub frames: Vec<String>,
    /// Contribution of each rank, in the order of the answers.
    pub ranks: Vec<RankShare>,
}

impl MergedStack {
    /// Returns the number of launch calls of all ranks.
    pub fn launches(&self) -> usize {
        self.ranks.iter().map(|r| r.launches).sum()
    }

    /// Returns the number of kernels of all ranks.
    pub fn kernels(&self) -> usize {
        self.ranks.iter().map(|r| r.kernels).sum()
    }

    /// Returns the kernel time of all ranks.
    pub fn gpu_ns(&self) -> i64 {
        total(self.ranks.iter().map(|r| r.gpu_ns))
    }

    /// Returns the indices of the ranks without the stack.
    pub fn missing(&self) -> Vec<usize> {
        let lacks = |(i, r): (usize, &RankShare)| (r.launches == 0).then_some(i);
        self.ranks.iter().enumerate().filter_map(lacks).collect()
    }

    /// Returns the difference between the largest and the smallest number of launches of a rank.
    pub fn count_skew(&self) -> usize {
        let counts = || self.ranks.iter().map(|r| r.launches);
        counts().max().unwrap_or(0) - counts().min().unwrap_or(0)
    }

    /// Returns the ratio of the longest to the shortest kernel time of a rank, over the ranks that
    /// have the stack.
    pub fn time_skew(&self) -> Option<f64> {
        let times = || {
            let some = self.ranks.iter().filter(|r| r.launches > 0);
            some.map(|r| r.gpu_ns).filter(|t| *t > 0)
        };
        let (max, min) = (times().max()?, times().min()?);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        Some(max as f64 / min as f64)
    }
}

/// Joins the stacks of several answers by their frames, most launches first, ties by frames.
pub fn merge(answers: &[&Answer]) -> Vec<MergedStack> {
    let mut rows: BTreeMap<Vec<String>, Vec<RankShare>> = BTreeMap::new();
    for (rank, answer) in answers.iter().enumerate() {
        for stack in &answer.groups {
            let row = rows
                .entry(frames(answer, stack.group.stack))
                .or_insert_with(|| vec![RankShare::default(); answers.len()]);
            row[rank].launches += stack.group.count();
            row[rank].kernels += stack.kernels();
            let ns = stack.measures.as_ref().map_or(0, |m| m.gpu.total_ns);
            row[rank].gpu_ns = row[rank].gpu_ns.saturating_add(ns);
        }
    }
    let mut rows: Vec<MergedStack> = rows
        .into_iter()
        .map(|(frames, ranks)| MergedStack { frames, ranks })
        .collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.launches()));
    rows
}

pub(crate) fn frames(answer: &Answer, stack: trace_model::callstack::StackId) -> Vec<String> {
    let frames = answer.stacks.table.root_first(stack);
    frames.into_iter().map(str::to_owned).collect()
}

/// Wait times of ranks in the collectives of one stack.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StackWait {
    /// The frames from the outermost inwards.
    pub frames: Vec<String>,
    /// Total wait time by rank.
    pub wait_ns: Vec<i64>,
    /// Number of collectives in which the rank came last, by rank.
    pub last: Vec<usize>,
    /// Number of waits of all ranks.
    pub waits: usize,
    /// The longest wait.
    pub longest_ns: i64,
}

impl StackWait {
    /// Returns the total wait time of all ranks.
    pub fn total_ns(&self) -> i64 {
        total(self.wait_ns.iter().copied())
    }
}

fn total(spans: impl Iterator<Item = i64>) -> i64 {
    spans.fold(0, i64::saturating_add)
}

/// Returns for each of `ranks` ranks the total wait time and how often it came last. Only complete
/// collectives count.
pub fn waits_by_rank(ranks: usize, waits: &[CollectiveWait]) -> Vec<(i64, usize)> {
    let mut rows = vec![(0_i64, 0_usize); ranks];
    for wait in waits.iter().filter(|wait| wait.complete) {
        for (member, ns) in wait.members.iter().zip(&wait.wait_ns) {
            if let Some(row) = rows.get_mut(*member) {
                row.0 = row.0.saturating_add(*ns);
                row.1 += usize::from(wait.last == Some(*member));
            }
        }
    }
    rows
}

/// Assigns waits to the stacks that launched the waiting kernels; longest total first. Only
/// complete collectives count.
pub fn waits_by_stack(answers: &[&Answer], waits: &[CollectiveWait]) -> Vec<StackWait> {
    let stack_of: Vec<HashMap<SliceId, usize, FxBuildHasher>> = answers
        .iter()
        .map(|answer| {
            let groups = answer.groups.iter().enumerate();
            groups
                .flat_map(|(g, s)| s.group.links.iter().map(move |l| (l.kernel, g)))
                .collect()
        })
        .collect();
    let mut rows: BTreeMap<Vec<String>, StackWait> = BTreeMap::new();
    for wait in waits.iter().filter(|wait| wait.complete) {
        for (i, member) in wait.members.iter().enumerate() {
            let group = stack_of
                .get(*member)
                .and_then(|s| s.get(wait.kernels.get(i)?));
            let Some(stack) = group.and_then(|g| answers.get(*member)?.groups.get(*g)) else {
                continue;
            };
            let frames = frames(answers[*member], stack.group.stack);
            let row = rows.entry(frames).or_insert_with_key(|frames| StackWait {
                frames: frames.clone(),
                wait_ns: vec![0; answers.len()],
                last: vec![0; answers.len()],
                waits: 0,
                longest_ns: 0,
            });
            let ns = wait.wait_ns.get(i).copied().unwrap_or(0);
            row.wait_ns[*member] = row.wait_ns[*member].saturating_add(ns);
            row.last[*member] += usize::from(wait.last == Some(*member));
            row.waits += 1;
            row.longest_ns = row.longest_ns.max(ns);
        }
    }
    let mut rows: Vec<StackWait> = rows.into_values().collect();
    rows.sort_by_key(|r| std::cmp::Reverse(r.total_ns()));
    rows
}
