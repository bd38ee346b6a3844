//! What logs of the GPU and of the engine say of the steps.

use super::Context;
use crate::beside::{Beside, State};
use crate::document::Evidence;
use crate::draft::{Draft, Strength};
use crate::job::{Phase, StepFact};
use crate::numbers::{counted, median, pct, time};

/// Used part of the KV cache from which it is full, in percent.
const FULL: f64 = 95.0;

/// Kinds whose cost is time in which the GPU has nothing to do.
const IDLE_KINDS: [&str; 6] = [
    "launch_bound",
    "graph_coverage",
    "host_bound",
    "synchronisation",
    "input_starvation",
    "disk_reads",
];

/// Adds to findings what the logs show of the same time, and lowers those that they contradict.
pub(super) fn annotate(context: &Context<'_>, phase: &Phase, drafts: &mut [Draft]) {
    let job = context.job;
    for log in context.logs {
        let usage = log.usage(job);
        for draft in drafts.iter_mut() {
            if let Some(usage) = usage.as_ref().filter(|_| IDLE_KINDS.contains(&draft.kind)) {
                let agrees = usage.agrees();
                let verb = match (agrees, usage.log_pct > usage.recorded_pct) {
                    (true, _) => "confirms it",
                    (false, true) => "contradicts it: something that is not recorded used the GPU",
                    (false, false) => "is lower still",
                };
                let text = format!(
                    "the GPU was {} busy by its log and {} in the recording over the same {}: the log {verb}",
                    pct(usage.log_pct),
                    pct(usage.recorded_pct),
                    time(usage.span.1 - usage.span.0)
                );
                draft.evidence.push(of_log(log, text));
                if !agrees && usage.log_pct > usage.recorded_pct {
                    draft.strength = Strength::Fits;
                }
            }
            match draft.kind {
                "input_starvation" => requests(context, log, draft),
                "slow_device" | "slow_device_phase" => columns(context, phase, log, draft),
                "prefill_interrupts" => again(context, log, draft),
                _ => {}
            }
        }
    }
}

fn of_log(log: &Beside<'_>, text: String) -> Evidence {
    Evidence {
        text,
        file: Some(log.name.to_owned()),
        ..Evidence::default()
    }
}

fn span(step: &StepFact) -> (i64, i64) {
    (step.row.begin_ns, step.row.end_ns)
}

/// Whether requests were there while the engine waited for requests.
fn requests(context: &Context<'_>, log: &Beside<'_>, draft: &mut Draft) {
    let steps = draft.values.iter().map(|(at, _)| &context.job.steps[*at]);
    let states: Vec<&State> = steps.flat_map(|step| log.around(span(step))).collect();
    let waiting: Vec<f64> = states.iter().filter_map(|state| state.waiting).collect();
    if waiting.is_empty() {
        return;
    }
    let least = waiting.iter().copied().fold(f64::INFINITY, f64::min);
    let most = waiting.iter().copied().fold(0.0, f64::max);
    if most <= 0.0 {
        let text = "the engine's log states no waiting request around these steps: it confirms it";
        draft.evidence.push(of_log(log, text.to_owned()));
    } else if least > 0.0 {
        let text = format!(
            "the engine's log states {} or more waiting requests around these steps: the engine had work, so that it waited for something else",
            whole(least)
        );
        draft.evidence.push(of_log(log, text));
        draft.strength = Strength::Fits;
    }
}

/// Clock, power and temperature of the GPU in slow steps and in the others.
fn columns(context: &Context<'_>, phase: &Phase, log: &Beside<'_>, draft: &mut Draft) {
    let job = context.job;
    let slow = |at: &usize| draft.values.iter().any(|(slow, _)| slow == at);
    let spans = |of_slow: bool| -> Vec<(i64, i64)> {
        let steps = phase.steps.iter().filter(|at| slow(at) == of_slow);
        steps.map(|at| span(&job.steps[*at])).collect()
    };
    let (here, elsewhere) = (spans(true), spans(false));
    for (name, slow, others) in log.columns(job, &here, &elsewhere) {
        if (slow - others).abs() < 0.02 * others.abs() {
            continue;
        }
        draft.evidence.push(of_log(
            log,
            format!("{name}: median {slow:.4} in these steps, {others:.4} in the others"),
        ));
    }
}

/// Requests that are computed again make prefill steps.
fn again(context: &Context<'_>, log: &Beside<'_>, draft: &mut Draft) {
    let job = context.job;
    let first = draft.values.iter().map(|(at, _)| span(&job.steps[*at]).0);
    let last = draft.values.iter().map(|(at, _)| span(&job.steps[*at]).1);
    let (Some(first), Some(last)) = (first.min(), last.max()) else {
        return;
    };
    let count = log.preempted((first, last));
    if count > 0 {
        let text = format!(
            "the engine's log names {} in this time: their prompts are computed again",
            counted(count, "preempted request", "preempted requests")
        );
        draft.evidence.push(of_log(log, text));
    }
}

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = Vec::new();
    for log in context.logs {
        out.extend(full(context, phase, log));
        out.extend(preempted(context, phase, log));
        out.extend(none_waits(context, phase, log));
        out.extend(differs(context, phase, log));
    }
    out
}

/// A draft of the steps around which all lines of the log have a state; `None` below its threshold.
fn state<'a>(
    kind: &'static str,
    context: &Context<'_>,
    phase: &Phase,
    log: &'a Beside<'_>,
    holds: impl Fn(&State) -> bool,
) -> Option<(Draft, Vec<&'a State>)> {
    let job = context.job;
    let mut draft = Draft::new(kind, phase);
    draft.is_state = true;
    let mut states: Vec<&State> = Vec::new();
    for at in &phase.steps {
        let step = &job.steps[*at];
        let around = log.around(span(step));
        if !around.is_empty() && around.iter().all(&holds) {
            draft.values.push((*at, step.row.duration_ns));
            states.extend(around);
        }
    }
    draft.reported(context.catalogue, phase)?;
    states.sort_by_key(|state| state.at_ns);
    states.dedup_by_key(|state| state.at_ns);
    draft.strength = Strength::Favoured;
    draft.evidence.push(of_log(
        log,
        format!(
            "{} around these steps; clocks joined within {} ({})",
            counted(states.len() as u64, "line", "lines"),
            time(log.within_ns),
            log.how
        ),
    ));
    Some((draft, states))
}

fn middle(states: &[&State], of: impl Fn(&State) -> Option<f64>) -> f64 {
    let all: Vec<f64> = states.iter().filter_map(|state| of(state)).collect();
    match all.is_empty() {
        true => 0.0,
        false => stats::median(&all),
    }
}

/// A number of requests as text.
fn whole(n: f64) -> String {
    format!("{n:.0}")
}

fn full(context: &Context<'_>, phase: &Phase, log: &Beside<'_>) -> Option<Draft> {
    let (draft, states) = state("kv_cache_full", context, phase, log, |state| {
        state.cache_pct.is_some_and(|pct| pct >= FULL) && state.waiting.is_some_and(|n| n > 0.0)
    })?;
    let draft = draft
        .word("cache", pct(middle(&states, |state| state.cache_pct)))
        .word("waiting", whole(middle(&states, |state| state.waiting)));
    Some(draft.word(
        "running",
        whole(middle(&states, |state| Some(state.running))),
    ))
}

fn preempted(context: &Context<'_>, phase: &Phase, log: &Beside<'_>) -> Option<Draft> {
    let job = context.job;
    let mut draft = Draft::new("preemption", phase);
    draft.is_state = true;
    let each = phase.steps.iter().map(|at| (*at, &job.steps[*at]));
    let each = each.filter(|(_, step)| log.preempted(span(step)) > 0);
    draft.values = each.map(|(at, step)| (at, step.row.duration_ns)).collect();
    draft.reported(context.catalogue, phase)?;
    let first = draft
        .values
        .first()
        .map(|(at, _)| span(&job.steps[*at]).0)?;
    let last = draft.values.last().map(|(at, _)| span(&job.steps[*at]).1)?;
    let count = log.preempted((first, last));
    draft.strength = Strength::Favoured;
    draft.evidence.push(of_log(
        log,
        format!(
            "named within {} of these steps ({})",
            time(log.within_ns),
            log.how
        ),
    ));
    Some(draft.word("count", counted(count, "request", "requests")))
}

fn none_waits(context: &Context<'_>, phase: &Phase, log: &Beside<'_>) -> Option<Draft> {
    let (mut draft, states) = state("no_request_waits", context, phase, log, |state| {
        state.waiting.is_some_and(|n| n <= 0.0)
    })?;
    let job = context.job;
    let batch = median(
        job.of(phase)
            .filter_map(|step| i64::try_from(step.batch?).ok()),
    );
    if batch > 0 {
        let text = format!("steps have {batch} requests (median)");
        draft.evidence.push(of_log(log, text));
    }
    let running = middle(&states, |state| Some(state.running));
    Some(draft.word("running", whole(running)))
}

/// The use of the GPU by its log against the recording.
fn differs(context: &Context<'_>, phase: &Phase, log: &Beside<'_>) -> Option<Draft> {
    let job = context.job;
    let usage = log.usage(job).filter(|usage| !usage.agrees())?;
    let mut draft = Draft::new("gpu_log_differs", phase);
    draft.is_state = true;
    let (begin, end) = usage.span;
    let each = phase.steps.iter().map(|at| (*at, &job.steps[*at].row));
    let each = each.filter(|(_, row)| row.begin_ns < end && begin < row.end_ns);
    draft.values = each.map(|(at, row)| (at, row.duration_ns)).collect();
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.rank = Some(job.rank());
    draft.evidence.push(of_log(
        log,
        format!(
            "{} over {}; a difference of {} is within what the first and the last may be of ({})",
            counted(usage.readings as u64, "reading", "readings"),
            time(end - begin),
            pct(usage.within_pct()),
            log.how
        ),
    ));
    let meaning = match usage.log_pct > usage.recorded_pct {
        true => "work that is not recorded ran on it",
        false => "the log is of another GPU, or its clock is not that of the recording",
    };
    Some(
        draft
            .word("log", pct(usage.log_pct))
            .word("recorded", pct(usage.recorded_pct))
            .word("meaning", meaning),
    )
}
