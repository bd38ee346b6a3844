//! Writes Parquet and Arrow: columns have types, which follow from the first rows, and rows are
//! written in batches.

use std::io::Write as _;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow_ipc::writer::FileWriter;
use report::{Cell, Column, Kind, ParquetWriter, RowSink as _, SchemaVersion};
use rocpd_db::SqlValue;

use super::RowTaker;
use super::buffered::Owned;
use super::shared_buffer::SharedBuffer;
use crate::file::OutputFile;
use crate::{Error, Result};

/// Rows of a batch; the kinds of columns follow from the first one.
const BATCH_ROWS: usize = 50_000;

/// Rows of a batch, with the kinds of columns once the first batch determined them.
struct Batch {
    columns: Vec<String>,
    kinds: Vec<Kind>,
    settled: bool,
    rows: Vec<Vec<Owned>>,
}

impl Batch {
    fn new(columns: Vec<String>) -> Self {
        Self {
            columns,
            kinds: Vec::new(),
            settled: false,
            rows: Vec::new(),
        }
    }

    /// Adds a row. Returns `true` if the batch is full.
    fn push<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<bool> {
        let row: Vec<Owned> = (0..self.columns.len()).map(|at| value(at).into()).collect();
        for ((value, kind), name) in row.iter().zip(&self.kinds).zip(&self.columns) {
            let fits = match kind {
                Kind::Int => matches!(value, Owned::Int(_) | Owned::Null),
                Kind::Real => !matches!(value, Owned::Text(_)),
                _ => true,
            };
            if !fits {
                return Err(Error::MixedColumn(name.clone()));
            }
        }
        self.rows.push(row);
        Ok(self.rows.len() >= BATCH_ROWS)
    }

    /// Determines the kinds of columns, unless done: they fit all values so far, so mixed columns
    /// become text.
    fn settle(&mut self) {
        if self.settled {
            return;
        }
        self.settled = true;
        let kind = |at: usize| {
            let values = || self.rows.iter().filter_map(|row| row.get(at));
            if values().any(|value| matches!(value, Owned::Text(_)))
                || values().all(|value| matches!(value, Owned::Null))
            {
                Kind::Text
            } else if values().any(|value| matches!(value, Owned::Real(_))) {
                Kind::Real
            } else {
                Kind::Int
            }
        };
        self.kinds = (0..self.columns.len()).map(kind).collect();
    }
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a column of reals takes the nearest one"
)]
fn cell<'a>(value: &Owned, kind: Kind, stored: &'a str) -> Cell<'a> {
    match (value, kind) {
        (Owned::Int(value), Kind::Int) => Cell::Int(*value),
        (Owned::Int(value), Kind::Real) => Cell::Real(*value as f64),
        (Owned::Real(value), Kind::Real) => Cell::Real(*value),
        (Owned::Null, _) => Cell::Null,
        (_, Kind::Text) => Cell::Text(stored),
        // Rows of other kinds were refused.
        _ => Cell::Null,
    }
}

/// A Parquet file.
pub(super) struct Parquet {
    batch: Batch,
    writer: Option<ParquetWriter<SharedBuffer>>,
    sent: SharedBuffer,
    out: OutputFile,
}

impl Parquet {
    pub(super) fn new(columns: Vec<String>, out: OutputFile) -> Self {
        Self {
            batch: Batch::new(columns),
            writer: None,
            sent: SharedBuffer::default(),
            out,
        }
    }

    fn write(&mut self) -> Result<()> {
        self.batch.settle();
        let batch = &mut self.batch;
        let writer = match &mut self.writer {
            Some(writer) => writer,
            none => {
                let columns: Vec<Column> = batch
                    .columns
                    .iter()
                    .zip(&batch.kinds)
                    .map(|(name, kind)| Column::new(name.clone(), *kind))
                    .collect();
                let writer = none.insert(ParquetWriter::new(
                    self.sent.clone(),
                    SchemaVersion::new(1, 0),
                ));
                writer.begin(&columns)?;
                writer
            }
        };
        for row in batch.rows.drain(..) {
            let mut stored = Vec::with_capacity(row.len());
            stored.extend(row.iter().map(Owned::stored));
            let cells: Vec<Cell<'_>> = row
                .iter()
                .zip(&batch.kinds)
                .zip(&stored)
                .map(|((value, kind), stored)| cell(value, *kind, stored))
                .collect();
            writer.row(&cells)?;
        }
        self.out.write_all(&self.sent.take())?;
        Ok(())
    }
}

impl RowTaker for Parquet {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<()> {
        if self.batch.push(value)? {
            self.write()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.write()?;
        if let Some(writer) = &mut self.writer {
            writer.finish()?;
        }
        self.out.write_all(&self.sent.take())?;
        self.out.finish()
    }
}

/// An Arrow file.
pub(super) struct Arrow {
    batch: Batch,
    /// The output, until the first batch moves it into the writer.
    out: Option<OutputFile>,
    writer: Option<FileWriter<OutputFile>>,
}

impl Arrow {
    pub(super) fn new(columns: Vec<String>, out: OutputFile) -> Self {
        Self {
            batch: Batch::new(columns),
            out: Some(out),
            writer: None,
        }
    }

    fn write(&mut self) -> Result<()> {
        self.batch.settle();
        let batch = &mut self.batch;
        let mut columns: Vec<(&str, ArrayRef, bool)> = Vec::with_capacity(batch.columns.len());
        for (at, (name, kind)) in batch.columns.iter().zip(&batch.kinds).enumerate() {
            let values = || batch.rows.iter().filter_map(|row| row.get(at));
            let array: ArrayRef = match kind {
                Kind::Int => Arc::new(Int64Array::from_iter(values().map(|value| match value {
                    Owned::Int(value) => Some(*value),
                    _ => None,
                }))),
                Kind::Real => Arc::new(Float64Array::from_iter(values().map(|value| {
                    match cell(value, *kind, "") {
                        Cell::Real(value) => Some(value),
                        _ => None,
                    }
                }))),
                _ => Arc::new(StringArray::from_iter(values().map(|value| match value {
                    Owned::Null => None,
                    value => Some(value.stored()),
                }))),
            };
            columns.push((name, array, true));
        }
        let rows = RecordBatch::try_from_iter_with_nullable(columns)?;
        batch.rows.clear();
        if let Some(out) = self.out.take() {
            self.writer = Some(FileWriter::try_new(out, &rows.schema())?);
        }
        if let Some(writer) = &mut self.writer {
            writer.write(&rows)?;
        }
        Ok(())
    }
}

impl RowTaker for Arrow {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<()> {
        if self.batch.push(value)? {
            self.write()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if self.out.is_some() || !self.batch.rows.is_empty() {
            self.write()?;
        }
        match self.writer {
            // Writes the positions of the batches, and returns the file.
            Some(writer) => writer.into_inner()?.finish(),
            None => Ok(()),
        }
    }
}
