//! Tables of the results.

use report::{Cell, Column, RealFormat, Result, Table, Unit};

use crate::analysis::Analysis;
use crate::numbers::{Basis, Numbers};
use crate::steps::StepRow;
use crate::views::{Row, Rows};

/// A number that may be larger than a cell holds.
#[derive(Clone, Debug, Default)]
struct Large(Option<u128>);

/// Columns of numbers up to 128 bits: integers, or their digits as text where one of the table does not fit a cell.
struct LargeColumn {
    texts: bool,
    values: Vec<(Option<u64>, String)>,
}

impl LargeColumn {
    fn new(values: impl Iterator<Item = Large>) -> Self {
        let values: Vec<(Option<u64>, String)> = values
            .map(|Large(n)| {
                let small = n.and_then(|n| u64::try_from(n).ok());
                (small, n.map_or(String::new(), |n| n.to_string()))
            })
            .collect();
        let texts = values
            .iter()
            .any(|(small, text)| small.is_none() && !text.is_empty());
        Self { texts, values }
    }

    fn column(&self, name: &'static str, unit: Unit) -> Column {
        match self.texts {
            true => Column::text(name),
            false => Column::uint(name).unit(unit),
        }
    }

    fn cell(&self, at: usize) -> Cell<'_> {
        match self.values.get(at) {
            Some((_, text)) if self.texts && !text.is_empty() => text.as_str().into(),
            Some((small, _)) if !self.texts => (*small).into(),
            _ => Cell::Null,
        }
    }
}

fn nanos(name: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos)
}

fn real(name: &'static str) -> Column {
    Column::real(name).reals(RealFormat::Shortest)
}

/// Remarks on a row.
pub(crate) fn note(row: &Row, numbers: Option<&Numbers>, unknown: Option<&str>) -> String {
    let mut parts: Vec<String> = Vec::new();
    parts.extend(unknown.map(str::to_owned));
    if let Some(numbers) = numbers {
        if !numbers.note.is_empty() {
            parts.push(numbers.note.clone());
        }
        if let (Some(own), Some(taken)) = (numbers.precision, row.fallback) {
            let text = format!("no units for {}: peak of {}", own.name(), taken.name());
            parts.push(text);
        }
    }
    if row.pct().is_some_and(|pct| pct > 100.0) {
        parts.extend(row.beyond.iter().map(|reason| reason.text().to_owned()));
    }
    parts.join("; ")
}

/// Which recordings the rows are of, if there are several.
fn trace_column(several: bool) -> Option<Column> {
    several.then(|| Column::text("trace"))
}

/// Which device the rows are of, if a recording has different ones.
fn device_column(analyses: &[(&str, &Analysis)]) -> Option<Column> {
    let mut all = analyses.iter();
    let differ = all.any(|(_, analysis)| analysis.devices.differ());
    differ.then(|| Column::int("device"))
}

/// Returns `true` if the steps of a recording are on several devices.
pub(crate) fn on_several(analysis: &Analysis) -> bool {
    let mut devices = analysis.steps.iter().map(|step| step.device);
    let first = devices.next();
    devices.any(|device| Some(device) != first)
}

/// Rows by call of each recording, at most `top`: what is asked for by `--by call`.
///
/// # Errors
/// None but defects: the columns are fixed.
pub fn calls(analyses: &[(&str, &Analysis)], top: usize) -> Result<Table> {
    struct Line<'a> {
        trace: &'a str,
        row: &'a Row,
        kind: &'a crate::calls::Kind,
        note: String,
    }
    let mut lines: Vec<Line<'_>> = Vec::new();
    for (trace, analysis) in analyses {
        for row in analysis.calls.rows.iter().take(top) {
            let Some(kind) = analysis.list.kinds.get(row.name as usize) else {
                continue;
            };
            let unknown = kind.answer.as_ref().err().map(|why| why.0.as_str());
            lines.push(Line {
                trace,
                row,
                kind,
                note: note(row, kind.answer.as_ref().ok(), unknown),
            });
        }
    }
    let numbers = |line: &Line<'_>| line.kind.answer.as_ref().ok().cloned();
    let large = |get: fn(&Numbers) -> Option<u128>| {
        LargeColumn::new(
            lines
                .iter()
                .map(|line| Large(numbers(line).as_ref().and_then(get))),
        )
    };
    let flops = large(|n| n.flops);
    let bytes = large(|n| Some(n.bytes));
    let (low, high) = (large(|n| Some(n.bytes_low)), large(|n| n.bytes_high));
    let link = large(|n| Some(n.link_bytes));
    let mut columns = vec![
        Column::text("op").repeating(),
        Column::text("kernel").repeating(),
        Column::text("dims"),
        Column::text("types"),
        Column::uint("calls").unit(Unit::Count),
        Column::uint("kernels").unit(Unit::Count),
        nanos("time_ns"),
        flops.column("flops", Unit::None),
        bytes.column("bytes", Unit::Bytes),
        low.column("bytes_low", Unit::Bytes),
        high.column("bytes_high", Unit::Bytes),
        link.column("link_bytes", Unit::Bytes),
        Column::text("dtype").repeating(),
        Column::text("unit").repeating(),
        Column::text("basis").repeating(),
        real("tflops"),
        real("gbs"),
        real("intensity"),
        Column::text("bound").repeating(),
        real("limit_ns").unit(Unit::Nanos),
        real("pct").unit(Unit::Pct),
        real("gain_ns").unit(Unit::Nanos),
        Column::text("note"),
        real("limit_low_ns").unit(Unit::Nanos),
        real("limit_high_ns").unit(Unit::Nanos),
        real("achievable_ns").unit(Unit::Nanos),
    ];
    let device = device_column(analyses);
    let has_device = device.is_some();
    columns.extend(device);
    columns.extend(trace_column(analyses.len() > 1));
    let mut table = Table::new("calls", columns)?;
    for (at, line) in lines.iter().enumerate() {
        let (row, kind) = (line.row, line.kind);
        let numbers = kind.answer.as_ref().ok();
        let basis = numbers.map_or(Basis::Unknown, |n| n.basis);
        let known = |value: Option<f64>| numbers.and(value);
        let mut cells: Vec<Cell<'_>> = vec![
            kind.op.as_str().into(),
            kind.kernel.as_str().into(),
            kind.dims.as_str().into(),
            kind.types.as_str().into(),
            row.calls.into(),
            row.kernels.into(),
            row.time_ns.into(),
            flops.cell(at),
            bytes.cell(at),
            low.cell(at),
            high.cell(at),
            link.cell(at),
            numbers
                .and_then(|n| n.precision)
                .map_or("", |p| p.name())
                .into(),
            numbers.map_or("", |n| n.unit.name()).into(),
            basis.name().into(),
            row.tflops().into(),
            row.gbs().into(),
            row.intensity().into(),
            row.bound().map_or("", |bound| bound.name()).into(),
            known(row.limit_ns).into(),
            row.pct().into(),
            row.gain_ns().into(),
            line.note.as_str().into(),
            known(row.limit_low_ns).into(),
            known(row.limit_high_ns).into(),
            match row.achievable_ns.filter(|ns| *ns > 0.0) {
                Some(ns) => known(Some(ns)).into(),
                None => Cell::Null,
            },
        ];
        if has_device {
            cells.push(row.device.into());
        }
        if analyses.len() > 1 {
            cells.push(line.trace.into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}

/// Rows merged by operator, kernel, class, module, layer or phase, at most `top` of each recording; `what` names the first
/// column. Sums are of the calls with numbers, of which `known_time_ns` is the time.
///
/// # Errors
/// None but defects: the columns are fixed.
pub fn merged(analyses: &[(&str, &Analysis)], what: &'static str, top: usize) -> Result<Table> {
    let lines = || {
        analyses.iter().flat_map(|(trace, analysis)| {
            let rows: &Rows = &analysis.rows;
            let shown = rows.rows.iter().take(top);
            shown.map(move |row| (*trace, rows.name(&analysis.list, row), row))
        })
    };
    let large = |get: fn(&Row) -> Option<u128>| {
        LargeColumn::new(lines().map(|(_, _, row)| {
            Large(match row.basis() {
                Basis::Unknown => None,
                _ => get(row),
            })
        }))
    };
    let flops = large(|row| row.flops);
    let bytes = large(|row| Some(row.bytes));
    let (low, high) = (
        large(|row| Some(row.bytes_low)),
        large(|row| row.bytes_high),
    );
    let link = large(|row| Some(row.link_bytes));
    let mut columns = vec![
        Column::text(what),
        Column::uint("calls").unit(Unit::Count),
        Column::uint("kernels").unit(Unit::Count),
        nanos("time_ns"),
        nanos("known_time_ns"),
        flops.column("flops", Unit::None),
        bytes.column("bytes", Unit::Bytes),
        low.column("bytes_low", Unit::Bytes),
        high.column("bytes_high", Unit::Bytes),
        link.column("link_bytes", Unit::Bytes),
        Column::text("basis").repeating(),
        real("tflops"),
        real("gbs"),
        real("intensity"),
        Column::text("bound").repeating(),
        real("limit_ns").unit(Unit::Nanos),
        real("pct").unit(Unit::Pct),
        real("gain_ns").unit(Unit::Nanos),
        Column::text("note").repeating(),
    ];
    let device = device_column(analyses);
    let has_device = device.is_some();
    columns.extend(device);
    columns.extend(trace_column(analyses.len() > 1));
    let mut table = Table::new(what, columns)?;
    for (at, (trace, name, row)) in lines().enumerate() {
        let known = row.basis() != Basis::Unknown;
        let remark = note(row, None, None);
        let mut cells: Vec<Cell<'_>> = vec![
            name.into(),
            row.calls.into(),
            row.kernels.into(),
            row.time_ns.into(),
            row.known_time_ns.into(),
            flops.cell(at),
            bytes.cell(at),
            low.cell(at),
            high.cell(at),
            link.cell(at),
            row.basis().name().into(),
            row.tflops().into(),
            row.gbs().into(),
            row.intensity().into(),
            row.bound().map_or("", |bound| bound.name()).into(),
            row.limit_ns.filter(|_| known).into(),
            row.pct().into(),
            row.gain_ns().into(),
            remark.as_str().into(),
        ];
        if has_device {
            cells.push(row.device.into());
        }
        if analyses.len() > 1 {
            cells.push(trace.into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}

/// The steps of each recording.
///
/// # Errors
/// None but defects: the columns are fixed.
pub fn steps(analyses: &[(&str, &Analysis)]) -> Result<Table> {
    let lines = || {
        let all = analyses.iter();
        all.flat_map(|(trace, analysis)| analysis.steps.iter().map(move |step| (*trace, step)))
    };
    let large = |get: fn(&StepRow) -> Option<u128>| {
        LargeColumn::new(lines().map(|(_, step)| Large(get(step))))
    };
    let lengths = [
        large(|step| step.lengths.context.requests),
        large(|step| step.lengths.context.tokens),
        large(|step| step.lengths.generation.requests),
        large(|step| step.lengths.generation.tokens),
    ];
    let needs = [
        large(|step| Some(step.needs.matrix_flops())),
        large(|step| Some(step.needs.weight_bytes)),
        large(|step| Some(step.needs.kv_bytes)),
        large(|step| Some(step.needs.op_bytes)),
        large(|step| Some(step.needs.link_bytes)),
    ];
    let limit = |name| {
        Column::real(name)
            .unit(Unit::Nanos)
            .reals(RealFormat::Fixed(1))
    };
    let mut columns = vec![Column::text("step")];
    let names = ["ctx_requests", "ctx_tokens", "gen_requests", "gen_tokens"];
    let counts = lengths.iter().zip(names);
    columns.extend(counts.map(|(column, name)| column.column(name, Unit::Count)));
    columns.extend([
        Column::uint("kernels").unit(Unit::Count),
        nanos("busy_ns"),
        nanos("span_ns"),
    ]);
    let names = [
        ("matrix_flops", Unit::None),
        ("weight_bytes", Unit::Bytes),
        ("kv_bytes", Unit::Bytes),
        ("op_bytes", Unit::Bytes),
        ("link_bytes", Unit::Bytes),
    ];
    let columns_of = needs.iter().zip(names);
    columns.extend(columns_of.map(|(column, (name, unit))| column.column(name, unit)));
    columns.extend([
        nanos("known_time_ns"),
        limit("model_limit_ns"),
        limit("ops_limit_ns"),
        limit("floor_limit_ns"),
        Column::text("phase").repeating(),
        Column::int("begin_ns"),
        Column::int("end_ns"),
    ]);
    let several = analyses.iter().any(|(_, analysis)| on_several(analysis));
    let has_device = several || device_column(analyses).is_some();
    columns.extend(has_device.then(|| Column::int("device")));
    columns.extend(trace_column(analyses.len() > 1));
    let mut table = Table::new("steps", columns)?;
    for (at, (trace, step)) in lines().enumerate() {
        let mut cells: Vec<Cell<'_>> = vec![step.name.as_str().into()];
        cells.extend(lengths.iter().map(|column| column.cell(at)));
        cells.extend([
            Cell::from(step.needs.kernels),
            step.busy_ns.into(),
            step.span_ns().into(),
        ]);
        cells.extend(needs.iter().map(|column| column.cell(at)));
        cells.extend([
            Cell::from(step.needs.known_time_ns),
            step.model_limit_ns.into(),
            step.ops_limit_ns.into(),
            step.floor_limit_ns.into(),
            step.phase().map_or("", |phase| phase.name()).into(),
            step.device_ns.0.into(),
            step.device_ns.1.into(),
        ]);
        if has_device {
            cells.push(step.device.into());
        }
        if analyses.len() > 1 {
            cells.push(trace.into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_beyond_64_bits_keep_their_digits() {
        let values = [Some(1), None, Some(u128::from(u64::MAX) + 1)].map(Large);
        let column = LargeColumn::new(values.into_iter());
        assert_eq!(column.cell(0), Cell::Text("1"));
        assert_eq!(column.cell(1), Cell::Null);
        assert_eq!(column.cell(2), Cell::Text("18446744073709551616"));
        let small = LargeColumn::new([Large(Some(3)), Large(None)].into_iter());
        assert_eq!((small.cell(0), small.cell(1)), (Cell::UInt(3), Cell::Null));
    }
}
