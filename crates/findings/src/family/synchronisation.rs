//! Calls in the middle of a step that make the host wait for the GPU.

use std::collections::BTreeMap;

use trace_model::kernel::Activity;

use super::{Context, replay};
use crate::document::Evidence;
use crate::draft::{Draft, Gain, Strength};
use crate::job::{Gap, Phase, overlap};
use crate::numbers::{plain, time};
use crate::recording::Call;
use crate::words;

/// Returns what a call belongs to, in the engineer's words: the operator, else the function around it, else the call.
fn label(call: &Call) -> String {
    let operator = call.within.iter().find(|name| name.contains("::"));
    let function = call.within.iter().find(|name| !name.contains("::"));
    let first = operator.or(function);
    first.map_or_else(|| call.name.clone(), |name| words::function(name))
}

/// Time of a copy from which it may have waited for earlier work, in nanoseconds: submitting one takes less.
const BLOCKING_NS: i64 = 20_000;

/// Time from the end of work to the begin of a copy to the host that belongs to the same wait, at most.
const NEAR_NS: i64 = 20_000;

/// Returns `true` if a call waited for the work that ended where a gap begins.
fn blocks(call: &Call, gap: &Gap) -> bool {
    let waits = match call.kind {
        Activity::SyncApi => true,
        Activity::MemcpyApi => call.end_ns - call.begin_ns >= BLOCKING_NS,
        _ => false,
    };
    waits && call.begin_ns <= gap.begin_ns + NEAR_NS && call.end_ns >= gap.begin_ns
}

/// Calls that block while launches of the same step follow: they end the run-ahead of the host, even where the GPU idles elsewhere.
fn run_ahead(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let facts = job.headline_facts();
    let mut by_label: BTreeMap<String, (i64, u64, Call, u32)> = BTreeMap::new();
    let mut steps = 0;
    for at in &phase.steps {
        let step = &job.steps[*at];
        let (begin, end) = step.host();
        let all = facts.launches_in((begin, end));
        let blocking = facts.calls_in((begin, end)).filter(|call| {
            let ns = call.end_ns - call.begin_ns;
            let waits = match call.kind {
                Activity::SyncApi => true,
                Activity::MemcpyApi => ns >= BLOCKING_NS,
                _ => false,
            };
            // A fifth of the launches of the step follow.
            waits && facts.launches_in((call.end_ns, end)) * 5 > all && all > 0
        });
        let mut found = false;
        for call in blocking {
            found = true;
            let slot = by_label
                .entry(label(call))
                .or_insert_with(|| (0, 0, call.clone(), step.row.step));
            slot.0 += call.end_ns - call.begin_ns;
            slot.1 += 1;
        }
        steps += usize::from(found);
    }
    if steps * 2 < phase.steps.len() || by_label.is_empty() {
        return None;
    }
    let change: critical_path::Change = "async".parse().ok()?;
    let predicted = job.predict(std::slice::from_ref(&change));
    let new = predicted.first()?;
    let mut draft = Draft::new("synchronisation", phase);
    let each = phase.steps.iter().map(|at| {
        let row = &job.steps[*at].row;
        let gain = row.duration_ns - new.get(&row.step).copied().unwrap_or(row.duration_ns);
        (*at, gain.max(0))
    });
    draft.values = each.collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let (name, (ns, count, call, step)) = by_label
        .into_iter()
        .max_by_key(|(name, found)| (found.0, std::cmp::Reverse(name.clone())))?;
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    draft.about = name.clone();
    draft.name = Some(name.clone());
    draft.stack = call.stack();
    draft.evidence.push(Evidence {
        text: format!(
            "{} in {name}: {count} times, {} in all, while launches of the same step follow; the cost is what a replay without such calls saves",
            call.name,
            time(ns)
        ),
        file: Some(facts.name.clone()),
        rank: Some(facts.rank),
        step: Some(step),
        event_id: Some(call.id),
        name: Some(plain(&call.name, 200)),
        begin_ns: Some(call.begin_ns),
        duration_ns: Some(call.end_ns - call.begin_ns),
    });
    draft.commands.push(format!(
        "inferscope trace-info critical-path {} --what-if async",
        context.paths
    ));
    Some(draft.word("name", name))
}

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    idle_after(context, phase).or_else(|| run_ahead(context, phase))
}

/// Calls that block, after which the GPU idles.
fn idle_after(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let facts = job.headline_facts();
    let mut draft = Draft::new("synchronisation", phase);
    let mut by_label: BTreeMap<String, (i64, u64, Call, u32)> = BTreeMap::new();
    for at in &phase.steps {
        let step = &job.steps[*at];
        // A gap that begins before the step does on the host belongs to the end of the step before.
        let middle = step
            .gaps
            .iter()
            .filter(|gap| !gap.is_first && gap.is_sync && gap.begin_ns >= step.row.host_begin_ns);
        let mut cost = 0;
        for gap in middle {
            // The call that blocked: it began before the GPU ran dry, and ended when it had.
            let calls = facts.calls_in((step.row.host_begin_ns, gap.end_ns));
            let call = calls.filter(|call| blocks(call, gap)).last();
            let Some(call) = call else { continue };
            let idle = gap
                .ns
                .min(gap.end_ns - gap.begin_ns - overlap(&facts.busy, (gap.begin_ns, gap.end_ns)));
            cost += idle;
            let slot = by_label
                .entry(label(call))
                .or_insert_with(|| (0, 0, call.clone(), step.row.step));
            slot.0 += idle;
            slot.1 += 1;
        }
        draft.values.push((*at, cost));
    }
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let mut labels: Vec<(String, (i64, u64, Call, u32))> = by_label.into_iter().collect();
    labels.sort_by_key(|(_, found)| std::cmp::Reverse(found.0));
    let (name, found) = labels.first().cloned()?;
    draft.strength = Strength::Recorded;
    draft.gain = match replay("async") {
        Gain::Replay { change, .. } => Gain::Replay {
            change,
            is_capped: true,
        },
        other => other,
    };
    draft.rank = Some(job.rank());
    draft.about = name.clone();
    draft.name = Some(name.clone());
    draft.stack = found.2.stack();
    for (label, (ns, count, call, step)) in labels.iter().take(4) {
        draft.evidence.push(Evidence {
            text: format!(
                "{} in {label}: {count} times, and the GPU idles {} after it",
                call.name,
                time(*ns / i64::try_from(*count).unwrap_or(1).max(1))
            ),
            file: Some(facts.name.clone()),
            rank: Some(facts.rank),
            step: Some(*step),
            event_id: Some(call.id),
            name: Some(plain(&call.name, 200)),
            begin_ns: Some(call.begin_ns),
            duration_ns: Some(call.end_ns - call.begin_ns),
        });
    }
    draft.commands.push(format!(
        "inferscope trace-info critical-path {} --what-if async",
        context.paths
    ));
    draft.commands.push(context.path_command(&draft));
    Some(draft.word("name", name))
}
