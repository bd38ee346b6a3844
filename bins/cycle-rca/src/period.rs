//! `cycle-rca period`.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use cli::{Format, Outcome, Output};
use rca_cycles::compat::{Period, PeriodMethod, Periods, Sight, periods};
use rca_report::annotated;
use rca_report::period::Rhythm;
use report::{CsvOptions, CsvWriter};
use serde_json::{Value, json};
use trace_input::{NamedTrace, only_args};
use trace_model::Trace;

use crate::analyse::{compat_options, options};
use crate::args::{Method, PeriodArgs, format_of};
use crate::files::must_exist;
use crate::{names, probes};

pub(crate) fn run(args: &PeriodArgs) -> anyhow::Result<Outcome> {
    must_exist(&args.file)?;
    let outputs = args.output.output.iter();
    cli::refuse_overwrite([&args.file], outputs.chain(&args.export_annotated_json))?;
    let annotated = args.export_annotated_json.is_some();
    let read = trace_input::read(&args.file, &args.input, args.verbosity, |read| {
        read.keep_negative = args.cut.compat;
        read.kernel_rules = args.cut.classes.rules();
        if !annotated {
            only_args(read, rca_cycles::ARG_KEYS);
        }
    })?;
    if let Some(path) = &args.export_annotated_json {
        annotate(args, path, &read)?;
    }
    if args.method == Method::Auto && !args.cut.compat {
        return cycles(args, &read);
    }
    let found = wanted(args.method)
        .iter()
        .find_map(|&m| Some((m, find(args, &read.trace, m)?)));
    let Some((method, found)) = found else {
        args.verbosity
            .note(format!("{}: no period was found", read.name));
        return Ok(Outcome::CannotAnswer);
    };
    if args.cut.compat && args.format.format_or(Format::Json) == Format::Json {
        let list: Vec<Value> = found.list.iter().map(plain).collect();
        let mut out = args.output.open()?;
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
        out.finish()?;
    } else {
        write(args, &Rhythm::of_periods(method, &found))?;
    }
    Ok(Outcome::Fine)
}

/// Returns the methods to try, in order.
fn wanted(method: Method) -> &'static [PeriodMethod] {
    match method {
        Method::Auto => &PeriodMethod::ALL,
        Method::Python => &[PeriodMethod::Python],
        Method::Probe => &[PeriodMethod::Probe],
        Method::Cuda => &[PeriodMethod::Cuda],
    }
}

fn find(args: &PeriodArgs, trace: &Trace, method: PeriodMethod) -> Option<Periods> {
    let sight = if args.cut.compat {
        Sight::Reference
    } else {
        Sight::Full
    };
    periods(trace, &compat_options(&args.cut), method, sight)
}

/// Returns a period in the reference's format.
fn plain(p: &Period) -> Value {
    json!({"start_ts": p.start_us, "end_ts": p.end_us, "count": p.count, "type": p.kind})
}

/// Writes the cycles of the default analysis.
fn cycles(args: &PeriodArgs, read: &NamedTrace) -> anyhow::Result<Outcome> {
    let analysis = match rca_cycles::analyse(&read.trace, &options(&args.cut)?) {
        Ok(analysis) => analysis,
        Err(failure) => {
            args.verbosity.note(format!("{}: {failure}", read.name));
            return Ok(Outcome::CannotAnswer);
        }
    };
    let found = Rhythm::of_cycles(&analysis);
    write(args, &found)?;
    Ok(if found.period_ns.is_some() {
        Outcome::Fine
    } else {
        Outcome::CannotAnswer
    })
}

fn write(args: &PeriodArgs, found: &Rhythm) -> anyhow::Result<()> {
    let mut out = args.output.open()?;
    match format_of(&args.format, &args.output) {
        Format::Json => found.json(&mut out)?,
        Format::Csv => found.rows(&mut CsvWriter::new(&mut out, CsvOptions::default()), 0)?,
        Format::Text => found.text(&mut out, names())?,
    }
    out.finish()
}

/// Writes the unchanged trace, with the periods of each method and the virtual events added.
fn annotate(args: &PeriodArgs, path: &Path, read: &NamedTrace) -> anyhow::Result<()> {
    let text = probes::text(&args.file)?;
    let mut document: Value = serde_json::from_str(&text)
        .with_context(|| format!("{}: only JSON traces can be annotated", read.name))?;
    let methods = wanted(args.method).iter();
    let found: Vec<(PeriodMethod, Periods)> = methods
        .filter_map(|&method| Some((method, find(args, &read.trace, method)?)))
        .collect();
    if let Err(error) = annotated::annotate(&mut document, &read.trace, &found) {
        bail!("{}: {error}", read.name);
    }
    let mut out = Output::file(path)?;
    serde_json::to_writer(&mut out, &document)?;
    out.finish()
}
