//! Tests whether the second run differs from the first, by how much, and why.

mod args;
mod page;

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use cli::{OrExit as _, Outcome, Output, Stage};
use perf_compare::document::Status;
use perf_compare::{Gate, LoadOptions, Options, Report, Side, Signatures, compare, compat, load};

use crate::args::{Cli, Format};

/// Bytes by which a file is recognised.
const HEAD: u16 = 1 << 12;

/// Default folder of published results.
const REPORTS: &str = "comparison_reports";

/// Runs the tool with the words of a command line, the tool's name first. Returns the exit code.
pub fn main_from(words: impl IntoIterator<Item = OsString>) -> u8 {
    cli::main_from(words, run)
}

/// Returns the description of the command line, for help, completions and manual pages.
#[must_use]
pub fn command() -> clap::Command {
    <Cli as clap::CommandFactory>::command()
}

fn run(cli: Cli) -> anyhow::Result<Outcome> {
    if cli.statistics.print_signatures {
        let mut out = Output::stdout();
        out.write_all(Signatures::builtin_text().as_bytes())?;
        out.finish()?;
        return Ok(Outcome::Fine);
    }
    if cli.compat.compat {
        return published(&cli);
    }
    let (baseline, candidate) = match (&cli.gate.baseline, cli.inputs.as_slice()) {
        (None, [a, b]) => (a, b),
        (Some(a), [b]) => (a, b),
        _ => {
            return Err(cli::usage(
                "give two inputs, the baseline first, or --baseline and one input",
            ));
        }
    };
    if baseline.as_os_str() == "-" && candidate.as_os_str() == "-" {
        return Err(cli::usage(
            "standard input holds one of the two inputs: name a file for the other",
        ));
    }
    let gate = &cli.gate;
    let beside = [&cli.html, &gate.junit, &gate.markdown, &gate.save_baseline];
    let outputs = beside.into_iter().flatten().chain(&cli.output);
    cli::refuse_overwrite([baseline, candidate], outputs)?;
    let options = options(&cli)?;
    let baseline = read(&cli, baseline)?;
    let candidate = read(&cli, candidate)?;
    let report = Stage::time("compare", cli.verbosity, || {
        compare(&baseline, &candidate, &options)
    });
    // Who closes the pipe early still wants to know how it ended.
    cli::is_read_on(write_all(&cli, &report, &candidate))?;
    Ok(outcome(&cli, &report))
}

fn read(cli: &Cli, path: &Path) -> anyhow::Result<Side> {
    // A report of Nsight Systems has no columns that could be missing.
    let name = path.to_string_lossy();
    let mut head = Vec::new();
    if let (true, Ok(file)) = (path.is_file(), std::fs::File::open(path)) {
        file.take(u64::from(HEAD)).read_to_end(&mut head)?;
    }
    let unreadable = nsys_db::not_exported(&name, &head);
    if let Some(error) = unreadable.or_else(|| nsys_db::arrow_folder(path)) {
        return Err(error.into());
    }
    if serving_logs::is_bench(&head) || serving_logs::is_prometheus(&head) {
        return samples(cli, path, &[path.to_owned()]);
    }
    let results = results(path)?;
    if !results.is_empty() {
        return samples(cli, path, &results);
    }
    let mut options = LoadOptions::default();
    options.open = cli.input.open_options(None);
    options.strict = cli.input.strict;
    let side = Stage::time("read", cli.verbosity, || load(path, &options));
    let side = side.map_err(|error| something_else(path, cli).unwrap_or_else(|| error.into()))?;
    cli.verbosity.detail(|| {
        format!(
            "{}: {} cycles, {} functions",
            side.name(),
            side.cycles(),
            side.functions()
        )
    });
    Ok(side)
}

/// Returns what a file is that has no columns, where it is known: a trace, a pointer of Git LFS, a web page.
fn something_else(path: &Path, cli: &Cli) -> Option<anyhow::Error> {
    if !path.is_file() {
        return None;
    }
    let source = byte_source::Source::open(path, &cli.input.open_options(None)).ok()?;
    let mut options = perfetto_reader::ReadOptions::default();
    options.args = perfetto_reader::ArgPolicy::None;
    match perfetto_reader::read(source, &options) {
        Ok(_) => Some(anyhow::anyhow!(
            "{}: this is a trace: compare traces with `trace-info diff`, or give the perf data that `cycle-rca batch` makes of them",
            path.display()
        )),
        Err(error @ perfetto_reader::Error::NotATrace { .. }) => Some(error.into()),
        Err(_) => None,
    }
}

fn head_of(path: &Path) -> anyhow::Result<Vec<u8>> {
    let mut head = Vec::new();
    std::fs::File::open(path)?
        .take(u64::from(HEAD))
        .read_to_end(&mut head)?;
    Ok(head)
}

/// Returns the results of serving benchmarks in a folder, by name; none where it holds tables of perf data, which come first.
fn results(path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !path.is_dir() {
        return Ok(Vec::new());
    }
    let is_table = |file: &Path| file.to_string_lossy().contains("_perf_data.csv");
    if byte_source::expand_inputs([path], is_table).is_ok() {
        return Ok(Vec::new());
    }
    let is_json = |file: &Path| {
        let ends = file
            .extension()
            .is_some_and(|end| end == "json" || end == "jsonl");
        ends && head_of(file).is_ok_and(|head| serving_logs::is_bench(&head))
    };
    Ok(byte_source::expand_inputs([path], is_json).unwrap_or_default())
}

/// Reads the results of serving benchmarks, or metrics, as samples: each file of a folder is one run or several.
fn samples(cli: &Cli, path: &Path, files: &[PathBuf]) -> anyhow::Result<Side> {
    let name = path.display().to_string();
    let mut found = serving_logs::Samples::default();
    for file in files {
        let name = || file.display().to_string();
        let text = std::fs::read_to_string(file)
            .with_context(name)
            .or_exit(Outcome::Unreadable)?;
        let head = text
            .as_bytes()
            .get(..usize::from(HEAD))
            .unwrap_or(text.as_bytes());
        found.append(match serving_logs::is_bench(head) {
            true => serving_logs::bench(&text)
                .with_context(name)
                .or_exit(Outcome::Unreadable)?,
            false => serving_logs::prometheus(&text),
        });
    }
    found.group_by_load();
    for (count, what) in [
        (found.failed_requests, "requests failed and are left out"),
        (found.bad_values, "values cannot be read and are left out"),
        (
            found.single_readings,
            "counters were read once, which measures nothing: scrape before and after the run",
        ),
    ] {
        if count > 0 {
            cli.verbosity
                .note(format!("warning: {name}: {count} {what}"));
        }
    }
    let side = Side::from_samples_csv(&name, found.to_csv().as_bytes())?;
    Ok(side.with_settings(found.settings))
}

fn options(cli: &Cli) -> anyhow::Result<Options> {
    let given = &cli.statistics;
    let mut options = Options::default();
    options.permutations = given.permutations;
    options.resamples = given.resamples;
    options.seed = given.seed.unwrap_or(options.seed);
    options.threads = cli.input.threads().get();
    options.level = given.level;
    // A gate tests for large effects, but the small ones must still be listed.
    if let (Some(percent), false) = (given.min_effect, cli.gate.gate) {
        options.min_effect_pct = percent;
    }
    options.min_effect_us = given.min_effect_us;
    options.equivalence_pct = given.equivalence;
    options.any_dependence = given.any_dependence;
    options.force = cli.force;
    options.map.clone_from(&given.map);
    options.same_anchors.clone_from(&given.same_anchor);
    for file in &given.signatures {
        let name = file.display().to_string();
        let text = std::fs::read_to_string(file).with_context(|| name.clone())?;
        options
            .signatures
            .extend(Signatures::parse(&text, &name).or_exit(Outcome::Usage)?);
    }
    Ok(options)
}

fn write_all(cli: &Cli, report: &Report, candidate: &Side) -> anyhow::Result<()> {
    let threshold = cli.statistics.min_effect.unwrap_or(0.0);
    let gate = &cli.gate;
    if let Some(path) = &cli.html {
        write_file(path, &page::html(report))?;
    }
    if let Some(path) = &gate.junit {
        write_file(path, &report.to_junit(gate.fail_on.into(), threshold))?;
    }
    if let Some(path) = &gate.markdown {
        write_file(path, &report.to_markdown())?;
    }
    if let Some(path) = &gate.save_baseline {
        write_file(path, &candidate.to_samples_csv())?;
    }
    let text = match cli.format.format() {
        Format::Text if cli::terminal::table_width().is_some() => report.to_text(),
        Format::Text => report.to_uncut_text(),
        Format::Json => report.to_json()?,
        Format::Csv => report.to_csv()?,
        Format::Md => report.to_markdown(),
    };
    match &cli.output {
        Some(path) if path.as_os_str() != "-" => write_file(path, &text)?,
        _ => {
            let mut out = Output::stdout();
            out.write_all(text.as_bytes())?;
            out.finish()?;
        }
    }
    Ok(())
}

fn write_file(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut out = Output::file(path)?;
    out.write_all(text.as_bytes())?;
    out.finish()
}

fn outcome(cli: &Cli, report: &Report) -> Outcome {
    let gate = &report.comparability;
    if gate.status == Status::NotComparable && !gate.forced {
        return Outcome::CannotAnswer;
    }
    if !cli.gate.gate {
        return Outcome::Fine;
    }
    let (said, outcome) = match report.gate(
        cli.gate.fail_on.into(),
        cli.statistics.min_effect.unwrap_or(0.0),
    ) {
        Gate::Pass => ("passed", Outcome::Fine),
        Gate::Worse => ("failed", Outcome::ConditionFailed),
        _ => ("cannot be told", Outcome::CannotAnswer),
    };
    cli.verbosity.note(format!("gate: {said}"));
    outcome
}

fn published(cli: &Cli) -> anyhow::Result<Outcome> {
    let mut options = compat::Options::default();
    options.similarity_threshold = cli.compat.similarity_threshold;
    options.warning_threshold = cli.compat.warning_threshold;
    options.fit_threshold = !cli.compat.disable_threshold_fit;
    options.open = cli.input.open_options(None);
    let folder = cli.output.as_deref().unwrap_or(Path::new(REPORTS));
    let summary = Stage::time("compare", cli.verbosity, || {
        compat::run(&cli.inputs, folder, &options)
    })?;
    for note in &summary.notes {
        cli.verbosity.note(note.to_string());
    }
    cli.verbosity.note(format!(
        "{} comparisons, {} files in {}",
        summary.pairs,
        summary.written.len(),
        folder.display()
    ));
    Ok(if summary.written.is_empty() {
        Outcome::ConditionFailed
    } else {
        Outcome::Fine
    })
}
