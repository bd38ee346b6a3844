//! Traces without GPU activity: the warning, and `--fail-on-empty`.

use clap::Args;
use gpu_time::NoGpuWork;
use shell::{Outcome, VerbosityArgs};

/// What to do about a trace without GPU activity.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct EmptyArgs {
    /// Exit with 1 when a trace holds no GPU activity
    #[arg(long)]
    pub(crate) fail_on_empty: bool,
}

/// The traces of a run that hold no GPU activity.
#[derive(Debug, Default)]
pub(crate) struct EmptyTraces(Vec<(String, NoGpuWork)>);

impl EmptyTraces {
    /// Takes note of a trace without GPU activity.
    pub(crate) fn add(&mut self, trace: &str, why: Option<NoGpuWork>) {
        self.0.extend(why.map(|why| (trace.to_owned(), why)));
    }

    /// Warns on standard error, one line for each trace, and returns how the run ends.
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
