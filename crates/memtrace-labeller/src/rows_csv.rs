//! Canonical rows as CSV with a header (RFC 4180, without line ends inside of cells).

use std::borrow::Cow;

use byte_source::Source;

use crate::access::Access;
use crate::columns::{self, Cell};
use crate::error::Result;
use crate::names::Names;
use crate::report::ReadReport;
use crate::row_lines::RowLines;
use crate::rows_json::Row;

/// Longer lines are no rows.
const MAX_LINE_MIB: usize = 1;
const OPEN_QUOTE: &str = "a quote that does not end";

/// Whether a text begins with a header that has the columns of rows.
pub(crate) fn is_header(head: &[u8]) -> bool {
    let line = head.split(|byte| matches!(byte, b'\n' | b'\r')).next();
    let line = String::from_utf8_lossy(line.unwrap_or_default());
    let cells = cells(&line);
    let has = |name: &str| {
        cells
            .as_ref()
            .is_some_and(|cells| cells.iter().any(|cell| cell == name))
    };
    has("timestamp_ns") && has("address")
}

/// The cells of a line; `None` when a quote does not end.
fn cells(line: &str) -> Option<Vec<Cow<'_, str>>> {
    let mut cells = Vec::new();
    let mut rest = line;
    loop {
        let (cell, after) = match rest.strip_prefix('"') {
            None => {
                let end = rest.find(',').unwrap_or(rest.len());
                let (cell, after) = rest.split_at(end);
                (Cow::Borrowed(cell), after)
            }
            Some(quoted) => {
                let mut text = String::new();
                let mut rest = quoted;
                loop {
                    let (part, after) = rest.split_once('"')?;
                    text.push_str(part);
                    match after.strip_prefix('"') {
                        Some(more) => {
                            text.push('"');
                            rest = more;
                        }
                        None => break (Cow::Owned(text), after),
                    }
                }
            }
        };
        cells.push(cell);
        match after.strip_prefix(',') {
            Some(more) => rest = more,
            None => return after.is_empty().then_some(cells),
        }
    }
}

/// Reads canonical rows from CSV; what holds for columns is what holds for rows as JSON, and an empty cell is a null.
#[derive(Debug)]
pub(crate) struct CsvRows {
    lines: RowLines,
    /// Place of each column of the file among those of a row; `None` for one that is not known.
    columns: Vec<Option<usize>>,
}

impl CsvRows {
    pub(crate) fn new(source: Source) -> Result<Self> {
        let mut lines = RowLines::new(source, "rows-csv", MAX_LINE_MIB)?;
        let columns = match lines.read()? {
            true => header(&lines)?,
            false => Vec::new(),
        };
        Ok(Self { lines, columns })
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        let columns = &self.columns;
        self.lines
            .next_batch(rows, |lines| row(lines, columns, names))
    }

    pub(crate) fn report(&self) -> ReadReport {
        self.lines.report()
    }
}

/// The place of each column that the header names.
fn header(lines: &RowLines) -> Result<Vec<Option<usize>>> {
    let line = String::from_utf8_lossy(lines.line());
    let names = cells(&line).ok_or_else(|| lines.bad(OPEN_QUOTE))?;
    let columns: Vec<Option<usize>> = names.iter().map(|name| columns::place(name)).collect();
    let mut row = Row::default();
    for column in columns.iter().flatten() {
        row.set(*column, Cow::Borrowed(""))
            .map_err(|what| lines.bad(what))?;
    }
    let missing = row.missing();
    if !missing.is_empty() {
        return Err(lines.missing(&missing, names.iter().map(|name| &**name).collect()));
    }
    Ok(columns)
}

fn row(lines: &RowLines, columns: &[Option<usize>], names: &mut Names) -> Result<Access> {
    let line = String::from_utf8_lossy(lines.line());
    let cells = cells(&line).ok_or_else(|| lines.bad(OPEN_QUOTE))?;
    if cells.len() != columns.len() {
        let (found, wanted) = (cells.len(), columns.len());
        return Err(lines.bad(format!("{found} cells where the header has {wanted}")));
    }
    let mut row = Row::default();
    for (cell, column) in cells.into_iter().zip(columns) {
        if let Some(column) = column {
            row.set(*column, cell).map_err(|what| lines.bad(what))?;
        }
    }
    Ok(row.access(names))
}

/// The line of column names, with its end: those of every trace, and with `hardware` those of ours behind them.
#[must_use]
pub fn csv_header(hardware: bool) -> String {
    let names: Vec<&str> = columns::all().take(columns::count(hardware)).collect();
    format!("{}\n", names.join(","))
}

/// Appends a row as a line of CSV, the columns in the order of [`csv_header`]; nulls are empty.
///
/// ```
/// use memtrace_labeller::{Access, Names, csv_header, push_csv_row};
/// let mut text = csv_header(false).into_bytes();
/// push_csv_row(&Access::new(5, 0x1000), &Names::new(), false, &mut text);
/// assert!(text.ends_with(b"\n,0,5,,4096,1,load,,,unknown,0,,,,,,,\n"));
/// assert!(csv_header(true).contains(",latency_cycles,remote,hops,"));
/// ```
pub fn push_csv_row(row: &Access, names: &Names, hardware: bool, out: &mut Vec<u8>) {
    let mut is_first = true;
    for cell in columns::cells(row, names)
        .into_iter()
        .take(columns::count(hardware))
    {
        if !std::mem::take(&mut is_first) {
            out.push(b',');
        }
        match cell {
            Cell::Null => {}
            Cell::Number(number) => out.extend_from_slice(number.to_string().as_bytes()),
            Cell::Text(text) if text.contains([',', '"', '\n', '\r']) => {
                // A line end would end the row, and no symbol has one.
                let text = text.replace(['\n', '\r'], " ").replace('"', "\"\"");
                out.extend_from_slice(format!("\"{text}\"").as_bytes());
            }
            Cell::Text(text) | Cell::Wide(text) => out.extend_from_slice(text.as_bytes()),
        }
    }
    out.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_with_and_without_quotes() {
        let of = |line| cells(line).map(|cells| cells.join("|"));
        assert_eq!(of(""), Some(String::new()));
        assert_eq!(of("a,,b,"), Some("a||b|".to_owned()));
        assert_eq!(of("\"a,b\",\"c\"\"d\",e"), Some("a,b|c\"d|e".to_owned()));
        assert_eq!(of("\"a"), None);
        assert_eq!(of("\"a\"b"), None);
    }
}
