//! Launches that take longer than the kernels, and steps that do not replay a graph.

use critical_path::{Class, Group};
use trace_model::kernel::Activity;

use super::{Context, replay};
use crate::draft::{Draft, Strength, longest_of, said};
use crate::job::{Item, Phase, StepFact};
use crate::numbers::{counted, median, time};

fn is_launch(item: &Item) -> bool {
    item.group() == Group::Launch
}

/// Numbers of launches and of graph launches of a step.
fn numbers(context: &Context<'_>, step: &StepFact) -> (u64, u64) {
    let facts = context.job.headline_facts();
    let graphs = facts.calls_in(step.host());
    let graphs = graphs
        .filter(|call| call.kind == Activity::GraphLaunch)
        .count();
    (facts.launches_in(step.host()), graphs as u64)
}

/// Steps that are bound by their launches.
pub(super) fn bound(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let mut draft = Draft::new("launch_bound", phase).over(job, phase, is_launch);
    draft.reported(context.catalogue, phase)?;
    let steps: Vec<&StepFact> = job.of(phase).collect();
    let numbers: Vec<(u64, u64)> = steps.iter().map(|step| numbers(context, step)).collect();
    let middle = |of: fn(&(u64, u64)) -> u64| {
        median(
            numbers
                .iter()
                .map(|n| i64::try_from(of(n)).unwrap_or(i64::MAX)),
        )
    };
    let (launches, graphs) = (middle(|n| n.0), middle(|n| n.1));
    // A few launches around a graph are not what a graph would save.
    draft.strength = match launches >= 20 {
        true => Strength::Recorded,
        false => Strength::Favoured,
    };
    draft.gain = replay("graph");
    draft.rank = super::host::place_of(context, phase, is_launch);
    draft = draft.word("launches", report::human::count(launches)).word(
        "graphs",
        match graphs {
            0 => ", none of them of a graph".to_owned(),
            n => format!(
                " besides {}",
                counted(n.unsigned_abs(), "graph launch", "graph launches")
            ),
        },
    );
    let name = super::sums(job, phase, |item| {
        is_launch(item).then(|| item.name.clone())
    });
    if let Some((name, _)) = name.into_iter().find(|(name, _)| !name.is_empty()) {
        draft
            .evidence
            .extend(longest_of(job, &steps, &name, |item| {
                is_launch(item) && item.name == name
            }));
    }
    let of = |class: Class| {
        median(
            steps
                .iter()
                .map(|step| step.sum(|item| item.class == class)),
        )
    };
    draft.evidence.push(said(
        job,
        format!(
            "of a median step: {} in launch calls, {} host code between launches, {} launch latency",
            time(of(Class::LaunchCall)),
            time(of(Class::Dispatch)),
            time(of(Class::LaunchLatency))
        ),
    ));
    draft.commands.push(format!(
        "inferscope trace-info critical-path {} --what-if graph",
        context.paths
    ));
    draft
        .commands
        .push(format!("inferscope trace-info launch {}", context.paths));
    Some(draft)
}

/// Steps without a graph launch among steps of the same phase with one.
pub(super) fn coverage(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let each = phase.steps.iter();
    let each: Vec<(usize, u64, u64)> = each
        .map(|at| {
            let (launches, graphs) = numbers(context, &job.steps[*at]);
            (*at, launches, graphs)
        })
        .collect();
    let (with, without): (Vec<_>, Vec<_>) = each.into_iter().partition(|step| step.2 > 0);
    if with.len() < 2 || without.is_empty() {
        return None;
    }
    let launches = |steps: &[(usize, u64, u64)]| {
        median(
            steps
                .iter()
                .map(|step| i64::try_from(step.1).unwrap_or(i64::MAX)),
        )
    };
    // Only where kernels are launched one by one instead.
    if launches(&without) < 20.max(launches(&with).saturating_mul(3)) {
        return None;
    }
    let usual = median(with.iter().map(|step| job.steps[step.0].row.duration_ns));
    let mut draft = Draft::new("graph_coverage", phase);
    let longer = without.iter().map(|step| {
        let ns = job.steps[step.0].row.duration_ns - usual;
        (step.0, ns.max(0))
    });
    draft.values = longer.filter(|(_, ns)| *ns > 0).collect();
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Recorded;
    draft.gain = replay("graph");
    draft.rank = Some(job.rank());
    let sizes = |steps: &[(usize, u64, u64)]| -> Vec<u64> {
        let mut sizes: Vec<u64> = steps.iter().filter_map(|s| job.steps[s.0].batch).collect();
        sizes.sort_unstable();
        sizes.dedup();
        sizes
    };
    let (with_sizes, without_sizes) = (sizes(&with), sizes(&without));
    let shown = |sizes: &[u64]| match sizes {
        [] => "unknown".to_owned(),
        [one] => one.to_string(),
        [first, .., last] => format!("{first} to {last}"),
    };
    let apart = !without_sizes.iter().any(|size| with_sizes.contains(size));
    let sizes = match apart && !with_sizes.is_empty() && !without_sizes.is_empty() {
        true => format!(
            " (batch {} without, {} with)",
            shown(&without_sizes),
            shown(&with_sizes)
        ),
        false => String::new(),
    };
    draft = draft
        .word("count", without.len().to_string())
        .word("of", phase.steps.len().to_string())
        .word("sizes", sizes);
    draft.evidence.push(said(
        job,
        format!(
            "steps with a graph take {} (median of {}), those without {} (median of {}), with {} launches each",
            time(usual),
            with.len(),
            time(median(without.iter().map(|s| job.steps[s.0].row.duration_ns))),
            without.len(),
            launches(&without)
        ),
    ));
    draft.commands.push(context.path_command(&draft));
    Some(draft)
}
