//! Regenerates the golden outputs of the tools, to be reviewed as a change.

use crate::workspace::{cargo, package, root, run as run_command};
use anyhow::Result;
use std::process::Command;

/// `cargo xtask bless [PACKAGE…]`; without packages runs all.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let packages: Vec<String> = args.iter().map(|name| package(name)).collect();
    let mut test = vec!["test"];
    for package in &packages {
        test.extend(["--package", package]);
    }
    run_command(cargo(&test).env("BLESS", "1").env("INSTA_UPDATE", "always"))?;
    println!("what changed, to be read before it is committed:");
    run_command(
        Command::new("git")
            .args(["status", "--short", "--", "bins", "crates"])
            .current_dir(root()),
    )
}
