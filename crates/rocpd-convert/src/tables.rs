//! Tables of any columns, such as the results of queries, in many formats.
//!
//! Rows are passed one by one. Separated values and JSON are written as they come, Parquet and Arrow in batches; texts and pages need all rows
//! first.

mod buffered;
mod columnar;
mod pdf;
mod shared_buffer;
mod stream;

use std::io;
use std::path::Path;

use rocpd_db::SqlValue;

use crate::Result;
use crate::file::OutputFile;

/// Formats of files.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Format {
    /// Comma-separated values.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// An array of objects.
    Json,
    /// An object a line.
    Jsonl,
    /// A Markdown table.
    Md,
    /// An HTML table.
    Html,
    /// An HTML page.
    Dashboard,
    /// Pages of monospaced text.
    Pdf,
    /// A Parquet file.
    Parquet,
    /// An Arrow file.
    Arrow,
}

/// Receives rows whose values are known only as they arrive.
pub trait RowTaker {
    /// Writes a row: `value(i)` is the value of column `i`.
    ///
    /// # Errors
    ///
    /// A file that cannot be written, and a column of several types in a format whose columns have one.
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<()>;

    /// Completes the output; a file appears only now.
    ///
    /// # Errors
    ///
    /// A file that cannot be written.
    fn finish(self: Box<Self>) -> Result<()>;
}

/// Presentation of pages and texts.
#[derive(Debug, Clone, Default)]
pub struct Look {
    /// `true` to format numbers as the reference does.
    pub compat: bool,
    /// A page in which `{{TABLE}}` is replaced by the table.
    pub template: Option<String>,
    /// A line above a text, and the title of a page.
    pub heading: Option<String>,
    /// The time that the reference's page states. Without it, equal inputs give equal pages.
    pub generated: Option<String>,
}

/// Returns a writer of aligned text, which is complete when the last row is known.
#[must_use]
pub fn text<W: io::Write + 'static>(columns: &[String], look: &Look, out: W) -> Box<dyn RowTaker> {
    Box::new(buffered::Console::new(unique(columns), look.clone(), out))
}

/// Opens a file in the given format. Equal names of columns get numbers.
///
/// # Errors
///
/// A file that cannot be created.
pub fn open(
    format: Format,
    columns: &[String],
    path: &Path,
    look: &Look,
) -> Result<Box<dyn RowTaker>> {
    let columns = unique(columns);
    let out = OutputFile::create(path)?;
    Ok(match format {
        Format::Csv => stream::separated(b',', &columns, out),
        Format::Tsv => stream::separated(b'\t', &columns, out),
        Format::Json => stream::json(false, &columns, look.compat, out)?,
        Format::Jsonl => stream::json(true, &columns, look.compat, out)?,
        Format::Parquet => Box::new(columnar::Parquet::new(columns, out)),
        Format::Arrow => Box::new(columnar::Arrow::new(columns, out)),
        Format::Md | Format::Html | Format::Dashboard | Format::Pdf => {
            Box::new(buffered::Page::new(format, columns, look.clone(), out))
        }
    })
}

impl Format {
    /// Returns the extension of files: the format's name, except for pages that a browser opens; with `compat`, the reference's.
    #[must_use]
    pub const fn extension(self, compat: bool) -> &'static str {
        match self {
            Self::Dashboard if !compat => "dashboard.html",
            Self::Csv => "csv",
            Self::Tsv => "tsv",
            Self::Json => "json",
            Self::Jsonl => "jsonl",
            Self::Md => "md",
            Self::Html => "html",
            Self::Dashboard => "dashboard",
            Self::Pdf => "pdf",
            Self::Parquet => "parquet",
            Self::Arrow => "arrow",
        }
    }
}

/// Returns distinct names, as objects and columns require: `id`, `id:1`, ...
fn unique(columns: &[String]) -> Vec<String> {
    let mut out: Vec<String> = Vec::with_capacity(columns.len());
    for column in columns {
        let mut name = column.clone();
        let mut number = 1;
        while out.contains(&name) {
            name = format!("{column}:{number}");
            number += 1;
        }
        out.push(name);
    }
    out
}

/// Formats a real number with all its digits.
fn real(value: f64) -> String {
    report::real_text(value, report::RealFormat::ShortestPoint)
}

/// Formats a value; `None` for NULL.
fn stored(value: SqlValue<'_>) -> Option<String> {
    Some(match value {
        SqlValue::Null => return None,
        SqlValue::Int(value) => value.to_string(),
        SqlValue::Real(value) => real(value),
        SqlValue::Text(text) => text.to_owned(),
        SqlValue::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    })
}
