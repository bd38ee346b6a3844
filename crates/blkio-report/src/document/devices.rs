//! Results by device, and which devices lie on others.

use serde_json::{Map, Value, json};

use super::depth::queue_depth;
use super::{metrics, places, totals};
use crate::limit::Yardstick;

use super::limit::Together;
use blkio_parser::SECTOR_BYTES;
use blkio_parser::Stats;

/// One object for each device, none where the trace has only one: the measures of the whole document, for this device alone.
/// Times are of the clock of the document, whose first event is at `base_ns`.
pub(super) fn devices(stats: &mut Stats, base_ns: u64, yardstick: Option<&Yardstick>) -> Value {
    let all = Together::new(stats, yardstick);
    let devices = stats.devices.iter_mut();
    devices
        .map(|(dev, of)| one(*dev, of, base_ns, (all.as_ref(), yardstick)))
        .collect()
}

/// Returns the devices that are no part of the totals since they lie on others, as those of [`devices`].
pub(super) fn apart(stats: &mut Stats, base_ns: u64, yardstick: Option<&Yardstick>) -> Value {
    let devices = stats.apart.iter_mut();
    devices
        .map(|(dev, of)| one(*dev, of, base_ns, (None, yardstick)))
        .collect()
}

fn one(
    dev: u32,
    of: &mut Stats,
    base_ns: u64,
    (all, yardstick): (Option<&Together>, Option<&Yardstick>),
) -> Value {
    let mut map = Map::new();
    let name = of.outcome.symbols.device_name(dev);
    let name = if dev == 0 {
        "not recorded".to_owned()
    } else {
        name
    };
    map.insert("device".into(), name.into());
    let totals = totals(of);
    // That of the device: what others did before and after says nothing of it.
    let span_ns = of.traffic.run_ns();
    map.insert("span_s".into(), (span_ns as f64 / 1e9).into());
    for direction in ["read", "write"] {
        let bytes = totals[direction]["bytes"].as_u64().unwrap_or(0);
        let rate = (span_ns > 0).then(|| bytes as f64 / (span_ns as f64 / 1e9));
        let value = json!({
            "ios": totals[direction]["ios"].as_u64().unwrap_or(0),
            "bytes": bytes,
            "bytes_per_s": rate,
        });
        map.insert(direction.into(), value);
    }
    if let Some(access) = &of.access {
        let distinct = access.distinct_sectors[0].saturating_mul(SECTOR_BYTES);
        let read = totals["read"]["bytes"].as_f64().unwrap_or(0.0);
        let factor = (distinct > 0).then(|| read / distinct as f64);
        map.insert("re_read_factor".into(), factor.into());
    }
    if let Some(stages) = &of.stages {
        map.insert("merges".into(), stages.merges.into());
    }
    if let Some(pairing) = of.newest.as_ref().filter(|p| p.matching.pairs > 0) {
        map.insert("queue_depth".into(), queue_depth(pairing));
    }
    map.insert(
        "limit".into(),
        super::limit::of_device(of, all, yardstick).into(),
    );
    if let Some(heat) = &of.heat {
        map.insert("heatmap".into(), places::heat(heat));
    }
    map.insert("metrics".into(), metrics(of, base_ns));
    Value::Object(map)
}

/// Devices that lie on others, how that is known, and whether they are left out.
pub(super) fn stacked(stats: &Stats) -> Value {
    let symbols = &stats.outcome.symbols;
    let pairs = stats.stacked.iter();
    pairs
        .map(|pair| {
            json!({
                "upper": symbols.device_name(pair.upper),
                "lower": symbols.device_name(pair.lower),
                "evidence": pair.evidence.text(),
                "upper_is_left_out": pair.is_left_out,
                "upper_has_requests": pair.upper_has_requests,
                "share_of_upper_found_below": pair.share_below,
            })
        })
        .collect()
}
