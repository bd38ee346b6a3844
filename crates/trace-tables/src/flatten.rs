//! Flattens nested JSON text to leaves with paths: `{"b":[{"c":1}]}` under `a` is `a.b[0].c` = 1.

#![warn(clippy::indexing_slicing)]

use std::borrow::Cow;
use std::collections::HashMap;

/// Maximum nesting depth; deeper than any reader accepts.
const MAX_DEPTH: usize = 256;

/// A value without inner structure.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Leaf<'a> {
    Int(i64),
    UInt(u64),
    Real(f64),
    Bool(bool),
    Str(Cow<'a, str>),
}

/// Path of a leaf: `key` with array indices, `flat` without.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Path {
    pub(crate) key: String,
    pub(crate) flat: String,
    /// Number of elements of each array so far, by its key, if counted as in the reference: nulls
    /// do not count, and a second array with the same key continues the first.
    pub(crate) counts: Option<HashMap<String, usize>>,
}

impl Path {
    pub(crate) fn set(&mut self, key: &str) {
        self.key.clear();
        self.key.push_str(key);
        self.flat.clear();
        self.flat.push_str(key);
    }

    fn lens(&self) -> (usize, usize) {
        (self.key.len(), self.flat.len())
    }

    fn cut(&mut self, (key, flat): (usize, usize)) {
        self.key.truncate(key);
        self.flat.truncate(flat);
    }
}

/// Error for text that is not one JSON value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotJson;

/// Calls `leaf` for every leaf of `text` in the order of the text, with `path` extended by the path
/// of the leaf. Nulls, empty objects and empty arrays have no leaves. `NaN` and infinities are
/// numbers. `path` is restored.
pub(crate) fn flatten<'a>(
    text: &'a str,
    path: &mut Path,
    leaf: &mut dyn FnMut(&Path, Leaf<'a>),
) -> Result<(), NotJson> {
    let mut walk = Walk {
        rest: text,
        path,
        leaf,
    };
    let start = walk.path.lens();
    let result = walk.value(MAX_DEPTH);
    walk.path.cut(start);
    result?;
    walk.blanks();
    if walk.rest.is_empty() {
        Ok(())
    } else {
        Err(NotJson)
    }
}

struct Walk<'a, 'w> {
    rest: &'a str,
    path: &'w mut Path,
    leaf: &'w mut dyn FnMut(&Path, Leaf<'a>),
}

impl<'a> Walk<'a, '_> {
    fn blanks(&mut self) {
        self.rest = self.rest.trim_start_matches([' ', '\t', '\n', '\r']);
    }

    fn eat(&mut self, c: char) -> bool {
        self.blanks();
        match self.rest.strip_prefix(c) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn value(&mut self, depth: usize) -> Result<(), NotJson> {
        self.blanks();
        match self.rest.as_bytes().first() {
            Some(b'{') => self.object(depth.checked_sub(1).ok_or(NotJson)?),
            Some(b'[') => self.array(depth.checked_sub(1).ok_or(NotJson)?),
            Some(b'"') => {
                let text = self.string()?;
                (self.leaf)(self.path, Leaf::Str(text));
                Ok(())
            }
            _ => self.word(),
        }
    }

    fn object(&mut self, depth: usize) -> Result<(), NotJson> {
        self.eat('{');
        if self.eat('}') {
            return Ok(());
        }
        loop {
            self.blanks();
            let name = self.string()?;
            if !self.eat(':') {
                return Err(NotJson);
            }
            let here = self.path.lens();
            for text in [&mut self.path.key, &mut self.path.flat] {
                text.push('.');
                text.push_str(&name);
            }
            self.value(depth)?;
            self.path.cut(here);
            if self.eat('}') {
                return Ok(());
            }
            if !self.eat(',') {
                return Err(NotJson);
            }
        }
    }

    fn array(&mut self, depth: usize) -> Result<(), NotJson> {
        self.eat('[');
        if self.eat(']') {
            return Ok(());
        }
        for position in 0_usize.. {
            let here = self.path.lens();
            self.blanks();
            let index = match &mut self.path.counts {
                Some(_) if self.rest.starts_with("null") => 0,
                Some(counts) => match counts.get_mut(&self.path.key) {
                    Some(count) => {
                        *count += 1;
                        *count - 1
                    }
                    None => {
                        counts.insert(self.path.key.clone(), 1);
                        0
                    }
                },
                None => position,
            };
            self.path.key.push('[');
            self.path.key.push_str(&index.to_string());
            self.path.key.push(']');
            self.value(depth)?;
            self.path.cut(here);
            if self.eat(']') {
                break;
            }
            if !self.eat(',') {
                return Err(NotJson);
            }
        }
        Ok(())
    }

    fn word(&mut self) -> Result<(), NotJson> {
        let end = self
            .rest
            .find([',', ']', '}', ' ', '\t', '\n', '\r'])
            .unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at_checked(end).ok_or(NotJson)?;
        self.rest = rest;
        let leaf = match word {
            "null" => return Ok(()),
            "true" => Leaf::Bool(true),
            "false" => Leaf::Bool(false),
            "NaN" | "nan" => Leaf::Real(f64::NAN),
            "Infinity" | "inf" => Leaf::Real(f64::INFINITY),
            "-Infinity" | "-inf" => Leaf::Real(f64::NEG_INFINITY),
            _ => number(word).ok_or(NotJson)?,
        };
        (self.leaf)(self.path, leaf);
        Ok(())
    }

    /// Parses a quoted string; borrows it unless there are escapes.
    fn string(&mut self) -> Result<Cow<'a, str>, NotJson> {
        let body = self.rest.strip_prefix('"').ok_or(NotJson)?;
        let end = body.find(['"', '\\']).ok_or(NotJson)?;
        let (plain, rest) = body.split_at_checked(end).ok_or(NotJson)?;
        if let Some(rest) = rest.strip_prefix('"') {
            self.rest = rest;
            return Ok(Cow::Borrowed(plain));
        }
        let mut out = plain.to_owned();
        let mut rest = rest;
        loop {
            if let Some(after) = rest.strip_prefix('"') {
                self.rest = after;
                return Ok(Cow::Owned(out));
            }
            if rest.starts_with('\\') {
                rest = unescape(rest, &mut out)?;
                continue;
            }
            let end = rest.find(['"', '\\']).ok_or(NotJson)?;
            let (plain, after) = rest.split_at_checked(end).ok_or(NotJson)?;
            out.push_str(plain);
            rest = after;
        }
    }
}

/// Decodes the escape at the start of `text` and returns the text after it. Lone surrogates become
/// U+FFFD.
fn unescape<'a>(text: &'a str, out: &mut String) -> Result<&'a str, NotJson> {
    let mut chars = text.chars();
    chars.next();
    let plain = match chars.next().ok_or(NotJson)? {
        'b' => '\u{8}',
        'f' => '\u{c}',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'u' => {
            let (first, rest) = hex4(chars.as_str())?;
            if let Some(c) = char::from_u32(first) {
                out.push(c);
                return Ok(rest);
            }
            let second = rest
                .strip_prefix("\\u")
                .and_then(|low| hex4(low).ok())
                .filter(|(low, _)| first < 0xdc00 && (0xdc00..0xe000).contains(low));
            let Some((low, after)) = second else {
                out.push(char::REPLACEMENT_CHARACTER);
                return Ok(rest);
            };
            let code = 0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00);
            out.push(char::from_u32(code).unwrap_or(char::REPLACEMENT_CHARACTER));
            return Ok(after);
        }
        c => c,
    };
    out.push(plain);
    Ok(chars.as_str())
}

fn hex4(text: &str) -> Result<(u32, &str), NotJson> {
    let (digits, rest) = text.split_at_checked(4).ok_or(NotJson)?;
    if !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return Err(NotJson);
    }
    let code = u32::from_str_radix(digits, 16).map_err(|_| NotJson)?;
    Ok((code, rest))
}

/// Parses an integer if it is written as one and fits, else a real.
fn number<'a>(word: &str) -> Option<Leaf<'a>> {
    let first = *word.as_bytes().first()?;
    if !(first.is_ascii_digit() || first == b'-') {
        return None;
    }
    if let Ok(n) = word.parse() {
        return Some(Leaf::Int(n));
    }
    if let Ok(n) = word.parse() {
        return Some(Leaf::UInt(n));
    }
    word.parse().ok().map(Leaf::Real)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves(text: &str) -> Result<Vec<(String, String, Leaf<'_>)>, NotJson> {
        let mut path = Path::default();
        path.set("a");
        let mut out = Vec::new();
        let result = flatten(text, &mut path, &mut |p, leaf| {
            out.push((p.key.clone(), p.flat.clone(), leaf));
        });
        assert_eq!((path.key.as_str(), path.flat.as_str()), ("a", "a"));
        result.map(|()| out)
    }

    #[test]
    fn leaves_have_paths_and_types() {
        let text =
            r#" [1, [-2, 3.5], {"b": {"p.q": true, "n": null}, "e": [], "o": {}}, "x\"\\y"] "#;
        let row = |k: &str, f: &str, leaf| (k.to_owned(), f.to_owned(), leaf);
        assert_eq!(
            leaves(text).unwrap(),
            [
                row("a[0]", "a", Leaf::Int(1)),
                row("a[1][0]", "a", Leaf::Int(-2)),
                row("a[1][1]", "a", Leaf::Real(3.5)),
                row("a[2].b.p.q", "a.b.p.q", Leaf::Bool(true)),
                row("a[3]", "a", Leaf::Str("x\"\\y".into())),
            ]
        );
    }

    #[test]
    fn counted_elements_leave_out_nulls_and_go_on_in_the_next_array() {
        let mut path = Path {
            counts: Some(HashMap::new()),
            ..Path::default()
        };
        let mut keys = Vec::new();
        for text in ["[null,1,null,[],2]", r#"{"a":[null,5]}"#, "[ null , 3]"] {
            path.set("a");
            flatten(text, &mut path, &mut |p, _| keys.push(p.key.clone())).unwrap();
        }
        assert_eq!(keys, ["a[0]", "a[2]", "a.a[0]", "a[3]"]);
    }

    #[test]
    fn numbers_keep_their_type_as_far_as_they_fit() {
        let values: Vec<_> = leaves(
            "[9223372036854775807,9223372036854775808,18446744073709551616,1e3,-0.5,-Infinity]",
        )
        .unwrap()
        .into_iter()
        .map(|l| l.2)
        .collect();
        assert_eq!(
            values,
            [
                Leaf::Int(i64::MAX),
                Leaf::UInt(1 << 63),
                Leaf::Real(18_446_744_073_709_551_616.0),
                Leaf::Real(1000.0),
                Leaf::Real(-0.5),
                Leaf::Real(f64::NEG_INFINITY),
            ]
        );
    }

    #[test]
    fn escapes_are_decoded() {
        let text = r#"["\u00e9\n", "\ud83d\ude00!", "\ud83d-", "\udc00\/"]"#;
        let values: Vec<_> = leaves(text).unwrap().into_iter().map(|l| l.2).collect();
        let text = |s: &'static str| Leaf::Str(s.into());
        assert_eq!(
            values,
            [
                text("é\n"),
                text("😀!"),
                text("\u{fffd}-"),
                text("\u{fffd}/")
            ]
        );
    }

    #[test]
    fn what_is_not_json_is_refused() {
        let deep = "[".repeat(100_000);
        for text in [
            "",
            "{",
            "[1,]",
            "[1 2]",
            "{\"a\" 1}",
            "{a:1}",
            "[\"x]",
            "[tru]",
            "[+1]",
            "[1] x",
            "[\"\\u12\"]",
            &deep,
        ] {
            assert_eq!(leaves(text), Err(NotJson), "{text:.20}");
        }
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in r#"[\[\]{}",:\\u0-9a-f. é-]{0,40}"#) {
            let _ = leaves(&text);
        }
    }
}
