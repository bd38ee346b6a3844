//! Memory that is in use and reserved.

use gpu_time::tables::{self, RowKey};
use gpu_time::{GpuWork, Lack, MEMORY_KEYS, Memory, MemoryLines, Note, Recorder, Step};
use report::human;
use trace_model::Trace;

use crate::part::{self, PartChoice};
use crate::{Answered, Document, Result, precise};

/// What is asked about memory.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// Which part of each recording.
    pub part: PartChoice,
    /// Number of stretches of time for which the course of each line is listed; 0 for none. Steps have none.
    pub series: u32,
}

impl Question {
    /// Returns the keys of the arguments that the answer needs; it needs counters as well.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let mut keys = self.part.arg_keys();
        keys.extend(MEMORY_KEYS.iter().map(|key| (*key).to_owned()));
        keys
    }
}

/// Memory of one recording.
#[derive(Debug)]
pub struct Answer {
    parts: Vec<(RowKey, Memory)>,
    notes: Vec<Note>,
    recorder: Recorder,
}

impl Answer {
    /// Follows the memory of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the part that was asked for.
    pub fn new(question: &Question, label: &str, trace: &Trace) -> Result<Answered<Self>> {
        let answer = Self::of(question, label, trace)?;
        // Memory of the host is a result too.
        let why = match answer.is_empty() {
            true => gpu_time::no_gpu_work(GpuWork::new(trace).index()),
            false => None,
        };
        Ok(Answered::new(label, answer, why))
    }

    fn of(question: &Question, label: &str, trace: &Trace) -> Result<Self> {
        let lines = MemoryLines::new(trace);
        let recorder = Recorder::of(trace);
        if question.part.is_whole() {
            let of = RowKey {
                trace: label.to_owned(),
                ..RowKey::default()
            };
            return Ok(Self {
                parts: vec![(of, lines.within(None, question.series))],
                notes: Vec::new(),
                recorder,
            });
        }
        let work = GpuWork::new(trace);
        let (how, notes) = question.part.resolve(&work)?;
        let parts = match &how.steps {
            None => vec![(
                part::row_key(label, &how, None),
                lines.within(how.window, question.series),
            )],
            Some(steps) => {
                let within = |(at, step): (usize, &Step)| {
                    let range = match how.window {
                        Some(window) => step.range.intersect(window)?,
                        None => step.range,
                    };
                    let of = part::row_key(label, &how, Some(at));
                    Some((of, lines.within(Some(range), 0)))
                };
                steps.iter().enumerate().filter_map(within).collect()
            }
        };
        Ok(Self {
            parts,
            notes,
            recorder,
        })
    }

    /// Returns `true` if no memory is recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.parts.iter().all(|(_, found)| found.rows.is_empty())
    }
}

/// Returns the document: the lines of memory of each part, their course.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(question: &Question, answered: &[Answered<Answer>]) -> Result<Document> {
    let parts = || answered.iter().flat_map(|one| &one.answer.parts);
    let mut document = Document::new(tables::SCHEMA_VERSION);
    let rows: Vec<(RowKey, &Memory)> = parts().map(|(of, found)| (of.clone(), found)).collect();
    document.push(tables::memory(&rows)?);
    if question.series > 0 {
        let all = parts().map(|(of, found)| (of.trace.as_str(), found));
        document.push(tables::memory_series(all, false)?);
    }
    for one in answered {
        document.heading(&one.label);
        if !document.reason(one.no_gpu_work.as_ref()) {
            add_text(question, (&one.label, &one.answer), &mut document)?;
        }
    }
    Ok(document)
}

fn add_text(
    question: &Question,
    (label, answer): (&str, &Answer),
    document: &mut Document,
) -> Result<()> {
    document.notes(&answer.notes);
    let Some((_, result)) = answer.parts.first() else {
        return Ok(());
    };
    if answer.is_empty() {
        let why = match result.was_asked_for {
            true => "Cannot say how much memory is in use: the recording asked for memory \
                     (profile_memory), but the file holds no allocation event and no counter of \
                     memory. Either nothing was allocated while it ran (CUDA graphs and engines \
                     with a pool of their own allocate before), or the events were left out of \
                     the export."
                .to_owned(),
            false => format!(
                "Cannot say how much memory is in use: no allocation event and no counter of \
                 memory is in the file; record them ({}).",
                Lack::Memory.how(answer.recorder)
            ),
        };
        document.sentence(why);
        return Ok(());
    }
    if question.part.by_step() {
        document.table("", tables::memory_steps(&answer.parts)?);
        return Ok(());
    }
    if let Some(peak) = peak(result) {
        document.sentence(peak);
    }
    document.table("", tables::memory_narrow(result)?);
    if question.series > 0 {
        document.table("over time", tables::memory_series([(label, result)], true)?);
    }
    Ok(())
}

/// Returns the peak of the device with the largest one, as a sentence.
fn peak(memory: &Memory) -> Option<String> {
    let rows = memory.rows.iter();
    let devices = rows.filter(|row| row.device.is_none_or(|d| d >= 0));
    let row = devices.max_by_key(|row| row.peak_bytes)?;
    let device = match row.device {
        Some(device) => format!("{} {device}", row.what),
        None => row.what.clone(),
    };
    let bytes = |n: i64| human::bytes(precise(n));
    let reserved = match row.peak_reserved_bytes {
        Some(n) => format!("; at most {} are reserved", bytes(n)),
        None => String::new(),
    };
    Some(format!(
        "Memory of {device} peaks at {}, and ends at {}{reserved}.",
        bytes(row.peak_bytes),
        bytes(row.last_bytes)
    ))
}
