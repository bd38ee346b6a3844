//! How GPU activity is classified, and what of it counts.

use std::borrow::Cow;

use gpu_time::compat::{hta, tracelens};
use gpu_time::{GpuEvent, GpuWork, Rules};
use trace_model::Trace;
use trace_model::kernel::Vocabulary;

/// How kernels are classified, and what counts.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RulesChoice {
    /// What counts as communication, computation and copying.
    pub rules: Rules,
    /// Only activity whose launch is recorded counts; the rules of HTA have a choice of their own.
    pub linked_only: bool,
    /// Classes of kernels.
    pub vocabulary: Vocabulary,
    /// With the rules of HTA: events are cut to whole microseconds.
    pub hta_rounding: bool,
}

impl RulesChoice {
    /// Returns `true` if of the host only the launches of GPU activity decide what counts, and how.
    #[must_use]
    pub fn needs_launches_only(&self) -> bool {
        matches!(self.rules, Rules::Extended | Rules::Exact)
    }

    /// Returns `true` for the rules of HolisticTraceAnalysis.
    #[must_use]
    pub fn is_hta(&self) -> bool {
        self.rules == Rules::Hta
    }

    /// Returns the GPU activity of `trace`, with the given classes.
    #[must_use]
    pub fn work<'t>(&self, trace: &'t Trace) -> GpuWork<'t> {
        GpuWork::with_vocabulary(trace, self.vocabulary.clone())
    }

    /// Returns the GPU activity that the rules keep.
    #[must_use]
    pub fn events<'w>(&self, work: &'w GpuWork<'_>) -> Cow<'w, [GpuEvent]> {
        match (self.rules, self.linked_only) {
            (Rules::Hta, _) => Cow::Owned(hta::events(work, self.hta_rounding)),
            (_, true) => Cow::Owned(tracelens::linked(work)),
            _ => Cow::Borrowed(work.events()),
        }
    }
}
