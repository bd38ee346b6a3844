//! The table of counter samples.

use report::{Cell, Column, RealFormat, RowSink};
use trace_model::{CounterSample, Trace};

use crate::display;
use crate::slices::TrackCells;
use crate::table::TableOptions;

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::int("ts"),
        Column::real("value").reals(RealFormat::ShortestPoint),
        Column::text("track_type"),
        Column::text("track_name"),
        Column::text("unit"),
        Column::int("pid"),
        Column::int("tid"),
    ]
}

pub(crate) fn rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let tracks = TrackCells::all(trace, options);
    let mut write = |ties: &mut Vec<CounterSample>| -> report::Result<()> {
        // Samples of unnamed counters come first, like nulls in a sorted column.
        ties.sort_by_key(|s| tracks[s.track.index()].name);
        for sample in ties.drain(..) {
            let track = &tracks[sample.track.index()];
            sink.row(&[
                sample.ts.nanos().into(),
                Cell::Real(sample.value),
                track.type_name.into(),
                track.name.into(),
                display::unit(trace, trace.track(sample.track)).into(),
                track.pid.into(),
                track.tid.into(),
            ])?;
        }
        Ok(())
    };
    // The store is in ascending time; only samples of the same time are reordered.
    let mut ties: Vec<CounterSample> = Vec::new();
    for sample in trace.counters().iter() {
        if ties.last().is_some_and(|last| last.ts != sample.ts) {
            write(&mut ties)?;
        }
        ties.push(sample);
    }
    write(&mut ties)
}
