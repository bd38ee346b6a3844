//! Host code that keeps the GPU waiting: functions, requests, data, the recorder.

use critical_path::{Class, Group};
use trace_model::Waiting;

use super::{Context, replay, sums, without};
use crate::draft::{Draft, Gain, Strength, longest_of};
use crate::job::{Item, Job, Phase, overlap};
use crate::numbers::{pct, share};
use crate::recording::is_allocation;
use crate::words;

/// Number of functions that are looked at.
const FUNCTIONS: usize = 12;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let job = context.job;
    let mut out = Vec::new();
    let is_host = |item: &Item| {
        item.group() == Group::Host
            && item.class != Class::Profiler
            && item.class != Class::Handoff
            && !(item.class == Class::Api && is_allocation(&item.name))
    };
    let functions = sums(job, phase, |item| is_host(item).then(|| item.name.clone()));
    for (name, _) in functions.into_iter().take(FUNCTIONS) {
        let takes = |item: &Item| is_host(item) && item.name == name;
        let Some(class) = job
            .of(phase)
            .flat_map(|step| &step.items)
            .find(|item| takes(item))
            .map(|item| item.class)
        else {
            continue;
        };
        // A call that waits for work that is not known is no code that runs.
        let kind = match Waiting::of_call(&name) {
            Some(Waiting::Device) if name.contains("Synchronize") => "synchronisation",
            Some(Waiting::Input) => "input_starvation",
            // Giving the processor away again and again is waiting for another process.
            _ if name.contains("sched_yield") => "input_starvation",
            _ if class == Class::Api && is_first_call(job, phase, takes) => "slow_launch",
            _ => "host_bound",
        };
        let mut draft = Draft::new(kind, phase).over_idle(job, phase, takes);
        draft.gain = match class == Class::HostOther && name.contains('*') {
            // A name without the numbers of steps.
            true => replay(&format!("host:{}=0", super::launches::glob_of(&name))),
            false => without(class, &name),
        };
        // The recorder's own time within a function is no time of the function.
        let overhead: i64 = job.of(phase).map(|step| step.overhead_ns).sum();
        if let Gain::Replay { is_capped, .. } = &mut draft.gain {
            // A name without numbers selects more than what is told of it.
            *is_capped = overhead * 20 > phase.total_ns || name.contains('*');
        }
        // Host code without slices is what nothing was recorded of.
        draft.strength = match class {
            Class::HostUntraced => Strength::Favoured,
            _ => Strength::Recorded,
        };
        if matches!(draft.gain, Gain::Unknown) || name.is_empty() {
            // A change needs a name. The GPU idles meanwhile, so that the time itself is its ceiling.
            draft.gain = Gain::Cost;
        }
        draft.about = match name.is_empty() {
            true => "untraced".to_owned(),
            false => name.clone(),
        };
        draft.rank = super::place_of(context, phase, takes);
        let shown = match (class, name.is_empty()) {
            (_, true) => "host code of which nothing was recorded".to_owned(),
            (Class::HostOther, _) => format!("host code within {}", words::function(&name)),
            _ => words::function(&name),
        };
        draft = draft.word(
            "name",
            match kind {
                "input_starvation" if name.contains("sched_yield") => {
                    format!("another process (in {shown})")
                }
                "input_starvation" => format!("requests or data (in {shown})"),
                _ => shown,
            },
        );
        draft = draft
            .word("place", "")
            .word("within", "")
            .word("does", "keeps the GPU waiting");
        fill(context, phase, draft, &name, takes, &mut out);
    }
    waits(context, phase, &mut out);
    out.extend(recorder(context, phase));
    out
}

/// Operators on the host where several share the time: none of them alone is why the GPU waits.
pub(super) fn operators(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let takes = |item: &Item| item.class == Class::HostOp && !item.name.is_empty();
    let mut draft = Draft::new("host_bound", phase).over_idle(job, phase, takes);
    draft.reported(context.catalogue, phase)?;
    let names = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
    let all: i64 = names.iter().map(|(_, ns)| ns).sum();
    let (first, ns) = names.first()?;
    // One that takes most of it is named by itself.
    if ns * 4 > all * 3 {
        return None;
    }
    draft.strength = Strength::Favoured;
    draft.gain = replay("host:class:host_op=0");
    draft.about = "operators".to_owned();
    draft.rank = super::place_of(context, phase, takes);
    for (name, ns) in names.iter().take(4) {
        let text = format!(
            "{}: {} on the path of {}",
            words::function(name),
            crate::numbers::time(*ns),
            crate::numbers::counted(phase.steps.len() as u64, "step", "steps")
        );
        draft.evidence.push(crate::draft::said(job, text));
    }
    draft.commands.push(context.path_command(&draft));
    let name = format!(
        "the work of {} on the host, {} {},",
        crate::numbers::counted(names.len() as u64, "operator", "operators"),
        match ns * 2 > all {
            true => "most of it".to_owned(),
            false => format!("the largest part ({})", pct(share(*ns, all))),
        },
        words::function(first)
    );
    Some(
        draft
            .word("name", name)
            .word("does", "keeps the GPU waiting"),
    )
}

/// Returns `true` in a recording without steps if one of the calls takes most of the time of all: the first use of the device creates
/// its context.
fn is_first_call(job: &Job, phase: &Phase, takes: impl Fn(&Item) -> bool) -> bool {
    let items = job.of(phase).flat_map(|step| &step.items);
    let own = items.filter(|item| takes(item));
    let (longest, all) = own.fold((0, 0), |sum, item| {
        (sum.0.max(item.longest_ns), sum.1 + item.ns)
    });
    phase.name == "whole" && longest * 10 >= all * 8
}

/// Part of the time of a range from which another finding explains it, in tenths.
const EXPLAINED: i64 = 6;

/// The marked range within steps in which the GPU idles longest for the host, unless one of `known` explains it: where many
/// functions share the time, this is where to look.
pub(super) fn range(context: &Context<'_>, phase: &Phase, known: &[Draft]) -> Option<Draft> {
    let job = context.job;
    let facts = job.headline_facts();
    let mut by_name: std::collections::BTreeMap<u32, Vec<(usize, i64)>> =
        std::collections::BTreeMap::new();
    for at in &phase.steps {
        let gaps = &job.steps[*at].gaps;
        let row = &job.steps[*at].row;
        let from = facts
            .ranges
            .partition_point(|range| range.1 <= row.begin_ns);
        let own = facts.ranges.get(from..).unwrap_or_default().iter();
        for (begin, end, name) in own.take_while(|range| range.0 < row.end_ns) {
            let from = gaps.partition_point(|gap| gap.end_ns <= *begin);
            let own = gaps.get(from..).unwrap_or_default().iter();
            let idle = own.take_while(|gap| gap.begin_ns < *end).map(|gap| {
                let span = (gap.begin_ns.max(*begin), gap.end_ns.min(*end));
                // Without the waits for requests and data that are within.
                let idle = span.1 - span.0 - overlap(&facts.busy, span);
                idle.min(gap.ns).max(0)
            });
            let idle: i64 = idle.sum();
            if idle > 0 {
                let list = by_name.entry(*name).or_default();
                match list.last_mut() {
                    Some(last) if last.0 == *at => last.1 += idle,
                    _ => list.push((*at, idle)),
                }
            }
        }
    }
    let total = |list: &[(usize, i64)]| -> i64 { list.iter().map(|(_, ns)| ns).sum() };
    let (name, values) = by_name
        .into_iter()
        .max_by_key(|(name, list)| (total(list), std::cmp::Reverse(*name)))?;
    let name = facts.range_names.get(name as usize)?;
    let mut draft = Draft::new("host_range", phase);
    draft.values = values;
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let is_explained = |other: &Draft| other.total_ns() * 10 >= draft.total_ns() * EXPLAINED;
    let is_cause = |other: &&Draft| {
        let kind = context.catalogue.kind(other.kind);
        kind.is_some_and(|kind| kind.role == crate::catalogue::KindRole::Cause)
    };
    if known.iter().filter(is_cause).any(is_explained) {
        return None;
    }
    draft.strength = Strength::Favoured;
    // The GPU idles meanwhile, so that the time itself is its ceiling.
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    draft.about.clone_from(name);
    draft.name = Some(name.clone());
    let steps: Vec<_> = job.of(phase).collect();
    draft
        .evidence
        .extend(longest_of(job, &steps, name, |item| item.name == *name));
    let spans = facts.ranges.iter().filter(|(begin, end, place)| {
        facts.range_names.get(*place as usize) == Some(name)
            && steps
                .iter()
                .any(|step| *begin < step.row.end_ns && step.row.begin_ns < *end)
    });
    let (count, ns) = spans.fold((0_u64, 0_i64), |sum, (begin, end, _)| {
        (sum.0 + 1, sum.1 + end - begin)
    });
    draft.evidence.push(crate::draft::said(
        job,
        format!(
            "the range runs {} and takes {} in all",
            crate::numbers::counted(count, "time", "times"),
            crate::numbers::time(ns)
        ),
    ));
    draft.commands.push(context.path_command(&draft));
    Some(draft.word("name", words::function(name)))
}

/// The recorder itself.
fn recorder(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let mut draft = Draft::new("profiler_overhead", phase);
    let each = phase
        .steps
        .iter()
        .map(|at| (*at, job.steps[*at].overhead_ns));
    draft.values = each.collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Recorded;
    // The recorder's time is recorded directly, and the GPU idles in it.
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    for name in [
        "Activity Buffer Request",
        "Buffer Flush",
        "Resource",
        "Instrumentation",
    ] {
        if let Some(event) = job
            .headline_facts()
            .examples
            .of(name)
            .and_then(|n| n.longest.first())
        {
            draft.evidence.push(crate::document::Evidence {
                text: format!(
                    "{name} takes {} at most",
                    crate::numbers::time(event.duration_ns)
                ),
                event_id: Some(event.id),
                name: Some(name.to_owned()),
                begin_ns: Some(event.begin_ns),
                duration_ns: Some(event.duration_ns),
                ..crate::draft::said(job, String::new())
            });
        }
    }
    Some(draft)
}

/// Waiting for requests, loading data, the recorder, and time that nothing explains.
fn waits(context: &Context<'_>, phase: &Phase, out: &mut Vec<Draft>) {
    let job = context.job;
    type Rule = (
        &'static str,
        fn(&Item) -> bool,
        &'static str,
        &'static str,
        Strength,
    );
    let rules: [Rule; 4] = [
        (
            "input_starvation",
            |item| item.class == Class::Requests,
            "requests",
            "requests=0",
            Strength::Recorded,
        ),
        (
            "input_starvation",
            |item| item.class == Class::Blocked,
            "another thread or a lock",
            "cost",
            Strength::Favoured,
        ),
        (
            "input_starvation",
            |item| item.class == Class::Input,
            "input data",
            "input=0",
            Strength::Recorded,
        ),
        (
            "unexplained",
            |item| item.class == Class::Unexplained,
            "",
            "unexplained=0",
            Strength::Fits,
        ),
    ];
    for (kind, takes, what, change, strength) in rules {
        let draft = Draft::new(kind, phase);
        let mut draft = match kind {
            "input_starvation" => draft.over_idle(job, phase, takes),
            _ => draft.over(job, phase, takes),
        };
        draft.strength = strength;
        draft.gain = match change {
            // The GPU idles meanwhile, so that the time itself is its ceiling.
            "cost" => Gain::Cost,
            change => replay(change),
        };
        draft.about = what.to_owned();
        let name = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
        let name = name
            .into_iter()
            .next()
            .map_or_else(String::new, |(name, _)| name);
        let what = match change {
            "cost" => blocked_on(&name),
            _ => what,
        };
        let shown = match name.is_empty() {
            true => what.to_owned(),
            false => format!("{what} (in {})", words::function(&name)),
        };
        draft = draft.word("name", shown);
        fill(context, phase, draft, &name, takes, out);
    }
}

/// Returns what a thread that is blocked in a call waits for.
pub(super) fn blocked_on(name: &str) -> &'static str {
    let name = name.to_ascii_lowercase();
    let has = |parts: &[&str]| parts.iter().any(|part| name.contains(part));
    if has(&["recv", "send", "socket", "connect", "accept"]) {
        return "the network or another process";
    }
    match has(&["poll", "select", "read"]) {
        true => "another thread, a process or a file",
        false => "another thread or a lock",
    }
}

fn fill(
    context: &Context<'_>,
    phase: &Phase,
    mut draft: Draft,
    name: &str,
    takes: impl Fn(&Item) -> bool,
    out: &mut Vec<Draft>,
) {
    if draft.reported(context.catalogue, phase).is_none() {
        return;
    }
    let job = context.job;
    let steps: Vec<_> = draft.values.iter().map(|(at, _)| &job.steps[*at]).collect();
    draft.evidence.extend(longest_of(job, &steps, name, |item| {
        takes(item) && item.name == name
    }));
    if !name.is_empty() {
        draft.name = Some(name.to_owned());
        let rank = draft.rank.unwrap_or_else(|| job.rank());
        let facts = job.facts.iter().find(|facts| facts.rank == rank);
        let named = facts.and_then(|facts| facts.examples.of(name));
        draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
    }
    draft.commands.push(context.path_command(&draft));
    out.push(draft);
}
