//! Why one run takes longer for a byte than the other.
//!
//! Parts of both runs are paired by what they mostly do, and each pair's change in time per byte is split, without a rest, into what the
//! application does (pauses, requests at a time, their size, the mix of reads and writes) and latency ([`Pace`]). The terms add
//! up to the logarithm of the ratio of both times; a sum is split by the logarithmic mean (Ang, Energy Policy 33, 2005, LMDI I).
//!
//! Latency follows load: more requests at a time, larger ones or shorter pauses make it longer, at most until nothing is gained.
//! Up to there its change is a consequence. Beyond, and as far as it differs for requests that find no other in flight, it is a cause: of the access pattern or the
//! mix where these changed, else of the device.

use std::fmt::Write as _;

use blkio_companions::num::whole;
use report::human;
use serde_json::{Value, json};

use super::pace::Pace;
use crate::limit::{AtDepth, Load};

/// Change from which something is a cause.
const CHANGED: f64 = 0.05;
/// Standard errors that a change must have.
const SURE: f64 = 3.0;
/// Difference of shares from which an access pattern, or a mix of reads and writes, is another.
const OTHER_PATTERN: f64 = 0.2;
const OTHER_MIX: f64 = 0.1;
/// Requests that find no other in flight, and their share of all, from which their latencies are compared.
const LEAST_ALONE: u64 = 50;
const SHARE_ALONE: f64 = 0.05;
/// Share of latency and pause up to which pauses are the same.
const SAME: f64 = 0.02;
/// Share of the largest cause below which another is not named beside it.
const BESIDE: f64 = 0.15;

/// What may change the time per byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// Pauses of the application.
    ThinkTime,
    /// Requests at a time.
    QueueDepth,
    /// Mean size of the requests.
    RequestSize,
    /// Sequential or random.
    AccessPattern,
    /// Reads and writes.
    DirectionMix,
    /// Latency that nothing the application does explains.
    Device,
}

impl Cause {
    /// Returns the name in reports.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ThinkTime => "think time",
            Self::QueueDepth => "queue depth",
            Self::RequestSize => "request size",
            Self::AccessPattern => "access pattern",
            Self::DirectionMix => "direction mix",
            Self::Device => "device",
        }
    }
}

/// A term of the change in time per byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Term {
    pub(super) cause: Cause,
    /// Logarithm of the factor by which it changes the time per byte.
    pub(super) log: f64,
    /// Standard error of that.
    error: f64,
}

impl Term {
    fn is_changed(&self) -> bool {
        self.log.abs() >= CHANGED.ln_1p() && self.log.abs() >= SURE * self.error
    }
}

/// A part of both runs.
#[derive(Debug)]
pub(super) struct Pair {
    pub(super) label: String,
    pub(super) sides: [Pace; 2],
    /// Bytes of each side.
    pub(super) bytes: [f64; 2],
    /// Threads of each side that explain the depths.
    threads: [u64; 2],
    pub(super) terms: Vec<Term>,
    /// Logarithm of the factor by which latency followed load.
    follows: f64,
    /// Whether fewer threads or longer pauses may be meant.
    is_vague: bool,
}

/// Mean that splits a difference into logarithms.
fn log_mean(a: f64, b: f64) -> f64 {
    let log = (b / a).ln();
    if log.abs() < 1e-9 || !log.is_finite() {
        return (a + b) / 2.0;
    }
    (b - a) / log
}

/// Returns numbers of threads of both sides that the depths of both allow: the same if there is one, else those that change pauses least. And
/// whether others would do, too.
fn threads(a: &Pace, b: &Pace) -> ([u64; 2], bool) {
    let (of_a, of_b) = (a.threads(), b.threads());
    let least = of_a.start.max(of_b.start);
    let least_change = || {
        let pauses = |count: u64| -> u64 {
            let wanted = (a.pause(count) + b.latency()) / b.interval().max(1e-9);
            whole(wanted.round().max(1.0)).clamp(of_b.start, of_b.end - 1)
        };
        let change = |[x, y]: &[u64; 2]| (a.pause(*x) - b.pause(*y)).abs();
        let all = of_a.clone().map(|count| [count, pauses(count)]);
        all.min_by(|x, y| change(x).total_cmp(&change(y)))
            .unwrap_or([of_a.start, of_b.start])
    };
    let are_alike = |[x, y]: [u64; 2], within: f64| {
        let (x, y) = (a.pause(x), b.pause(y));
        (x - y).abs() <= within * log_mean(x + a.latency(), y + b.latency())
    };
    // Threads that keep out of each other's way are more than the depths show. The same number with the same pauses explains both sides by
    // latency or size alone; where depth or pauses changed, latency and the time per request do not change in the ratio of such a number.
    let same = (least..=least * 2).find(|count| are_alike([*count; 2], SAME));
    if let Some(count) = same {
        return ([count; 2], false);
    }
    if least >= of_a.end.min(of_b.end) {
        return (least_change(), false);
    }
    let other = least_change();
    let is_vague = other[0] != other[1] && are_alike(other, CHANGED);
    ([least; 2], is_vague)
}

/// Logarithm of the ratio of the latencies of requests that found no other in flight, of equal size and direction, with its standard error;
/// `None` where there are none. At greater depths latency also goes by how far the others are.
fn alone(a: &Pace, b: &Pace) -> Option<(f64, f64)> {
    let [a, b] = [a, b].map(|of| match of.loads.as_slice() {
        [only] => Some(only),
        _ => None,
    });
    let (a, b): (&Load, &Load) = (a?, b?);
    if a.size != b.size || a.slot() != b.slot() {
        return None;
    }
    let of = |load: &Load| {
        let of = load.by_depth.first().copied()?;
        let share = of.requests as f64 / load.requests as f64;
        let is_enough = of.requests >= LEAST_ALONE && share >= SHARE_ALONE && of.latency_ns > 0;
        is_enough.then_some(of)
    };
    let (x, y): (AtDepth, AtDepth) = (of(a)?, of(b)?);
    let log = (y.mean_latency() / x.mean_latency()).ln();
    Some((log, (x.error() + y.error()).sqrt()))
}

impl Pair {
    pub(super) fn new(label: &str, mut a: Pace, mut b: Pace, bytes: [f64; 2]) -> Self {
        let ([x, y], mut is_vague) = threads(&a, &b);
        if let Some((of_a, of_b)) = a.round(x).zip(b.round(y)) {
            a.by_rounds(of_a);
            b.by_rounds(of_b);
            // The depths leave no doubt.
            is_vague = false;
        }
        let (pauses, latencies) = ([a.pause(x), b.pause(y)], [a.latency(), b.latency()]);
        let lambda = log_mean(pauses[0] + latencies[0], pauses[1] + latencies[1]).max(1e-9);
        let sizes = [a.size(), b.size()];
        let size_mean = log_mean(sizes[0], sizes[1]).max(1e-9);
        // A direction that one side lacks has there what it has on the other.
        let mean = |slot: usize, value: fn(&super::pace::Way) -> f64| -> f64 {
            let known = [&a, &b].map(|of| of.ways.get(slot).filter(|way| way.requests > 0.0));
            let known: Vec<f64> = known.into_iter().flatten().map(value).collect();
            known.iter().sum::<f64>() / (known.len() as f64).max(1.0)
        };
        let writes = b.write_share() - a.write_share();
        let mixed =
            |value: fn(&super::pace::Way) -> f64| writes * (mean(1, value) - mean(0, value));
        let mix_of_latency = mixed(super::pace::Way::latency) / lambda;
        let mix_of_size = -mixed(super::pace::Way::size) / size_mean;
        let think = (pauses[1] - pauses[0]) / lambda;
        let depth = -(y as f64 / x as f64).ln();
        let size = -(sizes[1] / sizes[0]).ln() - mix_of_size;
        let latency = (latencies[1] - latencies[0]) / lambda - mix_of_latency;
        let mut mix = mix_of_latency + mix_of_size;
        let mut pattern = 0.0;

        let both = |of: fn(&Pace) -> f64| of(&a) + of(&b);
        let error_of_latency = both(Pace::error_of_latency).sqrt() / lambda;
        let error_of_pause = (a.error_of_pause(x) + b.error_of_pause(y)).sqrt() / lambda;
        let error_of_size = both(Pace::error_of_size).sqrt() / size_mean;
        let error_of_all = both(Pace::error_of_per_byte).sqrt();

        // What more or less load may have made of latency.
        let load = think + depth + size;
        let follows = latency.clamp((-load).min(0.0), (-load).max(0.0));
        let mut rest = latency - follows;
        let patterns = match writes.abs() >= OTHER_MIX {
            true => a.sequential_of_all().zip(b.sequential_of_all()),
            false => a.sequential.zip(b.sequential),
        };
        let is_other_pattern = patterns.is_some_and(|(a, b)| (a - b).abs() >= OTHER_PATTERN);
        if !is_other_pattern
            && let Some((log, error)) = alone(&a, &b)
            && log.abs() >= CHANGED.ln_1p().max(SURE * error)
            && log * latency > 0.0
        {
            let whole = (latencies[1] / latencies[0]).ln();
            let of_device = latency * (log / whole).clamp(0.0, 1.0);
            if of_device.abs() > rest.abs() {
                rest = of_device;
            }
        }
        let follows = latency - rest;
        let mut device = 0.0;
        if is_other_pattern {
            pattern = rest;
        } else if writes.abs() >= OTHER_MIX {
            mix += rest;
        } else {
            device = rest;
        }
        let error_of_rest = if follows.abs() > 0.0 {
            error_of_latency.max(error_of_all)
        } else {
            error_of_latency
        };
        let term = |cause, log, error| Term { cause, log, error };
        let terms = vec![
            term(Cause::ThinkTime, think, error_of_pause),
            term(Cause::QueueDepth, depth, 0.0),
            term(Cause::RequestSize, size, error_of_size),
            term(Cause::AccessPattern, pattern, error_of_rest),
            term(Cause::DirectionMix, mix, error_of_rest.max(error_of_size)),
            term(Cause::Device, device, error_of_rest),
        ];
        Self {
            label: label.to_owned(),
            sides: [a, b],
            bytes,
            threads: [x, y],
            terms,
            follows,
            is_vague,
        }
    }

    fn both(&self, of: impl Fn(&Pace) -> f64) -> [f64; 2] {
        let [a, b] = &self.sides;
        [of(a), of(b)]
    }

    /// Logarithm of the ratio of the times per byte.
    fn log(&self) -> f64 {
        let [a, b] = self.both(Pace::per_byte);
        (b / a).ln()
    }

    fn is_changed(&self) -> bool {
        let error: f64 = self.both(Pace::error_of_per_byte).iter().sum();
        self.log().abs() >= CHANGED.ln_1p().max(SURE * error.sqrt())
    }

    /// Nanoseconds that the change in time per byte comes to.
    pub(super) fn weight_ns(&self) -> f64 {
        let [a, b] = self.both(Pace::per_byte);
        (b - a) * self.bytes.iter().sum::<f64>() / 2.0
    }

    /// Returns `true` if latency took up what the application changed, so that nothing was gained or lost.
    fn is_without_effect(&self) -> bool {
        let is_of_latency = |of: &&Term| matches!(of.cause, Cause::Device | Cause::AccessPattern);
        let latency: f64 = self
            .terms
            .iter()
            .filter(is_of_latency)
            .map(|of| of.log)
            .sum();
        let largest = self.terms.iter().filter(|of| !is_of_latency(of));
        let largest = largest.map(|of| of.log.abs()).fold(0.0, f64::max);
        !self.is_changed() && (self.follows + latency).abs() >= largest / 2.0
    }

    /// Causes of the change in time per byte, the largest first; those much smaller than it are left out.
    fn causes(&self) -> Vec<&Term> {
        match self.is_without_effect() {
            true => Vec::new(),
            false => self.changed(),
        }
    }

    fn changed(&self) -> Vec<&Term> {
        let mut found: Vec<&Term> = self.terms.iter().filter(|of| of.is_changed()).collect();
        found.sort_by(|a, b| b.log.abs().total_cmp(&a.log.abs()));
        let largest = found.first().map_or(0.0, |of| of.log.abs());
        found.retain(|of| of.log.abs() >= BESIDE * largest);
        found
    }

    /// What changed, in numbers.
    fn detail(&self, cause: Cause) -> String {
        let time = |ns: f64| human::quantity(ns.max(0.0), report::Unit::Nanos);
        let size = |of: f64| human::quantity(of, report::Unit::Bytes);
        let [x, y] = self.threads;
        match cause {
            Cause::ThinkTime => {
                let [a, b] = [(0, x), (1, y)]
                    .map(|(side, count)| self.sides.get(side).map_or(0.0, |of| of.pause(count)));
                format!(
                    "mean pause between completion and next issue {} to {}{}",
                    time(a),
                    time(b),
                    match (self.is_vague, b > a) {
                        (false, _) => "",
                        (true, true) =>
                            " (or fewer requests at a time: with pauses this long they look the same)",
                        (true, false) =>
                            " (or more requests at a time: with pauses this long they look the same)",
                    }
                )
            }
            Cause::QueueDepth => format!("{x} to {y} requests at a time"),
            Cause::RequestSize => {
                let [a, b] = self.both(Pace::size);
                format!("mean {} to {}", size(a), size(b))
            }
            Cause::AccessPattern => {
                let [a, b] = self.both(|of| of.sequential.unwrap_or(0.0) * 100.0);
                let [c, d] = self.both(Pace::latency);
                format!(
                    "{a:.1} % to {b:.1} % sequential, with a mean latency of {} to {}",
                    time(c),
                    time(d)
                )
            }
            Cause::DirectionMix => {
                let [a, b] = self.both(|of| of.write_share() * 100.0);
                format!("{a:.1} % to {b:.1} % of the requests are writes")
            }
            Cause::Device => {
                let [a, b] = self.both(Pace::latency);
                format!(
                    "mean latency {} to {}, which nothing that the application does explains: the device or its state differs",
                    time(a),
                    time(b)
                )
            }
        }
    }

    fn effect(log: f64) -> String {
        format!("{:+.1} % time per byte", log.exp_m1() * 100.0)
    }

    /// The causes of the pair in words.
    fn text(&self) -> String {
        let [a, b] = self.both(|of| 1e9 / of.per_byte().max(1e-12));
        let rate = |of: f64| human::quantity(of, report::Unit::Bytes) + "/s";
        let whole = format!(
            "Time per byte of the {} part: {:.2}x ({} to {} without breaks)",
            self.label,
            self.log().exp(),
            rate(a),
            rate(b)
        );
        let causes = self.changed();
        let mut text = String::new();
        if !causes.is_empty() && self.is_without_effect() {
            text.push_str("No cause: the time per byte stays the same, and latency takes up what changes: requests come as fast as they are served, or at a pace of their own. Without effect on it: ");
        }
        for (number, term) in causes.iter().enumerate() {
            let name = term.cause.name();
            let mut letters = name.chars();
            let first = letters.next().map(|letter| letter.to_ascii_uppercase());
            let name: String = first.into_iter().chain(letters).collect();
            let _ = write!(
                text,
                "{}{name} changed: {} ({}). ",
                if number == 0 { "" } else { "Also: " },
                self.detail(term.cause),
                Self::effect(term.log)
            );
        }
        if causes.is_empty() {
            let _ = write!(
                text,
                "No cause: neither think time, depth, size, pattern nor latency changed the time per byte by {:.0} % or more. ",
                CHANGED * 100.0
            );
        } else if !self.is_changed() && !self.is_without_effect() {
            text.push_str("These make up for each other. ");
        }
        if self.follows.abs() >= CHANGED.ln_1p() && !causes.is_empty() {
            let [c, d] = self.both(Pace::latency);
            let time = |ns: f64| human::quantity(ns, report::Unit::Nanos);
            let _ = write!(
                text,
                "Latency followed, {} to {} ({}). ",
                time(c),
                time(d),
                Self::effect(self.follows)
            );
        }
        text + &whole + "."
    }

    pub(super) fn to_value(&self) -> Value {
        let side = |at: usize| {
            let pace = self.sides.get(at)?;
            let threads = self.threads.get(at).copied()?;
            Some(json!({
                "requests": pace.requests(),
                "bytes": self.bytes.get(at),
                "ns_per_byte": pace.per_byte(),
                "threads": threads,
                "mean_pause_ns": pace.pause(threads),
                "mean_latency_ns": pace.latency(),
                "mean_bytes": pace.size(),
                "sequential_share": pace.sequential,
                "write_share": pace.write_share(),
                "breaks_ns": pace.breaks_ns,
            }))
        };
        let causes = self.causes();
        let terms: Vec<Value> = self
            .terms
            .iter()
            .map(|term| {
                json!({
                    "what": term.cause.name(),
                    "log_factor": term.log,
                    "change_pct": term.log.exp_m1() * 100.0,
                    "is_cause": causes.iter().any(|of| of.cause == term.cause),
                })
            })
            .collect();
        json!({
            "part": self.label,
            "a": side(0),
            "b": side(1),
            "change_pct": self.log().exp_m1() * 100.0,
            "is_changed": self.is_changed(),
            "weight_ns": self.weight_ns(),
            "terms": terms,
            "latency_follows_pct": self.follows.exp_m1() * 100.0,
            "causes": causes.iter().map(|term| term.cause.name()).collect::<Vec<_>>(),
        })
    }
}

/// Parts of both runs that do the same, and what is left.
#[derive(Debug, Default)]
pub(super) struct Pairs {
    pub(super) pairs: Vec<Pair>,
    /// Side and name of parts without a counterpart, with their time in nanoseconds.
    pub(super) alone: Vec<(usize, String, f64)>,
    /// First issue to last completion of each side, in nanoseconds.
    pub(super) span_ns: [f64; 2],
    /// Why there is no pair.
    pub(super) reason: Option<String>,
}

impl Pairs {
    /// Time of each side that is in no part: breaks and what lies between parts.
    pub(super) fn between_ns(&self) -> [f64; 2] {
        let mut rest = self.span_ns;
        for (side, rest) in rest.iter_mut().enumerate() {
            for pair in &self.pairs {
                let of = pair.sides.get(side);
                let bytes = pair.bytes.get(side).copied().unwrap_or(0.0);
                *rest -= of.map_or(0.0, |of| of.per_byte() * bytes);
            }
            let alone = self.alone.iter().filter(|of| of.0 == side);
            *rest -= alone.map(|of| of.2).sum::<f64>();
            // Parts may overlap by a latency.
            *rest = rest.max(0.0);
        }
        rest
    }

    /// Says what changed, that which matters most first.
    pub(super) fn finding(&self) -> String {
        if let Some(reason) = &self.reason {
            return reason.clone();
        }
        let mut pairs: Vec<&Pair> = self.pairs.iter().collect();
        pairs.sort_by(|a, b| b.weight_ns().abs().total_cmp(&a.weight_ns().abs()));
        let changed: Vec<&&Pair> = pairs.iter().filter(|of| !of.causes().is_empty()).collect();
        let text = |of: &Pair| match pairs.len() {
            1 => of.text(),
            _ => format!("In the {} part: {}", of.label, of.text()),
        };
        let mut sentences: Vec<String> = match (changed.is_empty(), pairs.first()) {
            (true, Some(first)) => vec![text(first)],
            _ => changed.iter().map(|of| text(of)).collect(),
        };
        let time = |ns: f64| human::quantity(ns, report::Unit::Nanos);
        let [was, is] = self.between_ns();
        let most = self.span_ns[0].max(self.span_ns[1]);
        let mut others: Vec<(f64, String)> = Vec::new();
        if (is - was).abs() >= CHANGED * most {
            others.push((
                is - was,
                format!(
                    "Pauses between parts changed: {} to {} without requests.",
                    time(was),
                    time(is)
                ),
            ));
        }
        for pair in &pairs {
            let [a, b] = pair.bytes;
            let per_byte = pair.both(Pace::per_byte).iter().sum::<f64>() / 2.0;
            let effect = (b - a) * per_byte;
            if effect.abs() >= CHANGED * most {
                let size = |of: f64| human::quantity(of, report::Unit::Bytes);
                others.push((
                    effect,
                    format!(
                        "Bytes of the {} part changed: {} to {}, {} {}.",
                        pair.label,
                        size(a),
                        size(b),
                        time(effect.abs()),
                        if effect > 0.0 { "more" } else { "less" }
                    ),
                ));
            }
        }
        for (side, label, ns) in &self.alone {
            if *ns >= CHANGED * most {
                let side = if *side == 0 { "A" } else { "B" };
                let text = format!(
                    "Only {side} has a {label} part of this kind, of {}.",
                    time(*ns)
                );
                others.push((*ns, text));
            }
        }
        others.sort_by(|a, b| b.0.abs().total_cmp(&a.0.abs()));
        let heaviest = pairs.first().map_or(0.0, |of| of.weight_ns().abs());
        let (more, less): (Vec<_>, Vec<_>) = others
            .into_iter()
            .partition(|of| changed.is_empty() || of.0.abs() > heaviest);
        let texts = |of: Vec<(f64, String)>| of.into_iter().map(|(_, text)| text);
        let mut all: Vec<String> = texts(more).collect();
        all.append(&mut sentences);
        all.extend(texts(less));
        all.join(" ")
    }

    /// Names of the causes, that which matters most first: those of the pairs by time.
    pub(super) fn causes(&self) -> Vec<Value> {
        let mut found: Vec<(f64, Value)> = Vec::new();
        for pair in &self.pairs {
            let per_byte = pair.both(Pace::per_byte).iter().sum::<f64>() / 2.0;
            let time = per_byte * pair.bytes.iter().sum::<f64>() / 2.0;
            for term in pair.causes() {
                found.push((
                    term.log.abs() * time,
                    json!({
                        "what": term.cause.name(),
                        "part": pair.label,
                        "change_pct": term.log.exp_m1() * 100.0,
                        "detail": pair.detail(term.cause),
                    }),
                ));
            }
        }
        found.sort_by(|a, b| b.0.total_cmp(&a.0));
        found.into_iter().map(|(_, value)| value).collect()
    }
}
