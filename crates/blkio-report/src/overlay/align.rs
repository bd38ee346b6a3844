//! Finds the offset between the clock of a GPU's log and that of a trace.

use super::{GRID_NS, GpuBins, paired, pearson, read_bins};
use blkio_companions::clock::Anchor;
use blkio_companions::clock::{Alignment, Peak, from_anchors};
use blkio_companions::engine::EngineLog;
use blkio_companions::gpu::GpuLog;
use blkio_parser::Stats;
use blkio_parser::{Format, Kind};

/// How far clocks are searched, in bins of the grid: 30 s.
const REACH: i64 = 150;
/// A correlation must be this much better than elsewhere to be believed.
const RATIO: f64 = 1.2;
/// How long bpftrace takes to attach once it is started. The published pipeline starts it right behind nvidia-smi.
const ATTACH_NS: [i128; 2] = [2_000_000_000, 4_000_000_000];
/// Processes that are started one right after the other, and readings of them, may be this far apart.
const APART_NS: i128 = 1_000_000_000;
/// Clocks that may lie apart by more than this part of the trace say nothing of what happened together.
const MOST_OF_SPAN: i128 = 4;

/// How far the kernel's clocks of the time since boot may lie apart: some stand still or drift where others do not. Between
/// those of one run of twenty minutes were 27 ms.
const BETWEEN_CLOCKS_NS: u64 = 100_000_000;

/// What is known of the clocks.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ClockHint {
    /// Wall clock minus trace clock, as the user says.
    pub offset_s: Option<f64>,
    /// Pairs of readings, in the trace or beside it.
    pub anchors: Vec<Anchor>,
    /// `true` if those are of the time since boot by another clock than the trace's.
    pub is_other_clock: bool,
    /// Local time minus UTC in nanoseconds, of the machine whose tools wrote local times.
    pub zone_ns: i64,
}

impl ClockHint {
    /// Returns the anchors' alignment, with local time as wall time.
    #[must_use]
    pub fn anchored(&self) -> Option<Alignment> {
        let mut found = from_anchors(&self.anchors)?;
        found.offset_ns += i128::from(self.zone_ns);
        if self.is_other_clock {
            found.uncertainty_ns = found.uncertainty_ns.max(BETWEEN_CLOCKS_NS);
        }
        Some(found)
    }
}

/// Finds how the GPU's wall clock lies to the trace's: what the user says, else anchors, else the best correlation of reading
/// and utilisation when both start together within half a minute, else the order in which the published pipeline starts its
/// processes. The engine's log narrows the last.
///
/// # Errors
///
/// Why no alignment is believed.
pub fn align(
    stats: &Stats,
    gpu: &GpuLog,
    engine: Option<&EngineLog>,
    hint: &ClockHint,
) -> Result<Alignment, String> {
    if let Some(offset_s) = hint.offset_s {
        let nanos = i128::from(blkio_companions::num::whole(offset_s.abs() * 1e9));
        return Ok(Alignment {
            method: "given",
            offset_ns: if offset_s < 0.0 { -nanos } else { nanos },
            uncertainty_ns: 0,
            drift_ppm: None,
            correlation: None,
            drift: None,
            assumes: None,
        });
    }
    let first = stats.traffic.first_issue_ns.ok_or("no requests")?;
    let start = gpu.samples.first().ok_or("no GPU samples")?.t_ns;
    if let Some(found) = hint.anchored() {
        let at = found.wall_of(first);
        let end = gpu.samples.last().map_or(start, |s| s.t_ns);
        let last = found.wall_of(stats.traffic.last_issue_ns);
        if at <= i128::from(end) && last >= i128::from(start) {
            return Ok(found);
        }
        return Err("the anchors put the trace and the GPU log at different times: another run, or another time zone (give --tz or --clock-offset)".into());
    }
    correlated(stats, gpu, first).or_else(|unclear| {
        by_start_order(stats, gpu, engine, first)
            .map_err(|why| format!("no anchors; {unclear}; {why}: give --clock-offset"))
    })
}

/// Moves one series along the other until both go together best.
fn correlated(stats: &Stats, gpu: &GpuLog, first: u64) -> Result<Alignment, String> {
    let start = gpu.samples.first().ok_or("no GPU samples")?.t_ns;
    let io = read_bins(stats);
    let reach = usize::try_from(REACH).unwrap_or(0);
    // Readings that lie further apart than the trace is long have nothing to go with.
    let values = GpuBins::new(gpu, start.into(), io.len() + 2 * reach, i128::from);
    let grid_ns = i64::try_from(GRID_NS).unwrap_or(i64::MAX);
    let peak = |lag: i64| {
        let value = pearson(&paired(&io, &values, 0..io.len(), lag))?.abs();
        let lag_ns = lag * grid_ns;
        Some(Peak { value, lag_ns })
    };
    let mut found: Vec<Peak> = (-REACH..=REACH).filter_map(peak).collect();
    found.sort_by(|a, b| b.value.total_cmp(&a.value).then(a.lag_ns.cmp(&b.lag_ns)));
    let best = *found
        .first()
        .ok_or("too little in common for a correlation")?;
    // Lags beside the best one are the same peak.
    let is_elsewhere = |other: &&Peak| (other.lag_ns - best.lag_ns).abs() > 5 * grid_ns;
    let second = found.iter().find(is_elsewhere).copied().unwrap_or_default();
    if best.value < second.value * RATIO {
        return Err(format!(
            "the correlation of I/O and GPU is not clear (best {:.3} at {:.1} s, elsewhere {:.3} at {:.1} s)",
            best.value,
            best.lag_ns as f64 / 1e9,
            second.value,
            second.lag_ns as f64 / 1e9
        ));
    }
    Ok(Alignment {
        method: "correlation",
        offset_ns: i128::from(start) - i128::from(first) + i128::from(best.lag_ns),
        uncertainty_ns: GRID_NS,
        drift_ppm: None,
        correlation: Some((best, second)),
        drift: None,
        assumes: None,
    })
}

/// From the order in which the published pipeline starts its processes, without waiting for any: the engine, nvidia-smi,
/// bpftrace; all end with the engine. So the first request is recorded no earlier than bpftrace is attached, two to four
/// seconds behind the first reading of the GPU, and the last one before the last reading. Where traffic had begun by then, the
/// first request is right behind attaching, which is the offset given; how much later it may be, is its uncertainty.
fn by_start_order(
    stats: &Stats,
    gpu: &GpuLog,
    engine: Option<&EngineLog>,
    first: u64,
) -> Result<Alignment, String> {
    let is_of_bpftrace =
        |kind| matches!(kind, Kind::Events(Format::FiveColumn | Format::Collector));
    let mut kinds = stats.outcome.inputs.iter().map(|input| input.kind);
    if !kinds.all(is_of_bpftrace) {
        return Err("the order in which processes were started is only known of bpftrace".into());
    }
    let wall = |sample: Option<&blkio_companions::gpu::Sample>| sample.map(|s| i128::from(s.t_ns));
    let (Some(start), Some(end)) = (wall(gpu.samples.first()), wall(gpu.samples.last())) else {
        return Err("no GPU samples".into());
    };
    let span = i128::from(stats.traffic.last_issue_ns - first);
    let [soonest, latest_attached] = ATTACH_NS;
    // Which requests are the engine's is not known, but it ends before the monitors.
    let mut latest = end + APART_NS - span;
    if let Some(last) = engine.and_then(|log| log.last_wall_ns) {
        // What is written behind the engine's end is the page cache's.
        let [reads, _] = &stats.traffic.tenths;
        let last_read = reads.finish().keys().next_back().copied().unwrap_or(0);
        let last_read_ns = i128::from(last_read) * 100_000_000;
        latest = latest.min(i128::from(last) + APART_NS - last_read_ns);
    }
    let soonest = start + soonest;
    if latest < soonest {
        return Err(format!(
            "nor were the processes started in the order of the published pipeline, for the trace lasts {:.1} s and the GPU log {:.1} s",
            span as f64 / 1e9,
            (end - start) as f64 / 1e9
        ));
    }
    let attached = (soonest + start + latest_attached) / 2;
    let found = attached.min(latest);
    let uncertainty = (latest - found).max(found - soonest) + APART_NS;
    if uncertainty > span / MOST_OF_SPAN {
        return Err(format!(
            "by the order in which processes were started the clocks are known to {:.1} s, too little for a trace of {:.1} s",
            uncertainty as f64 / 1e9,
            span as f64 / 1e9
        ));
    }
    Ok(Alignment {
        method: "process start order",
        offset_ns: found - i128::from(first),
        uncertainty_ns: u64::try_from(uncertainty).unwrap_or(u64::MAX),
        drift_ppm: None,
        correlation: None,
        drift: None,
        assumes: Some(
            "nvidia-smi and bpftrace were started together and ended with the engine; bpftrace took 2 to 4 s to attach, and requests were under way by then",
        ),
    })
}
