//! Results as tables.

use report::{Cell, Column, SchemaVersion, Table, Unit};

use super::answer::share;
use super::{Answer, DeviceAnswer, Holder};
use crate::error::Result;

/// Schema version of the tables.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(2, 0);

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
        bytes("split_bytes", "free in use"),
        count("split_blocks", "in blocks"),
        bytes("releasable_bytes", "releasable"),
        bytes("largest_free_bytes", "largest free"),
        bytes("rounding_bytes", "rounding"),
        pct("fragmentation_pct", "fragmentation"),
        bytes("scattered_bytes", "scattered"),
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
                share(pool.scattered_bytes, pool.split_bytes).into(),
                pool.scattered_bytes.into(),
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
