//! Fields of protobuf messages, borrowed from the file.
//!
//! | message | fields that are read |
//! |---|---|
//! | `XSpace` | 1 planes |
//! | `XPlane` | 2 name, 3 lines, 4 event metadata by id, 5 stat metadata by id, 6 stats |
//! | `XLine` | 1 id, 2 name, 3 timestamp in ns, 4 events, 10 id to show, 11 name to show |
//! | `XEvent` | 1 metadata, 2 offset in ps, 3 duration in ps, 4 stats, 5 number of occurrences |
//! | `XStat` | 1 metadata, then one of 2 double, 3 uint64, 4 int64, 5 text, 6 bytes, 7 name of a stat |
//! | `XEventMetadata` | 1 id, 2 name, 4 name to show, 5 stats |
//! | `XStatMetadata` | 1 id, 2 name |

/// A value as encoded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32,
    Bytes(&'a [u8]),
}

impl<'a> Value<'a> {
    /// Returns an integer; 0 for other encodings.
    pub(crate) fn uint(self) -> u64 {
        match self {
            Self::Varint(value) => value,
            _ => 0,
        }
    }

    pub(crate) fn int(self) -> i64 {
        self.uint().cast_signed()
    }

    /// Returns a message or text; empty for other encodings.
    pub(crate) fn bytes(self) -> &'a [u8] {
        match self {
            Self::Bytes(bytes) => bytes,
            _ => &[],
        }
    }
}

/// Place and kind of damage: the number of bytes that were left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Damage {
    pub(crate) left: usize,
    pub(crate) what: &'static str,
}

/// Reads the fields of a message in their order.
#[derive(Clone, Debug)]
pub(crate) struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    pub(crate) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    fn varint(&mut self) -> Option<u64> {
        let mut value = 0_u64;
        for (at, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * at).min(63);
            if *byte < 0x80 {
                self.0 = self.0.get(at + 1..)?;
                return Some(value);
            }
        }
        None
    }

    fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let taken = self.0.get(..count)?;
        self.0 = self.0.get(count..)?;
        Some(taken)
    }

    fn field(&mut self) -> Option<(u64, Value<'a>)> {
        let tag = self.varint()?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(u64::from_le_bytes(self.take(8)?.try_into().ok()?)),
            2 => {
                let length = usize::try_from(self.varint()?).ok()?;
                Value::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Value::Fixed32
            }
            _ => return None,
        };
        (tag >> 3 != 0).then_some((tag >> 3, value))
    }
}

impl<'a> Iterator for Fields<'a> {
    type Item = Result<(u64, Value<'a>), Damage>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.0.is_empty() {
            return None;
        }
        let left = self.0.len();
        let field = self.field();
        if field.is_none() {
            self.0 = &[];
        }
        Some(field.ok_or(Damage {
            left,
            what: "a field is cut off, or is none",
        }))
    }
}
