//! Numbers and names as text.

use report::human;
use trace_model::kernel::display_names;

use crate::views::nanos;

/// Length of names within sentences, in characters.
pub(super) const LONGEST: usize = 36;

pub(super) fn shown(ns: i64) -> String {
    human::duration(nanos(ns))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a number of tokens, rounded up"
)]
pub(super) fn whole(tokens: f64) -> i64 {
    tokens.ceil() as i64
}

/// A number of things, with their name in the right number.
pub(super) fn counted(n: u128, what: &str) -> String {
    match n {
        1 => format!("1 {what}"),
        n => format!("{} {what}s", count_of(n)),
    }
}

/// A count, with separators of thousands.
pub fn count_of(n: u128) -> String {
    human::count(i128::try_from(n).unwrap_or(i128::MAX))
}

/// A number of bytes in a binary unit.
#[expect(clippy::cast_precision_loss, reason = "four digits are shown")]
pub fn bytes(n: u128) -> String {
    human::bytes(n as f64)
}

/// The name of a kernel or an operator, so short that it fits a sentence.
pub(super) fn short(name: &str) -> String {
    let shown = display_names([name]);
    cut(shown.get(name).map_or(name, String::as_str))
}

/// Text that fits a sentence.
fn cut(text: &str) -> String {
    match text.chars().count() > LONGEST {
        true => {
            let cut: String = text.chars().take(LONGEST - 1).collect();
            format!("{cut}…")
        }
        false => text.to_owned(),
    }
}

/// Sizes without those of scalars: `[[32,4096],[4096,9216],[]]` is `32,4096 4096,9216`.
pub fn shapes(dims: &str) -> String {
    let inner = dims.strip_prefix('[').and_then(|d| d.strip_suffix(']'));
    let parts = inner.unwrap_or(dims).split("],");
    let parts: Vec<&str> = parts
        .map(|part| part.trim_matches(['[', ']', ',']))
        .filter(|part| !part.is_empty())
        .collect();
    parts.join(" ")
}
