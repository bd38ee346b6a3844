//! Passes bytes from a writer that may change threads to an output that cannot.

use std::sync::{Arc, Mutex, PoisonError};

/// Buffers the bytes of a Parquet or JSON writer until they are taken.
#[derive(Debug, Clone, Default)]
pub(crate) struct SharedBuffer(Arc<Mutex<Vec<u8>>>);

impl SharedBuffer {
    /// Returns the bytes written since the last call.
    pub(crate) fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl std::io::Write for SharedBuffer {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut shared = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        shared.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}
