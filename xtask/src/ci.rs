//! Checks that a change must pass, as named steps that can also run alone:
//! `cargo xtask ci fmt tidy`.

use crate::workspace::{cargo, root, run as run_command};
use crate::{cluster, dataset, tidy, wheel};
use anyhow::{Result, bail};
use std::time::Instant;

type Step = (&'static str, fn() -> Result<()>);

/// Steps in order: those that fail fast come first.
const STEPS: &[Step] = &[
    ("fmt", || {
        run_command(&mut cargo(&["fmt", "--all", "--check"]))
    }),
    ("tidy", || tidy::run(&[])),
    ("dataset", || dataset::run(&["verify".to_owned()])),
    ("test", || run_command(&mut cargo(&["test"]))),
    ("clippy", clippy),
    ("doc", doc),
    ("otf2", otf2),
    ("browser", browser),
    ("wheel", wheel::check),
    ("oracle", || {
        run_command(&mut cargo(&["test", "--package", "perfetto-oracle"]))
    }),
];

/// Steps that run only when they are named: they compile what nothing else needs.
const NAMED: &[Step] = &[("cluster", cluster::check)];

/// `cargo xtask ci [STEP…]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(unknown) = args
        .iter()
        .find(|arg| !STEPS.iter().chain(NAMED).any(|(name, _)| name == arg))
    {
        let known: Vec<&str> = STEPS.iter().chain(NAMED).map(|(name, _)| *name).collect();
        bail!("no step {unknown:?}; known: {}", known.join(", "));
    }
    let mut failed = Vec::new();
    let is_named = |(name, _): &&Step| args.iter().any(|arg| arg == name);
    let always = STEPS
        .iter()
        .filter(|step| args.is_empty() || is_named(step));
    for (name, step) in always.chain(NAMED.iter().filter(is_named)) {
        println!("== {name}");
        let start = Instant::now();
        if let Err(error) = step() {
            println!("== {name} FAILED: {error:#}");
            failed.push(*name);
        } else {
            println!("== {name} passed in {:.0} s", start.elapsed().as_secs_f64());
        }
    }
    if !failed.is_empty() {
        bail!("{} failed in {}", failed.join(", "), root().display());
    }
    Ok(())
}

/// Checks everything, fuzz targets included. The oracle is left out: checking the whole schema again would take longer than
/// everything else.
fn clippy() -> Result<()> {
    let args = [
        "clippy",
        "--workspace",
        "--exclude",
        "perfetto-oracle",
        "--all-targets",
        "--",
        "-D",
        "warnings",
    ];
    run_command(&mut cargo(&args))
}

/// Reads OTF2 archives with OTF2's own printer.
fn otf2() -> Result<()> {
    if let Err(error) = std::process::Command::new("otf2-print")
        .arg("--version")
        .output()
    {
        println!("skipped: otf2-print: {error}: install OTF2's tools (Debian: otf2-tools)");
        return Ok(());
    }
    let args = [
        "test",
        "--test",
        "layout",
        "--test",
        "calls",
        "--",
        "--ignored",
        "otf2_print",
    ];
    run_command(&mut cargo(&args))
}

/// Opens pages in Chromium.
fn browser() -> Result<()> {
    if let Err(error) = std::process::Command::new("chromium")
        .arg("--version")
        .output()
    {
        println!("skipped: chromium: {error}: install it (Debian: chromium)");
        return Ok(());
    }
    let args = ["test", "--test", "pages", "--", "--ignored", "browser"];
    run_command(&mut cargo(&args))
}

fn doc() -> Result<()> {
    let args = [
        "doc",
        "--workspace",
        "--exclude",
        "perfetto-oracle",
        "--no-deps",
        "--document-private-items",
    ];
    run_command(cargo(&args).env("RUSTDOCFLAGS", "-D warnings"))
}
