//! Steps in which all kernels are slower than in the others of the same recording: the device, not the work.

use std::collections::BTreeMap;

use super::Context;
use crate::draft::{Draft, Gain, Strength, said};
use crate::job::{Phase, StepFact};
use crate::recording::KernelRun;

/// Factor from which a step is slower.
const SLOWER: f64 = 1.08;

/// Factor from which a kernel takes part in it.
const OWN: f64 = 1.04;

/// Share of the kernel time that has to take part.
const PART: f64 = 0.7;

/// Factor beyond which it is other work and no clock.
const FASTEST: f64 = 4.0;

/// Fewer steps than this are no group.
const LEAST: usize = 3;

/// Calls and time by kernel of a step, whether they are on the path or not.
fn kernels(runs: &[KernelRun], step: &StepFact) -> BTreeMap<u32, (u64, i64)> {
    let mut all: BTreeMap<u32, (u64, i64)> = BTreeMap::new();
    let from = runs.partition_point(|run| run.begin_ns < step.row.begin_ns);
    for run in runs.get(from..).unwrap_or_default() {
        if run.begin_ns >= step.row.end_ns {
            break;
        }
        let sum = all.entry(run.name).or_default();
        *sum = (sum.0 + 1, sum.1 + i64::from(run.duration_ns));
    }
    all
}

#[expect(clippy::cast_precision_loss, reason = "ratios")]
pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    if phase.steps.len() < 2 * LEAST + 2 {
        return None;
    }
    let runs = &job.headline_facts().runs;
    let each: Vec<BTreeMap<u32, (u64, i64)>> =
        job.of(phase).map(|step| kernels(runs, step)).collect();
    // The first quarter of the times of a kernel is its usual time: up to three quarters of the steps may be slow.
    let mut times: BTreeMap<(u32, u64), Vec<i64>> = BTreeMap::new();
    for step in &each {
        for (name, (calls, ns)) in step {
            times.entry((*name, *calls)).or_default().push(*ns);
        }
    }
    let usual: BTreeMap<(u32, u64), i64> = times
        .into_iter()
        .filter(|(_, list)| list.len() * 2 >= phase.steps.len())
        .map(|(key, mut list)| {
            list.sort_unstable();
            let at = list.len() / 4;
            (key, list[at])
        })
        .collect();
    let mut values = Vec::new();
    let mut factors = Vec::new();
    for (at, step) in phase.steps.iter().zip(&each) {
        let (mut here, mut there, mut slower, mut all, mut names) = (0_i64, 0_i64, 0_i64, 0_i64, 0);
        for (name, (calls, ns)) in step {
            all += ns;
            let Some(usual) = usual.get(&(*name, *calls)) else {
                continue;
            };
            here += ns;
            there += usual;
            if *ns as f64 >= OWN * *usual as f64 {
                slower += ns;
                names += 1;
            }
        }
        let factor = here as f64 / there.max(1) as f64;
        let is_slow =
            (SLOWER..FASTEST).contains(&factor) && names >= 3 && slower as f64 >= PART * all as f64;
        if is_slow {
            values.push((*at, here - there));
            factors.push(factor);
        }
    }
    if values.len() < LEAST {
        return None;
    }
    // Batches that differ make kernels differ.
    let batch = |slow: bool| -> Vec<u64> {
        let steps = phase.steps.iter();
        let steps = steps.filter(|at| values.iter().any(|(slow, _)| slow == *at) == slow);
        let mut all: Vec<u64> = steps.filter_map(|at| job.steps[*at].batch).collect();
        all.sort_unstable();
        all.dedup();
        all
    };
    let (slow, others) = (batch(true), batch(false));
    if slow.iter().any(|size| !others.contains(size)) {
        return None;
    }
    // Steps that are launched otherwise are another kind of step.
    let graphs = |at: usize| super::launches::numbers(context, &job.steps[at]).1 > 0;
    let is_slow = |at: &usize| values.iter().any(|(slow, _)| slow == at);
    let mut others = phase.steps.iter().filter(|at| !is_slow(at));
    if others.clone().next().is_some()
        && !values
            .iter()
            .any(|(at, _)| others.any(|other| graphs(*other) == graphs(*at)))
    {
        return None;
    }
    let mut draft = Draft::new("slow_device_phase", phase);
    draft.values = values;
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    factors.sort_by(f64::total_cmp);
    let factor = format!("{:.2}", factors[factors.len() / 2]);
    draft.evidence.push(said(
        job,
        format!(
            "of the kernels of a slow step {} names or more take longer than the first quarter of their times in all steps, for the same number of calls",
            LEAST
        ),
    ));
    draft
        .commands
        .push(format!("inferscope trace-info kernels {}", context.traces));
    let count = draft.values.len().to_string();
    Some(draft.word("factor", factor).word("count", count))
}
