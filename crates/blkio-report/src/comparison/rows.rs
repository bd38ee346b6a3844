//! Differences of two documents: the finding, and the rows of the tables.

use std::collections::BTreeMap;

use report::human;
use serde_json::Value;

/// What is compared: a name and where it is in the document.
pub(super) const ROWS: [(&str, &str); 22] = [
    ("read_ios", "/metrics/totals/read/ios"),
    ("read_bytes", "/metrics/totals/read/bytes"),
    ("write_ios", "/metrics/totals/write/ios"),
    ("write_bytes", "/metrics/totals/write/bytes"),
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
/// Ratio from which a change is named.
pub(super) const CHANGED: f64 = 1.25;

/// Returns what changed first of all: depth, size or pauses of the requests, and what throughput and latency made of it.
pub(super) fn finding(a: &Value, b: &Value) -> String {
    let both = |place: &str| {
        let value = |document: &Value| document.pointer(place).and_then(Value::as_f64);
        Some((value(a)?, value(b)?)).filter(|(a, b)| *a > 0.0 && *b > 0.0)
    };
    let is_changed = |(a, b): &(f64, f64)| (b / a).max(a / b) >= CHANGED;
    let direction = |document: &Value| document["limit"]["direction"].as_str().map(str::to_owned);
    let Some(of) = direction(a).filter(|of| direction(b).as_ref() == Some(of)) else {
        return if direction(a).is_some() && direction(b).is_some() {
            "The runs do different things: one mostly reads, the other mostly writes.".to_owned()
        } else {
            "Cannot say why the runs differ: completions are missing.".to_owned()
        };
    };
    let depth = both("/limit/depth_while_busy").filter(is_changed);
    let size = both("/limit/size_bytes").filter(is_changed);
    let rate = both(&format!("/extra/rates_while_busy/{of}_bytes_per_s"));
    let latency = both(&format!("/metrics/pairing_newest/latency_ns/{of}/p50"));
    let bytes = |value: f64| human::quantity(value, report::Unit::Bytes);
    let times = |(a, b): (f64, f64)| format!("{:.2}x", b / a);
    let mut effects = Vec::new();
    if let Some(rate) = rate {
        effects.push(format!(
            "{of} throughput while busy {} ({}/s to {}/s)",
            times(rate),
            bytes(rate.0),
            bytes(rate.1)
        ));
    }
    if let Some(latency) = latency {
        let time = |ns: f64| human::quantity(ns, report::Unit::Nanos);
        effects.push(format!(
            "{of} latency p50 {} ({} to {})",
            times(latency),
            time(latency.0),
            time(latency.1)
        ));
    }
    let total = both(&format!("/extra/mean_rates/{of}_bytes_per_s"));
    let total = total.filter(is_changed);
    if let Some(total) = total {
        effects.push(format!(
            "{of} throughput over the span {} ({}/s to {}/s)",
            times(total),
            bytes(total.0),
            bytes(total.1)
        ));
    }
    let effects = effects.join(", ");
    // A trace of one device does not list it.
    let devices = [a, b].map(|of| of["devices"].as_array().map_or(1, |all| all.len().max(1)));
    if let [was, is] = devices
        && was != is
    {
        return format!("Number of devices changed from {was} to {is}: {effects}.");
    }
    let is_slower = latency.filter(is_changed).is_some();
    match (depth, size) {
        (Some((a, b)), None) => {
            format!("Queue depth changed from {a:.2} to {b:.2} while busy: {effects}.")
        }
        (None, Some((a, b))) => {
            format!(
                "Request size changed from {} to {}: {effects}.",
                bytes(a),
                bytes(b)
            )
        }
        (Some((a, b)), Some((small, large))) => format!(
            "Queue depth changed from {a:.2} to {b:.2} while busy, and request size from {} to {}: {effects}.",
            bytes(small),
            bytes(large)
        ),
        (None, None) if is_slower => {
            format!(
                "Depth and sizes are alike, latency is not: the device or its state differs: {effects}."
            )
        }
        (None, None) => {
            let idle = |document: &Value| {
                document
                    .pointer("/limit/idle_share")
                    .and_then(Value::as_f64)
            };
            match idle(a).zip(idle(b)) {
                Some((a, b)) if (a - b).abs() >= 0.1 => format!(
                    "Requests are alike, the pauses between them are not: idle {:.1} % and {:.1} % of the time; {effects}.",
                    a * 100.0,
                    b * 100.0
                ),
                _ if total.is_some() => format!(
                    "Depth, size, pauses and latency of the requests are alike, throughput is not: {effects}."
                ),
                _ => {
                    format!("Depth, size, pauses and latency of the requests are alike: {effects}.")
                }
            }
        }
    }
}

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
    ROWS.iter().map(row).collect()
}
