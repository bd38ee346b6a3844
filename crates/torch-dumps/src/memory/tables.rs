//! Results as tables and as sentences.

use report::{Cell, Column, SchemaVersion, Table, Unit, human};

use super::{Fragmentation, Holder, Replay, Snapshot, fragmentation, replay};
use crate::error::Result;

/// Schema version of the tables.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 0);

/// A share of the peak below this is not named in the answer, in percent.
const NAMED_PCT: f64 = 5.0;
/// Maximum number of categories that the answer names.
const NAMED: usize = 3;
/// Share of the reserved memory that is free in used segments from which on it is called fragmented, in percent.
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
            let is_much = split >= FRAGMENTED_PCT;
            let remedy = match is_much {
                true => {
                    ": fragmented; expandable segments (PYTORCH_ALLOC_CONF=expandable_segments:True) \
                     or fewer different sizes leave less"
                }
                false => "",
            };
            lines.push((
                "fragmentation",
                format!(
                    "{} of {} reserved when the snapshot was taken are free between used blocks ({}), in {} blocks of at \
                     most {}{remedy}",
                    human::percent(split),
                    shown(all.reserved_bytes),
                    shown(all.split_bytes),
                    human::count(all.split_blocks),
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

fn share(part: i64, whole: i64) -> f64 {
    match whole {
        0 => 0.0,
        whole => 100.0 * precise(part) / precise(whole),
    }
}

fn bytes(name: &'static str, title: &'static str) -> Column {
    Column::int(name).unit(Unit::Bytes).title(title)
}

fn count(name: &'static str, title: &'static str) -> Column {
    Column::uint(name).unit(Unit::Count).title(title)
}

fn pct(name: &'static str, title: &'static str) -> Column {
    Column::real(name).unit(Unit::Pct).title(title)
}

fn all<'a>(
    answers: impl IntoIterator<Item = &'a Answer>,
) -> impl Iterator<Item = (&'a Answer, &'a DeviceAnswer)> {
    let devices = |answer: &'a Answer| answer.devices.iter().map(move |device| (answer, device));
    answers.into_iter().flat_map(devices)
}

/// Returns who held the memory at the peak: one row for each category and stack, most bytes first.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn holders(answers: &[Answer]) -> Result<Table> {
    let columns = vec![
        Column::text("trace"),
        Column::int("device"),
        Column::text("category"),
        count("allocations", "allocations"),
        bytes("bytes", "size"),
        pct("share_pct", "of the peak"),
        Column::text("place"),
        Column::text("stack"),
    ];
    let mut table = Table::new("memory_holders", columns)?;
    for (answer, of) in all(answers) {
        for holder in &of.replay.holders {
            let place = answer.snapshot.stacks.place(holder.stack);
            let stack = answer.snapshot.stacks.text(holder.stack);
            table.push(&[
                Cell::from(&answer.label),
                of.device.into(),
                holder.category.name().into(),
                holder.allocations.into(),
                holder.bytes.into(),
                share(holder.bytes, of.replay.peak_bytes).into(),
                place.as_deref().into(),
                Cell::from(&stack),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the memory of each device: peak, end, reserved.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn devices(answers: &[Answer]) -> Result<Table> {
    let columns = vec![
        Column::text("trace"),
        Column::int("device"),
        count("events", "events"),
        bytes("first_bytes", "first"),
        bytes("peak_bytes", "peak"),
        count("peak_event", "at event"),
        Column::int("peak_us"),
        bytes("last_bytes", "last"),
        bytes("reserved_at_peak_bytes", "reserved"),
        bytes("peak_reserved_bytes", "peak reserved"),
        bytes("last_reserved_bytes", "last reserved"),
        bytes("older_bytes", "no stack"),
        count("out_of_memory", "out of memory"),
    ];
    let mut table = Table::new("memory", columns)?;
    for (answer, of) in all(answers) {
        let replay = &of.replay;
        table.push(&[
            Cell::from(&answer.label),
            of.device.into(),
            replay.events.into(),
            replay.first_bytes.into(),
            replay.peak_bytes.into(),
            replay.peak_event.into(),
            replay.peak_us.into(),
            replay.last_bytes.into(),
            replay.reserved_at_peak_bytes.into(),
            replay.peak_reserved_bytes.into(),
            replay.last_reserved_bytes.into(),
            replay.older_bytes.into(),
            replay.out_of_memory.len().into(),
        ])?;
    }
    Ok(table)
}

/// Returns the reserved memory when the snapshot was taken, one row for each pool.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn pools(answers: &[Answer]) -> Result<Table> {
    let columns = vec![
        Column::text("trace"),
        Column::int("device"),
        Column::text("pool"),
        count("segments", "segments"),
        bytes("reserved_bytes", "reserved"),
        bytes("allocated_bytes", "allocated"),
        bytes("awaiting_free_bytes", "awaiting free"),
        bytes("split_bytes", "free between"),
        count("split_blocks", "in blocks"),
        bytes("releasable_bytes", "releasable"),
        bytes("largest_free_bytes", "largest free"),
        bytes("rounding_bytes", "rounding"),
        pct("fragmentation_pct", "fragmentation"),
    ];
    let mut table = Table::new("memory_fragmentation", columns)?;
    for (answer, of) in all(answers) {
        for pool in &of.pools {
            let name = format!("{},{}", pool.pool.0, pool.pool.1);
            table.push(&[
                Cell::from(&answer.label),
                of.device.into(),
                Cell::from(&name),
                pool.segments.into(),
                pool.reserved_bytes.into(),
                pool.allocated_bytes.into(),
                pool.awaiting_free_bytes.into(),
                pool.split_bytes.into(),
                pool.split_blocks.into(),
                pool.releasable_bytes.into(),
                pool.largest_free_bytes.into(),
                pool.rounding_bytes.into(),
                share(pool.split_bytes, pool.reserved_bytes).into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the course of the memory.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn series(answers: &[Answer]) -> Result<Table> {
    let columns = vec![
        Column::text("trace"),
        Column::int("device"),
        count("first_event", "from event"),
        count("end_event", "to"),
        Column::int("start_us"),
        bytes("peak_bytes", "peak"),
        bytes("last_bytes", "last"),
        bytes("peak_reserved_bytes", "reserved"),
    ];
    let mut table = Table::new("memory_series", columns)?;
    for (answer, of) in all(answers) {
        for point in &of.replay.series {
            table.push(&[
                Cell::from(&answer.label),
                of.device.into(),
                point.first_event.into(),
                point.end_event.into(),
                point.start_us.into(),
                point.peak_bytes.into(),
                point.last_bytes.into(),
                point.peak_reserved_bytes.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the course of the memory of one snapshot for text output: times since the first.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn course(answer: &Answer) -> Result<Table> {
    let columns = vec![
        Column::int("device"),
        count("first_event", "from event"),
        Column::int("start_ns").unit(Unit::Nanos).title("from"),
        bytes("peak_bytes", "peak"),
        bytes("last_bytes", "last"),
        bytes("peak_reserved_bytes", "reserved"),
    ];
    let mut table = Table::new("memory_series", columns)?;
    for (_, of) in all([answer]) {
        let points = &of.replay.series;
        let first = points.first().and_then(|point| point.start_us);
        for point in points {
            let since = point.start_us.zip(first);
            let since = since.map(|(at, first)| at.saturating_sub(first).saturating_mul(1000));
            table.push(&[
                of.device.into(),
                point.first_event.into(),
                since.into(),
                point.peak_bytes.into(),
                point.last_bytes.into(),
                point.peak_reserved_bytes.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the bytes of one device at the peak by category, for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn categories(of: &DeviceAnswer) -> Result<Table> {
    let columns = vec![
        Column::text("category"),
        count("allocations", "allocations"),
        bytes("bytes", "size"),
        pct("share_pct", "of the peak"),
    ];
    let mut table = Table::new("memory_categories", columns)?;
    for (name, allocations, bytes) in of.categories() {
        let share = share(bytes, of.replay.peak_bytes);
        table.push(&[name.into(), allocations.into(), bytes.into(), share.into()])?;
    }
    Ok(table)
}

/// Returns the `top` largest holders of one device, for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn holders_narrow(answer: &Answer, of: &DeviceAnswer, top: usize) -> Result<Table> {
    let columns = vec![
        bytes("bytes", "size"),
        pct("share_pct", "of the peak"),
        count("allocations", "allocations"),
        Column::text("category"),
        Column::text("place").title("allocated in"),
    ];
    let mut table = Table::new("memory_holders", columns)?;
    let rows: Vec<&Holder> = of.replay.holders.iter().take(top).collect();
    for holder in rows {
        let place = answer.snapshot.stacks.place(holder.stack);
        table.push(&[
            holder.bytes.into(),
            share(holder.bytes, of.replay.peak_bytes).into(),
            holder.allocations.into(),
            holder.category.name().into(),
            place.as_deref().into(),
        ])?;
    }
    Ok(table)
}
