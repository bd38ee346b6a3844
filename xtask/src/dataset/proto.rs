//! A minimal protobuf encoder: fields are appended in the order of the calls.

/// A message, or a whole trace.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Message(pub(crate) Vec<u8>);

impl Message {
    pub(crate) const fn new() -> Self {
        Self(Vec::new())
    }

    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    fn key(&mut self, field: u64, wire_type: u64) {
        self.varint(field << 3 | wire_type);
    }

    /// Appends an unsigned, bool or enum field.
    pub(crate) fn uint(&mut self, field: u64, value: u64) -> &mut Self {
        self.key(field, 0);
        self.varint(value);
        self
    }

    /// Appends an `int64` field in two's complement, so a negative number takes ten bytes.
    pub(crate) fn int(&mut self, field: u64, value: i64) -> &mut Self {
        self.uint(field, value.cast_unsigned())
    }

    /// Appends a `fixed64` field.
    pub(crate) fn fixed64(&mut self, field: u64, value: u64) -> &mut Self {
        self.key(field, 1);
        self.0.extend(value.to_le_bytes());
        self
    }

    /// Appends a `double` field.
    pub(crate) fn double(&mut self, field: u64, value: f64) -> &mut Self {
        self.fixed64(field, value.to_bits())
    }

    /// Appends a `bytes` field.
    pub(crate) fn bytes(&mut self, field: u64, value: &[u8]) -> &mut Self {
        self.key(field, 2);
        self.varint(u64::try_from(value.len()).unwrap_or(u64::MAX));
        self.0.extend(value);
        self
    }

    /// Appends a `string` field.
    pub(crate) fn text(&mut self, field: u64, value: &str) -> &mut Self {
        self.bytes(field, value.as_bytes())
    }

    /// Appends an embedded message.
    pub(crate) fn message(&mut self, field: u64, value: &Self) -> &mut Self {
        self.bytes(field, &value.0)
    }

    /// Appends a message built in place.
    pub(crate) fn nested(&mut self, field: u64, build: impl FnOnce(&mut Self)) -> &mut Self {
        let mut inner = Self::new();
        build(&mut inner);
        self.message(field, &inner)
    }
}

#[cfg(test)]
mod tests {
    use super::Message;

    #[test]
    fn fields_are_encoded_as_the_documentation_says() {
        // The examples of the protobuf encoding guide: field 1 = 150, field 2 = "testing", field 3 = {field 1 = 150}.
        let mut inner = Message::new();
        inner.uint(1, 150);
        assert_eq!(inner.0, [0x08, 0x96, 0x01]);
        assert_eq!(Message::new().text(2, "testing").0, b"\x12\x07testing");
        assert_eq!(
            Message::new().message(3, &inner).0,
            [0x1a, 0x03, 0x08, 0x96, 0x01]
        );
        assert_eq!(Message::new().int(1, -2).0.len(), 11);
    }
}
