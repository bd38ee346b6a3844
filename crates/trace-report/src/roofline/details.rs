//! Kernels with shapes, rates and launch configurations.

use gpu_time::{GpuWork, Note};
use report::human;
use roofline::{KernelDetail, analyse, details_table, kernel_details, text};
use trace_model::Trace;
use trace_model::kernel::display_names;

use super::{Known, VERSION, wants};
use crate::part::{self, PartChoice};
use crate::{Answered, Document, Form, Result, RulesChoice};

/// Rows of each recording in text.
const TOP: usize = 20;

/// Kernels of one recording with what is known about each.
#[derive(Debug)]
pub struct Details {
    sentence: String,
    rows: Vec<KernelDetail>,
    notes: Vec<Note>,
}

impl Details {
    /// Finds the details of a recording's kernels. `captures` are recordings of the captures of the graphs that it replays; `tp`
    /// is the number of ranks of tensor parallelism, and `device` the key of the device, if stated.
    ///
    /// # Errors
    ///
    /// As [`Answer::new`](super::Answer::new).
    pub fn new(
        (part, rules): (&PartChoice, &RulesChoice),
        (known, tp, device): (&Known, Option<u32>, Option<&str>),
        captures: &[&Trace],
        (label, trace): (&str, &Trace),
    ) -> Result<Answered<Self>> {
        let work = rules.work(trace);
        let (how, notes) = part.resolve(&work)?;
        let captured: Vec<GpuWork<'_>> = captures.iter().map(|trace| GpuWork::new(trace)).collect();
        let captured: Vec<&GpuWork<'_>> = captured.iter().collect();
        let options = known.options(tp, device);
        let analysis = analyse(&work, &captured, &options, |call| wants(&how, call))?;
        let details = Self {
            sentence: text::answer(&analysis),
            rows: kernel_details(&work, &analysis, |call| wants(&how, call)),
            notes,
        };
        Ok(Answered::new(
            label,
            details,
            part::no_gpu_work(&work, &how),
        ))
    }

    /// Returns the keys of the arguments that details need.
    #[must_use]
    pub fn arg_keys(part: &PartChoice) -> Vec<String> {
        let mut keys = part.arg_keys();
        let more = roofline::ARG_KEYS.iter().chain(roofline::DETAIL_KEYS);
        keys.extend(more.map(|key| (*key).to_owned()));
        keys
    }

    /// Returns how much has numbers, and how near to the limit that runs, as a sentence.
    #[must_use]
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// Returns the document: at most `top` kernels of each recording.
    ///
    /// # Errors
    ///
    /// Returns an error if a table cannot be made.
    pub fn document(
        answered: &[Answered<Self>],
        top: Option<usize>,
        form: Form,
    ) -> Result<Document> {
        let mut document = Document::new(VERSION);
        let all: Vec<(&str, &[KernelDetail])> = answered
            .iter()
            .map(|one| (one.label.as_str(), &*one.answer.rows))
            .collect();
        document.push(details_table(&all, top.unwrap_or(usize::MAX), true)?);
        for one in answered.iter().filter(|_| form.is_text()) {
            document.heading(&one.label);
            if !document.reason(one.no_gpu_work.as_ref()) {
                one.answer.add_text(top.unwrap_or(TOP), &mut document)?;
            }
        }
        Ok(document)
    }

    fn add_text(&self, top: usize, document: &mut Document) -> Result<()> {
        document.sentence(self.sentence.as_str());
        document.notes(&self.notes);
        let title = format!("{} of {} rows", top.min(self.rows.len()), self.rows.len());
        let shown = as_shown(self.rows.iter().take(top));
        document.table(&title, details_table(&[("", &shown)], top, false)?);
        for row in &shown {
            if let (Some(pct), Some(why)) = (row.pct(), row.beyond()) {
                let text = format!("{} {}: {why}", row.name, human::percent(pct));
                document.line("beyond", text);
            }
        }
        Ok(())
    }
}

/// Returns rows with the names of kernels and sizes as text shows them.
fn as_shown<'r>(rows: impl Iterator<Item = &'r KernelDetail> + Clone) -> Vec<KernelDetail> {
    let names = display_names(rows.clone().map(|row| row.name.as_str()));
    rows.map(|row| {
        let mut shown = row.clone();
        if let Some(name) = names.get(row.name.as_str()) {
            shown.name.clone_from(name);
        }
        shown.dims = text::shapes(&row.dims);
        shown
    })
    .collect()
}
