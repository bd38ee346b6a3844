//! The table of slices.

use report::{Cell, Column, RowSink, Unit};
use trace_model::Trace;

use crate::display::{self, SliceNames};
use crate::lanes::Lanes;
use crate::table::TableOptions;

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::uint("id"),
        Column::int("ts"),
        Column::int("dur").unit(Unit::Nanos),
        Column::text("cat"),
        Column::text("name"),
        Column::uint("depth"),
        Column::uint("parent_id"),
        Column::text("track_type"),
        Column::text("track_name"),
        Column::int("pid"),
        Column::int("tid"),
        Column::int("thread_ts"),
        Column::int("thread_dur").unit(Unit::Nanos),
        Column::uint("track_id"),
    ]
}

/// Cells that all slices of a track share.
pub(crate) struct TrackCells<'t> {
    pub(crate) type_name: &'static str,
    pub(crate) name: Option<&'t str>,
    pub(crate) pid: Option<i64>,
    pub(crate) tid: Option<i64>,
}

impl<'t> TrackCells<'t> {
    /// Returns the cells of every track, by track.
    pub(crate) fn all(trace: &'t Trace, options: &TableOptions) -> Vec<Self> {
        trace
            .tracks()
            .iter()
            .map(|track| Self {
                type_name: track.kind.type_name(),
                name: display::track_name(track)
                    .map(|id| display::text(trace.text(id), options.compat)),
                pid: display::process_of(trace, track).map(|p| display::pid(trace, p, options)),
                tid: track
                    .thread
                    .map(|id| display::tid(trace, trace.thread(id), options)),
            })
            .collect()
    }
}

pub(crate) fn rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let names = SliceNames::new(trace, options);
    let tracks = TrackCells::all(trace, options);
    let mut lanes = Lanes::new(trace);
    for slice in trace.slices() {
        let track = &tracks[slice.track_id().index()];
        let (thread_ts, thread_dur) = match slice.thread_time() {
            Some((ts, dur)) => (Some(ts), dur),
            None => (None, None),
        };
        sink.row(&[
            slice.id().index().into(),
            slice.ts().nanos().into(),
            Cell::Int(slice.dur().map_or(-1, |d| d.get())),
            slice
                .category()
                .map(|c| display::text(c, options.compat))
                .into(),
            names.of(slice).into(),
            slice.depth().into(),
            slice.parent().map(|p| p.id().index()).into(),
            track.type_name.into(),
            track.name.into(),
            track.pid.into(),
            track.tid.into(),
            thread_ts.into(),
            thread_dur.into(),
            lanes.lane_of(slice).into(),
        ])?;
    }
    Ok(())
}
