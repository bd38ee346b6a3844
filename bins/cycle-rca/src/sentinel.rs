//! `cycle-rca sentinel`.

use std::io::{BufRead as _, IsTerminal as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cli::{Format, InputArgs, Outcome, VerbosityArgs};
use rca_cycles::sentinel::{LEAST_STEPS, Status, Step, Watch, fit_for, steps};
use rca_report::fitted;
use rca_report::watch::{Watched, alarm, models, rows, said, told};
use report::{CsvOptions, CsvWriter};
use serving_watch::{Pace, Source, is_address, post};

use crate::args::{FitArgs, SentinelCommand, WatchArgs, format_of};
use crate::probes;

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
            let live = |file: &PathBuf| is_address(&file.to_string_lossy());
            if args.follow || args.files.iter().any(live) {
                return watch_live(args, watch);
            }
            watch_all(args, watch)
        }
    }
}

fn fit(args: &FitArgs) -> anyhow::Result<Outcome> {
    let mut steps = Vec::new();
    for file in &args.files {
        if is_address(&file.to_string_lossy()) {
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
            let missed =
                |error: &serving_watch::Error| args.verbosity.note(format!("warning: {error}"));
            serving_watch::follow(
                &mut sources,
                pace,
                |new| {
                    steps.extend(new.iter().map(fitted::step));
                    Ok::<(), anyhow::Error>(())
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
        args.verbosity.note(fitted::sentence(m));
    }
    if let Some(why) = fitted::why_unusable(&models) {
        bail!("{why}");
    }
    let mut out = args.output.open()?;
    fitted::write_models(&models, &mut out)?;
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
    let alarms = fitted::alarms(&seen);
    // Whether the pipe is read to its end or not, the alarms are the same.
    cli::is_read_on(write_seen(args, &seen, format))?;
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

fn write_seen(args: &WatchArgs, seen: &[Watched<'_>], format: Format) -> anyhow::Result<()> {
    let mut out = args.output.open()?;
    match format {
        Format::Json => fitted::write_json(seen, &mut out)?,
        Format::Csv => rows(seen, &mut CsvWriter::new(&mut out, CsvOptions::default()))?,
        Format::Text => fitted::write_text(seen, &mut out)?,
    }
    out.finish()
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
        .collect::<Result<Vec<_>, _>>()?;
    let is_csv = format_of(&args.format, &args.output) == Format::Csv;
    let mut out = args.output.open()?;
    let mut status = Status::default();
    let mut named = false;
    let mut is_read = true;
    let note = |error: &serving_watch::Error| args.verbosity.note(format!("warning: {error}"));
    serving_watch::follow(
        &mut sources,
        args.pace.pace(),
        |steps| {
            for step in &steps.iter().map(fitted::step).collect::<Vec<Step>>() {
                let one = (step, watch.see(step));
                let event = status.add(step, one.1.as_ref());
                if is_csv && is_read {
                    is_read = cli::is_read_on(row(&one, named, &mut out))?;
                    named = true;
                }
                let (Some(event), Some(seen)) = (event, one.1) else {
                    continue;
                };
                if !is_csv && is_read {
                    let line = said(event, step, &seen);
                    let written = writeln!(out, "{line}").and_then(|()| out.flush());
                    is_read = cli::is_read_on(written.map_err(Into::into))?;
                }
                if let Some(address) = &args.webhook
                    && let Err(error) = post(address, &told(event, step, &seen))
                {
                    // A receiver that is away does not end the watch.
                    note(&error);
                }
            }
            write_metrics(args, &status)
        },
        note,
    )?;
    cli::is_read_on(out.finish())?;
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

/// Without any step the question cannot be answered.
fn watched_outcome(steps: usize, alarms: usize) -> Outcome {
    match (steps, alarms) {
        (0, _) => Outcome::CannotAnswer,
        (_, 0) => Outcome::Fine,
        _ => Outcome::ConditionFailed,
    }
}

/// Watches a table on standard input line by line: each row is written as soon as its step is read.
fn follow(watch: &mut Watch, mut out: cli::Output) -> anyhow::Result<Outcome> {
    let mut lines = std::io::stdin().lock().lines();
    let header = lines.next().context("standard input is empty")??;
    serving_logs::steps(&header).context("standard input")?;
    let mut alarms = 0_usize;
    let mut named = false;
    let mut is_read = true;
    for (number, line) in (2..).zip(lines) {
        let table = format!("{header}\n{}", line?);
        let (rows, _) = serving_logs::steps(&table)
            .map_err(|error| error.at_line(number))
            .context("standard input")?;
        for step in rows.iter().map(fitted::step) {
            let one = (&step, watch.see(&step));
            alarms += usize::from(alarm(&one));
            if is_read {
                is_read = cli::is_read_on(row(&one, named, &mut out))?;
            }
            named = true;
        }
    }
    if !named {
        rows(&[], &mut CsvWriter::new(&mut out, CsvOptions::default()))?;
    }
    cli::is_read_on(out.finish())?;
    Ok(watched_outcome(usize::from(named), alarms))
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
        return Ok(steps.map(|step| fitted::step(&step)).collect());
    }
    let (rows, skipped) = serving_logs::steps(&text).with_context(|| file.display().to_string())?;
    if skipped > 0 {
        verbosity.note(format!("warning: {name}: {skipped} rows could not be read"));
    }
    Ok(rows.iter().map(fitted::step).collect())
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
