//! From a serving trace to cycles, per-cycle performance and the cause.

mod analyse;
mod args;
mod batch;
mod files;
mod perf;
mod period;
mod probes;
mod sentinel;
mod topology;

use cli::Outcome;
use std::ffi::OsString;

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
        Command::Analyse(args) => analyse::run(&args),
        Command::Batch(args) => batch::run(&args),
        Command::Period(args) => period::run(&args),
        Command::Sentinel(command) => sentinel::run(&command),
        Command::Topology(args) => topology::run(&args),
    }
}

/// How long names may be in text, which is cut on a terminal only.
fn names() -> rca_report::text::Names {
    match cli::terminal::table_width() {
        Some(_) => rca_report::text::Names::Cut,
        None => rca_report::text::Names::Whole,
    }
}
