//! `blkio compare`.

use std::path::PathBuf;

use blkio_parser::Stats;
use blkio_report::clock_match::{self, ClockMatch};
use blkio_report::comparison::{Run, compare};
use blkio_report::recordings::name_of;
use cli::{Outcome, ProgressLine};

use crate::args::CompareArgs;
use crate::reading::{OrCode as _, read_options, stats_options, trace_files, warn, write_json};

fn read(files: &[PathBuf], args: &CompareArgs) -> anyhow::Result<Run> {
    let progress = ProgressLine::start("reading", args.verbosity);
    let options = stats_options(files, &args.trace, &args.input, &progress)?;
    let stats = Stats::of_files(files, &options).or_code()?;
    Run::new(&name_of(files), stats).or_code()
}

/// Returns the offset between the clocks of two recordings of one run, where that was asked for.
fn clocks(sides: &[Vec<PathBuf>; 2], args: &CompareArgs) -> anyhow::Result<Option<ClockMatch>> {
    if !args.clocks {
        return Ok(None);
    }
    let progress = ProgressLine::start("reading", args.verbosity);
    let options = read_options(&args.trace, &args.input, &progress);
    let [base, other] = sides;
    let found = clock_match::clocks(base, other, &options).or_code()?;
    if found.is_none() {
        args.verbosity.note(
            "blkio: too few requests in common to compare clocks: are these recordings of one run?",
        );
    }
    Ok(found)
}

/// Returns the files of both sides: two paths, or everything before `--with` and everything behind it.
fn sides(args: &CompareArgs) -> anyhow::Result<[Vec<PathBuf>; 2]> {
    let (base, other) = match (args.files.as_slice(), args.with.as_slice()) {
        ([a, b], []) => (std::slice::from_ref(a), std::slice::from_ref(b)),
        (base, other @ [_, ..]) => (base, other),
        ([_], []) => {
            return Err(cli::usage(
                "what is it to be compared with? name a second trace, or several behind --with",
            ));
        }
        (_, []) => {
            return Err(cli::usage(
                "which files are of which side? blkio compare A... --with B...",
            ));
        }
    };
    Ok([
        trace_files(base, args.verbosity)?,
        trace_files(other, args.verbosity)?,
    ])
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Outcome> {
    let sides = sides(args)?;
    let [base, other] = &sides;
    let (a, b) = (read(base, args)?, read(other, args)?);
    let mut found = compare(&a, &b, args.input.threads().get()).or_code()?;
    found.clocks = clocks(&sides, args)?;
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => write_json(&found.to_json(&a, &b).or_code()?, &mut out)?,
        cli::Format::Csv => found.write_csv(&mut out)?,
        cli::Format::Text => found.write_text(&mut out)?,
    }
    out.finish()?;
    for run in [&a, &b] {
        warn(run.quality(), args.verbosity);
    }
    Ok(Outcome::Fine)
}
