//! Simulates error rates, coverage and power of perf-compare, and writes them to the docs.

use crate::options::Options;
use crate::workspace::{capture, cargo, root};
use anyhow::{Context as _, Result};

/// The generated document.
const DOCUMENT: &str = "docs/calibration.md";

/// `cargo xtask calibrate [--pairs N] [--power N]`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &[], &["pairs", "power"])?;
    let pairs = options.number("pairs")?.unwrap_or(1000).to_string();
    let power = options.number("power")?.unwrap_or(200).to_string();
    println!("{pairs} pairs of each null, {power} of each alternative: minutes to an hour");
    let text = capture(&mut cargo(&[
        "run",
        "--quiet",
        "--release",
        "--package",
        "inferscope-perf-compare",
        "--example",
        "calibrate",
        "--",
        &pairs,
        &power,
    ]))?;
    let path = root().join(DOCUMENT);
    std::fs::write(&path, text).with_context(|| format!("writing {DOCUMENT}"))?;
    println!("{DOCUMENT} written");
    Ok(())
}
