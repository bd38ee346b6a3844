//! Kernels, idle time, launches, memory. Each function takes pairs of a trace's name and its result;
//! none fails but for defects, since the columns are fixed.

use report::{Cell, Column, RealFormat, Result, Table};
use trace_model::{DeviceId, StreamId};

use super::{bytes, count, nanos, pct, real_nanos, spread_cells, spread_columns};
use crate::compat::hta::{Combination, StreamIdle};
use crate::compat::tracelens::Launcher;
use crate::idle::Idle;
use crate::kernels::Kernels;
use crate::launch::{LaunchTimes, Launches};
use crate::memory::Memory;
use crate::spread::Spread;

fn trace() -> Column {
    Column::text("trace")
}

fn place() -> [Column; 2] {
    [Column::int("device"), Column::int("stream")]
}

fn place_cells(of: Option<(DeviceId, StreamId)>) -> [Cell<'static>; 2] {
    [of.map(|p| p.0.0).into(), of.map(|p| p.1.0).into()]
}

/// A stretch of time: instants of the trace's clock, or for people times since the first.
fn stretch(for_people: bool) -> [Column; 2] {
    match for_people {
        true => [nanos("start_ns", "from"), nanos("end_ns", "to")],
        false => [Column::int("start_ns"), Column::int("end_ns")],
    }
}

/// Groups of kernels, at most `top` of each trace.
///
/// # Errors
///
/// None but defects.
pub fn kernels<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r Kernels)>,
    top: usize,
) -> Result<Table> {
    let mut columns = vec![
        trace(),
        Column::text("name"),
        Column::text("category"),
        Column::text("class"),
    ];
    columns.extend(spread_columns());
    columns.extend([
        nanos("busy_ns", "busy"),
        pct("share_gpu_pct", "of GPU time"),
        pct("share_busy_pct", "of busy time"),
    ]);
    let mut table = Table::new("kernels", columns)?;
    for (trace, result) in results {
        for group in result.groups.iter().take(top) {
            let mut cells = vec![
                trace.into(),
                Cell::from(&group.name),
                group.kind.map(|kind| kind.category()).into(),
                group.class.map(|class| class.name()).into(),
            ];
            cells.extend(spread_cells(&group.spread));
            cells.extend([
                Cell::from(group.busy_ns),
                group.share_gpu_pct.into(),
                group.share_busy_pct.into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}

/// The same of one trace, for people.
///
/// # Errors
///
/// None but defects.
pub fn kernels_narrow(result: &Kernels, top: usize) -> Result<Table> {
    let columns = vec![
        Column::text("name"),
        count("count", "count"),
        nanos("sum_ns", "sum"),
        pct("share_gpu_pct", "of GPU"),
        real_nanos("median_ns", "median"),
        real_nanos("p99_ns", "p99"),
    ];
    let mut table = Table::new("kernels", columns)?;
    for group in result.groups.iter().take(top) {
        let s = &group.spread;
        table.push(&[
            Cell::from(&group.name),
            s.count.into(),
            s.sum_ns.into(),
            group.share_gpu_pct.into(),
            s.median_ns.into(),
            s.p99_ns.into(),
        ])?;
    }
    Ok(table)
}

/// Launching operators by the rules of TraceLens.
///
/// # Errors
///
/// None but defects.
pub fn launchers<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r [Launcher])>,
) -> Result<Table> {
    let columns = vec![
        trace(),
        Column::text("name"),
        count("count", "operators"),
        nanos("direct_ns", "direct"),
        nanos("subtree_ns", "with all inside"),
    ];
    let mut table = Table::new("launchers", columns)?;
    for (trace, rows) in results {
        for row in rows {
            table.push(&[
                trace.into(),
                Cell::from(&row.name),
                row.count.into(),
                row.direct_ns.into(),
                row.subtree_ns.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Idle time by cause.
///
/// # Errors
///
/// None but defects.
pub fn idle<'r>(results: impl IntoIterator<Item = (&'r str, &'r Idle)>) -> Result<Table> {
    let mut columns = vec![trace(), Column::text("scope")];
    columns.extend(place());
    columns.extend([
        nanos("span_ns", "span"),
        nanos("busy_ns", "busy"),
        count("gaps", "gaps"),
        nanos("idle_ns", "idle"),
        nanos("host_wait_ns", "host wait"),
        nanos("synchronisation_ns", "synchronisation"),
        nanos("launch_latency_ns", "launch latency"),
        nanos("kernel_wait_ns", "kernel wait"),
        nanos("other_ns", "other"),
    ]);
    let mut table = Table::new("idle", columns)?;
    for (trace, result) in results {
        for row in &result.rows {
            let t = &row.time;
            table.push(&[
                trace.into(),
                row.scope.name().into(),
                row.device.map(|d| d.0).into(),
                row.stream.map(|s| s.0).into(),
                row.span_ns.into(),
                row.busy_ns.into(),
                t.gaps.into(),
                t.idle_ns.into(),
                t.host_wait_ns.into(),
                t.synchronisation_ns.into(),
                t.launch_latency_ns.into(),
                t.kernel_wait_ns.into(),
                t.other_ns.into(),
            ])?;
        }
    }
    Ok(table)
}

/// The same of one trace, for people.
///
/// # Errors
///
/// None but defects.
pub fn idle_narrow(result: &Idle) -> Result<Table> {
    let columns = vec![
        Column::text("of"),
        count("gaps", "gaps"),
        nanos("idle_ns", "idle"),
        nanos("host_wait_ns", "host wait"),
        nanos("synchronisation_ns", "sync."),
        nanos("launch_latency_ns", "launch"),
        nanos("kernel_wait_ns", "kernel w."),
        nanos("other_ns", "other"),
    ];
    let mut table = Table::new("idle", columns)?;
    for row in &result.rows {
        let of = match (row.device, row.stream) {
            (Some(device), Some(stream)) => format!("  {}/{}", device.0, stream.0),
            (Some(device), None) => format!("GPU {}", device.0),
            _ => "trace".to_owned(),
        };
        let t = &row.time;
        table.push(&[
            of.as_str().into(),
            t.gaps.into(),
            t.idle_ns.into(),
            t.host_wait_ns.into(),
            t.synchronisation_ns.into(),
            t.launch_latency_ns.into(),
            t.kernel_wait_ns.into(),
            t.other_ns.into(),
        ])?;
    }
    Ok(table)
}

/// The longest gaps; for people their place is the time since the first device work.
///
/// # Errors
///
/// None but defects.
pub fn gaps<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r Idle)>,
    for_people: bool,
) -> Result<Table> {
    let mut columns = Vec::new();
    if !for_people {
        columns.push(trace());
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
    }
    let mut table = Table::new("gaps", columns)?;
    for (trace, result) in results {
        for gap in &result.gaps {
            let mut cells = Vec::new();
            if !for_people {
                cells.push(trace.into());
                cells.extend(place_cells(Some((gap.device, gap.stream))));
                cells.push(gap.start_ns.into());
            } else {
                cells.push((gap.start_ns - result.start_ns).into());
            }
            cells.extend([
                Cell::from(gap.time.idle_ns),
                gap.cause().name().into(),
                Cell::from(&gap.before),
                Cell::from(&gap.after),
            ]);
            if !for_people {
                cells.push(gap.call.as_deref().into());
            }
            table.push(&cells)?;
        }
    }
    Ok(table)
}

/// Idle time by the rules of HTA.
///
/// # Errors
///
/// None but defects.
pub fn hta_idle<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r [StreamIdle])>,
) -> Result<Table> {
    let columns = vec![
        trace(),
        Column::int("stream"),
        nanos("host_wait_ns", "host wait"),
        nanos("kernel_wait_ns", "kernel wait"),
        nanos("other_ns", "other"),
    ];
    let mut table = Table::new("hta_idle", columns)?;
    for (trace, rows) in results {
        for row in rows {
            table.push(&[
                trace.into(),
                row.stream.into(),
                row.host_wait_ns.into(),
                row.kernel_wait_ns.into(),
                row.other_ns.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Combinations of kernel types by the rules of HTA.
///
/// # Errors
///
/// None but defects.
pub fn hta_types<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r [Combination])>,
) -> Result<Table> {
    let columns = vec![
        trace(),
        Column::text("types"),
        nanos("exact_ns", "exact"),
        nanos("cut_ns", "as HTA adds it up"),
    ];
    let mut table = Table::new("hta_types", columns)?;
    for (trace, rows) in results {
        for row in rows {
            table.push(&[
                trace.into(),
                Cell::from(&row.types),
                row.exact_ns.into(),
                row.cut_ns.into(),
            ])?;
        }
    }
    Ok(table)
}

fn metrics(times: &LaunchTimes) -> [(&'static str, &Spread); 5] {
    [
        ("latency", &times.latency),
        ("in_call", &times.in_call),
        ("queued", &times.queued),
        ("dispatch", &times.dispatch),
        ("call", &times.call),
    ]
}

/// Launches, one row for each group and metric.
///
/// # Errors
///
/// None but defects.
pub fn launches<'r>(results: impl IntoIterator<Item = (&'r str, &'r Launches)>) -> Result<Table> {
    let mut columns = vec![trace()];
    columns.extend(place());
    columns.extend([Column::text("kind"), Column::text("metric")]);
    columns.extend(spread_columns());
    columns.push(count("negative", "negative"));
    let mut table = Table::new("launches", columns)?;
    for (trace, result) in results {
        for row in &result.rows {
            for (metric, spread) in metrics(&row.times) {
                let mut cells = vec![trace.into()];
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

/// The same of one trace, for people: all streams together.
///
/// # Errors
///
/// None but defects.
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
        for (metric, s) in metrics(&row.times) {
            let is_first = metric == "latency";
            table.push(&[
                if is_first { row.kind.name() } else { "" }.into(),
                metric.replace('_', " ").as_str().into(),
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

/// Depths of queues.
///
/// # Errors
///
/// None but defects.
pub fn depth<'r>(results: impl IntoIterator<Item = (&'r str, &'r Launches)>) -> Result<Table> {
    let mut columns = vec![trace()];
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
    for (trace, result) in results {
        for row in &result.depth {
            let mut cells = vec![trace.into()];
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

/// Depths of queues over time.
///
/// # Errors
///
/// None but defects.
pub fn depth_series<'r>(
    results: impl IntoIterator<Item = (&'r str, &'r Launches)>,
    for_people: bool,
) -> Result<Table> {
    let mut columns = Vec::new();
    columns.extend((!for_people).then(trace));
    columns.extend(place());
    columns.extend(stretch(for_people));
    columns.extend([
        count("max_depth", "most"),
        Column::real("mean_depth")
            .title("mean")
            .reals(RealFormat::Fixed(3)),
    ]);
    let mut table = Table::new("queue_depth_series", columns)?;
    for (trace, result) in results {
        let first = result.series.iter().map(|p| p.start_ns).min();
        for point in &result.series {
            let mut cells = Vec::new();
            cells.extend((!for_people).then_some(Cell::from(trace)));
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

/// Memory.
///
/// # Errors
///
/// None but defects.
pub fn memory<'r>(results: impl IntoIterator<Item = (&'r str, &'r Memory)>) -> Result<Table> {
    let columns = vec![
        trace(),
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
    ];
    let mut table = Table::new("memory", columns)?;
    for (trace, result) in results {
        for row in &result.rows {
            table.push(&[
                trace.into(),
                row.source.name().into(),
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
            ])?;
        }
    }
    Ok(table)
}

/// The same of one trace, for people.
///
/// # Errors
///
/// None but defects.
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

/// Memory over time.
///
/// # Errors
///
/// None but defects.
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
