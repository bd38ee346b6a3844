//! Lines of canonical rows, whatever a line looks like.

use byte_source::Source;

use crate::access::Access;
use crate::error::{Error, Result};
use crate::lines::{Line, Lines};
use crate::perf_text::Skip;
use crate::report::ReadReport;

const BATCH_ROWS: usize = 16_384;

/// Reads lines that are rows. One that is none is an error: rows are written by programs.
#[derive(Debug)]
pub(crate) struct RowLines {
    lines: Lines,
    line: Vec<u8>,
    /// Maximum number of MiB of a line.
    most_mib: usize,
    report: ReadReport,
}

impl RowLines {
    pub(crate) fn new(source: Source, format: &'static str, most_mib: usize) -> Result<Self> {
        Ok(Self {
            lines: Lines::new(source, most_mib << 20)?,
            line: Vec::new(),
            most_mib,
            report: ReadReport::new(format, "unknown"),
        })
    }

    /// The line that was read last, without its end.
    pub(crate) fn line(&self) -> &[u8] {
        &self.line
    }

    /// Reads a line; says whether there was one.
    pub(crate) fn read(&mut self) -> Result<bool> {
        let found = self.lines.read(&mut self.line)?;
        if found == Line::End {
            return Ok(false);
        }
        self.report.lines += 1;
        if found == Line::Overlong {
            return Err(self.bad(format!("a line of more than {} MiB", self.most_mib)));
        }
        if self.line.last() == Some(&b'\r') {
            self.line.pop();
        }
        Ok(true)
    }

    /// What is wrong with the line.
    pub(crate) fn bad(&self, what: impl Into<String>) -> Error {
        Error::Row {
            name: self.lines.name().to_owned(),
            line: self.report.lines,
            what: what.into(),
        }
    }

    /// Columns that the line does not have, and those that it has.
    pub(crate) fn missing(&self, missing: &[&str], mut present: Vec<&str>) -> Error {
        present.sort_unstable();
        Error::MissingColumns {
            name: self.lines.name().to_owned(),
            line: self.report.lines,
            missing: missing.join(", "),
            present: present.join(", "),
        }
    }

    /// Appends the next rows; `false` when there are none.
    pub(crate) fn next_batch(
        &mut self,
        rows: &mut Vec<Access>,
        mut row: impl FnMut(&Self) -> Result<Access>,
    ) -> Result<bool> {
        let before = rows.len();
        for _ in 0..BATCH_ROWS {
            if !self.read()? {
                return Ok(rows.len() > before);
            }
            if self.line.iter().all(u8::is_ascii_whitespace) {
                self.report.skip(Skip::Blank, self.report.lines);
                continue;
            }
            rows.push(row(self)?);
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
