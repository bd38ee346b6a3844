//! Texts and numbers of protocol 0.

/// Returns the text of `repr(str)` in Python 2: quoted, with escapes.
pub(super) fn quoted(line: &[u8]) -> Option<String> {
    let inner = match line {
        [b'\'', inner @ .., b'\''] | [b'"', inner @ .., b'"'] => inner,
        _ => return None,
    };
    let mut bytes = Vec::with_capacity(inner.len());
    let mut rest = inner.iter().copied();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        match rest.next()? {
            b'n' => bytes.push(b'\n'),
            b'r' => bytes.push(b'\r'),
            b't' => bytes.push(b'\t'),
            b'x' => {
                let high = hex(rest.next()?)?;
                bytes.push(high << 4 | hex(rest.next()?)?);
            }
            other => bytes.push(other),
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn hex(digit: u8) -> Option<u8> {
    let value = char::from(digit).to_digit(16)?;
    u8::try_from(value).ok()
}

/// Returns the text of Python's `raw-unicode-escape`: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
pub(super) fn raw_unicode(line: &[u8]) -> Option<String> {
    let mut text = String::with_capacity(line.len());
    let mut rest = line;
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        let digits = match (byte, after.first()) {
            (b'\\', Some(b'u')) => 4,
            (b'\\', Some(b'U')) => 8,
            _ => {
                text.push(char::from(*byte));
                continue;
            }
        };
        let code = after.get(1..=digits)?;
        let code = u32::from_str_radix(std::str::from_utf8(code).ok()?, 16).ok()?;
        // Halves of surrogate pairs are no characters.
        text.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
        rest = after.get(digits + 1..)?;
    }
    Some(text)
}

/// Returns the little-endian number in two's complement; `None` if it does not fit.
pub(super) fn number(bytes: &[u8]) -> Option<i64> {
    let negative = bytes.last().is_some_and(|last| *last >= 0x80);
    let fill = if negative { 0xff } else { 0 };
    let (low, high) = bytes.split_at(bytes.len().min(8));
    if high.iter().any(|byte| *byte != fill) {
        return None;
    }
    let mut all = [fill; 8];
    for (to, from) in all.iter_mut().zip(low) {
        *to = *from;
    }
    let value = i64::from_le_bytes(all);
    ((value < 0) == negative).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length() {
        assert_eq!(number(b""), Some(0));
        assert_eq!(number(b"\xff"), Some(-1));
        assert_eq!(number(b"\xff\x00"), Some(255));
        assert_eq!(number(b"\x00\x00\x00\x00\x00\x00\x00\x80"), Some(i64::MIN));
        assert_eq!(number(b"\x00\x00\x00\x00\x00\x00\x00\x80\x00"), None);
        assert_eq!(number(b"\x01\x00\x00\x00\x00\x00\x00\x00\x00"), Some(1));
        assert_eq!(number(&[0; 300]), Some(0));
    }

    #[test]
    fn texts_of_protocol_0() {
        assert_eq!(quoted(b"'a\\'b\\x41\\n'").as_deref(), Some("a'bA\n"));
        assert_eq!(quoted(b"'a"), None);
        assert_eq!(raw_unicode(b"a\\u00e9\xe9").as_deref(), Some("aéé"));
        assert_eq!(raw_unicode(b"\\U0001f600").as_deref(), Some("😀"));
        assert_eq!(raw_unicode(b"\\u00"), None);
    }
}
