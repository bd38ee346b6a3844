//! The limiter of a stretch of traffic, as an object.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::limit::{AtDepth, Limiter, Load, SizeMatch, Yardstick};
use crate::loss::Loss;
use blkio_parser::Stats;

/// Returns the verdict on the requests issued from one time of the trace's clock until before another; `None` where nothing completed.
/// With several devices, the verdict is that of the most limiting one, which it names: depth and pauses belong to one device. Where it waits for
/// the application and all devices serve one volume, or one request after the other, the verdict is that of all as one (`as_one`).
pub(super) fn limit(
    stats: &Stats,
    from_ns: u64,
    until_ns: u64,
    yardstick: Option<&Yardstick>,
) -> Option<Value> {
    if stats.devices.is_empty() {
        return of_one(stats, from_ns, until_ns, yardstick).map(|(_, value)| value);
    }
    let devices = stats.devices.iter();
    let found: Vec<(u32, Load, Value)> = devices
        .filter_map(|(dev, of)| {
            let (load, value) = of_one(of, from_ns, until_ns, yardstick)?;
            Some((*dev, load, value))
        })
        .collect();
    let loads: Vec<&Load> = found.iter().map(|(_, load, _)| load).collect();
    let lead = most_limiting(&loads, yardstick)?;
    let count = found.len();
    let devices: Vec<u32> = found.iter().map(|(dev, _, _)| *dev).collect();
    let (dev, load, mut value) = found.into_iter().nth(lead)?;
    if count > 1
        && let Some((all, of_all)) = of_one(stats, from_ns, until_ns, yardstick)
        && load.limiter(yardstick) == Limiter::ThinkTime
    {
        let volume = volume_of(stats, &devices);
        if load.takes_turns(&all) {
            in_turns(&mut value, &of_all);
        } else if volume.is_some() || load.is_one_of_a_sequence(&all) {
            return Some(as_one(of_all, stats, &devices, volume));
        }
    }
    value["device"] = stats.outcome.symbols.device_name(dev).into();
    value["devices"] = count.into();
    value["is_saturated"] = load.limiter(yardstick).is_saturated().into();
    Some(value)
}

/// Returns a device that lies on all of these, directly or by way of others.
fn volume_of(stats: &Stats, devices: &[u32]) -> Option<u32> {
    let below = |upper: u32| {
        let mut found = BTreeSet::from([upper]);
        let mut open = vec![upper];
        while let Some(upper) = open.pop() {
            let pairs = stats.stacked.iter().filter(|pair| pair.upper == upper);
            open.extend(
                pairs
                    .map(|pair| pair.lower)
                    .filter(|lower| found.insert(*lower)),
            );
        }
        found
    };
    let mut uppers = stats.stacked.iter().map(|pair| pair.upper);
    uppers.find(|upper| {
        let below = below(*upper);
        devices
            .iter()
            .all(|dev| dev != upper && below.contains(dev))
    })
}

/// The verdict on devices that serve one volume, or one request after the other: the pauses of one are turns on the others, so that those of
/// the application are those of all.
fn as_one(mut of_all: Value, stats: &Stats, devices: &[u32], volume: Option<u32>) -> Value {
    let name = |dev: &u32| stats.outcome.symbols.device_name(*dev);
    let names: Vec<String> = devices.iter().map(name).collect();
    of_all["device"] = names.join("+").into();
    of_all["devices"] = names.len().into();
    of_all["as_one"] = json!({"devices": names, "volume": volume.as_ref().map(name)});
    of_all["is_saturated"] = false.into();
    of_all
}

/// Notes that a device is idle because requests go to the other devices then: what it lacks is requests at a time.
fn in_turns(value: &mut Value, of_all: &Value) {
    value["limiter"] = Limiter::QueueDepth.name().into();
    value["turns"] = json!({
        "idle_share": of_all["idle_share"],
        "depth_while_busy": of_all["depth_while_busy"],
        "max_depth": of_all["max_depth"],
    });
}

/// What was measured of all devices as one.
pub(super) struct Together(Load, Value);

impl Together {
    /// Returns `None` for one device, or where nothing completed.
    pub(super) fn new(stats: &Stats, yardstick: Option<&Yardstick>) -> Option<Self> {
        let found = || of_one(stats, 0, u64::MAX, yardstick).map(|(load, of)| Self(load, of));
        (stats.devices.len() > 1).then(found).flatten()
    }
}

/// Returns the verdict on a device, beside the others if there are any.
pub(super) fn of_device(
    of: &Stats,
    all: Option<&Together>,
    yardstick: Option<&Yardstick>,
) -> Option<Value> {
    let (load, mut value) = of_one(of, 0, u64::MAX, yardstick)?;
    if let Some(Together(all, of_all)) = all
        && load.limiter(yardstick) == Limiter::ThinkTime
        && load.takes_turns(all)
    {
        in_turns(&mut value, of_all);
    }
    Some(value)
}

/// Returns the share of the time from the first request issued in a stretch to the last completion of its requests in which any device has one
/// in flight; `None` where nothing completed.
pub(super) fn busy_share(stats: &Stats, from_ns: u64, until_ns: u64) -> Option<f64> {
    let detail = stats.newest.as_ref()?.detail.as_ref()?;
    let load = Load::of(&detail.samples, from_ns, until_ns, Loss::of(stats).all);
    (load.requests > 0).then(|| 1.0 - load.idle_share())
}

/// Name of the limiter of a whole trace whose phases have different ones.
pub const DIFFERS: &str = "differs by phase";

/// Returns `true` if something limits the phase: requests come, also few beside those of another.
pub(crate) fn is_at_work(phase: &Value) -> bool {
    let limit = &phase["limit"];
    limit.is_object() && (phase["label"] != "idle" || limit["is_enough"] == true)
}

/// Returns the verdict on the whole trace. Where its phases have different limiters, none is that of the whole.
pub(super) fn of_whole(
    stats: &Stats,
    phases: &Value,
    yardstick: Option<&Yardstick>,
) -> Option<Value> {
    let mut value = limit(stats, 0, u64::MAX, yardstick)?;
    let phases = phases["phases"].as_array().into_iter().flatten();
    let working: Vec<&Value> = phases.filter(|phase| is_at_work(phase)).collect();
    let judged = working
        .iter()
        .filter(|phase| phase["limit"]["is_enough"] == true);
    // A phase of which nothing is known is not limited by what limits another.
    let known: BTreeSet<&str> = judged
        .filter_map(|phase| phase["limit"]["limiter"].as_str())
        .collect();
    if !stats.devices.is_empty() {
        return Some(value);
    }
    if known.len() > 1 {
        value["limiter"] = DIFFERS.into();
    } else if working.len() > 1 && value["limiter"] != Limiter::ThinkTime.name() {
        // Phases of different depth or size are no evidence for what is limited in one of them.
        let only = known.first().copied();
        value["limiter"] = only.unwrap_or(Limiter::Unknown.name()).into();
    } else if let [only] = working.as_slice()
        && value["limiter"] == Limiter::Unknown.name()
        && only["limit"]["requests"] == value["requests"]
    {
        value["limiter"] = only["limit"]["limiter"].clone();
    }
    Some(value)
}

/// Returns the number of the load that limits most: of a device that is saturated for at least half as long as the busiest one is busy,
/// else of the busiest. Devices of too few requests come last.
fn most_limiting(loads: &[&Load], yardstick: Option<&Yardstick>) -> Option<usize> {
    let judged = loads.iter().filter(|load| load.is_enough());
    let busiest = judged.map(|load| load.busy_ns).max().unwrap_or(0);
    let rank = |load: &Load| {
        let is_long = load.is_enough() && load.busy_ns >= busiest / 2;
        let is_saturated = is_long && load.limiter(yardstick).is_saturated();
        (is_saturated, load.is_enough(), load.busy_ns, load.bytes)
    };
    // The first of equals leads.
    let ranked = loads.iter().enumerate().rev();
    ranked
        .max_by_key(|(_, load)| rank(load))
        .map(|(number, _)| number)
}

/// Share of the requests of a direction that go on where one of the 32 before ended; `None` where that is not known.
pub(crate) fn sequential_share(
    stats: &Stats,
    from_ns: u64,
    until_ns: u64,
    slot: usize,
) -> Option<f64> {
    let first_ns = stats.traffic.first_issue_ns?;
    let since = |t_ns: u64| t_ns.saturating_sub(first_ns);
    let found = stats
        .composition
        .as_ref()?
        .within(&(since(from_ns)..since(until_ns)));
    let mut sum = (0_u64, 0_u64);
    for (alike, tally) in found.iter().filter(|(alike, _)| alike.is_data) {
        let direction = stats.outcome.symbols.rwbs_of(alike.rwbs);
        if direction.is_some_and(|rwbs| rwbs.decode().direction.slot() == slot) {
            sum.0 += tally.ios;
            sum.1 += tally.multi_stream;
        }
    }
    (sum.0 > 0).then(|| sum.1 as f64 / sum.0 as f64)
}

/// What was measured of a single device, or of all as one where the trace names none, and the verdict on it.
fn of_one(
    stats: &Stats,
    from_ns: u64,
    until_ns: u64,
    yardstick: Option<&Yardstick>,
) -> Option<(Load, Value)> {
    let detail = stats.newest.as_ref()?.detail.as_ref()?;
    let mut load = Load::of(&detail.samples, from_ns, until_ns, Loss::of(stats).all);
    if load.requests == 0 {
        return None;
    }
    load.sequential_share = sequential_share(stats, from_ns, until_ns, load.slot());
    let slot = load.slot();
    let against = yardstick.map(|of| {
        let [bytes, ios, size] =
            [of.bytes_per_s, of.iops, of.size_bytes].map(|of| of.get(slot).copied().flatten());
        let match_of_sizes = match of.size_match(&load, slot) {
            SizeMatch::Smaller if size.is_none() => "unknown",
            SizeMatch::Smaller => "smaller",
            SizeMatch::Larger => "larger",
            SizeMatch::Alike => "alike",
        };
        let [of_bytes, of_iops] = of.reached(&load, slot);
        json!({
            "name": of.name,
            "bytes_per_s": bytes,
            "iops": ios,
            "size_bytes": size,
            "requests_are": match_of_sizes,
            "share_of_bytes_per_s": of_bytes,
            "share_of_iops": of_iops,
            "share_while_busy": of.disproof(&load, slot),
            "is_disproved": of.disproof(&load, slot).is_some(),
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
    let (breaks, breaks_ns) = load.breaks();
    let value = json!({
        "limiter": load.limiter(yardstick).name(),
        "limiter_while_busy": load.limiter_while_busy(yardstick).name(),
        "sequential_share": load.sequential_share,
        "is_enough": load.is_enough(),
        "write_share": load.writes as f64 / load.requests as f64,
        "most_without_pauses": load.most_without_pauses(),
        "may_seek": load.may_seek(),
        "direction": if slot == 1 { "write" } else { "read" },
        "requests": load.requests,
        "lost_share": load.lost,
        "time_ns": load.time_ns,
        "idle_share": load.idle_share(),
        "think_share": load.think_share(),
        "flushes": load.flushes,
        "flush_ns": load.flush_ns as f64,
        "flush_share": load.flush_share(),
        "following_share": load.following_share(),
        "comes_at_own_pace": load.comes_at_own_pace(),
        "most_at_depth": load.most_at_depth().zip(load.best).map(|(factor, best)| json!({
            "depth": best.depth,
            "factor": factor,
            "requests": best.requests,
        })),
        "stalls": (load.stalls.count > 0).then(|| json!({
            "count": load.stalls.count,
            "time_ns": load.stalls.sum_ns,
            "share": load.stall_share(),
            "longest_ns": load.stalls.longest_ns,
            "usual_latency_ns": load.stalls.usual_ns,
        })),
        "latency_ns": load.integral as f64,
        "breaks": breaks,
        "breaks_ns": breaks_ns,
        "mean_bytes": load.bytes as f64 / load.requests as f64,
        "gap_p50_ns": load.gap_p50_ns(),
        "gap_half_ns": load.gap_half_ns(),
        "share_alone": load.alone as f64 / load.requests as f64,
        "max_depth": load.max_depth,
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
    });
    Some((load, value))
}
