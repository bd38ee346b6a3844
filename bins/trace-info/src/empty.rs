//! Reads traces for an answer; traces without GPU activity: the warning, and `--fail-on-empty`.

use std::path::PathBuf;

use clap::Args;
use cli::{Outcome, VerbosityArgs};
use gpu_time::{NoGpuWork, Passing, WorkKind};
use perfetto_reader::{ArgPolicy, ReadOptions};
use trace_input::{Deciding, NamedTrace, PassedKind, PassedWork};
use trace_model::{DeviceId, StreamId};
use trace_report::Answered;

use crate::args::ReportArgs;
use crate::document::explain;

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

/// How a run ends once its results are written.
pub(crate) struct End {
    empty: EmptyTraces,
    failed: Option<anyhow::Error>,
}

impl End {
    /// Warns of traces without GPU activity and returns the outcome of the run.
    ///
    /// # Errors
    ///
    /// Returns an error if a trace could not be read.
    pub(crate) fn outcome(self, report: &ReportArgs) -> anyhow::Result<Outcome> {
        let outcome = self.empty.end(report.empty, report.verbosity);
        self.failed.map_or(Ok(outcome), Err)
    }
}

/// Reads several traces as [`trace_input::read_each`] does, with the arguments of these keys. Returns the answers about those
/// that could be read, in the order of the paths.
///
/// # Errors
///
/// Returns the error of the only trace.
pub(crate) fn read_each<T: Send>(
    report: &ReportArgs,
    paths: &[PathBuf],
    keys: &[String],
    choose: impl Fn(&mut ReadOptions) + Sync,
    answer: impl Fn(&NamedTrace) -> trace_report::Result<Answered<T>> + Sync,
) -> anyhow::Result<(Vec<Answered<T>>, End)> {
    let never = (|| None::<()>, |(): &mut (), _: &Passing<'_>| {}, None);
    let answer = |input: &NamedTrace, _: Option<()>| answer(input);
    read_each_passing(report, paths, keys, choose, never, answer)
}

/// Reads several traces as [`read_each`] does, without keeping GPU activities where [`trace_input::read_each_passing`] can do
/// without: `take` gets them, with a state made by `fresh`, and with their launches and the operators that are `deciding`.
///
/// # Errors
///
/// Returns the error of the only trace.
pub(crate) fn read_each_passing<T: Send, C>(
    report: &ReportArgs,
    paths: &[PathBuf],
    keys: &[String],
    choose: impl Fn(&mut ReadOptions) + Sync,
    (fresh, take, deciding): (
        impl Fn() -> Option<C> + Sync,
        impl Fn(&mut C, &Passing<'_>) + Sync,
        Option<Deciding<'_>>,
    ),
    answer: impl Fn(&NamedTrace, Option<C>) -> trace_report::Result<Answered<T>> + Sync,
) -> anyhow::Result<(Vec<Answered<T>>, End)> {
    let take = |state: &mut C, work: &PassedWork<'_>| take(state, &passing(work));
    let choose = |options: &mut ReadOptions| {
        // Only the analysis of memory reads counters.
        options.counters = false;
        options.args = ArgPolicy::Only(keys.to_vec());
        choose(options);
    };
    let analyse = |input: &NamedTrace, state: Option<C>| {
        let answered = answer(input, state).map_err(explain)?;
        Ok((input.name.clone(), answered))
    };
    let (input, verbosity) = (&report.input, report.verbosity);
    let passing = (fresh, take, deciding);
    let each = trace_input::read_each_passing(paths, input, verbosity, choose, passing, analyse)?;
    let mut end = End {
        empty: EmptyTraces::default(),
        failed: each.failed,
    };
    let mut all = Vec::with_capacity(each.results.len());
    for (name, answered) in each.results {
        end.empty.add(&name, answered.no_gpu_work.clone());
        all.push(answered);
    }
    Ok((all, end))
}

/// Returns an activity that a reader passes on, as analyses take it.
fn passing<'w>(work: &PassedWork<'w>) -> Passing<'w> {
    Passing {
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
        operators: work.operators,
    }
}
