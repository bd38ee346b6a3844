//! Kernels far from what their sizes allow, and chains of small ones.

use critical_path::{Class, scaled};
use trace_model::kernel::KernelClass;

use super::{Context, replay, sums};
use crate::draft::{Draft, Gain, Strength, longest_of, said};
use crate::job::{Item, Phase, StepFact};
use crate::numbers::{median, pct, time};
use crate::words;

/// Share of the limit below which a kernel is slow, in percent.
const SLOW: f64 = 33.0;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = below_limit(context, phase);
    out.extend(unfused(context, phase));
    out
}

fn below_limit(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let job = context.job;
    let limits = &job.headline_facts().limits;
    let mut out: Vec<Draft> = Vec::new();
    for row in &limits.operators {
        let Some(reached) = row.pct.filter(|pct| *pct < SLOW) else {
            continue;
        };
        if row.is_launch_bound || row.kernel.is_empty() || row.bound == "link" {
            continue;
        }
        let takes = |item: &Item| item.name == row.kernel && matches!(item.class, Class::Kernel(_));
        let Some(class) = job
            .of(phase)
            .flat_map(|step| &step.items)
            .find(|item| takes(item))
            .map(|item| item.class)
        else {
            continue;
        };
        let mut draft = Draft::new("slow_kernel", phase).over(job, phase, takes);
        if draft.reported(context.catalogue, phase).is_none()
            || out
                .iter()
                .any(|known| known.name.as_ref() == Some(&row.kernel))
        {
            continue;
        }
        draft.strength = Strength::Favoured;
        draft.gain = match scaled(class, &row.kernel, reached / 100.0) {
            Some(change) => Gain::Replay {
                change,
                is_capped: false,
            },
            None => Gain::Unknown,
        };
        draft.rank = Some(job.rank());
        draft.about = row.name.clone();
        draft.name = Some(row.kernel.clone());
        let steps: Vec<&StepFact> = job.of(phase).collect();
        draft
            .evidence
            .extend(longest_of(job, &steps, &row.kernel, takes));
        draft.evidence.push(said(
            job,
            format!(
                "{}: {} calls take {}, their limit is {} ({})",
                row.name,
                row.calls,
                time(row.known_ns),
                time(crate::numbers::whole_ns(row.limit_ns.unwrap_or(0.0))),
                row.bound
            ),
        ));
        draft.commands.push(format!(
            "inferscope trace-info roofline {} --by op",
            context.paths
        ));
        let name = format!("{} ({})", row.name, words::kernel(&row.kernel));
        out.push(draft.word("name", name).word("limit", pct(reached)));
    }
    out
}

/// Classes of kernels that compilers fuse with their neighbours.
fn is_fusable(class: Class) -> bool {
    matches!(
        class,
        Class::Kernel(
            KernelClass::Elementwise
                | KernelClass::Norm
                | KernelClass::Activation
                | KernelClass::Copy
                | KernelClass::Rotary
                | KernelClass::Quantization
                | KernelClass::Reduction
        )
    )
}

/// Mean duration up to which a kernel is small, in nanoseconds.
const SMALL_NS: i64 = 10_000;

/// Number of small kernels of a step from which they are many.
const MANY: u64 = 40;

fn unfused(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let small = |item: &Item| {
        is_fusable(item.class) && item.ns < SMALL_NS * i64::try_from(item.count).unwrap_or(1)
    };
    let mut draft = Draft::new("unfused_chain", phase).over(job, phase, small);
    draft.reported(context.catalogue, phase)?;
    let count = |step: &StepFact| -> u64 {
        let items = step.items.iter().filter(|item| small(item));
        items.map(|item| item.count).sum()
    };
    let each = job
        .of(phase)
        .map(|step| i64::try_from(count(step)).unwrap_or(i64::MAX));
    let middle = median(each).unsigned_abs();
    if middle < MANY {
        return None;
    }
    draft.strength = Strength::Favoured;
    draft.rank = Some(job.rank());
    let kernels = sums(job, phase, |item| small(item).then(|| item.name.clone()));
    let globs: Vec<String> = kernels
        .iter()
        .take(8)
        .filter_map(|(name, _)| stem(name))
        .map(|stem| format!("*{stem}*"))
        .collect();
    draft.gain = match globs.is_empty() {
        true => Gain::Unknown,
        false => replay(&format!("fuse:{}", globs.join("|"))),
    };
    for (name, ns) in kernels.iter().take(4) {
        let calls: u64 = job
            .of(phase)
            .flat_map(|step| &step.items)
            .filter(|item| small(item) && item.name == *name)
            .map(|item| item.count)
            .sum();
        draft.evidence.push(said(
            job,
            format!(
                "{}: {calls} times on the path, {} each",
                words::kernel(name),
                time(*ns / i64::try_from(calls).unwrap_or(1).max(1))
            ),
        ));
    }
    draft.commands.push(format!(
        "inferscope trace-info kernels {} --by class",
        context.paths
    ));
    Some(draft.word("count", report::human::count(middle)))
}

/// Returns the longest word of a kernel's function that a glob can hold.
fn stem(name: &str) -> Option<String> {
    let function = words::kernel(name);
    let words = function.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let longest = words.max_by_key(|word| word.len())?;
    (longest.len() >= 6).then(|| longest.to_owned())
}
