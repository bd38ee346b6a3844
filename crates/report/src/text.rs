//! Writes tables as text: aligned columns on a terminal, or Markdown.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::Write;

use unicode_width::UnicodeWidthChar;

use crate::cell::Cell;
use crate::column::{Align, Column, Kind, RealFormat};
use crate::error::{Error, Result};
use crate::human;
use crate::number::real_text;
use crate::sink::RowSink;
use crate::table::Table;

/// Layout of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TextOptions {
    /// Width of the terminal in columns. Text columns are shortened in the middle until lines fit;
    /// numbers are not, so lines may still be longer. `None` shortens nothing.
    pub width: Option<usize>,
    /// Scales numbers by their units (`1.235 ms`) instead of writing them plain (`1234567`).
    pub human: bool,
    /// Writes a Markdown table.
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

/// Minimum width of a shortened text column.
const NARROWEST: usize = 8;
const GAP: usize = 2;

impl Table {
    /// Returns the table as text.
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
        let all = |index: usize| {
            let column = &self.columns()[index];
            (0..self.rows())
                .map(|row| shown(column, self.cell(row, index).unwrap_or_default(), options))
                .collect::<Vec<String>>()
        };
        let cells: Vec<Vec<String>> = (0..self.columns().len())
            .map(|index| match self.columns()[index].kind() {
                Kind::Text if !options.markdown => shorten_all(&all(index), widths[index]),
                _ => all(index),
            })
            .collect();
        (0..self.rows()).for_each(|row| {
            line(&mut out, self.columns(), &widths, options, |index| {
                cells[index][row].as_str().into()
            });
        });
        out
    }
}

/// Collects rows and writes them as text on [`RowSink::finish`], because widths depend on all rows.
/// Memory grows with the table.
#[derive(Debug)]
pub struct TextWriter<W> {
    out: W,
    options: TextOptions,
    table: Option<Table>,
    finished: bool,
}

impl<W: Write> TextWriter<W> {
    /// Creates a writer to `out`.
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

/// Makes text safe for a terminal: control characters, line and paragraph separators, and invisible
/// characters that reorder or hide text become escapes (`\n`, `\x1b`, `\u{202e}`). Borrowed if
/// there is nothing to escape.
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

/// Returns the width of a text in terminal columns.
fn width(text: &str) -> usize {
    text.chars().map(|c| c.width().unwrap_or(0)).sum()
}

/// Breaks a text at blanks into lines of at most `width` characters; a longer word stays whole.
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

/// Cuts out the middle so that at most `limit` terminal columns remain.
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

/// Shortens texts so that each takes at most `limit` terminal columns and different texts stay
/// different: texts that would look the same when cut in the middle keep the words in which they
/// differ. Texts that cannot be distinguished within `limit` columns are cut as by [`shorten`].
///
/// Cost: quadratic in the number of texts that look equal when cut.
///
/// ```
/// let texts = ["gemm_bf16_tile64x64_stage4_warp2", "gemm_bf16_tile64x32_stage4_warp2"].map(String::from);
/// assert_eq!(report::text::shorten_all(&texts, 20), ["gemm…tile64x64…", "gemm…tile64x32…"]);
/// ```
#[must_use]
pub fn shorten_all(texts: &[String], limit: usize) -> Vec<String> {
    let mut cut: Vec<String> = texts
        .iter()
        .map(|text| shorten(text, limit).into_owned())
        .collect();
    let mut groups: BTreeMap<String, BTreeMap<&str, Vec<usize>>> = BTreeMap::new();
    for (at, (text, cut)) in texts.iter().zip(&cut).enumerate() {
        let group = groups.entry(cut.clone()).or_default();
        group.entry(text).or_default().push(at);
    }
    for group in groups.into_values().filter(|group| group.len() > 1) {
        let same: Vec<&str> = group.keys().copied().collect();
        let labels: Vec<String> = same.iter().map(|text| window(text, &same, limit)).collect();
        let mut distinct = labels.clone();
        distinct.sort_unstable();
        distinct.dedup();
        if distinct.len() < labels.len() {
            continue;
        }
        for (places, label) in group.values().zip(labels) {
            for place in places {
                cut[*place].clone_from(&label);
            }
        }
    }
    cut
}

/// Returns the start of `text` and the words in which it differs from one of `others`, with `…` for
/// the omitted parts.
fn window(text: &str, others: &[&str], limit: usize) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut kept = vec![false; chars.len()];
    let head = limit / 5;
    kept.iter_mut().take(head).for_each(|kept| *kept = true);
    let is_word = |at: usize| chars.get(at).is_some_and(|c| c.is_alphanumeric());
    for other in others.iter().filter(|other| **other != text) {
        let same = chars
            .iter()
            .zip(other.chars())
            .take_while(|(a, b)| **a == *b);
        let differs = same.count();
        let mut start = differs.min(chars.len());
        while start > 0 && is_word(start - 1) {
            start -= 1;
        }
        let mut end = differs;
        while is_word(end) {
            end += 1;
        }
        let end = end.max(differs + 1).min(chars.len());
        kept[start..end].iter_mut().for_each(|kept| *kept = true);
    }
    let mut out = String::new();
    let mut used = 0;
    let mut gap = false;
    for (at, c) in chars.iter().enumerate() {
        if !kept[at] {
            gap = true;
            continue;
        }
        let columns = c.width().unwrap_or(0) + usize::from(gap);
        if used + columns + 1 > limit {
            gap = true;
            break;
        }
        if std::mem::take(&mut gap) {
            out.push('…');
        }
        out.push(*c);
        used += columns;
    }
    if gap {
        out.push('…');
    }
    out
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

/// Reduces text columns to a common width, widest first, until the line fits.
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
