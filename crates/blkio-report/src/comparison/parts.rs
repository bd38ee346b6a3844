//! Parts of a run, paired with those of another.
//!
//! Parts are paired by what they are: the direction, size, number and pauses of their requests, and their place in time. Only parts that
//! are alike on both sides are put together, since a change of one of them drowns in the sum of unlike ones.

use std::ops::Range;

use blkio_parser::Stats;
use blkio_parser::analyse::samples::Sample;
use report::human;
use rustc_hash::FxHashSet;
use serde_json::Value;

use super::cause::{Pair, Pairs};
use super::others::{self, Others};
use super::pace::Pace;
use super::processes::Processes;

/// Requests below which a phase is no part.
const LEAST: f64 = 50.0;
/// Share of the requests of a direction on both sides from which parts of different kinds are compared.
const COMMON: f64 = 0.1;
/// Largest ratios of sizes and of numbers of requests at a time, and largest differences of shares, of parts that are alike: of writes, of
/// pauses in the time of a request, of sequential requests.
const ALIKE: f64 = 1.5;
const ALIKE_MIX: f64 = 0.1;
const ALIKE_PAUSE: f64 = 0.2;
const ALIKE_PATTERN: f64 = 0.3;
/// What a difference in direction, and one in place, weighs against a factor of *e* in size.
const MIX_WEIGHT: f64 = 3.0;
const PLACE_WEIGHT: f64 = 1.0;

/// Phases of one kind.
#[derive(Debug, Clone)]
struct Part {
    label: String,
    /// By the trace's clock.
    stretches: Vec<Range<u64>>,
    pace: Pace,
    time_ns: f64,
    /// Number of its first phase among those of the run.
    place: usize,
}

impl Part {
    fn bytes(&self) -> [f64; 2] {
        self.pace.bytes()
    }

    /// Requests at a time, and the share of the time of a request that is pause.
    fn manner(&self) -> (f64, f64) {
        let threads = self.pace.known_threads();
        let threads = threads.unwrap_or_else(|| self.pace.threads().start as f64);
        let pause = self.pace.pause(threads).max(0.0);
        (threads, pause / (threads * self.pace.interval()).max(1e-9))
    }

    fn is_alike(&self, other: &Self) -> bool {
        let ratio = |a: f64, b: f64| (a / b).max(b / a);
        let ((x, pause_x), (y, pause_y)) = (self.manner(), other.manner());
        let patterns = self.pace.sequential.zip(other.pace.sequential);
        (self.pace.write_share() - other.pace.write_share()).abs() <= ALIKE_MIX
            && ratio(self.pace.size(), other.pace.size()) <= ALIKE
            && ratio(x, y) <= ALIKE
            && (pause_x - pause_y).abs() <= ALIKE_PAUSE
            && patterns.is_none_or(|(a, b)| (a - b).abs() <= ALIKE_PATTERN)
    }

    /// How different two parts of two runs are, each at a share of its run's parts.
    fn distance(&self, other: &Self, places: [f64; 2]) -> f64 {
        let ratio = |a: f64, b: f64| (a / b).ln().abs();
        let ((x, pause_x), (y, pause_y)) = (self.manner(), other.manner());
        let mix = (self.pace.write_share() - other.pace.write_share()).abs();
        MIX_WEIGHT * mix
            + ratio(self.pace.size(), other.pace.size())
            + ratio(x, y) / 2.0
            + (pause_x - pause_y).abs()
            + PLACE_WEIGHT * (places[0] - places[1]).abs()
    }

    /// Returns `true` if both have enough requests of one direction.
    fn has_common(&self, other: &Self) -> bool {
        let (a, b) = (self.pace.write_share(), other.pace.write_share());
        a.min(b) >= COMMON || 1.0 - a.max(b) >= COMMON
    }
}

/// A run: its requests that count, and its parts in order.
struct Side<'a> {
    stats: &'a Stats,
    /// Numbers of the names of processes whose requests do not count.
    foreign: FxHashSet<u32>,
    /// `true` for one of several devices, whose phases are those of all.
    is_of_device: bool,
}

impl Side<'_> {
    fn pace(&self, stretches: &[Range<u64>]) -> Option<Pace> {
        Pace::of(self.stats, stretches, &|sample| {
            !self.foreign.contains(&sample.comm)
        })
    }

    /// Returns the phases in order.
    fn parts(&self, document: &Value) -> Vec<Part> {
        let phases = document["phases"]["phases"].as_array();
        let phases = phases.into_iter().flatten().enumerate();
        let working = phases.filter(|(_, phase)| phase["label"] != "idle");
        working
            .filter_map(|(place, phase)| {
                let number =
                    |place: &str| phase.pointer(place).and_then(Value::as_u64).unwrap_or(0);
                let (start, end) = (number("/start_ns"), number("/end_ns"));
                let stretches = vec![Range { start, end }];
                let pace = self.pace(&stretches)?;
                if pace.requests() < LEAST {
                    return None;
                }
                let label = phase["label"].as_str().unwrap_or("");
                let [read, write] = pace.bytes();
                let is_whole = self.foreign.is_empty() && !self.is_of_device;
                let label = match (is_whole, write > read) {
                    (true, _) => label,
                    (false, true) => "write-heavy",
                    (false, false) => "read-heavy",
                };
                let active = number("/active_until_ns").saturating_sub(number("/active_from_ns"));
                Some(Part {
                    label: label.to_owned(),
                    stretches,
                    pace,
                    time_ns: active as f64,
                    place,
                })
            })
            .collect()
    }

    /// Puts parts together.
    fn join(&self, parts: &[&Part]) -> Option<Part> {
        let [first, rest @ ..] = parts else {
            return None;
        };
        let mut sum = (*first).clone();
        if rest.is_empty() {
            return Some(sum);
        }
        for part in rest {
            sum.time_ns += part.time_ns;
            sum.place = sum.place.min(part.place);
            sum.stretches.extend(part.stretches.iter().cloned());
        }
        sum.stretches.sort_by_key(|of| of.start);
        sum.stretches.dedup_by(|next, before| {
            let goes_on = before.end == next.start;
            if goes_on {
                before.end = next.end;
            }
            goes_on
        });
        sum.pace = self.pace(&sum.stretches)?;
        let [read, write] = sum.bytes();
        sum.label = (if write > read {
            "write-heavy"
        } else {
            "read-heavy"
        })
        .to_owned();
        Some(sum)
    }

    /// Puts parts together that are alike, wherever they are, in order of the first of each.
    fn by_kind(&self, parts: &[Part]) -> Vec<Part> {
        let mut kinds: Vec<Vec<&Part>> = Vec::new();
        for part in parts {
            let same = |kind: &&mut Vec<&Part>| kind.first().is_some_and(|of| of.is_alike(part));
            match kinds.iter_mut().find(same) {
                Some(kind) => kind.push(part),
                None => kinds.push(vec![part]),
            }
        }
        kinds.iter().filter_map(|kind| self.join(kind)).collect()
    }
}

/// Parts of both runs that are of each other.
type Matched = Vec<[Part; 2]>;

/// Pairs the parts of both runs, and returns what is left of each.
fn matched(sides: &[Side<'_>; 2], parts: [Vec<Part>; 2]) -> (Matched, [Vec<Part>; 2]) {
    let kinds = |of: &[Part]| of.iter().map(|of| of.label.clone()).collect::<Vec<_>>();
    let [x, y] = sides;
    let mut parts = parts;
    if kinds(&parts[0]) != kinds(&parts[1]) {
        parts = [x.by_kind(&parts[0]), y.by_kind(&parts[1])];
    }
    let [a, b] = parts;
    if kinds(&a) == kinds(&b) {
        let all: Vec<[Part; 2]> = a.into_iter().zip(b).map(|(a, b)| [a, b]).collect();
        return (joined(sides, all), [Vec::new(), Vec::new()]);
    }
    // The most alike first.
    let share = |at: usize, of: &[Part]| at as f64 / of.len().max(2).saturating_sub(1) as f64;
    let mut distances: Vec<(f64, usize, usize)> = Vec::new();
    for (i, of_a) in a.iter().enumerate() {
        for (j, of_b) in b.iter().enumerate() {
            if of_a.has_common(of_b) {
                let places = [share(i, &a), share(j, &b)];
                distances.push((of_a.distance(of_b, places), i, j));
            }
        }
    }
    distances.sort_by(|a, b| a.0.total_cmp(&b.0));
    let (mut a, mut b): (Vec<_>, Vec<_>) = (
        a.into_iter().map(Some).collect(),
        b.into_iter().map(Some).collect(),
    );
    let mut all: Vec<[Part; 2]> = Vec::new();
    for (_, i, j) in distances {
        if let (Some(of_a), Some(of_b)) = (a.get_mut(i), b.get_mut(j))
            && of_a.is_some()
            && of_b.is_some()
        {
            all.extend(of_a.take().zip(of_b.take()).map(|(a, b)| [a, b]));
        }
    }
    all.sort_by_key(|[a, _]| a.place);
    let mut rest = [a, b].map(|of| of.into_iter().flatten().collect::<Vec<_>>());
    for (at, side) in sides.iter().enumerate() {
        let Some(left) = rest.get_mut(at) else {
            continue;
        };
        left.retain(|part| !take_in(side, at, part, &mut all));
    }
    (all, rest)
}

/// Adds a part that is left to the one of its run with which it makes as many bytes of a direction as the other run has: the same job, of
/// which a part is cut in two where something else began or ended.
fn take_in(side: &Side<'_>, at: usize, part: &Part, all: &mut Matched) -> bool {
    for pair in all {
        let (own, other) = (pair.get(at), pair.get(1 - at));
        let (Some(own), Some(other)) = (own, other) else {
            continue;
        };
        if !part.has_common(own) {
            continue;
        }
        let slot = usize::from(other.pace.write_share() > 0.5);
        let of = |part: &Part| part.bytes().get(slot).copied().unwrap_or(0.0).max(1.0);
        let wanted = of(other).ln();
        let (now, then) = (of(own).ln(), (of(own) + of(part)).ln());
        if (then - wanted).abs() < (now - wanted).abs()
            && let Some(sum) = side.join(&[own, part])
            && let Some(own) = pair.get_mut(at)
        {
            *own = sum;
            return true;
        }
    }
    false
}

/// Puts successive pairs together whose parts are alike on both sides.
fn joined(sides: &[Side<'_>; 2], all: Matched) -> Matched {
    let mut groups: Vec<Vec<[Part; 2]>> = Vec::new();
    for pair in all {
        let last = groups.last_mut();
        let same = |group: &&mut Vec<[Part; 2]>| {
            let first = group.first();
            first.is_some_and(|first| first.iter().zip(&pair).all(|(a, b)| a.is_alike(b)))
        };
        match last.filter(same) {
            Some(group) => group.push(pair),
            None => groups.push(vec![pair]),
        }
    }
    let join = |group: &Vec<[Part; 2]>| {
        let [a, b] = sides;
        let of = |side: usize| -> Vec<&Part> {
            group.iter().filter_map(|pair| pair.get(side)).collect()
        };
        Some([a.join(&of(0))?, b.join(&of(1))?])
    };
    groups.iter().filter_map(join).collect()
}

/// Pairs the parts of both runs, of the processes that both have. Depth and pauses are of one device, so several are judged each for itself.
pub(super) fn pair(stats: [&Stats; 2], documents: [&Value; 2]) -> Pairs {
    let is_completed = |stats: &Stats| stats.traffic.completions > 0;
    if !stats.iter().all(|of| is_completed(of)) {
        return Pairs {
            reason: Some(
                "Cannot say why the runs differ: completions are missing. Record issues and completions (blkio collect)."
                    .to_owned(),
            ),
            ..Pairs::new(stats, documents)
        };
    }
    let others = Others::of(stats);
    let mut found = Pairs::new(stats, documents);
    pair_device(stats, documents, others.as_ref(), None, &mut found);
    let [a, b] = stats;
    let numbers = |of: &Stats| of.devices.iter().map(|(dev, _)| *dev).collect::<Vec<_>>();
    // Of devices that serve in turns, depth and pauses are those of all.
    let in_turns = documents
        .iter()
        .all(|of| of["limit"]["turns"].is_object() || of["limit"]["as_one"].is_object());
    let are_same = !a.devices.is_empty() && numbers(a) == numbers(b) && !in_turns;
    if are_same && found.reason.is_none() {
        let mut each = Pairs {
            between: Some(found.between_ns()),
            ..Pairs::new(stats, documents)
        };
        for ((dev, a), (_, b)) in a.devices.iter().zip(&b.devices) {
            let name = stats[0].outcome.symbols.device_name(*dev);
            pair_device([a, b], documents, others.as_ref(), Some(&name), &mut each);
        }
        each.reason = None;
        if !each.pairs.is_empty() {
            found = each;
        }
    }
    found.others = others;
    found
}

/// Adds the pairs of a device, or of all as one.
fn pair_device(
    stats: [&Stats; 2],
    documents: [&Value; 2],
    others: Option<&Others>,
    device: Option<&str>,
    found: &mut Pairs,
) {
    let sides = stats.map(|stats| Side {
        stats,
        foreign: others::numbers(stats, others),
        is_of_device: device.is_some(),
    });
    let parts = [(&sides[0], documents[0]), (&sides[1], documents[1])]
        .map(|(side, document)| side.parts(document));
    if let Some(side) = parts.iter().position(Vec::is_empty) {
        let name = if side == 0 { "A" } else { "B" };
        found.reason = Some(format!(
            "Cannot say why the runs differ: no part of {name} has {LEAST} requests or more."
        ));
        return;
    }
    let (all, rest) = matched(&sides, parts);
    let labels: Vec<String> = all.iter().map(|[a, _]| a.label.clone()).collect();
    for (number, [a, b]) in all.into_iter().enumerate() {
        let same = labels.iter().filter(|label| **label == a.label).count();
        let label = match same {
            1 => a.label.clone(),
            _ => format!("{} (number {})", a.label, number + 1),
        };
        let bytes = [a.bytes(), b.bytes()];
        let foreign = sides
            .each_ref()
            .map(|side| move |sample: &Sample| !side.foreign.contains(&sample.comm));
        let processes = Processes::of(
            stats,
            [&a.stretches, &b.stretches],
            [&foreign[0], &foreign[1]],
        );
        let beside = others.map(Others::names);
        let while_beside = [(0, &a), (1, &b)].into_iter().find_map(|(at, part)| {
            let (stats, side): (&&Stats, &Side<'_>) = (stats.get(at)?, sides.get(at)?);
            others::beside(stats, &part.stretches, &side.foreign)
        });
        let mut pair = Pair::new(&label, device, [a.pace, b.pace], bytes, beside);
        pair.processes = processes;
        pair.while_beside = while_beside;
        found.pairs.push(pair);
    }
    for (side, parts) in rest.into_iter().enumerate() {
        let alone = parts.into_iter().map(|part| {
            let label = match device {
                None => part.label,
                Some(device) => format!("{} ({device})", part.label),
            };
            (side, label, part.time_ns)
        });
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
}
