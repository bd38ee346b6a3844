//! Rules of the project that no compiler checks.

mod fixtures;
mod floors;
mod readme;
mod sources;
mod texts;

use crate::options::Options;
use crate::workspace::{capture, cargo, root};
use anyhow::{Context as _, Result, bail};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Input and findings of the checks.
struct Tree {
    root: PathBuf,
    /// Tracked files and new ones that are not ignored, relative to the root, sorted.
    files: Vec<String>,
    /// `cargo metadata` without dependencies.
    metadata: serde_json::Value,
    broken: Vec<String>,
    advice: Vec<String>,
}

impl Tree {
    fn load() -> Result<Self> {
        let root = root();
        let list = Command::new("git")
            .args([
                "ls-files",
                "-z",
                "--cached",
                "--others",
                "--exclude-standard",
            ])
            .current_dir(&root)
            .output()
            .context("listing files with git")?;
        let list = String::from_utf8(list.stdout).context("a file name is no UTF-8")?;
        let exists = |file: &&str| !file.is_empty() && root.join(file).is_file();
        let mut files: Vec<String> = list.split('\0').filter(exists).map(str::to_owned).collect();
        files.sort();
        files.dedup();
        let metadata = capture(&mut cargo(&[
            "metadata",
            "--format-version",
            "1",
            "--no-deps",
        ]))?;
        let metadata = serde_json::from_slice(&metadata).context("reading cargo metadata")?;
        Ok(Self {
            root,
            files,
            metadata,
            broken: Vec::new(),
            advice: Vec::new(),
        })
    }

    fn broken(&mut self, place: impl AsRef<str>, what: impl AsRef<str>) {
        self.broken
            .push(format!("{}: {}", place.as_ref(), what.as_ref()));
    }

    /// Returns the text of a file; `None` for binary ones.
    fn text(&self, file: &str) -> Option<String> {
        std::fs::read(self.root.join(file))
            .ok()
            .and_then(|bytes| String::from_utf8(bytes).ok())
    }

    fn matching(&self, test: impl Fn(&str) -> bool) -> Vec<String> {
        self.files
            .iter()
            .filter(|file| test(file))
            .cloned()
            .collect()
    }
}

/// `cargo xtask tidy`.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::parse(args, &["fix"], &[])?;
    let mut tree = Tree::load()?;
    if options.flag("fix") {
        readme::fix(&tree)?;
    }
    floors::check(&mut tree);
    sources::check(&mut tree);
    texts::check(&mut tree);
    readme::check(&mut tree);
    fixtures::check(&mut tree)?;
    for advice in &tree.advice {
        println!("note: {advice}");
    }
    if tree.broken.is_empty() {
        println!("{} files are tidy", tree.files.len());
        return Ok(());
    }
    for broken in &tree.broken {
        println!("{broken}");
    }
    bail!("{} things are not tidy", tree.broken.len())
}

/// Returns `true` if a source file contains only tests or measurements.
fn is_test(file: &str) -> bool {
    let folders = ["tests", "benches", "examples", "fuzz"];
    Path::new(file)
        .components()
        .any(|part| folders.iter().any(|folder| part.as_os_str() == *folder))
}
