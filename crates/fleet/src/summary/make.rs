//! Makes the summary of a recording.

use std::collections::BTreeMap;

use critical_path::{Graph, Group, Part, PartOptions, StepRow, step_rows};
use gpu_time::comm::{CommRules, RankDigest};
use gpu_time::{GpuWork, KernelOptions, KernelsBy, NO_LAUNCH, NO_SHAPE, kernels_with_durations};
use rca_cycles::Origins;
use sha2::{Digest as _, Sha256};
use trace_model::{Rank, Trace};
use trace_tables::Summary;

use super::collectives::{Collectives, stated_groups};
use super::steps::{Steps, phase_of};
use super::{KernelTime, PhaseTime, Quality, RankSummary, VERSION};
use crate::sketch::Sketch;

/// Number of names with shapes that are kept.
const KERNELS: usize = 100;

/// Number of letters of a name that are kept.
const NAME: usize = 300;

/// Number of reasons for an incomplete recording that are kept.
const REASONS: usize = 3;

/// Returns the keys, without prefix, of the arguments that [`summarise`] reads; a reader may leave out all others.
pub fn arg_keys() -> Vec<String> {
    let mut keys = gpu_time::comm::arg_keys();
    let more = critical_path::ARG_KEYS.iter().chain(rca_cycles::ARG_KEYS);
    keys.extend(more.map(|key| (*key).to_owned()));
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Returns a name that is short enough: very long ones are cut, with a hash that keeps them different.
pub(super) fn short(name: &str) -> String {
    if name.chars().count() <= NAME {
        return name.to_owned();
    }
    let hash = Sha256::digest(name.as_bytes());
    let hash: String = hash
        .iter()
        .take(4)
        .map(|byte| format!("{byte:02x}"))
        .collect();
    let start: String = name.chars().take(NAME).collect();
    format!("{start}…#{hash}")
}

/// Summarizes the recording of one rank, whose file is `name`.
///
/// Cost: that of the analyses: the collectives ([`RankDigest`]), the critical path of each step, kernels by name and shape, data quality.
pub fn summarise(name: &str, trace: &Trace) -> RankSummary {
    let work = GpuWork::new(trace);
    let index = work.index();
    let digest = RankDigest::of_part(name, index, CommRules::Extended, |_| true);
    let (marks, steps_by) = rca_cycles::step_marks(index, None);
    let part = Part::new(index, digest.rank.0, &marks, PartOptions::default());
    let steps = step_rows(&Graph::new(vec![part], None));
    let steps: Vec<StepRow> = steps.map(|steps| steps.steps).unwrap_or_default();
    let (kernels, kernels_left_out) = by_name(&work);
    // Other rows, such as the profiler's own, have labels that are no hosts.
    let origins = Origins::new(trace, false);
    let event = work.events().first().map(|event| event.slice);
    let call = index.activities().calls().first().copied();
    let ends = [event, call].into_iter().flatten();
    let mut hosts = ends.filter_map(|id| origins.of_slice(trace.slice(id)).host.clone());
    let mut devices: Vec<i64> = work.events().iter().map(|event| event.device.0).collect();
    devices.sort_unstable();
    devices.dedup();
    let meta = trace.meta();
    RankSummary {
        version: VERSION.to_owned(),
        file: name.to_owned(),
        rank: digest.rank.0,
        rank_source: digest.rank_source.name().to_owned(),
        world_size: digest.world_size,
        host: hosts.next(),
        devices,
        is_nsys: meta.is_nsys(),
        base_time_ns: meta.base_time_ns,
        gpu_span_ns: work
            .span()
            .map(|span| (span.start.nanos(), span.end.nanos())),
        quality: quality(&trace_tables::summarise(name, trace)),
        time: digest.time.into(),
        steps_by: steps_by.to_owned(),
        phases: phases(&steps),
        steps: Steps::new(&steps),
        classes: by_class(&work),
        kernels,
        kernels_left_out,
        groups: stated_groups(meta),
        collectives: Collectives::new(&digest),
    }
}

/// Returns the rank that the name of a file contains.
pub(crate) fn rank_in_name(name: &str) -> Option<u32> {
    Rank::from_file_name(name).map(|rank| rank.0)
}

fn quality(summary: &Summary) -> Quality {
    let losses = &summary.losses;
    Quality {
        bytes: summary.file.uncompressed_bytes,
        slices: summary.rows.slices,
        kernels: summary.kernels.kernels,
        unlinked_kernels: losses.unlinked_kernels,
        dropped: losses.dropped,
        lost: losses.lost,
        clipped: losses.clipped,
        unclosed: losses.unclosed,
        complete: summary.healthy,
        reasons: summary
            .reasons
            .iter()
            .take(REASONS)
            .map(|reason| short(&reason.text))
            .collect(),
    }
}

fn phases(steps: &[StepRow]) -> Vec<PhaseTime> {
    let mut by_phase: BTreeMap<&str, (Vec<i64>, critical_path::Groups)> = BTreeMap::new();
    for step in steps {
        let sum = by_phase.entry(phase_of(&step.name)).or_default();
        sum.0.push(step.duration_ns);
        sum.1.add_all(&step.groups);
    }
    let each = by_phase.into_iter().map(|(phase, (durations, groups))| {
        let groups = Group::ALL.map(|group| (group.name().to_owned(), groups.of(group)));
        PhaseTime {
            phase: phase.to_owned(),
            steps: Sketch::of(&durations),
            groups: groups.into(),
        }
    });
    each.collect()
}

fn by_class(work: &GpuWork<'_>) -> Vec<KernelTime> {
    let mut options = KernelOptions::default();
    options.by = KernelsBy::Class;
    let (found, durations) = kernels_with_durations(work, work.events(), &options);
    let each = found.groups.iter().zip(durations);
    each.map(|(group, durations)| KernelTime {
        name: group.name.clone(),
        shape: None,
        class: group.name.clone(),
        durations: Sketch::of(&durations),
    })
    .collect()
}

fn by_name(work: &GpuWork<'_>) -> (Vec<KernelTime>, u64) {
    let mut options = KernelOptions::default();
    options.also = vec![KernelsBy::Shape];
    let (found, durations) = kernels_with_durations(work, work.events(), &options);
    let left_out = found.groups.len().saturating_sub(KERNELS) as u64;
    let each = found.groups.iter().zip(durations).take(KERNELS);
    let kept = each.map(|(group, durations)| {
        let shape = group.also.first().map(String::as_str).unwrap_or_default();
        KernelTime {
            name: short(&group.name),
            shape: (shape != NO_SHAPE && shape != NO_LAUNCH).then(|| short(shape)),
            class: group.class.map_or("", |class| class.name()).to_owned(),
            durations: Sketch::of(&durations),
        }
    });
    (kept.collect(), left_out)
}
