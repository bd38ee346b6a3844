//! Measures beyond the reference.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::depth::queue_depth;
use super::{amounts, dense, distribution, keyed, latency, places, series, sizes, time_base};
use crate::access_shares::{cumulative, hottest};
use crate::loss::{Loss, busy_ns};
use blkio_parser::Direction;
use blkio_parser::SECTOR_BYTES;
use blkio_parser::Stats;
use blkio_parser::analyse::bursts::Burst;
use blkio_parser::analyse::distribution::Distribution;
use blkio_parser::analyse::traffic::{Amount, DATA, SECOND};

/// Measures beyond the reference.
pub(super) fn extra(stats: &mut Stats) -> Value {
    let mut map = Map::new();
    let totals = amounts(stats);
    let total = |direction| totals.get(&direction).map(|(a, _)| *a).unwrap_or_default();
    let (read, write) = (total(Direction::Read), total(Direction::Write));
    let span_s = Some(stats.traffic.run_ns() as f64 / 1e9).filter(|span| *span > 0.0);
    let rates = span_s.map(|span| {
        json!({
            "span_s": span,
            "read_bytes_per_s": read.bytes as f64 / span,
            "write_bytes_per_s": write.bytes as f64 / span,
            "read_iops": read.ios as f64 / span,
            "write_iops": write.ios as f64 / span,
        })
    });
    map.insert("mean_rates".into(), rates.into());
    map.insert("rates_while_busy".into(), rates_while_busy(stats));
    map.insert("best_100ms".into(), best_tenth(stats));
    map.insert("metrics_time_base_ns".into(), time_base(stats).into());
    let peaks = stats.traffic.peaks();
    let peak = |widths: &[Amount; 3]| {
        keyed(
            ["1s", "100ms", "10ms"]
                .iter()
                .zip(widths)
                .map(|(width, a)| (*width, json!({"bytes": a.bytes, "ios": a.ios}))),
        )
    };
    map.insert(
        "peak_per_bin".into(),
        keyed(
            DATA.iter()
                .zip(&peaks)
                .map(|(d, widths)| (d.name(), peak(widths))),
        ),
    );
    map.extend(series::per_bin(stats));
    map.insert("sizes".into(), sizes::summary(&totals));
    map.insert(
        "size_histogram_bytes_by_operation".into(),
        sizes::by_operation(stats),
    );
    let largest = DATA.iter().zip(&stats.traffic.largest);
    map.insert(
        "runs_of_largest_requests".into(),
        keyed(largest.map(|(direction, found)| {
            let value =
                json!({"bytes": found.bytes, "runs": found.runs, "longest_run": found.longest_run});
            (direction.name(), value)
        })),
    );
    if let (Some(first), Some(last)) =
        (stats.traffic.first_issue_ns, stats.traffic.last_complete_ns)
    {
        let length = last.saturating_sub(first) / SECOND + 1;
        let bins = DATA.iter().zip(&stats.traffic.completed_seconds);
        map.insert(
            "completed_per_second_from_first_issue".into(),
            keyed(bins.map(|(d, bins)| (d.name(), dense(bins, length)))),
        );
    }
    let arrivals = &stats.arrivals;
    let variation = arrivals
        .gaps
        .deviation()
        .zip(arrivals.gaps.mean().filter(|mean| *mean > 0.0))
        .map(|(deviation, mean)| deviation / mean);
    map.insert(
        "arrivals".into(),
        json!({
            "interarrival_coefficient_of_variation": variation,
            "fano_by_bin_ns": keyed(arrivals.fano()),
            "idle_between_bursts_ns": arrivals.idle_ns,
            "longest_idle_ns": arrivals.longest_idle_ns,
            "percentiles_are_exact": arrivals.gaps.is_exact(),
        }),
    );
    map.insert("bursts".into(), bursts(&arrivals.first));
    if let Some(access) = &stats.access {
        let [read_sectors, _] = access.distinct_sectors;
        let sectors: u64 = access.sectors.values().sum();
        let distinct = read_sectors.saturating_mul(SECTOR_BYTES);
        let reread = (distinct > 0).then(|| read.bytes as f64 / distinct as f64);
        map.insert(
            "reuse".into(),
            json!({
                "re_read_factor": reread,
                "bytes_written_never_read": (sectors - read_sectors).saturating_mul(SECTOR_BYTES),
                "distinct_bytes": sectors.saturating_mul(SECTOR_BYTES),
            }),
        );
    }
    if let Some(set) = &stats.windowed_set {
        let windows: Vec<Value> = set
            .windows()
            .iter()
            .map(|(window, b)| json!({"window": window, "read": b.read, "write": b.write, "both": b.both, "union": b.union}))
            .collect();
        map.insert(
            "working_set_4k_blocks_by_window".into(),
            json!({"window_ns": set.width_ns(), "windows": windows}),
        );
    }
    if let Some(reuse) = &mut stats.reuse {
        let curve: Vec<Value> = reuse
            .miss_ratio_curve()
            .iter()
            .map(|(blocks, ratio)| json!([blocks * reuse.block_bytes(), ratio]))
            .collect();
        let cache = reuse.cache_blocks_for(0.9);
        map.insert("lru_miss_ratio_by_cache_bytes".into(), curve.into());
        map.insert("reuse_sampled_one_in".into(), reuse.sampled_one_in().into());
        map.insert(
            "lru_cache_bytes_for_90_percent_hits".into(),
            cache.map(|blocks| blocks * reuse.block_bytes()).into(),
        );
    }
    if let Some(found) = &stats.sequentiality {
        map.insert("sequentiality".into(), places::sequentiality(found));
    }
    let by_pid = stats.by_pid.as_ref();
    if let Some(value) = by_pid.and_then(|found| places::by_pid(found, &stats.outcome.symbols)) {
        map.insert("sequentiality_by_pid".into(), value);
    }
    if let Some(heat) = &stats.heat {
        map.insert("heatmap".into(), places::heat(heat));
    }
    if let Some(pairing) = stats.newest.as_mut().filter(|p| p.matching.pairs > 0) {
        let first = stats.traffic.first_issue_ns.unwrap_or(0);
        let latency = latency::all(pairing, &stats.outcome.symbols, first);
        map.insert("latency".into(), latency);
        map.insert("queue_depth".into(), queue_depth(pairing));
    }
    if let Some(intervals) = &mut stats.intervals {
        let is_exact = intervals.is_exact();
        let named = [
            ("reuse", &mut intervals.reuse),
            ("read_after_write", &mut intervals.read_after_write),
            ("write_to_write", &mut intervals.write_to_write),
        ];
        let known = named.into_iter().filter(|(_, times)| times.count > 0);
        let times = keyed(known.map(|(name, times)| (name, distribution(times, true))));
        map.insert("intervals_of_128k_blocks_ns".into(), times);
        map.insert("intervals_are_exact".into(), is_exact.into());
    }
    if let Some(cpus) = &stats.by_cpu {
        let rows = cpus.rows().map(|(cpu, of)| {
            let both = |[read, write]: [Amount; 2]| {
                json!({
                    "read": {"ios": read.ios, "bytes": read.bytes},
                    "write": {"ios": write.ios, "bytes": write.bytes},
                })
            };
            json!({
                "cpu": cpu,
                "queued": both(of.queued),
                "dispatched": both(of.dispatched),
                "requeued": both(of.requeued),
                "completed": both(of.completed),
                "merged": both(of.merged),
            })
        });
        map.insert("cpus".into(), rows.collect::<Vec<_>>().into());
    }
    let table = stage_table(stats);
    if !table.is_empty() {
        map.insert("stage_table".into(), table.into());
        map.insert("stage_shares_are_of".into(), "the time of all bios".into());
    }
    if let Some(stages) = &mut stats.stages {
        map.insert("merges".into(), stages.merges.into());
        map.insert("queued".into(), stages.queued.into());
        map.insert("plugs".into(), stages.plugs.into());
        map.insert("unplugs".into(), stages.unplugs.into());
        if stages.unplugs > 0 && stages.unplugged > 0 {
            let each = stages.unplugged as f64 / stages.unplugs as f64;
            map.insert("ios_per_unplug".into(), each.into());
        }
        map.insert("splits".into(), stages.splits.into());
        let found: Map<String, Value> = stages
            .by_name()
            .map(|(name, times)| (name.to_owned(), distribution(times, true)))
            .collect();
        if !found.is_empty() {
            map.insert("stages_ns".into(), found.into());
        }
    }
    if let Some(access) = &stats.access {
        let percents = |histogram: &BTreeMap<u64, u64>| {
            let shares = hottest(histogram, &[1, 5, 10, 20]);
            keyed(shares.iter().map(|(percent, share)| (*percent, *share)))
        };
        map.insert(
            "share_of_accesses_to_hottest_percent_of_sectors".into(),
            percents(&access.sectors),
        );
        let [read, write] = &access.blocks;
        let of_blocks = |histogram: &BTreeMap<u64, u64>| {
            let cdf: Vec<Value> = cumulative(histogram)
                .iter()
                .map(|(count, share)| json!([count, share]))
                .collect();
            keyed([
                ("share_of_accesses_to_hottest_percent", percents(histogram)),
                ("cdf", cdf.into()),
                ("blocks_by_access_count", keyed(histogram.clone())),
            ])
        };
        map.insert(
            "access_of_4k_blocks".into(),
            keyed([
                ("read", of_blocks(read)),
                ("write", of_blocks(write)),
                ("all", of_blocks(&access.all_blocks)),
            ]),
        );
    }
    Value::Object(map)
}

/// Rates of completed reads and writes over the time in which each had requests in flight: silence between phases, requests of
/// the other direction say nothing of how fast the device is. Requests whose completion is missing count as those that have one. `busy_s` is that of all.
fn rates_while_busy(stats: &Stats) -> Value {
    let Some(pairing) = stats.newest.as_ref().filter(|p| p.depth.all.busy_ns > 0) else {
        return Value::Null;
    };
    let seconds = |ns: u64| ns as f64 / 1e9;
    let mut map = Map::new();
    let levels = pairing.depth.classes.iter().flatten();
    let completed = pairing.detail.iter().flat_map(|of| of.completed);
    let loss = Loss::of(stats);
    let issued = amounts(stats);
    let of_all = busy_ns(
        loss.all,
        pairing.depth.all.busy_ns,
        pairing.depth.all.time_at(),
    );
    let of_all = of_all.min(pairing.span_ns() as f64) / 1e9;
    map.insert("busy_s".into(), of_all.into());
    for ((direction, lost), (level, amount)) in
        DATA.iter().zip(loss.ways).zip(levels.zip(completed))
    {
        // Those that lost their completions are among what was moved, and were in flight.
        let (amount, busy) = if lost > 0.0 {
            let issued = issued.get(direction).map_or(amount, |(issued, _)| *issued);
            let busy = busy_ns(lost, level.busy_ns, level.time_at());
            (issued, (busy / 1e9).min(of_all))
        } else {
            (amount, seconds(level.busy_ns))
        };
        // Nothing of a direction is a rate of 0, as for the whole trace.
        let over = |value: u64| {
            (busy > 0.0 || value == 0).then(|| value as f64 / busy.max(f64::MIN_POSITIVE))
        };
        let name = direction.name();
        map.insert(format!("{name}_busy_s"), busy.into());
        map.insert(format!("{name}_bytes_per_s"), over(amount.bytes).into());
        map.insert(format!("{name}_iops"), over(amount.ios).into());
    }
    map.into()
}

/// Returns the bytes per second of the 100 ms in which most reads, and most writes, were served: the smaller of what completed in them, which
/// is too much where a long request ends, and of all requests spread over their time in flight, which is too much where many
/// wait. What was issued in them is no rate of the device.
fn best_tenth(stats: &Stats) -> Value {
    let detail = stats.newest.as_ref().and_then(|of| of.detail.as_ref());
    let Some([spread, completed]) = detail.and_then(|detail| detail.tenths.as_ref()) else {
        return Value::Null;
    };
    let most = spread.most().into_iter().zip(completed.most());
    let most = DATA.iter().zip(most.map(|(a, b)| a.min(b)));
    let kept = Loss::of(stats).ways.map(|lost| (1.0 - lost).max(1e-9));
    keyed(most.zip(kept).map(|((direction, bytes), kept)| {
        (
            format!("{}_bytes_per_s", direction.name()),
            bytes as f64 * 10.0 / kept,
        )
    }))
}

/// Times between the stages of the block layer, with the share of the time from queueing to completion; only D2C, from issue to
/// completion, where the trace has no other stages.
///
/// Shares are of the time of all bios: D2C of a request counts for each bio in it, so that Q2D and D2C, and also the steps of
/// which Q2D consists, add up to 1 where all bios went all the way. `stage_shares_are_of` names this unit.
fn stage_table(stats: &mut Stats) -> Vec<Value> {
    let mut rows: Vec<(&str, u64, u128, u64, u64)> = Vec::new();
    let mut add = |name, of: &[&Distribution]| {
        let of = || of.iter().filter(|times| times.count > 0);
        let (count, sum) = (of().map(|t| t.count).sum(), of().map(|t| t.sum).sum());
        if let (Some(min), Some(max)) = (of().map(|t| t.min).min(), of().map(|t| t.max).max()) {
            rows.push((name, count, sum, min, max));
        }
        sum
    };
    if let Some(stages) = &mut stats.stages {
        for (name, times) in stages.by_name() {
            add(name, &[times]);
        }
    }
    let (mut whole, mut of_bios) = (0, 0);
    if let Some(pairing) = &stats.newest {
        let data = DATA.iter().filter_map(|of| pairing.latency.get(of.slot()));
        add("d2c", &data.collect::<Vec<_>>());
        if let Some(detail) = &pairing.detail {
            let [read, write] = &detail.queue_to_complete;
            whole = add("q2c", &[read, write]);
            of_bios = detail.issue_to_complete_of_bios;
        }
    }
    let rows = rows.into_iter().map(|(name, count, sum, min, max)| {
        // Times between successive bios are no part of the way of one.
        let sum_of_bios = if name == "d2c" { of_bios } else { sum };
        let share = (whole > 0 && name != "q2q").then(|| sum_of_bios as f64 / whole as f64);
        json!({
            "stage": name,
            "count": count,
            "min_ns": min,
            "mean_ns": sum as f64 / count as f64,
            "max_ns": max,
            "share_of_q2c": share,
        })
    });
    rows.collect()
}

/// Bursts with their rates (none where all came at once) and the silence behind each, in the trace's own time.
fn bursts(found: &[Burst]) -> Value {
    let next = found.iter().skip(1).map(Some).chain([None]);
    let row = |(burst, next): (&Burst, Option<&Burst>)| {
        let length_ns = burst.end_ns - burst.start_ns;
        let rate = |count: u64| (length_ns > 0).then(|| count as f64 / (length_ns as f64 / 1e9));
        json!({
            "start_ns": burst.start_ns,
            "end_ns": burst.end_ns,
            "ios": burst.ios,
            "bytes": burst.bytes,
            "iops": rate(burst.ios),
            "bytes_per_s": rate(burst.bytes),
            "idle_after_ns": next.map(|next| next.start_ns.saturating_sub(burst.end_ns)),
        })
    };
    found.iter().zip(next).map(row).collect()
}
