//! What is reported, and how.

use std::io::Write;

use launch_stacks::{
    Alignment, Answer, CollectiveWait, MeasuredStack, MergedStack, RankTrace, StackWait, Transfer,
    align_ranks, collective_waits, merge, transfers, waits_by_stack,
};
use trace_model::kernel::{Activity, TraceIndex, Vocabulary};
use trace_model::{Rank, Trace};

use crate::{csv, folded, html, json, markdown, speedscope, svg, text};

/// Formats of the report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text for people.
    Text,
    /// One JSON document, exact values.
    Json,
    /// One line for each stack.
    Csv,
    /// Folded stacks, as flame graph tools read them.
    Folded,
    /// A flame graph.
    Svg,
    /// A self-contained page.
    Html,
    /// A profile for speedscope.app.
    Speedscope,
    /// Markdown for tickets.
    Markdown,
}

/// What folded stacks and flame graphs weigh.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Weight {
    /// Launch calls.
    #[default]
    Launches,
    /// Kernel time.
    GpuNs,
    /// Exposed communication.
    ExposedNs,
}

/// How a report is written.
#[derive(Debug, Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches")]
pub struct Style {
    /// In the form of the original: stacks alone.
    pub compat: bool,
    /// The second trace is compared with the first.
    pub diff: bool,
    /// Stacks of all ranks are sorted by time.
    pub by_time: bool,
    /// The launch call comes first.
    pub leaf_first: bool,
    /// Control and non-ASCII characters in text are written as `\xNN`.
    pub escape: bool,
    /// How kernels were linked, contradictions, and what could not be linked.
    pub diagnostics: bool,
    /// Weights.
    pub weight: Weight,
    /// Columns that tables of the text may take; any number if there is no terminal.
    pub width: Option<usize>,
}

/// A trace with the properties of its file.
#[derive(Debug)]
pub struct Input {
    /// Path, for people.
    pub path: String,
    /// Digest of the file, if the report shows it.
    pub sha256: Option<String>,
    /// The rank that recorded it.
    pub rank: Rank,
    /// The trace.
    pub trace: Trace,
}

/// A trace with its answer.
#[derive(Debug)]
pub struct Answered {
    /// The trace.
    pub input: Input,
    /// The answer.
    pub answer: Answer,
    /// Reason for missing GPU activity, if there is none.
    pub(crate) no_gpu_activity: Option<String>,
    /// Number of CUDA graphs recorded as a whole, whose kernels are not known.
    pub(crate) graphs_whole: u64,
    /// Launch API calls of the whole trace.
    pub(crate) calls: Calls,
    /// Time of each collective of the answer without waiting, if the recordings of all its ranks
    /// give it.
    pub(crate) transfers: Vec<Option<Transfer>>,
}

/// Numbers of calls that launch kernels.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Calls {
    pub(crate) launches: u64,
    pub(crate) graphs: u64,
}

impl Answered {
    /// Searches the whole trace for the reasons why there is no stack; skipped if there is one.
    #[must_use]
    pub fn new(input: Input, answer: Answer) -> Self {
        let (mut calls, mut why) = (Calls::default(), None);
        if answer.absence.is_some() {
            let index = TraceIndex::new(&input.trace, Vocabulary::of(&input.trace));
            why = gpu_time::no_gpu_work(&index).map(|why| why.text);
            for call in index.activities().calls() {
                match index.activity(input.trace.slice(*call)) {
                    Activity::Launch => calls.launches += 1,
                    Activity::GraphLaunch => calls.graphs += 1,
                    _ => {}
                }
            }
        }
        let whole = input.trace.meta().limit("graphs_whole");
        Self {
            graphs_whole: whole.map_or(0, |limit| limit.count),
            input,
            answer,
            no_gpu_activity: why,
            calls,
            transfers: Vec::new(),
        }
    }
}

/// Data of the report.
#[derive(Debug)]
pub struct Report<'a> {
    pub(crate) style: Style,
    /// Name of the selection of kernels.
    pub(crate) kernels: String,
    pub(crate) traces: &'a [Answered],
    pub(crate) captures: &'a [(String, Trace)],
    /// Results that need several ranks.
    pub(crate) ranks: Option<Ranks>,
    /// Evidence against the traces being the ranks of one job.
    pub warnings: Vec<String>,
}

/// Results that need several ranks.
#[derive(Debug)]
pub(crate) struct Ranks {
    pub(crate) merged: Vec<MergedStack>,
    pub(crate) alignment: Alignment,
    pub(crate) waits: Vec<CollectiveWait>,
    pub(crate) by_stack: Vec<StackWait>,
}

impl<'a> Report<'a> {
    /// Combines the answers about the selected `kernels`; `captures` are the traces in which graphs were captured.
    #[must_use]
    pub fn new(
        style: Style,
        kernels: String,
        traces: &'a mut [Answered],
        captures: &'a [(String, Trace)],
    ) -> Self {
        let mut ranks = (traces.len() > 1 && !style.diff).then(|| Ranks::new(traces));
        let traces: &'a [Answered] = traces;
        if let Some(ranks) = ranks.as_mut().filter(|_| style.by_time) {
            ranks
                .merged
                .sort_by_key(|stack| std::cmp::Reverse(stack.gpu_ns()));
        }
        Self {
            style,
            kernels,
            traces,
            captures,
            ranks,
            warnings: Vec::new(),
        }
    }

    /// Writes the report in a format.
    ///
    /// # Errors
    ///
    /// Returns an error if `out` does.
    pub fn write(&self, format: Format, out: &mut dyn Write) -> report::Result<()> {
        match format {
            Format::Text => text::write(self, out),
            Format::Json => json::write(self, out),
            Format::Csv => csv::write(self, out),
            Format::Folded => folded::write(self, out),
            Format::Svg => svg::write(self, out),
            Format::Html => html::write(self, out),
            Format::Speedscope => speedscope::write(self, out),
            Format::Markdown => markdown::write(self, out),
        }
    }

    /// Returns the frames of a stack of one trace, outermost first.
    pub(crate) fn frames<'s>(&self, trace: &'s Answered, stack: &MeasuredStack) -> Vec<&'s str> {
        trace.answer.stacks.table.root_first(stack.group.stack)
    }

    /// Returns the weight of a stack in folded stacks and flame graphs.
    pub(crate) fn weight(&self, stack: &MeasuredStack) -> u64 {
        let measures = stack.measures.as_ref();
        let ns = |ns: Option<i64>| ns.and_then(|n| u64::try_from(n).ok()).unwrap_or(0);
        match self.style.weight {
            Weight::Launches => stack.group.count() as u64,
            Weight::GpuNs => ns(measures.map(|m| m.gpu.total_ns)),
            Weight::ExposedNs => ns(measures.and_then(|m| m.exposed_ns)),
        }
    }

    /// Returns a title for the weights.
    pub(crate) fn weight_title(&self) -> &'static str {
        match self.style.weight {
            Weight::Launches => "launches",
            Weight::GpuNs => "kernel time",
            Weight::ExposedNs => "exposed communication",
        }
    }

    /// Returns `true` if the weights are times.
    pub(crate) fn weighs_time(&self) -> bool {
        self.style.weight != Weight::Launches
    }
}

impl Ranks {
    /// Joins the ranks, and assigns each its transfers.
    fn new(traces: &mut [Answered]) -> Self {
        let ranks: Vec<RankTrace<'_>> = traces
            .iter()
            .map(|t| RankTrace {
                rank: t.input.rank,
                trace: &t.input.trace,
                runs: &t.answer.collectives,
            })
            .collect();
        let alignment = align_ranks(&ranks);
        let waits = collective_waits(&ranks, &alignment);
        let transfers = transfers(&ranks, &alignment);
        for (trace, transfers) in traces.iter_mut().zip(transfers) {
            trace.answer.set_transfers(&transfers);
            trace.transfers = transfers;
        }
        let answers: Vec<&Answer> = traces.iter().map(|t| &t.answer).collect();
        Self {
            merged: merge(&answers),
            by_stack: waits_by_stack(&answers, &waits),
            alignment,
            waits,
        }
    }
}
