//! Few of many calls.

use serde::Serialize;

use crate::report_text::{short, time};

/// Few of many calls of a function that are far slower on one side, while the others are as on the other side.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct SlowCalls {
    /// How many of them there are in a cycle.
    pub slower: usize,
    /// All calls of a cycle.
    pub calls: usize,
    /// Which of them it is, in order of time from 1, if it is one, and the same in most cycles.
    pub place: Option<usize>,
    /// What the slowest of them takes on each side, in microseconds.
    pub us: [f64; 2],
}

impl SlowCalls {
    /// In words: how many, which, and how slow.
    pub(crate) fn said(&self) -> String {
        let [a, b] = self.us;
        let (ratio, how) = match b > a {
            true => (b / a, "slower"),
            false => (a / b, "faster"),
        };
        let which = match self.place {
            Some(place) => format!(", the {},", ordinal(place)),
            None => String::new(),
        };
        let (about, are, to) = match self.slower {
            1 => ("", "is", ""),
            _ => ("about ", "are", "up to "),
        };
        format!(
            "{about}{} of its {} calls per cycle{which} {are} {to}{} times {how} ({} -> {}), the others as before",
            self.slower,
            self.calls,
            short(ratio),
            time(a),
            time(b)
        )
    }
}

/// `1st`, `2nd`, `11th`.
fn ordinal(n: usize) -> String {
    let end = match (n % 10, n % 100) {
        (1, of) if of != 11 => "st",
        (2, of) if of != 12 => "nd",
        (3, of) if of != 13 => "rd",
        _ => "th",
    };
    format!("{n}{end}")
}
