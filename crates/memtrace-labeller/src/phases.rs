//! Phases of a run: which stretch of time belongs to loading, generation, teardown.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use crate::error::{Error, Result};
use crate::names::{Name, Names};

/// One phase as a file gives it.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[non_exhaustive]
pub struct PhaseBoundary {
    /// `weight_load`, `generation`, `teardown` or a name of one's own.
    pub phase: String,
    /// First nanosecond.
    pub start_ns: i64,
    /// First nanosecond after it.
    pub end_ns: i64,
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
    #[serde(untagged)]
    enum File {
        List(Vec<PhaseBoundary>),
        Object {
            #[serde(default)]
            phase_boundaries: Option<Vec<PhaseBoundary>>,
        },
    }
    let file: File = serde_json::from_slice(text).map_err(|source| Error::Json {
        name: name.to_owned(),
        source,
    })?;
    Ok(match file {
        File::List(list) => list,
        File::Object { phase_boundaries } => phase_boundaries.unwrap_or_default(),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
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
