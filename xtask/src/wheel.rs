//! Builds the wheel for Python and tests it in a clean virtual environment.

use crate::options::Options;
use crate::workspace::{capture, root, run as run_command, without_outer_cargo};
use anyhow::{Context as _, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Packages of the tests, from PyPI.
const PACKAGES: &[&str] = &[
    "maturin>=1.7,<2",
    "basedpyright",
    "duckdb",
    "ipykernel",
    "matplotlib",
    "mcp",
    "mypy",
    "nbclient",
    "nbformat",
    "pandas",
    "polars",
    "pyarrow",
    "pytest",
];

/// `cargo xtask wheel [--torch] [--spark]`: the step `wheel` of `ci`; with `--torch` PyTorch is installed as well (several gigabytes),
/// for the test that profiles a real model, and with `--spark` PySpark (half a gigabyte, and Java is needed), for those of the data
/// source.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &["torch", "spark"], &[])?;
    let mut more = Vec::new();
    if options.flag("torch") {
        more.extend(["torch", "numpy"]);
    }
    if options.flag("spark") {
        more.push("pyspark>=4");
    }
    test(&more)
}

/// The step `wheel`.
pub(crate) fn check() -> Result<()> {
    test(&[])
}

/// Builds the wheel and tests it. Where Python or its packages are not to be had, it says so and checks nothing.
fn test(more: &[&str]) -> Result<()> {
    let version = "import sys; sys.exit(sys.version_info < (3, 10))";
    if let Err(error) = capture(Command::new("python3").args(["-c", version])) {
        println!("skipped: wheel: {error:#}: install Python 3.10 or newer");
        return Ok(());
    }
    let folder = target().join("wheel");
    let environment = folder.join("venv");
    let made = capture(
        Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&environment),
    );
    if let Err(error) = made {
        println!("skipped: wheel: {error:#}: install Python's venv (Debian: python3-venv)");
        return Ok(());
    }
    let bin = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let python = bin.join("python");
    let install = [
        "-m",
        "pip",
        "install",
        "--quiet",
        // Most of the files are never imported.
        "--no-compile",
        "--disable-pip-version-check",
    ];
    let packages = capture(
        Command::new(&python)
            .args(install)
            .args(PACKAGES)
            .args(more),
    );
    if let Err(error) = packages {
        println!("skipped: wheel: packages from PyPI cannot be installed: {error:#}");
        return Ok(());
    }
    let dist = folder.join("dist");
    // Only the wheel of this run is installed.
    if dist.is_dir() {
        std::fs::remove_dir_all(&dist)?;
    }
    let mut maturin = Command::new(bin.join("maturin"));
    maturin
        .args(["build", "--quiet", "--interpreter"])
        .arg(&python)
        .arg("--out")
        .arg(&dist)
        .current_dir(root());
    without_outer_cargo(&mut maturin);
    run_command(&mut maturin)?;
    let wheel = only_file(&dist)?;
    let size = std::fs::metadata(&wheel)?.len();
    println!("{}: {size} bytes", wheel.display());
    run_command(Command::new(&python).args(install).arg(&wheel))?;
    let tests = root().join("bins/python/tests");
    // Away from the sources, which must not be imported in place of the wheel.
    let call = |words: &[&str]| {
        let mut command = Command::new(&python);
        command.args(words).current_dir(&folder);
        command
    };
    run_command(call(&["-m", "pytest", "-q", "-ra", "-p", "no:cacheprovider"]).arg(&tests))?;
    let settings = root().join("pyproject.toml");
    let mut types = call(&["-m", "mypy", "--config-file"]);
    run_command(types.arg(&settings).arg(tests.join("sample.py")))?;
    let mut types = call(&["-m", "mypy", "--config-file"]);
    run_command(types.arg(&settings).args(["-p", "inferscope"]))?;
    run_command(&mut call(&["-m", "mypy.stubtest", "inferscope._native"]))?;
    // Pyright's checker with its own runtime, so that no Node.js is needed.
    let mut types = call(&["-m", "basedpyright", "--project"]);
    types.arg(&settings).arg("--pythonpath").arg(&python);
    run_command(types.arg(tests.join("sample.py")))
}

/// Returns the folder of build products.
fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

fn only_file(folder: &Path) -> Result<PathBuf> {
    let mut files = std::fs::read_dir(folder)
        .with_context(|| folder.display().to_string())?
        .map(|entry| entry.map(|entry| entry.path()));
    files
        .next()
        .with_context(|| format!("no wheel in {}", folder.display()))?
        .context("listing wheels")
}
