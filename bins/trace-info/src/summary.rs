//! `trace-info summary`.

use std::io::Write as _;

use cli::{Outcome, Stage};
use gpu_time::comm::SHAPE_KEYS;
use gpu_time::{GpuWork, NoGpuWork, no_gpu_work};
use perfetto_reader::ArgPolicy;
use report::JsonDocument;
use serde::Serialize;
use trace_model::correlation::CORRELATION_KEYS;
use trace_model::kernel::PLACE_KEYS;
use trace_tables::{SUMMARY_VERSION, Summary, summarise};

use crate::args::{SummaryArgs, SummaryFormat};
use crate::empty::EmptyTraces;
use crate::render;
use gpu_time::Overview;

/// Description of one trace.
#[derive(Serialize)]
pub(crate) struct Described {
    #[serde(flatten)]
    pub(crate) summary: Summary,
    /// Facts of single formats, by the name of their section.
    #[serde(flatten)]
    pub(crate) sections: serde_json::Map<String, serde_json::Value>,
    pub(crate) overview: Overview,
    /// Reason for missing GPU activity, if there is none.
    pub(crate) no_gpu_activity: Option<NoGpuWork>,
}

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
                let name = &found.summary.file.name;
                empty.add(name, found.no_gpu_activity.clone());
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
    if args.check && !summaries.iter().all(|s| s.summary.healthy) {
        return Ok(Outcome::ConditionFailed);
    }
    Ok(outcome)
}

fn read(args: &SummaryArgs, path: &std::path::Path) -> anyhow::Result<Described> {
    // The text lists the issues itself.
    let mut verbosity = args.verbosity;
    verbosity.quiet |= args.format.format() == SummaryFormat::Text && !args.input.strict;
    let input = trace_input::read(path, &args.input, verbosity, |options| {
        let keys = CORRELATION_KEYS
            .iter()
            .chain(&PLACE_KEYS)
            .chain(&SHAPE_KEYS);
        options.args = ArgPolicy::Only(keys.map(|key| (*key).to_owned()).collect());
        options.outline = Some(crate::outlined::all());
    })?;
    let _stage = Stage::start("summarise", args.verbosity);
    let work = GpuWork::new(&input.trace);
    Ok(Described {
        summary: summarise(&input.name, &input.trace),
        sections: sections(&input.trace),
        overview: Overview::new(&work),
        no_gpu_activity: no_gpu_work(work.index()),
    })
}

/// Returns the sections that the reader added to the metadata.
fn sections(trace: &trace_model::Trace) -> serde_json::Map<String, serde_json::Value> {
    let sections = trace.meta().sections.iter();
    let parsed = sections.filter_map(|(name, text)| {
        let value = serde_json::from_str(text).ok()?;
        Some(((*name).to_owned(), value))
    });
    parsed.collect()
}
