//! `trace-info summary`.

use std::io::Write as _;
use std::path::Path;

use cli::{Outcome, Stage};
use perfetto_reader::ArgPolicy;
use trace_report::Outlined;
use trace_report::summary::{Described, arg_keys, write_json};

use crate::args::{SummaryArgs, SummaryFormat};
use crate::empty::EmptyTraces;
use crate::part::outlining_of;

pub(crate) fn run(args: &SummaryArgs) -> anyhow::Result<Outcome> {
    let mut out = args.output.open()?;
    let mut summaries = Vec::new();
    let mut empty = EmptyTraces::default();
    let mut failed = None;
    let files = trace_input::expand(&args.files, args.verbosity)?;
    cli::refuse_overwrite(&files, &args.output.output)?;
    for path in &files {
        match read(args, path) {
            Ok(found) => {
                let name = &found.summary().file.name;
                empty.add(name, found.no_gpu_activity().cloned());
                summaries.push(found);
            }
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => {
                // The other traces are still worth reading.
                cli::complain(&error);
                failed = Some(path);
            }
        }
    }
    match args.format.format() {
        SummaryFormat::Text => {
            for (at, summary) in summaries.iter().enumerate() {
                if at > 0 {
                    writeln!(out)?;
                }
                let width = cli::terminal::table_width();
                summary.write_text(args.verbosity.verbose, width, &mut out)?;
            }
        }
        SummaryFormat::Json => write_json(&summaries, &mut out)?,
    }
    out.finish()?;
    let outcome = empty.end(args.empty, args.verbosity);
    if let Some(path) = failed {
        anyhow::bail!(
            "not all traces could be read, the last one was {}",
            path.display()
        );
    }
    if args.check && !summaries.iter().all(|s| s.summary().healthy) {
        return Ok(Outcome::ConditionFailed);
    }
    Ok(outcome)
}

fn read(args: &SummaryArgs, path: &Path) -> anyhow::Result<Described> {
    // The text lists the issues itself.
    let mut verbosity = args.verbosity;
    verbosity.quiet |= args.format.format() == SummaryFormat::Text && !args.input.strict;
    let input = trace_input::read(path, &args.input, verbosity, |options| {
        options.args = ArgPolicy::Only(arg_keys());
        options.outline = Some(outlining_of(Outlined::all()));
    })?;
    let _stage = Stage::start("summarise", args.verbosity);
    Ok(Described::new(&input.name, &input.trace))
}
