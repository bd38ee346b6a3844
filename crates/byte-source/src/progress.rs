//! How far reading has come: two counters that somebody else may draw.

use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes read and bytes to read, of the input as it lies on disk (that is, compressed).
///
/// Share one behind an `Arc` between any number of sources through
/// [`OpenOptions::progress`](crate::OpenOptions::progress): opening a regular file adds its
/// length to the total, a pipe adds nothing. Counting is relaxed and costs one atomic
/// addition per read. Nothing is drawn here.
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
    /// Bytes read so far. May pass the total a little where bytes are read twice.
    pub fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    /// Bytes known to be there, 0 when only pipes were opened.
    pub fn total(&self) -> u64 {
        self.total.load(Ordering::Relaxed)
    }

    /// Counts `bytes` as read.
    pub fn add_done(&self, bytes: u64) {
        self.done.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Announces `bytes` more to read.
    pub fn add_total(&self, bytes: u64) {
        self.total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The part that is done, 0 to 1, or `None` when the total is unknown.
    #[expect(
        clippy::cast_precision_loss,
        reason = "a share for display: 53 bits are plenty"
    )]
    pub fn fraction(&self) -> Option<f64> {
        let total = self.total();
        (total > 0).then(|| (self.done() as f64 / total as f64).min(1.0))
    }
}
