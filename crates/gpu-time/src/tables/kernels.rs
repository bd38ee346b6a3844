//! Durations of kernels.

use report::{Cell, Column, Result, Table};

use super::{
    count, nanos, pct, real_nanos, rows_of, short_names, spread_cells, spread_columns, trace,
};
use crate::compat::tracelens::Launcher;
use crate::kernels::Kernels;

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

/// The same of one trace, for people: kernels without template arguments and parameters, where that leaves them distinct.
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
    let by_name = result.groups.iter().filter(|group| group.kind.is_some());
    let short = short_names(by_name.map(|group| group.name.as_str()));
    for group in result.groups.iter().take(top) {
        let s = &group.spread;
        table.push(&[
            Cell::from(short.get(group.name.as_str()).unwrap_or(&group.name)),
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
    let columns = [
        Column::text("name"),
        count("count", "operators"),
        nanos("direct_ns", "direct"),
        nanos("subtree_ns", "with all inside"),
    ];
    rows_of("launchers", columns, results, |row| {
        [
            Cell::from(&row.name),
            row.count.into(),
            row.direct_ns.into(),
            row.subtree_ns.into(),
        ]
    })
}
