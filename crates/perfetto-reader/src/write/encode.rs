//! Writes the protobuf wire format: fields in the order of the calls.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder {
    /// Longer than the written part: it grows in large steps and is filled without a check per
    /// byte.
    room: Vec<u8>,
    length: usize,
}

/// Size of [`Fields`] in bytes: enough for four fields of the longest kind.
const FIELDS_BYTES: usize = 64;

/// Buffer for a few fields that are not texts.
#[derive(Debug)]
pub(crate) struct Fields<'r> {
    bytes: &'r mut [u8; FIELDS_BYTES],
    length: usize,
}

impl Fields<'_> {
    #[inline]
    fn byte(&mut self, byte: u8) {
        // The remainder proves that the index is in range; callers stay below the length.
        self.bytes[self.length % FIELDS_BYTES] = byte;
        self.length += 1;
    }

    #[inline]
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.byte((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.byte((value & 0x7f) as u8);
    }

    /// Writes an integer, bool or enum field; negative numbers as two's complement.
    #[inline]
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// Writes a `fixed64` or `double` field.
    #[inline]
    pub(crate) fn fixed64(&mut self, field: u32, word: u64) {
        self.varint(u64::from(field) << 3 | 1);
        for byte in word.to_le_bytes() {
            self.byte(byte);
        }
    }
}

impl Encoder {
    /// Appends at most four fields that are not texts.
    #[inline]
    pub(crate) fn fields(&mut self, fill: impl FnOnce(&mut Fields<'_>)) {
        self.need(FIELDS_BYTES);
        let room = self.room.get_mut(self.length..self.length + FIELDS_BYTES);
        let Some(Ok(bytes)) = room.map(<&mut [u8; FIELDS_BYTES]>::try_from) else {
            return;
        };
        let mut fields = Fields { bytes, length: 0 };
        fill(&mut fields);
        debug_assert!(fields.length <= FIELDS_BYTES, "more than four fields");
        self.length += fields.length;
    }

    /// Writes a message of at most three such fields.
    #[inline]
    pub(crate) fn small_message(&mut self, field: u32, fill: impl FnOnce(&mut Fields<'_>)) {
        self.fields(|fields| {
            fields.varint(u64::from(field) << 3 | 2);
            let at = fields.length;
            fields.byte(0);
            fill(fields);
            fields.bytes[at % FIELDS_BYTES] = ((fields.length - at - 1) as u64 & 0x7f) as u8;
        });
    }

    /// Makes room for this many more bytes.
    #[inline]
    fn need(&mut self, bytes: usize) {
        if self.room.len() - self.length < bytes {
            self.grow(bytes);
        }
    }

    #[cold]
    fn grow(&mut self, bytes: usize) {
        let wanted = (self.length + bytes).max(2 * self.room.len());
        self.room.resize(wanted.max(4 * FIELDS_BYTES), 0);
    }

    /// Appends bytes that are already encoded.
    #[inline]
    pub(crate) fn append(&mut self, bytes: &[u8]) {
        self.need(bytes.len());
        let end = self.length + bytes.len();
        if let Some(place) = self.room.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
    }

    /// Writes an integer, bool or enum field; negative numbers as two's complement.
    #[inline]
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.fields(|fields| fields.uint(field, value));
    }

    /// Writes a `fixed64` or `double` field.
    #[inline]
    pub(crate) fn fixed64(&mut self, field: u32, word: u64) {
        self.fields(|fields| fields.fixed64(field, word));
    }

    /// Writes a string, bytes or message field.
    #[inline]
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.header(field, bytes.len());
        self.append(bytes);
    }

    /// Writes a message field in place; its length is inserted afterwards.
    #[inline]
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.fields(|fields| {
            fields.varint(u64::from(field) << 3 | 2);
            fields.byte(0);
        });
        let start = self.length;
        fill(self);
        let length = self.length - start;
        // Rare: the contents move to make room for a longer length.
        let more = varint_len(length as u64) - 1;
        if more > 0 {
            self.need(more);
            self.room.copy_within(start..self.length, start + more);
        }
        let end = self.length + more;
        self.length = start - 1;
        self.place_varint(length as u64);
        self.length = end;
    }

    /// Overwrites the current position with a varint.
    #[inline]
    fn place_varint(&mut self, mut value: u64) {
        for place in self.room.get_mut(self.length..).unwrap_or_default() {
            if value < 0x80 {
                *place = (value & 0x7f) as u8;
                return;
            }
            *place = (value & 0x7f) as u8 | 0x80;
            value >>= 7;
        }
    }

    /// Writes tag and length of a string, bytes or message field of `bytes` bytes.
    #[inline]
    pub(crate) fn header(&mut self, field: u32, bytes: usize) {
        self.fields(|fields| {
            fields.varint(u64::from(field) << 3 | 2);
            fields.varint(bytes as u64);
        });
    }

    /// Returns the encoded size of [`Encoder::bytes`] for this many bytes.
    #[inline]
    pub(crate) fn bytes_len(field: u32, bytes: usize) -> usize {
        varint_len(u64::from(field) << 3) + varint_len(bytes as u64) + bytes
    }

    /// Returns the written bytes.
    #[inline]
    pub(crate) fn as_slice(&self) -> &[u8] {
        self.room.get(..self.length).unwrap_or_default()
    }

    /// Returns the number of bytes written.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.length
    }

    pub(crate) fn clear(&mut self) {
        self.length = 0;
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.length == 0
    }
}

/// Returns the length of a varint in bytes: seven bits each.
#[inline]
fn varint_len(value: u64) -> usize {
    (64 - (value | 1).leading_zeros() as usize).div_ceil(7)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Cursor, Value};

    #[test]
    fn lengths_are_those_of_what_is_written() {
        for bits in 0..64 {
            for value in [1_u64 << bits, (1 << bits) - 1, u64::MAX >> bits] {
                let mut e = Encoder::default();
                e.fields(|fields| fields.varint(value));
                assert_eq!(e.len(), varint_len(value), "{value}");
            }
        }
        for length in [0, 1, 127, 128, 20_000] {
            let mut e = Encoder::default();
            e.bytes(11, &vec![0; length]);
            assert_eq!(e.len(), Encoder::bytes_len(11, length));
        }
    }

    #[test]
    fn fields_on_the_side_are_as_those_one_by_one() {
        for value in [0, 1, 127, 128, 1 << 35, u64::MAX] {
            let mut apart = Encoder::default();
            apart.uint(11, value);
            apart.fixed64(47, value);
            apart.message(4, |inner| {
                inner.uint(1, value);
                inner.uint(17, value);
                inner.fixed64(u32::MAX >> 3, value);
            });
            let mut together = Encoder::default();
            together.fields(|fields| {
                fields.uint(11, value);
                fields.fixed64(47, value);
            });
            together.small_message(4, |inner| {
                inner.uint(1, value);
                inner.uint(17, value);
                inner.fixed64(u32::MAX >> 3, value);
            });
            assert_eq!(together.as_slice(), apart.as_slice());
        }
    }

    #[test]
    fn messages_in_place_are_as_those_put_together() {
        for length in [0, 1, 126, 127, 128, 129, 20_000] {
            let inner = vec![7; length];
            let mut apart = Encoder::default();
            apart.uint(1, 300);
            apart.bytes(4, &inner);
            let mut in_place = Encoder::default();
            in_place.uint(1, 300);
            in_place.message(4, |e| e.append(&inner));
            assert_eq!(apart.as_slice(), in_place.as_slice());
        }
    }

    #[test]
    fn fields_read_back() {
        let mut e = Encoder::default();
        e.uint(11, u64::MAX);
        e.fixed64(47, 7);
        e.bytes(1000, b"text");
        let mut fields = Cursor::new(e.as_slice());
        assert_eq!(fields.field(), Ok(Some((11, Value::Varint(u64::MAX)))));
        assert_eq!(fields.field(), Ok(Some((47, Value::Fixed64(7)))));
        assert_eq!(fields.field(), Ok(Some((1000, Value::Bytes(b"text")))));
        assert_eq!(fields.field(), Ok(None));
    }
}
