//! Tests of `trace-info critical-path` as used.

use std::path::PathBuf;
use std::process::Output;

use crate::support::{Csv, run, table};

fn demo(rank: u32) -> String {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../testdata/demo");
    format!("{folder}/demo-rank{rank}.json.gz")
}

fn critical_path(words: &[&str]) -> Output {
    run(std::iter::once("critical-path").chain(words.iter().copied()))
}

fn stdout(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn json(words: &[&str]) -> serde_json::Value {
    let output = critical_path(words);
    assert!(output.status.success(), "{}", stderr(&output));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn file(folder: &tempfile::TempDir, name: &str, events: &str) -> PathBuf {
    let path = folder.path().join(name);
    std::fs::write(&path, format!("{{\"traceEvents\":[{events}]}}")).unwrap();
    path
}

#[test]
fn the_answer_comes_first() {
    let text = stdout(&critical_path(&[&demo(0), &demo(1)]));
    let first = text.lines().next().unwrap();
    assert!(
        first.starts_with("1 prefill step of 2 ranks takes "),
        "{first}"
    );
    assert!(first.contains("gpu-bound (compute)"), "{first}");
    for part in [
        "at most",
        "model",
        "guessed",
        "budget",
        "largest on the path",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
}

#[test]
fn the_document_has_the_keys_that_are_pinned() {
    let (a, b) = (demo(0), demo(1));
    let found = json(&[
        &a,
        &b,
        "--format",
        "json",
        "--what-if",
        "graph",
        "--opportunities",
        "2",
        "--path",
        "--ops",
    ]);
    for key in [
        "schema",
        "recordings",
        "edges",
        "contradicted",
        "replay",
        "window",
        "steps",
        "path",
        "segments",
        "ops",
        "what_if",
        "limits",
        "opportunities",
    ] {
        assert!(!found[key].is_null(), "{key}");
    }
    for key in [
        "rank",
        "step",
        "name",
        "host_begin_ns",
        "host_end_ns",
        "device_begin_ns",
        "device_end_ns",
        "begin_ns",
        "end_ns",
        "duration_ns",
        "flags",
        "verdict",
        "share_pct",
        "groups",
        "classes",
        "other_ranks_ns",
        "unexplained_ns",
        "model_ns",
    ] {
        assert!(!found["steps"][0][key].is_null(), "{key}");
    }
    for key in ["rank", "step", "class", "group", "name", "path_ns", "count"] {
        assert!(!found["path"][0][key].is_null(), "{key}");
    }
    for key in [
        "change",
        "recorded_ns",
        "predicted_ns",
        "gain_ns",
        "gain_pct",
        "steps",
    ] {
        assert!(!found["what_if"][0][key].is_null(), "{key}");
    }
    assert_eq!(found["replay"]["identity_error_ns"], 0);
    for step in found["steps"].as_array().unwrap() {
        let groups = step["groups"].as_object().unwrap().values();
        let sum: i64 = groups.map(|ns| ns.as_i64().unwrap()).sum();
        assert_eq!(sum, step["duration_ns"].as_i64().unwrap());
    }
}

#[test]
fn segments_of_a_step_follow_each_other() {
    let output = critical_path(&[&demo(0), "--step", "3", "--path", "--format", "csv"]);
    let csv = Csv::parse(&stdout(&output));
    let (begin, end) = (csv.column("begin_ns"), csv.column("end_ns"));
    assert!(begin.len() > 10);
    for (end, begin) in end.iter().zip(begin.iter().skip(1)) {
        assert_eq!(end, begin);
    }
    assert!(csv.column("step").iter().all(|step| *step == "3"));
}

#[test]
fn the_order_of_files_and_threads_do_not_matter() {
    let (a, b) = (demo(0), demo(1));
    let one = critical_path(&[&a, &b, "--format", "json", "--threads", "1"]);
    let two = critical_path(&[&b, &a, "--format", "json", "--threads", "2"]);
    assert_eq!(stdout(&one), stdout(&two));
}

#[test]
fn a_wrong_change_is_wrong_usage_with_the_targets() {
    for change in ["kernels=0.5", "kernel", "kernel=-1", "comm=link:x"] {
        let output = critical_path(&[&demo(0), "--what-if", change]);
        assert_eq!(output.status.code(), Some(2), "{change}");
        let text = stderr(&output);
        assert!(text.contains("kernel, memcpy, memset, comm"), "{text}");
    }
}

#[test]
fn a_step_that_is_not_there_is_not_found() {
    let output = critical_path(&[&demo(0), "--step", "99"]);
    assert_eq!(output.status.code(), Some(4));
    assert!(
        stderr(&output).contains("numbered 1 to 5"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn kernels_alone_say_what_to_record() {
    let folder = tempfile::tempdir().unwrap();
    let kernel = |ts: u32| {
        format!(
            "{{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k\",\"pid\":0,\"tid\":7,\"ts\":{ts},\"dur\":50,\"args\":{{\"stream\":7,\"device\":0}}}}"
        )
    };
    let events = format!("{},{}", kernel(1000), kernel(1200));
    let path = file(&folder, "kernels.json", &events);
    let output = critical_path(&[path.to_str().unwrap()]);
    assert!(output.status.success());
    let text = stdout(&output);
    assert!(
        text.contains("no_host_events") && text.contains("record the calls of the host"),
        "{text}"
    );
    assert!(
        text.starts_with("The whole recording takes 250.0 µs: what bounds"),
        "{text}"
    );
}

#[test]
fn nothing_at_all_is_said_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let slice = "{\"ph\":\"X\",\"cat\":\"cpu_op\",\"name\":\"aten::mm\",\"pid\":1,\"tid\":1,\"ts\":1,\"dur\":5}";
    let path = file(&folder, "host.json", slice);
    let output = critical_path(&[path.to_str().unwrap()]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(stderr(&output).contains("no GPU"), "{}", stderr(&output));
    let output = critical_path(&[path.to_str().unwrap(), "--format", "json"]);
    assert_eq!(output.status.code(), Some(4), "{}", stdout(&output));
}

#[test]
fn the_path_is_written_for_the_viewer() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("path.pftrace");
    let path = path.to_str().unwrap();
    let output = critical_path(&[&demo(0), "--perfetto", path, "--no-guesses"]);
    assert!(output.status.success(), "{}", stderr(&output));
    let path = std::path::Path::new(path);
    assert!(table(path, "flow", &[]).rows.len() > 100);
    let slices = table(path, "slice", &[]);
    let names = slices.column("name");
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("kernel.gemm: nvjet"))
    );
}

#[test]
fn parquet_has_the_steps() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("steps.parquet");
    let output = critical_path(&[&demo(0), "--format", "parquet"]);
    assert_eq!(output.status.code(), Some(2));
    let output = critical_path(&[
        &demo(0),
        "--format",
        "parquet",
        "--output",
        path.to_str().unwrap(),
    ]);
    assert!(output.status.success(), "{}", stderr(&output));
    assert!(std::fs::read(&path).unwrap().starts_with(b"PAR1"));
}

/// Without marks and host code, the bursts of the GPU that repeat are the steps.
#[test]
fn bursts_of_kernels_are_steps_and_the_answer_says_so() {
    let folder = tempfile::tempdir().unwrap();
    let mut begin = 1_000;
    let (mut events, mut ends) = (Vec::new(), Vec::new());
    for step in 0..12 {
        for kernel in 0..10 {
            let ts = begin + kernel * 32;
            events.push(format!(
                "{{\"ph\":\"X\",\"cat\":\"kernel\",\"name\":\"k{kernel}\",\"pid\":0,\"tid\":7,\"ts\":{ts},\"dur\":30,\"args\":{{\"stream\":7,\"device\":0}}}}"
            ));
        }
        ends.push((begin + 9 * 32 + 30) * 1_000);
        begin += 800 + step * 7 % 5 * 10;
    }
    let path = file(&folder, "bursts.json", &events.join(","));
    let path = path.to_str().unwrap();
    let found = json(&[path, "--format", "json"]);
    assert_eq!(found["steps_by"], "gpu_burst");
    let steps = found["steps"].as_array().unwrap().iter();
    let own: Vec<i64> = steps.map(|step| step["end_ns"].as_i64().unwrap()).collect();
    assert_eq!(own, ends);
    let text = stdout(&critical_path(&[path]));
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.starts_with("12 steps, median "), "{text}");
    assert!(text.contains("bursts of GPU work that repeat"), "{text}");
    let whole = json(&[path, "--format", "json", "--steps", "whole"]);
    assert_eq!(whole["steps_by"], "whole");
    assert_eq!(whole["steps"].as_array().unwrap().len(), 1);
}
