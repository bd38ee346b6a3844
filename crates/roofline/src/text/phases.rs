//! The steps of each kind of work, and the median one of each.

use crate::analysis::{Analysis, StepForward};
use crate::step_name::Phase;
use crate::steps::StepRow;

/// The steps of one kind.
pub(super) struct Steps<'a> {
    pub(super) phase: Phase,
    /// How many; one that works on several devices is one.
    pub(super) count: usize,
    /// Sum of their busy times.
    pub(super) busy_ns: i64,
    /// The one with the median busy time, on one device.
    pub(super) median: &'a StepRow,
    /// The steps work on several devices.
    pub(super) on_several: bool,
}

impl Steps<'_> {
    pub(super) fn named(&self) -> String {
        let mut text = match self.count {
            1 => format!("the {} step", self.phase.name()),
            n => format!("the median of {n} {} steps", self.phase.name()),
        };
        if self.on_several {
            text.push_str(&format!(" (on device {})", self.median.device));
        }
        text
    }
}

/// Phases with work, in the order in which they are shown.
pub(super) const PHASES: [Phase; 3] = [Phase::Prefill, Phase::Decode, Phase::Mixed];

/// The steps of a phase, if there are any.
pub(super) fn steps_of(analysis: &Analysis, phase: Phase) -> Option<Steps<'_>> {
    let all = analysis.steps.iter();
    let mut steps: Vec<&StepRow> = all.filter(|step| step.phase() == Some(phase)).collect();
    let first = steps.first()?.device;
    let on_several = steps.iter().any(|step| step.device != first);
    let mut count = steps.len();
    if on_several {
        let mut marks: Vec<(&str, (i64, i64))> = steps
            .iter()
            .map(|step| (step.name.as_str(), step.host_ns))
            .collect();
        marks.sort_unstable();
        marks.dedup();
        count = marks.len();
    }
    steps.sort_by_key(|step| step.busy_ns);
    Some(Steps {
        phase,
        count,
        busy_ns: steps.iter().map(|step| step.busy_ns).sum(),
        median: steps.get(steps.len().saturating_sub(1) / 2)?,
        on_several,
    })
}

/// The phase with most GPU time.
pub(super) fn main_phase(analysis: &Analysis) -> Option<Steps<'_>> {
    let all = PHASES.into_iter().rev();
    let all = all.filter_map(|phase| steps_of(analysis, phase));
    all.max_by_key(|steps| steps.busy_ns)
}

/// The needs of a step by the configuration.
pub(super) fn forward_of<'a>(step: &StepRow, analysis: &'a Analysis) -> Option<&'a StepForward> {
    let at = analysis
        .steps
        .iter()
        .position(|own| std::ptr::eq(own, step))?;
    analysis.forward.get(at)?.as_ref()
}
