//! What each phase of a run did: those found in the traffic, and those the user names.

use std::ops::Range;

use serde_json::{Map, Value, json};

use super::{distribution, keyed};
use crate::analyse::distribution::Distribution;
use crate::analyse::given::GivenPhase;
use crate::analyse::phases;
use crate::analyse::traffic::{Amount, DATA};
use crate::stats::Stats;

/// Latencies of reads and writes issued in each of some stretches of time since the first issue, which do not overlap.
fn latencies(stats: &Stats, stretches: &[Range<u64>]) -> Vec<[Distribution; 2]> {
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let absolute =
        |range: &Range<u64>| first.saturating_add(range.start)..first.saturating_add(range.end);
    let ranges: Vec<Range<u64>> = stretches.iter().map(absolute).collect();
    stats
        .newest
        .as_ref()
        .map(|pairing| pairing.timeline.within(&ranges))
        .unwrap_or_default()
}

/// Latency by direction and the mean number of requests in flight, for requests issued in a phase of this length.
fn waiting(values: Option<[Distribution; 2]>, length_ns: u64, map: &mut Map<String, Value>) {
    let Some(mut values) = values.filter(|[read, write]| read.count + write.count > 0) else {
        return;
    };
    // Little's law: requests in flight are arrivals per time, times the time they stay.
    let stayed: u128 = values.iter().map(|values| values.sum).sum();
    let depth = (length_ns > 0).then(|| stayed as f64 / length_ns as f64);
    map.insert("mean_queue_depth".into(), depth.into());
    let known = DATA.iter().zip(&mut values).filter(|(_, v)| v.count > 0);
    let latency = keyed(known.map(|(d, values)| (d.name(), distribution(values, true))));
    map.insert("latency_ns".into(), latency);
}

/// How much of what, and how fast.
fn traffic(read: Amount, write: Amount, length_ns: u64) -> Map<String, Value> {
    let seconds = length_ns as f64 / 1e9;
    let of = |amount: Amount| {
        let rate = |value: u64| (seconds > 0.0).then(|| value as f64 / seconds);
        json!({
            "ios": amount.ios,
            "bytes": amount.bytes,
            "bytes_per_s": rate(amount.bytes),
            "iops": rate(amount.ios),
            "mean_bytes": (amount.ios > 0).then(|| amount.bytes as f64 / amount.ios as f64),
        })
    };
    let bytes = read.bytes + write.bytes;
    let mut map = Map::new();
    map.insert("duration_ns".into(), length_ns.into());
    map.insert("read".into(), of(read));
    map.insert("write".into(), of(write));
    let share = (bytes > 0).then(|| read.bytes as f64 / bytes as f64);
    map.insert("read_share_of_bytes".into(), share.into());
    map
}

/// The phases found in the traffic.
pub(super) fn detected(stats: &Stats) -> Value {
    let found = phases::of(&stats.traffic);
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let stretches: Vec<Range<u64>> = found.phases.iter().map(|p| p.start_ns..p.end_ns).collect();
    let mut latencies = latencies(stats, &stretches).into_iter();
    let phases: Vec<Value> = found
        .phases
        .iter()
        .map(|p| {
            let mut map = traffic(p.read, p.write, p.end_ns - p.start_ns);
            map.insert("label".into(), p.label.name().into());
            map.insert("start_ns".into(), first.saturating_add(p.start_ns).into());
            map.insert("end_ns".into(), first.saturating_add(p.end_ns).into());
            waiting(latencies.next(), p.end_ns - p.start_ns, &mut map);
            map.into()
        })
        .collect();
    json!({
        "method": "optimal partition of the bins, labelled by traffic",
        "bin_ns": found.bin_ns,
        "prefill_decode_boundary_ns": found.boundary_ns.map(|(end, start)| [end, start].map(|t| first.saturating_add(t))),
        "latencies_are_exact": stats.newest.as_ref().map(|pairing| pairing.timeline.is_exact()),
        "phases": phases,
    })
}

/// The phases that were given, in their order.
pub(super) fn given(stats: &mut Stats) -> Value {
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let mut phases = std::mem::take(&mut stats.given.phases);
    let values = phases
        .iter_mut()
        .map(|phase| given_phase(stats, phase, first))
        .collect();
    stats.given.phases = phases;
    values
}

fn given_phase(stats: &Stats, phase: &mut GivenPhase, first: u64) -> Value {
    let named = &phase.named;
    let length_ns = named.end_ns - named.start_ns;
    let mut amounts = [Amount::default(); 2];
    let mut operations = Map::new();
    for (number, amount) in &phase.operations {
        let Some(rwbs) = stats.outcome.symbols.rwbs_of(*number) else {
            continue;
        };
        let direction = rwbs.decode().direction;
        if let Some(sum) = amounts.get_mut(direction.slot())
            && direction.is_data()
        {
            sum.add(*amount);
        }
        operations.insert(
            rwbs.to_string(),
            json!({"ios": amount.ios, "bytes": amount.bytes}),
        );
    }
    let [read, write] = amounts;
    let mut map = traffic(read, write, length_ns);
    map.insert("name".into(), named.name.as_str().into());
    let absolute = |since: u64| Value::from(first.saturating_add(since));
    map.insert("start_ns".into(), absolute(named.start_ns));
    map.insert("end_ns".into(), absolute(named.end_ns));
    map.insert("operations".into(), operations.into());
    let sizes = DATA.iter().zip(&mut phase.sizes);
    let sizes = sizes.filter(|(_, sizes)| sizes.count > 0).map(|(d, sizes)| {
        let found = sizes.percentiles(&[50.0, 99.0]);
        let value = json!({"min": sizes.min, "p50": found.first(), "p99": found.get(1), "max": sizes.max});
        (d.name(), value)
    });
    map.insert("size_bytes".into(), keyed(sizes));
    let classes = DATA.iter().zip(&phase.sequentiality.classes);
    let shares = classes.filter(|(_, c)| c.requests > 0).map(|(d, class)| {
        let of = |n: u64| n as f64 / class.requests as f64;
        let value = json!({"sequential_share": of(class.sequential), "multi_stream_share": of(class.multi_stream)});
        (d.name(), value)
    });
    map.insert("sequentiality".into(), keyed(shares));
    let stretch = named.start_ns..named.end_ns;
    let found = latencies(stats, std::slice::from_ref(&stretch)).pop();
    waiting(found, length_ns, &mut map);
    map.into()
}
