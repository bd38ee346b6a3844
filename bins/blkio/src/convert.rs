//! `blkio convert`: the events as one table.

use std::io::Write as _;

use blkio_parser::document::device_name;
use blkio_parser::{Event, pipeline};
use report::{Cell, Column, RowSink, Unit};
use shell::{OrExit as _, Outcome, Output, ProgressLine};

use crate::NO_INPUT;
use crate::args::ConvertArgs;
use crate::stats::read_options;

/// Layout of the table.
const VERSION: report::SchemaVersion = report::SchemaVersion::new(1, 0);

fn columns() -> Vec<Column> {
    vec![
        Column::uint("t_ns").unit(Unit::None),
        Column::text("kind"),
        Column::text("device"),
        Column::text("rwbs"),
        Column::text("direction"),
        Column::uint("sector"),
        Column::uint("nr_sector").unit(Unit::Count),
        Column::uint("bytes").unit(Unit::Bytes),
        Column::uint("cpu"),
        Column::uint("pid"),
        Column::text("comm"),
        Column::int("error"),
    ]
}

pub(crate) fn run(args: &ConvertArgs) -> anyhow::Result<Outcome> {
    let Some((target, inputs)) = args.files.split_last() else {
        return Err(shell::usage("name the traces and then the table"));
    };
    let extension = target.extension().and_then(|e| e.to_str()).unwrap_or("");
    if !matches!(extension, "parquet" | "csv") {
        return Err(shell::usage(format!(
            "{}: end the name in .parquet or .csv",
            target.display()
        )));
    }
    let progress = ProgressLine::start("reading", args.verbosity);
    let read = read_options(&args.trace, &args.input, &progress);
    let mut out = Output::file(target)?;
    // Texts are known in full only at the end, and the order may change until then.
    let events = std::cell::RefCell::new(Vec::<Event>::new());
    let outcome = pipeline::read(
        inputs,
        &read,
        &mut |batch| events.borrow_mut().extend_from_slice(&batch),
        &mut || events.borrow_mut().clear(),
    )
    .or_exit(NO_INPUT)?;
    let events = events.into_inner();
    if events.is_empty() {
        return Err(anyhow::anyhow!("no events")).or_exit(NO_INPUT);
    }
    let fill = |sink: &mut dyn RowSink| -> anyhow::Result<()> {
        sink.begin(&columns())?;
        let mut device = (u32::MAX, String::new());
        for event in &events {
            if device.0 != event.dev {
                device = (event.dev, device_name(event.dev));
            }
            let rwbs = outcome.symbols.rwbs_of(event.rwbs);
            let comm = String::from_utf8_lossy(outcome.symbols.comm_of(event.comm));
            sink.row(&[
                Cell::UInt(event.t_ns),
                Cell::Text(event.kind.name()),
                if event.dev == 0 {
                    Cell::Null
                } else {
                    Cell::Text(&device.1)
                },
                rwbs.as_ref().map_or(Cell::Null, |r| Cell::Text(r.as_str())),
                Cell::Text(event.direction.name()),
                Cell::UInt(event.sector),
                event.nr_sector.into(),
                event.bytes.into(),
                event.cpu.into(),
                event.pid.into(),
                if event.comm == 0 {
                    Cell::Null
                } else {
                    Cell::Text(&comm)
                },
                event.error.into(),
            ])?;
        }
        sink.finish()?;
        Ok(())
    };
    if extension == "csv" {
        fill(report::Format::Csv.sink(&mut out).as_mut())?;
    } else {
        let mut bytes = Vec::new();
        let mut sink = report::ParquetWriter::new(&mut bytes, VERSION);
        fill(&mut sink)?;
        drop(sink);
        out.write_all(&bytes)?;
    }
    out.finish()?;
    args.verbosity.note(format!(
        "{} events written to {}",
        events.len(),
        target.display()
    ));
    Ok(Outcome::Fine)
}
