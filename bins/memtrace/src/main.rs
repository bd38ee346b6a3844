//! How long data lives in memory during inference.

mod analyse;
mod args;
mod check;
mod experiment;
mod input;
mod rows;

use std::io;
use std::process::ExitCode;

use shell::{OrExit as _, Outcome};

use crate::args::{Cli, Command};
use crate::input::IO_FAILED;

fn main() -> ExitCode {
    shell::main(run)
}

/// Runs a command. An output that fails without a code of its own has that of failed output.
fn run(cli: Cli) -> anyhow::Result<Outcome> {
    command(cli).or_else(|error| {
        if error.is::<io::Error>()
            || error.is::<report::Error>()
            || error.is::<byte_source::Error>()
        {
            return Err(error).or_exit(IO_FAILED);
        }
        Err(error)
    })
}

fn command(cli: Cli) -> anyhow::Result<Outcome> {
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
