//! Errors of reading a dump.

use std::io;

/// Reason why a dump cannot be read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file could not be opened, read or decompressed.
    #[error(transparent)]
    Source(#[from] byte_source::Error),
    /// Reading failed.
    #[error("{name}: {source}")]
    Io {
        /// Name of the input.
        name: String,
        /// Reason given by the system.
        #[source]
        source: io::Error,
    },
    /// The pickle ends before its end mark.
    #[error(
        "{name}: the pickle is cut off at byte {byte}, in {within}: it was still being written or was not copied whole; copy it again, or dump it again"
    )]
    Truncated {
        /// Name of the input.
        name: String,
        /// Number of bytes of the input.
        byte: u64,
        /// Name of the incomplete instruction.
        within: &'static str,
    },
    /// The pickle would run code.
    #[error(
        "{name}: refused: at byte {byte} the pickle asks Python for {what}, which plain data does not need; nothing was run. Dumps of PyTorch hold plain data only: take the file from its source again"
    )]
    Refused {
        /// Name of the input.
        name: String,
        /// Offset of the instruction.
        byte: u64,
        /// What it asks for.
        what: String,
    },
    /// The pickle is damaged.
    #[error(
        "{name}: the pickle is damaged at byte {byte}: {what}; copy it again, or dump it again"
    )]
    Damaged {
        /// Name of the input.
        name: String,
        /// Offset of the instruction.
        byte: u64,
        /// Description of the problem.
        what: String,
    },
    /// The values do not fit in the permitted memory.
    #[error(
        "{name}: the values of the dump need more than {limit_bytes} bytes of memory at byte {byte}: record less, with a smaller max_entries"
    )]
    TooLarge {
        /// Name of the input.
        name: String,
        /// Offset of the instruction.
        byte: u64,
        /// Permitted memory.
        limit_bytes: u64,
    },
    /// The JSON document is broken or cut off.
    #[error("{name}: line {line}, column {column}: {what}; copy the file again, or dump it again")]
    Json {
        /// Name of the input.
        name: String,
        /// Line, from 1.
        line: usize,
        /// Column, from 1.
        column: usize,
        /// Description of the problem.
        what: String,
    },
    /// The data are of neither kind of dump.
    #[error(
        "{name}: neither a memory snapshot (segments, device_traces) nor a Flight Recorder dump (entries, pg_config) of PyTorch; its keys: {keys}. Snapshots are written by torch.cuda.memory._dump_snapshot, dumps by TORCH_NCCL_DUMP_ON_TIMEOUT=1 with TORCH_NCCL_TRACE_BUFFER_SIZE"
    )]
    OtherData {
        /// Name of the input.
        name: String,
        /// First keys of the data.
        keys: String,
    },
    /// The rank of a dump is unknown, or two dumps are of the same rank.
    #[error("{name}: {what}")]
    Rank {
        /// Name of the input.
        name: String,
        /// Description and remedy.
        what: String,
    },
    /// A table could not be made; only on a defect.
    #[error(transparent)]
    Table(#[from] report::Error),
}

/// Result of this crate's functions.
pub type Result<T> = std::result::Result<T, Error>;
