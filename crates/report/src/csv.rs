//! Writes CSV according to RFC 4180, with `\n` line ends.

use std::borrow::Cow;
use std::io::Write;

use crate::cell::Cell;
use crate::column::{Column, RealFormat};
use crate::error::Result;
use crate::number::{push_integer, push_real};
use crate::sink::{Chunked, Guard, RowSink};

/// Options for writing CSV.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CsvOptions {
    /// Text for null: empty by default, `\N` where null and empty text must differ.
    pub null: Cow<'static, str>,
    /// A single real format for all columns; `None` uses each column's format
    /// ([`RealFormat::Shortest`] unless set).
    pub reals: Option<RealFormat>,
    /// `true` if the first line names the columns.
    pub header: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            null: Cow::Borrowed(""),
            reals: None,
            header: true,
        }
    }
}

/// Streams rows as CSV. A field is quoted only if it contains a comma, a quote, CR or LF, or if it is the empty only field
/// of its line (which readers would otherwise skip as a blank line). Buffers 64 KiB; allocates nothing per row.
///
/// ```
/// use report::{Cell, Column, CsvOptions, CsvWriter, RowSink};
/// let mut out = Vec::new();
/// let mut csv = CsvWriter::new(&mut out, CsvOptions::default());
/// csv.begin(&[Column::text("name"), Column::uint("dur_ns")])?;
/// csv.row(&[Cell::from("gemm<float, 4>"), Cell::from(17_u64)])?;
/// csv.finish()?;
/// assert_eq!(out, b"name,dur_ns\n\"gemm<float, 4>\",17\n");
/// # Ok::<(), report::Error>(())
/// ```
#[derive(Debug)]
pub struct CsvWriter<W> {
    out: Chunked<W>,
    guard: Guard,
    options: CsvOptions,
    reals: Vec<RealFormat>,
    null: Vec<u8>,
}

impl<W: Write> CsvWriter<W> {
    /// Creates a writer to `out`, which needs no buffer of its own.
    pub fn new(out: W, options: CsvOptions) -> Self {
        Self {
            out: Chunked::new(out),
            guard: Guard::default(),
            options,
            reals: Vec::new(),
            null: Vec::new(),
        }
    }

    fn end_line(&mut self, start: usize) -> Result<()> {
        if self.out.bytes.len() == start {
            self.out.bytes.extend_from_slice(b"\"\"");
        }
        self.out.bytes.push(b'\n');
        Ok(self.out.settle()?)
    }
}

impl<W: Write> RowSink for CsvWriter<W> {
    fn begin(&mut self, columns: &[Column]) -> Result<()> {
        self.guard.begin(columns)?;
        push_field(&mut self.null, self.options.null.as_bytes());
        self.reals = columns
            .iter()
            .map(|c| self.options.reals.or(c.real_format()).unwrap_or_default())
            .collect();
        if self.options.header {
            let start = self.out.bytes.len();
            for (index, column) in columns.iter().enumerate() {
                if index > 0 {
                    self.out.bytes.push(b',');
                }
                push_field(&mut self.out.bytes, column.name().as_bytes());
            }
            self.end_line(start)?;
        }
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        self.guard.row(cells)?;
        let bytes = &mut self.out.bytes;
        let start = bytes.len();
        for (index, (cell, reals)) in cells.iter().zip(&self.reals).enumerate() {
            if index > 0 {
                bytes.push(b',');
            }
            match *cell {
                Cell::Null => bytes.extend_from_slice(&self.null),
                Cell::Int(value) => push_integer(bytes, value),
                Cell::UInt(value) => push_integer(bytes, value),
                Cell::Real(value) => push_real(bytes, value, *reals),
                Cell::Text(text) => push_field(bytes, text.as_bytes()),
                Cell::Bool(value) => {
                    bytes.extend_from_slice(if value { b"true" } else { b"false" })
                }
            }
        }
        self.end_line(start)
    }

    fn finish(&mut self) -> Result<()> {
        self.guard.finish()?;
        Ok(self.out.flush()?)
    }
}

/// Appends one field, quoted if necessary.
fn push_field(out: &mut Vec<u8>, field: &[u8]) {
    // Without an early exit inside the block the compiler tests many bytes at once.
    let special = |block: &[u8]| {
        block.iter().fold(false, |found, &b| {
            found | (b == b',') | (b == b'"') | (b == b'\r') | (b == b'\n')
        })
    };
    if !field.chunks(64).any(special) {
        out.extend_from_slice(field);
        return;
    }
    out.push(b'"');
    let mut rest = field;
    while let Some(at) = memchr::memchr(b'"', rest) {
        out.extend_from_slice(&rest[..=at]);
        out.push(b'"');
        rest = &rest[at + 1..];
    }
    out.extend_from_slice(rest);
    out.push(b'"');
}
