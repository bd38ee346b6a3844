//! Idle time of the GPU and its causes.

use gpu_time::compat::hta::{self, StreamIdle};
use gpu_time::tables::{self, RowKey};
use gpu_time::{Idle, Note, Recorder, idle_parts};
use report::human;
use trace_model::Trace;

use crate::part::{self, PartChoice};
use crate::{Answered, Document, Result, RulesChoice};

/// What is asked about idle time.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// Which part of each recording.
    pub part: PartChoice,
    /// How activity is classified; the rules of HTA have neither windows nor steps.
    pub rules: RulesChoice,
    /// Maximum number of gaps that are listed.
    pub longest: usize,
}

/// Idle time of one recording.
#[derive(Debug)]
pub struct Answer {
    parts: Vec<(RowKey, Idle)>,
    notes: Vec<Note>,
    hta: Vec<StreamIdle>,
    recorder: Recorder,
}

impl Answer {
    /// Finds the gaps of a recording and what the device waited for.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the part that was asked for.
    pub fn new(question: &Question, label: &str, trace: &Trace) -> Result<Answered<Self>> {
        let work = question.rules.work(trace);
        if question.rules.is_hta() {
            let rounding = question.rules.hta_rounding;
            let events = hta::events(&work, rounding);
            let answer = Self {
                parts: Vec::new(),
                notes: Vec::new(),
                hta: hta::idle(&work, &events, rounding),
                recorder: Recorder::of(trace),
            };
            return Ok(Answered::new(
                label,
                answer,
                gpu_time::no_gpu_work(work.index()),
            ));
        }
        let (how, notes) = question.part.resolve(&work)?;
        let parts = idle_parts(&work, &how, question.longest).into_iter();
        let answer = Self {
            parts: parts
                .filter(|part| question.part.wants(part.step))
                .map(|part| (part::row_key(label, &how, part.step), part.idle))
                .collect(),
            notes,
            hta: Vec::new(),
            recorder: Recorder::of(trace),
        };
        Ok(Answered::new(label, answer, part::no_gpu_time(&work, &how)))
    }

    /// Returns the idle time of each part.
    pub fn rows(&self) -> impl Iterator<Item = (RowKey, &Idle)> {
        self.parts.iter().map(|(of, idle)| (of.clone(), idle))
    }
}

/// Returns the document: rows by trace, device and stream, the longest gaps, notes.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(question: &Question, answered: &[Answered<Answer>]) -> Result<Document> {
    let mut document = Document::new(tables::SCHEMA_VERSION);
    if question.rules.is_hta() {
        let all = || answered.iter().map(|a| (a.label.as_str(), &*a.answer.hta));
        document.push(tables::hta_idle(all())?);
        document.table("", tables::hta_idle(all())?);
        return Ok(document);
    }
    let all: Vec<(RowKey, &Idle)> = answered.iter().flat_map(|a| a.answer.rows()).collect();
    let notes = answered.iter().flat_map(|a| {
        let notes = a.answer.notes.iter();
        notes.map(|note| (a.label.as_str(), note))
    });
    document.push(tables::idle(&all)?);
    document.push(tables::gaps(&all, false)?);
    document.push(tables::notes(notes)?);
    for one in answered {
        document.heading(&one.label);
        if document.reason(one.no_gpu_work.as_ref()) {
            continue;
        }
        let parts: Vec<&Idle> = one.answer.parts.iter().map(|part| &part.1).collect();
        document.sentence(gpu_time::answer::idle(&parts));
        add_text(question, &one.answer, &mut document)?;
    }
    Ok(document)
}

fn add_text(question: &Question, answer: &Answer, document: &mut Document) -> Result<()> {
    let rows: Vec<(RowKey, &Idle)> = answer.rows().collect();
    document.notes(&answer.notes);
    let skewed: u64 = rows.iter().map(|row| row.1.skewed).sum();
    if skewed > 0 {
        let text = "gaps end with work that starts before its call does: clocks disagree";
        document.line("skewed", format!("{} {text}", human::count(skewed)));
    }
    let idles: Vec<&Idle> = rows.iter().map(|row| row.1).collect();
    if let Some(host) = gpu_time::answer::host_in_gaps(&idles, answer.recorder) {
        document.line("host", host);
    }
    if question.part.by_step() {
        if !rows.is_empty() {
            document.table("", tables::idle_steps(&rows)?);
        }
        return Ok(());
    }
    for (_, idle) in &rows {
        if idle.rows.iter().any(|row| row.time.idle_ns > 0) {
            document.table("", tables::idle_narrow(idle)?);
        }
    }
    if rows.iter().any(|row| !row.1.gaps.is_empty()) {
        document.table("longest gaps", tables::gaps(&rows, true)?);
    }
    Ok(())
}
