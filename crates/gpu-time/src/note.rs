//! Notes on results.

use serde::Serialize;

/// A note on a result: counted or omitted events, and the possible error of the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Note {
    /// Stable machine name.
    pub code: &'static str,
    /// Text for output, including count and time.
    pub text: String,
    /// Number of events concerned.
    pub count: Option<u64>,
    /// Time concerned, in nanoseconds.
    pub ns: Option<i64>,
}

impl Note {
    /// Creates a note without numbers.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            count: None,
            ns: None,
        }
    }

    /// Sets the number of events concerned.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// Sets the time concerned.
    #[must_use]
    pub fn ns(mut self, ns: i64) -> Self {
        self.ns = Some(ns);
        self
    }
}
