//! What a caller may choose when opening: limits and progress.

use std::sync::Arc;

use crate::progress::Progress;

/// Bounds on what an input may make the process do.
///
/// They protect against decompression bombs and careless inputs; a plain file of any size
/// is read without complaint, because reading it holds one window in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of bytes one source may decompress to, and maximum number of bytes an archive that cannot be
    /// read in place is spooled to. Default 64 GiB.
    pub max_uncompressed_bytes: u64,
    /// Maximum number of uncompressed bytes per compressed byte, looked at once
    /// [`Limits::ratio_grace_bytes`] have come out; `None` never looks. Default 1000.
    ///
    /// Deflate cannot exceed 1032:1 and only a run of one byte comes near; profiler JSON
    /// has 13 to 20, sparse generated traces have some hundreds.
    pub max_ratio: Option<u64>,
    /// Uncompressed bytes below which no ratio is suspicious. Default 1 GiB.
    pub ratio_grace_bytes: u64,
    /// Maximum memory one decompressor may take for its window. Default 256 MiB, which covers
    /// everything but `zstd --long=29` and up and hand-made xz dictionaries.
    pub max_decoder_bytes: u64,
    /// Maximum number of containers inside one another, archives included. Default 3.
    pub max_nesting: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            max_uncompressed_bytes: 64 << 30,
            max_ratio: Some(1000),
            ratio_grace_bytes: 1 << 30,
            max_decoder_bytes: 256 << 20,
            max_nesting: 3,
        }
    }
}

/// How to open a source.
///
/// ```
/// let mut options = byte_source::OpenOptions::default();
/// options.limits.max_uncompressed_bytes = 10 << 30;
/// ```
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct OpenOptions {
    /// Bounds on decompression.
    pub limits: Limits,
    /// Counter of the bytes read from disk, for a progress display.
    pub progress: Option<Arc<Progress>>,
    /// Hand on content that is packed in a way this crate does not unpack (LZ4, for one), instead of refusing it: for formats
    /// that are packed so themselves.
    pub pass_foreign: bool,
}
