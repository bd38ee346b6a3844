//! Query, summarise, convert, merge and package rocPD databases: the tool and its other names.

mod args;
mod console;
mod convert;
mod extended;
mod info;
mod mail;
mod names;
mod package;
mod query;
mod select;
mod sent;
mod summary;
mod tables;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use shell::Outcome;

use crate::args::{Cli, Command};

/// Runs the tool by the name it was called, with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(shell::main_from(words(std::env::args_os()), run))
}

/// The tool has names that stand for one of its commands: `rocpd2csv` is `rocpd convert -f csv`.
fn words(words: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut words: Vec<OsString> = words.collect();
    let called = words
        .first()
        .map(Path::new)
        .and_then(Path::file_stem)
        .and_then(|name| name.to_str())
        .unwrap_or_default();
    let stands_for: &[&str] = match called {
        "rocpd2csv" => &["convert", "-f", "csv"],
        "rocpd2pftrace" => &["convert", "-f", "pftrace"],
        "rocpd2otf2" => &["convert", "-f", "otf2"],
        "rocpd2summary" => &["summary"],
        _ => &[],
    };
    words.splice(
        1.min(words.len())..1.min(words.len()),
        stands_for.iter().map(OsString::from),
    );
    words
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    let Some(command) = cli.command else {
        use clap::CommandFactory as _;
        Cli::command().print_help()?;
        return Ok(Outcome::Fine);
    };
    let (shared, outcome) = match &command {
        Command::Query(args) => (&args.shared, query::run(args)),
        Command::Summary(args) => (&args.shared, summary::run(args)),
        Command::Convert(args) => (&args.shared, convert::run(args)),
        Command::Merge(args) => return package::merge(args),
        Command::Package(args) => return package::run(args),
        Command::Info(args) => return info::run(args),
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
