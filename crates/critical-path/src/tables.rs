//! Results as tables: wide ones in integer nanoseconds for programs, narrow ones for terminals.

use std::collections::BTreeMap;

use report::{Cell, Column, SchemaVersion, Table, Unit};
use trace_model::kernel::display_names;

use crate::answer::share;
use crate::{Analysis, Group};

/// Schema version of all tables of this crate.
pub const SCHEMA_VERSION: SchemaVersion = SchemaVersion::new(1, 0);

fn nanos(name: &'static str, title: &'static str) -> Column {
    Column::int(name).unit(Unit::Nanos).title(title)
}

fn pct(name: &'static str, title: &'static str) -> Column {
    Column::real(name).unit(Unit::Pct).title(title)
}

/// Returns short names of GPU activities and host code for text output, distinct where the names
/// are.
fn short<'a>(names: impl Iterator<Item = &'a str>) -> Vec<String> {
    let names: Vec<&str> = names.collect();
    let shown = display_names(names.iter().copied());
    let name_of = |name: &&str| shown.get(name).map_or(*name, String::as_str).to_owned();
    names.iter().map(name_of).collect()
}

/// Returns the steps with begin, end, verdict, time by group and errors of the model: a row for each step of each rank.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn steps(analysis: &Analysis) -> report::Result<Table> {
    let mut columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        Column::text("name"),
        nanos("host_begin_ns", "host_begin_ns"),
        nanos("host_end_ns", "host_end_ns"),
        nanos("device_begin_ns", "device_begin_ns"),
        nanos("device_end_ns", "device_end_ns"),
        nanos("begin_ns", "begin_ns"),
        nanos("end_ns", "end_ns"),
        nanos("duration_ns", "duration_ns"),
        Column::text("flags"),
        Column::text("verdict"),
        Column::text("limit"),
        Column::real("share_pct").unit(Unit::Pct),
    ];
    columns.extend([
        nanos("gpu_ns", "gpu_ns"),
        nanos("comm_ns", "comm_ns"),
        nanos("launch_ns", "launch_ns"),
        nanos("host_ns", "host_ns"),
        nanos("sync_ns", "sync_ns"),
        nanos("wait_ns", "wait_ns"),
        nanos("input_ns", "input_ns"),
        nanos("unknown_ns", "unknown_ns"),
        nanos("other_ranks_ns", "other_ranks_ns"),
        nanos("unexplained_ns", "unexplained_ns"),
        nanos("guessed_ns", "guessed_ns"),
        nanos("model_ns", "model_ns"),
    ]);
    let mut table = Table::new("steps", columns)?;
    for row in &analysis.steps {
        let flags: Vec<&str> = row.flags.iter().map(|flag| flag.name()).collect();
        let flags = flags.join(" ");
        let mut cells: Vec<Cell<'_>> = vec![
            u64::from(row.rank).into(),
            u64::from(row.step).into(),
            row.name.as_str().into(),
            row.host_begin_ns.into(),
            row.host_end_ns.into(),
            row.device_begin_ns.into(),
            row.device_end_ns.into(),
            row.begin_ns.into(),
            row.end_ns.into(),
            row.duration_ns.into(),
            flags.as_str().into(),
            row.verdict.into(),
            row.limit.map(|limit| limit.name()).into(),
            row.share_pct.into(),
        ];
        let groups = Group::ALL.into_iter();
        cells.extend(groups.map(|group| Cell::from(row.groups.of(group))));
        cells.extend([
            Cell::from(row.other_ranks_ns),
            row.unexplained_ns.into(),
            row.guessed_ns.into(),
            row.model_ns.into(),
        ]);
        table.push(&cells)?;
    }
    Ok(table)
}

/// Returns the first `rows` steps with the main columns.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn steps_narrow(analysis: &Analysis, rows: usize) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        Column::text("name"),
        nanos("duration_ns", "step time"),
        Column::text("verdict"),
        pct("share_pct", "share"),
        Column::text("flags"),
    ];
    let mut table = Table::new("steps", columns)?;
    for row in analysis.steps.iter().take(rows) {
        let flags: Vec<&str> = row.flags.iter().map(|flag| flag.name()).collect();
        let flags = flags.join(" ");
        let verdict = match row.limit {
            Some(limit) => format!("{} ({})", row.verdict, limit.name()),
            None => row.verdict.to_owned(),
        };
        table.push(&[
            u64::from(row.rank).into(),
            u64::from(row.step).into(),
            row.name.as_str().into(),
            row.duration_ns.into(),
            verdict.as_str().into(),
            row.share_pct.into(),
            flags.as_str().into(),
        ])?;
    }
    Ok(table)
}

/// Returns the segments of the path in order of time; only those that the analysis was asked to keep.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn segments(analysis: &Analysis) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        nanos("begin_ns", "begin_ns"),
        nanos("end_ns", "end_ns"),
        Column::text("class"),
        Column::text("group"),
        Column::text("name"),
        Column::text("evidence"),
        Column::uint("on_rank"),
    ];
    let mut table = Table::new("segments", columns)?;
    for row in &analysis.segments {
        let segment = &row.segment;
        let class = segment.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            u64::from(row.step).into(),
            segment.begin_ns.into(),
            segment.end_ns.into(),
            class.as_str().into(),
            segment.class.group().name().into(),
            segment.name.as_str().into(),
            segment.evidence.name().into(),
            u64::from(segment.on_rank).into(),
        ])?;
    }
    Ok(table)
}

/// Returns the segments with times since the begin of the window.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn segments_narrow(analysis: &Analysis) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        nanos("since_ns", "since begin"),
        nanos("length_ns", "length"),
        Column::text("class"),
        Column::text("name"),
        Column::text("evidence"),
        Column::uint("on_rank"),
    ];
    let mut table = Table::new("segments", columns)?;
    for row in &analysis.segments {
        let segment = &row.segment;
        let class = segment.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            u64::from(row.step).into(),
            (segment.begin_ns - analysis.window.begin_ns).into(),
            (segment.end_ns - segment.begin_ns).into(),
            class.as_str().into(),
            segment.name.as_str().into(),
            segment.evidence.name().into(),
            u64::from(segment.on_rank).into(),
        ])?;
    }
    Ok(table)
}

/// Returns the GPU activities with their slack; only those that the analysis was asked to keep.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn ops(analysis: &Analysis) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        Column::text("class"),
        Column::text("name"),
        Column::int("device"),
        Column::int("stream"),
        nanos("begin_ns", "begin_ns"),
        nanos("end_ns", "end_ns"),
        nanos("slack_ns", "slack_ns"),
    ];
    let mut table = Table::new("ops", columns)?;
    for row in &analysis.ops {
        let class = row.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            row.step.map(u64::from).into(),
            class.as_str().into(),
            row.name.as_str().into(),
            row.device.into(),
            row.stream.into(),
            row.begin_ns.into(),
            row.end_ns.into(),
            row.slack_ns.into(),
        ])?;
    }
    Ok(table)
}

/// Returns the GPU activities with times since the begin of the window.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn ops_narrow(analysis: &Analysis) -> report::Result<Table> {
    let columns = vec![
        Column::uint("rank"),
        Column::uint("step"),
        Column::text("class"),
        Column::text("name"),
        nanos("since_ns", "since begin"),
        nanos("length_ns", "length"),
        nanos("slack_ns", "slack"),
    ];
    let mut table = Table::new("ops", columns)?;
    for row in &analysis.ops {
        let class = row.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            row.step.map(u64::from).into(),
            class.as_str().into(),
            row.name.as_str().into(),
            (row.begin_ns - analysis.window.begin_ns).into(),
            (row.end_ns - row.begin_ns).into(),
            row.slack_ns.into(),
        ])?;
    }
    Ok(table)
}

/// Returns the time on the path by group, and the gain of the window without each group.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn budget(analysis: &Analysis) -> report::Result<Table> {
    let columns = vec![
        Column::text("group"),
        nanos("path_ns", "on the path"),
        pct("share_pct", "share"),
        nanos("gain_ns", "gain without"),
        pct("gain_pct", "gain"),
    ];
    let mut table = Table::new("budget", columns)?;
    let total = analysis.window.groups.total();
    for row in &analysis.limits {
        if row.path_ns == 0 && row.gain_ns == 0 {
            continue;
        }
        table.push(&[
            row.group.name().into(),
            row.path_ns.into(),
            share(row.path_ns, total).into(),
            row.gain_ns.into(),
            row.gain_pct.into(),
        ])?;
    }
    Ok(table)
}

/// Returns the prediction for each change, with its interval.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn what_if(analysis: &Analysis) -> report::Result<Table> {
    let columns = vec![
        Column::text("change"),
        nanos("recorded_ns", "recorded"),
        nanos("predicted_ns", "predicted"),
        nanos("gain_ns", "gain"),
        pct("gain_pct", "%"),
        pct("uncertainty_pct", "±"),
    ];
    let mut table = Table::new("what_if", columns)?;
    for row in &analysis.what_if {
        table.push(&[
            row.change.as_str().into(),
            row.recorded_ns.into(),
            row.predicted_ns.into(),
            row.gain_ns.into(),
            row.gain_pct.into(),
            row.uncertainty_pct.into(),
        ])?;
    }
    Ok(table)
}

/// Returns the gain of the window without each of the largest names on the path.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn opportunities(analysis: &Analysis) -> report::Result<Table> {
    let columns = vec![
        Column::text("class"),
        Column::text("name"),
        nanos("path_ns", "on the path"),
        nanos("gain_ns", "gain without"),
        pct("gain_pct", "%"),
    ];
    let mut table = Table::new("opportunities", columns)?;
    let short = short(analysis.opportunities.iter().map(|row| row.name.as_str()));
    for (row, name) in analysis.opportunities.iter().zip(&short) {
        let class = row.class.name();
        table.push(&[
            class.as_str().into(),
            name.as_str().into(),
            row.path_ns.into(),
            row.gain_ns.into(),
            row.gain_pct.into(),
        ])?;
    }
    Ok(table)
}

/// Returns the `rows` names with the most time on the path, over all steps.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn largest(analysis: &Analysis, rows: usize) -> report::Result<Table> {
    let mut sums: BTreeMap<(String, &str), (i64, u64)> = BTreeMap::new();
    for row in &analysis.path {
        let slot = sums.entry((row.class.name(), &row.name)).or_default();
        slot.0 += row.path_ns;
        slot.1 += row.count;
    }
    let total: i64 = analysis.path.iter().map(|row| row.path_ns).sum();
    let mut sums: Vec<_> = sums.into_iter().collect();
    sums.sort_by_key(|entry| std::cmp::Reverse(entry.1.0));
    let columns = vec![
        Column::text("class"),
        Column::text("name"),
        nanos("path_ns", "on the path"),
        pct("share_pct", "share"),
        Column::uint("count").unit(Unit::Count),
    ];
    let mut table = Table::new("path", columns)?;
    sums.truncate(rows);
    let short = short(sums.iter().map(|entry| entry.0.1));
    for (((class, _), (ns, count)), name) in sums.iter().zip(&short) {
        table.push(&[
            class.as_str().into(),
            name.as_str().into(),
            (*ns).into(),
            share(*ns, total).into(),
            (*count).into(),
        ])?;
    }
    Ok(table)
}
