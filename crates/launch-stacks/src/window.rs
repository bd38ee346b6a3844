//! Windows: intervals of host time in which launches count.

use std::str::FromStr;

use regex::Regex;
use trace_model::kernel::NamePattern;
use trace_model::{SliceId, Timestamp, Trace};

use crate::Error;
use crate::error::regex;

/// Selects slices or kernels by name.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum NameMatch {
    /// Exactly this name.
    Exact(String),
    /// The whole name matches the pattern.
    Pattern(NamePattern, String),
    /// The expression matches somewhere in the name.
    Regex(Regex),
}

impl NameMatch {
    /// Creates a match for a function name: `LIKE` as in SQL if it contains `%`, else the exact
    /// name.
    pub fn function(text: &str) -> Self {
        if text.contains('%') {
            Self::Pattern(NamePattern::like(text), text.to_owned())
        } else {
            Self::Exact(text.to_owned())
        }
    }

    /// Creates a match with a glob over the whole name.
    pub fn glob(text: &str) -> Self {
        Self::Pattern(NamePattern::glob(text), text.to_owned())
    }

    /// Creates a match with a regular expression that may match anywhere in the name.
    ///
    /// # Errors
    ///
    /// [`Error::BadRegex`].
    pub fn regex(pattern: &str) -> Result<Self, Error> {
        regex(pattern).map(Self::Regex)
    }

    /// Returns `true` if `name` matches.
    pub fn matches(&self, name: &str) -> bool {
        match self {
            Self::Exact(text) => text == name,
            Self::Pattern(pattern, _) => pattern.matches(name),
            Self::Regex(regex) => regex.is_match(name),
        }
    }

    /// Returns the text it was created from.
    pub fn text(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Pattern(_, text) => text,
            Self::Regex(regex) => regex.as_str(),
        }
    }
}

/// An interval of host time; both bounds are exclusive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Window {
    /// Exclusive lower bound of the start of launches.
    pub start: Timestamp,
    /// Exclusive upper bound of the start of launches; if it is before `start`, the window is
    /// empty.
    pub end: Timestamp,
    /// The slice that spans the window.
    pub slice: Option<SliceId>,
    /// `true` if that slice was never closed, so that it ends with the trace.
    pub open: bool,
}

impl Window {
    /// Creates the window between two times.
    pub fn between(start: Timestamp, end: Timestamp) -> Self {
        Self {
            start,
            end,
            slice: None,
            open: false,
        }
    }

    /// Creates a window over all times.
    pub fn whole_trace() -> Self {
        Self::between(
            Timestamp::from_nanos(i64::MIN),
            Timestamp::from_nanos(i64::MAX),
        )
    }

    /// Returns `true` if this window covers all times.
    pub fn is_whole_trace(&self) -> bool {
        *self == Self::whole_trace()
    }

    /// Creates the window that `slice` spans.
    pub fn of_slice(trace: &Trace, slice: SliceId) -> Self {
        let s = trace.slice(slice);
        Self {
            start: s.ts(),
            end: s.end(),
            slice: Some(slice),
            open: s.dur().is_none(),
        }
    }

    /// Returns `true` if a launch at `ts` is in the window.
    pub fn contains(&self, ts: Timestamp) -> bool {
        self.start < ts && ts < self.end
    }

    /// Returns the length in nanoseconds; negative if the bounds are reversed.
    pub fn duration_ns(&self) -> i64 {
        (self.end - self.start).get()
    }
}

/// Returns the windows spanned by slices with a matching name, in ascending time. Slices without a
/// category and kernels are excluded; rows of the device with another category are included.
///
/// Cost: one pass over the slices; the pattern is tested once per distinct name.
pub fn find_windows(trace: &Trace, function: &NameMatch) -> Vec<Window> {
    let mut known: Vec<Option<bool>> = Vec::new();
    let mut exact = None;
    match function {
        NameMatch::Exact(text) => match trace.strings().find(text) {
            Some(id) => exact = Some(id),
            None => return Vec::new(),
        },
        _ => known = vec![None; trace.strings().len()],
    }
    let kernel = trace.find_category("kernel");
    trace
        .slices()
        .filter(|s| {
            let Some(name) = s.name_id() else {
                return false;
            };
            let matches = match exact {
                Some(id) => id == name,
                None => known
                    .get_mut(name.index())
                    .is_some_and(|k| *k.get_or_insert_with(|| function.matches(trace.text(name)))),
            };
            matches && s.category().is_some() && Some(s.category_id()) != kernel
        })
        .map(|s| Window::of_slice(trace, s.id()))
        .collect()
}

/// Selects one or several windows.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Pick {
    /// The window with this number, from 0.
    Index(i64),
    /// All windows together.
    All,
    /// The first.
    First,
    /// The last.
    Last,
    /// Windows from the first number (inclusive) to the second (exclusive).
    Range(usize, Option<usize>),
}

impl FromStr for Pick {
    type Err = Error;

    /// Parses `A..B`, `A..=B`, `A..`, `..B`, or one number.
    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::BadRange {
            text: text.to_owned(),
        };
        let number = |t: &str| t.trim().parse::<usize>().map_err(|_| bad());
        let Some((from, to)) = text.split_once("..") else {
            let n = number(text)?;
            return Ok(Self::Range(n, Some(n + 1)));
        };
        let from = match from.trim() {
            "" => 0,
            n => number(n)?,
        };
        let to = match to.trim() {
            "" => None,
            n => Some(match n.strip_prefix('=') {
                Some(n) => number(n)?.checked_add(1).ok_or_else(bad)?,
                None => number(n)?,
            }),
        };
        Ok(Self::Range(from, to))
    }
}

impl Pick {
    /// Returns the selected windows.
    ///
    /// # Errors
    ///
    /// [`Error::IndexOutOfRange`] when there is no window with that number; for a range, when it
    /// contains no window.
    pub fn of(self, windows: &[Window]) -> Result<Vec<Window>, Error> {
        let outside = |index: i64| Error::IndexOutOfRange {
            index,
            count: windows.len(),
        };
        let at = |i: Option<usize>, index: i64| {
            i.and_then(|i| windows.get(i))
                .map(|w| vec![*w])
                .ok_or_else(|| outside(index))
        };
        match self {
            Self::Index(index) => at(usize::try_from(index).ok(), index),
            Self::First => at(Some(0), 0),
            Self::Last => at(windows.len().checked_sub(1), -1),
            Self::All => Ok(windows.to_vec()),
            Self::Range(from, to) => {
                let to = to.unwrap_or(windows.len()).min(windows.len());
                match windows.get(from..to) {
                    Some(some) if !some.is_empty() => Ok(some.to_vec()),
                    _ => Err(outside(i64::try_from(from).unwrap_or(i64::MAX))),
                }
            }
        }
    }
}
