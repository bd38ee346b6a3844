//! From a serving trace to cycles, per-cycle performance and the cause.

mod agreement;
mod analyse;
mod args;
mod batch;
mod bound;
mod document;
mod files;
mod http;
mod info;
mod live;
mod machine;
mod markdown;
mod page;
mod perf;
mod period;
mod probes;
mod ranks;
mod sentinel;
mod text;
mod topology;
mod tracks;

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
