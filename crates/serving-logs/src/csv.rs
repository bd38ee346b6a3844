//! Parses comma-separated values with quoted cells, which may contain line ends.

use crate::Error;

/// A table with a header line.
pub(crate) struct Table<'t> {
    names: Vec<String>,
    rest: Records<'t>,
}

struct Records<'t> {
    text: &'t str,
    comma: char,
    /// Number of lines read so far.
    lines: usize,
}

impl<'t> Records<'t> {
    fn next(&mut self) -> Option<Vec<String>> {
        if self.text.is_empty() {
            return None;
        }
        let mut cells = vec![String::new()];
        let mut quoted = false;
        let mut chars = self.text.char_indices().peekable();
        let mut end = self.text.len();
        while let Some((i, c)) = chars.next() {
            let cell = cells.last_mut()?;
            match c {
                '"' if quoted && chars.peek().is_some_and(|n| n.1 == '"') => {
                    cell.push('"');
                    chars.next();
                }
                '"' => quoted = !quoted,
                c if c == self.comma && !quoted => cells.push(String::new()),
                '\r' if !quoted => {}
                '\n' if !quoted => {
                    end = i + 1;
                    break;
                }
                c => cell.push(c),
            }
        }
        self.lines += self.text[..end].lines().count();
        self.text = &self.text[end..];
        Some(cells)
    }
}

impl<'t> Table<'t> {
    pub(crate) fn new(text: &'t str) -> Self {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        // Where a comma is the decimal sign, spreadsheets write semicolons.
        let first = text.lines().next().unwrap_or("");
        let comma = match first.contains(';') && !first.contains(',') {
            true => ';',
            false => ',',
        };
        let mut rest = Records {
            text,
            comma,
            lines: 0,
        };
        let names = rest.next().unwrap_or_default();
        Self { names, rest }
    }

    pub(crate) fn column(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n.trim() == name)
    }

    pub(crate) fn needs(&self, column: &'static str) -> Result<usize, Error> {
        self.column(column).ok_or(Error::NoColumn { column })
    }

    /// Returns the line, from 1, in which the last row ends.
    pub(crate) fn line(&self) -> usize {
        self.rest.lines
    }

    /// Returns the next row; empty lines are skipped.
    pub(crate) fn row(&mut self) -> Option<Vec<String>> {
        loop {
            let row = self.rest.next()?;
            if row.len() > 1 || row.first().is_some_and(|c| !c.is_empty()) {
                return Some(row);
            }
        }
    }
}

/// Returns the cell of a column, empty if there is none.
pub(crate) fn cell(row: &[String], column: Option<usize>) -> &str {
    column
        .and_then(|c| row.get(c))
        .map_or("", String::as_str)
        .trim()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_hold_commas_quotes_and_lines() {
        let mut table = Table::new("\u{feff}a,b\r\n\"x,\"\"y\"\"\nz\",2\n\n3,4");
        assert_eq!((table.column("a"), table.column("b")), (Some(0), Some(1)));
        assert_eq!(table.row().unwrap(), ["x,\"y\"\nz", "2"]);
        assert_eq!(table.row().unwrap(), ["3", "4"]);
        assert!(table.row().is_none());
    }
}
