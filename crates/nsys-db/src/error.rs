//! Errors of reading an export.

use std::io;

/// Reason why an export cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// The database is damaged, truncated or of another encoding.
    #[error(transparent)]
    Sqlite(#[from] sqlite_scan::Error),
    /// A report of Nsight Systems itself, whose format is closed, or an export of another kind.
    #[error("{name}: {what}; export the report with `{command}` and give the .sqlite file")]
    NotExported {
        /// Name of the input.
        name: String,
        /// What the input is.
        what: &'static str,
        /// Command that creates a readable export.
        command: String,
    },
    /// A database without the tables of an export.
    #[error(
        "{name}: a SQLite database without events of Nsight Systems: needed are StringIds and one table of events, such as CUPTI_ACTIVITY_KIND_KERNEL or NVTX_EVENTS"
    )]
    NoEvents {
        /// Name of the input.
        name: String,
    },
    /// A profile of nvprof.
    #[error(
        "{name}: a profile of nvprof (NVIDIA Visual Profiler), which is not read: record with Nsight Systems (`nsys profile`) or torch.profiler"
    )]
    Nvprof {
        /// Name of the input.
        name: String,
    },
    /// A file of a Parquet folder could not be read.
    #[error("{name}: not a readable Parquet file: {reason}: export the folder again")]
    Parquet {
        /// Name of the file.
        name: String,
        /// Reason given by the Parquet reader.
        reason: String,
    },
    /// A table lacks a column without which its rows have no meaning.
    #[error("{name}: table {table} has no column {column}: export the report again")]
    NoColumn {
        /// Name of the input.
        name: String,
        /// Table.
        table: String,
        /// Missing column.
        column: &'static str,
    },
    /// A folder could not be listed.
    #[error("{name}: cannot {step}")]
    Io {
        /// Name of the input.
        name: String,
        /// The operation.
        step: &'static str,
        /// Reason given by the system.
        #[source]
        source: io::Error,
    },
    /// The events do not fit in a trace.
    #[error(transparent)]
    Trace(#[from] trace_model::BuildError),
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
