//! Formats that are written row by row.

use std::io::Write as _;

use rocpd_db::SqlValue;

use super::{RowTaker, real, stored};
use crate::Result;
use crate::file::OutputFile;

/// Bytes buffered before a write.
const CHUNK: usize = 64 << 10;

/// Comma- or tab-separated values.
struct Separated {
    out: OutputFile,
    separator: u8,
    columns: usize,
    bytes: Vec<u8>,
}

pub(super) fn separated(separator: u8, columns: &[String], out: OutputFile) -> Box<dyn RowTaker> {
    let mut sink = Separated {
        out,
        separator,
        columns: columns.len(),
        bytes: Vec::with_capacity(CHUNK + CHUNK / 4),
    };
    for (at, column) in columns.iter().enumerate() {
        if at > 0 {
            sink.bytes.push(separator);
        }
        field(&mut sink.bytes, separator, column.as_bytes());
    }
    sink.bytes.push(b'\n');
    Box::new(sink)
}

/// Writes a text, in quotes if it needs them.
fn field(out: &mut Vec<u8>, separator: u8, text: &[u8]) {
    let special = |byte: &u8| matches!(byte, b'"' | b'\n' | b'\r') || *byte == separator;
    if !text.iter().any(special) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for part in text.split_inclusive(|byte| *byte == b'"') {
        out.extend_from_slice(part);
        if part.ends_with(b"\"") {
            out.push(b'"');
        }
    }
    out.push(b'"');
}

impl RowTaker for Separated {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<()> {
        let start = self.bytes.len();
        for column in 0..self.columns {
            if column > 0 {
                self.bytes.push(self.separator);
            }
            match value(column) {
                SqlValue::Null => {}
                SqlValue::Int(value) => integer(&mut self.bytes, value),
                SqlValue::Real(value) => self.bytes.extend_from_slice(real(value).as_bytes()),
                SqlValue::Text(text) => field(&mut self.bytes, self.separator, text.as_bytes()),
                blob @ SqlValue::Blob(_) => {
                    self.bytes
                        .extend_from_slice(stored(blob).unwrap_or_default().as_bytes());
                }
            }
        }
        if self.bytes.len() == start {
            // An empty line would not count as a row.
            self.bytes.extend_from_slice(b"\"\"");
        }
        self.bytes.push(b'\n');
        if self.bytes.len() >= CHUNK {
            self.out.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        self.out.write_all(&self.bytes)?;
        self.out.finish()
    }
}

fn integer(out: &mut Vec<u8>, value: i64) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// An array of objects, or one object per line.
struct Json {
    out: OutputFile,
    lines: bool,
    compat: bool,
    keys: Vec<Vec<u8>>,
    rows: u64,
    bytes: Vec<u8>,
}

pub(super) fn json(
    lines: bool,
    columns: &[String],
    compat: bool,
    out: OutputFile,
) -> Result<Box<dyn RowTaker>> {
    let keys = columns
        .iter()
        .map(serde_json::to_vec)
        .collect::<Result<_, serde_json::Error>>()?;
    let mut bytes = Vec::with_capacity(CHUNK + CHUNK / 4);
    if !lines {
        bytes.push(b'[');
    }
    Ok(Box::new(Json {
        out,
        lines,
        compat,
        keys,
        rows: 0,
        bytes,
    }))
}

impl Json {
    fn value(&mut self, value: SqlValue<'_>) -> Result<()> {
        let bytes = &mut self.bytes;
        match value {
            SqlValue::Null => bytes.extend_from_slice(b"null"),
            SqlValue::Int(value) => integer(bytes, value),
            SqlValue::Real(value) if !value.is_finite() => bytes.extend_from_slice(b"null"),
            SqlValue::Real(value) if self.compat => {
                let digits = format!("{value:.10}");
                let short = digits.trim_end_matches('0');
                bytes.extend_from_slice(short.as_bytes());
                if short.ends_with('.') {
                    bytes.push(b'0');
                }
            }
            SqlValue::Real(value) => bytes.extend_from_slice(real(value).as_bytes()),
            SqlValue::Text(text) => {
                let mut quoted = serde_json::to_string(text)?;
                if self.compat {
                    quoted = quoted.replace('/', "\\/");
                }
                bytes.extend_from_slice(quoted.as_bytes());
            }
            blob @ SqlValue::Blob(_) => {
                let hex = stored(blob).unwrap_or_default();
                bytes.extend_from_slice(format!("\"{hex}\"").as_bytes());
            }
        }
        Ok(())
    }
}

impl RowTaker for Json {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<()> {
        if !self.lines {
            self.bytes
                .extend_from_slice(if self.rows > 0 { b",\n  {" } else { b"\n  {" });
        } else {
            self.bytes.push(b'{');
        }
        for column in 0..self.keys.len() {
            if column > 0 {
                self.bytes.push(b',');
            }
            if !self.lines {
                self.bytes.extend_from_slice(b"\n    ");
            }
            self.bytes.extend_from_slice(&self.keys[column]);
            self.bytes.push(b':');
            self.value(value(column))?;
        }
        self.bytes
            .extend_from_slice(if self.lines { b"}\n" } else { b"\n  }" });
        self.rows += 1;
        if self.bytes.len() >= CHUNK {
            self.out.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        if !self.lines {
            self.bytes.extend_from_slice(b"\n]\n");
        }
        self.out.write_all(&self.bytes)?;
        self.out.finish()
    }
}
