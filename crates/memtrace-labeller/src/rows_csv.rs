//! Canonical rows as CSV with a header (RFC 4180, without line ends inside of cells).

use std::borrow::Cow;

use byte_source::Source;

use crate::access::Access;
use crate::columns::{self, Cell};
use crate::error::{Error, Result};
use crate::lines::{Line, Lines};
use crate::names::Names;
use crate::perf_text::Skip;
use crate::report::ReadReport;
use crate::rows_json::Row;

const BATCH_ROWS: usize = 16_384;
/// Longer lines are no rows.
const MAX_LINE: usize = 1 << 20;

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
    lines: Lines,
    line: Vec<u8>,
    /// Place of each column of the file among those of a row; `None` for one that is not known.
    columns: Vec<Option<usize>>,
    report: ReadReport,
}

impl CsvRows {
    pub(crate) fn new(source: Source) -> Result<Self> {
        let mut rows = Self {
            lines: Lines::new(source, MAX_LINE)?,
            line: Vec::new(),
            columns: Vec::new(),
            report: ReadReport::new("rows-csv", "unknown"),
        };
        if rows.read()? {
            rows.header()?;
        }
        Ok(rows)
    }

    fn bad(&self, what: impl Into<String>) -> Error {
        Error::Row {
            name: self.lines.name().to_owned(),
            line: self.report.lines,
            what: what.into(),
        }
    }

    /// Reads a line; says whether there was one.
    fn read(&mut self) -> Result<bool> {
        let found = self.lines.read(&mut self.line)?;
        if found == Line::End {
            return Ok(false);
        }
        self.report.lines += 1;
        if found == Line::Overlong {
            return Err(self.bad("a line of more than 1 MiB"));
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(true)
    }

    fn header(&mut self) -> Result<()> {
        let line = String::from_utf8_lossy(&self.line);
        let names = cells(&line).ok_or_else(|| self.bad("a quote that does not end"))?;
        let columns: Vec<Option<usize>> = names.iter().map(|name| columns::place(name)).collect();
        let mut row = Row::default();
        for column in columns.iter().flatten() {
            row.set(*column, Cow::Borrowed(""))
                .map_err(|what| self.bad(what))?;
        }
        let missing = row.missing();
        if !missing.is_empty() {
            let mut present: Vec<&str> = names.iter().map(|name| &**name).collect();
            present.sort_unstable();
            return Err(Error::MissingColumns {
                name: self.lines.name().to_owned(),
                line: self.report.lines,
                missing: missing.join(", "),
                present: present.join(", "),
            });
        }
        self.columns = columns;
        Ok(())
    }

    fn row(&self, names: &mut Names) -> Result<Access> {
        let line = String::from_utf8_lossy(&self.line);
        let cells = cells(&line).ok_or_else(|| self.bad("a quote that does not end"))?;
        if cells.len() != self.columns.len() {
            let (found, wanted) = (cells.len(), self.columns.len());
            return Err(self.bad(format!("{found} cells where the header has {wanted}")));
        }
        let mut row = Row::default();
        for (cell, column) in cells.into_iter().zip(&self.columns) {
            if let Some(column) = column {
                row.set(*column, cell).map_err(|what| self.bad(what))?;
            }
        }
        Ok(row.access(names))
    }

    pub(crate) fn next_batch(&mut self, names: &mut Names, rows: &mut Vec<Access>) -> Result<bool> {
        for _ in 0..BATCH_ROWS {
            if !self.read()? {
                return Ok(false);
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                self.report.skip(Skip::Blank, self.report.lines);
                continue;
            }
            rows.push(self.row(names)?);
            self.report.rows += 1;
        }
        Ok(true)
    }

    pub(crate) fn report(&self) -> ReadReport {
        let mut report = self.report.clone();
        report.damage = self.lines.damage();
        report
    }
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
