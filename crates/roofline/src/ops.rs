//! Operators of the host: how often they ran, how long, what they allocated, launched and computed.

use gpu_time::GpuWork;
use report::{Cell, Column, Result, Table, Unit};
use rustc_hash::FxHashMap;
use trace_model::kernel::{COPY_SIZE_KEYS, CopyDirection, CopySizes};
use trace_model::{ArgColumn, ArgValue, Slice, TimeRange};

use gpu_time::WorkKind;

use crate::models::Models;
use crate::operators::Operators;
use crate::recorded::{Context, Recorded};
use crate::views::nanos;

/// The keys of arguments, without prefix, that [`ops`] and [`copies`] read. A reader may leave out all others.
pub const OPS_KEYS: &[&str] = &[
    "Input Dims",
    "Input type",
    "Input Strides",
    "Concrete Inputs",
    "Bytes",
    "Device Type",
    COPY_SIZE_KEYS[0],
    COPY_SIZE_KEYS[1],
    COPY_SIZE_KEYS[2],
];

/// The name of PyTorch's allocation events.
const MEMORY_EVENT: &str = "[memory]";

/// Operators of one name, and of the same sizes if that was asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct OpRow {
    /// Operator.
    pub name: String,
    /// Sizes of the arguments as JSON without blanks, where rows are by them.
    pub dims: String,
    /// Occurrences.
    pub calls: u64,
    /// Time on the host without the operators within.
    pub self_ns: i64,
    /// Time on the host.
    pub total_ns: i64,
    /// Time of the GPU activity that it launched itself.
    pub self_gpu_ns: i64,
    /// The same with what operators within launched.
    pub total_gpu_ns: i64,
    /// Bytes that it allocated itself on the host, less those it released.
    pub self_cpu_bytes: i64,
    /// The same with operators within.
    pub total_cpu_bytes: i64,
    /// Bytes that it allocated itself on devices, less those it released.
    pub self_gpu_bytes: i64,
    /// The same with operators within.
    pub total_gpu_bytes: i64,
    /// FLOPs of the occurrences whose operator has a model.
    pub flops: Option<u128>,
}

/// The order of operators, most first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OpSort {
    /// Time on the host without operators within.
    #[default]
    SelfTime,
    /// Time on the host.
    Total,
    /// Time of GPU activity.
    Gpu,
    /// Occurrences.
    Calls,
    /// FLOPs.
    Flops,
}

/// Which columns of arguments are read.
struct Columns {
    dims: ArgColumn,
    types: ArgColumn,
    strides: ArgColumn,
    concrete: ArgColumn,
}

/// Operators of `work`'s recording that begin in `window`, by name, and by sizes if `by_shape`.
///
/// Time of an operator within itself counts twice in the total, as in PyTorch's `key_averages`; operators nest by their times
/// alone, whatever Python frames and annotations overlap with them. Cost: a sort of the operators, a search for each launch and
/// each allocation; models are asked once for each distinct operator and sizes.
pub fn ops(
    work: &GpuWork<'_>,
    models: &Models,
    by_shape: bool,
    window: Option<TimeRange>,
    sort: OpSort,
) -> Vec<OpRow> {
    let (trace, index) = (work.trace(), work.index());
    let columns = Columns {
        dims: trace.arg_column("Input Dims"),
        types: trace.arg_column("Input type"),
        strides: trace.arg_column("Input Strides"),
        concrete: trace.arg_column("Concrete Inputs"),
    };
    let nested = Operators::new(index);
    let is_in = |slice: &Slice<'_>| window.is_none_or(|window| window.contains(slice.ts()));
    let mut rows: Vec<OpRow> = Vec::new();
    let mut places: FxHashMap<(&str, &str), usize> = FxHashMap::default();
    let mut row_of: Vec<Option<usize>> = Vec::new();
    let mut flops: FxHashMap<[&str; 5], Option<u128>> = FxHashMap::default();
    for (own, op) in nested.iter().enumerate() {
        let slice = trace.slice(op.slice);
        if !is_in(&slice) {
            row_of.push(None);
            continue;
        }
        let name = slice.name().unwrap_or("");
        let text = |column: &ArgColumn| column.get(slice).and_then(ArgValue::as_str).unwrap_or("");
        let dims = text(&columns.dims);
        let key = (name, if by_shape { dims } else { "" });
        let at = *places.entry(key).or_insert_with(|| {
            rows.push(OpRow {
                name: name.to_owned(),
                dims: key.1.split_whitespace().collect(),
                ..OpRow::default()
            });
            rows.len() - 1
        });
        row_of.push(Some(at));
        let ns = (slice.end() - slice.ts()).get();
        let row = &mut rows[at];
        row.calls += 1;
        row.total_ns = row.total_ns.saturating_add(ns);
        row.self_ns = row.self_ns.saturating_add(ns);
        let texts = [
            name,
            dims,
            text(&columns.types),
            text(&columns.strides),
            text(&columns.concrete),
        ];
        let known = *flops.entry(texts).or_insert_with(|| {
            let some = |at: usize| Some(texts[at]).filter(|text| !text.is_empty());
            let recorded = Recorded::parse(some(1), some(2), some(3), some(4));
            let numbers = models.numbers(name, &recorded, &Context::default());
            numbers.ok().and_then(|numbers| numbers.flops)
        });
        if let Some(known) = known {
            row.flops = Some(row.flops.unwrap_or(0).saturating_add(known));
        }
        // An operator comes after the one around it.
        if let Some(outer) = nested.parent(own).and_then(|outer| row_of[outer]) {
            let row = &mut rows[outer];
            row.self_ns = row.self_ns.saturating_sub(ns);
        }
    }
    let nested = Nested {
        operators: nested,
        row_of,
    };
    for event in work.events() {
        let Some(launch) = work.launch_of(event) else {
            continue;
        };
        for (depth, at) in nested.rows_around(launch) {
            let row = &mut rows[at];
            row.total_gpu_ns = row.total_gpu_ns.saturating_add(event.dur_ns());
            if depth == 0 {
                row.self_gpu_ns = row.self_gpu_ns.saturating_add(event.dur_ns());
            }
        }
    }
    allocations(work, &nested, &mut rows);
    rows.sort_by(|a, b| {
        let key = |row: &OpRow| match sort {
            OpSort::SelfTime => i128::from(row.self_ns),
            OpSort::Total => i128::from(row.total_ns),
            OpSort::Gpu => i128::from(row.total_gpu_ns),
            OpSort::Calls => i128::from(row.calls),
            OpSort::Flops => i128::try_from(row.flops.unwrap_or(0)).unwrap_or(i128::MAX),
        };
        let first = key(b).cmp(&key(a));
        first
            .then(b.total_ns.cmp(&a.total_ns))
            .then_with(|| a.name.cmp(&b.name))
            .then_with(|| a.dims.cmp(&b.dims))
    });
    rows
}

/// Operators with the row of each; `None` for those outside the window.
struct Nested {
    operators: Operators,
    row_of: Vec<Option<usize>>,
}

impl Nested {
    /// Rows of the operators around a slice, each with how many are within.
    fn rows_around(&self, slice: Slice<'_>) -> impl Iterator<Item = (usize, usize)> {
        let around = self.operators.around(slice).enumerate();
        around.filter_map(|(depth, at)| Some((depth, self.row_of[at]?)))
    }
}

/// Adds what each allocation event allocated to the operators around it.
fn allocations(work: &GpuWork<'_>, nested: &Nested, rows: &mut [OpRow]) {
    let trace = work.trace();
    let Some(event) = trace.strings().find(MEMORY_EVENT) else {
        return;
    };
    let (bytes, kind) = (trace.arg_column("Bytes"), trace.arg_column("Device Type"));
    for slice in trace.slices().filter(|s| s.name_id() == Some(event)) {
        let Some(change) = bytes.int(slice) else {
            continue;
        };
        // PyTorch numbers the processor 0.
        let on_host = kind.int(slice) == Some(0);
        for (depth, at) in nested.rows_around(slice) {
            let row = &mut rows[at];
            let (own, total) = match on_host {
                true => (&mut row.self_cpu_bytes, &mut row.total_cpu_bytes),
                false => (&mut row.self_gpu_bytes, &mut row.total_gpu_bytes),
            };
            *total = total.saturating_add(change);
            if depth == 0 {
                *own = own.saturating_add(change);
            }
        }
    }
}

/// Copies of one direction between the same kinds of memory, or memsets.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct CopyRow {
    /// `h2d`, `d2h`, `d2d` or `memset`.
    pub direction: &'static str,
    /// Kinds of memory, as the name gives them: `Pageable -> Device`.
    pub memory: String,
    /// How many.
    pub count: u64,
    /// Bytes of those that state them.
    pub bytes: u128,
    /// How many do not.
    pub without_bytes: u64,
    /// Sum of their durations.
    pub time_ns: i64,
    /// The same of those that state bytes.
    pub known_time_ns: i64,
}

impl CopyRow {
    /// Bytes by time of those that state bytes, in GB/s.
    pub fn gbs(&self) -> Option<f64> {
        let rate = crate::limit::real(self.bytes) / nanos(self.known_time_ns);
        (self.known_time_ns > 0).then_some(rate)
    }
}

/// Copies and memsets by direction and kinds of memory, most time first.
pub fn copies(work: &GpuWork<'_>, window: Option<TimeRange>) -> Vec<CopyRow> {
    let bytes = CopySizes::new(work.trace());
    let mut rows: Vec<CopyRow> = Vec::new();
    for event in work.events() {
        let slice = work.slice(event);
        if window.is_some_and(|window| !window.contains(slice.ts())) {
            continue;
        }
        let name = work.name(event);
        let direction = match event.kind {
            WorkKind::Kernel | WorkKind::Graph => continue,
            WorkKind::Memcpy => CopyDirection::of_name(name).name(),
            WorkKind::Memset => "memset",
        };
        let memory = name.split_once('(').map_or("", |(_, rest)| rest);
        let memory = memory.trim_end_matches(')');
        let known = rows
            .iter()
            .position(|row| row.direction == direction && row.memory == memory);
        let at = known.unwrap_or_else(|| {
            rows.push(CopyRow {
                direction,
                memory: memory.to_owned(),
                ..CopyRow::default()
            });
            rows.len() - 1
        });
        let row = &mut rows[at];
        row.count += 1;
        row.time_ns = row.time_ns.saturating_add(event.dur_ns());
        match bytes.of(slice).and_then(|n| u128::try_from(n).ok()) {
            Some(n) => {
                row.bytes = row.bytes.saturating_add(n);
                row.known_time_ns = row.known_time_ns.saturating_add(event.dur_ns());
            }
            None => row.without_bytes += 1,
        }
    }
    rows.sort_by(|a, b| {
        let time = b.time_ns.cmp(&a.time_ns);
        time.then_with(|| (a.direction, &a.memory).cmp(&(b.direction, &b.memory)))
    });
    rows
}

/// Operators of each trace as a table, at most `top` of each.
///
/// # Errors
/// None but defects: the columns are fixed.
pub fn ops_table(results: &[(&str, &[OpRow])], by_shape: bool, top: usize) -> Result<Table> {
    let nanos = |name| Column::int(name).unit(Unit::Nanos);
    let bytes = |name| Column::int(name).unit(Unit::Bytes);
    let mut columns = vec![
        Column::text("trace").repeating(),
        Column::text("op").repeating(),
    ];
    if by_shape {
        columns.push(Column::text("dims"));
    }
    columns.extend([
        Column::uint("calls").unit(Unit::Count),
        nanos("self_cpu_ns"),
        nanos("total_cpu_ns"),
        nanos("self_gpu_ns"),
        nanos("total_gpu_ns"),
        bytes("self_cpu_bytes"),
        bytes("total_cpu_bytes"),
        bytes("self_gpu_bytes"),
        bytes("total_gpu_bytes"),
        Column::real("flops"),
    ]);
    let mut table = Table::new("ops", columns)?;
    for (trace, rows) in results {
        for row in rows.iter().take(top) {
            let mut cells: Vec<Cell<'_>> = vec![(*trace).into(), row.name.as_str().into()];
            if by_shape {
                cells.push(row.dims.as_str().into());
            }
            cells.extend([
                Cell::from(row.calls),
                row.self_ns.into(),
                row.total_ns.into(),
                row.self_gpu_ns.into(),
                row.total_gpu_ns.into(),
                row.self_cpu_bytes.into(),
                row.total_cpu_bytes.into(),
                row.self_gpu_bytes.into(),
                row.total_gpu_bytes.into(),
                row.flops.map(crate::limit::real).into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}

/// Copies of each trace as a table, with the name of the trace in each row if `with_trace`.
///
/// # Errors
/// None but defects: the columns are fixed.
pub fn copies_table(results: &[(&str, &[CopyRow])], with_trace: bool) -> Result<Table> {
    let mut columns: Vec<Column> = Vec::new();
    if with_trace {
        columns.push(Column::text("trace").repeating());
    }
    columns.extend([
        Column::text("direction").repeating(),
        Column::text("memory").repeating(),
        Column::uint("count").unit(Unit::Count),
        Column::real("bytes").unit(Unit::Bytes),
        Column::uint("without_bytes").unit(Unit::Count),
        Column::int("time_ns").unit(Unit::Nanos),
        Column::real("gbs"),
    ]);
    let mut table = Table::new("copies", columns)?;
    for (trace, rows) in results {
        for row in *rows {
            let mut cells: Vec<Cell<'_>> = Vec::new();
            if with_trace {
                cells.push((*trace).into());
            }
            cells.extend([
                Cell::from(row.direction),
                row.memory.as_str().into(),
                row.count.into(),
                crate::limit::real(row.bytes).into(),
                row.without_bytes.into(),
                row.time_ns.into(),
                row.gbs().into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}
