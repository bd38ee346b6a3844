//! Steps that the device bounds, and classes of kernels that dominate them.

use critical_path::{Class, Group};

use super::{Context, replay, sums};
use crate::draft::{Draft, Gain, Strength, said};
use crate::job::{Item, Job, Phase};
use crate::limits::LimitRow;
use crate::numbers::{median, pct, share, time, whole_ns};

/// Share of GPU time with numbers from which a distance from the limit is stated, in percent.
const KNOWN: f64 = 50.0;

/// Step time that the device allows.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DeviceLimit {
    /// Median over the steps.
    pub(crate) limit_ns: i64,
    /// Share of the step time, in percent.
    pub(crate) pct: f64,
}

/// Returns the step time that the limits of the operators allow, where enough of the GPU time has numbers.
pub(crate) fn limit_of(job: &Job, phase: &Phase) -> Option<DeviceLimit> {
    let limits = &job.headline_facts().limits;
    if limits.device.is_empty() {
        return None;
    }
    let mut each = Vec::new();
    let (mut limit_sum, mut time_sum) = (0_i64, 0_i64);
    for step in job.of(phase) {
        let host = (step.row.host_begin_ns, &step.row.name);
        let rows = limits.steps.iter();
        let Some(row) = rows.clone().find(|row| (row.host_ns.0, &row.name) == host) else {
            continue;
        };
        let mut row = row.clone();
        row.step_ns = Some(step.row.duration_ns);
        let Some((share, _)) = row.share_of_time() else {
            continue;
        };
        #[expect(clippy::cast_precision_loss, reason = "a limit has four digits")]
        let limit = whole_ns(step.row.duration_ns as f64 * share / 100.0);
        each.push(limit);
        limit_sum += limit;
        time_sum += step.row.duration_ns;
    }
    // Limits above the measured time are no limits: a size was assumed wrongly.
    let is_possible = limit_sum <= time_sum && !each.is_empty();
    is_possible.then(|| DeviceLimit {
        limit_ns: median(each),
        pct: share(limit_sum, time_sum),
    })
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
fn at_limit(classes: &[LimitRow]) -> Option<String> {
    let mut parts = Vec::new();
    for row in classes {
        let Some(limit) = row.limit_ns else { continue };
        if row.time_ns <= 0 || row.known_ns <= 0 {
            continue;
        }
        #[expect(clippy::cast_precision_loss, reason = "factors have four digits")]
        let (time, known) = (row.time_ns as f64, row.known_ns as f64);
        let factor = ((limit.min(known) + time - known) / time).clamp(0.0, 1.0);
        if row.name == "collective" {
            continue;
        }
        parts.push(format!("kernel:class:kernel.{}={factor:.6}", row.name));
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
    let limits = &job.headline_facts().limits;
    if limits.coverage_pct.is_none_or(|known| known < KNOWN) || limits.device.is_empty() {
        return None;
    }
    let found = limit_of(job, phase)?;
    let time_of = |bound: &str| -> f64 {
        let rows = limits.classes.iter().filter(|row| row.bound == bound);
        rows.filter_map(|row| row.limit_ns).sum()
    };
    let kind = match time_of("compute") > time_of("memory") {
        true => "device_limit_compute",
        false => "device_limit_memory",
    };
    let mut draft = Draft::new(kind, phase).over(job, phase, is_gpu);
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.gain = at_limit(&limits.classes).map_or(Gain::Unknown, |change| replay(&change));
    draft.rank = Some(job.rank());
    draft = draft
        .word("limit", pct(found.pct))
        .word("device", limits.device.clone());
    for row in limits.classes.iter().take(6) {
        let Some(reached) = row.pct else { continue };
        if share(row.time_ns, limits.classes.iter().map(|r| r.time_ns).sum()) < 1.0 {
            continue;
        }
        let class = format!("kernel.{}", row.name);
        draft.evidence.push(said(
            job,
            format!(
                "{}: {} in the recording, at {} of their limit ({})",
                context.catalogue.label(&class),
                time(row.time_ns),
                pct(reached),
                match row.bound {
                    "memory" => "memory bandwidth",
                    "link" => "link",
                    _ => "arithmetic",
                }
            ),
        ));
    }
    draft
        .commands
        .push(format!("inferscope trace-info roofline {}", context.paths));
    Some(draft)
}

/// Steps that the GPU bounds while its limit is not known.
fn unknown(context: &Context<'_>, phase: &Phase) -> Option<Draft> {
    let is_gpu = |item: &Item| item.group() == Group::Gpu;
    let mut draft = Draft::new("device_limit", phase).over(context.job, phase, is_gpu);
    draft.reported(context.catalogue, phase)?;
    draft.strength = Strength::Favoured;
    draft.rank = Some(context.job.rank());
    draft
        .commands
        .push(format!("inferscope trace-info roofline {}", context.paths));
    Some(draft)
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
        .push(format!("inferscope trace-info kernels {}", context.paths));
    Some(draft.word("name", context.catalogue.label(&name)))
}
