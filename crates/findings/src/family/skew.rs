//! Ranks that come late to collectives.

use std::collections::BTreeMap;

use gpu_time::comm::{Cause, CauseKind, CollectiveTime};
use trace_model::kernel::{KernelClass, class_of};

use super::{Context, replay};
use crate::document::Evidence;
use crate::draft::{Draft, Gain, Strength, said};
use crate::job::{Job, Phase};
use crate::numbers::{median, plain, time};
use crate::words;

/// Share of the lateness that one rank must cause to be the one that comes late.
const MOSTLY: f64 = 0.6;

/// A collective to which a rank came late.
pub(crate) struct LateRank<'a> {
    /// When it arrived.
    pub(crate) at_ns: i64,
    pub(crate) member: usize,
    /// Delay of its own, behind the rank before it.
    pub(crate) ns: i64,
    collective: &'a CollectiveTime,
}

/// Returns who came late to which collective, in no order.
pub(crate) fn late_ranks(job: &Job) -> Vec<LateRank<'_>> {
    let mut out = Vec::new();
    for collective in &job.comm.collectives {
        if collective.contradiction || crate::job::waits(collective).is_empty() {
            continue;
        }
        let starts = collective.start_ns.iter().enumerate();
        let mut starts: Vec<(i64, usize)> = starts
            .filter_map(|(at, start)| Some(((*start)?, at)))
            .collect();
        starts.sort_unstable();
        let [.., (before, _), (last, at)] = starts.as_slice() else {
            continue;
        };
        let ns = (last - before).saturating_sub(collective.passed_on_ns);
        let Some((member, _)) = collective.matched.runs.get(*at) else {
            continue;
        };
        if last - before > collective.error_ns && ns > 0 {
            out.push(LateRank {
                at_ns: last.saturating_sub(job.base_ns),
                member: *member,
                ns,
                collective,
            });
        }
    }
    out
}

/// The same, in a step.
struct Late<'a> {
    /// Place of the step among those of the job.
    step: usize,
    member: usize,
    ns: i64,
    collective: &'a CollectiveTime,
}

fn late<'a>(job: &'a Job, phase: &Phase) -> Vec<Late<'a>> {
    let each = late_ranks(job).into_iter().filter_map(|one| {
        let step = phase
            .steps
            .partition_point(|place| job.steps[*place].row.end_ns <= one.at_ns);
        let step = *phase.steps.get(step)?;
        (job.steps[step].row.begin_ns <= one.at_ns).then_some(Late {
            step,
            member: one.member,
            ns: one.ns,
            collective: one.collective,
        })
    });
    each.collect()
}

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    if job.facts.len() < 2 {
        return None;
    }
    let late = late(job, phase);
    let all: i64 = late.iter().map(|one| one.ns).sum();
    let mut by_member: BTreeMap<usize, i64> = BTreeMap::new();
    for one in &late {
        *by_member.entry(one.member).or_default() += one.ns;
    }
    let (member, most) = by_member
        .iter()
        .map(|(member, ns)| (*member, *ns))
        .max_by_key(|(member, ns)| (*ns, std::cmp::Reverse(*member)))?;
    #[expect(clippy::cast_precision_loss, reason = "a share")]
    let is_one = most as f64 >= MOSTLY * all as f64;
    let persistent = job.comm.straggler.as_ref();
    let persistent = persistent.is_some_and(|s| s.persistent && s.member == member);
    let late: Vec<Late<'_>> = match is_one {
        true => late
            .into_iter()
            .filter(|one| one.member == member)
            .collect(),
        false => late,
    };
    let mut values: BTreeMap<usize, i64> = BTreeMap::new();
    for one in &late {
        *values.entry(one.step).or_default() += one.ns;
    }
    // Why, by the time that it costs.
    type Found<'a> = (i64, Cause, &'a Late<'a>, Vec<(i64, i64)>);
    let mut causes: BTreeMap<(CauseKind, Option<String>), Found<'_>> = BTreeMap::new();
    for one in &late {
        let Some(cause) = &one.collective.cause else {
            continue;
        };
        let key = (cause.kind, cause.name.clone());
        let slot = causes
            .entry(key)
            .or_insert_with(|| (0, cause.clone(), one, Vec::new()));
        slot.0 += one.ns;
        slot.3.push((cause.here_ns, cause.others_ns));
        if one.ns > slot.2.ns {
            (slot.1, slot.2) = (cause.clone(), one);
        }
    }
    // What it takes is told by medians, not by the worst case.
    let mut typical: BTreeMap<(CauseKind, Option<String>), Cause> = BTreeMap::new();
    for (key, (_, cause, _, times)) in &causes {
        let mut cause = cause.clone();
        // Both of one collective: medians of each would belong to none.
        let mut times = times.clone();
        times.sort_unstable_by_key(|(here, others)| (here - others, *here));
        (cause.here_ns, cause.others_ns) = times.get(times.len() / 2).copied().unwrap_or_default();
        typical.insert(key.clone(), cause);
    }
    let mut by_kind: BTreeMap<CauseKind, i64> = BTreeMap::new();
    for ((kind, _), (ns, ..)) in &causes {
        *by_kind.entry(*kind).or_default() += *ns;
    }
    let kind = by_kind
        .iter()
        .max_by_key(|(kind, ns)| (**ns, std::cmp::Reverse(**kind)));
    let kind = kind.map(|(kind, _)| *kind);
    let cause = causes
        .iter()
        .filter(|((of, _), _)| Some(*of) == kind)
        .max_by_key(|(key, found)| (found.0, std::cmp::Reverse((*key).clone())))
        .map(|(_, found)| found);
    let slower = slower_kernels(job, member);
    let finding = match kind {
        Some(CauseKind::SlowerKernels | CauseKind::MoreKernels) => match &slower {
            Slower::Experts => "uneven_experts",
            Slower::All(_) if is_one => "slow_device",
            _ if is_expert(cause.and_then(|c| c.1.name.as_deref())) => "uneven_experts",
            _ => "rank_skew",
        },
        _ => "rank_skew",
    };
    let mut draft = Draft::new(finding, phase);
    draft.values = values.into_iter().collect();
    draft.keep_affected();
    draft.reported(context.catalogue, phase)?;
    draft.strength = match persistent || !is_one {
        true => Strength::Recorded,
        false => Strength::Favoured,
    };
    if !job.comm.knows_waits() {
        // A rank that is not recorded may have come later still.
        draft.strength = Strength::Favoured;
    }
    let rank = job.facts.get(member).map(|facts| facts.rank);
    draft.rank = rank.filter(|_| is_one);
    draft.gain = match draft.rank {
        Some(rank) => replay(&format!("rank:{rank}=median")),
        None => replay("comm:wait=0"),
    };
    if let Some((part, own, mean)) =
        expert_part(job, member).filter(|_| finding == "uneven_experts" && draft.rank.is_some())
    {
        // Balanced experts take all ranks the mean: what this one has less, the others have more.
        draft.gain = Gain::CostPart(part);
        draft.evidence.push(said(
            job,
            format!(
                "its experts take {} in the recording, {} on average of all ranks: balanced, each rank takes that",
                time(own),
                time(mean)
            ),
        ));
    }
    let who = match draft.rank {
        Some(rank) => format!("rank {rank}"),
        None => "one rank or another".to_owned(),
    };
    // Where groups do not state their members, no cause is known of a single collective: that of the critical path is.
    let whole = job.analysis.straggler.as_ref();
    let whole = whole.filter(|late| cause.is_none() && Some(late.rank) == draft.rank);
    if let Some(late) = whole {
        draft.name = Some(late.name.clone()).filter(|name| !name.is_empty());
        draft.about.clone_from(&late.name);
        draft.evidence.push(said(
            job,
            format!(
                "{} takes {} longer on rank {} than on the median rank, over all steps",
                words::function(&late.name),
                time(late.longer_ns),
                late.rank
            ),
        ));
        let named = job
            .facts
            .get(member)
            .and_then(|facts| facts.examples.of(&late.name));
        draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
    }
    let of_path = whole.map(|late| match late.class.group() {
        critical_path::Group::Gpu => {
            format!(": {} takes longer on its GPU", words::kernel(&late.name))
        }
        _ => format!(": {} takes longer on its host", words::function(&late.name)),
    });
    let origin = cause.map_or_else(
        || of_path.unwrap_or_default(),
        |(_, cause, ..)| {
            origin(
                typical
                    .get(&(cause.kind, cause.name.clone()))
                    .unwrap_or(cause),
            )
        },
    );
    if let Some((_, cause, one, _)) = cause {
        draft.name = cause.name.clone();
        draft.about = cause.name.clone().unwrap_or_default();
        evidence(job, &mut draft, cause, one);
    }
    others(job, phase, member, &mut draft);
    draft
        .commands
        .push(format!("inferscope trace-info comm {}", context.traces));
    draft.commands.push(context.path_command(&draft));
    let factor = match &slower {
        Slower::All(factor) => format!("{factor:.2}"),
        _ => String::new(),
    };
    Some(
        draft
            .word("who", who)
            .word("origin", origin)
            .word("factor", factor),
    )
}

/// Returns the part of the lateness of a rank that balanced experts save, and the time of its experts and the mean of all ranks. It
/// is late behind the next rank, and would still take the mean.
#[expect(clippy::cast_precision_loss, reason = "a ratio")]
fn expert_part(job: &Job, member: usize) -> Option<(f64, i64, i64)> {
    let sum = |facts: &crate::recording::Facts| -> i64 {
        let kernels = facts.kernels.iter();
        let own = kernels.filter(|kernel| matches!(kernel.class.as_str(), "moe_gemm" | "moe"));
        own.map(|kernel| kernel.total_ns).sum()
    };
    let own = sum(job.facts.get(member)?);
    let others = job.facts.iter().enumerate();
    let others: Vec<i64> = others
        .filter(|(at, _)| *at != member)
        .map(|(_, facts)| sum(facts))
        .collect();
    let ranks = i64::try_from(others.len()).ok()? + 1;
    let mean = (own + others.iter().sum::<i64>()) / ranks;
    let next = others.iter().copied().max()?;
    (own > next && next > 0 && own > mean).then(|| {
        let part = (own - mean) as f64 / (own - next) as f64;
        (part.min(1.0), own, mean)
    })
}

fn is_expert(kernel: Option<&str>) -> bool {
    let class = kernel.map(class_of);
    matches!(class, Some(KernelClass::MoeGemm | KernelClass::Moe))
}

/// Returns what the late rank did, as the end of a clause.
fn origin(cause: &Cause) -> String {
    let name = cause.name.as_deref().unwrap_or("");
    let name = match name.starts_with("(outside") {
        true => "host code of which nothing was recorded",
        false => name,
    };
    let of = |here: i64, others: i64| match others {
        0 => format!("{} (none on the others)", time(here)),
        _ => format!("{} instead of {}", time(here), time(others)),
    };
    match cause.kind {
        CauseKind::SlowerHost => format!(
            ": before them {} takes {} on its host",
            words::function(name),
            of(cause.here_ns, cause.others_ns)
        ),
        CauseKind::SlowerKernels => format!(
            ": {} takes {} on its GPU",
            words::kernel(name),
            of(cause.here_ns, cause.others_ns)
        ),
        CauseKind::MoreKernels => format!(
            ": it runs {} {} times instead of {}",
            words::kernel(name),
            cause.here_count,
            cause.others_count
        ),
        CauseKind::DeviceIdle => format!(
            ": its GPU idles {} before them",
            of(cause.here_ns, cause.others_ns)
        ),
        CauseKind::PassedOn => ": it waited in another group".to_owned(),
        _ => ", for a reason that is not recorded".to_owned(),
    }
}

fn evidence(job: &Job, draft: &mut Draft, cause: &Cause, one: &Late<'_>) {
    let Some(facts) = job.facts.get(one.member) else {
        return;
    };
    let step = &job.steps[one.step];
    let name = cause.name.as_deref().unwrap_or("");
    let event = facts.examples.within(name, step.host());
    let shown = match cause.kind {
        CauseKind::SlowerHost => words::function(name),
        _ => words::kernel(name),
    };
    let text = match name.is_empty() {
        true => format!(
            "rank {} is {} late in step {}",
            facts.rank,
            time(one.ns),
            step.row.step
        ),
        false => format!(
            "rank {} is {} late in step {}: {shown} takes {} there, {} on the other ranks (median)",
            facts.rank,
            time(one.ns),
            step.row.step,
            time(cause.here_ns),
            time(cause.others_ns)
        ),
    };
    draft.evidence.push(Evidence {
        text,
        file: Some(facts.name.clone()),
        rank: Some(facts.rank),
        step: Some(step.row.step),
        event_id: event.map(|event| event.id),
        name: cause.name.as_deref().map(|name| plain(name, 1_000)),
        begin_ns: event.map(|event| event.begin_ns),
        duration_ns: event.map(|event| event.duration_ns),
    });
    let named = facts.examples.of(name);
    draft.stack = named.map_or_else(Vec::new, |named| named.stack.clone());
}

/// Evidence for what the other ranks show meanwhile: waiting in collectives.
fn others(job: &Job, phase: &Phase, member: usize, draft: &mut Draft) {
    let steps = i64::try_from(phase.steps.len()).unwrap_or(1).max(1);
    let waited: Vec<(u32, i64)> = job
        .facts
        .iter()
        .zip(&job.comm.ranks)
        .enumerate()
        .filter(|(at, _)| *at != member)
        .map(|(_, (facts, rank))| (facts.rank, rank.waited_ns))
        .collect();
    let middle = median(waited.iter().map(|(_, ns)| *ns));
    let all_steps = i64::try_from(job.steps.len()).unwrap_or(1).max(steps);
    draft.evidence.push(said(
        job,
        format!(
            "the other {} {} in collectives of each step (median rank, mean of all steps)",
            match waited.len() {
                1 => "rank waits".to_owned(),
                n => format!("{n} ranks wait"),
            },
            time(middle / all_steps)
        ),
    ));
}

/// Which kernels of a rank are slower than on the others.
enum Slower {
    /// Those that take most of its time, so the device is slow.
    All(f64),
    /// Only those of experts.
    Experts,
    /// Neither.
    Some,
}

/// Ratio from which a kernel counts as slower.
const SLOWER: f64 = 1.03;

fn slower_kernels(job: &Job, member: usize) -> Slower {
    let Some(own) = job.facts.get(member) else {
        return Slower::Some;
    };
    let (mut slower, mut alike, mut experts_slower, mut others_slower) =
        (0_i64, 0_i64, 0_i64, 0_i64);
    let (mut here, mut there) = (0.0, 0.0);
    let (mut names, mut slower_names) = (0_usize, 0_usize);
    for kernel in own
        .kernels
        .iter()
        .filter(|kernel| kernel.class != "collective")
        .take(40)
    {
        let others: Vec<i64> = job
            .facts
            .iter()
            .enumerate()
            .filter(|(at, _)| *at != member)
            .filter_map(|(_, facts)| {
                let same = facts
                    .kernels
                    .iter()
                    .find(|other| other.name == kernel.name)?;
                (same.calls == kernel.calls).then_some(same.total_ns)
            })
            .collect();
        if others.is_empty() {
            continue;
        }
        let usual = median(others);
        #[expect(clippy::cast_precision_loss, reason = "a ratio")]
        let ratio = kernel.total_ns as f64 / usual.max(1) as f64;
        names += 1;
        slower_names += usize::from(ratio >= SLOWER);
        let is_expert = matches!(kernel.class.as_str(), "moe_gemm" | "moe");
        match ratio >= SLOWER {
            true => {
                slower += kernel.total_ns;
                #[expect(clippy::cast_precision_loss, reason = "a ratio")]
                {
                    here += kernel.total_ns as f64;
                    there += usual as f64;
                }
                match is_expert {
                    true => experts_slower += kernel.total_ns,
                    false => others_slower += kernel.total_ns,
                }
            }
            false => alike += kernel.total_ns,
        }
    }
    if experts_slower > 0 && others_slower * 4 < experts_slower {
        return Slower::Experts;
    }
    // A slower device is slower in most of its kernels, not in one kind of them.
    let is_most = slower_names * 5 >= names * 3 && names >= 3;
    match slower > alike && is_most && there > 0.0 {
        true => Slower::All(here / there),
        false => Slower::Some,
    }
}
