//! Selects parts of a trace: a window, steps.

use clap::{Args, ValueEnum};
use gpu_time::tables::RowKey;
use gpu_time::{ARG_KEYS, GpuWork, NoGpuWork, Note, Split, Step, StepRule, WindowSpec, steps};
use perfetto_reader::Outlining;
use rca_cycles::{Failure, Phase};
use report::human;
use trace_input::{NamedTrace, only_args};
use trace_model::kernel::NamePattern;
use trace_model::{TimeRange, Timestamp};

/// Heading of these options in help.
const PART: &str = "Steps and windows";

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

/// A choice of steps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StepChoice {
    /// Steps with these numbers.
    Numbers(std::ops::Range<usize>),
    /// Steps whose names match this pattern.
    Names(String),
}

impl std::str::FromStr for StepChoice {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let numbers = match text.split_once("..") {
            Some((from, to)) => from.parse().ok().zip(to.parse().ok()),
            None => text.parse().ok().map(|n: usize| (n, n.saturating_add(1))),
        };
        Ok(match numbers {
            Some((from, to)) => Self::Numbers(from..to),
            None => Self::Names(text.to_owned()),
        })
    }
}

impl StepChoice {
    /// Returns the chosen steps, each with its number among all.
    fn of(&self, all: Vec<Step>) -> Vec<Step> {
        let patterns: Vec<NamePattern> = match self {
            Self::Numbers(_) => Vec::new(),
            Self::Names(names) => names.split('|').map(NamePattern::glob).collect(),
        };
        let mut all = all;
        for (number, step) in all.iter_mut().enumerate() {
            step.number = Some(number);
        }
        all.retain(|step| match self {
            Self::Numbers(range) => step.number.is_some_and(|n| range.contains(&n)),
            Self::Names(_) => patterns.iter().any(|p| p.matches(&step.name)),
        });
        all
    }
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
    /// Returns `true` if each trace is analyzed as a whole, in one piece.
    pub(crate) fn is_whole(&self) -> bool {
        !self.by_step() && self.window.is_none() && self.window_of.is_none()
    }

    /// Returns how slices are read of which only the outline matters for the answer: not in outline if any may matter for which
    /// part is selected.
    pub(crate) fn outline(&self, outlining: Outlining) -> Option<Outlining> {
        if self.window_of.is_some() || self.step_pattern.is_some() {
            return None;
        }
        match (self.by_step(), self.steps) {
            (false, _) | (true, StepsName::Annotation) => Some(outlining),
            (true, StepsName::Cycle) => None,
            // Without annotations steps are cycles.
            (true, StepsName::Auto) => {
                Some(outlining.provided(|trace| !steps(&GpuWork::new(trace), None).is_empty()))
            }
        }
    }

    /// Returns `true` if there is one result for each step.
    pub(crate) fn by_step(&self) -> bool {
        self.per_step || self.step.is_some()
    }

    /// Keeps the arguments of slices that the selection needs.
    pub(crate) fn keep_args(&self, options: &mut perfetto_reader::ReadOptions) {
        let may_be_cycles =
            self.by_step() && self.step_pattern.is_none() && self.steps != StepsName::Annotation;
        let more: &[&str] = match may_be_cycles {
            true => rca_cycles::ARG_KEYS,
            false => &[],
        };
        let keys: Vec<&str> = ARG_KEYS.iter().chain(more).copied().collect();
        only_args(options, &keys);
    }

    /// Returns the selected part of one trace, and notes on it.
    pub(crate) fn resolve(
        &self,
        input: &NamedTrace,
        work: &GpuWork<'_>,
    ) -> anyhow::Result<(Split, Vec<Note>)> {
        let (mut how, mut notes) = (Split::default(), notes(input));
        how.window = self.window(work)?;
        if let Some(window) = how.window {
            let text = format!("{}..{} ns", window.start, window.end);
            notes.push(Note::new("window", text).ns(window.duration().get()));
        }
        how.step_rule = match self.step_by {
            StepBy::Launch => StepRule::Launch,
            StepBy::Time => StepRule::Time,
        };
        if self.by_step() {
            let (mut found, note) = self.find_steps(input, work);
            notes.push(note);
            if self.step.is_some() {
                let all = found.len();
                found = self.chosen(found);
                if found.is_empty() && all > 0 {
                    anyhow::bail!("--step chooses none of the {all} steps, which count from 0");
                }
                let text = format!("of {} steps are chosen", human::count(all as u64));
                notes.push(Note::new("chosen", text).count(found.len() as u64));
            }
            let partial = found.iter().filter(|step| step.partial.is_some()).count();
            if partial > 0 {
                let text = "steps were recorded in part: do not compare these with the others";
                notes.push(Note::new("partial", text).count(partial as u64));
            }
            how.steps = Some(found);
        }
        Ok((how, notes))
    }

    /// Returns `true` if the part of this step is selected. With chosen steps, activity outside of
    /// all steps is not.
    pub(crate) fn wants(&self, step: Option<usize>) -> bool {
        self.step.is_none() || step.is_some()
    }

    /// Returns the selected ones of all steps.
    pub(crate) fn chosen(&self, all: Vec<Step>) -> Vec<Step> {
        match &self.step {
            Some(choice) => choice.of(all),
            None => all,
        }
    }

    /// Returns the selected window of one trace.
    pub(crate) fn window(&self, work: &GpuWork<'_>) -> anyhow::Result<Option<TimeRange>> {
        if let Some(pattern) = &self.window_of {
            let found = steps(work, Some(pattern));
            let count = found.len();
            let chosen = found.into_iter().nth(self.window_index);
            return match chosen {
                Some(step) => Ok(Some(step.range)),
                None => Err(cli::cannot_answer(format!(
                    "no slice number {} is named `{pattern}`: there are {count}",
                    self.window_index
                ))),
            };
        }
        Ok(match self.window {
            Some(spec) => spec
                .resolve(work)
                .map_err(|error| cli::usage(format!("--window: {error}")))?,
            None => None,
        })
    }

    /// Returns the steps of one trace, and a note on how they were found.
    pub(crate) fn find_steps(&self, input: &NamedTrace, work: &GpuWork<'_>) -> (Vec<Step>, Note) {
        if self.steps != StepsName::Cycle {
            let found = steps(work, self.step_pattern.as_deref());
            let by_annotation = !found.is_empty()
                || self.step_pattern.is_some()
                || self.steps == StepsName::Annotation;
            if by_annotation {
                let note = match (found.len(), &self.step_pattern) {
                    (0, Some(pattern)) => Note::new(
                        "no_steps",
                        format!("no slice of the host is named `{pattern}`"),
                    ),
                    (0, None) => Note::new(
                        "no_steps",
                        "no annotation is known as a step: name one with --step-pattern, or take \
                         --steps cycle",
                    ),
                    (1, _) => Note::new("steps", "annotation of the host").count(1),
                    (n, _) => Note::new("steps", "annotations of the host").count(n as u64),
                };
                return (found, note);
            }
        }
        match cycles(input) {
            Ok((found, text)) => {
                let count = found.len() as u64;
                (found, Note::new("steps", text).count(count))
            }
            Err(failure) => (Vec::new(), Note::new("no_steps", failure.to_string())),
        }
    }
}

/// Returns the notes on a whole trace that every command has: work that ran more than once is counted as often.
pub(crate) fn notes(input: &NamedTrace) -> Vec<Note> {
    let limit = input.trace.meta().limit("kernel_replay");
    let note = limit.map(|limit| Note::new(limit.code, limit.text.clone()));
    note.into_iter().collect()
}

/// Returns the cycles of the engine's loop as steps, and how they were found.
fn cycles(input: &NamedTrace) -> Result<(Vec<Step>, String), Failure> {
    let found = rca_cycles::analyse(&input.trace, &rca_cycles::Options::default())?;
    let text = format!(
        "cycles found by {}{}{}",
        found.method.name(),
        match found.anchor.as_str() {
            "" => String::new(),
            anchor => format!(", marked by {anchor}"),
        },
        match &found.engine {
            None => String::new(),
            Some(engine) => format!(", engine {engine}"),
        }
    );
    let steps = found.cycles.iter().map(|cycle| {
        let range = TimeRange::new(
            Timestamp::from_nanos(cycle.host_ns.0),
            Timestamp::from_nanos(cycle.host_ns.1),
        );
        // A cycle of unknown phase is called by what marks it.
        let name = match (cycle.phase, found.anchor.as_str()) {
            (Phase::Unknown, "") => "cycle",
            (Phase::Unknown, anchor) => anchor,
            (phase, _) => phase.name(),
        };
        Step::new(name, range).partial(cycle.partial.map(|why| why.name()))
    });
    Ok((steps.collect(), text))
}

/// Returns why the trace, or the selected window of it, holds no GPU activity, or `None` if it
/// holds any.
pub(crate) fn no_gpu_work(work: &GpuWork<'_>, how: &Split) -> Option<NoGpuWork> {
    match how.window {
        Some(window) => gpu_time::no_gpu_work_in(work.index(), window),
        None => gpu_time::no_gpu_work(work.index()),
    }
}

/// Like [`no_gpu_work`], for commands that analyze idle time: a window between the first and the
/// last activity has a result, which is idle time.
pub(crate) fn no_gpu_time(work: &GpuWork<'_>, how: &Split) -> Option<NoGpuWork> {
    let is_stall = how.window.is_some_and(|window| {
        let inside = |span: TimeRange| span.start <= window.start && window.end <= span.end;
        window.start < window.end && work.span().is_some_and(inside)
    });
    if is_stall {
        return None;
    }
    no_gpu_work(work, how)
}

/// Returns the key of a row of `trace`: its step with that number, activity outside of all steps,
/// or the whole trace.
pub(crate) fn of(trace: &str, how: &Split, step: Option<usize>) -> RowKey {
    let found = step.and_then(|at| how.steps.as_ref()?.get(at));
    let no_step = how.steps.is_some().then(|| "(no step)".to_owned());
    RowKey {
        trace: trace.to_owned(),
        step_index: step.map(|at| found.and_then(|step| step.number).unwrap_or(at) as u64),
        step: found.map(|step| step.name.clone()).or(no_step),
        partial: found.and_then(|step| step.partial.clone()),
    }
}
