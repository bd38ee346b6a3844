//! Formats that need all rows before the first is written, or know their columns late.

use std::io::Write as _;

use report::{Cell, Column, Kind, ParquetWriter, RowSink as _, SchemaVersion};
use rocpd_db::SqlValue;
use shell::Output;

use super::{Look, RowTaker, pdf, text};
use crate::args::QueryFormat;
use crate::{console, names};

/// A value that stays.
#[derive(Debug, Clone)]
enum Owned {
    Null,
    Int(i64),
    Real(f64),
    Text(String),
}

impl From<SqlValue<'_>> for Owned {
    fn from(value: SqlValue<'_>) -> Self {
        match value {
            SqlValue::Null => Self::Null,
            SqlValue::Int(value) => Self::Int(value),
            SqlValue::Real(value) => Self::Real(value),
            value => Self::Text(text(value).unwrap_or_default()),
        }
    }
}

impl Owned {
    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Real(_))
    }

    fn shown(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Int(value) => value.to_string(),
            Self::Real(value) => super::real(*value),
            Self::Text(text) => report::text::printable(text).into_owned(),
        }
    }
}

#[derive(Debug)]
struct Held {
    columns: Vec<String>,
    rows: Vec<Vec<Owned>>,
}

impl Held {
    fn push<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) {
        let row = (0..self.columns.len()).map(|at| value(at).into()).collect();
        self.rows.push(row);
    }

    /// Columns in which every value is a number, or missing.
    fn numeric(&self) -> Vec<bool> {
        (0..self.columns.len())
            .map(|at| {
                let values = || self.rows.iter().filter_map(|row| row.get(at));
                values().any(Owned::is_number)
                    && values().all(|value| value.is_number() || matches!(value, Owned::Null))
            })
            .collect()
    }

    /// Aligned lines, the header first; numbers to the right.
    fn lines(&self, null: &str) -> Vec<String> {
        let numeric = self.numeric();
        let shown: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .map(|value| match value {
                        Owned::Null => null.to_owned(),
                        value => value.shown(),
                    })
                    .collect()
            })
            .collect();
        let mut widths: Vec<usize> = self.columns.iter().map(|c| c.chars().count()).collect();
        for row in &shown {
            for (width, cell) in widths.iter_mut().zip(row) {
                *width = (*width).max(cell.chars().count());
            }
        }
        let line = |cells: &[String]| {
            let mut line = String::new();
            for ((cell, width), right) in cells.iter().zip(&widths).zip(&numeric) {
                if !line.is_empty() {
                    line.push_str("  ");
                }
                let pad = " ".repeat(width - cell.chars().count().min(*width));
                if *right {
                    line.push_str(&pad);
                    line.push_str(cell);
                } else {
                    line.push_str(cell);
                    line.push_str(&pad);
                }
            }
            line.trim_end().to_owned()
        };
        std::iter::once(line(&self.columns))
            .chain(shown.iter().map(|row| line(row)))
            .collect()
    }
}

/// Aligned text on standard output.
pub(super) struct Console {
    held: Held,
    look: Look,
}

impl Console {
    pub(super) fn new(columns: Vec<String>, look: Look) -> Self {
        Self {
            held: Held {
                columns,
                rows: Vec::new(),
            },
            look,
        }
    }
}

impl RowTaker for Console {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> anyhow::Result<()> {
        self.held.push(value);
        Ok(())
    }

    fn finish(self: Box<Self>) -> anyhow::Result<()> {
        let null = if self.look.compat { "None" } else { "" };
        let mut out = String::new();
        if let Some(heading) = &self.look.heading {
            out += &format!("\n{heading}:\n");
        }
        for line in self.held.lines(null) {
            out += &line;
            out.push('\n');
        }
        console::print(&out)
    }
}

/// Markdown, HTML and PDF.
pub(super) struct Page {
    held: Held,
    format: QueryFormat,
    look: Look,
    out: Output,
}

impl Page {
    pub(super) fn new(format: QueryFormat, columns: Vec<String>, look: Look, out: Output) -> Self {
        Self {
            held: Held {
                columns,
                rows: Vec::new(),
            },
            format,
            look,
            out,
        }
    }
}

impl RowTaker for Page {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> anyhow::Result<()> {
        self.held.push(value);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        let held = &self.held;
        let bytes = match self.format {
            QueryFormat::Md => markdown(held).into_bytes(),
            QueryFormat::Pdf => pdf::pages(&held.lines("")),
            format => {
                let table = html(held);
                match (&self.look.template, format) {
                    (Some(template), _) => template
                        .replace("{{TABLE}}", &table)
                        .replace("{{ table }}", &table)
                        .into_bytes(),
                    (None, QueryFormat::Dashboard) => dashboard(&table).into_bytes(),
                    (None, _) => table.into_bytes(),
                }
            }
        };
        self.out.write_all(&bytes)?;
        self.out.finish()
    }
}

fn markdown(held: &Held) -> String {
    let cell = |text: &str| text.replace('\\', "\\\\").replace('|', "\\|");
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    let mut out = row(held.columns.iter().map(|column| cell(column)).collect());
    out.push('|');
    for numeric in held.numeric() {
        out += if numeric { "---:|" } else { ":---|" };
    }
    out.push('\n');
    for values in &held.rows {
        out += &row(values.iter().map(|value| cell(&value.shown())).collect());
    }
    out
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn html(held: &Held) -> String {
    let numeric = held.numeric();
    let mut out = String::from(
        "<table border=\"1\" class=\"dataframe\">\n  <thead>\n    <tr style=\"text-align: right;\">\n",
    );
    for column in &held.columns {
        out += &format!("      <th>{}</th>\n", escaped(column));
    }
    out += "    </tr>\n  </thead>\n  <tbody>\n";
    for row in &held.rows {
        out += "    <tr>\n";
        for (value, right) in row.iter().zip(&numeric) {
            let style = if *right {
                " style=\"text-align: right;\""
            } else {
                ""
            };
            out += &format!("      <td{style}>{}</td>\n", escaped(&value.shown()));
        }
        out += "    </tr>\n";
    }
    out += "  </tbody>\n</table>\n";
    out
}

fn dashboard(table: &str) -> String {
    let (_, time) = names::now();
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>SQLite Query Dashboard</title>\n\
         <style>body{{font-family:sans-serif;margin:2em}}table{{border-collapse:collapse}}td,th{{padding:.3em .6em}}\
         tr:nth-child(even){{background:#f4f4f4}}</style>\n</head>\n<body>\n<h1>SQLite Query Dashboard</h1>\n\
         <p>Generated: {time}</p>\n{table}</body>\n</html>\n"
    )
}

/// A Parquet file; kinds of columns are those of their first values.
pub(super) struct Parquet {
    held: Held,
    out: Option<Output>,
    writer: Option<(ParquetWriter<Sent>, Vec<Kind>)>,
    file: std::sync::Arc<std::sync::Mutex<Vec<u8>>>,
}

/// Rows that are looked at before the kinds of columns are settled.
const SAMPLE_ROWS: usize = 50_000;

/// Bytes on their way to the output, which is not `Send`.
struct Sent(std::sync::Arc<std::sync::Mutex<Vec<u8>>>);

impl std::io::Write for Sent {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut shared = self
            .0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        shared.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Parquet {
    pub(super) fn new(columns: Vec<String>, out: Output) -> Self {
        Self {
            held: Held {
                columns,
                rows: Vec::new(),
            },
            out: Some(out),
            writer: None,
            file: std::sync::Arc::default(),
        }
    }

    fn drain(&mut self) -> anyhow::Result<()> {
        let bytes = std::mem::take(
            &mut *self
                .file
                .lock()
                .unwrap_or_else(std::sync::PoisonError::into_inner),
        );
        if let Some(out) = &mut self.out {
            out.write_all(&bytes)?;
        }
        Ok(())
    }

    fn settle(&mut self) -> anyhow::Result<()> {
        if self.writer.is_none() {
            let kinds = kinds(&self.held);
            let columns: Vec<Column> = self
                .held
                .columns
                .iter()
                .zip(&kinds)
                .map(|(name, kind)| Column::new(name.clone(), *kind))
                .collect();
            let mut writer = ParquetWriter::new(
                Sent(std::sync::Arc::clone(&self.file)),
                SchemaVersion::new(1, 0),
            );
            writer.begin(&columns)?;
            self.writer = Some((writer, kinds));
        }
        let rows = std::mem::take(&mut self.held.rows);
        if let Some((writer, kinds)) = &mut self.writer {
            let mut shown = Vec::new();
            for row in &rows {
                shown.clear();
                shown.extend(row.iter().map(Owned::shown));
                let cells: Vec<Cell<'_>> = row
                    .iter()
                    .zip(kinds.iter())
                    .zip(&shown)
                    .map(|((value, kind), shown)| cell(value, *kind, shown))
                    .collect();
                writer.row(&cells)?;
            }
        }
        self.drain()
    }
}

/// Kinds that fit all values seen: mixed columns become text.
fn kinds(held: &Held) -> Vec<Kind> {
    (0..held.columns.len())
        .map(|at| {
            let values = || held.rows.iter().filter_map(|row| row.get(at));
            if values().any(|value| matches!(value, Owned::Text(_)))
                || values().all(|value| matches!(value, Owned::Null))
            {
                Kind::Text
            } else if values().any(|value| matches!(value, Owned::Real(_))) {
                Kind::Real
            } else {
                Kind::Int
            }
        })
        .collect()
}

#[expect(
    clippy::cast_precision_loss,
    reason = "a column of reals takes the nearest one"
)]
fn cell<'a>(value: &Owned, kind: Kind, shown: &'a str) -> Cell<'a> {
    match (value, kind) {
        (Owned::Null, _) => Cell::Null,
        (Owned::Int(value), Kind::Int) => Cell::Int(*value),
        (Owned::Int(value), Kind::Real) => Cell::Real(*value as f64),
        (Owned::Real(value), Kind::Real) => Cell::Real(*value),
        (_, Kind::Text) => Cell::Text(shown),
        // What came after the sample and has another type cannot be kept in the column.
        _ => Cell::Null,
    }
}

impl RowTaker for Parquet {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> anyhow::Result<()> {
        self.held.push(value);
        if let Some((_, kinds)) = &self.writer {
            let row = self.held.rows.last().map(Vec::as_slice).unwrap_or_default();
            for ((value, kind), name) in row.iter().zip(kinds).zip(&self.held.columns) {
                let fits = match kind {
                    Kind::Int => matches!(value, Owned::Int(_) | Owned::Null),
                    Kind::Real => !matches!(value, Owned::Text(_)),
                    _ => true,
                };
                anyhow::ensure!(
                    fits,
                    "column {name} has values of several types: CAST it to one in the query"
                );
            }
        }
        if self.held.rows.len() >= SAMPLE_ROWS {
            self.settle()?;
        }
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        self.settle()?;
        if let Some((writer, _)) = &mut self.writer {
            writer.finish()?;
        }
        self.drain()?;
        match self.out.take() {
            Some(out) => out.finish(),
            None => Ok(()),
        }
    }
}

/// An Arrow file of one batch a few thousand rows.
pub(super) struct Arrow {
    held: Held,
    out: Output,
}

impl Arrow {
    pub(super) fn new(columns: Vec<String>, out: Output) -> Self {
        Self {
            held: Held {
                columns,
                rows: Vec::new(),
            },
            out,
        }
    }
}

impl RowTaker for Arrow {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> anyhow::Result<()> {
        self.held.push(value);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> anyhow::Result<()> {
        use arrow::array::{ArrayRef, Float64Array, Int64Array, StringArray};
        use std::sync::Arc;
        let kinds = kinds(&self.held);
        let mut columns: Vec<(String, ArrayRef)> = Vec::new();
        for (at, (name, kind)) in self.held.columns.iter().zip(&kinds).enumerate() {
            let shown: Vec<String> = self
                .held
                .rows
                .iter()
                .map(|row| row.get(at).map(Owned::shown).unwrap_or_default())
                .collect();
            let cells = self.held.rows.iter().zip(&shown).map(|(row, shown)| {
                row.get(at)
                    .map_or(Cell::Null, |value| cell(value, *kind, shown))
            });
            let array: ArrayRef = match kind {
                Kind::Int => Arc::new(Int64Array::from_iter(cells.map(|cell| match cell {
                    Cell::Int(value) => Some(value),
                    _ => None,
                }))),
                Kind::Real => Arc::new(Float64Array::from_iter(cells.map(|cell| match cell {
                    Cell::Real(value) => Some(value),
                    _ => None,
                }))),
                _ => Arc::new(StringArray::from_iter(cells.map(|cell| match cell {
                    Cell::Text(text) => Some(text),
                    _ => None,
                }))),
            };
            columns.push((name.clone(), array));
        }
        let batch = arrow::array::RecordBatch::try_from_iter_with_nullable(
            columns.into_iter().map(|(name, array)| (name, array, true)),
        )?;
        let mut writer = arrow::ipc::writer::FileWriter::try_new(&mut self.out, &batch.schema())?;
        writer.write(&batch)?;
        writer.finish()?;
        drop(writer);
        self.out.finish()
    }
}
