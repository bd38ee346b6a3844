//! Describes the contents and the data quality of a trace.

mod args;
mod comm;
mod convert;
mod critical_path;
mod diff;
mod document;
mod dump_files;
mod empty;
mod gpu;
mod idle;
mod kernels;
mod launch;
mod memory;
mod ops;
mod part;
mod rewrite;
mod roofline;
mod rules;
mod summary;
mod tables;

use std::ffi::OsString;

use cli::Outcome;

use crate::args::{Cli, Command};

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
    match cli.command {
        None => {
            args::refuse_unknown_command(&cli.summary.files)?;
            summary::run(&cli.summary)
        }
        Some(Command::Summary(args)) => summary::run(&args),
        Some(Command::Tables(args)) => tables::run(&args),
        Some(Command::Convert(args)) => convert::run(&args),
        Some(Command::Slim(args)) => rewrite::slim(&args),
        Some(Command::Merge(args)) => rewrite::merge(&args),
        Some(Command::Repair(args)) => rewrite::repair(&args),
        Some(Command::Gpu(args)) => gpu::run(&args),
        Some(Command::Kernels(args)) => kernels::run(&args),
        Some(Command::Idle(args)) => idle::run(&args),
        Some(Command::Launch(args)) => launch::run(&args),
        Some(Command::Memory(args)) => memory::run(&args),
        Some(Command::Comm(args)) => comm::run(&args),
        Some(Command::Diff(args)) => diff::run(&args),
        Some(Command::CriticalPath(args)) => critical_path::run(&args),
        Some(Command::Roofline(args)) => roofline::run(&args),
        Some(Command::Ops(args)) => ops::run(&args),
    }
}
