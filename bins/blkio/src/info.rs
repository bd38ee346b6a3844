//! `blkio info`.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use blkio_parser::pipeline::{Opened, identify, is_pipe};
use blkio_parser::{AnalysisSet, Kind, Stats, StatsOptions};
use blkio_report::companion_values::companion_value;
use blkio_report::files::whole_of;
use blkio_report::recordings::parts_of;
use blkio_report::value_text::{text, write_members};
use blkio_report::{document, tables};
use byte_source::Source;
use cli::{OrExit as _, Outcome};
use serde_json::{Value, json};

use crate::args::InfoArgs;
use crate::reading::{OrCode as _, write_json};

/// What the table has of a trace, and where that is in its detail.
const COUNTS: [(&str, &str); 4] = [
    ("issues", "/issues"),
    ("completions", "/completions"),
    ("malformed", "/quality/malformed"),
    ("lost_events", "/quality/lost_events"),
];

pub(crate) fn run(args: &InfoArgs) -> anyhow::Result<Outcome> {
    let mut files = Vec::new();
    let mut outcome = Outcome::Fine;
    for path in listed(&args.files)? {
        let name = path.display().to_string();
        files.push(match file(&path, args) {
            Ok((kind, detail)) => json!({"name": name, "kind": kind.name(), "detail": detail}),
            Err(error) => {
                // The other files are to be seen all the same.
                outcome = Outcome::Unreadable;
                cli::complain(&error);
                json!({"name": name, "kind": "unreadable", "detail": {"error": format!("{error:#}")}})
            }
        });
    }
    let mut out = args.output.open()?;
    match args.format.format() {
        cli::Format::Json => {
            let document = json!({"schema_version": 1, "files": files});
            write_json(&document, &mut out)?;
        }
        cli::Format::Csv => {
            let columns = tables::named_columns(&["name", "kind"], &COUNTS.map(|(name, _)| name));
            let rows = files.iter().map(|file| {
                let count = |(_, place)| file["detail"].pointer(place).cloned();
                let counts = COUNTS.map(count).map(Option::unwrap_or_default);
                [
                    vec![file["name"].clone(), file["kind"].clone()],
                    counts.to_vec(),
                ]
                .concat()
            });
            tables::print_table(&mut out, report::Format::Csv, &columns, rows)?;
        }
        cli::Format::Text => {
            for file in &files {
                writeln!(out, "{}: {}", text(&file["name"]), text(&file["kind"]))?;
                write_members(&file["detail"], 1, &mut out)?;
            }
        }
    }
    out.finish()?;
    Ok(outcome)
}

/// Returns the files named, those of a folder in order of their names.
fn listed(paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.extend(parts_of(path).unwrap_or_else(|| vec![path.clone()]));
            continue;
        }
        let entries = std::fs::read_dir(path)
            .with_context(|| format!("{}: cannot look into the folder", path.display()))
            .or_exit(cli::Outcome::Unreadable)?;
        let files = entries.flatten().map(|entry| entry.path());
        let mut files: Vec<PathBuf> = files.filter(|file| file.is_file()).collect();
        if files.is_empty() {
            return Err(anyhow::anyhow!(
                "{}: no files in the folder",
                path.display()
            ))
            .or_exit(cli::Outcome::Unreadable);
        }
        files.sort();
        all.extend(files);
    }
    Ok(all)
}

/// Returns what a file is, and what it holds.
fn file(path: &Path, args: &InfoArgs) -> anyhow::Result<(Kind, Value)> {
    let open = args.input.open_options(None);
    match identify(path, &open).or_code()? {
        None => trace(path, None, args),
        Some((source, Kind::Events(_) | Kind::NoEvents)) => trace(path, Some(source), args),
        Some((source, kind)) => {
            let content = whole_of(source).or_code()?;
            Ok((kind, companion_value(path, &content, kind).or_code()?))
        }
    }
}

/// Returns what a trace holds, and how healthy it is.
fn trace(path: &Path, source: Option<Source>, args: &InfoArgs) -> anyhow::Result<(Kind, Value)> {
    let mut options = StatsOptions::default();
    options.read.open = args.input.open_options(None);
    // What was looked at of a pipe does not come again; a file may have to be read twice.
    options.read.opened = is_pipe(path).then(|| Opened::new(source));
    options.read.threads = args.input.threads().get();
    options.wanted = AnalysisSet::TRAFFIC;
    options.wanted.latency = true;
    let stats = Stats::of_files(&[path.to_owned()], &options).or_code()?;
    let first = stats.outcome.inputs.first();
    let kind = first.map_or(Kind::NoEvents, |input| input.kind);
    let mut detail = json!({
        "issues": stats.traffic.issues,
        "completions": stats.traffic.completions,
        "totals": document::totals(&stats),
        "quality": document::quality(&stats),
    });
    if let (Some(map), Some(_)) = (detail.as_object_mut(), stats.traffic.first_issue_ns) {
        let span_s = stats.traffic.run_ns() as f64 / 1e9;
        map.insert("span_s".into(), span_s.into());
    }
    Ok((kind, detail))
}
