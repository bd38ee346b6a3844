//! Writes tables of any columns, in every format of the tool.

mod buffered;
mod columnar;
mod pdf;
mod stream;

use std::path::Path;

use cli::Output;
use rocpd_db::SqlValue;

use crate::args::QueryFormat;

/// Receives rows whose values are known only as they arrive.
pub(crate) trait RowTaker {
    /// Writes a row: `value(i)` is the value of column `i`.
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> anyhow::Result<()>;
    /// Completes the output.
    fn finish(self: Box<Self>) -> anyhow::Result<()>;
}

/// Presentation of pages and texts.
#[derive(Debug, Clone, Default)]
pub(crate) struct Look {
    /// `true` to format numbers as the reference does.
    pub(crate) compat: bool,
    /// A page in which `{{TABLE}}` is replaced by the table.
    pub(crate) template: Option<String>,
    /// A line above a table on the console.
    pub(crate) heading: Option<String>,
}

/// Opens a destination in the given format: a file, or standard output for the console.
pub(crate) fn open(
    format: QueryFormat,
    columns: &[String],
    path: &Path,
    look: &Look,
) -> anyhow::Result<Box<dyn RowTaker>> {
    let columns = unique(columns);
    Ok(match format {
        QueryFormat::Console => Box::new(buffered::Console::new(columns, look.clone())),
        QueryFormat::Csv => stream::separated(b',', &columns, Output::file(path)?)?,
        QueryFormat::Tsv => stream::separated(b'\t', &columns, Output::file(path)?)?,
        QueryFormat::Json => stream::json(false, columns, look.compat, Output::file(path)?)?,
        QueryFormat::Jsonl => stream::json(true, columns, look.compat, Output::file(path)?)?,
        QueryFormat::Parquet => Box::new(columnar::Parquet::new(columns, Output::file(path)?)),
        QueryFormat::Arrow => Box::new(columnar::Arrow::new(columns, Output::file(path)?)),
        QueryFormat::Md | QueryFormat::Html | QueryFormat::Dashboard | QueryFormat::Pdf => {
            Box::new(buffered::Page::new(
                format,
                columns,
                look.clone(),
                Output::file(path)?,
            ))
        }
        QueryFormat::Clipboard => no_clipboard()?,
    })
}

/// Returns the error for the clipboard, a format of the reference that requires a desktop.
pub(crate) fn no_clipboard<T>() -> anyhow::Result<T> {
    Err(cli::cannot_answer(
        "--format clipboard: there is no clipboard here: use --format console and a pipe",
    ))
}

/// Returns the extension of files of a format: its name, except for pages that a browser opens;
/// with `compat`, the reference's extension.
pub(crate) const fn extension(format: QueryFormat, compat: bool) -> &'static str {
    match format {
        QueryFormat::Dashboard if !compat => "dashboard.html",
        QueryFormat::Console => "txt",
        QueryFormat::Csv => "csv",
        QueryFormat::Tsv => "tsv",
        QueryFormat::Json => "json",
        QueryFormat::Jsonl => "jsonl",
        QueryFormat::Md => "md",
        QueryFormat::Html => "html",
        QueryFormat::Dashboard => "dashboard",
        QueryFormat::Pdf => "pdf",
        QueryFormat::Parquet => "parquet",
        QueryFormat::Arrow => "arrow",
        QueryFormat::Clipboard => "clipboard",
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

/// Formats a value as text; `None` for NULL.
fn text(value: SqlValue<'_>) -> Option<String> {
    Some(match value {
        SqlValue::Null => return None,
        SqlValue::Int(value) => value.to_string(),
        SqlValue::Real(value) => real(value),
        SqlValue::Text(text) => text.to_owned(),
        SqlValue::Blob(bytes) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
    })
}
