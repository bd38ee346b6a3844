//! The commands `validate`, `plan`, `run`, `doctor`, `version`.

use std::io::Write;
use std::path::Path;

use cli::{Interrupt, Outcome, Output, terminal, usage};
use memtrace_run::{
    Experiment, RunOptions, Sampling, Stop, diagnose, hanging, has_memray, next_folder, on_path,
    plan_text, run_command, run_experiment,
};
use report::{JsonDocument, SchemaVersion};
use serde_json::json;

use crate::args::{ConfigArgs, DoctorArgs, Message, RunArgs, VersionArgs};
use crate::input::coded;

const VERSION: SchemaVersion = SchemaVersion::new(1, 0);

/// Reports a mistake in the reference's format, and fails.
fn refused(error: &memtrace_run::Error) -> Outcome {
    terminal::say(&format!("  [ERROR] {error}"));
    Outcome::ConditionFailed
}

pub(crate) fn validate(args: &ConfigArgs) -> anyhow::Result<Outcome> {
    let mut out = Output::stdout();
    let experiment = Experiment::load(&args.config);
    if args.format.format() == Message::Json {
        let (errors, warnings) = match &experiment {
            Ok(experiment) => {
                let found = experiment.validate(on_path);
                let mut warnings = found.warnings;
                warnings.extend(experiment.unused_settings());
                warnings.extend(experiment.missing_memray(has_memray));
                (found.errors, warnings)
            }
            Err(error) => (vec![error.to_string()], Vec::new()),
        };
        let mut document = JsonDocument::new(&mut out, VERSION)?;
        document.member("valid", &errors.is_empty())?;
        document.member("errors", &errors)?;
        document.member("warnings", &warnings)?;
        document.finish()?;
        out.finish()?;
        return Ok(if errors.is_empty() {
            Outcome::Fine
        } else {
            Outcome::ConditionFailed
        });
    }
    writeln!(out, "Validating: {}", args.config.display())?;
    let experiment = match experiment {
        Ok(experiment) => experiment,
        Err(error) => {
            out.finish()?;
            return Ok(refused(&error));
        }
    };
    let found = experiment.validate(on_path);
    for warning in found.warnings.iter().chain(&experiment.unused_settings()) {
        writeln!(out, "  [WARN]  {warning}")?;
    }
    // The reference prints this only if it runs without memray, so it is not part of the common
    // output.
    if let Some(warning) = experiment.missing_memray(has_memray) {
        args.verbosity.detail(|| format!("  [WARN]  {warning}"));
    }
    for error in &found.errors {
        terminal::say(&format!("  [ERROR] {error}"));
    }
    if found.errors.is_empty() {
        writeln!(out, "Config is valid.")?;
    }
    out.finish()?;
    Ok(if found.errors.is_empty() {
        Outcome::Fine
    } else {
        Outcome::ConditionFailed
    })
}

pub(crate) fn plan(args: &ConfigArgs) -> anyhow::Result<Outcome> {
    let experiment = match Experiment::load(&args.config) {
        Ok(experiment) => experiment,
        Err(error) => return Ok(refused(&error)),
    };
    let runs = experiment.plan();
    let mut out = Output::stdout();
    if args.format.format() == Message::Json {
        let mut document = JsonDocument::new(&mut out, VERSION)?;
        document.member("experiment", &experiment.config.experiment.name)?;
        document.member("runs", &runs)?;
        document.finish()?;
    } else {
        write!(
            out,
            "{}",
            plan_text(&experiment.config.experiment.name, &runs)
        )?;
    }
    out.finish()?;
    Ok(Outcome::Fine)
}

pub(crate) fn run(args: &RunArgs) -> anyhow::Result<Outcome> {
    let mut options = RunOptions::default();
    options.sampling = match args.period {
        Some(period) => Sampling::Period(period),
        None => Sampling::Frequency(args.frequency),
    };
    options.collector.clone_from(&args.collector);
    options.phase_marks.clone_from(&args.phase_mark);
    options.phase_patterns.clone_from(&args.phase_regex);
    options.phase_pipe.clone_from(&args.phase_pipe);
    options.phase_socket.clone_from(&args.phase_socket);
    for limit in &args.limit {
        coded(options.limits.set(limit))?;
    }
    // An interrupt ends the command, not this process: the collected data becomes the run.
    let interrupt = Interrupt::listen();
    options.stop = Stop::when(move || interrupt.has_come());
    options.models.clone_from(&args.model);
    let results = match (&args.config, args.command.is_empty()) {
        (Some(config), _) => {
            let experiment = match Experiment::load(config) {
                Ok(experiment) => experiment,
                Err(error) => return Ok(refused(&error)),
            };
            coded(run_experiment(&experiment, &options))?
        }
        (None, false) => {
            let folder = match &args.output {
                Some(folder) => folder.clone(),
                None => next_folder(Path::new("results/run")),
            };
            vec![coded(run_command(&args.command, &folder, &options))?]
        }
        (None, true) => return Err(usage("give --config FILE, or a command after --")),
    };
    let mut out = Output::stdout();
    if args.format.format() == Message::Json {
        let mut document = JsonDocument::new(&mut out, VERSION)?;
        document.member("runs", &results)?;
        document.finish()?;
    } else {
        for result in &results {
            writeln!(out, "{}", result.line())?;
        }
    }
    out.finish()?;
    let failed = results.iter().any(|result| result.failed());
    Ok(if failed {
        Outcome::ConditionFailed
    } else {
        Outcome::Fine
    })
}

pub(crate) fn doctor(args: &DoctorArgs) -> anyhow::Result<Outcome> {
    let found = diagnose(&args.out);
    let mut out = args.output.open()?;
    if args.format.format() == Message::Json {
        let mut document = JsonDocument::new(&mut out, VERSION)?;
        document.member("checks", &found.checks)?;
        document.member("verdict", &found.verdict)?;
        document.member("exit_code", &found.exit_code)?;
        document.finish()?;
    } else {
        for check in &found.checks {
            let head = format!("{:<5} {:<16} ", check.status.name(), check.name);
            write!(out, "{}", hanging(&head, &check.detail))?;
            if let Some(remedy) = check.remediation {
                write!(out, "{}", hanging(&format!("{:22} -> ", ""), remedy))?;
            }
        }
        writeln!(out, "{}", found.verdict)?;
    }
    out.finish()?;
    Ok(Outcome::from(found.exit_code))
}

pub(crate) fn version(args: &VersionArgs) -> anyhow::Result<Outcome> {
    let mut out = Output::stdout();
    let version = env!("CARGO_PKG_VERSION");
    if args.format.format() == Message::Json {
        let text = json!({"schema_version": "1.0", "memtrace": version, "trace_schema": memtrace_labeller::SCHEMA_VERSION});
        writeln!(out, "{text}")?;
    } else {
        writeln!(out, "memtrace {version}")?;
    }
    out.finish()?;
    Ok(Outcome::Fine)
}
