//! Parts of a run, paired with those of another.

use std::ops::Range;

use blkio_parser::Stats;
use report::human;
use serde_json::Value;

use super::cause::{Pair, Pairs};
use super::pace::Pace;

/// Requests below which a phase is no part.
const LEAST: u64 = 50;

/// Phases of one kind that only idle time separates.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    label: String,
    /// By the trace's clock.
    stretches: Vec<Range<u64>>,
    bytes: f64,
    time_ns: f64,
}

impl Part {
    fn join(&mut self, other: &Self) {
        self.stretches.extend(other.stretches.iter().cloned());
        self.bytes += other.bytes;
        self.time_ns += other.time_ns;
    }
}

/// Returns the parts of a run in order.
fn parts(document: &Value) -> Vec<Part> {
    let phases = document["phases"]["phases"].as_array();
    let mut found: Vec<Part> = Vec::new();
    for phase in phases.into_iter().flatten() {
        let number = |place: &str| phase.pointer(place).and_then(Value::as_u64).unwrap_or(0);
        let label = phase["label"].as_str().unwrap_or("");
        if label == "idle" || number("/read/ios") + number("/write/ios") < LEAST {
            continue;
        }
        let (start, end) = (number("/start_ns"), number("/end_ns"));
        let active = number("/active_until_ns").saturating_sub(number("/active_from_ns"));
        let bytes = (number("/read/bytes") + number("/write/bytes")) as f64;
        match found.last_mut() {
            Some(last) if last.label == label => {
                if let Some(stretch) = last.stretches.last_mut() {
                    stretch.end = end;
                }
                last.bytes += bytes;
                last.time_ns += active as f64;
            }
            _ => found.push(Part {
                label: label.to_owned(),
                stretches: vec![Range { start, end }],
                bytes,
                time_ns: active as f64,
            }),
        }
    }
    found
}

/// Puts parts of one kind together.
fn by_label(parts: Vec<Part>) -> Vec<Part> {
    let mut found: Vec<Part> = Vec::new();
    for part in parts {
        match found.iter_mut().find(|of| of.label == part.label) {
            Some(same) => same.join(&part),
            None => found.push(part),
        }
    }
    found
}

/// Share of the requests of a direction on both sides from which parts of different kinds are compared.
const COMMON: f64 = 0.1;

/// Pairs the parts of both runs: one after the other where both have the same kinds in the same order, else by kind, and what is
/// left by the direction that both have.
pub(super) fn pair(stats: [&Stats; 2], documents: [&Value; 2]) -> Pairs {
    let mut found = Pairs {
        span_ns: documents.map(|document| {
            let span = document.pointer("/extra/mean_rates/span_s");
            span.and_then(Value::as_f64).unwrap_or(0.0) * 1e9
        }),
        ..Pairs::default()
    };
    let is_completed = |stats: &Stats| stats.traffic.completions > 0;
    if !stats.iter().all(|of| is_completed(of)) {
        found.reason = Some(
            "Cannot say why the runs differ: completions are missing. Record issues and completions (blkio collect)."
                .to_owned(),
        );
        return found;
    }
    let mut sides = documents.map(parts);
    let labels = |of: &[Part]| of.iter().map(|of| of.label.clone()).collect::<Vec<_>>();
    let is_alike = labels(&sides[0]) == labels(&sides[1]);
    if !is_alike {
        sides = sides.map(by_label);
    }
    if let Some(side) = sides.iter().position(Vec::is_empty) {
        let name = if side == 0 { "A" } else { "B" };
        found.reason = Some(format!(
            "Cannot say why the runs differ: no part of {name} has {LEAST} requests or more."
        ));
        return found;
    }
    let [mut a, mut b] = sides;
    let mut add = |label: &str, x: &Part, y: &Part| -> bool {
        let paces = (
            Pace::of(stats[0], &x.stretches),
            Pace::of(stats[1], &y.stretches),
        );
        let (Some(of_a), Some(of_b)) = paces else {
            return false;
        };
        found
            .pairs
            .push(Pair::new(label, of_a, of_b, [x.bytes, y.bytes]));
        true
    };
    if is_alike {
        let count = a.len();
        for (number, (x, y)) in a.drain(..).zip(b.drain(..)).enumerate() {
            let label = match count {
                1 | 2 => x.label.clone(),
                _ => format!("{} (number {})", x.label, number + 1),
            };
            add(&label, &x, &y);
        }
    } else {
        let mut rest = Vec::new();
        for x in a.drain(..) {
            match b.iter().position(|y| y.label == x.label) {
                Some(at) => {
                    let y = b.remove(at);
                    add(&x.label, &x, &y);
                }
                None => rest.push(x),
            }
        }
        a = rest;
        let whole = |parts: &[Part]| {
            let mut all = parts.iter();
            let mut sum = all.next()?.clone();
            all.for_each(|part| sum.join(part));
            Some(sum)
        };
        if let (Some(x), Some(y)) = (whole(&a), whole(&b))
            && has_common(stats, &x, &y)
            && add("mixed", &x, &y)
        {
            a.clear();
            b.clear();
        }
    }
    for (side, parts) in [a, b].into_iter().enumerate() {
        let alone = parts
            .into_iter()
            .map(|part| (side, part.label, part.time_ns));
        found.alone.extend(alone);
    }
    if found.pairs.is_empty() {
        let of = |side: usize| {
            let parts = found.alone.iter().filter(|of| of.0 == side);
            parts
                .map(|(_, label, ns)| {
                    format!("{label} ({})", human::quantity(*ns, report::Unit::Nanos))
                })
                .collect::<Vec<_>>()
                .join(", ")
        };
        found.reason = Some(format!(
            "The runs do different things, and nothing of one compares with anything of the other: A is {}, B is {}.",
            of(0),
            of(1)
        ));
    }
    found
}

/// Returns `true` if both have enough requests of one direction.
fn has_common(stats: [&Stats; 2], a: &Part, b: &Part) -> bool {
    let shares = [(stats[0], a), (stats[1], b)]
        .map(|(stats, part)| Pace::of(stats, &part.stretches).map(|of| of.write_share()));
    let [Some(a), Some(b)] = shares else {
        return false;
    };
    let is_enough = |share: f64| share >= COMMON;
    is_enough(a.min(b)) || is_enough(1.0 - a.max(b))
}
