//! `cycle-rca period`.

use report::JsonDocument;
use serde_json::{Value, json};
use shell::Outcome;
use trace_input::only_args;

use crate::analyse::options;
use crate::args::PeriodArgs;
use crate::document;

pub(crate) fn run(args: &PeriodArgs) -> anyhow::Result<Outcome> {
    let read = trace_input::read(&args.file, &args.input, args.verbosity, |read| {
        only_args(
            read,
            &["correlation", "corr_id", "correlation_id", "device", "args"],
        );
    })?;
    let analysis = match rca_cycles::analyse(&read.trace, &options(&args.cut)?) {
        Ok(analysis) => analysis,
        Err(failure) => {
            args.verbosity.note(format!("{}: {failure}", read.name));
            return Ok(Outcome::Code(1));
        }
    };
    let periods: Vec<Value> = analysis
        .cycles
        .iter()
        .enumerate()
        .map(|(i, c)| {
            json!({
                "count": i + 1,
                "start_ns": c.start_ns,
                "end_ns": c.end_ns,
                "phase": c.phase.name(),
                "partial": c.partial.is_some(),
            })
        })
        .collect();
    let mut out = args.output.open()?;
    let mut document = JsonDocument::new(&mut out, document::VERSION)?;
    document.member("method", analysis.method.name())?;
    document.member("anchor", &analysis.anchor)?;
    document.member("period_ns", &analysis.period_ns())?;
    document.member("periods", &periods)?;
    document.finish()?;
    out.finish()?;
    Ok(if analysis.period_ns().is_some() {
        Outcome::Fine
    } else {
        Outcome::Code(1)
    })
}
