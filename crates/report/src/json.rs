//! Writes JSON: streamed rows as objects, and documents with a schema version.

use std::io::Write;

use serde::Serialize;

use crate::cell::Cell;
use crate::column::Column;
use crate::error::{Error, Result};
use crate::number::push_integer;
use crate::schema::SchemaVersion;
use crate::sink::{Chunked, Guard, RowSink};
use crate::table::Table;

/// Structure around the rows. A row is always one object on one line, keys in column order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum JsonLayout {
    /// `[row, row, ...]`.
    Array,
    /// One row per line, without surrounding structure.
    Lines,
    /// `{"schema_version": "1.0", "columns": [{name, kind, unit, title}, ...], "rows": [row, ...]}`.
    Document(SchemaVersion),
}

/// Streams rows as JSON. Integers are exact decimal integers, reals keep every digit, NaN and
/// infinities become `null`.
#[derive(Debug)]
pub struct JsonRowsWriter<W> {
    out: Chunked<W>,
    guard: Guard,
    layout: JsonLayout,
    rows: RowsState,
}

impl<W: Write> JsonRowsWriter<W> {
    /// Creates a writer to `out`, which needs no buffer of its own.
    pub fn new(out: W, layout: JsonLayout) -> Self {
        Self {
            out: Chunked::new(out),
            guard: Guard::default(),
            layout,
            rows: RowsState::default(),
        }
    }
}

impl<W: Write> RowSink for JsonRowsWriter<W> {
    fn begin(&mut self, columns: &[Column]) -> Result<()> {
        self.guard.begin(columns)?;
        let bytes = &mut self.out.bytes;
        match self.layout {
            JsonLayout::Array => bytes.push(b'['),
            JsonLayout::Lines => {}
            JsonLayout::Document(version) => {
                bytes.extend_from_slice(b"{\n");
                push_member(bytes, SchemaVersion::KEY, &version)?;
                bytes.extend_from_slice(b",\n");
                push_columns(bytes, columns)?;
                bytes.extend_from_slice(b",\n\"rows\":[");
            }
        }
        self.rows = RowsState::new(columns, self.layout != JsonLayout::Lines)?;
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        self.guard.row(cells)?;
        self.rows.push(&mut self.out.bytes, cells)?;
        Ok(self.out.settle()?)
    }

    fn finish(&mut self) -> Result<()> {
        self.guard.finish()?;
        let end: &[u8] = match self.layout {
            JsonLayout::Array => b"\n]\n",
            JsonLayout::Lines => b"",
            JsonLayout::Document(_) => b"\n]\n}\n",
        };
        self.out.bytes.extend_from_slice(end);
        Ok(self.out.flush()?)
    }
}

/// Writes a JSON object member by member, `schema_version` first; tables inside it are streamed.
///
/// ```
/// use report::{JsonDocument, SchemaVersion};
/// let mut out = Vec::new();
/// let mut document = JsonDocument::new(&mut out, SchemaVersion::new(1, 0))?;
/// document.member("kernels", &544)?;
/// document.finish()?;
/// assert_eq!(out, b"{\n\"schema_version\":\"1.0\",\n\"kernels\":544\n}\n");
/// # Ok::<(), report::Error>(())
/// ```
#[derive(Debug)]
pub struct JsonDocument<W> {
    out: Chunked<W>,
}

impl<W: Write> JsonDocument<W> {
    /// Starts a document.
    ///
    /// # Errors
    /// None today; the signature allows for a destination that fails.
    pub fn new(out: W, version: SchemaVersion) -> Result<Self> {
        let mut out = Chunked::new(out);
        out.bytes.extend_from_slice(b"{\n");
        push_member(&mut out.bytes, SchemaVersion::KEY, &version)?;
        Ok(Self { out })
    }

    /// Adds one member. The caller must use distinct names.
    ///
    /// # Errors
    /// Returns an error if JSON cannot represent the value, or writing fails.
    pub fn member<T: Serialize + ?Sized>(&mut self, name: &str, value: &T) -> Result<()> {
        self.out.bytes.extend_from_slice(b",\n");
        push_member(&mut self.out.bytes, name, value)?;
        Ok(self.out.settle()?)
    }

    /// Adds a table as the member `{"columns": [...], "rows": [...]}`.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn table(&mut self, name: &str, table: &Table) -> Result<()> {
        table.write_to(&mut self.rows(name))
    }

    /// Starts a member like that of [`JsonDocument::table`], whose rows are written one by one. It
    /// must be begun and finished before another member is added.
    pub fn rows<'d>(&'d mut self, name: &'d str) -> JsonMember<'d, W> {
        JsonMember {
            out: &mut self.out,
            guard: Guard::default(),
            name,
            rows: RowsState::default(),
        }
    }

    /// Ends the document.
    ///
    /// # Errors
    /// Returns an error if writing fails.
    pub fn finish(mut self) -> Result<()> {
        self.out.bytes.extend_from_slice(b"\n}\n");
        Ok(self.out.flush()?)
    }
}

/// A table inside a [`JsonDocument`], written row by row.
#[derive(Debug)]
pub struct JsonMember<'d, W> {
    out: &'d mut Chunked<W>,
    guard: Guard,
    name: &'d str,
    rows: RowsState,
}

impl<W: Write> RowSink for JsonMember<'_, W> {
    fn begin(&mut self, columns: &[Column]) -> Result<()> {
        self.guard.begin(columns)?;
        let bytes = &mut self.out.bytes;
        bytes.extend_from_slice(b",\n");
        push_value(bytes, self.name, self.name)?;
        bytes.extend_from_slice(b":{");
        push_columns(bytes, columns)?;
        bytes.extend_from_slice(b",\n\"rows\":[");
        self.rows = RowsState::new(columns, true)?;
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        self.guard.row(cells)?;
        self.rows.push(&mut self.out.bytes, cells)?;
        Ok(self.out.settle()?)
    }

    fn finish(&mut self) -> Result<()> {
        self.guard.finish()?;
        self.out.bytes.extend_from_slice(b"\n]}");
        Ok(())
    }
}

/// Encoded keys, and whether a comma must be written first.
#[derive(Debug, Default)]
struct RowsState {
    keys: Vec<Vec<u8>>,
    list: bool,
    first: bool,
}

impl RowsState {
    fn new(columns: &[Column], list: bool) -> Result<Self> {
        let mut keys = Vec::with_capacity(columns.len());
        for (index, column) in columns.iter().enumerate() {
            let mut key = vec![if index == 0 { b'{' } else { b',' }];
            push_value(&mut key, column.name(), column.name())?;
            key.push(b':');
            keys.push(key);
        }
        Ok(Self {
            keys,
            list,
            first: true,
        })
    }

    fn push(&mut self, out: &mut Vec<u8>, cells: &[Cell<'_>]) -> Result<()> {
        let before: &[u8] = match (self.list, self.first) {
            (true, true) => b"\n",
            (true, false) => b",\n",
            (false, _) => b"",
        };
        out.extend_from_slice(before);
        self.first = false;
        for (cell, key) in cells.iter().zip(&self.keys) {
            out.extend_from_slice(key);
            match *cell {
                Cell::Null => out.extend_from_slice(b"null"),
                Cell::Int(value) => push_integer(out, value),
                Cell::UInt(value) => push_integer(out, value),
                Cell::Real(value) => push_value(out, "", &value)?,
                Cell::Text(text) => push_value(out, "", text)?,
                Cell::Bool(value) => out.extend_from_slice(if value { b"true" } else { b"false" }),
            }
        }
        out.push(b'}');
        if !self.list {
            out.push(b'\n');
        }
        Ok(())
    }
}

fn push_value<T: Serialize + ?Sized>(out: &mut Vec<u8>, field: &str, value: &T) -> Result<()> {
    serde_json::to_writer(out, value).map_err(|source| Error::Json {
        field: field.into(),
        source,
    })
}

fn push_member<T: Serialize + ?Sized>(out: &mut Vec<u8>, name: &str, value: &T) -> Result<()> {
    push_value(out, name, name)?;
    out.push(b':');
    push_value(out, name, value)
}

fn push_columns(out: &mut Vec<u8>, columns: &[Column]) -> Result<()> {
    out.extend_from_slice(b"\"columns\":[");
    for (index, column) in columns.iter().enumerate() {
        out.extend_from_slice(if index == 0 { b"\n{" } else { b",\n{" });
        push_member(out, "name", column.name())?;
        out.push(b',');
        push_member(out, "kind", column.kind().name())?;
        out.push(b',');
        push_member(out, "unit", column.unit_of().symbol())?;
        out.push(b',');
        push_member(out, "title", column.heading())?;
        out.push(b'}');
    }
    out.push(b']');
    Ok(())
}
