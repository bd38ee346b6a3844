//! Tests that the commands in the guide produce the output shown there.
//!
//! A `console` block is a command after `$ ` and its output; a last line `[...]` denotes the rest
//! of the output. `BLESS=1` rewrites the outputs with the same number of lines.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The last line of a truncated output.
const REST: &str = "[...]";

/// Returns the folder of the repository.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Runs a command line of the guide in a folder and returns its standard output.
fn answer(line: &str, folder: &Path) -> String {
    let mut words = line.split_whitespace();
    assert_eq!(words.next(), Some("inferscope"), "{line}");
    // Quotes would need a shell; the guide uses none.
    let words: Vec<&str> = words.map(|word| word.trim_matches('\'')).collect();
    let out = Command::new(env!("CARGO_BIN_EXE_inferscope"))
        .args(&words)
        .current_dir(folder)
        .env("COLUMNS", "100")
        .output()
        .unwrap();
    assert!(
        matches!(out.status.code(), Some(0 | 1)),
        "{line}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    String::from_utf8(out.stdout).unwrap()
}

/// Returns a page with the current output of each command, and the number of commands.
fn renewed(page: &str, folder: &Path) -> (String, usize) {
    let mut text = String::new();
    let mut commands = 0;
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        text.push_str(line);
        text.push('\n');
        if line != "```console" {
            continue;
        }
        let command = lines.next().unwrap();
        let shown: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        let output = answer(command.strip_prefix("$ ").unwrap(), folder);
        commands += 1;
        text.push_str(command);
        text.push('\n');
        let wanted = match shown.last() {
            Some(&REST) => shown.len() - 1,
            _ => usize::MAX,
        };
        for line in output.lines().take(wanted) {
            text.push_str(line.trim_end());
            text.push('\n');
        }
        if wanted != usize::MAX {
            text.push_str(REST);
            text.push('\n');
        }
        text.push_str("```\n");
    }
    (text, commands)
}

#[test]
fn commands_of_the_guide_answer_as_it_shows() {
    let mut commands = 0;
    for entry in fs::read_dir(root().join("docs/guide")).unwrap() {
        let path = entry.unwrap().path();
        let page = fs::read_to_string(&path).unwrap();
        // Commands must not write into the repository.
        let folder = tempfile::tempdir().unwrap();
        let testdata = root().join("testdata").canonicalize().unwrap();
        std::os::unix::fs::symlink(testdata, folder.path().join("testdata")).unwrap();
        let (now, run) = renewed(&page, folder.path());
        commands += run;
        if std::env::var_os("BLESS").is_some() {
            fs::write(&path, now).unwrap();
        } else {
            assert_eq!(page, now, "{}: BLESS=1 renews it", path.display());
        }
    }
    assert!(commands >= 8, "{commands} commands");
}
