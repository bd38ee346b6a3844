//! A server of the Model Context Protocol on standard input and output: the analyses for agents.
//!
//! It reads nothing outside of the folders given at start, writes nothing, and answers each call with at most 25 kB. A tool of
//! the server is a command of the executable, which runs in this process; the crate itself computes nothing.

mod bounds;
mod envelope;
mod roots;
mod server;
mod tools;

use std::ffi::OsString;
use std::path::PathBuf;

use anyhow::Context as _;
use clap::Parser;
use cli::{OrExit as _, Outcome};

use crate::roots::Roots;
use crate::server::Server;

/// Runs a command line of the executable, its name first, and returns the exit code.
pub type Runner = fn(Vec<OsString>) -> u8;

const AFTER_HELP: &str = "\
The server reads only what lies in the folders, symbolic links followed, and
writes nothing. Its tools are why, show, compare, steps, kernels, ranks, sql
and extract; each answer is JSON of at most 25 kB with a cursor.

Example, as the configuration of a client:
  {\"mcpServers\": {\"inferscope\":
    {\"command\": \"inferscope\", \"args\": [\"mcp\", \"/data/traces\"]}}}";

/// Serve the analyses to an agent, by the Model Context Protocol on standard input and output
#[derive(Debug, Parser)]
#[command(name = "mcp", version, after_help = AFTER_HELP, max_term_width = 80)]
struct Cli {
    /// Folders, and files, that may be read
    #[arg(value_name = "ROOT", required = true)]
    roots: Vec<PathBuf>,
}

/// Runs the server until its input ends, with the words of a command line. `run` runs the other tools. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>, run: Runner) -> u8 {
    cli::main_from(words, |cli: Cli| serve(&cli, run))
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

fn serve(cli: &Cli, run: Runner) -> anyhow::Result<Outcome> {
    let roots = Roots::new(&cli.roots).or_exit(Outcome::Unreadable)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("starting the server")?;
    let ended = runtime.block_on(server::run(Server::new(roots, run)));
    // A read of standard input cannot be cancelled, and nothing is left to be written.
    runtime.shutdown_background();
    ended.map(|()| Outcome::Fine)
}
