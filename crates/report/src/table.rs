//! Tables held in memory, column by column.

use std::borrow::Cow;

use crate::cell::Cell;
use crate::column::{Column, Kind};
use crate::error::Result;
use crate::sink::{Guard, RowSink};

/// A named table. Numbers take 8 bytes, booleans 1, texts their bytes plus 8; nulls one bit per row
/// in columns that have any.
///
/// ```
/// use report::{Cell, Column, Table, TextOptions, Unit};
/// let columns = vec![Column::text("name"), Column::uint("dur_ns").unit(Unit::Nanos)];
/// let mut table = Table::new("kernels", columns)?;
/// table.push(&["all_reduce".into(), 1_234_567_u64.into()])?;
/// assert_eq!(table.cell(0, 1), Some(Cell::UInt(1_234_567)));
/// assert_eq!(table.to_text(&TextOptions::default()), "name          dur_ns\n──────────  ────────\nall_reduce  1.235 ms\n");
/// # Ok::<(), report::Error>(())
/// ```
#[derive(Debug)]
pub struct Table {
    name: Cow<'static, str>,
    columns: Vec<Column>,
    stores: Vec<Store>,
    guard: Guard,
    rows: usize,
}

impl Table {
    /// Creates an empty table.
    ///
    /// # Errors
    /// Returns an error if there are no columns, or two have the same machine name.
    pub fn new(name: impl Into<Cow<'static, str>>, columns: Vec<Column>) -> Result<Self> {
        let mut guard = Guard::default();
        guard.begin(&columns)?;
        let stores = columns.iter().map(|c| Store::new(c.kind())).collect();
        Ok(Self {
            name: name.into(),
            columns,
            stores,
            guard,
            rows: 0,
        })
    }

    /// Appends one row; on an error the table is unchanged.
    ///
    /// # Errors
    /// Returns an error if the number of cells is wrong, or the kind of a cell differs from its
    /// column's.
    pub fn push(&mut self, cells: &[Cell<'_>]) -> Result<()> {
        self.guard.row(cells)?;
        for (store, cell) in self.stores.iter_mut().zip(cells) {
            store.push(self.rows, *cell);
        }
        self.rows += 1;
        Ok(())
    }

    /// Returns the name of the table.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the columns, in order.
    #[must_use]
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.rows
    }

    /// Returns one value; `None` outside the table.
    #[must_use]
    pub fn cell(&self, row: usize, column: usize) -> Option<Cell<'_>> {
        (row < self.rows)
            .then(|| self.stores.get(column).map(|store| store.cell(row)))
            .flatten()
    }

    /// Fills `cells` with one row; leaves it empty if there is no such row.
    pub fn row_into<'t>(&'t self, row: usize, cells: &mut Vec<Cell<'t>>) {
        cells.clear();
        if row < self.rows {
            cells.extend(self.stores.iter().map(|store| store.cell(row)));
        }
    }

    /// Writes the whole table to a sink: begin, all rows, finish.
    ///
    /// # Errors
    /// Same as the sink's methods.
    pub fn write_to(&self, sink: &mut dyn RowSink) -> Result<()> {
        sink.begin(&self.columns)?;
        let mut cells = Vec::with_capacity(self.columns.len());
        for row in 0..self.rows {
            self.row_into(row, &mut cells);
            sink.row(&cells)?;
        }
        sink.finish()
    }

    /// Returns the memory used by the values in bytes.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.stores.iter().map(Store::heap_bytes).sum()
    }
}

/// Values of one column.
#[derive(Debug)]
struct Store {
    values: Values,
    /// One bit per row up to the last null; empty if there is none.
    nulls: Vec<u64>,
}

#[derive(Debug)]
enum Values {
    Int(Vec<i64>),
    UInt(Vec<u64>),
    Real(Vec<f64>),
    Bool(Vec<bool>),
    Text { bytes: String, ends: Vec<usize> },
}

impl Store {
    fn new(kind: Kind) -> Self {
        let values = match kind {
            Kind::Int => Values::Int(Vec::new()),
            Kind::UInt => Values::UInt(Vec::new()),
            Kind::Real => Values::Real(Vec::new()),
            Kind::Bool => Values::Bool(Vec::new()),
            Kind::Text => Values::Text {
                bytes: String::new(),
                ends: Vec::new(),
            },
        };
        Self {
            values,
            nulls: Vec::new(),
        }
    }

    fn push(&mut self, row: usize, cell: Cell<'_>) {
        if cell == Cell::Null {
            if self.nulls.len() <= row / 64 {
                self.nulls.resize(row / 64 + 1, 0);
            }
            self.nulls[row / 64] |= 1 << (row % 64);
        }
        // The guard accepted only matching kinds and null; null stores a placeholder.
        match (&mut self.values, cell) {
            (Values::Int(values), Cell::Int(value)) => values.push(value),
            (Values::Int(values), _) => values.push(0),
            (Values::UInt(values), Cell::UInt(value)) => values.push(value),
            (Values::UInt(values), _) => values.push(0),
            (Values::Real(values), Cell::Real(value)) => values.push(value),
            (Values::Real(values), _) => values.push(0.0),
            (Values::Bool(values), Cell::Bool(value)) => values.push(value),
            (Values::Bool(values), _) => values.push(false),
            (Values::Text { bytes, ends }, cell) => {
                if let Cell::Text(text) = cell {
                    bytes.push_str(text);
                }
                ends.push(bytes.len());
            }
        }
    }

    fn cell(&self, row: usize) -> Cell<'_> {
        if self
            .nulls
            .get(row / 64)
            .is_some_and(|word| word >> (row % 64) & 1 == 1)
        {
            return Cell::Null;
        }
        match &self.values {
            Values::Int(values) => Cell::Int(values[row]),
            Values::UInt(values) => Cell::UInt(values[row]),
            Values::Real(values) => Cell::Real(values[row]),
            Values::Bool(values) => Cell::Bool(values[row]),
            Values::Text { bytes, ends } => {
                let start = if row == 0 { 0 } else { ends[row - 1] };
                Cell::Text(&bytes[start..ends[row]])
            }
        }
    }

    fn heap_bytes(&self) -> usize {
        let values = match &self.values {
            Values::Int(values) => values.capacity() * 8,
            Values::UInt(values) => values.capacity() * 8,
            Values::Real(values) => values.capacity() * 8,
            Values::Bool(values) => values.capacity(),
            Values::Text { bytes, ends } => bytes.capacity() + ends.capacity() * size_of::<usize>(),
        };
        values + self.nulls.capacity() * 8
    }
}
