//! Formats that need all rows before the first is written.

use std::io::Write as _;

use rocpd_db::SqlValue;

use super::{Format, Look, RowTaker, pdf, stored};
use crate::Result;
use crate::file::OutputFile;

/// An owned value.
#[derive(Debug, Clone)]
pub(super) enum Owned {
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
            value => Self::Text(stored(value).unwrap_or_default()),
        }
    }
}

impl Owned {
    fn is_number(&self) -> bool {
        matches!(self, Self::Int(_) | Self::Real(_))
    }

    /// Returns the stored text, for programs.
    pub(super) fn stored(&self) -> std::borrow::Cow<'_, str> {
        match self {
            Self::Text(text) => text.as_str().into(),
            value => value.shown().into(),
        }
    }

    /// Returns the text for a terminal, without control characters.
    pub(super) fn shown(&self) -> String {
        match self {
            Self::Null => String::new(),
            Self::Int(value) => value.to_string(),
            Self::Real(value) => super::real(*value),
            Self::Text(text) => report::text::printable(text).into_owned(),
        }
    }
}

/// Maximum number of decimals in text output.
const DECIMALS: usize = 6;

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

    /// Returns by column whether every value is a number or missing.
    fn numeric(&self) -> Vec<bool> {
        (0..self.columns.len())
            .map(|at| {
                let values = || self.rows.iter().filter_map(|row| row.get(at));
                values().any(Owned::is_number)
                    && values().all(|value| value.is_number() || matches!(value, Owned::Null))
            })
            .collect()
    }

    /// Returns the number of decimals that the reals of each column need, at most [`DECIMALS`].
    fn decimals(&self) -> Vec<usize> {
        let needed = |value: &Owned| match value {
            Owned::Real(value) => {
                let text = format!("{value:.DECIMALS$}");
                let digits = text.split_once('.').map_or("", |(_, digits)| digits);
                digits.trim_end_matches('0').len().max(1)
            }
            _ => 1,
        };
        (0..self.columns.len())
            .map(|at| {
                let values = self.rows.iter().filter_map(|row| row.get(at));
                values.map(needed).max().unwrap_or(1)
            })
            .collect()
    }

    /// Returns aligned lines, the header first, with numbers right-aligned. With `as_reference`
    /// texts are right-aligned too, and missing values are written as `NaN` among numbers, `None`
    /// among texts.
    fn lines(&self, as_reference: bool) -> Vec<String> {
        let mut numeric = self.numeric();
        let nulls: Vec<&str> = numeric
            .iter()
            .map(|numeric| match (as_reference, numeric) {
                (false, _) => "",
                (true, true) => "NaN",
                (true, false) => "None",
            })
            .collect();
        if as_reference {
            numeric.fill(true);
        }
        let decimals = self.decimals();
        let shown: Vec<Vec<String>> = self
            .rows
            .iter()
            .map(|row| {
                row.iter()
                    .zip(&decimals)
                    .zip(&nulls)
                    .map(|((value, decimals), null)| match value {
                        Owned::Null => (*null).to_owned(),
                        Owned::Real(value) if value.is_finite() => format!("{value:.decimals$}"),
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
            for (at, ((cell, width), right)) in cells.iter().zip(&widths).zip(&numeric).enumerate()
            {
                if at > 0 {
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

/// Aligned text.
pub(super) struct Console<W> {
    held: Held,
    look: Look,
    out: W,
}

impl<W: std::io::Write> Console<W> {
    pub(super) fn new(columns: Vec<String>, look: Look, out: W) -> Self {
        Self {
            held: Held {
                columns,
                rows: Vec::new(),
            },
            look,
            out,
        }
    }
}

impl<W: std::io::Write> RowTaker for Console<W> {
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<()> {
        self.held.push(value);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let mut out = String::new();
        if let Some(heading) = &self.look.heading {
            out += &format!("\n{heading}:\n");
        }
        for line in self.held.lines(self.look.compat) {
            out += &line;
            out.push('\n');
        }
        self.out.write_all(out.as_bytes())?;
        Ok(self.out.flush()?)
    }
}

/// Markdown, HTML and PDF.
pub(super) struct Page {
    held: Held,
    format: Format,
    look: Look,
    out: OutputFile,
}

impl Page {
    pub(super) fn new(format: Format, columns: Vec<String>, look: Look, out: OutputFile) -> Self {
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
    fn row<'v>(&mut self, value: &dyn Fn(usize) -> SqlValue<'v>) -> Result<()> {
        self.held.push(value);
        Ok(())
    }

    fn finish(mut self: Box<Self>) -> Result<()> {
        let held = &self.held;
        let bytes = match self.format {
            Format::Md => markdown(held).into_bytes(),
            Format::Pdf => pdf::pages(&held.lines(false)),
            format => {
                let table = html(held);
                match (&self.look.template, format) {
                    (Some(template), _) => template
                        .replace("{{TABLE}}", &table)
                        .replace("{{ table }}", &table)
                        .into_bytes(),
                    (None, Format::Dashboard) => dashboard(&table, &self.look).into_bytes(),
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

/// Returns a self-contained page. Only the reference's page has a time stamp, so that equal inputs
/// give equal pages.
fn dashboard(table: &str, look: &Look) -> String {
    let (title, time) = match look.compat {
        true => (
            "SQLite Query Dashboard".to_owned(),
            look.generated.as_deref(),
        ),
        false => {
            let heading = look.heading.as_deref().unwrap_or("rocPD query");
            (escaped(heading), None)
        }
    };
    let time = time.map_or(String::new(), |time| format!("<p>Generated: {time}</p>\n"));
    format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{title}</title>\n\
         <style>body{{font-family:sans-serif;margin:2em}}table{{border-collapse:collapse}}td,th{{padding:.3em .6em}}\
         tr:nth-child(even){{background:#f4f4f4}}</style>\n</head>\n<body>\n<h1>{title}</h1>\n\
         {time}{table}</body>\n</html>\n"
    )
}
