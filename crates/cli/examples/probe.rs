//! A tool that ends in every way a tool can, for the tests of exit codes.

use std::io::{Read as _, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context as _;
use cli::{FormatArgs, InputArgs, Outcome, OutputArgs, ProgressLine, Stage, VerbosityArgs};

/// Ends in the way asked for.
#[derive(clap::Parser)]
#[command(name = "probe", version)]
struct Args {
    #[command(subcommand)]
    way: Way,
    #[command(flatten)]
    format: FormatArgs,
    #[command(flatten)]
    output: OutputArgs,
    #[command(flatten)]
    input: InputArgs,
    #[command(flatten)]
    verbosity: VerbosityArgs,
}

#[derive(clap::Subcommand)]
enum Way {
    /// Writes the length of an input.
    Length { path: PathBuf },
    /// Says that a condition is not met.
    Condition,
    /// Fails for a reason with a reason.
    Fail,
    /// Finds no answer in its input.
    NoAnswer,
    /// Complains about the arguments.
    Usage,
    /// Has a defect.
    Panic,
    /// Writes without end.
    Endless,
    /// Begins the output, says so, and waits for standard input to end.
    Wait,
}

fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.way {
        Way::Length { path } => {
            let progress = ProgressLine::start("reading", args.verbosity);
            let options = args.input.open_options(Some(progress.counter()));
            let source = byte_source::Source::open(path, &options)?;
            let mut reader = source.into_read()?;
            let damage = reader.damage();
            let length = Stage::time("read", args.verbosity, || {
                std::io::copy(&mut reader, &mut std::io::sink())
            })?;
            drop(progress);
            for record in damage.records() {
                args.verbosity.note(format!("probe: warning: {record}"));
            }
            let mut out = args.output.open()?;
            match args.format.format() {
                cli::Format::Json => writeln!(out, "{{\"length_bytes\": {length}}}")?,
                _ => writeln!(out, "{length}")?,
            }
            out.finish()?;
            if args.input.strict && !damage.is_empty() {
                return Ok(Outcome::ConditionFailed);
            }
        }
        Way::Condition => return Ok(Outcome::ConditionFailed),
        Way::Fail => {
            Err(std::io::Error::other("Planted cause")).context("doing what was asked")?;
        }
        Way::NoAnswer => return Err(cli::cannot_answer("not comparable")),
        Way::Usage => return Err(cli::usage("--to is before --from")),
        Way::Panic => panic!("planted\nsecond line"),
        Way::Endless => {
            let mut out = args.output.open()?;
            loop {
                writeln!(out, "{}", "x".repeat(1000)).context("writing the report")?;
            }
        }
        Way::Wait => {
            let mut out = args.output.open()?;
            out.write_all(b"half")?;
            out.flush()?;
            cli::terminal::say("ready");
            std::io::stdin().read_to_end(&mut Vec::new())?;
            out.finish()?;
        }
    }
    Ok(Outcome::Fine)
}

fn main() -> ExitCode {
    ExitCode::from(cli::main_from(std::env::args_os(), run))
}
