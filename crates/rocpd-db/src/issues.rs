//! What was odd about the data and not worth an error.

use std::sync::{Mutex, PoisonError};

/// Rows that were left out because a value had the wrong type, or values that were not read.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Issue {
    /// The file.
    pub file: String,
    /// The table.
    pub table: String,
    /// The column.
    pub column: String,
    /// Row id of the first such row.
    pub first_rowid: i64,
    /// What the first such row has there.
    pub found: String,
    /// How many rows.
    pub count: u64,
    /// `true` if only the value was not read, and the row counts without it.
    pub only_value: bool,
}

impl std::fmt::Display for Issue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{}: {} rows of {} {}: column {} has {} in row {}{}",
            self.file,
            self.count,
            self.table,
            if self.only_value {
                "read without a value"
            } else {
                "left out"
            },
            self.column,
            self.found,
            self.first_rowid,
            if self.count > 1 {
                ", and others like it"
            } else {
                ""
            }
        )
    }
}

/// Counted by place.
#[derive(Debug, Default)]
pub(crate) struct Issues(Mutex<Vec<Issue>>);

impl Issues {
    pub(crate) fn bad_value(
        &self,
        place: (&str, &str, &str),
        rowid: i64,
        found: impl FnOnce() -> String,
    ) {
        self.add(place, rowid, false, found);
    }

    /// A value that is not read, in a row that counts without it.
    pub(crate) fn unread_value(&self, place: (&str, &str, &str), rowid: i64, found: &str) {
        self.add(place, rowid, true, || found.to_owned());
    }

    fn add(
        &self,
        (file, table, column): (&str, &str, &str),
        rowid: i64,
        only_value: bool,
        found: impl FnOnce() -> String,
    ) {
        let mut issues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |issue: &&mut Issue| {
            issue.file == file
                && issue.table == table
                && issue.column == column
                && issue.only_value == only_value
        };
        if let Some(issue) = issues.iter_mut().find(same) {
            issue.count += 1;
            return;
        }
        issues.push(Issue {
            file: file.to_owned(),
            table: table.to_owned(),
            column: column.to_owned(),
            first_rowid: rowid,
            found: found(),
            count: 1,
            only_value,
        });
    }

    pub(crate) fn list(&self) -> Vec<Issue> {
        let mut list = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone();
        list.sort_by(|a, b| (&a.file, &a.table, &a.column).cmp(&(&b.file, &b.table, &b.column)));
        list
    }
}
