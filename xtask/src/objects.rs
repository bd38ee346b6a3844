//! Compares answers over local files with those over the same files in buckets, from moto of the package index of Python: a server
//! that speaks the protocol of S3 and was written by others.

use anyhow::{Result, bail};
use std::path::PathBuf;
use std::process::Command;

use crate::workspace;

/// What is compared.
const SCRIPT: &str = include_str!("objects.py");

/// Packages of the virtual environment.
const PACKAGES: [&str; 2] = ["moto[server]>=5,<6", "boto3"];

/// Runs the chore: `[--tool FILE] [RECORDING...]`; recordings are compared besides those of this repository.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let root = workspace::root();
    let target =
        std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root.join("target"), PathBuf::from);
    let (tool, more) = match args {
        [option, tool, more @ ..] if option == "--tool" => (PathBuf::from(tool), more),
        more => {
            let build = ["build", "--quiet", "-p", "inferscope"];
            workspace::run(&mut workspace::cargo(&build))?;
            (target.join("debug/inferscope"), more)
        }
    };
    let home = target.join("objects");
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
    let mut compared = Command::new(&python);
    let status = compared
        .args(["-c", SCRIPT])
        .arg(serde_json::json!([tool, root, more]).to_string())
        .status()?;
    match status.success() {
        true => Ok(()),
        false => bail!("answers over a bucket differ from those over local files"),
    }
}
