//! Records of what was wrong with a container whose data could be kept all the same.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use crate::detect::Container;

/// How many records a [`DamageLog`] keeps; further ones are only counted.
const KEPT: usize = 100;

/// In what way a container is damaged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum DamageKind {
    /// The input ends before the stream does: what was decoded up to here is kept.
    Truncated,
    /// The stream cannot be decoded beyond this point: what was decoded up to here is kept.
    Corrupt,
    /// The checksum does not match: the data is kept, some of it is wrong.
    Checksum,
    /// The stated length does not match what was decoded: the data is kept.
    Length,
    /// Something that is not another stream follows the last one: ignored.
    TrailingGarbage,
}

impl DamageKind {
    /// Whether all data was there nevertheless.
    ///
    /// True for trailing garbage alone: worth a warning, not a failure.
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

/// One place where a container is damaged, with what was decoded before it kept.
///
/// Displays as `gzip truncated at compressed byte 1234, uncompressed byte 56789`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Damage {
    /// The container that is damaged.
    pub container: Container,
    /// In what way.
    pub kind: DamageKind,
    /// Bytes of the container's own input before the damage. For a container inside another
    /// one this counts the output of the outer one.
    pub compressed_offset: u64,
    /// Bytes the container had put out before the damage.
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

/// The damage met so far while reading one source.
///
/// A handle: clones show the same log, so take one from [`Source::damage`](crate::Source::damage)
/// before the source is turned into chunks or a reader, and look at it when reading is done.
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
    /// The records, in the order they were met: the first hundred.
    pub fn records(&self) -> Vec<Damage> {
        self.lock().kept.clone()
    }

    /// How many there were in all.
    pub fn count(&self) -> u64 {
        self.lock().count
    }

    /// Whether nothing was wrong so far.
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
