//! Block I/O of model and KV-cache offloading, from trace to figures.

mod args;
mod cheops;
mod collect;
mod compare;
mod convert;
mod csv;
mod deepnvme;
mod device;
mod draw;
mod follow;
mod guard;
mod info;
mod inputs;
mod page;
mod side;
mod spare;
mod stats;
mod summary;
mod synth;
mod tables;
mod verdict;
mod yardstick;

use std::ffi::OsString;

use cli::Outcome;

use crate::args::{Cli, Command};

/// Unreadable input or no events.
pub(crate) const NO_INPUT: u8 = 2;
/// The recording cannot answer: it has no requests, or none in a phase that was asked for.
pub(crate) const EMPTY: u8 = 4;
/// A quality gate is not met.
pub(crate) const GATE: u8 = 3;

/// Runs the tool with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, run)
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    spare::inputs(&cli.command)?;
    match cli.command {
        Command::Version => version(),
        Command::Info(args) => info::run(&args),
        Command::Stats(args) => stats::run(&args),
        Command::Convert(args) => convert::run(&args),
        Command::Cheops25(args) => cheops::run(&args),
        Command::Deepnvme(args) => deepnvme::deepnvme(&args),
        Command::Stacks(args) => side::stacks(&args),
        Command::Fio(args) => side::fio(&args),
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
