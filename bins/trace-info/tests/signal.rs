//! An interrupted tool leaves nothing behind.
#![cfg(unix)]

use std::io::Write as _;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The trace never ends, so the Parquet file has been begun and cannot be finished.
#[test]
fn an_unfinished_parquet_file_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let output = folder.path().join("kernels.parquet");
    let mut tool = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .args(["kernels", "--format", "parquet", "--output"])
        .arg(&output)
        .arg("-")
        .stdin(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = tool.stdin.take().unwrap();
    input.write_all(b"{\"traceEvents\": [").unwrap();
    let entries = || std::fs::read_dir(folder.path()).unwrap().count();
    let deadline = Instant::now() + Duration::from_secs(60);
    while entries() == 0 {
        assert!(Instant::now() < deadline, "no temporary file appeared");
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
