//! SQL over recordings and over exported data sets: Apache DataFusion with a provider for each table of the catalogue.
//!
//! * [`Engine::new`] makes the tables of [`trace_tables::catalogue`] from [`Inputs`]; Perfetto's names are views over them;
//! * [`Engine::data_set`] reads the Parquet files of an exported data set instead, with the feature `objects` also of one in an object
//!   store, by ranges; [`Engine::folder`] any Parquet files by name;
//! * [`Engine::run`] runs statements and passes their rows to [`Results`]; [`sink`] writes them as text, CSV, JSON, Parquet or Arrow.
//!
//! A query reads only the columns and arguments that it needs. A file is read once for all tables of a statement, several files at
//! once, and its rows arrive in the order of the files, so that results do not depend on the number of threads. Sorts, joins and
//! aggregations stay within a memory limit and spill to temporary files as DataFusion does.
//!
//! Statements only read the tables. Those that write or read other files are refused unless [`Options::allow_write`] names the
//! folder.
//!
//! With [`Options::cluster`] queries run on an engine of several processes, with a partition for each file: [`remote`] has the messages
//! in which tables, scans and functions travel there.
//!
//! This is the only crate that uses DataFusion. It reads no trace files: [`Inputs`] does.

mod beside;
mod bucket;
mod cluster;
mod dialect;
mod engine;
mod error;
mod exact;
mod failures;
mod folder;
mod functions;
mod kept;
mod provider;
mod pushdown;
mod quoting;
pub mod remote;
pub mod sink;
mod statement;
mod store;
mod stored;

pub use cluster::{Cluster, Job, Report};
pub use engine::{Engine, Options, Results};
pub use error::{ErrorKind, SqlError};
pub use folder::FileTable;
pub use store::{Inputs, Wanted};
