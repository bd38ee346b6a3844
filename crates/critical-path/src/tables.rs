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

/// Returns names as `form` shows them.
fn names_in<'a>(form: Form, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    match form {
        Form::Wide => names.map(str::to_owned).collect(),
        Form::Narrow => short(names),
    }
}

/// Form of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// All columns, times as recorded: for programs.
    Wide,
    /// The main columns, times since the begin of the window, names of kernels without types and parameters: for people.
    Narrow,
}

/// A table under construction whose rows have the cells of both forms.
struct Formed {
    table: Table,
    /// `true` for each cell of a row that the form has.
    keeps: Vec<bool>,
}

impl Formed {
    /// Creates a table with the columns of `form`; a column without a form is in both.
    fn new(
        name: &'static str,
        form: Form,
        columns: Vec<(Option<Form>, Column)>,
    ) -> report::Result<Self> {
        let is_in = |of: Option<Form>| of.is_none_or(|of| of == form);
        let keeps = columns.iter().map(|(of, _)| is_in(*of)).collect();
        let columns = columns.into_iter();
        let columns = columns.filter_map(|(of, column)| is_in(of).then_some(column));
        Ok(Self {
            table: Table::new(name, columns.collect::<Vec<_>>())?,
            keeps,
        })
    }

    fn push(&mut self, cells: &[Cell<'_>]) -> report::Result<()> {
        let kept = cells.iter().zip(&self.keeps);
        let kept: Vec<Cell<'_>> = kept
            .filter(|(_, keeps)| **keeps)
            .map(|(cell, _)| *cell)
            .collect();
        self.table.push(&kept)
    }
}

const WIDE: Option<Form> = Some(Form::Wide);
const NARROW: Option<Form> = Some(Form::Narrow);

/// Returns at most `rows` steps with their time and verdict; the wide form has begin, end, time by group and errors of the model
/// as well.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn steps(analysis: &Analysis, form: Form, rows: usize) -> report::Result<Table> {
    let wide = |name| (WIDE, nanos(name, name));
    let mut columns = vec![
        (None, Column::uint("rank")),
        (None, Column::uint("step")),
        (None, Column::text("name")),
        wide("host_begin_ns"),
        wide("host_end_ns"),
        wide("device_begin_ns"),
        wide("device_end_ns"),
        wide("begin_ns"),
        wide("end_ns"),
        wide("duration_ns"),
        (NARROW, nanos("duration_ns", "step time")),
        (None, Column::text("flags")),
        (WIDE, Column::text("verdict")),
        (WIDE, Column::text("limit")),
        (NARROW, Column::text("verdict")),
        (WIDE, Column::real("share_pct").unit(Unit::Pct)),
        (NARROW, pct("share_pct", "share")),
    ];
    columns.extend(
        [
            "gpu_ns",
            "comm_ns",
            "launch_ns",
            "host_ns",
            "sync_ns",
            "wait_ns",
            "input_ns",
            "unknown_ns",
            "other_ranks_ns",
            "unexplained_ns",
            "guessed_ns",
            "model_ns",
        ]
        .map(wide),
    );
    let mut table = Formed::new("steps", form, columns)?;
    for row in analysis.steps.iter().take(rows) {
        let flags: Vec<&str> = row.flags.iter().map(|flag| flag.name()).collect();
        let flags = flags.join(" ");
        let both = match row.limit {
            Some(limit) => format!("{} ({})", row.verdict, limit.name()),
            None => row.verdict.to_owned(),
        };
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
            row.duration_ns.into(),
            flags.as_str().into(),
            row.verdict.into(),
            row.limit.map(|limit| limit.name()).into(),
            both.as_str().into(),
            row.share_pct.into(),
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
    Ok(table.table)
}

/// Returns the segments of the path in order of time; only those that the analysis was asked to keep.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn segments(analysis: &Analysis, form: Form) -> report::Result<Table> {
    let columns = vec![
        (None, Column::uint("rank")),
        (None, Column::uint("step")),
        (WIDE, nanos("begin_ns", "begin_ns")),
        (WIDE, nanos("end_ns", "end_ns")),
        (NARROW, nanos("since_ns", "since begin")),
        (NARROW, nanos("length_ns", "length")),
        (None, Column::text("class")),
        (WIDE, Column::text("group")),
        (None, Column::text("name")),
        (None, Column::text("evidence")),
        (None, Column::uint("on_rank")),
    ];
    let mut table = Formed::new("segments", form, columns)?;
    let rows = analysis.segments.iter();
    let names = names_in(form, rows.map(|row| row.segment.name.as_str()));
    for (row, name) in analysis.segments.iter().zip(&names) {
        let segment = &row.segment;
        let class = segment.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            u64::from(row.step).into(),
            segment.begin_ns.into(),
            segment.end_ns.into(),
            (segment.begin_ns - analysis.window.begin_ns).into(),
            (segment.end_ns - segment.begin_ns).into(),
            class.as_str().into(),
            segment.class.group().name().into(),
            name.as_str().into(),
            segment.evidence.name().into(),
            u64::from(segment.on_rank).into(),
        ])?;
    }
    Ok(table.table)
}

/// Returns the GPU activities with their slack; only those that the analysis was asked to keep.
///
/// # Errors
///
/// Returns an error if a table refuses a row, which is a defect: rows are as long as the columns.
pub fn ops(analysis: &Analysis, form: Form) -> report::Result<Table> {
    let columns = vec![
        (None, Column::uint("rank")),
        (None, Column::uint("step")),
        (None, Column::text("class")),
        (None, Column::text("name")),
        (WIDE, Column::int("device")),
        (WIDE, Column::int("stream")),
        (WIDE, nanos("begin_ns", "begin_ns")),
        (WIDE, nanos("end_ns", "end_ns")),
        (NARROW, nanos("since_ns", "since begin")),
        (NARROW, nanos("length_ns", "length")),
        (WIDE, nanos("slack_ns", "slack_ns")),
        (NARROW, nanos("slack_ns", "slack")),
    ];
    let mut table = Formed::new("ops", form, columns)?;
    let names = names_in(form, analysis.ops.iter().map(|row| row.name.as_str()));
    for (row, name) in analysis.ops.iter().zip(&names) {
        let class = row.class.name();
        table.push(&[
            u64::from(row.rank).into(),
            row.step.map(u64::from).into(),
            class.as_str().into(),
            name.as_str().into(),
            row.device.into(),
            row.stream.into(),
            row.begin_ns.into(),
            row.end_ns.into(),
            (row.begin_ns - analysis.window.begin_ns).into(),
            (row.end_ns - row.begin_ns).into(),
            row.slack_ns.into(),
            row.slack_ns.into(),
        ])?;
    }
    Ok(table.table)
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
