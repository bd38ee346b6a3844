//! From a serving trace to cycles, per-cycle performance and the cause.

mod agreement;
mod analyse;
mod args;
mod batch;
mod bound;
mod document;
mod files;
mod info;
mod machine;
mod markdown;
mod perf;
mod period;
mod probes;
mod ranks;
mod sentinel;
mod text;
mod topology;
mod tracks;

use shell::Outcome;
use std::process::ExitCode;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    shell::main(run)
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    match cli.command {
        Command::Analyse(args) => analyse::run(&args),
        Command::Batch(args) => batch::run(&args),
        Command::Period(args) => period::run(&args),
        Command::Sentinel(command) => sentinel::run(&command),
        Command::Topology(args) => topology::run(&args),
    }
}
