//! Errors of companion files.

/// A file is not of the expected kind.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{name}: {reason}")]
pub struct Error {
    /// The file.
    pub name: String,
    /// Description of the problem, and what was expected.
    pub reason: String,
}

/// Result of this crate.
pub type Result<T> = std::result::Result<T, Error>;
