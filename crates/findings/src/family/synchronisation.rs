//! Calls in the middle of a step that make the host wait for the GPU.

use std::collections::BTreeMap;

use trace_model::kernel::Activity;

use super::{Context, replay};
use crate::document::Evidence;
use crate::draft::{Draft, Gain, Strength};
use crate::job::{Gap, Phase, StepFact, overlap};
use crate::numbers::{plain, time};
use crate::recording::{Call, Facts};
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

/// Returns `true` if a fifth of the launches of a step follow a call, or a graph launch does.
fn is_middle(facts: &Facts, call: &Call, (begin, end): (i64, i64)) -> bool {
    let all = facts.launches_in((begin, end));
    let mut later = facts.calls_in((call.end_ns, end));
    let has_graph = later.any(|call| call.kind == Activity::GraphLaunch);
    has_graph || (all > 0 && facts.launches_in((call.end_ns, end)) * 5 > all)
}

/// Returns where in a step a call is, by the launches before and behind it.
fn place(facts: &Facts, call: &Call, (begin, end): (i64, i64)) -> &'static str {
    let is_first = facts.launches_in((begin, call.begin_ns)) == 0
        && !facts
            .calls_in((begin, call.begin_ns))
            .any(|call| call.kind == Activity::GraphLaunch);
    match (is_first, is_middle(facts, call, (begin, end))) {
        (true, _) => " before the first launch of the step",
        (_, true) => " in the middle of the step",
        _ => " at the end of the step",
    }
}

/// Operators that read a value of the GPU for the host.
const READING: [&str; 5] = [
    "aten::item",
    "aten::_local_scalar_dense",
    "aten::nonzero",
    "aten::is_nonzero",
    "aten::equal",
];

fn reads_value(call: &Call) -> bool {
    call.within
        .iter()
        .any(|name| READING.contains(&name.as_str()))
}

/// Returns the time of a step without GPU work that is no matter of a synchronisation, though a host that runs ahead would hide it:
/// waiting for requests and data, and functions that take most of a gap, unless the call is one that no engine needs.
fn others_ns(step: &StepFact, is_avoidable: bool) -> i64 {
    let each = step.gaps.iter().map(|gap| {
        let whole = gap.end_ns - gap.begin_ns;
        let waits = whole - gap.ns;
        match !is_avoidable && gap.longest_ns * 2 > whole {
            true => waits.max(gap.longest_ns),
            false => waits,
        }
    });
    each.sum()
}

/// Returns `true` for calls that no engine needs, also at the end of a step: waiting for the whole device, and reading a value within
/// an operator. Waiting for an event or a stream is how results are fetched.
fn is_avoidable(call: &Call) -> bool {
    let is_device = [
        "cudaDeviceSynchronize",
        "hipDeviceSynchronize",
        "cuCtxSynchronize",
    ];
    is_device.iter().any(|name| call.name.starts_with(name)) || reads_value(call)
}

/// The change that reads no values: neither waits nor copies. The operators around both stay, as do those that wrote the values.
const WITHOUT_READING: &str = "async,sync=0,memcpy:d2h=0,api:*Memcpy*=0,launch:*Memcpy*=0";

/// Calls that block while launches of the same step follow: they end the run-ahead of the host, even where the GPU idles elsewhere.
fn run_ahead(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let facts = job.headline_facts();
    let mut by_label: BTreeMap<String, (i64, u64, Call, u32)> = BTreeMap::new();
    let mut steps = 0;
    for at in &phase.steps {
        let step = &job.steps[*at];
        let (begin, end) = step.host();
        let blocking = facts.calls_in((begin, end)).filter(|call| {
            let ns = call.end_ns - call.begin_ns;
            let waits = match call.kind {
                Activity::SyncApi => true,
                Activity::MemcpyApi => ns >= BLOCKING_NS,
                _ => false,
            };
            waits && (is_middle(facts, call, (begin, end)) || is_avoidable(call))
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
    let all: u64 = by_label.values().map(|found| found.1).sum();
    let (name, (ns, count, call, step)) = by_label
        .into_iter()
        .max_by_key(|(name, found)| (found.0, std::cmp::Reverse(name.clone())))?;
    // A value that is read also costs the calls and the copy that read it.
    let is_read = reads_value(&call) && count * 2 > all;
    let change: critical_path::Change = match is_read {
        true => WITHOUT_READING,
        false => "async",
    }
    .parse()
    .ok()?;
    let predicted = job.predict(std::slice::from_ref(&change));
    let new = predicted.first()?;
    let mut draft = Draft::new("synchronisation", phase);
    let is_needless = is_avoidable(&call);
    let each = phase.steps.iter().map(|at| {
        let row = &job.steps[*at].row;
        let gain = new.gain_ns(row);
        (*at, (gain - others_ns(&job.steps[*at], is_needless)).max(0))
    });
    draft.values = each.collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let own = phase.steps.iter().map(|at| &job.steps[*at]);
    let own = own
        .map(StepFact::host)
        .find(|(begin, end)| *begin <= call.begin_ns && call.begin_ns < *end);
    let place = own.map_or("", |host| place(facts, &call, host));
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    draft.about = name.clone();
    draft.name = Some(name.clone());
    draft.stack = call.stack();
    draft.evidence.push(Evidence {
        text: format!(
            "{} in {name}: {count} times, {} in all, and the host launches on only behind it; the cost is what a replay without such calls saves",
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
        context.traces
    ));
    Some(draft.word("name", name).word("place", place))
}

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    // The one that costs more: a call may let the GPU idle, end the run-ahead of the host, or both.
    let both = [idle_after(context, phase), run_ahead(context, phase)];
    let both = both.into_iter().flatten();
    both.max_by_key(|draft| (draft.total_ns(), draft.kind))
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
            // Fetching results at the end of a step is what engines do: what follows is a matter of the host.
            let host = step.host();
            let calls = calls.filter(|call| is_middle(facts, call, host) || is_avoidable(call));
            let call = calls.filter(|call| blocks(call, gap)).last();
            let Some(call) = call else { continue };
            let idle = gap
                .ns
                .min(gap.end_ns - gap.begin_ns - overlap(&facts.busy, (gap.begin_ns, gap.end_ns)));
            // One function that takes most of the gap is what keeps the GPU waiting.
            if gap.longest_ns * 2 > gap.end_ns - gap.begin_ns && !is_avoidable(call) {
                continue;
            }
            cost += idle;
            let slot = by_label
                .entry(label(call))
                .or_insert_with(|| (0, 0, call.clone(), step.row.step));
            slot.0 += idle;
            slot.1 += 1;
        }
        draft.values.push((*at, cost));
    }
    draft.reported(context.catalogue, phase)?;
    // What the host does behind a call is no cost of it: no more than a replay without such calls saves.
    let change: critical_path::Change = "async".parse().ok()?;
    let predicted = job.predict(std::slice::from_ref(&change));
    let new = predicted.first()?;
    let idle_ns = draft.total_ns();
    for (at, ns) in &mut draft.values {
        let row = &job.steps[*at].row;
        let gain = new.gain_ns(row);
        *ns = (*ns).min(gain.max(0));
    }
    let is_hidden = draft.total_ns() * 4 < idle_ns;
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let mut labels: Vec<(String, (i64, u64, Call, u32))> = by_label.into_iter().collect();
    labels.sort_by_key(|(_, found)| std::cmp::Reverse(found.0));
    let (name, found) = labels.first().cloned()?;
    draft.strength = match is_hidden {
        true => Strength::Fits,
        false => Strength::Recorded,
    };
    draft.gain = replay("async").capped();
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
        context.traces
    ));
    draft.commands.push(context.path_command(&draft));
    let own = job.of(phase).find(|step| step.row.step == found.3);
    let place = own.map_or("", |step| place(facts, &found.2, step.host()));
    Some(draft.word("name", name).word("place", place))
}
