//! Where the time of the steps of a phase goes: parts that add up exactly.

use std::collections::BTreeMap;

use critical_path::Group;

use crate::catalogue::Catalogue;
use crate::document::{Budget, BudgetPart};
use crate::family_device_limit;
use crate::job::{Job, Phase, overlap};
use crate::numbers::{interval, share};

/// Returns the budget of each phase, most time first.
pub(crate) fn budgets(job: &Job, catalogue: &Catalogue) -> Vec<Budget> {
    // Of a single step that was asked for, its own.
    if let Some(at) = job.focus {
        let step = &job.steps[at];
        let own = Phase {
            name: step.phase.clone(),
            steps: vec![at],
            total_ns: step.row.duration_ns,
        };
        return vec![budget(job, catalogue, &own)];
    }
    let each = job.phases.iter();
    each.map(|phase| budget(job, catalogue, phase)).collect()
}

/// Returns the times of a phase by group and class.
pub(crate) fn classes(job: &Job, phase: &Phase) -> BTreeMap<(Group, String), i64> {
    let mut sums: BTreeMap<(Group, String), i64> = BTreeMap::new();
    for item in job.of(phase).flat_map(|step| &step.items) {
        *sums.entry((item.group(), item.class_name())).or_default() += item.ns;
    }
    sums
}

fn budget(job: &Job, catalogue: &Catalogue, phase: &Phase) -> Budget {
    let steps = phase.steps.len();
    let busy = &job.headline_facts().busy;
    let each = job
        .of(phase)
        .map(|step| overlap(busy, (step.row.begin_ns, step.row.end_ns)));
    let busy: i64 = each.sum();
    let n = i64::try_from(steps).unwrap_or(i64::MAX).max(1);
    let tokens: Option<u64> = job.of(phase).map(|step| step.tokens).sum();
    let tokens = tokens.filter(|tokens| *tokens > 0);
    let per_token = |ns: i64| Some(ns / i64::try_from(tokens?).ok()?);
    let parts = classes(job, phase).into_iter();
    let mut parts: Vec<BudgetPart> = parts
        .map(|((group, class), total_ns)| BudgetPart {
            group: group.name().to_owned(),
            label: catalogue.label(&class).to_owned(),
            class,
            total_ns,
            per_step_ns: total_ns / n,
            per_token_ns: per_token(total_ns),
            share_pct: share(total_ns, phase.total_ns),
        })
        .collect();
    parts.sort_by(|a, b| {
        b.total_ns
            .cmp(&a.total_ns)
            .then_with(|| a.class.cmp(&b.class))
    });
    Budget {
        side: job.side,
        phase: phase.name.clone(),
        rank: Some(job.rank()),
        steps: steps as u64,
        step_time_ns: interval(job.of(phase).map(|step| step.row.duration_ns)),
        total_ns: phase.total_ns,
        tokens,
        limit_ns: family_device_limit(job, phase).map(|limit| limit.limit_ns),
        gpu_busy_pct: Some(share(busy, phase.total_ns)),
        parts,
    }
}
