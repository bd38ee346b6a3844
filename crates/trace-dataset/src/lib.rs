//! Data sets: recordings as Hive-partitioned Parquet files, which DuckDB, polars, pandas, Spark and DataFusion read without our code.
//!
//! [`export()`] writes each table of [`trace_tables::catalogue`] as `table=NAME/run=RUN/rank=RANK/part-NUMBER.parquet`: zstd, in the order
//! of the table, row groups with statistics. `manifest.json` has the versions and the hash of each input; inputs that could not be
//! read are rows of `table=failures`.
//!
//! An export can be repeated: an input that is there with the same hash is skipped, a changed one is replaced; of an object in a bucket the
//! ETag and the size are compared, so that one that is there is not read. The files of an input
//! are written aside, and moved into place when all are whole, that of the table `files` last: an input without a row in `files` is
//! not part of the data set yet. What a killed export leaves behind is removed by the next one.
//!
//! [`make()`] is the same for files other than tables: it calls a [`Maker`] with each input, and knows what is there already.
//!
//! [`make_elsewhere`] does so with files that other processes make, such as the executors of a cluster: they get an [`Order`] each and answer
//! with the files' bytes ([`serve`]), which this process writes.
//!
//! [`add_table`] writes a table that is made of all inputs together, such as `findings`.
//!
//! The crate reads no traces ([`Reader`] does) and computes no numbers.

mod elsewhere;
mod error;
mod export;
mod make;
mod manifest;
mod write;

pub use elsewhere::{Elsewhere, Order, Take, Trouble, make_elsewhere, serve, unseen};
pub use error::Error;
pub use export::{Export, Reader, export, export_elsewhere, table_maker};
pub use make::{Input, Job, Made, Maker, Report, Target, add_table, hash_of, make};
pub use manifest::{Done, MANIFEST, Manifest, damaged, is_data_set};
