//! Versions of machine-readable output.

use std::fmt;

use serde::{Serialize, Serializer};

/// Version of an output's schema. The minor part grows when a field is added, the major part when a
/// field changes its meaning or is removed. Written as text, `"1.0"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SchemaVersion {
    /// Grows with incompatible changes.
    pub major: u32,
    /// Grows with additions.
    pub minor: u32,
}

impl SchemaVersion {
    /// Key under which every format stores the version.
    pub const KEY: &'static str = "schema_version";

    /// Creates version `major.minor`.
    #[must_use]
    pub const fn new(major: u32, minor: u32) -> Self {
        Self { major, minor }
    }
}

impl fmt::Display for SchemaVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}", self.major, self.minor)
    }
}

impl Serialize for SchemaVersion {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
