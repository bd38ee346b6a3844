//! `cycle-rca period`.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use rca_cycles::compat::{Period, PeriodMethod, Periods, Sight, periods};
use report::JsonDocument;
use serde_json::{Value, json};
use shell::{Outcome, Output};
use trace_input::{NamedTrace, only_args};
use trace_model::Trace;

use crate::analyse::{compat_options, options};
use crate::args::{Method, PeriodArgs};
use crate::files::must_exist;
use crate::{document, perf, probes};

pub(crate) fn run(args: &PeriodArgs) -> anyhow::Result<Outcome> {
    must_exist(&args.file)?;
    let annotated = args.export_annotated_json.is_some();
    let read = trace_input::read(&args.file, &args.input, args.verbosity, |read| {
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
        return Ok(Outcome::Code(1));
    };
    let mut out = args.output.open()?;
    if args.cut.compat {
        let list: Vec<Value> = found.list.iter().map(plain).collect();
        writeln!(out, "{}", serde_json::to_string_pretty(&list)?)?;
    } else {
        rhythm(&mut out, method, &found)?;
    }
    out.finish()?;
    Ok(Outcome::Fine)
}

/// The methods that are tried, in this order.
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

/// A period in the reference's words.
fn plain(p: &Period) -> Value {
    json!({"start_ts": p.start_us, "end_ts": p.end_us, "count": p.count, "type": p.kind})
}

/// The cycles of the default analysis.
fn cycles(args: &PeriodArgs, read: &NamedTrace) -> anyhow::Result<Outcome> {
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
    let period = analysis.period_ns();
    let mut out = args.output.open()?;
    write(
        &mut out,
        (analysis.method.name(), &analysis.anchor),
        period,
        &periods,
    )?;
    out.finish()?;
    Ok(if period.is_some() {
        Outcome::Fine
    } else {
        Outcome::Code(1)
    })
}

/// What the period finder found, as the default analysis writes it.
fn rhythm(out: &mut Output, method: PeriodMethod, found: &Periods) -> anyhow::Result<()> {
    let ns = probes::nanos;
    let periods: Vec<Value> = found
        .list
        .iter()
        .map(|p| {
            json!({
                "count": p.count,
                "start_ns": ns(p.start_us),
                "end_ns": ns(p.end_us),
                "phase": match p.kind {
                    1 => "prefill",
                    2 => "decode",
                    _ => "unknown",
                },
                "partial": false,
            })
        })
        .collect();
    let mut lengths: Vec<i64> = found
        .list
        .windows(2)
        .map(|w| ns(w[1].start_us - w[0].start_us))
        .collect();
    lengths.sort_unstable();
    let period = lengths.get(lengths.len() / 2).copied();
    let anchor = found.anchor.as_deref().unwrap_or("");
    write(out, (method.name(), anchor), period, &periods)
}

fn write(
    out: &mut Output,
    (method, anchor): (&str, &str),
    period_ns: Option<i64>,
    periods: &[Value],
) -> anyhow::Result<()> {
    let mut document = JsonDocument::new(out, document::VERSION)?;
    document.member("method", method)?;
    document.member("anchor", anchor)?;
    document.member("period_ns", &period_ns)?;
    document.member("periods", &periods)?;
    Ok(document.finish()?)
}

/// The trace as it was, with the periods that each method finds and what stands for other events.
fn annotate(args: &PeriodArgs, path: &Path, read: &NamedTrace) -> anyhow::Result<()> {
    let text = probes::text(&args.file)?;
    let mut document: Value = serde_json::from_str(&text)
        .with_context(|| format!("{}: only JSON traces can be annotated", read.name))?;
    let list = match &mut document {
        Value::Array(list) => list,
        Value::Object(map) => match map.get_mut("traceEvents") {
            Some(Value::Array(list)) => list,
            _ => bail!("{}: no list of events in it", read.name),
        },
        _ => bail!("{}: no list of events in it", read.name),
    };
    for &method in wanted(args.method) {
        let Some(found) = find(args, &read.trace, method) else {
            continue;
        };
        let mut ends: Vec<f64> = Vec::new();
        for p in &found.list {
            // Each on the first track that is free.
            let track = ends.iter().position(|end| *end <= p.start_us);
            let track = track.unwrap_or_else(|| {
                ends.push(p.end_us);
                ends.len() - 1
            });
            ends[track] = p.end_us;
            list.push(json!({
                "name": format!("period_{}_{}", p.kind, method.name()),
                "cat": "period_finder_results",
                "ph": "X",
                "pid": "Period Split Results",
                "tid": format!("Period Analysis ({}) Track {}", method.name(), track + 1),
                "ts": p.start_us,
                "dur": p.end_us - p.start_us,
                "args": {"count": p.count},
            }));
        }
        let stand_ins = found.virtuals.iter();
        list.extend(stand_ins.map(|v| perf::stand_in(&read.trace, v)));
    }
    let mut out = Output::file(path)?;
    serde_json::to_writer(&mut out, &document)?;
    out.finish()
}
