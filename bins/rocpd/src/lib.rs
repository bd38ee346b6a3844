//! Query, summarise, convert, merge and package rocPD databases: the tool and its other names.

mod alias;
mod args;
mod console;
mod convert;
mod extended;
mod headline;
mod info;
mod mail;
mod names;
mod package;
mod query;
mod select;
mod sent;
mod summary;
mod tables;
mod wide;

use std::process::ExitCode;

use shell::Outcome;

use crate::alias::{Alias, Called};
use crate::args::{Cli, Command};

/// Runs the tool by the name it was called, with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let words = std::env::args_os();
    ExitCode::from(match Alias::called() {
        Some(alias) => shell::main_from(alias.words(words), |Called(command)| run(&command)),
        None => shell::main_from(words, |cli: Cli| match &cli.command {
            Some(command) => run(command),
            None => {
                use clap::CommandFactory as _;
                Cli::command().print_help()?;
                Ok(Outcome::Fine)
            }
        }),
    })
}

fn version() -> anyhow::Result<Outcome> {
    console::print(concat!("rocpd ", env!("CARGO_PKG_VERSION"), "\n"))?;
    Ok(Outcome::Fine)
}

fn run(command: &Command) -> anyhow::Result<Outcome> {
    let (shared, outcome) = match command {
        Command::Query(args) => (&args.shared, query::run(args)),
        Command::Summary(args) => (&args.shared, summary::run(args)),
        Command::Convert(args) => (&args.shared, convert::run(args)),
        Command::Merge(args) => return package::merge(args),
        Command::Package(args) => return package::run(args),
        Command::Info(args) => return info::run(args),
        Command::Version => return version(),
    };
    let outcome = match outcome {
        Err(error) => match error.downcast_ref::<select::Verbatim>() {
            Some(words) => {
                shell::terminal::say(&words.text);
                return Ok(Outcome::Code(words.code));
            }
            None => return Err(error),
        },
        Ok(outcome) => outcome,
    };
    if shared.compat {
        console::print("Done. Exiting...\n")?;
    } else {
        shared.verbosity.detail(|| "done");
    }
    Ok(outcome)
}
