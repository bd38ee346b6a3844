//! Tables of functions and counters by cycle, and the events of a cycle.

use std::io::{self, Write};

use rca_cycles::compat::{CycleEvent, CycleRow, Report, VirtualEvent};
use report::{Cell, Column, RealFormat, RowSink};
use serde::Serializer as _;
use serde_json::{Map, Value, json};
use trace_model::{ArgValue, Slice, Trace};

/// Writes the events of a cycle as a list in JSON, virtual ones last.
///
/// # Errors
///
/// Those of `out`.
pub fn events(out: &mut dyn Write, trace: &Trace, cycle: &CycleRow) -> io::Result<()> {
    let real = cycle.events.iter().map(|e| event(trace, *e));
    let all = real.chain(cycle.virtuals.iter().map(|v| stand_in(trace, v)));
    // One at a time: as values they take ten times the memory of their text.
    Ok(serde_json::Serializer::pretty(out).collect_seq(all)?)
}

/// Returns an event that represents others.
#[must_use]
pub fn stand_in(trace: &Trace, v: &VirtualEvent) -> Value {
    let mut args = v
        .args_of
        .map_or_else(Map::new, |slice| arguments(trace.slice(slice)));
    for (key, value) in &v.args {
        args.insert(key.clone(), json!(value));
    }
    if v.category != "virtual_nccl_kernel" {
        args.insert("num_kernels".to_owned(), json!(v.kernels));
    }
    json!({
        "name": v.name,
        "cat": v.category,
        "ph": "X",
        "pid": v.pid,
        "tid": v.tid,
        "ts": v.ts_us,
        "dur": v.dur_us,
        "args": args,
    })
}

fn arguments(slice: Slice<'_>) -> Map<String, Value> {
    let mut args = Map::new();
    for (key, value) in slice.args() {
        let key = key.strip_prefix("args.").unwrap_or(key);
        let value = match value {
            ArgValue::Int(n) => json!(n),
            ArgValue::UInt(n) | ArgValue::Pointer(n) => json!(n),
            ArgValue::Real(x) => json!(x),
            ArgValue::Bool(b) => json!(b),
            ArgValue::Str(t) => json!(t),
            ArgValue::Json(t) => serde_json::from_str(t).unwrap_or_else(|_| json!(t)),
            _ => Value::Null,
        };
        args.insert(key.to_owned(), value);
    }
    args
}

/// Converts nanoseconds to microseconds, the unit of the other fields.
#[expect(clippy::cast_precision_loss, reason = "shown; exact below 2^53 ns")]
fn micros(ns: i64) -> Value {
    json!(ns as f64 / 1000.0)
}

/// Returns an event as read, cut to its cycle.
fn event(trace: &Trace, one: CycleEvent) -> Value {
    let slice = trace.slice(one.slice);
    let track = slice.track();
    let thread = track.thread.map(|t| trace.thread(t));
    let process = track.process.map(|p| trace.process(p));
    let mut args = arguments(slice);
    if one.cut {
        let range = slice.range();
        args.insert("is_slice".to_owned(), json!(true));
        args.insert("original_ts".to_owned(), micros(range.start.nanos()));
        args.insert("original_dur".to_owned(), micros(range.duration().get()));
    }
    let place = |artificial: bool, name: Option<trace_model::StrId>, number: i64| match name {
        Some(name) if artificial => json!(trace.text(name)),
        _ => json!(number),
    };
    json!({
        "name": slice.name(),
        "cat": slice.category(),
        "ph": "X",
        "pid": process.map(|p| place(p.artificial, p.name, p.pid.0)),
        "tid": thread.map(|t| place(t.artificial, t.name, t.tid.0)),
        "ts": one.ts_us,
        "dur": one.dur_us,
        "args": args,
    })
}

/// Writes the table of functions by cycle; the reference has no columns for bytes, classes and single calls.
///
/// # Errors
///
/// Those of `sink`.
pub fn functions(
    report: &Report,
    compat: bool,
    sink: &mut dyn RowSink,
) -> Result<(), report::Error> {
    let four = |name: &'static str| Column::real(name).reals(RealFormat::Fixed(4));
    let mut columns = vec![
        Column::uint("cycle"),
        Column::int("pid"),
        Column::text("hostname"),
        four("beta_pct"),
        Column::text("function_name"),
        Column::text("metric_name"),
        Column::text("device"),
        Column::text("func_type"),
        four("mu_pct"),
        four("sigma_pct"),
        four("duration"),
        Column::text("interpolation_status"),
        Column::text("anchor_name"),
        four("anchor_dur_us"),
        four("cycle_start_ts"),
        Column::uint("instances_count"),
        Column::text("simple_name"),
    ];
    if !compat {
        columns.push(Column::int("copy_bytes"));
        columns.push(Column::text("kernel_class"));
        columns.push(four("device_busy_us"));
        columns.push(four("exposed_comm_us"));
        columns.push(four("shortest_call_us"));
        columns.push(four("longest_call_us"));
        columns.push(Column::uint("longest_call"));
    }
    sink.begin(&columns)?;
    for row in &report.rows {
        let mut cells: Vec<Cell<'_>> = vec![
            row.cycle.into(),
            row.pid.into(),
            (&row.hostname).into(),
            row.beta_pct.into(),
            (&row.function_name).into(),
            row.metric.map_or("N/A", |m| m.0).into(),
            (&row.device).into(),
            row.func_type.into(),
            row.metric.map(|m| m.1).into(),
            row.metric.map(|m| m.2).into(),
            row.duration_us.into(),
            row.interpolation.into(),
            (&row.anchor_name).into(),
            row.anchor_dur_us.into(),
            row.cycle_start_us.into(),
            row.instances.into(),
            (&row.simple_name).into(),
        ];
        if !compat {
            cells.push(row.copy_bytes.into());
            cells.push(row.kernel_class.into());
            cells.push(row.device_us.map(|us| us.0).into());
            cells.push(row.device_us.map(|us| us.1).into());
            cells.push(row.calls.map(|calls| calls.shortest_us).into());
            cells.push(row.calls.map(|calls| calls.longest_us).into());
            cells.push(row.calls.map(|calls| calls.longest).into());
        }
        sink.row(&cells)?;
    }
    sink.finish()
}

/// Writes the samples inside cycles; the reference does not write their instances.
///
/// # Errors
///
/// Those of `sink`.
pub fn counters(
    report: &Report,
    compat: bool,
    sink: &mut dyn RowSink,
) -> Result<(), report::Error> {
    let six = |name: &'static str| Column::real(name).reals(RealFormat::Fixed(6));
    let mut columns = vec![
        Column::text("counter_name"),
        six("timestamp"),
        six("value"),
        Column::text("hostname"),
    ];
    if !compat {
        columns.push(Column::int("instance"));
    }
    sink.begin(&columns)?;
    for row in &report.counters {
        let mut cells: Vec<Cell<'_>> = vec![
            (&row.name).into(),
            row.ts_us.into(),
            row.value.into(),
            (&row.hostname).into(),
        ];
        if !compat {
            cells.push(row.instance.into());
        }
        sink.row(&cells)?;
    }
    sink.finish()
}
