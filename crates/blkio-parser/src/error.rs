//! Errors of reading traces.

/// Why an input could not be read or used.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes could not be had.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// The real log is elsewhere.
    #[error(
        "{name}: this is a Git LFS pointer, not the log it stands for ({size} bytes): fetch it with `git lfs pull`"
    )]
    LfsPointer {
        /// The input.
        name: String,
        /// Size of the real file as the pointer states it.
        size: u64,
    },
    /// The content is of no known kind.
    #[error("{name}: no known block I/O trace format")]
    UnknownFormat {
        /// The input.
        name: String,
    },
    /// The content is of a kind that this reader does not take.
    #[error("{name}: this is {found}, where {wanted} is needed")]
    WrongKind {
        /// The input.
        name: String,
        /// What it is.
        found: &'static str,
        /// What is needed.
        wanted: &'static str,
    },
    /// A malformed line, when that is to be a failure.
    #[error("{name}:{line}: {reason} (at byte {offset})")]
    Malformed {
        /// The input.
        name: String,
        /// Line from 1.
        line: u64,
        /// Where the line begins.
        offset: u64,
        /// What is wrong.
        reason: &'static str,
    },
    /// A record version this reader does not know.
    #[error(
        "{name}: blktrace records of version {version} at byte {offset}: only version 7 is known"
    )]
    BlktraceVersion {
        /// The input.
        name: String,
        /// The version found.
        version: u8,
        /// Where.
        offset: u64,
    },
    /// Text or JSON of a secondary input that cannot be understood.
    #[error("{name}: {reason}")]
    Unreadable {
        /// The input.
        name: String,
        /// What is wrong and what to do.
        reason: String,
    },
    /// A thread of the pipeline died; a defect.
    #[error("a worker thread died while reading {name}")]
    ThreadDied {
        /// The input.
        name: String,
    },
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;
