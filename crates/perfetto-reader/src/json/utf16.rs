//! Transcodes UTF-16 with a byte order mark to UTF-8.

use std::io::{self, BufRead, Read};

/// Reads UTF-16 and returns UTF-8; lone surrogates become U+FFFD.
pub(super) struct Transcoder<R> {
    inner: R,
    is_big_endian: bool,
    /// A high surrogate whose other half has not been read.
    high: Option<u16>,
    /// The first byte of an incomplete unit.
    odd: Option<u8>,
    out: Vec<u8>,
    given: usize,
}

/// Returns `true` if the text starts with a UTF-16 byte order mark.
pub(super) fn is_utf16(head: &[u8]) -> bool {
    matches!(head, [0xff, 0xfe, ..] | [0xfe, 0xff, ..])
}

impl<R: BufRead> Transcoder<R> {
    /// Wraps `inner`, which is positioned before its byte order mark.
    pub(super) fn new(mut inner: R) -> io::Result<Self> {
        let mut mark = [0; 2];
        inner.read_exact(&mut mark)?;
        Ok(Self {
            inner,
            is_big_endian: mark == [0xfe, 0xff],
            high: None,
            odd: None,
            out: Vec::new(),
            given: 0,
        })
    }

    fn push(&mut self, unit: u16) {
        let units = [self.high.take(), Some(unit)];
        for c in char::decode_utf16(units.into_iter().flatten()) {
            let c = match c {
                Ok(c) => c,
                // A high surrogate may have its other half in the next unit.
                Err(lone) if lone.unpaired_surrogate() == unit && unit < 0xdc00 => {
                    self.high = Some(unit);
                    return;
                }
                Err(_) => char::REPLACEMENT_CHARACTER,
            };
            self.out
                .extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
        }
    }

    /// Transcodes some more; leaves `out` empty only at the end.
    fn refill(&mut self) -> io::Result<()> {
        self.out.clear();
        self.given = 0;
        while self.out.is_empty() {
            let bytes = self.inner.fill_buf()?.to_vec();
            if bytes.is_empty() {
                if self.high.take().is_some() | self.odd.take().is_some() {
                    self.out.extend_from_slice("\u{fffd}".as_bytes());
                }
                return Ok(());
            }
            self.inner.consume(bytes.len());
            for b in bytes {
                match self.odd.take() {
                    None => self.odd = Some(b),
                    Some(a) if self.is_big_endian => self.push(u16::from_be_bytes([a, b])),
                    Some(a) => self.push(u16::from_le_bytes([a, b])),
                }
            }
        }
        Ok(())
    }
}

impl<R: BufRead> Read for Transcoder<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.given == self.out.len() {
            self.refill()?;
        }
        let ready = self.out.get(self.given..).unwrap_or_default();
        let count = ready.len().min(buffer.len());
        buffer[..count].copy_from_slice(&ready[..count]);
        self.given += count;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transcoded(bytes: &[u8], capacity: usize) -> String {
        let inner = io::BufReader::with_capacity(capacity, bytes);
        let mut out = String::new();
        let mut transcoder = Transcoder::new(inner).unwrap();
        transcoder.read_to_string(&mut out).unwrap();
        out
    }

    #[test]
    fn both_byte_orders_in_any_pieces() {
        let text = "{\"a\": \"\u{e9}\u{20ac}\u{1f600}\"}";
        let mut little = vec![0xff, 0xfe];
        let mut big = vec![0xfe, 0xff];
        for unit in text.encode_utf16() {
            little.extend(unit.to_le_bytes());
            big.extend(unit.to_be_bytes());
        }
        for capacity in 2..9 {
            assert_eq!(transcoded(&little, capacity), text);
            assert_eq!(transcoded(&big, capacity), text);
        }
    }

    #[test]
    fn lone_surrogates_and_cut_units_are_replaced() {
        let bytes = [0xff, 0xfe, 0x3d, 0xd8, b'x', 0, 0x00, 0xde, 0x3d, 0xd8, 7];
        assert_eq!(transcoded(&bytes, 64), "\u{fffd}x\u{fffd}\u{fffd}");
    }
}
