//! Encodes records: an id, the length of the content, and compressed integers.
//!
//! A compressed integer is one byte 0 for 0, one byte 255 for the largest value (which means
//! "undefined"), and otherwise the number of bytes that follow, 1 to 8, and the value in
//! little-endian order without its leading zeros. A record whose content is a single compressed
//! integer has no length: the first byte of the integer serves as one.

/// End of a file: end of chunk, end of file.
pub(crate) const END: [u8; 2] = [2, 1];
/// Start of a chunk: its mark, and the byte order (`B`: little-endian).
pub(crate) const CHUNK: [u8; 2] = [3, b'B'];
/// Ids of records that are written with events.
pub(crate) const TIMESTAMP: u8 = 5;
pub(crate) const ATTRIBUTES: u8 = 6;
pub(crate) const ENTER: u8 = 12;
pub(crate) const LEAVE: u8 = 13;
/// Ids of global definitions.
pub(crate) const CLOCK_PROPERTIES: u8 = 5;
pub(crate) const STRING: u8 = 10;
pub(crate) const ATTRIBUTE: u8 = 11;
pub(crate) const SYSTEM_TREE_NODE: u8 = 12;
pub(crate) const LOCATION_GROUP: u8 = 13;
pub(crate) const LOCATION: u8 = 14;
pub(crate) const REGION: u8 = 15;
/// Type of values that refer to a string.
pub(crate) const TYPE_STRING: u8 = 11;

/// Bytes of a record under construction.
#[derive(Debug, Default)]
pub(crate) struct Content(pub(crate) Vec<u8>);

impl Content {
    pub(crate) fn byte(mut self, value: u8) -> Self {
        self.0.push(value);
        self
    }

    /// Appends a compressed integer of 32 bits; `None` is "undefined".
    pub(crate) fn reference(mut self, value: impl Into<Option<u32>>) -> Self {
        match value.into() {
            None | Some(u32::MAX) => self.0.push(u8::MAX),
            Some(value) => compressed(&mut self.0, u64::from(value)),
        }
        self
    }

    /// Appends a compressed integer of 64 bits.
    pub(crate) fn integer(mut self, value: u64) -> Self {
        match value {
            u64::MAX => self.0.push(u8::MAX),
            value => compressed(&mut self.0, value),
        }
        self
    }

    /// Appends a zero-terminated text; zeros inside it are left out.
    pub(crate) fn text(mut self, text: &str) -> Self {
        self.0.extend(text.bytes().filter(|byte| *byte != 0));
        self.0.push(0);
        self
    }

    /// Returns the record with this content.
    pub(crate) fn record(self, id: u8) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.0.len() + 10);
        out.push(id);
        match u8::try_from(self.0.len()) {
            Ok(length) if length < u8::MAX => out.push(length),
            _ => {
                out.push(u8::MAX);
                out.extend_from_slice(&(self.0.len() as u64).to_le_bytes());
            }
        }
        out.extend_from_slice(&self.0);
        out
    }
}

fn compressed(out: &mut Vec<u8>, value: u64) {
    let bytes = value.to_le_bytes();
    let length = 8 - value.leading_zeros() as usize / 8;
    // 0 to 8.
    out.push(u8::try_from(length).unwrap_or(8));
    out.extend_from_slice(bytes.get(..length).unwrap_or(&bytes));
}

#[cfg(test)]
mod tests {
    use super::{Content, STRING};

    #[test]
    fn integers_have_as_many_bytes_as_they_need() {
        let of = |value| Content::default().integer(value).0;
        assert_eq!(of(0), [0]);
        assert_eq!(of(1), [1, 1]);
        assert_eq!(of(255), [1, 255]);
        assert_eq!(of(256), [2, 0, 1]);
        assert_eq!(of(1_000_000_000_000), [5, 0, 0x10, 0xa5, 0xd4, 0xe8]);
        assert_eq!(
            of(u64::MAX - 1),
            [8, 254, 255, 255, 255, 255, 255, 255, 255]
        );
        assert_eq!(of(u64::MAX), [255]);
        assert_eq!(Content::default().reference(u32::MAX).0, [255]);
        assert_eq!(Content::default().reference(None).0, [255]);
    }

    #[test]
    fn long_records_have_long_lengths() {
        let of = |length: usize| Content::default().text(&"x".repeat(length)).record(STRING);
        assert_eq!(of(0), [10, 1, 0]);
        // 254 bytes including the terminating zero still fit in one byte of length.
        assert_eq!(of(253)[..2], [10, 254]);
        assert_eq!(of(254)[..10], [10, 255, 255, 0, 0, 0, 0, 0, 0, 0]);
    }
}
