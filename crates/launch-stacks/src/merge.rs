//! Stacks of several ranks in one table.

use std::collections::{BTreeMap, HashMap};

use rustc_hash::FxBuildHasher;
use trace_model::SliceId;

use crate::analyse::Answer;
use crate::ranks::CollectiveWait;

/// What one rank contributes to a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RankShare {
    /// Distinct launch calls.
    pub launches: usize,
    /// Kernels.
    pub kernels: usize,
    /// Their time; 0 if it was not measured.
    pub gpu_ns: i64,
}

/// One stack over all ranks.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct MergedStack {
    /// The frames from the outermost inwards.
    pub frames: Vec<String>,
    /// By rank, in the order of the answers.
    pub ranks: Vec<RankShare>,
}

impl MergedStack {
    /// Launch calls of all ranks.
    pub fn launches(&self) -> usize {
        self.ranks.iter().map(|r| r.launches).sum()
    }

    /// Kernels of all ranks.
    pub fn kernels(&self) -> usize {
        self.ranks.iter().map(|r| r.kernels).sum()
    }

    /// Kernel time of all ranks.
    pub fn gpu_ns(&self) -> i64 {
        total(self.ranks.iter().map(|r| r.gpu_ns))
    }

    /// The places of the ranks that lack the stack.
    pub fn missing(&self) -> Vec<usize> {
        let lacks = |(i, r): (usize, &RankShare)| (r.launches == 0).then_some(i);
        self.ranks.iter().enumerate().filter_map(lacks).collect()
    }

    /// Difference between the most and the fewest launches of a rank.
    pub fn count_skew(&self) -> usize {
        let counts = || self.ranks.iter().map(|r| r.launches);
        counts().max().unwrap_or(0) - counts().min().unwrap_or(0)
    }

    /// Longest kernel time of a rank by the shortest, over the ranks that have the stack.
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

/// How long ranks waited in the collectives of one stack.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct StackWait {
    /// The frames from the outermost inwards.
    pub frames: Vec<String>,
    /// By rank: its waits added up.
    pub wait_ns: Vec<i64>,
    /// By rank: in how many of the collectives it came last.
    pub last: Vec<usize>,
    /// How many waits of any rank these are.
    pub waits: usize,
    /// The longest of them.
    pub longest_ns: i64,
}

impl StackWait {
    /// The waits of all ranks added up.
    pub fn total_ns(&self) -> i64 {
        total(self.wait_ns.iter().copied())
    }
}

fn total(spans: impl Iterator<Item = i64>) -> i64 {
    spans.fold(0, i64::saturating_add)
}

/// By rank, of `ranks` ranks: its waits added up, and how often it came last. Only complete collectives count.
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

/// Charges waits to the stacks that launched the waiting kernels; most waiting first. Only complete collectives count.
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
