//! Location of the workspace, and running of commands in it.

use anyhow::{Context as _, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the folder of the workspace's `Cargo.toml`: the parent of this package.
pub(crate) fn root() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from("xtask"), PathBuf::from);
    here.parent()
        .filter(|path| !path.as_os_str().is_empty())
        .unwrap_or_else(|| Path::new("."))
        .to_owned()
}

/// Returns a command for the same `cargo`, in the workspace.
pub(crate) fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args).current_dir(root());
    without_outer_cargo(&mut command);
    command
}

/// Keeps the settings of the outer `cargo run` from a command that calls `cargo`, or everything is rebuilt.
pub(crate) fn without_outer_cargo(command: &mut Command) {
    for (name, _) in std::env::vars_os() {
        let text = name.to_string_lossy();
        if text.starts_with("CARGO_PKG_")
            || text.starts_with("CARGO_MANIFEST_")
            || text == "CARGO_PRIMARY_PACKAGE"
        {
            command.env_remove(&name);
        }
    }
}

/// Prefix of the names of published packages; folders and libraries omit it.
pub(crate) const PREFIX: &str = "inferscope-";

/// Returns the package of a folder: `trace-model` is `inferscope-trace-model`.
pub(crate) fn package(folder: &str) -> String {
    let plain =
        folder.starts_with(PREFIX) || ["inferscope", "xtask", "perfetto-oracle"].contains(&folder);
    if plain {
        folder.to_owned()
    } else {
        format!("{PREFIX}{folder}")
    }
}

/// Runs a command to its end; a failure is an error that names it.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let name = describe(command);
    println!("$ {name}");
    let status = command
        .status()
        .with_context(|| format!("starting {name}"))?;
    ensure!(status.success(), "{name} failed ({status})");
    Ok(())
}

/// Runs a command and returns its standard output.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let name = describe(command);
    let output = command
        .output()
        .with_context(|| format!("starting {name}"))?;
    ensure!(
        output.status.success(),
        "{name} failed: {}",
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(output.stdout)
}

fn describe(command: &Command) -> String {
    let program = Path::new(command.get_program())
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let args = command
        .get_args()
        .map(|arg| arg.to_string_lossy().into_owned());
    std::iter::once(program)
        .chain(args)
        .collect::<Vec<_>>()
        .join(" ")
}
