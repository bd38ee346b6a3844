//! rocPD databases, made by the crate that knows their truth too.

use crate::options::Options;
use crate::workspace::root;
use anyhow::{Context as _, Result, ensure};
use std::process::Command;

/// `cargo xtask dataset rocpd --output FOLDER [--dispatches N] [--ranks N] [--seed N]`.
///
/// Runs in a process of its own, so that this package need not build SQLite.
pub(crate) fn run(options: &Options) -> Result<()> {
    let output = options
        .value("output")
        .context("--output FOLDER is missing: where should the databases go?")?;
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command
        .current_dir(root())
        .args([
            "run",
            "--quiet",
            "--release",
            "--package",
            "rocpd-synth",
            "--example",
            "make",
            "--",
        ])
        .arg(std::path::absolute(output)?);
    for key in ["ranks", "nodes", "seed", "dispatches"] {
        if let Some(value) = options.number(key)? {
            command.arg(format!("{key}={value}"));
        }
    }
    let status = command.status().context("cannot run cargo")?;
    ensure!(status.success(), "the databases could not be made");
    Ok(())
}
