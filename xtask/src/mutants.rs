//! Mutation tests: changes one expression of a crate at a time and reports the changes that no test
//! detects.

use crate::options::Options;
use crate::workspace::{capture, cargo, package as package_of, root, run as run_command};
use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use std::process::Command;

/// Crates whose tests are measured: the base of every analysis, and the two verdicts.
const PACKAGES: &[&str] = &[
    "trace-model",
    "gpu-time",
    "launch-stacks",
    "byte-source",
    "perf-compare",
    "rca-cycles",
];

/// Number of mutants to try per crate; all of them would take days.
const SAMPLE: u64 = 40;

/// `cargo xtask mutants [PACKAGE...] [--sample N] [--shard K]`: a table in Markdown on standard output.
///
/// The sample is every n-th mutant of the crate, beginning with mutant `K` (default 0), so that the same command
/// tries the same mutants again.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &[], &["sample", "shard"])?;
    let sample = options.number("sample")?.unwrap_or(SAMPLE).max(1);
    let shard = options.number("shard")?.unwrap_or(0);
    // Mutants are written into the sources and reverted, because a copy of the tree would be built
    // from scratch.
    let changed = capture(
        Command::new("git")
            .args(["status", "--porcelain"])
            .current_dir(root()),
    )?;
    ensure!(
        changed.is_empty(),
        "mutants are written into the source files: commit first, so that nothing can be lost"
    );
    if capture(&mut cargo(&["mutants", "--version"])).is_err() {
        run_command(&mut cargo(&["install", "cargo-mutants", "--locked"]))?;
    }
    let packages: Vec<&str> = if options.words.is_empty() {
        PACKAGES.to_vec()
    } else {
        options.words.iter().map(String::as_str).collect()
    };
    let mut rows = Vec::new();
    let mut survivors = Vec::new();
    for package in packages {
        let (row, missed) = test(package, sample, shard)?;
        rows.push(row);
        survivors.extend(missed);
    }
    println!("\n| crate | mutants | tried | caught | survived | timed out | do not compile |");
    println!("|---|---:|---:|---:|---:|---:|---:|");
    rows.iter().for_each(|row| println!("{row}"));
    println!();
    survivors.iter().for_each(|name| println!("- `{name}`"));
    Ok(())
}

/// Tries a sample of the mutants of one crate with the tests of that crate.
///
/// Returns the row of the table, and the mutants that survived.
fn test(package: &str, sample: u64, shard: u64) -> Result<(String, Vec<String>)> {
    let list = capture(&mut cargo(&[
        "mutants",
        "--list",
        "--package",
        &package_of(package),
    ]))?;
    let all = list
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty());
    let all = u64::try_from(all.count())?;
    let shards = all.div_ceil(sample).max(1);
    let output = root().join("target/mutants").join(package);
    std::fs::create_dir_all(&output)?;
    // The exit status is not 0 if mutants survive, which is the purpose here.
    let _ = cargo(&[
        "mutants",
        "--in-place",
        "--no-shuffle",
        "--package",
        &package_of(package),
    ])
    .args(["--sharding", "round-robin", "--shard"])
    .arg(format!("{}/{shards}", shard % shards))
    .arg("--output")
    .arg(&output)
    // Each mutant is compiled anew and run once; the tests of the verdicts compute so much that optimisation pays all the same.
    .env(
        "CARGO_PROFILE_DEV_OPT_LEVEL",
        match package {
            "perf-compare" | "rca-cycles" => "1",
            _ => "0",
        },
    )
    .env("CARGO_PROFILE_DEV_DEBUG", "false")
    .status()
    .context("starting cargo mutants")?;
    let file = output.join("mutants.out/outcomes.json");
    let text = std::fs::read(&file).with_context(|| {
        format!(
            "reading {}: the tests fail without a mutant?",
            file.display()
        )
    })?;
    let outcomes: Value = serde_json::from_slice(&text)?;
    let count = |name: &str| outcomes.get(name).and_then(Value::as_u64).unwrap_or(0);
    let row = format!(
        "| `{package}` | {all} | {} | {} | {} | {} | {} |",
        count("total_mutants"),
        count("caught"),
        count("missed"),
        count("timeout"),
        count("unviable"),
    );
    let missed = outcomes
        .get("outcomes")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter(|outcome| outcome.get("summary").and_then(Value::as_str) == Some("MissedMutant"))
        .filter_map(|outcome| outcome.pointer("/scenario/Mutant/name")?.as_str())
        .map(str::to_owned)
        .collect();
    Ok((row, missed))
}
