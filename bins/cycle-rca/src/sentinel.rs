//! `cycle-rca sentinel`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cli::{Format, InputArgs, Outcome, VerbosityArgs};
use rca_cycles::Phase;
use rca_cycles::sentinel::{
    Event, LEAST_STEPS, NOMINAL_STEP_LIMIT, PhaseModel, Seen, Status, Step, Watch, fit_for,
    nominal_limits, steps,
};
use report::{
    Cell, Column, CsvOptions, CsvWriter, JsonDocument, RowSink, TextOptions, TextWriter, Unit,
    human,
};
use serde_json::{Value, json};

use crate::args::{FitArgs, SentinelCommand, WatchArgs, format_of};
use crate::live::{Pace, Source};
use crate::{document, http, live, probes};

pub(crate) fn run(command: &SentinelCommand) -> anyhow::Result<Outcome> {
    match command {
        SentinelCommand::Fit(args) => fit(args),
        SentinelCommand::Watch(args) => {
            let text = std::fs::read_to_string(&args.model)
                .with_context(|| args.model.display().to_string())?;
            let models = models(&text).with_context(|| args.model.display().to_string())?;
            if models.iter().all(|m| !m.is_usable()) {
                bail!(
                    "{}: no model in it is usable; fit one to more steps of a healthy system",
                    args.model.display()
                );
            }
            let watch = Watch::new(models);
            let is_address = |file: &PathBuf| http::is_address(&file.to_string_lossy());
            if args.follow || args.files.iter().any(is_address) {
                return watch_live(args, watch);
            }
            watch_all(args, watch)
        }
    }
}

fn fit(args: &FitArgs) -> anyhow::Result<Outcome> {
    let mut steps = Vec::new();
    for file in &args.files {
        if http::is_address(&file.to_string_lossy()) {
            let mut sources = [Source::of(file)?];
            let during = std::time::Duration::from_secs_f64(args.pace.during.unwrap_or(600.0));
            let pace = Pace {
                during: Some(during),
                ..args.pace.pace()
            };
            args.verbosity.note(format!(
                "{}: scraping for {} s",
                file.display(),
                during.as_secs()
            ));
            let missed = |error: &anyhow::Error| args.verbosity.note(format!("warning: {error:#}"));
            live::follow(
                &mut sources,
                pace,
                |new| {
                    steps.extend(new);
                    Ok(())
                },
                missed,
            )?;
        } else {
            steps.extend(of_file(file, &args.input, args.verbosity)?);
        }
    }
    let models = fit_for(&steps, args.false_alarm_hours);
    if models.is_empty() {
        bail!(
            "{} steps with a workload: a phase needs at least {LEAST_STEPS}",
            steps.len()
        );
    }
    for m in &models {
        let use_of = match m.is_usable() {
            true => format!("; a false alarm in {:.1} h", m.false_alarm_hours),
            false => format!(
                "; {} of them alarm: no usable model, so no alarms for this phase",
                human::percent(m.held_out_alarms * 100.0)
            ),
        };
        args.verbosity.note(format!(
            "{}: fitted to {} steps, half of the held-out steps within {}{use_of}",
            m.phase.name(),
            m.steps,
            human::percent(m.error * 100.0)
        ));
    }
    if models.iter().all(|m| !m.is_usable()) {
        bail!(
            "no law of batch and lengths explains these steps, so no model is written: their durations follow something else, or the steps are not of one healthy system"
        );
    }
    let list: Vec<Value> = models.iter().map(model).collect();
    let mut out = args.output.open()?;
    let mut document = JsonDocument::new(&mut out, document::VERSION)?;
    document.member("models", &list)?;
    document.finish()?;
    out.finish()?;
    Ok(Outcome::Fine)
}

fn watch_all(args: &WatchArgs, mut watch: Watch) -> anyhow::Result<Outcome> {
    let format = format_of(&args.format, &args.output);
    if let ([file], Format::Csv) = (args.files.as_slice(), format)
        && is_table(file)?
    {
        return follow(&mut watch, args.output.open()?);
    }
    let steps = read(&args.files, &args.input, args.verbosity)?;
    let seen: Vec<Watched<'_>> = steps.iter().map(|s| (s, watch.see(s))).collect();
    let alarms = seen.iter().filter(|s| alarm(s)).count();
    let mut out = args.output.open()?;
    match format {
        Format::Json => {
            let list: Vec<Value> = seen.iter().map(watched).collect();
            let mut document = JsonDocument::new(&mut out, document::VERSION)?;
            document.member("alarms", &alarms)?;
            document.member("steps", &list)?;
            document.finish()?;
        }
        Format::Csv => rows(&seen, &mut CsvWriter::new(&mut out, CsvOptions::default()))?,
        Format::Text => {
            let known = seen.iter().filter(|s| s.1.is_some()).count();
            writeln!(out, "{alarms} of {} steps alarm", seen.len())?;
            if known < seen.len() {
                writeln!(
                    out,
                    "{} steps are of a phase without a usable model: no alarms given",
                    seen.len() - known
                )?;
            }
            if let Some(line) = unknown_load(&seen) {
                writeln!(out, "{line}")?;
            }
            let loud: Vec<Watched<'_>> = seen.iter().copied().filter(alarm).collect();
            if !loud.is_empty() {
                writeln!(out)?;
                rows(
                    &loud,
                    &mut TextWriter::new(&mut out, TextOptions::default()),
                )?;
            }
        }
    }
    out.finish()?;
    let mut status = Status::default();
    for (step, seen) in &seen {
        status.add(step, seen.as_ref());
    }
    write_metrics(args, &status)?;
    if steps.is_empty() {
        args.verbosity.note(
            "no step states its workload, so nothing was watched: give tables of steps, logs of an engine, or traces whose steps state their batches",
        );
    }
    Ok(watched_outcome(steps.len(), alarms))
}

/// Replaces the file of metrics in one step, since others read it at any time.
fn write_metrics(args: &WatchArgs, status: &Status) -> anyhow::Result<()> {
    let Some(path) = &args.metrics else {
        return Ok(());
    };
    let mut part = path.clone().into_os_string();
    part.push(".part");
    std::fs::write(&part, status.metrics())
        .and_then(|()| std::fs::rename(&part, path))
        .with_context(|| path.display().to_string())
}

/// Watches growing files and addresses: a line for each alarm that begins or ends, or a CSV row for each step.
fn watch_live(args: &WatchArgs, mut watch: Watch) -> anyhow::Result<Outcome> {
    let mut sources = args
        .files
        .iter()
        .map(|file| Source::of(file))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let is_csv = format_of(&args.format, &args.output) == Format::Csv;
    let mut out = args.output.open()?;
    let mut status = Status::default();
    let mut named = false;
    let note = |error: &anyhow::Error| args.verbosity.note(format!("warning: {error:#}"));
    live::follow(
        &mut sources,
        args.pace.pace(),
        |steps| {
            for step in &steps {
                let one = (step, watch.see(step));
                let event = status.add(step, one.1.as_ref());
                if is_csv {
                    row(&one, named, &mut out)?;
                    named = true;
                }
                let (Some(event), Some(seen)) = (event, one.1) else {
                    continue;
                };
                if !is_csv {
                    writeln!(out, "{}", said(event, step, &seen))?;
                    out.flush()?;
                }
                if let Some(address) = &args.webhook
                    && let Err(error) = http::post(address, &told(event, step, &seen))
                {
                    // A receiver that is away does not end the watch.
                    note(&error);
                }
            }
            write_metrics(args, &status)
        },
        note,
    )?;
    out.finish()?;
    let alarms = usize::try_from(status.alarm_steps()).unwrap_or(usize::MAX);
    let steps = usize::try_from(status.steps()).unwrap_or(usize::MAX);
    Ok(watched_outcome(steps, alarms))
}

/// One CSV row, written at once.
fn row(one: &Watched<'_>, named: bool, out: &mut cli::Output) -> anyhow::Result<()> {
    let options = CsvOptions {
        header: !named,
        ..CsvOptions::default()
    };
    let mut text = Vec::new();
    rows(&[*one], &mut CsvWriter::new(&mut text, options))?;
    out.write_all(&text)?;
    Ok(out.flush()?)
}

/// The line of an alarm that begins or ends.
fn said(event: Event, step: &Step, seen: &Seen) -> String {
    let times = format!(
        "{} step of {:.0} requests took {}, {} expected",
        step.phase.name(),
        step.batch,
        human::duration(step.duration_ns),
        human::duration(seen.expected_ns)
    );
    match event {
        Event::Begins => format!("alarm: {times} ({:+.1} standard deviations)", seen.z),
        Event::Ends => format!("alarm ended: {times}"),
    }
}

/// The same for programs.
fn told(event: Event, step: &Step, seen: &Seen) -> String {
    json!({
        "event": match event { Event::Begins => "alarm", Event::Ends => "recovered" },
        "text": said(event, step, seen),
        "step": watched(&(step, Some(*seen))),
    })
    .to_string()
}

/// Without any step the question cannot be answered.
fn watched_outcome(steps: usize, alarms: usize) -> Outcome {
    match (steps, alarms) {
        (0, _) => Outcome::CannotAnswer,
        (_, 0) => Outcome::Fine,
        _ => Outcome::ConditionFailed,
    }
}

/// A step, with the result of the watch if its phase has a model.
type Watched<'s> = (&'s Step, Option<Seen>);

fn alarm((_, seen): &Watched<'_>) -> bool {
    seen.is_some_and(|s| s.alarm)
}

/// Returns how many steps have a workload outside of the model's data, and how long these took.
fn unknown_load(seen: &[Watched<'_>]) -> Option<String> {
    let outside = seen.iter().filter_map(|(step, seen)| {
        let seen = seen.filter(|s| s.out_of_support)?;
        Some(step.duration_ns / seen.expected_ns)
    });
    let mut ratios: Vec<f64> = outside.collect();
    ratios.sort_by(f64::total_cmp);
    let middle = ratios.get(ratios.len() / 2)?;
    let steps = |n: usize| human::count(i64::try_from(n).unwrap_or(i64::MAX));
    Some(format!(
        "{} of {} steps have a workload that the model was not fitted to: no alarms given; their\nmedian is {} of what the model extrapolates; fit it to such steps to watch them",
        steps(ratios.len()),
        steps(seen.len()),
        human::percent(middle * 100.0)
    ))
}

/// Watches a table on standard input line by line: each row is written as soon as its step is read.
fn follow(watch: &mut Watch, mut out: cli::Output) -> anyhow::Result<Outcome> {
    let mut lines = std::io::stdin().lock().lines();
    let header = lines.next().context("standard input is empty")??;
    serving_logs::steps(&header).context("standard input")?;
    let mut alarms = 0_usize;
    let mut named = false;
    for (number, line) in (2..).zip(lines) {
        let table = format!("{header}\n{}", line?);
        let (rows, _) = serving_logs::steps(&table)
            .map_err(|error| error.at_line(number))
            .context("standard input")?;
        for step in rows.iter().map(step_of) {
            let one = (&step, watch.see(&step));
            alarms += usize::from(alarm(&one));
            row(&one, named, &mut out)?;
            named = true;
        }
    }
    if !named {
        rows(&[], &mut CsvWriter::new(&mut out, CsvOptions::default()))?;
    }
    out.finish()?;
    Ok(watched_outcome(usize::from(named), alarms))
}

fn watched((s, seen): &Watched<'_>) -> Value {
    json!({
        "start_ns": s.start_ns,
        "phase": s.phase.name(),
        "duration_ns": s.duration_ns,
        "expected_ns": seen.map(|s| s.expected_ns),
        "band_ns": seen.map(|s| [s.band_ns.0, s.band_ns.1]),
        "z": seen.map(|s| s.z),
        "ewma": seen.map(|s| s.ewma),
        "cusum": seen.map(|s| s.cusum),
        "out_of_support": seen.map(|s| s.out_of_support),
        "alarm": seen.is_some_and(|s| s.alarm),
    })
}

/// Writes a row for each step.
fn rows(list: &[Watched<'_>], sink: &mut dyn RowSink) -> anyhow::Result<()> {
    let time = |name, title| Column::real(name).unit(Unit::Nanos).title(title);
    sink.begin(&[
        Column::int("start_ns"),
        Column::text("phase"),
        time("duration_ns", "took"),
        time("expected_ns", "expected"),
        time("band_low_ns", "from"),
        time("band_high_ns", "to"),
        Column::real("z"),
        Column::real("ewma"),
        Column::real("cusum"),
        Column::bool("out_of_support").title("unknown load"),
        Column::bool("alarm"),
    ])?;
    for (s, seen) in list {
        let real = |of: fn(&Seen) -> f64| Cell::from(seen.as_ref().map(of));
        sink.row(&[
            Cell::from(s.start_ns),
            Cell::from(s.phase.name()),
            Cell::from(s.duration_ns),
            real(|s| s.expected_ns),
            real(|s| s.band_ns.0),
            real(|s| s.band_ns.1),
            real(|s| s.z),
            real(|s| s.ewma),
            real(|s| s.cusum),
            Cell::from(seen.map(|s| s.out_of_support)),
            Cell::from(seen.is_some_and(|s| s.alarm)),
        ])?;
    }
    Ok(sink.finish()?)
}

fn read(
    files: &[PathBuf],
    input: &InputArgs,
    verbosity: VerbosityArgs,
) -> anyhow::Result<Vec<Step>> {
    let mut all = Vec::new();
    for file in files {
        all.extend(of_file(file, input, verbosity)?);
    }
    Ok(all)
}

fn of_file(file: &Path, input: &InputArgs, verbosity: VerbosityArgs) -> anyhow::Result<Vec<Step>> {
    let name = file.to_string_lossy();
    let is_log = [".log", ".txt"].iter().any(|end| name.ends_with(end));
    if !name.contains(".csv") && !is_log && !is_table(file)? {
        let read = trace_input::read(file, input, verbosity, |_| {})?;
        let analysis = rca_cycles::analyse(&read.trace, &rca_cycles::Options::default())
            .with_context(|| read.name.clone())?;
        return Ok(steps(&analysis));
    }
    let text = probes::text(file)?;
    if serving_logs::is_engine_log(&text) {
        let steps = text.lines().filter_map(serving_logs::log_step);
        return Ok(steps.map(|step| step_of(&step)).collect());
    }
    let (rows, skipped) = serving_logs::steps(&text).with_context(|| file.display().to_string())?;
    if skipped > 0 {
        verbosity.note(format!("warning: {name}: {skipped} rows could not be read"));
    }
    Ok(rows.iter().map(step_of).collect())
}

pub(crate) fn step_of(r: &serving_logs::StepRow) -> Step {
    Step {
        start_ns: probes::nanos(r.start_us),
        duration_ns: r.duration_us * 1000.0,
        phase: if r.prefill {
            Phase::Prefill
        } else {
            Phase::Decode
        },
        batch: r.batch,
        input: r.input,
        output: r.output,
    }
}

/// Returns `true` if standard input begins with a line of column names; consumes nothing.
fn is_table(file: &Path) -> anyhow::Result<bool> {
    if file.as_os_str() != "-" || std::io::stdin().is_terminal() {
        return Ok(false);
    }
    let stdin = std::io::stdin();
    let mut stdin = stdin.lock();
    Ok(begins_with_names(
        stdin.fill_buf().context("standard input")?,
    ))
}

/// Returns `true` if a text begins with a line of names. With a pipe, `head` may hold only the
/// first bytes of the line: then the first letters decide, since a table begins with a name and a
/// trace with a bracket or a number of its format.
fn begins_with_names(head: &[u8]) -> bool {
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let (line, is_whole) = match head.iter().position(|b| *b == b'\n') {
        Some(end) => (&head[..end], true),
        None => (head, false),
    };
    let text = match std::str::from_utf8(line) {
        Ok(text) => text,
        // A character may be cut at the end of the bytes.
        Err(error) if !is_whole && error.error_len().is_none() => {
            std::str::from_utf8(&line[..error.valid_up_to()]).unwrap_or("")
        }
        Err(_) => return false,
    };
    let text = text.trim_start().trim_end_matches('\r');
    let is_text = !text.chars().any(|c| c.is_control() && c != '\t');
    let is_format = ["SQLite format 3", "BZh"]
        .iter()
        .any(|magic| text.starts_with(magic));
    is_text
        && !is_format
        && text.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '"' | ',' | ';'))
        && (!is_whole || text.contains([',', ';']))
}

fn model(m: &PhaseModel) -> Value {
    json!({
        "phase": m.phase.name(),
        "coefficients_ns": m.coefficients,
        "support": m.support.map(|s| [s.0, s.1]),
        "residual_centre": m.centre,
        "residual_spread": m.spread,
        "residual_band": [m.band.0, m.band.1],
        "held_out_error": m.error,
        "usable": m.is_usable(),
        "ewma_limit": m.limits.0,
        "cusum_limit": m.limits.1,
        "step_limit": m.step_limit,
        "steps": m.steps,
        "false_alarm_steps": m.false_alarm_steps,
        "false_alarm_hours": m.false_alarm_hours,
        "held_out_alarms": m.held_out_alarms,
    })
}

/// Parses the models of a file that [`model`] wrote.
fn models(text: &str) -> anyhow::Result<Vec<PhaseModel>> {
    let document: Value = serde_json::from_str(text)?;
    let list = document["models"].as_array().context("no models in it")?;
    // Files of earlier versions do not state their limits, which were these.
    let nominal = nominal_limits(1e5);
    list.iter()
        .map(|m| {
            let real = |v: &Value| v.as_f64().context("a number is missing");
            let pair =
                |v: &Value| -> anyhow::Result<(f64, f64)> { Ok((real(&v[0])?, real(&v[1])?)) };
            let c = &m["coefficients_ns"];
            let s = &m["support"];
            Ok(PhaseModel {
                phase: match m["phase"].as_str() {
                    Some("prefill") => Phase::Prefill,
                    Some("decode") => Phase::Decode,
                    Some("mixed") => Phase::Mixed,
                    other => bail!("phase {other:?} has no model"),
                },
                coefficients: [real(&c[0])?, real(&c[1])?, real(&c[2])?],
                support: [pair(&s[0])?, pair(&s[1])?, pair(&s[2])?],
                centre: real(&m["residual_centre"])?,
                spread: real(&m["residual_spread"])?,
                band: pair(&m["residual_band"])?,
                error: real(&m["held_out_error"])?,
                limits: (
                    m["ewma_limit"].as_f64().unwrap_or(nominal.0),
                    m["cusum_limit"].as_f64().unwrap_or(nominal.1),
                ),
                step_limit: m["step_limit"].as_f64().unwrap_or(NOMINAL_STEP_LIMIT),
                steps: usize::try_from(m["steps"].as_u64().unwrap_or(0))?,
                false_alarm_steps: m["false_alarm_steps"].as_f64().unwrap_or(1e5),
                false_alarm_hours: m["false_alarm_hours"].as_f64().unwrap_or(0.0),
                held_out_alarms: m["held_out_alarms"].as_f64().unwrap_or(0.0),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::begins_with_names;

    #[test]
    fn a_table_is_known_by_any_part_of_its_first_line() {
        let line = "\u{feff}start_ts,duration_us,l\u{e4}nge\n0,8000,1\n".as_bytes();
        for end in 4..=line.len() {
            assert!(begins_with_names(&line[..end]), "{end}");
        }
        for head in [
            &b"{"[..],
            b"[\n",
            b" {\"traceEvents\"",
            b"\x1f\x8b\x08",
            b"\x0a\x0c\x08",
            b"SQLite format 3\0",
            b"(\xb5/\xfd",
            b"PK\x03\x04",
            b"no table at all\n",
            b"",
        ] {
            assert!(!begins_with_names(head), "{head:?}");
        }
    }
}
