//! GPU time breakdowns.

use std::collections::BTreeMap;

use report::{Cell, Column, RealFormat, Table};
use trace_model::step_name::step_group;

use super::row_key::{self, RowKey};
use super::{count, nanos, pct};
use crate::account::{GpuTime, percent};
use crate::rules::Rules;
use crate::spread::Spread;
use rank_align::real::nearest;

/// A breakdown with its key.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct GpuRow {
    /// The trace, or a step of it.
    pub of: RowKey,
    /// Device, for breakdowns by device or stream.
    pub device: Option<i64>,
    /// Stream, for breakdowns by stream.
    pub stream: Option<i64>,
    /// Rules of the breakdown.
    pub rules: Rules,
    /// Number of all events of the trace.
    pub events_total: u64,
    /// The breakdown.
    pub time: GpuTime,
    /// Duration of the step on the host, for breakdowns by step.
    pub host_ns: Option<i64>,
}

/// Key columns of the rows.
#[derive(Clone, Copy, Default)]
struct Keys {
    of: row_key::Keys,
    device: bool,
    stream: bool,
}

impl Keys {
    fn of(rows: &[GpuRow]) -> Self {
        Self {
            of: row_key::Keys::of(rows.iter().map(|r| &r.of)),
            device: rows.iter().any(|r| r.device.is_some()),
            stream: rows.iter().any(|r| r.stream.is_some()),
        }
    }

    fn columns(self) -> Vec<Column> {
        let mut columns = self.of.columns();
        if self.device {
            columns.push(Column::int("device"));
        }
        if self.stream {
            columns.push(Column::int("stream"));
        }
        columns
    }

    fn cells(self, row: &GpuRow) -> Vec<Cell<'_>> {
        let mut cells = self.of.cells(&row.of);
        if self.device {
            cells.push(row.device.into());
        }
        if self.stream {
            cells.push(row.stream.into());
        }
        cells
    }
}

/// Returns the reference table for comparison: microseconds with three decimals, percent with four;
/// the overlap is null without communication.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn reference(rows: &[GpuRow]) -> report::Result<Table> {
    let keys = Keys::of(rows);
    let us = |name: &'static str| Column::real(name).reals(RealFormat::Fixed(3));
    let mut columns = keys.columns();
    columns.extend(
        [
            "events_total",
            "gpu_events",
            "kernels",
            "memcpy",
            "memset",
            "comm_kernels",
        ]
        .map(Column::uint),
    );
    columns.extend(
        [
            "span_us",
            "busy_us",
            "idle_us",
            "comp_us",
            "comm_us",
            "memcpy_us",
            "exposed_comm_us",
            "exposed_memcpy_us",
        ]
        .map(us),
    );
    columns.push(Column::real("comm_comp_overlap_pct").reals(RealFormat::Fixed(4)));
    columns.extend(["hta_compute_us", "hta_noncompute_us"].map(us));
    columns.extend(["gaps_ge_10us", "subus_gpu_events"].map(Column::uint));
    let mut table = Table::new("gpu", columns)?;
    for row in rows {
        let t = &row.time;
        let mut cells = keys.cells(row);
        cells.extend(
            [
                row.events_total,
                t.gpu_events,
                t.kernels,
                t.memcpy,
                t.memset,
                t.comm_kernels,
            ]
            .map(Cell::UInt),
        );
        // Without GPU activity and without a window, all times are unknown, including zero ones.
        let known = t.gpu_events > 0 || t.span_ns > 0;
        let micros = |ns| match known {
            true => micros(ns),
            false => Cell::Null,
        };
        cells.extend(
            [
                t.span_ns,
                t.busy_ns,
                t.idle_ns,
                t.comp_ns,
                t.comm_ns,
                t.memcpy_ns,
                t.exposed_comm_ns,
                t.exposed_memcpy_ns,
            ]
            .map(micros),
        );
        cells.push(t.comm_comp_overlap_pct().into());
        cells.extend([t.kernel_comp_ns, t.noncompute_ns()].map(micros));
        cells.extend([t.gaps_ge_10us, t.subus_gpu_events].map(Cell::UInt));
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns a duration in microseconds. Three decimals are exact up to 2^53 ns, more than a hundred
/// days.
#[expect(clippy::cast_precision_loss, reason = "see above")]
fn micros(ns: i64) -> Cell<'static> {
    Cell::Real(ns as f64 / 1000.0)
}

/// Returns the breakdowns in nanoseconds, with all columns.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn gpu(rows: &[GpuRow]) -> report::Result<Table> {
    let keys = Keys::of(rows);
    let mut columns = keys.columns();
    columns.extend([
        Column::text("rules"),
        count("events_total", "events"),
        count("gpu_events", "GPU events"),
        count("kernels", "kernels"),
        count("memcpy", "memcpy"),
        count("memset", "memset"),
        count("comm_kernels", "comm. kernels"),
        Column::int("start_ns").title("start ns"),
        nanos("span_ns", "span"),
        nanos("busy_ns", "busy"),
        nanos("idle_ns", "idle"),
        nanos("comp_ns", "comp."),
        nanos("comm_ns", "comm."),
        nanos("memcpy_ns", "copy"),
        nanos("exposed_comm_ns", "exposed comm."),
        nanos("exposed_memcpy_ns", "exposed copy"),
        nanos("exposed_other_ns", "exposed other"),
        nanos("kernel_comp_ns", "kernel comp."),
        nanos("overlap_ns", "overlap"),
        pct("comm_comp_overlap_pct", "overlap of comm."),
        nanos("micro_idle_ns", "idle < 10 µs"),
        nanos("macro_idle_ns", "idle >= 10 µs"),
        count("gaps_ge_10us", "gaps >= 10 µs"),
        count("subus_gpu_events", "events < 1 µs"),
        count("zero_ns_events", "events of 0 ns"),
        nanos("total_dur_ns", "sum of durations"),
    ]);
    let has_host = rows.iter().any(|row| row.host_ns.is_some());
    columns.extend(has_host.then(|| nanos("host_ns", "host")));
    let mut table = Table::new("gpu", columns)?;
    for row in rows {
        let t = &row.time;
        // Without GPU activity and without a window, all times are unknown, including zero ones.
        let known = t.gpu_events > 0 || t.span_ns > 0;
        let ns = |ns: i64| Cell::from(known.then_some(ns));
        let mut cells = keys.cells(row);
        cells.extend::<[Cell<'_>; 26]>([
            row.rules.name().into(),
            row.events_total.into(),
            t.gpu_events.into(),
            t.kernels.into(),
            t.memcpy.into(),
            t.memset.into(),
            t.comm_kernels.into(),
            ns(t.start_ns),
            ns(t.span_ns),
            ns(t.busy_ns),
            ns(t.idle_ns),
            ns(t.comp_ns),
            ns(t.comm_ns),
            ns(t.memcpy_ns),
            ns(t.exposed_comm_ns),
            ns(t.exposed_memcpy_ns),
            ns(t.exposed_other_ns),
            ns(t.kernel_comp_ns),
            ns(t.overlap_ns),
            t.comm_comp_overlap_pct().into(),
            ns(t.micro_idle_ns),
            ns(t.macro_idle_ns),
            t.gaps_ge_10us.into(),
            t.subus_gpu_events.into(),
            t.zero_ns_events.into(),
            ns(t.total_dur_ns),
        ]);
        cells.extend(has_host.then(|| Cell::from(row.host_ns)));
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns one breakdown, line by line, each time with its share of the span.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn profile(time: &GpuTime) -> report::Result<Table> {
    let columns = vec![
        Column::text("what").title(""),
        nanos("time_ns", "time"),
        pct("span_pct", "of span"),
    ];
    let mut table = Table::new("profile", columns)?;
    let mut lines = vec![
        ("span", time.span_ns),
        ("  busy", time.busy_ns),
        ("    computation", time.comp_ns),
        ("    exposed communication", time.exposed_comm_ns),
        ("    exposed memcpy", time.exposed_memcpy_ns),
    ];
    if time.exposed_other_ns > 0 {
        lines.push(("    exposed other work", time.exposed_other_ns));
    }
    lines.extend([
        ("  idle", time.idle_ns),
        ("    in gaps below 10 µs", time.micro_idle_ns),
        ("    in gaps of 10 µs and more", time.macro_idle_ns),
        ("communication in all", time.comm_ns),
        ("  while kernels computed", time.overlap_ns),
        ("memcpy in all", time.memcpy_ns),
    ]);
    for (what, ns) in lines {
        table.push(&[what.into(), ns.into(), percent(ns, time.span_ns).into()])?;
    }
    Ok(table)
}

/// Returns the breakdowns of several traces, one line each, in percent of the span.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn traces(rows: &[GpuRow]) -> report::Result<Table> {
    let columns = vec![
        Column::text("trace"),
        nanos("span_ns", "span"),
        pct("busy_pct", "busy"),
        pct("comp_pct", "comp."),
        pct("exposed_comm_pct", "exp. comm"),
        pct("exposed_memcpy_pct", "exp. memcpy"),
        pct("idle_pct", "idle"),
        pct("comm_comp_overlap_pct", "overlap"),
    ];
    let mut table = Table::new("traces", columns)?;
    for row in rows {
        let t = &row.time;
        let share = |ns: i64| percent(ns, t.span_ns);
        table.push(&[
            row.of.trace.as_str().into(),
            t.span_ns.into(),
            share(t.busy_ns).into(),
            share(t.comp_ns).into(),
            share(t.exposed_comm_ns).into(),
            share(t.exposed_memcpy_ns).into(),
            share(t.idle_ns).into(),
            t.comm_comp_overlap_pct().into(),
        ])?;
    }
    Ok(table)
}

/// A quantile with its name.
type Quantile = (&'static str, fn(&Spread) -> f64);

const QUANTILES: [Quantile; 2] = [("median", |s| s.median_ns), ("p90", |s| s.p90_ns)];

/// Returns the distribution of the breakdowns of steps: the median and the 90th percentile of each
/// time.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
fn spread_rows(
    rows: &[&GpuRow],
    has_batch: bool,
    has_host: bool,
    table: &mut Table,
) -> report::Result<()> {
    let of = |f: fn(&GpuTime) -> i64| {
        let values = rows.iter().map(|row| f(&row.time));
        Spread::of(&mut values.collect::<Vec<_>>())
    };
    let host = rows.iter().filter_map(|row| row.host_ns);
    let host = Spread::of(&mut host.collect::<Vec<_>>());
    let columns: [fn(&GpuTime) -> i64; 6] = [
        |t| t.span_ns,
        |t| t.busy_ns,
        |t| t.comp_ns,
        |t| t.exposed_comm_ns,
        |t| t.exposed_memcpy_ns,
        |t| t.idle_ns,
    ];
    let spreads = columns.map(of);
    let whole = |ns: f64| Cell::Int(nearest(ns));
    let counts = of(|t| i64::try_from(t.gpu_events).unwrap_or(i64::MAX));
    let events = |n: f64| Cell::from(nearest(n).unsigned_abs());
    for (name, quantile) in QUANTILES {
        let mut cells = vec![Cell::from(name)];
        cells.extend(has_batch.then_some(Cell::Null));
        cells.push(events(quantile(&counts)));
        cells.extend(has_host.then(|| whole(quantile(&host))));
        cells.extend(spreads.iter().map(|s| whole(quantile(s))));
        table.push(&cells)?;
    }
    Ok(())
}

/// Minimum duration of a marked step, as a multiple of the median.
const OUTLIER: i64 = 2;

fn of_steps(row: &GpuRow) -> bool {
    row.of.step_index.is_some() && row.device.is_none()
}

/// Returns for each row whether it is a step that lasts more than twice the median of the steps of
/// its kind, of which there are three or more. Kinds are those of [`step_group`].
fn outliers(rows: &[GpuRow]) -> Vec<bool> {
    let kind = |row: &GpuRow| row.of.step.as_deref().map(step_group);
    let mut spans: BTreeMap<Option<String>, Vec<i64>> = BTreeMap::new();
    for row in rows.iter().filter(|row| of_steps(row)) {
        spans.entry(kind(row)).or_default().push(row.time.span_ns);
    }
    let limits: BTreeMap<Option<String>, i64> = spans
        .into_iter()
        .filter(|(_, spans)| spans.len() > 2)
        .map(|(kind, mut spans)| {
            let median = nearest(Spread::of(&mut spans).median_ns);
            (kind, OUTLIER.saturating_mul(median))
        })
        .collect();
    let is_outlier = |row: &GpuRow| {
        let limit = limits.get(&kind(row));
        of_steps(row) && limit.is_some_and(|limit| row.time.span_ns > *limit)
    };
    rows.iter().map(is_outlier).collect()
}

/// Returns `true` if [`parts`] marks a step with `!`.
pub fn has_outliers(rows: &[GpuRow]) -> bool {
    outliers(rows).contains(&true)
}

/// Returns the breakdowns of parts of one trace, one line each. With three or more steps the median
/// and the 90th percentile follow; a step that lasts more than twice the median of its kind is marked
/// with `!`.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn parts(rows: &[GpuRow]) -> report::Result<Table> {
    let has_host = rows.iter().any(|row| row.host_ns.is_some());
    let has_batch = rows.iter().any(|row| row.of.batch_label().is_some());
    let mut columns = vec![Column::text("part")];
    columns.extend(has_batch.then(|| Column::text("batch")));
    columns.push(count("gpu_events", "events"));
    columns.extend(has_host.then(|| nanos("host_ns", "host")));
    columns.extend([
        nanos("span_ns", "span"),
        nanos("busy_ns", "busy"),
        nanos("comp_ns", "comp."),
        nanos("exposed_comm_ns", "exp. comm"),
        nanos("exposed_memcpy_ns", "exp. copy"),
        nanos("idle_ns", "idle"),
    ]);
    let mut table = Table::new("parts", columns)?;
    let steps: Vec<&GpuRow> = rows.iter().filter(|row| of_steps(row)).collect();
    let has_spread = steps.len() > 2;
    for (row, is_outlier) in rows.iter().zip(outliers(rows)) {
        let mut part = Vec::new();
        part.extend(is_outlier.then(|| "!".to_owned()));
        part.extend(row.of.step.is_some().then(|| row.of.step_label()));
        match (row.device, row.stream) {
            (Some(device), Some(stream)) => part.push(format!("{device}/{stream}")),
            (Some(device), None) => part.push(format!("GPU {device}")),
            _ => {}
        }
        let part = part.join(" ");
        let t = &row.time;
        let batch = row.of.batch_label();
        let mut cells = vec![Cell::from(part.as_str())];
        cells.extend(has_batch.then(|| Cell::from(batch.as_deref())));
        cells.push(t.gpu_events.into());
        cells.extend(has_host.then(|| Cell::from(row.host_ns)));
        cells.extend([
            Cell::from(t.span_ns),
            t.busy_ns.into(),
            t.comp_ns.into(),
            t.exposed_comm_ns.into(),
            t.exposed_memcpy_ns.into(),
            t.idle_ns.into(),
        ]);
        table.push(&cells)?;
    }
    if has_spread {
        spread_rows(&steps, has_batch, has_host, &mut table)?;
    }
    Ok(table)
}
