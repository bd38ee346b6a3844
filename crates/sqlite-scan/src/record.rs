//! Records: a header of serial types, then the values.

/// A value of a row, borrowed from its page.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Value<'a> {
    /// NULL.
    #[default]
    Null,
    /// An integer.
    Int(i64),
    /// A real number.
    Real(f64),
    /// A text; not necessarily UTF-8.
    Text(&'a [u8]),
    /// Bytes.
    Blob(&'a [u8]),
}

impl Value<'_> {
    /// Returns the value if it is stored as an integer, or as the text of one: a column that is declared as text, as by an import
    /// of CSV, holds numbers as texts. A column of integers never does, because SQLite converts what is a number.
    #[inline]
    pub fn as_int(&self) -> Option<i64> {
        match *self {
            Self::Int(value) => Some(value),
            Self::Text(text) => written(text),
            _ => None,
        }
    }

    /// Returns its description in messages; texts are cut after 40 characters.
    pub fn describe(&self) -> String {
        match self {
            Self::Null => "NULL".to_owned(),
            Self::Int(value) => value.to_string(),
            Self::Real(value) => format!("{value:?}"),
            Self::Text(text) => {
                let text = String::from_utf8_lossy(text);
                let start: String = text.chars().take(40).collect();
                format!("the text {start:?}")
            }
            Self::Blob(bytes) => format!("{} bytes", bytes.len()),
        }
    }
}

/// Returns the whole number that is all of a text; numbers from 2^63 to 2^64 are those of the same bits.
#[cold]
fn written(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    if text.starts_with('+') {
        return None;
    }
    let unsigned = || text.parse().map(u64::cast_signed);
    text.parse().or_else(|_| unsigned()).ok()
}

/// No column of the table for a slot.
const ABSENT: u8 = u8::MAX;

/// How to read a row: which columns of a table go to which slots.
#[derive(Debug, Clone)]
pub struct Pick<const N: usize> {
    /// Slot of each column, up to the last that is wanted.
    slots: Vec<u8>,
    /// Slots that the row id fills.
    rowids: Vec<usize>,
    /// What slots have when the row ends before their column.
    defaults: Vec<(u8, i64)>,
}

impl<const N: usize> Pick<N> {
    /// `columns[slot]` is the position of the slot's column, `rowid` that of the column that is another name of the row id;
    /// `default` returns the value of a column for rows that end before it.
    pub fn new(
        columns: [Option<usize>; N],
        rowid: Option<usize>,
        default: impl Fn(usize) -> Option<i64>,
    ) -> Self {
        let mut slots = Vec::new();
        let mut rowids = Vec::new();
        let mut defaults = Vec::new();
        for (slot, column) in columns.iter().enumerate() {
            let Some(column) = *column else { continue };
            if Some(column) == rowid {
                rowids.push(slot);
                continue;
            }
            if slots.len() <= column {
                slots.resize(column + 1, ABSENT);
            }
            let slot = u8::try_from(slot).unwrap_or(ABSENT);
            if let Some(place) = slots.get_mut(column) {
                *place = slot;
            }
            if let Some(value) = default(column) {
                defaults.push((slot, value));
            }
        }
        Self {
            slots,
            rowids,
            defaults,
        }
    }

    /// Decodes a record; `None` if it is damaged.
    #[inline]
    pub fn decode<'a>(&self, rowid: i64, record: &'a [u8]) -> Option<[Value<'a>; N]> {
        let mut out = [Value::Null; N];
        self.decode_into(rowid, record, &mut out)?;
        Some(out)
    }

    /// Decodes a record into the first slots of `out`, which holds NULLs; `None` if it is damaged.
    #[inline]
    pub fn decode_into<'a>(
        &self,
        rowid: i64,
        record: &'a [u8],
        out: &mut [Value<'a>],
    ) -> Option<()> {
        let mut at = 0;
        let header = usize::try_from(varint(record, &mut at)?).ok()?;
        let types = record.get(..header)?;
        let mut body = header;
        let mut read = 0;
        for &slot in &self.slots {
            if at >= header {
                break;
            }
            read += 1;
            let kind = match types.get(at) {
                Some(&byte) if byte < 0x80 => {
                    at += 1;
                    i64::from(byte)
                }
                _ => varint(types, &mut at)?,
            };
            let size = match kind {
                0 | 8 | 9 => 0,
                1 => 1,
                2 => 2,
                3 => 3,
                4 => 4,
                5 => 6,
                6 | 7 => 8,
                10 | 11 => return None,
                _ => usize::try_from((kind - 12) / 2).ok()?,
            };
            if slot != ABSENT {
                let bytes = record.get(body..body.checked_add(size)?)?;
                if let Some(place) = out.get_mut(usize::from(slot)) {
                    *place = value(kind, bytes)?;
                }
            }
            body = body.checked_add(size)?;
        }
        if read < self.slots.len() {
            for &(slot, default) in &self.defaults {
                let column = self.slots.iter().position(|s| *s == slot);
                if column.is_some_and(|column| column >= read)
                    && let Some(place) = out.get_mut(usize::from(slot))
                {
                    *place = Value::Int(default);
                }
            }
        }
        for &slot in &self.rowids {
            if let Some(place) = out.get_mut(slot) {
                *place = Value::Int(rowid);
            }
        }
        Some(())
    }
}

#[inline]
fn value(kind: i64, bytes: &[u8]) -> Option<Value<'_>> {
    Some(match (kind, bytes) {
        (0, _) => Value::Null,
        (8, _) => Value::Int(0),
        (9, _) => Value::Int(1),
        (1, &[a]) => Value::Int(i64::from(a.cast_signed())),
        (2, &[a, b]) => Value::Int(i64::from(i16::from_be_bytes([a, b]))),
        (3, &[a, b, c]) => Value::Int(i64::from(i32::from_be_bytes([a, b, c, 0]) >> 8)),
        (4, &[a, b, c, d]) => Value::Int(i64::from(i32::from_be_bytes([a, b, c, d]))),
        (5, &[a, b, c, d, e, f]) => Value::Int(i64::from_be_bytes([a, b, c, d, e, f, 0, 0]) >> 16),
        (6, bytes) => Value::Int(i64::from_be_bytes(bytes.try_into().ok()?)),
        (7, bytes) => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
        (kind, bytes) if kind & 1 == 1 => Value::Text(bytes),
        (_, bytes) => Value::Blob(bytes),
    })
}

/// A big-endian integer of seven bits a byte, the ninth byte whole.
#[inline]
pub(crate) fn varint(bytes: &[u8], at: &mut usize) -> Option<i64> {
    match bytes.get(*at) {
        Some(&byte) if byte < 0x80 => {
            *at += 1;
            Some(i64::from(byte))
        }
        _ => long_varint(bytes, at),
    }
}

fn long_varint(bytes: &[u8], at: &mut usize) -> Option<i64> {
    let mut value: u64 = 0;
    for index in 0..9 {
        let byte = *bytes.get(*at)?;
        *at += 1;
        if index == 8 {
            return Some((value << 8 | u64::from(byte)).cast_signed());
        }
        value = value << 7 | u64::from(byte & 0x7f);
        if byte < 0x80 {
            break;
        }
    }
    Some(value.cast_signed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints() {
        let read = |bytes: &[u8]| {
            let mut at = 0;
            (varint(bytes, &mut at), at)
        };
        assert_eq!(read(&[0x7f]), (Some(127), 1));
        assert_eq!(read(&[0x81, 0x00]), (Some(128), 2));
        assert_eq!(read(&[0xff; 9]), (Some(-1), 9));
        assert_eq!(read(&[0x80]).0, None);
    }

    #[test]
    fn whole_numbers_as_texts_are_integers() {
        for (text, want) in [
            ("-17", Some(-17)),
            ("0", Some(0)),
            ("18446744073709551615", Some(-1)),
            ("18446744073709551616", None),
            ("+1", None),
            ("1.0", None),
            ("", None),
            ("gemm", None),
        ] {
            assert_eq!(Value::Text(text.as_bytes()).as_int(), want, "{text}");
        }
        assert_eq!(Value::Blob(b"1").as_int(), None);
    }

    #[test]
    fn values_of_each_type_and_short_records() {
        // Header: 6 bytes: types 1, 3, 8, 19 (three letters), 7.
        let mut record = vec![6, 1, 3, 8, 19, 7, 0xff, 0x01, 0x00, 0x00, b'a', b'b', b'c'];
        record.extend(1.5_f64.to_be_bytes());
        let pick = Pick::new(
            [Some(0), Some(1), Some(3), Some(4), Some(6), None, Some(2)],
            None,
            |column| (column == 6).then_some(42),
        );
        assert_eq!(
            pick.decode(9, &record),
            Some([
                Value::Int(-1),
                Value::Int(65_536),
                Value::Text(b"abc"),
                Value::Real(1.5),
                Value::Int(42),
                Value::Null,
                Value::Int(0),
            ])
        );
        let pick = Pick::new([Some(0)], Some(0), |_| None);
        assert_eq!(pick.decode(9, &record), Some([Value::Int(9)]));
        let pick = Pick::new([Some(4)], None, |_| None);
        assert_eq!(pick.decode(9, &record[..record.len() - 1]), None);
    }
}
