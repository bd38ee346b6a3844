//! Checks one JSON value, strictly or forgivingly, without recursion.

use super::number::any_scalar;
use super::scan::{Fault, Scan, bad, scalar_end, string_end, token};
use super::text;

/// Accepted syntax.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Care {
    /// JSON, with `NaN` and `Infinity`.
    Strict,
    /// Anything whose brackets, commas, colons and quotes are in order.
    Forgiving,
}

/// Returns the position after the value that starts at `at`.
pub(super) fn value_end(w: &[u8], at: usize, care: Care, max_depth: usize) -> Scan<usize> {
    let mut scratch = String::new();
    // One entry per open bracket: `true` for an object.
    let mut open: Vec<bool> = Vec::new();
    let (mut at, mut b) = token(w, at)?;
    loop {
        // A value starts here.
        at = match b {
            b'"' => checked_string(w, at, care, &mut scratch)?,
            b'{' | b'[' => {
                if open.len() >= max_depth {
                    return bad(Fault::Depth);
                }
                let is_object = b == b'{';
                (at, b) = token(w, at + 1)?;
                if b == if is_object { b'}' } else { b']' } {
                    at + 1
                } else {
                    open.push(is_object);
                    if is_object {
                        (at, b) = after_key(w, at, b, care, &mut scratch)?;
                    }
                    continue;
                }
            }
            _ if care == Care::Strict => any_scalar(w, at)?.1,
            b',' | b':' | b'}' | b']' => return bad(Fault::Token),
            _ => scalar_end(w, at)?,
        };
        // A value has ended here.
        loop {
            let Some(&is_object) = open.last() else {
                return Ok(at);
            };
            (at, b) = token(w, at)?;
            match (b, is_object) {
                (b',', true) => {
                    (at, b) = token(w, at + 1)?;
                    (at, b) = after_key(w, at, b, care, &mut scratch)?;
                    break;
                }
                (b',', false) => {
                    (at, b) = token(w, at + 1)?;
                    break;
                }
                (b'}', true) | (b']', false) => {
                    open.pop();
                    at += 1;
                }
                _ => return bad(Fault::Comma),
            }
        }
    }
}

fn checked_string(w: &[u8], at: usize, care: Care, scratch: &mut String) -> Scan<usize> {
    let (end, escaped) = string_end(w, at + 1)?;
    if escaped && care == Care::Strict {
        text::decode(w.get(at + 1..end).unwrap_or_default(), true, scratch)?;
    }
    Ok(end + 1)
}

/// Steps over the key at `at` and its colon, to the value.
fn after_key(w: &[u8], at: usize, b: u8, care: Care, scratch: &mut String) -> Scan<(usize, u8)> {
    if b != b'"' {
        return bad(Fault::Key);
    }
    let end = checked_string(w, at, care, scratch)?;
    match token(w, end)? {
        (colon, b':') => token(w, colon + 1),
        _ => bad(Fault::Colon),
    }
}

#[cfg(test)]
mod tests {
    use super::super::scan::Stop;
    use super::*;

    fn strict(text: &str) -> Scan<usize> {
        value_end(text.as_bytes(), 0, Care::Strict, 64)
    }

    #[test]
    fn ends_where_the_value_ends() {
        for value in [
            "[]",
            "{}",
            r#"{"a":[1,{"b":null,"c":"}]\""}],"d":-1.5e3}"#,
            "[ [ ] , { } , NaN ]",
            r#""x""#,
        ] {
            assert_eq!(strict(&format!("{value} ,")), Ok(value.len()), "{value}");
            for cut in 0..value.len() {
                assert_eq!(strict(&value[..cut]), Err(Stop::More), "{value} {cut}");
            }
        }
    }

    #[test]
    fn faults_are_told_apart() {
        assert_eq!(strict("[1,,2]"), bad(Fault::Token));
        assert_eq!(strict("[1 2]"), bad(Fault::Comma));
        assert_eq!(strict("[1}"), bad(Fault::Comma));
        assert_eq!(strict("{1:2}"), bad(Fault::Key));
        assert_eq!(strict(r#"{"a" 2}"#), bad(Fault::Colon));
        assert_eq!(strict(r#"["\q"]"#), bad(Fault::Escape));
        assert_eq!(strict("[01]"), bad(Fault::Number));
        assert_eq!(strict(&"[".repeat(65)), bad(Fault::Depth));
    }

    #[test]
    fn forgiving_minds_only_the_structure() {
        let text = r#"{"a":"\q","b":01x,"c":[nan,inf]} "#;
        assert_eq!(
            value_end(text.as_bytes(), 0, Care::Forgiving, 64),
            Ok(text.len() - 1)
        );
        assert_eq!(
            value_end(br#"{"a":"x"b"c"}"#, 0, Care::Forgiving, 64),
            bad(Fault::Comma)
        );
    }
}
