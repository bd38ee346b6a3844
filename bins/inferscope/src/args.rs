//! The command line of the executable itself.

use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;

use clap::{Arg, ArgMatches, Command, CommandFactory, FromArgMatches, Parser};
use clap_complete::Shell;

use crate::NAME;
use crate::tools::{QUESTIONS, TOOLS};

/// Request to the executable itself when no tool is named.
#[derive(Debug)]
pub(crate) enum Request {
    Help,
    /// Print the completions of a shell.
    Completions(Shell),
    /// Write the manual pages of all tools into a folder.
    ManualPages(PathBuf),
    /// Link each tool's name to the executable, in a folder.
    Links(PathBuf),
    /// An unknown word.
    Unknown(OsString),
}

/// The parsed command line.
#[derive(Debug)]
pub(crate) struct Cli(pub(crate) Request);

/// Returns all command lines as one tree, for completions and manual pages.
pub(crate) fn tree() -> Command {
    let tools = TOOLS.iter().map(|tool| (tool.command)().name(tool.name));
    own().subcommands(tools)
}

fn own() -> Command {
    Command::new(NAME)
        .about("Performance forensics for LLM inference")
        .version(env!("CARGO_PKG_VERSION"))
        .override_help(help())
        .max_term_width(80)
        .subcommand(
            Command::new("completions")
                .about("Print the completions of a shell")
                .arg(
                    Arg::new("shell")
                        .value_parser(clap::value_parser!(Shell))
                        .required(true),
                ),
        )
        .subcommand(
            Command::new("manual")
                .about("Write the manual pages of all tools into a folder")
                .arg(folder()),
        )
        .subcommand(
            Command::new("links")
                .about("Make a link to the executable for each tool's name in a folder")
                .arg(folder()),
        )
}

fn folder() -> Arg {
    Arg::new("folder")
        .value_parser(clap::value_parser!(PathBuf))
        .required(true)
}

/// Returns the help: the commands grouped by the question they answer.
pub(crate) fn help() -> String {
    let mut text =
        format!("Performance forensics for LLM inference\n\nUsage: {NAME} <TOOL> [ARGUMENTS]...\n");
    let widest = QUESTIONS
        .iter()
        .flat_map(|(_, commands)| commands.iter())
        .map(|(line, _)| line.len())
        .filter(|width| *width <= 24)
        .max()
        .unwrap_or_default();
    for (question, commands) in QUESTIONS {
        // Writing to a string cannot fail.
        let _ = write!(text, "\n{question}\n");
        for (line, about) in *commands {
            let _ = match line.len() > widest {
                true => writeln!(text, "  {line}\n  {:widest$}  {about}", ""),
                false => writeln!(text, "  {line:widest$}  {about}"),
            };
        }
    }
    text.push_str(
        "\nOptions and examples of a tool: inferscope help <TOOL> [COMMAND]
A link to this executable with the name of a tool is that tool.

Other commands:
  completions <SHELL>       Completions of bash, elvish, fish, powershell or zsh
  manual <FOLDER>           Manual pages of all tools
  links <FOLDER>            A link for each tool's name
  --version                 The version

Exit codes: 0 done; 2 wrong usage; others are those of the tool.
",
    );
    text
}

impl CommandFactory for Cli {
    fn command() -> Command {
        own()
            .disable_help_subcommand(true)
            .allow_external_subcommands(true)
    }

    fn command_for_update() -> Command {
        Self::command()
    }
}

impl FromArgMatches for Cli {
    fn from_arg_matches(found: &ArgMatches) -> Result<Self, clap::Error> {
        let request = match found.subcommand() {
            None | Some(("help", _)) => Request::Help,
            Some(("completions", found)) => match found.get_one("shell") {
                Some(shell) => Request::Completions(*shell),
                None => Request::Help,
            },
            Some(("manual", found)) => match found.get_one("folder") {
                Some(folder) => Request::ManualPages(PathBuf::clone(folder)),
                None => Request::Help,
            },
            Some(("links", found)) => match found.get_one("folder") {
                Some(folder) => Request::Links(PathBuf::clone(folder)),
                None => Request::Help,
            },
            Some((word, _)) => Request::Unknown(word.into()),
        };
        Ok(Self(request))
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(found)?;
        Ok(())
    }
}

impl Parser for Cli {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_lines_are_consistent() {
        tree().debug_assert();
        Cli::command().debug_assert();
    }

    #[test]
    fn help_fits_eighty_columns() {
        for line in help().lines() {
            assert!(line.len() <= 80, "{line}");
        }
    }
}
