//! Errors of conversions.

use std::io;
use std::path::PathBuf;

/// An error of a conversion.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A database cannot be read or violates the format.
    #[error(transparent)]
    Database(#[from] rocpd_db::Error),
    /// An option has a value that these recordings or the format do not allow.
    #[error("{option}: {problem}")]
    Option {
        /// Purpose of the option.
        option: &'static str,
        /// Description of the problem.
        problem: String,
    },
    /// An output would be written over one of the databases that are read.
    #[error("{}: it is one of the inputs: choose another name or folder for the output", .0.display())]
    OverInput(PathBuf),
    /// The path of an output is taken by something that this crate did not write.
    #[error("{}: is in the way of the archive and holds {holds}: choose another name for the output", path.display())]
    InTheWay {
        /// Path.
        path: PathBuf,
        /// A file in it that does not belong to an archive.
        holds: String,
    },
    /// A column of a format whose columns have one type each has values of several.
    #[error("column {0} has values of several types: CAST it to one in the query")]
    MixedColumn(String),
    /// A file or folder cannot be made, written or put in place.
    #[error("{}: {step}", path.display())]
    File {
        /// Path.
        path: PathBuf,
        /// The failed operation.
        step: &'static str,
        /// Error of the operating system.
        #[source]
        source: io::Error,
    },
    /// A file cannot be created or put in place.
    #[error(transparent)]
    Bytes(#[from] byte_source::Error),
    /// Bytes of an output cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// Data that do not fit into memory cannot be stored next to the output.
    #[error(transparent)]
    Spill(#[from] spill_sort::Error),
    /// A table cannot be written.
    #[error(transparent)]
    Table(#[from] report::Error),
    /// An Arrow file cannot be written.
    #[error(transparent)]
    Arrow(#[from] arrow_schema::ArrowError),
    /// JSON cannot be written.
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    /// An OTF2 archive cannot be written.
    #[error(transparent)]
    Otf2(#[from] otf2_writer::Error),
}

impl Error {
    /// Returns `true` if the value of an option is invalid, as opposed to errors of databases and
    /// outputs.
    #[must_use]
    pub const fn is_option(&self) -> bool {
        matches!(
            self,
            Self::Option { .. } | Self::OverInput(_) | Self::InTheWay { .. }
        )
    }

    /// Returns `true` if an output, or a temporary file next to it, cannot be written.
    #[must_use]
    pub const fn is_output(&self) -> bool {
        !self.is_option() && !matches!(self, Self::Database(_) | Self::MixedColumn(_))
    }
}

/// Result with [`Error`] as the default error.
pub type Result<T, E = Error> = std::result::Result<T, E>;
