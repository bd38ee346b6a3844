//! Parses numbers and words from bytes without allocation: for parsers of traces and of companion
//! files.

/// UTF-8 byte order mark that editors put before the first line of a text.
pub const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// A position in a line.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Cursor<'a> {
    /// The unread part of the line.
    pub rest: &'a [u8],
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of a line.
    #[must_use]
    #[inline]
    pub fn new(line: &'a [u8]) -> Self {
        Self { rest: line }
    }

    /// Returns the next byte without reading it.
    #[must_use]
    #[inline]
    pub fn peek(&self) -> Option<u8> {
        self.rest.first().copied()
    }

    /// Skips this many bytes.
    #[inline]
    pub fn skip(&mut self, count: usize) {
        self.rest = self.rest.get(count..).unwrap_or_default();
    }

    /// Skips blanks and tabs.
    #[inline]
    pub fn blanks(&mut self) {
        while let Some(b' ' | b'\t') = self.peek() {
            self.skip(1);
        }
    }

    /// Skips one expected byte; returns `false` if the next byte differs.
    #[inline]
    pub fn eat(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        if found {
            self.skip(1);
        }
        found
    }

    /// Reads an unsigned number; returns `None` without digits or above 64 bits.
    #[inline]
    pub fn uint(&mut self) -> Option<u64> {
        let (mut value, mut rest) = (0_u64, self.rest);
        while let [byte @ b'0'..=b'9', behind @ ..] = rest {
            value = value.wrapping_mul(10).wrapping_add(u64::from(byte - b'0'));
            rest = behind;
        }
        let (digits, _) = self.rest.split_at(self.rest.len() - rest.len());
        if digits.is_empty() {
            return None;
        }
        // This many digits may overflow.
        if digits.len() > 19 {
            value = checked(digits)?;
        }
        self.rest = rest;
        Some(value)
    }

    /// Reads a signed number.
    #[inline]
    pub fn int(&mut self) -> Option<i64> {
        let negative = self.eat(b'-');
        let value = i64::try_from(self.uint()?).ok()?;
        Some(if negative { -value } else { value })
    }

    /// Reads a 32-bit counter that was printed as a signed number.
    #[inline]
    pub fn wrapped32(&mut self) -> Option<u32> {
        let negative = self.eat(b'-');
        let value = self.uint()?;
        if negative {
            (value <= 1 << 31).then(|| crate::num::low32(value.wrapping_neg()))
        } else {
            u32::try_from(value).ok()
        }
    }

    /// Reads the bytes up to a blank, tab or the end; empty at the end.
    #[inline]
    pub fn word(&mut self) -> &'a [u8] {
        self.blanks();
        let end = self
            .rest
            .iter()
            .position(|b| matches!(b, b' ' | b'\t'))
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word
    }

    /// Returns `true` if only blanks are left.
    #[inline]
    pub fn at_end(&self) -> bool {
        self.rest.iter().all(|b| matches!(b, b' ' | b'\t'))
    }
}

/// Returns the value of digits; `None` above 64 bits.
#[cold]
fn checked(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0_u64, |value, digit| {
        value.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })
}

/// Parses the whole of `text` as an unsigned number.
#[inline]
pub fn whole_uint(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text);
    let value = cursor.uint()?;
    cursor.rest.is_empty().then_some(value)
}

/// Parses the whole of `text` as a decimal number.
pub fn real(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: f64 = text.parse().ok()?;
    value.is_finite().then_some(value)
}

/// Parses `SECONDS.FRACTION` or a bare count of ticks, in nanoseconds or ticks. Digits below a nanosecond are dropped.
#[inline]
pub fn seconds_ns(text: &[u8]) -> Option<u64> {
    let mut cursor = Cursor::new(text);
    let seconds = cursor.uint()?;
    if cursor.rest.is_empty() {
        return Some(seconds);
    }
    if !cursor.eat(b'.') || cursor.rest.is_empty() {
        return None;
    }
    let mut fraction = 0_u64;
    let mut scale = 1_000_000_000_u64;
    for byte in cursor.rest {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        scale /= 10;
        fraction += u64::from(digit) * scale;
    }
    seconds.checked_mul(1_000_000_000)?.checked_add(fraction)
}

/// Parses `MAJOR,MINOR` as the kernel's device number.
#[inline]
pub fn device(text: &[u8]) -> Option<u32> {
    let mut cursor = Cursor::new(text);
    let major = cursor.uint()?;
    if !cursor.eat(b',') {
        return None;
    }
    let minor = cursor.uint()?;
    if !cursor.rest.is_empty() {
        return None;
    }
    device_number(major, minor)
}

/// Returns the kernel's device number: 12 bits of major, 20 of minor.
#[inline]
pub fn device_number(major: u64, minor: u64) -> Option<u32> {
    (major < 1 << 12 && minor < 1 << 20)
        .then(|| u32::try_from(major << 20 | minor).ok())
        .flatten()
}

/// Returns `text` without blanks and tabs at both ends.
#[inline]
pub fn trim(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t' | b'\r', rest @ ..] = text {
        text = rest;
    }
    while let [rest @ .., b' ' | b'\t' | b'\r'] = text {
        text = rest;
    }
    text
}

/// Returns `true` if `needle` occurs in `text`.
#[inline]
pub fn contains(text: &[u8], needle: &[u8]) -> bool {
    memchr::memmem::find(text, needle).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let uint = |text: &[u8]| whole_uint(text);
        assert_eq!(uint(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(uint(b"18446744073709551616"), None);
        assert_eq!(uint(b"00000000000000000000000000007"), Some(7));
        assert_eq!(uint(b""), None);
        assert_eq!(Cursor::new(b"-2147483648").wrapped32(), Some(1 << 31));
        assert_eq!(Cursor::new(b"-1").wrapped32(), Some(u32::MAX));
        assert_eq!(Cursor::new(b"-2147483649").wrapped32(), None);
        assert_eq!(Cursor::new(b"4294967296").wrapped32(), None);
        assert_eq!(Cursor::new(b"-95").int(), Some(-95));
    }

    #[test]
    fn times_and_devices() {
        assert_eq!(seconds_ns(b"1168.999452"), Some(1_168_999_452_000));
        assert_eq!(seconds_ns(b"0.000000001"), Some(1));
        assert_eq!(seconds_ns(b"77"), Some(77));
        assert_eq!(seconds_ns(b"7."), None);
        assert_eq!(seconds_ns(b"1.x"), None);
        assert_eq!(seconds_ns(b"99999999999999999999.0"), None);
        assert_eq!(device(b"254,1"), Some(254 << 20 | 1));
        assert_eq!(device(b"4096,0"), None);
        assert_eq!(device(b"7,0x"), None);
    }
}
