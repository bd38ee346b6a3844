//! Measures what a recording of several gigabytes takes, and a large export of Nsight Systems beside Python's sqlite3. Both are published
//! recordings repeated, so that nothing is measured without these.

use super::{Case, inputs};
use crate::dataset::large;
use crate::workspace::{root, run};
use anyhow::{Result, ensure};
use std::path::Path;
use std::process::Command;

/// The tools that are measured.
pub(super) const TOOLS: [&str; 2] = ["trace-info", "why"];

/// An export whose rows are mostly NVTX ranges of operators.
const EXPORT: &str = "nsys/real/mfu_before.sqlite.xz";

/// Repeats the rows of an export: arguments are the export, the number of times, and the output.
const REPEAT: &str = include_str!("repeat_export.py");

/// Reads the rows of kernels and runtime calls, which an answer needs at least.
const PEER: &str = "\
import sqlite3, sys
rows = sqlite3.connect(sys.argv[1])
total = 0
for row in rows.execute('select start, end, deviceId, streamId, shortName, correlationId from CUPTI_ACTIVITY_KIND_KERNEL'):
    total += row[1] - row[0]
for row in rows.execute('select start, end, correlationId, nameId, globalTid from CUPTI_ACTIVITY_KIND_RUNTIME'):
    total += 1
";

/// Returns the cases; inputs are made under `target/bench-data` if missing: 5.8 GB.
pub(super) fn cases(release: &Path) -> Result<Vec<Case>> {
    let folder = root().join("target/bench-data");
    std::fs::create_dir_all(&folder)?;
    let recording = inputs::shared_data().join(inputs::RECORDING.0);
    let export = inputs::shared_data().join(EXPORT);
    ensure!(
        recording.is_file() && export.is_file(),
        "{} and {} are repeated: set INFERSCOPE_DATA to the folder of the published recordings",
        recording.display(),
        export.display()
    );
    let mut cases = Vec::new();
    for (name, copies, memory) in [
        ("sglang-33-copies.json", 33, ""),
        ("sglang-330-copies.json", 330, "1 GB"),
    ] {
        let path = folder.join(name);
        inputs::make(&path, |path| large::copies(&recording, copies, path))?;
        for (title, program, words, goal) in [
            ("trace-info gpu", "trace-info", &["gpu"][..], memory),
            ("trace-info kernels", "trace-info", &["kernels"], memory),
            (
                "trace-info critical-path",
                "trace-info",
                &["critical-path"],
                "",
            ),
            ("why", "why", &[], if copies == 33 { "1.5 s" } else { "" }),
        ] {
            let mut command = Command::new(release.join(program));
            command.args(words).arg(&path);
            cases.push(Case::new(&path, title, command, goal)?);
        }
    }
    let path = folder.join("mfu-60-copies.sqlite");
    inputs::make(&path, |path| {
        let mut command = Command::new("python3");
        command
            .args(["-c", REPEAT])
            .arg(&export)
            .arg("60")
            .arg(path);
        run(&mut command)
    })?;
    let mut gpu = Command::new(release.join("trace-info"));
    gpu.arg("gpu").arg(&path);
    cases.push(Case::new(&path, "trace-info gpu", gpu, "400 MB/s")?);
    let mut peer = Command::new("python3");
    peer.args(["-c", PEER]).arg(&path);
    cases.push(Case::new(
        &path,
        "python3 sqlite3, kernels and calls",
        peer,
        "",
    )?);
    Ok(cases)
}
