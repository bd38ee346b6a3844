//! Tests of `trace-info diff` on the two ranks of the demo, which run the same model.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Relative, so that the header, which shows the path as given, fits wherever the workspace is.
fn demo(name: &str) -> PathBuf {
    Path::new("../../testdata/demo").join(name)
}

fn run(words: &[&str], files: &[PathBuf]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .env("COLUMNS", "80")
        .args(words)
        .args(files)
        .output()
        .unwrap();
    (
        output.status.code(),
        String::from_utf8(output.stdout).unwrap(),
        String::from_utf8(output.stderr).unwrap(),
    )
}

fn both() -> [PathBuf; 2] {
    [demo("demo-rank0.json.gz"), demo("demo-rank1.json.gz")]
}

fn said(words: &[&str]) -> String {
    let (code, out, err) = run(words, &both());
    assert_eq!(code, Some(0), "{err}");
    out
}

fn json(words: &[&str], files: &[PathBuf]) -> Value {
    let (code, out, err) = run(words, files);
    assert_eq!(code, Some(0), "{err}");
    serde_json::from_str(&out).unwrap()
}

#[test]
fn each_side_adds_up_to_the_kernels_of_its_trace() {
    let diff = json(&["diff", "--json", "--whole"], &both());
    let rows = diff["kernels"]["rows"].as_array().unwrap();
    for (side, column) in ["a_ns", "b_ns"].into_iter().enumerate() {
        let ours: i64 = rows.iter().map(|r| r[column].as_i64().unwrap()).sum();
        let kernels = json(&["kernels", "--json"], &both()[side..=side]);
        let theirs = kernels["kernels"]["rows"].as_array().unwrap();
        let sum = theirs.iter().map(|r| r["sum_ns"].as_i64().unwrap());
        assert_eq!(ours, sum.sum::<i64>());
        assert_eq!(
            diff["totals"]["rows"][side]["total_ns"].as_i64(),
            Some(ours)
        );
        let operators = diff["operators"]["rows"].as_array().unwrap();
        let by_operator = operators.iter().map(|r| r[column].as_i64().unwrap());
        assert_eq!(by_operator.sum::<i64>(), ours);
    }
}

/// One attention kernel of rank 1 was made 850 us longer; the other 53 vary by a few percent.
#[test]
fn the_slow_kernel_is_found_at_its_place() {
    let diff = json(&["diff", "--json"], &both());
    let rows = diff["kernels"]["rows"].as_array().unwrap();
    let attention = rows
        .iter()
        .filter(|r| r["class"] == "attention" && r["status"] == "matched")
        .max_by_key(|r| r["diff_ns"].as_i64().unwrap())
        .unwrap();
    let excess = attention["diff_ns"].as_i64().unwrap();
    assert!((excess - 850_000).abs() < 60_000, "{attention}");
    assert_eq!(attention["evidence"], "structure");
    assert_eq!(attention["count_a"], attention["count_b"]);
}

#[test]
fn a_trace_does_not_differ_from_itself() {
    let file = demo("demo-rank0.json.gz");
    let diff = json(&["diff", "--json"], &[file.clone(), file]);
    for table in ["kernels", "operators"] {
        for row in diff[table]["rows"].as_array().unwrap() {
            assert_eq!(
                (&row["status"], row["diff_ns"].as_i64()),
                (&"matched".into(), Some(0)),
                "{row}"
            );
        }
    }
    assert_eq!(diff["totals"]["rows"][0]["unmatched_ns"], 0);
}

#[test]
fn formats_rules_and_wrong_use() {
    let text = said(&["diff"]);
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(
        text.contains("operators per step, largest difference first"),
        "{text}"
    );
    assert_eq!(
        said(&["diff", "--threads", "1"]),
        said(&["diff", "--threads", "3"])
    );
    let csv = said(&[
        "diff",
        "--format",
        "csv",
        "--table",
        "operators",
        "--top",
        "3",
    ]);
    assert!(
        csv.starts_with("step_kind,module,operator,status,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 4);
    let hta = said(&["diff", "--rules", "hta", "--format", "csv"]);
    assert!(
        hta.starts_with("name,control_counts,control_total_duration,"),
        "{hta}"
    );
    let lens = said(&["diff", "--rules", "tracelens", "--format", "csv"]);
    assert!(
        lens.starts_with("name,cpu_op_name,source,Input Dims,"),
        "{lens}"
    );
    let (code, _, err) = run(&["diff"], &both()[..1]);
    assert_eq!(code, Some(2));
    assert!(err.contains("exactly two traces"), "{err}");
}

/// Generates a trace of `steps` equal steps with a pause of `pause_us` after each.
fn made(folder: &Path, name: &str, steps: usize, pause_us: usize) -> PathBuf {
    let mut events = Vec::new();
    for step in 0..steps {
        let at = step * (1_000 + pause_us);
        events.push(format!(
            r#"{{"ph":"X","ts":{at},"dur":1000,"name":"ProfilerStep#{}","cat":"user_annotation","pid":1,"tid":1}}"#,
            step + 7
        ));
        for kernel in 0..9 {
            let (call, start) = (at + 10 + kernel * 100, at + 20 + kernel * 100);
            let id = step * 9 + kernel + 1;
            events.push(format!(
                r#"{{"ph":"X","ts":{call},"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{id}}}}}"#
            ));
            events.push(format!(
                r#"{{"ph":"X","ts":{start},"dur":90,"name":"gemm_{kernel}","cat":"kernel","pid":0,"tid":7,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#
            ));
        }
    }
    let path = folder.join(name);
    let text = format!(r#"{{"traceEvents":[{}]}}"#, events.join(","));
    std::fs::write(&path, text).unwrap();
    path
}

#[test]
fn more_steps_are_not_slower_and_pauses_of_the_host_are() {
    let folder = tempfile::tempdir().unwrap();
    let three = made(folder.path(), "three.json", 3, 0);
    let five = made(folder.path(), "five.json", 5, 0);
    let paused = made(folder.path(), "paused.json", 4, 3_000);
    let (_, text, _) = run(&["diff"], &[three.clone(), five.clone()]);
    assert!(
        text.starts_with("B is about as fast as A per step (median of 2 steps of A and 4 of B"),
        "{text}"
    );
    let diff = json(&["diff", "--json"], &[three.clone(), five]);
    for row in diff["kernels"]["rows"].as_array().unwrap() {
        assert_eq!(
            (
                &row["status"],
                row["diff_per_step_ns"].as_f64(),
                &row["diff_ns"]
            ),
            (&"matched".into(), Some(0.0), &Value::Null),
            "{row}"
        );
    }
    let (_, text, _) = run(&["diff"], &[three.clone(), paused]);
    let first = text.lines().next().unwrap();
    assert!(first.starts_with("B is slower than A per step"), "{text}");
    assert!(text.contains("GPU idle +3.000 ms"), "{text}");
    let (_, text, _) = run(&["diff"], &[three.clone(), three.clone()]);
    assert!(text.starts_with("A and B do not differ"), "{text}");
    assert!(!text.contains('─'), "{text}");
    // Without steps on one side, a note states that totals are compared.
    let (code, text, _) = run(
        &["diff", "--step-pattern", "no such name", "--per-step"],
        &[three.clone(), three.clone()],
    );
    assert_eq!((code, text.as_str()), (Some(4), ""));
    let (code, text, _) = run(&["diff"], &[three, demo("demo-rank0.json.gz")]);
    assert_eq!(code, Some(0));
    assert!(
        text.starts_with("A and B cannot be compared step with step"),
        "{text}"
    );
    assert!(text.contains("--step-pattern"), "{text}");
}

#[test]
fn nothing_is_compared_without_gpu_activity_or_chosen_steps() {
    let folder = tempfile::tempdir().unwrap();
    let host = folder.path().join("host.json");
    let event = r#"[{"ph":"X","cat":"cpu_op","name":"aten::mm","pid":1,"tid":1,"ts":1,"dur":2}]"#;
    std::fs::write(&host, event).unwrap();
    let three = made(folder.path(), "three.json", 3, 10);
    for files in [[host.clone(), host.clone()], [host.clone(), three.clone()]] {
        let (code, out, err) = run(&["diff"], &files);
        assert_eq!((code, out.as_str()), (Some(4), ""), "{err}");
        assert!(err.contains("no GPU activity"), "{err}");
    }
    let five = made(folder.path(), "five.json", 5, 10);
    let (code, out, err) = run(&["diff", "--step", "4"], &[three.clone(), five]);
    assert_eq!((code, out.as_str()), (Some(2), ""), "{err}");
    assert!(err.contains("none of the 3 steps of A"), "{err}");
    let (_, out, err) = run(&["gpu"], &[host.clone(), three]);
    assert!(
        out.contains("1 trace (1 more without GPU activity)"),
        "{out}{err}"
    );
    let (_, out, _) = run(&["gpu"], &[host.clone(), host]);
    assert!(!out.contains("0.00 %"), "{out}");
}

/// Kernels of one operator pair by the classes of their names, and by the operator if the name
/// gives a class on one side only.
#[test]
fn renamed_kernels_of_one_operator_are_pairs() {
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, kernels: [&str; 2]| {
        let mut events = vec![
            r#"{"ph":"X","ts":0,"dur":100,"name":"aten::_softmax","cat":"cpu_op","pid":1,"tid":1}"#
                .to_owned(),
        ];
        for (at, kernel) in kernels.iter().enumerate() {
            let (ts, id) = (10 + 20 * at, at + 1);
            events.push(format!(
                r#"{{"ph":"X","ts":{ts},"dur":5,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","ts":{},"dur":9,"name":"{kernel}","cat":"kernel","pid":0,"tid":7,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#,
                200 + 20 * at
            ));
        }
        let path = folder.path().join(name);
        std::fs::write(&path, format!("[{}]", events.join(","))).unwrap();
        path
    };
    let a = write("a.json", ["direct_copy_kernel", "softmax_warp_forward"]);
    let b = write("b.json", ["rowwise_17", "CatArrayBatchedCopy"]);
    let diff = json(&["diff", "--json"], &[a, b]);
    let mut found: Vec<_> = diff["kernels"]["rows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|row| ["kernel_a", "kernel_b", "class"].map(|key| row[key].as_str()))
        .collect();
    found.sort();
    let want = [
        ["direct_copy_kernel", "CatArrayBatchedCopy", "softmax"],
        ["softmax_warp_forward", "rowwise_17", "softmax"],
    ];
    assert_eq!(found, want.map(|row| row.map(Some)));
}

/// Two prefills and twelve decodes, whose kernels take `kernel_us`; with an all-reduce of its own operator if `reduces`.
fn engine(folder: &Path, name: &str, kernel_us: usize, reduces: bool) -> PathBuf {
    let mut events = Vec::new();
    let mut at = 0;
    let mut id = 0;
    for step in 0..14 {
        let is_prefill = step % 7 == 0;
        let (mark, dur) = match is_prefill {
            true => ("execute_context_1(900)_generation_0(0)", 20_000),
            false => ("execute_context_0(0)_generation_8(8)", kernel_us + step % 3),
        };
        let length = dur + 500;
        events.push(format!(
            r#"{{"ph":"X","ts":{at},"dur":{length},"name":"{mark}","cat":"user_annotation","pid":1,"tid":1}}"#
        ));
        let mut launch = |after: usize, operator: &str, kernel: &str, dur: usize| {
            id += 1;
            let (start, call, run) = (at + after, at + after + 1, at + after + 5);
            events.push(format!(
                r#"{{"ph":"X","ts":{start},"dur":4,"name":"{operator}","cat":"cpu_op","pid":1,"tid":1}},
{{"ph":"X","ts":{call},"dur":2,"name":"cudaLaunchKernel","cat":"cuda_runtime","pid":1,"tid":1,"args":{{"correlation":{id}}}}},
{{"ph":"X","ts":{run},"dur":{dur},"name":"{kernel}","cat":"kernel","pid":0,"tid":7,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#
            ));
        };
        launch(1, "aten::mm", "gemm", dur);
        if reduces {
            launch(
                dur + 20,
                "_C_custom_ar::all_reduce",
                "cross_device_reduce_1stage",
                30,
            );
        }
        at += length + 100;
    }
    let path = folder.join(name);
    std::fs::write(
        &path,
        format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")),
    )
    .unwrap();
    path
}

/// Prefills take most of the time, but only of the decodes enough are recorded to tell that they became slower.
#[test]
fn the_phase_that_changed_comes_first() {
    let folder = tempfile::tempdir().unwrap();
    let a = engine(folder.path(), "a.json", 1_000, false);
    let b = engine(folder.path(), "b.json", 1_200, false);
    let (_, text, _) = run(&["diff"], &[a.clone(), b]);
    let lines: Vec<&str> = text.lines().collect();
    let text = text.replace('\n', " ");
    assert!(
        lines[0].starts_with("B is slower than A per decode step"),
        "{text}"
    );
    let prefill = "B is about as fast as A per prefill step (median of 2 steps of A and";
    let alike = prefill.replace("2 steps of A and", "2 steps each");
    assert!(text.contains(prefill) || text.contains(&alike), "{text}");
    assert!(text.contains("Too few steps"), "{text}");
    assert!(!text.contains("execute_context_*"), "{text}");
    let c = engine(folder.path(), "c.json", 1_000, true);
    let (_, text, _) = run(&["diff"], &[a.clone(), c.clone()]);
    assert!(text.contains("per decode step"), "{text}");
    let diff = json(&["diff", "--json"], &[a, c]);
    let rows = diff["kernels"]["rows"].as_array().unwrap();
    let new: Vec<&Value> = rows.iter().filter(|row| row["status"] == "new").collect();
    assert!(!new.is_empty());
    for row in new {
        assert_eq!(row["operator"], "_C_custom_ar::all_reduce", "{row}");
    }
}
