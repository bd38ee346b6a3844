//! Numbers as pandas reads them by default.

/// The texts that mean "no value" to pandas.
const MISSING: [&[u8]; 19] = [
    b"",
    b"#N/A",
    b"#N/A N/A",
    b"#NA",
    b"-1.#IND",
    b"-1.#QNAN",
    b"-NaN",
    b"-nan",
    b"1.#IND",
    b"1.#QNAN",
    b"<NA>",
    b"N/A",
    b"NA",
    b"NULL",
    b"NaN",
    b"None",
    b"n/a",
    b"nan",
    b"null",
];

/// Whether a field counts as missing.
pub(crate) fn is_missing(field: &[u8]) -> bool {
    MISSING.contains(&field)
}

/// Digits that take part in a number; the rest only moves the point.
const MAX_DIGITS: u32 = 17;

/// A decimal number with the rounding of pandas' default parser: the digits are gathered in a double, then scaled
/// by one power of ten. Long numbers may differ from the nearest double in the last place, which decides ties in
/// the rank tests, so published results depend on it.
pub(crate) fn parse_real(field: &[u8]) -> Option<f64> {
    let text = field.trim_ascii();
    let (negative, digits) = match text.split_first() {
        Some((b'-', rest)) => (true, rest),
        Some((b'+', rest)) => (false, rest),
        _ => (false, text),
    };
    if digits.eq_ignore_ascii_case(b"inf") || digits.eq_ignore_ascii_case(b"infinity") {
        return Some(if negative {
            f64::NEG_INFINITY
        } else {
            f64::INFINITY
        });
    }
    let mut number = 0.0_f64;
    let mut exponent = 0_i64;
    let mut taken = 0_u32;
    let mut point = false;
    let mut any = false;
    let mut rest = digits;
    while let Some((&byte, tail)) = rest.split_first() {
        match byte {
            b'0'..=b'9' => {
                any = true;
                if taken < MAX_DIGITS {
                    number = number * 10.0 + f64::from(byte - b'0');
                    taken += 1;
                    exponent -= i64::from(point);
                } else {
                    exponent += i64::from(!point);
                }
            }
            b'.' if !point => point = true,
            b'e' | b'E' => {
                exponent = exponent.saturating_add(parse_exponent(tail)?);
                rest = &[];
                continue;
            }
            _ => return None,
        }
        rest = tail;
    }
    if !any {
        return None;
    }
    let scaled = scale(number, exponent);
    Some(if negative { -scaled } else { scaled })
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let value: i64 = text.parse().ok()?;
    Some(value.clamp(-100_000, 100_000))
}

fn scale(number: f64, exponent: i64) -> f64 {
    let Ok(exponent) = i32::try_from(exponent) else {
        return number;
    };
    match exponent {
        309.. if number > 0.0 => f64::INFINITY,
        309.. => number,
        1..=308 => number * power(exponent),
        0 => number,
        -308..=-1 => number / power(-exponent),
        _ => number / power((-308 - exponent).min(308)) / power(308),
    }
}

/// The double nearest to a power of ten.
fn power(exponent: i32) -> f64 {
    // `powi` may be off in the last place; the parser of the standard library is not.
    const SMALL: [f64; 23] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    usize::try_from(exponent)
        .ok()
        .and_then(|at| SMALL.get(at).copied())
        .unwrap_or_else(|| format!("1e{exponent}").parse().unwrap_or(f64::INFINITY))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_numbers_are_exact() {
        for text in [
            "0",
            "159.6525",
            "-3",
            "+2.5",
            "1763022660469318.2500",
            "1e3",
            "2.5E-3",
        ] {
            let exact: f64 = text.parse().unwrap();
            assert_eq!(parse_real(text.as_bytes()), Some(exact), "{text}");
        }
    }

    #[test]
    fn the_eighteenth_digit_is_not_read() {
        // Nearest would be 2034567890123456.9..., the 17 digits give the same digits without the last ones.
        assert_eq!(
            parse_real(b"2034567890123456.9999"),
            Some(20_345_678_901_234_569.0 / 10.0)
        );
        assert_eq!(
            parse_real(b"123456789012345678901"),
            Some(12_345_678_901_234_568.0 * 1e4)
        );
    }

    #[test]
    fn what_is_no_number() {
        for text in ["", "abc", "1.2.3", "1e", "--1", "."] {
            assert_eq!(parse_real(text.as_bytes()), None, "{text}");
        }
        assert_eq!(parse_real(b"inf"), Some(f64::INFINITY));
        assert!(is_missing(b"N/A") && is_missing(b"") && !is_missing(b"0"));
        assert_eq!(parse_real(b"1e400"), Some(f64::INFINITY));
        assert_eq!(parse_real(b"1e-400"), Some(0.0));
    }
}
