//! Provides the chunks as one stream, for line readers.

use std::io::{self, BufRead, Read};

use crate::chunks::{Chunk, Chunks};
use crate::damage::DamageLog;

/// Implements `Read` and `BufRead` over a source, decompressed on a separate thread.
///
/// Errors are [`io::Error`]s with a [`crate::Error`] inside (use `downcast`).
#[derive(Debug)]
pub struct Reader {
    chunks: Chunks,
    current: Option<Chunk>,
    at: usize,
}

impl Reader {
    pub(crate) fn new(chunks: Chunks) -> Self {
        Self {
            chunks,
            current: None,
            at: 0,
        }
    }

    /// Returns the damage log; complete once the end was read.
    pub fn damage(&self) -> DamageLog {
        self.chunks.damage()
    }

    fn ready(&self) -> &[u8] {
        self.current
            .as_ref()
            .and_then(|chunk| chunk.data().get(self.at..))
            .unwrap_or_default()
    }
}

impl BufRead for Reader {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        if self.ready().is_empty() {
            self.current = None;
            self.at = 0;
            self.current = self.chunks.next()?;
        }
        Ok(self.ready())
    }

    fn consume(&mut self, amount: usize) {
        self.at += amount;
    }
}

impl Read for Reader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let mut ready = self.fill_buf()?;
        let count = ready.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}
