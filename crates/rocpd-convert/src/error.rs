//! Errors of conversions.

use std::io;
use std::path::PathBuf;

/// Why records could not be converted.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The databases cannot be read, or hold something that is not what the format says.
    #[error(transparent)]
    Database(#[from] rocpd_db::Error),
    /// An option has a value that these recordings or the format do not allow.
    #[error("{option}: {problem}")]
    Option {
        /// What the option is for.
        option: &'static str,
        /// What is wrong with its value.
        problem: String,
    },
    /// An output would be written over one of the databases that are read.
    #[error("{}: it is one of the inputs: choose another name or folder for the output", .0.display())]
    OverInput(PathBuf),
    /// Something that this crate did not write stands where an output belongs.
    #[error("{}: is in the way of the archive and holds {holds}: choose another name for the output", path.display())]
    InTheWay {
        /// Where it is.
        path: PathBuf,
        /// A file in it that is none of an archive.
        holds: String,
    },
    /// A file or folder cannot be made, written or put in place.
    #[error("{}: {step}", path.display())]
    File {
        /// Which one.
        path: PathBuf,
        /// What was tried.
        step: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
    /// A file cannot be created or put in place.
    #[error(transparent)]
    Bytes(#[from] byte_source::Error),
    /// Bytes of an output cannot be written.
    #[error(transparent)]
    Write(#[from] io::Error),
    /// What does not fit into memory cannot be kept beside the output.
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
    /// Returns `true` if a value among the options is to blame: neither the databases nor the outputs.
    #[must_use]
    pub const fn is_option(&self) -> bool {
        matches!(
            self,
            Self::Option { .. } | Self::OverInput(_) | Self::InTheWay { .. }
        )
    }

    /// Returns `true` if an output, or what waits beside it, is to blame.
    #[must_use]
    pub const fn is_output(&self) -> bool {
        !self.is_option() && !matches!(self, Self::Database(_))
    }
}

/// Shorthand.
pub type Result<T, E = Error> = std::result::Result<T, E>;
