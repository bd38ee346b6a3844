//! Kernels far from what their sizes allow, and chains of small ones.

use critical_path::{Class, scaled};
use trace_model::kernel::KernelClass;

use super::{Context, replay, sums};
use crate::draft::{Draft, Gain, Strength, longest_of, said};
use crate::job::{Item, Phase, StepFact};
use crate::limits::SlowRow;
use crate::numbers::{median, pct, time};
use crate::words;

/// Share of the limit below which a kernel is slow whatever others reach, in percent.
const SLOW: f64 = 25.0;

/// Share of what its peers reach below which a kernel is slow.
const OF_PEERS: f64 = 0.67;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = below_limit(context, phase);
    out.extend(unfused(context, phase));
    out.extend(duplicates(context, phase));
    out
}

/// Returns the share of their limits that the other kinds of calls of a class reach together, in percent; 100 without others.
fn peers(rows: &[SlowRow], at: usize) -> f64 {
    let own = &rows[at];
    let others = rows.iter().enumerate();
    let others = others.filter(|(other, row)| *other != at && row.class == own.class);
    let (mut limit, mut time) = (0.0, 0.0);
    for (_, row) in others {
        limit += row.limit_ns;
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        {
            time += row.time_ns as f64;
        }
    }
    #[expect(clippy::cast_precision_loss, reason = "a ratio")]
    let is_enough = time >= 0.05 * own.time_ns as f64;
    match is_enough {
        true => (100.0 * limit / time).clamp(1.0, 100.0),
        false => 100.0,
    }
}

fn below_limit(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let job = context.job;
    let rows = &job.headline_facts().limits.kinds;
    let mut out: Vec<Draft> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let peers = peers(rows, at);
        let is_slow = row.pct < SLOW || (peers < 100.0 && row.pct < OF_PEERS * peers);
        if !is_slow || row.is_launch_bound || row.kernel.is_empty() {
            continue;
        }
        // What they take longer than at the share of their limit that their peers reach.
        let excess = 1.0 - row.pct / peers;
        let mut draft = Draft::new("slow_kernel", phase);
        for place in &phase.steps {
            let step = &job.steps[*place].row;
            let from = row.calls.partition_point(|call| call.0 < step.begin_ns);
            let own = row.calls.get(from..).unwrap_or_default().iter();
            let ns: i64 = own
                .take_while(|call| call.0 < step.end_ns)
                .map(|call| call.1)
                .sum();
            #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
            let ns = crate::numbers::whole_ns(ns as f64 * excess);
            draft.values.push((*place, ns));
        }
        draft.keep_affected();
        if draft.reported(context.catalogue, phase).is_none() {
            continue;
        }
        let Some(class) = job
            .of(phase)
            .flat_map(|step| &step.items)
            .find(|item| item.name == row.kernel && matches!(item.class, Class::Kernel(_)))
            .map(|item| item.class)
        else {
            continue;
        };
        // Without peers it is the limit alone that says so, which short kernels never reach.
        draft.strength = match peers < 100.0 {
            true => Strength::Favoured,
            false => Strength::Fits,
        };
        draft.gain = match scaled(class, &row.kernel, row.pct / peers) {
            Some(change) => Gain::Replay {
                change,
                is_capped: true,
            },
            None => Gain::Unknown,
        };
        draft.rank = Some(job.rank());
        let module = row.module.clone().unwrap_or_default();
        draft.about = format!("{} {} {module}", row.op, row.dims);
        draft.name = Some(match module.is_empty() {
            true => row.kernel.clone(),
            false => module.clone(),
        });
        let named = job.headline_facts().examples.of(&row.kernel);
        draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
        let steps: Vec<&StepFact> = job.of(phase).collect();
        draft
            .evidence
            .extend(longest_of(job, &steps, &row.kernel, |item| {
                item.name == row.kernel
            }));
        draft.evidence.push(said(
            job,
            format!(
                "{} of {}: {} calls take {}, their limit is {} ({})",
                row.op,
                crate::numbers::plain(&row.dims, 60),
                row.calls.len(),
                time(row.time_ns),
                time(crate::numbers::whole_ns(row.limit_ns)),
                row.bound
            ),
        ));
        if peers < 100.0 {
            draft.evidence.push(said(
                job,
                format!(
                    "other calls of this class of kernels reach {} of their limit",
                    pct(peers)
                ),
            ));
        }
        draft.commands.push(format!(
            "inferscope trace-info roofline {} --by call",
            context.paths
        ));
        let name = match module.is_empty() {
            true => format!("{} ({})", row.op, words::kernel(&row.kernel)),
            false => format!("{} in {module}", row.op),
        };
        let than = match peers < 100.0 {
            true => format!(", its peers {}", pct(peers)),
            false => String::new(),
        };
        out.push(
            draft
                .word("name", name)
                .word("limit", pct(row.pct))
                .word("peers", than),
        );
    }
    out
}

/// Products that one module runs again within a step, for the same sizes.
fn duplicates(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let modules = &job.headline_facts().modules;
    let mut draft = Draft::new("duplicate_kernels", phase);
    let mut by_module: std::collections::BTreeMap<String, (i64, u64)> =
        std::collections::BTreeMap::new();
    let (mut first_time, mut again_time) = (0_i64, 0_i64);
    for place in &phase.steps {
        let (begin, end) = job.steps[*place].host();
        let from = modules.partition_point(|call| call.at_ns < begin);
        let own = modules.get(from..).unwrap_or_default().iter();
        let own = own.take_while(|call| call.at_ns < end);
        let mut seen: std::collections::BTreeSet<(u32, u32)> = std::collections::BTreeSet::new();
        let mut again = 0;
        for call in own {
            match seen.insert((call.module, call.dims)) {
                true => first_time += call.gpu_ns,
                false => {
                    again += call.gpu_ns;
                    let name = job.headline_facts().module_names.get(call.module as usize);
                    let name = without_number(name.map_or("", String::as_str));
                    let slot = by_module.entry(name).or_default();
                    *slot = (slot.0 + call.gpu_ns, slot.1 + 1);
                }
            }
        }
        again_time += again;
        draft.values.push((*place, again));
    }
    // A model that runs several times in a step is not a duplicate: drafts, micro-batches.
    if again_time * 5 > first_time * 4 {
        return None;
    }
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let (name, (ns, count)) = by_module
        .iter()
        .max_by_key(|(name, found)| (found.0, std::cmp::Reverse((*name).clone())))
        .map(|(name, found)| (name.clone(), *found))?;
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    draft.about = name.clone();
    draft.name = Some(name.clone());
    draft.evidence.push(said(
        job,
        format!(
            "{name}: {count} products repeat one of the same module, sizes and step; they take {}",
            time(ns)
        ),
    ));
    draft.commands.push(format!(
        "inferscope trace-info kernels {} --by module",
        context.paths
    ));
    Some(draft.word("name", name))
}

/// Returns the name of a module without `nn.Module: ` and the number of its instance.
fn without_number(name: &str) -> String {
    let name = name.strip_prefix("nn.Module: ").unwrap_or(name);
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    stem.strip_suffix('_').unwrap_or(name).to_owned()
}

fn unfused(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let mut draft = Draft::new("unfused_chain", phase);
    let each = phase.steps.iter().map(|at| {
        let chains = job.steps[*at].chains.iter();
        (*at, chains.map(|chain| chain.ns).sum())
    });
    draft.values = each.collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let count = |step: &StepFact| -> u64 { step.chains.iter().map(|chain| chain.kernels).sum() };
    let middle = |of: &dyn Fn(&StepFact) -> u64| {
        median(
            job.of(phase)
                .map(|step| i64::try_from(of(step)).unwrap_or(i64::MAX)),
        )
    };
    let kernels_each = middle(&count);
    let chains = middle(&|step: &StepFact| step.chains.len() as u64);
    draft.strength = Strength::Favoured;
    draft.rank = Some(job.rank());
    let is_elementwise = |item: &Item| item.class == Class::Kernel(KernelClass::Elementwise);
    let kernels = sums(job, phase, |item| {
        is_elementwise(item).then(|| item.name.clone())
    });
    // One glob: neighbours of different globs would not become one.
    let stem = kernels.iter().find_map(|(name, _)| stem(name));
    // One kernel reads and writes once: of n kernels as long as each other, one is left.
    draft.gain = match (stem, chains > 0) {
        (Some(stem), true) => {
            let length = kernels_each / chains.max(1);
            #[expect(clippy::cast_precision_loss, reason = "a factor")]
            let factor = 1.0 / length.max(1) as f64;
            match replay(&format!("fuse:*{stem}*={factor:.4}")) {
                Gain::Replay { change, .. } => Gain::Replay {
                    change,
                    is_capped: true,
                },
                other => other,
            }
        }
        _ => Gain::Unknown,
    };
    for (name, ns) in kernels.iter().take(4) {
        let calls: u64 = job
            .of(phase)
            .flat_map(|step| &step.items)
            .filter(|item| is_elementwise(item) && item.name == *name)
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
    Some(
        draft
            .word("count", report::human::count(kernels_each))
            .word("chains", report::human::count(chains)),
    )
}

/// Returns the longest word of a kernel's function that a glob can hold.
fn stem(name: &str) -> Option<String> {
    let function = words::kernel(name);
    let words = function.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let longest = words.max_by_key(|word| word.len())?;
    (longest.len() >= 6).then(|| longest.to_owned())
}
