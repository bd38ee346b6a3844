//! The course of allocated memory, and who held it at its peak.

use std::collections::BTreeMap;

use rustc_hash::FxHashMap;

use super::category::{Category, category};
use super::{Action, BlockState, DeviceMemory, Snapshot, StackId, Stacks};

/// Allocations of one category and stack that were live at the peak.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// What they are for.
    pub category: Category,
    /// Where they were allocated.
    pub stack: StackId,
    /// Their number.
    pub allocations: u64,
    /// Sum of the sizes asked for.
    pub bytes: i64,
}

/// Memory in one stretch of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Point {
    /// First event of the stretch, from 0.
    pub first_event: u64,
    /// Event after the last one.
    pub end_event: u64,
    /// Start in microseconds since 1970, if recorded.
    pub start_us: Option<i64>,
    /// Maximum of the allocated bytes.
    pub peak_bytes: i64,
    /// Allocated bytes at its end.
    pub last_bytes: i64,
    /// Maximum of the reserved bytes.
    pub peak_reserved_bytes: i64,
}

/// A failed allocation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OutOfMemory {
    /// The event, from 0.
    pub event: u64,
    /// Size that was asked for.
    pub bytes: i64,
    /// Memory that the device had free.
    pub device_free_bytes: i64,
    /// Allocated memory.
    pub allocated_bytes: i64,
    /// Reserved memory.
    pub reserved_bytes: i64,
    /// Where it was asked for.
    pub stack: StackId,
    /// `true` if nothing was allocated or released between it and the snapshot, so that the blocks are those that it met.
    pub is_last: bool,
}

/// Memory of a device over its recorded history. Bytes are sizes as asked for, before rounding.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Replay {
    /// Number of events; 0 if no history was recorded, and the peak is the snapshot itself.
    pub events: u64,
    /// Bytes that were allocated before the history begins.
    pub first_bytes: i64,
    /// Maximum of the allocated bytes.
    pub peak_bytes: i64,
    /// Number of events until the peak; 0 if it is the beginning.
    pub peak_event: u64,
    /// Time of the peak in microseconds since 1970, if recorded.
    pub peak_us: Option<i64>,
    /// Allocated bytes at the end.
    pub last_bytes: i64,
    /// Reserved bytes at the peak.
    pub reserved_at_peak_bytes: i64,
    /// Maximum of the reserved bytes.
    pub peak_reserved_bytes: i64,
    /// Reserved bytes at the end.
    pub last_reserved_bytes: i64,
    /// What was live at the peak, most bytes first.
    pub holders: Vec<Holder>,
    /// Bytes at the peak whose allocation is older than the history, and that were released before the snapshot: their stacks
    /// are not known.
    pub older_bytes: i64,
    /// Failed allocations.
    pub out_of_memory: Vec<OutOfMemory>,
    /// The course, in as many stretches of equally many events as requested.
    pub series: Vec<Point>,
    /// Microseconds from the first event to the last, if recorded.
    pub span_us: Option<i64>,
}

/// An allocation with the events between which it was live.
struct Live {
    bytes: i64,
    stack: StackId,
    label: Option<u32>,
    in_pool: bool,
    /// Number of events before it.
    from: u64,
    /// Number of events until it was released.
    until: u64,
}

/// Plays the history of a device, with its course in `stretches` parts.
pub fn replay(snapshot: &Snapshot, device: &DeviceMemory, stretches: u32) -> Replay {
    let lives = lives(device);
    let events = device.events.len() as u64;
    let mut deltas: Vec<i64> = vec![0; device.events.len() + 1];
    let mut first = 0_i64;
    let mut change = |at: u64, bytes: i64| {
        let slot = usize::try_from(at).ok().and_then(|at| deltas.get_mut(at));
        if let Some(slot) = slot {
            *slot = slot.saturating_add(bytes);
        }
    };
    for live in &lives {
        match live.from {
            0 => first = first.saturating_add(live.bytes),
            from => change(from, live.bytes),
        }
        if live.until <= events {
            change(live.until, live.bytes.saturating_neg());
        }
    }
    let reserved_changes = device.events.iter().map(|event| match event.action {
        Action::Reserve => event.bytes,
        Action::Release => event.bytes.saturating_neg(),
        _ => 0,
    });
    let last_reserved = sum(device.segments.iter().map(|segment| segment.bytes));
    let net = sum(reserved_changes.clone());
    let mut reserved = last_reserved.saturating_sub(net).max(0);
    let mut out = Replay {
        events,
        first_bytes: first,
        peak_bytes: first,
        peak_us: device.events.first().and_then(|event| event.time_us),
        reserved_at_peak_bytes: reserved,
        peak_reserved_bytes: reserved,
        ..Replay::default()
    };
    let last_change = device
        .events
        .iter()
        .rposition(|event| !matches!(event.action, Action::Other | Action::OutOfMemory));
    let mut now = first;
    let mut series = Series::new(stretches, events, (now, reserved));
    for (at, (event, more)) in device.events.iter().zip(reserved_changes).enumerate() {
        let number = at as u64 + 1;
        now = now.saturating_add(deltas.get(at + 1).copied().unwrap_or(0));
        reserved = reserved.saturating_add(more).max(0);
        if now > out.peak_bytes {
            out.peak_bytes = now;
            out.peak_event = number;
            out.peak_us = event.time_us;
            out.reserved_at_peak_bytes = reserved;
        }
        out.peak_reserved_bytes = out.peak_reserved_bytes.max(reserved);
        series.add(at as u64, event.time_us, (now, reserved));
        if event.action == Action::OutOfMemory {
            out.out_of_memory.push(OutOfMemory {
                event: at as u64,
                bytes: event.bytes,
                device_free_bytes: event.address,
                allocated_bytes: now,
                reserved_bytes: reserved,
                stack: event.stack,
                is_last: last_change.is_none_or(|last| last < at),
            });
        }
    }
    out.last_bytes = now;
    out.last_reserved_bytes = reserved;
    out.series = series.points;
    let times = || device.events.iter().filter_map(|event| event.time_us);
    out.span_us = times()
        .max()
        .zip(times().min())
        .map(|(last, first)| last.saturating_sub(first));
    hold(snapshot, &lives, &mut out);
    out
}

fn sum(bytes: impl Iterator<Item = i64>) -> i64 {
    bytes.fold(0, i64::saturating_add)
}

/// Returns all allocations of the history, and those that were live when it began.
fn lives(device: &DeviceMemory) -> Vec<Live> {
    let mut lives: Vec<Live> = Vec::new();
    let mut open: FxHashMap<i64, usize> = FxHashMap::default();
    for (at, event) in device.events.iter().enumerate() {
        let number = at as u64 + 1;
        match event.action {
            Action::Alloc => {
                let live = Live {
                    bytes: event.bytes,
                    stack: event.stack,
                    label: event.label,
                    in_pool: event.in_pool,
                    from: number,
                    until: u64::MAX,
                };
                // A second allocation at an address ends the first: its release was not recorded.
                if let Some(old) = open.insert(event.address, lives.len())
                    && let Some(old) = lives.get_mut(old)
                {
                    old.until = number;
                }
                lives.push(live);
            }
            Action::FreeRequested => {
                match open
                    .remove(&event.address)
                    .and_then(|old| lives.get_mut(old))
                {
                    Some(live) => live.until = number,
                    None => lives.push(Live {
                        bytes: event.bytes,
                        stack: Stacks::NONE,
                        label: None,
                        in_pool: event.in_pool,
                        from: 0,
                        until: number,
                    }),
                }
            }
            // Follows a request, which may be older than the history.
            Action::FreeCompleted => {
                let live = open
                    .remove(&event.address)
                    .and_then(|old| lives.get_mut(old));
                if let Some(live) = live {
                    live.until = number;
                }
            }
            _ => {}
        }
    }
    // What the snapshot holds without an allocation in the history is older.
    for segment in &device.segments {
        let used = segment.blocks.iter();
        for block in used.filter(|block| block.state == BlockState::Allocated) {
            let known = block.address.and_then(|address| open.remove(&address));
            if let Some(live) = known.and_then(|at| lives.get_mut(at)) {
                live.label = live.label.or(block.label);
                live.in_pool |= segment.pool != (0, 0);
                continue;
            }
            lives.push(Live {
                bytes: block.requested_bytes,
                stack: block.stack,
                label: block.label,
                in_pool: segment.pool != (0, 0),
                from: 0,
                until: u64::MAX,
            });
        }
    }
    lives
}

/// Finds what was live at the peak.
fn hold(snapshot: &Snapshot, lives: &[Live], out: &mut Replay) {
    let mut groups: BTreeMap<(Option<u32>, bool, StackId), (u64, i64)> = BTreeMap::new();
    let peak = out.peak_event;
    for live in lives
        .iter()
        .filter(|live| live.from <= peak && live.until > peak)
    {
        let key = (live.label, live.in_pool, live.stack);
        let group = groups.entry(key).or_default();
        group.0 += 1;
        group.1 = group.1.saturating_add(live.bytes);
        if live.from == 0 && live.until != u64::MAX {
            out.older_bytes = out.older_bytes.saturating_add(live.bytes);
        }
    }
    // Labels and pools may lead to one category.
    let mut holders: BTreeMap<(Category, StackId), (u64, i64)> = BTreeMap::new();
    for ((label, in_pool, stack), (count, bytes)) in groups {
        let found = match category(snapshot, label, stack) {
            Category::Other | Category::NoStack if in_pool => Category::Known("CUDA graphs"),
            found => found,
        };
        let holder = holders.entry((found, stack)).or_default();
        holder.0 += count;
        holder.1 = holder.1.saturating_add(bytes);
    }
    let holders = holders
        .into_iter()
        .map(|((category, stack), (allocations, bytes))| Holder {
            category,
            stack,
            allocations,
            bytes,
        });
    out.holders = holders.collect();
    out.holders.sort_by(|a, b| {
        b.bytes
            .cmp(&a.bytes)
            .then_with(|| a.category.cmp(&b.category))
    });
}

/// Collects the course.
struct Series {
    stretches: u64,
    events: u64,
    /// Allocated and reserved bytes before the next event.
    before: (i64, i64),
    points: Vec<Point>,
}

impl Series {
    fn new(stretches: u32, events: u64, before: (i64, i64)) -> Self {
        Self {
            stretches: u64::from(stretches).min(events),
            events,
            before,
            points: Vec::new(),
        }
    }

    fn add(&mut self, event: u64, time_us: Option<i64>, (now, reserved): (i64, i64)) {
        if self.stretches == 0 {
            return;
        }
        let start = |part: u64| {
            let place = u128::from(part) * u128::from(self.events) / u128::from(self.stretches);
            u64::try_from(place).unwrap_or(u64::MAX)
        };
        let part = self.points.len() as u64;
        if event == start(part) {
            self.points.push(Point {
                first_event: event,
                end_event: start(part + 1),
                start_us: time_us,
                peak_bytes: self.before.0,
                last_bytes: now,
                peak_reserved_bytes: self.before.1,
            });
        }
        if let Some(point) = self.points.last_mut() {
            point.peak_bytes = point.peak_bytes.max(now);
            point.peak_reserved_bytes = point.peak_reserved_bytes.max(reserved);
            point.last_bytes = now;
        }
        self.before = (now, reserved);
    }
}
