//! Errors of this crate.

/// An error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The window cannot be parsed.
    #[error(
        "`{text}` is no window: write A..B, in ns of the trace's clock or, with + in front, from its first GPU work on, for example +0..+5ms"
    )]
    BadWindow {
        /// The given text.
        text: String,
    },
    /// The window ends before it starts.
    #[error(
        "invalid window \"{text}\": end not after start; expected A..B in trace nanoseconds or +A..+B from the first GPU event"
    )]
    InvertedWindow {
        /// The given text.
        text: String,
    },
    /// A table could not be built.
    #[error("cannot make the table")]
    Table(#[from] report::Error),
}
