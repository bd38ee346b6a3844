//! Comparison of two traces.

use std::collections::BTreeMap;

use report::{Cell, Column, RealFormat, Table, Unit};
use trace_model::kernel::display_names;

use super::{count, nanos, pct, real_nanos};
use crate::diff::hta::NameRow;
use crate::diff::tracelens::DiffStatsRow;
use crate::diff::{Comparison, Diff, Evidence, KernelPair, Metric, OperatorPair, StepKind};
use crate::percent;

fn signed(name: &'static str, title: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos).title(title)
}

/// Returns a column with a number per step.
fn per_step_count(name: &'static str, title: &'static str) -> Column {
    Column::real(name).unit(Unit::Count).title(title)
}

/// Returns the second value in percent of the first.
fn ratio([a, b]: [f64; 2]) -> Option<f64> {
    (a > 0.0).then(|| 100.0 * b / a)
}

/// Returns the columns of a difference: sums of both sides, their difference where both cover the
/// same number of steps, and the same per step.
fn difference() -> [Column; 9] {
    [
        count("steps_a", "number of steps A"),
        count("steps_b", "number of steps B"),
        nanos("a_ns", "A"),
        nanos("b_ns", "B"),
        signed("diff_ns", "B - A"),
        real_nanos("a_per_step_ns", "A per step"),
        real_nanos("b_per_step_ns", "B per step"),
        real_nanos("diff_per_step_ns", "B - A per step"),
        pct("b_of_a_pct", "B of A"),
    ]
}

fn difference_cells(
    ns: [i64; 2],
    steps: [u64; 2],
    diff_ns: Option<i64>,
    per_step: [f64; 2],
) -> [Cell<'static>; 9] {
    [
        steps[0].into(),
        steps[1].into(),
        ns[0].into(),
        ns[1].into(),
        diff_ns.into(),
        per_step[0].into(),
        per_step[1].into(),
        (per_step[1] - per_step[0]).into(),
        ratio(per_step).into(),
    ]
}

/// Returns the columns of a difference for text output: per step.
fn narrow_difference() -> [Column; 4] {
    [
        real_nanos("a_per_step_ns", "A"),
        real_nanos("b_per_step_ns", "B"),
        real_nanos("diff_per_step_ns", "B - A"),
        pct("b_of_a_pct", "B of A"),
    ]
}

fn narrow_cells([a, b]: [f64; 2]) -> [Cell<'static>; 4] {
    [a.into(), b.into(), (b - a).into(), ratio([a, b]).into()]
}

/// Returns the functions and operators of the launching threads with their own time per step.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn host(found: &Comparison, top: usize) -> report::Result<Table> {
    let columns = vec![
        Column::text("step_kind"),
        Column::text("function"),
        real_nanos("a_per_step_ns", "A per step"),
        real_nanos("b_per_step_ns", "B per step"),
        real_nanos("diff_per_step_ns", "B - A per step"),
        pct("b_of_a_pct", "B of A"),
    ];
    let mut table = Table::new("host", columns)?;
    for row in found.host.iter().take(top) {
        let [a, b, diff, of] = narrow_cells(row.per_step_ns);
        table.push(&[
            kind_name(found, row.step_kind).into(),
            row.name.as_str().into(),
            a,
            b,
            diff,
            of,
        ])?;
    }
    Ok(table)
}

/// Returns the same for text output.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn host_narrow(found: &Comparison, top: usize) -> report::Result<Table> {
    let mut columns = vec![Column::text("function")];
    columns.extend(narrow_difference());
    let mut table = Table::new("host", columns)?;
    for row in found.host.iter().take(top) {
        let [a, b, diff, of] = narrow_cells(row.per_step_ns);
        table.push(&[row.name.as_str().into(), a, b, diff, of])?;
    }
    Ok(table)
}

fn kind_name(found: &Comparison, at: usize) -> Option<&str> {
    let name = found.kinds.get(at)?.name.as_str();
    Some(name).filter(|name| !name.is_empty())
}

/// Returns the time of both sides: for each kind of step and each metric its distribution over the
/// steps.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn time(found: &Comparison) -> report::Result<Table> {
    let mut columns = vec![
        Column::text("step_kind"),
        Column::text("metric"),
        count("steps_a", "steps A"),
        count("steps_b", "steps B"),
    ];
    let each = [
        ("a_sum_ns", "b_sum_ns"),
        ("a_min_ns", "b_min_ns"),
        ("a_max_ns", "b_max_ns"),
    ];
    columns.extend(
        each.into_iter()
            .flat_map(|(a, b)| [nanos(a, a), nanos(b, b)]),
    );
    let each = [
        ("a_mean_ns", "b_mean_ns"),
        ("a_median_ns", "b_median_ns"),
        ("a_p90_ns", "b_p90_ns"),
    ];
    columns.extend(
        each.into_iter()
            .flat_map(|(a, b)| [real_nanos(a, a), real_nanos(b, b)]),
    );
    columns.push(real_nanos("diff_median_ns", "B - A"));
    columns.push(pct("b_of_a_pct", "B of A"));
    let mut table = Table::new("time", columns)?;
    for kind in found.kinds.iter().chain(&found.lonely) {
        for (metric, [a, b]) in Metric::ALL.into_iter().zip(kind.metrics) {
            if metric == Metric::HostStep && kind.name.is_empty() {
                continue;
            }
            let both = kind.is_comparable();
            let medians = [a.median_ns, b.median_ns];
            table.push(&[
                Some(kind.name.as_str()).filter(|n| !n.is_empty()).into(),
                metric.name().into(),
                kind.steps[0].into(),
                kind.steps[1].into(),
                a.sum_ns.into(),
                b.sum_ns.into(),
                a.min_ns.into(),
                b.min_ns.into(),
                a.max_ns.into(),
                b.max_ns.into(),
                a.mean_ns.into(),
                b.mean_ns.into(),
                a.median_ns.into(),
                b.median_ns.into(),
                a.p90_ns.into(),
                b.p90_ns.into(),
                both.then_some(medians[1] - medians[0]).into(),
                both.then(|| ratio(medians)).flatten().into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns the time of one kind of step for text output.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn time_narrow(kind: &StepKind) -> report::Result<Table> {
    let mut columns = vec![Column::text("what").title("")];
    columns.extend(narrow_difference());
    let mut table = Table::new("time", columns)?;
    let mut push = |name: &str, values: [f64; 2]| {
        let mut cells = vec![Cell::from(name)];
        cells.extend(narrow_cells(values));
        table.push(&cells)
    };
    let [a, b] = kind.metric(Metric::Wall);
    if kind.steps.iter().any(|n| *n > 1) {
        push("step time, median", [a.median_ns, b.median_ns])?;
        push("step time, p90", [a.p90_ns, b.p90_ns])?;
        push("step time, mean", [a.mean_ns, b.mean_ns])?;
    } else {
        push("wall time", [a.median_ns, b.median_ns])?;
    }
    for (metric, name) in [
        (Metric::Busy, "  GPU busy"),
        (Metric::Computation, "    computation"),
        (Metric::ExposedComm, "    exposed communication"),
        (Metric::ExposedOther, "    exposed memcpy and other"),
        (Metric::Idle, "  GPU idle"),
        (Metric::Communication, "communication in all"),
        (Metric::HostStep, "host annotation"),
    ] {
        let medians = kind.metric(metric).map(|s| s.median_ns);
        if medians.iter().any(|ns| *ns > 0.0) {
            push(name, medians)?;
        }
    }
    Ok(table)
}

/// Returns the steps of both sides, one side after the other.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn steps(found: &Comparison) -> report::Result<Table> {
    let columns = vec![
        Column::text("side"),
        Column::uint("step_index").title("step"),
        Column::text("name"),
        Column::int("start_ns").title("start ns"),
        nanos("wall_ns", "wall"),
        nanos("busy_ns", "busy"),
        nanos("idle_ns", "idle"),
        nanos("comp_ns", "comp."),
        nanos("exposed_comm_ns", "exp. comm"),
        nanos("host_step_ns", "host"),
    ];
    let mut table = Table::new("steps", columns)?;
    for (side, list) in ["a", "b"].into_iter().zip(&found.steps) {
        for (at, step) in list.iter().enumerate() {
            table.push(&[
                side.into(),
                at.into(),
                step.name.as_str().into(),
                step.time.start_ns.into(),
                step.time.span_ns.into(),
                step.time.busy_ns.into(),
                step.time.idle_ns.into(),
                step.time.comp_ns.into(),
                step.time.exposed_comm_ns.into(),
                step.host_ns.into(),
            ])?;
        }
    }
    Ok(table)
}

/// Returns one row for each pair of kernels at one place of the program, largest absolute
/// difference first.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn kernels(found: &Comparison, top: usize) -> report::Result<Table> {
    let mut columns = vec![
        Column::text("step_kind"),
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
    ];
    columns.extend(difference());
    let mut table = Table::new("kernels", columns)?;
    for row in found.diff.kernels.iter().take(top) {
        let mut cells: Vec<Cell<'_>> = vec![
            kind_name(found, row.step_kind).into(),
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
        ];
        let per_step = row.per_step_ns();
        cells.extend(difference_cells(row.ns, row.steps, row.diff_ns(), per_step));
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns the kernels that differ for text output: the main columns in 80 characters. Rows are
/// distinct: names of kernels are distinct where the kernels are, and where the operator does not
/// identify a place of the program, modules, kind of step and evidence are added.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn kernels_narrow(found: &Comparison, top: usize) -> report::Result<Table> {
    let mut columns = vec![
        Column::text("operator"),
        Column::text("kernel_a").title("kernel of A"),
        Column::text("kernel_b").title("kernel of B"),
    ];
    columns.extend(narrow_difference());
    let mut table = Table::new("kernels", columns)?;
    let names = found.diff.kernels.iter().flat_map(|row| &row.kernels);
    let names = display_names(names.flatten().map(String::as_str));
    let short = |row: &KernelPair, i: usize| {
        let name = row.kernels[i].as_deref()?;
        Some(names.get(name).map_or(name, String::as_str).to_owned())
    };
    let differs = |row: &&KernelPair| differs(row.per_step_ns());
    let rows: Vec<&KernelPair> = found.diff.kernels.iter().filter(differs).collect();
    let shown = [0, 1].map(|i| rows.iter().map(|row| short(row, i)).collect::<Vec<_>>());
    let keys = (0..rows.len()).map(|at| (&shown[0][at], &shown[1][at]));
    let several = found.kinds.len() > 1;
    let places = places(
        &keys.collect::<Vec<_>>(),
        &[
            &|at| rows[at].operator.clone(),
            &|at| {
                match several {
                    true => kind_name(found, rows[at].step_kind).map(str::to_owned),
                    false => None,
                }
                .unwrap_or_default()
            },
            &|at| rows[at].module.clone(),
            &|at| format!("by {}", rows[at].evidence.name()),
            &|at| rows[at].kind.name().to_owned(),
        ],
    );
    for (at, row) in rows.iter().enumerate().take(top) {
        let mut cells: Vec<Cell<'_>> = vec![
            places[at].as_str().into(),
            shown[0][at].as_deref().into(),
            shown[1][at].as_deref().into(),
        ];
        cells.extend(narrow_cells(row.per_step_ns()));
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns `true` if both sides differ by at least a nanosecond.
fn differs([a, b]: [f64; 2]) -> bool {
    (b - a).abs() >= 1.0
}

/// Label part of each row; parts come most important first.
type Part<'p> = &'p dyn Fn(usize) -> String;

/// Returns labels of rows with these `keys`: the first of `parts`; rows with equal keys and labels
/// also get the next parts, in brackets.
fn places<K: Ord>(keys: &[K], parts: &[Part<'_>]) -> Vec<String> {
    let Some((first, more)) = parts.split_first() else {
        return vec![String::new(); keys.len()];
    };
    let mut labels: Vec<String> = (0..keys.len()).map(first).collect();
    for part in more {
        let mut times: BTreeMap<(&K, String), Vec<usize>> = BTreeMap::new();
        for (at, key) in keys.iter().enumerate() {
            let label = labels.get(at).cloned().unwrap_or_default();
            times.entry((key, label)).or_default().push(at);
        }
        let equal: Vec<Vec<usize>> = times.into_values().filter(|rows| rows.len() > 1).collect();
        for at in equal.into_iter().flatten() {
            let text = part(at);
            if let Some(label) = labels.get_mut(at).filter(|_| !text.is_empty()) {
                label.push_str(&format!(" [{text}]"));
            }
        }
    }
    labels
}

/// Returns one row for each operator with the GPU activity that it launched directly, largest
/// absolute difference first.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn operators(found: &Comparison, top: usize) -> report::Result<Table> {
    let mut columns = vec![
        Column::text("step_kind"),
        Column::text("module"),
        Column::text("operator"),
        Column::text("status"),
        count("calls_a", "calls A"),
        count("calls_b", "calls B"),
        count("calls_matched", "calls matched"),
        count("kernels_a", "kernels A"),
        count("kernels_b", "kernels B"),
        per_step_count("kernels_a_per_step", "kernels A per step"),
        per_step_count("kernels_b_per_step", "kernels B per step"),
    ];
    columns.extend(difference());
    let mut table = Table::new("operators", columns)?;
    let launched = |row: &&OperatorPair| row.kernels.iter().any(|n| *n > 0);
    for row in found.diff.operators.iter().filter(launched).take(top) {
        let [a, b] = row.kernels_per_step();
        let mut cells: Vec<Cell<'_>> = vec![
            kind_name(found, row.step_kind).into(),
            row.module.as_str().into(),
            row.operator.as_str().into(),
            row.status().into(),
            row.calls[0].into(),
            row.calls[1].into(),
            row.matched.into(),
            row.kernels[0].into(),
            row.kernels[1].into(),
            a.into(),
            b.into(),
        ];
        let per_step = row.per_step_ns();
        cells.extend(difference_cells(row.ns, row.steps, row.diff_ns(), per_step));
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns the operators that differ for text output: the main columns in 80 characters. Numbers of
/// kernels are per step, like times.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn operators_narrow(found: &Comparison, top: usize) -> report::Result<Table> {
    let mut columns = vec![
        Column::text("module"),
        Column::text("operator"),
        per_step_count("kernels_a", "n A"),
        per_step_count("kernels_b", "n B"),
    ];
    columns.extend(narrow_difference());
    let mut table = Table::new("operators", columns)?;
    let differs = |row: &&OperatorPair| differs(row.per_step_ns());
    let rows: Vec<&OperatorPair> = found.diff.operators.iter().filter(differs).collect();
    let keys: Vec<&String> = rows.iter().map(|row| &row.module).collect();
    let kind = |at: usize| {
        kind_name(found, rows[at].step_kind)
            .unwrap_or("")
            .to_owned()
    };
    let operator = |at: usize| rows[at].operator.clone();
    let places = places(&keys, &[&operator, &kind]);
    for (at, row) in rows.iter().enumerate().take(top) {
        let [a, b] = row.kernels_per_step();
        let mut cells: Vec<Cell<'_>> = vec![
            row.module.as_str().into(),
            places[at].as_str().into(),
            a.into(),
            b.into(),
        ];
        cells.extend(narrow_cells(row.per_step_ns()));
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns the two sides: their GPU activity, and the evidence by which it is matched.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
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

/// Returns the totals for text output, in percent.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
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

/// Returns HTA's `compare_traces`, with its column names.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
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

/// Returns TraceLens' `diff_stats_df`, with its column names; event numbers are those of the trace
/// store.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_rows_are_told_apart_by_their_places() {
        let rows = [
            ("k", "mm", "A/B"),
            ("k", "mm", "A/C"),
            ("k", "add", "A"),
            ("l", "mm", ""),
        ];
        let keys: Vec<&str> = rows.iter().map(|row| row.0).collect();
        let labels = places(
            &keys,
            &[&|at| rows[at].1.to_owned(), &|at| rows[at].2.to_owned()],
        );
        assert_eq!(labels, ["mm [A/B]", "mm [A/C]", "add", "mm"]);
    }
}
