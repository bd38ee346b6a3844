//! Durations of kernels by group.

use gpu_time::compat::tracelens::{self, Launcher};
use gpu_time::tables::{self, RowKey};
use gpu_time::{
    KernelOptions, KernelSort, Kernels, KernelsBy, Note, PassingKernels, Split, events_by_part,
    kernels,
};
use report::human;
use trace_model::Trace;

use crate::part::{self, PartChoice};
use crate::{Answered, Document, Outlined, Result, RulesChoice, precise};

/// Rows of each recording in text.
const TOP: usize = 20;

/// Rows of each step in text.
const TOP_OF_STEP: usize = 5;

/// What is asked about kernels.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// Which part of each recording.
    pub part: PartChoice,
    /// How activity is classified, and what counts.
    pub rules: RulesChoice,
    /// Keys of the groups, the main one first; by name if there are none.
    pub by: Vec<KernelsBy>,
    /// Order of the groups.
    pub sort: KernelSort,
    /// `true` to keep the numbers of module instances.
    pub numbered: bool,
    /// `true` for a second table: the operators that launch, by the rules of TraceLens.
    pub launchers: bool,
    /// Maximum number of groups of each recording, or of each step.
    pub top: Option<usize>,
}

impl Question {
    /// Returns grouping and order.
    #[must_use]
    pub fn options(&self) -> KernelOptions {
        let mut options = KernelOptions::default();
        let mut by = self.by.iter().copied();
        options.by = by.next().unwrap_or_default();
        options.also = by.collect();
        options.sort = self.sort;
        options.numbered = self.numbered;
        options
    }

    /// Returns the keys of the arguments that the answer needs.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let mut keys = self.part.arg_keys();
        if self.by.contains(&KernelsBy::Shape) {
            keys.push("Input Dims".to_owned());
        }
        keys
    }

    /// Returns `true` if of the host only the calls that launch GPU activity need to be read.
    #[must_use]
    pub fn needs_launches_only(&self) -> bool {
        self.part.is_whole() && self.can_outline()
    }

    /// Returns what needs to be read only in outline; `None` if groups depend on what is around launches.
    #[must_use]
    pub fn outlined(&self) -> Option<Outlined> {
        self.can_outline()
            .then(|| Outlined::but_deciding(self.rules.vocabulary.clone()))
    }

    /// Returns a state that takes the activities one by one, if that is enough for the answer.
    #[must_use]
    pub fn passing(&self) -> Option<PassingKernels> {
        let may_pass = self.needs_launches_only() && !self.rules.linked_only;
        may_pass.then(|| PassingKernels::new(self.rules.vocabulary.clone(), &self.options()))?
    }

    fn can_outline(&self) -> bool {
        !self.options().needs_launch() && self.rules.needs_launches_only()
    }
}

/// Groups of kernels of one recording.
#[derive(Debug)]
pub struct Answer {
    parts: Vec<(RowKey, Kernels)>,
    notes: Vec<Note>,
    launchers: Vec<Launcher>,
}

impl Answer {
    /// Groups the kernels of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the part that was asked for.
    pub fn new(question: &Question, label: &str, trace: &Trace) -> Result<Answered<Self>> {
        let work = question.rules.work(trace);
        let events = question.rules.events(&work);
        let (how, notes) = question.part.resolve(&work)?;
        let options = question.options();
        let parts = events_by_part(&work, &events, &how).into_iter();
        let answer = Self {
            parts: parts
                .filter(|(step, _)| question.part.wants(*step))
                .map(|(step, events)| {
                    let key = part::row_key(label, &how, step);
                    (key, kernels(&work, &events, &options))
                })
                .collect(),
            notes,
            launchers: match question.launchers {
                true => tracelens::launchers(&work, &tracelens::linked(&work)),
                false => Vec::new(),
            },
        };
        Ok(Answered::new(label, answer, part::no_gpu_work(&work, &how)))
    }

    /// Returns the groups of a recording whose activities were [passed on](Question::passing); `trace` is the rest of it.
    #[must_use]
    pub fn passed(label: &str, trace: &Trace, passed: PassingKernels) -> Answered<Self> {
        let key = part::row_key(label, &Split::default(), None);
        let answer = Self {
            parts: vec![(key, passed.finish())],
            notes: part::notes(trace),
            launchers: Vec::new(),
        };
        Answered::new(label, answer, None)
    }
}

/// Returns the column of a key, if there are several keys.
fn column(by: KernelsBy) -> &'static str {
    match by {
        KernelsBy::Class => "by_class",
        KernelsBy::Operator => "by_operator",
        KernelsBy::Module => "by_module",
        KernelsBy::Stream => "by_stream",
        KernelsBy::Shape => "by_shape",
        _ => "by_name",
    }
}

/// Returns the document: the groups of each recording or step.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(question: &Question, answered: &[Answered<Answer>]) -> Result<Document> {
    let mut document = Document::new(tables::SCHEMA_VERSION);
    let all: Vec<(RowKey, &Kernels)> = answered
        .iter()
        .flat_map(|one| &one.answer.parts)
        .map(|(of, kernels)| (of.clone(), kernels))
        .collect();
    let by: Vec<&'static str> = match question.by.is_empty() {
        true => vec![column(KernelsBy::default())],
        false => question.by.iter().map(|by| column(*by)).collect(),
    };
    let top = question.top.unwrap_or(usize::MAX);
    document.push(tables::kernels(&all, &by, top)?);
    if question.launchers {
        let all = answered.iter();
        let all = all.map(|one| (one.label.as_str(), &*one.answer.launchers));
        document.push(tables::launchers(all)?);
    }
    for one in answered {
        document.heading(&one.label);
        if document.reason(one.no_gpu_work.as_ref()) {
            continue;
        }
        document.notes(&one.answer.notes);
        for (of, found) in &one.answer.parts {
            add_part(question, (of, found), &by, &mut document)?;
        }
    }
    Ok(document)
}

fn add_part(
    question: &Question,
    (of, found): (&RowKey, &Kernels),
    by: &[&'static str],
    document: &mut Document,
) -> Result<()> {
    let by_step = question.part.by_step();
    let top = question
        .top
        .unwrap_or(if by_step { TOP_OF_STEP } else { TOP });
    let shown = found.groups.len().min(top);
    let ns = |ns: i64| human::quantity(precise(ns), report::Unit::Nanos);
    let mut title = String::new();
    if by_step {
        title = format!(
            "{}: {} events, GPU time {}, busy {}, {shown} of {} groups",
            of.step_label(),
            human::count(found.events),
            ns(found.total_dur_ns),
            ns(found.busy_ns),
            found.groups.len()
        );
    } else {
        document.line("events", human::count(found.events));
        document.line(
            "GPU time",
            format!("{}, busy {}", ns(found.total_dur_ns), ns(found.busy_ns)),
        );
        if let Some(unlinked) = found.unlinked.filter(|n| *n > 0) {
            let text = format!(
                "{} launched by no call in the trace",
                human::count(unlinked)
            );
            document.line("unlinked", text);
        }
        document.line("groups", format!("{shown} of {} shown", found.groups.len()));
    }
    document.table(&title, tables::kernels_narrow(found, by, top)?);
    Ok(())
}
