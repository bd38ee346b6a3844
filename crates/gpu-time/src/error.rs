//! What can go wrong.

/// Why a question cannot be answered.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// A window that cannot be read.
    #[error(
        "`{text}` is no window: write A..B, in ns of the trace's clock or, with + in front, from its first GPU work on, for example +0..+5ms"
    )]
    BadWindow {
        /// What was given.
        text: String,
    },
    /// A window that ends before it starts.
    #[error(
        "invalid window \"{text}\": end not after start; expected A..B in trace nanoseconds or +A..+B from the first GPU event"
    )]
    InvertedWindow {
        /// What was given.
        text: String,
    },
    /// A table that cannot be made.
    #[error("cannot make the table")]
    Table(#[from] report::Error),
}
