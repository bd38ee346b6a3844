//! The protobuf wire format, written by hand: fields in the order of the calls.

/// A message under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct Encoder(pub(crate) Vec<u8>);

impl Encoder {
    #[inline]
    pub(crate) fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
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
        self.varint(u64::from(field) << 3 | 2);
        self.varint(bytes.len() as u64);
        self.0.extend_from_slice(bytes);
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proto::{Cursor, Value};

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
