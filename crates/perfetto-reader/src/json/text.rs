//! Decodes strings: resolves escapes and repairs invalid UTF-8.

use super::scan::{Fault, Scan, bad};

/// Repairs made in a string.
#[derive(Clone, Copy, Default, Debug, PartialEq, Eq)]
pub(super) struct Repairs {
    pub(super) invalid_utf8: bool,
    pub(super) lone_surrogates: u32,
}

/// Decodes the text between the quotes of a JSON string.
pub(super) fn decode(raw: &[u8], escaped: bool, into: &mut String) -> Scan<Repairs> {
    into.clear();
    let mut repairs = Repairs::default();
    if !escaped {
        push_utf8(raw, into, &mut repairs);
        return Ok(repairs);
    }
    let mut rest = raw;
    while let Some(at) = memchr::memchr(b'\\', rest) {
        let (plain, escape) = rest.split_at(at);
        push_utf8(plain, into, &mut repairs);
        rest = push_escape(escape, into, &mut repairs)?;
    }
    push_utf8(rest, into, &mut repairs);
    Ok(repairs)
}

fn push_utf8(raw: &[u8], into: &mut String, repairs: &mut Repairs) {
    if let Ok(valid) = std::str::from_utf8(raw) {
        into.push_str(valid);
        return;
    }
    for part in raw.utf8_chunks() {
        into.push_str(part.valid());
        if !part.invalid().is_empty() {
            into.push(char::REPLACEMENT_CHARACTER);
            repairs.invalid_utf8 = true;
        }
    }
}

/// Decodes the escape at the start of `escape`, and returns the text after it.
fn push_escape<'a>(escape: &'a [u8], into: &mut String, repairs: &mut Repairs) -> Scan<&'a [u8]> {
    let [b'\\', kind, rest @ ..] = escape else {
        return bad(Fault::Escape);
    };
    let plain = match kind {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return push_unicode(rest, into, repairs),
        _ => return bad(Fault::Escape),
    };
    into.push(plain);
    Ok(rest)
}

fn hex4(text: &[u8]) -> Option<(u32, &[u8])> {
    let (digits, rest) = text.split_at_checked(4)?;
    let value = digits
        .iter()
        .try_fold(0, |v, &d| char::from(d).to_digit(16).map(|d| v * 16 + d))?;
    Some((value, rest))
}

fn push_unicode<'a>(digits: &'a [u8], into: &mut String, repairs: &mut Repairs) -> Scan<&'a [u8]> {
    let Some((first, rest)) = hex4(digits) else {
        return bad(Fault::Escape);
    };
    if let Some(c) = char::from_u32(first) {
        into.push(c);
        return Ok(rest);
    }
    // A surrogate: the first of a pair, or a lone one.
    if (0xd800..0xdc00).contains(&first)
        && let Some((second @ 0xdc00..0xe000, after)) = rest.strip_prefix(b"\\u").and_then(hex4)
        && let Some(c) = char::from_u32(0x1_0000 + ((first - 0xd800) << 10) + (second - 0xdc00))
    {
        into.push(c);
        return Ok(after);
    }
    into.push(char::REPLACEMENT_CHARACTER);
    repairs.lone_surrogates += 1;
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(raw: &[u8]) -> Scan<(String, Repairs)> {
        let mut out = String::from("old");
        decode(raw, true, &mut out).map(|r| (out, r))
    }

    #[test]
    fn every_escape() {
        let (text, repairs) = decoded(br#"a\"\\\/\b\f\n\r\t\u00e9\u0000z"#).unwrap();
        assert_eq!(text, "a\"\\/\u{8}\u{c}\n\r\t\u{e9}\0z");
        assert_eq!(repairs, Repairs::default());
    }

    #[test]
    fn pairs_join_and_lone_surrogates_are_replaced() {
        let (text, repairs) = decoded(br"\ud83d\ude00 \ud83d \ude00 \ud83dx \ud83d\u0041").unwrap();
        assert_eq!(text, "\u{1f600} \u{fffd} \u{fffd} \u{fffd}x \u{fffd}A");
        assert_eq!(repairs.lone_surrogates, 4);
    }

    #[test]
    fn malformed_escapes_are_faults() {
        for raw in [&br"\q"[..], br"\", br"\u12", br"\u12g4", br"\u+123"] {
            assert_eq!(decoded(raw), bad(Fault::Escape));
        }
    }

    #[test]
    fn invalid_utf8_is_replaced() {
        let (text, repairs) = decoded(b"a\xffb\xc3\xa9\xe2\x82").unwrap();
        assert_eq!(text, "a\u{fffd}b\u{e9}\u{fffd}");
        assert!(repairs.invalid_utf8);
    }
}
