//! Block I/O of model and KV-cache offloading, from trace to figures.

mod args;
mod cheops;
mod collect;
mod compare;
mod convert;
mod deepnvme;
mod fio;
mod follow;
mod info;
mod reading;
mod refuse_overwrite;
mod stacks;
mod stats;
mod synth;

use std::ffi::OsString;

use shell::Outcome;

use crate::args::{Cli, Command};

/// Unreadable input or no events.
pub(crate) const NO_INPUT: u8 = 2;
/// The recording cannot answer: it has no requests, or none in a phase that was asked for.
pub(crate) const EMPTY: u8 = 4;
/// A quality gate is not met.
pub(crate) const GATE: u8 = 3;

/// Runs the tool with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    shell::main_from(words, run)
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    refuse_overwrite::of(&cli.command)?;
    match cli.command {
        Command::Version => version(),
        Command::Info(args) => info::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Cheops25(args) => cheops::run(&args),
        Command::Deepnvme(args) => deepnvme::run(&args),
        Command::Stacks(args) => stacks::run(&args),
        Command::Fio(args) => fio::run(&args),
        Command::Compare(args) => compare::run(&args),
        Command::Synth(args) => synth::run(&args),
        Command::Collect(args) => collect::run(&args),
    }
}

/// Prints the version as `--version` does.
fn version() -> anyhow::Result<Outcome> {
    use std::io::Write as _;

    writeln!(std::io::stdout(), "blkio {}", env!("CARGO_PKG_VERSION"))?;
    Ok(Outcome::Fine)
}
