//! Packages every crate as for publication.

use crate::options::Options;
use crate::workspace::{capture, cargo, run as run_command};
use anyhow::{Context as _, Result, ensure};

/// `cargo xtask publish --dry-run [--build]`: packages every publishable crate; `--build` also builds each from its archive.
///
/// Publishing itself is left to `cargo publish --workspace`, which needs the owner's credentials.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &["dry-run", "build"], &[])?;
    ensure!(
        options.flag("dry-run"),
        "only --dry-run is done here; the owner publishes with `cargo publish --workspace`"
    );
    let packages = publishable()?;
    let mut package = cargo(&["package", "--quiet", "--allow-dirty"]);
    if !options.flag("build") {
        package.arg("--no-verify");
    }
    for name in &packages {
        package.args(["--package", name]);
    }
    run_command(&mut package)?;
    println!("{} packages in target/package", packages.len());
    Ok(())
}

/// Returns the names of the packages that may be published, in the order of the workspace.
fn publishable() -> Result<Vec<String>> {
    let metadata = capture(&mut cargo(&[
        "metadata",
        "--format-version",
        "1",
        "--no-deps",
    ]))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&metadata).context("reading cargo metadata")?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let public = packages.filter(|package| {
        // `publish = false` becomes an empty list of registries.
        package["publish"]
            .as_array()
            .is_none_or(|registries| !registries.is_empty())
    });
    Ok(public
        .filter_map(|package| package["name"].as_str().map(str::to_owned))
        .collect())
}
