//! The table of flows (arrows).

use report::{Column, RowSink};
use trace_model::Trace;

use crate::display::{self, SliceNames};
use crate::table::TableOptions;

pub(crate) fn columns() -> Vec<Column> {
    vec![
        Column::uint("id"),
        Column::uint("slice_out"),
        Column::uint("slice_in"),
        Column::text("cat"),
        Column::text("name"),
        Column::int("out_ts"),
        Column::text("out_name"),
        Column::int("in_ts"),
        Column::text("in_name"),
    ]
}

pub(crate) fn rows(
    trace: &Trace,
    options: &TableOptions,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let names = SliceNames::new(trace, options);
    let text = |id| display::text(trace.text(id), options.compat);
    for (id, flow) in trace.flows().iter().enumerate() {
        let (out, into) = (trace.slice(flow.from), trace.slice(flow.to));
        sink.row(&[
            id.into(),
            flow.from.index().into(),
            flow.to.index().into(),
            flow.category.map(text).into(),
            flow.name.map(text).into(),
            out.ts().nanos().into(),
            names.of(out).into(),
            into.ts().nanos().into(),
            names.of(into).into(),
        ])?;
    }
    Ok(())
}
