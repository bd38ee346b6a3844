//! Typed tables rendered as aligned text, CSV, JSON and Parquet.
//!
//! Charter: cells, columns, formats; no traces, no meaning of metrics; at most 1,500 lines of code without Parquet and
//! documentation.
//!
//! Two interfaces, one set of formats:
//!
//! * a `Table` stores rows column by column and is written with `Table::write_to` or `Table::to_text`;
//! * a `RowSink` (`CsvWriter`, `JsonRowsWriter`, `TextWriter`, and `ParquetWriter` with the feature `parquet`)
//!   receives rows one at a time, so a table of ten million rows is never in memory (text is the exception: widths
//!   depend on all rows).
//!
//! Machine formats write plain, exact numbers: integers as integers, nanoseconds as nanoseconds, and the unit is part of
//! the column's name (`dur_ns`, `size_bytes`, `share_pct`). Text output scales them (`1.235 ms`, `3.250 GiB`) with the
//! functions in `human`. The same rows always give the same bytes.
//!
//! Out of scope: computing, sorting or aggregating; reading any of these formats; choosing a destination.
//!
//! Features: `parquet` (off by default; brings arrow and parquet).
//!
//! ```
//! use report::{Cell, Column, Format, RowSink, Unit};
//!
//! let columns = [Column::text("kernel"), Column::uint("dur_ns").unit(Unit::Nanos).title("duration")];
//! let write = |format: Format| -> report::Result<String> {
//!     let mut out = Vec::new();
//!     let mut sink = format.sink(&mut out);
//!     sink.begin(&columns)?;
//!     sink.row(&[Cell::from("all_reduce"), Cell::from(1_234_567_u64)])?;
//!     sink.finish()?;
//!     drop(sink);
//!     Ok(String::from_utf8_lossy(&out).into_owned())
//! };
//! assert_eq!(write(Format::Text)?, "kernel      duration\n──────────  ────────\nall_reduce  1.235 ms\n");
//! assert_eq!(write(Format::Csv)?, "kernel,dur_ns\nall_reduce,1234567\n");
//! assert_eq!(write(Format::JsonLines)?, "{\"kernel\":\"all_reduce\",\"dur_ns\":1234567}\n");
//! # Ok::<(), report::Error>(())
//! ```

#[cfg(feature = "parquet")]
mod arrow;
mod cell;
mod column;
mod csv;
mod error;
pub mod human;
mod json;
mod number;
#[cfg(feature = "parquet")]
mod parquet;
mod schema;
mod sink;
mod table;
pub mod text;

#[cfg(feature = "parquet")]
pub use crate::arrow::{arrow_schema, record_batches};
pub use crate::cell::Cell;
pub use crate::column::{Align, Column, Kind, RealFormat, Unit};
pub use crate::csv::{CsvOptions, CsvWriter};
pub use crate::error::{Error, Result};
pub use crate::json::{JsonDocument, JsonLayout, JsonMember, JsonRowsWriter};
pub use crate::number::real_text;
#[cfg(feature = "parquet")]
pub use crate::parquet::ParquetWriter;
pub use crate::schema::SchemaVersion;
pub use crate::sink::{Format, RowSink};
pub use crate::table::Table;
pub use crate::text::{TextOptions, TextWriter};
