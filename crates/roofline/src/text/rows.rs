//! Rows and steps as tables for readers: fewer columns, short names.

use gpu_time::percent;
use report::{Align, Cell, Column, Result, Table, Unit, human};

use super::answer::share_text;
use super::gain::{bound_text, pct_text};
use super::words::{count_of, cut, shapes, short};
use crate::analysis::Analysis;
use crate::steps::StepRow;
use crate::tables::on_several;
use crate::views::{By, Row};

/// The name of a row, with the sizes of a call.
pub(super) fn row_name(analysis: &Analysis, by: By, row: &Row) -> String {
    let list = &analysis.list;
    if by != By::Call {
        let name = analysis.rows.name(list, row);
        return match analysis.rows.by {
            By::Kernel => short(name),
            _ => cut(name),
        };
    }
    let Some(kind) = list.kinds.get(row.name as usize) else {
        return String::new();
    };
    let name = match kind.kernel.as_str() {
        "" => cut(&kind.op),
        kernel => short(kernel),
    };
    match shapes(&kind.dims) {
        shapes if shapes.is_empty() => name,
        shapes => format!("{name} {shapes}"),
    }
}

pub(super) fn rows_table(
    analysis: &Analysis,
    (by, name): (By, &'static str),
    rows: &[&Row],
) -> Result<Table> {
    let is_call = by == By::Call;
    let mut columns = vec![Column::text(if is_call { "op" } else { name })];
    let right = |name: &'static str| Column::text(name).align(Align::Right);
    columns.extend([
        Column::uint("calls").unit(Unit::Count),
        Column::int("time").unit(Unit::Nanos),
        Column::real("share").unit(Unit::Pct),
        right("TFLOP/s"),
        right("GB/s"),
        right("FLOP/B"),
        Column::text("bound"),
        right("% of limit"),
        Column::real("gain").unit(Unit::Nanos),
    ]);
    let differ = analysis.devices.differ();
    if differ {
        columns.push(Column::int("device"));
    }
    let mut table = Table::new("rows", columns)?;
    let all = analysis.coverage.time_ns();
    let number = |value: Option<f64>| value.map_or(String::new(), human::short_count);
    for row in rows {
        let name = row_name(analysis, by, row);
        let (tflops, gbs) = (number(row.tflops()), number(row.gbs()));
        let intensity = number(row.intensity());
        let pct = pct_text(row);
        let mut cells: Vec<Cell<'_>> = vec![name.as_str().into()];
        cells.extend([
            Cell::from(row.calls),
            row.time_ns.into(),
            percent(row.time_ns, all).into(),
            tflops.as_str().into(),
            gbs.as_str().into(),
            intensity.as_str().into(),
            bound_text(row, analysis).into(),
            pct.as_str().into(),
            row.gain_ns().into(),
        ]);
        if differ {
            cells.push(row.device.into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}

pub(super) fn steps(analysis: &Analysis, top: usize) -> Result<Table> {
    let mut columns = vec![
        Column::uint("step").unit(Unit::Count),
        Column::text("phase"),
        Column::text("requests").align(Align::Right),
        Column::text("tokens").align(Align::Right),
        Column::uint("kernels").unit(Unit::Count),
        Column::real("known").unit(Unit::Pct),
        Column::real("model").unit(Unit::Nanos),
        Column::real("operators").unit(Unit::Nanos),
        Column::real("floor").unit(Unit::Nanos),
        Column::int("busy").unit(Unit::Nanos),
        Column::int("time").unit(Unit::Nanos),
        Column::text("% of limit").align(Align::Right),
    ];
    let several = on_several(analysis);
    columns.extend(several.then(|| Column::int("device")));
    let mut table = Table::new("steps", columns)?;
    let mut before: Option<&StepRow> = None;
    let mut number = 0_u64;
    for step in analysis.steps.iter().take(top) {
        // A step on several devices has a row for each.
        let is_same = |other: &StepRow| (&other.name, other.host_ns) == (&step.name, step.host_ns);
        number += u64::from(before.is_some_and(|before| !is_same(before)));
        before = Some(step);
        let requests = step.lengths.requests().map(count_of).unwrap_or_default();
        let tokens = step.lengths.tokens().map(count_of).unwrap_or_default();
        let ladder = step.ladder();
        let line = |name: &str| {
            let rung = ladder.iter().find(|rung| rung.line == name);
            rung.map(|rung| rung.ns)
        };
        let share = share_text(step).unwrap_or_default();
        let mut cells = vec![
            number.into(),
            step.phase().map_or("", |phase| phase.name()).into(),
            requests.as_str().into(),
            tokens.as_str().into(),
            step.needs.kernels.into(),
            step.known_pct().into(),
            line("model").into(),
            line("operators").into(),
            line("floor").into(),
            step.busy_ns.into(),
            step.step_ns.unwrap_or_else(|| step.span_ns()).into(),
            share.as_str().into(),
        ];
        if several {
            cells.push(step.device.into());
        }
        table.push(&cells)?;
    }
    Ok(table)
}
