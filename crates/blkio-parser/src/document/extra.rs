//! Measures beyond the reference.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::depth::queue_depth;
use super::{amounts, dense, distribution, keyed, places, series, sizes, text, time_base};
use crate::analyse::access::{cumulative, hottest};
use crate::analyse::latency_bins::LatencyBin;
use crate::analyse::pairing::{Pairing, SIZE_CLASSES_KIB};
use crate::analyse::traffic::{Amount, DATA, SECOND};
use crate::rwbs::Direction;
use crate::stats::Stats;

/// Measures beyond the reference.
pub(super) fn extra(stats: &mut Stats) -> Value {
    let mut map = Map::new();
    let totals = amounts(stats);
    let total = |direction| totals.get(&direction).map(|(a, _)| *a).unwrap_or_default();
    let (read, write) = (total(Direction::Read), total(Direction::Write));
    let span_s = stats
        .traffic
        .first_issue_ns
        .map(|first| (stats.traffic.last_issue_ns - first) as f64 / 1e9)
        .filter(|span| *span > 0.0);
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
    if let Some(access) = &stats.access {
        let blocks = access.distinct_blocks();
        let reread = (blocks.read > 0).then(|| read.bytes as f64 / (blocks.read * 4096) as f64);
        map.insert(
            "reuse".into(),
            json!({
                "re_read_factor": reread,
                "bytes_written_never_read": (blocks.write - blocks.both) * 4096,
                "distinct_bytes": blocks.union * 4096,
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
        let mut latency = latency_more(pairing);
        let first = stats.traffic.first_issue_ns.unwrap_or(0);
        by_second_and_process(pairing, &stats.outcome.symbols, first, &mut latency);
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
    if let Some(stages) = &mut stats.stages {
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

fn latency_more(pairing: &mut Pairing) -> Value {
    let mut map = Map::new();
    let mut labels: Vec<String> = SIZE_CLASSES_KIB
        .iter()
        .map(|k| format!("<={k}KiB"))
        .collect();
    labels.push(">1024KiB".to_owned());
    for (direction, latency) in Direction::ALL.iter().zip(&mut pairing.latency) {
        if latency.all.count == 0 {
            continue;
        }
        let mut of = Map::new();
        of.insert(
            "issue_to_complete_ns".into(),
            distribution(&mut latency.all, true),
        );
        let classes = labels.iter().zip(&mut latency.by_size);
        let classes = classes.filter(|(_, values)| values.count > 0);
        of.insert(
            "by_size".into(),
            keyed(classes.map(|(label, values)| (label, distribution(values, true)))),
        );
        map.insert(direction.name().into(), of.into());
    }
    for (key, by_direction) in [
        (
            "queue_to_complete_ns",
            pairing.queue_to_complete.as_mut_slice(),
        ),
        ("queue_to_issue_ns", pairing.queue_to_issue.as_mut_slice()),
        (
            "first_issue_to_complete_ns",
            pairing.first_issue_to_complete.as_mut_slice(),
        ),
    ] {
        let found = Direction::ALL.iter().zip(by_direction);
        let found = found.filter(|(_, values)| values.count > 0);
        let found: Map<String, Value> = found
            .map(|(d, values)| (d.name().to_owned(), distribution(values, true)))
            .collect();
        if !found.is_empty() {
            map.insert(key.into(), found.into());
        }
    }
    map.insert(
        "time_by_queue_depth_ns".into(),
        keyed(pairing.depth.all.time_at()),
    );
    Value::Object(map)
}

/// Latencies over time and by who issued the requests.
fn by_second_and_process(
    pairing: &mut Pairing,
    symbols: &crate::Symbols,
    first_ns: u64,
    value: &mut Value,
) {
    let Some(map) = value.as_object_mut() else {
        return;
    };
    let values = |bin: &LatencyBin| {
        [
            ("count", bin.count),
            ("p50_ns", bin.p50_ns),
            ("p99_ns", bin.p99_ns),
            ("max_ns", bin.max_ns),
        ]
    };
    let seconds = pairing.by_second.bins().iter().map(|second| {
        let since_s = second.bin.saturating_sub(first_ns / SECOND);
        let when = [
            ("clock_second", second.bin),
            ("since_first_issue_s", since_s),
        ];
        keyed(when.into_iter().chain(values(second)))
    });
    let seconds: Vec<Value> = seconds.collect();
    map.insert("by_second_of_completion".into(), seconds.into());
    if let Some(found) = &pairing.by_bin {
        let bins = found.bins().iter();
        let bins = bins.map(|bin| keyed([("bin", bin.bin)].into_iter().chain(values(bin))));
        let bins: Vec<Value> = bins.collect();
        map.insert(
            "by_bin_of_completion".into(),
            json!({"bin_ns": found.width_ns(), "bins": bins}),
        );
    }
    let processes: Map<String, Value> = pairing
        .by_process
        .iter_mut()
        .map(|(comm, values)| (text(symbols.comm_of(*comm)), distribution(values, true)))
        .collect();
    if !processes.is_empty() {
        map.insert("by_process_ns".into(), processes.into());
    }
}
