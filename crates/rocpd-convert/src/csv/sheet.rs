//! A file of rows, which is created only if there are any.

use std::io::Write as _;
use std::path::PathBuf;

use crate::Result;
use crate::file::OutputFile;

/// Quoting of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Quotes {
    /// Always, including the header.
    All,
    /// Where needed.
    Needed,
}

/// A value of a row.
#[derive(Debug, Clone, Copy)]
pub(super) enum Field<'a> {
    /// A text.
    Text(&'a str),
    /// A number.
    Int(i64),
    /// An optional number.
    Maybe(Option<i64>),
    /// A text that needs no quotes.
    Bare(&'a str),
}

/// A CSV file under construction.
pub(super) struct Sheet {
    path: PathBuf,
    header: String,
    quotes: Quotes,
    out: Option<OutputFile>,
    bytes: Vec<u8>,
}

/// Bytes buffered before a write.
const CHUNK: usize = 64 << 10;

impl Sheet {
    /// Creates a sheet; `columns` are separated by blanks.
    pub(super) fn new(path: PathBuf, columns: &str, quotes: Quotes) -> Self {
        Self {
            path,
            header: columns.to_owned(),
            quotes,
            out: None,
            bytes: Vec::new(),
        }
    }

    pub(super) fn row(&mut self, fields: &[Field<'_>]) -> Result<()> {
        if self.out.is_none() {
            self.out = Some(OutputFile::create(&self.path)?);
            let header = std::mem::take(&mut self.header);
            for (at, column) in header.split_whitespace().enumerate() {
                if at > 0 {
                    self.bytes.push(b',');
                }
                self.text(column);
            }
            self.bytes.push(b'\n');
        }
        for (at, field) in fields.iter().enumerate() {
            if at > 0 {
                self.bytes.push(b',');
            }
            match *field {
                Field::Text(text) => self.text(text),
                Field::Int(value) | Field::Maybe(Some(value)) => {
                    self.bytes
                        .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
                }
                Field::Maybe(None) => {}
                Field::Bare(text) => self.bytes.extend_from_slice(text.as_bytes()),
            }
        }
        self.bytes.push(b'\n');
        if self.bytes.len() >= CHUNK
            && let Some(out) = &mut self.out
        {
            out.write_all(&self.bytes)?;
            self.bytes.clear();
        }
        Ok(())
    }

    fn text(&mut self, text: &str) {
        let needs = text
            .bytes()
            .any(|b| matches!(b, b'"' | b',' | b'\n' | b'\r'));
        if self.quotes == Quotes::Needed && !needs {
            self.bytes.extend_from_slice(text.as_bytes());
            return;
        }
        self.bytes.push(b'"');
        for byte in text.bytes() {
            if byte == b'"' {
                self.bytes.push(b'"');
            }
            self.bytes.push(byte);
        }
        self.bytes.push(b'"');
    }

    pub(super) fn finish(mut self) -> Result<()> {
        if let Some(mut out) = self.out.take() {
            out.write_all(&self.bytes)?;
            out.finish()?;
        }
        Ok(())
    }
}
