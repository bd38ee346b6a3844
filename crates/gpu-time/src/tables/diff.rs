//! Two traces side by side.

use report::{Cell, Column, RealFormat, Table, Unit};
use trace_model::align::kernel_stem;

use super::{count, nanos, pct};
use crate::diff::hta::NameRow;
use crate::diff::tracelens::DiffStatsRow;
use crate::diff::{Diff, Evidence, KernelPair};
use crate::percent;

fn signed(name: &'static str, title: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos).title(title)
}

/// How much the second is in percent of the first.
fn ratio(ns: [i64; 2]) -> Option<f64> {
    percent(ns[1], ns[0])
}

/// One row for each pair of kernels at one place of the program, largest absolute difference first.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn kernels(diff: &Diff, top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::text("module"),
        Column::text("operator"),
        Column::text("kernel_a"),
        Column::text("kernel_b"),
        Column::text("kind"),
        Column::text("class"),
        Column::text("status"),
        Column::text("evidence"),
        count("count_a", "count A"),
        count("count_b", "count B"),
        nanos("a_ns", "A"),
        nanos("b_ns", "B"),
        signed("diff_ns", "B - A"),
        pct("b_of_a_pct", "B of A"),
    ];
    let mut table = Table::new("kernels", columns)?;
    for row in diff.kernels.iter().take(top) {
        table.push(&[
            row.module.as_str().into(),
            row.operator.as_str().into(),
            row.kernels[0].as_deref().into(),
            row.kernels[1].as_deref().into(),
            row.kind.name().into(),
            row.class.name().into(),
            row.status().into(),
            row.evidence.name().into(),
            row.count[0].into(),
            row.count[1].into(),
            row.ns[0].into(),
            row.ns[1].into(),
            row.diff_ns().into(),
            ratio(row.ns).into(),
        ])?;
    }
    Ok(table)
}

/// The kernels for people: what matters in 80 columns.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn kernels_narrow(diff: &Diff, top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::text("operator"),
        Column::text("kernel_a").title("kernel of A"),
        Column::text("kernel_b").title("kernel of B"),
        nanos("a_ns", "A"),
        nanos("b_ns", "B"),
        signed("diff_ns", "B - A"),
    ];
    let mut table = Table::new("kernels", columns)?;
    let short = |row: &KernelPair, i: usize| row.kernels[i].as_deref().map(kernel_stem);
    for row in diff.kernels.iter().take(top) {
        let names = [short(row, 0), short(row, 1)];
        table.push(&[
            row.operator.as_str().into(),
            names[0].as_deref().into(),
            names[1].as_deref().into(),
            row.ns[0].into(),
            row.ns[1].into(),
            row.diff_ns().into(),
        ])?;
    }
    Ok(table)
}

/// One row for each operator with the device work that it launched itself, largest absolute
/// difference first.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn operators(diff: &Diff, top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::text("module"),
        Column::text("operator"),
        Column::text("status"),
        count("calls_a", "calls A"),
        count("calls_b", "calls B"),
        count("calls_matched", "calls matched"),
        count("kernels_a", "kernels A"),
        count("kernels_b", "kernels B"),
        nanos("a_ns", "A"),
        nanos("b_ns", "B"),
        signed("diff_ns", "B - A"),
        pct("b_of_a_pct", "B of A"),
    ];
    let mut table = Table::new("operators", columns)?;
    for row in diff.operators.iter().take(top) {
        table.push(&[
            row.module.as_str().into(),
            row.operator.as_str().into(),
            row.status().into(),
            row.calls[0].into(),
            row.calls[1].into(),
            row.matched.into(),
            row.kernels[0].into(),
            row.kernels[1].into(),
            row.ns[0].into(),
            row.ns[1].into(),
            row.diff_ns().into(),
            ratio(row.ns).into(),
        ])?;
    }
    Ok(table)
}

/// The operators for people: what matters in 80 columns.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn operators_narrow(diff: &Diff, top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::text("module"),
        Column::text("operator"),
        count("kernels_a", "n A"),
        count("kernels_b", "n B"),
        nanos("a_ns", "A"),
        nanos("b_ns", "B"),
        signed("diff_ns", "B - A"),
    ];
    let mut table = Table::new("operators", columns)?;
    for row in diff.operators.iter().take(top) {
        table.push(&[
            row.module.as_str().into(),
            row.operator.as_str().into(),
            row.kernels[0].into(),
            row.kernels[1].into(),
            row.ns[0].into(),
            row.ns[1].into(),
            row.diff_ns().into(),
        ])?;
    }
    Ok(table)
}

/// The two sides: their device work, and by what evidence it is matched.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn totals(diff: &Diff, names: [&str; 2]) -> report::Result<Table> {
    let columns = vec![
        Column::text("trace"),
        count("events", "events"),
        nanos("total_ns", "all"),
        nanos("structure_ns", "matched by structure"),
        nanos("name_ns", "by name"),
        nanos("class_ns", "by class"),
        nanos("unmatched_ns", "not matched"),
        nanos("no_launch_ns", "launch not in the trace"),
    ];
    let mut table = Table::new("totals", columns)?;
    for (total, name) in diff.totals.iter().zip(names) {
        let mut cells: Vec<Cell<'_>> = vec![name.into(), total.events.into(), total.ns.into()];
        cells.extend(total.by_evidence_ns.map(Cell::Int));
        cells.push(total.unlinked_ns.into());
        table.push(&cells)?;
    }
    Ok(table)
}

/// The totals for people, in percent.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn totals_narrow(diff: &Diff) -> report::Result<Table> {
    let mut columns = vec![
        Column::text("trace"),
        count("events", "events"),
        nanos("total_ns", "all"),
    ];
    columns.extend(Evidence::ALL.map(|e| pct(e.name(), e.name())));
    let mut table = Table::new("totals", columns)?;
    for (total, name) in diff.totals.iter().zip(["A", "B"]) {
        let mut cells: Vec<Cell<'_>> = vec![name.into(), total.events.into(), total.ns.into()];
        let shares = total.by_evidence_ns.map(|ns| percent(ns, total.ns));
        cells.extend(shares.map(Cell::from));
        table.push(&cells)?;
    }
    Ok(table)
}

/// HTA's `compare_traces`, with its column names.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn hta(rows: &[NameRow], top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::text("name"),
        Column::int("control_counts"),
        Column::int("control_total_duration"),
        Column::int("test_counts"),
        Column::int("test_total_duration"),
        Column::int("diff_counts"),
        Column::int("diff_duration"),
        Column::text("counts_change_categories"),
    ];
    let mut table = Table::new("hta", columns)?;
    for row in rows.iter().take(top) {
        table.push(&[
            row.name.as_str().into(),
            row.counts[0].into(),
            row.total_us[0].into(),
            row.counts[1].into(),
            row.total_us[1].into(),
            (row.counts[1] - row.counts[0]).into(),
            (row.total_us[1] - row.total_us[0]).into(),
            row.change().into(),
        ])?;
    }
    Ok(table)
}

/// TraceLens' `diff_stats_df`, with its column names; numbers of events are those of our store.
///
/// # Errors
///
/// None but defects: the columns are fixed.
pub fn tracelens(rows: &[DiffStatsRow], top: usize) -> report::Result<Table> {
    let us = |name: &'static str| Column::real(name).reals(RealFormat::ShortestPoint);
    let columns = vec![
        Column::text("name"),
        Column::text("cpu_op_name"),
        Column::text("source"),
        Column::text("Input Dims"),
        Column::text("Input Strides"),
        Column::text("Input type"),
        Column::text("Concrete Inputs"),
        us("kernel_time"),
        us("busy_time"),
        Column::text("lowest_common_ancestor_name"),
        Column::uint("lowest_common_ancestor_id"),
        Column::uint("gpu_op_uid"),
    ];
    let mut table = Table::new("tracelens", columns)?;
    for row in rows.iter().take(top) {
        let source = if row.side == 0 { "trace1" } else { "trace2" };
        let mut cells: Vec<Cell<'_>> = vec![
            row.name.as_str().into(),
            row.operator.as_str().into(),
            source.into(),
        ];
        cells.extend(row.inputs.iter().map(|i| Cell::Text(i)));
        cells.extend([
            micros(row.kernel_ns),
            micros(row.busy_ns),
            row.ancestor.as_str().into(),
            row.ancestor_number.into(),
            row.event.index().into(),
        ]);
        table.push(&cells)?;
    }
    Ok(table)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "TraceLens counts in real microseconds"
)]
fn micros(ns: i64) -> Cell<'static> {
    Cell::Real(ns as f64 / 1000.0)
}
