//! The tables of TraceLens' `NcclAnalyser`, with its column names.

use report::{Cell, Column, RealFormat, Table};
use trace_model::kernel::collective::Collective;

use crate::comm::tracelens::{LongRow, LongSummary, MeanStd, SyncRow, SyncSummary};

fn us(name: &'static str) -> Column {
    Column::real(name).reals(RealFormat::ShortestPoint)
}

#[expect(
    clippy::cast_precision_loss,
    reason = "TraceLens counts in real microseconds"
)]
fn micros(ns: i64) -> Cell<'static> {
    Cell::Real(ns as f64 / 1000.0)
}

/// Returns the columns of group, operation and message, which three of the tables share.
fn message_columns() -> [Column; 7] {
    [
        Column::text("Process Group Name"),
        Column::text("Process Group Ranks"),
        Column::text("Collective name"),
        Column::uint("Group size"),
        Column::text("dtype"),
        Column::uint("In msg nelems"),
        Column::uint("Out msg nelems"),
    ]
}

/// Returns the cells of [`message_columns`].
fn message(what: &Collective) -> [Cell<'_>; 7] {
    [
        what.group.as_deref().into(),
        what.ranks.as_deref().into(),
        what.name.as_str().into(),
        what.group_size.into(),
        what.dtype.as_deref().into(),
        what.elements_in.into(),
        what.elements_out.into(),
    ]
}

/// Returns TraceLens' `build_df_long`, with its column names.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn tracelens_long(rows: &[LongRow]) -> report::Result<Table> {
    let [group, ranks, name, size, dtype, nelems_in, nelems_out] = message_columns();
    let columns = vec![
        Column::text("collective_id"),
        Column::uint("index_in_group"),
        Column::uint("rank"),
        group,
        ranks,
        name,
        size,
        dtype,
        nelems_in,
        Column::real("In msg size (MB)"),
        nelems_out,
        Column::real("Out msg size (MB)"),
        Column::text("In split size"),
        Column::text("Out split size"),
        Column::int("stream"),
        us("ts"),
        us("dur"),
    ];
    let mut table = Table::new("tracelens_long", columns)?;
    for row in rows {
        let what = row.what.as_ref();
        table.push(&[
            row.collective_id.as_str().into(),
            row.index_in_group.into(),
            row.rank.0.into(),
            row.group.as_str().into(),
            what.and_then(|w| w.ranks.as_deref()).into(),
            what.map(|w| w.name.as_str()).into(),
            what.and_then(|w| w.group_size).into(),
            what.and_then(|w| w.dtype.as_deref()).into(),
            what.and_then(|w| w.elements_in).into(),
            row.in_mib().into(),
            what.and_then(|w| w.elements_out).into(),
            row.out_mib().into(),
            what.and_then(|w| w.split_in.as_deref()).into(),
            what.and_then(|w| w.split_out.as_deref()).into(),
            row.stream.into(),
            micros(row.ts_ns),
            micros(row.dur_ns),
        ])?;
    }
    Ok(table)
}

/// Returns TraceLens' `build_df_nccl_implicit_sync_cat`, with its column names.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn tracelens_sync(rows: &[SyncRow]) -> report::Result<Table> {
    let mut columns = vec![Column::text("collective_id")];
    columns.extend(message_columns());
    columns.extend([
        Column::real("In msg size (MB)"),
        Column::real("Out msg size (MB)"),
        Column::real("Full msg size (MB)"),
        us("comm_latency"),
        us("skew in start time"),
        Column::uint("earliest arrival rank"),
        us("avg_wait_time"),
        us("skew in end time"),
        Column::real("algo bw (GB/s)"),
        Column::real("bus bw (GB/s)"),
    ]);
    let mut table = Table::new("tracelens_implicit_sync", columns)?;
    for row in rows {
        let mut cells = vec![row.collective_id.as_str().into()];
        cells.extend(message(&row.what));
        cells.extend([
            row.in_mib.into(),
            row.out_mib.into(),
            row.full_mib.into(),
            micros(row.latency_ns),
            micros(row.start_skew_ns),
            row.earliest.0.into(),
            Cell::Real(row.mean_wait_ns / 1000.0),
            micros(row.end_skew_ns),
            row.algbw_gib_s.into(),
            row.busbw_gib_s.into(),
        ]);
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns TraceLens' `build_df_summary_long`, with its column names.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn tracelens_long_summary(rows: &[LongSummary]) -> report::Result<Table> {
    let mut columns = vec![Column::uint("rank")];
    columns.extend(message_columns());
    columns.extend([
        Column::text("In split size"),
        Column::text("Out split size"),
        Column::int("stream"),
        Column::real("In msg size (MB)_first"),
        Column::real("Out msg size (MB)_first"),
        us("dur_sum"),
        us("dur_mean"),
        us("dur_std"),
        us("dur_min"),
        us("dur_max"),
        Column::uint("operation_count"),
    ]);
    let mut table = Table::new("tracelens_summary_long", columns)?;
    for row in rows {
        let mut cells = vec![row.rank.0.into()];
        cells.extend(message(&row.what));
        cells.extend([
            row.what.split_in.as_deref().into(),
            row.what.split_out.as_deref().into(),
            row.stream.into(),
            row.in_mib.into(),
            row.out_mib.into(),
            micros(row.sum_ns),
            Cell::Real(row.dur.mean / 1000.0),
            row.dur.std.map(|s| s / 1000.0).into(),
            micros(row.min_ns),
            micros(row.max_ns),
            row.count.into(),
        ]);
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns TraceLens' `build_df_summary_nccl_implicit_sync_cat`, with its column names.
///
/// # Errors
///
/// Returns an error only on a defect: the columns are fixed.
pub fn tracelens_sync_summary(rows: &[SyncSummary]) -> report::Result<Table> {
    let mut columns = vec![
        Column::text("Collective name"),
        Column::text("dtype"),
        Column::uint("In msg nelems"),
        Column::text("Process Group Name"),
        Column::uint("Group size"),
        Column::real("Full msg size (MB)"),
    ];
    columns.extend(
        [
            "comm_latency_mean",
            "comm_latency_std",
            "skew in start time_mean",
            "skew in start time_std",
            "skew in end time_mean",
            "skew in end time_std",
            "algo bw (GB/s)_mean",
            "algo bw (GB/s)_std",
            "bus bw (GB/s)_mean",
            "bus bw (GB/s)_std",
        ]
        .map(us),
    );
    columns.push(Column::uint("count"));
    columns.push(us("Total comm latency (ms)"));
    let mut table = Table::new("tracelens_summary_implicit_sync", columns)?;
    let mean = |m: Option<MeanStd>, scale: f64| Cell::from(m.map(|m| m.mean * scale));
    let std = |m: Option<MeanStd>, scale: f64| Cell::from(m.and_then(|m| m.std).map(|s| s * scale));
    for row in rows {
        let what = &row.what;
        let mut cells: Vec<Cell<'_>> = vec![
            what.name.as_str().into(),
            what.dtype.as_deref().into(),
            what.elements_in.into(),
            what.group.as_deref().into(),
            what.group_size.into(),
            row.full_mib.into(),
        ];
        for (m, scale) in [
            (Some(row.latency), 1e-3),
            (Some(row.start_skew), 1e-3),
            (Some(row.end_skew), 1e-3),
            (row.algbw, 1.0),
            (row.busbw, 1.0),
        ] {
            cells.push(mean(m, scale));
            cells.push(std(m, scale));
        }
        cells.push(row.count.into());
        let Cell::Real(us) = micros(row.total_latency_ns) else {
            continue;
        };
        cells.push(Cell::Real(us / 1000.0));
        table.push(&cells)?;
    }
    Ok(table)
}
