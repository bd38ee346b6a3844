//! Launches: latency, gaps and the depth of queues.

use gpu_time::tables::{self, RowKey};
use gpu_time::{
    GpuWork, IdleVerdict, LaunchKind, Launches, Note, Recorder, idle_parts, launch_parts,
};
use report::human;
use trace_model::Trace;

use crate::part::{self, PartChoice};
use crate::{Answered, Document, Result, precise};

/// What is asked about launches.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// Which part of each recording.
    pub part: PartChoice,
    /// Number of stretches of time for which the depth of each queue is listed; 0 for none.
    pub series: u32,
}

/// Launches of one recording.
#[derive(Debug)]
pub struct Answer {
    idle: IdleVerdict,
    recorder: Recorder,
    parts: Vec<(RowKey, Launches)>,
    notes: Vec<Note>,
}

impl Answer {
    /// Measures the launches of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the part that was asked for.
    pub fn new(question: &Question, label: &str, trace: &Trace) -> Result<Answered<Self>> {
        let work = GpuWork::new(trace);
        let part = &question.part;
        let (how, notes) = part.resolve(&work)?;
        let parts = launch_parts(&work, &how, question.series).into_iter();
        let idle = idle_parts(&work, &how, 0);
        let idle = idle.iter().filter(|found| part.wants(found.step));
        let idle = IdleVerdict::of(idle.map(|found| &found.idle));
        let answer = Self {
            parts: parts
                .filter(|found| part.wants(found.step))
                .map(|found| (part::row_key(label, &how, found.step), found.launches))
                .collect(),
            idle,
            recorder: Recorder::of(trace),
            notes,
        };
        Ok(Answered::new(label, answer, part::no_gpu_work(&work, &how)))
    }

    /// Returns the launches of each part.
    pub fn rows(&self) -> impl Iterator<Item = (RowKey, &Launches)> {
        let rows = self.parts.iter();
        rows.map(|(of, launches)| (of.clone(), launches))
    }
}

/// Returns the document: latencies, queues, their course, notes.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(question: &Question, answered: &[Answered<Answer>]) -> Result<Document> {
    let all: Vec<(RowKey, &Launches)> = answered.iter().flat_map(|a| a.answer.rows()).collect();
    let notes = answered.iter().flat_map(|a| {
        let notes = a.answer.notes.iter();
        notes.map(|note| (a.label.as_str(), note))
    });
    let mut document = Document::new(tables::SCHEMA_VERSION);
    document.push(tables::launches(&all)?);
    document.push(tables::depth(&all)?);
    if question.series > 0 {
        document.push(tables::depth_series(&all, false)?);
    }
    document.push(tables::notes(notes)?);
    for one in answered {
        document.heading(&one.label);
        if document.reason(one.no_gpu_work.as_ref()) {
            continue;
        }
        let answer = &one.answer;
        let parts: Vec<&Launches> = answer.parts.iter().map(|part| &part.1).collect();
        document.sentence(gpu_time::answer::launch(
            &parts,
            &answer.idle,
            answer.recorder,
        ));
        document.notes(&answer.notes);
        add_text(question, answer, &mut document)?;
    }
    Ok(document)
}

fn add_text(question: &Question, answer: &Answer, document: &mut Document) -> Result<()> {
    let rows: Vec<(RowKey, &Launches)> = answer.rows().collect();
    let sum = |f: fn(&Launches) -> u64| rows.iter().map(|row| f(row.1)).sum::<u64>();
    document.line("linked", human::count(sum(|l| l.linked)));
    let unlinked = sum(|l| l.unlinked);
    if unlinked > 0 {
        let ns = rows.iter().map(|row| row.1.unlinked_ns).sum();
        let time = human::duration(precise(ns));
        let count = human::count(unlinked);
        document.line("unlinked", format!("{count}, {time} of work"));
    }
    let negative = sum(|l| l.rows.first().map_or(0, |row| row.times.negative));
    if negative > 0 {
        let text = "start before their call does: clocks disagree";
        document.line("skewed", format!("{} {text}", human::count(negative)));
    }
    let unmeasured = rows.iter().any(|(_, l)| {
        let mut rows = l.rows.iter();
        let all = rows.find(|row| row.stream.is_none() && row.kind == LaunchKind::All);
        all.is_some_and(|row| row.times.queue_gap.count > 0 && row.times.queue_gap.median_ns <= 1.0)
    });
    if unmeasured {
        let text = "1 ns or less between queued work: this recorder lets work begin where the work \
                    before it ends, so launch gaps are not measured";
        document.line("resolution", text);
    }
    // The sentence says why there are no latencies.
    if sum(|l| l.calls) == 0 {
        return Ok(());
    }
    if question.part.by_step() {
        if !rows.is_empty() {
            document.table("", tables::launch_steps(&rows)?);
        }
        return Ok(());
    }
    for (_, result) in &rows {
        document.table("", tables::launches_narrow(result)?);
    }
    if rows.iter().any(|row| !row.1.depth.is_empty()) {
        document.table("queues", tables::depth(&rows)?);
    }
    if question.series > 0 {
        document.table("queues over time", tables::depth_series(&rows, true)?);
    }
    Ok(())
}
