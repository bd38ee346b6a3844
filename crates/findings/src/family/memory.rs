//! Copies between host and device, and allocations, within steps.

use critical_path::Class;

use super::{Context, replay, sums};
use crate::draft::{Draft, Gain, Strength, longest_of, said};
use crate::job::{Item, Phase, StepFact};
use crate::recording::is_allocation;
use crate::words;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = copies(context, phase);
    out.extend(first_use(context, phase).or_else(|| allocations(context, phase)));
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
    // Copies in both directions are a KV cache where something attends.
    let mut kernels = job.headline_facts().kernels.iter();
    let attends = kernels.any(|k| matches!(k.class.as_str(), "attention" | "kv_cache"));
    let is_offload = has_both
        && attends
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
        draft.gain = replay(change).capped();
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
        draft.commands.push(format!(
            "inferscope trace-info critical-path {} --what-if '{change}'",
            context.traces
        ));
        draft.evidence.push(said(
            job,
            "the gain is that of a replay without these copies and the calls that submit or wait for them"
                .to_owned(),
        ));
        draft.name = Some(name.clone());
        let phase = crate::draft::phase_word(&phase.name);
        let does = format!("is on the path of {phase} steps");
        out.push(draft.word("name", name).word("does", does));
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
    let place = match phase.name == "whole" {
        true => " while the GPU has nothing to do",
        false => " within steps",
    };
    let all: i64 = names.iter().map(|(_, ns)| ns).sum();
    let large: Vec<String> = names
        .iter()
        .filter(|(_, ns)| *ns * 20 >= all)
        .take(3)
        .map(|(name, _)| words::function(name))
        .collect();
    let what = match large.as_slice() {
        [first, second] => format!("{first} and {second} allocate or free"),
        [first, second, third] => format!("{first}, {second} and {third} allocate or free"),
        _ => format!("{} allocates or frees", words::function(&name)),
    };
    Some(draft.word("name", what).word("place", place))
}

/// Share of the time of all allocations from which a single call is the first use of the device, in tenths.
const FIRST_USE: i64 = 8;

/// In a recording without steps, a single call that takes nearly all time of its kind: the first use of the device creates its
/// context, and no allocator helps.
fn first_use(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    if phase.name != "whole" {
        return None;
    }
    let job = context.job;
    let takes = |item: &Item| item.class == Class::Api && is_allocation(&item.name);
    let all: i64 = job.of(phase).map(|step| step.sum(takes)).sum();
    let at = *phase.steps.first()?;
    let items = job.steps[at].items.iter().filter(|item| takes(item));
    let item = items.max_by_key(|item| item.longest_ns)?;
    if item.longest_ns * 10 < all * FIRST_USE {
        return None;
    }
    let mut draft = Draft::new("slow_launch", phase);
    draft.values = vec![(at, item.longest_ns)];
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = match crate::family::without(item.class, &item.name) {
        Gain::Replay { change, .. } => Gain::Replay {
            change,
            is_capped: true,
        },
        _ => Gain::Cost,
    };
    draft.rank = Some(item.on_rank);
    draft.about = item.name.clone();
    draft.name = Some(item.name.clone());
    let own = |other: &Item| other.class == item.class && other.name == item.name;
    draft
        .evidence
        .extend(longest_of(job, &[&job.steps[at]], &item.name, own));
    draft.commands.push(context.path_command(&draft));
    Some(draft.word("name", item.name.clone()).word("within", ""))
}
