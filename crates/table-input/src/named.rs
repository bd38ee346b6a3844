//! Rows with the name of their file in front.

use report::{Cell, Column, Result, RowSink};

/// Puts the name of a file in front of the rows of several files, which become one table.
pub(crate) struct Named<'s, 'n> {
    sink: &'s mut (dyn RowSink + Send),
    name: &'n str,
    is_first: bool,
}

impl<'s, 'n> Named<'s, 'n> {
    /// `is_first` is `true` for the file whose columns are those of the table.
    pub(crate) fn new(sink: &'s mut (dyn RowSink + Send), name: &'n str, is_first: bool) -> Self {
        Self {
            sink,
            name,
            is_first,
        }
    }
}

impl RowSink for Named<'_, '_> {
    fn begin(&mut self, columns: &[Column]) -> Result<()> {
        if !self.is_first {
            return Ok(());
        }
        let mut all = vec![Column::text("file").repeating()];
        all.extend(columns.iter().cloned());
        self.sink.begin(&all)
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        let mut all = Vec::with_capacity(cells.len() + 1);
        all.push(Cell::Text(self.name));
        all.extend_from_slice(cells);
        self.sink.row(&all)
    }

    /// The table ends with the last file.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }
}
