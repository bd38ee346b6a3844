//! Kernels far from what their sizes allow, and chains of small ones.

use critical_path::{Class, scaled};
use trace_model::kernel::KernelClass;

use super::{Context, replay, sums};
use crate::chains::{Link, Links};
use crate::draft::{Draft, Gain, Strength, longest_of, said};
use crate::job::{Item, Phase, StepFact};
use crate::limits::SlowRow;
use crate::numbers::{median, pct, share, time};
use crate::words;

/// Share of the limit below which a kernel is slow whatever others reach, in percent.
const SLOW: f64 = 25.0;

/// Share of what its peers reach below which a kernel is slow.
const OF_PEERS: f64 = 0.67;

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = below_limit(context, phase);
    out.extend(slower_than_own(context, phase, &out));
    out.extend(one_long_run(context, phase));
    out.extend(unfused(context, phase));
    out.extend(separate_attention(context, phase));
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

/// Share of what all other kernels reach below which a kernel is slow.
const OF_ALL: f64 = 0.5;

/// Returns the share of their limits that all other kinds of calls reach together, in percent; 100 without others.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn others(rows: &[SlowRow], at: usize) -> f64 {
    let own = &rows[at];
    let others = rows
        .iter()
        .filter(|row| row.class != own.class && !row.is_launch_bound);
    let (limit, time) = others.fold((0.0, 0.0), |sum, row| {
        (sum.0 + row.limit_ns, sum.1 + row.time_ns as f64)
    });
    match time >= 0.2 * own.time_ns as f64 {
        true => (100.0 * limit / time).clamp(1.0, 100.0),
        false => 100.0,
    }
}

fn below_limit(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let job = context.job;
    let rows = &job.headline_facts().limits.kinds;
    let mut out: Vec<Draft> = Vec::new();
    for (at, row) in rows.iter().enumerate() {
        let of_class = peers(rows, at);
        let of_all = others(rows, at);
        let is_below = |peers: f64, part: f64| peers < 100.0 && row.pct < part * peers;
        // Its class first; where that is as slow, all others.
        let (peers, whose) = match (is_below(of_class, OF_PEERS), is_below(of_all, OF_ALL)) {
            (true, _) => (of_class, "other calls of this class of kernels"),
            (false, true) => (of_all, "the other kernels"),
            (false, false) => (of_class, "other calls of this class of kernels"),
        };
        let is_slow = row.pct < SLOW || is_below(of_class, OF_PEERS) || is_below(of_all, OF_ALL);
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
                format!("{whose} reach {} of their limit", pct(peers)),
            ));
        }
        draft
            .commands
            .push(format!("{} --by call", context.roofline()));
        let name = match module.is_empty() {
            true => format!("{} ({})", row.op, words::kernel(&row.kernel)),
            false => format!("{} in {module}", row.op),
        };
        let than = match peers < 100.0 {
            true => format!(", {whose} {}", pct(peers)),
            false => String::new(),
        };
        out.push(draft.word("name", name).word(
            "what",
            format!(
                "reaches {} of the limit that its sizes allow{than}",
                pct(row.pct)
            ),
        ));
    }
    out
}

/// Factor over its usual time from which a kernel is slower than in other steps.
const SLOWER: f64 = 1.2;

/// Fewer steps than this are no group.
const LEAST_GROUP: usize = 3;

/// A kernel that in some steps takes longer than in the others, for the same number of calls and requests: no sizes are needed for
/// that.
fn slower_than_own(context: &Context<'_>, phase: &Phase, known: &[Draft]) -> Option<Draft> {
    let job = context.job;
    if phase.steps.len() < 2 * LEAST_GROUP {
        return None;
    }
    type Calls<'a> = std::collections::BTreeMap<&'a str, Vec<(usize, i64, u64)>>;
    let mut all: Calls<'_> = Calls::new();
    for at in &phase.steps {
        for item in &job.steps[*at].items {
            if matches!(item.class, Class::Kernel(_)) {
                let row = (*at, item.ns, item.count);
                all.entry(item.name.as_str()).or_default().push(row);
            }
        }
    }
    let facts = job.headline_facts();
    type Slow<'a> = (i64, &'a str, Vec<(usize, i64)>, i64, i64);
    let mut found: Vec<Slow<'_>> = Vec::new();
    for (name, rows) in &all {
        let is_in_all = rows.len() == phase.steps.len();
        let is_same = rows.iter().all(|row| row.2 == rows[0].2);
        if !is_in_all || !is_same || known.iter().any(|d| d.name.as_deref() == Some(name)) {
            continue;
        }
        // Time on the path tells where to look. What a kernel takes is its own time: other work may hide a part of it.
        if apart(rows).is_none() {
            continue;
        }
        let whole: Vec<(usize, i64, u64)> = rows
            .iter()
            .map(|(at, ..)| {
                let row = &job.steps[*at].row;
                let runs = facts.runs_in(name, (row.begin_ns, row.end_ns));
                (*at, runs.iter().sum(), runs.len() as u64)
            })
            .collect();
        let is_same = whole.iter().all(|row| row.2 == whole[0].2);
        let Some((slow, usual, slow_ns)) = apart(&whole).filter(|_| is_same) else {
            continue;
        };
        // Longer where there is more to do.
        let size = |at: usize| job.steps[at].tokens.or(job.steps[at].batch);
        let is_slow = |at: usize| slow.iter().any(|(slow, _)| *slow == at);
        let mut others = phase.steps.iter().filter(|at| !is_slow(**at));
        let is_alike = slow
            .iter()
            .all(|(at, _)| others.clone().any(|other| size(*other) == size(*at)));
        if !is_alike || others.next().is_none() {
            continue;
        }
        let ns = slow.iter().map(|(_, ns)| ns).sum();
        found.push((ns, name, slow, usual, slow_ns));
    }
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(b.1)));
    let mut each = found.into_iter();
    let (_, name, mut values, usual, slow_ns) = each.next()?;
    // Others that are slow in the same steps belong to it.
    let mut names = 1;
    for (_, _, others, ..) in each {
        let is_same =
            others.len() == values.len() && others.iter().zip(&values).all(|(a, b)| a.0 == b.0);
        if is_same {
            names += 1;
            values.iter_mut().zip(others).for_each(|(a, b)| a.1 += b.1);
        }
    }
    let mut draft = Draft::new("slow_kernel", phase);
    draft.values = values;
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    draft.about = name.to_owned();
    draft.name = Some(name.to_owned());
    let named = job.headline_facts().examples.of(name);
    draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
    let steps: Vec<&StepFact> = draft.values.iter().map(|(at, _)| &job.steps[*at]).collect();
    draft
        .evidence
        .extend(longest_of(job, &steps, name, |item| item.name == name));
    draft
        .commands
        .push(format!("inferscope trace-info kernels {}", context.traces));
    let with = match names {
        1 => String::new(),
        2 => " (and another kernel with it)".to_owned(),
        n => format!(" (and {} other kernels with it)", n - 1),
    };
    let has_sizes = job
        .of(phase)
        .all(|step| step.tokens.or(step.batch).is_some());
    let what = format!(
        "takes {} instead of {}{with} in {} of {} {} steps, for as many calls{}",
        time(slow_ns),
        time(usual),
        draft.values.len(),
        phase.steps.len(),
        crate::draft::phase_word(&phase.name),
        if has_sizes { " and requests" } else { "" }
    );
    Some(draft.word("name", words::kernel(name)).word("what", what))
}

/// Factor over the next longest run of a kernel from which a single run is an outlier.
const OUTLIER: i64 = 5;

/// Fewer runs of a kernel in a phase than this tell nothing of a single one.
const LEAST_RUNS: usize = 4;

/// A single run of a kernel that takes far longer than all others of it in the same phase.
pub(super) struct LongRun {
    /// Place of the step.
    at: usize,
    name: String,
    ns: i64,
    /// The next longest one, and the number of all others.
    next_ns: i64,
    others: usize,
}

impl LongRun {
    /// Returns what it takes longer than the next longest one.
    pub(super) fn excess_ns(&self) -> i64 {
        self.ns - self.next_ns
    }

    /// Returns the place of its step.
    pub(super) fn step(&self) -> usize {
        self.at
    }
}

/// Returns the single run that takes longest beyond the others of its kernel in a phase.
pub(super) fn long_run(job: &crate::job::Job, phase: &Phase) -> Option<LongRun> {
    let facts = job.headline_facts();
    let mut names: Vec<&str> = job
        .of(phase)
        .flat_map(|step| &step.items)
        .filter(|item| matches!(item.class, Class::Kernel(_)) && item.on_rank == job.rank())
        .map(|item| item.name.as_str())
        .collect();
    names.sort_unstable();
    names.dedup();
    let found = names.into_iter().filter_map(|name| {
        let mut runs: Vec<(i64, usize)> = Vec::new();
        for at in &phase.steps {
            let row = &job.steps[*at].row;
            let own = facts.runs_in(name, (row.begin_ns, row.end_ns));
            runs.extend(own.into_iter().map(|ns| (ns, *at)));
        }
        runs.sort_unstable_by_key(|(ns, at)| (std::cmp::Reverse(*ns), *at));
        let (ns, at) = *runs.first()?;
        let (next_ns, _) = *runs.get(1)?;
        (runs.len() >= LEAST_RUNS && ns >= OUTLIER * next_ns).then(|| LongRun {
            at,
            name: name.to_owned(),
            ns,
            next_ns,
            others: runs.len() - 1,
        })
    });
    found.max_by_key(LongRun::excess_ns)
}

/// The draft for a single long run, if it is on the path.
fn one_long_run(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let found = long_run(job, phase)?;
    let is_own = |item: &Item| item.name == found.name && matches!(item.class, Class::Kernel(_));
    let on_path = job.steps[found.at].sum(is_own);
    let mut draft = Draft::new("slow_kernel", phase);
    draft.values = vec![(found.at, found.excess_ns().min(on_path))];
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    draft.about = format!("run {}", found.name);
    draft.name = Some(found.name.clone());
    let named = job.headline_facts().examples.of(&found.name);
    draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
    draft.evidence.extend(longest_of(
        job,
        &[&job.steps[found.at]],
        &found.name,
        is_own,
    ));
    draft.commands.push(context.path_command(&draft));
    let what = format!(
        "takes {} once, the other {} runs of it in {} steps {} at most",
        time(found.ns),
        found.others,
        crate::draft::phase_word(&phase.name),
        time(found.next_ns)
    );
    Some(
        draft
            .word("name", words::kernel(&found.name))
            .word("what", what),
    )
}

/// Steps with what each takes longer, the median of the others and that of these.
type Apart = (Vec<(usize, i64)>, i64, i64);

/// Divides the times of a kernel by step into two groups that are apart: what the slow ones take longer than the others, and the
/// median of both. `None` where all are alike, or grow step by step.
#[expect(clippy::cast_precision_loss, reason = "ratios")]
fn apart(rows: &[(usize, i64, u64)]) -> Option<Apart> {
    let mut times: Vec<i64> = rows.iter().map(|row| row.1).collect();
    times.sort_unstable();
    // The widest step between neighbours, relative to the smaller one.
    let ratio = |at: usize| times[at] as f64 / times[at - 1].max(1) as f64;
    let cuts = LEAST_GROUP..=times.len().checked_sub(LEAST_GROUP)?;
    let cut = cuts.max_by(|a, b| ratio(*a).total_cmp(&ratio(*b)).then_with(|| b.cmp(a)))?;
    let (usual, slow) = (times[cut / 2], times[cut + (times.len() - cut) / 2]);
    // Wider than either group.
    let inside = |from: usize, to: usize| times[to] as f64 / times[from].max(1) as f64;
    let widest = inside(0, cut - 1).min(inside(cut, times.len() - 1));
    let is_apart = ratio(cut) >= 1.0 + 0.5 * (SLOWER - 1.0) && ratio(cut) >= widest.min(SLOWER);
    if slow as f64 / usual.max(1) as f64 <= SLOWER || !is_apart {
        return None;
    }
    let limit = times[cut];
    let each = rows.iter().filter(|row| row.1 >= limit);
    Some((
        each.map(|row| (row.0, row.1 - usual)).collect(),
        usual,
        slow,
    ))
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
        context.traces
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
    let mut links = Links::default();
    let mut is_small = |item: &Item| {
        let link = links.of(item.class, &item.name);
        matches!(link, Link::Elementwise | Link::Between)
    };
    let mut kernels: std::collections::BTreeMap<&str, (u64, i64)> = Default::default();
    for item in job.of(phase).flat_map(|step| &step.items) {
        if is_small(item) {
            let sum = kernels.entry(&item.name).or_default();
            *sum = (sum.0 + item.count, sum.1 + item.ns);
        }
    }
    let mut kernels: Vec<(&str, (u64, i64))> = kernels.into_iter().collect();
    kernels.sort_by_key(|(name, (_, ns))| (std::cmp::Reverse(*ns), *name));
    let of_names: Vec<(&str, i64)> = kernels.iter().map(|(name, (_, ns))| (*name, *ns)).collect();
    // One glob: neighbours of different globs would not become one.
    draft.gain = match common_word(&of_names) {
        Some(stem) if chains > 0 => {
            let length = kernels_each / chains.max(1);
            #[expect(clippy::cast_precision_loss, reason = "a factor")]
            let factor = 1.0 / length.max(1) as f64;
            replay(&format!("fuse:*{stem}*={factor:.4}")).capped()
        }
        // No change selects them all: of each chain the longest is left.
        _ => {
            let each = job.of(phase).flat_map(|step| &step.chains);
            let (all, longest) = each.fold((0, 0), |sum, chain| {
                (sum.0 + chain.ns, sum.1 + chain.longest_ns)
            });
            Gain::CostPart(1.0 - share(longest, all) / 100.0)
        }
    };
    for (name, (calls, ns)) in kernels.iter().take(4) {
        draft.evidence.push(said(
            job,
            format!(
                "{}: {calls} times on the path, {} each",
                words::kernel(name),
                time(*ns / i64::try_from(*calls).unwrap_or(1).max(1))
            ),
        ));
    }
    draft.commands.push(format!(
        "inferscope trace-info kernels {} --by class",
        context.traces
    ));
    Some(
        draft
            .word("count", report::human::count(kernels_each))
            .word("chains", report::human::count(chains)),
    )
}

/// Attention in separate kernels that write its scores to memory, where no attention kernel runs.
fn separate_attention(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let mut draft = Draft::new("unfused_attention", phase);
    let sum = |step: &StepFact| -> (i64, i64, u64) {
        let chains = step.attention.iter();
        let (ns, kernels) = chains.fold((0, 0), |sum, chain| {
            (sum.0 + chain.ns, sum.1 + chain.kernels)
        });
        (
            ns,
            i64::try_from(step.attention.len()).unwrap_or(0),
            kernels,
        )
    };
    let each = phase.steps.iter().map(|at| (*at, sum(&job.steps[*at]).0));
    draft.values = each.collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    let is_attention = |item: &Item| item.class == Class::Kernel(KernelClass::Attention);
    let fused: i64 = job.of(phase).map(|step| step.sum(is_attention)).sum();
    let chains = median(job.of(phase).map(|step| sum(step).1));
    if chains < 2 || fused > 0 {
        return None;
    }
    let kernels = median(
        job.of(phase)
            .map(|step| i64::try_from(sum(step).2).unwrap_or(0)),
    );
    draft.strength = Strength::Favoured;
    // What a fused kernel takes is not known: no more than all of it.
    draft.gain = Gain::Cost;
    draft.rank = Some(job.rank());
    draft.name = Some("attention".to_owned());
    let is_softmax = |item: &Item| item.class == Class::Kernel(KernelClass::Softmax);
    let names = sums(job, phase, |item| {
        is_softmax(item).then(|| item.name.clone())
    });
    if let Some((name, ns)) = names.first() {
        draft.evidence.push(said(
            job,
            format!(
                "{} between two matrix products: {} on the path of {}",
                words::kernel(name),
                time(*ns),
                crate::numbers::counted(phase.steps.len() as u64, "step", "steps")
            ),
        ));
    }
    draft.commands.push(format!(
        "inferscope trace-info kernels {} --by class",
        context.traces
    ));
    Some(
        draft
            .word("count", report::human::count(kernels.unsigned_abs()))
            .word("chains", report::human::count(chains.unsigned_abs())),
    )
}

/// Share of the time of small kernels from which one of them has to have the word that all share, one in so many.
const RARE: i64 = 20;

/// Returns the longest word that the names of all kernels with a notable time share.
fn common_word(kernels: &[(&str, i64)]) -> Option<String> {
    let all: i64 = kernels.iter().map(|(_, ns)| ns).sum();
    let mut names = kernels.iter().filter(|(_, ns)| ns * RARE >= all);
    let (first, _) = names.next()?;
    let words = first.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
    let shared =
        words.filter(|word| word.len() >= 6 && names.clone().all(|(name, _)| name.contains(word)));
    shared.max_by_key(|word| word.len()).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::apart;

    #[test]
    fn groups_are_apart_and_growth_is_none() {
        let of = |times: &[i64]| {
            let rows: Vec<(usize, i64, u64)> = times
                .iter()
                .enumerate()
                .map(|(at, ns)| (at, *ns, 1))
                .collect();
            apart(&rows)
                .map(|(slow, usual, _)| (slow.iter().map(|(at, _)| *at).collect::<Vec<_>>(), usual))
        };
        let two = [100, 101, 99, 150, 100, 152, 149, 100];
        assert_eq!(of(&two), Some((vec![3, 5, 6], 100)));
        // A context that grows, and noise.
        let growing: Vec<i64> = (0..40).map(|n| 1_000 + 30 * n).collect();
        assert_eq!(of(&growing), None);
        assert_eq!(of(&[100, 103, 98, 107, 110, 101, 99]), None);
        assert_eq!(of(&[100, 101, 300]), None);
    }
}
