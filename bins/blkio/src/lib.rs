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

use cli::Outcome;

use crate::args::{Cli, Command};

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
