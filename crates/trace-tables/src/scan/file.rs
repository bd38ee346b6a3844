//! The table of files.

use arrow_array::ArrayRef;
use gpu_time::GpuWork;
use rca_cycles::Origins;

use super::column::{count, flags, ints, texts};
use super::{Recording, Rows};
use crate::summary::{Summary, summarise};

/// Columns that need a pass over the trace.
pub(super) const MEASURED: [&str; 11] = [
    "clock",
    "kernels",
    "unlinked_kernels",
    "unlinked_flows",
    "dropped",
    "lost",
    "clipped",
    "unclosed",
    "overlapping",
    "complete",
    "reasons",
];

pub(super) struct Files<'r> {
    recording: &'r Recording,
    summary: Option<Summary>,
}

impl<'r> Files<'r> {
    pub(super) fn new(recording: &'r Recording, measure: bool) -> Self {
        Self {
            recording,
            summary: measure.then(|| summarise(&recording.file, &recording.trace)),
        }
    }

    fn host(&self) -> Option<String> {
        let trace = &self.recording.trace;
        let origins = Origins::new(trace, false);
        let mut hosts = trace
            .track_ids()
            .filter_map(|id| origins.of(id).host.clone());
        hosts.next()
    }

    fn devices(&self) -> Option<String> {
        let work = GpuWork::new(&self.recording.trace);
        let mut devices: Vec<i64> = work.events().iter().map(|event| event.device.0).collect();
        devices.sort_unstable();
        devices.dedup();
        let devices: Vec<String> = devices.iter().map(i64::to_string).collect();
        Some(devices.join(",")).filter(|devices| !devices.is_empty())
    }
}

impl Rows for Files<'_> {
    fn len(&self) -> usize {
        1
    }

    fn column(&self, name: &str, rows: &[usize]) -> Option<ArrayRef> {
        let (recording, trace) = (self.recording, &self.recording.trace);
        let meta = trace.meta();
        let distributed = meta.distributed.as_ref();
        let losses = |of: fn(&Summary) -> u64| ints(rows, |_| count(of(self.summary.as_ref()?)));
        Some(match name {
            "file" => texts(rows, |_| Some(&recording.file)),
            "run" => texts(rows, |_| recording.run.as_ref()),
            "hash" => texts(rows, |_| recording.hash.as_ref()),
            "format" => texts(rows, |_| Some(meta.format)),
            "host" => texts(rows, |_| self.host()),
            "world_size" => ints(rows, |_| distributed?.world_size.map(i64::from)),
            "devices" => texts(rows, |_| self.devices()),
            "clock" => texts(rows, |_| Some(&self.summary.as_ref()?.file.clock)),
            "base_time_ns" => ints(rows, |_| Some(meta.base_time_ns)),
            "start_ns" => ints(rows, |_| Some(trace.span().start.nanos())),
            "end_ns" => ints(rows, |_| Some(trace.span().end.nanos())),
            "bytes" => ints(rows, |_| count(meta.input_bytes)),
            "slices" => ints(rows, |_| count(trace.len())),
            "flows" => ints(rows, |_| count(trace.flows().len())),
            "counter_samples" => ints(rows, |_| count(trace.counters().len())),
            "kernels" => losses(|s| s.kernels.kernels),
            "unlinked_kernels" => losses(|s| s.losses.unlinked_kernels),
            "unlinked_flows" => losses(|s| s.losses.unlinked_flows),
            "dropped" => losses(|s| s.losses.dropped),
            "lost" => losses(|s| s.losses.lost),
            "clipped" => losses(|s| s.losses.clipped),
            "unclosed" => losses(|s| s.losses.unclosed),
            "overlapping" => losses(|s| s.losses.overlapping),
            "complete" => flags(rows, |_| Some(self.summary.as_ref()?.healthy)),
            "reasons" => texts(rows, |_| {
                let reasons = self.summary.as_ref()?.reasons.iter();
                let reasons: Vec<&str> = reasons.map(|reason| reason.text.as_str()).collect();
                Some(reasons.join("; ")).filter(|reasons| !reasons.is_empty())
            }),
            _ => return None,
        })
    }
}
