//! Errors of an export.

use std::io;
use std::path::{Path, PathBuf};

/// Error that ends an export.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder cannot be written or read.
    #[error("{}: cannot {step}", path.display())]
    Io {
        /// What was tried.
        step: &'static str,
        /// File or folder.
        path: PathBuf,
        /// Reason.
        #[source]
        source: io::Error,
    },
    /// The folder holds something else.
    #[error("{}: the folder is not empty and is no data set: choose an empty or a new one", path.display())]
    NotOurs {
        /// Folder.
        path: PathBuf,
    },
    /// Another export writes to the folder.
    #[error("{}: another export is writing to this folder: wait for its end", path.display())]
    Busy {
        /// Folder.
        path: PathBuf,
    },
    /// The manifest is damaged, or of another version.
    #[error("{}: {text}", path.display())]
    Manifest {
        /// File.
        path: PathBuf,
        /// What is wrong, and what to do.
        text: String,
    },
    /// Recordings that are not given now were exported with other rules for classes, and the folder would have both.
    #[error(
        "{}: {file} is there with other rules for kernel classes: give all recordings of the folder again, or choose a new folder",
        path.display()
    )]
    OtherRules {
        /// Folder.
        path: PathBuf,
        /// Such a recording.
        file: String,
    },
    /// Other processes were to make the files, and cannot.
    #[error("{text}")]
    Elsewhere {
        /// One sentence.
        text: String,
    },
    /// A table cannot be encoded.
    #[error("{}: cannot write the table", path.display())]
    Parquet {
        /// File.
        path: PathBuf,
        /// Reason.
        #[source]
        source: parquet::errors::ParquetError,
    },
}

impl Error {
    pub(crate) fn io(step: &'static str, path: &Path) -> impl FnOnce(io::Error) -> Self + use<> {
        let path = path.to_owned();
        move |source| Self::Io { step, path, source }
    }
}
