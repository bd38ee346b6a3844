//! `cycle-rca batch`.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, bail};
use cli::{Format, Outcome, Output};
use perf_compare::document::Statement;
use rca_cycles::{Analysis, compare, compat};
use report::JsonDocument;
use report::text::wrapped;
use serde_json::{Value, json};
use trace_model::Waiting;
use trace_model::kernel::display_names;

use crate::analyse::{compat_options, note_ignored, options};
use crate::args::BatchArgs;
use crate::files::Job;
use crate::{document, files, machine, perf, probes, text, tracks};

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
        tracks::write(path, &tracks.iter().collect::<Vec<_>>())?;
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
    use std::io::Write as _;
    let mut out = Output::stdout();
    match args.format.format() {
        Format::Json => {
            let mut document = JsonDocument::new(&mut out, document::VERSION)?;
            document.member("cases", &results)?;
            document.finish()?;
        }
        Format::Csv => {
            writeln!(out, "case,place,name,kind,device,rank,effect_ns")?;
            for case in results {
                for (i, c) in case["culprits"]
                    .as_array()
                    .into_iter()
                    .flatten()
                    .enumerate()
                {
                    let quoted = |v: &Value| {
                        format!("\"{}\"", v.as_str().unwrap_or("").replace('"', "\"\""))
                    };
                    let number = |v: &Value| v.as_i64().map_or_else(String::new, |n| n.to_string());
                    writeln!(
                        out,
                        "{},{},{},{},{},{},{}",
                        quoted(&case["case"]),
                        i + 1,
                        quoted(&c["name"]),
                        c["kind"].as_str().unwrap_or(""),
                        number(&c["device"]),
                        number(&c["rank"]),
                        number(&c["effect_ns"]),
                    )?;
                }
            }
        }
        Format::Text => {
            for case in results {
                let name = case["case"].as_str().unwrap_or("");
                let summary = case["error"]
                    .as_str()
                    .map(str::to_owned)
                    .or_else(|| {
                        Some(format!(
                            "not comparable: {}",
                            case["not_comparable"].as_str()?
                        ))
                    })
                    .or_else(|| Some(format!("{}.", case["headline"].as_str()?)))
                    .unwrap_or_default();
                for (i, line) in wrapped(&format!("{name}: {summary}"), 76)
                    .iter()
                    .enumerate()
                {
                    let indent = if i > 0 { "    " } else { "" };
                    writeln!(out, "{indent}{line}")?;
                }
                let of_case = || case["culprits"].as_array().into_iter().flatten();
                let is_kernel = |c: &&Value| c["kind"].as_str() == Some("kernel");
                let kernels = of_case().filter(is_kernel);
                let short = display_names(kernels.filter_map(|c| c["name"].as_str()));
                for c in of_case().take(5) {
                    #[expect(clippy::cast_precision_loss, reason = "shown with four digits")]
                    let effect = c["effect_ns"].as_i64().unwrap_or(0) as f64;
                    let (kind, name) = (c["kind"].as_str(), c["name"].as_str());
                    let (kind, name) = (kind.unwrap_or(""), name.unwrap_or(""));
                    // The name of a rank already contains its kind: `rank N`.
                    let kind = if name.starts_with(kind) { "" } else { kind };
                    let what = format!(
                        "{kind} {}",
                        text::name(short.get(name).map_or(name, String::as_str), 40)
                    );
                    let phase = c["phase"].as_str().unwrap_or("");
                    let per = match phase {
                        "" | "unknown" => "cycle".to_owned(),
                        phase => format!("{phase} cycle"),
                    };
                    writeln!(
                        out,
                        "  {:>10} per {per}  {}",
                        report::human::duration(effect),
                        what.trim_start(),
                    )?;
                    let slow = c["slow_cycles"].as_array().map_or(0, Vec::len);
                    if slow > 0 {
                        writeln!(out, "              (slow in {slow} cycles only)")?;
                    }
                    if c["explained_by_verdict"].as_bool() == Some(false) {
                        writeln!(out, "              (evidence beyond the cause above)")?;
                    }
                }
            }
        }
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
    })?;
    let trace = read.trace;
    machine::note_rank(&read.name, &trace, args.verbosity);
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
    machine::write(&of.tables, name, &machine::recording(&trace, &analysis))?;
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
        None => blamed(&abnormal, &comparison, &report),
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

/// Returns the culprits that the verdict allows: the verdict decides, as in `perf-compare`, and the
/// comparison of cycles ranks. Without a cause there are no culprits, and with too few cycles no
/// time is one.
fn blamed(
    abnormal: &[(&str, &Analysis)],
    comparison: &compare::Comparison,
    report: &perf_compare::Report,
) -> Vec<Value> {
    let cause = report.verdict.cause.as_str();
    if cause == "none" || report.identical {
        return Vec::new();
    }
    let mut culprits = document::culprits(abnormal, comparison, cause);
    let mut times = report.cycle_time.iter();
    if times.all(|time| time.verdict == Statement::Insufficient) {
        culprits.retain(|culprit| culprit["kind"] == "counter");
    }
    if cause == "drift" {
        // The comparison of cycles does not detect drift; that of tables does.
        let declared = |culprit: &Value| {
            let mut findings = report.findings.iter();
            findings.any(|f| f.verdict == Statement::Changed && culprit["name"] == f.name.as_str())
        };
        culprits.retain(declared);
    }
    let waits = |culprit: &Value| {
        let name = culprit["name"].as_str().unwrap_or("");
        Waiting::of_own_time(name).is_some()
    };
    if cause == "waiting_for_input" {
        culprits.sort_by_key(|culprit| !waits(culprit));
    } else if !culprits.iter().all(waits) {
        // A waiting function is not a culprit while there is another one.
        culprits.retain(|culprit| !waits(culprit));
    }
    if cause == "pauses" && culprits.is_empty() {
        culprits = document::paused(report);
    }
    if report.is_whole_host() {
        culprits.insert(0, document::whole_host(report));
    }
    let parts = report.findings.iter().filter(|f| f.part_of.is_some());
    let parts: BTreeSet<&str> = parts.map(|f| f.name.as_str()).collect();
    culprits.retain(|culprit| {
        !culprit["name"]
            .as_str()
            .is_some_and(|name| parts.contains(name))
    });
    if !report.is_whole_host() {
        culprits.splice(..0, document::layers(report));
    }
    if let Some(class) = document::kernel_class(report) {
        culprits.insert(0, class);
    }
    culprits
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
