//! The protobuf wire format, written by hand: fields in the order of the calls.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    #[inline]
    pub(crate) fn varint(&mut self, mut value: u64) {
        if value < 0x80 {
            self.0.push((value & 0x7f) as u8);
            return;
        }
        // Put together on the side: the vector is asked for room once.
        let mut bytes = [0_u8; 10];
        let mut length = 0;
        for byte in &mut bytes {
            length += 1;
            if value < 0x80 {
                *byte = (value & 0x7f) as u8;
                break;
            }
            *byte = (value & 0x7f) as u8 | 0x80;
            value >>= 7;
        }
        // All ten are copied, which takes two instructions, and the rest is cut off.
        let end = self.0.len() + length;
        self.0.extend_from_slice(&bytes);
        self.0.truncate(end);
    }

    /// An integer, bool or enum field; negative numbers as their two's complement.
    #[inline]
    pub(crate) fn uint(&mut self, field: u32, value: u64) {
        self.varint(u64::from(field) << 3);
        self.varint(value);
    }

    /// A `fixed64` or `double` field.
    #[inline]
    pub(crate) fn fixed64(&mut self, field: u32, word: u64) {
        self.varint(u64::from(field) << 3 | 1);
        self.0.extend_from_slice(&word.to_le_bytes());
    }

    /// A string, bytes or message field.
    #[inline]
    pub(crate) fn bytes(&mut self, field: u32, bytes: &[u8]) {
        self.header(field, bytes.len());
        self.0.extend_from_slice(bytes);
    }

    /// A message field, filled in place: its length is put before it afterwards.
    #[inline]
    pub(crate) fn message(&mut self, field: u32, fill: impl FnOnce(&mut Self)) {
        self.varint(u64::from(field) << 3 | 2);
        let at = self.0.len();
        self.0.push(0);
        fill(self);
        let length = (self.0.len() - at - 1) as u64;
        if length < 0x80 {
            if let Some(place) = self.0.get_mut(at) {
                *place = (length & 0x7f) as u8;
            }
            return;
        }
        // Rare: what was written moves to make room for a longer length.
        let mut long = Self::default();
        long.varint(length);
        self.0.splice(at..=at, long.0);
    }

    /// What comes before so many bytes of a string, bytes or message field.
    #[inline]
    pub(crate) fn header(&mut self, field: u32, bytes: usize) {
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes as u64);
    }

    /// The length of [`Encoder::bytes`] for so many bytes.
    pub(crate) fn bytes_len(field: u32, bytes: usize) -> usize {
        varint_len(u64::from(field) << 3) + varint_len(bytes as u64) + bytes
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// Bytes of a varint: seven bits each.
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
                e.varint(value);
                assert_eq!(e.0.len(), varint_len(value), "{value}");
            }
        }
        for length in [0, 1, 127, 128, 20_000] {
            let mut e = Encoder::default();
            e.bytes(11, &vec![0; length]);
            assert_eq!(e.0.len(), Encoder::bytes_len(11, length));
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
            in_place.message(4, |e| e.0.extend_from_slice(&inner));
            assert_eq!(apart.0, in_place.0);
        }
    }

    #[test]
    fn fields_read_back() {
        let mut e = Encoder::default();
        e.uint(11, u64::MAX);
        e.fixed64(47, 7);
        e.bytes(1000, b"text");
        let mut fields = Cursor::new(&e.0);
        assert_eq!(fields.field(), Ok(Some((11, Value::Varint(u64::MAX)))));
        assert_eq!(fields.field(), Ok(Some((47, Value::Fixed64(7)))));
        assert_eq!(fields.field(), Ok(Some((1000, Value::Bytes(b"text")))));
        assert_eq!(fields.field(), Ok(None));
    }
}
