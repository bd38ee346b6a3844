//! Shared by all Inferscope tools: arguments, exit codes, progress, output files.
//!
//! Charter: process, terminal, files; no domain types; no library crate may depend on it; at most
//! 800 lines of code without comments and tests.
//!
//! * [`main_from`] parses the command line, runs the tool and maps the result to an exit code that is
//!   the same in every tool: 0 success, 1 a requested condition failed, 2 wrong usage, 3 an input
//!   cannot be read, 4 the inputs do not contain the answer, 5 the result cannot be written
//!   ([`Outcome`], [`OrExit::or_exit`]). Errors are one line, `tool: error: context: cause`. A closed
//!   pipe (`tool | head`) is not an error.
//! * [`FormatArgs`], [`OutputArgs`], [`InputArgs`], [`VerbosityArgs`] are the arguments that have the
//!   same meaning in every tool; [`ByteSize`] parses `64G`.
//! * [`Output`] writes to standard output, or to a file that appears whole or not at all, even if the
//!   process is interrupted.
//! * [`LastWords`] says what a signal leaves.
//! * [`Interrupt`] lets a tool that watches or records end with its report.
//! * [`ProgressLine`] displays a counter on the terminal, [`Stage`] times the steps for `-v`.
//! * [`in_process`] runs a tool within another program and collects its answer.
//! * With the feature `objects` inputs may be URLs of object stores; user, password and query of a URL on the command line are taken
//!   out of its name before anything can print it.
//! * [`terminal`] returns the width of the terminal and whether to use colours.
//!
//! The crate does not render tables, does not open traces, and starts no thread unless a job takes
//! long.
//!
//! ```
//! use std::io::Write as _;
//! use cli::{Outcome, OutputArgs};
//!
//! /// Prints the length of a text.
//! #[derive(clap::Parser)]
//! #[command(name = "length")]
//! struct Args {
//!     text: String,
//!     #[command(flatten)]
//!     output: OutputArgs,
//! }
//!
//! fn run(args: Args) -> anyhow::Result<Outcome> {
//!     let mut out = args.output.open()?;
//!     writeln!(out, "{}", args.text.len())?;
//!     out.finish()?;
//!     Ok(Outcome::Fine)
//! }
//!
//! // In a tool: ExitCode::from(cli::main_from(std::env::args_os(), run))
//! let directory = tempfile::tempdir()?;
//! let path = directory.path().join("out.txt");
//! let words = ["length".into(), "trace".into(), "-o".into(), path.clone().into_os_string()];
//! assert_eq!(cli::main_from(words, run), 0);
//! assert_eq!(std::fs::read_to_string(path)?, "5\n");
//! # Ok::<(), std::io::Error>(())
//! ```

mod args;
mod cleanup;
pub mod in_process;
mod inputs;
mod interrupt;
mod output;
mod progress;
mod refuse_overwrite;
mod run;
mod size;
mod stage;
pub mod terminal;

pub use args::{Format, FormatArgs, HasJson, InputArgs, OutputArgs, VerbosityArgs};
pub use cleanup::LastWords;
pub use interrupt::Interrupt;
pub use output::Output;
pub use progress::ProgressLine;
pub use refuse_overwrite::{refuse_overwrite, refuse_url};
pub use run::{OrExit, Outcome, cannot_answer, complain, follows, is_read_on, main_from, usage};
pub use size::{ByteSize, ByteSizeError};
pub use stage::Stage;
