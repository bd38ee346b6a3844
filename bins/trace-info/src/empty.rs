//! Traces without GPU activity: the warning, and `--fail-on-empty`.

use std::path::PathBuf;

use clap::Args;
use cli::{Outcome, VerbosityArgs};
use gpu_time::{NoGpuWork, Passing, WorkKind};
use perfetto_reader::ReadOptions;
use report::SchemaVersion;
use trace_input::{NamedTrace, PassedKind, PassedWork};
use trace_model::{DeviceId, StreamId};

use crate::args::ReportArgs;
use crate::document::Document;

/// What to do about a trace without GPU activity.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct EmptyArgs {
    /// Exit with 1 when a trace holds no GPU activity
    #[arg(long, help_heading = "Output")]
    pub(crate) fail_on_empty: bool,
}

/// The traces of a run without GPU activity.
#[derive(Debug, Default)]
pub(crate) struct EmptyTraces(Vec<(String, NoGpuWork)>);

impl EmptyTraces {
    /// Records a trace without GPU activity.
    pub(crate) fn add(&mut self, trace: &str, why: Option<NoGpuWork>) {
        self.0.extend(why.map(|why| (trace.to_owned(), why)));
    }

    /// Warns on standard error, one line for each trace, and returns the outcome of the run.
    pub(crate) fn end(&self, args: EmptyArgs, verbosity: VerbosityArgs) -> Outcome {
        for (trace, why) in &self.0 {
            verbosity.note(format!("warning: {trace}: {}", why.text));
        }
        match args.fail_on_empty && !self.0.is_empty() {
            true => Outcome::ConditionFailed,
            false => Outcome::Fine,
        }
    }
}

/// Results of a command for the traces that could be read, in the order of the paths.
pub(crate) struct Answers<T> {
    /// Result of each trace.
    pub(crate) results: Vec<T>,
    /// Label of each trace in tables.
    labels: Vec<String>,
    /// Reason for each of `results` whose trace holds no GPU activity.
    reasons: Vec<Option<NoGpuWork>>,
    empty: EmptyTraces,
    failed: Option<anyhow::Error>,
}

/// Reads several traces as [`trace_input::read_each`] does. `analyse` returns its result, and the
/// reason if the trace, or the requested window of it, holds no GPU activity.
///
/// # Errors
///
/// Returns the error of the only trace.
pub(crate) fn read_each<T: Send>(
    report: &ReportArgs,
    paths: &[PathBuf],
    choose: impl Fn(&mut ReadOptions) + Sync,
    analyse: impl Fn(&NamedTrace) -> anyhow::Result<(T, Option<NoGpuWork>)> + Sync,
) -> anyhow::Result<Answers<T>> {
    let never = (|| None::<()>, |(): &mut (), _: &Passing<'_>| {}, false);
    let analyse = |input: &NamedTrace, _: Option<()>| analyse(input);
    read_each_passing(report, paths, choose, never, analyse)
}

/// Reads several traces as [`read_each`] does, without keeping GPU activities where [`trace_input::read_each_passing`] can do
/// without: `take` gets them, with a state made by `fresh`, and with their launches if `launches`.
///
/// # Errors
///
/// Returns the error of the only trace.
pub(crate) fn read_each_passing<T: Send, C>(
    report: &ReportArgs,
    paths: &[PathBuf],
    choose: impl Fn(&mut ReadOptions) + Sync,
    (fresh, take, launches): (
        impl Fn() -> Option<C> + Sync,
        impl Fn(&mut C, &Passing<'_>) + Sync,
        bool,
    ),
    analyse: impl Fn(&NamedTrace, Option<C>) -> anyhow::Result<(T, Option<NoGpuWork>)> + Sync,
) -> anyhow::Result<Answers<T>> {
    let take = |state: &mut C, work: &PassedWork<'_>| {
        take(
            state,
            &Passing {
                start_ns: work.start_ns,
                end_ns: work.end_ns,
                kind: match work.kind {
                    PassedKind::Kernel => WorkKind::Kernel,
                    PassedKind::Memcpy => WorkKind::Memcpy,
                    PassedKind::Memset => WorkKind::Memset,
                    PassedKind::Graph => WorkKind::Graph,
                },
                name: work.name_id.zip(work.name),
                device: DeviceId(work.device),
                stream: StreamId(work.stream),
                launch_ns: work.launch_ns,
            },
        );
    };
    let choose = |options: &mut ReadOptions| {
        // Only the analysis of memory reads counters.
        options.counters = false;
        choose(options);
    };
    let analyse = |input: &NamedTrace, state: Option<C>| {
        let (result, why) = analyse(input, state)?;
        Ok(((input.name.clone(), input.label.clone()), result, why))
    };
    let (input, verbosity) = (&report.input, report.verbosity);
    let passing = (fresh, take, launches);
    let each = trace_input::read_each_passing(paths, input, verbosity, choose, passing, analyse)?;
    let mut answers = Answers {
        results: Vec::with_capacity(each.results.len()),
        labels: Vec::with_capacity(each.results.len()),
        reasons: Vec::with_capacity(each.results.len()),
        empty: EmptyTraces::default(),
        failed: each.failed,
    };
    for ((name, label), result, why) in each.results {
        answers.empty.add(&name, why.clone());
        answers.labels.push(label);
        answers.results.push(result);
        answers.reasons.push(why);
    }
    Ok(answers)
}

impl<T> Answers<T> {
    /// Returns the results, each with the reason if its trace holds no GPU activity.
    pub(crate) fn with_reasons(&self) -> impl Iterator<Item = (&T, Option<&NoGpuWork>)> {
        let reasons = self.reasons.iter().map(Option::as_ref);
        self.results.iter().zip(reasons)
    }

    /// Returns a document with the reasons alone if no trace holds GPU activity.
    pub(crate) fn reasons_only(&self, version: SchemaVersion) -> Option<Document> {
        let all = self.empty.0.len() == self.reasons.len() && !self.reasons.is_empty();
        let mut document = Document::new(version);
        for (label, why) in self.labels.iter().zip(&self.reasons) {
            document.heading(label);
            instead_of_tables(&mut document, why.as_ref());
        }
        all.then_some(document)
    }

    /// Warns of traces without GPU activity and returns the outcome of the run, once the results
    /// are written.
    ///
    /// # Errors
    ///
    /// Returns an error if a trace could not be read.
    pub(crate) fn end(self, report: &ReportArgs) -> anyhow::Result<Outcome> {
        let outcome = self.empty.end(report.empty, report.verbosity);
        self.failed.map_or(Ok(outcome), Err)
    }
}

/// Writes the reason instead of a trace's tables, which would show only zeros. Returns `true` if
/// there is one.
pub(crate) fn instead_of_tables(document: &mut Document, why: Option<&NoGpuWork>) -> bool {
    if let Some(why) = why {
        document.line("empty", why.text.clone());
    }
    why.is_some()
}
