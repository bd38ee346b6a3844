//! `cycle-rca batch`.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cli::{Format, Outcome, Output};
use rca_cycles::{Analysis, compare, compat};
use rca_report::{cases, culprits, document, recording, tracks};
use report::JsonDocument;
use serde_json::{Value, json};

use crate::analyse::{compat_options, note_ignored, options};
use crate::args::BatchArgs;
use crate::files::Job;
use crate::{files, names, perf, probes};

/// A folder `normal` with its sibling `abnormal`.
struct Case {
    name: String,
    normal: PathBuf,
    abnormal: PathBuf,
}

pub(crate) fn run(args: &BatchArgs) -> anyhow::Result<Outcome> {
    if !args.dir.is_dir() {
        bail!("{}: not a folder", args.dir.display());
    }
    note_ignored(&args.cut, args.verbosity);
    let mut cases = Vec::new();
    search(&args.dir, &args.dir, &mut cases)?;
    if cases.is_empty() {
        args.verbosity.note(format!(
            "warning: {}: no folder `normal` with a sibling `abnormal`",
            args.dir.display()
        ));
    }
    let sides = cases.iter().flat_map(|case| [&case.normal, &case.abnormal]);
    let entries = sides.filter_map(|side| side.read_dir().ok()).flatten();
    let recordings = entries.filter_map(|entry| entry.ok().map(|entry| entry.path()));
    cli::refuse_overwrite(recordings, &args.perfetto)?;
    let mut failed = false;
    let mut results = Vec::new();
    let mut tracks = Vec::new();
    for case in &cases {
        args.verbosity.detail(|| format!("case {}", case.name));
        let value = match one(args, case, &mut tracks) {
            Ok(value) => value,
            Err(error) => {
                failed = true;
                let why = format!("{error:#}");
                cli::terminal::say(&format!("{}: {why}", case.name));
                json!({"case": case.name, "error": why, "headline": null, "verdict": null, "not_comparable": null, "phases": [], "culprits": []})
            }
        };
        results.push(value);
    }
    std::fs::create_dir_all(&args.output_dir)
        .with_context(|| args.output_dir.display().to_string())?;
    let mut summary = Output::file(args.output_dir.join("summary.json"))?;
    let mut document = JsonDocument::new(&mut summary, document::VERSION)?;
    document.member("cases", &results)?;
    document.finish()?;
    summary.finish()?;
    if let Some(path) = &args.perfetto {
        perf::tracks(path, &tracks.iter().collect::<Vec<_>>())?;
    }
    show(args, &results)?;
    let apart = results
        .iter()
        .any(|case| case["not_comparable"].is_string());
    Ok(if failed {
        Outcome::Unreadable
    } else if apart {
        Outcome::CannotAnswer
    } else {
        Outcome::Fine
    })
}

fn show(args: &BatchArgs, results: &[Value]) -> anyhow::Result<()> {
    let mut out = Output::stdout();
    match args.format.format() {
        Format::Json => {
            let mut document = JsonDocument::new(&mut out, document::VERSION)?;
            document.member("cases", &results)?;
            document.finish()?;
        }
        Format::Csv => cases::csv(&mut out, results)?,
        Format::Text => cases::text(&mut out, names(), results)?,
    }
    out.finish()
}

fn search(root: &Path, folder: &Path, cases: &mut Vec<Case>) -> anyhow::Result<()> {
    let mut entries: Vec<PathBuf> = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .filter_map(|e| e.ok().map(|e| e.path()))
        .filter(|p| p.is_dir())
        .collect();
    entries.sort();
    let side = |name: &str| {
        let wanted = folder.join(name);
        entries.iter().find(|e| **e == wanted).cloned()
    };
    if let (Some(normal), Some(abnormal)) = (side("normal"), side("abnormal")) {
        let relative = folder.strip_prefix(root).unwrap_or(folder);
        let parts: Vec<String> = relative
            .components()
            .map(|c| c.as_os_str().to_string_lossy().into_owned())
            .collect();
        let name = if parts.is_empty() {
            ".".to_owned()
        } else {
            parts.join("/")
        };
        cases.push(Case {
            name,
            normal,
            abnormal,
        });
    }
    for entry in &entries {
        search(root, entry, cases)?;
    }
    Ok(())
}

/// A recording of a side, with the folder of its tables.
struct Recording {
    side: &'static str,
    job: Job,
    tables: PathBuf,
}

/// Returns all recordings of a side, in order of their paths.
fn recordings(
    args: &BatchArgs,
    (side, path): (&'static str, &Path),
    folder: &Path,
) -> anyhow::Result<Vec<Recording>> {
    let tables = folder.join(format!("{side}_perf_data"));
    let list = files::jobs(&[path.to_owned()], None, args.cut.compat)
        .map_err(|_| anyhow::anyhow!("{}: no trace in this folder", path.display()))?;
    perf::clear(&tables)?;
    let each = list.into_iter().map(|job| Recording {
        side,
        job,
        tables: tables.clone(),
    });
    Ok(each.collect())
}

/// Reads a recording, analyzes it and writes its tables; the trace is dropped afterwards.
fn analyse(
    args: &BatchArgs,
    of: &Recording,
    options: &rca_cycles::Options,
) -> anyhow::Result<Analysis> {
    let name = &of.job.name;
    let read = trace_input::read(&of.job.path, &args.input, args.verbosity, |read| {
        read.keep_negative = args.cut.compat;
        read.kernel_rules = args.cut.classes.rules();
    })?;
    let trace = read.trace;
    probes::note_rank(&read.name, &trace, args.verbosity);
    let mut options = options.clone();
    options.topology = probes::topology(&of.job.path.display().to_string(), args.verbosity);
    let which = || format!("{} side, {name}", of.side);
    let analysis = rca_cycles::analyse(&trace, &options).with_context(which)?;
    let reports = if args.cut.compat {
        compat::analyse(&trace, &compat_options(&args.cut))
            .with_context(which)?
            .reports
    } else {
        rca_cycles::reports(&trace, &analysis)
    };
    let wanted = perf::Wanted {
        tables: true,
        cycles: false,
        compat: args.cut.compat,
    };
    // The recording may have been cut at another function before, into other phases.
    perf::clear_job(&of.tables, name)?;
    perf::write(&of.tables, name, &trace, &reports, wanted)?;
    perf::recording(&of.tables, name, &recording::recording(&trace, &analysis))?;
    Ok(analysis)
}

fn one(args: &BatchArgs, case: &Case, tracks: &mut Vec<tracks::Job>) -> anyhow::Result<Value> {
    let folder = if case.name == "." {
        args.output_dir.clone()
    } else {
        args.output_dir.join(&case.name)
    };
    let mut list = recordings(args, ("normal", &case.normal), &folder)?;
    let normal = list.len();
    list.extend(recordings(args, ("abnormal", &case.abnormal), &folder)?);
    let sides = compare::analyse_each(list.len(), normal, &options(&args.cut)?, |i, options| {
        analyse(args, &list[i], options)
    })?;
    let mut how = compare::Options::default();
    how.alpha = args.alpha;
    let comparison = compare::compare_sides(&sides, &how);
    let abnormal: Vec<(&str, &Analysis)> = list[normal..]
        .iter()
        .map(|r| r.job.name.as_str())
        .zip(&sides.abnormal)
        .collect();
    if args.perfetto.is_some() {
        let both = abnormal.iter().enumerate();
        tracks.extend(both.map(|(run, (name, analysis))| {
            let name = format!("{} {name}", case.name);
            tracks::job(&name, analysis).with_culprits(run, &comparison)
        }));
    }
    let report = compare_tables(args, &folder)?;
    let not_comparable = report
        .not_comparable()
        .or_else(|| comparison.not_comparable.clone());
    let culprits = match &not_comparable {
        // Sides that may not be compared have no cause and no culprits.
        Some(_) => Vec::new(),
        None => culprits::culprits(&abnormal, &comparison, &report),
    };
    let headline = match &not_comparable {
        Some(why) => format!("Not comparable: {why}"),
        None => report.headline.clone(),
    };
    let verdict = match &not_comparable {
        Some(_) => None,
        None => Some(&report.verdict),
    };
    Ok(json!({
        "case": case.name,
        "error": null,
        "anchor": sides.normal.first().map(|a| &a.anchor),
        "re_anchored": sides.re_anchored,
        "headline": headline,
        "verdict": verdict,
        "not_comparable": not_comparable,
        "phases": document::phases(&comparison),
        "culprits": culprits,
    }))
}

/// Compares the tables of both sides like `perf-compare` by itself.
fn compare_tables(args: &BatchArgs, folder: &Path) -> anyhow::Result<perf_compare::Report> {
    let load = |side: &str| {
        let folder = folder.join(format!("{side}_perf_data"));
        perf_compare::load(&folder, &perf_compare::LoadOptions::default())
    };
    let (normal, abnormal) = (load("normal")?, load("abnormal")?);
    let mut options = perf_compare::Options::default();
    options.threads = args.input.threads().get();
    options.level = args.alpha;
    Ok(perf_compare::compare(&normal, &abnormal, &options))
}
