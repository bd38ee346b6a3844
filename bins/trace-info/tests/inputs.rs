//! What the commands answer to inputs without GPU activity, and to files that are no traces.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Exit code, standard output, standard error.
fn outcome<S: AsRef<std::ffi::OsStr>>(words: impl IntoIterator<Item = S>) -> (i32, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace-info"));
    let output = command.args(words).output().unwrap();
    (
        output.status.code().unwrap(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn written(folder: &Path, name: &str, bytes: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, bytes).unwrap();
    path
}

const ONLY_HOST: &str = r#"{"traceEvents":[
{"ph":"X","ts":10,"dur":100.5,"name":"aten::mm","cat":"cpu_op","pid":10,"tid":11}]}"#;

#[test]
fn every_command_says_why_there_is_no_gpu_activity() {
    let folder = tempfile::tempdir().unwrap();
    let host = written(folder.path(), "host.json", ONLY_HOST);
    let host = host.to_str().unwrap();
    for command in [
        "summary", "gpu", "kernels", "idle", "launch", "memory", "comm", "diff",
    ] {
        let mut words = vec![command, host];
        words.extend((command == "diff").then_some(host));
        let (code, out, err) = outcome(&words);
        assert_eq!(code, 0, "{command}: {err}");
        let sentence = "no GPU activity: only the host was recorded (1 operators";
        assert!(err.contains(sentence), "{command}: {err}");
        if !["summary", "diff"].contains(&command) {
            assert_eq!(out.lines().count(), 4, "{command} shows no tables: {out}");
        }
        words.push("--fail-on-empty");
        assert_eq!(outcome(&words).0, 1, "{command}");
    }
}

#[test]
fn a_window_without_gpu_activity_is_empty() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = r#"[{"ph":"X","ts":10,"dur":5,"name":"k","cat":"kernel","pid":0,"tid":7}]"#;
    let trace = written(folder.path(), "t.json", kernel);
    let trace = trace.to_str().unwrap();
    for (window, code) in [("10000..12000", 0), ("20000..30000", 1)] {
        for command in ["gpu", "idle", "launch"] {
            let words = [command, trace, "--window", window, "--fail-on-empty"];
            assert_eq!(outcome(words).0, code, "{command} {window}");
        }
    }
}
