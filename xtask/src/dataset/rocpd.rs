//! rocPD databases, made by the crate that knows their truth too.

use super::{Fixture, manifest};
use crate::options::Options;
use crate::workspace::root;
use anyhow::{Context as _, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};

/// `cargo xtask dataset rocpd --output FOLDER [--dispatches N] [--ranks N] [--seed N]`.
///
/// Runs in a process of its own, so that this package need not build SQLite.
pub(crate) fn run(options: &Options) -> Result<()> {
    let output = options
        .value("output")
        .context("--output FOLDER is missing: where should the databases go?")?;
    let mut command = maker(&["--release"]);
    command.arg(std::path::absolute(output)?);
    for key in ["ranks", "nodes", "seed", "dispatches"] {
        if let Some(value) = options.number(key)? {
            command.arg(format!("{key}={value}"));
        }
    }
    make(command)
}

/// The databases of `testdata/`: two ranks with equal process ids on two machines, and everything that a database can hold.
///
/// Byte for byte the same as long as the SQLite that is compiled in is: its version is in the header.
pub(crate) fn fixtures(seed: u64) -> Result<Vec<Fixture>> {
    let folder = std::env::temp_dir().join(format!("inferscope-rocpd-{}", std::process::id()));
    let mut command = maker(&[]);
    command
        .arg(&folder)
        .args(["ranks=2", "nodes=2", "equal_pids=1"])
        .arg(format!("seed={seed}"))
        .stdout(Stdio::null());
    let made = make(command).and_then(|()| read(&folder));
    // What is left over when this fails lies among other temporary files.
    let _ = std::fs::remove_dir_all(&folder);
    made
}

fn read(folder: &Path) -> Result<Vec<Fixture>> {
    let mut fixtures = Vec::new();
    for name in manifest::files(folder)? {
        let shows = match name.strip_suffix(".truth.json") {
            Some(of) => format!("what is true of {of}"),
            None => "a rocPD database of one rank of two: kernels on two GPUs, HIP, HSA and RCCL calls, markers, copies, memory, scratch, counters, arguments, rows that views lose; the other rank has the same process ids on another machine".to_owned(),
        };
        let bytes = std::fs::read(folder.join(&name))?;
        fixtures.push(Fixture::plain(&format!("rocpd/{name}"), &shows, bytes));
    }
    Ok(fixtures)
}

/// The generator of databases, still without its arguments.
fn maker(flags: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root())
        .args(["run", "--quiet"])
        .args(flags)
        .args([
            "--package",
            "inferscope-rocpd-synth",
            "--example",
            "make",
            "--",
        ]);
    command
}

fn make(mut command: Command) -> Result<()> {
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "the databases could not be made");
    Ok(())
}
