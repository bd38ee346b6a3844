//! Tests that all commands agree on the bound of the GPU, steps, exposed communication, and
//! differences.

use std::path::{Path, PathBuf};

use crate::support::{Csv, run};

/// A trace under construction, with one launch API call before each kernel.
#[derive(Default)]
struct Made {
    events: Vec<String>,
    calls: usize,
}

impl Made {
    fn slice(&mut self, cat: &str, name: &str, (tid, from, dur): (u32, u64, u64), args: &str) {
        self.events.push(format!(
            r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":1,"tid":{tid},"ts":{from},"dur":{dur},"args":{{{args}}}}}"#
        ));
    }

    /// Adds a call of `call` microseconds at `at`, and its kernel of `dur` microseconds at `start`.
    fn kernel(&mut self, name: &str, (at, call): (u64, u64), (start, dur): (u64, u64)) {
        self.calls += 1;
        let id = format!(r#""correlation":{}"#, self.calls);
        self.slice("cuda_runtime", "cudaLaunchKernel", (1, at, call), &id);
        let id = format!(r#"{id},"device":0,"stream":7"#);
        self.slice("kernel", name, (7, start, dur), &id);
    }

    fn write(&self, folder: &Path, name: &str) -> PathBuf {
        let path = folder.join(name);
        let text = format!(r#"{{"traceEvents":[{}]}}"#, self.events.join(","));
        std::fs::write(&path, text).unwrap();
        path
    }
}

fn said(words: &[&str], path: &Path) -> String {
    let output = run(words.iter().copied().chain([path.to_str().unwrap()]));
    assert!(output.status.success(), "{words:?}: {output:?}");
    String::from_utf8(output.stdout).unwrap()
}

fn first_sentence(text: &str) -> String {
    let lines: Vec<&str> = text.lines().skip(1).take(4).collect();
    lines.join(" ")
}

#[test]
fn launch_and_idle_give_one_verdict() {
    let folder = tempfile::tempdir().unwrap();
    // The host is away between launches, calls take long, or submitted work is blocked; streams are
    // idle in all three.
    let mut host = Made::default();
    let mut launch = Made::default();
    let mut blocked = Made::default();
    let mut busy = Made::default();
    for i in 0..20 {
        host.kernel("gemm", (1000 * i, 5), (1000 * i + 10, 100));
        launch.kernel("gemm", (1000 * i, 900), (1000 * i + 900, 100));
        blocked.kernel("gemm", (1000 * i, 5), (1000 * i + 900, 100));
        busy.kernel("gemm", (1000 * i, 5), (1000 * i + 10, 990));
    }
    for (made, verdict, is_launch) in [
        (host, "Host-bound", false),
        (launch, "Launch-bound", true),
        (blocked, "Bound by blocked streams", false),
        (busy, "Not ", false),
    ] {
        let path = made.write(folder.path(), "t.json");
        let idle = first_sentence(&said(&["idle"], &path));
        let launch = first_sentence(&said(&["launch"], &path));
        assert!(idle.starts_with(verdict), "{idle}");
        assert!(launch.starts_with(verdict), "{launch}");
        // If the host bounds the GPU, the breakdown of its time states the same bound.
        let gpu = first_sentence(&said(&["gpu"], &path));
        assert!(
            !verdict.ends_with("-bound") || gpu.starts_with(verdict),
            "{gpu}"
        );
        let not = launch.to_lowercase().contains("not launch-bound");
        assert_eq!(not, !is_launch, "{launch}");
    }
}

#[test]
fn steps_of_engines_are_found_with_their_batches_and_whole_names() {
    let folder = tempfile::tempdir().unwrap();
    for (names, want) in [
        (
            ["execute_new_2_cached_0", "execute_new_0_cached_32"],
            [("prefill", "2", ""), ("decode", "32", "")],
        ),
        (
            [
                "[Executor] _forward_step 3: 1 ctx reqs, 0 gen reqs",
                "[Executor] _forward_step 4: 2 ctx reqs, 30 gen reqs",
            ],
            [("prefill", "1", ""), ("mixed", "32", "")],
        ),
        (
            [
                "execute_context_2(512)_generation_0(0)",
                "execute_context_0(0)_generation_8(8)",
            ],
            [("prefill", "2", "512"), ("decode", "8", "8")],
        ),
    ] {
        let mut made = Made::default();
        for (i, name) in names.iter().enumerate() {
            let at = 1000 * i as u64;
            made.slice("user_annotation", name, (1, at, 900), "");
            made.kernel("gemm", (at + 10, 5), (at + 20, 100));
        }
        let path = made.write(folder.path(), "t.json");
        let csv = Csv::parse(&said(&["gpu", "--per-step", "--format", "csv"], &path));
        assert_eq!(csv.column("step"), names);
        let columns = ["step_phase", "step_requests", "step_tokens"].map(|c| csv.column(c));
        for (at, (phase, requests, tokens)) in want.into_iter().enumerate() {
            let got = [columns[0][at], columns[1][at], columns[2][at]];
            assert_eq!(got, [phase, requests, tokens], "{}", names[at]);
        }
        // A pipe is not a terminal: nothing is truncated.
        let text = said(&["gpu", "--per-step"], &path);
        let summary = said(&["summary"], &path);
        let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
        for (name, (phase, ..)) in names.iter().zip(want) {
            assert!(text.contains(name), "{text}");
            assert!(summary.contains(&format!("1 {phase}")), "{summary}");
        }
        let idle = said(&["idle", "--per-step"], &path);
        assert!(idle.contains(names[0]), "{idle}");
    }
}

#[test]
fn long_names_are_whole_in_pipes() {
    let folder = tempfile::tempdir().unwrap();
    let name = format!("kernel_{}_end", "x".repeat(300));
    let mut made = Made::default();
    made.kernel(&name, (0, 5), (10, 100));
    let path = made.write(folder.path(), "t.json");
    for command in ["summary", "kernels", "idle", "critical-path"] {
        let text = said(&[command], &path);
        let shows = text.contains("xxxxxx");
        assert!(!shows || text.contains(&name), "{command}: {text}");
        assert!(
            shows || !["summary", "kernels"].contains(&command),
            "{text}"
        );
    }
}

#[test]
fn rows_of_a_diff_differ_and_their_numbers_are_per_step() {
    let folder = tempfile::tempdir().unwrap();
    let made = |slow: u64, steps: u64| {
        let mut made = Made::default();
        for step in 0..steps {
            let at = 10_000 * step;
            let name = format!("ProfilerStep#{step}");
            made.slice("user_annotation", &name, (1, at, 9000), "");
            // Kernels that differ only in their template arguments, at one place and at two.
            for (i, layer) in ["A", "B"].into_iter().enumerate() {
                let from = at + 1000 * i as u64;
                let module = format!("nn.Module: Layer{layer}");
                made.slice("python_function", &module, (1, from + 1, 900), "");
                made.slice("cpu_op", "aten::mm", (1, from + 2, 800), "");
                for (k, arguments) in ["float, 4", "float, 8"].into_iter().enumerate() {
                    let call = from + 10 + 100 * k as u64;
                    let kernel = format!("void gemm<{arguments}>(float*)");
                    made.kernel(&kernel, (call, 5), (call + 10, 20 + slow));
                }
            }
            // One operator launches nothing itself, one does not change.
            made.slice("cpu_op", "aten::empty", (1, at + 3000, 10), "");
            made.slice("cpu_op", "aten::same", (1, at + 4000, 50), "");
            made.kernel("same", (at + 4010, 5), (at + 4020, 30));
        }
        made
    };
    let a = made(0, 3).write(folder.path(), "a.json");
    let b = made(7, 5).write(folder.path(), "b.json");
    let words = ["diff", a.to_str().unwrap()];
    let text = said(&words, &b);
    let table = |title: &str| -> Vec<String> {
        let from = text.split_once(title).unwrap().1;
        let lines = from.lines().skip(3).take_while(|line| !line.is_empty());
        lines.map(str::to_owned).collect()
    };
    let kernels = table("kernels per step");
    assert_eq!(kernels.len(), 4, "{text}");
    let mut distinct = kernels.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), 4, "{text}");
    assert!(
        kernels
            .iter()
            .all(|row| row.contains("LayerA") || row.contains("LayerB")),
        "{text}"
    );
    let operators = table("operators per step");
    assert_eq!(operators.len(), 2, "{text}");
    for row in &operators {
        let cells: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(&cells[1..4], ["aten::mm", "2", "2"], "{text}");
    }
    let words = [
        "diff",
        "--format",
        "csv",
        "--table",
        "operators",
        a.to_str().unwrap(),
    ];
    let csv = Csv::parse(&said(&words, &b));
    assert!(!csv.column("operator").contains(&"aten::empty"), "{csv:?}");
    for (kernels, per_step) in [
        ("kernels_a", "kernels_a_per_step"),
        ("kernels_b", "kernels_b_per_step"),
    ] {
        let steps = if kernels == "kernels_a" { 3.0 } else { 5.0 };
        for (all, each) in csv.column(kernels).into_iter().zip(csv.column(per_step)) {
            let (all, each): (f64, f64) = (all.parse().unwrap(), each.parse().unwrap());
            assert!((all / steps - each).abs() < 1e-9, "{csv:?}");
        }
    }
}

#[test]
fn collectives_of_the_host_are_told_with_their_sizes() {
    let folder = tempfile::tempdir().unwrap();
    let dims = r#""Input Dims":[[256,1024]],"Input type":["float"]"#;
    let mut made = Made::default();
    made.slice("user_annotation", "gloo:all_reduce", (2, 10, 500), dims);
    made.slice("user_annotation", "gloo:all_reduce", (2, 1010, 700), dims);
    let without = made.write(folder.path(), "host.json");
    made.kernel("gemm", (0, 5), (10, 100));
    let with = made.write(folder.path(), "both.json");
    let want = "gloo:all_reduce of 1.000 MiB: 2 times, 1.200 ms";
    for path in [with, without] {
        for command in ["gpu", "summary"] {
            let text = said(&[command], &path);
            let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
            assert!(text.contains(want), "{command}: {text}");
        }
        let json = said(&["gpu", "--json"], &path);
        let json: serde_json::Value = serde_json::from_str(&json).unwrap();
        let notes = json["notes"]["rows"].as_array().unwrap();
        let host = notes.iter().find(|n| n["code"] == "host_communication");
        assert_eq!(host.unwrap()["time_ns"], 1_200_000);
    }
}
