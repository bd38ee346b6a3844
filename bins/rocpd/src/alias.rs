//! Alternative names of the tool: each runs a single command and shows only that.

use std::ffi::{OsStr, OsString};
use std::path::Path;
use std::sync::OnceLock;

use clap::{ArgMatches, Args as _, CommandFactory, FromArgMatches, Parser};

use crate::args::{Command, ConvertArgs, SummaryArgs};

/// An alternative name of the tool.
pub(crate) struct Alias {
    pub(crate) name: &'static str,
    /// Output format of the conversion; `None` for the summary.
    format: Option<&'static str>,
    about: &'static str,
}

pub(crate) static ALIASES: [Alias; 4] = [
    Alias {
        name: "rocpd2csv",
        format: Some("csv"),
        about: "Write the records of rocPD databases as CSV files",
    },
    Alias {
        name: "rocpd2pftrace",
        format: Some("pftrace"),
        about: "Write the records of rocPD databases as a Perfetto trace",
    },
    Alias {
        name: "rocpd2otf2",
        format: Some("otf2"),
        about: "Write the records of rocPD databases as an OTF2 archive",
    },
    Alias {
        name: "rocpd2summary",
        format: None,
        about: "Say what took how long in rocPD databases",
    },
];

/// The alias of this process. clap requests the command line by type, so it cannot be passed as an
/// argument.
static CALLED: OnceLock<&Alias> = OnceLock::new();

impl Alias {
    /// Returns the alias that the first argument of a command line names, with or without the
    /// folder of the executable or the name of an executable in front.
    pub(crate) fn of(word: &OsStr) -> Option<&'static Self> {
        let called = Path::new(word).file_stem()?.to_str()?;
        let called = called.rsplit(' ').next()?;
        ALIASES.iter().find(|alias| alias.name == called)
    }

    /// Returns the arguments of a command line, the tool's name first, with those that the alias
    /// implies, and makes it the command line that [`Called`] parses.
    pub(crate) fn call(&'static self, words: impl Iterator<Item = OsString>) -> Vec<OsString> {
        CALLED.get_or_init(|| self);
        let mut words: Vec<OsString> = words.collect();
        if let Some(format) = self.format {
            let at = 1.min(words.len());
            words.splice(at..at, ["-f", format].map(OsString::from));
        }
        words
    }

    pub(crate) fn command(&self) -> clap::Command {
        let command = clap::Command::new(self.name);
        // What an alias has of its own is shown; filters and windows are those of the command.
        let command = command.disable_help_flag(true).arg(
            clap::Arg::new("help")
                .short('h')
                .long("help")
                .action(clap::ArgAction::HelpShort)
                .help("Print help"),
        );
        let example = match self.format {
            // The name determines the format.
            Some(format) => ConvertArgs::augment_args(command)
                .mut_arg("output_format", |arg| arg.required(false).hide(true))
                .mut_args(|arg| match is_of_another(&arg, format) {
                    true => arg.hide(true),
                    false => arg,
                })
                .after_help(format!(
                    "The same as rocpd convert -f {format}. {SHARED}rocpd convert --help\n\nExample:\n  {} -i *.db -d out",
                    self.name
                )),
            None => SummaryArgs::augment_args(command).after_help(format!(
                "The same as rocpd summary. {SHARED}rocpd summary --help\n\nExample:\n  {} -i *.db --domain-summary",
                self.name
            )),
        };
        example
            .mut_args(|arg| match arg.get_help_heading() {
                Some(heading) if FILTERS.contains(&heading) => arg.hide_short_help(true),
                _ => arg,
            })
            .about(self.about)
            .version(env!("CARGO_PKG_VERSION"))
            .max_term_width(80)
    }
}

/// Headings of options that the help of an alias leaves to that of its command.
const FILTERS: [&str; 2] = ["Records", "Time window"];

/// The options under [`FILTERS`], in the help of an alias.
const SHARED: &str = "Also taken, and explained there:\noptions that choose records (--drop, --name-regex, --ranks, ...) and a time\nwindow (--start, --end, ...): ";

/// Returns `true` if an option of `convert` has no effect on a format, so that its help need not
/// show it.
fn is_of_another(arg: &clap::Arg, format: &str) -> bool {
    match arg.get_id().as_str() {
        "csv_layout" => format != "csv",
        _ => arg.get_help_heading() == Some("Perfetto") && format != "pftrace",
    }
}

/// The command of the alias, with its arguments.
#[derive(Debug)]
pub(crate) struct Called(pub(crate) Command);

impl CommandFactory for Called {
    fn command() -> clap::Command {
        let alias = CALLED.get().copied().or(ALIASES.first());
        alias.map_or_else(clap::Command::default, Alias::command)
    }

    fn command_for_update() -> clap::Command {
        <Self as CommandFactory>::command()
    }
}

impl FromArgMatches for Called {
    fn from_arg_matches(found: &ArgMatches) -> Result<Self, clap::Error> {
        Ok(Self(match CALLED.get().and_then(|alias| alias.format) {
            Some(_) => Command::Convert(Box::new(ConvertArgs::from_arg_matches(found)?)),
            None => Command::Summary(Box::new(SummaryArgs::from_arg_matches(found)?)),
        }))
    }

    fn update_from_arg_matches(&mut self, found: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(found)?;
        Ok(())
    }
}

impl Parser for Called {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_lines_are_consistent() {
        for alias in &ALIASES {
            alias.command().debug_assert();
        }
    }
}
