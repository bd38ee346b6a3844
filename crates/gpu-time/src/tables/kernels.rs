//! Durations of kernels.

use report::{Cell, Column, Result, Table};

use super::row_key::{Keys, RowKey};
use super::{count, nanos, pct, real_nanos, rows_of, short_names, spread_cells, spread_columns};
use crate::compat::tracelens::Launcher;
use crate::kernels::Kernels;

/// Returns the groups of kernels, at most `top` of each trace or step. The class of a name is that of most of its time, whose share is
/// the last column; `by` are the columns of the
/// keys. The first key is also called `name`, as when it is the only one.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn kernels(results: &[(RowKey, &Kernels)], by: &[&'static str], top: usize) -> Result<Table> {
    let keys = Keys::of(results.iter().map(|r| &r.0));
    let mut columns = keys.columns();
    columns.push(Column::text("name"));
    let further = if by.len() > 1 { by } else { &[] };
    columns.extend(further.iter().map(|name| Column::text(*name)));
    columns.extend([Column::text("category"), Column::text("class")]);
    columns.extend(spread_columns());
    columns.extend([
        nanos("busy_ns", "busy"),
        pct("share_gpu_pct", "of GPU time"),
        pct("share_busy_pct", "of busy time"),
        Column::text("display_name"),
        pct("class_share_pct", "of the class"),
    ]);
    let mut table = Table::new("kernels", columns)?;
    let all = results.iter().flat_map(|(_, result)| &result.groups);
    let named = all.filter(|group| group.kind.is_some());
    let short = short_names(named.map(|group| group.name.as_str()));
    for (of, result) in results {
        for group in result.groups.iter().take(top) {
            let mut cells = keys.cells(of);
            cells.push(Cell::from(&group.name));
            if by.len() > 1 {
                cells.push(Cell::from(&group.name));
            }
            cells.extend(group.also.iter().map(Cell::from));
            cells.extend([
                Cell::from(group.kind.map(|kind| kind.category())),
                group.class.map(|class| class.name()).into(),
            ]);
            cells.extend(spread_cells(&group.spread));
            cells.extend([
                Cell::from(group.busy_ns),
                group.share_gpu_pct.into(),
                group.share_busy_pct.into(),
                short.get(group.name.as_str()).unwrap_or(&group.name).into(),
                group.class_share_pct.into(),
            ]);
            table.push(&cells)?;
        }
    }
    Ok(table)
}

/// Returns the groups of one trace for text output: kernels without template arguments and
/// parameters, where they stay distinct without.
///
/// # Errors
///
/// Returns an error only on a defect.
pub fn kernels_narrow(result: &Kernels, by: &[&'static str], top: usize) -> Result<Table> {
    let title = |name: &&'static str| Column::text(*name).title(name.trim_start_matches("by_"));
    let mut columns: Vec<Column> = by.iter().map(title).collect();
    columns.extend([
        count("count", "count"),
        nanos("sum_ns", "sum"),
        pct("share_gpu_pct", "of GPU"),
        real_nanos("median_ns", "median"),
        real_nanos("p99_ns", "p99"),
    ]);
    let mut table = Table::new("kernels", columns)?;
    let by_name = result.groups.iter().filter(|group| group.kind.is_some());
    let short = short_names(by_name.map(|group| group.name.as_str()));
    for group in result.groups.iter().take(top) {
        let s = &group.spread;
        let name = short.get(group.name.as_str()).unwrap_or(&group.name);
        let mut cells = vec![Cell::from(name)];
        cells.extend(group.also.iter().map(Cell::from));
        cells.extend([
            Cell::from(s.count),
            s.sum_ns.into(),
            group.share_gpu_pct.into(),
            s.median_ns.into(),
            s.p99_ns.into(),
        ]);
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns the launching operators by the rules of TraceLens.
///
/// # Errors
///
/// Returns an error only on a defect.
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
