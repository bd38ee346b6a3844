//! How far each operator and each step is from the limit of its device.

mod details;
mod figure;
mod known;

pub use details::Details;
pub use figure::{page, svg};
pub use known::{Forward, Known, devices};

use critical_path::{Part, Step};
use gpu_time::{GpuWork, Note, Split, StepRule};
use report::{SchemaVersion, Table};
use roofline::{Analysis, By, Call, Options, PeakKey, Sort, analyse, tables, text};
use serde_json::Value;
use trace_model::kernel::Vocabulary;
use trace_model::{TimeRange, Trace};

use crate::part::{self, PartChoice};
use crate::{Answered, Document, Form, Result};

/// Version of the tables.
pub const VERSION: SchemaVersion = SchemaVersion { major: 1, minor: 0 };

/// Rows of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum RowsBy {
    /// By operator, shapes, types and numbers.
    #[default]
    Call,
    /// By operator.
    Op,
    /// By name of the kernel.
    Kernel,
    /// By class of the kernel.
    Class,
    /// By the Python module around the launch.
    Module,
    /// By the layer of the model around the launch.
    Layer,
    /// Steps of the engine, with their ladders of limits.
    Step,
    /// By prefill, decode, mixed, idle.
    Phase,
}

impl RowsBy {
    fn by(self) -> By {
        match self {
            Self::Call | Self::Step => By::Call,
            Self::Op => By::Op,
            Self::Kernel => By::Kernel,
            Self::Class => By::Class,
            Self::Module => By::Module,
            Self::Layer => By::Layer,
            Self::Phase => By::Phase,
        }
    }

    /// Returns the name of the rows, and of the column of their names.
    fn name(self) -> &'static str {
        match self {
            Self::Call => "calls",
            Self::Op => "op",
            Self::Kernel => "kernel",
            Self::Class => "class",
            Self::Module => "module",
            Self::Layer => "layer",
            Self::Step => "steps",
            Self::Phase => "phase",
        }
    }
}

/// What is asked about limits.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// Which part of each recording; a window has the calls that begin in it.
    pub part: PartChoice,
    /// Classes of kernels.
    pub vocabulary: Vocabulary,
    /// Rows of the answer.
    pub by: RowsBy,
    /// Order of the rows; by time if it is not stated.
    pub sort: Option<Sort>,
    /// Maximum number of rows of each recording.
    pub top: Option<usize>,
    /// Ranks of tensor parallelism, if stated.
    pub tp: Option<u32>,
    /// Key of the device, whatever the recording states.
    pub device: Option<String>,
    /// Peaks in place of the device's.
    pub peaks: Vec<(PeakKey, f64)>,
    /// Fractions of peaks that good kernels reach, for a second limit.
    pub achievable: Vec<(PeakKey, f64)>,
    /// What is made of the answer.
    pub form: Form,
}

impl Question {
    /// Returns the keys of the arguments that the answer needs.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let mut keys = self.part.arg_keys();
        keys.extend(roofline::ARG_KEYS.iter().map(|key| (*key).to_owned()));
        if self.needs_step_times() {
            let more = critical_path::ARG_KEYS.iter();
            keys.extend(more.map(|key| (*key).to_owned()));
        }
        keys
    }

    /// Ladders are in text and JSON; their last line is the time of the step as `critical_path` has it.
    fn needs_step_times(&self) -> bool {
        self.form != Form::MainTable
    }

    fn options<'k>(&self, known: &'k Known) -> Options<'k> {
        let mut options = known.options(self.tp, self.device.as_deref());
        options.devices.peaks.clone_from(&self.peaks);
        options.devices.achievable.clone_from(&self.achievable);
        options.by = self.by.by();
        options.sort = self.sort.unwrap_or_default();
        options
    }
}

/// The limits of one recording.
#[derive(Debug)]
pub struct Answer {
    analysis: Analysis,
    notes: Vec<Note>,
}

impl Answer {
    /// Finds the limits of a recording. `captures` are recordings of the captures of the graphs that it replays.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the part that was asked for, the device is not known, or the
    /// configuration of the model contradicts the recording.
    pub fn new(
        question: &Question,
        known: &Known,
        captures: &[&Trace],
        (label, trace): (&str, &Trace),
    ) -> Result<Answered<Self>> {
        let work = GpuWork::with_vocabulary(trace, question.vocabulary.clone());
        let (how, notes) = question.part.resolve(&work)?;
        let captured: Vec<GpuWork<'_>> = captures.iter().map(|trace| GpuWork::new(trace)).collect();
        let captured: Vec<&GpuWork<'_>> = captured.iter().collect();
        // Before the analysis, so that what they need and its calls are not in memory together.
        let times = match question.needs_step_times() {
            true => step_times(&work),
            false => Vec::new(),
        };
        let options = question.options(known);
        let mut analysis = analyse(&work, &captured, &options, |call| wants(&how, call))?;
        add_step_times(&mut analysis, &times);
        let why = part::no_gpu_work(&work, &how);
        Ok(Answered::new(label, Self { analysis, notes }, why))
    }

    /// Returns the answer as a sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        text::answer(&self.analysis)
    }

    /// Returns `true` if no GPU activity has numbers.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.analysis.coverage.is_empty()
    }
}

/// Returns the limits of recordings with their labels.
fn analyses(answered: &[Answered<Answer>]) -> Vec<(&str, &Analysis)> {
    let all = answered.iter();
    all.map(|one| (one.label.as_str(), &one.answer.analysis))
        .collect()
}

/// Returns the JSON document.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn json(question: &Question, answered: &[Answered<Answer>]) -> Result<Value> {
    let top = question.top.unwrap_or(usize::MAX);
    Ok(roofline::document(
        &analyses(answered),
        question.by.name(),
        top,
    )?)
}

/// Returns the document: the main table, and the text if the form has it.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(question: &Question, answered: &[Answered<Answer>]) -> Result<Document> {
    let mut document = Document::new(VERSION);
    document.push(main_table(question, answered)?);
    for one in answered.iter().filter(|_| question.form.is_text()) {
        add_text(question, one, &mut document)?;
    }
    Ok(document)
}

fn main_table(question: &Question, answered: &[Answered<Answer>]) -> Result<Table> {
    let (all, top) = (analyses(answered), question.top.unwrap_or(usize::MAX));
    Ok(match question.by {
        RowsBy::Call => tables::calls(&all, top)?,
        RowsBy::Step => tables::steps(&all)?,
        by => tables::merged(&all, by.name(), top)?,
    })
}

/// Adds the result for one recording as text.
fn add_text(question: &Question, one: &Answered<Answer>, document: &mut Document) -> Result<()> {
    let shown = text::Shown {
        by: (question.by != RowsBy::Step).then(|| question.by.by()),
        name: question.by.name(),
        is_sorted: question.sort.is_some(),
        top: question.top,
        achievable: &question.achievable,
    };
    let text = text::text(&one.answer.analysis, &shown)?;
    document.heading(&one.label);
    for sentence in text.sentences {
        document.sentence(sentence);
    }
    for (label, line) in text.lines {
        document.line(label, line);
    }
    document.notes(&one.answer.notes);
    document.table(&text.title, text.table);
    for (label, line) in text.remarks {
        document.line(label, line);
    }
    Ok(())
}

/// Returns the steps with their times: from the end of the step before to the end of its last work on the main stream.
fn step_times(work: &GpuWork<'_>) -> Vec<Step> {
    let marks = critical_path::marks(work.index(), None);
    match marks.is_empty() {
        true => Vec::new(),
        false => Part::steps_of(work.index(), &marks),
    }
}

fn add_step_times(analysis: &mut Analysis, times: &[Step]) {
    for row in &mut analysis.steps {
        let same = |step: &&Step| step.name == row.name && step.host_ns.0 == row.host_ns.0;
        let found = times.iter().find(same);
        row.step_ns = found.map(Step::duration_ns).filter(|ns| *ns > 0);
    }
}

/// Returns `true` if the call is in the part of the recording that is asked for: a window has the calls that begin in it.
fn wants(how: &Split, call: &Call<'_, '_>) -> bool {
    let is_in = |range: TimeRange, ns: i64| range.start.nanos() <= ns && ns < range.end.nanos();
    if how
        .window
        .is_some_and(|window| !is_in(window, call.start_ns()))
    {
        return false;
    }
    let Some(steps) = &how.steps else {
        return true;
    };
    let at = match how.step_rule {
        StepRule::Time => Some(call.start_ns()),
        _ => call.launch_ns(),
    };
    at.is_some_and(|at| {
        let last = steps.partition_point(|step| step.range.start.nanos() <= at);
        let last = last.checked_sub(1).and_then(|last| steps.get(last));
        last.is_some_and(|step| is_in(step.range, at))
    })
}
