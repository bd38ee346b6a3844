//! Tests the executable from its command line.

#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

mod guide;
mod objects;
#[path = "../../../crates/object-input/tests/server/mod.rs"]
#[expect(dead_code, reason = "other tests need more of it")]
mod server;
mod tables;

use std::path::Path;
use std::process::{Command, Output};

fn call(executable: &Path, words: &[&str]) -> Output {
    Command::new(executable).args(words).output().unwrap()
}

fn inferscope(words: &[&str]) -> Output {
    call(Path::new(env!("CARGO_BIN_EXE_inferscope")), words)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).unwrap()
}

const DEMO: &str = concat!(
    env!("CARGO_MANIFEST_DIR"),
    "/../../testdata/demo/demo-rank0.json.gz"
);

#[test]
fn help_is_by_question_and_each_tool_has_its_own() {
    for words in [&["--help"][..], &["help"], &[]] {
        let answer = inferscope(words);
        assert_eq!(answer.status.code(), Some(0), "{words:?}");
        let help = text(&answer.stdout);
        for question in [
            "What is in it?",
            "Where does time go?",
            "Which rank?",
            "What changed?",
            "Why?",
        ] {
            assert!(help.contains(question), "{help}");
        }
    }
    let help = inferscope(&["help", "trace-info", "gpu"]);
    assert_eq!(
        help.stdout,
        inferscope(&["trace-info", "gpu", "--help"]).stdout
    );
    assert!(text(&help.stdout).contains("Usage: inferscope trace-info gpu [OPTIONS]"));
}

#[test]
fn a_tool_gives_the_same_bytes_however_it_is_called() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("trace-info");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_inferscope"), &link).unwrap();
    let as_link = call(&link, &["gpu", DEMO, "--json"]);
    let as_tool = inferscope(&["trace-info", "gpu", DEMO, "--json"]);
    assert_eq!(as_link.status.code(), Some(0));
    assert!(as_link.stdout.len() > 1000);
    assert_eq!(as_link.stdout, as_tool.stdout);
    assert_eq!(as_link.stderr, as_tool.stderr);
}

#[test]
fn other_names_of_a_tool_are_that_tool() {
    let folder = tempfile::tempdir().unwrap();
    let link = folder.path().join("rocpd2csv");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_inferscope"), &link).unwrap();
    let help = call(&link, &["--help"]);
    assert!(text(&help.stdout).contains("Usage: rocpd2csv [OPTIONS]"));
    let help = inferscope(&["rocpd2summary", "--help"]);
    assert_eq!(help.status.code(), Some(0));
    assert!(text(&help.stdout).contains("The same as rocpd summary"));
}

#[test]
fn what_is_no_tool_is_named_and_guessed() {
    let wrong = inferscope(&["trace-inof", DEMO]);
    assert_eq!(wrong.status.code(), Some(2));
    assert!(text(&wrong.stderr).contains("did you mean 'inferscope trace-info'?"));
    let wrong = inferscope(&["kernel", DEMO]);
    assert!(text(&wrong.stderr).contains("did you mean 'inferscope trace-info kernels'?"));
    let file = inferscope(&[DEMO]);
    assert_eq!(file.status.code(), Some(2));
    assert!(text(&file.stderr).contains("is a file, expected a tool"));
    assert!(file.stdout.is_empty());
    let wrong = inferscope(&["blkio", "stats", "/no/such/file"]);
    let said = text(&wrong.stderr);
    assert!(said.starts_with("inferscope blkio: error: "), "{said}");
}

#[test]
fn completions_and_manual_pages_cover_every_tool() {
    let script = text(&inferscope(&["completions", "bash"]).stdout);
    let folder = tempfile::tempdir().unwrap();
    let pages = folder.path().join("man1");
    let made = inferscope(&["manual", pages.to_str().unwrap()]);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    for name in [
        "trace-info",
        "nccl-stacks",
        "cycle-rca",
        "perf-compare",
        "rocpd",
        "memtrace",
        "blkio",
    ] {
        assert!(script.contains(name), "{name}");
        assert!(
            pages.join(format!("inferscope-{name}.1")).is_file(),
            "{name}"
        );
    }
    assert!(pages.join("inferscope-trace-info-gpu.1").is_file());
}

#[test]
fn links_give_each_tool_its_name() {
    let folder = tempfile::tempdir().unwrap();
    let links = folder.path().join("bin");
    let words = ["links", links.to_str().unwrap()];
    let made = inferscope(&words);
    assert_eq!(made.status.code(), Some(0), "{}", text(&made.stderr));
    let version = call(&links.join("memtrace"), &["--version"]);
    assert!(text(&version.stdout).starts_with("memtrace "));
    // Existing files stay.
    std::fs::remove_file(links.join("blkio")).unwrap();
    std::fs::write(links.join("blkio"), "mine").unwrap();
    let again = inferscope(&words);
    assert_eq!(again.status.code(), Some(0));
    assert!(text(&again.stderr).contains("blkio exists already"));
    assert_eq!(std::fs::read(links.join("blkio")).unwrap(), b"mine");
}
