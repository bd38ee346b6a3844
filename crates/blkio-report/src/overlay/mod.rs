//! Overlays a trace with a GPU's utilisation and an engine's log on one clock.

mod align;
mod with_logs;

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Value, json};

use crate::document::phases;
use crate::limit::Yardstick;
use crate::phases::GpuSpan;
use blkio_companions::clock::Alignment;
use blkio_companions::engine::EngineLog;
use blkio_companions::gpu::GpuLog;
use blkio_parser::Stats;
use blkio_parser::analyse::traffic::{Amount, Bins};
use blkio_parser::analyse::user_phases::Named;
use blkio_parser::analyse::{DepthBin, GRID_NS};

pub use align::{ClockHint, align};
pub use with_logs::{Logs, add_logs};

/// Utilisation below which the GPU is idle, percent.
const IDLE_PERCENT: f64 = 5.0;
/// Utilisation of the device above which I/O is busy, percent: the share of the time with a request in flight.
const BUSY_PERCENT: u64 = 50;
/// The same by bytes: above this share of the 95th percentile of all bins.
const BUSY_SHARE: f64 = 0.1;

/// Returns the bytes by bin of the grid since the first issue, of reads and writes together.
fn io_bins(stats: &Stats) -> Vec<u64> {
    bytes_of(&stats.traffic.tenths)
}

/// Returns the same of reads alone, if there are any.
fn read_bins(stats: &Stats) -> Vec<u64> {
    let [reads, _] = &stats.traffic.tenths;
    match bytes_of(std::slice::from_ref(reads)) {
        none if none.is_empty() => io_bins(stats),
        read => read,
    }
}

fn bytes_of(series: &[Bins]) -> Vec<u64> {
    let mut bins: BTreeMap<u64, u64> = BTreeMap::new();
    for direction in series {
        for (bin, amount) in direction.finish() {
            *bins.entry(bin / 2).or_default() += amount.bytes;
        }
    }
    let length = bins
        .keys()
        .next_back()
        .map_or(0, |last| last + 1)
        .min(1 << 22);
    (0..length)
        .map(|bin| bins.get(&bin).copied().unwrap_or(0))
        .collect()
}

/// Returns which bins of the grid are busy with I/O: by their bytes, or, where the trace has completions, by the device's utilisation.
fn busy_bins(stats: &Stats, io: &[u64]) -> Vec<bool> {
    let mut sorted = io.to_vec();
    sorted.sort_unstable();
    let rank = stats::nearest_rank(95.0, sorted.len() as u64);
    let p95 = sorted.get(blkio_companions::num::index(rank.saturating_sub(1)));
    let limit = p95.map_or(0.0, |p95| *p95 as f64 * BUSY_SHARE);
    let mut busy: Vec<bool> = io
        .iter()
        .map(|bytes| *bytes > 0 && *bytes as f64 > limit)
        .collect();
    for (bin, depth) in utilised(stats).into_iter().flatten() {
        if depth.busy_ns * 100 > GRID_NS * BUSY_PERCENT
            && let Some(busy) = busy.get_mut(blkio_companions::num::index(*bin))
        {
            *busy = true;
        }
    }
    busy
}

/// Returns the device by bin of the grid, where that is known: not without completions, nor when the run is too long for the grid.
fn utilised(stats: &Stats) -> Option<&[(u64, DepthBin)]> {
    let grid = stats.newest.as_ref()?.depth.grid.as_ref()?;
    (grid.width_ns == GRID_NS && !grid.bins().is_empty()).then(|| grid.bins())
}

/// A GPU's values by bins of the grid.
#[derive(Debug, Clone, Default)]
struct GpuBins {
    values: Vec<Option<f64>>,
    /// From the first that is known to the last. A trace may be far longer than the GPU's log.
    known: Range<usize>,
}

impl GpuBins {
    /// Those from `start_ns` on of the clock that `time_of` gives of the GPU's own; a value holds from the sample before.
    fn new(gpu: &GpuLog, start_ns: i128, length: usize, time_of: impl Fn(u64) -> i128) -> Self {
        let mut values = vec![None; length];
        for pair in gpu.samples.windows(2) {
            let [before, sample] = pair else { continue };
            let bin = |t_ns: u64| (time_of(t_ns) - start_ns).div_euclid(i128::from(GRID_NS));
            let (from, to) = (bin(before.t_ns), bin(sample.t_ns));
            // Times of a clock that was set lie any number of bins apart.
            let within = |bin: i128| usize::try_from(bin.max(0)).unwrap_or(length).min(length);
            if let Some(bins) = values.get_mut(within(from + 1)..within(to + 1)) {
                bins.fill(sample.percent);
            }
        }
        let first = values.iter().position(Option::is_some).unwrap_or(0);
        let last = values.iter().rposition(Option::is_some);
        let known = first..last.map_or(first, |last| last + 1);
        Self { values, known }
    }

    fn at(&self, bin: usize) -> Option<f64> {
        *self.values.get(bin)?
    }
}

/// Pearson's correlation of pairs that both have a value.
fn pearson(pairs: &[(f64, f64)]) -> Option<f64> {
    let n = pairs.len() as f64;
    if pairs.len() < 10 {
        return None;
    }
    let mean = |pick: fn(&(f64, f64)) -> f64| pairs.iter().map(pick).sum::<f64>() / n;
    let (mx, my) = (mean(|p| p.0), mean(|p| p.1));
    let mut xx = 0.0;
    let mut yy = 0.0;
    let mut xy = 0.0;
    for (x, y) in pairs {
        xx += (x - mx).powi(2);
        yy += (y - my).powi(2);
        xy += (x - mx) * (y - my);
    }
    (xx > 0.0 && yy > 0.0).then(|| xy / (xx * yy).sqrt())
}

/// Ranks with ties in the middle.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    let value = |at: &usize| values.get(*at).copied().unwrap_or(0.0);
    order.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    while start < order.len() {
        let Some(first) = order.get(start) else { break };
        let same = |at: &usize| value(at).total_cmp(&value(first)).is_eq();
        let count = order.iter().skip(start).take_while(|at| same(at)).count();
        let middle = start as f64 + (count as f64 - 1.0) / 2.0;
        for at in order.iter().skip(start).take(count) {
            if let Some(rank) = ranks.get_mut(*at) {
                *rank = middle;
            }
        }
        start += count.max(1);
    }
    ranks
}

/// Returns the values of both at the same time in some bins, the GPU's moved by `lag` bins.
fn paired(io: &[u64], gpu: &GpuBins, bins: Range<usize>, lag: i64) -> Vec<(f64, f64)> {
    let lag = isize::try_from(lag).unwrap_or(0);
    // Where the GPU is known, in bins of the traffic.
    let place = |known: usize| known.saturating_add_signed(lag.saturating_neg());
    let bins = bins.start.max(place(gpu.known.start))..bins.end.min(place(gpu.known.end));
    bins.filter_map(|at| {
        let bytes = io.get(at)?;
        let value = gpu.at(at.checked_add_signed(lag)?)?;
        Some((*bytes as f64, value))
    })
    .collect()
}

fn alignment_value(found: &Alignment) -> Value {
    json!({
        "method": found.method,
        "wall_minus_trace_ns": i64::try_from(found.offset_ns).ok(),
        "uncertainty_ns": found.uncertainty_ns,
        "drift_ppm": found.drift_ppm,
        "assumes": found.assumes,
        "correlation": found.correlation.map(|(best, second)| json!({
            "best": best.value,
            "best_lag_s": best.lag_ns as f64 / 1e9,
            "elsewhere": second.value,
            "elsewhere_lag_s": second.lag_ns as f64 / 1e9,
        })),
    })
}

/// Returns a time that fits into 64 bits.
fn in_64_bits(time_ns: i128) -> Option<u64> {
    u64::try_from(time_ns).ok()
}

/// Returns, for some bins, the time by state of GPU and device, the share in which the GPU waited for the device, and the GPU's mean use.
fn table(bins: &[(bool, Option<f64>)]) -> (Value, Option<f64>, Option<f64>) {
    let mut table = [[0_u64; 2]; 2];
    let mut sum = 0.0;
    for (busy, value) in bins {
        let Some(value) = value else { continue };
        sum += value;
        let idle = usize::from(*value < IDLE_PERCENT);
        let busy = usize::from(*busy);
        if let Some(cell) = table.get_mut(idle).and_then(|row| row.get_mut(busy)) {
            *cell += GRID_NS;
        }
    }
    let [[working_quiet, working_busy], [idle_quiet, idle_busy]] = table;
    let known = working_quiet + working_busy + idle_quiet + idle_busy;
    let time_ns = json!({
        "gpu_working_io_quiet": working_quiet,
        "gpu_working_io_busy": working_busy,
        "gpu_idle_io_quiet": idle_quiet,
        "gpu_idle_io_busy": idle_busy,
    });
    let share = (known > 0).then(|| idle_busy as f64 / known as f64);
    let mean = (known > 0).then(|| sum * GRID_NS as f64 / known as f64);
    (time_ns, share, mean)
}

/// Returns how traffic and utilisation go together in some bins: at the same time, and within 2 s where that is clearest.
fn correlations(io: &[u64], gpu: &GpuBins, bins: Range<usize>) -> [(&'static str, Value); 3] {
    let at = |lag: i64| paired(io, gpu, bins.clone(), lag);
    let pairs = at(0);
    let (x, y): (Vec<f64>, Vec<f64>) = pairs.iter().copied().unzip();
    let ranked: Vec<(f64, f64)> = ranks(&x).into_iter().zip(ranks(&y)).collect();
    let best = (-10..=10_i64)
        .filter_map(|lag| Some((lag, pearson(&at(lag))?)))
        .max_by(|a, b| a.1.abs().total_cmp(&b.1.abs()));
    let best = best.map(|(lag, value)| json!({"lag_s": lag as f64 * 0.2, "pearson": value}));
    [
        ("pearson", pearson(&pairs).into()),
        ("spearman", pearson(&ranked).into()),
        ("best_lag", best.into()),
    ]
}

/// Returns an object with some more members.
fn with(mut value: Value, more: [(&'static str, Value); 3]) -> Value {
    for (key, member) in more {
        value[key] = member;
    }
    value
}

/// Maximum difference between the clocks for the GPU to tell phases: as wide as the bins that the specification cuts.
const MOST_FOR_PHASES_NS: u64 = 1_000_000_000;

/// Returns what the GPU did in nanoseconds since the first issue.
#[must_use]
pub fn held(stats: &Stats, gpu: &GpuLog, alignment: &Alignment) -> Vec<GpuSpan> {
    let first = i128::from(stats.traffic.first_issue_ns.unwrap_or(0));
    let since = |t_ns: u64| (alignment.trace_of(t_ns) - first).max(0);
    let pairs = gpu.samples.windows(2);
    let known = pairs.filter_map(|pair| {
        let [before, sample] = pair else { return None };
        let from_ns = u64::try_from(since(before.t_ns)).ok()?;
        let until_ns = u64::try_from(since(sample.t_ns)).unwrap_or(u64::MAX);
        Some(GpuSpan {
            time_ns: from_ns..until_ns,
            percent: sample.percent?,
        })
    });
    known.filter(|held| !held.time_ns.is_empty()).collect()
}

/// Returns the same for [`document::phases_beside`](crate::document::phases_beside): nothing where the clocks are not known to a second,
/// for phases would then end where nothing ended.
#[must_use]
pub fn held_for_phases(stats: &Stats, gpu: &GpuLog, alignment: &Alignment) -> Vec<GpuSpan> {
    if alignment.uncertainty_ns > MOST_FOR_PHASES_NS {
        return Vec::new();
    }
    held(stats, gpu, alignment)
}

/// Times of an idle or working GPU against a busy or quiet device, and how both go together: of the run, of the phases found
/// in it, of those given, and of more, such as the engine's.
#[must_use]
pub fn gpu(
    stats: &Stats,
    gpu: &GpuLog,
    alignment: &Result<Alignment, String>,
    more: &[Named],
) -> Value {
    let alignment = match alignment {
        Ok(found) => found,
        Err(reason) => return json!({"alignment": null, "refused": reason}),
    };
    let first = i128::from(stats.traffic.first_issue_ns.unwrap_or(0));
    let io = io_bins(stats);
    let values = GpuBins::new(gpu, first, io.len(), |t_ns| alignment.trace_of(t_ns));
    let busy = busy_bins(stats, &io).into_iter();
    let together: Vec<(bool, Option<f64>)> = busy.zip(values.values.iter().copied()).collect();
    let (time_ns, stalled, _) = table(&together);
    let named = stats.given.phases.iter().map(|p| &p.named).chain(more);
    let named = named.map(|p| (p.name.clone(), p.start_ns, p.end_ns));
    let held = held_for_phases(stats, gpu, alignment);
    let found = crate::phases::of(&stats.traffic, &held).phases.into_iter();
    let found = found.map(|p| (p.label.name().to_owned(), p.start_ns, p.end_ns));
    let by_phase: Vec<Value> = found
        .chain(named)
        .map(|(name, start_ns, end_ns)| {
            // A bin belongs to where its middle lies.
            let bin =
                |t: u64| blkio_companions::num::index(t.saturating_add(GRID_NS / 2) / GRID_NS);
            let last = bin(end_ns).min(together.len());
            let bins = bin(start_ns).min(last)..last;
            let (time_ns, stalled, mean) = table(together.get(bins.clone()).unwrap_or_default());
            let value = json!({
                "phase": name,
                "start_ns": in_64_bits(first + i128::from(start_ns)),
                "end_ns": in_64_bits(first + i128::from(end_ns)),
                "gpu_mean_percent": mean,
                "time_ns": time_ns,
                "stalled_on_storage_share": stalled,
            });
            with(value, correlations(&io, &values, bins))
        })
        .collect();
    let value = json!({
        "alignment": alignment_value(alignment),
        "grid_ns": GRID_NS,
        "gpu_idle_below_percent": IDLE_PERCENT,
        "io_busy_above_share_of_p95": BUSY_SHARE,
        "io_busy_above_device_percent": utilised(stats).map(|_| BUSY_PERCENT),
        "time_ns": time_ns,
        "stalled_on_storage_share": stalled,
        "by_phase": by_phase,
    });
    with(value, correlations(&io, &values, 0..io.len()))
}

/// Prefill and decode as the engine's log has them, laid on the trace: the end of the benchmark is that of reading, where the
/// clocks are aligned before the log's time stamp behind the results. With bytes and requests per generated token.
#[must_use]
pub fn engine(
    stats: &Stats,
    log: &EngineLog,
    clock: Option<&Alignment>,
    yardstick: Option<&Yardstick>,
) -> Value {
    let Some((prefill_s, decode_s, total_s)) = log.latencies_s() else {
        return json!({"refused": "the log has no latencies of prefill and decode"});
    };
    let Some(first) = stats.traffic.first_issue_ns else {
        return json!({"refused": "no requests"});
    };
    if let Some(reason) = of_another_run(stats, log, clock, total_s) {
        return json!({"refused": reason});
    }
    let [read, write] = stats.traffic.tenths.clone().map(|bins| bins.finish());
    let (end_ns, anchor, uncertainty_ns) = end_of_run(stats, log, clock, &read);
    let nanos = |seconds: f64| blkio_companions::num::whole(seconds * 1e9);
    let start_ns = end_ns.saturating_sub(nanos(total_s));
    let split_ns = start_ns.saturating_add(nanos(prefill_s));
    let span_ns = stats.traffic.last_issue_ns - first;
    let within = |from: u64, to: u64, bins: &BTreeMap<u64, Amount>| -> Amount {
        let mut sum = Amount::default();
        if from < to {
            // A bin belongs to where its middle lies.
            let low = (from + 50_000_000) / 100_000_000;
            let high = (to + 50_000_000) / 100_000_000;
            bins.range(low..high)
                .for_each(|(_, amount)| sum.add(*amount));
        }
        sum
    };
    let tokens = log.tokens().map(|(_, generated)| generated);
    // The first token of each sequence comes out of prefill, so its throughput of decode does not count it.
    let decoded = tokens.map(|all| {
        let steps = log.decode_steps().map(|steps| steps as f64);
        steps.map_or(all, |steps| all * steps / (steps + 1.0))
    });
    let phase = |name: &str, from: u64, to: u64, tokens: Option<f64>| {
        let (r, w) = (within(from, to, &read), within(from, to, &write));
        let per_token = tokens.filter(|t| *t > 0.0).map(|t| {
            json!({
                "tokens": t,
                "read_bytes": r.bytes as f64 / t,
                "write_bytes": w.bytes as f64 / t,
                "requests": (r.ios + w.ios) as f64 / t,
            })
        });
        let mut map = phases::traffic(r, w, to.saturating_sub(from));
        map.insert("name".into(), name.into());
        map.insert("start_ns".into(), first.saturating_add(from).into());
        map.insert("end_ns".into(), first.saturating_add(to).into());
        let seconds = to.saturating_sub(from) as f64 / 1e9;
        let rate = tokens.filter(|_| seconds > 0.0).map(|t| t / seconds);
        map.insert("tokens_per_s".into(), rate.into());
        map.insert("per_token".into(), per_token.into());
        map.extend(phases::members(stats, &(from..to), yardstick));
        Value::Object(map)
    };
    let prompt = log.tokens().map(|(prompt, _)| prompt);
    // One stretch per step: prefill, then a token each.
    let mut step_start = start_ns;
    let steps: Vec<Value> = log
        .token_latency_s
        .iter()
        .map(|seconds| {
            let step_end = step_start.saturating_add(nanos(*seconds));
            let (r, w) = (
                within(step_start, step_end, &read),
                within(step_start, step_end, &write),
            );
            let value = json!({
                "start_ns": first.saturating_add(step_start),
                "end_ns": first.saturating_add(step_end),
                "read_bytes": r.bytes,
                "write_bytes": w.bytes,
                "requests": r.ios + w.ios,
            });
            step_start = step_end;
            value
        })
        .collect();
    json!({
        "steps": steps,
        "decode_read_amplification": amplification(log, within(split_ns, end_ns, &read).bytes),
        "anchor": anchor,
        "uncertainty_ns": uncertainty_ns,
        "covers_run": nanos(total_s) <= span_ns.saturating_add(uncertainty_ns),
        "decode_s": decode_s,
        "caveat": caveat(total_s, stats.traffic.length_ns() as f64 / 1e9, clock),
        "phases": [
            phase("before", 0, start_ns, None),
            phase("prefill", start_ns, split_ns, prompt),
            phase("decode", split_ns, end_ns, decoded),
        ],
    })
}

/// Share of a trace below which a log accounts for little of it.
const LITTLE: f64 = 0.5;
/// Share of an engine's run that a trace of it has at least: tracers begin seconds late.
const COVERED: f64 = 0.8;

/// Why a log may not be of the run that was traced: it accounts for little of the trace, and no clock says that they belong
/// together. A long load of the model before the run looks the same, so that this is no reason to refuse.
fn caveat(total_s: f64, length_s: f64, clock: Option<&Alignment>) -> Option<String> {
    (clock.is_none() && total_s < LITTLE * length_s).then(|| {
        format!(
            "the log accounts for {total_s:.1} s of {length_s:.1} s of the trace ({:.1} %): unless the rest is loading and warm-up, it is of another run",
            total_s / length_s * 100.0
        )
    })
}

/// Why a log cannot be of the run that was traced: the run is longer than the trace, or ended at another time of the day.
fn of_another_run(
    stats: &Stats,
    log: &EngineLog,
    clock: Option<&Alignment>,
    total_s: f64,
) -> Option<String> {
    const REMEDY: &str = "give the log of this run, or a trace of the whole run";
    let first = stats.traffic.first_issue_ns?;
    let last = stats
        .traffic
        .last_complete_ns
        .unwrap_or(0)
        .max(stats.traffic.last_issue_ns);
    if let Some((wall, found)) = log.end_wall_ns.zip(clock) {
        let end = found.trace_of(wall);
        let slack = i128::from(found.uncertainty_ns) + i128::from(EXIT_NS);
        let early = i128::from(first) - end;
        let late = end - i128::from(last);
        // An engine may go on without traffic, but not longer than it ran.
        let latest = slack + i128::from(blkio_companions::num::whole(total_s * 1e9));
        if early > slack || late > latest {
            let (seconds, side) = if early > slack {
                (early, "before the first")
            } else {
                (late, "behind the last")
            };
            return Some(format!(
                "the log is not of this trace: its results were printed {:.1} s {side} request; {REMEDY}",
                seconds as f64 / 1e9
            ));
        }
        return None;
    }
    let span_s = last.saturating_sub(first) as f64 / 1e9;
    (span_s < COVERED * total_s).then(|| {
        format!("the log is not of this trace: the run took {total_s:.1} s, the trace covers {span_s:.1} s; {REMEDY}")
    })
}

/// Returns the phases of what [`engine`] says, from the first issue on.
#[must_use]
pub fn engine_phases(stats: &Stats, engine: &Value) -> Vec<Named> {
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let phases = engine["phases"].as_array().into_iter().flatten();
    let named = phases.filter_map(|phase| {
        let since = |key: &str| Some(phase[key].as_u64()?.saturating_sub(first));
        Some(Named {
            name: phase["name"].as_str()?.to_owned(),
            start_ns: since("start_ns")?,
            end_ns: since("end_ns")?,
        })
    });
    named
        .filter(|named| named.start_ns < named.end_ns)
        .collect()
}

/// Returns the bytes read in decode over those of reading the whole cache once in each of its steps; `None` when the log does not tell
/// both.
fn amplification(log: &EngineLog, read_bytes: u64) -> Option<f64> {
    const GIB: f64 = 1024.0 * 1024.0 * 1024.0;
    let cache = log.values.get("cache size")? * GIB;
    let steps = log.decode_steps()? as f64;
    (cache * steps > 0.0).then(|| read_bytes as f64 / (cache * steps))
}

/// How long an engine may take from its results to the next time stamp, which it prints when it exits: that of the published run
/// took 14 s.
const EXIT_NS: u64 = 30_000_000_000;

/// When the benchmark ended, in nanoseconds since the first issue; how that is known, and how well. Where the clocks are
/// aligned, the log's time stamp behind the results says which reading is not the engine's any more.
fn end_of_run(
    stats: &Stats,
    log: &EngineLog,
    clock: Option<&Alignment>,
    read: &BTreeMap<u64, Amount>,
) -> (u64, &'static str, u64) {
    const BIN_NS: u64 = 100_000_000;
    let first = i128::from(stats.traffic.first_issue_ns.unwrap_or(0));
    let stamp = log.end_wall_ns.zip(clock).and_then(|(wall, found)| {
        let since = u64::try_from(found.trace_of(wall) - first).ok()?;
        Some((since, found.uncertainty_ns))
    });
    let mut sizes: Vec<u64> = read.values().map(|amount| amount.bytes).collect();
    sizes.sort_unstable();
    let rank = stats::nearest_rank(95.0, sizes.len() as u64);
    let usual = sizes
        .get(blkio_companions::num::index(rank.saturating_sub(1)))
        .copied()
        .unwrap_or(0);
    let latest = stamp.map_or(u64::MAX, |(since, doubt)| since.saturating_add(doubt));
    let last = read
        .range(..=latest / BIN_NS)
        .rev()
        .find(|(_, amount)| amount.bytes > usual / 20)
        .map(|(bin, _)| (bin + 1).saturating_mul(BIN_NS));
    match (last, stamp) {
        (Some(last), Some((since, doubt)))
            if last.saturating_add(doubt).saturating_add(EXIT_NS) >= since =>
        {
            let how = "last reading above 5 % of the usual before the engine log's time stamp";
            (last, how, 1_000_000_000)
        }
        (_, Some((since, doubt))) => (
            since,
            "time stamp of the engine log behind its results",
            doubt.saturating_add(EXIT_NS),
        ),
        (last, None) => (
            last.unwrap_or(0),
            "last reading above 5 % of the usual",
            1_000_000_000,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slow_small_request_keeps_the_device_busy() {
        let mut text = String::new();
        let mut request = |start_ms: u64, lasts_ms: u64, sectors: u64| {
            for (kind, ms) in [('I', start_ms), ('C', start_ms + lasts_ms)] {
                let t_ns = 5_000_000_000 + ms * 1_000_000;
                let (sector, bytes) = (start_ms * 4096, sectors * 512);
                text += &format!(
                    "{kind}, {t_ns}, 1, 7, 0, R, {bytes}, {sector}, {sectors}, 0, 42, job\n"
                );
            }
        };
        (0..10).for_each(|bin| request(bin * 200, 1, 2048));
        // A few bytes for most of a bin, and the same for little of one.
        request(2405, 150, 8);
        request(2805, 10, 8);
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("io.txt");
        std::fs::write(&path, text).unwrap();
        let stats = Stats::of_files(&[path], &blkio_parser::StatsOptions::default()).unwrap();
        let busy = busy_bins(&stats, &io_bins(&stats));
        let found: Vec<usize> = (0..busy.len()).filter(|bin| busy[*bin]).collect();
        assert_eq!(found, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 12]);
    }

    #[test]
    fn a_reading_holds_since_the_one_before_however_long_ago_that_was() {
        let sample = |t_ns, percent| blkio_companions::gpu::Sample {
            t_ns,
            percent: Some(percent),
        };
        let start = u64::MAX - 10 * GRID_NS;
        // The first is of a clock that was not set yet: five hundred years are ninety billion bins.
        let samples = vec![
            sample(0, 1.0),
            sample(start + GRID_NS, 2.0),
            sample(start + 4 * GRID_NS, 3.0),
            sample(start + 3 * GRID_NS, 4.0),
        ];
        let mut log = GpuLog::default();
        log.samples = samples;
        let found = GpuBins::new(&log, start.into(), 6, i128::from);
        let wanted = [2.0, 2.0, 3.0, 3.0, 3.0];
        assert_eq!(found.values[..5], wanted.map(Some));
        assert_eq!((found.values[5], found.known.clone()), (None, 0..5));
    }

    #[test]
    fn pairs_are_those_where_the_gpu_is_known() {
        let io: Vec<u64> = (0..50).collect();
        let mut values = vec![None; 70];
        for at in [20, 21, 25, 40] {
            values[at] = Some(at as f64);
        }
        let gpu = GpuBins {
            known: 20..41,
            values,
        };
        for lag in -45..=45_i64 {
            for bins in [0..50, 3..22, 30..30] {
                let model: Vec<(f64, f64)> = bins
                    .clone()
                    .filter_map(|at| {
                        let place = usize::try_from(at as i64 + lag).ok()?;
                        Some((io[at] as f64, (*gpu.values.get(place)?)?))
                    })
                    .collect();
                assert_eq!(paired(&io, &gpu, bins, lag), model, "{lag}");
            }
        }
    }

    #[test]
    fn correlations_and_ranks() {
        let pairs: Vec<(f64, f64)> = (0..20).map(|i| (f64::from(i), f64::from(i * i))).collect();
        let x: Vec<f64> = pairs.iter().map(|p| p.0).collect();
        let y: Vec<f64> = pairs.iter().map(|p| p.1).collect();
        let ranked: Vec<(f64, f64)> = ranks(&x).into_iter().zip(ranks(&y)).collect();
        assert!((pearson(&ranked).unwrap() - 1.0).abs() < 1e-12);
        assert!(pearson(&pairs).unwrap() < 0.99);
        assert_eq!(ranks(&[5.0, 1.0, 5.0]), [1.5, 0.0, 1.5]);
    }
}
