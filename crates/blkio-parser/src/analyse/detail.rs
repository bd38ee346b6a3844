//! Latencies by size, time, process and stage.

use std::collections::BTreeMap;

use super::distribution::Distribution;
use super::latency_bins::LatencyBins;
use super::outstanding::Outstanding;
use super::samples::{Sample, Samples};
use super::spread::SpreadBins;
use super::timeline::Timeline;
use super::traffic::{Amount, Grid, SECOND};
use crate::event::Event;

/// Sizes up to which latencies are kept apart, in KiB; the last class is everything larger.
pub const SIZE_CLASSES_KIB: [u64; 9] = [4, 8, 16, 32, 64, 128, 256, 512, 1024];

/// Processes whose latencies are kept apart.
const MAX_PROCESSES: usize = 64;

/// Latencies of pairs taken apart. Directions are in the order of [`Direction::ALL`](crate::Direction::ALL).
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Detail {
    /// Issue to completion by direction and size class, of requests that have a size.
    pub by_size: [[Distribution; 10]; 7],
    /// Latencies of data requests by whole second of the trace's clock.
    pub by_second: LatencyBins,
    /// The same by the bins of the series, where those are not whole seconds.
    pub by_bin: Option<LatencyBins>,
    /// Latencies of data requests by time of issue.
    pub timeline: Timeline,
    /// Completed reads and writes.
    pub completed: [Amount; 2],
    /// Requests with their latencies, for what needs them in order.
    pub samples: Samples,
    /// Bytes read and written, each request spread evenly over the time it was in flight, by the bins of the series.
    pub spread: Option<SpreadBins>,
    /// The same by 100 ms since the first issue, and what completed in each.
    pub tenths: Option<[SpreadBins; 2]>,
    /// Latencies of data requests by number of the name of the process that issued them, of the first 64 names.
    pub by_process: BTreeMap<u32, Distribution>,
    /// Queueing to completion of each bio, reads and writes, where the trace has queue events.
    pub queue_to_complete: [Distribution; 2],
    /// Queueing to issue of each bio, reads and writes.
    pub queue_to_issue: [Distribution; 2],
    /// Issue to completion, added up over the bios of `queue_to_complete`: a request of several bios counts for each.
    pub issue_to_complete_of_bios: u128,
    /// First issue to completion of the requests that the driver gave back and that were issued again, whose latency is else
    /// from their last issue.
    pub first_issue_to_complete: [Distribution; 7],
}

impl Default for Detail {
    fn default() -> Self {
        Self {
            by_size: Default::default(),
            by_second: LatencyBins::new(SECOND, 0),
            by_bin: None,
            timeline: Timeline::default(),
            completed: Default::default(),
            samples: Samples::default(),
            spread: None,
            tenths: None,
            by_process: BTreeMap::new(),
            queue_to_complete: Default::default(),
            queue_to_issue: Default::default(),
            issue_to_complete_of_bios: 0,
            first_issue_to_complete: Default::default(),
        }
    }
}

impl Detail {
    pub(super) fn in_bins(&mut self, bins: Grid, first_issue_ns: u64) {
        let (width_ns, begin_ns) = (bins.width_ns(), bins.begin_ns(first_issue_ns));
        self.spread = Some(SpreadBins::new(width_ns, begin_ns));
        self.tenths = Some([0; 2].map(|_| SpreadBins::new(SECOND / 10, first_issue_ns)));
        if !bins.is_of_seconds() {
            self.by_bin = Some(LatencyBins::new(width_ns, begin_ns));
        }
    }

    /// Takes an issue whose bios were queued at these times.
    pub(super) fn issue(&mut self, event: &Event, queued_ns: &[u64]) {
        if let Some(waited) = self.queue_to_issue.get_mut(event.direction.slot()) {
            for t_ns in queued_ns {
                waited.add(event.t_ns.saturating_sub(*t_ns));
            }
        }
    }

    /// Takes a completion with its request.
    pub(super) fn pair(&mut self, event: &Event, request: &Outstanding, latency_ns: u64) {
        let slot = request.direction.slot();
        if let Some(first_issue_ns) = request.first_issue_ns
            && let Some(latency) = self.first_issue_to_complete.get_mut(slot)
        {
            latency.add(event.t_ns.saturating_sub(first_issue_ns));
        }
        if let Some(times) = self.queue_to_complete.get_mut(slot) {
            for t_ns in &request.queued_ns {
                times.add(event.t_ns.saturating_sub(*t_ns));
                self.issue_to_complete_of_bios += u128::from(latency_ns);
            }
        }
        let kib = u64::from(request.bytes).div_ceil(1024);
        let class = SIZE_CLASSES_KIB.partition_point(|top| *top < kib);
        let by_size = self.by_size.get_mut(slot).filter(|_| kib > 0);
        if let Some(class) = by_size.and_then(|classes| classes.get_mut(class)) {
            class.add(latency_ns);
        }
        let issue_ns = request.issue_ns;
        self.samples.add(Sample {
            issue_ns,
            latency_ns,
            bytes: request.bytes,
            comm: request.comm,
            direction: request.direction,
        });
        if !request.direction.is_data() {
            return;
        }
        self.by_second.add(event.t_ns, latency_ns);
        if let Some(completed) = self.completed.get_mut(slot) {
            completed.add(Amount {
                ios: 1,
                bytes: request.bytes.into(),
            });
        }
        self.timeline.add(issue_ns, latency_ns, request.direction);
        let bytes = request.bytes.into();
        if let Some(bins) = &mut self.spread {
            bins.add(slot, issue_ns..event.t_ns, bytes);
        }
        if let Some([spread, completed]) = &mut self.tenths {
            spread.add(slot, issue_ns..event.t_ns, bytes);
            completed.add(slot, event.t_ns..event.t_ns, bytes);
        }
        if let Some(bins) = &mut self.by_bin {
            bins.add(event.t_ns, latency_ns);
        }
        let is_known = self.by_process.contains_key(&request.comm);
        if request.comm != 0 && (is_known || self.by_process.len() < MAX_PROCESSES) {
            let process = self.by_process.entry(request.comm).or_default();
            process.add(latency_ns);
        }
    }

    /// Closes what is open; call once after the last event.
    pub(super) fn finish(&mut self) {
        self.by_second.close();
        self.by_bin.iter_mut().for_each(LatencyBins::close);
        self.timeline.finish();
    }
}
