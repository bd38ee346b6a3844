//! Reads the protobuf wire format: a cursor over the fields of one message.

#![cfg_attr(not(test), warn(clippy::indexing_slicing))]

use std::ops::Range;

use thiserror::Error;

/// Error for bytes that are not a protobuf message: a varint of more than ten bytes, a length past
/// the end, or an unknown wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("malformed protobuf message")]
pub struct Malformed;

/// Value of one field according to its wire type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// Wire type 0: integers, enums, bools.
    Varint(u64),
    /// Wire type 1: `fixed64`, `double`.
    Fixed64(u64),
    /// Wire type 2: strings, bytes, messages, packed lists.
    Bytes(&'a [u8]),
    /// Wire type 5: `fixed32`, `float`.
    Fixed32(u32),
}

/// Walks over the fields of a message from front to back; allocates nothing.
///
/// ```
/// use perfetto_reader::proto::{Cursor, Value};
///
/// let mut fields = Cursor::new(&[0x08, 0x96, 0x01, 0x12, 0x02, b'h', b'i']);
/// assert_eq!(fields.field()?, Some((1, Value::Varint(150))));
/// assert_eq!(fields.field()?, Some((2, Value::Bytes(b"hi"))));
/// assert_eq!(fields.field()?, None);
/// # Ok::<(), perfetto_reader::proto::Malformed>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the first field of `message`.
    #[inline]
    pub fn new(message: &'a [u8]) -> Self {
        Self { rest: message }
    }

    /// Returns the number of unread bytes.
    #[inline]
    pub fn remaining(&self) -> usize {
        self.rest.len()
    }

    /// Returns number and value of the next field; `None` at the end of the message.
    ///
    /// # Errors
    ///
    /// [`Malformed`]; the cursor is unusable afterwards.
    #[inline]
    pub fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        self.value(tag).map(Some)
    }

    /// Returns number and value of the field whose tag was read with [`Cursor::varint`]. Loops over
    /// millions of messages examine the tag themselves and use this for the other fields.
    ///
    /// # Errors
    ///
    /// [`Malformed`].
    pub fn value(&mut self, tag: u64) -> Result<(u32, Value<'a>), Malformed> {
        let number = u32::try_from(tag >> 3).map_err(|_| Malformed)?;
        if number == 0 {
            return Err(Malformed);
        }
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            2 => Value::Bytes(self.bytes()?),
            1 => Value::Fixed64(self.fixed64()?),
            5 => {
                let (head, rest) = self.rest.split_first_chunk::<4>().ok_or(Malformed)?;
                self.rest = rest;
                Value::Fixed32(u32::from_le_bytes(*head))
            }
            _ => return Err(Malformed),
        };
        Ok((number, value))
    }

    /// Reads a varint without a tag (packed lists).
    ///
    /// # Errors
    ///
    /// [`Malformed`] at the end and for more than ten bytes.
    #[inline]
    pub fn varint(&mut self) -> Result<u64, Malformed> {
        match self.rest {
            [byte, rest @ ..] if *byte < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*byte))
            }
            [low, high, rest @ ..] if *high < 0x80 => {
                self.rest = rest;
                Ok(u64::from(*low & 0x7f) | u64::from(*high) << 7)
            }
            // By value, so that the cursor itself stays in registers.
            rest => {
                let (value, rest) = long_varint(rest)?;
                self.rest = rest;
                Ok(value)
            }
        }
    }

    /// Reads a length and that many bytes, without a tag.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when fewer are left.
    #[inline]
    pub fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let len = usize::try_from(self.varint()?).map_err(|_| Malformed)?;
        let (bytes, rest) = self.rest.split_at_checked(len).ok_or(Malformed)?;
        self.rest = rest;
        Ok(bytes)
    }

    /// Reads eight bytes without a tag (packed lists).
    ///
    /// # Errors
    ///
    /// [`Malformed`] when fewer are left.
    #[inline]
    pub fn fixed64(&mut self) -> Result<u64, Malformed> {
        let (head, rest) = self.rest.split_first_chunk::<8>().ok_or(Malformed)?;
        self.rest = rest;
        Ok(u64::from_le_bytes(*head))
    }
}

impl Value<'_> {
    /// Appends the integers of a repeated field: one, or a packed list.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when a packed list is truncated.
    pub fn push_varints(self, list: &mut Vec<u64>) -> Result<(), Malformed> {
        match self {
            Self::Varint(n) => list.push(n),
            Self::Bytes(packed) => {
                let mut cursor = Cursor::new(packed);
                while cursor.remaining() > 0 {
                    list.push(cursor.varint()?);
                }
            }
            Self::Fixed64(_) | Self::Fixed32(_) => {}
        }
        Ok(())
    }

    /// Appends the `fixed64` or `double` words of a repeated field: one, or a packed list.
    ///
    /// # Errors
    ///
    /// [`Malformed`] when a packed list is truncated.
    pub fn push_fixed64s(self, list: &mut Vec<u64>) -> Result<(), Malformed> {
        match self {
            Self::Fixed64(n) => list.push(n),
            Self::Bytes(packed) => {
                let mut cursor = Cursor::new(packed);
                while cursor.remaining() > 0 {
                    list.push(cursor.fixed64()?);
                }
            }
            Self::Varint(_) | Self::Fixed32(_) => {}
        }
        Ok(())
    }
}

/// Returns a varint of three bytes or more, and the bytes after it.
#[inline(never)]
fn long_varint(bytes: &[u8]) -> Result<(u64, &[u8]), Malformed> {
    if let Some(head) = bytes.first_chunk::<8>() {
        let word = u64::from_le_bytes(*head);
        let stops = !word & 0x8080_8080_8080_8080;
        if stops != 0 {
            let bits = stops.trailing_zeros() + 1;
            let kept = word & (u64::MAX >> (64 - bits)) & 0x7f7f_7f7f_7f7f_7f7f;
            // Close the gaps between the groups of seven bits: in pairs, fours and eights.
            let pairs = (kept & 0x007f_007f_007f_007f) | (kept & 0x7f00_7f00_7f00_7f00) >> 1;
            let fours = (pairs & 0x0000_3fff_0000_3fff) | (pairs & 0x3fff_0000_3fff_0000) >> 2;
            let value = (fours & 0x0fff_ffff) | (fours & 0x0fff_ffff_0000_0000) >> 4;
            let rest = bytes.get(bits as usize / 8..).ok_or(Malformed)?;
            return Ok((value, rest));
        }
    }
    let mut value = 0_u64;
    for (i, &byte) in bytes.iter().take(10).enumerate() {
        // Only one bit of the tenth byte counts, as in all decoders.
        value |= u64::from(byte & 0x7f) << (7 * i).min(63);
        if byte < 0x80 {
            return Ok((value, bytes.get(i + 1..).ok_or(Malformed)?));
        }
    }
    Err(Malformed)
}

/// Location of a part of a message: 8 bytes instead of a borrow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end: u32,
}

impl Span {
    /// An empty span at the beginning.
    pub(crate) const EMPTY: Self = Self { start: 0, end: 0 };

    /// Returns the location of `part` in `whole`, of which it must be a part; empty if it does not
    /// fit in 32 bits.
    #[inline]
    pub(crate) fn of(part: &[u8], whole: &[u8]) -> Self {
        let start = (part.as_ptr() as usize).wrapping_sub(whole.as_ptr() as usize);
        match (
            u32::try_from(start),
            u32::try_from(start.wrapping_add(part.len())),
        ) {
            (Ok(start), Ok(end)) => Self { start, end },
            _ => Self::default(),
        }
    }

    /// Returns the bytes in the message that the span was made for.
    #[inline]
    pub fn bytes(self, whole: &[u8]) -> &[u8] {
        whole.get(self.range()).unwrap_or_default()
    }

    /// Returns the span as a range of byte indices.
    #[inline]
    pub fn range(self) -> Range<usize> {
        self.start as usize..self.end as usize
    }
}

/// Returns the tag of an integer field.
pub(crate) const fn varint_tag(field: u32) -> u64 {
    (field as u64) << 3
}

/// Returns the tag of a `fixed64` or `double` field.
pub(crate) const fn fixed64_tag(field: u32) -> u64 {
    (field as u64) << 3 | 1
}

/// Returns the tag of a bytes field.
pub(crate) const fn bytes_tag(field: u32) -> u64 {
    (field as u64) << 3 | 2
}

/// Returns the low 32 bits, as decoders of `int32` and `uint32` fields do.
#[expect(clippy::cast_possible_truncation, reason = "what the format asks for")]
pub(crate) fn low32(n: u64) -> u32 {
    n as u32
}

/// Returns the value of an `int32` field.
pub(crate) fn int32(n: u64) -> i32 {
    low32(n).cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(mut n: u64) -> Vec<u8> {
        let mut out = Vec::new();
        while n >= 0x80 {
            out.push(u8::try_from(n & 0x7f).unwrap() | 0x80);
            n >>= 7;
        }
        out.push(u8::try_from(n).unwrap());
        out
    }

    proptest! {
        #[test]
        fn varints_of_all_lengths_read_back(bits in 0..=64_u32, n: u64, tail in 0..10_usize) {
            let n = n.checked_shr(64 - bits).unwrap_or(0);
            let mut bytes = encode(n);
            let len = bytes.len();
            bytes.resize(len + tail, 0xff);
            let mut cursor = Cursor::new(&bytes);
            prop_assert_eq!(cursor.varint(), Ok(n));
            prop_assert_eq!(cursor.remaining(), tail);
            for cut in 0..len {
                prop_assert_eq!(Cursor::new(&bytes[..cut]).varint(), Err(Malformed));
            }
        }
    }

    #[test]
    fn broken_fields_are_refused() {
        let eleven = [0xff; 11];
        assert_eq!(Cursor::new(&eleven).varint(), Err(Malformed));
        for bad in [
            &[0x00_u8, 0x01][..], // field number 0
            &[0x0b],              // group
            &[0x0e],              // wire type 6
            &[0x0a, 0x05, 1, 2],  // length past the end
            &[0x09, 1, 2, 3],     // fixed64 cut
            &[0x0d, 1, 2, 3],     // fixed32 cut
            &[0x08],              // varint missing
            &[0x80],              // tag cut
        ] {
            assert_eq!(Cursor::new(bad).field(), Err(Malformed), "{bad:02x?}");
        }
    }

    #[test]
    fn a_span_finds_its_part_again() {
        let whole = b"abcdef";
        let span = Span::of(&whole[2..5], whole);
        assert_eq!((span.bytes(whole), span.range()), (&b"cde"[..], 2..5));
    }
}
