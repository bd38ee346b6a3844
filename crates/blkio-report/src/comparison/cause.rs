//! Why one run takes longer for a byte than the other.
//!
//! Parts of both runs are paired by what they mostly do, and each pair's change in time per byte is split, without a rest, into what the
//! application does (pauses, requests at a time, their size, the mix of reads and writes), flushes and latency ([`Pace`]). The terms add
//! up to the logarithm of the ratio of both times; a sum is split by the logarithmic mean (Ang, Energy Policy 33, 2005, LMDI I).
//!
//! Latency follows load: more requests at a time, larger ones or shorter pauses make it longer, at most until nothing is gained.
//! Up to there its change is a consequence. Beyond, and as far as it differs for requests that find no other in flight, it is a cause: of the access pattern or the
//! mix where these changed, of another process where one uses the device in one run only, else of the device.
//!
//! A change that chance may have made is not called one, and its absence is only stated where nothing differs by as much as counts.

mod pairs;
mod threads;

use std::fmt::Write as _;

use report::human;
use serde_json::{Value, json};

use super::others::{Beside, Others};
use super::pace::{Manner, Pace};
use super::processes::Processes;
use crate::limit::{AtDepth, Load};
use crate::loss::Loss;
use blkio_parser::Stats;

pub(super) use pairs::Pairs;
use threads::{log_mean, threads};

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
/// Share of a change up to which a single cause may leave it unexplained.
const REST: f64 = 0.2;
/// Share of the largest cause below which another is not named beside it.
const BESIDE: f64 = 0.15;

/// Factor by which the longest latency differs where few requests stall.
const STALL: f64 = 10.0;
/// Factor by which requests must take longer beside another process.
const SLOWER_BESIDE: f64 = 1.25;
/// Factor from which a number of threads is above all that was seen.
const UNSEEN: f64 = 2.0;
/// Share of requests issued as another completes below which they come at a pace of their own.
const OWN_PACE: f64 = 0.5;

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
    /// Flushes: their number, or how long the device takes for them.
    Flush,
    /// Latency that comes with another process on the device.
    OtherProcess,
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
            Self::Flush => "flush",
            Self::OtherProcess => "other process",
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
    /// The device, of several.
    device: Option<String>,
    pub(super) sides: [Pace; 2],
    /// Bytes of each side.
    pub(super) bytes: [f64; 2],
    /// Bytes read and written of each side.
    ways: [[f64; 2]; 2],
    /// Threads of each side that explain the depths.
    threads: [f64; 2],
    pub(super) terms: Vec<Term>,
    /// Logarithm of the factor by which latency followed load.
    follows: f64,
    /// Other numbers of threads that explain the depths as well, without a change of pauses.
    or_threads: Option<[f64; 2]>,
    /// Names of the processes that use the device in one run only.
    beside: Option<String>,
    /// What the requests of another process do to the latency of others, on the side that has it.
    pub(super) while_beside: Option<Beside>,
    /// Those of both runs, where they change differently.
    pub(super) processes: Option<Processes>,
}

fn time(ns: f64) -> String {
    human::quantity(ns.max(0.0), report::Unit::Nanos)
}

/// A number of requests at a time, which is a mean where it varies.
fn count(of: f64) -> String {
    if (of - of.round()).abs() < 0.05 {
        format!("{of:.0}")
    } else {
        format!("{of:.1}")
    }
}

/// A factor from its logarithm, to three digits or more.
pub(super) fn factor(log: f64) -> String {
    let value = log.exp();
    match value {
        value if value >= 100.0 => format!("{value:.0}x"),
        value if value >= 10.0 => format!("{value:.1}x"),
        value if value >= 0.1 => format!("{value:.2}x"),
        value => format!("{value:.3}x"),
    }
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
    /// Takes a part of both runs, with the bytes read and written of each, and the processes that use the device in one of them only.
    pub(super) fn new(
        label: &str,
        device: Option<&str>,
        sides: [Pace; 2],
        ways: [[f64; 2]; 2],
        beside: Option<String>,
    ) -> Self {
        let [a, b] = sides.map(Pace::by_rounds);
        let ([x, y], or_threads) = threads(&a, &b);
        let (pauses, latencies) = ([a.pause(x), b.pause(y)], [a.latency(), b.latency()]);
        let flushes = [a.flush(), b.flush()];
        let lambda = log_mean(
            pauses[0] + latencies[0] + flushes[0],
            pauses[1] + latencies[1] + flushes[1],
        )
        .max(1e-9);
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
        let depth = -(y / x).ln();
        let flush = (flushes[1] - flushes[0]) / lambda;
        let size = -(sizes[1] / sizes[0]).ln() - mix_of_size;
        let latency = (latencies[1] - latencies[0]) / lambda - mix_of_latency;
        let mut mix = mix_of_latency + mix_of_size;
        let mut pattern = 0.0;

        let both = |of: fn(&Pace) -> f64| of(&a) + of(&b);
        let error_of_latency = both(Pace::error_of_latency).sqrt() / lambda;
        let error_of_pause = (a.error_of_pause(x) + b.error_of_pause(y)).sqrt() / lambda;
        let error_of_flush = both(Pace::error_of_flush).sqrt() / lambda;
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
        let (mut of_device, mut other) = (0.0, 0.0);
        if beside.is_some() {
            other = rest;
        } else if is_other_pattern {
            pattern = rest;
        } else if writes.abs() >= OTHER_MIX {
            mix += rest;
        } else {
            of_device = rest;
        }
        let error_of_rest = if follows.abs() > 0.0 {
            error_of_latency.max(error_of_all)
        } else {
            error_of_latency
        };
        let term = |cause, log, error| Term { cause, log, error };
        let terms = vec![
            term(Cause::ThinkTime, think, error_of_pause),
            // Depths of those that are left show a number of threads only about.
            term(Cause::QueueDepth, depth, a.lost.max(b.lost) / 2.0),
            term(Cause::RequestSize, size, error_of_size),
            term(Cause::AccessPattern, pattern, error_of_rest),
            term(Cause::DirectionMix, mix, error_of_rest.max(error_of_size)),
            term(Cause::Flush, flush, error_of_flush),
            term(Cause::OtherProcess, other, error_of_rest),
            term(Cause::Device, of_device, error_of_rest),
        ];
        Self {
            label: label.to_owned(),
            device: device.map(str::to_owned),
            sides: [a, b],
            bytes: ways.map(|of| of.iter().sum()),
            ways,
            threads: [x, y],
            terms,
            follows,
            or_threads,
            beside,
            while_beside: None,
            processes: None,
        }
    }

    /// Names the cause that changes most, in brackets; empty where none is established.
    pub(super) fn leading_cause(&self) -> String {
        self.causes().first().map_or(String::new(), |term| {
            format!(" ({}: {})", self.name(term.cause), self.detail(term.cause))
        })
    }

    /// Names the part.
    fn part(&self) -> String {
        match &self.device {
            None => format!("{} part", self.label),
            Some(device) => format!("{} part of device {device}", self.label),
        }
    }

    /// Logarithm of the ratio of the latencies of requests that come at the same pace of their own in both runs, where it changed; else `None`.
    ///
    /// Such requests wait for no other, so that latency changes nothing but itself, and nothing that the application does changes it.
    fn latency_at_own_pace(&self) -> Option<f64> {
        let [a, b] = &self.sides;
        let is_alike = |of: fn(&Pace) -> f64| (of(b) / of(a)).ln().abs() < CHANGED.ln_1p();
        let is_own = |of: &Pace| of.following() < OWN_PACE && of.manner == Manner::Other;
        let (of_a, of_b) = (a.threads(), b.threads());
        let patterns = a.sequential.zip(b.sequential);
        let is_same = self.beside.is_none()
            && is_own(a)
            && is_own(b)
            && is_alike(Pace::interval)
            && is_alike(Pace::size)
            && a.flushes + b.flushes <= 0.0
            && (a.write_share() - b.write_share()).abs() < OTHER_MIX
            && patterns.is_none_or(|(a, b)| (a - b).abs() < OTHER_PATTERN)
            && of_a.start.max(of_b.start) < of_a.end.min(of_b.end);
        let [x, y] = self.both(Pace::latency);
        let log = (y / x).ln();
        let error = (a.error_of_latency() / (x * x) + b.error_of_latency() / (y * y)).sqrt();
        let [p, q] = self.both(|of| of.latency_at(0.5));
        let typical = (q / p).ln();
        let least = CHANGED.ln_1p();
        let is_changed = log.abs() >= least.max(SURE * error)
            && typical.abs() >= least
            && log * typical > 0.0
            && log.is_finite();
        (is_same && is_changed).then_some(log)
    }

    fn both(&self, of: impl Fn(&Pace) -> f64) -> [f64; 2] {
        let [a, b] = &self.sides;
        [of(a), of(b)]
    }

    /// Logarithm of the ratio of the times per byte.
    pub(super) fn log(&self) -> f64 {
        let [a, b] = self.both(Pace::per_byte);
        (b / a).ln()
    }

    fn is_changed(&self) -> bool {
        self.log().abs() >= CHANGED.ln_1p().max(SURE * self.error())
    }

    /// Standard error of [`Self::log`].
    fn error(&self) -> f64 {
        let error: f64 = self.both(Pace::error_of_per_byte).iter().sum();
        error.sqrt()
    }

    /// Nanoseconds that the change in time per byte comes to.
    pub(super) fn weight_ns(&self) -> f64 {
        let [a, b] = self.both(Pace::per_byte);
        (b - a) * self.bytes.iter().sum::<f64>() / 2.0
    }

    /// Returns `true` if latency took up what the application changed, so that nothing was gained or lost.
    fn is_without_effect(&self) -> bool {
        let is_of_latency = |of: &&Term| {
            matches!(
                of.cause,
                Cause::Device | Cause::OtherProcess | Cause::AccessPattern
            )
        };
        let latency: f64 = self
            .terms
            .iter()
            .filter(is_of_latency)
            .map(|of| of.log)
            .sum();
        let largest = self.terms.iter().filter(|of| !is_of_latency(of));
        let largest = largest.map(|of| of.log.abs()).fold(0.0, f64::max);
        self.log().abs() < CHANGED.ln_1p() && (self.follows + latency).abs() >= largest / 2.0
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
        if found.is_empty() && self.is_changed() {
            // What the time per byte changed by is established, and it is this: terms add up without a rest.
            let largest = self
                .terms
                .iter()
                .max_by(|a, b| a.log.abs().total_cmp(&b.log.abs()));
            let is_all = |of: &&Term| {
                of.log * self.log() > 0.0 && (self.log() - of.log).abs() <= REST * self.log().abs()
            };
            found.extend(largest.filter(is_all));
        }
        // What stalled, and what another process did, is in the trace, whether it comes again or not.
        if found.is_empty() && self.is_stall() {
            found.extend(self.terms.iter().find(|of| of.cause == Cause::Device));
        } else if found.is_empty() && self.is_beside() {
            found.extend(self.terms.iter().find(|of| of.cause == Cause::OtherProcess));
        }
        let largest = found.first().map_or(0.0, |of| of.log.abs());
        found.retain(|of| of.log.abs() >= BESIDE * largest);
        found
    }

    /// Name of a cause in reports. Where threads and pauses look the same, it is either.
    fn name(&self, cause: Cause) -> &'static str {
        match (cause, self.or_threads) {
            (Cause::ThinkTime, Some(other)) if self.is_at_own_pace(other) => {
                "think time or arrivals"
            }
            (Cause::ThinkTime, Some(_)) => "think time or queue depth",
            _ => cause.name(),
        }
    }

    /// Returns `true` if requests come at a pace of their own on both sides, so that numbers of threads that were never seen explain them as
    /// well as any other.
    fn is_at_own_pace(&self, threads: [f64; 2]) -> bool {
        let most = |of: &Pace| UNSEEN * of.least_threads() as f64;
        self.sides.iter().all(Pace::is_at_own_pace)
            && self
                .sides
                .iter()
                .zip(threads)
                .any(|(of, count)| count >= most(of))
    }

    /// What changed, in numbers.
    fn detail(&self, cause: Cause) -> String {
        let size = |of: f64| human::quantity(of, report::Unit::Bytes);
        let [x, y] = self.threads;
        match cause {
            Cause::ThinkTime => {
                let pause = |[x, y]: [f64; 2]| {
                    let [a, b] = &self.sides;
                    [a.pause(x), b.pause(y)]
                };
                let [a, b] = pause([x, y]);
                let Some(other) = self.or_threads else {
                    return format!(
                        "mean pause between completion and next issue {} to {}",
                        time(a),
                        time(b)
                    );
                };
                if self.is_at_own_pace(other) {
                    let [c, d] = self.both(|of| of.following() * 100.0);
                    let [e, f] = self.both(Pace::interval);
                    return format!(
                        "a request every {} to {} on average, of which {c:.0} % to {d:.0} % come as another completes: the application pauses longer or has fewer requests at a time, or they arrive at a pace of their own",
                        time(e),
                        time(f)
                    );
                }
                let [c, d] = pause(other);
                format!(
                    "either the mean pause between completion and next issue {} to {} at {} requests at a time, or {} to {} requests at a time with a pause of {} to {}: with pauses this long they look the same",
                    time(a),
                    time(b),
                    count(x),
                    count(other[0]),
                    count(other[1]),
                    time(c),
                    time(d)
                )
            }
            Cause::QueueDepth => format!("{} to {} requests at a time", count(x), count(y)),
            Cause::RequestSize => {
                let [a, b] = self.both(Pace::size);
                format!("mean {} to {}", size(a), size(b))
            }
            Cause::Flush => {
                let [a, b] = self.both(|of| of.flushes);
                let [c, d] = self.both(Pace::flushes_per_request);
                let [e, f] = self.both(Pace::mean_flush);
                let is_as_often = (d - c).abs() <= CHANGED * c.max(d);
                format!(
                    "{a:.0} to {b:.0} flushes ({c:.2} to {d:.2} for each request), of {} to {} each{}",
                    time(e),
                    time(f),
                    match (is_as_often, f > e) {
                        (false, _) => "",
                        (true, true) => ": the device takes longer for a flush",
                        (true, false) => ": the device takes less time for a flush",
                    }
                )
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
            Cause::OtherProcess => format!(
                "{}, beside {}{}",
                self.latencies(),
                self.beside.as_deref().unwrap_or("another process"),
                self.while_beside.map_or(String::new(), |of| format!(
                    " (a request takes {} while it has some in flight, {} otherwise)",
                    time(of.during_ns),
                    time(of.otherwise_ns)
                ))
            ),
            Cause::Device => format!(
                "{}, which nothing that the application does explains: the device or its state differs{}",
                self.latencies(),
                match self.stalls() {
                    Some(text) => format!(
                        ", by {text}{}",
                        match self.is_changed() {
                            true => "",
                            false =>
                                ". It may be a single event: record longer to see whether it comes again",
                        }
                    ),
                    None => String::new(),
                }
            ),
        }
    }

    /// Mean latency of both sides.
    fn latencies(&self) -> String {
        let [a, b] = self.both(Pace::latency);
        format!("mean latency {} to {}", time(a), time(b))
    }

    /// Says that few requests make the difference, of which neither the typical nor the long latency tells; `None` where they do not.
    fn stalls(&self) -> Option<String> {
        let change = |share: f64| {
            let [a, b] = self.both(|of| of.latency_at(share));
            (b / a.max(1.0)).ln().abs()
        };
        let stays = |share: f64| change(share) < CHANGED.ln_1p();
        let [a, b] = self.both(|of| of.latency_at(1.0));
        (stays(0.5) && stays(0.99) && change(1.0) >= STALL.ln()).then(|| {
            format!(
                "a stall of few requests (longest {} to {}; p50 and p99 stay)",
                time(a),
                time(b)
            )
        })
    }

    /// Returns `true` if a cause explains the whole change of the time per byte.
    fn is_all(&self, cause: Cause) -> bool {
        let term = self.terms.iter().find(|of| of.cause == cause);
        let (log, whole) = (term.map_or(0.0, |of| of.log), self.log());
        log * whole > 0.0
            && (whole - log).abs() <= REST * whole.abs()
            && whole.abs() >= CHANGED.ln_1p()
    }

    /// Returns `true` if few requests that stall are what changes the time per byte.
    fn is_stall(&self) -> bool {
        self.stalls().is_some() && self.is_all(Cause::Device)
    }

    /// Returns `true` if requests take longer while those of another process are in flight, and that is what changes the time per byte.
    fn is_beside(&self) -> bool {
        let is_slower = |of: Beside| of.during_ns >= SLOWER_BESIDE * of.otherwise_ns;
        self.while_beside.is_some_and(is_slower) && self.is_all(Cause::OtherProcess)
    }

    /// Typical and long latencies of both sides.
    pub(super) fn tails(&self) -> String {
        let of = |name: &str, share: f64| {
            let [a, b] = self.both(|of| of.latency_at(share));
            format!("{name} {} to {}", time(a), time(b))
        };
        format!(
            "{}, {}, {}",
            of("p50", 0.5),
            of("p99", 0.99),
            of("longest", 1.0)
        )
    }

    /// Bytes of both sides, by direction where both change.
    fn amounts(&self) -> String {
        let size = |of: f64| human::quantity(of, report::Unit::Bytes);
        let [[read_a, write_a], [read_b, write_b]] = self.ways;
        let [a, b] = self.bytes;
        let is_read = write_a.max(write_b) <= 0.0;
        let is_written = read_a.max(read_b) <= 0.0;
        if is_read || is_written {
            return format!("{} to {}", size(a), size(b));
        }
        format!(
            "{} to {} ({} to {} read, {} to {} written)",
            size(a),
            size(b),
            size(read_a),
            size(read_b),
            size(write_a),
            size(write_b)
        )
    }

    fn effect(log: f64) -> String {
        format!("{} time per byte", factor(log))
    }

    /// Says that nothing changed, or that what did is not established: as strongly as the figures allow.
    fn nothing(&self) -> String {
        let least = CHANGED.ln_1p();
        let largest = self
            .terms
            .iter()
            .max_by(|a, b| a.log.abs().total_cmp(&b.log.abs()));
        let Some(term) = largest.filter(|of| of.log.abs() >= least || self.log().abs() >= least)
        else {
            return format!(
                "No cause: think time, depth, size, flushes, pattern and latency each leave the time per byte as it is, to less than {:.0} %. ",
                CHANGED * 100.0
            );
        };
        let of_latency = match term.cause {
            Cause::Device | Cause::OtherProcess | Cause::AccessPattern => {
                format!("; latency {}", self.tails())
            }
            _ => String::new(),
        };
        let what = format!(
            "{} differs most: {} ({}, with a standard error of {:.0} %){of_latency}",
            self.name(term.cause),
            self.detail(term.cause),
            Self::effect(term.log),
            term.error.exp_m1().min(9.99) * 100.0
        );
        if self.is_changed() {
            format!("The time per byte changed, but no cause is established by itself: {what}. ")
        } else {
            let why = match self.stalls() {
                // The detail of the device says so.
                Some(_) if term.cause == Cause::Device => String::new(),
                Some(stall) => format!("The runs differ by {stall}. "),
                None => "Chance may make as much in runs this short: record longer. ".to_owned(),
            };
            format!("No cause is established, and none is ruled out: {what}. {why}")
        }
    }

    /// The causes of the pair in words.
    fn text(&self) -> String {
        let [a, b] = self.both(|of| 1e9 / of.per_byte().max(1e-12));
        let rate = |of: f64| human::quantity(of, report::Unit::Bytes) + "/s";
        let whole = format!(
            "Time per byte of the {}: {:.2}x ({} to {} without breaks)",
            self.part(),
            self.log().exp(),
            rate(a),
            rate(b)
        );
        if self.latency_at_own_pace().is_some() {
            return format!(
                "Device changed: {} ({}), while the application's requests come as often as before: the device or its state differs. The time per byte stays the same, since they come at a pace of their own. {whole}.",
                self.latencies(),
                self.tails()
            );
        }
        let causes = self.changed();
        let mut text = String::new();
        if causes.is_empty() {
            text.push_str(&self.nothing());
        } else if self.is_without_effect() {
            text.push_str("No cause: the time per byte stays the same, and latency takes up what changes: requests come as fast as they are served, or at a pace of their own. Without effect on it: ");
        }
        for (number, term) in causes.iter().enumerate() {
            let name = self.name(term.cause);
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
        let is_seen = self.is_stall() || self.is_beside();
        if !causes.is_empty() && !self.is_without_effect() && !self.is_changed() && !is_seen {
            text.push_str(match self.log().abs() < CHANGED.ln_1p() {
                true => "These make up for each other. ",
                false => "What they come to together is not established. ",
            });
        }
        if self.follows.abs() >= CHANGED.ln_1p() && !causes.is_empty() {
            let [c, d] = self.both(Pace::latency);
            let _ = write!(
                text,
                "Latency followed, {} to {} ({}). ",
                time(c),
                time(d),
                Self::effect(self.follows)
            );
        }
        let processes = self.processes.as_ref();
        text + &whole + "." + &processes.map_or(String::new(), Processes::text)
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
                "flushes": pace.flushes,
                "mean_flush_ns": (pace.flushes > 0.0).then(|| pace.mean_flush()),
                "latency_p50_ns": pace.latency_at(0.5),
                "latency_p99_ns": pace.latency_at(0.99),
                "mean_pause_ns": pace.pause(threads),
                "mean_latency_ns": pace.latency(),
                "mean_bytes": pace.size(),
                "sequential_share": pace.sequential,
                "write_share": pace.write_share(),
                "breaks_ns": pace.breaks_ns,
                "lost_completions_share": pace.lost,
            }))
        };
        let causes = self.causes();
        let terms: Vec<Value> = self
            .terms
            .iter()
            .map(|term| {
                json!({
                    "what": self.name(term.cause),
                    "log_factor": term.log,
                    "standard_error": term.error.is_finite().then_some(term.error),
                    "change_pct": term.log.exp_m1() * 100.0,
                    "is_cause": causes.iter().any(|of| of.cause == term.cause),
                })
            })
            .collect();
        json!({
            "part": self.label,
            "device": self.device,
            "latency_at_own_pace_change_pct": self.latency_at_own_pace().map(|log| log.exp_m1() * 100.0),
            "a": side(0),
            "b": side(1),
            "processes": self.processes.as_ref().map(Processes::to_value),
            "change_pct": self.log().exp_m1() * 100.0,
            "is_changed": self.is_changed(),
            "weight_ns": self.weight_ns(),
            "terms": terms,
            "latency_follows_pct": self.follows.exp_m1() * 100.0,
            "causes": causes.iter().map(|term| self.name(term.cause)).collect::<Vec<_>>(),
        })
    }
}
