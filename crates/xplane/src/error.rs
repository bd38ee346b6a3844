//! Errors of reading an `XSpace`.

/// Reason why a recording cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened or decompressed.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// Reading failed.
    #[error("{name}: {source}")]
    Io {
        /// Name of the input.
        name: String,
        /// Reason given by the system.
        #[source]
        source: std::io::Error,
    },
    /// The message is cut off or damaged.
    #[error(
        "{name}: the XSpace is damaged at byte {byte}: {what}; copy the file again, or give the .trace.json.gz that the profiler writes next to it"
    )]
    Damaged {
        /// Name of the input.
        name: String,
        /// Offset in the uncompressed file.
        byte: u64,
        /// Description of the problem.
        what: &'static str,
    },
    /// The message does not fit in the permitted memory.
    #[error(
        "{name}: an XSpace of more than {limit_bytes} bytes: record for a shorter time, or give the .trace.json.gz that the profiler writes next to it"
    )]
    TooLarge {
        /// Name of the input.
        name: String,
        /// Permitted size.
        limit_bytes: u64,
    },
    /// The events do not fit in a trace.
    #[error(transparent)]
    Trace(#[from] trace_model::BuildError),
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
