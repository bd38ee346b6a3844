//! Measures `trace-info critical-path` against `trace-info gpu`, and `roofline` against `kernels`, on traces of a job, generated
//! here, and on published recordings; and the critical path of HolisticTraceAnalysis.

use super::{Case, inputs};
use crate::dataset;
use crate::workspace::root;
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Steps of the demonstration job that give half of a 500 MB trace, and a 20 MB one.
const HALF: &str = "513";
const WHOLE: &str = "1026";
const SHORT: &str = "41";

/// Published recordings of which the limits are measured.
const ROOFLINES: [&str; 2] = [
    "perfetto/traces/b200_vllm_eager.json.gz",
    "perfetto/traces/sglang_Qwen3-8B_prefilldecode.json.gz",
];

/// Published recordings that HolisticTraceAnalysis has a critical path of.
const PEERS: [Peer; 3] = [
    Peer {
        file: "critical-path/traces/hta_alexnet.json.gz",
        annotation: ["measure|forward", "0"],
        step: &["--step-pattern", "*measure?forward*", "--step", "1"],
    },
    Peer {
        file: "peers/traces/hta_nccl_data.json.gz",
        annotation: ["ProfilerStep", "1"],
        step: &["--step", "2"],
    },
    Peer {
        file: "peers/traces/mi300_resnet_nccl.json.gz",
        annotation: ["ProfilerStep", "1"],
        step: &["--step", "2"],
    },
];

/// A recording and the step of it that both analyse.
struct Peer {
    file: &'static str,
    /// Name and instance of the annotation, from 0.
    annotation: [&'static str; 2],
    /// Arguments here.
    step: &'static [&'static str],
}

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
    let data = inputs::shared_data();
    let published = ROOFLINES.iter().map(|file| data.join(file));
    let whole = folder.join("job-500MB").join("job-rank0.json");
    for file in published
        .filter(|file| file.is_file())
        .chain(std::iter::once(whole))
    {
        for (title, command, goal) in [
            ("trace-info kernels, 1 thread", "kernels", ""),
            (
                "trace-info roofline, 1 thread",
                "roofline",
                "kernels + 30 % CPU",
            ),
        ] {
            let mut run = Command::new(release.join("trace-info"));
            run.arg(command)
                .arg(&file)
                .args(["--format", "csv", "--threads", "1"]);
            cases.push(Case::new(&file, title, run, goal)?);
        }
    }
    if peers {
        let file = job(&folder, "job-short", "2", "24")?.join("job-rank0.json");
        add_peers(
            &mut cases,
            release,
            &file,
            (["step", "1"], &["--step", "2"]),
        )?;
        for peer in PEERS {
            let file = data.join(peer.file);
            if file.is_file() {
                add_peers(&mut cases, release, &file, (peer.annotation, peer.step))?;
            }
        }
    }
    Ok(cases)
}

/// Adds the critical path of one step of a file, here and by HolisticTraceAnalysis.
fn add_peers(
    cases: &mut Vec<Case>,
    release: &Path,
    file: &Path,
    (annotation, step): ([&str; 2], &[&str]),
) -> Result<()> {
    let mut here = Command::new(release.join("trace-info"));
    here.arg("critical-path").arg(file).args(step);
    cases.push(Case::new(file, "critical-path, one step", here, "")?);
    let mut other = Command::new("python3");
    let script = root().join("xtask/src/bench/peer_path.py");
    other.arg(script).arg(file).args(annotation);
    cases.push(Case::new(
        file,
        "HolisticTraceAnalysis, one step",
        other,
        "",
    )?);
    Ok(())
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
