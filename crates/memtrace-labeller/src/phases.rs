//! Phases of a run: which stretch of time belongs to loading, generation, teardown.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Deserializer};

use crate::error::{Error, Result};
use crate::names::{Name, Names};

/// One phase as a file gives it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct PhaseBoundary {
    /// `weight_load`, `generation`, `teardown` or a name of one's own.
    pub phase: String,
    /// First nanosecond.
    #[serde(deserialize_with = "nanoseconds")]
    pub start_ns: i64,
    /// First nanosecond after it.
    #[serde(deserialize_with = "nanoseconds")]
    pub end_ns: i64,
}

/// The first whole nanosecond that is not before the number: clocks are often converted in floating point, and an end may
/// be a number that stands for never.
fn nanoseconds<'de, D: Deserializer<'de>>(from: D) -> Result<i64, D::Error> {
    let number = serde_json::Number::deserialize(from)?;
    Ok(match (number.as_i64(), number.as_f64()) {
        (Some(whole), _) => whole,
        #[expect(clippy::cast_possible_truncation, reason = "saturates")]
        (None, Some(real)) => real.ceil() as i64,
        (None, None) => i64::MAX,
    })
}

impl PhaseBoundary {
    /// A phase `[start_ns, end_ns)`.
    #[must_use]
    pub fn new(phase: impl Into<String>, start_ns: i64, end_ns: i64) -> Self {
        Self {
            phase: phase.into(),
            start_ns,
            end_ns,
        }
    }
}

/// Looks up the phase of a time. Where phases overlap, the one listed first wins.
///
/// ```
/// use memtrace_labeller::{Name, Names, PhaseBoundary, Phases};
/// let mut names = Names::new();
/// let list = [PhaseBoundary::new("generation", 10, 20), PhaseBoundary::new("teardown", 15, 30)];
/// let phases = Phases::new(&list, &mut names)?;
/// assert_eq!(phases.at(15), Name::GENERATION);
/// assert_eq!(phases.at(20), Name::TEARDOWN);
/// assert!(phases.at(30).is_null());
/// # Ok::<(), memtrace_labeller::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct Phases {
    /// Starts of stretches, ascending, with the phase that holds from there.
    steps: Vec<(i64, Name)>,
}

impl Phases {
    /// Prepares the look-up, O(n log n) in the number of phases.
    ///
    /// # Errors
    ///
    /// [`Error::Phases`] for a phase that ends before it starts.
    pub fn new(list: &[PhaseBoundary], names: &mut Names) -> Result<Self> {
        if let Some(bad) = list.iter().find(|phase| phase.end_ns < phase.start_ns) {
            return Err(Error::Phases {
                what: format!(
                    "'{}' ends at {} before it starts at {}",
                    bad.phase, bad.end_ns, bad.start_ns
                ),
            });
        }
        // At each edge, which entries begin and which end there.
        let mut edges: BTreeMap<i64, (Vec<usize>, Vec<usize>)> = BTreeMap::new();
        for (at, phase) in list.iter().enumerate() {
            edges.entry(phase.start_ns).or_default().0.push(at);
            edges.entry(phase.end_ns).or_default().1.push(at);
        }
        let mut holding = BTreeSet::new();
        let mut steps = Vec::with_capacity(edges.len());
        for (edge, (begin, end)) in edges {
            holding.extend(begin);
            for at in end {
                holding.remove(&at);
            }
            let holder = holding.first().and_then(|at| list.get(*at));
            steps.push((
                edge,
                holder.map_or(Name::NULL, |phase| names.intern(&phase.phase)),
            ));
        }
        Ok(Self { steps })
    }

    /// Reads a JSON object with the member `phase_boundaries`, or the bare list. A file without the member has no phases.
    ///
    /// # Errors
    ///
    /// [`Error::Json`] and [`Error::Phases`].
    pub fn from_json(name: &str, text: &[u8], names: &mut Names) -> Result<Self> {
        Self::new(&boundaries_from_json(name, text)?, names)
    }

    /// The phase at a time, or [`Name::NULL`].
    #[must_use]
    pub fn at(&self, timestamp_ns: u64) -> Name {
        let time = i64::try_from(timestamp_ns).unwrap_or(i64::MAX);
        let after = self.steps.partition_point(|(start, _)| *start <= time);
        after
            .checked_sub(1)
            .and_then(|at| self.steps.get(at))
            .map_or(Name::NULL, |(_, name)| *name)
    }

    /// Whether there are no phases at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }
}

/// The list of phases in a JSON file; see [`Phases::from_json`].
///
/// # Errors
///
/// [`Error::Json`].
pub fn boundaries_from_json(name: &str, text: &[u8]) -> Result<Vec<PhaseBoundary>> {
    #[derive(Deserialize)]
    struct File {
        #[serde(default)]
        phase_boundaries: Option<Vec<PhaseBoundary>>,
    }
    let is_list = text.trim_ascii_start().starts_with(b"[");
    let list = if is_list {
        serde_json::from_slice(text)
    } else {
        serde_json::from_slice(text).map(|file: File| file.phase_boundaries.unwrap_or_default())
    };
    list.map_err(|source| Error::Json {
        name: name.to_owned(),
        source,
    })
}

/// Returns what a reader of a list of phases should know: ends that no clock reaches, and overlaps, in which the phase listed
/// first holds. One sentence each, overlaps by pair of names.
///
/// ```
/// use memtrace_labeller::{PhaseBoundary, phase_doubts};
/// let list = [PhaseBoundary::new("a", 0, 20), PhaseBoundary::new("b", 15, i64::MAX)];
/// assert_eq!(
///     phase_doubts(&list),
///     [
///         "'b' ends after the end of all clocks: taken to last until the recording ends",
///         "'a' and 'b' overlap from 15 to 20 ns: 'a', which is listed first, holds there",
///     ]
/// );
/// ```
#[must_use]
pub fn phase_doubts(list: &[PhaseBoundary]) -> Vec<String> {
    let endless = list.iter().filter(|phase| phase.end_ns == i64::MAX);
    let mut doubts: Vec<String> = endless
        .map(|phase| {
            let name = &phase.phase;
            format!(
                "'{name}' ends after the end of all clocks: taken to last until the recording ends"
            )
        })
        .collect();
    // Of phases in order of their starts one overlaps an earlier one if it starts before the latest end so far.
    let mut order: Vec<(usize, &PhaseBoundary)> = list
        .iter()
        .enumerate()
        .filter(|(_, phase)| phase.start_ns < phase.end_ns)
        .collect();
    order.sort_by_key(|(at, phase)| (phase.start_ns, *at));
    let mut told = BTreeSet::new();
    let mut latest: Option<(usize, &PhaseBoundary)> = None;
    for (at, this) in order {
        if let Some((other_at, other)) = latest.filter(|(_, other)| other.end_ns > this.start_ns) {
            let (first, second) = match at < other_at {
                true => (this, other),
                false => (other, this),
            };
            let end = this.end_ns.min(other.end_ns);
            if first.phase != second.phase && told.insert((&first.phase, &second.phase)) {
                doubts.push(format!(
                    "'{}' and '{}' overlap from {} to {end} ns: '{0}', which is listed first, holds there",
                    first.phase, second.phase, this.start_ns
                ));
            }
        }
        if latest.is_none_or(|(_, other)| other.end_ns < this.end_ns) {
            latest = Some((at, this));
        }
    }
    doubts
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn numbers_of_any_kind_are_times() {
        let text = br#"[{"phase": "a", "start_ns": 1.5e1, "end_ns": 19.25},
            {"phase": "b", "start_ns": -3, "end_ns": 18446744073709551615}]"#;
        let list = boundaries_from_json("phases", text).unwrap();
        assert_eq!(list[0], PhaseBoundary::new("a", 15, 20));
        assert_eq!(list[1], PhaseBoundary::new("b", -3, i64::MAX));
    }

    #[test]
    fn what_is_wrong_is_said() {
        let said = |text: &str| {
            let error = boundaries_from_json("p.json", text.as_bytes()).unwrap_err();
            std::error::Error::source(&error).map_or_else(String::new, ToString::to_string)
        };
        assert!(said(r#"[{"phase": "a", "start_ns": 1}]"#).contains("missing field `end_ns`"));
        let text = r#"{"phase_boundaries": [{"phase": null, "start_ns": 1, "end_ns": 2}]}"#;
        assert!(said(text).contains("expected a string"));
    }

    #[test]
    fn phases_that_touch_or_are_empty_or_of_one_name_do_not_overlap() {
        let list = [
            PhaseBoundary::new("a", 0, 10),
            PhaseBoundary::new("b", 10, 20),
            PhaseBoundary::new("c", 15, 15),
            PhaseBoundary::new("b", 12, 30),
        ];
        assert_eq!(phase_doubts(&list), [] as [String; 0]);
    }

    proptest! {
        #[test]
        fn overlaps_are_told_if_and_only_if_there_are_any(spans in prop::collection::vec((0_i64..20, 0_i64..8), 0..8)) {
            let list: Vec<PhaseBoundary> = (0..)
                .zip(&spans)
                .map(|(at, (start, length))| PhaseBoundary::new(format!("p{at}"), *start, start + length))
                .collect();
            let holds = |time: i64| list.iter().filter(|phase| phase.start_ns <= time && time < phase.end_ns).count();
            let is_twice = (0..30).any(|time| holds(time) > 1);
            prop_assert_eq!(!phase_doubts(&list).is_empty(), is_twice);
        }

        #[test]
        fn the_first_entry_that_holds_wins(spans in prop::collection::vec((0_i64..20, 0_i64..8), 0..12)) {
            let mut names = Names::new();
            let list: Vec<PhaseBoundary> = (0..)
                .zip(&spans)
                .map(|(at, (start, length))| PhaseBoundary::new(format!("p{at}"), *start, start + length))
                .collect();
            let phases = Phases::new(&list, &mut names).unwrap();
            for time in 0..30 {
                let wanted = list.iter().find(|phase| phase.start_ns <= time && time < phase.end_ns);
                let found = phases.at(time.cast_unsigned());
                prop_assert_eq!(names.get(found), wanted.map(|phase| &*phase.phase));
            }
        }
    }
}
