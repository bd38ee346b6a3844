//! Errors of making and writing reports.

use std::io;

/// Why a report could not be made or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// An input is missing, is of another kind, or has nothing to report.
    #[error("{0}")]
    Input(String),
    /// A trace cannot be read.
    #[error(transparent)]
    Trace(#[from] blkio_parser::Error),
    /// A companion file cannot be used.
    #[error(transparent)]
    Companion(#[from] blkio_companions::Error),
    /// The bytes of an input cannot be read, or those of an output written.
    #[error(transparent)]
    Bytes(#[from] byte_source::Error),
    /// A file cannot be written or a folder listed.
    #[error("{what}")]
    File {
        /// What failed.
        what: String,
        /// Why.
        #[source]
        source: io::Error,
    },
    /// Text cannot be written.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A document cannot be written or read back.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] report::Error),
    /// A figure cannot be drawn.
    #[error(transparent)]
    Figure(#[from] charts::render::RenderError),
    /// The samples of both sides cannot be compared.
    #[error(transparent)]
    Compare(#[from] perf_compare::Error),
}

impl Error {
    /// Returns `true` if an input is to blame, rather than an output.
    #[must_use]
    pub fn is_input(&self) -> bool {
        matches!(self, Self::Input(_) | Self::Trace(_) | Self::Companion(_))
    }
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;
