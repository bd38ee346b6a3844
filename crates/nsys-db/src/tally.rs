//! What is counted of rows, on whatever thread they are read.

use sqlite_scan::Value;
use trace_model::{Diagnostics, IssueKind, Place, is_plausible};

/// A time span of a row.
pub(crate) enum Span {
    /// Start or end is no integer, or the end is before the start; counted.
    Bad,
    /// It ended before the collection started.
    Early(i64, i64),
    /// In the collection.
    Within(i64, i64),
}

/// Counts of rows, and the issues found in them.
pub(crate) struct Tally {
    /// Start of the collection.
    pub(crate) start_ns: i64,
    places: usize,
    /// Rows left out because they ended before the collection.
    pub(crate) before: u64,
    /// Rows left out because their time is none.
    pub(crate) bad: u64,
    /// First start and last end of rows.
    pub(crate) extent: Option<(i64, i64)>,
    pub(crate) diagnostics: Diagnostics,
}

impl Tally {
    pub(crate) fn new(start_ns: i64, places: usize) -> Self {
        Self {
            start_ns,
            places,
            before: 0,
            bad: 0,
            extent: None,
            diagnostics: Diagnostics::with_places(places),
        }
    }

    /// Returns an empty one for a part of the rows.
    pub(crate) fn fresh(&self) -> Self {
        Self::new(self.start_ns, self.places)
    }

    /// Adds the counts of later rows.
    pub(crate) fn absorb(&mut self, later: Self) {
        self.before += later.before;
        self.bad += later.bad;
        if let Some((first, last)) = later.extent {
            self.extend(first, last);
        }
        self.diagnostics.merge(later.diagnostics);
    }

    /// Checks start and end of a row, and counts what cannot be used.
    pub(crate) fn span(&mut self, table: &str, row: i64, start: Value<'_>, end: Value<'_>) -> Span {
        let (Some(from), Some(to)) = (start.as_int(), end.as_int()) else {
            let column = match start.as_int() {
                None => "start",
                Some(_) => "end",
            };
            self.bad_value(table, row, column);
            return Span::Bad;
        };
        if to < from {
            let detail = format!("table {table}, row {row}: end before start");
            self.diagnostics
                .note(IssueKind::NegativeDuration, place(row), detail);
            return Span::Bad;
        }
        if !is_plausible(from, to) {
            self.far_time(table, row);
            return Span::Bad;
        }
        if to < self.start_ns {
            return Span::Early(from, to);
        }
        Span::Within(from, to)
    }

    /// Checks a row, and counts it if it ended before the collection.
    pub(crate) fn within(
        &mut self,
        table: &str,
        row: i64,
        start: Value<'_>,
        end: Value<'_>,
    ) -> Option<(i64, i64)> {
        match self.span(table, row, start, end) {
            Span::Within(start, end) => Some((start, end)),
            Span::Early(..) => {
                self.before += 1;
                None
            }
            Span::Bad => None,
        }
    }

    pub(crate) fn bad_value(&mut self, table: &str, row: i64, column: &str) {
        self.bad_row(table, row, &format!("{column} is no integer"));
    }

    /// Counts a row at a time, or of a duration, that no recording can have.
    pub(crate) fn far_time(&mut self, table: &str, row: i64) {
        self.bad_row(table, row, "start or end is no possible time");
    }

    fn bad_row(&mut self, table: &str, row: i64, why: &str) {
        self.bad += 1;
        // The value itself may be anything, so it is not repeated.
        let detail = format!("table {table}, row {row}: {why}");
        self.diagnostics
            .note(IssueKind::BadValue, place(row), detail);
    }

    pub(crate) fn extend(&mut self, start: i64, end: i64) {
        self.extent = Some(match self.extent {
            Some((first, last)) => (first.min(start), last.max(end)),
            None => (start, end),
        });
    }
}

fn place(row: i64) -> Place {
    Place::Row(u64::try_from(row).unwrap_or(0))
}
