//! Collectives that hosts carry out themselves.

use std::sync::Arc;

use serde::Serialize;
use trace_model::Trace;
use trace_model::kernel::collective::{Collective, CollectiveReader};

use crate::comm::digest::Kinds;
use crate::spread::Spread;

/// Collectives of one kind that the host carried out itself: `gloo:all_reduce`.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct HostCollectives {
    /// Description: `gloo:all_reduce`, dtype and size of the message.
    pub what: Collective,
    /// Durations of the host's annotations, which include waiting for other ranks.
    pub durations: Spread,
}

impl HostCollectives {
    /// Returns a description as text: `gloo:all_reduce of 4 MiB: 12 times, 3.2 ms`.
    #[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
    pub fn words(&self) -> String {
        let size = match self.what.bytes {
            Some(bytes) => format!(" of {}", report::human::bytes(bytes as f64)),
            None => " of unknown size".to_owned(),
        };
        let plural = if self.durations.count == 1 { "" } else { "s" };
        format!(
            "{}{size}: {} time{plural}, {}",
            self.what.name,
            report::human::count(self.durations.count),
            report::human::duration(self.durations.sum_ns as f64)
        )
    }
}

/// Returns the collectives of the host as text, longest first, or `None` without any. Their time
/// includes waiting for other ranks; no GPU takes part in it.
pub fn host_communication(found: &[HostCollectives]) -> Option<String> {
    const SHOWN: usize = 4;
    let mut words: Vec<String> = found
        .iter()
        .take(SHOWN)
        .map(HostCollectives::words)
        .collect();
    if found.len() > SHOWN {
        words.push(format!("{} more kinds", found.len() - SHOWN));
    }
    (!words.is_empty()).then(|| format!("{} (waiting for other ranks included)", words.join("; ")))
}

/// Prefixes of the names of annotations by which backends without kernels record their collectives.
pub const HOST_MARKS: [&str; 3] = ["gloo:", "mpi:", "ucc:"];

/// Returns the collectives that the host carried out itself, by kind, most time first. Sizes need
/// the arguments of [`SHAPE_KEYS`](crate::comm::SHAPE_KEYS). Cost: one test of each distinct name,
/// and one pass over the slices.
pub fn host_collectives(trace: &Trace) -> Vec<HostCollectives> {
    // The annotations name no group. If the job has no group other than that of all ranks, it is
    // that one.
    let job = trace.meta().distributed.as_ref();
    let world = job.filter(|job| job.groups.len() < 2);
    let world = world.and_then(|job| job.world_size);
    let reader = CollectiveReader::new(trace);
    let is_mark = |name: &str| HOST_MARKS.iter().any(|mark| name.starts_with(mark));
    let mut known: Vec<Option<bool>> = vec![None; trace.strings().len()];
    let mut kinds = Kinds::default();
    let mut durations: Vec<Vec<i64>> = Vec::new();
    for slice in trace.slices() {
        let Some(name) = slice.name_id() else {
            continue;
        };
        let Some(flag) = known.get_mut(name.index()) else {
            continue;
        };
        if !*flag.get_or_insert_with(|| is_mark(trace.text(name))) {
            continue;
        }
        let Some(mut what) = reader.marked(slice) else {
            continue;
        };
        if let Some(world) = world {
            Arc::make_mut(&mut what.kind).set_group_size(world);
        }
        let at = kinds.place(what) as usize;
        if durations.len() <= at {
            durations.resize_with(at + 1, Vec::new);
        }
        if let Some(list) = durations.get_mut(at) {
            list.push(slice.end().nanos().saturating_sub(slice.ts().nanos()));
        }
    }
    let all = kinds.list.into_iter().zip(&mut durations);
    let mut out: Vec<HostCollectives> = all
        .map(|(what, durations)| HostCollectives {
            what,
            durations: Spread::of(durations),
        })
        .collect();
    out.sort_by_key(|h| std::cmp::Reverse(h.durations.sum_ns));
    out
}
