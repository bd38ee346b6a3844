//! Data sets: small ones in `testdata/` with their truth, and large ones for measurements.
//!
//! This module uses no crate under test, so a fixture cannot share a reader's mistake.

mod catalogue;
mod corner;
mod demo;
mod demo_truth;
pub(crate) mod faults;
mod job;
pub(crate) mod large;
pub(crate) mod manifest;
mod mapped;
mod memtrace;
mod offload;
mod pack;
mod pair;
mod perfetto;
mod proto;
mod rocpd;
mod serving;
mod steps;

use serving_synth::{json, rng, sim};

use crate::options::Options;
use crate::workspace::root;
use anyhow::{Context as _, Result, bail, ensure};
use std::path::Path;

/// One file of `testdata/`.
pub(crate) struct Fixture {
    /// Path relative to `testdata/`.
    pub(crate) path: String,
    pub(crate) bytes: Vec<u8>,
    /// Purpose of the file; a truth file describes the file of the same name.
    pub(crate) shows: String,
}

impl Fixture {
    fn plain(path: &str, shows: &str, bytes: impl Into<Vec<u8>>) -> Self {
        Self {
            path: path.to_owned(),
            bytes: bytes.into(),
            shows: shows.to_owned(),
        }
    }

    fn gzip(path: &str, shows: &str, bytes: &[u8]) -> Self {
        Self::plain(path, shows, pack::gzip(bytes))
    }

    fn truth(name: &str, truth: &json::Json) -> Self {
        let base = name.rsplit('/').next().unwrap_or(name);
        Self::plain(
            &format!("{name}.truth.json"),
            &format!("what is true of {base}"),
            truth.pretty(),
        )
    }
}

/// `cargo xtask dataset …`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let valued = [
        "events",
        "format",
        "bytes",
        "copies-of",
        "copies",
        "output",
        "dispatches",
        "ranks",
        "nodes",
        "layers",
        "seed",
        "size",
        "steps",
    ];
    let options = Options::parse(args, &["gzip"], &valued)?;
    match options.words.first().map(String::as_str) {
        None if args.is_empty() => generate(),
        None => large::run(&options),
        Some("generate") => generate(),
        Some("verify") => verify(),
        Some("list") => list(),
        Some("rocpd") => rocpd::run(&options),
        Some("job") => job::run(&options),
        Some("serving") => serving::run(&options),
        Some("memtrace") => memtrace::run(&options),
        Some(other) => bail!(
            "unknown data set command {other:?}; known: generate, verify, list, rocpd, job, serving, memtrace"
        ),
    }
}

fn list() -> Result<()> {
    let text = std::fs::read_to_string(root().join("testdata").join(manifest::NAME))?;
    for file in manifest::parse(&text)? {
        println!("{:>8} {:<44} {}", file.bytes, file.path, file.shows);
    }
    Ok(())
}

fn generate() -> Result<()> {
    let folder = root().join("testdata");
    let made = catalogue::all()?;
    let mut written = 0;
    for fixture in &made {
        written += usize::from(put(
            &folder.join(&fixture.fixture.path),
            &fixture.fixture.bytes,
        )?);
    }
    written += usize::from(put(
        &folder.join(manifest::NAME),
        manifest::render(&made).as_bytes(),
    )?);
    println!("{} files made, {written} written", made.len() + 1);
    for orphan in manifest::orphans(&folder, &made)? {
        println!("not made by any generator: testdata/{orphan}");
    }
    Ok(())
}

/// Writes a file unless it already has this content.
pub(crate) fn put(path: &Path, bytes: &[u8]) -> Result<bool> {
    if std::fs::read(path).is_ok_and(|old| old == bytes) {
        return Ok(false);
    }
    std::fs::create_dir_all(path.parent().context("a fixture has a folder")?)?;
    std::fs::write(path, bytes).with_context(|| format!("writing {}", path.display()))?;
    Ok(true)
}

/// Regenerates all fixtures in memory and compares them with the files.
fn verify() -> Result<()> {
    let folder = root().join("testdata");
    let made = catalogue::all()?;
    let mut wrong = manifest::orphans(&folder, &made)?;
    let manifest = manifest::render(&made).into_bytes();
    let files = made
        .iter()
        .map(|made| (made.fixture.path.as_str(), &made.fixture.bytes));
    for (path, bytes) in files.chain([(manifest::NAME, &manifest)]) {
        if std::fs::read(folder.join(path)).ok().as_ref() != Some(bytes) {
            wrong.push(path.to_owned());
        }
    }
    ensure!(
        wrong.is_empty(),
        "testdata differs from its generators in {}; run `cargo xtask dataset generate` and look at the change",
        wrong.join(", ")
    );
    println!(
        "{} files of testdata are what their generators make",
        made.len() + 1
    );
    Ok(())
}
