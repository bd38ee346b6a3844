//! Accesses as rows of a table.

use std::path::Path;

use memtrace_labeller::{
    Access, LabelOptions, NATIVE_COLUMNS, Names, RowStream, TRACE_COLUMNS, cells,
};
use report::{Cell, Column, RowSink, Unit};

use crate::error::Result;
use crate::pipeline::{Processed, RowOutput, Steps, process};

/// Columns with texts; all others are numbers.
const TEXTS: [&str; 7] = [
    "run_id",
    "phase",
    "op_type",
    "symbol",
    "dso",
    "region_type",
    "cache_level",
];

fn columns() -> Vec<Column> {
    let names = TRACE_COLUMNS.into_iter().chain(NATIVE_COLUMNS);
    let column = |name: &'static str| match name {
        name if TEXTS.contains(&name) => Column::text(name).repeating(),
        "size_bytes" => Column::uint(name).unit(Unit::Bytes),
        name => Column::uint(name),
    };
    names.map(column).collect()
}

/// Passes rows on to a sink.
struct Rows<'s>(&'s mut (dyn RowSink + Send));

impl RowOutput for Rows<'_> {
    fn rows(&mut self, rows: &[Access], names: &Names) -> Result<()> {
        use memtrace_labeller::Cell as Own;
        for row in rows {
            let row = cells(row, names).map(|cell| match cell {
                Own::Text(text) => Cell::Text(text),
                Own::Number(number) => Cell::UInt(number),
                // An address beyond 64 bits, which only the reference's grammar accepts, is no number here.
                Own::Null | Own::Wide(_) => Cell::Null,
            });
            self.0.row(&row)?;
        }
        Ok(())
    }
}

/// Passes the accesses of an input on as rows, labelled by the built-in rules if they are not yet: what `memtrace label` writes.
///
/// # Errors
///
/// Returns the error of the input, or that of the sink.
pub fn pass_accesses(
    stream: RowStream,
    names: Names,
    sink: &mut (dyn RowSink + Send),
) -> Result<Processed> {
    let mut steps = Steps::default();
    if !stream.is_labelled() {
        let mut options = LabelOptions::native();
        // The map of regions is another table.
        options.maps = false;
        steps.label = Some(options);
        steps.infer_kv_blocks = true;
    }
    sink.begin(&columns())?;
    let done = process(stream, names, steps, Some(&mut Rows(&mut *sink)))?;
    sink.finish()?;
    Ok(done)
}

/// Returns the name of the run of a capture that states none: that of its file without endings.
#[must_use]
pub fn run_name(path: &Path) -> String {
    let name = path.to_string_lossy();
    let name = byte_source::logical_name(&name);
    let name = name.rsplit('/').next().unwrap_or(name);
    match name.split_once('.') {
        Some((stem, _)) if !stem.is_empty() => stem.to_owned(),
        _ => name.to_owned(),
    }
}
