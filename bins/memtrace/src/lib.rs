//! Analyses how long data lives in memory during inference.

mod analyse;
mod args;
mod check;
mod experiment;
mod input;
mod rows;

use std::ffi::OsString;
use std::io;

use cli::{OrExit as _, Outcome};

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

/// Runs a command. An output error without an exit code gets that of failed output.
fn run(cli: Cli) -> anyhow::Result<Outcome> {
    answer(cli).or_else(|error| {
        if error.is::<io::Error>() || error.is::<report::Error>() {
            return Err(error).or_exit(Outcome::OutputFailed);
        }
        Err(error)
    })
}

fn answer(cli: Cli) -> anyhow::Result<Outcome> {
    match cli.command {
        Command::Validate(args) => experiment::validate(&args),
        Command::Plan(args) => experiment::plan(&args),
        Command::Run(args) => experiment::run(&args),
        Command::Parse(args) => rows::parse(&args),
        Command::Label(args) => rows::label(&args),
        Command::Convert(args) => rows::parse(&args),
        Command::Analyse(args) => analyse::analyse(&args),
        Command::Report(args) => analyse::report(&args),
        Command::Export(args) => analyse::export(&args),
        Command::Compare(args) => analyse::compare(&args),
        Command::Check(args) => check::run(&args),
        Command::Doctor(args) => experiment::doctor(&args),
        Command::Version(args) => experiment::version(&args),
    }
}
