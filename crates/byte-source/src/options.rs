//! Options of opening a source: limits and progress.

use std::sync::Arc;

use crate::progress::Progress;

/// Limits on the resources that an input can consume.
///
/// They protect against decompression bombs and unsuitable inputs. A plain file of any size is
/// accepted, because reading it keeps one window in memory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum number of bytes one source may decompress to, and maximum number of bytes an archive that cannot be
    /// read in place is spooled to. Default 64 GiB.
    pub max_uncompressed_bytes: u64,
    /// Maximum number of uncompressed bytes per compressed byte, checked once
    /// [`Limits::ratio_grace_bytes`] were produced; `None` disables the check. Default 1000.
    ///
    /// Deflate cannot exceed 1032:1, and only a run of one byte comes near it; profiler JSON has 13
    /// to 20, sparse generated traces have some hundreds.
    pub max_ratio: Option<u64>,
    /// Number of uncompressed bytes below which the ratio is not checked. Default 1 GiB.
    pub ratio_grace_bytes: u64,
    /// Maximum memory of one decompressor's window in bytes. Default 256 MiB, which covers
    /// everything but `zstd --long=29` and up and unusual xz dictionaries.
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

/// Options for opening a source.
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
    /// Returns content in a container that this crate does not unpack (such as LZ4) unchanged
    /// instead of rejecting it: for formats that are themselves packed like this.
    pub pass_foreign: bool,
}
