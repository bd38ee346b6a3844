//! Copies between host and device, and allocations, within steps.

use critical_path::Class;

use super::{Context, replay, sums};
use crate::draft::{Draft, Gain, Strength, longest_of};
use crate::job::{Item, Phase, StepFact};
use crate::recording::is_allocation;
use crate::words;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = copies(context, phase);
    out.extend(allocations(context, phase));
    out
}

/// Mean time of a copy from which it moves more than inputs and tokens: a megabyte at PCIe speed, in nanoseconds.
const LARGE_NS: i64 = 50_000;

fn copies(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let job = context.job;
    let mut out = Vec::new();
    let is_copy = |item: &Item| matches!(item.class, Class::MemcpyH2d | Class::MemcpyD2h);
    let is_large =
        |item: &Item| is_copy(item) && item.ns >= LARGE_NS * i64::try_from(item.count).unwrap_or(1);
    let has_both = [Class::MemcpyH2d, Class::MemcpyD2h].iter().all(|class| {
        let mut items = job.of(phase).flat_map(|step| &step.items);
        items.any(|item| item.class == *class && is_large(item))
    });
    let kv = Draft::new("kv_offload", phase).over(job, phase, is_large);
    let is_offload = has_both
        && kv.values.len() * 2 >= phase.steps.len()
        && kv.reported(context.catalogue, phase).is_some();
    let rules: [(&'static str, Option<Class>, &str); 3] = [
        (
            "kv_offload",
            None,
            "memcpy:h2d=0,memcpy:d2h=0,api:*Memcpy*=0,launch:*Memcpy*=0,sync=0",
        ),
        (
            "copy",
            Some(Class::MemcpyH2d),
            "memcpy:h2d=0,api:*Memcpy*=0,launch:*Memcpy*=0,sync=0",
        ),
        (
            "copy",
            Some(Class::MemcpyD2h),
            "memcpy:d2h=0,api:*Memcpy*=0,launch:*Memcpy*=0,sync=0",
        ),
    ];
    for (kind, class, change) in rules {
        if is_offload != class.is_none() {
            continue;
        }
        let takes = |item: &Item| match class {
            Some(class) => item.class == class,
            None => is_large(item),
        };
        let mut draft = Draft::new(kind, phase).over(job, phase, takes);
        if draft.reported(context.catalogue, phase).is_none() {
            continue;
        }
        draft.strength = Strength::Recorded;
        // The call that waits for the copy and the copy itself: no more than they cost.
        draft.gain = match replay(change) {
            Gain::Replay { change, .. } => Gain::Replay {
                change,
                is_capped: true,
            },
            other => other,
        };
        draft.rank = Some(job.rank());
        draft.about = class.map_or_else(String::new, Class::name);
        let name = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
        let name = name
            .into_iter()
            .next()
            .map_or_else(String::new, |(name, _)| name);
        let steps: Vec<&StepFact> = draft.values.iter().map(|(at, _)| &job.steps[*at]).collect();
        draft.evidence.extend(longest_of(job, &steps, &name, takes));
        let named = job.headline_facts().examples.of(&name);
        draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
        draft.commands.push(context.path_command(&draft));
        draft.name = Some(name.clone());
        out.push(draft.word("name", name));
    }
    out
}

fn allocations(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let takes = |item: &Item| item.class == Class::Api && is_allocation(&item.name);
    let mut draft = Draft::new("allocation", phase).over(job, phase, takes);
    draft.reported(context.catalogue, phase)?;
    let names = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
    let (name, _) = names.first()?.clone();
    draft.strength = Strength::Recorded;
    let all: Vec<String> = names
        .iter()
        .map(|(name, _)| format!("api:{name}=0"))
        .collect();
    draft.gain = replay(&all.join(","));
    draft.rank = super::place_of(context, phase, takes);
    draft.about = name.clone();
    draft.name = Some(name.clone());
    let steps: Vec<&StepFact> = draft.values.iter().map(|(at, _)| &job.steps[*at]).collect();
    for (name, _) in names.iter().take(3) {
        draft.evidence.extend(longest_of(job, &steps, name, |item| {
            takes(item) && item.name == *name
        }));
    }
    let named = job.headline_facts().examples.of(&name);
    draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
    draft.commands.push(context.path_command(&draft));
    draft
        .commands
        .push(format!("inferscope trace-info memory {}", context.traces));
    Some(draft.word("name", words::function(&name)))
}
