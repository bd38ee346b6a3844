//! The tables of several recordings as one.

use report::{Cell, Column, RowSink};

/// Joins the tables of several recordings, with a first column `trace` that names the recording of each row.
///
/// ```
/// use report::{Cell, Column, CsvOptions, CsvWriter, RowSink};
/// use trace_report::Joined;
///
/// let mut out = Vec::new();
/// let mut sink = CsvWriter::new(&mut out, CsvOptions::default());
/// let mut joined = Joined::new(&mut sink);
/// for name in ["a", "b"] {
///     joined.next_trace(name);
///     joined.begin(&[Column::uint("ts_ns")])?;
///     joined.row(&[Cell::UInt(7)])?;
///     joined.finish()?;
/// }
/// joined.end()?;
/// drop(sink);
/// assert_eq!(out, b"trace,ts_ns\na,7\nb,7\n");
/// # Ok::<(), report::Error>(())
/// ```
pub struct Joined<'s> {
    sink: &'s mut dyn RowSink,
    trace: String,
    has_begun: bool,
}

impl<'s> Joined<'s> {
    /// Creates a table that is written to `sink`.
    pub fn new(sink: &'s mut dyn RowSink) -> Self {
        Self {
            sink,
            trace: String::new(),
            has_begun: false,
        }
    }

    /// Sets the name of the recording whose rows follow.
    pub fn next_trace(&mut self, name: impl Into<String>) {
        self.trace = name.into();
    }

    /// Ends the table of all recordings.
    ///
    /// # Errors
    ///
    /// Returns an error if the sink cannot be written.
    pub fn end(self) -> report::Result<()> {
        self.sink.finish()
    }
}

impl RowSink for Joined<'_> {
    fn begin(&mut self, columns: &[Column]) -> report::Result<()> {
        if std::mem::replace(&mut self.has_begun, true) {
            return Ok(());
        }
        let mut all = vec![Column::text("trace")];
        all.extend_from_slice(columns);
        self.sink.begin(&all)
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> report::Result<()> {
        let mut row = Vec::with_capacity(cells.len() + 1);
        row.push(Cell::Text(&self.trace));
        row.extend_from_slice(cells);
        self.sink.row(&row)
    }

    /// Ends the table of one recording; [`end`](Self::end) ends that of all.
    fn finish(&mut self) -> report::Result<()> {
        Ok(())
    }
}
