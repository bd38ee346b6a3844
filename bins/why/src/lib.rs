//! Why steps of an inference take as long as they do: one command from recordings to the reason.
//!
//! Three tools share one reading of the inputs: `why` answers, `show` prints a finding with its evidence, `extract` cuts its
//! window out of the recording.

mod args;
mod extract;
mod output;

use std::ffi::OsString;

use cli::Outcome;
use findings::{Document, Finding};

use crate::args::{ExtractCli, ShowCli, WhyCli};

/// Runs `why` with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    let words: Vec<OsString> = words.into_iter().collect();
    let command = args::command_line(&words);
    cli::main_from(words, |cli: WhyCli| run(&cli, command))
}

/// Runs `show`.
pub fn show_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, show)
}

/// Runs `extract`.
pub fn extract_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, extract::run)
}

/// Returns the description of the command line of `why`, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <WhyCli as clap::CommandFactory>::command()
}

/// Returns that of `show`.
#[must_use]
pub fn show_command() -> clap::Command {
    <ShowCli as clap::CommandFactory>::command()
}

/// Returns that of `extract`.
#[must_use]
pub fn extract_command() -> clap::Command {
    <ExtractCli as clap::CommandFactory>::command()
}

fn run(cli: &WhyCli, command: String) -> anyhow::Result<Outcome> {
    output::check(cli)?;
    let document = why_input::answer(&cli.question, command)?;
    output::write(cli, &document)?;
    Ok(output::outcome(cli, &document))
}

fn show(cli: ShowCli) -> anyhow::Result<Outcome> {
    let document = why_input::answer(&cli.question, String::new())?;
    let finding = found(&document, &cli.id)?;
    let text = match cli.json {
        true => serde_json::to_string_pretty(finding)? + "\n",
        false => findings::show(finding, cli::terminal::width()),
    };
    output::print(&text)?;
    Ok(Outcome::Fine)
}

/// Returns the finding with an id, or an error that lists those that there are.
fn found<'d>(document: &'d Document, id: &str) -> anyhow::Result<&'d Finding> {
    let found = document.findings.iter().find(|finding| finding.id == id);
    found.ok_or_else(|| {
        let ids: Vec<&str> = document.findings.iter().map(|f| f.id.as_str()).collect();
        cli::usage(match ids.is_empty() {
            true => format!("no finding {id:?}: nothing was found in these recordings"),
            false => format!("no finding {id:?}; there are {}", ids.join(", ")),
        })
    })
}
