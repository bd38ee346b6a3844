//! Steps that the device bounds, and classes of kernels that dominate them.

use critical_path::{Class, Group};
use roofline::ENOUGH_KNOWN;

use super::{Context, replay, sums};
use crate::draft::{Draft, Gain, Strength, said};
use crate::job::{Item, Job, Phase, overlap};
use crate::limits::KINDS;
use crate::numbers::{pct, share, time, whole_ns};

/// Share of GPU time with numbers from which a distance from the limit is stated, in percent.
const KNOWN: f64 = 50.0;

/// Share of the limit that GPU work has to reach for the device to bound it, in percent: kernels far from the limit are not bound by
/// it.
const BOUND: f64 = 45.0;

/// Step time that the device allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceLimit {
    /// Number of steps with numbers, and their mean time.
    pub(crate) steps: usize,
    pub(crate) mean_ns: i64,
    /// Mean of these steps.
    pub(crate) limit_ns: i64,
    /// Share of the step time, in percent.
    pub(crate) pct: f64,
    /// Share of the time in which the GPU works: what its work reaches of the limit.
    pub(crate) reached_pct: f64,
    /// Arithmetic needs more of it than the bytes.
    pub(crate) is_arithmetic: bool,
}

/// Returns the step time that the limits of the operators allow, where enough of the GPU time has numbers.
pub(crate) fn limit_of(job: &Job, phase: &Phase) -> Option<DeviceLimit> {
    let limits = &job.headline_facts().limits;
    if limits.device.is_empty() {
        return None;
    }
    let (mut limit_sum, mut time_sum, mut busy_sum, mut n) = (0_i64, 0_i64, 0_i64, 0_i64);
    let (mut arithmetic, mut bytes) = (0.0, 0.0);
    for step in job.of(phase) {
        let host = (step.row.host_begin_ns, &step.row.name);
        let rows = limits.steps.iter().zip(&limits.needs);
        let mut rows = rows.filter(|(row, _)| (row.host_ns.0, &row.name) == host);
        let Some((row, needs)) = rows.next() else {
            continue;
        };
        let mut row = row.clone();
        row.step_ns = Some(step.row.duration_ns);
        let Some((share, _)) = row.share_of_time() else {
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "a limit has four digits")]
        let limit = whole_ns(step.row.duration_ns as f64 * share / 100.0);
        limit_sum += limit;
        time_sum += step.row.duration_ns;
        busy_sum += row.busy_ns;
        n += 1;
        (arithmetic, bytes) = (arithmetic + needs.0, bytes + needs.1);
    }
    match (n, phase.name.as_str()) {
        (0, "whole") => return of_whole(job, phase),
        (0, _) => return of_calls(job, phase),
        _ => {}
    }
    // Limits above the measured time are no limits: a size was assumed wrongly. Those of a small part are none of the steps.
    let is_most = share(time_sum, phase.total_ns) >= KNOWN;
    let is_possible = is_most && limit_sum <= time_sum && limit_sum <= busy_sum && n > 0;
    is_possible.then(|| DeviceLimit {
        steps: usize::try_from(n).unwrap_or(0),
        mean_ns: time_sum / n,
        limit_ns: limit_sum / n,
        pct: share(limit_sum, time_sum),
        reached_pct: share(limit_sum, busy_sum),
        is_arithmetic: arithmetic > bytes,
    })
}

/// The same of a recording without steps.
fn of_whole(job: &Job, phase: &Phase) -> Option<DeviceLimit> {
    let facts = job.headline_facts();
    let limits = &facts.limits;
    if limits.coverage_pct.is_none_or(|known| known < KNOWN) {
        return None;
    }
    let sum = |bound: Option<&str>| -> f64 {
        let rows = limits.classes.iter();
        let rows = rows.filter(|row| bound.is_none_or(|bound| row.bound == bound));
        rows.filter_map(|row| row.limit_ns).sum()
    };
    let known: i64 = limits.classes.iter().map(|row| row.known_ns).sum();
    let limit_ns = whole_ns(sum(None));
    let is_possible = limit_ns > 0 && limit_ns <= known && limit_ns <= phase.total_ns;
    is_possible.then(|| DeviceLimit {
        steps: 1,
        mean_ns: phase.total_ns,
        limit_ns,
        pct: share(limit_ns, phase.total_ns),
        reached_pct: share(limit_ns, known),
        is_arithmetic: sum(Some("compute")) > sum(Some("memory")),
    })
}

/// The same from the calls of steps that the roofline does not know as steps of a model, where nearly all of their GPU time has
/// numbers. The rest counts as recorded.
fn of_calls(job: &Job, phase: &Phase) -> Option<DeviceLimit> {
    let classes = classes(job, phase);
    let (known, busy) = known_of(&classes, job, phase);
    if share(known, busy) < ENOUGH_KNOWN {
        return None;
    }
    let limit: f64 = classes.iter().map(|class| class.limit_ns).sum();
    let memory: i64 = classes.iter().map(|class| class.memory_ns).sum();
    let limit_ns = whole_ns(limit) + (busy - known).max(0);
    let n = i64::try_from(phase.steps.len()).ok().filter(|n| *n > 0)?;
    let is_possible = limit > 0.0 && limit_ns <= busy && busy <= phase.total_ns;
    is_possible.then(|| DeviceLimit {
        steps: phase.steps.len(),
        mean_ns: phase.total_ns / n,
        limit_ns: limit_ns / n,
        pct: share(limit_ns, phase.total_ns),
        reached_pct: share(limit_ns, busy),
        is_arithmetic: memory * 2 < known,
    })
}

/// Returns the GPU time of classes, and the time in which the GPU works within the steps of their phase.
fn known_of(classes: &[ClassLimit], job: &Job, phase: &Phase) -> (i64, i64) {
    let known = classes.iter().map(|class| class.time_ns).sum();
    let busy = &job.headline_facts().busy;
    let spans = job
        .of(phase)
        .map(|step| (step.row.begin_ns, step.row.end_ns));
    (known, spans.map(|span| overlap(busy, span)).sum())
}

/// Returns why the limit of steps is not known although the device is, as an end of a sentence; empty if sizes are not what lacks.
pub(crate) fn why_unknown(job: &Job, phase: &Phase) -> String {
    let limits = &job.headline_facts().limits;
    if limits.device.is_empty() {
        return ": the device is not known".to_owned();
    }
    let (known, busy) = known_of(&classes(job, phase), job, phase);
    match share(known, busy) {
        _ if busy == 0 => String::new(),
        // Of more kinds the smaller ones are not kept.
        part if part < ENOUGH_KNOWN && limits.kinds.len() < KINDS => format!(
            ": the sizes of {} of their GPU time are known, and {ENOUGH_KNOWN} % are needed",
            pct(part)
        ),
        part if part < ENOUGH_KNOWN => format!(
            ": the {KINDS} largest kinds of calls with sizes take {} of their GPU time, and {ENOUGH_KNOWN} % are needed",
            pct(part)
        ),
        _ => ": the sizes of its operators do not fit its time".to_owned(),
    }
}

/// Time and limit of a class of kernels within a phase.
struct ClassLimit {
    name: String,
    time_ns: i64,
    limit_ns: f64,
    /// Time of the part that is bound by memory.
    memory_ns: i64,
}

/// Returns the classes of the calls with numbers within a phase, most time first.
fn classes(job: &Job, phase: &Phase) -> Vec<ClassLimit> {
    let mut out: Vec<ClassLimit> = Vec::new();
    for row in &job.headline_facts().limits.kinds {
        let each = phase.steps.iter().flat_map(|at| {
            let step = &job.steps[*at].row;
            let from = row.calls.partition_point(|call| call.0 < step.begin_ns);
            let own = row.calls.get(from..).unwrap_or_default().iter();
            own.take_while(|call| call.0 < step.end_ns)
        });
        let (count, ns) = each.fold((0_u32, 0_i64), |sum, call| (sum.0 + 1, sum.1 + call.1));
        if count == 0 {
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "a share")]
        let limit_ns = row.limit_ns * f64::from(count) / row.calls.len().max(1) as f64;
        let at = out.iter().position(|class| class.name == row.class);
        let at = at.unwrap_or_else(|| {
            out.push(ClassLimit {
                name: row.class.clone(),
                time_ns: 0,
                limit_ns: 0.0,
                memory_ns: 0,
            });
            out.len() - 1
        });
        let class = &mut out[at];
        class.time_ns += ns;
        class.limit_ns += limit_ns;
        class.memory_ns += if row.bound == "compute" { 0 } else { ns };
    }
    out.sort_by(|a, b| b.time_ns.cmp(&a.time_ns).then_with(|| a.name.cmp(&b.name)));
    out
}

pub(super) fn drafts(context: &Context<'_>, phase: &Phase) -> Vec<Draft> {
    let mut out = Vec::new();
    let known = limit(context, phase);
    match known {
        Some(draft) => out.push(draft),
        None => out.extend(unknown(context, phase)),
    }
    out.extend(dominating(context, phase));
    out
}

/// Returns the change by which every class of kernels with numbers takes the time of its limit.
fn at_limit(classes: &[ClassLimit]) -> Option<String> {
    let mut parts = Vec::new();
    for class in classes {
        #[expect(clippy::cast_precision_loss, reason = "factors have four digits")]
        let factor = (class.limit_ns / class.time_ns.max(1) as f64).clamp(0.0, 1.0);
        if class.name == "collective" || class.time_ns <= 0 {
            continue;
        }
        parts.push(format!("kernel:class:kernel.{}={factor:.6}", class.name));
    }
    (!parts.is_empty()).then(|| parts.join(","))
}

fn limit(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let is_gpu = |item: &Item| item.group() == Group::Gpu;
    let groups = sums(job, phase, |item| Some(item.group()));
    if groups.first().map(|(group, _)| *group) != Some(Group::Gpu) {
        return None;
    }
    let device = &job.headline_facts().limits.device;
    let found = limit_of(job, phase)?;
    let kind = match (found.reached_pct >= BOUND, found.is_arithmetic) {
        (false, _) => "device_limit",
        (_, true) => "device_limit_compute",
        (_, false) => "device_limit_memory",
    };
    let classes = classes(job, phase);
    let mut draft = Draft::new(kind, phase).over(job, phase, is_gpu);
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = at_limit(&classes).map_or(Gain::Unknown, |change| replay(&change));
    draft.rank = Some(job.rank());
    draft = draft
        .word("limit", pct(found.reached_pct))
        .word("device", device.clone())
        .word(
            "distance",
            format!(
                "it reaches {} of the limit of the {device}",
                pct(found.reached_pct)
            ),
        );
    let all: i64 = classes.iter().map(|class| class.time_ns).sum();
    for class in classes.iter().take(6) {
        if share(class.time_ns, all) < 1.0 {
            continue;
        }
        let name = format!("kernel.{}", class.name);
        draft.evidence.push(said(
            job,
            format!(
                "{}: {} in these steps, at {} of their limit ({})",
                context.catalogue.label(&name),
                time(class.time_ns),
                pct(share(whole_ns(class.limit_ns), class.time_ns)),
                match class.memory_ns * 2 >= class.time_ns {
                    true => "memory bandwidth",
                    false => "arithmetic",
                }
            ),
        ));
    }
    draft.commands.push(context.roofline());
    Some(draft)
}

/// Steps that the GPU bounds while its limit is not known.
fn unknown(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let is_gpu = |item: &Item| item.group() == Group::Gpu;
    let mut draft = Draft::new("device_limit", phase).over(context.job, phase, is_gpu);
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.rank = Some(context.job.rank());
    let coverage = context.job.headline_facts().limits.coverage_pct;
    // Without any size there is nothing that it could show.
    if coverage.is_some_and(|known| known >= 1.0) {
        draft.commands.push(context.roofline());
    }
    Some(draft.word(
        "distance",
        "how far it is from the limit of the device is not known",
    ))
}

fn dominating(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let job = context.job;
    let classes = sums(job, phase, |item| match item.class {
        Class::Kernel(class) if item.portion == crate::job::Portion::Whole => Some(class),
        _ => None,
    });
    let (class, _) = classes.first()?;
    let name = format!("kernel.{}", class.name());
    let takes = |item: &Item| item.class == Class::Kernel(*class);
    let mut draft = Draft::new("kernel_class_dominates", phase).over(job, phase, takes);
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Recorded;
    draft.about = class.name().to_owned();
    draft.rank = Some(job.rank());
    draft.name = Some(class.name().to_owned());
    let kernels = sums(job, phase, |item| takes(item).then(|| item.name.clone()));
    for (kernel, ns) in kernels.iter().take(3) {
        draft.evidence.push(said(
            job,
            format!(
                "{}: {} on the path of {}",
                crate::words::kernel(kernel),
                time(*ns),
                crate::numbers::counted(phase.steps.len() as u64, "step", "steps")
            ),
        ));
    }
    draft
        .commands
        .push(format!("inferscope trace-info kernels {}", context.traces));
    Some(draft.word("name", context.catalogue.label(&name)))
}
