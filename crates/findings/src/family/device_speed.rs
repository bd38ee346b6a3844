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
    // All steps, for a device that slows down from step to step: then few are as fast as it was.
    let mut course: Vec<(usize, i64, f64)> = Vec::new();
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
        course.push((*at, here, factor));
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
    let drift = drift(&course);
    let is_drift = drift.is_some();
    if let Some((longer, last)) = drift {
        values = longer;
        factors = vec![last];
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
    let word = crate::draft::phase_word(&phase.name);
    let than = match is_drift {
        true => format!("in the last {word} steps as in the first, growing from step to step"),
        false => format!("in {} {word} steps as in the others", draft.values.len()),
    };
    Some(draft.word("factor", factor).word("than", than))
}

/// Share of the pairs of steps in which the later one has to be slower for a drift.
const ORDERED: f64 = 0.9;

/// Maximum number of pairs of steps to compare.
const PAIRS: usize = 300;

/// Returns what each step takes longer than the first ones, and the factor of the last ones, if the device slows down from step to
/// step: a jump is another state, not a drift.
#[expect(clippy::cast_precision_loss, reason = "ratios")]
fn drift(course: &[(usize, i64, f64)]) -> Option<(Vec<(usize, i64)>, f64)> {
    let middle = |steps: &[(usize, i64, f64)]| {
        let mut factors: Vec<f64> = steps.iter().map(|step| step.2).collect();
        factors.sort_by(f64::total_cmp);
        factors.get(factors.len() / 2).copied()
    };
    let first = middle(course.get(..LEAST)?)?;
    let last = middle(course.get(course.len().checked_sub(LEAST)?..)?)?;
    let growth = last - first;
    if first <= 0.0 || last / first < SLOWER {
        return None;
    }
    // Half of the way at once is a jump; single slow steps are none.
    let few: Vec<f64> = course.chunks(LEAST).filter_map(middle).collect();
    if few.windows(2).any(|pair| pair[1] - pair[0] > growth / 2.0) {
        return None;
    }
    let stride = course.len().div_ceil(PAIRS);
    let sample: Vec<f64> = course.iter().step_by(stride).map(|step| step.2).collect();
    let (mut ordered, mut all) = (0_usize, 0_usize);
    for (at, early) in sample.iter().enumerate() {
        let later = sample.get(at + 1..).unwrap_or_default();
        ordered += later.iter().filter(|late| *late > early).count();
        all += later.len();
    }
    if (ordered as f64) < ORDERED * all as f64 {
        return None;
    }
    let longer = course.iter().map(|(at, here, factor)| {
        let excess = *here as f64 * (1.0 - first / factor.max(first));
        (*at, crate::numbers::whole_ns(excess))
    });
    Some((longer.filter(|(_, ns)| *ns > 0).collect(), last / first))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn course(factors: impl Iterator<Item = f64>) -> Vec<(usize, i64, f64)> {
        let each = factors.enumerate();
        each.map(|(at, factor)| (at, crate::numbers::whole_ns(1e6 * factor), factor))
            .collect()
    }

    #[test]
    fn a_drift_is_measured_from_the_first_steps_and_a_jump_is_none() {
        let noise = |at: i32| f64::from(at * 7 % 5) * 0.001;
        let growing = course((0..40).map(|at| 1.0 + 0.01 * f64::from(at) + noise(at)));
        let (longer, factor) = drift(&growing).expect("a drift");
        // One hundredth more a step: 0.195 of a millisecond on average.
        let mean = longer.iter().map(|(_, ns)| *ns).sum::<i64>() / 40;
        assert!((mean - 185_000).abs() < 10_000, "{mean}");
        assert!((factor - 1.37).abs() < 0.03, "{factor}");
        let jump = course((0..40).map(|at| if at < 25 { 1.0 } else { 1.3 } + noise(at)));
        assert!(drift(&jump).is_none());
        let steady = course((0..40).map(|at| 1.0 + noise(at)));
        assert!(drift(&steady).is_none());
        let pulses = course((0..40).map(|at| 1.0 + 0.3 * f64::from(at % 4) / 3.0));
        assert!(drift(&pulses).is_none());
    }
}
