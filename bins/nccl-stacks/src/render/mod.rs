//! The report in all its formats.

mod csv;
mod folded;
mod html;
mod json;
mod markdown;
mod speedscope;
mod svg;
mod tables;
mod text;

pub(crate) use json::refusal;

use std::io::Write;

use launch_stacks::{
    Alignment, Answer, CollectiveWait, MeasuredStack, MergedStack, RankTrace, StackWait, Transfer,
    align_ranks, collective_waits, merge, transfers, waits_by_stack,
};
use trace_model::Trace;
use trace_model::kernel::{Activity, TraceIndex, Vocabulary};

use crate::args::{Cli, Format, Value};
use crate::input::Input;

/// A trace with its answer.
pub(crate) struct Answered {
    pub(crate) input: Input,
    pub(crate) answer: Answer,
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
#[derive(Clone, Copy, Default)]
pub(crate) struct Calls {
    pub(crate) launches: u64,
    pub(crate) graphs: u64,
}

impl Answered {
    /// Searches the whole trace for the reasons why there is no stack; skipped if there is one.
    pub(crate) fn new(input: Input, answer: Answer) -> Self {
        let (mut calls, mut why) = (Calls::default(), None);
        if answer.absence.is_some() {
            let index = TraceIndex::new(&input.trace, Vocabulary::default());
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
pub(crate) struct Report<'a> {
    pub(crate) cli: &'a Cli,
    /// Name of the selection of kernels.
    pub(crate) kernels: String,
    pub(crate) traces: &'a [Answered],
    pub(crate) captures: &'a [(String, Trace)],
    /// Results that need several ranks.
    pub(crate) ranks: Option<Ranks>,
    /// Evidence against the traces being the ranks of one job.
    pub(crate) warnings: Vec<String>,
}

/// Results that need several ranks.
pub(crate) struct Ranks {
    pub(crate) merged: Vec<MergedStack>,
    pub(crate) alignment: Alignment,
    pub(crate) waits: Vec<CollectiveWait>,
    pub(crate) by_stack: Vec<StackWait>,
}

impl<'a> Report<'a> {
    /// Combines the answers.
    pub(crate) fn new(
        cli: &'a Cli,
        kernels: String,
        traces: &'a mut [Answered],
        captures: &'a [(String, Trace)],
    ) -> Self {
        let mut ranks = (traces.len() > 1 && !cli.report.diff).then(|| Ranks::new(traces));
        let traces: &'a [Answered] = traces;
        if let Some(ranks) = ranks.as_mut().filter(|_| cli.is_text()) {
            ranks
                .merged
                .sort_by_key(|stack| std::cmp::Reverse(stack.gpu_ns()));
        }
        Self {
            cli,
            kernels,
            traces,
            captures,
            ranks,
            warnings: Vec::new(),
        }
    }

    /// Writes the report in the requested format.
    pub(crate) fn write(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match self.cli.format.format() {
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
        match self.cli.report.value {
            Value::Launches => stack.group.count() as u64,
            Value::GpuNs => ns(measures.map(|m| m.gpu.total_ns)),
            Value::ExposedNs => ns(measures.and_then(|m| m.exposed_ns)),
        }
    }

    /// Returns a title for the weights.
    pub(crate) fn weight_title(&self) -> &'static str {
        match self.cli.report.value {
            Value::Launches => "launches",
            Value::GpuNs => "kernel time",
            Value::ExposedNs => "exposed communication",
        }
    }

    /// Returns `true` if the weights are times.
    pub(crate) fn weighs_time(&self) -> bool {
        self.cli.report.value != Value::Launches
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
