//! Measures the tools for block I/O, rocPD databases and memory accesses on generated data of the
//! sizes in their goals.

use super::Case;
use crate::dataset;
use crate::workspace::{root, run as run_command};
use anyhow::{Context as _, Result};
use std::path::Path;
use std::process::Command;

/// The tools.
pub(super) const TOOLS: [&str; 3] = ["blkio", "rocpd", "memtrace"];

/// Logs of a gigabyte each: 25 million requests, or 8 million with their completions. Name,
/// generator arguments, goals for all analyses and for totals.
const LOGS: [(&str, &str, [&str; 2]); 6] = [
    (
        "in-order.txt",
        r#"{"requests": 25000000, "mean_gap_ns": 60000, "cache_bytes": 34359738368, "reorder_ns": 0}"#,
        ["2.5 s, 300 MiB", "400 MB/s"],
    ),
    (
        "shuffled.txt",
        r#"{"requests": 25000000, "mean_gap_ns": 60000, "cache_bytes": 34359738368}"#,
        ["5 s, 300 MiB", "400 MB/s"],
    ),
    (
        "short-runs.txt",
        r#"{"requests": 25000000, "mean_gap_ns": 60000, "cache_bytes": 34359738368, "noise_share": 0.4}"#,
        ["5 s, 300 MiB", ""],
    ),
    (
        "streams.txt",
        r#"{"requests": 25000000, "mean_gap_ns": 60000, "cache_bytes": 1099511627776, "streams": 16, "sizes": {"4096": 1, "16384": 1, "131072": 2, "262144": 1}}"#,
        ["5 s, 300 MiB", ""],
    ),
    (
        "random.txt",
        r#"{"requests": 25000000, "mean_gap_ns": 60000, "cache_bytes": 68719476736, "pattern": "random", "sizes": {"4096": 1, "16384": 1, "131072": 2, "262144": 1}}"#,
        ["300 MiB", ""],
    ),
    (
        EVENTS,
        r#"{"requests": 8000000, "mean_gap_ns": 60000, "cache_bytes": 34359738368}"#,
        ["", ""],
    ),
];

/// The log with completions.
const EVENTS: &str = "events.txt";

/// Returns the cases; data is generated under `target/bench-data` if missing.
pub(super) fn cases(release: &Path) -> Result<Vec<Case>> {
    let folder = root().join("target/bench-data");
    std::fs::create_dir_all(&folder)?;
    let mut cases = block_io(release, &folder)?;
    cases.extend(rocpd(release, &folder)?);
    cases.extend(memory(release, &folder)?);
    Ok(cases)
}

fn block_io(release: &Path, folder: &Path) -> Result<Vec<Case>> {
    let blkio = release.join("blkio");
    let mut cases = Vec::new();
    for (name, spec, [goal, goal_totals]) in LOGS {
        let path = folder.join(name);
        if !path.is_file() {
            let spec_path = path.with_extension("json");
            std::fs::write(&spec_path, spec)?;
            let mut synth = Command::new(&blkio);
            synth
                .args(["synth", "--seed", "1", "--spec"])
                .arg(spec_path)
                .args((name == EVENTS).then_some("--events"));
            run_command(synth.arg("-o").arg(&path))?;
        }
        let stats = |more: &[&str]| {
            let mut command = Command::new(&blkio);
            command.arg("stats").arg(&path).arg("--json").args(more);
            command
        };
        cases.push(Case::new(&path, "blkio stats", stats(&[]), goal)?);
        let totals = stats(&["--traffic-only"]);
        cases.push(Case::new(
            &path,
            "blkio stats --traffic-only",
            totals,
            goal_totals,
        )?);
        let mut lines = Command::new("wc");
        lines.arg("-l").arg(&path);
        cases.push(Case::new(&path, "wc -l", lines, "")?);
    }
    Ok(cases)
}

fn rocpd(release: &Path, folder: &Path) -> Result<Vec<Case>> {
    let data = folder.join("rocpd");
    if !data.is_dir() {
        made(&["rocpd", "--dispatches", "1000000", "--output"], &data)?;
    }
    let entries = std::fs::read_dir(&data)?.collect::<std::io::Result<Vec<_>>>()?;
    let mut databases = entries.iter().map(std::fs::DirEntry::path);
    let database = databases
        .find(|path| path.extension().is_some_and(|kind| kind == "db"))
        .with_context(|| format!("no database in {}: remove the folder", data.display()))?;
    let call = |words: &[&str]| {
        let mut command = Command::new(release.join("rocpd"));
        let (name, options) = words.split_first().unwrap_or((&"", &[]));
        command.arg(name).arg("-i").arg(&database).args(options);
        command
            .arg("-d")
            .arg(folder.join("out-rocpd"))
            .args(["-o", "x"]);
        command
    };
    let all = "SELECT * FROM kernels";
    [
        ("rocpd summary", call(&["summary", "-f", "csv"]), "3 CPU s"),
        (
            "rocpd summary, domains and ranks",
            call(&[
                "summary",
                "-f",
                "csv",
                "--domain-summary",
                "--summary-by-rank",
            ]),
            "6 CPU s",
        ),
        (
            "rocpd query, all kernels",
            call(&["query", "--query", all, "--format", "csv"]),
            "2 CPU s, 100 MB",
        ),
        (
            "rocpd convert -f pftrace",
            call(&["convert", "-f", "pftrace"]),
            "200 MB/s",
        ),
    ]
    .into_iter()
    .map(|(name, command, goal)| Case::new(&database, name, command, goal))
    .collect()
}

fn memory(release: &Path, folder: &Path) -> Result<Vec<Case>> {
    let mut cases = Vec::new();
    for (name, rows, goal) in [
        ("memory-1M.txt", "1000000", "3 s, 400 MiB"),
        ("memory-5M.txt", "5000000", "15 s"),
    ] {
        let path = folder.join(name);
        if !path.is_file() {
            made(&["memtrace", "--events", rows, "--output"], &path)?;
        }
        let mut export = Command::new(release.join("memtrace"));
        export.arg("export").arg(&path).arg("--phases");
        export.arg(folder.join(format!("{name}.phases.json")));
        export.arg("-o").arg(folder.join("out-memtrace"));
        cases.push(Case::new(&path, "memtrace export", export, goal)?);
    }
    Ok(cases)
}

/// Generates a data set with this program's command.
fn made(words: &[&str], output: &Path) -> Result<()> {
    println!("making {}", output.display());
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    words.push(output.display().to_string());
    dataset::run(&words)
}
