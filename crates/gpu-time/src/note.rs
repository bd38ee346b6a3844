//! What a reader of a number should know about it.

use serde::Serialize;

/// One remark on a result: what was counted or left out, and how far that could move the answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct Note {
    /// Stable machine name.
    pub code: &'static str,
    /// For people; count and time are in it.
    pub text: String,
    /// How many events it is about.
    pub count: Option<u64>,
    /// How much time it is about.
    pub ns: Option<i64>,
}

impl Note {
    /// A remark without numbers.
    pub fn new(code: &'static str, text: impl Into<String>) -> Self {
        Self {
            code,
            text: text.into(),
            count: None,
            ns: None,
        }
    }

    /// With the number of events it is about.
    #[must_use]
    pub fn count(mut self, count: u64) -> Self {
        self.count = Some(count);
        self
    }

    /// With the time it is about.
    #[must_use]
    pub fn ns(mut self, ns: i64) -> Self {
        self.ns = Some(ns);
        self
    }
}
