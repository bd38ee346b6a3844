//! Runs the binary and reads its output.

use std::path::Path;
use std::process::{Command, Output};

pub(crate) fn trace_info() -> Command {
    Command::new(env!("CARGO_BIN_EXE_trace-info"))
}

pub(crate) fn run<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> Output {
    trace_info().args(words).output().unwrap()
}

/// A CSV with its header.
#[derive(Debug)]
pub(crate) struct Csv {
    pub(crate) columns: Vec<String>,
    pub(crate) rows: Vec<Vec<String>>,
}

impl Csv {
    pub(crate) fn parse(text: &str) -> Self {
        let mut rows = parse_rows(text).into_iter();
        Self {
            columns: rows.next().unwrap_or_default(),
            rows: rows.collect(),
        }
    }

    /// Returns one column.
    pub(crate) fn column(&self, name: &str) -> Vec<&str> {
        let at = self.at(name);
        self.rows.iter().map(|row| row[at].as_str()).collect()
    }

    pub(crate) fn at(&self, name: &str) -> usize {
        self.columns.iter().position(|c| c == name).unwrap()
    }
}

fn parse_rows(text: &str) -> Vec<Vec<String>> {
    let mut rows = Vec::new();
    let mut row = Vec::new();
    let mut field = String::new();
    let mut quoted = false;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => row.push(std::mem::take(&mut field)),
            '\n' if !quoted => {
                row.push(std::mem::take(&mut field));
                rows.push(std::mem::take(&mut row));
            }
            c => field.push(c),
        }
    }
    assert!(
        row.is_empty() && field.is_empty(),
        "the last line has no end"
    );
    rows
}

/// Returns a table of `trace` as written by the binary.
pub(crate) fn table(trace: &Path, table: &str, more: &[&str]) -> Csv {
    let mut words = vec!["tables", trace.to_str().unwrap(), "--table", table];
    words.extend_from_slice(more);
    let output = run(words);
    assert!(
        output.status.success(),
        "{} {table}: {}",
        trace.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    Csv::parse(std::str::from_utf8(&output.stdout).unwrap())
}
