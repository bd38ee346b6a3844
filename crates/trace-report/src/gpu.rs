//! GPU time: busy, idle, exposed communication.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::num::NonZero;

use gpu_time::comm::{SHAPE_KEYS, host_collectives, host_communication};
use gpu_time::compat::hta;
use gpu_time::tables::{self, GpuRow};
use gpu_time::{
    GpuEvent, GpuTime, Note, PassingTime, PlaceKind, Roles, Rules, Split, account, notes, split,
};
use trace_model::kernel::LaunchCalls;
use trace_model::{TimeRange, Trace};

use crate::headline::{Host, headline};
use crate::part::{self, PartChoice};
use crate::{Answered, Document, Outlined, Result, RulesChoice};

/// What is asked about GPU time.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question {
    /// Which part of each recording.
    pub part: PartChoice,
    /// How activity is classified, and what counts.
    pub rules: RulesChoice,
    /// One breakdown for each device or stream.
    pub by_place: Option<PlaceKind>,
    /// `true` for notes and times of each of several recordings in place of one table.
    pub details: bool,
    /// `true` to say what bounds each recording.
    pub headline: bool,
    /// `true` to examine all calls of the host for that, not only those that launch: a large recording has too many to be kept.
    pub reads_host: bool,
    /// What to do about a host that is not examined, in the words of the program that asks; empty for no advice.
    pub remedy: Cow<'static, str>,
    /// Number of threads.
    pub threads: NonZero<usize>,
}

impl Default for Question {
    fn default() -> Self {
        Self {
            part: PartChoice::default(),
            rules: RulesChoice::default(),
            by_place: None,
            details: false,
            headline: true,
            reads_host: true,
            remedy: Cow::default(),
            threads: NonZero::<usize>::MIN,
        }
    }
}

impl Question {
    /// Returns `true` if each recording has several rows.
    #[must_use]
    pub fn is_parted(&self) -> bool {
        self.part.by_step() || self.by_place.is_some()
    }

    /// Returns `true` if the text is one table of this number of recordings, without a headline for each.
    #[must_use]
    pub fn is_one_table(&self, recordings: usize) -> bool {
        recordings > 1 && !self.is_parted() && !self.details
    }

    /// Returns `true` if launches alone can give the answer, without a word on the host.
    #[must_use]
    pub fn may_be_lean(&self) -> bool {
        self.part.is_whole() && self.rules.needs_launches_only()
    }

    /// Returns the keys of the arguments that the answer needs, with those of the sizes of the host's collectives.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let mut keys = self.part.arg_keys();
        keys.extend(SHAPE_KEYS.iter().map(|key| (*key).to_owned()));
        keys
    }

    /// Returns `true` if of the host only the calls that launch GPU activity need to be read.
    #[must_use]
    pub fn needs_launches_only(&self) -> bool {
        !self.reads_host && self.may_be_lean()
    }

    /// Returns what needs to be read only in outline; `None` if the host is examined.
    #[must_use]
    pub fn outlined(&self) -> Option<Outlined> {
        let can = !self.reads_host && self.rules.needs_launches_only();
        can.then(|| Outlined::but_communicating(self.rules.vocabulary.clone()))
    }

    /// Returns a state that takes the activities one by one, if that is enough for the answer.
    #[must_use]
    pub fn passing(&self) -> Option<PassingTime> {
        let may_pass = self.needs_launches_only() && !self.rules.linked_only;
        let rules = &self.rules;
        may_pass.then(|| PassingTime::new(rules.vocabulary.clone(), rules.rules, self.by_place))
    }
}

/// GPU time of one recording.
#[derive(Debug)]
pub struct Answer {
    /// The bound of the recording, as a sentence; empty unless it is asked for.
    headline: String,
    rows: Vec<GpuRow>,
    whole: GpuTime,
    notes: Vec<Note>,
    /// Collectives of the host, in which no GPU takes part.
    host: Option<Note>,
    types: Vec<hta::Combination>,
}

impl Answer {
    /// Measures the GPU time of a recording.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the part that was asked for.
    pub fn new(question: &Question, label: &str, trace: &Trace) -> Result<Answered<Self>> {
        let work = question.rules.work(trace);
        let rules = question.rules.rules;
        let kept = question.rules.events(&work);
        let events = &*kept;
        let mut roles = Roles::new(&work, rules);
        let whole = account(&mut roles, events, None);
        let (mut how, more) = question.part.resolve(&work)?;
        how.by_place = question.by_place;
        let mut notes = notes(&work, rules, events, &whole);
        notes.extend(more);
        let plain = question.part.is_whole() && how.by_place.is_none();
        let parts = match plain {
            true => Vec::new(),
            false => split(&work, &mut roles, events, &how),
        };
        let row = |step: Option<usize>, time: GpuTime| GpuRow {
            of: part::row_key(label, &how, step),
            rules,
            events_total: trace.meta().events,
            time,
            ..GpuRow::default()
        };
        let mut rows: Vec<GpuRow> = Vec::new();
        for found in parts.iter().filter(|found| question.part.wants(found.step)) {
            rows.push(GpuRow {
                device: found.device.map(|d| d.0),
                stream: found.stream.map(|s| s.0),
                host_ns: found.step.and_then(|at| {
                    let steps = how.steps.as_ref()?;
                    Some(steps.get(at)?.range.duration().get())
                }),
                ..row(found.step, found.time)
            });
        }
        if plain {
            rows.push(row(None, whole));
        }
        if let (Some(_), [only]) = (how.window, parts.as_slice()) {
            let outside = (events.len() as u64).saturating_sub(only.time.gpu_events);
            notes.push(
                Note::new("outside", "lie outside of the window and do not count").count(outside),
            );
            let clipped = clipped(events, how.window);
            notes.push(Note::new("clipped", "are cut at an end of the window").count(clipped));
        }
        let types = match rules {
            Rules::Hta => hta::combinations(&mut roles, events),
            _ => Vec::new(),
        };
        let time = match (how.window, parts.as_slice()) {
            (Some(_), [only]) => only.time,
            _ => whole,
        };
        let devices = events
            .iter()
            .map(|event| event.device)
            .collect::<BTreeSet<_>>();
        let headline = match devices.len() {
            _ if !question.headline => String::new(),
            0 | 1 => {
                let host = || Host::of(&work, &how, question.threads.get());
                let launches = gpu_time::launch_calls(&work);
                headline(
                    &time,
                    launches,
                    question.reads_host.then(host),
                    &question.remedy,
                )
            }
            count => {
                let mut by_device = Split::default();
                by_device.window = how.window;
                by_device.by_place = Some(PlaceKind::Device);
                let parts = split(&work, &mut roles, events, &by_device);
                gpu_time::answer::devices(&parts, count, &time)
            }
        };
        let answer = Self {
            headline,
            rows,
            whole,
            notes,
            host: host_note(trace),
            types,
        };
        Ok(Answered::new(label, answer, part::no_gpu_time(&work, &how)))
    }

    /// Returns the GPU time of a recording whose activities were [passed on](Question::passing); `trace` is the rest of it.
    #[must_use]
    pub fn passed(
        question: &Question,
        label: &str,
        trace: &Trace,
        passed: PassingTime,
    ) -> Answered<Self> {
        let (whole, devices) = (passed.whole(), passed.devices());
        let mut how = Split::default();
        how.by_place = question.by_place;
        let row = |time: GpuTime| GpuRow {
            of: part::row_key(label, &how, None),
            rules: question.rules.rules,
            events_total: trace.meta().events,
            time,
            ..GpuRow::default()
        };
        let rows = match how.by_place {
            None => vec![row(whole)],
            Some(_) => {
                let parts = passed.parts().into_iter();
                parts
                    .map(|part| GpuRow {
                        device: part.device.map(|d| d.0),
                        stream: part.stream.map(|s| s.0),
                        ..row(part.time)
                    })
                    .collect()
            }
        };
        let headline = match devices.len() {
            _ if !question.headline => String::new(),
            0 | 1 => headline(&whole, LaunchCalls::default(), None, &question.remedy),
            count => gpu_time::answer::devices(&devices, count, &whole),
        };
        let mut notes = passed.notes(trace);
        notes.extend(part::notes(trace));
        let answer = Self {
            headline,
            rows,
            whole,
            notes,
            host: host_note(trace),
            types: Vec::new(),
        };
        Answered::new(label, answer, None)
    }

    /// Returns the rows: one of the recording, or one for each step, device or stream.
    #[must_use]
    pub fn rows(&self) -> &[GpuRow] {
        &self.rows
    }

    /// Returns what bounds the recording, as a sentence; empty unless it is asked for.
    #[must_use]
    pub fn headline(&self) -> &str {
        &self.headline
    }
}

/// Returns the note on collectives of the host.
fn host_note(trace: &Trace) -> Option<Note> {
    let found = host_collectives(trace);
    host_communication(&found).map(|text| {
        let sum = found.iter().map(|kind| kind.durations.sum_ns).sum();
        Note::new("host_communication", text).ns(sum)
    })
}

/// Returns the number of activities that the ends of the window cut.
fn clipped(events: &[GpuEvent], window: Option<TimeRange>) -> u64 {
    let cut = |at: i64| {
        let crosses = |e: &&GpuEvent| e.start_ns < at && at < e.end_ns;
        events.iter().filter(crosses).count() as u64
    };
    window.map_or(0, |w| cut(w.start.nanos()) + cut(w.end.nanos()))
}

/// Returns the document: a row for each recording, step, device or stream, and notes.
///
/// # Errors
///
/// Returns an error if a table cannot be made.
pub fn document(question: &Question, answered: &[Answered<Answer>]) -> Result<Document> {
    let rules = question.rules.rules;
    let rows = answered.iter().flat_map(|one| one.answer.rows.clone());
    let rows: Vec<GpuRow> = rows.collect();
    let notes = answered.iter().flat_map(|one| {
        let notes = one.answer.notes.iter().chain(&one.answer.host);
        notes.map(|note| (one.label.as_str(), note))
    });
    let mut document = Document::new(tables::SCHEMA_VERSION);
    document.push(tables::gpu(&rows)?);
    document.push(tables::notes(notes)?);
    if rules == Rules::Hta {
        let all = answered.iter();
        let types = all.map(|one| (one.label.as_str(), one.answer.types.as_slice()));
        document.push(tables::hta_types(types)?);
    }
    // The reference table has the names and units of the other tools.
    if rules != Rules::Extended {
        document.set_csv(tables::reference(&rows)?, "nan");
    }
    if question.is_one_table(answered.len()) {
        document.sentence(gpu_time::answer::traces(&rows));
        document.table("", tables::traces(&rows)?);
        return Ok(document);
    }
    for one in answered {
        add_text(question, one, &mut document)?;
    }
    Ok(document)
}

fn add_text(question: &Question, one: &Answered<Answer>, document: &mut Document) -> Result<()> {
    let answer = &one.answer;
    document.heading(&one.label);
    let is_empty = document.reason(one.no_gpu_work.as_ref());
    if !is_empty {
        document.sentence(answer.headline.clone());
        document.notes(&answer.notes);
    }
    if let Some(host) = &answer.host {
        document.line("host communication", host.text.clone());
    }
    if is_empty {
        return Ok(());
    }
    if question.is_parted() {
        if !answer.rows.is_empty() {
            document.table("", tables::parts(&answer.rows)?);
            if tables::has_outliers(&answer.rows) {
                document.line("!", "lasts more than twice the median step of its kind");
            }
        }
    } else {
        let time = answer.rows.first().map_or(answer.whole, |row| row.time);
        document.table("", tables::profile(&time)?);
    }
    if !answer.types.is_empty() {
        let types = [(one.label.as_str(), answer.types.as_slice())];
        document.table("kernel types at once", tables::hta_types(types)?);
    }
    Ok(())
}
