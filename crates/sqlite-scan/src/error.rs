//! Errors of reading a SQLite file.

use std::io;

/// Reason why a SQLite file or one of its tables cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or read.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// The system refused an operation on a file.
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
    /// The file does not begin as SQLite databases do.
    #[error(
        "{name}: not a SQLite database: those begin with \"SQLite format 3\" (an encrypted one does not and cannot be read)"
    )]
    NotSqlite {
        /// Name of the input.
        name: String,
    },
    /// A page contradicts the file format.
    #[error(
        "{name}: damaged at page {page} (byte {offset}): {what}: copy the file again, or leave it out"
    )]
    Corrupt {
        /// Name of the input.
        name: String,
        /// Number of the page, from 1.
        page: u32,
        /// Byte at which the page begins.
        offset: u64,
        /// What is wrong.
        what: &'static str,
    },
    /// The file ends before its last page.
    #[error(
        "{name}: truncated: {expected} bytes by its header, {found} there: copy the file again, or leave it out"
    )]
    Truncated {
        /// Name of the input.
        name: String,
        /// Size by the header, in bytes.
        expected: u64,
        /// Actual size in bytes.
        found: u64,
    },
    /// A journal next to the file contains changes that the file lacks.
    #[error("{name}: {sidecar} holds changes that are not in the database yet: {remedy}")]
    Sidecar {
        /// Name of the input.
        name: String,
        /// Path of the journal.
        sidecar: String,
        /// Recommended action.
        remedy: &'static str,
    },
    /// Texts of the database are not UTF-8.
    #[error(
        "{name}: text encoding {found} of the database is not UTF-8: write it anew with `VACUUM` under PRAGMA encoding='UTF-8'"
    )]
    Encoding {
        /// Name of the input.
        name: String,
        /// Number of the encoding in the header.
        found: u32,
    },
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
