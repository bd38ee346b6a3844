//! Query, summarise, convert, merge and package rocPD databases: the tool and its other names.

mod alias;
mod args;
mod console;
mod convert;
mod info;
#[cfg(feature = "mail")]
mod mail;
#[cfg(not(feature = "mail"))]
#[path = "no_mail.rs"]
mod mail;
mod names;
mod package;
mod query;
mod select;
mod summary;
mod tables;

use std::ffi::OsString;

use cli::Outcome;

use crate::alias::{Alias, Called};
use crate::args::{Cli, Command};

/// Runs the tool with the arguments of a command line, the tool's name first. Returns the exit
/// code.
///
/// A name of [`aliases`] runs that command of the tool.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    let mut words = words.into_iter().peekable();
    match words.peek().and_then(|name| Alias::of(name)) {
        Some(alias) => {
            let words = alias.call(words);
            cli::main_from(words, |Called(command)| run(&command))
        }
        None => cli::main_from(words, |cli: Cli| match &cli.command {
            Some(command) => run(command),
            None => {
                command().print_help()?;
                Ok(Outcome::Fine)
            }
        }),
    }
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

/// Returns the alternative names of the tool, each with the description of its command line.
pub fn aliases() -> impl Iterator<Item = (&'static str, clap::Command)> {
    alias::ALIASES
        .iter()
        .map(|alias| (alias.name, alias.command()))
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
                cli::terminal::say(&words.text);
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
