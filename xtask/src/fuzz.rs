//! Runs the fuzz targets of the readers, seeded with `testdata/` and small exports.

use crate::dataset::manifest;
use crate::workspace::{capture, cargo, root, run as run_command};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Maximum seed size in bytes; larger seeds only slow down the search.
const MAX_SEED: u64 = 128 << 10;

/// Writes small exports of Nsight Systems into the folder that is its argument.
const EXPORTS: &str = include_str!("seed_export.py");

/// Targets that learn nothing from `testdata/`, which has no such file.
const READ_EXPORTS: [&str; 2] = ["nsys_export", "sqlite_pages"];

struct Target {
    name: String,
    /// Crate of the target, for example `crates/perfetto-reader`.
    krate: PathBuf,
}

/// `cargo xtask fuzz [TARGET [SECONDS]]`; without a target, lists them.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let targets = targets()?;
    let Some(wanted) = args.first() else {
        for target in &targets {
            println!(
                "{:<16} {}",
                target.name,
                target
                    .krate
                    .strip_prefix(root())
                    .unwrap_or(&target.krate)
                    .display()
            );
        }
        return Ok(());
    };
    let seconds: u64 = args
        .get(1)
        .map_or(Ok(60), |text| text.parse())
        .context("the second argument is a number of seconds")?;
    let Some(target) = targets.iter().find(|target| target.name == *wanted) else {
        bail!("no fuzz target {wanted:?}; `cargo xtask fuzz` lists them");
    };
    if capture(&mut cargo(&["fuzz", "--version"])).is_err() {
        run_command(&mut cargo(&["install", "cargo-fuzz", "--locked"]))?;
    }
    let corpus = target.krate.join("fuzz/corpus").join(&target.name);
    seed(&corpus)?;
    if READ_EXPORTS.contains(&target.name.as_str()) {
        let mut python = Command::new("python3");
        run_command(python.args(["-c", EXPORTS]).arg(&corpus))?;
    }
    // cargo-fuzz uses flags of a nightly compiler; RUSTC_BOOTSTRAP makes the stable one accept
    // them.
    let time = format!("-max_total_time={seconds}");
    let args = [
        "fuzz",
        "run",
        &target.name,
        "--",
        &time,
        "-timeout=20",
        "-rss_limit_mb=4096",
        // The read-ahead thread may still be ending when leaks are counted.
        "-detect_leaks=0",
    ];
    run_command(
        cargo(&args)
            .current_dir(&target.krate)
            .env("RUSTC_BOOTSTRAP", "1"),
    )
}

fn targets() -> Result<Vec<Target>> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(root().join("crates"))? {
        let krate = entry?.path();
        let Ok(entries) = std::fs::read_dir(krate.join("fuzz/fuzz_targets")) else {
            continue;
        };
        for entry in entries {
            let path = entry?.path();
            if let Some(name) = path
                .file_stem()
                .filter(|_| path.extension().is_some_and(|e| e == "rs"))
            {
                found.push(Target {
                    name: name.to_string_lossy().into_owned(),
                    krate: krate.clone(),
                });
            }
        }
    }
    found.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(found)
}

/// Copies each fixture into a corpus once.
fn seed(corpus: &Path) -> Result<()> {
    std::fs::create_dir_all(corpus)?;
    let folder = root().join("testdata");
    for file in manifest::files(&folder)? {
        let path = folder.join(&file);
        let truth = file.ends_with(".truth.json") || file == manifest::NAME;
        if !truth && path.metadata()?.len() <= MAX_SEED {
            std::fs::copy(&path, corpus.join(file.replace('/', "-")))?;
        }
    }
    Ok(())
}
