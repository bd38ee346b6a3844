//! The steps of a rank in columns.

use critical_path::{Group, StepRow};
use serde::{Deserialize, Serialize};
use trace_model::step_name::step_phase;

/// Steps of a rank, column by column; times are differences to the step before, which are small.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Steps {
    /// Number of steps of the recording.
    pub total: u64,
    /// Kept are the steps whose number is a multiple of two to the power of this, so that ranks that keep fewer have some in common with
    /// the others.
    pub thinned: u32,
    phases: Vec<String>,
    number: Vec<i64>,
    phase: Vec<u32>,
    begin: Vec<i64>,
    duration: Vec<i64>,
    groups: Vec<Vec<i64>>,
}

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepTime<'s> {
    /// Its number, from 1.
    pub number: i64,
    /// Its phase.
    pub phase: &'s str,
    /// Begin, on the clock of the recording.
    pub begin_ns: i64,
    /// Step time.
    pub duration_ns: i64,
    /// Its place among the kept steps, for [`Steps::group`].
    pub place: usize,
}

impl StepTime<'_> {
    /// Returns the end.
    pub fn end_ns(&self) -> i64 {
        self.begin_ns.saturating_add(self.duration_ns)
    }
}

/// Returns the phase that the name of a step states.
pub(super) fn phase_of(name: &str) -> &'static str {
    step_phase(name).map_or("other", trace_model::step_name::StepPhase::name)
}

impl Steps {
    /// Keeps steps in columns.
    pub(super) fn new(rows: &[StepRow]) -> Self {
        let mut out = Self {
            total: rows.len() as u64,
            groups: vec![Vec::with_capacity(rows.len()); Group::ALL.len()],
            ..Self::default()
        };
        let (mut last_number, mut last_end) = (0, 0);
        for row in rows {
            let phase = phase_of(&row.name);
            let known = out.phases.iter().position(|known| known == phase);
            let at = known.unwrap_or_else(|| {
                out.phases.push(phase.to_owned());
                out.phases.len() - 1
            });
            let number = i64::from(row.step);
            out.number.push(number - last_number);
            out.phase.push(u32::try_from(at).unwrap_or(u32::MAX));
            out.begin.push(row.begin_ns.saturating_sub(last_end));
            out.duration.push(row.duration_ns);
            for (column, group) in out.groups.iter_mut().zip(Group::ALL) {
                column.push(row.groups.of(group));
            }
            last_number = number;
            last_end = row.begin_ns.saturating_add(row.duration_ns);
        }
        out
    }

    /// Returns the kept steps in ascending time.
    pub fn iter(&self) -> impl Iterator<Item = StepTime<'_>> {
        let columns = self.number.iter().zip(&self.begin).zip(&self.duration);
        let columns = columns.zip(&self.phase).enumerate();
        let start = (0_i64, 0_i64);
        columns.scan(
            start,
            |last, (place, (((number, begin), duration), phase))| {
                let step = StepTime {
                    number: last.0.saturating_add(*number),
                    phase: self.phases.get(*phase as usize).map_or("", String::as_str),
                    begin_ns: last.1.saturating_add(*begin),
                    duration_ns: *duration,
                    place,
                };
                *last = (step.number, step.end_ns());
                Some(step)
            },
        )
    }

    /// Returns the time of a kept step in a group, by the order of [`Group::ALL`].
    pub fn group(&self, place: usize, group: usize) -> i64 {
        let column = self.groups.get(group);
        column
            .and_then(|column| column.get(place))
            .copied()
            .unwrap_or(0)
    }

    /// Returns the number of kept steps.
    pub fn len(&self) -> usize {
        self.number.len()
    }

    /// Returns `true` if no step is kept.
    pub fn is_empty(&self) -> bool {
        self.number.is_empty()
    }

    /// Drops every other step.
    pub(super) fn thin(&mut self) {
        self.thinned += 1;
        let every = 1_i64.checked_shl(self.thinned).unwrap_or(i64::MAX);
        let kept: Vec<(i64, i64, i64, usize)> = self
            .iter()
            .filter(|step| step.number % every == 0)
            .map(|step| (step.number, step.begin_ns, step.duration_ns, step.place))
            .collect();
        let mut out = Self {
            total: self.total,
            thinned: self.thinned,
            phases: self.phases.clone(),
            groups: vec![Vec::with_capacity(kept.len()); self.groups.len()],
            ..Self::default()
        };
        let (mut last_number, mut last_end) = (0_i64, 0_i64);
        for (number, begin, duration, place) in kept {
            out.number.push(number - last_number);
            out.phase.push(self.phase.get(place).copied().unwrap_or(0));
            out.begin.push(begin.saturating_sub(last_end));
            out.duration.push(duration);
            for (column, own) in out.groups.iter_mut().zip(&self.groups) {
                column.push(own.get(place).copied().unwrap_or(0));
            }
            last_number = number;
            last_end = begin.saturating_add(duration);
        }
        *self = out;
    }
}
