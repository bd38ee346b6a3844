//! Results as tables of `report`: wide ones in integer nanoseconds for programs, narrow ones for
//! terminals.

pub mod comm;
pub mod diff;
mod gpu;
mod hta;
mod idle;
mod kernels;
mod launch;
mod memory;
mod row_key;

use std::collections::BTreeMap;

use report::{Cell, Column, SchemaVersion, Table, Unit};
use trace_model::kernel::display_names;
use trace_model::{DeviceId, StreamId};

use crate::note::Note;
use crate::spread::Spread;

pub use gpu::{GpuRow, gpu, has_outliers, parts, profile, reference, traces};
pub use hta::{hta_idle, hta_types};
pub use idle::{gaps, idle, idle_narrow, idle_steps};
pub use kernels::{kernels, kernels_narrow, launchers};
pub use launch::{depth, depth_series, launch_steps, launches, launches_narrow};
pub use memory::{memory, memory_narrow, memory_series, memory_steps};
pub use row_key::RowKey;

/// Schema version of all tables of this crate.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 0);

fn nanos(name: &'static str, title: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos).title(title)
}

fn real_nanos(name: &'static str, title: &'static str) -> Column {
    Column::real(name).unit(Unit::Nanos).title(title)
}

fn count(name: &'static str, title: &'static str) -> Column {
    Column::uint(name).unit(Unit::Count).title(title)
}

fn bytes(name: &'static str, title: &'static str) -> Column {
    Column::int(name).unit(Unit::Bytes).title(title)
}

fn pct(name: &'static str, title: &'static str) -> Column {
    Column::real(name).unit(Unit::Pct).title(title)
}

/// Returns names of GPU activities for text output, as [`display_names`] makes them: distinct where
/// the names are.
pub fn short_names<'n>(names: impl IntoIterator<Item = &'n str>) -> BTreeMap<&'n str, String> {
    display_names(names)
}

fn trace() -> Column {
    Column::text("trace")
}

fn place() -> [Column; 2] {
    [Column::int("device"), Column::int("stream")]
}

fn place_cells(of: Option<(DeviceId, StreamId)>) -> [Cell<'static>; 2] {
    [of.map(|p| p.0.0).into(), of.map(|p| p.1.0).into()]
}

/// Returns the columns of an interval: instants of the trace's clock, or for text output times
/// since the first.
fn stretch(for_people: bool) -> [Column; 2] {
    match for_people {
        true => [nanos("start_ns", "from"), nanos("end_ns", "to")],
        false => [Column::int("start_ns"), Column::int("end_ns")],
    }
}

/// Returns a table of lists, one for each trace.
fn rows_of<'r, R: 'r, const N: usize>(
    name: &'static str,
    columns: [Column; N],
    results: impl IntoIterator<Item = (&'r str, &'r [R])>,
    cells: impl Fn(&'r R) -> [Cell<'r>; N],
) -> report::Result<Table> {
    let all = std::iter::once(trace()).chain(columns).collect();
    let mut table = Table::new(name, all)?;
    for (trace, rows) in results {
        for row in rows {
            let mut line = vec![Cell::from(trace)];
            line.extend(cells(row));
            table.push(&line)?;
        }
    }
    Ok(table)
}

fn spread_columns() -> [Column; 10] {
    [
        count("count", "count"),
        nanos("sum_ns", "sum"),
        real_nanos("mean_ns", "mean"),
        nanos("min_ns", "min"),
        nanos("max_ns", "max"),
        real_nanos("std_ns", "std. dev."),
        real_nanos("median_ns", "median"),
        real_nanos("p90_ns", "p90"),
        real_nanos("p95_ns", "p95"),
        real_nanos("p99_ns", "p99"),
    ]
}

fn spread_cells(s: &Spread) -> [Cell<'static>; 10] {
    [
        s.count.into(),
        s.sum_ns.into(),
        s.mean_ns.into(),
        s.min_ns.into(),
        s.max_ns.into(),
        s.std_ns.into(),
        s.median_ns.into(),
        s.p90_ns.into(),
        s.p95_ns.into(),
        s.p99_ns.into(),
    ]
}

/// Returns the notes on each trace.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn notes<'n>(notes: impl IntoIterator<Item = (&'n str, &'n Note)>) -> report::Result<Table> {
    let columns = vec![
        Column::text("trace"),
        Column::text("code"),
        count("events", "events"),
        nanos("time_ns", "time"),
        Column::text("text"),
    ];
    let mut table = Table::new("notes", columns)?;
    for (trace, note) in notes {
        table.push(&[
            trace.into(),
            note.code.into(),
            note.count.into(),
            note.ns.into(),
            note.text.as_str().into(),
        ])?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_names_stay_distinct() {
        let names = [
            "void flash::attend<1>(flash::Params)",
            "void norm<float>(int)",
            "void norm<half>(int)",
            "Memcpy HtoD (Pinned -> Device)",
            "(int)",
        ];
        let short = short_names(names);
        let short = names.map(|name| short[name].as_str());
        let [attend, .., copy, odd] = short;
        assert_eq!(attend, "flash::attend");
        assert_eq!([copy, odd], [names[3], names[4]]);
        assert_eq!(short[1..3], ["norm<float>", "norm<half>"]);
    }
}
