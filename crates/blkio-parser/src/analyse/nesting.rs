//! Devices stacked on others: each request of a device mapper, a RAID or a loop device causes requests of the devices below.
//!
//! Such requests lie inside one of the upper device in time, have its direction and at most its size, and a fixed distance in
//! address for each extent that is mapped. Two devices that only work at the same time have no such order.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::{Event, EventKind, Symbols};
use crate::rwbs::Direction;

/// Devices that are compared with each other.
const MAX_DEVICES: usize = 16;
/// Requests in flight of a device that are looked through.
const MAX_OPEN: usize = 256;
/// Distances in address that are kept of a pair of devices.
const MAX_DISTANCES: usize = 256;
/// Distances that are tried before requests of the same size.
const KNOWN: usize = 8;
/// Requests that must lie inside others before devices are taken for stacked.
const LEAST: u64 = 8;
/// Without completions a request of the upper device is waited for this long.
const WITHOUT_COMPLETION_NS: u64 = 10_000_000;

/// A request in flight.
#[derive(Debug, Clone)]
struct Open {
    number: u64,
    issue_ns: u64,
    sector: u64,
    nr_sector: u32,
    bytes: u64,
    direction: Direction,
    /// Bytes of requests of other devices that were issued meanwhile, and of those that have completed.
    issued: Vec<(usize, u64)>,
    completed: u64,
    /// Requests of other devices that this one lies inside of: device and number.
    inside: Vec<(usize, u64)>,
}

/// Requests of one device.
#[derive(Debug, Clone, Default)]
struct Level {
    dev: u32,
    open: VecDeque<Open>,
    bytes: u64,
    /// Bytes of requests inside which others were issued, and inside which they also completed.
    covered_at_issue: u64,
    covered: u64,
}

/// What is known of one device above another.
#[derive(Debug, Clone, Default)]
struct Pair {
    requests: u64,
    bytes_at_issue: u64,
    bytes: u64,
    /// Requests by distance in address, most frequent first as far as they are kept.
    distances: Vec<(i128, u64)>,
    others: u64,
}

/// Why a device is taken for stacked on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Evidence {
    /// The trace has remap events from the upper to the lower device.
    Remap,
    /// Requests of the lower device lie inside those of the upper one.
    Nested,
}

impl Evidence {
    /// The evidence in words.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::Remap => "remap events",
            Self::Nested => "requests nested in time",
        }
    }
}

/// Finds requests that lie inside those of another device.
#[derive(Debug, Clone, Default)]
pub(crate) struct Nesting {
    levels: Vec<Level>,
    numbers: FxHashMap<u32, usize>,
    pairs: FxHashMap<(usize, usize), Pair>,
    next: u64,
    completions: u64,
}

impl Nesting {
    /// Takes the next events, of all devices.
    pub(crate) fn observe_all(&mut self, events: &[Event]) {
        for event in events {
            if !event.direction.is_data() || event.nr_sector == 0 {
                continue;
            }
            match event.kind {
                EventKind::Issue => self.issue(event),
                EventKind::Complete => self.complete(event),
                _ => {}
            }
        }
    }

    fn level(&mut self, dev: u32) -> Option<usize> {
        if let Some(number) = self.numbers.get(&dev) {
            return Some(*number);
        }
        let number = self.levels.len();
        if number >= MAX_DEVICES {
            return None;
        }
        self.levels.push(Level {
            dev,
            ..Level::default()
        });
        self.numbers.insert(dev, number);
        Some(number)
    }

    fn issue(&mut self, event: &Event) {
        let Some(lower) = self.level(event.dev) else {
            return;
        };
        let bytes = u64::from(event.bytes);
        let mut inside = Vec::new();
        for upper in (0..self.levels.len()).filter(|upper| *upper != lower) {
            if let Some(number) = self.enclose(upper, lower, event) {
                inside.push((upper, number));
            }
        }
        self.next += 1;
        let Some(level) = self.levels.get_mut(lower) else {
            return;
        };
        level.bytes += bytes;
        if level.open.len() >= MAX_OPEN {
            level.open.pop_front();
        }
        level.open.push_back(Open {
            number: self.next,
            issue_ns: event.t_ns,
            sector: event.sector,
            nr_sector: event.nr_sector,
            bytes,
            direction: event.direction,
            issued: Vec::new(),
            completed: 0,
            inside,
        });
    }

    /// Finds the request of the upper device that this one belongs to, and counts it there.
    fn enclose(&mut self, upper: usize, lower: usize, event: &Event) -> Option<u64> {
        let pair = self.pairs.entry((upper, lower)).or_default();
        let level = self.levels.get_mut(upper)?;
        let bytes = u64::from(event.bytes);
        let oldest_ns = event.t_ns.saturating_sub(WITHOUT_COMPLETION_NS);
        let has_completions = self.completions > 0;
        let has_room = |open: &Open| {
            let issued = open.issued.iter().find(|(of, _)| *of == lower);
            open.direction == event.direction
                && issued.map_or(0, |(_, bytes)| *bytes) + bytes <= open.bytes
                && (has_completions || open.issue_ns >= oldest_ns)
        };
        let distance = |open: &Open| {
            let issued = open.issued.iter().find(|(of, _)| *of == lower);
            let begun = issued.map_or(0, |(_, bytes)| *bytes) / 512;
            i128::from(event.sector) - i128::from(open.sector) - i128::from(begun)
        };
        let known = pair.distances.iter().take(KNOWN);
        let by_distance = known.flat_map(|(known, _)| {
            let mut open = level.open.iter();
            open.position(|open| has_room(open) && distance(open) == *known)
        });
        let by_size = |is_alike: fn(u64, u64) -> bool| {
            let mut open = level.open.iter();
            open.position(|open| has_room(open) && is_alike(open.bytes, bytes))
        };
        let at = by_distance
            .min()
            .or_else(|| by_size(|upper, lower| upper == lower))
            .or_else(|| by_size(|upper, lower| upper > lower))?;
        let open = level.open.get_mut(at)?;
        let found = distance(open);
        match open.issued.iter_mut().find(|(of, _)| *of == lower) {
            Some((_, sum)) => *sum += bytes,
            None => open.issued.push((lower, bytes)),
        }
        let sums: u64 = open.issued.iter().map(|(_, bytes)| bytes).sum();
        if sums >= open.bytes && sums - bytes < open.bytes {
            level.covered_at_issue += open.bytes;
        }
        let number = open.number;
        pair.requests += 1;
        pair.bytes_at_issue += bytes;
        match pair.distances.iter().position(|(known, _)| *known == found) {
            Some(at) => {
                if let Some((_, count)) = pair.distances.get_mut(at) {
                    *count += 1;
                }
                // Frequent ones are tried first.
                if at > 0
                    && pair.distances.get(at - 1).map(|d| d.1) < pair.distances.get(at).map(|d| d.1)
                {
                    pair.distances.swap(at - 1, at);
                }
            }
            None if pair.distances.len() < MAX_DISTANCES => pair.distances.push((found, 1)),
            None => pair.others += 1,
        }
        Some(number)
    }

    fn complete(&mut self, event: &Event) {
        self.completions += 1;
        let Some(lower) = self.numbers.get(&event.dev).copied() else {
            return;
        };
        let Some(level) = self.levels.get_mut(lower) else {
            return;
        };
        let mut requests = level.open.iter();
        let at = requests
            .position(|open| (open.sector, open.nr_sector) == (event.sector, event.nr_sector));
        let Some(open) = at.and_then(|at| level.open.remove(at)) else {
            return;
        };
        if open.completed >= open.bytes {
            level.covered += open.bytes;
        }
        for (upper, number) in &open.inside {
            let enclosing = self.levels.get_mut(*upper);
            let mut requests = enclosing.into_iter().flat_map(|level| &mut level.open);
            if let Some(around) = requests.find(|around| around.number == *number) {
                around.completed += open.bytes;
                self.pairs.entry((*upper, lower)).or_default().bytes += open.bytes;
            }
        }
    }

    /// Pairs of devices of which the first lies on the second.
    pub(crate) fn stacked(&self, symbols: &Symbols) -> Vec<(u32, u32)> {
        let has_completions = self.completions > 0;
        let mut found = Vec::new();
        #[expect(clippy::iter_over_hash_type, reason = "sorted behind the loop")]
        for ((upper, lower), pair) in &self.pairs {
            let (Some(above), Some(below)) = (self.levels.get(*upper), self.levels.get(*lower))
            else {
                continue;
            };
            let kind = Stackable::of(above.dev, symbols);
            let (covered, nested) = if has_completions {
                (above.covered, pair.bytes)
            } else {
                (above.covered_at_issue, pair.bytes_at_issue)
            };
            let is_most =
                |part: u64, of: u64| part > 0 && part.saturating_mul(10) >= of.saturating_mul(9);
            // Part of what the upper device did may have been served elsewhere, and the lower one may have other users.
            let fits = is_most(covered, above.bytes) || is_most(nested, below.bytes);
            let distances = pair.distances.len() as u64 + pair.others;
            let is_mapped = match kind {
                Stackable::Always => true,
                // Without completions the order in time is weak evidence, and disks of one driver are often alike.
                Stackable::Maybe => {
                    distances * 4 <= pair.requests
                        && (has_completions || above.dev >> 20 != below.dev >> 20)
                }
                Stackable::Never => false,
            };
            if fits && is_mapped && pair.requests >= LEAST && nested > 0 {
                found.push((above.dev, below.dev));
            }
        }
        found.sort_unstable();
        found
    }
}

/// Whether a device can lie on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stackable {
    Always,
    Maybe,
    Never,
}

impl Stackable {
    /// By the name of the device or its major number, as in the kernel's `admin-guide/devices.txt`: md and drbd have numbers
    /// of their own, the device mapper has one of those given on demand, as have disks of some drivers.
    fn of(dev: u32, symbols: &Symbols) -> Self {
        if symbols.is_named_device(dev) {
            let name = symbols.device_name(dev);
            let is = |beginnings: &[&str]| beginnings.iter().any(|of| name.starts_with(of));
            return if is(&["dm-", "md", "drbd", "bcache"]) {
                Self::Always
            } else if is(&["loop"]) {
                Self::Maybe
            } else {
                Self::Never
            };
        }
        match dev >> 20 {
            9 | 147 => Self::Always,
            7 | 232..=254 => Self::Maybe,
            _ => Self::Never,
        }
    }
}
