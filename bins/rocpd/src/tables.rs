//! Opens the results of queries and summaries: files, or text on standard output.

use std::path::Path;

use cli::Output;
use rocpd_convert::tables::{self, Format, Look, RowTaker};

use crate::args::QueryFormat;
use crate::names::converted;

/// Returns the format of files; `None` for the console.
///
/// # Errors
///
/// The clipboard, a format of the reference that requires a desktop.
pub(crate) fn file_format(format: QueryFormat) -> anyhow::Result<Option<Format>> {
    Ok(Some(match format {
        QueryFormat::Console => return Ok(None),
        QueryFormat::Csv => Format::Csv,
        QueryFormat::Tsv => Format::Tsv,
        QueryFormat::Json => Format::Json,
        QueryFormat::Jsonl => Format::Jsonl,
        QueryFormat::Md => Format::Md,
        QueryFormat::Html => Format::Html,
        QueryFormat::Dashboard => Format::Dashboard,
        QueryFormat::Pdf => Format::Pdf,
        QueryFormat::Parquet => Format::Parquet,
        QueryFormat::Arrow => Format::Arrow,
        QueryFormat::Clipboard => {
            return Err(cli::cannot_answer(
                "--format clipboard: there is no clipboard here: use --format console and a pipe",
            ));
        }
    }))
}

/// Opens a file of a format, or standard output.
pub(crate) fn open(
    format: Option<Format>,
    columns: &[String],
    path: &Path,
    look: &Look,
) -> anyhow::Result<Box<dyn RowTaker>> {
    match format {
        None => Ok(tables::text(columns, look, Output::stdout())),
        Some(format) => converted(tables::open(format, columns, path, look)),
    }
}

/// Returns the presentation of a table.
pub(crate) fn look(compat: bool, heading: Option<String>) -> Look {
    Look {
        compat,
        heading,
        generated: compat.then(|| rocpd_convert::now().1),
        ..Look::default()
    }
}
