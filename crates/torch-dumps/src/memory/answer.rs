//! The answer to who holds the memory, in words.

use report::human;

use super::{Fragmentation, Replay, Snapshot, fragmentation, replay};

/// A share of the peak below this is not named in the answer, in percent.
const NAMED_PCT: f64 = 5.0;
/// Maximum number of categories that the answer names.
const NAMED: usize = 3;
/// Share of the reserved memory that is free in used segments, outside of the largest free block of each pool, from which on
/// it is called fragmented, in percent.
const FRAGMENTED_PCT: f64 = 10.0;

/// Results of one device.
#[derive(Debug)]
#[non_exhaustive]
pub struct DeviceAnswer {
    /// The device.
    pub device: i64,
    /// Its history.
    pub replay: Replay,
    /// Its reserved memory, by pool.
    pub pools: Vec<Fragmentation>,
}

/// Results of one snapshot.
#[derive(Debug)]
#[non_exhaustive]
pub struct Answer {
    /// Label of the snapshot.
    pub label: String,
    /// The snapshot.
    pub snapshot: Snapshot,
    /// By device.
    pub devices: Vec<DeviceAnswer>,
}

impl Answer {
    /// Analyses a snapshot; its course has `stretches` parts.
    pub fn new(label: String, snapshot: Snapshot, stretches: u32) -> Self {
        let devices = snapshot.devices.iter().map(|device| DeviceAnswer {
            device: device.device,
            replay: replay(&snapshot, device, stretches),
            pools: fragmentation(device),
        });
        Self {
            devices: devices.collect(),
            label,
            snapshot,
        }
    }
}

impl DeviceAnswer {
    /// Returns the reserved memory of all pools.
    pub fn reserved(&self) -> Fragmentation {
        let mut all = Fragmentation::default();
        self.pools.iter().for_each(|pool| all.add(pool));
        all
    }

    /// Returns the bytes at the peak by category, most first.
    pub fn categories(&self) -> Vec<(&str, u64, i64)> {
        let mut list: Vec<(&str, u64, i64)> = Vec::new();
        for holder in &self.replay.holders {
            let name = holder.category.name();
            match list.iter_mut().find(|(known, ..)| *known == name) {
                Some(row) => {
                    row.1 += holder.allocations;
                    row.2 = row.2.saturating_add(holder.bytes);
                }
                None => list.push((name, holder.allocations, holder.bytes)),
            }
        }
        list.sort_by_key(|row| std::cmp::Reverse(row.2));
        list
    }

    /// Returns the answer as one sentence.
    pub fn sentence(&self, snapshot: &Snapshot) -> String {
        let replay = &self.replay;
        let device = self.device;
        let peak = replay.peak_bytes;
        let reserved = shown(replay.reserved_at_peak_bytes);
        if peak == 0 {
            let reserved = self.reserved().reserved_bytes;
            return format!(
                "Nothing is allocated on GPU {device} in the recorded history; {} are reserved.",
                shown(reserved)
            );
        }
        let mut text = match replay.events {
            0 => format!(
                "Allocated memory of GPU {device} was {} when the snapshot was taken, of {reserved} reserved",
                shown(peak)
            ),
            _ => format!(
                "Allocated memory of GPU {device} peaks at {}, of {reserved} reserved",
                shown(peak)
            ),
        };
        let categories = self.categories();
        let named = categories.iter().take(NAMED);
        let named: Vec<String> = named
            .filter(|(_, _, bytes)| share(*bytes, peak) >= NAMED_PCT)
            .map(|(name, _, bytes)| format!("{name} {}", human::percent(share(*bytes, peak))))
            .collect();
        if !named.is_empty() {
            text = format!("{text}: {}", named.join(", "));
        }
        if let Some(first) = replay.holders.first()
            && let Some(place) = snapshot.stacks.place(first.stack)
        {
            let share = human::percent(share(first.bytes, peak));
            text = format!("{text}; the largest part, {share}, was allocated in {place}");
        }
        format!("{text}.")
    }

    /// Returns what else to know, each with a label.
    pub fn lines(&self, snapshot: &Snapshot) -> Vec<(&'static str, String)> {
        let mut lines = Vec::new();
        let (replay, all) = (&self.replay, self.reserved());
        for failed in replay.out_of_memory.iter().take(4) {
            let place = snapshot.stacks.place(failed.stack);
            let place = place.map_or(String::new(), |place| format!(" in {place}"));
            let mut text = format!(
                "{} were asked for{place}, while {} were allocated of {} reserved and the device had {} free",
                shown(failed.bytes),
                shown(failed.allocated_bytes),
                shown(failed.reserved_bytes),
                shown(failed.device_free_bytes)
            );
            // Only the blocks of the snapshot are known.
            if failed.is_last {
                let free = all.split_bytes.saturating_add(all.releasable_bytes);
                text = match free >= failed.bytes && all.largest_free_bytes < failed.bytes {
                    true => format!(
                        "{text}: fragmentation, because {} of the reserved memory were free, in blocks of at most {}",
                        shown(free),
                        shown(all.largest_free_bytes)
                    ),
                    false => format!(
                        "{text}; the largest free block of the reserved memory had {}",
                        shown(all.largest_free_bytes)
                    ),
                };
            }
            lines.push(("out of memory", text));
        }
        if let Some(more) = replay
            .out_of_memory
            .len()
            .checked_sub(4)
            .filter(|more| *more > 0)
        {
            lines.push((
                "",
                format!("and {} more failed allocations", human::count(more as u64)),
            ));
        }
        if all.reserved_bytes > 0 {
            let split = share(all.split_bytes, all.reserved_bytes);
            let is_much = share(all.scattered_bytes, all.reserved_bytes) >= FRAGMENTED_PCT;
            let remedy = match is_much {
                true => format!(
                    ": fragmented, because {} of them lie outside of the largest block; expandable segments \
                     (PYTORCH_ALLOC_CONF=expandable_segments:True) or fewer different sizes leave less",
                    shown(all.scattered_bytes)
                ),
                false => String::new(),
            };
            let blocks = match all.split_blocks {
                1 => "1 block".to_owned(),
                n => format!("{} blocks", human::count(n)),
            };
            lines.push((
                "fragmentation",
                format!(
                    "{} of {} reserved when the snapshot was taken are free in segments in use ({}), in {blocks} of at most \
                     {}{remedy}",
                    human::percent(split),
                    shown(all.reserved_bytes),
                    shown(all.split_bytes),
                    shown(all.largest_free_bytes)
                ),
            ));
            let rest = [
                (
                    "free segments, which empty_cache gives back",
                    all.releasable_bytes,
                ),
                ("released, awaiting another stream", all.awaiting_free_bytes),
                ("rounding of sizes", all.rounding_bytes),
            ];
            let rest: Vec<String> = rest
                .iter()
                .filter(|(_, bytes)| *bytes > 0)
                .map(|(what, bytes)| format!("{} {what}", shown(*bytes)))
                .collect();
            if !rest.is_empty() {
                lines.push(("also", rest.join(", ")));
            }
        }
        match replay.events {
            0 => lines.push((
                "history",
                "no events: the peak before the snapshot is not known; record with \
                 torch.cuda.memory._record_memory_history()"
                    .to_owned(),
            )),
            events => {
                let span = replay.span_us.map_or(String::new(), |us| {
                    format!(" in {}", human::duration(precise(us) * 1000.0))
                });
                lines.push((
                    "history",
                    format!(
                        "{} events{span}; {} were allocated before it",
                        human::count(events),
                        shown(replay.first_bytes)
                    ),
                ));
            }
        }
        if replay.older_bytes > 0 {
            lines.push((
                "no stack",
                format!(
                    "{} of the peak were allocated before the history and released in it: their stacks are not recorded",
                    shown(replay.older_bytes)
                ),
            ));
        }
        if snapshot.skipped > 0 {
            lines.push((
                "left out",
                format!(
                    "{} records without size, address or state",
                    human::count(snapshot.skipped)
                ),
            ));
        }
        lines
    }
}

#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
fn precise(number: i64) -> f64 {
    number as f64
}

fn shown(bytes: i64) -> String {
    human::bytes(precise(bytes))
}

pub(super) fn share(part: i64, whole: i64) -> f64 {
    match whole {
        0 => 0.0,
        whole => 100.0 * precise(part) / precise(whole),
    }
}
