//! Kernels with the sizes they were launched with, those of their operator, and how far they are from their limit.

use gpu_time::GpuWork;
use report::{Cell, Column, Result, Table, Unit};
use rustc_hash::FxHashMap;
use trace_model::{ArgColumn, ArgValue, Slice};

use crate::analysis::Analysis;
use crate::beyond::{Beyond, Reasons};
use crate::calls::Call;
use crate::limit::real;
use crate::numbers::Basis;
use crate::views::nanos;

/// The keys of arguments, without prefix, that [`kernel_details`] reads besides those of the calls.
pub const DETAIL_KEYS: &[&str] = &[
    "grid",
    "block",
    "registers per thread",
    "shared memory",
    "est. achieved occupancy %",
];

/// Kernels of one name, operator and launch configuration.
#[derive(Clone, PartialEq, Debug, Default)]
#[non_exhaustive]
pub struct KernelDetail {
    /// Kernel.
    pub name: String,
    /// Operator whose call it is part of.
    pub op: String,
    /// Sizes of the operator's arguments.
    pub dims: String,
    /// Arithmetic of matrix units.
    pub dtype: &'static str,
    /// Blocks of the launch, and threads of a block, as recorded.
    pub grid: String,
    /// Threads of a block, as recorded.
    pub block: String,
    /// Registers of a thread.
    pub registers: Option<i64>,
    /// Bytes of shared memory of a block.
    pub shared_bytes: Option<i64>,
    /// Occupancy that the recorder estimates, in percent.
    pub occupancy_pct: Option<f64>,
    /// How many.
    pub count: u64,
    /// Sum of their durations.
    pub time_ns: i64,
    /// Basis of the numbers; unknown also for calls of several kernels.
    pub basis: Option<Basis>,
    /// Its device, where the recording has different ones.
    pub device: Option<i64>,
    flops: Option<u128>,
    bytes: u128,
    limit_ns: Option<f64>,
    /// Assumptions of the numbers.
    assumed: String,
    beyond: Reasons,
}

impl KernelDetail {
    /// TFLOP/s.
    pub fn tflops(&self) -> Option<f64> {
        let flops = real(self.flops?);
        (self.time_ns > 0).then(|| flops / nanos(self.time_ns) / 1e3)
    }

    /// GB/s of memory.
    pub fn gbs(&self) -> Option<f64> {
        self.basis?;
        (self.time_ns > 0).then(|| real(self.bytes) / nanos(self.time_ns))
    }

    /// Percent of the limit.
    pub fn pct(&self) -> Option<f64> {
        self.basis?;
        let limit = self.limit_ns?;
        (self.time_ns > 0).then(|| 100.0 * limit / nanos(self.time_ns))
    }
}

impl KernelDetail {
    /// Why it took less time than its limit, if it did.
    pub fn beyond(&self) -> Option<String> {
        self.pct().filter(|pct| *pct > 100.0)?;
        let reasons: Vec<&str> = self.beyond.iter().map(Beyond::text).collect();
        Some(reasons.join("; "))
    }

    /// Assumptions of its numbers, and why it took less time than its limit, if it did.
    fn note(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        if !self.assumed.is_empty() {
            parts.push(self.assumed.clone());
        }
        parts.extend(self.beyond());
        parts.join("; ")
    }
}

struct Launch {
    columns: [ArgColumn; 5],
}

impl Launch {
    fn text<'t>(column: &ArgColumn, slice: Slice<'t>) -> &'t str {
        column.get(slice).and_then(ArgValue::as_str).unwrap_or("")
    }

    fn spaceless(text: &str) -> String {
        text.split_whitespace().collect()
    }
}

/// Returns the kernels, copies and memsets of `work`, whose calls `wants` takes, most time first. Numbers are those of calls
/// of which a kernel is all ([`Call::is_all`]).
pub fn kernel_details(
    work: &GpuWork<'_>,
    analysis: &Analysis,
    wants: impl Fn(&Call<'_, '_>) -> bool,
) -> Vec<KernelDetail> {
    let trace = work.trace();
    let launch = Launch {
        columns: [
            "grid",
            "block",
            "registers per thread",
            "shared memory",
            "est. achieved occupancy %",
        ]
        .map(|key| trace.arg_column(key)),
    };
    let [grid, block, registers, shared, occupancy] = &launch.columns;
    let mut places: FxHashMap<_, usize> = FxHashMap::default();
    let mut rows: Vec<KernelDetail> = Vec::new();
    let list = &analysis.list;
    for (event, _, call) in list.activities(work) {
        if !wants(&call) {
            continue;
        }
        let slice = work.slice(event);
        let (grid, block) = (Launch::text(grid, slice), Launch::text(block, slice));
        let (registers, shared) = (registers.int(slice), shared.int(slice));
        let occupancy = occupancy.get(slice).and_then(ArgValue::as_f64);
        let numbers = list.numbers(&call).filter(|_| call.is_all(event.kind));
        let configuration = (grid, block, registers, shared, occupancy.map(f64::to_bits));
        let at = *places
            .entry((
                event.name,
                call.kind(),
                configuration,
                numbers.is_some(),
                analysis.devices.row_of(call.device()),
            ))
            .or_insert_with(|| {
                let kind = list.kind(&call);
                rows.push(KernelDetail {
                    name: work.name(event).to_owned(),
                    op: kind.map_or(String::new(), |kind| kind.op.clone()),
                    dims: kind.map_or(String::new(), |kind| kind.dims.clone()),
                    dtype: list
                        .numbers(&call)
                        .and_then(|n| n.precision)
                        .map_or("", |p| p.name()),
                    grid: Launch::spaceless(grid),
                    block: Launch::spaceless(block),
                    registers,
                    shared_bytes: shared,
                    occupancy_pct: occupancy,
                    basis: numbers.map(|n| n.basis),
                    limit_ns: Some(0.0),
                    device: analysis.devices.row_of(call.device()),
                    assumed: numbers.map_or(String::new(), |n| n.note.clone()),
                    ..KernelDetail::default()
                });
                rows.len() - 1
            });
        let row = &mut rows[at];
        row.count += 1;
        row.time_ns = row.time_ns.saturating_add(event.dur_ns());
        let Some(numbers) = numbers else {
            continue;
        };
        if let Some(flops) = numbers.flops {
            row.flops = Some(row.flops.unwrap_or(0).saturating_add(flops));
        }
        row.bytes = row.bytes.saturating_add(numbers.sure_bytes());
        let device = analysis.devices.get(call.device());
        let limit = device.and_then(|device| device.peaks.limit(numbers));
        row.limit_ns = row.limit_ns.zip(limit).map(|(all, one)| all + one.ns);
        if let (Some(limit), Some(device)) = (limit, device)
            && limit.ns > nanos(event.dur_ns())
        {
            let reasons = Reasons::new(numbers, limit, &device.peaks);
            let factor = limit.ns / nanos(event.dur_ns());
            row.beyond
                .merge(reasons.of_factor(factor, device.peaks.tf32_gain()));
        }
    }
    rows.sort_by(|a, b| {
        let time = b.time_ns.cmp(&a.time_ns);
        let key = |row: &KernelDetail| {
            let row = row.clone();
            (row.name, row.op, row.dims, row.grid, row.block, row.device)
        };
        time.then_with(|| key(a).cmp(&key(b)))
    });
    rows
}

/// The kernels of each trace as a table, at most `top` of each, with the name of the trace and remarks in each row if
/// `with_trace`.
///
/// # Errors
/// None but defects: the columns are fixed.
pub fn details_table(
    results: &[(&str, &[KernelDetail])],
    top: usize,
    with_trace: bool,
) -> Result<Table> {
    let mut columns: Vec<Column> = Vec::new();
    if with_trace {
        columns.push(Column::text("trace").repeating());
    }
    columns.extend([
        Column::text("name").repeating(),
        Column::text("op").repeating(),
        Column::text("dims"),
        Column::text("dtype").repeating(),
        Column::uint("count").unit(Unit::Count),
        Column::int("time_ns").unit(Unit::Nanos),
        Column::real("tflops"),
        Column::real("gbs"),
        Column::real("pct").unit(Unit::Pct),
        Column::text("basis").repeating(),
        Column::text("grid").repeating(),
        Column::text("block").repeating(),
        Column::int("registers"),
        Column::int("shared_bytes").unit(Unit::Bytes),
        Column::real("occupancy_pct").unit(Unit::Pct),
    ]);
    let mut all = results.iter().flat_map(|(_, rows)| rows.iter());
    let has_device = all.any(|row| row.device.is_some());
    if with_trace {
        columns.push(Column::text("note"));
    }
    if has_device {
        columns.push(Column::int("device"));
    }
    let mut table = Table::new("kernels", columns)?;
    for (trace, rows) in results {
        for row in rows.iter().take(top) {
            let basis = row.basis.unwrap_or(Basis::Unknown);
            let note = row.note();
            let mut cells: Vec<Cell<'_>> = Vec::new();
            if with_trace {
                cells.push((*trace).into());
            }
            cells.extend([
                Cell::from(row.name.as_str()),
                row.op.as_str().into(),
                row.dims.as_str().into(),
                row.dtype.into(),
                row.count.into(),
                row.time_ns.into(),
                row.tflops().into(),
                row.gbs().into(),
                row.pct().into(),
                basis.name().into(),
                row.grid.as_str().into(),
                row.block.as_str().into(),
                row.registers.into(),
                row.shared_bytes.into(),
                row.occupancy_pct.into(),
            ]);
            if with_trace {
                cells.push(note.as_str().into());
            }
            if has_device {
                cells.push(row.device.into());
            }
            table.push(&cells)?;
        }
    }
    Ok(table)
}
