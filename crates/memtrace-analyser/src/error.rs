//! What can go wrong.

use std::io;

/// Why an analysis failed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder for spilled rows could not be used.
    #[error("spilling to {folder}: {source}; name another folder with --spill-dir")]
    Spill {
        /// The folder.
        folder: String,
        /// What the system said.
        source: io::Error,
    },
    /// More kinds of regions than can be told apart.
    #[error("more than {limit} region types")]
    TooManyTypes {
        /// How many there may be.
        limit: usize,
    },
    /// More regions than can be told apart.
    #[error("more than {limit} regions")]
    TooManyRegions {
        /// How many there may be.
        limit: u32,
    },
    /// A table could not be written.
    #[error(transparent)]
    Report(#[from] report::Error),
    /// A file could not be written.
    #[error("{name}: {source}")]
    Write {
        /// The file.
        name: String,
        /// What the system said.
        source: io::Error,
    },
    /// A thread could not be started or has failed.
    #[error("a worker thread failed")]
    Thread,
}

impl From<spill_sort::Error> for Error {
    fn from(error: spill_sort::Error) -> Self {
        match error {
            spill_sort::Error::Spill { folder, source } => Self::Spill { folder, source },
            _ => Self::Thread,
        }
    }
}

/// Result of this crate.
pub type Result<T, E = Error> = std::result::Result<T, E>;
