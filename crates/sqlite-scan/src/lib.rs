//! Tables of SQLite files, read page by page without running SQL.
//!
//! The layout is that of <https://www.sqlite.org/fileformat2.html>. Views, triggers, indexes, computed columns and virtual
//! tables of a file are never looked into, so nothing that is stored in an input is executed. Nothing is written next to an
//! input, and no locks are taken.
//!
//! * [`Database`] opens a file (also compressed, from a pipe, or with its write-ahead log) and scans tables by the names of
//!   columns; a column that a table lacks reads as NULL;
//! * [`PageFile`], [`Catalog`], [`Leaves`], [`Cursor`] and [`Lookup`] are the parts of it, for readers that keep their own
//!   order, share leaves between threads, or look up single rows.
//!
//! A scan copies no values: texts and blobs are slices of a page. Memory is a window of 64 pages per cursor and 24 bytes of
//! index per megabyte of table. Bytes of any content cause an [`Error`], never a panic, an endless loop or an allocation
//! larger than the file.
//!
//! ```
//! use sqlite_scan::{Database, Error, Value};
//!
//! # let folder = tempfile::tempdir()?;
//! # let path = folder.path().join("a.sqlite");
//! # rusqlite::Connection::open(&path)?.execute_batch(
//! #     "CREATE TABLE kernels (start INTEGER, name TEXT); INSERT INTO kernels VALUES (5, 'gemm'), (9, 'norm');")?;
//! let database = Database::open(&path)?;
//! let kernels = database.table("kernels").expect("a plain table of that name");
//! let mut starts = Vec::new();
//! kernels.scan(["start", "absent"], |rowid, [start, absent]| {
//!     assert_eq!(absent, Value::Null);
//!     starts.push((rowid, start.as_int()));
//!     Ok::<_, Error>(())
//! })?;
//! assert_eq!(starts, [(1, Some(5)), (2, Some(9))]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod btree;
mod catalog;
mod columns;
mod database;
mod error;
mod file;
mod log;
mod record;
mod scratch;

pub use btree::{Cursor, Leaves, Lookup, Row};
pub use catalog::{Catalog, CatalogTable, IgnoredTable};
pub use columns::ColumnDef;
pub use database::{Database, MAX_LISTED, Table};
pub use error::{Error, Result};
pub use file::{PageFile, check_sidecars};
pub use record::{Pick, Value};
pub use scratch::Scratch;
