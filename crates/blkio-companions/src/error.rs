//! Why a companion file cannot be used.

/// A file that is not what it should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[error("{name}: {reason}")]
pub struct Error {
    /// The file.
    pub name: String,
    /// What is wrong and what was expected.
    pub reason: String,
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, Error>;
