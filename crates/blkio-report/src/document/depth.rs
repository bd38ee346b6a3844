//! Requests in flight, by class and over time.

use serde_json::{Map, Value, json};

use super::keyed;
use blkio_parser::analyse::pairing::Pairing;
use blkio_parser::analyse::traffic::DATA;
use blkio_parser::analyse::{DepthBins, Level};

fn level(level: &Level, span_ns: u64) -> Value {
    let over_span = |sum: f64| (span_ns > 0).then(|| sum / span_ns as f64);
    json!({
        "max": level.max(),
        "time_weighted_mean": over_span(level.integral as f64),
        "busy_ns": level.busy_ns,
        "utilisation": over_span(level.busy_ns as f64),
        "at_issue_histogram": keyed(level.at_issue()),
        "time_by_depth_ns": keyed(level.time_at()),
    })
}

fn bins(found: &DepthBins) -> Value {
    let rows: Vec<Value> = found
        .bins()
        .iter()
        .map(|(bin, depth)| {
            let mean = depth.integral as f64 / found.width_ns as f64;
            json!({"bin": bin, "max": depth.max, "mean": mean})
        })
        .collect();
    keyed([
        ("bin_ns", Value::from(found.width_ns)),
        ("first_bin_starts_ns", found.origin_ns.into()),
        ("bins", rows.into()),
    ])
}

/// Depth of all requests, of reads and of writes over the time from the first issue to the last completion, and by bin of the
/// series.
pub(super) fn queue_depth(pairing: &Pairing) -> Value {
    let span_ns = pairing.span_ns();
    let depth = &pairing.depth;
    let mut map = Map::new();
    map.insert("span_ns".into(), span_ns.into());
    map.insert("all".into(), level(&depth.all, span_ns));
    for (direction, of) in DATA.iter().zip(depth.classes.iter().flatten()) {
        map.insert(direction.name().into(), level(of, span_ns));
    }
    map.insert("by_bin".into(), depth.bins.as_ref().map(bins).into());
    map.into()
}
