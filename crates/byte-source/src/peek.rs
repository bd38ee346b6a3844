//! Adds look-ahead to any reader.

use std::io::{self, Read};

/// Initial buffer size in bytes.
const GROWTH: usize = 64 << 10;

/// A reader whose next bytes can be examined before they are read.
pub(crate) struct Peek {
    inner: Box<dyn Read + Send>,
    ahead: Vec<u8>,
    at: usize,
    /// Error found during look-ahead; returned when reading reaches it.
    failed: Option<io::Error>,
    ended: bool,
}

impl Peek {
    pub(crate) fn new(inner: Box<dyn Read + Send>) -> Self {
        Self {
            inner,
            ahead: Vec::new(),
            at: 0,
            failed: None,
            ended: false,
        }
    }

    /// Returns the next `wanted` bytes, or fewer if the end or a failure comes first.
    ///
    /// A failure is an error here only if no byte precedes it.
    pub(crate) fn peek(&mut self, wanted: usize) -> io::Result<&[u8]> {
        self.ahead.drain(..self.at);
        self.at = 0;
        let missing = wanted.saturating_sub(self.ahead.len());
        if missing > 0 && !self.ended && self.failed.is_none() {
            let limit = u64::try_from(missing).unwrap_or(u64::MAX);
            self.ahead.reserve(missing.min(GROWTH));
            // Grows with the data that arrives, and keeps it if a failure follows.
            match (&mut self.inner).take(limit).read_to_end(&mut self.ahead) {
                Ok(count) => self.ended = count < missing,
                Err(error) => self.failed = Some(error),
            }
        }
        if self.ahead.is_empty()
            && let Some(error) = self.failed.take()
        {
            self.ended = true;
            return Err(error);
        }
        Ok(self.ahead.get(..wanted).unwrap_or(&self.ahead))
    }
}

impl Read for Peek {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let ready = self.ahead.get(self.at..).unwrap_or_default();
        if !ready.is_empty() {
            let count = ready.len().min(buffer.len());
            if let (Some(to), Some(from)) = (buffer.get_mut(..count), ready.get(..count)) {
                to.copy_from_slice(from);
            }
            self.at += count;
            if self.at == self.ahead.len() {
                self.ahead = Vec::new();
                self.at = 0;
            }
            return Ok(count);
        }
        if let Some(error) = self.failed.take() {
            self.ended = true;
            return Err(error);
        }
        if self.ended {
            return Ok(0);
        }
        self.inner.read(buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns three bytes, then fails.
    struct Failing(u8);

    impl Read for Failing {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            if self.0 == 3 {
                return Err(io::Error::other("planted"));
            }
            self.0 += 1;
            buffer[0] = self.0;
            Ok(1)
        }
    }

    #[test]
    fn a_failure_comes_after_the_bytes_before_it() {
        let mut peek = Peek::new(Box::new(Failing(0)));
        assert_eq!(peek.peek(2).unwrap(), [1, 2]);
        assert_eq!(peek.peek(10).unwrap(), [1, 2, 3]);
        let mut buffer = [0; 2];
        assert_eq!(peek.read(&mut buffer).unwrap(), 2);
        assert_eq!(peek.peek(10).unwrap(), [3]);
        assert_eq!(peek.read(&mut buffer).unwrap(), 1);
        assert_eq!(peek.read(&mut buffer).unwrap_err().to_string(), "planted");
        assert_eq!(peek.read(&mut buffer).unwrap(), 0);
        assert_eq!(peek.peek(4).unwrap(), []);
    }

    #[test]
    fn looking_does_not_consume() {
        let mut peek = Peek::new(Box::new(io::Cursor::new(b"abcdef".to_vec())));
        assert_eq!(peek.peek(3).unwrap(), b"abc");
        assert_eq!(peek.peek(2).unwrap(), b"ab");
        let mut all = String::new();
        peek.read_to_string(&mut all).unwrap();
        assert_eq!(all, "abcdef");
        assert_eq!(peek.peek(1).unwrap(), b"");
    }
}
