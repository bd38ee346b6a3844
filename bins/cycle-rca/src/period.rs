//! `cycle-rca period`.

use std::io::Write as _;
use std::path::Path;

use anyhow::{Context as _, bail};
use cli::{Format, Outcome, Output};
use rca_cycles::compat::{Period, PeriodMethod, Periods, Sight, periods};
use report::{
    Cell, Column, CsvOptions, CsvWriter, JsonDocument, RowSink, TextOptions, Unit, human,
};
use serde_json::{Value, json};
use trace_input::{NamedTrace, only_args};
use trace_model::Trace;

use crate::analyse::{compat_options, options};
use crate::args::{Method, PeriodArgs, format_of};
use crate::files::must_exist;
use crate::{document, perf, probes, text};

pub(crate) fn run(args: &PeriodArgs) -> anyhow::Result<Outcome> {
    must_exist(&args.file)?;
    let outputs = args.output.output.iter();
    cli::refuse_overwrite([&args.file], outputs.chain(&args.export_annotated_json))?;
    let annotated = args.export_annotated_json.is_some();
    let read = trace_input::read(&args.file, &args.input, args.verbosity, |read| {
        read.keep_negative = args.cut.compat;
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
        rhythm(method, &found).write(args)?;
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
    let each = analysis.cycles.iter().enumerate();
    let found = Rhythm {
        method: analysis.method.name(),
        anchor: analysis.anchor.clone(),
        period_ns: analysis.period_ns(),
        periods: each
            .map(|(i, c)| Stretch {
                count: i + 1,
                start_ns: c.start_ns,
                end_ns: c.end_ns,
                phase: c.phase.name(),
                partial: c.partial.is_some(),
            })
            .collect(),
    };
    found.write(args)?;
    Ok(if found.period_ns.is_some() {
        Outcome::Fine
    } else {
        Outcome::CannotAnswer
    })
}

/// Converts the result of the period finder to the format of the default analysis.
fn rhythm(method: PeriodMethod, found: &Periods) -> Rhythm {
    let ns = probes::nanos;
    let each = found.list.iter();
    let periods = each
        .map(|p| Stretch {
            count: p.count,
            start_ns: ns(p.start_us),
            end_ns: ns(p.end_us),
            phase: match p.kind {
                1 => "prefill",
                2 => "decode",
                _ => "unknown",
            },
            partial: false,
        })
        .collect();
    let mut lengths: Vec<i64> = found
        .list
        .windows(2)
        .map(|w| ns(w[1].start_us - w[0].start_us))
        .collect();
    lengths.sort_unstable();
    Rhythm {
        method: method.name(),
        anchor: found.anchor.clone().unwrap_or_default(),
        period_ns: lengths.get(lengths.len() / 2).copied(),
        periods,
    }
}

/// The periods of a trace.
struct Rhythm {
    method: &'static str,
    anchor: String,
    period_ns: Option<i64>,
    periods: Vec<Stretch>,
}

/// The interval from one period to the next.
#[derive(serde::Serialize)]
struct Stretch {
    count: usize,
    start_ns: i64,
    end_ns: i64,
    phase: &'static str,
    partial: bool,
}

impl Rhythm {
    fn write(&self, args: &PeriodArgs) -> anyhow::Result<()> {
        let mut out = args.output.open()?;
        match format_of(&args.format, &args.output) {
            Format::Json => {
                let mut document = JsonDocument::new(&mut out, document::VERSION)?;
                document.member("method", self.method)?;
                document.member("anchor", &self.anchor)?;
                document.member("period_ns", &self.period_ns)?;
                document.member("periods", &self.periods)?;
                document.finish()?;
            }
            Format::Csv => self.rows(&mut CsvWriter::new(&mut out, CsvOptions::default()), 0)?,
            Format::Text => {
                let anchor = match self.anchor.as_str() {
                    "" => "nothing".to_owned(),
                    anchor => text::name(anchor, 50),
                };
                writeln!(out, "cut at {anchor} ({})", self.method)?;
                #[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
                match self.period_ns {
                    Some(ns) => writeln!(out, "median period {}\n", human::duration(ns as f64))?,
                    None => writeln!(out, "no period\n")?,
                }
                let first = self.periods.first().map_or(0, |p| p.start_ns);
                self.rows(
                    &mut report::TextWriter::new(&mut out, TextOptions::default()),
                    first,
                )?;
            }
        }
        out.finish()
    }

    /// Writes a row for each, with starts counted from `origin`.
    fn rows(&self, sink: &mut dyn RowSink, origin: i64) -> anyhow::Result<()> {
        sink.begin(&[
            Column::uint("count"),
            Column::int("start_ns").unit(Unit::Nanos).title("start"),
            Column::int("end_ns").unit(Unit::Nanos).title("end"),
            Column::int("length_ns").unit(Unit::Nanos).title("length"),
            Column::text("phase"),
            Column::bool("partial"),
        ])?;
        for p in &self.periods {
            sink.row(&[
                Cell::from(p.count),
                Cell::from(p.start_ns - origin),
                Cell::from(p.end_ns - origin),
                Cell::from(p.end_ns - p.start_ns),
                Cell::from(p.phase),
                Cell::from(p.partial),
            ])?;
        }
        Ok(sink.finish()?)
    }
}

/// Writes the unchanged trace, with the periods of each method and the virtual events added.
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
            // Each goes on the first free track.
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
