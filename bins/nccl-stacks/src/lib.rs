//! Finds the host call stacks that launched the collective kernels of a trace.

mod args;
mod input;
mod prompt;
mod question;

use std::ffi::OsString;

use cli::{OrExit as _, Outcome, Stage};
use launch_report::{Answered, Input, Report};
use launch_stacks::{Error, Query, analyse};
use trace_model::Trace;

use crate::args::{Cli, Format};
use crate::input::Inputs;

/// Runs the tool with the arguments of a command line, the tool's name first. Returns the exit
/// code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, run)
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    let inputs = cli.traces.iter().chain(&cli.kernels.capture);
    cli::refuse_overwrite(inputs, &cli.output.output)?;
    let mut query = question::query(&cli)?;
    let Inputs {
        inputs,
        doubts,
        failed,
    } = input::traces(&cli)?;
    if cli.report.diff && inputs.len() != 2 {
        return Err(cli::usage("--diff needs exactly two traces"));
    }
    let captures = input::captures(&cli)?;
    let capture_traces: Vec<&Trace> = captures.iter().map(|c| &c.1).collect();
    let several = inputs.len() > 1;
    let mut traces = Vec::with_capacity(inputs.len());
    for input in inputs {
        query.windows = question::windows(&cli, &input.trace, several)?;
        traces.push(answer(&cli, &query, input, &capture_traces)?);
    }
    let empty = traces.iter().all(|t| t.answer.absence.is_some());
    let mut report = Report::new(
        cli.style(),
        query.kernels.describe(),
        &mut traces,
        &captures,
    );
    report.warnings = doubts;
    let mut out = cli.output.open()?;
    Stage::time("write", cli.verbosity, || {
        report.write(cli.format.format().into(), &mut out)
    })?;
    let to_file = !out.is_stdout();
    out.finish()?;
    if let (true, Some(path)) = (to_file, &cli.output.output) {
        cli.verbosity
            .note(format!("report written to {}", path.display()));
    }
    if let Some(failed) = failed {
        return Err(failed);
    }
    Ok(if cli.report.fail_on_empty && empty {
        Outcome::ConditionFailed
    } else {
        Outcome::Fine
    })
}

fn answer(cli: &Cli, query: &Query, input: Input, captures: &[&Trace]) -> anyhow::Result<Answered> {
    cli.verbosity.note(format!(
        "looking for launches of {}",
        query.kernels.describe()
    ));
    let answer = Stage::time("query", cli.verbosity, || {
        analyse(&input.trace, query, captures)
    });
    let mut answer = match answer {
        Ok(answer) => answer,
        Err(error) => {
            refuse(cli, &error)?;
            let outcome = match error {
                // Same exit code as the reference.
                _ if cli.compat => Outcome::Code(1),
                Error::IndexOutOfRange { .. } => Outcome::Usage,
                _ => Outcome::CannotAnswer,
            };
            return Err(error).or_exit(outcome);
        }
    };
    for window in answer.windows.iter().filter(|w| w.slice.is_some()) {
        cli.verbosity.note(format!(
            "window: start {} ns, duration {} ns{}",
            window.start,
            window.duration_ns(),
            if window.open {
                " (the slice was never closed: it ends with the trace)"
            } else {
                ""
            }
        ));
    }
    answer.arrange(question::order(cli), cli.report.min_count, cli.report.top);
    Ok(Answered::new(input, answer))
}

/// With `--format json` the refusal is a document too.
fn refuse(cli: &Cli, error: &Error) -> anyhow::Result<()> {
    let outcome = match error {
        Error::FunctionNotFound { .. } => "function-not-found",
        Error::IndexOutOfRange { .. } => "index-out-of-range",
        _ => "error",
    };
    if cli.format.format() == Format::Json {
        let mut out = cli.output.open()?;
        launch_report::refusal(outcome, &error.to_string(), &mut out)?;
        out.finish()?;
    }
    Ok(())
}
