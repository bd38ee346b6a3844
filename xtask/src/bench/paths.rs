//! Measures `trace-info critical-path` against `trace-info gpu` on traces of a job, generated here, and the critical path of
//! HolisticTraceAnalysis.

use super::Case;
use crate::dataset;
use crate::workspace::root;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Steps of the demonstration job that give half of a 500 MB trace, and a 20 MB one.
const HALF: &str = "513";
const WHOLE: &str = "1026";
const SHORT: &str = "41";

/// Returns the cases; jobs are generated under `target/bench-data` if missing.
pub(super) fn cases(release: &Path, peers: bool) -> Result<Vec<Case>> {
    let folder = root().join("target/bench-data");
    std::fs::create_dir_all(&folder)?;
    let mut cases = Vec::new();
    for (name, steps, goal) in [
        ("job-250MB", HALF, "half of the next"),
        ("job-500MB", WHOLE, "gpu + 40 % CPU, 500 MB"),
    ] {
        let file = job(&folder, name, "2", steps)?.join("job-rank0.json");
        for (command, goal) in [("gpu", ""), ("critical-path", goal)] {
            let mut run = Command::new(release.join("trace-info"));
            run.arg(command).arg(&file).args(["--format", "csv"]);
            let title = match command {
                "gpu" => "trace-info gpu",
                _ => "trace-info critical-path",
            };
            let mut case = Case::new(&file, title, run, goal)?;
            name.clone_into(&mut case.input);
            cases.push(case);
        }
    }
    let ranks = job(&folder, "job-64-ranks", "64", SHORT)?;
    for (title, command, goal) in [
        ("trace-info comm", "comm", ""),
        ("trace-info critical-path", "critical-path", "6 s"),
    ] {
        let mut run = Command::new(release.join("trace-info"));
        run.arg(command).arg(&ranks).args(["--format", "csv"]);
        let mut case = Case::new(&ranks.join("job-rank0.json"), title, run, goal)?;
        "job-64-ranks".clone_into(&mut case.input);
        case.megabytes *= 64.0;
        cases.push(case);
    }
    if peers {
        let file = job(&folder, "job-short", "2", "24")?.join("job-rank0.json");
        let mut here = Command::new(release.join("trace-info"));
        here.arg("critical-path").arg(&file).args(["--step", "2"]);
        cases.push(Case::new(&file, "critical-path --step 2", here, "")?);
        let mut other = Command::new("python3");
        let script = root().join("xtask/src/bench/peer_path.py");
        other.arg(script).arg(&file).args(["step", "1"]);
        cases.push(Case::new(&file, "HolisticTraceAnalysis", other, "")?);
    }
    Ok(cases)
}

/// Generates the traces of a job unless they are there; returns their folder.
fn job(folder: &Path, name: &str, ranks: &str, steps: &str) -> Result<PathBuf> {
    let output = folder.join(name);
    if output.is_dir() {
        return Ok(output);
    }
    println!("making {name}");
    let part = folder.join(format!("part-{name}"));
    let words = ["job", "--ranks", ranks, "--steps", steps, "--output"];
    let mut words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    words.push(part.display().to_string());
    dataset::run(&words)?;
    std::fs::rename(&part, &output).with_context(|| format!("renaming {}", part.display()))?;
    Ok(output)
}
