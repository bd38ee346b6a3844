//! Idle time.

use std::collections::BTreeMap;

use report::{Cell, Column, Result, Table};

use super::row_key::{Keys, RowKey};
use super::{count, nanos, place, place_cells, short_names};
use crate::idle::{Idle, IdleScope, IdleTime};

/// Returns the idle time by cause.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn idle(results: &[(RowKey, &Idle)]) -> Result<Table> {
    let keys = Keys::of(results.iter().map(|r| &r.0));
    let mut columns = keys.columns();
    columns.push(Column::text("scope"));
    columns.extend(place());
    columns.extend([
        nanos("span_ns", "span"),
        nanos("busy_ns", "busy"),
        count("gaps", "gaps"),
        nanos("idle_ns", "idle"),
        nanos("host_wait_ns", "host wait"),
        nanos("input_wait_ns", "input wait"),
        nanos("synchronisation_ns", "synchronisation"),
        nanos("launch_call_ns", "in launch call"),
        nanos("launch_latency_ns", "launch latency"),
        nanos("kernel_wait_ns", "kernel wait"),
        nanos("blocked_ns", "stream blocked"),
        nanos("other_ns", "other"),
    ]);
    let mut table = Table::new("idle", columns)?;
    for (of, result) in results {
        for row in &result.rows {
            let t = &row.time;
            let mut cells = keys.cells(of);
            cells.extend::<[Cell<'_>; 15]>([
                row.scope.name().into(),
                row.device.map(|d| d.0).into(),
                row.stream.map(|s| s.0).into(),
                row.span_ns.into(),
                row.busy_ns.into(),
                t.gaps.into(),
                t.idle_ns.into(),
                t.host_wait_ns.into(),
                t.input_wait_ns.into(),
                t.synchronisation_ns.into(),
                t.launch_call_ns.into(),
                t.launch_latency_ns.into(),
                t.kernel_wait_ns.into(),
                t.blocked_ns.into(),
                t.other_ns.into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}

/// Columns for text output; waiting for input has one if there is any.
fn narrow(of: &'static str, has_input: bool) -> Vec<Column> {
    let mut columns = vec![
        Column::text(of),
        count("gaps", "gaps"),
        nanos("idle_ns", "idle"),
        nanos("host_wait_ns", "CPU-bound"),
    ];
    columns.extend(has_input.then(|| nanos("input_wait_ns", "input")));
    columns.extend([
        nanos("synchronisation_ns", "sync."),
        nanos("launch_call_ns", "in call"),
        nanos("launch_ns", "latency"),
        nanos("blocked_ns", "blocked"),
        nanos("other_ns", "unknown"),
    ]);
    columns
}

fn narrow_cells<'c>(of: &'c str, t: &IdleTime, has_input: bool) -> Vec<Cell<'c>> {
    let mut cells = vec![
        of.into(),
        t.gaps.into(),
        t.idle_ns.into(),
        t.host_wait_ns.into(),
    ];
    cells.extend(has_input.then(|| Cell::from(t.input_wait_ns)));
    cells.extend([
        Cell::from(t.synchronisation_ns),
        t.launch_call_ns.into(),
        (t.launch_latency_ns + t.kernel_wait_ns).into(),
        t.blocked_ns.into(),
        t.other_ns.into(),
    ]);
    cells
}

/// Returns the idle time of one trace by cause, for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn idle_narrow(result: &Idle) -> Result<Table> {
    let has_input = result.rows.iter().any(|row| row.time.input_wait_ns > 0);
    let mut table = Table::new("idle", narrow("of", has_input))?;
    for row in &result.rows {
        let of = match (row.device, row.stream) {
            (Some(device), Some(stream)) => format!("  {}/{}", device.0, stream.0),
            (Some(device), None) => format!("GPU {}", device.0),
            _ => "trace".to_owned(),
        };
        table.push(&narrow_cells(&of, &row.time, has_input))?;
    }
    Ok(table)
}

/// Returns the idle time of steps of one trace, for text output: the time of each in which no
/// device ran.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn idle_steps(results: &[(RowKey, &Idle)]) -> Result<Table> {
    let mut rows = results.iter().flat_map(|(_, result)| &result.rows);
    let has_input = rows.any(|row| row.time.input_wait_ns > 0);
    let mut table = Table::new("idle", narrow("step", has_input))?;
    for (of, result) in results {
        let rows = result.rows.iter();
        for row in rows.filter(|row| row.scope == IdleScope::Trace) {
            table.push(&narrow_cells(&of.step_label(), &row.time, has_input))?;
        }
    }
    Ok(table)
}

/// Returns the name of the activity next to a gap; null if there is none.
fn named<'n>(name: &'n str, short: &'n BTreeMap<&str, String>) -> Cell<'n> {
    let name = short.get(name).map_or(name, String::as_str);
    Some(name).filter(|name| !name.is_empty()).into()
}

/// Returns the longest gaps. For text output (`for_people`) times count from the first GPU
/// activity, and kernels have no template arguments and parameters where they stay distinct
/// without.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn gaps(results: &[(RowKey, &Idle)], for_people: bool) -> Result<Table> {
    let keys = Keys::of(results.iter().map(|r| &r.0));
    let mut columns = Vec::new();
    if !for_people {
        columns = keys.columns();
        columns.extend(place());
        columns.push(Column::int("start_ns"));
    }
    columns.extend(for_people.then(|| nanos("start_ns", "at")));
    columns.extend([
        nanos("gap_ns", "gap"),
        Column::text("cause"),
        Column::text("before"),
        Column::text("after"),
    ]);
    if !for_people {
        columns.push(Column::text("call"));
        columns.push(Column::text("host"));
    }
    let mut table = Table::new("gaps", columns)?;
    let mut short = BTreeMap::new();
    if for_people {
        let gaps = results.iter().flat_map(|(_, result)| &result.gaps);
        short = short_names(gaps.flat_map(|gap| [gap.before.as_str(), gap.after.as_str()]));
    }
    for (of, result) in results {
        for gap in &result.gaps {
            let mut cells = Vec::new();
            if !for_people {
                cells = keys.cells(of);
                cells.extend(place_cells(Some((gap.device, gap.stream))));
                cells.push(gap.start_ns.into());
            } else {
                cells.push((gap.start_ns - result.start_ns).into());
            }
            cells.extend([
                Cell::from(gap.time.idle_ns),
                gap.cause().name().into(),
                named(&gap.before, &short),
                named(&gap.after, &short),
            ]);
            if !for_people {
                cells.push(gap.call.as_deref().into());
                cells.push(gap.host.as_deref().into());
            }
            table.push(&cells)?;
        }
    }
    Ok(table)
}
