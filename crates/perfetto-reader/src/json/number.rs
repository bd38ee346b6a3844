//! Parses numbers from decimal text: times become integer nanoseconds without binary fractions.

use super::scan::{Fault, Scan, Stop, bad, scalar_end, word};

/// A time field of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Nanos {
    pub(super) ns: i64,
    /// `true` if decimals below a nanosecond were dropped.
    pub(super) rounded: bool,
}

/// A number in the narrowest kind that holds it, as the store keeps it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Number {
    Int(i64),
    UInt(u64),
    Real(f64),
}

const ZEROS: u64 = 0x3030_3030_3030_3030;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// Returns how many of the eight bytes are digits, counted from the first.
#[inline(always)]
fn digits_in(word: u64) -> usize {
    let x = word ^ ZEROS;
    let not_digit = (((x & !HIGH) + 0x7676_7676_7676_7676) | x) & HIGH;
    (not_digit.trailing_zeros() / 8) as usize
}

/// Returns the value of the first `count` bytes (at most 8), which must be digits.
#[inline(always)]
fn digits_value(word: u64, count: usize) -> u64 {
    if count == 0 {
        return 0;
    }
    // Digits move to the end; zeros come in front.
    let x = (word ^ ZEROS) << (64 - 8 * count);
    let pairs = x.wrapping_mul(10).wrapping_add(x >> 8);
    let low = (pairs & 0x0000_00ff_0000_00ff).wrapping_mul(0x000f_4240_0000_0064);
    let high = ((pairs >> 16) & 0x0000_00ff_0000_00ff).wrapping_mul(0x0000_2710_0000_0001);
    low.wrapping_add(high) >> 32
}

const POWERS: [i64; 10] = [
    1,
    10,
    100,
    1_000,
    10_000,
    100_000,
    1_000_000,
    10_000_000,
    100_000_000,
    1_000_000_000,
];

/// Returns value and end of an integer of at most 15 digits at `at`. `None` if there is no digit,
/// too many, a superfluous leading zero, or if the window ends too early to decide.
#[inline(always)]
fn short_integer(w: &[u8], at: usize) -> Option<(i64, usize)> {
    let first = word(w, at)?;
    let count = digits_in(first);
    if count == 0 || (first & 0xff == u64::from(b'0') && count > 1) {
        return None;
    }
    let value = digits_value(first, count).cast_signed();
    if count < 8 {
        return Some((value, at + count));
    }
    let second = word(w, at + 8)?;
    let more = digits_in(second);
    if more == 8 {
        return None;
    }
    let value = value * POWERS[more] + digits_value(second, more).cast_signed();
    Some((value, at + 8 + more))
}

/// Returns `true` if this byte may follow a number.
#[inline(always)]
fn is_end(b: u8) -> bool {
    matches!(b, b',' | b'}' | b']' | b' ' | b'\n' | b'\r' | b'\t')
}

/// Parses a plain integer at `at` in the common form.
#[inline(always)]
pub(super) fn plain_integer(w: &[u8], at: usize) -> Option<(i64, usize)> {
    let negative = w.get(at) == Some(&b'-');
    let (value, end) = short_integer(w, at + usize::from(negative))?;
    if !is_end(*w.get(end)?) {
        return None;
    }
    Some((if negative { -value } else { value }, end))
}

/// The last short integer of some field, which is likely to repeat.
#[derive(Clone, Copy, Default)]
pub(super) struct LastInteger {
    /// Its text with the byte after it, and a mask of these bytes.
    word: u64,
    mask: u64,
    value: i64,
    len: usize,
}

impl LastInteger {
    /// Same as [`plain_integer`], but compares with the last integer first.
    #[inline(always)]
    pub(super) fn read(&mut self, w: &[u8], at: usize) -> Option<(i64, usize)> {
        let word = word(w, at)?;
        if word & self.mask == self.word && self.mask != 0 {
            return Some((self.value, at + self.len));
        }
        let (value, end) = plain_integer(w, at)?;
        let len = end - at;
        if len < 8 {
            self.mask = u64::MAX >> (56 - 8 * len);
            self.word = word & self.mask;
            self.value = value;
            self.len = len;
        }
        Some((value, end))
    }
}

/// Parses microseconds at `at` in the common form: an integer and at most three decimals.
#[inline(always)]
pub(super) fn plain_micros(w: &[u8], at: usize) -> Option<(Nanos, usize)> {
    let negative = w.get(at) == Some(&b'-');
    let (whole, mut end) = short_integer(w, at + usize::from(negative))?;
    let mut ns = whole * 1000;
    if w.get(end) == Some(&b'.') {
        let decimals = word(w, end + 1)?;
        let count = digits_in(decimals);
        if count == 0 || count > 3 {
            return None;
        }
        ns += digits_value(decimals, count).cast_signed() * POWERS[3 - count];
        end += 1 + count;
    }
    if !is_end(*w.get(end)?) {
        return None;
    }
    let ns = if negative { -ns } else { ns };
    Some((Nanos { ns, rounded: false }, end))
}

/// Components of a JSON number.
struct Parts<'a> {
    negative: bool,
    whole: &'a [u8],
    decimals: &'a [u8],
    /// Saturated: an exponent beyond a few thousand changes nothing.
    exponent: i64,
    is_integer: bool,
}

fn leading_digits(text: &[u8]) -> usize {
    text.iter().take_while(|b| b.is_ascii_digit()).count()
}

fn parts(text: &[u8]) -> Option<Parts<'_>> {
    let negative = text.first() == Some(&b'-');
    let rest = text.get(usize::from(negative)..)?;
    let (whole, mut rest) = rest.split_at(leading_digits(rest));
    if whole.is_empty() || (whole.len() > 1 && whole[0] == b'0') {
        return None;
    }
    let mut is_integer = true;
    let mut decimals: &[u8] = &[];
    if let Some(after) = rest.strip_prefix(b".") {
        (decimals, rest) = after.split_at(leading_digits(after));
        is_integer = false;
        if decimals.is_empty() {
            return None;
        }
    }
    let mut exponent = 0_i64;
    if let [b'e' | b'E', after @ ..] = rest {
        let (down, digits) = match after {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] => (false, digits),
            digits => (false, digits),
        };
        if digits.is_empty() || leading_digits(digits) != digits.len() {
            return None;
        }
        exponent = digits.iter().fold(0_i64, |e, d| {
            (e * 10 + i64::from(d - b'0')).min(1_000_000_000_000)
        });
        if down {
            exponent = -exponent;
        }
        is_integer = false;
        rest = &[];
    }
    rest.is_empty().then_some(Parts {
        negative,
        whole,
        decimals,
        exponent,
        is_integer,
    })
}

/// Converts a text that is one number of microseconds to nanoseconds, rounded half away from zero;
/// `None` if it is not a number or out of range.
fn micros_of(text: &[u8], binary64: bool) -> Option<Nanos> {
    let parts = parts(text)?;
    if binary64 {
        return binary_micros(text, &parts).map(|ns| Nanos { ns, rounded: false });
    }
    let digits = || {
        parts
            .whole
            .iter()
            .chain(parts.decimals)
            .map(|d| i128::from(d - b'0'))
    };
    let count = i64::try_from(parts.whole.len() + parts.decimals.len()).ok()?;
    let decimals = i64::try_from(parts.decimals.len()).ok()?;
    // Number of digits before the nanosecond point.
    let kept = count - decimals + parts.exponent + 3;
    let leading_zeros = i64::try_from(digits().take_while(|&d| d == 0).count()).ok()?;
    if leading_zeros == count {
        return Some(Nanos {
            ns: 0,
            rounded: false,
        });
    }
    if kept - leading_zeros > 19 {
        return None;
    }
    let (mut value, mut half, mut rounded) = (0_i128, false, false);
    let noise = is_noise(digits(), kept, count - leading_zeros);
    for (i, d) in (0_i64..).zip(digits()) {
        if i < kept {
            value = value * 10 + d;
        } else {
            half |= i == kept && d >= 5;
            rounded |= d != 0 && !noise;
        }
    }
    for _ in count..kept {
        value *= 10;
    }
    value += i128::from(half);
    let value = if parts.negative { -value } else { value };
    let ns = i64::try_from(value).ok()?;
    Some(Nanos { ns, rounded })
}

/// Returns `true` if the digits after the first `kept` are rounding noise of binary64 in a whole
/// number of nanoseconds: at least 15 significant digits, and three zeros or nines first.
fn is_noise(digits: impl Iterator<Item = i128>, kept: i64, significant: i64) -> bool {
    let Ok(kept) = usize::try_from(kept) else {
        return false;
    };
    let mut first = digits.skip(kept).take(3);
    let Some(d @ (0 | 9)) = first.next() else {
        return false;
    };
    significant >= 15 && first.all(|next| next == d)
}

/// Converts as Perfetto's trace processor does: integers exactly, everything else through binary64.
fn binary_micros(text: &[u8], parts: &Parts<'_>) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    if parts.is_integer
        && let Ok(n) = text.parse::<i64>()
    {
        return n.checked_mul(1000);
    }
    let x: f64 = text.parse().ok()?;
    if x.fract() == 0.0 && x.abs() < 9.0e18 {
        #[expect(clippy::cast_possible_truncation, reason = "integral and in range")]
        return (x as i64).checked_mul(1000);
    }
    let ns = (x * 1000.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "integral and in range")]
    (ns.abs() < 9.2e18).then_some(ns as i64)
}

/// Parses the time in the string `text`.
pub(super) fn micros_in_string(text: &[u8], binary64: bool) -> Option<Nanos> {
    micros_of(text, binary64)
}

/// Parses the time at `at` in any form; `None` if it is a scalar without a usable time.
#[inline(never)]
pub(super) fn any_micros(w: &[u8], at: usize, binary64: bool) -> Scan<(Option<Nanos>, usize)> {
    let end = scalar_end(w, at)?;
    let text = w.get(at..end).unwrap_or_default();
    if parts(text).is_some() {
        return Ok((micros_of(text, binary64), end));
    }
    literal(text)?;
    Ok((None, end))
}

/// A scalar that is not a string: a number or a literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Scalar {
    Number(Number),
    Bool(bool),
    Null,
}

fn literal(text: &[u8]) -> Scan<Scalar> {
    Ok(match text {
        b"true" => Scalar::Bool(true),
        b"false" => Scalar::Bool(false),
        b"null" => Scalar::Null,
        b"NaN" => Scalar::Number(Number::Real(f64::NAN)),
        b"Infinity" => Scalar::Number(Number::Real(f64::INFINITY)),
        b"-Infinity" => Scalar::Number(Number::Real(f64::NEG_INFINITY)),
        _ => {
            return Err(Stop::Bad(match text.first() {
                Some(b'-' | b'0'..=b'9') => Fault::Number,
                _ => Fault::Token,
            }));
        }
    })
}

/// Parses `text` as a number; `None` if it is not one.
pub(super) fn number_of(text: &[u8]) -> Option<Number> {
    let parts = parts(text)?;
    let text = std::str::from_utf8(text).ok()?;
    if parts.is_integer {
        if let Ok(n) = text.parse() {
            return Some(Number::Int(n));
        }
        if let Ok(n) = text.parse() {
            return Some(Number::UInt(n));
        }
    }
    text.parse().ok().map(Number::Real)
}

/// Returns the scalar at `at` and the position after it.
#[inline(never)]
pub(super) fn any_scalar(w: &[u8], at: usize) -> Scan<(Scalar, usize)> {
    let end = scalar_end(w, at)?;
    let text = w.get(at..end).unwrap_or_default();
    if text.is_empty() {
        return bad(Fault::Token);
    }
    match number_of(text) {
        Some(number) => Ok((Scalar::Number(number), end)),
        None => Ok((literal(text)?, end)),
    }
}

impl Number {
    /// Returns the number as a process or thread number; reals are truncated.
    pub(super) fn truncated(self) -> i64 {
        match self {
            Self::Int(n) => n,
            Self::UInt(n) => i64::try_from(n).unwrap_or(i64::MAX),
            #[expect(
                clippy::cast_possible_truncation,
                reason = "cutting is what is asked for"
            )]
            Self::Real(x) => x as i64,
        }
    }

    pub(super) fn as_f64(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "counter values are binary64")]
        match self {
            Self::Int(n) => n as f64,
            Self::UInt(n) => n as f64,
            Self::Real(x) => x,
        }
    }

    /// Returns the number as a flow id: its 64 bits, signed or not.
    pub(super) fn as_id(self) -> u64 {
        match self {
            Self::Int(n) => n.cast_unsigned(),
            Self::UInt(n) => n,
            #[expect(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an id written as a real; saturates"
            )]
            Self::Real(x) => x as u64,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn exact(text: &str) -> Option<i64> {
        micros_of(text.as_bytes(), false).map(|n| n.ns)
    }

    fn plain(text: &str) -> Option<i64> {
        let padded = format!("{text},        ");
        let (nanos, end) = plain_micros(padded.as_bytes(), 0)?;
        assert_eq!(end, text.len(), "{text}");
        Some(nanos.ns)
    }

    #[test]
    fn decimals_are_exact_at_epoch_scale() {
        assert_eq!(
            exact("1712195495519689.123"),
            Some(1_712_195_495_519_689_123)
        );
        assert_eq!(plain("1712195495519.001"), Some(1_712_195_495_519_001));
        assert_eq!(
            micros_of(b"1712195495519689.2", true).map(|n| n.ns),
            Some(1712195495519689216)
        );
    }

    #[test]
    fn halves_round_away_from_zero() {
        assert_eq!(exact("0.0005"), Some(1));
        assert_eq!(exact("0.0004999"), Some(0));
        assert_eq!(exact("-0.0005"), Some(-1));
        assert_eq!(exact("99.9995"), Some(100_000));
        assert!(micros_of(b"1.0001", false).unwrap().rounded);
        assert!(!micros_of(b"1.0000", false).unwrap().rounded);
        // Rounding noise of binary64 in whole nanoseconds is not a loss.
        for (text, ns) in [
            ("60.317999999999998", 60_318),
            ("1740461679470.6310001", 1_740_461_679_470_631),
        ] {
            let found = micros_of(text.as_bytes(), false).unwrap();
            assert_eq!((found.ns, found.rounded), (ns, false), "{text}");
        }
        assert!(micros_of(b"60.3175", false).unwrap().rounded);
        assert!(micros_of(b"60.317500000000002", false).unwrap().rounded);
    }

    #[test]
    fn exponents_and_limits() {
        assert_eq!(exact("1e3"), Some(1_000_000));
        assert_eq!(exact("12.5E-1"), Some(1_250));
        assert_eq!(exact("1e-400"), Some(0));
        assert_eq!(exact("0e999999999999999999999"), Some(0));
        assert_eq!(exact("9223372036854775.807"), Some(i64::MAX));
        assert_eq!(exact("9223372036854775.8075"), None);
        assert_eq!(exact("1e400"), None);
        assert_eq!(exact("0000000000000000000000000000001"), None);
        assert_eq!(
            exact("0.00000000000000000000000000000000001e35"),
            Some(1000)
        );
    }

    #[test]
    fn malformed_numbers_are_none() {
        for text in [
            "", "-", "1.", ".5", "+1", "1e", "1e+", "0x10", "1 ", "--1", "1.2.3",
        ] {
            assert_eq!(exact(text), None, "{text}");
            assert_eq!(number_of(text.as_bytes()), None, "{text}");
        }
        assert_eq!(
            number_of(b"9223372036854775808"),
            Some(Number::UInt(1 << 63))
        );
        assert_eq!(
            number_of(b"18446744073709551616"),
            Some(Number::Real(18446744073709551616.0))
        );
    }

    proptest! {
        #[test]
        fn plain_form_equals_exact_form(text in "-?(0|[1-9][0-9]{0,14})(\\.[0-9]{1,3})?") {
            if let Some(ns) = plain(&text) {
                prop_assert_eq!(Some(ns), exact(&text));
            } else {
                // Fifteen digits are always plain.
                prop_assert!(false, "{}", text);
            }
        }

        #[test]
        fn remembering_changes_nothing(
            texts in prop::collection::vec("-?(0|[1-9][0-9]{0,8})[,} 1.]       ", 1..20),
        ) {
            let mut last = LastInteger::default();
            for text in texts.iter().chain(&texts) {
                let w = text.as_bytes();
                prop_assert_eq!(last.read(w, 0), plain_integer(w, 0));
                prop_assert_eq!(last.read(w, 0), plain_integer(w, 0));
            }
        }

        #[test]
        fn plain_integers_are_what_they_say(n in any::<i64>()) {
            let text = format!("{n}}}        ");
            if let Some((value, end)) = plain_integer(text.as_bytes(), 0) {
                prop_assert_eq!((value, end), (n, text.len() - 9));
            } else {
                prop_assert!(n.unsigned_abs() >= 1_000_000_000_000_000);
            }
        }
    }
}
