//! Creates databases in a folder of their own, and calls the tool there.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use rocpd_synth::{Made, Shape, generate};
use tempfile::TempDir;

pub(crate) struct Run {
    pub(crate) folder: TempDir,
    pub(crate) made: Vec<Made>,
}

impl Run {
    pub(crate) fn new(shape: &Shape) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let made = generate(&folder.path().join("in"), shape).unwrap();
        Self { folder, made }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Runs the tool in the folder with the databases as input.
    pub(crate) fn call(&self, words: &[&str]) -> Output {
        call(
            self.folder.path(),
            &[&words[..1], &["-i", "in"], &words[1..]].concat(),
        )
    }
}

pub(crate) fn call(folder: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_rocpd"))
        .current_dir(folder)
        .env_remove("ROCPD_OUTPUT_NAME")
        .env_remove("ROCPD_OUTPUT_PATH")
        .args(words)
        .output()
        .unwrap()
}

pub(crate) fn ok(output: &Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn two() -> Shape {
    Shape {
        ranks: 2,
        nodes: 2,
        equal_pids: true,
        ..Shape::small()
    }
}

/// Returns the names of the entries of a folder.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .map(|entries| {
            entries
                .flatten()
                .map(|entry| entry.file_name().to_string_lossy().into_owned())
                .collect()
        })
        .unwrap_or_default();
    names.sort();
    names
}
