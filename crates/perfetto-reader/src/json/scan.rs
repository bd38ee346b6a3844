//! Steps over JSON text, 16 or 64 bytes at a time where that is faster.
//!
//! Every function takes a window of the document and a position in it. The end of the window
//! decides nothing: the functions return [`Stop::More`] there.

use wide::u8x16;

use super::walk::{Care, value_end};

/// Reason why a scan stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The window ends; more text may complete the value.
    More,
    /// The text is not JSON.
    Bad(Fault),
}

/// Kind of syntax error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Token,
    Key,
    Colon,
    Comma,
    Number,
    Escape,
    Depth,
    Length,
}

impl Fault {
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Token => "a value is expected here",
            Self::Key => "a key is expected here",
            Self::Colon => "a colon is expected after a key",
            Self::Comma => "a comma or a closing bracket is expected here",
            Self::Number => "a malformed number",
            Self::Escape => "a malformed escape sequence",
            Self::Depth => "values are nested too deep",
            Self::Length => "an event is too long",
        }
    }
}

/// A position after the scanned text, or the reason why there is none.
pub(super) type Scan<T> = Result<T, Stop>;

/// Returns [`Stop::Bad`] with `fault`.
pub(super) fn bad<T>(fault: Fault) -> Scan<T> {
    Err(Stop::Bad(fault))
}

pub(super) fn is_blank(b: u8) -> bool {
    matches!(b, b' ' | b'\t' | b'\n' | b'\r')
}

/// Returns position and value of the first non-blank byte at or after `at`.
#[inline(always)]
pub(super) fn token(w: &[u8], at: usize) -> Scan<(usize, u8)> {
    let (at, b) = peek(w, at);
    if b == 0 && at >= w.len() {
        return Err(Stop::More);
    }
    Ok((at, b))
}

/// Same as [`token`], but returns byte 0 at the end of the window. For callers where the end is as
/// invalid as any other byte; [`unexpected`] tells the two apart.
#[inline(always)]
pub(super) fn peek(w: &[u8], mut at: usize) -> (usize, u8) {
    loop {
        let b = w.get(at).copied().unwrap_or(0);
        if b > b' ' || !is_blank(b) {
            return (at, b);
        }
        at += 1;
    }
}

/// Returns the error for an unexpected byte at `at`, or [`Stop::More`] if the window ends there.
#[cold]
pub(super) fn unexpected<T>(w: &[u8], at: usize, fault: Fault) -> Scan<T> {
    Err(if at < w.len() {
        Stop::Bad(fault)
    } else {
        Stop::More
    })
}

#[inline(always)]
fn block16(w: &[u8], at: usize) -> Option<u8x16> {
    w.get(at..)?.first_chunk::<16>().map(|b| u8x16::new(*b))
}

/// Returns eight bytes from `at` as a little-endian number.
#[inline(always)]
pub(super) fn word(w: &[u8], at: usize) -> Option<u64> {
    w.get(at..)?
        .first_chunk::<8>()
        .map(|b| u64::from_le_bytes(*b))
}

/// Returns the closing quote of the string whose first byte is at `at`, and `true` if it contains
/// escapes.
#[inline(always)]
pub(super) fn string_end(w: &[u8], mut at: usize) -> Scan<(usize, bool)> {
    let (quote, backslash) = (u8x16::splat(b'"'), u8x16::splat(b'\\'));
    while let Some(block) = block16(w, at) {
        let hits = (block.simd_eq(quote) | block.simd_eq(backslash)).to_bitmask();
        if hits != 0 {
            at += hits.trailing_zeros() as usize;
            return if w.get(at) == Some(&b'"') {
                Ok((at, false))
            } else {
                escaped_string_end(w, at)
            };
        }
        at += 16;
    }
    while let Some(&b) = w.get(at) {
        match b {
            b'"' => return Ok((at, false)),
            b'\\' => return escaped_string_end(w, at),
            _ => at += 1,
        }
    }
    Err(Stop::More)
}

/// Same as [`string_end`], from the first backslash on.
#[inline(never)]
fn escaped_string_end(w: &[u8], mut at: usize) -> Scan<(usize, bool)> {
    loop {
        let rest = w.get(at..).unwrap_or_default();
        at += memchr::memchr2(b'"', b'\\', rest).ok_or(Stop::More)?;
        if w.get(at) == Some(&b'"') {
            return Ok((at, true));
        }
        at += 2;
    }
}

/// Returns the position after the scalar that starts at `at`.
#[inline(always)]
pub(super) fn scalar_end(w: &[u8], mut at: usize) -> Scan<usize> {
    while let Some(&b) = w.get(at) {
        if is_blank(b) || matches!(b, b',' | b'}' | b']' | b'"' | b'{' | b'[' | b':') {
            return Ok(at);
        }
        at += 1;
    }
    Err(Stop::More)
}

/// Returns the position after the value that starts at `at` with `first`. The contents of strings
/// are not checked; arrays and objects are checked only as [`skip_nested`] does.
#[inline(always)]
pub(super) fn skip_value(w: &[u8], at: usize, first: u8, max_depth: usize) -> Scan<usize> {
    match first {
        b'"' => string_end(w, at + 1).map(|(end, _)| end + 1),
        b'{' => skip_object(w, at, max_depth),
        b'[' => skip_array(w, at, max_depth),
        b'-' | b'0'..=b'9' | b't' | b'f' | b'n' | b'N' | b'I' => scalar_end(w, at),
        _ => bad(Fault::Token),
    }
}

/// Maximum size of arrays and objects that are skipped without a check. In longer ones a missing
/// bracket could swallow the events that follow.
const UNCHECKED: usize = 4096;

/// Returns the position after the object at `at`.
#[inline(always)]
pub(super) fn skip_object(w: &[u8], at: usize, max_depth: usize) -> Scan<usize> {
    if_sound(w, at, skip_nested::<b'}'>(w, at, max_depth), max_depth)
}

/// Returns the position after the array at `at`.
#[inline(always)]
pub(super) fn skip_array(w: &[u8], at: usize, max_depth: usize) -> Scan<usize> {
    if_sound(w, at, skip_nested::<b']'>(w, at, max_depth), max_depth)
}

/// Returns the skipped end if the value is short and sound, otherwise the result of a careful walk
/// over it. The choice does not depend on the end of the window.
#[inline(always)]
fn if_sound(w: &[u8], at: usize, skipped: Skipped, max_depth: usize) -> Scan<usize> {
    match skipped {
        Skipped::To(end) if end - at <= UNCHECKED => Ok(end),
        Skipped::More if w.len() - at <= UNCHECKED => Err(Stop::More),
        _ => value_end(w, at, Care::Strict, max_depth),
    }
}

/// Result of skipping an array or object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Skipped {
    To(usize),
    More,
    /// Nested too deep, or closed by a bracket of the other kind.
    Unsound,
}

/// Returns a bit mask of the bytes equal to `needle`.
#[inline(always)]
fn bits(blocks: &[u8x16; 4], needle: u8) -> u64 {
    let needle = u8x16::splat(needle);
    let m = |i: usize| u64::from(blocks[i].simd_eq(needle).to_bitmask());
    m(0) | (m(1) << 16) | (m(2) << 32) | (m(3) << 48)
}

/// The bit in which brackets and braces differ; with it set, two kinds are left.
const BRACE: u8 = b'{' ^ b'[';

/// Skips the array or object that starts at `at`: counts opening and closing brackets of both kinds
/// outside strings, and requires that the last one is `CLOSE`.
#[inline(always)]
fn skip_nested<const CLOSE: u8>(w: &[u8], mut at: usize, max_depth: usize) -> Skipped {
    let mut depth = 0_usize;
    // All bits are set while the block starts inside a string.
    let mut inside = 0_u64;
    while let Some(bytes) = w.get(at..).and_then(|r| r.first_chunk::<64>()) {
        let block = |i: usize| {
            let mut b = [0; 16];
            b.copy_from_slice(&bytes[16 * i..16 * i + 16]);
            u8x16::new(b)
        };
        let blocks = [block(0), block(1), block(2), block(3)];
        if bits(&blocks, b'\\') != 0 {
            break;
        }
        let mut strings = bits(&blocks, b'"');
        for shift in [1, 2, 4, 8, 16, 32] {
            strings ^= strings << shift;
        }
        strings ^= inside;
        let braces = blocks.map(|b| b | u8x16::splat(BRACE));
        let open = bits(&braces, b'{') & !strings;
        // Brackets are rare: visiting each is cheaper than a population count without the
        // instruction for it.
        let mut both = open | (bits(&braces, b'}') & !strings);
        while both != 0 {
            let bit = both & both.wrapping_neg();
            if open & bit != 0 {
                depth += 1;
                if depth > max_depth {
                    return Skipped::Unsound;
                }
            } else {
                depth -= 1;
                if depth == 0 {
                    return closed_by::<CLOSE>(w, at + bit.trailing_zeros() as usize);
                }
            }
            both ^= bit;
        }
        inside = if strings >> 63 == 0 { 0 } else { u64::MAX };
        at += 64;
    }
    skip_slowly::<CLOSE>(w, at, depth, inside != 0, max_depth)
}

/// Returns the result if the outermost bracket is closed at `at`.
#[inline(always)]
fn closed_by<const CLOSE: u8>(w: &[u8], at: usize) -> Skipped {
    if w.get(at) == Some(&CLOSE) {
        Skipped::To(at + 1)
    } else {
        Skipped::Unsound
    }
}

/// Same as [`skip_nested`], byte by byte, from a position with a known state.
#[inline(never)]
fn skip_slowly<const CLOSE: u8>(
    w: &[u8],
    mut at: usize,
    mut depth: usize,
    inside: bool,
    max_depth: usize,
) -> Skipped {
    if inside {
        match string_end(w, at) {
            Ok((end, _)) => at = end + 1,
            Err(_) => return Skipped::More,
        }
    }
    while let Some(&b) = w.get(at) {
        match b {
            b'"' => match string_end(w, at + 1) {
                Ok((end, _)) => at = end,
                Err(_) => return Skipped::More,
            },
            b'{' | b'[' => {
                depth += 1;
                if depth > max_depth {
                    return Skipped::Unsound;
                }
            }
            b'}' | b']' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return closed_by::<CLOSE>(w, at);
                }
            }
            _ => {}
        }
        at += 1;
    }
    Skipped::More
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn strings_end_at_the_first_bare_quote() {
        let w = br#"0123456789abcdef0123\"x\\" rest"#;
        assert_eq!(string_end(w, 0), Ok((25, true)));
        assert_eq!(string_end(br#"abc" "#, 0), Ok((3, false)));
        assert_eq!(string_end(br#"abc"#, 0), Err(Stop::More));
        assert_eq!(string_end(br#"abc\"#, 0), Err(Stop::More));
    }

    #[test]
    fn nesting_has_a_limit() {
        let deep = "[".repeat(65) + &"]".repeat(65);
        assert_eq!(skip_array(deep.as_bytes(), 0, 64), bad(Fault::Depth));
        assert_eq!(skip_array(&deep.as_bytes()[1..], 0, 64), Ok(128));
    }

    #[test]
    fn brackets_of_the_other_kind_do_not_close() {
        let text = br#"{"a":[1,[2],{"x":"]"}],"long enough to fill a block of sixty-four":[]} "#;
        assert_eq!(skip_object(text, 0, 64), Ok(text.len() - 1));
        assert_eq!(skip_object(br#"{"a":[1,2} , ] "#, 0, 64), bad(Fault::Comma));
        assert_eq!(skip_array(br#"[1,{"a":2] , } "#, 0, 64), bad(Fault::Comma));
    }

    #[test]
    fn long_values_are_checked() {
        let long = "1,".repeat(3000);
        let text = format!("[{long}1]");
        assert_eq!(skip_array(text.as_bytes(), 0, 64), Ok(text.len()));
        // An unclosed array is detected before the text ends.
        let text = format!("[{long}1,\"a\":2,{long}");
        assert_eq!(skip_array(text.as_bytes(), 0, 64), bad(Fault::Comma));
    }

    proptest! {
        #[test]
        fn blocks_and_bytes_agree(text in r#"\{([{}\[\]"a]|\\\\|\\"){0,200}"#) {
            let w = text.as_bytes();
            prop_assert_eq!(
                skip_nested::<b'}'>(w, 0, 64),
                skip_slowly::<b'}'>(w, 0, 0, false, 64)
            );
        }
    }
}
