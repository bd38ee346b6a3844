//! Tables that are made of other inputs than recordings, and rows of reports as their batches.

use std::fmt;
use std::io;
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, Int64Builder, StringDictionaryBuilder};
use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions};
use arrow_schema::{ArrowError, Schema, SchemaRef};
use report::{Cell, Column, Error, RowSink};

use crate::catalogue::{ColumnType, TableSpec};
use crate::scan::BATCH_ROWS;

/// Receives batches; returns `false` if no more are wanted.
pub type TakeBatch<'t> = dyn FnMut(RecordBatch) -> bool + Send + 't;

/// A table of an input with its own columns, such as one of a database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnTable {
    /// Name.
    pub name: String,
    /// Meaning of a row.
    pub doc: String,
}

/// Reads tables that are made of other inputs than recordings: those of [`BESIDE`](crate::catalogue::BESIDE), and those that inputs
/// bring along. A table is read each time it is asked for.
pub trait Beside: fmt::Debug + Send + Sync {
    /// Returns the tables that inputs bring along, without those of the catalogue.
    fn own_tables(&self) -> Vec<OwnTable> {
        Vec::new()
    }

    /// Returns the columns of such a table; `None` if there is none of this name.
    fn own_schema(&self, _: &str) -> Option<Result<SchemaRef, String>> {
        None
    }

    /// Reads columns of a table by their places and passes the rows on, until `take` returns `false`.
    ///
    /// # Errors
    ///
    /// Returns one sentence that names the file and the reason.
    fn read(&self, _: &str, _: &[usize], _: &mut TakeBatch<'_>) -> Result<(), String> {
        Ok(())
    }
}

/// Inputs that have nothing beside recordings.
#[derive(Clone, Copy, Debug, Default)]
pub struct NothingBeside;

impl Beside for NothingBeside {}

/// Passes rows on as batches of a table of the catalogue, with the wanted columns only.
pub struct Batches<'t> {
    table: &'static TableSpec,
    schema: SchemaRef,
    /// Places of the wanted columns.
    wanted: Vec<usize>,
    builders: Vec<Builder>,
    rows: usize,
    is_stopped: bool,
    take: &'t mut (dyn FnMut(RecordBatch) -> bool + Send),
}

impl fmt::Debug for Batches<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batches")
            .field("table", &self.table.name)
            .field("wanted", &self.wanted)
            .finish_non_exhaustive()
    }
}

enum Builder {
    Int(Int64Builder),
    Real(Float64Builder),
    Text(StringDictionaryBuilder<Int32Type>),
    Bool(BooleanBuilder),
}

impl Builder {
    fn new(ty: ColumnType) -> Self {
        match ty {
            ColumnType::Int => Self::Int(Int64Builder::new()),
            ColumnType::Real => Self::Real(Float64Builder::new()),
            ColumnType::Text => Self::Text(StringDictionaryBuilder::new()),
            ColumnType::Bool => Self::Bool(BooleanBuilder::new()),
        }
    }

    fn push(&mut self, cell: Cell<'_>) {
        match (self, cell) {
            (Self::Int(builder), Cell::Int(value)) => builder.append_value(value),
            // The tables have no unsigned numbers: addresses of the upper half are negative.
            (Self::Int(builder), Cell::UInt(value)) => builder.append_value(value.cast_signed()),
            (Self::Int(builder), _) => builder.append_null(),
            (Self::Real(builder), Cell::Real(value)) => builder.append_value(value),
            (Self::Real(builder), _) => builder.append_null(),
            (Self::Text(builder), Cell::Text(value)) => builder.append_value(value),
            (Self::Text(builder), _) => builder.append_null(),
            (Self::Bool(builder), Cell::Bool(value)) => builder.append_value(value),
            (Self::Bool(builder), _) => builder.append_null(),
        }
    }

    fn finish(&mut self) -> ArrayRef {
        match self {
            Self::Int(builder) => Arc::new(builder.finish()),
            Self::Real(builder) => Arc::new(builder.finish()),
            Self::Text(builder) => Arc::new(builder.finish()),
            Self::Bool(builder) => Arc::new(builder.finish()),
        }
    }
}

/// Error of a sink that wants no more rows, which ends whoever writes them.
fn stopped() -> Error {
    Error::Io(io::Error::other("no more rows are wanted"))
}

fn arrow(error: ArrowError) -> Error {
    Error::Io(io::Error::other(error))
}

impl<'t> Batches<'t> {
    /// Passes the columns at `wanted` on to `take`.
    ///
    /// # Errors
    ///
    /// Returns an error if the table has no such columns.
    pub fn new(
        table: &'static TableSpec,
        wanted: &[usize],
        take: &'t mut (dyn FnMut(RecordBatch) -> bool + Send),
    ) -> Result<Self, ArrowError> {
        let schema: Schema = table.schema().project(wanted)?;
        let types: Vec<ColumnType> = table.columns().map(|column| column.ty).collect();
        let types = wanted.iter().filter_map(|at| types.get(*at));
        Ok(Self {
            table,
            schema: Arc::new(schema),
            wanted: wanted.to_vec(),
            builders: types.map(|ty| Builder::new(*ty)).collect(),
            rows: 0,
            is_stopped: false,
            take,
        })
    }

    /// Returns `true` if no more rows are wanted: the error of the writer is then of no interest.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    fn pass_on(&mut self) -> Result<(), Error> {
        let arrays = self.builders.iter_mut().map(Builder::finish).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options);
        self.rows = 0;
        match (self.take)(batch.map_err(arrow)?) {
            true => Ok(()),
            false => {
                self.is_stopped = true;
                Err(stopped())
            }
        }
    }
}

impl RowSink for Batches<'_> {
    /// Checks that the columns are those of the catalogue.
    fn begin(&mut self, columns: &[Column]) -> report::Result<()> {
        let own = self.table.columns().map(|column| column.name);
        match own.eq(columns.iter().map(Column::name)) {
            true => Ok(()),
            false => Err(Error::Io(io::Error::other(format!(
                "the columns of {} are not those of the catalogue",
                self.table.name
            )))),
        }
    }

    fn row(&mut self, cells: &[Cell<'_>]) -> report::Result<()> {
        if self.is_stopped {
            return Err(stopped());
        }
        for (builder, at) in self.builders.iter_mut().zip(&self.wanted) {
            builder.push(cells.get(*at).copied().unwrap_or(Cell::Null));
        }
        self.rows += 1;
        match self.rows < BATCH_ROWS {
            true => Ok(()),
            false => self.pass_on(),
        }
    }

    fn finish(&mut self) -> report::Result<()> {
        match self.rows > 0 && !self.is_stopped {
            true => self.pass_on(),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow_array::cast::AsArray as _;
    use arrow_array::types::Int64Type;

    use super::*;
    use crate::catalogue::any_table;

    #[test]
    fn rows_become_batches_of_the_wanted_columns() {
        let table = any_table("block_events").unwrap();
        let names: Vec<&str> = table.columns().map(|column| column.name).collect();
        let at = |name: &str| names.iter().position(|own| *own == name).unwrap();
        let columns: Vec<Column> = names.iter().map(|name| Column::uint(*name)).collect();
        let mut sizes = Vec::new();
        let mut last = None;
        let mut take = |batch: RecordBatch| {
            sizes.push(batch.num_rows());
            last = Some(batch);
            sizes.len() < 3
        };
        let wanted = [at("sector"), at("device")];
        let mut sink = Batches::new(table, &wanted, &mut take).unwrap();
        assert!(sink.begin(&columns[1..]).is_err());
        sink.begin(&columns).unwrap();
        let mut cells = vec![Cell::Null; names.len()];
        cells[at("device")] = Cell::Text("8,0");
        cells[at("sector")] = Cell::UInt(u64::MAX);
        let mut written = 0;
        while sink.row(&cells).is_ok() {
            written += 1;
        }
        // The third batch is the last that is wanted.
        assert_eq!(written, 3 * BATCH_ROWS - 1);
        assert!(sink.is_stopped() && sink.row(&cells).is_err());
        sink.finish().unwrap();
        assert_eq!(sizes, [BATCH_ROWS; 3]);
        let last = last.unwrap();
        assert_eq!(last.column(0).as_primitive::<Int64Type>().value(0), -1);
        assert_eq!(last.schema().field(1).name(), "device");
    }
}
