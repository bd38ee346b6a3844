//! Writes Parquet, streamed in row groups.

use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{Field, Schema, SchemaRef};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::metadata::KeyValue;
use parquet::file::properties::WriterProperties;

use crate::arrow::{Builder, field};
use crate::cell::Cell;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::schema::SchemaVersion;
use crate::sink::{Guard, RowSink};

/// Number of rows, and bytes of text, buffered before they are encoded.
const BATCH_ROWS: usize = 65_536;
const BATCH_TEXT: usize = 16 << 20;
/// Number of encoded bytes after which a row group ends.
const GROUP_BYTES: usize = 64 << 20;

/// Streams rows as Parquet: zstd, row groups of at most a million rows or about 64 MiB, every
/// column nullable. Each field has its unit as metadata `unit`, the file has `schema_version`.
/// Equal rows give equal bytes.
pub struct ParquetWriter<W: Write + Send> {
    out: Option<W>,
    version: SchemaVersion,
    /// Additional metadata of the file.
    metadata: Vec<KeyValue>,
    guard: Guard,
    open: Option<Open<W>>,
}

struct Open<W: Write + Send> {
    writer: ArrowWriter<W>,
    schema: SchemaRef,
    builders: Vec<Builder>,
    names: Vec<Box<str>>,
    rows: usize,
    text: usize,
}

impl<W: Write + Send> ParquetWriter<W> {
    /// Creates a writer to `out`, which is a complete file only after [`RowSink::finish`].
    pub fn new(out: W, version: SchemaVersion) -> Self {
        Self {
            out: Some(out),
            version,
            metadata: Vec::new(),
            guard: Guard::default(),
            open: None,
        }
    }

    /// Adds a key and its text to the metadata in the file's footer. Must be called before
    /// [`RowSink::begin`].
    #[must_use]
    pub fn metadata(mut self, key: &str, text: &str) -> Self {
        self.metadata
            .push(KeyValue::new(key.to_owned(), text.to_owned()));
        self
    }

    /// Adds a key and its text that were not known before the rows. Must be called between
    /// [`RowSink::begin`] and [`RowSink::finish`].
    ///
    /// # Errors
    /// Returns an error if called before or after.
    pub fn add_metadata(&mut self, key: &str, text: &str) -> Result<()> {
        let open = self.open.as_mut().ok_or(Error::OutOfOrder {
            call: "add_metadata",
        })?;
        let pair = KeyValue::new(key.to_owned(), text.to_owned());
        open.writer.append_key_value_metadata(pair);
        Ok(())
    }
}

impl<W: Write + Send> RowSink for ParquetWriter<W> {
    fn begin(&mut self, columns: &[Column]) -> Result<()> {
        self.guard.begin(columns)?;
        let out = self.out.take().ok_or(Error::OutOfOrder { call: "begin" })?;
        let fields: Vec<Field> = columns.iter().map(field).collect();
        let schema = Arc::new(Schema::new(fields));
        let version = KeyValue::new(SchemaVersion::KEY.to_owned(), self.version.to_string());
        let mut metadata = vec![version];
        metadata.append(&mut self.metadata);
        let properties = WriterProperties::builder()
            .set_compression(Compression::ZSTD(ZstdLevel::default()))
            .set_key_value_metadata(Some(metadata))
            .build();
        let writer = ArrowWriter::try_new(out, Arc::clone(&schema), Some(properties))?;
        self.open = Some(Open {
            writer,
            schema,
            builders: columns.iter().map(Builder::new).collect(),
            names: columns.iter().map(|c| c.name().into()).collect(),
            rows: 0,
            text: 0,
        });
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        let row = self.guard.row(cells)?;
        let open = self
            .open
            .as_mut()
            .ok_or(Error::OutOfOrder { call: "row" })?;
        let mut text = 0;
        for (cell, name) in cells.iter().zip(&open.names) {
            if let Cell::Text(value) = cell {
                let len = value.len();
                if i32::try_from(len).is_err() {
                    return Err(Error::TextTooLong {
                        row,
                        column: name.clone(),
                        len,
                    });
                }
                text += len;
            }
        }
        // Offsets of a text column are 32 bits wide, so a batch ends before a text that would not
        // fit.
        if open.rows == BATCH_ROWS || (open.rows > 0 && open.text + text > BATCH_TEXT) {
            open.encode()?;
        }
        for (builder, cell) in open.builders.iter_mut().zip(cells) {
            builder.push(*cell);
        }
        open.rows += 1;
        open.text += text;
        Ok(())
    }

    fn finish(&mut self) -> Result<()> {
        self.guard.finish()?;
        let mut open = self
            .open
            .take()
            .ok_or(Error::OutOfOrder { call: "finish" })?;
        if open.rows > 0 {
            open.encode()?;
        }
        open.writer.close()?;
        Ok(())
    }
}

impl<W: Write + Send> Open<W> {
    fn encode(&mut self) -> Result<()> {
        let arrays: Vec<ArrayRef> = self.builders.iter_mut().map(Builder::finish).collect();
        self.writer
            .write(&RecordBatch::try_new(Arc::clone(&self.schema), arrays)?)?;
        if self.writer.in_progress_size() >= GROUP_BYTES {
            self.writer.flush()?;
        }
        self.rows = 0;
        self.text = 0;
        Ok(())
    }
}
