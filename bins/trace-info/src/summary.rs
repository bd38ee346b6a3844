//! `trace-info summary`.

use std::io::Write as _;

use gpu_time::{NoGpuWork, no_gpu_work};
use perfetto_reader::ArgPolicy;
use report::JsonDocument;
use shell::{Outcome, Stage};
use trace_model::correlation::CORRELATION_KEYS;
use trace_model::kernel::{TraceIndex, Vocabulary};
use trace_tables::{SUMMARY_VERSION, Summary, summarise};

use crate::args::{SummaryArgs, SummaryFormat};
use crate::empty::EmptyTraces;
use crate::render;

pub(crate) fn run(args: &SummaryArgs) -> anyhow::Result<Outcome> {
    let mut out = args.output.open()?;
    let mut summaries = Vec::new();
    let mut empty = EmptyTraces::default();
    let mut failed = None;
    let files = trace_input::expand(&args.files, args.verbosity)?;
    shell::spare(&files, &args.output.output)?;
    for path in &files {
        match read(args, path) {
            Ok((summary, why)) => {
                empty.add(&summary.file.name, why);
                summaries.push(summary);
            }
            Err(error) if files.len() == 1 => return Err(error),
            Err(error) => {
                // The others are still worth reading.
                shell::complain(&error);
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
                render::summary(summary, args.verbosity.verbose, &mut out)?;
            }
        }
        SummaryFormat::Json => {
            let mut document = JsonDocument::new(&mut out, SUMMARY_VERSION)?;
            document.member("traces", &summaries)?;
            document.finish()?;
        }
    }
    out.finish()?;
    let outcome = empty.end(args.empty, args.verbosity);
    if let Some(path) = failed {
        anyhow::bail!(
            "not all traces could be read, the last one was {}",
            path.display()
        );
    }
    if args.check && !summaries.iter().all(|s| s.healthy) {
        return Ok(Outcome::ConditionFailed);
    }
    Ok(outcome)
}

fn read(
    args: &SummaryArgs,
    path: &std::path::Path,
) -> anyhow::Result<(Summary, Option<NoGpuWork>)> {
    // The text lists the issues itself.
    let mut verbosity = args.verbosity;
    verbosity.quiet |= args.format.format() == SummaryFormat::Text && !args.input.strict;
    let input = trace_input::read(path, &args.input, verbosity, |options| {
        let keys = CORRELATION_KEYS.iter().map(|key| (*key).to_owned());
        options.args = ArgPolicy::Only(keys.collect());
    })?;
    let _stage = Stage::start("summarise", args.verbosity);
    let index = TraceIndex::new(&input.trace, Vocabulary::default());
    Ok((summarise(&input.name, &input.trace), no_gpu_work(&index)))
}
