//! Bytes of a pickle, with their offset.

use std::io::{ErrorKind, Read};

use crate::error::{Error, Result};

/// Bytes read at once. A length in the file never makes a larger allocation.
const PIECE: usize = 64 * 1024;

pub(super) struct Input<'n, R> {
    name: &'n str,
    reader: R,
    piece: Vec<u8>,
    at: usize,
    /// Offset of the first byte of the piece.
    before: u64,
    /// Name of the instruction that is read.
    pub(super) within: &'static str,
}

impl<'n, R: Read> Input<'n, R> {
    pub(super) fn new(name: &'n str, reader: R) -> Self {
        Self {
            name,
            reader,
            piece: Vec::new(),
            at: 0,
            before: 0,
            within: "the first instruction",
        }
    }

    pub(super) fn name(&self) -> &'n str {
        self.name
    }

    /// Returns the offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.before + self.at as u64
    }

    /// Reads the next piece; an error at the end of the input.
    fn fill(&mut self) -> Result<()> {
        self.before += self.piece.len() as u64;
        self.at = 0;
        self.piece.resize(PIECE, 0);
        let read = loop {
            match self.reader.read(&mut self.piece) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = match read {
            Ok(count) => count,
            Err(source) => {
                self.piece.clear();
                return Err(Error::Io {
                    name: self.name.to_owned(),
                    source,
                });
            }
        };
        self.piece.truncate(count);
        if count == 0 {
            return Err(Error::Truncated {
                name: self.name.to_owned(),
                byte: self.before,
                within: self.within,
            });
        }
        Ok(())
    }

    pub(super) fn byte(&mut self) -> Result<u8> {
        loop {
            if let Some(byte) = self.piece.get(self.at) {
                self.at += 1;
                return Ok(*byte);
            }
            self.fill()?;
        }
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        for byte in &mut bytes {
            *byte = self.byte()?;
        }
        Ok(bytes)
    }

    /// Passes `length` bytes to `each`, piece by piece.
    pub(super) fn pieces(&mut self, length: u64, mut each: impl FnMut(&[u8])) -> Result<()> {
        let mut left = length;
        while left > 0 {
            let rest = self.piece.get(self.at..).unwrap_or_default();
            if rest.is_empty() {
                self.fill()?;
                continue;
            }
            let count = usize::try_from(left).unwrap_or(usize::MAX).min(rest.len());
            each(rest.get(..count).unwrap_or_default());
            self.at += count;
            left -= count as u64;
        }
        Ok(())
    }

    pub(super) fn skip(&mut self, length: u64) -> Result<()> {
        self.pieces(length, |_| {})
    }

    /// Reads to the end of the line into `line`, without it. Lines of pickles are short: numbers, names, or texts of protocol 0.
    pub(super) fn line(&mut self, line: &mut Vec<u8>, most: u64) -> Result<()> {
        line.clear();
        loop {
            match self.byte()? {
                b'\n' => return Ok(()),
                _ if line.len() as u64 >= most => {
                    return Err(self.damaged(self.offset(), "a line without end"));
                }
                byte => line.push(byte),
            }
        }
    }

    pub(super) fn damaged(&self, byte: u64, what: impl Into<String>) -> Error {
        Error::Damaged {
            name: self.name.to_owned(),
            byte,
            what: what.into(),
        }
    }
}
