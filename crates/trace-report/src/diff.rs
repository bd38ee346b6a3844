//! Two recordings of one model, step with step and kernel with kernel.

use std::borrow::Cow;

use critical_path::{Mark, Part};
use gpu_time::diff::{
    ARG_KEYS, Basis, Comparison, a_step, answers, compare, compare_chosen, hta, lines, steps_of,
    tracelens,
};
use gpu_time::tables::{SCHEMA_VERSION, diff as tables};
use gpu_time::{GpuWork, NoGpuWork, Rules, Step};
use report::Table;
use trace_model::kernel::Vocabulary;
use trace_model::{TimeRange, Timestamp, Trace};

use crate::part::PartChoice;
use crate::{Document, Error, Form, Result};

/// Rows of each list in text.
const TOP: usize = 15;

/// Tables of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listing {
    /// Pairs of kernels at one place of the program.
    Kernels,
    /// Operators with the GPU activity that they launched themselves.
    Operators,
    /// Both sides, and by what evidence they are matched.
    Totals,
    /// What the time of a step is made of on both sides.
    Time,
    /// The steps of both sides.
    Steps,
    /// Functions and operators of the threads that launch, with their own time per step.
    Host,
}

impl Listing {
    /// All tables, the main one first.
    pub const ALL: [Self; 6] = [
        Self::Kernels,
        Self::Operators,
        Self::Totals,
        Self::Time,
        Self::Steps,
        Self::Host,
    ];
}

/// How recordings are compared.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum MatchRules {
    /// By structure, then by name, then by class.
    #[default]
    Structure,
    /// As HolisticTraceAnalysis: counts and durations by name.
    Hta,
    /// As TraceLens: rows of its `diff_stats_df`.
    TraceLens,
}

/// What is asked about two recordings.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// Which part of both recordings.
    pub part: PartChoice,
    /// `true` to compare all of both, not step with step.
    pub whole: bool,
    /// How they are compared.
    pub rules: MatchRules,
    /// Classes of kernels.
    pub vocabulary: Vocabulary,
    /// Only this table.
    pub table: Option<Listing>,
    /// Maximum number of rows of each list.
    pub top: Option<usize>,
    /// What to do if steps cannot be compared, in the words of the program that asks; empty for no advice.
    pub remedy: Cow<'static, str>,
    /// What is made of the answer.
    pub form: Form,
}

impl Question {
    /// Returns the keys of the arguments that the answer needs.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let keys = ARG_KEYS
            .iter()
            .chain(rca_cycles::ARG_KEYS)
            .chain(critical_path::ARG_KEYS);
        keys.map(|key| (*key).to_owned()).collect()
    }

    fn rows(&self) -> usize {
        self.top
            .unwrap_or(if self.form.is_text() { TOP } else { usize::MAX })
    }
}

/// Returns the reason if a recording holds no GPU activity at all.
#[must_use]
pub fn no_gpu_work(trace: &Trace) -> Option<NoGpuWork> {
    gpu_time::no_gpu_work(GpuWork::new(trace).index())
}

/// Returns the document: differences of the two recordings, which are called A and B, by step, operator and kernel.
///
/// # Errors
///
/// Returns an error if a side holds no GPU activity or not the part that was asked for, or if steps were asked for and the
/// sides have none in common.
pub fn document(question: &Question, names: [&str; 2], traces: [&Trace; 2]) -> Result<Document> {
    let top = question.rows();
    match question.rules {
        MatchRules::Structure => structure(question, names, traces),
        MatchRules::Hta => {
            let rows = hta::compare(traces[0], traces[1]);
            by_others(|| tables::hta(&rows, top))
        }
        MatchRules::TraceLens => {
            let [a, b] = traces.map(GpuWork::new);
            let rows = tracelens::diff_stats(&a, &b);
            by_others(|| tables::tracelens(&rows, top))
        }
    }
}

fn by_others(table: impl Fn() -> report::Result<Table>) -> Result<Document> {
    let mut document = Document::new(SCHEMA_VERSION);
    document.table("", table()?);
    document.push(table()?);
    Ok(document)
}

fn structure(question: &Question, names: [&str; 2], traces: [&Trace; 2]) -> Result<Document> {
    let (found, why) = compared(question, traces)?;
    let mut document = Document::new(SCHEMA_VERSION);
    if question.form.is_text() {
        add_text(question, names, (&found, why), &mut document)?;
        return Ok(document);
    }
    let top = question.rows();
    let wanted = |name: &Listing| question.table.is_none_or(|one| one == *name);
    for name in Listing::ALL.into_iter().filter(wanted) {
        document.push(match name {
            Listing::Kernels => tables::kernels(&found, top)?,
            Listing::Operators => tables::operators(&found, top)?,
            Listing::Totals => tables::totals(&found.diff, names)?,
            Listing::Time => tables::time(&found)?,
            Listing::Steps => tables::steps(&found)?,
            Listing::Host => tables::host(&found, top)?,
        });
    }
    Ok(document)
}

/// Adds the text; `why` is a warning if the two sides are not fully comparable.
fn add_text(
    question: &Question,
    names: [&str; 2],
    (found, why): (&Comparison, Option<String>),
    document: &mut Document,
) -> Result<()> {
    let top = question.rows();
    let wanted = |name: Listing| question.table.is_none_or(|one| one == name);
    for sentence in answers(found, why.is_some()) {
        document.sentence(sentence);
    }
    for (name, label) in names.into_iter().zip(["A", "B"]) {
        document.line(label, name);
    }
    if let Some(why) = why {
        document.line("caution", why);
    }
    if found.is_equal() {
        return Ok(());
    }
    for (label, text) in lines(found) {
        document.line(label, text);
    }
    if wanted(Listing::Time) {
        for kind in &found.kinds {
            let title = match kind.name.as_str() {
                "" => "time".to_owned(),
                name => format!("time of {}, medians of {}", a_step(name), steps_of(kind)),
            };
            document.table(&title, tables::time_narrow(kind)?);
        }
    }
    if question.table == Some(Listing::Steps) || question.part.per_step {
        document.table("steps", tables::steps(found)?);
    }
    if question.table == Some(Listing::Host) {
        let title = "own time on the launching threads per step, largest difference first";
        document.table(title, tables::host_narrow(found, top)?);
    }
    if wanted(Listing::Totals) {
        let title = "GPU activity that is compared, and by what it is matched";
        document.table(title, tables::totals_narrow(&found.diff)?);
    }
    let per_step = match found.basis {
        Basis::Steps | Basis::StepsByTime => " per step",
        _ => "",
    };
    if wanted(Listing::Operators) {
        let title = format!("operators{per_step}, largest difference first");
        document.table(&title, tables::operators_narrow(found, top)?);
    }
    if wanted(Listing::Kernels) {
        let title = format!("kernels{per_step}, largest difference first");
        document.table(&title, tables::kernels_narrow(found, top)?);
    }
    Ok(())
}

/// Adds the times of steps as `critical-path` has them, so that the time before a step is in that step.
fn add_times(steps: &mut [Step], work: &GpuWork<'_>) {
    let marks: Vec<Mark> = steps
        .iter()
        .map(|step| Mark {
            name: step.name.clone(),
            begin_ns: step.range.start.nanos(),
            end_ns: step.range.end.nanos(),
        })
        .collect();
    let found = match marks.is_empty() {
        true => Vec::new(),
        false => Part::steps_of(work.index(), &marks),
    };
    for step in steps {
        let begin = step.range.start.nanos();
        let at = found.binary_search_by_key(&begin, |found| found.host_ns.0);
        if let Some(found) = at.ok().and_then(|at| found.get(at)) {
            let [begin, end] = [found.begin_ns, found.end_ns].map(Timestamp::from_nanos);
            step.took = Some(TimeRange::new(begin, end));
        }
    }
}

/// Returns the comparison, and a warning if the two sides are not fully comparable.
fn compared(question: &Question, traces: [&Trace; 2]) -> Result<(Comparison, Option<String>)> {
    let part = &question.part;
    let mut works =
        traces.map(|trace| GpuWork::with_vocabulary(trace, question.vocabulary.clone()));
    let mut windows = [None, None];
    for (work, window) in works.iter_mut().zip(&mut windows) {
        *window = part.window(work)?;
        if let Some(window) = window {
            let (start, end) = (window.start.nanos(), window.end.nanos());
            work.retain(|event| start <= event.start_ns && event.start_ns < end);
        }
    }
    let both = [&works[0], &works[1]];
    let empty: Vec<String> = [("A", both[0], windows[0]), ("B", both[1], windows[1])]
        .into_iter()
        .filter(|(_, work, _)| work.events().is_empty())
        .map(|(side, work, window)| {
            let why = match window {
                Some(window) => gpu_time::no_gpu_work_in(work.index(), window),
                None => gpu_time::no_gpu_work(work.index()),
            };
            let why = why.map_or_else(|| "no GPU activity".to_owned(), |why| why.text);
            format!("{side}: {why}")
        })
        .collect();
    if !empty.is_empty() {
        return Err(Error::NothingToCompare {
            why: empty.join("; "),
        });
    }
    let whole = |why| (compare(both, Rules::Extended, None, windows), why);
    if question.whole {
        return Ok(whole(None));
    }
    let found = [0, 1].map(|i| {
        let (steps, how) = part.find_steps(both[i]);
        let chosen = part.chosen(steps.clone());
        let places: Vec<usize> = chosen.iter().filter_map(|step| step.number).collect();
        (steps, how, part.step.is_some().then_some(places))
    });
    for ((all, _, chosen), side) in found.iter().zip(["A", "B"]) {
        if chosen.as_ref().is_some_and(Vec::is_empty) && !all.is_empty() {
            let (all, side) = (all.len(), Some(side));
            return Err(Error::NoStepChosen { all, side });
        }
    }
    let [(mut a, how_a, chosen_a), (mut b, how_b, chosen_b)] = found;
    if windows == [None, None] {
        add_times(&mut a, both[0]);
        add_times(&mut b, both[1]);
    }
    let why = match (a.is_empty(), b.is_empty()) {
        (false, false) if how_a.text != how_b.text => Some(format!(
            "the steps are of different kinds: {} in A, {} in B",
            how_a.text, how_b.text
        )),
        (false, false) => {
            let chosen = [chosen_a.as_deref(), chosen_b.as_deref()];
            let result = compare_chosen(both, Rules::Extended, [&a, &b], chosen);
            if !result.kinds.is_empty() {
                return Ok((result, None));
            }
            let kinds = |side: usize| {
                let names = result.lonely.iter().filter(|kind| kind.steps[side] > 0);
                let names: Vec<&str> = names.map(|kind| kind.name.as_str()).collect();
                match names.is_empty() {
                    true => "no step with GPU activity".to_owned(),
                    false => names.join(", "),
                }
            };
            Some(format!(
                "no kind of step is in both: {} in A, {} in B",
                kinds(0),
                kinds(1)
            ))
        }
        (true, true) => Some(format!("neither trace has steps ({})", how_a.text)),
        (true, false) => Some(format!("A has no steps ({})", how_a.text)),
        (false, true) => Some(format!("B has no steps ({})", how_b.text)),
    };
    if part.by_step() {
        let why = why.unwrap_or_default();
        return Err(Error::NoCommonSteps { why });
    }
    // A window is the remedy that is recommended.
    let chosen = windows.iter().any(Option::is_some);
    let remedy = match question.remedy.as_ref() {
        "" => String::new(),
        remedy => format!("; {remedy}"),
    };
    let why = why.filter(|_| !chosen).map(|why| {
        format!(
            "{why}: all of both recordings is compared, which is like with like only if both hold the same amount of \
             work{remedy}"
        )
    });
    Ok(whole(why))
}
