//! One rule for classes in all commands.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

fn json(words: &[&str], files: &[&PathBuf]) -> Value {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace-info"));
    let output = command
        .args(words)
        .args(files)
        .arg("--json")
        .output()
        .unwrap();
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{err}");
    serde_json::from_slice(&output.stdout).unwrap()
}

/// A kernel of a name that says nothing within a softmax, and one of the user's own.
fn trace(folder: &Path, name: &str, dur: u32) -> PathBuf {
    let mut events = Vec::new();
    for (at, (op, kernel)) in [("aten::_softmax", "kernel_7"), ("mine::op", "my_exchange")]
        .into_iter()
        .enumerate()
    {
        let ts = 100 * at;
        events.push(format!(
            r#"{{"ph":"X","ts":{ts},"dur":50,"name":"{op}","cat":"cpu_op","pid":1,"tid":1,"args":{{"External id":{at}}}}},
{{"ph":"X","ts":{},"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{}}}}},
{{"ph":"X","ts":{},"dur":{dur},"name":"{kernel}","cat":"kernel","pid":0,"tid":7,"args":{{"device":0,"stream":7,"correlation":{}}}}}"#,
            ts + 10,
            at + 1,
            ts + 60,
            at + 1
        ));
    }
    let path = folder.join(name);
    fs::write(&path, format!("[{}]", events.join(","))).unwrap();
    path
}

fn classes(rows: &Value, name: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let rows = rows.as_array().unwrap().iter();
    let mut all: Vec<_> = rows.map(|r| (text(&r[name]), text(&r["class"]))).collect();
    all.sort();
    all
}

#[test]
fn every_command_classifies_alike_and_takes_rows_of_the_user() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [("a.json", 20), ("b.json", 30)].map(|(n, d)| trace(folder.path(), n, d));
    let rules = folder.path().join("my.rules");
    fs::write(&rules, "communication all_reduce/other my_exchange\n").unwrap();
    let rules = ["--classes", rules.to_str().unwrap()];

    let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
    let want = [
        pair("kernel_7", "softmax"),
        pair("my_exchange", "collective"),
    ];
    let kernels = json(&[&["kernels"], &rules[..]].concat(), &[&a]);
    assert_eq!(classes(&kernels["kernels"]["rows"], "name"), want);
    let diff = json(&[&["diff"], &rules[..]].concat(), &[&a, &b]);
    assert_eq!(classes(&diff["kernels"]["rows"], "kernel_a"), want);

    let found = |words: &[&str]| {
        let all = json(words, &[&a]);
        all["kernels"]["rows"].as_array().unwrap().len()
    };
    assert_eq!(found(&["comm"]), 0);
    assert_eq!(found(&[&["comm"], &rules[..]].concat()), 1);
}
