//! Writes the events of a trace as one table.

use std::path::{Path, PathBuf};

use blkio_parser::pipeline::{self, Outcome as Read, Pass, ReadOptions};
use blkio_parser::{Event, EventKind, Symbols};
use byte_source::output::AtomicFile;
use report::{Cell, Column, RowSink, Unit};
use serde_json::{Value, json};

use crate::error::Result;

/// Layout of the table.
const VERSION: report::SchemaVersion = report::SchemaVersion::new(1, 1);
/// Key of the Parquet file's metadata that says which inputs the rows are of: a JSON array.
const INPUTS: &str = "inputs";

fn columns() -> Vec<Column> {
    vec![
        Column::uint("t_ns").unit(Unit::None),
        Column::text("kind").repeating(),
        Column::text("device").repeating(),
        Column::text("rwbs").repeating(),
        Column::text("direction").repeating(),
        Column::uint("sector"),
        Column::uint("nr_sector").unit(Unit::Count),
        Column::uint("bytes").unit(Unit::Bytes),
        Column::uint("cpu"),
        Column::uint("pid"),
        Column::text("comm").repeating(),
        Column::int("error"),
    ]
}

/// Writes the events of a trace, in order, to a table, and returns their number with what was read: Parquet, or CSV where the
/// name of the table ends in `.csv`. No table is made of a trace without events.
///
/// Rows are written while the trace is read. One that turns out to step back further than the window is read again, all of it
/// held, and its table begun anew.
///
/// # Errors
///
/// A trace that cannot be read, or a table that cannot be written.
pub fn write_events(traces: &[PathBuf], read: &ReadOptions, target: &Path) -> Result<(u64, Read)> {
    Ok(match write(traces, read, Pass::Streaming, target)? {
        Some(written) => written,
        None => write(traces, read, Pass::Holding, target)?.unwrap_or_default(),
    })
}

/// Passes the rows of that table on to a sink that cannot begin anew. The trace is read twice: first to know how its events stay in
/// order.
///
/// # Errors
///
/// A trace that cannot be read, or the error of the sink.
pub fn pass_events(traces: &[PathBuf], read: &ReadOptions, sink: &mut dyn RowSink) -> Result<Read> {
    let first = pipeline::read_pass(traces, read, Pass::Streaming, &mut |_, _| {})?;
    let pass = match first {
        Some(_) => Pass::Streaming,
        None => Pass::Holding,
    };
    sink.begin(&columns())?;
    let given = read.device.unwrap_or(0);
    let mut failed = None;
    let outcome = pipeline::read_pass(traces, read, pass, &mut |batch, symbols| {
        if failed.is_none() {
            failed = rows(&batch, symbols, given, sink).err();
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    sink.finish()?;
    Ok(outcome.unwrap_or_default())
}

/// Writes the table and gives the number of its rows; `None`, and no table, when this pass cannot give the right order.
fn write(
    traces: &[PathBuf],
    read: &ReadOptions,
    pass: Pass,
    target: &Path,
) -> Result<Option<(u64, Read)>> {
    let mut file = AtomicFile::create(target)?;
    let is_csv = target.extension().is_some_and(|e| e == "csv");
    let mut table = if is_csv {
        Table::Csv(report::Format::Csv.sink(&mut file))
    } else {
        Table::Parquet(Box::new(report::ParquetWriter::new(&mut file, VERSION)))
    };
    table.rows().begin(&columns())?;
    let given = read.device.unwrap_or(0);
    let mut events = 0;
    let mut failed = None;
    let outcome = pipeline::read_pass(traces, read, pass, &mut |batch, symbols| {
        if failed.is_none() {
            events += batch.len() as u64;
            failed = rows(&batch, symbols, given, table.rows()).err();
        }
    })?;
    if let Some(error) = failed {
        return Err(error.into());
    }
    let Some(outcome) = outcome else {
        return Ok(None);
    };
    if let Table::Parquet(writer) = &mut table {
        writer.add_metadata(INPUTS, &of_inputs(&outcome).to_string())?;
    }
    table.rows().finish()?;
    drop(table);
    if events > 0 {
        file.commit()?;
    }
    Ok(Some((events, outcome)))
}

/// The table that is written.
enum Table<'f> {
    Csv(Box<dyn RowSink + 'f>),
    Parquet(Box<report::ParquetWriter<&'f mut AtomicFile>>),
}

impl<'f> Table<'f> {
    fn rows(&mut self) -> &mut (dyn RowSink + 'f) {
        match self {
            Self::Csv(sink) => sink.as_mut(),
            Self::Parquet(writer) => writer.as_mut(),
        }
    }
}

/// Returns what the rows are of, and which clock their times are of.
fn of_inputs(outcome: &Read) -> Value {
    let inputs = outcome.inputs.iter().map(|input| {
        let name = Path::new(&input.name).file_name();
        json!({
            "name": name.map_or(input.name.as_str().into(), |name| name.to_string_lossy()),
            "format": input.kind.name(),
            "clock": input.clock(),
            "crc32": format!("{:08x}", input.crc32),
            "malformed": input.counts.malformed,
            "lost_events": input.counts.lost_events,
        })
    });
    inputs.collect()
}

/// Returns what of the trace is not in the table, a sentence each.
#[must_use]
pub fn omissions(outcome: &Read) -> Vec<String> {
    let mut found = Vec::new();
    for input in &outcome.inputs {
        let (counts, name) = (&input.counts, &input.name);
        let lacks = [
            (counts.malformed, "malformed lines, left out"),
            (counts.lost_events, "events that the tracer lost"),
            (input.damaged, "damaged pieces, left out"),
        ];
        for (count, what) in lacks.iter().filter(|(count, _)| *count > 0) {
            found.push(format!("{name}: {what}: {count}"));
        }
    }
    found
}

/// What a trace does not tell is null: the device, the process, the processor, and of anything that is no end of a request
/// the error. No event without device, process and processor is of a trace that has these columns.
struct Known {
    device: bool,
    process: bool,
    cpu: bool,
    error: bool,
}

impl Known {
    fn of(event: &Event, symbols: &Symbols) -> Self {
        let is_named = event.pid != 0 || event.comm != 0;
        let has_columns = event.dev != 0 || event.cpu != 0 || is_named;
        Self {
            device: event.dev != 0,
            process: has_columns,
            // A device that has a name in place of numbers is of biosnoop, which tells no processor.
            cpu: has_columns && !symbols.is_named_device(event.dev),
            error: matches!(event.kind, EventKind::Complete | EventKind::Requeue)
                && !symbols.is_named_device(event.dev),
        }
    }
}

/// Returns the rows of these events; `given` is the device of those without one, 0 where nobody knows.
fn rows(
    events: &[Event],
    symbols: &Symbols,
    given: u32,
    sink: &mut dyn RowSink,
) -> report::Result<()> {
    let mut device = (u32::MAX, String::new());
    for event in events {
        if device.0 != event.dev {
            device = (
                event.dev,
                symbols.device_name(if event.dev == 0 { given } else { event.dev }),
            );
        }
        let rwbs = symbols.rwbs_of(event.rwbs);
        let comm = String::from_utf8_lossy(symbols.comm_of(event.comm));
        let known = Known::of(event, symbols);
        let device_cell = if known.device || given != 0 {
            Cell::Text(&device.1)
        } else {
            Cell::Null
        };
        sink.row(&[
            Cell::UInt(event.t_ns),
            Cell::Text(event.kind.name()),
            device_cell,
            rwbs.as_ref().map_or(Cell::Null, |r| Cell::Text(r.as_str())),
            Cell::Text(event.direction.name()),
            Cell::UInt(event.sector),
            event.nr_sector.into(),
            event.bytes.into(),
            if known.cpu {
                event.cpu.into()
            } else {
                Cell::Null
            },
            if known.process {
                event.pid.into()
            } else {
                Cell::Null
            },
            if event.comm == 0 {
                Cell::Null
            } else {
                Cell::Text(&comm)
            },
            if known.error {
                event.error.into()
            } else {
                Cell::Null
            },
        ])?;
    }
    Ok(())
}
