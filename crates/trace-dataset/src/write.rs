//! Writes one table of one recording as Parquet.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, Int64Array, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::arrow::arrow_writer::ArrowWriterOptions;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;
use trace_tables::catalogue::{CATALOGUE_VERSION, TableSpec};
use trace_tables::{Beside, Recording, Request, scan};

use crate::error::Error;

/// Number of rows of a row group: small enough to skip most of a table by its time.
const GROUP_ROWS: usize = 1 << 18;

/// Number of rows that are encoded at once.
const BATCH_ROWS: usize = 1 << 16;

fn writer(path: &Path, schema: SchemaRef) -> Result<ArrowWriter<File>, Error> {
    let file = File::create(path).map_err(Error::io("create", path))?;
    let version = KeyValue::new("schema_version".to_owned(), CATALOGUE_VERSION.to_string());
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(GROUP_ROWS))
        .set_key_value_metadata(Some(vec![version]))
        .build();
    // Without Arrow's own schema texts are plain strings for every reader.
    let options = ArrowWriterOptions::new()
        .with_properties(properties)
        .with_skip_arrow_metadata(true);
    ArrowWriter::try_new_with_options(file, schema, options).map_err(encoding(path))
}

fn encoding(path: &Path) -> impl FnOnce(ParquetError) -> Error + use<> {
    let path = path.to_owned();
    move |source| Error::Parquet { path, source }
}

/// Writes a table, and returns its number of rows.
pub(crate) fn table(path: &Path, recording: &Recording, table: &TableSpec) -> Result<u64, Error> {
    let mut out = writer(path, table.schema())?;
    let mut request = Request::all(table);
    request.batch_rows = BATCH_ROWS;
    let mut rows = 0_u64;
    let mut failed = None;
    let done = scan(recording, table, &request, &mut |batch| {
        rows += u64::try_from(batch.num_rows()).unwrap_or_default();
        failed = out.write(&batch).err();
        failed.is_none()
    });
    let done = match failed {
        Some(error) => Err(error),
        None => done.map_err(ParquetError::from),
    };
    done.and_then(|()| out.close()).map_err(encoding(path))?;
    Ok(rows)
}

/// Writes a table that is not made of recordings alone, and returns its number of rows, or the reason why it cannot be made.
pub(crate) fn beside(
    path: &Path,
    table: &TableSpec,
    beside: &dyn Beside,
) -> Result<Result<u64, String>, Error> {
    let mut out = writer(path, table.schema())?;
    let columns: Vec<usize> = (0..table.columns().count()).collect();
    let mut rows = 0_u64;
    let mut failed = None;
    let made = beside.read(table.name, &columns, &mut |batch: RecordBatch| {
        rows += u64::try_from(batch.num_rows()).unwrap_or_default();
        failed = out.write(&batch).err();
        failed.is_none()
    });
    if let Some(error) = failed {
        return Err(encoding(path)(error));
    }
    if let Err(why) = made {
        return Ok(Err(why));
    }
    out.close().map_err(encoding(path))?;
    Ok(Ok(rows))
}

/// Writes the inputs that could not be read, each with the reason.
pub(crate) fn failures(path: &Path, rows: &[(u32, &str, &str)]) -> Result<(), Error> {
    let field = |name: &str, ty| Field::new(name, ty, true);
    let schema = Arc::new(Schema::new(vec![
        field("file_id", DataType::Int64),
        field("file", DataType::Utf8),
        field("error", DataType::Utf8),
    ]));
    let ids: Int64Array = rows.iter().map(|row| Some(i64::from(row.0))).collect();
    let files: StringArray = rows.iter().map(|row| Some(row.1)).collect();
    let errors: StringArray = rows.iter().map(|row| Some(row.2)).collect();
    let columns: Vec<ArrayRef> = vec![Arc::new(ids), Arc::new(files), Arc::new(errors)];
    let mut out = writer(path, Arc::clone(&schema))?;
    let batch = RecordBatch::try_new(schema, columns).map_err(ParquetError::from);
    let written = batch.and_then(|batch| out.write(&batch));
    written.and_then(|()| out.close()).map_err(encoding(path))?;
    Ok(())
}
