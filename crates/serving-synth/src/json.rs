//! JSON values that keep the text of their numbers, with two output styles: that of profilers, and
//! a readable one.

use std::fmt::Write as _;

/// A JSON value. Objects keep their order and may repeat a key; numbers are text, so nothing is rounded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// Text written unchanged: a number, a literal, or something deliberately broken.
    Raw(String),
    /// A string, escaped when written.
    Str(String),
    /// An array.
    Arr(Vec<Self>),
    /// An object.
    Obj(Vec<(String, Self)>),
}

/// Builds an object: `object! { "ts": 1, "name": "a" }`.
#[macro_export]
macro_rules! object {
    ($($key:literal : $value:expr),* $(,)?) => {
        $crate::json::Json::Obj(vec![$(($key.to_owned(), $crate::json::Json::from($value))),*])
    };
}
pub use object;

impl Json {
    /// Returns the literal `null`.
    pub fn null() -> Self {
        Self::Raw("null".to_owned())
    }

    /// Returns nanoseconds as microseconds with three decimals, as Kineto writes them.
    pub fn micros(ns: i64) -> Self {
        Self::Raw(micros(ns))
    }

    /// Returns a number with `digits` decimals.
    pub fn fixed(value: f64, digits: usize) -> Self {
        Self::Raw(format!("{value:.digits$}"))
    }

    /// Returns an array of the converted `items`.
    pub fn list<T: Into<Self>>(items: impl IntoIterator<Item = T>) -> Self {
        Self::Arr(items.into_iter().map(Into::into).collect())
    }

    /// Adds a member to an object; other values stay as they are.
    pub fn push(&mut self, key: &str, value: impl Into<Self>) {
        if let Self::Obj(members) = self {
            members.push((key.to_owned(), value.into()));
        }
    }

    /// Formats on one line, with the separators `, ` and `: ` of Python's `json.dump`.
    pub fn line(&self) -> String {
        let mut out = String::new();
        self.write_line(&mut out);
        out
    }

    /// Appends the text of [`Json::line`].
    pub fn write_line(&self, out: &mut String) {
        match self {
            Self::Raw(text) => out.push_str(text),
            Self::Str(text) => quote(text, out),
            Self::Arr(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    item.write_line(out);
                }
                out.push(']');
            }
            Self::Obj(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { ", " } else { "" });
                    quote(key, out);
                    out.push_str(": ");
                    value.write_line(out);
                }
                out.push('}');
            }
        }
    }

    /// Formats with an indent of two; values that fit in a line of 140 stay on one. Ends with a
    /// newline.
    pub fn pretty(&self) -> String {
        let mut out = String::new();
        self.write_pretty(&mut out, 0);
        out.push('\n');
        out
    }

    fn write_pretty(&self, out: &mut String, depth: usize) {
        let flat = self.line();
        if flat.len() + 2 * depth <= 140 {
            out.push_str(&flat);
            return;
        }
        match self {
            Self::Raw(_) | Self::Str(_) => out.push_str(&flat),
            Self::Arr(items) => {
                out.push('[');
                for (i, item) in items.iter().enumerate() {
                    out.push_str(if i > 0 { ",\n" } else { "\n" });
                    let _ = write!(out, "{:1$}", "", 2 * depth + 2);
                    item.write_pretty(out, depth + 1);
                }
                let _ = write!(out, "\n{:1$}]", "", 2 * depth);
            }
            Self::Obj(members) => {
                out.push('{');
                for (i, (key, value)) in members.iter().enumerate() {
                    out.push_str(if i > 0 { ",\n" } else { "\n" });
                    let _ = write!(out, "{:1$}", "", 2 * depth + 2);
                    quote(key, out);
                    out.push_str(": ");
                    value.write_pretty(out, depth + 1);
                }
                let _ = write!(out, "\n{:1$}}}", "", 2 * depth);
            }
        }
    }
}

/// Formats nanoseconds as microseconds with three decimals.
pub fn micros(ns: i64) -> String {
    let sign = if ns < 0 { "-" } else { "" };
    let ns = ns.unsigned_abs();
    format!("{sign}{}.{:03}", ns / 1000, ns % 1000)
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\t' => out.push_str("\\t"),
            c if c < ' ' => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            c => out.push(c),
        }
    }
    out.push('"');
}

impl From<&str> for Json {
    fn from(text: &str) -> Self {
        Self::Str(text.to_owned())
    }
}

impl From<String> for Json {
    fn from(text: String) -> Self {
        Self::Str(text)
    }
}

impl From<&String> for Json {
    fn from(text: &String) -> Self {
        Self::Str(text.clone())
    }
}

impl From<bool> for Json {
    fn from(value: bool) -> Self {
        Self::Raw(value.to_string())
    }
}

macro_rules! from_number {
    ($($number:ty),*) => {$(
        impl From<$number> for Json {
            fn from(value: $number) -> Self {
                Self::Raw(value.to_string())
            }
        }
    )*};
}
from_number!(i32, i64, u64, usize);

impl<T: Into<Self>> From<Vec<T>> for Json {
    fn from(items: Vec<T>) -> Self {
        Self::list(items)
    }
}

impl<T: Into<Self>> From<Option<T>> for Json {
    fn from(value: Option<T>) -> Self {
        value.map_or_else(Self::null, Into::into)
    }
}

#[cfg(test)]
mod tests {
    use super::{Json, micros};

    #[test]
    fn microseconds_are_exact_at_any_scale() {
        assert_eq!(micros(1_365_627_865_340_865), "1365627865340.865");
        assert_eq!(micros(1_775_078_550_123_456_789), "1775078550123456.789");
        assert_eq!(micros(-1), "-0.001");
        assert_eq!(micros(50), "0.050");
    }

    #[test]
    fn a_line_has_the_spacing_of_the_profilers() {
        let value =
            object! { "ph": "X", "dur": Json::micros(1500), "args": Json::list(["a\"b", "\u{1}"]) };
        assert_eq!(
            value.line(),
            r#"{"ph": "X", "dur": 1.500, "args": ["a\"b", "\u0001"]}"#
        );
    }

    #[test]
    fn long_values_are_broken_over_lines() {
        let value = object! { "a": "x".repeat(100), "b": Json::list(["y".repeat(100)]) };
        let lines: Vec<String> = value.pretty().lines().map(str::to_owned).collect();
        assert_eq!(lines.len(), 4);
        assert_eq!(lines[3], "}");
    }
}
