//! Counts the progress of reading; the display is up to the caller.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts bytes read and bytes to read, of the input on disk (before decompression).
///
/// Share one in an `Arc` between any number of sources through
/// [`OpenOptions::progress`](crate::OpenOptions::progress): opening a regular file adds its length
/// to the total, a pipe adds nothing. Counting is relaxed and costs one atomic addition per read.
/// This type displays nothing.
///
/// ```
/// let progress = byte_source::Progress::default();
/// progress.add_total(200);
/// progress.add_done(50);
/// assert_eq!(progress.fraction(), Some(0.25));
/// ```
#[derive(Debug, Default)]
pub struct Progress {
    done: AtomicU64,
    total: AtomicU64,
}

impl Progress {
    /// Returns the bytes read so far. May slightly exceed the total when bytes are read twice.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Returns the known total in bytes; 0 if only pipes were opened.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as read.
    pub fn add_done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Adds `bytes` to the total.
    pub fn add_total(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Returns the completed fraction, 0 to 1, or `None` if the total is unknown.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share for display: 53 bits are plenty"
    )]
    pub fn fraction(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| (self.done() as f64 / total as f64).min(1.0))
    }
}
