//! Values of rows as the types their columns must have.

use sqlite_scan::Value;

/// First bytes of a frame of LZ4 (LZ4 Frame Format Description, version 1.6.1).
const LZ4_MAGIC: [u8; 4] = [0x04, 0x22, 0x4d, 0x18];

/// The slot of a value of a wrong type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BadSlot(pub(crate) usize);

/// The values of a row.
#[derive(Debug, Clone, Copy)]
pub struct Fields<'r, 'p>(pub(crate) &'r [Value<'p>]);

impl<'p> Fields<'_, 'p> {
    #[inline]
    fn value(self, slot: usize) -> Value<'p> {
        self.0.get(slot).copied().unwrap_or_default()
    }

    /// An integer or NULL. SQLite columns hold what was put in, so reals and texts that are whole numbers count.
    #[inline]
    pub(crate) fn int(self, slot: usize) -> Result<Option<i64>, BadSlot> {
        match self.value(slot) {
            Value::Int(value) => Ok(Some(value)),
            Value::Null => Ok(None),
            value => convert(value).map(Some).ok_or(BadSlot(slot)),
        }
    }

    /// An integer.
    #[inline]
    pub(crate) fn need(self, slot: usize) -> Result<i64, BadSlot> {
        match self.value(slot) {
            Value::Int(value) => Ok(value),
            value => convert(value).ok_or(BadSlot(slot)),
        }
    }

    /// A real number or NULL.
    pub(crate) fn real(self, slot: usize) -> Result<Option<f64>, BadSlot> {
        match self.value(slot) {
            Value::Null => Ok(None),
            Value::Real(value) => Ok(Some(value)),
            Value::Int(value) => Ok(Some(crate::numbers::real(value))),
            Value::Text(text) => std::str::from_utf8(text)
                .ok()
                .and_then(|text| text.trim().parse().ok())
                // `NaN` and `inf` are texts that parse, and no measurements.
                .filter(|value: &f64| value.is_finite())
                .map(Some)
                .ok_or(BadSlot(slot)),
            Value::Blob(_) => Err(BadSlot(slot)),
        }
    }

    /// A text or NULL; numbers become text.
    pub(crate) fn text(self, slot: usize) -> Option<String> {
        match self.value(slot) {
            Value::Null => None,
            Value::Text(text) | Value::Blob(text) => {
                Some(String::from_utf8_lossy(text).into_owned())
            }
            Value::Int(value) => Some(value.to_string()),
            Value::Real(value) => Some(format!("{value:?}")),
        }
    }

    /// Returns `true` if a value is a frame of LZ4, as a draft of the format stores texts.
    pub(crate) fn is_lz4(self, slot: usize) -> bool {
        matches!(self.value(slot), Value::Blob(bytes) if bytes.starts_with(&LZ4_MAGIC))
    }

    /// Says what a value is that is no text, where a text is wanted; `None` for a text, and for anything that is shown as one.
    pub(crate) fn no_text(self, slot: usize) -> Option<&'static str> {
        match self.value(slot) {
            Value::Blob(_) if self.is_lz4(slot) => Some("a text compressed with LZ4"),
            Value::Blob(bytes) if bytes.contains(&0) || std::str::from_utf8(bytes).is_err() => {
                Some("binary data of an unknown form, perhaps compressed")
            }
            _ => None,
        }
    }

    /// The bytes of a text; empty for anything else.
    pub(crate) fn bytes(self, slot: usize) -> &'p [u8] {
        match self.value(slot) {
            Value::Text(text) => text,
            _ => &[],
        }
    }
}

fn convert(value: Value<'_>) -> Option<i64> {
    match value {
        Value::Int(value) => Some(value),
        Value::Real(value) => crate::numbers::whole(value),
        Value::Text(text) => {
            let text = std::str::from_utf8(text).ok()?.trim();
            text.parse()
                .ok()
                .or_else(|| crate::numbers::whole(text.parse().ok()?))
        }
        Value::Null | Value::Blob(_) => None,
    }
}
