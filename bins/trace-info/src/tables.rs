//! `trace-info tables`.

use std::path::Path;

use byte_source::output::AtomicFile;
use cli::{Outcome, Stage};
use perfetto_reader::ArgPolicy;
use report::{CsvOptions, CsvWriter, JsonLayout, JsonRowsWriter, ParquetWriter, RowSink};
use trace_input::NamedTrace;
use trace_model::Trace;
use trace_report::Joined;
use trace_tables::{SCHEMA_VERSION, Table, TableOptions};

use crate::args::{TableFormat, TableName, TablesArgs};

pub(crate) fn run(args: &TablesArgs) -> anyhow::Result<Outcome> {
    cli::refuse_overwrite([&args.trace], &args.output.output)?;
    // Outputs are opened before the trace is read, so that a wrong path fails at once.
    if args.format() == TableFormat::Parquet {
        let mut file = AtomicFile::create(parquet_path(args)?)?;
        write(args, &mut ParquetWriter::new(&mut file, SCHEMA_VERSION))?;
        file.commit()?;
        return Ok(Outcome::Fine);
    }
    let is_given = cli::in_process::is_active() && args.output.output.is_none();
    if args.format() == TableFormat::Json && is_given {
        let mut rows = cli::in_process::Collected::new("rows");
        write(args, &mut rows)?;
        if let Some(table) = rows.into_table() {
            cli::in_process::give_rows(SCHEMA_VERSION, table);
        }
        return Ok(Outcome::Fine);
    }
    let mut out = args.output.open()?;
    if args.format() == TableFormat::Json {
        let layout = JsonLayout::Document(SCHEMA_VERSION);
        write(args, &mut JsonRowsWriter::new(&mut out, layout))?;
    } else {
        write(
            args,
            &mut CsvWriter::new(&mut out, csv_options(args.compat)),
        )?;
    }
    out.finish()?;
    Ok(Outcome::Fine)
}

/// Writes the table of the trace, or of all traces of a folder, an archive or a pattern, one after
/// the other.
fn write(args: &TablesArgs, sink: &mut dyn RowSink) -> anyhow::Result<()> {
    let table = Table::from(args.table);
    let options = TableOptions::compat(args.compat);
    let paths = trace_input::expand(std::slice::from_ref(&args.trace), args.verbosity)?;
    if let [path] = paths.as_slice() {
        let input = read(args, path)?;
        let _stage = Stage::start("write", args.verbosity);
        return Ok(table.write(&input.trace, &options, sink)?);
    }
    let mut joined = Joined::new(sink);
    for path in &paths {
        let input = read(args, path)?;
        let _stage = Stage::start("write", args.verbosity);
        joined.next_trace(input.name);
        table.write(&input.trace, &options, &mut joined)?;
    }
    Ok(joined.end()?)
}

fn read(args: &TablesArgs, path: &Path) -> anyhow::Result<NamedTrace> {
    trace_input::read(path, &args.input, args.verbosity, |options| {
        options.compat = args.compat;
        options.snap_ns = 0;
        if args.table != TableName::Args {
            options.args = ArgPolicy::None;
        }
    })
}

fn parquet_path(args: &TablesArgs) -> anyhow::Result<&Path> {
    match &args.output.output {
        Some(path) if path.as_os_str() != "-" => Ok(path),
        _ => Err(cli::usage(
            "--format parquet needs --output FILE: Parquet is not written to standard output",
        )),
    }
}

/// Null is written as nothing, or as in the reference tables.
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
