//! The common face of everything that takes rows.

use std::io::{self, Write};

use crate::cell::Cell;
use crate::column::{Column, Kind, check_columns};
use crate::csv::{CsvOptions, CsvWriter};
use crate::error::{Error, Result};
use crate::json::{JsonLayout, JsonRowsWriter};
use crate::text::{TextOptions, TextWriter};

/// Takes rows one at a time: [`begin`](Self::begin) once, [`row`](Self::row) any number of times,
/// [`finish`](Self::finish) once. Nothing is guaranteed to have reached the destination before `finish` returns.
pub trait RowSink {
    /// Declares the columns.
    ///
    /// # Errors
    /// No columns, repeated names, a second call, or a destination that refuses.
    fn begin(&mut self, columns: &[Column]) -> Result<()>;

    /// Writes one row, one cell per column.
    ///
    /// # Errors
    /// Wrong number of cells, a cell of another kind than its column, or a destination that refuses.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()>;

    /// Writes what is still held back and completes the output.
    ///
    /// # Errors
    /// Called twice or before `begin`, or a destination that refuses.
    fn finish(&mut self) -> Result<()>;
}

/// Text formats a tool offers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Aligned columns with human units.
    Text,
    /// The same as a Markdown table.
    Markdown,
    /// RFC 4180.
    Csv,
    /// An array of objects.
    Json,
    /// One object per line.
    JsonLines,
}

impl Format {
    /// A sink of this format with default options, without a width limit.
    pub fn sink<'w, W: Write + 'w>(self, out: W) -> Box<dyn RowSink + 'w> {
        let text = |markdown| TextOptions {
            markdown,
            ..TextOptions::default()
        };
        match self {
            Self::Text => Box::new(TextWriter::new(out, text(false))),
            Self::Markdown => Box::new(TextWriter::new(out, text(true))),
            Self::Csv => Box::new(CsvWriter::new(out, CsvOptions::default())),
            Self::Json => Box::new(JsonRowsWriter::new(out, JsonLayout::Array)),
            Self::JsonLines => Box::new(JsonRowsWriter::new(out, JsonLayout::Lines)),
        }
    }
}

/// Order of calls and kinds of cells, checked the same way by every sink.
#[derive(Debug, Default)]
pub(crate) struct Guard {
    columns: Vec<(Kind, Box<str>)>,
    rows: u64,
    finished: bool,
}

impl Guard {
    pub(crate) fn begin(&mut self, columns: &[Column]) -> Result<()> {
        if self.finished || !self.columns.is_empty() {
            return Err(Error::OutOfOrder { call: "begin" });
        }
        check_columns(columns)?;
        self.columns = columns
            .iter()
            .map(|c| (c.kind(), c.name().into()))
            .collect();
        Ok(())
    }

    /// Accepts a row and gives its number.
    pub(crate) fn row(&mut self, cells: &[Cell<'_>]) -> Result<u64> {
        if self.columns.is_empty() || self.finished {
            return Err(Error::OutOfOrder { call: "row" });
        }
        let row = self.rows;
        if cells.len() != self.columns.len() {
            return Err(Error::RowWidth {
                row,
                found: cells.len(),
                expected: self.columns.len(),
            });
        }
        for (cell, (kind, name)) in cells.iter().zip(&self.columns) {
            if let Some(found) = cell.kind()
                && found != *kind
            {
                return Err(Error::CellKind {
                    row,
                    column: name.clone(),
                    expected: *kind,
                    found,
                });
            }
        }
        self.rows += 1;
        Ok(row)
    }

    pub(crate) fn finish(&mut self) -> Result<()> {
        if self.columns.is_empty() || self.finished {
            return Err(Error::OutOfOrder { call: "finish" });
        }
        self.finished = true;
        Ok(())
    }
}

/// Bytes gathered before they are handed to the destination in one call.
const CHUNK: usize = 64 * 1024;

/// A writer with an open buffer: formatting appends to `bytes` directly.
#[derive(Debug)]
pub(crate) struct Chunked<W> {
    out: W,
    pub(crate) bytes: Vec<u8>,
}

impl<W: Write> Chunked<W> {
    pub(crate) fn new(out: W) -> Self {
        Self {
            out,
            bytes: Vec::with_capacity(CHUNK + CHUNK / 4),
        }
    }

    /// Hands the gathered bytes over once there are enough of them.
    pub(crate) fn settle(&mut self) -> io::Result<()> {
        if self.bytes.len() >= CHUNK {
            self.drain()
        } else {
            Ok(())
        }
    }

    fn drain(&mut self) -> io::Result<()> {
        let result = self.out.write_all(&self.bytes);
        self.bytes.clear();
        result
    }

    pub(crate) fn flush(&mut self) -> io::Result<()> {
        self.drain()?;
        self.out.flush()
    }
}
