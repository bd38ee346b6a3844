//! Pieces of lines.

use crate::names::Name;

/// First address of the kernel's half, as the reference draws the line.
pub(super) const KERNEL_START: u64 = 0x0000_8000_0000_0000;

/// Blanks as the reference's expressions know them (ASCII, vertical tab and form feed included).
#[inline]
pub(super) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

/// Skips blanks in front.
#[inline]
pub(super) fn trim(text: &[u8]) -> &[u8] {
    let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
    text.get(blanks..).unwrap_or_default()
}

/// Skips blanks at the end.
#[inline]
pub(super) fn trim_end(text: &[u8]) -> &[u8] {
    let blanks = text
        .iter()
        .rev()
        .take_while(|byte| is_blank(**byte))
        .count();
    text.get(..text.len() - blanks).unwrap_or_default()
}

/// Skips at least one blank in front.
#[inline]
pub(super) fn gap(text: &[u8]) -> Option<&[u8]> {
    text.first()
        .is_some_and(|byte| is_blank(*byte))
        .then(|| trim(text))
}

/// Splits off leading bytes of a kind.
#[inline]
pub(super) fn span(text: &[u8], kind: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let end = text
        .iter()
        .position(|byte| !kind(*byte))
        .unwrap_or(text.len());
    text.split_at(end)
}

/// Splits off trailing bytes of a kind.
#[inline]
pub(super) fn span_end(text: &[u8], kind: impl Fn(u8) -> bool) -> (&[u8], &[u8]) {
    let count = text.iter().rev().take_while(|byte| kind(**byte)).count();
    text.split_at(text.len() - count)
}

/// Splits off the first word.
#[inline]
pub(super) fn word(text: &[u8]) -> (&[u8], &[u8]) {
    span(text, |byte| !is_blank(byte))
}

#[inline]
pub(super) const fn is_digit(byte: u8) -> bool {
    byte.is_ascii_digit()
}

#[inline]
pub(super) const fn is_hex(byte: u8) -> bool {
    byte.is_ascii_hexdigit()
}

/// A decimal number; `None` when it is empty, is none or does not fit.
#[inline]
pub(super) fn decimal(text: &[u8]) -> Option<u64> {
    if text.is_empty() {
        return None;
    }
    text.iter().try_fold(0_u64, |value, byte| {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value.checked_mul(10)?.checked_add(u64::from(digit))
    })
}

/// Value of a hexadecimal digit, 255 for anything else.
static HEX: [u8; 256] = hex_table();

#[expect(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "evaluated when compiled; the digits are below 16"
)]
const fn hex_table() -> [u8; 256] {
    let mut table = [255; 256];
    let mut digit = 0;
    while digit < 16 {
        table[b"0123456789abcdef"[digit] as usize] = digit as u8;
        table[b"0123456789ABCDEF"[digit] as usize] = digit as u8;
        digit += 1;
    }
    table
}

/// Splits off a hexadecimal number: value, whether it fits 64 bits, digits, rest.
#[inline]
pub(super) fn hex_span(text: &[u8]) -> (u64, bool, &[u8], &[u8]) {
    let mut value = 0_u64;
    let mut fits = true;
    let mut count = 0;
    for byte in text {
        let digit = HEX.get(usize::from(*byte)).copied().unwrap_or(255);
        if digit == 255 {
            break;
        }
        fits &= value >> 60 == 0;
        value = value << 4 | u64::from(digit);
        count += 1;
    }
    let (digits, rest) = text.split_at(count);
    (value, fits, digits, rest)
}

/// A whole word as a hexadecimal number of at most 64 bits.
pub(super) fn hex_word(text: &[u8]) -> Option<u64> {
    match hex_span(text) {
        (value, true, [_, ..], []) => Some(value),
        _ => None,
    }
}

/// A hexadecimal number of at most 128 bits.
pub(super) fn wide_hex(digits: &[u8]) -> Option<u128> {
    digits.iter().try_fold(0_u128, |value, byte| {
        let digit = HEX.get(usize::from(*byte)).copied().unwrap_or(255);
        (digit != 255 && value >> 124 == 0).then(|| value << 4 | u128::from(digit))
    })
}

/// Nanoseconds of `seconds` and a fraction of any number of digits, of which nine count.
#[inline]
pub(super) fn nanoseconds(seconds: &[u8], fraction: &[u8]) -> Option<u64> {
    let kept = fraction.get(..9).unwrap_or(fraction);
    let mut value = decimal(kept)?;
    for _ in kept.len()..9 {
        value *= 10;
    }
    decimal(seconds)?
        .checked_mul(1_000_000_000)?
        .checked_add(value)
}

/// Whether `text` contains `word`, which is in lower case, in any case.
#[inline]
pub(super) fn contains_word(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len())
        .any(|window| window.eq_ignore_ascii_case(word))
}

/// The symbol up to the first plus sign.
pub(super) fn before_plus(symbol: &[u8]) -> &[u8] {
    let end = memchr::memchr(b'+', symbol).unwrap_or(symbol.len());
    symbol.get(..end).unwrap_or_default()
}

/// The cache level of the word after `|LVL ` in perf's decoded data source.
pub(super) fn decoded_level(decoded: &[u8]) -> Name {
    let Some(at) = memchr::memmem::find(decoded, b"|LVL ") else {
        return Name::NULL;
    };
    let text = trim(decoded.get(at + 5..).unwrap_or_default());
    let (word, _) = span(text, |byte| {
        byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'/'
    });
    let upper = word.to_ascii_uppercase();
    const ORDER: [(&[u8], Name); 8] = [
        (b"DRAM", Name::DRAM),
        (b"RAM", Name::DRAM),
        (b"L4", Name::L4),
        (b"L3", Name::L3),
        (b"L2", Name::L2),
        (b"LFB", Name::LFB),
        (b"MAB", Name::LFB),
        (b"L1", Name::L1),
    ];
    ORDER
        .iter()
        .find(|(text, _)| memchr::memmem::find(&upper, text).is_some())
        .map_or(Name::NULL, |(_, name)| *name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(decimal(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(decimal(b"18446744073709551616"), None);
        assert_eq!(decimal(b""), None);
        assert_eq!(hex_word(b"7F3a00001000"), Some(0x7f3a_0000_1000));
        assert_eq!(hex_word(b"00000000000000000001"), Some(1));
        assert_eq!(hex_word(b"10000000000000000"), None);
        assert_eq!(
            wide_hex(b"1ffffffffffffffff0"),
            Some(0x1f_ffff_ffff_ffff_fff0)
        );
        assert_eq!(nanoseconds(b"1", b"5"), Some(1_500_000_000));
        assert_eq!(nanoseconds(b"0", b"123456789987"), Some(123_456_789));
        assert_eq!(nanoseconds(b"99999999999", b"0"), None);
    }

    #[test]
    fn levels_are_taken_in_the_order_of_the_reference() {
        assert_eq!(decoded_level(b"|OP LOAD|LVL L3 miss|SNP"), Name::L3);
        assert_eq!(decoded_level(b"|LVL LFB/MAB hit|"), Name::LFB);
        assert_eq!(decoded_level(b"|LVL Remote RAM (1 hop) hit|"), Name::NULL);
        assert_eq!(decoded_level(b"|LVL N/A|"), Name::NULL);
    }
}
