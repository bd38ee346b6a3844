//! Launches and queues.

use report::{Cell, Column, RealFormat, Result, Table};

use super::row_key::{Keys, RowKey};
use super::{
    count, nanos, pct, place, place_cells, real_nanos, spread_cells, spread_columns, stretch,
};
use crate::launch::{LaunchKind, LaunchTimes, Launches};
use crate::spread::Spread;

/// Returns the metrics: machine name, title and distribution.
fn metrics(times: &LaunchTimes) -> [(&'static str, &'static str, &Spread); 7] {
    [
        ("latency", "latency", &times.latency),
        ("in_call", "  launch API time", &times.in_call),
        ("queued", "  queue delay", &times.queued),
        ("dispatch", "", &times.dispatch),
        ("start_latency", "  start latency", &times.start_latency),
        ("queue_gap", "  gap after queued work", &times.queue_gap),
        ("call", "whole API call", &times.call),
    ]
}

/// Returns the launches, one row for each group and metric.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn launches(results: &[(RowKey, &Launches)]) -> Result<Table> {
    let keys = Keys::of(results.iter().map(|r| &r.0));
    let mut columns = keys.columns();
    columns.extend(place());
    columns.extend([Column::text("kind"), Column::text("metric")]);
    columns.extend(spread_columns());
    columns.push(count("negative", "negative"));
    let mut table = Table::new("launches", columns)?;
    for (of, result) in results {
        for row in &result.rows {
            for (metric, _, spread) in metrics(&row.times) {
                let mut cells = keys.cells(of);
                cells.extend(place_cells(row.stream));
                cells.extend([Cell::from(row.kind.name()), metric.into()]);
                cells.extend(spread_cells(spread));
                cells.push(row.times.negative.into());
                table.push(&cells)?;
            }
        }
    }
    Ok(table)
}

/// Returns the launches of one trace for text output: all streams together.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn launches_narrow(result: &Launches) -> Result<Table> {
    let columns = vec![
        Column::text("what"),
        Column::text("metric"),
        count("count", "count"),
        real_nanos("median_ns", "median"),
        real_nanos("p90_ns", "p90"),
        real_nanos("p99_ns", "p99"),
        nanos("max_ns", "max"),
    ];
    let mut table = Table::new("launches", columns)?;
    for row in result.rows.iter().filter(|row| row.stream.is_none()) {
        for (metric, title, s) in metrics(&row.times) {
            if title.is_empty() || s.count == 0 {
                continue;
            }
            let is_first = metric == "latency";
            table.push(&[
                if is_first { row.kind.name() } else { "" }.into(),
                title.into(),
                s.count.into(),
                s.median_ns.into(),
                s.p90_ns.into(),
                s.p99_ns.into(),
                s.max_ns.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the launches of steps of one trace for text output.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn launch_steps(results: &[(RowKey, &Launches)]) -> Result<Table> {
    let columns = vec![
        Column::text("step"),
        count("count", "count"),
        real_nanos("median_ns", "median"),
        real_nanos("p99_ns", "p99"),
        real_nanos("in_call_ns", "API time"),
        real_nanos("queued_ns", "queue delay"),
        real_nanos("start_latency_ns", "start, idle"),
        real_nanos("queue_gap_ns", "launch gap"),
    ];
    let mut table = Table::new("launches", columns)?;
    for (of, result) in results {
        let mut rows = result.rows.iter();
        let all = rows.find(|row| row.stream.is_none() && row.kind == LaunchKind::All);
        // A step without launches is a row too.
        let times = all.map(|row| &row.times);
        let known = |spread: Option<&Spread>| -> Cell<'static> {
            let spread = spread.filter(|s| s.count > 0);
            spread.map(|s| s.median_ns).into()
        };
        table.push(&[
            of.step_label().as_str().into(),
            times.map_or(0, |t| t.latency.count).into(),
            times.map(|t| t.latency.median_ns).into(),
            times.map(|t| t.latency.p99_ns).into(),
            times.map(|t| t.in_call.median_ns).into(),
            times.map(|t| t.queued.median_ns).into(),
            known(times.map(|t| &t.start_latency)),
            known(times.map(|t| &t.queue_gap)),
        ])?;
    }
    Ok(table)
}

/// Returns the queue depths.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn depth(results: &[(RowKey, &Launches)]) -> Result<Table> {
    let keys = Keys::of(results.iter().map(|r| &r.0));
    let mut columns = keys.columns();
    columns.extend(place());
    columns.extend([
        nanos("span_ns", "span"),
        count("max_depth", "most"),
        Column::real("mean_depth")
            .title("mean")
            .reals(RealFormat::Fixed(3)),
        pct("empty_pct", "empty"),
    ]);
    let mut table = Table::new("queue_depth", columns)?;
    for (of, result) in results {
        for row in &result.depth {
            let mut cells = keys.cells(of);
            cells.extend(place_cells(Some((row.device, row.stream))));
            cells.extend([
                Cell::from(row.span_ns),
                row.max.into(),
                row.mean.into(),
                row.empty_pct.into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}

/// Returns the queue depths over time.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn depth_series(results: &[(RowKey, &Launches)], for_people: bool) -> Result<Table> {
    let keys = Keys::of(results.iter().map(|r| &r.0));
    let mut columns = if for_people {
        Vec::new()
    } else {
        keys.columns()
    };
    columns.extend(place());
    columns.extend(stretch(for_people));
    columns.extend([
        count("max_depth", "most"),
        Column::real("mean_depth")
            .title("mean")
            .reals(RealFormat::Fixed(3)),
    ]);
    let mut table = Table::new("queue_depth_series", columns)?;
    for (of, result) in results {
        let first = result.series.iter().map(|p| p.start_ns).min();
        for point in &result.series {
            let mut cells = if for_people {
                Vec::new()
            } else {
                keys.cells(of)
            };
            cells.extend(place_cells(Some((point.device, point.stream))));
            let origin = first.filter(|_| for_people).unwrap_or(0);
            cells.extend([
                Cell::from(point.start_ns - origin),
                (point.end_ns - origin).into(),
                point.max.into(),
                point.mean.into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}
