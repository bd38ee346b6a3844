//! Tests that kernels of replayed graphs get the stacks of their capture.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::support::{data, demo, json, report, texts};

/// Kernels by the frames after the graph's own, innermost first.
fn captured_stacks(report: &Value) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for stack in report["stacks"].as_array().unwrap() {
        let frames = texts(&stack["frames"]);
        if let Some(graph) = frames.iter().position(|f| f.starts_with("[graph launch ")) {
            let captured = frames[graph + 1..].iter().rev();
            let captured = captured.map(|f| (*f).to_owned()).collect();
            *stacks.entry(captured).or_default() += stack["kernels"].as_u64().unwrap();
        }
    }
    stacks
}

fn wanted_stacks(graph: &Value) -> BTreeMap<Vec<String>, u64> {
    let mut stacks = BTreeMap::new();
    for stack in graph["stacks"].as_array().unwrap() {
        let frames = texts(&stack["frames_leaf_first"]);
        let frames = frames.into_iter().map(str::to_owned).collect();
        *stacks.entry(frames).or_default() += stack["count"].as_u64().unwrap();
    }
    stacks
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn sglang_decode_matches_one_to_one() {
    let data = data();
    let want = &json(&data.join("capture/sglang_decode.json"))[0];
    let got = report(
        &data,
        &[
            "traces/sglang_Qwen3-8B_decode.json.gz",
            "--kernel",
            ".",
            "--capture",
            "traces/sglang_decode_capture_bs32_rank0.json.gz",
        ],
    );
    let graph = &got["graphs"][0];
    for key in [
        "graph_launch_correlation",
        "launch_ts",
        "kernels",
        "captures_available",
        "capture_index",
        "matched",
    ] {
        assert_eq!(graph[key], want[key], "{key}");
    }
    assert_eq!(graph["matched"], 544);
    assert_eq!(captured_stacks(&got), wanted_stacks(want));
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn vllm_full_graph_matches_one_to_one() {
    let data = data();
    let got = report(
        &data,
        &[
            "traces/vllm_decode_full.json.gz",
            "--kernel",
            ".",
            "--capture",
            "traces/vllm_decode_full_capture_rank0.json.gz",
        ],
    );
    assert_eq!(got["graphs"][0]["matched"], 421);
    assert_eq!(got["graphs"][0]["one_to_one"], true);
    assert_eq!(got["diagnostics"]["linked_by"]["correlation"], 425);
    assert_eq!(got["diagnostics"]["selected_kernels"], 425);
    assert_eq!(captured_stacks(&got).values().sum::<u64>(), 421);
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn launches_in_the_window_bring_kernels_that_run_after_it() {
    // The original finds no kernel at all here: GPU work runs after the host function.
    let data = data();
    let got = report(
        &data,
        &[
            "traces/vllm_decode_full.json.gz",
            "--function-name",
            "vllm/v1/worker/gpu_model_runner.py(3380): execute_model",
            "--kernel-name",
            "_finalize_matmul_scatter_bf16",
        ],
    );
    assert_eq!(got["outcome"], "stacks");
    assert_eq!(got["stacks"][0]["launches"], 1);
    assert_eq!(got["stacks"][0]["kernels"], 24);
    let frames = texts(&got["stacks"][0]["frames"]);
    assert_eq!(
        frames[frames.len() - 2..],
        ["hipGraphLaunch", "[graph launch 505113]"]
    );
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn generated_modules_of_the_layers_are_one_stack_when_normalised() {
    let data = data();
    let stacks = |level: &str| {
        let got = report(
            &data,
            &[
                "traces/vllm_decode_full.json.gz",
                "--kernel",
                "reshape_and_cache_flash",
                "--capture",
                "traces/vllm_decode_full_capture_rank0.json.gz",
                "--normalize",
                level,
            ],
        );
        let all = got["stacks"].as_array().unwrap().clone();
        all.iter()
            .map(|s| s["kernels"].as_u64().unwrap())
            .collect::<Vec<_>>()
    };
    assert_eq!(stacks("digits"), [1; 24]);
    assert_eq!(stacks("smart"), [24]);
}

#[test]
fn demonstration_graphs_match_their_planted_capture() {
    let truth = json(&demo("demo-rank0.truth.json"));
    let folder = demo("");
    for graph in truth["graph_launches"].as_array().unwrap() {
        let launch = graph["launch_ts"].as_i64().unwrap();
        let start = (launch - 1).to_string();
        let got = report(
            &folder,
            &[
                "demo-rank0.json.gz",
                "--kernel",
                ".",
                "--start-ts",
                &start,
                "--duration",
                "2",
                "--capture",
                "demo-capture-rank0.json.gz",
            ],
        );
        for key in [
            "graph_launch_correlation",
            "launch_ts",
            "kernels",
            "matched",
        ] {
            assert_eq!(got["graphs"][0][key], graph[key], "{key}");
        }
        assert_eq!(captured_stacks(&got), wanted_stacks(graph));
    }
}
