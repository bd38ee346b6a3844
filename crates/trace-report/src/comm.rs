//! Collectives of the ranks of a job: bandwidth, exposure, clocks, waits, stragglers.

use gpu_time::comm::{
    CommRules, Job, RankAssignment, RankDigest, answer, arg_keys, assign_ranks, lines, tracelens,
};
use gpu_time::tables::{self, SCHEMA_VERSION, comm};
use gpu_time::{GpuWork, Note, events_by_part};
use report::Table;
use trace_model::kernel::Vocabulary;
use trace_model::{SliceId, Trace};

use crate::answered::reasons_only;
use crate::part::PartChoice;
use crate::{Answered, Document, Error, Form, Result};

/// Tables of the answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Listing {
    /// One row for each collective kernel of each rank.
    Kernels,
    /// One row for each collective: latency, bandwidth, skew, who came last.
    Collectives,
    /// One row for each rank: clock, wait time, delay caused to other ranks.
    Ranks,
    /// One row for each process group.
    Groups,
    /// By operation, group, dtype and size.
    Types,
    /// Late arrivals with what the rank did before.
    Late,
    /// Collectives that hosts carried out themselves, by rank.
    Host,
}

/// What is asked about collectives.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Question {
    /// Which part of each recording.
    pub part: PartChoice,
    /// Which kernels are collectives and how they are joined.
    pub rules: CommRules,
    /// Classes of kernels.
    pub vocabulary: Vocabulary,
    /// Only this table; the choice depends on the form without it.
    pub table: Option<Listing>,
    /// Maximum number of rows of types and late arrivals, in text.
    pub top: usize,
    /// What is made of the answer.
    pub form: Form,
}

impl Question {
    /// Creates the question about all of the collectives, by the rules of this project.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self {
            part: PartChoice::default(),
            rules: CommRules::Extended,
            vocabulary: Vocabulary::default(),
            table: None,
            top: 12,
            form,
        }
    }

    /// Returns the keys of the arguments that the answer needs.
    #[must_use]
    pub fn arg_keys(&self) -> Vec<String> {
        let mut keys = self.part.arg_keys();
        keys.extend(arg_keys());
        keys
    }

    /// Reduces a recording to the collectives of the selected part; `name` is that of the file, which may hold its rank.
    ///
    /// # Errors
    ///
    /// Returns an error if the recording does not have the part that was asked for.
    pub fn digest(&self, name: &str, label: &str, trace: &Trace) -> Result<Answered<RankDigest>> {
        let work = GpuWork::with_vocabulary(trace, self.vocabulary.clone());
        let digest = self.digest_part(name, &work)?;
        let why = match digest.time.busy_ns {
            0 => gpu_time::no_gpu_work(GpuWork::new(trace).index()),
            _ => None,
        };
        Ok(Answered::new(label, digest, why))
    }

    fn digest_part(&self, name: &str, work: &GpuWork<'_>) -> Result<RankDigest> {
        if self.part.is_whole() {
            return Ok(RankDigest::of_part(name, work.index(), self.rules, |_| {
                true
            }));
        }
        let (how, _) = self.part.resolve(work)?;
        let parts = events_by_part(work, work.events(), &how).into_iter();
        let mut kept: Vec<SliceId> = parts
            .filter(|(step, _)| self.part.wants(*step))
            .flat_map(|(_, events)| events.into_iter().map(|event| event.slice))
            .collect();
        kept.sort_unstable();
        let keep = |slice: SliceId| kept.binary_search(&slice).is_ok();
        Ok(RankDigest::of_part(name, work.index(), self.rules, keep))
    }
}

/// Returns notes on how ranks were assigned to `count` recordings.
#[must_use]
pub fn notes_on_ranks(found: &RankAssignment, count: usize) -> Vec<Note> {
    let mut notes = Vec::new();
    if found.placed && count > 1 {
        notes.push(Note::new(
            "ranks_by_place",
            "neither the files nor their names give every file a rank: ranks are numbered in the order of the names",
        ));
    }
    let doubts = found.doubts.iter();
    notes.extend(doubts.map(|doubt| Note::new(doubt.code(), doubt.to_string())));
    notes
}

/// The ranks of a job.
#[derive(Debug)]
pub struct Ranks {
    digests: Vec<RankDigest>,
    notes: Vec<Note>,
    /// Document of the reasons if no rank holds GPU activity.
    reasons: Option<Document>,
}

impl Ranks {
    /// Assigns ranks to recordings, which may come in any order.
    ///
    /// # Errors
    ///
    /// Returns an error if the recordings are not the ranks of one job.
    pub fn new(answered: Vec<Answered<RankDigest>>) -> Result<Self> {
        let reasons = reasons_only(&answered, SCHEMA_VERSION);
        let mut digests: Vec<RankDigest> = answered.into_iter().map(|one| one.answer).collect();
        let found = assign_ranks(&mut digests)?;
        Ok(Self {
            notes: notes_on_ranks(&found, digests.len()),
            digests,
            reasons,
        })
    }

    /// Returns notes on how ranks were assigned.
    #[must_use]
    pub fn notes(&self) -> &[Note] {
        &self.notes
    }

    /// Returns `true` if the document joins the collectives of the ranks, which takes a pass over all of them.
    #[must_use]
    pub fn joins(&self, question: &Question) -> bool {
        question.rules == CommRules::Extended && !self.is_reason(question)
    }

    /// Returns `true` if the document is nothing but the reasons for missing GPU activity.
    fn is_reason(&self, question: &Question) -> bool {
        let has_host = self.digests.iter().any(|digest| !digest.host.is_empty());
        self.reasons.is_some() && question.form.is_text() && !has_host
    }

    /// Returns the document: the tables that the form has, or that the question names.
    ///
    /// # Errors
    ///
    /// Returns an error if the rules do not have the table that was asked for.
    pub fn document(self, question: &Question) -> Result<Document> {
        let is_reason = self.is_reason(question);
        let mut document = match (question.rules, self.reasons) {
            (CommRules::TraceLens, _) => return by_tracelens(question, &self.digests),
            (_, Some(reasons)) if is_reason => reasons,
            _ => extended(question, &self.digests, &Job::new(&self.digests))?,
        };
        if question.form == Form::Tables {
            let notes = self.notes.iter().map(|note| ("", note));
            document.push(tables::notes(notes)?);
        }
        Ok(document)
    }
}

/// Returns TraceLens' tables; the main one is selected by the names of this crate's own tables.
fn by_tracelens(question: &Question, digests: &[RankDigest]) -> Result<Document> {
    let long = tracelens::long(digests);
    let sync = tracelens::implicit_sync(&long);
    let table = |name: Listing| -> Result<Table> {
        Ok(match name {
            Listing::Kernels => comm::tracelens_long(&long)?,
            Listing::Collectives => comm::tracelens_sync(&sync)?,
            Listing::Types => {
                comm::tracelens_sync_summary(&tracelens::implicit_sync_summary(&sync))?
            }
            Listing::Ranks => comm::tracelens_long_summary(&tracelens::long_summary(&long))?,
            Listing::Groups | Listing::Late | Listing::Host => {
                return Err(Error::NoTable {
                    available: "kernels, collectives, types and ranks",
                });
            }
        })
    };
    let chosen = match question.table {
        Some(one) => vec![one],
        None => vec![
            Listing::Kernels,
            Listing::Collectives,
            Listing::Types,
            Listing::Ranks,
        ],
    };
    let mut document = Document::new(SCHEMA_VERSION);
    for name in chosen {
        document.table(table(name)?.name(), table(name)?);
        document.push(table(name)?);
    }
    Ok(document)
}

fn extended(question: &Question, digests: &[RankDigest], job: &Job) -> Result<Document> {
    let is_text = question.form.is_text();
    let all = if is_text { question.top } else { usize::MAX };
    let table = |name: Listing| -> Result<Table> {
        Ok(match name {
            Listing::Kernels => comm::kernels(digests, job)?,
            Listing::Collectives => comm::collectives(digests, job)?,
            Listing::Ranks => comm::ranks(digests, job)?,
            Listing::Groups => comm::groups(digests, job)?,
            Listing::Types => comm::types(digests, job)?,
            Listing::Late => comm::late(digests, job, all)?,
            Listing::Host => comm::host(digests)?,
        })
    };
    let chosen = chosen(question, digests.len());
    let mut document = Document::new(SCHEMA_VERSION);
    if !is_text {
        for name in chosen {
            document.push(table(name)?);
        }
        return Ok(document);
    }
    document.sentence(answer(digests, job));
    for (label, text) in lines(digests, job) {
        document.line(label, text);
    }
    let has_kernels = digests.iter().any(|digest| !digest.runs.is_empty());
    if digests.iter().any(|digest| !digest.host.is_empty()) && question.table.is_none() {
        let title = "collectives on the host, waiting for other ranks included";
        document.table(title, comm::host(digests)?);
    }
    for name in chosen {
        // A heading without rows has no use.
        let is_empty = match name {
            Listing::Late => job.late().is_empty(),
            Listing::Host => false,
            _ => !has_kernels,
        };
        if is_empty {
            continue;
        }
        match name {
            Listing::Kernels => document.table("collective kernels", table(name)?),
            Listing::Collectives => document.table("collectives", table(name)?),
            Listing::Host => document.table("collectives on the host", table(name)?),
            Listing::Groups => document.table("groups", table(name)?),
            Listing::Ranks => document.table("ranks", comm::ranks_narrow(digests, job)?),
            Listing::Types => document.table(
                "types, most kernel time first",
                comm::types_narrow(digests, job, all)?,
            ),
            Listing::Late => document.table(
                "late arrivals, most costly first",
                comm::late_narrow(digests, job, all)?,
            ),
        }
    }
    Ok(document)
}

/// Returns the tables of an answer about this number of ranks.
fn chosen(question: &Question, ranks: usize) -> Vec<Listing> {
    match (question.table, question.form) {
        (Some(one), _) => vec![one],
        (None, Form::Text) if ranks < 2 => vec![Listing::Types, Listing::Ranks],
        (None, Form::Text) => vec![Listing::Types, Listing::Ranks, Listing::Late],
        (None, Form::MainTable) => vec![Listing::Kernels],
        (None, Form::Tables) => vec![
            Listing::Kernels,
            Listing::Collectives,
            Listing::Ranks,
            Listing::Groups,
            Listing::Types,
            Listing::Late,
            Listing::Host,
        ],
    }
}
