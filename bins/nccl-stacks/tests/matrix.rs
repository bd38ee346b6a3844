//! Tests one difficulty each, on traces of a few events.

use std::path::Path;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Made, report, run_in, run_with, stacks, stderr, stdout};

const MAIN: (i64, i64) = (10, 11);
const OTHER: (i64, i64) = (10, 12);

fn folder() -> TempDir {
    tempfile::tempdir().unwrap()
}

/// Generates `t.json` with a function `fn` from 1000 to 2000 on the main thread.
fn with_function(fill: impl FnOnce(&mut Made)) -> TempDir {
    let folder = folder();
    let mut made = Made::default();
    made.slice(MAIN, (1000, 1000), ("python_function", "fn"), json!({}));
    fill(&mut made);
    made.write(folder.path(), "t.json");
    folder
}

const COMPAT: [&str; 8] = [
    "t.json",
    "--compat",
    "--function-name",
    "fn",
    "--index",
    "0",
    "--kernel-name",
    "k",
];

fn compat(folder: &Path, more: &[&str]) -> Value {
    report(folder, &[&COMPAT, more].concat())
}

#[test]
fn both_bounds_are_outside_the_window() {
    let folder = with_function(|t| {
        for (i, ts) in [1000, 1001, 1999, 2000].into_iter().enumerate() {
            let i = i64::try_from(i).unwrap();
            t.launched((10, 12 + i), i + 1, ts, 5000 + 200 * i, "k");
        }
    });
    let got = compat(folder.path(), &[]);
    assert_eq!(stacks(&got), [(vec!["cudaLaunchKernel".to_owned()], 2)]);
    let got = report(
        folder.path(),
        &["t.json", "--func", "fn", "--kernel-n", "k"],
    );
    assert_eq!(got["stacks"][0]["launches"], 2);
}

#[test]
fn the_selected_slice_is_never_its_own_launch() {
    let folder = folder();
    let mut made = Made::default();
    made.launched(MAIN, 1, 1000, 5000, "k");
    made.write(folder.path(), "t.json");
    let args = ["t.json", "--compat", "--function-name", "cudaLaunchKernel"];
    let got = report(
        folder.path(),
        &[&args[..], &["--index", "0", "--kernel-name", "k"]].concat(),
    );
    assert_eq!(got["unique_stacks"], 0);
    assert_eq!(got["outcome"], "no-kernels-in-window");
}

#[test]
fn names_match_exactly_or_as_sql_like() {
    let folder = folder();
    let mut made = Made::default();
    for (i, name) in ["a_b", "aXb", "A_B", "it's 100", "wörker"]
        .iter()
        .enumerate()
    {
        let ts = i64::try_from(i).unwrap() * 1000;
        made.slice(MAIN, (ts, 500), ("cpu_op", name), json!({}));
    }
    made.write(folder.path(), "t.json");
    for (pattern, count) in [
        ("a_b", 1),
        ("a_b%", 3),
        ("%B", 3),
        ("it's 100", 1),
        ("it's%", 1),
        ("%", 5),
        ("W%RKER", 1),
        ("W%ÖRKER", 0),
    ] {
        let args = ["t.json", "--compat", "--function-name", pattern];
        let out = run_in(
            folder.path(),
            &[&args[..], &["--index", "0", "--json"]].concat(),
        );
        let got: Value = serde_json::from_slice(&out.stdout).unwrap();
        if count == 0 {
            assert_eq!(got["outcome"], "function-not-found", "{pattern}");
            assert_eq!(out.status.code(), Some(1));
            assert!(stderr(&out).contains(pattern));
        } else {
            assert_eq!(got["matching_slices"], count, "{pattern}");
        }
    }
}

#[test]
fn kernels_and_slices_without_category_give_no_window_but_device_annotations_do() {
    let folder = folder();
    let mut made = Made::default();
    made.slice(MAIN, (0, 10), ("", "step"), json!({}))
        .slice((0, 7), (20, 10), ("kernel", "step"), json!({}))
        .slice((0, 7), (40, 10), ("gpu_user_annotation", "step"), json!({}));
    made.write(folder.path(), "t.json");
    let args = [
        "t.json",
        "--compat",
        "--function-name",
        "step",
        "--index",
        "0",
    ];
    let got = report(folder.path(), &args);
    assert_eq!(got["matching_slices"], 1);
    assert_eq!(got["window"]["start_ts"], 40);
}

#[test]
fn index_from_first_to_last() {
    let folder = folder();
    let mut made = Made::default();
    for ts in [3000, 1000, 2000] {
        made.slice(MAIN, (ts, 10), ("cpu_op", "fn"), json!({}));
    }
    made.write(folder.path(), "t.json");
    let args = ["t.json", "--compat", "--function-name", "fn", "--index"];
    for (index, start) in [("0", 1000), ("2", 3000)] {
        let got = report(folder.path(), &[&args[..], &[index]].concat());
        assert_eq!(got["window"]["start_ts"], start);
    }
    for index in ["-1", "3"] {
        let out = run_in(folder.path(), &[&args[..], &[index]].concat());
        assert_eq!(out.status.code(), Some(1));
        assert!(stderr(&out).contains("0 to 2"), "{}", stderr(&out));
        assert!(out.stdout.is_empty());
    }
}

#[test]
fn without_index_compat_asks_and_otherwise_candidates_are_listed() {
    let folder = with_function(|t| {
        t.launched(MAIN, 1, 1500, 5000, "k");
        t.slice(OTHER, (7000, 10), ("cpu_op", "fn"), json!({}));
    });
    let args = [
        "t.json",
        "--compat",
        "--function-name",
        "fn",
        "--kernel-name",
        "k",
    ];
    let out = run_with(folder.path(), &args, b"x\n5\n0\n");
    assert!(out.status.success());
    assert!(stdout(&out).ends_with("fn\n ->\ncudaLaunchKernel\nAppeared 1 times\n\n"));
    assert!(!stdout(&out).contains("index"), "the prompt is on stderr");
    assert!(stderr(&out).contains("index   start_ns            duration_ns         end_ns"));
    let out = run_with(folder.path(), &args, b"x\n");
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("cancelled"));

    let args = ["t.json", "--function-name", "fn", "--kernel-name", "k"];
    let out = run_with(folder.path(), &args, b"0\n");
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("2 slices match"), "{}", stderr(&out));
    assert!(stderr(&out).contains("7000"));
    let all = report(folder.path(), &[&args[..], &["--all-windows"]].concat());
    assert_eq!(all["windows"].as_array().unwrap().len(), 2);
    for (pick, start) in [("--first", 1000), ("--last", 7000)] {
        let got = report(folder.path(), &[&args[..], &[pick]].concat());
        assert_eq!(got["window"]["start_ts"], start);
    }
    let got = report(folder.path(), &[&args[..], &["--nth", "1.."]].concat());
    assert_eq!(got["window"]["start_ts"], 7000);
    let out = run_in(folder.path(), &[&args[..], &["--nth", "2..9"]].concat());
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn times_need_each_other_and_may_be_empty() {
    let folder = with_function(|t| {
        t.launched(MAIN, 1, 1500, 5000, "k");
    });
    let out = run_in(
        folder.path(),
        &[&COMPAT[..], &["--start-ts", "99999"]].concat(),
    );
    assert!(out.status.success());
    assert!(stderr(&out).contains("--start-ts is ignored"));
    assert!(stdout(&out).contains("Appeared 1 times"));
    for (start, duration, stacks) in [("0", "0", 0), ("1499", "-10", 0), ("1499", "2", 1)] {
        let times = ["--start-ts", start, "--duration", duration];
        let got = compat(folder.path(), &times);
        assert_eq!(got["unique_stacks"], stacks, "{start} {duration}");
        assert_eq!(got["window"]["start_ts"].to_string(), start);
        assert_eq!(got["window"]["duration"].to_string(), duration);
    }
}

#[test]
fn depth_and_names_of_digits() {
    let folder = folder();
    let mut made = Made::default();
    made.slice(MAIN, (0, 9000), ("python_function", "fn"), json!({}))
        .slice(MAIN, (10, 8000), ("python_function", "12345"), json!({}))
        .slice(MAIN, (20, 7000), ("python_function", "Layer_31"), json!({}))
        .launched(MAIN, 1, 100, 20_000, "k");
    made.write(folder.path(), "t.json");
    let all = ["cudaLaunchKernel", "Layer_", "", "fn"];
    for (depth, frames) in [("-4", 1), ("0", 1), ("1", 2), ("3", 4), ("12", 4)] {
        let got = compat(folder.path(), &["--stack-depth", depth]);
        assert_eq!(stacks(&got)[0].0, all[..frames], "{depth}");
        assert_eq!(got["stacks"][0]["truncated"], frames < 4);
    }
}

#[test]
fn equal_stacks_of_threads_group_and_a_launch_counts_once() {
    let folder = with_function(|t| {
        for row in [MAIN, OTHER] {
            let start = if row == MAIN { 1100 } else { 1105 };
            t.slice(row, (start, 100), ("cpu_op", "op"), json!({}))
                .launched(row, row.1, start + 5, 5000 + row.1 * 200, "k");
        }
        // One launch, two kernels: arrows to both.
        t.slice(
            MAIN,
            (1500, 10),
            ("cuda_runtime", "cudaLaunchCooperativeKernelMultiDevice"),
            json!({ "correlation": 9 }),
        )
        .slice(
            (0, 7),
            (9000, 100),
            ("kernel", "k"),
            json!({ "correlation": 9 }),
        )
        .slice(
            (1, 7),
            (9000, 100),
            ("kernel", "k"),
            json!({ "correlation": 9 }),
        )
        .arrow(9, (MAIN, 1500), ((0, 7), 9000))
        .arrow(9, (MAIN, 1500), ((1, 7), 9000));
    });
    for (compat, outer) in [(true, true), (false, true)] {
        let mut args = vec![
            "t.json",
            "--function-name",
            "fn",
            "--index",
            "0",
            "--kernel-name",
            "k",
            "--stack-depth",
            "1",
        ];
        if compat {
            args.push("--compat");
        }
        let got = report(folder.path(), &args);
        let all = got["stacks"].as_array().unwrap();
        let counts: Vec<_> = all
            .iter()
            .map(|s| (s["launches"].clone(), s["kernels"].clone()))
            .collect();
        assert_eq!(
            counts,
            [(json!(2), json!(2)), (json!(1), json!(2))],
            "{compat} {outer}"
        );
        assert_eq!(
            stacks(&got)[1].0,
            ["cudaLaunchCooperativeKernelMultiDevice", "fn"]
        );
    }
}

#[test]
fn ties_are_ordered_by_text_descending() {
    let folder = with_function(|t| {
        for (i, op) in ["a", "é", "b", "b"].iter().enumerate() {
            let at = 1100 + 100 * i64::try_from(i).unwrap();
            t.slice(OTHER, (at, 50), ("cpu_op", op), json!({}))
                .launched(OTHER, at, at + 5, at + 5000, "k");
        }
    });
    let got = compat(folder.path(), &[]);
    let order: Vec<String> = stacks(&got).into_iter().map(|s| s.0[1].clone()).collect();
    assert_eq!(order, ["b", "é", "a"]);
}

#[test]
fn odd_characters_are_raw_or_escaped() {
    let folder = with_function(|t| {
        t.slice(OTHER, (1100, 50), ("cpu_op", "tab\té"), json!({}))
            .launched(OTHER, 1, 1105, 5000, "k");
    });
    let raw = stdout(&run_in(folder.path(), &COMPAT));
    assert!(raw.contains("tab\té\n"));
    let escaped = stdout(&run_in(
        folder.path(),
        &[&COMPAT[..], &["--escape"]].concat(),
    ));
    assert!(escaped.contains("tab\\x09\\xC3\\xA9\n"), "{escaped}");
}

#[test]
fn kernels_of_another_class_do_not_sound_like_collectives() {
    let folder = with_function(|t| {
        t.slice((0, 7), (1000, 10), ("kernel", "reduce_segments"), json!({}))
            .slice((0, 7), (1100, 10), ("kernel", "my_gather_1"), json!({}))
            .slice(
                (0, 7),
                (1200, 10),
                ("kernel", "acme_broadcast_x"),
                json!({}),
            );
    });
    let got = report(folder.path(), &["t.json", "--collectives"]);
    assert_eq!(got["outcome"], "kernel-absent");
    // Reductions of attention and gathers have a class; what the third is nobody knows.
    assert_eq!(
        got["related_kernels"],
        json!([{ "count": 1, "name": "acme_broadcast_x" }])
    );
}

#[test]
fn a_slice_that_never_closed_ends_with_the_trace() {
    let folder = folder();
    let text = r#"{"traceEvents": [
        {"ph": "B", "name": "fn", "cat": "x", "pid": 10, "tid": 11, "ts": 1},
        {"ph": "X", "name": "cudaLaunchKernel", "cat": "cuda_runtime", "pid": 10, "tid": 12, "ts": 2, "dur": 1, "args": {"correlation": 1}},
        {"ph": "s", "id": 1, "name": "ac2g", "cat": "ac2g", "pid": 10, "tid": 12, "ts": 2},
        {"ph": "X", "name": "k", "cat": "kernel", "pid": 0, "tid": 7, "ts": 5, "dur": 4, "args": {"correlation": 1}},
        {"ph": "f", "bp": "e", "id": 1, "name": "ac2g", "cat": "ac2g", "pid": 0, "tid": 7, "ts": 5}]}"#;
    std::fs::write(folder.path().join("t.json"), text).unwrap();
    let got = compat(folder.path(), &[]);
    assert_eq!(got["window"]["end_ts"], 9000);
    assert_eq!(got["window"]["never_closed"], true);
    assert_eq!(got["unique_stacks"], 1);
    assert!(stderr(&run_in(folder.path(), &COMPAT)).contains("never closed"));
}

#[test]
fn absence_has_three_faces() {
    let folder = with_function(|t| {
        t.slice((0, 7), (1000, 10), ("kernel", "untracked"), json!({}))
            .slice((0, 7), (1999, 1), ("kernel", "a_gather"), json!({}))
            .slice((0, 7), (2000, 10), ("kernel", "late"), json!({}));
    });
    let ask = |kernel: &str| {
        let mut args = COMPAT.to_vec();
        args[7] = kernel;
        report(folder.path(), &args)
    };
    assert_eq!(ask("untracked")["outcome"], "kernel-present-but-untracked");
    let late = ask("late");
    assert_eq!(late["outcome"], "kernel-absent");
    assert_eq!(late["kernels_in_window"], 2);
    assert_eq!(
        late["related_kernels"],
        json!([{ "count": 1, "name": "a_gather" }])
    );
    let times = ["--start-ts", "500", "--duration", "100"];
    assert_eq!(
        compat(folder.path(), &times)["outcome"],
        "no-kernels-in-window"
    );
    let out = run_in(folder.path(), &[&COMPAT[..], &["--fail-on-empty"]].concat());
    assert_eq!(out.status.code(), Some(1));
    assert!(!out.stdout.is_empty(), "the report is written all the same");
}

#[test]
fn correlation_wins_over_arrows_and_contradictions_are_listed() {
    let folder = folder();
    let mut made = Made::default();
    let c = |n: i64| json!({ "correlation": n });
    made.slice(MAIN, (100, 10), ("cuda_runtime", "cudaLaunchKernel"), c(1))
        .slice(MAIN, (60, 10), ("cuda_runtime", "cuLaunchKernel"), c(2))
        // Shares the id of the first launch but launches nothing.
        .slice(
            MAIN,
            (40, 10),
            ("cuda_runtime", "cudaFuncGetAttributes"),
            c(1),
        )
        // Starts before its launch: clock skew.
        .slice((0, 7), (90, 5), ("kernel", "k"), c(1))
        .arrow(2, (MAIN, 60), ((0, 7), 90));
    made.write(folder.path(), "t.json");
    let got = report(
        folder.path(),
        &["t.json", "--kernel", "^k$", "--diagnostics"],
    );
    assert_eq!(stacks(&got), [(vec!["cudaLaunchKernel".to_owned()], 1)]);
    assert_eq!(got["diagnostics"]["conflict_count"], 1);
    assert_eq!(got["diagnostics"]["conflicts"][0]["launch_by_flow_ts"], 60);
    assert_eq!(got["stacks"][0]["latency_ns"]["min"], -10);
    assert_eq!(got["stacks"][0]["negative_latencies"], 1);
}

#[test]
fn without_correlation_and_arrow_the_external_id_names_the_operator() {
    let folder = folder();
    let mut made = Made::default();
    made.slice(
        MAIN,
        (100, 50),
        ("cpu_op", "aten::mm"),
        json!({ "External id": 5 }),
    )
    .slice(
        (0, 7),
        (400, 5),
        ("kernel", "k"),
        json!({ "External id": 5 }),
    )
    .slice((0, 7), (500, 5), ("kernel", "k"), json!({}))
    .slice(
        MAIN,
        (300, 10),
        ("cuda_runtime", "hipLaunchKernel"),
        json!({ "kernel": "k" }),
    );
    made.write(folder.path(), "t.json");
    let got = report(folder.path(), &["t.json", "--kernel", "k"]);
    assert_eq!(got["stacks"][0]["link_method"], "external_id");
    assert_eq!(stacks(&got), [(vec!["aten::mm".to_owned()], 1)]);
    assert_eq!(got["untracked"]["kernels"], 1);
    let got = report(folder.path(), &["t.json", "--kernel", "k", "--heuristic"]);
    assert_eq!(got["diagnostics"]["linked_by"]["order"], 1);
    assert_eq!(got["untracked"]["kernels"], 0);
}

#[test]
fn thread_process_and_nesting_restrict_launches() {
    let folder = with_function(|t| {
        t.launched(MAIN, 1, 1100, 5000, "k")
            .launched(OTHER, 2, 1200, 5200, "k")
            .launched((20, 21), 3, 1300, 5400, "k");
    });
    for (more, launches) in [
        (&["--thread", "11"][..], 1),
        (&["--thread", "11", "--thread", "12"][..], 2),
        (&["--pid", "20"][..], 1),
        (&["--pid", "10"][..], 2),
        (&["--within"][..], 1),
        (&["--thread", "nobody"][..], 0),
    ] {
        let args = ["t.json", "--function-name", "fn", "--kernel-name", "k"];
        let got = report(folder.path(), &[&args[..], more].concat());
        assert_eq!(got["total"]["launches"], launches, "{more:?}");
    }
}

#[test]
fn kernels_are_selected_by_any_of_the_tests() {
    let folder = with_function(|t| {
        for (i, name) in ["ncclDevKernel_AllReduce", "gemm_1", "gemm_2", "copy"]
            .iter()
            .enumerate()
        {
            let i = i64::try_from(i).unwrap();
            t.launched(OTHER, i + 1, 1100 + i * 20, 5000 + i * 200, name);
        }
    });
    for (more, kernels) in [
        (&[][..], 1),
        (&["--collectives"][..], 1),
        (&["--kernel", "gemm"][..], 2),
        (&["--kernel", "^gemm_1$", "--kernel", "copy"][..], 2),
        (&["--kernel-glob", "gemm"][..], 0),
        (&["--kernel-glob", "*_?"][..], 2),
        (
            &[
                "--collectives",
                "--kernel-glob",
                "gemm*",
                "--kernel-name",
                "copy",
            ][..],
            4,
        ),
    ] {
        let got = report(folder.path(), &[&["t.json"][..], more].concat());
        assert_eq!(got["total"]["kernels"], kernels, "{more:?}");
    }
    let out = run_in(folder.path(), &["t.json", "--kernel", "("]);
    assert_eq!(out.status.code(), Some(2));
    assert!(stderr(&out).contains("regular expression"));
}

#[test]
fn backward_stacks_continue_with_the_forward_stack() {
    let folder = folder();
    let mut made = Made::default();
    let forward = json!({ "Sequence number": 7, "Fwd thread id": 0 });
    let backward = json!({ "Sequence number": 7, "Fwd thread id": 1 });
    made.slice(
        MAIN,
        (0, 900),
        ("python_function", "model.py(1): forward"),
        json!({}),
    )
    .slice(
        MAIN,
        (100, 100),
        ("cpu_op", "aten::linear"),
        forward.clone(),
    )
    .slice(MAIN, (110, 50), ("cpu_op", "aten::addmm"), forward)
    .slice(OTHER, (1000, 100), ("cpu_op", "AddmmBackward0"), backward)
    .launched(OTHER, 1, 1010, 5000, "k");
    made.write(folder.path(), "t.json");
    let got = report(folder.path(), &["t.json", "--kernel", "k"]);
    let want = [
        "cudaLaunchKernel",
        "AddmmBackward",
        "[autograd]",
        "aten::addmm",
        "aten::linear",
        "model.py(1): forward",
    ];
    assert_eq!(stacks(&got)[0].0, want);
}

#[test]
fn python_stacks_of_old_profilers_are_an_argument() {
    let folder = folder();
    let mut made = Made::default();
    let stack = json!({ "Call stack": "model.py(7): mlp;model.py(3): forward;" });
    made.slice(MAIN, (0, 90), ("cpu_op", "aten::linear"), stack)
        .slice(MAIN, (10, 50), ("cpu_op", "aten::addmm"), json!({}))
        .launched(MAIN, 1, 20, 5000, "k");
    made.write(folder.path(), "t.json");
    let got = report(folder.path(), &["t.json", "--kernel", "k"]);
    let want = [
        "cudaLaunchKernel",
        "aten::addmm",
        "aten::linear",
        "model.py(7): mlp",
        "model.py(3): forward",
    ];
    assert_eq!(stacks(&got)[0].0, want);
}

#[test]
fn piecewise_graphs_take_equal_captures_in_turn() {
    // Two graphs of the same two kernels and one of another; two captures fit the first.
    let folder = folder();
    let mut capture = Made::default();
    let hip = |name: &str, id: i64| json!({ "kernel": name, "correlation": id });
    let mut id = 100;
    for (layer, kernels) in [
        ("layer_a", ["n", "m"]),
        ("layer_b", ["n", "m"]),
        ("head", ["n", "x"]),
    ] {
        let at = id * 1000;
        capture
            .slice(MAIN, (at, 900), ("python_function", layer), json!({}))
            .slice(
                MAIN,
                (at + 1, 5),
                ("cuda_runtime", "hipStreamBeginCapture"),
                json!({}),
            )
            .slice(
                MAIN,
                (at + 900, 5),
                ("cuda_runtime", "hipStreamEndCapture"),
                json!({}),
            );
        for (i, kernel) in kernels.iter().enumerate() {
            let i = i64::try_from(i).unwrap();
            capture.slice(
                MAIN,
                (at + 100 * (i + 1), 10),
                ("cuda_runtime", "hipLaunchKernel"),
                hip(kernel, id + i),
            );
        }
        id += 10;
    }
    capture.write(folder.path(), "capture.json");
    let mut replay = Made::default();
    for (i, kernels) in [["n", "m"], ["n", "m"], ["n", "x"], ["n", "m"]]
        .iter()
        .enumerate()
    {
        let i = i64::try_from(i).unwrap();
        let c = json!({ "correlation": i + 1 });
        replay.slice(
            MAIN,
            (i * 100, 50),
            ("cuda_runtime", "hipGraphLaunch"),
            c.clone(),
        );
        for (k, kernel) in kernels.iter().enumerate() {
            let k = i64::try_from(k).unwrap();
            replay.slice(
                (0, 0),
                (10_000 + i * 100 + k * 20, 10),
                ("kernel", kernel),
                c.clone(),
            );
        }
    }
    replay.write(folder.path(), "t.json");
    let got = report(
        folder.path(),
        &["t.json", "--kernel", ".", "--capture", "capture.json"],
    );
    let graphs = got["graphs"].as_array().unwrap();
    let captures: Vec<_> = graphs
        .iter()
        .map(|g| g["capture_index"].as_i64().unwrap())
        .collect();
    assert_eq!(captures, [0, 1, 2, 0]);
    assert!(graphs.iter().all(|g| g["matched"] == 2));
    let layers: Vec<String> = stacks(&got)
        .into_iter()
        .filter(|s| s.0.last().is_some_and(|f| f == "hipGraphLaunch"))
        .map(|s| format!("{}/{}", s.0[2], s.0[1]))
        .collect();
    assert_eq!(layers.len(), 4);

    // Without the middle capture's second kernel the longest common subsequence is used.
    let got = report(folder.path(), &["t.json", "--kernel", "."]);
    assert!(got["graphs"][0]["capture_index"].is_null());
    assert_eq!(got["graphs"][0]["matched"], 0);
}

#[test]
fn a_capture_of_another_length_matches_by_names() {
    let folder = folder();
    let mut capture = Made::default();
    capture.slice(
        MAIN,
        (0, 5),
        ("cuda_runtime", "hipStreamBeginCapture"),
        json!({}),
    );
    for (i, kernel) in ["a", "b<1>(int)", "gone", "c"].iter().enumerate() {
        let i = i64::try_from(i).unwrap();
        let args = json!({ "kernel": kernel, "correlation": 50 + i });
        capture.slice(
            MAIN,
            (100 * (i + 1), 10),
            ("cuda_runtime", "hipLaunchKernel"),
            args,
        );
    }
    capture.slice(
        MAIN,
        (900, 5),
        ("cuda_runtime", "hipStreamEndCapture"),
        json!({}),
    );
    capture.write(folder.path(), "capture.json");
    let mut replay = Made::default();
    let c = json!({ "correlation": 1 });
    replay.slice(MAIN, (0, 50), ("cuda_runtime", "hipGraphLaunch"), c.clone());
    for (i, kernel) in ["a", "b<2>(int)", "c", "new", "newer"].iter().enumerate() {
        let i = i64::try_from(i).unwrap();
        replay.slice((0, 0), (1000 + i * 20, 10), ("kernel", kernel), c.clone());
    }
    replay.write(folder.path(), "t.json");
    let got = report(
        folder.path(),
        &["t.json", "--kernel", ".", "--capture", "capture.json"],
    );
    let graph = &got["graphs"][0];
    assert_eq!(
        (&graph["matched"], &graph["kernels"]),
        (&json!(3), &json!(5))
    );
    assert_eq!(graph["one_to_one"], false);
    assert_eq!(graph["matched_pct"], 60.0);
}
