//! A cursor over a header of limited size that knows where it is.

use std::io::{BufRead, BufReader, Read};

use crate::error::{Error, Result};

/// Names of tensors and keys, at most.
const MAX_NAME: u64 = 64 << 10;

pub(super) struct Header<R> {
    name: String,
    reader: BufReader<R>,
    offset: u64,
    limit: u64,
    /// Whether numbers have their most significant byte first.
    pub(super) big_endian: bool,
}

impl<R: Read> Header<R> {
    pub(super) fn new(name: &str, reader: BufReader<R>, limit: u64) -> Self {
        Self {
            name: name.to_owned(),
            reader,
            offset: 0,
            limit,
            big_endian: false,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// An error at the place reached.
    pub(super) fn broken(&self, what: &'static str) -> Error {
        Error::Broken {
            name: self.name.clone(),
            offset: self.offset,
            what,
        }
    }

    /// The next few bytes, fewer when there are no more; they stay to be read.
    pub(super) fn peek(&mut self, count: usize) -> Result<&[u8]> {
        let name = &self.name;
        // The buffer holds far more than is ever looked ahead; a pipe may fill it in parts, which only costs the recognition.
        let buffer = self.reader.fill_buf().map_err(|source| Error::Io {
            name: name.clone(),
            source,
        })?;
        Ok(buffer.get(..count.min(buffer.len())).unwrap_or_default())
    }

    /// Counts bytes that are about to be read.
    fn advance(&mut self, count: u64) -> Result<()> {
        match self.offset.checked_add(count) {
            Some(end) if end <= self.limit => Ok(()),
            _ => Err(self.broken("the header is longer than any known one")),
        }
    }

    fn exact<const N: usize>(&mut self) -> Result<[u8; N]> {
        self.advance(N as u64)?;
        let mut bytes = [0; N];
        if let Err(source) = self.reader.read_exact(&mut bytes) {
            return Err(self.failed(source));
        }
        self.offset += N as u64;
        if self.big_endian {
            bytes.reverse();
        }
        Ok(bytes)
    }

    fn failed(&self, source: std::io::Error) -> Error {
        if source.kind() == std::io::ErrorKind::UnexpectedEof {
            return self.broken("the file ends within its header");
        }
        Error::Io {
            name: self.name.clone(),
            source,
        }
    }

    pub(super) fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.exact()?))
    }

    pub(super) fn u64(&mut self) -> Result<u64> {
        Ok(u64::from_le_bytes(self.exact()?))
    }

    /// Bytes of a length that the file says; memory grows with what is there and not with what is said.
    pub(super) fn bytes(&mut self, count: u64) -> Result<Vec<u8>> {
        self.advance(count)?;
        let mut bytes = Vec::new();
        match (&mut self.reader).take(count).read_to_end(&mut bytes) {
            Ok(read) if read as u64 == count => {}
            Ok(_) => return Err(self.broken("the file ends within its header")),
            Err(source) => return Err(self.failed(source)),
        }
        self.offset += count;
        Ok(bytes)
    }

    pub(super) fn skip(&mut self, count: u64) -> Result<()> {
        self.advance(count)?;
        match std::io::copy(&mut (&mut self.reader).take(count), &mut std::io::sink()) {
            Ok(skipped) if skipped == count => {}
            Ok(_) => return Err(self.broken("the file ends within its header")),
            Err(source) => return Err(self.failed(source)),
        }
        self.offset += count;
        Ok(())
    }

    /// A name of `count` bytes; what is not UTF-8 is replaced.
    pub(super) fn text(&mut self, count: u64) -> Result<String> {
        if count > MAX_NAME {
            return Err(self.broken("a name is longer than 64 KiB"));
        }
        let bytes = self.bytes(count)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}
