//! What can go wrong while a table is built or written.

use std::io;

use crate::column::Kind;

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Everything that can go wrong here, one variant per cause.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The destination refused the bytes. A closed pipe arrives here as `BrokenPipe`.
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
    /// A cell is of another kind than its column; convert it first.
    #[error("row {row}, column `{column}`: the column holds {expected} values, not {found}")]
    CellKind {
        /// Row number, from 0.
        row: u64,
        /// Machine name of the column.
        column: Box<str>,
        /// Kind the column was declared with.
        expected: Kind,
        /// Kind of the offending cell.
        found: Kind,
    },
    /// Two columns share one machine name.
    #[error("two columns are called `{name}`; machine names must differ")]
    DuplicateColumn {
        /// The name in question.
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
    /// A value given to a JSON document cannot be represented in JSON.
    #[error("cannot express field `{field}` as JSON")]
    Json {
        /// The field that was being written.
        field: Box<str>,
        /// What serde_json said.
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
    /// Columns could not be assembled for Parquet.
    #[cfg(feature = "parquet")]
    #[error("cannot assemble the columns for Parquet")]
    Arrow(#[from] arrow_schema::ArrowError),
}
