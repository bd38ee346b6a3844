//! Errors of reading and writing traces.

use thiserror::Error;
use trace_model::{BuildError, Issue};

/// Error that makes a trace unreadable. Odd records are not errors: they are counted in the trace's
/// diagnostics.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes could not be read or decompressed.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// Reading or writing failed.
    #[error("{name}: {source}")]
    Io {
        /// Name of the file.
        name: String,
        /// Error of the operating system.
        #[source]
        source: std::io::Error,
    },
    /// The file is empty.
    #[error("{name}: the file is empty; record the trace again")]
    Empty {
        /// Name of the file.
        name: String,
    },
    /// The file is neither JSON nor protobuf.
    #[error(
        "{name}: unknown format, the file starts with {head}; expected JSON of PyTorch, JAX, Chrome or rocprofv3, CSV of rocprofv3, Perfetto protobuf, an XSpace (xplane.pb), or a database of Nsight Systems or rocPD, plain or compressed"
    )]
    UnknownFormat {
        /// Name of the file.
        name: String,
        /// The first 16 bytes in hexadecimal.
        head: String,
    },
    /// The file is of a known kind that this crate does not read.
    #[error("{name}: this is {what} and not a trace; {remedy}")]
    NotATrace {
        /// Name of the file.
        name: String,
        /// Kind of the file, with its article.
        what: &'static str,
        /// Recommended action.
        remedy: &'static str,
    },
    /// The file is a JSON object without events.
    #[error(
        "{name}: not a trace: a JSON object without `traceEvents` (its keys: {keys}); expected JSON of PyTorch, JAX, Chrome or rocprofv3, CSV of rocprofv3, Perfetto protobuf, an XSpace (xplane.pb), or a database of Nsight Systems or rocPD, plain or compressed"
    )]
    NoEvents {
        /// Name of the file.
        name: String,
        /// The first keys of the object.
        keys: String,
    },
    /// The file is a SQLite database.
    #[error("{name}: this is a SQLite database; read rocPD databases with the rocpd tool")]
    Sqlite {
        /// Name of the file.
        name: String,
    },
    /// The JSON document is broken outside its events.
    #[error("{name}: {what} at byte {byte} (line {line}, column {column})")]
    Json {
        /// Name of the file.
        name: String,
        /// Description of the problem.
        what: &'static str,
        /// Offset in the uncompressed document.
        byte: u64,
        /// Line, from 1.
        line: u64,
        /// Column in bytes, from 1.
        column: u64,
    },
    /// The protobuf stream is broken.
    #[error("{name}: {what} at byte {byte} (packet {packet})")]
    Protobuf {
        /// Name of the file.
        name: String,
        /// Description of the problem.
        what: &'static str,
        /// Offset in the uncompressed file.
        byte: u64,
        /// Number of the packet, from 0.
        packet: u64,
    },
    /// The trace store rejected the events.
    #[error(transparent)]
    Build(#[from] BuildError),
    /// A record was dropped or repaired, and strict reading was requested.
    #[error("{} ({} times, first at {}): {}", issue.kind.name(), issue.count, first_place(issue), issue.kind.explanation())]
    Strict {
        /// The first such issue.
        issue: Box<Issue>,
    },
}

fn first_place(issue: &Issue) -> String {
    issue
        .places
        .first()
        .map_or_else(|| "an unknown place".to_owned(), ToString::to_string)
}
