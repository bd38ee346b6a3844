//! Numbers and texts of the document as HTML, each with the place it was taken from.

use std::fmt::Write as _;

use charts::escape;
use findings::{Interval, Side};
use report::human;

/// Maximum length of a name in characters.
pub(crate) const NAME: usize = 120;
/// Maximum length of a title or a line in characters.
pub(crate) const LINE: usize = 300;
/// Maximum length of a sentence or a command in characters.
pub(crate) const SENTENCE: usize = 1200;

/// Returns a number: the text, its exact value, its unit and its place.
fn number(path: &str, unit: &str, exact: &str, text: &str) -> String {
    format!(
        "<span class=\"n\" data-path=\"{path}\" data-unit=\"{unit}\" data-v=\"{exact}\">{text}</span>"
    )
}

/// Returns a duration.
pub(crate) fn ns(path: &str, value: i64) -> String {
    number(
        path,
        "ns",
        &value.to_string(),
        &minus(&human::duration(value as f64)),
    )
}

/// Returns a time on the clock of the recording, exactly.
pub(crate) fn instant(path: &str, value: i64) -> String {
    let text = format!("{} ns", minus(&human::count(value)));
    number(path, "ns", &value.to_string(), &text)
}

/// Returns a difference of durations, with its sign.
pub(crate) fn change_ns(path: &str, value: i64) -> String {
    let text = human::duration(value as f64);
    let text = if value > 0 {
        format!("+{text}")
    } else {
        minus(&text)
    };
    number(path, "ns", &value.to_string(), &text)
}

/// Returns a share in percent.
pub(crate) fn pct(path: &str, value: f64) -> String {
    number(
        path,
        "pct",
        &value.to_string(),
        &escape(&minus(&human::percent(value))),
    )
}

/// Returns a number of things.
pub(crate) fn count(path: &str, value: u64) -> String {
    number(path, "count", &value.to_string(), &human::count(value))
}

/// Returns an identifier: a rank, a step, a device.
pub(crate) fn id(path: &str, value: impl Into<i64>) -> String {
    let value = value.into();
    number(
        path,
        "count",
        &value.to_string(),
        &minus(&value.to_string()),
    )
}

/// Returns a size.
pub(crate) fn bytes(path: &str, value: f64) -> String {
    number(path, "bytes", &value.to_string(), &human::bytes(value))
}

/// Returns a rate of bytes.
pub(crate) fn byte_rate(path: &str, value: f64) -> String {
    number(path, "rate", &value.to_string(), &human::byte_rate(value))
}

/// Returns a large real number with a decimal prefix.
pub(crate) fn large(path: &str, value: f64) -> String {
    number(
        path,
        "large",
        &value.to_string(),
        &human::short_count(value),
    )
}

/// Returns the length of a list.
pub(crate) fn length(path: &str, list: usize) -> String {
    number(
        path,
        "length",
        &list.to_string(),
        &human::count(list as u64),
    )
}

/// Returns how many rows of a list remain after the first `shown`.
pub(crate) fn rest(path: &str, list: usize, shown: usize) -> String {
    let rest = list.saturating_sub(shown);
    number(path, "rest", &rest.to_string(), &human::count(rest as u64))
}

/// Returns the value, and in brackets the interval unless it is a point.
pub(crate) fn interval(path: &str, value: &Interval) -> String {
    with_interval(path, value, ns)
}

/// Same as [`interval`], with signs.
pub(crate) fn change_interval(path: &str, value: &Interval) -> String {
    with_interval(path, value, change_ns)
}

fn with_interval(path: &str, value: &Interval, show: fn(&str, i64) -> String) -> String {
    let median = show(&format!("{path}/median"), value.median);
    if value.low == value.high {
        return median;
    }
    format!(
        "{median} <span class=\"ci\">({} to {})</span>",
        show(&format!("{path}/low"), value.low),
        show(&format!("{path}/high"), value.high)
    )
}

/// Returns ascending numbers as ranges: `0 to 7, 9`.
pub(crate) fn ranges(path: &str, values: &[u32]) -> String {
    let mut text = String::new();
    let runs = values.chunk_by(|a, b| a.checked_add(1) == Some(*b));
    for (index, run) in runs.enumerate() {
        if index == 24 {
            text.push_str(", …");
            break;
        }
        let comma = if index > 0 { ", " } else { "" };
        // Writing into a String cannot fail.
        let _ = match run {
            [one] => write!(text, "{comma}{one}"),
            [first, second] => write!(text, "{comma}{first}, {second}"),
            [first, .., last] => write!(text, "{comma}{first} to {last}"),
            [] => Ok(()),
        };
    }
    format!("<span data-path=\"{path}\" data-unit=\"ranges\">{text}</span>")
}

/// Returns text of the document, cut to `most` characters.
pub(crate) fn text(path: &str, text: &str, most: usize) -> String {
    format!(
        "<span data-path=\"{path}\" data-unit=\"text\">{}</span>",
        marked(text, most)
    )
}

/// Escapes text and shows what it has between backticks as code.
pub(crate) fn marked(text: &str, most: usize) -> String {
    let text = plain(text, most);
    let pieces: Vec<&str> = text.split('`').collect();
    // An odd number of backticks is no pair of marks.
    if pieces.len().is_multiple_of(2) {
        return text;
    }
    let mut out = String::with_capacity(text.len() + 16);
    for (index, piece) in pieces.iter().enumerate() {
        if index % 2 == 1 {
            // Writing into a String cannot fail.
            let _ = write!(out, "<code><bdi>{piece}</bdi></code>");
        } else {
            out.push_str(piece);
        }
    }
    out
}

/// Returns a name from a recording: isolated from the direction of the text around it.
pub(crate) fn name(path: &str, text: &str, most: usize) -> String {
    format!(
        "<bdi data-path=\"{path}\" data-unit=\"text\">{}</bdi>",
        plain(text, most)
    )
}

/// Returns a name in a fixed-width font.
pub(crate) fn code(path: &str, text: &str, most: usize) -> String {
    format!("<code>{}</code>", name(path, text, most))
}

/// Escapes text without naming its place, for tooltips and names of classes.
pub(crate) fn plain(text: &str, most: usize) -> String {
    escape(&cut(text, most))
}

/// Cuts out the middle of a text of more than `most` characters.
pub(crate) fn cut(text: &str, most: usize) -> String {
    // Only as much as can be shown is looked at: a name may have megabytes.
    let Some((last, _)) = text.char_indices().nth(most) else {
        return text.to_owned();
    };
    let tail = most / 3;
    let head: String = text[..last].chars().take(most - tail - 1).collect();
    let mut back: Vec<char> = text.chars().rev().take(tail).collect();
    back.reverse();
    let back: String = back.into_iter().collect();
    format!("{head}…{back}")
}

/// Replaces the hyphen of a negative number by a minus sign.
fn minus(text: &str) -> String {
    match text.strip_prefix('-') {
        Some(rest) => format!("−{rest}"),
        None => text.to_owned(),
    }
}

/// Returns the name of a side; none for the only one.
pub(crate) fn side(side: Side) -> Option<&'static str> {
    match side {
        Side::Only => None,
        Side::Baseline => Some("baseline"),
        Side::Candidate => Some("candidate"),
    }
}

/// Makes a name readable: `host_python` becomes `host python`.
pub(crate) fn spaced(name: &str) -> String {
    name.replace('_', " ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_text_keeps_its_ends() {
        assert_eq!(cut("abcdefghij", 10), "abcdefghij");
        assert_eq!(cut("abcdefghijk", 10), "abcdef…ijk");
        assert_eq!(cut("ααααα", 4).chars().count(), 4);
    }

    #[test]
    fn numbers_carry_their_place() {
        assert_eq!(
            ns("/answer/step_time_ns/median", 41_200_000),
            "<span class=\"n\" data-path=\"/answer/step_time_ns/median\" data-unit=\"ns\" data-v=\"41200000\">41.20 ms</span>"
        );
        assert!(change_ns("/x", -1500).ends_with(">−1.500 µs</span>"));
        assert!(change_ns("/x", 1500).ends_with(">+1.500 µs</span>"));
        assert!(ranges("/r", &[0, 1, 2, 5, 7, 8]).ends_with(">0 to 2, 5, 7, 8</span>"));
    }
}
