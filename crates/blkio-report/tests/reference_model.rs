//! The measures of made-up traces, once more by their definitions: slow, plain, with nothing of the library's algorithms.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    reason = "a test stops where something is not as it should be, and its own numbers are small"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use blkio_parser::{Stats, StatsOptions};
use blkio_report::document::{self, DocumentOptions};
use serde_json::{Map, Value, json};

const SECOND: u64 = 1_000_000_000;
const STALE: u64 = 5 * SECOND;

#[derive(Debug, Clone, Copy, PartialEq)]
struct Event {
    t: u64,
    done: bool,
    op: &'static str,
    sector: u64,
    nr: u64,
    minor: u64,
}

impl Event {
    fn direction(&self) -> &'static str {
        match self.op {
            "R" | "RA" | "RS" => "read",
            "W" | "WS" | "FWFSM" => "write",
            "D" => "discard",
            "FF" => "flush",
            "NS" => "none",
            "ZR" => "zone",
            other => panic!("{other}"),
        }
    }

    fn is_data(&self) -> bool {
        matches!(self.direction(), "read" | "write")
    }

    fn line(&self) -> String {
        let kind = if self.done { 'C' } else { 'I' };
        let bytes = self.nr * 512;
        format!(
            "{kind}, {}, 1, 259, {}, {}, {bytes}, {}, {}, 0, 7, a, b\n",
            self.t, self.minor, self.op, self.sector, self.nr
        )
    }
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) % limit
    }

    fn pick<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.below(of.len() as u64) as usize]
    }
}

/// Requests of every kind: streams, strides, anywhere, off the grid, far out, of no bytes; completions that are lost, come
/// in parts, end sequences, come for nothing, or come too late.
fn generate(random: &mut Random, requests: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut streams = [4096_u64, 1 << 20, 5_000_000_000];
    let mut now = 7 * SECOND + random.below(SECOND);
    for number in 0..requests {
        now += match random.below(40) {
            0 => SECOND / 10 - 1 + random.below(3),
            1 => random.below(2 * SECOND),
            2 if number % 50 == 0 => STALE + random.below(SECOND),
            3..8 => 0,
            _ => random.below(300_000),
        };
        let op = random.pick(&[
            "R", "RA", "RA", "RS", "W", "W", "WS", "FWFSM", "D", "FF", "NS", "ZR",
        ]);
        let mut nr = random.pick(&[8, 8, 16, 256, 256, 2560, 1, 3]);
        let mut sector = match random.below(6) {
            0..3 => {
                let stream = &mut streams[random.below(3) as usize];
                *stream += nr;
                *stream - nr
            }
            3 => random.below(200) * 4096,
            4 => random.below(5000),
            _ => (1 << 33) + random.below(1 << 22),
        };
        if op == "FF" || op == "NS" && random.below(3) == 0 {
            (sector, nr) = (0, 0);
        }
        let minor = random.below(2);
        let issue = Event {
            t: now,
            done: false,
            op,
            sector,
            nr,
            minor,
        };
        events.push(issue);
        let t = now
            + random.pick(&[0, 90_000, 1_000_000, 40_000_000, STALE, STALE + 1])
            + random.below(50_000);
        let done = Event {
            t,
            done: true,
            ..issue
        };
        match random.below(12) {
            0 => {}
            1 if nr > 1 => {
                let first = 1 + random.below(nr - 1);
                events.push(Event { nr: first, ..done });
                let rest = Event {
                    sector: sector + first,
                    nr: nr - first,
                    ..done
                };
                events.push(Event {
                    t: t + random.below(1000),
                    ..rest
                });
            }
            2 if op == "FWFSM" => {
                events.push(done);
                events.push(Event {
                    t: t + 5,
                    nr: 0,
                    ..done
                });
            }
            3 => events.push(Event {
                sector: sector + 7_777_777,
                ..done
            }),
            _ if op == "FF" => events.push(Event {
                sector: u64::MAX,
                ..done
            }),
            _ => events.push(done),
        }
    }
    events
}

/// Requests of a handful of places, most of which hold several of different sizes at once; completed whole, in parts that
/// may stop anywhere, or not at all.
fn generate_in_one_place(random: &mut Random, requests: u64) -> Vec<Event> {
    let mut events = Vec::new();
    let mut now = SECOND;
    for _ in 0..requests {
        now += random.pick(&[0, 1000, 20_000, 20_000, 300_000]);
        let (mut sector, mut nr) = (8 * random.below(5), 8 * (1 + random.below(5)));
        let issue = Event {
            t: now,
            done: false,
            op: random.pick(&["R", "W"]),
            sector,
            nr,
            minor: random.below(2),
        };
        events.push(issue);
        let mut t = now + random.pick(&[0, 50_000, 200_000, STALE]);
        while nr > 0 && random.below(8) > 0 {
            t += random.below(100_000);
            let part = nr.min(random.pick(&[8, 8, 16, nr]));
            events.push(Event {
                t,
                done: true,
                sector,
                nr: part,
                ..issue
            });
            (sector, nr) = (sector + part, nr - part);
        }
    }
    events
}

/// Lines in the order of time, except that some come up to half a second late.
fn lines(random: &mut Random, events: &[Event]) -> Vec<Event> {
    let mut keyed: Vec<(u64, Event)> = events
        .iter()
        .map(|event| {
            let late = if random.below(4) == 0 {
                random.below(SECOND / 2)
            } else {
                0
            };
            (event.t + late, *event)
        })
        .collect();
    keyed.sort_by_key(|(t, _)| *t);
    keyed.into_iter().map(|(_, event)| event).collect()
}

fn percentile(sorted: &[u64], p: f64) -> Option<u64> {
    let rank = (p / 100.0 * sorted.len() as f64).ceil().max(1.0);
    #[expect(clippy::cast_sign_loss, reason = "at least 1")]
    sorted.get(rank as usize - 1).copied()
}

fn keyed<K: ToString + Ord, V: Into<Value> + Clone>(map: &BTreeMap<K, V>) -> Value {
    let pairs = map.iter().map(|(k, v)| (k.to_string(), v.clone().into()));
    Value::Object(pairs.collect())
}

fn mean(values: &[u64]) -> Value {
    let sum: u128 = values.iter().map(|v| u128::from(*v)).sum();
    json!((!values.is_empty()).then(|| sum as f64 / values.len() as f64))
}

fn sequentiality(requests: &[&Event]) -> Value {
    let (mut sequential, mut forward, mut backward, mut near, mut multi) = (0, 0, 0, 0, 0);
    let mut runs = Vec::new();
    let mut open: BTreeMap<u64, usize> = BTreeMap::new();
    let mut seeks = Vec::new();
    let mut strides: BTreeMap<i64, u64> = BTreeMap::new();
    for (at, request) in requests.iter().enumerate() {
        // Each device has places of its own.
        let same = |e: &&&Event| e.minor == request.minor;
        let mut recent = requests[..at].iter().rev().filter(same);
        let before = recent.clone().next();
        multi += u64::from(
            recent
                .by_ref()
                .take(32)
                .any(|e| e.sector + e.nr == request.sector),
        );
        let Some(before) = before else {
            open.insert(request.minor, runs.len());
            runs.push(1_u64);
            continue;
        };
        let seek = request.sector as i64 - (before.sector + before.nr) as i64;
        sequential += u64::from(seek == 0);
        forward += u64::from(seek > 0);
        backward += u64::from(seek < 0);
        near += u64::from(seek.abs() <= 2048);
        seeks.push(seek.unsigned_abs());
        *strides
            .entry(request.sector as i64 - before.sector as i64)
            .or_default() += 1;
        if seek == 0 {
            runs[open[&request.minor]] += 1;
        } else {
            open.insert(request.minor, runs.len());
            runs.push(1);
        }
    }
    seeks.sort_unstable();
    let mut top: Vec<(i64, u64)> = strides.into_iter().collect();
    top.sort_by_key(|(stride, count)| (std::cmp::Reverse(*count), *stride));
    top.truncate(5);
    json!({
        "requests": requests.len(),
        "sequential": sequential,
        "forward": forward,
        "backward": backward,
        "near_1mib": near,
        "multi_stream_32": multi,
        "runs": runs.len(),
        "longest_run": runs.iter().max().unwrap_or(&0),
        "abs_seek_sectors_p50": percentile(&seeks, 50.0),
        "abs_seek_sectors_sum": seeks.iter().sum::<u64>(),
        "top_strides": top,
    })
}

fn reuse(data: &[&Event]) -> Value {
    let touches: Vec<(u64, u64)> = data
        .iter()
        .flat_map(|e| (e.sector / 256..=(e.sector + e.nr - 1) / 256).map(|block| (e.minor, block)))
        .collect();
    let mut distances = Vec::new();
    for (at, block) in touches.iter().enumerate() {
        if let Some(before) = touches[..at].iter().rposition(|b| b == block) {
            let between: BTreeSet<(u64, u64)> = touches[before + 1..at].iter().copied().collect();
            distances.push(between.len() as u64);
        }
    }
    let mut histogram: BTreeMap<u32, u64> = BTreeMap::new();
    for distance in &distances {
        *histogram.entry(64 - distance.leading_zeros()).or_default() += 1;
    }
    distances.sort_unstable();
    json!({
        "accesses": touches.len(),
        "cold": touches.len() - distances.len(),
        "log2_histogram": keyed(&histogram),
        "p50": percentile(&distances, 50.0),
        "max": distances.last(),
    })
}

/// Where a request is looked for: device, and sector or what stands for it.
fn place(event: &Event) -> (u64, &'static str, u64) {
    match event.direction() {
        "flush" => (event.minor, "flush", 0),
        "none" if event.nr == 0 => (event.minor, "none", 0),
        _ => (event.minor, "", event.sector),
    }
}

/// Place and sectors left of a request at the driver, the event of its issue, and which event that was.
type Open<'e> = ((u64, &'e str, u64), u64, &'e Event, usize);

/// A request with its completion.
#[derive(Debug, Clone, Copy)]
struct Pair {
    issued: u64,
    done: u64,
    direction: &'static str,
    bytes: u64,
}

/// What happened how often, and the pairs in the order of completion.
fn paired(events: &[Event], newest: bool) -> (BTreeMap<&'static str, u64>, Vec<Pair>) {
    // By place and size: requests that were replaced, and completions that found none.
    let mut contested: BTreeMap<_, [u64; 2]> = BTreeMap::new();
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut counts: BTreeMap<&str, u64> = BTreeMap::new();
    let mut pairs = Vec::new();
    // Replaced requests, and until when a completion may be of them: sixteen latencies of the newer one.
    let mut superseded: Vec<(Open<'_>, u64)> = Vec::new();
    let mut lost = 0;
    for (number, event) in events.iter().enumerate() {
        let at = place(event);
        let mut count = |key| *counts.entry(key).or_default() += 1;
        if !event.done {
            let same = |o: &Open<'_>| o.0 == at && o.1 == event.nr;
            if open.iter().any(same) {
                count("issues_with_same_key_outstanding");
            }
            while newest && let Some(old) = open.iter().position(same) {
                superseded.push((open.remove(old), 0));
                contested.entry((at, event.nr)).or_default()[0] += 1;
            }
            open.push((at, event.nr, event, number));
            continue;
        }
        if event.nr == 0 && at.1.is_empty() {
            count("sequence_end_completions");
            continue;
        }
        // What is too old to complete at all, then what is too old to complete in part.
        for in_part in [false, true] {
            let has_exact = open.iter().any(|o| o.0 == at && o.1 == event.nr);
            open.retain(|o| {
                let is_meant = o.1 == event.nr || in_part && !has_exact && o.1 > event.nr;
                let is_stale = o.0 == at && is_meant && event.t - o.2.t > STALE;
                if is_stale {
                    *counts.entry("stale_dropped").or_default() += 1;
                }
                !is_stale
            });
        }
        let mut count = |key| *counts.entry(key).or_default() += 1;
        // The one issued last, or first.
        open.sort_by_key(|o| if newest { usize::MAX - o.3 } else { o.3 });
        let exact = open.iter().position(|o| o.0 == at && o.1 == event.nr);
        let larger = open.iter().position(|o| o.0 == at && o.1 > event.nr);
        match (exact, larger) {
            (Some(exact), _) => {
                let (_, _, issue, _) = open.remove(exact);
                let patience = 16 * (event.t - issue.t);
                superseded.retain_mut(|(o, until)| {
                    let is_here = o.0 == at && o.1 == event.nr;
                    let is_lost = is_here && o.2.t < event.t.saturating_sub(patience);
                    if is_here {
                        *until = event.t + patience;
                    }
                    lost += u64::from(is_lost);
                    !is_lost
                });
                pairs.push(Pair {
                    issued: issue.t,
                    done: event.t,
                    direction: issue.direction(),
                    bytes: issue.nr * 512,
                });
            }
            (None, Some(larger)) => {
                count("partial_completions");
                let (_, nr, issue, number) = open.remove(larger);
                let rest = (event.minor, "", event.sector + event.nr);
                open.push((rest, nr - event.nr, issue, number));
            }
            (None, None) => {
                let of = |s: &(Open<'_>, u64)| s.0.0 == at && s.0.1 == event.nr;
                if let Some(place) = contested.get_mut(&(at, event.nr)) {
                    place[1] += 1;
                }
                match superseded.iter().rposition(of) {
                    Some(old) if superseded[old].1 >= event.t => {
                        let ((_, _, issue, _), _) = superseded.remove(old);
                        pairs.push(Pair {
                            issued: issue.t,
                            done: event.t,
                            direction: issue.direction(),
                            bytes: issue.nr * 512,
                        });
                    }
                    found => {
                        // What has not completed by now is lost.
                        if found.is_some() {
                            lost += superseded.iter().filter(|s| of(s)).count() as u64;
                            superseded.retain(|s| !of(s));
                        }
                        count("unmatched_completions");
                    }
                }
            }
        }
    }
    lost += superseded.len() as u64;
    // Nothing was lost where as many completions as requests were left over: requests of one place complete in order.
    let replaced: u64 = contested.values().map(|of| of[0]).sum();
    let missing: u64 = contested
        .values()
        .map(|of| of[0].saturating_sub(of[1]))
        .sum();
    if replaced > 0 && missing * 20 <= replaced {
        return paired(events, false);
    }
    if lost > 0 {
        counts.insert("superseded_issues", lost);
    }
    (counts, pairs)
}

fn pairing(events: &[Event], newest: bool) -> Value {
    let (counts, pairs) = paired(events, newest);
    let issues = events.iter().filter(|e| !e.done).count();
    let mut matching: Map<String, Value> = counts
        .iter()
        .map(|(k, v)| ((*k).to_owned(), json!(v)))
        .collect();
    matching.insert("pairs".into(), pairs.len().into());
    matching.insert("unmatched_issues".into(), (issues - pairs.len()).into());
    let mut latencies = Map::new();
    for direction in ["read", "write", "flush", "discard"] {
        let of = pairs.iter().filter(|p| p.direction == direction);
        let mut values: Vec<u64> = of.map(|p| p.done - p.issued).collect();
        values.sort_unstable();
        if values.is_empty() {
            continue;
        }
        let mut histogram: BTreeMap<u32, u64> = BTreeMap::new();
        for value in &values {
            *histogram
                .entry(64 - (value / 1000).leading_zeros())
                .or_default() += 1;
        }
        let mut map = Map::new();
        for p in ["50", "90", "95", "99", "99.9"] {
            map.insert(
                format!("p{p}"),
                json!(percentile(&values, p.parse().unwrap())),
            );
        }
        map.insert("count".into(), values.len().into());
        map.insert("min".into(), json!(values.first()));
        map.insert("max".into(), json!(values.last()));
        map.insert("mean".into(), mean(&values));
        map.insert("log2_us_histogram".into(), keyed(&histogram));
        latencies.insert(direction.into(), map.into());
    }
    json!({"matching": matching, "latency_ns": latencies, "queue_depth": depth(&pairs)})
}

/// q(t) = pairs with issue <= t < completion.
fn depth(pairs: &[Pair]) -> Value {
    let times: BTreeSet<u64> = pairs.iter().flat_map(|p| [p.issued, p.done]).collect();
    let times: Vec<u64> = times.into_iter().collect();
    let (mut busy, mut integral) = (0, 0_u128);
    for window in times.windows(2) {
        let q = pairs
            .iter()
            .filter(|p| p.issued <= window[0] && window[0] < p.done)
            .count();
        let lasted = window[1] - window[0];
        busy += if q > 0 { lasted } else { 0 };
        integral += q as u128 * u128::from(lasted);
    }
    let span = times.last().unwrap_or(&0) - times.first().unwrap_or(&0);
    json!({
        "time_weighted_mean": (span > 0).then(|| integral as f64 / span as f64),
        "busy_ns": busy,
        "span_ns": span,
    })
}

fn model(events: &[Event]) -> Value {
    let mut events = events.to_vec();
    events.sort_by_key(|e| (e.t, e.done));
    let issues: Vec<&Event> = events.iter().filter(|e| !e.done).collect();
    let (first, last) = (issues[0].t, issues[issues.len() - 1].t);
    let data: Vec<&Event> = issues
        .iter()
        .copied()
        .filter(|e| e.is_data() && e.nr > 0)
        .collect();
    let of = |direction: &str| -> Vec<&Event> {
        issues
            .iter()
            .copied()
            .filter(|e| e.direction() == direction)
            .collect()
    };
    let (mut totals, mut sizes, mut seconds) = (Map::new(), Map::new(), Map::new());
    for direction in ["read", "write", "discard", "flush", "none", "zone"] {
        let of = of(direction);
        let mut histogram: BTreeMap<u64, u64> = BTreeMap::new();
        of.iter()
            .for_each(|e| *histogram.entry(e.nr * 512).or_default() += 1);
        if !of.is_empty() {
            let bytes: u64 = of.iter().map(|e| e.nr * 512).sum();
            totals.insert(direction.into(), json!({"ios": of.len(), "bytes": bytes}));
            sizes.insert(direction.into(), keyed(&histogram));
        }
        if matches!(direction, "read" | "write") {
            let length = (last - first) / SECOND + 1;
            let in_second = |s: u64| of.iter().filter(move |e| (e.t - first) / SECOND == s);
            let ios: Vec<usize> = (0..length).map(|s| in_second(s).count()).collect();
            let bytes: Vec<u64> = (0..length)
                .map(|s| in_second(s).map(|e| e.nr * 512).sum())
                .collect();
            seconds.insert(direction.into(), json!({"ios": ios, "bytes": bytes}));
        }
    }
    let mut gaps: Vec<u64> = issues.windows(2).map(|w| w[1].t - w[0].t).collect();
    let mut bursts: Vec<Vec<&Event>> = vec![vec![issues[0]]];
    for (event, gap) in issues[1..].iter().zip(&gaps) {
        if *gap >= SECOND / 10 {
            bursts.push(Vec::new());
        }
        bursts.last_mut().unwrap().push(event);
    }
    gaps.sort_unstable();
    let burst = |b: &Vec<&Event>| {
        let bytes: u64 = b.iter().filter(|e| e.is_data()).map(|e| e.nr * 512).sum();
        json!({"start_ns": b[0].t, "end_ns": b[b.len() - 1].t, "ios": b.len(), "bytes": bytes})
    };
    let blocks = |direction: &str| -> BTreeSet<(u64, u64)> {
        let of = data.iter().filter(|e| e.direction() == direction);
        of.flat_map(|e| (e.sector / 8..=(e.sector + e.nr - 1) / 8).map(|block| (e.minor, block)))
            .collect()
    };
    let (read, write) = (blocks("read"), blocks("write"));
    let mut heat: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for event in &data {
        for sector in event.sector..event.sector + event.nr {
            *heat
                .entry((sector / (1 << 17), (event.t - first) / SECOND))
                .or_default() += 512;
        }
    }
    let class = |direction: &str| -> Vec<&Event> {
        data.iter()
            .copied()
            .filter(|e| e.direction() == direction)
            .collect()
    };
    let mut found = json!({
        "lines_not_events": 0,
        "issues": issues.len(),
        "completions": events.len() - issues.len(),
        "errors": 0,
        "first_issue_ns": first,
        "last_issue_ns": last,
        "totals": totals,
        "per_second_from_first_issue": seconds,
        "size_histogram_bytes": sizes,
        "sequentiality": {
            "read": sequentiality(&class("read")),
            "write": sequentiality(&class("write")),
            "all": sequentiality(&data),
        },
        "interarrival_ns": {
            "p50": percentile(&gaps, 50.0), "p99": percentile(&gaps, 99.0),
            "max": gaps.last(), "mean": mean(&gaps),
        },
        "bursts_gap_100ms": {
            "count": bursts.len(),
            "first": bursts.iter().take(20).map(burst).collect::<Vec<_>>(),
        },
        "working_set_4k_blocks": {
            "read": read.len(), "write": write.len(),
            "both": read.intersection(&write).count(), "union": read.union(&write).count(),
        },
        "reuse_distance_128k_blocks": reuse(&data),
        "heatmap_64mib_1s_bytes": heat.iter().map(|((a, t), b)| json!([a, t, b])).collect::<Vec<_>>(),
        "pairing_fifo": pairing(&events, false),
        "pairing_newest": pairing(&events, true),
    });
    if devices(&events).len() > 1 {
        found
            .as_object_mut()
            .unwrap()
            .remove("heatmap_64mib_1s_bytes");
    }
    found
}

fn devices(events: &[Event]) -> BTreeSet<u64> {
    events.iter().map(|e| e.minor).collect()
}

/// Sectors by access count, of one text of operation letters.
fn access(events: &[Event], op: &str) -> BTreeMap<u64, u64> {
    let mut sectors: BTreeMap<(u64, u64), u64> = BTreeMap::new();
    for event in events.iter().filter(|e| !e.done && e.op == op) {
        let range = event.sector..event.sector + event.nr;
        range.for_each(|s| *sectors.entry((event.minor, s)).or_default() += 1);
    }
    let mut histogram = BTreeMap::new();
    sectors
        .values()
        .for_each(|count| *histogram.entry(*count).or_default() += 1);
    histogram
}

/// Where `found` differs from `wanted`: integers exactly, reals to 1e-9.
fn differences(at: &str, wanted: &Value, found: &Value, out: &mut String) {
    match (wanted, found) {
        (Value::Object(a), Value::Object(b)) => {
            for key in a.keys().chain(b.keys()).collect::<BTreeSet<_>>() {
                // Both count these in the order of events, which q(t) leaves open at equal times.
                if matches!(key.as_str(), "max" | "at_issue_histogram")
                    && at.ends_with("queue_depth")
                {
                    continue;
                }
                let value =
                    |map: &Map<String, Value>| map.get(key).cloned().unwrap_or(json!("missing"));
                differences(&format!("{at}.{key}"), &value(a), &value(b), out);
            }
        }
        (Value::Number(a), Value::Number(b)) if a.is_f64() && b.is_f64() => {
            let (a, b) = (a.as_f64().unwrap(), b.as_f64().unwrap());
            if (a - b).abs() > 1e-9 * a.abs() {
                writeln!(out, "{at}: {a} is {b}").unwrap();
            }
        }
        (a, b) if a == b => {}
        (a, b) => writeln!(out, "{at}: {a} is {b}").unwrap(),
    }
}

#[test]
fn made_up_traces_have_the_measures_of_the_definitions() {
    let dir = tempfile::TempDir::new().unwrap();
    for seed in 1..=16_u64 {
        let mut random = Random(0x9e37_79b9_7f4a_7c15 ^ seed);
        let requests = 1 + random.below(500);
        let events = generate(&mut random, requests);
        let lines = lines(&mut random, &events);
        let text: String = lines.iter().map(Event::line).collect();
        let path = dir.path().join("events.txt");
        std::fs::write(&path, text).unwrap();
        let wanted = model(&lines);
        for threads in [1, 2, 3] {
            let mut options = StatsOptions::default();
            options.read.threads = threads;
            options.read.format = Some(blkio_parser::Format::Collector);
            let mut stats = Stats::of_files(std::slice::from_ref(&path), &options).unwrap();
            let found = document::stats(&mut stats, &DocumentOptions::default());
            let mut wrong = String::new();
            differences("", &wanted, &found["metrics"], &mut wrong);
            for op in lines
                .iter()
                .filter(|e| !e.done)
                .map(|e| e.op)
                .collect::<BTreeSet<_>>()
            {
                let found = &found["series"]["sector_access_count"][op];
                differences(op, &keyed(&access(&lines, op)), found, &mut wrong);
            }
            // What is said of a device is what is said of a trace of that device alone.
            for of in found["devices"].as_array().into_iter().flatten() {
                let name = of["device"].as_str().unwrap();
                let alone = |e: &&Event| name == format!("259:{}", e.minor);
                let alone: Vec<Event> = lines.iter().filter(alone).copied().collect();
                if alone.iter().any(|e| !e.done) {
                    let mut wanted = model(&alone);
                    // Completions of nothing that was issued have no measures.
                    if wanted["completions"] == 0 {
                        continue;
                    }
                    wanted
                        .as_object_mut()
                        .unwrap()
                        .retain(|key, _| !key.starts_with("heatmap"));
                    let mut of = of["metrics"].clone();
                    of.as_object_mut()
                        .unwrap()
                        .retain(|key, _| !key.starts_with("heatmap") && key != "lines_not_events");
                    wanted.as_object_mut().unwrap().remove("lines_not_events");
                    differences(name, &wanted, &of, &mut wrong);
                }
            }
            let several = devices(&lines).len();
            assert_eq!(
                found["devices"].as_array().map_or(0, Vec::len),
                if several > 1 { several } else { 0 }
            );
            assert!(wrong.is_empty(), "seed {seed}, {threads} threads:\n{wrong}");
        }
    }
}

#[test]
fn crowded_places_are_paired_as_the_policies_say() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("events.txt");
    let mut parts = 0;
    for seed in 1..=40_u64 {
        let mut random = Random(0xd1b5_4a32_d192_ed03 ^ seed);
        let requests = 5 + random.below(150);
        let mut events = generate_in_one_place(&mut random, requests);
        events.sort_by_key(|e| (e.t, e.done));
        let text: String = events.iter().map(Event::line).collect();
        std::fs::write(&path, text).unwrap();
        let mut options = StatsOptions::default();
        options.read.format = Some(blkio_parser::Format::Collector);
        let mut stats = Stats::of_files(std::slice::from_ref(&path), &options).unwrap();
        let found = document::stats(&mut stats, &DocumentOptions::default());
        let mut wrong = String::new();
        for (key, newest) in [("pairing_fifo", false), ("pairing_newest", true)] {
            let wanted = pairing(&events, newest);
            parts += wanted["matching"]["partial_completions"]
                .as_u64()
                .unwrap_or(0);
            differences(key, &wanted, &found["metrics"][key], &mut wrong);
        }
        assert!(wrong.is_empty(), "seed {seed}:\n{wrong}");
    }
    assert!(parts > 500, "{parts}");
}

/// The series by bins of this width that begin at `begin`: issued, completed, spread over the time in flight; latency and
/// depth by bin.
fn series(events: &[Event], width: u64, begin: u64) -> Value {
    let bin = |t: u64| t.saturating_sub(begin) / width;
    let counted = |done: bool| {
        let of = || events.iter().filter(move |e| e.done == done);
        let last = of().map(|e| e.t).max().unwrap();
        let mut map = Map::new();
        for direction in ["read", "write", "discard", "flush", "none", "zone", "other"] {
            let is_data = matches!(direction, "read" | "write");
            let mut bins = vec![(0_u64, 0_u64); bin(last) as usize + 1];
            // A flush sequence ends without moving data.
            let counts = |e: &Event| e.direction() == direction && !(is_data && done && e.nr == 0);
            if !is_data && !of().any(counts) {
                continue;
            }
            for event in of().filter(|e| counts(e)) {
                let (ios, bytes) = &mut bins[bin(event.t) as usize];
                *ios += 1;
                *bytes += event.nr * 512;
            }
            let (ios, bytes): (Vec<u64>, Vec<u64>) = bins.into_iter().unzip();
            // The first of the fullest among those that have a request.
            let peak = |name: &str, values: &[u64]| {
                let known = values.iter().enumerate().filter(|(at, _)| ios[*at] > 0);
                let most = known.clone().map(|(_, value)| value).max()?;
                let (at, value) = known.clone().find(|(_, value)| *value == most)?;
                Some(json!({"bin": at, name: value}))
            };
            let value = json!({
                "ios": ios, "bytes": bytes,
                "peak_bytes": peak("bytes", &bytes), "peak_ios": peak("ios", &ios),
            });
            map.insert(direction.into(), value);
        }
        map.insert("bin_ns".into(), width.into());
        map.insert("first_bin_starts_ns".into(), begin.into());
        map.insert("last_bin_lasts_ns".into(), ((last - begin) % width).into());
        Value::Object(map)
    };
    let (_, pairs) = paired(events, true);
    let last = pairs.iter().map(|p| p.done).max().unwrap();
    let mut spread = json!({
        "bin_ns": width, "first_bin_starts_ns": begin, "last_bin_lasts_ns": (last - begin) % width,
    });
    for direction in ["read", "write"] {
        let mut bins = vec![0_u64; bin(last) as usize + 1];
        for pair in pairs.iter().filter(|p| p.direction == direction) {
            if pair.issued == pair.done {
                bins[bin(pair.issued) as usize] += pair.bytes;
                continue;
            }
            let passed_at = |t: u64| {
                let part = t.clamp(pair.issued, pair.done) - pair.issued;
                pair.bytes * part / (pair.done - pair.issued)
            };
            for number in bin(pair.issued)..=bin(pair.done) {
                let start = begin + number * width;
                bins[number as usize] += passed_at(start + width) - passed_at(start);
            }
        }
        spread[direction] = json!({"bytes": bins});
    }
    let mut latencies: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    let mut depth: BTreeMap<u64, u64> = BTreeMap::new();
    for pair in &pairs {
        if matches!(pair.direction, "read" | "write") {
            let of = latencies.entry(bin(pair.done)).or_default();
            of.push(pair.done - pair.issued);
        }
        for number in bin(pair.issued)..=bin(pair.done) {
            let start = begin + number * width;
            let (from, until) = (pair.issued.max(start), pair.done.min(start + width));
            if until > from {
                *depth.entry(number).or_default() += until - from;
            }
        }
    }
    let latencies = latencies.iter_mut().map(|(bin, values)| {
        values.sort_unstable();
        json!({
            "bin": bin, "count": values.len(), "max_ns": values.last(),
            "p50_ns": percentile(values, 50.0), "p99_ns": percentile(values, 99.0),
        })
    });
    let depth = depth
        .iter()
        .map(|(bin, sum)| json!({"bin": bin, "mean": *sum as f64 / width as f64}));
    json!({
        "issued": counted(false),
        "completed": counted(true),
        "spread": spread,
        "latency": latencies.collect::<Vec<_>>(),
        "depth": depth.collect::<Vec<_>>(),
    })
}

#[test]
fn series_follow_width_and_anchor_of_the_bins() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("events.txt");
    for seed in 1..=6_u64 {
        let mut random = Random(0xa076_1d64_78bd_642f ^ seed);
        let requests = 30 + random.below(200);
        let mut events = generate(&mut random, requests);
        events.sort_by_key(|e| (e.t, e.done));
        let text: String = events.iter().map(Event::line).collect();
        std::fs::write(&path, text).unwrap();
        let first = events.iter().find(|e| !e.done).unwrap().t;
        for (width, by_clock) in [
            (SECOND, false),
            (SECOND, true),
            (10_000_000, false),
            (7_000_000, true),
        ] {
            let mut options = StatsOptions::default();
            options.read.format = Some(blkio_parser::Format::Collector);
            (options.bin_ns, options.bins_by_clock) = (width, by_clock);
            let mut stats = Stats::of_files(std::slice::from_ref(&path), &options).unwrap();
            let found = document::stats(&mut stats, &DocumentOptions::default());
            let extra = &found["extra"];
            let mut depth = extra["queue_depth"]["by_bin"]["bins"].clone();
            for bin in depth.as_array_mut().unwrap() {
                bin.as_object_mut().unwrap().remove("max");
            }
            let begin = if by_clock {
                first / width * width
            } else {
                first
            };
            let mut wanted = series(&events, width, begin);
            if width == SECOND && !by_clock {
                // By whole seconds of the clock instead.
                wanted["latency"] = Value::Null;
            }
            let found = json!({
                "issued": extra["issued_per_bin"],
                "completed": extra["completed_per_bin"],
                "spread": extra["spread_per_bin"],
                "latency": extra["latency"]["by_bin_of_completion"]["bins"],
                "depth": depth,
            });
            let mut wrong = String::new();
            differences("", &wanted, &found, &mut wrong);
            assert!(wrong.is_empty(), "seed {seed}, {width} ns:\n{wrong}");
        }
    }
}
