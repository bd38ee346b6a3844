//! `trace-info tables`.

use std::path::Path;

use byte_source::output::AtomicFile;
use perfetto_reader::ArgPolicy;
use report::{CsvOptions, CsvWriter, JsonLayout, JsonRowsWriter, ParquetWriter, RowSink};
use shell::{Outcome, Stage};
use trace_model::Trace;
use trace_tables::{SCHEMA_VERSION, Table, TableOptions};

use crate::args::{TableFormat, TableName, TablesArgs};

pub(crate) fn run(args: &TablesArgs) -> anyhow::Result<Outcome> {
    let table = Table::from(args.table);
    let options = TableOptions::compat(args.compat);
    // Outputs are opened before the work of reading, so that a wrong path is known at once.
    if args.format() == TableFormat::Parquet {
        let mut file = AtomicFile::create(parquet_path(args)?)?;
        let trace = read(args)?;
        let _stage = Stage::start("write", args.verbosity);
        parquet(&trace, table, &options, &mut file)?;
        file.commit()?;
        return Ok(Outcome::Fine);
    }
    let mut out = args.output.open()?;
    let trace = read(args)?;
    let _stage = Stage::start("write", args.verbosity);
    let mut sink: Box<dyn RowSink + '_> = match args.format() {
        TableFormat::Json => Box::new(JsonRowsWriter::new(
            &mut out,
            JsonLayout::Document(SCHEMA_VERSION),
        )),
        _ => Box::new(CsvWriter::new(&mut out, csv_options(args.compat))),
    };
    table.write(&trace, &options, &mut *sink)?;
    drop(sink);
    out.finish()?;
    Ok(Outcome::Fine)
}

fn read(args: &TablesArgs) -> anyhow::Result<Trace> {
    let input = trace_input::read(&args.trace, &args.input, args.verbosity, |options| {
        options.compat = args.compat;
        if args.table != TableName::Args {
            options.args = ArgPolicy::None;
        }
    })?;
    Ok(input.trace)
}

fn parquet_path(args: &TablesArgs) -> anyhow::Result<&Path> {
    match &args.output.output {
        Some(path) if path.as_os_str() != "-" => Ok(path),
        _ => Err(shell::usage(
            "--format parquet needs --output FILE: Parquet is not written to standard output",
        )),
    }
}

/// Null is nothing, or as the reference tables have it.
fn csv_options(compat: bool) -> CsvOptions {
    CsvOptions {
        null: if compat { "\\N".into() } else { "".into() },
        ..CsvOptions::default()
    }
}

/// Writes a table as a Parquet file.
pub(crate) fn parquet(
    trace: &Trace,
    table: Table,
    options: &TableOptions,
    file: &mut AtomicFile,
) -> report::Result<()> {
    table.write(
        trace,
        options,
        &mut ParquetWriter::new(file, SCHEMA_VERSION),
    )
}
