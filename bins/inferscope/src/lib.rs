//! Performance forensics for LLM inference: every tool in one executable.
//!
//! `inferscope TOOL ...` runs a tool. So does a link to the executable with the name or an alias
//! (`rocpd2csv`) of a tool.

mod args;
mod links;
mod tools;

use std::ffi::{OsStr, OsString};
use std::path::Path;

use cli::{Outcome, Output};

use crate::args::{Cli, Request};

/// The name of the executable.
const NAME: &str = "inferscope";

/// Runs the tool named by the executable's name or the first argument, else the executable's own
/// commands. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    dispatch(words.into_iter().collect())
}

fn dispatch(mut words: Vec<OsString>) -> u8 {
    let called = words.first().and_then(|word| Path::new(word).file_stem());
    if let Some(tool) = called.and_then(tools::named) {
        return (tool.run)(words);
    }
    // `help TOOL COMMAND` is `TOOL COMMAND --help`.
    if words.get(1).is_some_and(|word| word == "help") && words.len() > 2 {
        words.remove(1);
        words.push("--help".into());
    }
    if let Some(tool) = words.get(1).map(OsString::as_os_str).and_then(tools::named) {
        words.remove(0);
        if let Some(name) = words.first_mut() {
            let mut whole = OsString::from(NAME);
            whole.push(" ");
            whole.push(&*name);
            *name = whole;
        }
        return (tool.run)(words);
    }
    cli::main_from(words, run)
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    match cli.0 {
        Request::Help => {
            let mut out = Output::stdout();
            std::io::Write::write_all(&mut out, args::help().as_bytes())?;
            out.finish()?;
        }
        Request::Completions(shell) => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut args::tree(), NAME, &mut script);
            let mut out = Output::stdout();
            std::io::Write::write_all(&mut out, &script)?;
            out.finish()?;
        }
        Request::ManualPages(folder) => {
            std::fs::create_dir_all(&folder)?;
            clap_mangen::generate_to(args::tree(), &folder)?;
        }
        Request::Links(folder) => {
            for name in links::make(&folder)? {
                cli::terminal::say(&format!("{name} exists already: left as it is"));
            }
        }
        Request::Unknown(word) => return Err(cli::usage(unknown(&word))),
    }
    Ok(Outcome::Fine)
}

/// Returns the message for a first argument that names no tool.
fn unknown(word: &OsStr) -> String {
    let shown = word.to_string_lossy();
    if Path::new(word).exists() {
        return format!(
            "{shown:?} is a file, expected a tool: '{NAME} trace-info {shown}' reports what a trace holds"
        );
    }
    match tools::nearest(&shown) {
        Some(name) => format!("no tool {shown:?}: did you mean '{NAME} {name}'?"),
        None => format!("no tool {shown:?}: '{NAME} --help' lists them"),
    }
}
