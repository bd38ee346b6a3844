//! Devices stacked on others: each request of a device mapper, a RAID or a loop device causes requests of the devices below.
//!
//! Such requests lie inside those of the upper device in time and have their direction. What tells a device below from one that
//! only works at the same time is the mapping: a fixed distance in address for each extent (linear, mirror, crypt), a fixed ratio
//! of addresses (stripes), or, where addresses are mapped at will (thin, cache), that each byte of the one is a byte of the other.

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
/// Requests of a distance from which it is a usual one, if it is also that of one in as many.
const USUAL: u64 = 4;
/// Requests that must lie inside others before devices are taken for stacked.
const LEAST: u64 = 8;
/// Maximum number of stripes whose ratio of addresses is tried.
const MAX_STRIPES: usize = 16;
/// Part of the range of addresses that a fixed ratio may be off by.
const OFF: i128 = 8;
/// Minor numbers that a disk of a driver with partitions takes.
const MINORS_OF_DISK: u32 = 16;
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
    /// Requests of other devices that this one lies inside of, which are several where requests were merged below.
    inside: Vec<Part>,
}

impl Open {
    /// Returns the bytes of requests of another device that were issued meanwhile.
    fn issued_by(&self, lower: usize) -> u64 {
        let issued = self.issued.iter().find(|(of, _)| *of == lower);
        issued.map_or(0, |(_, bytes)| *bytes)
    }
}

/// A part of a request that belongs to a request of an upper device.
#[derive(Debug, Clone, Copy)]
struct Part {
    upper: usize,
    number: u64,
    bytes: u64,
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
    /// Least and greatest address above, and of it minus the address below times the number of stripes.
    places: Option<(i128, i128)>,
    slopes: [(i128, i128); MAX_STRIPES],
}

impl Pair {
    /// Notes where a request of the upper device begins, and where it would begin below if it were there from its start.
    fn place(&mut self, above: i128, below: i128) {
        let is_first = self.places.is_none();
        let (low, high) = self.places.unwrap_or((above, above));
        self.places = Some((low.min(above), high.max(above)));
        for (slope, stripes) in self.slopes.iter_mut().zip(1_i128..) {
            let off = above - below * stripes;
            *slope = if is_first {
                (off, off)
            } else {
                (slope.0.min(off), slope.1.max(off))
            };
        }
    }

    /// Returns `true` if addresses below follow those above by a fixed distance for many requests each.
    fn has_distances(&self) -> bool {
        let distances = self.distances.len() as u64 + self.others;
        distances * 4 <= self.requests
    }

    /// Returns `true` if addresses below are those above divided by a number of stripes.
    fn has_ratio(&self) -> bool {
        let Some((low, high)) = self.places else {
            return false;
        };
        let mut slopes = self.slopes.iter();
        high > low && slopes.any(|(least, most)| (most - least) * OFF <= high - low)
    }
}

/// Why a device is taken for stacked on others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Evidence {
    /// The trace has remap events from the upper to the lower device.
    Remap,
    /// Requests of the lower device lie inside those of the upper one.
    Nested,
}

impl Evidence {
    /// Returns the evidence in words.
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
            self.enclose(upper, lower, event, &mut inside);
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

    /// Finds the requests of the upper device that this one belongs to, and counts it there: one with room for it, else
    /// several that together are as large.
    fn enclose(&mut self, upper: usize, lower: usize, event: &Event, inside: &mut Vec<Part>) {
        let pair = self.pairs.entry((upper, lower)).or_default();
        let Some(level) = self.levels.get_mut(upper) else {
            return;
        };
        let bytes = u64::from(event.bytes);
        let oldest_ns = event.t_ns.saturating_sub(WITHOUT_COMPLETION_NS);
        let has_completions = self.completions > 0;
        let room = |open: &Open| {
            let is_candidate = open.direction == event.direction
                && (has_completions || open.issue_ns >= oldest_ns);
            let room = open.bytes.saturating_sub(open.issued_by(lower));
            if is_candidate { room } else { 0 }
        };
        let has_room = |open: &Open| room(open) >= bytes && bytes > 0;
        let begin =
            |open: &Open| i128::from(event.sector) - i128::from(open.issued_by(lower) / 512);
        let distance = |open: &Open| begin(open) - i128::from(open.sector);
        // Of a mirror each lower device has all of a request; of all others no byte is there twice, so that requests which
        // nothing was issued for come first.
        let is_free = |open: &Open| {
            let issued: u64 = open.issued.iter().map(|(_, bytes)| bytes).sum();
            issued + bytes <= open.bytes
        };
        // Addresses of stripes that are read in order fit other requests by accident, each distance a few times.
        let by_distance = |is_usual: bool| {
            let known = pair.distances.iter().take(KNOWN);
            let known = known.filter(|(_, count)| {
                !is_usual || *count >= USUAL && count * USUAL >= pair.requests
            });
            let found = known.filter_map(|(known, _)| {
                let mut open = level.open.iter();
                open.position(|open| {
                    has_room(open) && distance(open) == *known && (is_usual || is_free(open))
                })
            });
            found.min()
        };
        let by_size = |is_alike: fn(u64, u64) -> bool, is_new: bool| {
            let mut open = level.open.iter();
            open.position(|open| {
                has_room(open) && is_alike(open.bytes, bytes) && (!is_new || is_free(open))
            })
        };
        let is_equal = |upper: u64, lower: u64| upper == lower;
        let is_larger = |upper: u64, lower: u64| upper > lower;
        let whole = by_distance(true)
            .or_else(|| by_distance(false))
            .or_else(|| by_size(is_equal, true))
            .or_else(|| by_size(is_larger, true))
            .or_else(|| by_size(is_equal, false))
            .or_else(|| by_size(is_larger, false));
        let shares: Vec<(usize, u64)> = match whole {
            Some(at) => vec![(at, bytes)],
            None => {
                let mut missing = bytes;
                let rooms = level.open.iter().map(room).enumerate();
                let shares = rooms.map_while(|(at, room)| {
                    let share = room.min(missing);
                    let is_missing = missing > 0;
                    missing -= share;
                    is_missing.then_some((at, share))
                });
                let shares: Vec<_> = shares.filter(|(_, share)| *share > 0).collect();
                if missing > 0 { Vec::new() } else { shares }
            }
        };
        let Some(first) = shares.first().and_then(|(at, _)| level.open.get(*at)) else {
            return;
        };
        let found = distance(first);
        pair.place(i128::from(first.sector), begin(first));
        for (at, share) in shares {
            let Some(open) = level.open.get_mut(at) else {
                continue;
            };
            match open.issued.iter_mut().find(|(of, _)| *of == lower) {
                Some((_, sum)) => *sum += share,
                None => open.issued.push((lower, share)),
            }
            let sums: u64 = open.issued.iter().map(|(_, bytes)| bytes).sum();
            if sums >= open.bytes && sums - share < open.bytes {
                level.covered_at_issue += open.bytes;
            }
            inside.push(Part {
                upper,
                number: open.number,
                bytes: share,
            });
        }
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
        for part in &open.inside {
            let enclosing = self.levels.get_mut(part.upper);
            let mut requests = enclosing.into_iter().flat_map(|level| &mut level.open);
            if let Some(around) = requests.find(|around| around.number == part.number) {
                around.completed += part.bytes;
                self.pairs.entry((part.upper, lower)).or_default().bytes += part.bytes;
            }
        }
    }

    /// Returns the bytes of the upper device that were found below it, and those of the lower one that were found above it.
    fn found(&self, above: &Level, pair: &Pair) -> (u64, u64) {
        if self.completions > 0 {
            (above.covered, pair.bytes)
        } else {
            (above.covered_at_issue, pair.bytes_at_issue)
        }
    }

    /// Returns the share of the bytes of a device that requests of other devices were found for; `None` without requests.
    pub(crate) fn share_below(&self, dev: u32) -> Option<f64> {
        let level = self.levels.get(*self.numbers.get(&dev)?)?;
        let covered = if self.completions > 0 {
            level.covered
        } else {
            level.covered_at_issue
        };
        (level.bytes > 0).then(|| covered as f64 / level.bytes as f64)
    }

    /// Returns `true` if all that a device did is all that the devices did whose requests lie inside its own.
    fn is_whole(&self, upper: usize) -> bool {
        let is_all = |part: u64, of: u64| part.saturating_mul(100) >= of.saturating_mul(97);
        let Some(above) = self.levels.get(upper) else {
            return false;
        };
        let mut covered = 0;
        let mut sum = 0;
        for (number, below) in self.levels.iter().enumerate() {
            let Some(pair) = self.pairs.get(&(upper, number)) else {
                continue;
            };
            let (of_upper, nested) = self.found(above, pair);
            if nested > 0 && is_all(nested, below.bytes) {
                covered = of_upper;
                sum += below.bytes;
            }
        }
        covered > 0 && is_all(covered, above.bytes) && is_all(above.bytes, sum)
    }

    /// Returns `true` if the devices of this major number are disks with partitions, by their minor numbers.
    fn are_disks(&self, major: u32) -> bool {
        let minors = self.levels.iter().map(|level| level.dev);
        let minors: Vec<u32> = minors
            .filter(|dev| dev >> 20 == major)
            .map(|dev| dev & 0xf_ffff)
            .collect();
        minors.len() > 1 && minors.iter().all(|minor| minor % MINORS_OF_DISK == 0)
    }

    /// Returns the pairs of devices of which the first lies on the second.
    pub(crate) fn stacked(&self, symbols: &Symbols) -> Vec<(u32, u32)> {
        let has_completions = self.completions > 0;
        let is_most =
            |part: u64, of: u64| part > 0 && part.saturating_mul(10) >= of.saturating_mul(9);
        let mut found = Vec::new();
        for (upper, above) in self.levels.iter().enumerate() {
            let kind = Stackable::of(above.dev, symbols);
            let is_disk = kind == Stackable::Maybe
                && !symbols.is_named_device(above.dev)
                && self.are_disks(above.dev >> 20);
            if kind == Stackable::Never || is_disk {
                continue;
            }
            let is_whole = self.is_whole(upper);
            // Pairs by evidence: those of a device that certainly lies on others may have none but time.
            let mut sure = Vec::new();
            let mut likely = Vec::new();
            for (lower, below) in self.levels.iter().enumerate() {
                let Some(pair) = self.pairs.get(&(upper, lower)) else {
                    continue;
                };
                let (covered, nested) = self.found(above, pair);
                // Part of what the upper device did may have been served elsewhere, and the lower one may have other users.
                let is_below = is_most(nested, below.bytes);
                let fits = is_most(covered, above.bytes) || is_below;
                if !fits || pair.requests < LEAST || nested == 0 {
                    continue;
                }
                // Without completions the order in time is weak evidence, and disks of one driver are often alike.
                let is_order = has_completions || above.dev >> 20 != below.dev >> 20;
                let has_mapping = pair.has_distances() || pair.has_ratio();
                let pair = (above.dev, below.dev);
                if is_order && (has_mapping || (is_whole && is_below)) {
                    sure.push(pair);
                } else if kind == Stackable::Always {
                    likely.push(pair);
                }
            }
            found.extend(if sure.is_empty() { likely } else { sure });
        }
        found.sort_unstable();
        found
    }
}

/// Returns `true` if a device may lie on others, by its number or name.
pub(crate) fn may_lie_on_others(dev: u32, symbols: &Symbols) -> bool {
    Stackable::of(dev, symbols) != Stackable::Never
}

/// `true` if a device can lie on others.
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
