//! Rows and steps as tables for readers: fewer columns, names without what all have. Who writes a table cuts it to its place.

use std::collections::BTreeMap;

use gpu_time::percent;
use report::{Align, Cell, Column, Result, Table, Unit, human};
use trace_model::kernel::display_names;

use super::answer::share_text;
use super::gain::{bound_text, pct_text};
use super::words::{count_of, shapes};
use crate::analysis::Analysis;
use crate::steps::StepRow;
use crate::tables::on_several;
use crate::views::{By, Row};

/// Names of rows as they are shown.
pub(super) struct RowNames<'a> {
    analysis: &'a Analysis,
    by: By,
    kernels: BTreeMap<&'a str, String>,
}

impl<'a> RowNames<'a> {
    /// Names for all of `rows`: kernels keep the template arguments in which they differ.
    pub(super) fn new(analysis: &'a Analysis, by: By, rows: &[&Row]) -> Self {
        let kernels = rows.iter().filter_map(|row| kernel(analysis, by, row));
        Self {
            analysis,
            by,
            kernels: display_names(kernels),
        }
    }

    /// The name of a row, with the sizes of a call.
    pub(super) fn of(&self, row: &Row) -> String {
        let list = &self.analysis.list;
        let shown = kernel(self.analysis, self.by, row).map(|kernel| {
            let shown = self.kernels.get(kernel);
            shown.map_or_else(|| kernel.to_owned(), Clone::clone)
        });
        if self.by != By::Call {
            return shown.unwrap_or_else(|| self.analysis.rows.name(list, row).to_owned());
        }
        let Some(kind) = list.kinds.get(row.name as usize) else {
            return String::new();
        };
        let name = shown.unwrap_or_else(|| kind.op.clone());
        match shapes(&kind.dims) {
            shapes if shapes.is_empty() => name,
            shapes => format!("{name} {shapes}"),
        }
    }
}

/// The kernel that a row is named after.
fn kernel<'a>(analysis: &'a Analysis, by: By, row: &Row) -> Option<&'a str> {
    let list = &analysis.list;
    match by {
        By::Call => {
            let kind = list.kinds.get(row.name as usize)?;
            (!kind.kernel.is_empty()).then_some(kind.kernel.as_str())
        }
        _ => (analysis.rows.by == By::Kernel).then(|| analysis.rows.name(list, row)),
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
    let names = RowNames::new(analysis, by, rows);
    for row in rows {
        let name = names.of(row);
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
