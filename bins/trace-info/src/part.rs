//! Options that select a part of a trace: a window, steps.

use clap::{Args, ValueEnum};
use gpu_time::{StepRule, WindowSpec};
use perfetto_reader::Outlining;
use trace_report::part::{MayOutline, has_steps};
use trace_report::{Outlined, PartChoice, StepChoice, StepSource};

/// Heading of these options in help.
const PART: &str = "Steps and windows";

/// What to do if no annotation is known as a step.
const REMEDY: &str = "name one with --step-pattern, or take --steps cycle";

/// Which part of a trace.
#[derive(Debug, Clone, Args)]
pub(crate) struct PartArgs {
    /// One result for each step of the engine
    #[arg(long, help_heading = PART)]
    pub(crate) per_step: bool,
    /// What a step is
    #[arg(
        long,
        help_heading = PART,
        value_enum,
        value_name = "WHAT",
        default_value_t,
        requires = "per_step"
    )]
    pub(crate) steps: StepsName,
    /// Steps are slices of this name (* any text, ? any character, | or)
    #[arg(
        long,
        help_heading = PART,
        value_name = "PATTERN",
        requires = "per_step",
        conflicts_with = "steps"
    )]
    pub(crate) step_pattern: Option<String>,
    /// What belongs to a step
    #[arg(
        long,
        help_heading = PART,
        value_enum,
        value_name = "RULE",
        default_value_t,
        requires = "per_step"
    )]
    pub(crate) step_by: StepBy,
    /// Only steps with this number (from 0), numbers A..B, or name (* any text, ? any character, | or)
    #[arg(long, help_heading = PART, value_name = "N|A..B|NAME")]
    pub(crate) step: Option<StepChoice>,
    /// Only A..B, in ns of the trace's clock, or with + from the first GPU work on: +1ms..+2ms
    #[arg(long, help_heading = PART, value_name = "A..B", allow_hyphen_values = true)]
    pub(crate) window: Option<WindowSpec>,
    /// Only the time of the first slice of this name (* any text, ? any character, | or)
    #[arg(long, help_heading = PART, value_name = "PATTERN", conflicts_with = "window")]
    pub(crate) window_of: Option<String>,
    /// Which of the slices of --window-of to use, from 0
    #[arg(long, help_heading = PART, value_name = "N", default_value_t, requires = "window_of")]
    pub(crate) window_index: usize,
}

/// Sources of steps, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StepsName {
    /// Annotations where there are any, else cycles
    #[default]
    Auto,
    /// What an annotation of the host marks, as ProfilerStep or execute_model
    Annotation,
    /// Cycles of the engine's loop, as cycle-rca finds them
    Cycle,
}

/// Rules for steps, as command-line values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub(crate) enum StepBy {
    /// Work that was launched in it
    #[default]
    Launch,
    /// Work that ran in it, cut at its ends
    Time,
}

impl PartArgs {
    /// Returns the selected part.
    pub(crate) fn choice(&self) -> PartChoice {
        let mut choice = PartChoice::default();
        choice.per_step = self.per_step;
        choice.steps = match self.steps {
            StepsName::Auto => StepSource::Auto,
            StepsName::Annotation => StepSource::Annotation,
            StepsName::Cycle => StepSource::Cycle,
        };
        choice.step_pattern.clone_from(&self.step_pattern);
        choice.step_rule = match self.step_by {
            StepBy::Launch => StepRule::Launch,
            StepBy::Time => StepRule::Time,
        };
        choice.step.clone_from(&self.step);
        choice.window = self.window;
        let pattern = self.window_of.clone();
        choice.window_of = pattern.map(|pattern| (pattern, self.window_index));
        choice.remedy = REMEDY.into();
        choice
    }
}

/// Returns how slices are read of which only the outline matters for the answer about this part.
pub(crate) fn outlining(part: &PartChoice, outlined: Outlined) -> Option<Outlining> {
    match part.may_outline() {
        MayOutline::Always => Some(outlining_of(outlined)),
        MayOutline::WithSteps => Some(outlining_of(outlined).provided(has_steps)),
        _ => None,
    }
}

/// Returns how slices are read of which only the outline matters.
pub(crate) fn outlining_of(outlined: Outlined) -> Outlining {
    let (keeps, whole) = (outlined.is_kept(), outlined.is_whole_within_examined());
    let mut outlining = Outlining::new(move |category, name| outlined.contains(category, name));
    if keeps {
        outlining = outlining.keeping();
    }
    if whole {
        outlining = outlining.whole_within_kept();
    }
    outlining
}
