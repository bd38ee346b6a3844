//! Parts of a recording: a window, steps.

use std::borrow::Cow;
use std::convert::Infallible;
use std::ops::Range;
use std::str::FromStr;

use gpu_time::tables::RowKey;
use gpu_time::{ARG_KEYS, GpuWork, NoGpuWork, Note, Split, Step, StepRule, WindowSpec, steps};
use rca_cycles::{Failure, Phase};
use report::human;
use trace_model::kernel::NamePattern;
use trace_model::{TimeRange, Timestamp, Trace};

use crate::{Error, Result};

/// Sources of steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum StepSource {
    /// Annotations where there are any, else cycles.
    #[default]
    Auto,
    /// Annotations of the host.
    Annotation,
    /// Cycles of the engine's loop.
    Cycle,
}

/// A choice of steps.
///
/// ```
/// use trace_report::StepChoice;
///
/// assert_eq!("3".parse(), Ok(StepChoice::Numbers(3..4)));
/// assert_eq!("3..5".parse(), Ok(StepChoice::Numbers(3..5)));
/// assert_eq!("decode*".parse(), Ok(StepChoice::Names("decode*".to_owned())));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum StepChoice {
    /// Steps with these numbers, from 0.
    Numbers(Range<usize>),
    /// Steps whose names match this pattern: `*` is any text, `?` any character, `|` separates alternatives.
    Names(String),
}

impl FromStr for StepChoice {
    type Err = Infallible;

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

/// Which functions and operators may be read in outline for a part of a recording.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum MayOutline {
    /// None: any may select the part.
    Never,
    /// Those that the answer does not examine.
    Always,
    /// Those that the answer does not examine, if [`has_steps`] of what was read; else the recording is read as a whole.
    WithSteps,
}

/// Returns `true` if annotations of the host mark steps.
#[must_use]
pub fn has_steps(trace: &Trace) -> bool {
    !steps(&GpuWork::new(trace), None).is_empty()
}

/// Which part of a recording is analysed; all of it by default.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct PartChoice {
    /// `true` for one result for each step.
    pub per_step: bool,
    /// What a step is.
    pub steps: StepSource,
    /// Pattern of the names of slices that are steps.
    pub step_pattern: Option<String>,
    /// What belongs to a step.
    pub step_rule: StepRule,
    /// Only these steps.
    pub step: Option<StepChoice>,
    /// Only this window.
    pub window: Option<WindowSpec>,
    /// Only the time of a slice: the pattern of its name, and its number among all slices with such a name.
    pub window_of: Option<(String, usize)>,
    /// What to do if no annotation is known as a step, in the words of the program that asks; empty for no advice.
    pub remedy: Cow<'static, str>,
}

impl PartChoice {
    /// Returns `true` if each recording is analysed as a whole, in one piece.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        !self.by_step() && self.window.is_none() && self.window_of.is_none()
    }

    /// Returns `true` if there is one result for each step.
    #[must_use]
    pub fn by_step(&self) -> bool {
        self.per_step || self.step.is_some()
    }

    /// Returns whether slices may be read in outline.
    #[must_use]
    pub fn may_outline(&self) -> MayOutline {
        if self.window_of.is_some() || self.step_pattern.is_some() {
            return MayOutline::Never;
        }
        match (self.by_step(), self.steps) {
            (false, _) | (true, StepSource::Annotation) => MayOutline::Always,
            (true, StepSource::Cycle) => MayOutline::Never,
            // Without annotations steps are cycles.
            (true, StepSource::Auto) => MayOutline::WithSteps,
        }
    }

    /// Returns the keys of the arguments of slices that selection and GPU activity need.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let may_be_cycles =
            self.by_step() && self.step_pattern.is_none() && self.steps != StepSource::Annotation;
        let more: &[&str] = match may_be_cycles {
            true => rca_cycles::ARG_KEYS,
            false => &[],
        };
        let keys = ARG_KEYS.iter().chain(more);
        keys.map(|key| (*key).to_owned()).collect()
    }

    /// Returns the selected part of a recording, and notes on it.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording has no such window, or has steps but none of the chosen ones.
    pub fn resolve(&self, work: &GpuWork<'_>) -> Result<(Split, Vec<Note>)> {
        let (mut how, mut notes) = (Split::default(), notes(work.trace()));
        how.window = self.window(work)?;
        if let Some(window) = how.window {
            let text = format!("{}..{} ns", window.start, window.end);
            notes.push(Note::new("window", text).ns(window.duration().get()));
        }
        how.step_rule = self.step_rule;
        if self.by_step() {
            let (mut found, note) = self.find_steps(work);
            notes.push(note);
            if self.step.is_some() {
                let all = found.len();
                found = self.chosen(found);
                if found.is_empty() && all > 0 {
                    return Err(Error::NoStepChosen { all, side: None });
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
    #[must_use]
    pub fn wants(&self, step: Option<usize>) -> bool {
        self.step.is_none() || step.is_some()
    }

    /// Returns the selected ones of all steps.
    #[must_use]
    pub fn chosen(&self, all: Vec<Step>) -> Vec<Step> {
        match &self.step {
            Some(choice) => choice.of(all),
            None => all,
        }
    }

    /// Returns the selected window of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording has no such window.
    pub fn window(&self, work: &GpuWork<'_>) -> Result<Option<TimeRange>> {
        if let Some((pattern, index)) = &self.window_of {
            let found = steps(work, Some(pattern));
            let count = found.len();
            return match found.into_iter().nth(*index) {
                Some(step) => Ok(Some(step.range)),
                None => Err(Error::NoSuchSlice {
                    index: *index,
                    pattern: pattern.clone(),
                    count,
                }),
            };
        }
        match self.window {
            Some(spec) => spec.resolve(work).map_err(Error::Window),
            None => Ok(None),
        }
    }

    /// Returns the steps of a recording, and a note on how they were found.
    #[must_use]
    pub fn find_steps(&self, work: &GpuWork<'_>) -> (Vec<Step>, Note) {
        if self.steps != StepSource::Cycle {
            let found = steps(work, self.step_pattern.as_deref());
            let by_annotation = !found.is_empty()
                || self.step_pattern.is_some()
                || self.steps == StepSource::Annotation;
            if by_annotation {
                let note = match (found.len(), &self.step_pattern) {
                    (0, Some(pattern)) => Note::new(
                        "no_steps",
                        format!("no slice of the host is named `{pattern}`"),
                    ),
                    (0, None) => {
                        let text = "no annotation is known as a step";
                        let text = match self.remedy.as_ref() {
                            "" => text.to_owned(),
                            remedy => format!("{text}: {remedy}"),
                        };
                        Note::new("no_steps", text)
                    }
                    (1, _) => Note::new("steps", "annotation of the host").count(1),
                    (n, _) => Note::new("steps", "annotations of the host").count(n as u64),
                };
                return (found, note);
            }
        }
        match cycles(work.trace()) {
            Ok((found, text)) => {
                let count = found.len() as u64;
                (found, Note::new("steps", text).count(count))
            }
            Err(failure) => (Vec::new(), Note::new("no_steps", failure.to_string())),
        }
    }
}

/// Returns the notes on a whole recording that every answer has: work that ran more than once is counted as often.
#[must_use]
pub fn notes(trace: &Trace) -> Vec<Note> {
    let limit = trace.meta().limit("kernel_replay");
    let note = limit.map(|limit| Note::new(limit.code, limit.text.clone()));
    note.into_iter().collect()
}

/// Returns the cycles of the engine's loop as steps, and how they were found.
fn cycles(trace: &Trace) -> Result<(Vec<Step>, String), Failure> {
    let found = rca_cycles::analyse(trace, &rca_cycles::Options::default())?;
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

/// Returns why the recording, or the selected window of it, holds no GPU activity, or `None` if it
/// holds any.
#[must_use]
pub fn no_gpu_work(work: &GpuWork<'_>, how: &Split) -> Option<NoGpuWork> {
    match how.window {
        Some(window) => gpu_time::no_gpu_work_in(work.index(), window),
        None => gpu_time::no_gpu_work(work.index()),
    }
}

/// Returns the reason as [`no_gpu_work`] does, for answers about idle time: a window between the first and the last activity
/// has an answer, which is idle time.
#[must_use]
pub fn no_gpu_time(work: &GpuWork<'_>, how: &Split) -> Option<NoGpuWork> {
    let is_stall = how.window.is_some_and(|window| {
        let inside = |span: TimeRange| span.start <= window.start && window.end <= span.end;
        window.start < window.end && work.span().is_some_and(inside)
    });
    if is_stall {
        return None;
    }
    no_gpu_work(work, how)
}

/// Returns the key of a row of the recording `label`: its step with that number, activity outside of all steps,
/// or the whole recording.
#[must_use]
pub fn row_key(label: &str, how: &Split, step: Option<usize>) -> RowKey {
    let found = step.and_then(|at| how.steps.as_ref()?.get(at));
    let no_step = how.steps.is_some().then(|| "(no step)".to_owned());
    RowKey {
        trace: label.to_owned(),
        step_index: step.map(|at| found.and_then(|step| step.number).unwrap_or(at) as u64),
        step: found.map(|step| step.name.clone()).or(no_step),
        partial: found.and_then(|step| step.partial.clone()),
    }
}
