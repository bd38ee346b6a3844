//! Instants and durations in exact integer nanoseconds.

use std::fmt;
use std::ops::{Add, Neg, Sub};

/// An instant: nanoseconds since the origin of the trace's clock (see [`ClockDomain`]).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Timestamp(i64);

/// A duration in nanoseconds; may be negative (for example a latency under clock skew).
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Debug, Default)]
pub struct Nanos(i64);

impl Timestamp {
    /// Returns the instant `ns` nanoseconds after the origin.
    pub const fn from_nanos(ns: i64) -> Self {
        Self(ns)
    }

    /// Returns the nanoseconds since the origin.
    pub const fn nanos(self) -> i64 {
        self.0
    }

    /// Returns `self + span`, saturating at the ends of the range.
    pub const fn saturating_add(self, span: Nanos) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

/// Farthest time from the origin of a clock that is believed: 73 years, so Unix times up to 2043.
const FARTHEST_NS: i64 = 1 << 61;

/// Longest duration that is believed: 104 days.
const LONGEST_NS: i64 = 1 << 53;

/// Returns `true` if something can have begun and ended at these times. Differences of such times, and sums of a thousand such
/// durations, fit into 64 bits; a value beyond them is damage or stands for "unknown".
///
/// ```
/// assert!(trace_model::is_plausible(1_700_000_000_000_000_000, 1_700_000_000_000_000_010));
/// assert!(!trace_model::is_plausible(5, i64::MAX));
/// ```
pub const fn is_plausible(start: i64, end: i64) -> bool {
    -FARTHEST_NS <= start
        && start <= FARTHEST_NS
        && end <= FARTHEST_NS
        && end.saturating_sub(start) <= LONGEST_NS
}

impl Nanos {
    /// Zero duration.
    pub const ZERO: Self = Self(0);

    /// Creates a duration of `ns` nanoseconds.
    pub const fn new(ns: i64) -> Self {
        Self(ns)
    }

    /// Returns the duration as a plain number of nanoseconds.
    pub const fn get(self) -> i64 {
        self.0
    }
}

impl Sub for Timestamp {
    type Output = Nanos;
    fn sub(self, earlier: Self) -> Nanos {
        Nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Nanos> for Timestamp {
    type Output = Self;
    fn add(self, span: Nanos) -> Self {
        self.saturating_add(span)
    }
}

impl Add for Nanos {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sub for Nanos {
    type Output = Self;
    fn sub(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }
}

impl Neg for Nanos {
    type Output = Self;
    fn neg(self) -> Self {
        Self(self.0.saturating_neg())
    }
}

impl std::iter::Sum for Nanos {
    fn sum<I: Iterator<Item = Self>>(iter: I) -> Self {
        iter.fold(Self::ZERO, Add::add)
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Display for Nanos {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ns", self.0)
    }
}

/// A half-open interval of time: includes its start, excludes its end.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct TimeRange {
    /// First instant inside.
    pub start: Timestamp,
    /// First instant past the end; never before `start` in a range made by [`TimeRange::new`].
    pub end: Timestamp,
}

impl TimeRange {
    /// All time.
    pub const ALL: Self = Self {
        start: Timestamp(i64::MIN),
        end: Timestamp(i64::MAX),
    };

    /// Creates the range from `start` to `end`, empty at `start` if `end` lies before it.
    pub fn new(start: Timestamp, end: Timestamp) -> Self {
        Self {
            start,
            end: end.max(start),
        }
    }

    /// Returns the length of the range.
    pub fn duration(self) -> Nanos {
        self.end - self.start
    }

    /// Returns `true` if `at` is inside.
    pub fn contains(self, at: Timestamp) -> bool {
        self.start <= at && at < self.end
    }

    /// Returns the intersection with `other`; `None` if it is empty.
    pub fn intersect(self, other: Self) -> Option<Self> {
        let (start, end) = (self.start.max(other.start), self.end.min(other.end));
        (start < end).then_some(Self { start, end })
    }
}

/// Clock of the timestamps of a trace.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
#[non_exhaustive]
pub enum ClockDomain {
    /// A clock that the file does not name; only differences are meaningful.
    #[default]
    Unknown,
    /// Time since boot, including suspends (the default of Perfetto traces).
    BootTime,
    /// Time since boot, excluding suspends.
    Monotonic,
    /// Unix time.
    RealTime,
    /// Kineto's relative clock: add the trace's base time to get Unix time.
    KinetoRelative,
    /// Time since the start of the collection (Nsight Systems): add the trace's base time to get Unix time.
    Session,
    /// Another clock, by its number in a Perfetto trace.
    Custom(u32),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_half_open() {
        let r = TimeRange::new(Timestamp(10), Timestamp(20));
        assert!(r.contains(Timestamp(10)));
        assert!(!r.contains(Timestamp(20)));
        assert_eq!(
            r.intersect(TimeRange::new(Timestamp(20), Timestamp(30))),
            None
        );
        assert_eq!(
            r.intersect(TimeRange::new(Timestamp(15), Timestamp(30)))
                .unwrap()
                .duration(),
            Nanos(5)
        );
    }

    #[test]
    fn arithmetic_saturates_instead_of_wrapping() {
        assert_eq!(Timestamp(i64::MAX) + Nanos(1), Timestamp(i64::MAX));
        assert_eq!(Timestamp(i64::MIN) - Timestamp(1), Nanos(i64::MIN));
    }
}
