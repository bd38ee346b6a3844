//! The analyses as one JSON document.

mod depth;
mod devices;
mod extra;
mod latency;
mod limit;
pub(crate) mod phases;
mod places;
mod quality;
mod series;
mod sizes;

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use crate::limit::Yardstick;
use crate::phases::GpuSpan;
use crate::series::{Group, Series};
use blkio_parser::Direction;
use blkio_parser::Stats;
use blkio_parser::analyse::pairing::Pairing;
use blkio_parser::analyse::sequential::Class;
use blkio_parser::analyse::traffic::{Amount, Bins, DATA, MAX_BINS, SECOND};

use extra::extra;
pub use limit::DIFFERS;
pub(crate) use limit::is_at_work;
pub(crate) use limit::sequential_share;
pub use quality::{inputs, quality};

/// Version of the document's layout.
pub const SCHEMA_VERSION: u32 = 2;

/// What goes into a document besides the measures.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct DocumentOptions {
    /// The published time stamps, which are early inside gaps, as `ts`.
    pub compat: bool,
    /// Version of the tool, for provenance.
    pub tool_version: &'static str,
    /// What the device can do, where that was measured.
    pub yardstick: Option<Yardstick>,
}

/// Bursts among the measures; the others are in `extra`.
const FIRST_BURSTS: usize = 20;
/// Maximum number of cells of the heat map that are listed at its full resolution.
const MOST_CELLS: usize = 1 << 17;

/// Returns the document of a trace: `metrics`, `quality`, `inputs`, `series`, `phases`, `given_phases`, `extra`; and, where the trace has
/// several devices, `devices`, `stacked_devices`, and `devices_left_out` (those above others, which the totals do not count).
///
/// Takes the analyses by `&mut` because percentiles sort their values.
#[must_use]
pub fn stats(stats: &mut Stats, options: &DocumentOptions) -> Value {
    let yardstick = options.yardstick.as_ref();
    let series = Series::by(stats, options.compat);
    let base = time_base(stats);
    let phases = phases::detected(stats, &[], yardstick);
    let limit = limit::of_whole(stats, &phases, yardstick);
    let given = phases::given(stats, yardstick, &phases);
    keyed([
        ("schema_version", Value::from(SCHEMA_VERSION)),
        ("tool", "blkio".into()),
        ("tool_version", options.tool_version.into()),
        ("inputs", inputs(stats)),
        ("quality", quality(stats)),
        ("metrics", metrics(stats, base)),
        ("extra", extra(stats)),
        ("phases", phases),
        ("given_phases", given),
        ("series", series_value(&series, options.compat)),
        ("limit", limit.into()),
        ("devices", devices::devices(stats, base, yardstick)),
        ("devices_left_out", devices::apart(stats, base, yardstick)),
        ("stacked_devices", devices::stacked(stats)),
    ])
}

/// Returns the member `phases` of a document anew, with what a GPU did meanwhile as one more feature: see
/// [`overlay::held_for_phases`](crate::overlay::held_for_phases).
#[must_use]
pub fn phases_beside(stats: &Stats, gpu: &[GpuSpan], yardstick: Option<&Yardstick>) -> Value {
    phases::detected(stats, gpu, yardstick)
}

/// Returns the bytes as text, whatever they are.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the values side by side.
fn row<const N: usize>(values: [u64; N]) -> Value {
    Value::Array(values.map(Value::from).into())
}

/// Returns an object. What is in it is moved there, which `json!` would copy.
fn keyed<K: ToString, V: Into<Value>>(pairs: impl IntoIterator<Item = (K, V)>) -> Value {
    Value::Object(
        pairs
            .into_iter()
            .map(|(key, value)| (key.to_string(), value.into()))
            .collect(),
    )
}

/// Returns the requests and bytes that were issued, by direction.
#[must_use]
pub fn totals(stats: &Stats) -> Value {
    let amounts = amounts(stats).into_iter();
    keyed(amounts.map(|(direction, (amount, _))| {
        (
            direction.name(),
            json!({"ios": amount.ios, "bytes": amount.bytes}),
        )
    }))
}

pub(crate) fn amounts(stats: &Stats) -> BTreeMap<Direction, (Amount, BTreeMap<u32, u64>)> {
    let mut totals: BTreeMap<Direction, (Amount, BTreeMap<u32, u64>)> = BTreeMap::new();
    for (number, operation) in stats.traffic.operations.iter().enumerate() {
        let rwbs = u16::try_from(number)
            .ok()
            .and_then(|number| stats.outcome.symbols.rwbs_of(number));
        let Some(rwbs) = rwbs else { continue };
        if operation.sizes.is_empty() {
            continue;
        }
        let (amount, sizes) = totals.entry(rwbs.decode().direction).or_default();
        #[expect(
            clippy::iter_over_hash_type,
            reason = "sums do not depend on the order"
        )]
        for (bytes, count) in &operation.sizes {
            amount.ios += count;
            amount.bytes += u64::from(*bytes) * count;
            *sizes.entry(*bytes).or_default() += count;
        }
    }
    totals
}

/// Returns what is subtracted from the times among the measures: those of binary traces count from their first event or message, as
/// the tracer's own tools print them (blkparse 1.2; notes of processes and of the wall clock do not count).
#[must_use]
pub fn time_base(stats: &Stats) -> u64 {
    if stats.outcome.has_text() || stats.outcome.inputs.is_empty() {
        return 0;
    }
    let Some((first, _)) = stats.traffic.span_ns else {
        return 0;
    };
    let inputs = stats.outcome.inputs.iter();
    let messages = inputs.filter_map(|input| input.counts.first_message_ns);
    messages.fold(first, u64::min)
}

/// Returns the measures with the names of the reference.
fn metrics(stats: &mut Stats, base: u64) -> Value {
    let mut map = Map::new();
    let mut put = |key: &str, value: Value| {
        map.insert(key.to_owned(), value);
    };
    if stats.outcome.has_text() {
        put(
            "lines_not_events",
            stats.outcome.counts().not_events().into(),
        );
    }
    put("issues", stats.traffic.issues.into());
    put("completions", stats.traffic.completions.into());
    put(
        "first_issue_ns",
        stats.traffic.first_issue_ns.map(|t| t - base).into(),
    );
    let last = stats
        .traffic
        .first_issue_ns
        .map(|_| stats.traffic.last_issue_ns - base);
    put("last_issue_ns", last.into());
    put("errors", stats.traffic.errors.into());
    put("totals", totals(stats));
    let totals = amounts(stats);
    let length = stats.traffic.first_issue_ns.map_or(0, |first| {
        (stats.traffic.last_issue_ns - first) / SECOND + 1
    });
    let seconds = DATA.iter().zip(&stats.traffic.seconds);
    put(
        "per_second_from_first_issue",
        keyed(seconds.map(|(direction, bins)| (direction.name(), dense(bins, length)))),
    );
    put(
        "size_histogram_bytes",
        keyed(
            totals
                .iter()
                .map(|(direction, (_, sizes))| (direction.name(), keyed(sizes.clone()))),
        ),
    );
    if let Some(sequentiality) = &mut stats.sequentiality {
        let names = ["read", "write", "all"];
        let classes = names.iter().zip(&mut sequentiality.classes);
        put(
            "sequentiality",
            keyed(classes.map(|(name, class)| (*name, sequential(class)))),
        );
    }
    let gaps = &mut stats.arrivals.gaps;
    let percentiles = gaps.percentiles(&[50.0, 99.0]);
    put(
        "interarrival_ns",
        json!({
            "p50": percentiles.first(),
            "p99": percentiles.get(1),
            "max": (gaps.count > 0).then_some(gaps.max),
            "mean": gaps.mean(),
        }),
    );
    let bursts: Vec<Value> = stats
        .arrivals
        .first
        .iter()
        .take(FIRST_BURSTS)
        .map(|b| json!({"start_ns": b.start_ns - base, "end_ns": b.end_ns - base, "ios": b.ios, "bytes": b.bytes}))
        .collect();
    put(
        &bursts_key(stats.arrivals.gap_ns()),
        json!({"count": stats.arrivals.bursts, "first": bursts}),
    );
    if let Some(access) = &stats.access {
        let blocks = access.distinct_blocks();
        put(
            "working_set_4k_blocks",
            json!({"read": blocks.read, "write": blocks.write, "both": blocks.both, "union": blocks.union}),
        );
    }
    if let Some(reuse) = &mut stats.reuse {
        let p50 = reuse.distances.percentiles(&[50.0]);
        let key = match reuse.block_bytes() {
            bytes if bytes.is_multiple_of(1024) => {
                format!("reuse_distance_{}k_blocks", bytes / 1024)
            }
            bytes => format!("reuse_distance_{bytes}_byte_blocks"),
        };
        put(
            &key,
            json!({
                "accesses": reuse.accesses,
                "cold": reuse.cold,
                "log2_histogram": keyed(reuse.log2_histogram()),
                "p50": p50.first(),
                "max": (reuse.distances.count > 0).then_some(reuse.distances.max),
            }),
        );
    }
    if let Some(heat) = &stats.heat {
        // More are no use in a document; the map in wider bins has all bytes.
        let is_listed = heat.cell() == (1, 1) && heat.rows().len() <= MOST_CELLS;
        let rows = heat
            .rows()
            .iter()
            .map(|(address, time, [read, write])| row([*address, *time, read + write]));
        let rows = is_listed.then(|| rows.collect::<Vec<Value>>());
        put(
            "heatmap_64mib_1s_bytes",
            rows.map_or(Value::Null, Value::from),
        );
    }
    if stats.traffic.completions > 0 {
        for (key, pairing) in [
            ("pairing_fifo", &mut stats.fifo),
            ("pairing_newest", &mut stats.newest),
        ] {
            if let Some(pairing) = pairing {
                put(key, pairing_value(pairing));
            }
        }
    }
    Value::Object(map)
}

fn dense(bins: &Bins, length: u64) -> Value {
    if length > MAX_BINS {
        return Value::Null;
    }
    let length = blkio_companions::num::index(length);
    let mut ios = vec![0_u64; length];
    let mut bytes = vec![0_u64; length];
    for (bin, amount) in bins.finish() {
        let bin = blkio_companions::num::index(bin);
        if let (Some(i), Some(b)) = (ios.get_mut(bin), bytes.get_mut(bin)) {
            *i = amount.ios;
            *b = amount.bytes;
        }
    }
    json!({"ios": ios, "bytes": bytes})
}

/// Returns the gap between bursts is in the name, in the largest unit of which it is a whole number.
fn bursts_key(gap_ns: u64) -> String {
    let units = [(1_000_000, "ms"), (1_000, "us"), (1, "ns")];
    let found = units.iter().find(|(unit, _)| gap_ns.is_multiple_of(*unit));
    let (unit, name) = found.copied().unwrap_or((1, "ns"));
    format!("bursts_gap_{}{name}", gap_ns / unit)
}

fn sequential(class: &mut Class) -> Value {
    let p50 = class.seeks.percentiles(&[50.0]);
    let strides: Vec<Value> = class
        .top_strides(5)
        .iter()
        .map(|(stride, count)| json!([i64::try_from(*stride).ok(), count]))
        .collect();
    json!({
        "requests": class.requests,
        "sequential": class.sequential,
        "forward": class.forward,
        "backward": class.backward,
        "near_1mib": class.near,
        "multi_stream_32": class.multi_stream,
        "runs": class.runs,
        "longest_run": class.longest_run,
        "abs_seek_sectors_p50": p50.first(),
        "abs_seek_sectors_sum": u64::try_from(class.seeks.sum).ok(),
        "top_strides": strides,
    })
}

fn pairing_value(pairing: &mut Pairing) -> Value {
    let matching = pairing.matching;
    let mut pairs = Map::new();
    pairs.insert("pairs".into(), matching.pairs.into());
    // What did not happen is not named.
    for (key, count) in [
        (
            "sequence_end_completions",
            matching.sequence_end_completions,
        ),
        (
            "issues_with_same_key_outstanding",
            matching.issues_with_same_key_outstanding,
        ),
        ("superseded_issues", matching.superseded_issues),
        ("stale_dropped", matching.stale_dropped),
        ("partial_completions", matching.partial_completions),
        ("requeues", matching.requeues),
        ("unmatched_completions", matching.unmatched_completions),
    ] {
        if count > 0 {
            pairs.insert(key.into(), count.into());
        }
    }
    pairs.insert("unmatched_issues".into(), matching.unmatched_issues.into());
    let mut latencies = Map::new();
    for (direction, latency) in Direction::ALL.iter().zip(&mut pairing.latency) {
        let is_known = matches!(
            direction,
            Direction::Read | Direction::Write | Direction::Flush | Direction::Discard
        );
        if latency.count > 0 && is_known {
            latencies.insert(direction.name().into(), distribution(latency, false));
        }
    }
    let span_ns = pairing.span_ns();
    let depth = &pairing.depth.all;
    json!({
        "matching": pairs,
        "latency_ns": latencies,
        "queue_depth": {
            "max": depth.max(),
            "time_weighted_mean": (span_ns > 0).then(|| depth.integral as f64 / span_ns as f64),
            "busy_ns": depth.busy_ns,
            "span_ns": span_ns,
            "at_issue_histogram": keyed(depth.at_issue()),
        },
    })
}

fn distribution(
    values: &mut blkio_parser::analyse::distribution::Distribution,
    with_more: bool,
) -> Value {
    let found = values.percentiles(&[50.0, 90.0, 95.0, 99.0, 99.9, 99.99]);
    let mut map = Map::new();
    map.insert("count".into(), values.count.into());
    map.insert("min".into(), values.min.into());
    map.insert("max".into(), values.max.into());
    map.insert("mean".into(), values.mean().into());
    for (name, value) in ["p50", "p90", "p95", "p99", "p99.9"].iter().zip(&found) {
        map.insert((*name).into(), (*value).into());
    }
    map.insert("log2_us_histogram".into(), keyed(values.log2_counts(1000)));
    if with_more {
        map.insert("stddev".into(), values.deviation().into());
        if values.count >= 100_000 {
            map.insert("p99.99".into(), found.get(5).copied().into());
        }
        map.insert("exact".into(), values.is_exact().into());
    }
    Value::Object(map)
}

fn series_value(series: &Series, compat: bool) -> Value {
    let per_second = |group: &Group| {
        let (first, last) = group.seconds().unzip();
        let right = || -> Option<Vec<u64>> {
            let (first, last) = first.zip(last)?;
            (last - first < MAX_BINS).then(|| (first..=last).collect())
        };
        let mut map = Map::new();
        let published = group.published_ts();
        if compat {
            map.insert("ts".into(), published.into());
        } else {
            map.insert("ts".into(), right().into());
            map.insert("published_ts".into(), published.into());
        }
        map.insert("size".into(), group.dense().into());
        Value::Object(map)
    };
    let seconds = series.seconds();
    let cdf = |histogram: &BTreeMap<u64, u64>| -> Value {
        crate::access_shares::cumulative(histogram)
            .iter()
            .map(|(count, share)| json!([count, share]))
            .collect()
    };
    let groups = series.groups.iter();
    let sizes = groups
        .clone()
        .map(|(name, group)| (name, keyed(group.sizes_kib.clone())));
    let per_second = groups.map(|(name, group)| (name, per_second(group)));
    let counts = series
        .access
        .iter()
        .map(|(name, histogram)| (name, keyed(histogram.clone())));
    let shares = series
        .access
        .iter()
        .map(|(name, histogram)| (name, cdf(histogram)));
    keyed([
        ("requests_parsed", Value::from(series.requests)),
        ("first_second", seconds.map(|s| s.0).into()),
        ("last_second", seconds.map(|s| s.1).into()),
        ("size_kib_histogram", keyed(sizes)),
        ("kib_per_second", keyed(per_second)),
        ("sector_access_count", keyed(counts)),
        ("sector_access_cdf", keyed(shares)),
    ])
}
