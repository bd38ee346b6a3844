//! Tests that all commands use the same rules for classes.

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

/// Generates a kernel with a meaningless name within a softmax, and one of the user's own class.
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

/// Returns exit code, standard output and standard error.
fn outcome(words: &[&str], files: &[&PathBuf]) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_trace-info"));
    let output = command.args(words).args(files).output().unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn columns_are_called_after_their_keys() {
    let folder = tempfile::tempdir().unwrap();
    let a = trace(folder.path(), "a.json", 20);
    let all = json(&["kernels", "--by", "class,operator"], &[&a]);
    for row in all["kernels"]["rows"].as_array().unwrap() {
        assert_eq!(row["by_class"], row["name"], "{row}");
        assert!(row["by_operator"].is_string(), "{row}");
    }
    let (_, text, _) = outcome(&["kernels", "--by", "class,operator"], &[&a]);
    assert!(!text.contains("name"), "{text}");
    let by_name = json(&["kernels"], &[&a]);
    assert_eq!(by_name["kernels"]["rows"][0]["display_name"], "kernel_7");

    let steps = ["--step-pattern", "*op", "--per-step", "--json"];
    let plain = outcome(&[&["kernels", "--by", "class"], &steps[..]].concat(), &[&a]);
    let (code, by_step, err) = outcome(&["kernels", "--by", "class,step", "--json"], &[&a]);
    assert_eq!((plain.0, code), (Some(0), Some(0)), "{err}");
    assert!(by_step.contains("step_index"), "{by_step}");
    assert_eq!(outcome(&["kernels", "--by", "step"], &[&a]).0, Some(2));
}

#[test]
fn a_window_that_the_trace_shows_to_be_inverted_is_wrong_usage() {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [("a.json", 20), ("b.json", 30)].map(|(n, d)| trace(folder.path(), n, d));
    for command in ["gpu", "kernels", "idle", "launch"] {
        for files in [&[&a][..], &[&a, &b]] {
            let (code, out, err) = outcome(&[command, "--window", "+1ms..11000"], files);
            assert_eq!(code, Some(2), "{command} {out} {err}");
        }
    }
}

#[test]
fn traces_without_gpu_activity_have_empty_cells() {
    let folder = tempfile::tempdir().unwrap();
    let host = r#"[{"ph":"X","ts":1,"dur":2,"name":"aten::mm","cat":"cpu_op","pid":1,"tid":1}]"#;
    let files = ["a.json", "b.json"].map(|name| {
        let path = folder.path().join(name);
        fs::write(&path, host).unwrap();
        path
    });
    let (_, out, _) = outcome(&["gpu", "--format", "csv"], &[&files[0], &files[1]]);
    assert_eq!(out.lines().count(), 3);
    assert!(!out.contains("nan"), "{out}");
}

#[test]
fn memory_and_collectives_of_windows_and_steps() {
    let folder = tempfile::tempdir().unwrap();
    let step = |at: u32| {
        let (ts, id) = (1000 * at, at + 1);
        format!(
            r#"{{"ph":"X","ts":{ts},"dur":900,"name":"ProfilerStep#{at}","cat":"user_annotation","pid":1,"tid":1}},
{{"ph":"i","s":"t","ts":{},"name":"[memory]","cat":"cpu_instant_event","pid":1,"tid":1,"args":{{"Total Allocated":{},"Bytes":100,"Device Id":0,"Device Type":1}}}},
{{"ph":"X","ts":{},"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","ts":{},"dur":50,"name":"ncclDevKernel_AllReduce","cat":"kernel","pid":0,"tid":7,"args":{{"device":0,"stream":7,"correlation":{id}}}}}"#,
            ts + 10,
            100 * id,
            ts + 20,
            ts + 60
        )
    };
    let path = folder.path().join("t.json");
    let events: Vec<String> = (0..4).map(step).collect();
    fs::write(&path, format!("[{}]", events.join(","))).unwrap();

    let all = json(&["memory", "--per-step"], &[&path]);
    let rows = all["memory"]["rows"].as_array().unwrap();
    let numbers = |row: &Value| ["first_bytes", "peak_bytes", "samples"].map(|k| row[k].as_i64());
    assert_eq!(numbers(&rows[0]), [100, 100, 1].map(Some));
    assert_eq!(numbers(&rows[2]), [200, 300, 1].map(Some));
    assert_eq!(rows[2]["step"], "ProfilerStep#2");
    let window = json(&["memory", "--window", "1500000..1600000"], &[&path]);
    let row = &window["memory"]["rows"][0];
    assert_eq!(numbers(row), [200, 200, 0].map(Some), "{row}");

    let found = |words: &[&str]| {
        let all = json(&[&["comm"], words].concat(), &[&path]);
        all["kernels"]["rows"].as_array().unwrap().len()
    };
    assert_eq!(found(&[]), 4);
    assert_eq!(found(&["--step", "1..3"]), 2);
    assert_eq!(found(&["--window", "0..1500000"]), 2);
    assert_eq!(outcome(&["comm", "--per-step"], &[&path]).0, Some(2));

    let gpu = json(&["gpu", "--per-step"], &[&path]);
    assert_eq!(gpu["gpu"]["rows"][0]["host_ns"], 900_000);
}

/// An operator that ends shortly after the enclosing range is within it, given the precision of
/// clocks; one that clearly overlaps is not.
#[test]
fn operators_of_imprecise_clocks_keep_their_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    for (dur, operator, class) in [
        ("20.000", "aten::_softmax", "softmax"),
        ("20.001", "aten::_softmax", "softmax"),
        ("20.750", "aten::_softmax", "softmax"),
        ("29.000", "cudaLaunchKernel", "other"),
    ] {
        let text = format!(
            r#"[{{"ph":"X","ts":100,"dur":50,"name":"range","cat":"user_annotation","pid":1,"tid":1}},
{{"ph":"X","ts":130,"dur":{dur},"name":"aten::_softmax","cat":"cpu_op","pid":1,"tid":1}},
{{"ph":"X","ts":135,"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":1}}}},
{{"ph":"X","ts":200,"dur":30,"name":"rowwise","cat":"kernel","pid":0,"tid":7,"args":{{"device":0,"stream":7,"correlation":1}}}}]"#
        );
        fs::write(&path, text).unwrap();
        let all = json(&["kernels", "--by", "operator,class"], &[&path]);
        let row = &all["kernels"]["rows"][0];
        let found = ["by_operator", "by_class"].map(|key| row[key].as_str().unwrap());
        assert_eq!(found, [operator, class], "{dur} {row}");
    }
}

#[test]
fn rows_by_operator_and_name_have_the_class_of_their_kernels() {
    let folder = tempfile::tempdir().unwrap();
    let a = trace(folder.path(), "a.json", 20);
    for by in ["operator,name", "name,operator", "stream,name"] {
        let all = json(&["kernels", "--by", by], &[&a]);
        let mut found: Vec<_> = all["kernels"]["rows"].as_array().unwrap().iter().collect();
        found.sort_by_key(|row| row["by_name"].to_string());
        let classes = found.iter().map(|row| row["class"].as_str().unwrap());
        assert_eq!(classes.collect::<Vec<_>>(), ["softmax", "other"], "{by}");
    }
}
