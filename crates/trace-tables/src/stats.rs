//! The table of issues.

use report::{Cell, Column, RowSink, Unit};
use trace_model::{IssueKind, Severity, Trace};

use crate::table::TableOptions;

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::text("name"),
        Column::int("idx"),
        Column::text("severity"),
        Column::text("source"),
        Column::uint("value").unit(Unit::Count),
    ]
}

pub(crate) fn rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let mut rows: Vec<_> = trace
        .diagnostics()
        .issues()
        .iter()
        .filter(|issue| !options.compat || issue.kind.severity() != Severity::Info)
        .map(|issue| {
            let severity = match issue.kind {
                IssueKind::NeedsState if options.compat => "notice",
                kind => kind.severity().name(),
            };
            (issue.kind.name(), severity, source(issue.kind), issue.count)
        })
        .collect();
    rows.sort_unstable();
    for (name, severity, source, value) in rows {
        sink.row(&[
            name.into(),
            Cell::Null,
            severity.into(),
            source.into(),
            value.into(),
        ])?;
    }
    Ok(())
}

/// Returns the source of an issue: the file (`trace`), or assembling its events (`analysis`). Same
/// as in the reference for issues that it counts.
fn source(kind: IssueKind) -> &'static str {
    match kind {
        IssueKind::Overlap
        | IssueKind::OverlapDropped
        | IssueKind::Snapped
        | IssueKind::TooDeep
        | IssueKind::MisplacedEnd
        | IssueKind::NeverClosed
        | IssueKind::EndWithoutBegin
        | IssueKind::ArgShapesExhausted
        | IssueKind::CategoriesExhausted
        | IssueKind::NeedsState
        | IssueKind::InternedWhileInvalid
        | IssueKind::UnknownInterned
        | IssueKind::ClockSync
        | IssueKind::BadClockSnapshot
        | IssueKind::BadTrackEvent
        | IssueKind::BadTrack
        | IssueKind::TrackConflict
        | IssueKind::CounterTrack
        | IssueKind::LinkConflict => "analysis",
        _ => "trace",
    }
}
