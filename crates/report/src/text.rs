//! Tables for people: aligned columns on a terminal, or Markdown.

use std::borrow::Cow;
use std::io::Write;

use unicode_width::UnicodeWidthChar;

use crate::cell::Cell;
use crate::column::{Align, Column, Kind, RealFormat};
use crate::error::{Error, Result};
use crate::human;
use crate::number::real_text;
use crate::sink::RowSink;
use crate::table::Table;

/// How text is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Columns of the terminal. Text columns are cut in the middle until lines fit, numbers never are, so lines may still
    /// be longer. `None` cuts nothing.
    pub width: Option<usize>,
    /// Scale numbers by their units (`1.235 ms`) instead of writing them bare (`1234567`).
    pub human: bool,
    /// Write a Markdown table.
    pub markdown: bool,
}

impl Default for TextOptions {
    fn default() -> Self {
        Self {
            width: None,
            human: true,
            markdown: false,
        }
    }
}

/// Text columns are not cut below this many terminal columns.
const NARROWEST: usize = 8;
const GAP: usize = 2;

impl Table {
    /// The table as text.
    #[must_use]
    pub fn to_text(&self, options: &TextOptions) -> String {
        let mut widths: Vec<usize> = self
            .columns()
            .iter()
            .map(|c| width(&heading(c, options)))
            .collect();
        for row in 0..self.rows() {
            for (index, column) in self.columns().iter().enumerate() {
                let text = shown(column, self.cell(row, index).unwrap_or_default(), options);
                widths[index] = widths[index].max(width(&text));
            }
        }
        if options.markdown {
            widths.iter_mut().for_each(|w| *w = (*w).max(3));
        } else if let Some(limit) = options.width {
            narrow(&mut widths, self.columns(), limit);
        }

        let mut out = String::new();
        let headings: Vec<String> = self.columns().iter().map(|c| heading(c, options)).collect();
        line(&mut out, self.columns(), &widths, options, |index| {
            headings[index].as_str().into()
        });
        if options.markdown {
            for (column, width) in self.columns().iter().zip(&widths) {
                let dashes = "-".repeat(width - 1);
                out.push_str(&match column.alignment() {
                    Align::Left => format!("| :{dashes} "),
                    Align::Right => format!("| {dashes}: "),
                });
            }
            out.push_str("|\n");
        } else {
            let rules: Vec<String> = widths.iter().map(|w| "─".repeat(*w)).collect();
            out.push_str(&rules.join(&" ".repeat(GAP)));
            out.push('\n');
            if self.rows() == 0 {
                out.push_str("(no rows)\n");
            }
        }
        for row in 0..self.rows() {
            line(&mut out, self.columns(), &widths, options, |index| {
                shown(
                    &self.columns()[index],
                    self.cell(row, index).unwrap_or_default(),
                    options,
                )
                .into()
            });
        }
        out
    }
}

/// Gathers rows and writes them as text on [`RowSink::finish`], because widths depend on all rows: memory grows with the
/// table.
#[derive(Debug)]
pub struct TextWriter<W> {
    out: W,
    options: TextOptions,
    table: Option<Table>,
    finished: bool,
}

impl<W: Write> TextWriter<W> {
    /// A writer to `out`.
    pub fn new(out: W, options: TextOptions) -> Self {
        Self {
            out,
            options,
            table: None,
            finished: false,
        }
    }
}

impl<W: Write> RowSink for TextWriter<W> {
    fn begin(&mut self, columns: &[Column]) -> Result<()> {
        if self.table.is_some() || self.finished {
            return Err(Error::OutOfOrder { call: "begin" });
        }
        self.table = Some(Table::new("", columns.to_vec())?);
        Ok(())
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        self.table
            .as_mut()
            .ok_or(Error::OutOfOrder { call: "row" })?
            .push(cells)
    }

    fn finish(&mut self) -> Result<()> {
        let table = self
            .table
            .take()
            .ok_or(Error::OutOfOrder { call: "finish" })?;
        self.finished = true;
        self.out
            .write_all(table.to_text(&self.options).as_bytes())?;
        Ok(self.out.flush()?)
    }
}

/// Text made harmless for a terminal: control characters, line and paragraph separators, and the invisible characters that
/// reorder or hide text are written as escapes (`\n`, `\x1b`, `\u{202e}`). Borrowed when there is nothing to escape.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.chars().any(needs_escape) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        match c {
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            c if c.is_ascii_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c if needs_escape(c) => out.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
            c => out.push(c),
        }
    }
    Cow::Owned(out)
}

fn needs_escape(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Terminal columns a text takes.
fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// The lines of a text that is broken at blanks into such of `width` characters; a longer word stays
/// whole.
///
/// ```
/// assert_eq!(report::text::wrapped("one two three", 8), ["one two", "three"]);
/// ```
pub fn wrapped(text: &str, width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split_whitespace() {
        if !line.is_empty() && line.chars().count() + 1 + word.chars().count() > width {
            lines.push(std::mem::take(&mut line));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

/// Cuts the middle out so that at most `limit` terminal columns remain.
///
/// ```
/// assert_eq!(report::text::shorten("abcdefghij", 7), "abc…hij");
/// ```
#[must_use]
pub fn shorten(text: &str, limit: usize) -> Cow<'_, str> {
    if width(text) <= limit {
        return Cow::Borrowed(text);
    }
    let room = limit.saturating_sub(1);
    let tail_room = room / 2;
    let mut head = String::new();
    let mut used = 0;
    for c in text.chars() {
        let next = used + c.width().unwrap_or(0);
        if next > room - tail_room {
            break;
        }
        head.push(c);
        used = next;
    }
    let mut tail = Vec::new();
    let mut used = 0;
    for c in text.chars().rev() {
        let next = used + c.width().unwrap_or(0);
        if next > tail_room {
            break;
        }
        tail.push(c);
        used = next;
    }
    head.push('…');
    head.extend(tail.into_iter().rev());
    Cow::Owned(head)
}

fn heading(column: &Column, options: &TextOptions) -> String {
    let text = if options.human {
        column.heading()
    } else {
        column.name()
    };
    escape(text, options)
}

fn shown(column: &Column, cell: Cell<'_>, options: &TextOptions) -> String {
    match cell {
        Cell::Text(text) => escape(text, options),
        Cell::Real(value) if !options.human => {
            real_text(value, column.real_format().unwrap_or(RealFormat::Shortest))
        }
        Cell::Int(value) if !options.human => value.to_string(),
        Cell::UInt(value) if !options.human => value.to_string(),
        cell => human::cell(column, cell),
    }
}

fn escape(text: &str, options: &TextOptions) -> String {
    let text = printable(text);
    if !options.markdown {
        return text.into_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        if matches!(
            c,
            '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '&' | '$'
        ) {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

/// Takes columns of text down to a common width, widest first, until the line fits.
fn narrow(widths: &mut [usize], columns: &[Column], limit: usize) {
    let gaps = GAP * widths.len().saturating_sub(1);
    loop {
        let total = widths.iter().sum::<usize>() + gaps;
        let texts = || {
            columns
                .iter()
                .zip(widths.iter())
                .enumerate()
                .filter(|(_, (c, _))| c.kind() == Kind::Text)
        };
        let Some((widest, most)) = texts()
            .map(|(i, (_, w))| (i, *w))
            .max_by_key(|&(i, w)| (w, usize::MAX - i))
        else {
            return;
        };
        if total <= limit || most <= NARROWEST {
            return;
        }
        let next = texts()
            .map(|(_, (_, w))| *w)
            .filter(|w| *w < most)
            .max()
            .unwrap_or(0);
        let tied = texts().filter(|(_, (_, w))| **w == most).count();
        let step = if tied > 1 { 1 } else { most - next };
        widths[widest] = most - step.min(total - limit).min(most - NARROWEST).max(1);
    }
}

fn line<'a>(
    out: &mut String,
    columns: &[Column],
    widths: &[usize],
    options: &TextOptions,
    text: impl Fn(usize) -> Cow<'a, str>,
) {
    for (index, (column, limit)) in columns.iter().zip(widths).enumerate() {
        let text = text(index);
        let text = shorten(&text, *limit);
        if options.markdown {
            out.push_str("| ");
        } else if index > 0 {
            out.push_str(&" ".repeat(GAP));
        }
        let pad = " ".repeat(limit.saturating_sub(width(&text)));
        if column.alignment() == Align::Right {
            out.push_str(&pad);
        }
        out.push_str(&text);
        if column.alignment() == Align::Left {
            out.push_str(&pad);
        }
        if options.markdown {
            out.push(' ');
        }
    }
    if options.markdown {
        out.push('|');
    } else {
        out.truncate(out.trim_end_matches(' ').len());
    }
    out.push('\n');
}
