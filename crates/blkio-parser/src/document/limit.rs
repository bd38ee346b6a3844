//! What limits a stretch of traffic, as an object.

use serde_json::{Value, json};

use crate::analyse::limit::{AtDepth, Load};
use crate::stats::Stats;

/// The verdict on the requests issued from one time of the trace's clock until before another; `None` where nothing completed.
/// Of several devices it is that on the one that moved most in this time, since depth and pauses are of one device.
pub(super) fn limit(stats: &Stats, from_ns: u64, until_ns: u64) -> Option<Value> {
    let moved = |of: &Stats| {
        let detail = of
            .newest
            .as_ref()
            .and_then(|pairing| pairing.detail.as_ref());
        let blocks = detail.map(|detail| detail.samples.within(from_ns, until_ns));
        let samples = blocks.iter().flatten().flatten();
        samples.map(|sample| u64::from(sample.bytes)).sum::<u64>()
    };
    if let Some((dev, of)) = stats.devices.iter().max_by_key(|(_, of)| moved(of)) {
        let mut value = limit(of, from_ns, until_ns)?;
        value["device"] = stats.outcome.symbols.device_name(*dev).into();
        return Some(value);
    }
    let detail = stats.newest.as_ref()?.detail.as_ref()?;
    let load = Load::of(&detail.samples, from_ns, until_ns);
    if load.requests == 0 {
        return None;
    }
    let yardstick = stats.yardstick.as_ref();
    let slot = load.slot();
    let against = yardstick.map(|of| {
        let [bytes, ios] = [of.bytes_per_s, of.iops].map(|of| of.get(slot).copied().flatten());
        let share =
            |now: f64, most: Option<f64>| most.filter(|most| *most > 0.0).map(|most| now / most);
        json!({
            "name": of.name,
            "bytes_per_s": bytes,
            "iops": ios,
            "share_of_bytes_per_s": share(load.bytes_per_s(), bytes),
            "share_of_iops": share(load.iops(), ios),
        })
    });
    let gain = load.elasticity();
    let classes = load.by_depth.iter().filter(|of| of.requests > 0);
    let by_depth = classes.map(|of: &AtDepth| {
        json!({
            "depth": of.depth as f64 / of.requests as f64,
            "requests": of.requests,
            "mean_latency_ns": of.latency_ns as f64 / of.requests as f64,
        })
    });
    Some(json!({
        "limiter": load.limiter(yardstick).name(),
        "direction": if slot == 1 { "write" } else { "read" },
        "requests": load.requests,
        "time_ns": load.time_ns,
        "idle_share": load.idle_share(),
        "gap_p50_ns": load.gap_p50_ns(),
        "depth_while_busy": load.depth_while_busy(),
        "size_bytes": load.size,
        "bytes_per_s": load.bytes_per_s(),
        "bytes_per_busy_s": load.bytes_per_busy_s(),
        "iops": load.iops(),
        "gain_per_depth": gain.map(|(gain, _)| gain),
        "gain_error": gain.map(|(_, error)| error),
        "by_depth": by_depth.collect::<Vec<_>>(),
        "yardstick": against,
        "is_of_all_requests": detail.samples.are_all(),
    }))
}
