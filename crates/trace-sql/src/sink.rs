//! Writes results: text, CSV, JSON, Parquet, Arrow.

use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::cast::AsArray as _;
use arrow_array::types::{Float64Type, Int64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use arrow_cast::display::{ArrayFormatter, FormatOptions};
use arrow_ipc::writer::FileWriter;
use arrow_schema::{DataType, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use report::{
    Cell, Column, CsvOptions, CsvWriter, JsonLayout, JsonRowsWriter, RowSink, Table, TextOptions,
    TextWriter,
};

use crate::engine::Results;
use crate::error::{ErrorKind, SqlError};

/// Format of results.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// Aligned columns, for people.
    Text,
    /// RFC 4180, with a header.
    Csv,
    /// A list of objects; of several statements one list each, on lines of their own.
    Json,
    /// Parquet; one result only.
    Parquet,
    /// Arrow's file format; one result only.
    Arrow,
}

fn output(error: impl std::error::Error + 'static) -> SqlError {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(&error);
    while let Some(error) = cause {
        let found = error.downcast_ref::<std::io::Error>();
        if found.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe) {
            return SqlError::new(ErrorKind::Closed, "the pipe is closed");
        }
        cause = error.source();
    }
    SqlError::new(ErrorKind::Output, error.to_string())
}

/// A writer that one result after the other writes to.
#[derive(Clone)]
struct Shared<'o>(Arc<Mutex<&'o mut (dyn Write + Send)>>);

impl Write for Shared<'_> {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .flush()
    }
}

/// Writes results in a text format.
pub struct TextResults<'o> {
    out: Shared<'o>,
    format: Format,
    /// Width of the terminal.
    width: Option<usize>,
    /// Maximum number of rows of a result.
    limit: usize,
    results: usize,
    /// The current result, and its rows so far.
    sink: Option<Box<dyn RowSink + Send + 'o>>,
    rows: usize,
    is_cut: bool,
    /// The current result is the plan of a query: its lines are rows.
    is_plan: bool,
}

/// A value that outlives its batch.
#[derive(Clone, Debug)]
enum Value {
    Null,
    Int(i64),
    UInt(u64),
    Real(f64),
    Bool(bool),
    Text(String),
}

impl Value {
    fn cell(&self) -> Cell<'_> {
        match self {
            Self::Null => Cell::Null,
            Self::Int(n) => Cell::Int(*n),
            Self::UInt(n) => Cell::UInt(*n),
            Self::Real(x) => Cell::Real(*x),
            Self::Bool(b) => Cell::Bool(*b),
            Self::Text(text) => Cell::Text(text),
        }
    }
}

impl<'o> TextResults<'o> {
    /// Writes to `out` as text, CSV or JSON, at most `limit` rows of each result.
    pub fn new(
        out: &'o mut (dyn Write + Send),
        format: Format,
        width: Option<usize>,
        limit: Option<usize>,
    ) -> Self {
        Self {
            out: Shared(Arc::new(Mutex::new(out))),
            format,
            width,
            limit: limit.unwrap_or(usize::MAX),
            results: 0,
            sink: None,
            rows: 0,
            is_cut: false,
            is_plan: false,
        }
    }
}

/// Returns the columns of a result. Names that repeat get a number.
fn columns(schema: &SchemaRef) -> Vec<Column> {
    let mut seen: Vec<String> = Vec::new();
    let fields = schema.fields().iter();
    fields
        .map(|field| {
            let mut name = field.name().clone();
            let mut number = 1;
            while seen.contains(&name) {
                number += 1;
                name = format!("{}_{number}", field.name());
            }
            seen.push(name.clone());
            let ty = match field.data_type() {
                DataType::Dictionary(_, value) => value.as_ref(),
                ty => ty,
            };
            match ty {
                ty if ty.is_signed_integer() => Column::int(name),
                ty if ty.is_unsigned_integer() => Column::uint(name),
                DataType::Float16 | DataType::Float32 | DataType::Float64 => Column::real(name),
                DataType::Boolean => Column::bool(name),
                _ => Column::text(name),
            }
        })
        .collect()
}

/// Reads the values of one column.
fn values(array: &dyn Array) -> Result<Vec<Value>, SqlError> {
    let rows = 0..array.len();
    let ty = array.data_type();
    let cast = |to: &DataType| arrow_cast::cast(array, to).map_err(output);
    Ok(match ty {
        ty if ty.is_signed_integer() => {
            let numbers = cast(&DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            numbers
                .iter()
                .map(|n| n.map_or(Value::Null, Value::Int))
                .collect()
        }
        ty if ty.is_unsigned_integer() => {
            let numbers = cast(&DataType::UInt64)?;
            let numbers = numbers.as_primitive::<UInt64Type>();
            numbers
                .iter()
                .map(|n| n.map_or(Value::Null, Value::UInt))
                .collect()
        }
        DataType::Float16 | DataType::Float32 | DataType::Float64 => {
            let numbers = cast(&DataType::Float64)?;
            let numbers = numbers.as_primitive::<Float64Type>();
            numbers
                .iter()
                .map(|x| x.map_or(Value::Null, Value::Real))
                .collect()
        }
        DataType::Boolean => {
            let flags = array.as_boolean();
            flags
                .iter()
                .map(|b| b.map_or(Value::Null, Value::Bool))
                .collect()
        }
        _ => {
            let options = FormatOptions::default();
            let texts = ArrayFormatter::try_new(array, &options).map_err(output)?;
            let nulls = array.logical_nulls();
            let is_null = |row: usize| nulls.as_ref().is_some_and(|nulls| nulls.is_null(row));
            let text = |row| match is_null(row) {
                true => Value::Null,
                false => Value::Text(texts.value(row).to_string()),
            };
            rows.map(text).collect()
        }
    })
}

impl Results for TextResults<'_> {
    fn wanted(&self) -> Option<usize> {
        // One more tells that there are more.
        self.limit.checked_add(1)
    }

    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        if self.results > 0 && self.format == Format::Text {
            writeln!(self.out).map_err(output)?;
        }
        self.results += 1;
        self.rows = 0;
        self.is_cut = false;
        let names = schema.fields().iter().map(|field| field.name().as_str());
        self.is_plan = self.format == Format::Text && names.eq(["plan_type", "plan"]);
        let text = TextOptions {
            width: self.width,
            human: false,
            markdown: false,
        };
        let out = self.out.clone();
        let mut sink: Box<dyn RowSink + Send> = match self.format {
            Format::Csv => Box::new(CsvWriter::new(out, CsvOptions::default())),
            Format::Json => Box::new(JsonRowsWriter::new(out, JsonLayout::Array)),
            _ => Box::new(TextWriter::new(out, text)),
        };
        sink.begin(&columns(schema)).map_err(output)?;
        self.sink = Some(sink);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<bool, SqlError> {
        let columns = batch.columns().iter().map(|column| values(column));
        let columns: Vec<Vec<Value>> = columns.collect::<Result<_, _>>()?;
        let Some(sink) = &mut self.sink else {
            return Ok(false);
        };
        for row in 0..batch.num_rows() {
            if self.rows >= self.limit {
                self.is_cut = true;
                return Ok(false);
            }
            self.rows += 1;
            if self.is_plan
                && let [kinds, plans] = columns.as_slice()
                && let (Some(kind), Some(Value::Text(plan))) = (kinds.get(row), plans.get(row))
            {
                for (number, line) in plan.lines().enumerate() {
                    let kind = if number == 0 { kind.cell() } else { Cell::Null };
                    sink.row(&[kind, Cell::Text(line)]).map_err(output)?;
                }
                continue;
            }
            sink.row(&cells(&columns, row)).map_err(output)?;
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        if let Some(mut sink) = self.sink.take() {
            sink.finish().map_err(output)?;
        }
        if self.is_cut && self.format == Format::Text {
            let count = report::human::count(u64::try_from(self.limit).unwrap_or(u64::MAX));
            let line = format!(
                "only the first {count} rows are shown: --limit N shows more, --limit 0 all"
            );
            writeln!(self.out, "{line}").map_err(output)?;
        }
        Ok(())
    }
}

impl std::fmt::Debug for TextResults<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TextResults")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

impl std::fmt::Debug for BinaryResults<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("BinaryResults")
            .field("format", &self.format)
            .finish_non_exhaustive()
    }
}

/// Keeps the rows of one result, for another program.
#[derive(Debug)]
pub struct TableResult {
    limit: usize,
    table: Option<Table>,
    is_cut: bool,
}

impl TableResult {
    /// Keeps at most `limit` rows.
    #[must_use]
    pub fn new(limit: Option<usize>) -> Self {
        Self {
            limit: limit.unwrap_or(usize::MAX),
            table: None,
            is_cut: false,
        }
    }

    /// Returns `true` if there were more rows than the limit.
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.is_cut
    }

    /// Returns the rows as a table of this name; it has none, and no column, after a statement without a result.
    ///
    /// # Errors
    ///
    /// Only if the name does not suit a table.
    pub fn into_table(self) -> Result<Table, SqlError> {
        match self.table {
            Some(table) => Ok(table),
            None => Table::new(ROWS, Vec::new()).map_err(output),
        }
    }
}

/// Name of the table of a result.
const ROWS: &str = "rows";

impl Results for TableResult {
    fn wanted(&self) -> Option<usize> {
        // One more tells that there are more.
        self.limit.checked_add(1)
    }

    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        if self.table.is_some() {
            return Err(SqlError::usage(
                "several results: give one query at a time, each result is a table of its own",
            ));
        }
        self.table = Some(Table::new(ROWS, columns(schema)).map_err(output)?);
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<bool, SqlError> {
        let Some(table) = &mut self.table else {
            return Ok(false);
        };
        let columns = batch.columns().iter().map(|column| values(column));
        let columns: Vec<Vec<Value>> = columns.collect::<Result<_, _>>()?;
        for row in 0..batch.num_rows() {
            if table.rows() >= self.limit {
                self.is_cut = true;
                return Ok(false);
            }
            table.push(&cells(&columns, row)).map_err(output)?;
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        Ok(())
    }
}

/// Returns the cells of a row.
fn cells(columns: &[Vec<Value>], row: usize) -> Vec<Cell<'_>> {
    let cells = columns.iter().filter_map(|column| column.get(row));
    cells.map(Value::cell).collect()
}

/// Writes one result as Parquet or Arrow.
pub struct BinaryResults<'o> {
    out: Option<&'o mut (dyn Write + Send)>,
    format: Format,
    writer: Option<Writer<'o>>,
}

enum Writer<'o> {
    Parquet(Box<ArrowWriter<&'o mut (dyn Write + Send)>>),
    Arrow(Box<FileWriter<&'o mut (dyn Write + Send)>>),
}

impl<'o> BinaryResults<'o> {
    /// Writes to `out`, which is whole only after [`Results::end`].
    pub fn new(out: &'o mut (dyn Write + Send), format: Format) -> Self {
        Self {
            out: Some(out),
            format,
            writer: None,
        }
    }
}

impl Results for BinaryResults<'_> {
    fn begin(&mut self, schema: &SchemaRef) -> Result<(), SqlError> {
        let Some(out) = self.out.take() else {
            return Err(SqlError::usage(
                "Parquet and Arrow hold one result: write one query, or another format",
            ));
        };
        self.writer = Some(match self.format {
            Format::Arrow => {
                let writer = FileWriter::try_new(out, schema).map_err(output)?;
                Writer::Arrow(Box::new(writer))
            }
            _ => {
                let level = ZstdLevel::default();
                let properties =
                    WriterProperties::builder().set_compression(Compression::ZSTD(level));
                // Plain strings, whatever they are in Arrow.
                let options = ArrowWriterOptions::new()
                    .with_properties(properties.build())
                    .with_skip_arrow_metadata(true);
                let writer = ArrowWriter::try_new_with_options(out, schema.clone(), options)
                    .map_err(output)?;
                Writer::Parquet(Box::new(writer))
            }
        });
        Ok(())
    }

    fn batch(&mut self, batch: &RecordBatch) -> Result<bool, SqlError> {
        match &mut self.writer {
            Some(Writer::Parquet(writer)) => writer.write(batch).map_err(output)?,
            Some(Writer::Arrow(writer)) => writer.write(batch).map_err(output)?,
            None => {}
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<(), SqlError> {
        match self.writer.take() {
            Some(Writer::Parquet(writer)) => _ = writer.close().map_err(output)?,
            Some(Writer::Arrow(mut writer)) => writer.finish().map_err(output)?,
            None => {}
        }
        Ok(())
    }
}
