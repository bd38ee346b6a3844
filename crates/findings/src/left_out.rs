//! Steps that the answer does not use: warm-up, and those that hold the end of a step of another phase.

use critical_path::Analysis;

use crate::job::StepFact;
use crate::numbers::counted;

/// Ratio to the other steps of its phase from which the first step of a recording is warm-up: modules are loaded, kernels
/// compiled, caches filled.
const WARM_UP: i64 = 3;

/// Fewer other steps of a phase than this do not make its first one warm-up.
const OTHERS: usize = 3;

/// Returns why nothing can be said of the steps of a rank, all of which lack GPU work.
pub(crate) fn lost_work(analysis: &Analysis, rank: u32) -> String {
    let rows = analysis.recordings.iter().filter(|row| row.rank == rank);
    let lost: u64 = rows.map(|row| row.lost_work).sum();
    let steps = analysis.steps.iter().filter(|step| step.rank == rank);
    format!(
        "{} of {} of rank {rank} have no GPU activity, in all of them, so that neither their time nor what limits them is known: end the \
         recording behind a synchronisation, and record fewer steps or give the profiler larger buffers",
        counted(lost, "launch", "launches"),
        counted(steps.count() as u64, "step", "steps"),
    )
}

/// Leaves out steps that are called warm-up, and a first step that takes far longer than the others of its phase. Returns what was
/// left out by its time.
pub(crate) fn leave_out_warm_up(steps: &mut [StepFact], focus: Option<usize>) -> Option<String> {
    for (at, step) in steps.iter_mut().enumerate() {
        let name = step.row.name.to_ascii_lowercase();
        if (name.contains("warmup") || name.contains("warm_up")) && focus != Some(at) {
            step.is_used = false;
        }
    }
    let first = steps.iter().position(|step| step.is_used)?;
    let phase = steps[first].phase.clone();
    let others = steps.iter().skip(first + 1);
    let others = others.filter(|step| step.is_used && step.phase == phase);
    let mut others: Vec<i64> = others.map(|step| step.row.duration_ns).collect();
    others.sort_unstable();
    let usual = *others.get(others.len() / 2)?;
    let own = steps[first].row.duration_ns;
    if own <= WARM_UP * usual || focus == Some(first) || others.len() < OTHERS {
        return None;
    }
    steps[first].is_used = false;
    Some(format!(
        "step {} is left out as warm-up: it takes {}, the others of its phase {} (median)",
        steps[first].row.step,
        crate::numbers::time(own),
        crate::numbers::time(usual)
    ))
}

/// Share of the usual time by which a step is longer for the end of the step before it, in percent.
const NOTABLY_LONGER: f64 = 10.0;

/// Leaves out steps that are longer than those of their phase because the host still ended a step of another phase when they began: a
/// step begins where the GPU work of the one before ends. Returns what was left out.
pub(crate) fn leave_out_behind_others(
    steps: &mut [StepFact],
    focus: Option<usize>,
) -> Option<String> {
    let mut out: Vec<usize> = Vec::new();
    let phases: std::collections::BTreeSet<String> =
        steps.iter().map(|step| step.phase.clone()).collect();
    for phase in phases {
        let own = steps.iter().enumerate();
        let own = own.filter(|(_, step)| step.is_used && step.phase == phase);
        let own: Vec<usize> = own.map(|(at, _)| at).collect();
        let usual = crate::numbers::median(own.iter().map(|at| steps[*at].row.duration_ns));
        let is_behind = |at: &usize| {
            let step = &steps[*at];
            let longer = step.row.duration_ns - usual;
            step.is_behind_other
                && focus != Some(*at)
                && crate::numbers::share(longer, usual) >= NOTABLY_LONGER
                && step.before_ns() * 2 >= longer
        };
        let behind: Vec<usize> = own.iter().copied().filter(is_behind).collect();
        // They are few of their phase, or they are how its steps are.
        if behind.len() * 4 <= own.len() {
            out.extend(behind);
        }
    }
    for at in &out {
        steps[*at].is_used = false;
    }
    (!out.is_empty()).then(|| {
        format!(
            "{} left out: the host still ended a step of another phase when they began",
            match out.len() {
                1 => "1 step is".to_owned(),
                n => format!("{n} steps are"),
            }
        )
    })
}
