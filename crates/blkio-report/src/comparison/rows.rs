//! Differences of two documents: the finding, and the rows of the tables.

use std::collections::BTreeMap;

use report::human;
use serde_json::Value;

/// What is compared: a name and where it is in the document.
pub(super) const ROWS: [(&str, &str); 25] = [
    ("read_ios", "/metrics/totals/read/ios"),
    ("read_bytes", "/metrics/totals/read/bytes"),
    ("write_ios", "/metrics/totals/write/ios"),
    ("write_bytes", "/metrics/totals/write/bytes"),
    ("flush_ios", "/metrics/totals/flush/ios"),
    ("span_s", "/extra/mean_rates/span_s"),
    ("read_bytes_per_s", "/extra/mean_rates/read_bytes_per_s"),
    ("write_bytes_per_s", "/extra/mean_rates/write_bytes_per_s"),
    (
        "read_while_busy_bytes_per_s",
        "/extra/rates_while_busy/read_bytes_per_s",
    ),
    (
        "write_while_busy_bytes_per_s",
        "/extra/rates_while_busy/write_bytes_per_s",
    ),
    ("depth_while_busy", "/limit/depth_while_busy"),
    ("idle_share", "/limit/idle_share"),
    (
        "read_latency_p50_ns",
        "/metrics/pairing_newest/latency_ns/read/p50",
    ),
    (
        "read_latency_p99_ns",
        "/metrics/pairing_newest/latency_ns/read/p99",
    ),
    (
        "read_latency_mean_ns",
        "/metrics/pairing_newest/latency_ns/read/mean",
    ),
    (
        "write_latency_p50_ns",
        "/metrics/pairing_newest/latency_ns/write/p50",
    ),
    (
        "write_latency_p99_ns",
        "/metrics/pairing_newest/latency_ns/write/p99",
    ),
    (
        "write_latency_mean_ns",
        "/metrics/pairing_newest/latency_ns/write/mean",
    ),
    (
        "flush_latency_mean_ns",
        "/metrics/pairing_newest/latency_ns/flush/mean",
    ),
    ("flush_time_ns", "/limit/flush_ns"),
    (
        "mean_queue_depth",
        "/metrics/pairing_newest/queue_depth/time_weighted_mean",
    ),
    (
        "sequential_requests",
        "/metrics/sequentiality/all/sequential",
    ),
    (
        "multi_stream_requests",
        "/metrics/sequentiality/all/multi_stream_32",
    ),
    ("distinct_4k_blocks", "/metrics/working_set_4k_blocks/union"),
    (
        "reuse_distance_p50",
        "/metrics/reuse_distance_128k_blocks/p50",
    ),
];
/// Rates of the phases of both runs side by side, where they have the same phases in the same order.
pub(super) fn phase_rows(a: &Value, b: &Value) -> Vec<Row> {
    let working = |document: &Value| -> Vec<Value> {
        let phases = document["phases"]["phases"].as_array().cloned();
        let phases = phases.unwrap_or_default().into_iter();
        phases.filter(|phase| phase["label"] != "idle").collect()
    };
    let (a, b) = (working(a), working(b));
    let is_alike = a.len() == b.len() && a.iter().zip(&b).all(|(a, b)| a["label"] == b["label"]);
    let pairs = a.iter().zip(&b).enumerate().filter(|_| is_alike);
    let mut rows = Vec::new();
    for (number, (a, b)) in pairs {
        for (name, place) in [
            ("read_bytes_per_s", "/read/bytes_per_s"),
            ("write_bytes_per_s", "/write/bytes_per_s"),
            ("mean_queue_depth", "/mean_queue_depth"),
        ] {
            let value = |of: &Value| of.pointer(place).and_then(Value::as_f64);
            let (was, is) = (value(a), value(b));
            if was.or(is).is_some_and(|value| value > 0.0) {
                let label = a["label"].as_str().unwrap_or("");
                let phase = format!("phase {} ({label})", number + 1);
                rows.push(Row::of(&phase, name, was, is));
            }
        }
    }
    rows
}

/// What is compared of each device.
pub(super) const DEVICE_ROWS: [(&str, &str); 10] = [
    ("read_bytes", "/read/bytes"),
    ("write_bytes", "/write/bytes"),
    (
        "read_latency_p50_ns",
        "/metrics/pairing_newest/latency_ns/read/p50",
    ),
    (
        "write_latency_p50_ns",
        "/metrics/pairing_newest/latency_ns/write/p50",
    ),
    ("depth_while_busy", "/limit/depth_while_busy"),
    ("idle_share", "/limit/idle_share"),
    ("requests", "/metrics/sequentiality/all/requests"),
    (
        "sequential_requests",
        "/metrics/sequentiality/all/sequential",
    ),
    ("distinct_4k_blocks", "/metrics/working_set_4k_blocks/union"),
    ("re_read_factor", "/re_read_factor"),
];

/// Returns the rows of each device of both runs, where one of them has several. A device that only one run has is compared with nothing.
pub(super) fn device_rows(a: &Value, b: &Value) -> Vec<Row> {
    let of = |document: &Value| -> BTreeMap<String, Value> {
        let devices = document["devices"].as_array().into_iter().flatten();
        let named = devices.map(|of| (of["device"].as_str().unwrap_or("-").to_owned(), of.clone()));
        let mut found: BTreeMap<String, Value> = named.collect();
        let only = document["quality"]["devices"].as_object();
        // The whole document is that of a lone device.
        if let Some((name, _)) = only
            .filter(|_| found.is_empty())
            .and_then(|of| of.iter().next())
        {
            let mut value = document.clone();
            for direction in ["read", "write"] {
                value[direction] = document["metrics"]["totals"][direction].clone();
            }
            value["re_read_factor"] = document["extra"]["reuse"]["re_read_factor"].clone();
            found.insert(name.clone(), value);
        }
        found
    };
    let (a, b) = (of(a), of(b));
    if a.len().max(b.len()) < 2 {
        return Vec::new();
    }
    let names: std::collections::BTreeSet<&String> = a.keys().chain(b.keys()).collect();
    let mut rows = Vec::new();
    for name in names {
        for (what, place) in DEVICE_ROWS {
            let value = |side: &BTreeMap<String, Value>| side.get(name)?.pointer(place)?.as_f64();
            let (was, is) = (value(&a), value(&b));
            if was.or(is).is_none() {
                continue;
            }
            rows.push(Row::of(name, what, was, is));
        }
    }
    rows
}

/// One value of both sides.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Row {
    /// The phase or device that it is of; empty for the whole trace.
    pub of: String,
    /// What is compared, with its unit.
    pub what: &'static str,
    /// The value of the first side.
    pub a: Option<f64>,
    /// The value of the second side.
    pub b: Option<f64>,
    /// The change from the first to the second in percent, where both are known and the first is not 0.
    pub change_pct: Option<f64>,
}

impl Row {
    fn of(of: &str, what: &'static str, a: Option<f64>, b: Option<f64>) -> Self {
        let change = a.zip(b).filter(|(a, _)| a.abs() > 0.0);
        Self {
            of: of.to_owned(),
            what,
            a,
            b,
            change_pct: change.map(|(a, b)| (b / a - 1.0) * 100.0),
        }
    }
}

/// Formats a value of the table, by the unit at the end of its name.
pub(super) fn shown(name: &str, value: f64) -> String {
    if name.ends_with("_bytes_per_s") {
        return human::quantity(value, report::Unit::Bytes) + "/s";
    }
    let units = [
        ("_bytes", report::Unit::Bytes),
        ("_ns", report::Unit::Nanos),
        ("_s", report::Unit::Seconds),
    ];
    match units.iter().find(|(end, _)| name.ends_with(end)) {
        Some((_, unit)) => human::quantity(value, *unit),
        None if value.fract() == 0.0 => format!("{value:.0}"),
        None => format!("{value:.3}"),
    }
}

/// Returns the values of the whole traces.
pub(super) fn rows(a: &Value, b: &Value) -> Vec<Row> {
    let row = |(what, place): &(&'static str, &str)| {
        let value = |document: &Value| document.pointer(place).and_then(Value::as_f64);
        Row::of("", what, value(a), value(b))
    };
    // Most recordings have no flushes, and nothing to compare there.
    let is_there = |row: &Row| {
        let is_some = [row.a, row.b].iter().flatten().any(|value| *value > 0.0);
        is_some || !row.what.starts_with("flush_")
    };
    ROWS.iter().map(row).filter(is_there).collect()
}
