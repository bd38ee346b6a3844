//! Appends the digits of integers and reals to a byte buffer without allocating.

use std::io::Write as _;

use crate::column::RealFormat;

/// Appends an integer.
pub(crate) fn push_integer(out: &mut Vec<u8>, value: impl itoa::Integer) {
    out.extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
}

/// Appends a real. Not-a-number is `NaN`, infinities are `inf` and `-inf`: spellings that Rust, C
/// and Python parse.
pub(crate) fn push_real(out: &mut Vec<u8>, value: f64, format: RealFormat) {
    if !value.is_finite() {
        let word: &[u8] = if value.is_nan() {
            b"NaN"
        } else if value > 0.0 {
            b"inf"
        } else {
            b"-inf"
        };
        out.extend_from_slice(word);
        return;
    }
    match format {
        RealFormat::Fixed(decimals) => {
            // Writing into a Vec cannot fail.
            let _ = write!(out, "{value:.*}", usize::from(decimals));
        }
        RealFormat::Shortest => {
            lay_out(
                out,
                value,
                None,
                Layout {
                    exponents: -7..21,
                    point: false,
                    c_exponent: false,
                },
            );
        }
        RealFormat::ShortestPoint => {
            lay_out(
                out,
                value,
                None,
                Layout {
                    exponents: -4..16,
                    point: true,
                    c_exponent: true,
                },
            );
        }
        RealFormat::Significant15 => {
            lay_out(
                out,
                value,
                Some(15),
                Layout {
                    exponents: -4..15,
                    point: true,
                    c_exponent: true,
                },
            );
        }
    }
}

/// Formats a real.
///
/// ```
/// use report::{RealFormat, real_text};
/// assert_eq!(real_text(5.0, RealFormat::Significant15), "5.0");
/// assert_eq!(real_text(1e300, RealFormat::Significant15), "1.0e+300");
/// assert_eq!(real_text(0.5, RealFormat::Fixed(3)), "0.500");
/// ```
#[must_use]
pub fn real_text(value: f64, format: RealFormat) -> String {
    let mut out = Vec::new();
    push_real(&mut out, value, format);
    // Only ASCII was written.
    String::from_utf8_lossy(&out).into_owned()
}

struct Layout {
    /// Range of decimal exponents written without an `e`.
    exponents: std::ops::Range<i32>,
    /// `true` if whole numbers get `.0`.
    point: bool,
    /// `true` if the exponent has a sign and at least two digits, as in C.
    c_exponent: bool,
}

/// Takes digits and exponent from Rust's scientific notation and places the point according to
/// `layout`.
fn lay_out(out: &mut Vec<u8>, value: f64, significant: Option<usize>, layout: Layout) {
    let mut scratch = [0_u8; 40];
    let mut rest = &mut scratch[..];
    // A sign, at most 17 digits, a point and five bytes of exponent: 40 bytes always suffice.
    let _ = match significant {
        Some(digits) => write!(rest, "{value:.*e}", digits - 1),
        None => write!(rest, "{value:e}"),
    };
    let free = rest.len();
    let text = &scratch[..scratch.len() - free];
    let at = text.iter().position(|&b| b == b'e').unwrap_or(text.len());
    let exponent = text
        .get(at + 1..)
        .and_then(|e| std::str::from_utf8(e).ok())
        .and_then(|e| e.parse().ok());
    let exponent: i32 = exponent.unwrap_or(0);
    let mut digits = [0_u8; 20];
    let mut count = 0;
    for &byte in text[..at]
        .iter()
        .filter(|b| b.is_ascii_digit())
        .take(digits.len())
    {
        digits[count] = byte;
        count += 1;
    }
    while count > 1 && digits[count - 1] == b'0' {
        count -= 1;
    }
    let digits = &digits[..count];

    if text.first() == Some(&b'-') {
        out.push(b'-');
    }
    if !layout.exponents.contains(&exponent) {
        out.push(digits[0]);
        if digits.len() > 1 {
            out.push(b'.');
            out.extend_from_slice(&digits[1..]);
        } else if layout.point && significant.is_some() {
            out.extend_from_slice(b".0");
        }
        let _ = if layout.c_exponent {
            write!(out, "e{exponent:+03}")
        } else {
            write!(out, "e{exponent}")
        };
        return;
    }
    match usize::try_from(exponent) {
        Ok(exponent) => {
            let whole = digits.len().min(exponent + 1);
            out.extend_from_slice(&digits[..whole]);
            out.extend(std::iter::repeat_n(b'0', exponent + 1 - whole));
            if whole < digits.len() {
                out.push(b'.');
                out.extend_from_slice(&digits[whole..]);
            } else if layout.point {
                out.extend_from_slice(b".0");
            }
        }
        Err(_) => {
            let zeros = usize::try_from(-exponent - 1).unwrap_or(0);
            out.extend_from_slice(b"0.");
            out.extend(std::iter::repeat_n(b'0', zeros));
            out.extend_from_slice(digits);
        }
    }
}
