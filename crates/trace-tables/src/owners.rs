//! The tables of processes, threads and tracks.

use report::{Cell, Column, RowSink};
use trace_model::{Trace, TrackKind};

use crate::display;
use crate::slices::TrackCells;
use crate::table::TableOptions;

pub(crate) fn process_columns() -> Vec<Column> {
    vec![
        Column::uint("upid"),
        Column::int("pid"),
        Column::text("name"),
        Column::int("sort_index"),
        Column::text("labels"),
        Column::uint("machine"),
    ]
}

pub(crate) fn process_rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    for (upid, process) in trace.processes().iter().enumerate() {
        sink.row(&[
            upid.into(),
            display::pid(trace, process, options).into(),
            process.name.map(|id| trace.text(id)).into(),
            process.sort_index.into(),
            process.labels.map(|id| trace.text(id)).into(),
            // The store has a single machine.
            Cell::Null,
        ])?;
    }
    Ok(())
}

pub(crate) fn thread_columns() -> Vec<Column> {
    vec![
        Column::int("tid"),
        Column::text("name"),
        Column::int("pid"),
        Column::text("process_name"),
    ]
}

pub(crate) fn thread_rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let process = |row: usize| trace.threads()[row].process.map(|id| trace.process(id));
    let pid = |row| process(row).map(|p| display::pid(trace, p, options));
    let tid = |row: usize| display::tid(trace, &trace.threads()[row], options);
    let mut order: Vec<usize> = (0..trace.threads().len()).collect();
    order.sort_by_key(|&row| (pid(row), tid(row)));
    for row in order {
        let thread = &trace.threads()[row];
        sink.row(&[
            tid(row).into(),
            thread.name.map(|id| trace.text(id)).into(),
            pid(row).into(),
            process(row)
                .and_then(|p| p.name)
                .map(|id| trace.text(id))
                .into(),
        ])?;
    }
    Ok(())
}

pub(crate) fn track_columns() -> Vec<Column> {
    vec![
        Column::uint("id"),
        Column::text("kind"),
        Column::text("type"),
        Column::text("name"),
        Column::uint("parent_id"),
        Column::uint("upid"),
        Column::uint("utid"),
        Column::int("pid"),
        Column::int("tid"),
        Column::uint("uuid"),
        Column::text("unit"),
    ]
}

/// Returns the broad kind of a track.
pub(crate) fn kind_name(kind: TrackKind) -> &'static str {
    match kind {
        TrackKind::Thread | TrackKind::ThreadChild | TrackKind::ThreadChildUnmerged => "thread",
        TrackKind::ThreadOverflow => "overflow",
        TrackKind::ProcessInstant | TrackKind::ProcessChild | TrackKind::ProcessChildUnmerged => {
            "process"
        }
        TrackKind::GlobalAsync | TrackKind::ProcessAsync => "async",
        kind if kind.is_counter() => "counter",
        _ => "global",
    }
}

pub(crate) fn track_rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let cells = TrackCells::all(trace, options);
    for (id, (track, cells)) in trace.tracks().iter().zip(&cells).enumerate() {
        sink.row(&[
            id.into(),
            kind_name(track.kind).into(),
            cells.type_name.into(),
            cells.name.into(),
            track.parent.map(|id| id.index()).into(),
            track.process.map(|id| id.index()).into(),
            track.thread.map(|id| id.index()).into(),
            cells.pid.into(),
            cells.tid.into(),
            track.uuid.into(),
            display::unit(trace, track).into(),
        ])?;
    }
    Ok(())
}
