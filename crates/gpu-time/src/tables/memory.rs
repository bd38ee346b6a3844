//! Memory.

use report::{Cell, Column, Result, Table};

use super::row_key::{Keys, RowKey};
use super::{bytes, count, stretch, trace};
use crate::memory::Memory;

/// Returns the memory of traces, or of steps of them.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn memory(results: &[(RowKey, &Memory)]) -> Result<Table> {
    let keys = Keys::of(results.iter().map(|r| &r.0));
    let mut columns = keys.columns();
    columns.extend([
        Column::text("source"),
        Column::text("what"),
        Column::int("device"),
        count("samples", "samples"),
        count("allocations", "allocations"),
        count("releases", "releases"),
        Column::uint("allocated_bytes").unit(report::Unit::Bytes),
        Column::uint("released_bytes").unit(report::Unit::Bytes),
        bytes("first_bytes", "first"),
        bytes("peak_bytes", "peak"),
        Column::int("peak_at_ns"),
        bytes("last_bytes", "last"),
        bytes("peak_reserved_bytes", "peak reserved"),
        bytes("last_reserved_bytes", "last reserved"),
    ]);
    let mut table = Table::new("memory", columns)?;
    for (of, result) in results {
        for row in &result.rows {
            let mut cells = keys.cells(of);
            cells.extend([
                Cell::from(row.source.name()),
                Cell::from(&row.what),
                row.device.into(),
                row.samples.into(),
                row.allocations.into(),
                row.releases.into(),
                row.allocated_bytes.into(),
                row.released_bytes.into(),
                row.first_bytes.into(),
                row.peak_bytes.into(),
                row.peak_at_ns.into(),
                row.last_bytes.into(),
                row.peak_reserved_bytes.into(),
                row.last_reserved_bytes.into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}

/// Returns the memory of one trace for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn memory_narrow(result: &Memory) -> Result<Table> {
    let columns = vec![
        Column::text("what"),
        Column::int("device"),
        count("samples", "samples"),
        bytes("first_bytes", "first"),
        bytes("peak_bytes", "peak"),
        bytes("last_bytes", "last"),
        bytes("peak_reserved_bytes", "reserved"),
    ];
    let mut table = Table::new("memory", columns)?;
    for row in &result.rows {
        table.push(&[
            Cell::from(&row.what),
            row.device.into(),
            row.samples.into(),
            row.first_bytes.into(),
            row.peak_bytes.into(),
            row.last_bytes.into(),
            row.peak_reserved_bytes.into(),
        ])?;
    }
    Ok(table)
}

/// Returns the memory of the steps of one trace for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn memory_steps(steps: &[(RowKey, Memory)]) -> Result<Table> {
    let columns = vec![
        Column::text("step"),
        Column::text("what"),
        Column::int("device"),
        bytes("first_bytes", "first"),
        bytes("peak_bytes", "peak"),
        bytes("last_bytes", "last"),
        Column::uint("allocated_bytes")
            .unit(report::Unit::Bytes)
            .title("allocated"),
    ];
    let mut table = Table::new("memory", columns)?;
    for (of, result) in steps {
        let label = of.step_label();
        for row in &result.rows {
            table.push(&[
                Cell::from(&label),
                Cell::from(&row.what),
                row.device.into(),
                row.first_bytes.into(),
                row.peak_bytes.into(),
                row.last_bytes.into(),
                row.allocated_bytes.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the memory over time.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn memory_series<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r Memory)>,
    for_people: bool,
) -> Result<Table> {
    let mut columns = Vec::new();
    columns.extend((!for_people).then(trace));
    columns.extend([Column::text("what"), Column::int("device")]);
    columns.extend(stretch(for_people));
    columns.extend([bytes("peak_bytes", "peak"), bytes("last_bytes", "last")]);
    let mut table = Table::new("memory_series", columns)?;
    for (trace, result) in results {
        let first = result.series.iter().map(|p| p.start_ns).min();
        for point in &result.series {
            let origin = first.filter(|_| for_people).unwrap_or(0);
            let mut cells = Vec::new();
            cells.extend((!for_people).then_some(Cell::from(trace)));
            cells.extend([
                Cell::from(&point.what),
                point.device.into(),
                (point.start_ns - origin).into(),
                (point.end_ns - origin).into(),
                point.peak_bytes.into(),
                point.last_bytes.into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}
