//! How all subcommands read traces, and what their errors lead to.

use std::io::Write as _;
use std::path::PathBuf;

use blkio_parser::pipeline::ReadOptions;
use blkio_parser::{Error as TraceError, StatsOptions};
use blkio_report::device_names::{DeviceChoice, named_device};
use blkio_report::{Error, recordings};
use cli::{OrExit as _, Output, ProgressLine, VerbosityArgs};
use serde_json::Value;

use crate::args::TraceArgs;

/// Gives errors of libraries the exit code of their cause, and names the option that helps.
pub(crate) trait OrCode<T> {
    fn or_code(self) -> anyhow::Result<T>;
}

impl<T, E: Into<Error>> OrCode<T> for Result<T, E> {
    fn or_code(self) -> anyhow::Result<T> {
        self.or_else(|error| {
            let error: Error = error.into();
            let is_input = error.is_input();
            let hint = match &error {
                Error::Trace(TraceError::UnknownFormat { .. }) => {
                    ": name it with --trace-format, or see the list in the help"
                }
                Error::Trace(TraceError::Malformed { .. }) => {
                    "; without --strict such lines are counted and skipped"
                }
                _ => "",
            };
            let failed = match hint {
                "" => anyhow::Error::from(error),
                hint => anyhow::anyhow!("{error}{hint}"),
            };
            if is_input {
                Err(failed).or_exit(cli::Outcome::Unreadable)
            } else {
                Err(failed)
            }
        })
    }
}

/// Returns the files of a trace, with a warning where parts of a recording are left out.
pub(crate) fn trace_files(
    paths: &[PathBuf],
    verbosity: VerbosityArgs,
) -> anyhow::Result<Vec<PathBuf>> {
    let mut note = |text: String| verbosity.note(format!("blkio: warning: {text}"));
    recordings::trace_files(paths, &mut note).or_code()
}

/// Returns how traces are read by all commands.
pub(crate) fn read_options(
    trace: &TraceArgs,
    input: &cli::InputArgs,
    progress: &ProgressLine,
) -> ReadOptions {
    let mut read = ReadOptions::default();
    read.format = trace.trace_format;
    read.device = trace.device.as_ref().and_then(DeviceChoice::number);
    read.window_ns = trace.reorder;
    read.strict = input.strict;
    read.threads = input.threads().get();
    read.open = input.open_options(Some(progress.counter()));
    read
}

/// Returns the options of the analyses of a trace, with the device that was chosen by name.
pub(crate) fn stats_options(
    files: &[PathBuf],
    trace: &TraceArgs,
    input: &cli::InputArgs,
    progress: &ProgressLine,
) -> anyhow::Result<StatsOptions> {
    let mut options = StatsOptions::default();
    options.read = read_options(trace, input, progress);
    let chosen = named_device(trace.device.as_ref(), files, &options.read).or_code()?;
    options.devices = chosen.map(|dev| vec![dev]);
    Ok(options)
}

/// Writes a document as JSON.
pub(crate) fn write_json(document: &Value, out: &mut Output) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, document)?;
    Ok(writeln!(out)?)
}

/// Says what is doubtful about a trace.
pub(crate) fn warn(quality: &Value, verbosity: VerbosityArgs) {
    let warnings = quality["warnings"].as_array();
    for warning in warnings.into_iter().flatten().filter_map(Value::as_str) {
        verbosity.note(format!("blkio: warning: {warning}"));
    }
}

/// Returns the format of a table.
pub(crate) fn table_format(format: cli::Format) -> report::Format {
    match format {
        cli::Format::Csv => report::Format::Csv,
        _ => report::Format::Text,
    }
}
