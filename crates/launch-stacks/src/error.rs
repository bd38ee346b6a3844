//! Errors of a query.

use thiserror::Error;

/// The question does not fit the trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Error {
    /// No slice has the name from which a window was to be taken.
    #[error(
        "no slice with a category other than 'kernel' matches the function name '{name}'; check it against the trace, or use % as a wildcard"
    )]
    FunctionNotFound {
        /// The name or pattern.
        name: String,
    },
    /// The chosen window does not exist.
    #[error("{}", out_of_range(*index, *count))]
    IndexOutOfRange {
        /// The requested index, from 0.
        index: i64,
        /// Number of windows.
        count: usize,
    },
    /// A pattern is not a valid regular expression.
    #[error("'{pattern}' is not a regular expression: {reason}")]
    BadRegex {
        /// The pattern.
        pattern: String,
        /// The last line of the regex compiler's message.
        reason: String,
    },
    /// A range of windows cannot be parsed.
    #[error(
        "'{text}' is not a range of windows: write A..B, A..=B, A.., ..B or one number, from 0"
    )]
    BadRange {
        /// The text.
        text: String,
    },
}

fn out_of_range(index: i64, count: usize) -> String {
    match count {
        0 => format!("index {index} is out of range: there are no windows"),
        n => format!("index {index} is out of range: valid are 0 to {}", n - 1),
    }
}

/// Compiles a regular expression.
pub(crate) fn regex(pattern: &str) -> Result<regex::Regex, Error> {
    regex::Regex::new(pattern).map_err(|e| Error::BadRegex {
        pattern: pattern.to_owned(),
        reason: e
            .to_string()
            .lines()
            .last()
            .unwrap_or_default()
            .trim_start_matches("error: ")
            .to_owned(),
    })
}
