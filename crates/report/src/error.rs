//! Errors of building or writing a table.

use std::io;

use crate::column::Kind;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Error of this crate, one variant per cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Writing to the destination failed. A closed pipe has the kind `BrokenPipe`.
    #[error("cannot write the table")]
    Io(#[from] io::Error),
    /// A row has more or fewer cells than there are columns.
    #[error("row {row} has {found} cells, but there are {expected} columns")]
    RowWidth {
        /// Row number, from 0.
        row: u64,
        /// Cells given.
        found: usize,
        /// Columns declared.
        expected: usize,
    },
    /// The kind of a cell differs from that of its column; convert it first.
    #[error("row {row}, column `{column}`: the column holds {expected} values, not {found}")]
    CellKind {
        /// Row number, from 0.
        row: u64,
        /// Machine name of the column.
        column: Box<str>,
        /// Kind the column was declared with.
        expected: Kind,
        /// Kind of the cell.
        found: Kind,
    },
    /// Two columns share one machine name.
    #[error("two columns are called `{name}`; machine names must differ")]
    DuplicateColumn {
        /// The repeated name.
        name: Box<str>,
    },
    /// A table without columns cannot be written.
    #[error("the table has no columns; declare at least one")]
    NoColumns,
    /// `row` or `finish` was called before `begin`, `begin` twice, or anything after `finish`.
    #[error("{call} called out of order; the order is begin, any number of rows, finish")]
    OutOfOrder {
        /// The method that was called.
        call: &'static str,
    },
    /// A value added to a JSON document cannot be represented in JSON.
    #[error("cannot express field `{field}` as JSON")]
    Json {
        /// Name of the field.
        field: Box<str>,
        /// Error of serde_json.
        #[source]
        source: serde_json::Error,
    },
    /// One text is longer than a Parquet text column can hold (2 GiB).
    #[error(
        "row {row}, column `{column}`: a text of {len} bytes exceeds the 2 GiB of a Parquet text cell"
    )]
    TextTooLong {
        /// Row number, from 0.
        row: u64,
        /// Machine name of the column.
        column: Box<str>,
        /// Length of the text in bytes.
        len: usize,
    },
    /// The Parquet encoder failed.
    #[cfg(feature = "parquet")]
    #[error("cannot write Parquet")]
    Parquet(#[from] parquet::errors::ParquetError),
    /// The columns could not be assembled for Parquet.
    #[cfg(feature = "parquet")]
    #[error("cannot assemble the columns for Parquet")]
    Arrow(#[from] arrow_schema::ArrowError),
}
