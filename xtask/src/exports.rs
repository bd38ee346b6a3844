//! Compares queries over recordings with the same queries over their export, in DuckDB and polars from the package index of Python.

use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::process::Command;

use crate::workspace;

/// Queries, and their comparison.
const SCRIPT: &str = include_str!("exports.py");

/// Packages of the virtual environment.
const PACKAGES: [&str; 3] = ["duckdb", "polars", "pyarrow"];

/// Runs the chore: `[PATH...]`, by default the demo of this repository.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let root = workspace::root();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    workspace::run(&mut workspace::cargo(&[
        "build",
        "--quiet",
        "-p",
        "inferscope",
    ]))?;
    let tool = target.join("debug/inferscope");
    let home = target.join("exports");
    let python = home.join("venv/bin/python");
    if !python.is_file() {
        let mut made = Command::new("python3");
        workspace::run(made.args(["-m", "venv"]).arg(home.join("venv")))?;
    }
    let mut installed = Command::new(&python);
    workspace::run(
        installed
            .args(["-m", "pip", "install", "--quiet"])
            .args(PACKAGES),
    )?;
    let recordings: Vec<String> = match args.is_empty() {
        true => ["demo-rank0", "demo-rank1"]
            .map(|name| {
                root.join(format!("testdata/demo/{name}.json.gz"))
                    .display()
                    .to_string()
            })
            .to_vec(),
        false => args.to_vec(),
    };
    let data = home.join("data");
    if data.exists() {
        std::fs::remove_dir_all(&data).with_context(|| data.display().to_string())?;
    }
    let words = |name: &str| [tool.display().to_string(), name.to_owned()];
    let arguments = serde_json::json!([
        words("sql"),
        words("export"),
        words("trace-info"),
        words("fleet"),
        recordings,
        data,
    ]);
    let mut compared = Command::new(&python);
    let status = compared
        .args(["-c", SCRIPT])
        .arg(arguments.to_string())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => bail!("engines differ"),
    }
}
