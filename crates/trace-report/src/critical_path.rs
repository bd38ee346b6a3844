//! Step times, the critical path of each step, and what a change would gain.

use std::borrow::Cow;

use critical_path::tables::{self, Form};
use critical_path::{
    Analysis, Change, Graph, Mark, Options, Part, PartOptions, analyse, doubts, lines, path_trace,
    sentences,
};
use gpu_time::comm::{CommRules, Job as Collectives, RankDigest, arg_keys, assign_ranks};
use gpu_time::{GpuWork, Lack, Note, Recorder};
use report::Table;
use serde::Serialize;
use trace_model::kernel::{TraceIndex, Vocabulary};
use trace_model::{BuildError, Trace, ranks};

use crate::answered::reasons_only;
use crate::comm::notes_on_ranks;
use crate::{Answered, Document, Result};

/// Schema name of the JSON document.
const SCHEMA: &str = "critical-path/1";

/// Maximum number of rows of truncated tables in text.
const ROWS: usize = 12;

/// What is asked about critical paths.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct Question {
    /// `true` if all of each recording is one step, in place of the marks of the engine or the cycles of its loop.
    pub whole: bool,
    /// Pattern of the names of slices that are steps.
    pub step_pattern: Option<String>,
    /// Only the step of this number, from 1.
    pub step: Option<u32>,
    /// Changes to predict.
    pub what_if: Vec<Change>,
    /// Number of the largest names on the path without each of which to predict.
    pub opportunities: usize,
    /// `true` to list the segments of the path.
    pub path: bool,
    /// `true` to list the GPU activities with their slack.
    pub ops: bool,
    /// `true` to keep the segments of the path for [`Answer::take_tracks`].
    pub tracks: bool,
    /// `true` to leave out dependencies that rest on stated rules or on timing.
    pub no_guesses: bool,
    /// How to leave these out, in the words of the program that asks; empty for no advice.
    pub no_guesses_remedy: Cow<'static, str>,
    /// Classes of kernels.
    pub vocabulary: Vocabulary,
}

impl Question {
    /// Returns the keys of the arguments that the answer needs.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let keys = critical_path::ARG_KEYS.iter().chain(rca_cycles::ARG_KEYS);
        let mut keys: Vec<String> = keys.map(|key| (*key).to_owned()).collect();
        keys.extend(arg_keys());
        keys
    }

    /// Reduces a recording to what the paths need: the trace can be dropped. `name` is that of the file, which may hold its
    /// rank; `is_one_of_several` states that there are recordings of other ranks.
    ///
    /// Cost: as [`Part::new`].
    #[must_use]
    pub fn recording(
        &self,
        (name, label): (&str, &str),
        trace: &Trace,
        is_one_of_several: bool,
    ) -> Answered<Recording> {
        let work = GpuWork::with_vocabulary(trace, self.vocabulary.clone());
        let index = work.index();
        let (marks, steps_by) = self.marks(index);
        let mut options = PartOptions::default();
        options.guesses = !self.no_guesses;
        let needs_collectives = is_one_of_several || self.what_if.iter().any(Change::needs_sizes);
        let digest = needs_collectives
            .then(|| RankDigest::of_part(name, index, CommRules::Extended, |_| true));
        let meta = trace.meta();
        let rank = ranks::Recording::new(name, meta).rank(false);
        let rank = digest.as_ref().map_or(rank, |digest| Some(digest.rank));
        let part = Part::new(index, rank.map_or(0, |rank| rank.0), &marks, options);
        let why = match work.events().is_empty() {
            true => gpu_time::no_gpu_work(index),
            false => None,
        };
        let recording = Recording {
            part,
            digest,
            world_size: meta.distributed.as_ref().and_then(|job| job.world_size),
            steps_by,
            has_calls: !index.activities().calls().is_empty(),
            recorder: Recorder::of(trace),
            damage: gpu_time::damage(trace),
        };
        Answered::new(label, recording, why)
    }

    /// Returns the marks of the engine, else the cycles of its loop, else none: then the whole recording is one step.
    fn marks(&self, index: &TraceIndex<'_>) -> (Vec<Mark>, &'static str) {
        match self.whole {
            true => (Vec::new(), "whole"),
            false => rca_cycles::step_marks(index, self.step_pattern.as_deref()),
        }
    }
}

/// What is kept of one recording.
#[derive(Debug)]
pub struct Recording {
    part: Part,
    /// Its collectives, if needed.
    digest: Option<RankDigest>,
    /// Number of ranks of the job, if the file states it.
    world_size: Option<u32>,
    /// Method by which its steps were found.
    steps_by: &'static str,
    has_calls: bool,
    recorder: Recorder,
    damage: Vec<Note>,
}

/// Returns a document with the reasons alone if the recordings hold neither GPU activity nor calls of its runtime.
#[must_use]
pub fn nothing(recordings: &[Answered<Recording>]) -> Option<Document> {
    let no_calls = recordings.iter().all(|one| !one.answer.has_calls);
    reasons_only(recordings, tables::SCHEMA_VERSION).filter(|_| no_calls)
}

/// Recordings of the ranks of one job, sorted.
#[derive(Debug)]
pub struct Ranks {
    recordings: Vec<Recording>,
    notes: Vec<Note>,
}

impl Ranks {
    /// Sorts recordings by rank, and notes what is missing.
    ///
    /// # Errors
    ///
    /// Returns an error if several recordings are not the ranks of one job.
    pub fn new(question: &Question, recordings: Vec<Answered<Recording>>) -> Result<Self> {
        let mut recordings: Vec<Recording> = recordings.into_iter().map(|one| one.answer).collect();
        let mut notes = order(&mut recordings)?;
        notes.extend(missing(question, &recordings));
        Ok(Self { recordings, notes })
    }

    /// Returns the number of ranks.
    #[must_use]
    pub fn count(&self) -> usize {
        self.recordings.len()
    }

    /// Joins the recordings by their collectives.
    #[must_use]
    pub fn join(self) -> Job {
        let Self { recordings, notes } = self;
        let steps_by = recordings.first().map_or("whole", |one| one.steps_by);
        let is_one = recordings.len() == 1;
        let damage = recordings.iter().flat_map(|one| {
            let of_rank = |mut note: Note| {
                if !is_one {
                    note.text = format!("{} (rank {})", note.text, one.part.rank());
                }
                note
            };
            one.damage.iter().cloned().map(of_rank)
        });
        Job {
            damage: damage.collect(),
            graph: graph(recordings),
            steps_by,
            notes,
        }
    }
}

/// Sorts the ranks, and returns notes on how they were assigned.
fn order(recordings: &mut Vec<Recording>) -> Result<Vec<Note>> {
    if recordings.len() < 2 {
        return Ok(Vec::new());
    }
    // The digests are sorted as in `comm`; recordings follow by their names.
    let mut digests: Vec<RankDigest> = recordings
        .iter_mut()
        .filter_map(|one| one.digest.take())
        .collect();
    let sources = digests.iter().map(|digest| digest.source.clone());
    let mut parts: Vec<(String, Option<Recording>)> =
        sources.zip(recordings.drain(..).map(Some)).collect();
    let found = assign_ranks(&mut digests)?;
    for digest in digests {
        let slot = parts
            .iter_mut()
            .find(|(source, part)| *source == digest.source && part.is_some());
        if let Some(mut one) = slot.and_then(|slot| slot.1.take()) {
            one.part.set_rank(digest.rank.0);
            one.digest = Some(digest);
            recordings.push(one);
        }
    }
    Ok(notes_on_ranks(&found, recordings.len()))
}

/// Returns notes on missing data, and what to record to get them.
fn missing(question: &Question, recordings: &[Recording]) -> Vec<Note> {
    let mut notes = Vec::new();
    if let Some(without) = recordings.iter().find(|one| !one.has_calls) {
        notes.push(Note::new(
            "no_host_events",
            format!(
                "no runtime calls are recorded: the order on each stream is all that is known, launch and host time are part \
                 of unknown; record the calls of the host as well ({})",
                Lack::HostEvents.how(without.recorder)
            ),
        ));
    }
    let is_whole = recordings.iter().all(|one| one.steps_by == "whole");
    if question.step_pattern.is_some() && is_whole {
        notes.push(Note::new(
            "no_such_steps",
            "no annotation has a name like the pattern: the whole recording is one step",
        ));
    }
    let world = recordings.iter().filter_map(|one| one.world_size).max();
    if let Some(world) = world.filter(|world| recordings.len() < *world as usize) {
        let text = format!(
            "of {world} ranks only {} recorded: waiting for the others is part of the time of collectives; give the traces of all \
             ranks",
            match recordings.len() {
                1 => "1 is".to_owned(),
                n => format!("{n} are"),
            }
        );
        notes.push(Note::new("missing_ranks", text));
    }
    notes
}

fn graph(recordings: Vec<Recording>) -> Graph {
    let (mut parts, mut digests) = (Vec::with_capacity(recordings.len()), Vec::new());
    for one in recordings {
        parts.push(one.part);
        digests.extend(one.digest);
    }
    if digests.len() != parts.len() {
        return Graph::new(parts, None);
    }
    let job = Collectives::new(&digests);
    Graph::new(parts, Some((&digests, &job)))
}

/// The joined recordings of a job.
#[derive(Debug)]
pub struct Job {
    graph: Graph,
    steps_by: &'static str,
    notes: Vec<Note>,
    damage: Vec<Note>,
}

impl Job {
    /// Answers the question.
    ///
    /// Cost: as [`analyse`].
    ///
    /// # Errors
    ///
    /// Returns an error if there is no step, or not the one that was asked for.
    pub fn answer(self, question: &Question) -> Result<Answer> {
        let mut options = Options::default();
        options.step = question.step;
        options.what_if.clone_from(&question.what_if);
        options.opportunities = question.opportunities;
        options.segments = question.path || question.tracks;
        options.ops = question.ops;
        let analysis = analyse(&self.graph, &options)?;
        let mut notes = self.notes;
        notes.extend(doubts(&analysis));
        Ok(Answer {
            analysis,
            steps_by: self.steps_by,
            notes,
            damage: self.damage,
        })
    }
}

/// The answer about a job.
#[derive(Debug)]
pub struct Answer {
    analysis: Analysis,
    steps_by: &'static str,
    notes: Vec<Note>,
    damage: Vec<Note>,
}

/// The JSON document: its schema, and the method by which steps were found.
#[derive(Serialize)]
struct Json<'a> {
    schema: &'static str,
    steps_by: &'static str,
    notes: Vec<&'a Note>,
    #[serde(flatten)]
    analysis: &'a Analysis,
}

impl Answer {
    /// Returns notes on missing data and doubts. What the files lost is in the documents as well, and is for who reads them to say.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns the answer in words.
    #[must_use]
    pub fn sentences(&self) -> Vec<String> {
        sentences(&self.analysis)
    }

    /// Returns the path as tracks with arrows, and drops its segments unless the question lists them.
    ///
    /// # Errors
    ///
    /// As [`path_trace`].
    pub fn take_tracks(&mut self, question: &Question) -> Result<Trace, BuildError> {
        let trace = path_trace(&self.analysis)?;
        if !question.path {
            self.analysis.segments.clear();
        }
        Ok(trace)
    }

    /// Returns the JSON document.
    pub fn json(&self) -> impl Serialize {
        Json {
            schema: SCHEMA,
            steps_by: self.steps_by,
            notes: self.damage.iter().chain(&self.notes).collect(),
            analysis: &self.analysis,
        }
    }

    /// Returns the document: the text, or the main table.
    ///
    /// # Errors
    ///
    /// Returns an error if a table cannot be made.
    pub fn document(&self, question: &Question, form: crate::Form) -> Result<Document> {
        let mut document = Document::new(tables::SCHEMA_VERSION);
        match form.is_text() {
            true => self.add_text(question, &mut document)?,
            false => document.push(self.main_table(question)?),
        }
        Ok(document)
    }

    /// Returns the main table: steps, the segments or activities, or the predictions, by what is asked.
    fn main_table(&self, question: &Question) -> report::Result<Table> {
        let analysis = &self.analysis;
        if question.path {
            return tables::segments(analysis, Form::Wide);
        }
        if question.ops {
            return tables::ops(analysis, Form::Wide);
        }
        if !question.what_if.is_empty() {
            return tables::what_if(analysis);
        }
        if !analysis.opportunities.is_empty() {
            return tables::opportunities(analysis);
        }
        tables::steps(analysis, Form::Wide, usize::MAX)
    }

    fn add_text(&self, question: &Question, document: &mut Document) -> Result<()> {
        let analysis = &self.analysis;
        for sentence in sentences(analysis) {
            document.sentence(sentence);
        }
        let remedy = question.no_guesses_remedy.as_ref();
        for (label, text) in lines(analysis, self.steps_by) {
            match label {
                "guessed" if !remedy.is_empty() => {
                    document.line(label, format!("{text} ({remedy})"));
                }
                label => document.line(label, text),
            }
        }
        document.notes(&self.damage);
        document.notes(&self.notes);
        document.table("budget", tables::budget(analysis)?);
        if !question.what_if.is_empty() {
            document.table("what if", tables::what_if(analysis)?);
        }
        if !analysis.opportunities.is_empty() {
            document.table(
                "without the largest names on the path",
                tables::opportunities(analysis)?,
            );
        }
        if analysis.steps.len() > 1 {
            document.table("steps", tables::steps(analysis, Form::Narrow, ROWS)?);
        }
        let largest = match analysis.recordings.len() {
            0 | 1 => "largest on the path",
            _ => "largest on the paths of all ranks, added up",
        };
        document.table(largest, tables::largest(analysis, ROWS)?);
        if question.path {
            document.table("path", tables::segments(analysis, Form::Narrow)?);
        }
        if question.ops {
            document.table("GPU activities", tables::ops(analysis, Form::Narrow)?);
        }
        Ok(())
    }
}
