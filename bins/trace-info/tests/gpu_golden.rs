//! `trace-info gpu` equals the reference on every published trace, to the nanosecond.

use std::path::{Path, PathBuf};
use std::process::Command;

/// The reference data, or a loud line on stderr.
#[expect(clippy::print_stderr, reason = "a skipped test must be seen")]
fn peers() -> Option<PathBuf> {
    let root = std::env::var_os("INFERSCOPE_DATA").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data"),
        PathBuf::from,
    );
    let found = root.join("peers");
    if found.join("reference_gpu_time.csv").exists() {
        return Some(found);
    }
    eprintln!(
        "SKIPPED: no reference data at {}: set INFERSCOPE_DATA to compare with it",
        found.display()
    );
    None
}

#[test]
fn every_column_of_every_trace_equals_the_reference() {
    let Some(peers) = peers() else { return };
    let text = std::fs::read_to_string(peers.join("reference_gpu_time.csv")).unwrap();
    let want = text.replace("\r\n", "\n");
    let traces: Vec<PathBuf> = want
        .lines()
        .skip(1)
        .map(|line| line.split(',').next().unwrap())
        .map(|name| peers.join("traces").join(format!("{name}.json.gz")))
        .collect();
    assert_eq!(traces.len(), 7);
    for threads in ["1", "5"] {
        let mut words = vec!["gpu".as_ref(), "--format".as_ref(), "csv".as_ref()];
        words.extend(["--threads".as_ref(), std::ffi::OsStr::new(threads)]);
        words.extend(traces.iter().map(|path| path.as_os_str()));
        let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
            .args(words)
            .output()
            .unwrap();
        assert!(output.status.success());
        assert_eq!(String::from_utf8(output.stdout).unwrap(), want);
    }
}
