//! Spans of time as people name them: nanoseconds, percentages, offsets, markers.

use crate::error::{Error, Result};
use crate::filter::{Edge, Filter, Window};
use crate::info::Process;
use crate::records::{Allocation, Copy, Dispatch, Region, Sample};
use crate::scan::Order;
use crate::set::RocpdSet;

/// One side of a window.
#[derive(Debug, Clone, PartialEq)]
pub enum Bound {
    /// The first or last time of the data.
    Open,
    /// A number of nanoseconds, a percentage of the span, or an offset from the first time.
    Time(TimePoint),
    /// The marker with this message: its begin for the start, its end for the end.
    Marker(String),
}

/// A point in time, as it was named.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TimePoint {
    /// Nanoseconds of the recording's clock.
    Absolute(i64),
    /// Millionths of a percent of the span from the first to the last time.
    Share(i64),
    /// Nanoseconds after the first time.
    Offset(i64),
}

/// Which of several markers with the same message is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Occurrence {
    /// There must be one only.
    #[default]
    Only,
    /// The first.
    First,
    /// The last.
    Last,
    /// The n-th, from 1.
    Nth(u64),
}

/// A window as it was asked for.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct WindowRequest {
    /// The start.
    pub start: Bound,
    /// The end.
    pub end: Bound,
    /// Which marker, when several have the message.
    pub occurrence: Occurrence,
    /// What happens at the edges.
    pub edge: Edge,
}

impl Default for WindowRequest {
    fn default() -> Self {
        Self {
            start: Bound::Open,
            end: Bound::Open,
            occurrence: Occurrence::Only,
            edge: Edge::Inside,
        }
    }
}

/// First begin and last end of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeBounds {
    /// First begin, ns.
    pub first_ns: i64,
    /// Last end, ns.
    pub last_ns: i64,
}

impl TimeBounds {
    /// The span between, ns.
    #[must_use]
    pub fn span_ns(&self) -> i64 {
        self.last_ns.saturating_sub(self.first_ns)
    }
}

impl TimePoint {
    /// Reads `50%`, `12345` (ns), `+1.5s`, `250ms`.
    ///
    /// Everything is integer arithmetic: nanoseconds stay exact however large they are.
    ///
    /// # Errors
    ///
    /// [`Error::BadTime`].
    ///
    /// ```
    /// use rocpd_db::TimePoint;
    /// assert_eq!(TimePoint::parse("12.5%")?, TimePoint::Share(12_500_000));
    /// assert_eq!(TimePoint::parse("9007199254740993")?, TimePoint::Absolute(9_007_199_254_740_993));
    /// assert_eq!(TimePoint::parse("+1.5ms")?, TimePoint::Offset(1_500_000));
    /// assert!(TimePoint::parse("abc").is_err());
    /// # Ok::<(), rocpd_db::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self> {
        let bad = || Error::BadTime {
            text: text.to_owned(),
        };
        let trimmed = text.trim();
        if let Some(number) = trimmed.strip_suffix('%') {
            return decimal(number.trim(), 6).map(Self::Share).ok_or_else(bad);
        }
        let units = [("ns", 0), ("us", 3), ("µs", 3), ("ms", 6), ("s", 9)];
        for (unit, digits) in units {
            if let Some(number) = trimmed.strip_suffix(unit) {
                let number = number.trim().trim_start_matches('+');
                return decimal(number, digits).map(Self::Offset).ok_or_else(bad);
            }
        }
        match trimmed.strip_prefix('+') {
            Some(number) => decimal(number, 0).map(Self::Offset).ok_or_else(bad),
            None => decimal(trimmed, 0).map(Self::Absolute).ok_or_else(bad),
        }
    }

    fn resolve(self, bounds: TimeBounds) -> i64 {
        match self {
            Self::Absolute(ns) => ns,
            Self::Offset(ns) => bounds.first_ns.saturating_add(ns),
            Self::Share(millionths) => {
                let part = i128::from(bounds.span_ns()) * i128::from(millionths) / 100_000_000;
                bounds
                    .first_ns
                    .saturating_add(i64::try_from(part).unwrap_or(i64::MAX))
            }
        }
    }
}

/// A decimal number times 10^`digits`, further digits cut off. Exponents as in `1e9` count.
fn decimal(text: &str, digits: usize) -> Option<i64> {
    let (negative, text) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (mantissa, exponent) = match text.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, exponent.parse::<i32>().ok()?),
        None => (text, 0),
    };
    let (whole, part) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |text: &str| text.bytes().all(|b| b.is_ascii_digit());
    if (whole.is_empty() && part.is_empty()) || !all_digits(whole) || !all_digits(part) {
        return None;
    }
    let places = i32::try_from(digits).ok()?.checked_add(exponent)?;
    let wanted = usize::try_from(places.max(0)).ok()?;
    if wanted > 40 {
        return None;
    }
    let mut number: i128 = 0;
    let kept = part.bytes().chain(std::iter::repeat(b'0')).take(wanted);
    for byte in whole.bytes().chain(kept) {
        number = number
            .checked_mul(10)?
            .checked_add(i128::from(byte - b'0'))?;
    }
    for _ in places..0 {
        number /= 10;
    }
    i64::try_from(if negative { -number } else { number }).ok()
}

impl RocpdSet {
    /// First begin and last end over regions, samples, dispatches, copies and allocations; `None` without any.
    ///
    /// Reads all of them.
    ///
    /// # Errors
    ///
    /// When a file is damaged.
    pub fn time_bounds(&self, filter: &Filter) -> Result<Option<TimeBounds>> {
        let mut bounds: Option<TimeBounds> = None;
        let mut add = |first_ns: i64, last_ns: i64| {
            let known = bounds.get_or_insert(TimeBounds { first_ns, last_ns });
            known.first_ns = known.first_ns.min(first_ns);
            known.last_ns = known.last_ns.max(last_ns);
        };
        if filter.is_everything() {
            // Only the times are needed.
            for partition in self.partitions() {
                for (first_ns, last_ns) in crate::scan::extremes(partition)? {
                    add(first_ns, last_ns);
                }
            }
            return Ok(bounds);
        }
        for record in self.scan::<Region<'_>>(filter, Order::Stored)? {
            let record = record?;
            add(record.start_ns, record.end_ns);
        }
        for record in self.scan::<Sample<'_>>(filter, Order::Stored)? {
            let record = record?;
            add(record.timestamp_ns, record.timestamp_ns);
        }
        for record in self.scan::<Dispatch<'_>>(filter, Order::Stored)? {
            let record = record?;
            add(record.start_ns, record.end_ns);
        }
        for record in self.scan::<Copy<'_>>(filter, Order::Stored)? {
            let record = record?;
            add(record.start_ns, record.end_ns);
        }
        for record in self.scan::<Allocation<'_>>(filter, Order::Stored)? {
            let record = record?;
            add(record.start_ns, record.end_ns);
        }
        Ok(bounds)
    }

    /// Turns a request into times. A side beyond the data is moved to its edge and said in the second value.
    ///
    /// # Errors
    ///
    /// When a marker is missing or ambiguous, the end lies before the start, or nothing lies in between the two; and when
    /// a file is damaged.
    pub fn window(&self, request: &WindowRequest) -> Result<(Window, Vec<String>)> {
        let bounds = self.time_bounds(&Filter::default())?.unwrap_or(TimeBounds {
            first_ns: 0,
            last_ns: 0,
        });
        let mut warnings = Vec::new();
        let start_ns = self.bound(&request.start, "start", bounds, request, &mut warnings)?;
        let end_ns = self.bound(&request.end, "end", bounds, request, &mut warnings)?;
        if end_ns < start_ns {
            return Err(Error::BadWindow { start_ns, end_ns });
        }
        if end_ns < bounds.first_ns || start_ns > bounds.last_ns {
            return Err(Error::WindowOutsideData {
                start_ns,
                end_ns,
                first_ns: bounds.first_ns,
                last_ns: bounds.last_ns,
            });
        }
        let window = Window {
            start_ns,
            end_ns,
            edge: request.edge,
        };
        Ok((window, warnings))
    }

    fn bound(
        &self,
        bound: &Bound,
        side: &'static str,
        bounds: TimeBounds,
        request: &WindowRequest,
        warnings: &mut Vec<String>,
    ) -> Result<i64> {
        match bound {
            Bound::Open if side == "start" => Ok(bounds.first_ns),
            Bound::Open => Ok(bounds.last_ns),
            Bound::Time(point) => {
                let ns = point.resolve(bounds);
                if let TimePoint::Share(share) = point
                    && !(0..=100_000_000).contains(share)
                {
                    warnings.push(format!(
                        "the {side} lies outside 0% to 100%: moved to the data"
                    ));
                    return Ok(ns.clamp(bounds.first_ns, bounds.last_ns));
                }
                Ok(ns)
            }
            Bound::Marker(message) => self.marker(message, side, request.occurrence),
        }
    }

    /// Shows whose each marker with a message is, its begin and its end.
    pub(crate) fn each_marker(
        &self,
        message: &str,
        mut show: impl FnMut(&Process, i64, i64),
    ) -> Result<()> {
        let filter = Filter {
            domains: Some(vec!["MARKER".to_owned()]),
            ..Filter::default()
        };
        for region in self.scan::<Region<'_>>(&filter, Order::Stored)? {
            let region = region?;
            if region.message.as_deref() == Some(message) {
                show(region.process, region.start_ns, region.end_ns);
            }
        }
        for sample in self.scan::<Sample<'_>>(&filter, Order::Stored)? {
            let sample = sample?;
            if sample.message.as_deref() == Some(message) {
                show(sample.process, sample.timestamp_ns, sample.timestamp_ns);
            }
        }
        Ok(())
    }

    /// Begin or end of the marker with a message.
    fn marker(&self, message: &str, side: &'static str, which: Occurrence) -> Result<i64> {
        let mut found: Vec<(i64, i64)> = Vec::new();
        self.each_marker(message, |_, start, end| found.push((start, end)))?;
        found.sort_unstable();
        let count = found.len() as u64;
        let missing = || Error::MarkerNotFound {
            side,
            message: message.to_owned(),
        };
        let at = match which {
            Occurrence::Only if count > 1 => {
                return Err(Error::AmbiguousMarker {
                    side,
                    message: message.to_owned(),
                    count,
                });
            }
            Occurrence::Only | Occurrence::First => 1,
            Occurrence::Last => count,
            Occurrence::Nth(n) => n,
        };
        let at = usize::try_from(at).unwrap_or(usize::MAX);
        let (start, end) = at
            .checked_sub(1)
            .and_then(|at| found.get(at))
            .copied()
            .ok_or_else(missing)?;
        Ok(if side == "start" { start } else { end })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_exact() {
        assert_eq!(decimal("1700023001000161", 0), Some(1_700_023_001_000_161));
        assert_eq!(decimal("1.7e3", 0), Some(1700));
        assert_eq!(decimal("0.3333333", 6), Some(333_333));
        assert_eq!(decimal("-2", 3), Some(-2000));
        assert_eq!(decimal("", 0), None);
        assert_eq!(decimal("1 2", 0), None);
        assert_eq!(decimal("99999999999999999999", 0), None);
    }

    #[test]
    fn shares_of_a_span() {
        let bounds = TimeBounds {
            first_ns: 1_700_000_000_000_000_001,
            last_ns: 1_700_000_000_000_001_001,
        };
        let at = |text| TimePoint::parse(text).unwrap().resolve(bounds) - bounds.first_ns;
        assert_eq!(at("50%"), 500);
        assert_eq!(at("33.3%"), 333);
        assert_eq!(at("+10ns"), 10);
        assert_eq!(at("100%"), 1000);
    }
}
