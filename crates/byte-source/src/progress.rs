//! Counts the progress of reading; the display is up to the caller.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts bytes read and bytes to read, of the input on disk (before decompression).
///
/// Share one in an `Arc` between any number of sources through
/// [`OpenOptions::progress`](crate::OpenOptions::progress): opening a regular file adds its length
/// to the total, a pipe adds nothing. Counting is relaxed and costs one atomic addition per read.
/// This type displays nothing. [`stop`](Self::stop) ends all reading that is counted.
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
    stopped: AtomicBool,
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

    /// Makes every later read of the sources that share this fail, so that their readers end soon.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    /// Returns `true` once [`stop`](Self::stop) was called.
    pub fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Returns an error once [`stop`](Self::stop) was called.
    pub(crate) fn check(&self) -> io::Result<()> {
        match self.is_stopped() {
            true => Err(io::Error::other("reading was stopped on request")),
            false => Ok(()),
        }
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

#[cfg(test)]
mod tests {
    use std::io::Read as _;
    use std::sync::Arc;

    use super::*;
    use crate::{OpenOptions, Source};

    #[test]
    fn a_stop_ends_reading_by_position_and_in_sequence() {
        let file = tempfile::NamedTempFile::new().unwrap();
        // Larger than what readers hold in advance.
        std::fs::write(file.path(), vec![b'x'; 16 << 20]).unwrap();
        let mut options = OpenOptions::default();
        let progress = Arc::new(Progress::default());
        options.progress = Some(Arc::clone(&progress));
        let mut reader = Source::open(file.path(), &options)
            .unwrap()
            .into_read()
            .unwrap();
        let mut start = [0; 16];
        reader.read_exact(&mut start).unwrap();
        progress.stop();
        let mut rest = Vec::new();
        let error = reader.read_to_end(&mut rest).unwrap_err();
        assert!(rest.len() < 16 << 20);
        assert!(error.to_string().contains("read failed"), "{error}");
    }
}
