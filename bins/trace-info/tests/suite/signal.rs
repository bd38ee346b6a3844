//! Tests that an interrupted tool leaves no files behind.
#![cfg(unix)]
use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

#[test]
fn an_unfinished_parquet_file_is_removed() {
    ends_without_a_trace(&["kernels", "-", "--format", "parquet", "-o"]);
}

#[test]
fn an_unfinished_folder_is_removed() {
    ends_without_a_trace(&["convert", "-", "--to", "parquet", "-o"]);
}

/// The input never ends, so the output has been begun and cannot be finished.
fn ends_without_a_trace(words: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let mut tool = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .args(words)
        .arg(folder.path().join("output"))
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = tool.stdin.take().unwrap();
    input.write_all(b"{\"traceEvents\": [").unwrap();
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    let deadline = Instant::now() + Duration::from_secs(60);
    while entries() == 0 {
        assert!(Instant::now() < deadline, "nothing temporary appeared");
        std::thread::sleep(Duration::from_millis(5));
    }
    let killed = Command::new("kill")
        .args(["-INT", &tool.id().to_string()])
        .status()
        .unwrap();
    assert!(killed.success());
    assert!(!tool.wait().unwrap().success());
    assert_eq!(entries(), 0);
}
