//! Results by phase: those found in the traffic, and those the user names.

use std::collections::BTreeMap;
use std::ops::Range;

use serde_json::{Map, Value, json};

use super::{distribution, keyed};
use crate::limit::Yardstick;
use crate::phase_yardsticks;
use crate::phases::{self, GpuSpan};
use blkio_parser::Stats;
use blkio_parser::analyse::distribution::Distribution;
use blkio_parser::analyse::samples::Sample;
use blkio_parser::analyse::traffic::{Amount, DATA};
use blkio_parser::analyse::user_phases::UserPhase;

/// Returns the latencies of reads and writes issued in each of some stretches of time since the first issue, which do not overlap.
fn latencies(stats: &Stats, stretches: &[Range<u64>]) -> Vec<[Distribution; 2]> {
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let absolute =
        |range: &Range<u64>| first.saturating_add(range.start)..first.saturating_add(range.end);
    let ranges: Vec<Range<u64>> = stretches.iter().map(absolute).collect();
    stats
        .newest
        .as_ref()
        .and_then(|pairing| pairing.detail.as_ref())
        .map(|detail| detail.timeline.within(&ranges))
        .unwrap_or_default()
}

/// Latency by direction of the requests issued in a phase, and the mean number of requests in flight from its begin to its end, times since
/// the first issue.
fn waiting(
    stats: &Stats,
    values: Option<[Distribution; 2]>,
    span: &Range<u64>,
    map: &mut Map<String, Value>,
) {
    let Some(mut values) = values.filter(|[read, write]| read.count + write.count > 0) else {
        return;
    };
    let depth = mean_depth(stats, &values, span);
    map.insert("mean_queue_depth".into(), depth.into());
    let known = DATA.iter().zip(&mut values).filter(|(_, v)| v.count > 0);
    let latency = keyed(known.map(|(d, values)| (d.name(), distribution(values, true))));
    map.insert("latency_ns".into(), latency);
}

/// Returns the mean number of requests in flight in a span of time.
fn mean_depth(stats: &Stats, values: &[Distribution; 2], span: &Range<u64>) -> Option<f64> {
    let length_ns = span.end.saturating_sub(span.start);
    let pairing = stats.newest.as_ref()?;
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let [from_ns, until_ns] = [span.start, span.end].map(|since| first.saturating_add(since));
    let samples = pairing.detail.as_ref().map(|detail| &detail.samples);
    let exact = samples.and_then(|samples| samples.integral(from_ns, until_ns));
    if length_ns == 0 {
        return None;
    }
    if let Some(integral) = exact {
        return Some(integral as f64 / length_ns as f64);
    }
    // Little's law: requests in flight are arrivals per time, times the time they stay. Those at the end stay beyond it, which cannot make
    // it deeper than it ever was.
    let stayed: u128 = values.iter().map(|values| values.sum).sum();
    Some((stayed as f64 / length_ns as f64).min(pairing.depth.all.max() as f64))
}

/// Returns the first request of a stretch of time since the first issue, and last completion of its requests, or last request where
/// completions are not known one by one; on the same clock.
fn edges(stats: &Stats, stretch: &Range<u64>) -> Option<Range<u64>> {
    let (start, last) = stats.traffic.edges.within(stretch)?;
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let detail = stats.newest.as_ref().and_then(|p| p.detail.as_ref());
    let samples = detail
        .map(|detail| &detail.samples)
        .filter(|of| of.are_all());
    let absolute = [stretch.start, stretch.end].map(|t| first.saturating_add(t));
    let blocks = samples.map(|of| of.within(absolute[0], absolute[1]));
    let ends = blocks.iter().flatten().flatten();
    let end = ends.filter(|s| s.is_data()).map(Sample::end_ns).max();
    let end = end.map_or(last, |end| last.max(end.saturating_sub(first)));
    Some(start..end)
}

/// What limits the requests of a stretch of time since the first issue, as the member `limit`, and the share of it in which any
/// device has one in flight as `busy_share`: of several devices the limit is that of one, which it names, all else of all.
fn limited(
    stats: &Stats,
    stretch: &Range<u64>,
    yardstick: Option<&Yardstick>,
    map: &mut Map<String, Value>,
) {
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let absolute = [stretch.start, stretch.end].map(|t| first.saturating_add(t));
    if let Some(limit) = super::limit::limit(stats, absolute[0], absolute[1], yardstick) {
        map.insert("limit".into(), limit);
    }
    if let Some(share) = super::limit::busy_share(stats, absolute[0], absolute[1]) {
        map.insert("busy_share".into(), share.into());
    }
}

/// Returns how much of what, and how fast.
pub(crate) fn traffic(read: Amount, write: Amount, length_ns: u64) -> Map<String, Value> {
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

/// Sizes of reads and writes in bytes, of those that there are.
fn sizes(of: &mut [Distribution; 2]) -> Value {
    let known = DATA.iter().zip(of).filter(|(_, sizes)| sizes.count > 0);
    keyed(known.map(|(direction, sizes)| {
        let found = sizes.percentiles(&[50.0, 99.0]);
        let value =
            json!({"min": sizes.min, "p50": found.first(), "p99": found.get(1), "max": sizes.max});
        (direction.name(), value)
    }))
}

/// Shares of sequential reads and writes, from requests, sequential ones and those of 32 streams.
fn shares(of: [(u64, u64, u64); 2]) -> Value {
    let known = DATA
        .iter()
        .zip(of)
        .filter(|(_, (requests, ..))| *requests > 0);
    keyed(known.map(|(direction, (requests, sequential, multi_stream))| {
        let share = |count: u64| count as f64 / requests as f64;
        let value = json!({"sequential_share": share(sequential), "multi_stream_share": share(multi_stream)});
        (direction.name(), value)
    }))
}

/// Returns the requests and bytes by operation letters.
fn operations(stats: &Stats, of: &BTreeMap<u16, Amount>) -> Value {
    let symbols = &stats.outcome.symbols;
    let known = of
        .iter()
        .filter_map(|(number, amount)| Some((symbols.rwbs_of(*number)?, amount)));
    keyed(known.map(|(rwbs, amount)| (rwbs, json!({"ios": amount.ios, "bytes": amount.bytes}))))
}

/// What a stretch of time since the first issue was made of, as the bins of the composition tell.
fn composed(stats: &Stats, stretch: &Range<u64>, map: &mut Map<String, Value>) {
    let Some(composition) = &stats.composition else {
        return;
    };
    let mut letters: BTreeMap<u16, Amount> = BTreeMap::new();
    let mut bytes = <[Distribution; 2]>::default();
    let mut places = [(0, 0, 0); 2];
    for (alike, tally) in composition.within(stretch) {
        letters.entry(alike.rwbs).or_default().add(Amount {
            ios: tally.ios,
            bytes: u64::from(alike.bytes) * tally.ios,
        });
        let direction = stats.outcome.symbols.rwbs_of(alike.rwbs);
        let slot = direction.map_or(usize::MAX, |rwbs| rwbs.decode().direction.slot());
        if let (true, Some(sizes), Some(place)) =
            (alike.is_data, bytes.get_mut(slot), places.get_mut(slot))
        {
            sizes.add_many(alike.bytes.into(), tally.ios);
            place.0 += tally.ios;
            place.1 += tally.sequential;
            place.2 += tally.multi_stream;
        }
    }
    map.insert("operations".into(), operations(stats, &letters));
    map.insert("size_bytes".into(), sizes(&mut bytes));
    map.insert("sequentiality".into(), shares(places));
}

/// Returns what is known of a stretch of time since the first issue beside its amounts: composition, latency and depth.
pub(crate) fn members(
    stats: &Stats,
    stretch: &Range<u64>,
    yardstick: Option<&Yardstick>,
) -> Map<String, Value> {
    let mut map = Map::new();
    composed(stats, stretch, &mut map);
    let found = latencies(stats, std::slice::from_ref(stretch)).pop();
    waiting(stats, found, stretch, &mut map);
    limited(stats, stretch, yardstick, &mut map);
    map
}

/// Returns from when to when the requests of each phase were under way: phases are found in bins, and their ends and rates are those of
/// their requests. Between them it is idle.
fn exact(stats: &Stats, phases: &[phases::Phase]) -> Vec<Range<u64>> {
    let edges: Vec<Option<Range<u64>>> = phases
        .iter()
        .map(|p| edges(stats, &(p.start_ns..p.end_ns)))
        .collect();
    // Requests beside which others make a phase idle are under way at times of their own, too.
    let at_work = |at: usize| {
        let phase = phases.get(at)?;
        let is_idle = phase.label == phases::Label::Idle && !is_enough(phase);
        edges.get(at)?.clone().filter(|_| !is_idle)
    };
    let of = |(at, phase): (usize, &phases::Phase)| {
        at_work(at).unwrap_or_else(|| {
            let before = at.checked_sub(1).and_then(&at_work);
            let start = before.map_or(phase.start_ns, |of| of.end);
            let next = edges.get(at + 1).and_then(Clone::clone);
            let end = next.map_or(phase.end_ns, |of| of.start);
            start..end.max(start)
        })
    };
    phases.iter().enumerate().map(of).collect()
}

/// Returns `true` if a phase has enough requests to be judged.
fn is_enough(phase: &phases::Phase) -> bool {
    phase.read.ios + phase.write.ios >= crate::limit::LEAST
}

/// Returns the phases without those in which nothing was issued while requests were in flight all the time, but for less than a bin: the device
/// is at work, and the phase before goes on until they complete. If the next one is of its kind, both are one.
fn without_gaps_in_flight(
    stats: &Stats,
    phases: Vec<phases::Phase>,
    bin_ns: u64,
) -> Vec<phases::Phase> {
    let spans = exact(stats, &phases);
    let mut kept: Vec<phases::Phase> = Vec::with_capacity(phases.len());
    let mut is_open = false;
    for (phase, span) in phases.into_iter().zip(spans) {
        let is_silent = phase.read.ios + phase.write.ios == 0;
        let length_ns = span.end.saturating_sub(span.start);
        let is_gap = phase.label == phases::Label::Idle
            && (length_ns == 0 || is_silent && length_ns < bin_ns);
        match kept.last_mut() {
            Some(last) if is_gap || is_open && last.label == phase.label => last.join(&phase),
            _ => kept.push(phase),
        }
        is_open = is_gap;
    }
    kept
}

/// Returns the phases found in the traffic, and in what a GPU did meanwhile, where that is known.
pub(super) fn detected(stats: &Stats, gpu: &[GpuSpan], yardstick: Option<&Yardstick>) -> Value {
    let mut found = phases::of(&stats.traffic, gpu);
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    found.phases = without_gaps_in_flight(stats, std::mem::take(&mut found.phases), found.bin_ns);
    let stretches: Vec<Range<u64>> = found.phases.iter().map(|p| p.start_ns..p.end_ns).collect();
    let mut latencies = latencies(stats, &stretches).into_iter();
    let exact = exact(stats, &found.phases);
    let mut phases: Vec<Value> = found
        .phases
        .iter()
        .zip(exact)
        .map(|(p, exact)| {
            let bins = p.start_ns..p.end_ns;
            let length_ns = exact.end - exact.start;
            let mut map = traffic(p.read, p.write, length_ns);
            map.insert("label".into(), p.label.name().into());
            // The bins say which requests are of the phase, the other two when these were under way.
            let absolute = |since: u64| Value::from(first.saturating_add(since));
            map.insert("start_ns".into(), absolute(bins.start));
            map.insert("end_ns".into(), absolute(bins.end));
            map.insert("active_from_ns".into(), absolute(exact.start));
            map.insert("active_until_ns".into(), absolute(exact.end));
            composed(stats, &bins, &mut map);
            waiting(stats, latencies.next(), &exact, &mut map);
            limited(stats, &bins, yardstick, &mut map);
            map.into()
        })
        .collect();
    phase_yardsticks::compare(&mut phases, None, first);
    json!({
        "method": "optimal partition of the bins, labelled by traffic",
        "with_gpu": found.with_gpu,
        "bin_ns": found.bin_ns,
        "prefill_decode_boundary_ns": found.boundary_ns.map(|(end, start)| [end, start].map(|t| first.saturating_add(t))),
        "compositions_are_exact": stats.composition.as_ref().map(|of| of.is_exact(found.bin_ns)),
        "latencies_are_exact": stats.newest.as_ref().and_then(|p| p.detail.as_ref()).map(|of| of.timeline.is_exact()),
        "phases": phases,
    })
}

/// The phases that were given, in their order.
pub(super) fn given(stats: &mut Stats, yardstick: Option<&Yardstick>, detected: &Value) -> Value {
    let first = stats.traffic.first_issue_ns.unwrap_or(0);
    let mut phases = std::mem::take(&mut stats.given.phases);
    let values = phases
        .iter_mut()
        .map(|phase| given_phase(stats, phase, first, yardstick));
    let mut values: Vec<Value> = values.collect();
    stats.given.phases = phases;
    let others = detected["phases"].as_array().map_or(&[][..], Vec::as_slice);
    phase_yardsticks::compare(&mut values, Some(others), first);
    values.into()
}

fn given_phase(
    stats: &Stats,
    phase: &mut UserPhase,
    first: u64,
    yardstick: Option<&Yardstick>,
) -> Value {
    let named = &phase.named;
    // What lies beyond the trace was not recorded, and is no time without traffic.
    let covered_ns = named.end_ns.min(stats.traffic.length_ns());
    let length_ns = covered_ns.saturating_sub(named.start_ns);
    let mut amounts = [Amount::default(); 2];
    for (number, amount) in &phase.operations {
        let rwbs = stats.outcome.symbols.rwbs_of(*number);
        let direction = rwbs.map(|rwbs| rwbs.decode().direction);
        if let Some(direction) = direction.filter(|direction| direction.is_data())
            && let Some(sum) = amounts.get_mut(direction.slot())
        {
            sum.add(*amount);
        }
    }
    let [read, write] = amounts;
    let mut map = traffic(read, write, length_ns);
    map.insert("name".into(), named.name.as_str().into());
    let absolute = |since: u64| Value::from(first.saturating_add(since));
    map.insert("start_ns".into(), absolute(named.start_ns));
    map.insert("end_ns".into(), absolute(named.end_ns));
    map.insert("active_until_ns".into(), absolute(covered_ns));
    map.insert("operations".into(), operations(stats, &phase.operations));
    map.insert("size_bytes".into(), sizes(&mut phase.sizes));
    let [read, write, _] = &phase.sequentiality.classes;
    let places = [read, write].map(|class| (class.requests, class.sequential, class.multi_stream));
    map.insert("sequentiality".into(), shares(places));
    let stretch = named.start_ns..named.end_ns;
    let found = latencies(stats, std::slice::from_ref(&stretch)).pop();
    waiting(stats, found, &(named.start_ns..covered_ns), &mut map);
    limited(stats, &stretch, yardstick, &mut map);
    map.into()
}
