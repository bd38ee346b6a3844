//! Records the damage of a container whose data could still be used.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::detect::Container;

/// Maximum number of records in a [`DamageLog`]; further ones are only counted.
const KEPT: usize = 100;

/// Kind of damage of a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The input ends before the stream does; the data decoded so far is kept.
    Truncated,
    /// The stream cannot be decoded beyond this point; the data decoded so far is kept.
    Corrupt,
    /// The checksum does not match; the data is kept, but some of it is wrong.
    Checksum,
    /// The stated length differs from the decoded length; the data is kept.
    Length,
    /// The last stream is followed by bytes that are not a stream; they are ignored.
    TrailingGarbage,
}

impl DamageKind {
    /// Returns `true` if no data is missing.
    ///
    /// This holds only for trailing garbage, which deserves a warning, not a failure.
    pub const fn is_harmless(self) -> bool {
        matches!(self, Self::TrailingGarbage)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Truncated => "truncated",
            Self::Corrupt => "corrupt",
            Self::Checksum => "checksum mismatch",
            Self::Length => "length mismatch",
            Self::TrailingGarbage => "trailing garbage",
        })
    }
}

/// Location of damage in a container. The data decoded before it is kept.
///
/// Displays as `gzip truncated at compressed byte 1234, uncompressed byte 56789`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The damaged container.
    pub container: Container,
    /// Kind of damage.
    pub kind: DamageKind,
    /// Offset of the damage in the container's input. For a container inside another one this is an
    /// offset in the output of the outer one.
    pub compressed_offset: u64,
    /// Number of bytes that the container produced before the damage.
    pub uncompressed_offset: u64,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            container,
            kind,
            compressed_offset,
            uncompressed_offset,
        } = self;
        write!(
            f,
            "{container} {kind} at compressed byte {compressed_offset}, uncompressed byte {uncompressed_offset}"
        )
    }
}

/// Damage found so far while reading one source.
///
/// This is a handle: clones share one log. Take one from [`Source::damage`](crate::Source::damage)
/// before turning the source into chunks or a reader, and examine it when reading is complete.
#[derive(Debug, Clone, Default)]
pub struct DamageLog {
    shared: Arc<Mutex<Records>>,
}

#[derive(Debug, Default)]
struct Records {
    kept: Vec<Damage>,
    count: u64,
}

impl DamageLog {
    /// Returns the first hundred records, in the order in which they were found.
    pub fn records(&self) -> Vec<Damage> {
        self.lock().kept.clone()
    }

    /// Returns the total number of records.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Returns `true` if no damage was found so far.
    pub fn is_empty(&self) -> bool {
        self.count() == 0
    }

    pub(crate) fn push(&self, damage: Damage) {
        let mut records = self.lock();
        records.count += 1;
        if records.kept.len() < KEPT {
            records.kept.push(damage);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Records> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flood_of_damage_is_counted_but_not_kept() {
        let log = DamageLog::default();
        let seen_elsewhere = log.clone();
        for offset in 0..1000 {
            log.push(Damage {
                container: Container::Gzip,
                kind: DamageKind::Checksum,
                compressed_offset: offset,
                uncompressed_offset: 2 * offset,
            });
        }
        assert_eq!(seen_elsewhere.count(), 1000);
        let records = seen_elsewhere.records();
        assert_eq!(records.len(), KEPT);
        assert_eq!(
            records[99].to_string(),
            "gzip checksum mismatch at compressed byte 99, uncompressed byte 198"
        );
    }
}
