//! Common interface of everything that receives rows.

use std::io::{self, Write};

use crate::cell::Cell;
use crate::column::{Column, Kind, check_columns};
use crate::csv::{CsvOptions, CsvWriter};
use crate::error::{Error, Result};
use crate::json::{JsonLayout, JsonRowsWriter};
use crate::text::{TextOptions, TextWriter};

/// Receives rows one at a time: [`begin`](Self::begin) once, [`row`](Self::row) any number of
/// times, [`finish`](Self::finish) once. Output may be buffered until `finish` returns.
pub trait RowSink {
    /// Declares the columns.
    ///
    /// # Errors
    /// Returns an error if there are no columns, names repeat, it is a second call, or writing
    /// fails.
    fn begin(&mut self, columns: &[Column]) -> Result<()>;

    /// Writes one row, one cell per column.
    ///
    /// # Errors
    /// Returns an error if the number of cells is wrong, the kind of a cell differs from its
    /// column's, or writing fails.
    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()>;

    /// Flushes buffered rows and completes the output.
    ///
    /// # Errors
    /// Returns an error if called twice or before `begin`, or writing fails.
    fn finish(&mut self) -> Result<()>;
}

/// Text formats that a tool offers by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Format {
    /// Aligned columns with human units.
    Text,
    /// The same columns as a Markdown table.
    Markdown,
    /// RFC 4180.
    Csv,
    /// An array of objects.
    Json,
    /// One object per line.
    JsonLines,
}

impl Format {
    /// Returns a sink of this format with default options, without a width limit.
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

/// Checks the order of calls and the kinds of cells, for all sinks.
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

    /// Checks a row and returns its number.
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

/// Number of bytes buffered before they are written in one call.
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

    /// Writes the buffered bytes once there are enough of them.
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
