//! Boundaries between files.

use rocpd_db::{Filter, RocpdSet};

use super::Cut;
use crate::{Error, Result};

/// Time intervals, or a maximum size.
pub(super) struct Cuts {
    /// Ends of all parts but the last, in nanoseconds.
    times: Vec<i64>,
    bytes: Option<u64>,
}

/// Maximum number of parts; more are taken for a mistake.
const MAX_PARTS: i64 = 100_000;

impl Cuts {
    pub(super) fn new(set: &RocpdSet, filter: &Filter, cut: Cut) -> Result<Self> {
        let mut cuts = Self {
            times: Vec::new(),
            bytes: match cut {
                Cut::Bytes(bytes) => Some(bytes),
                _ => None,
            },
        };
        if matches!(cut, Cut::Whole | Cut::Bytes(_)) {
            return Ok(cuts);
        }
        let Some(bounds) = set.time_bounds(filter)? else {
            return Ok(cuts);
        };
        let span = i128::from(bounds.span_ns());
        let (parts, length) = match cut {
            Cut::Every(length) if length > 0 => (bounds.span_ns() / length + 1, Some(length)),
            Cut::Parts(parts) => (i64::from(parts), None),
            _ => (0, None),
        };
        if !(1..=MAX_PARTS).contains(&parts) {
            return Err(Error::Option {
                option: "split by time",
                problem: format!(
                    "it makes {parts} files of this recording: 1 to {MAX_PARTS} are possible"
                ),
            });
        }
        for part in 1..parts {
            let at = match length {
                Some(length) => i128::from(length) * i128::from(part),
                None => span * i128::from(part) / i128::from(parts),
            };
            cuts.times.push(
                bounds
                    .first_ns
                    .saturating_add(i64::try_from(at).unwrap_or(i64::MAX)),
            );
        }
        Ok(cuts)
    }

    /// Returns begin and end of a part, if known.
    pub(super) fn bounds(&self, part: usize) -> (Option<i64>, Option<i64>) {
        let before = part.checked_sub(1).and_then(|at| self.times.get(at));
        (before.copied(), self.times.get(part).copied())
    }

    pub(super) fn by_time(&self) -> bool {
        !self.times.is_empty()
    }

    pub(super) fn several(&self) -> bool {
        self.by_time() || self.bytes.is_some()
    }

    /// Returns `true` if a record belongs to a later part.
    pub(super) fn is_due(&self, part: usize, start_ns: i64) -> bool {
        self.times.get(part).is_some_and(|end| start_ns >= *end)
    }

    pub(super) fn is_full(&self, bytes: u64) -> bool {
        self.bytes.is_some_and(|limit| bytes >= limit)
    }
}
