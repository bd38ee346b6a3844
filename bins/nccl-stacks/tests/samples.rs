//! Tests with the small sample traces: rocprofv3's Perfetto output, and correlation ids of all
//! kinds.

use serde_json::json;

use crate::support::{demo, json as read_json, report, stacks};

#[test]
fn rocprofv3_dispatches_are_linked_by_their_correlation_id() {
    let folder = demo("../perfetto");
    let truth = read_json(&folder.join("rocprof.truth.json"));
    for want in truth["stacks"].as_array().unwrap() {
        let kernel = want["kernel"].as_str().unwrap();
        let got = report(&folder, &["rocprof.pftrace", "--kernel-name", kernel]);
        assert_eq!(got["unique_stacks"], 1);
        let stack = &got["stacks"][0];
        assert_eq!(stack["launches"], want["launches"]);
        assert_eq!(stack["gpu_ns"]["total"], want["gpu_ns"]);
        assert_eq!(stack["link_method"], "correlation");
        let frames = json!(stacks(&got)[0].0);
        assert_eq!(frames, want["frames_leaf_first"]);
    }
    // The name of the kernel hides the operation; the call of the library gives it.
    let got = report(&folder, &["rocprof.pftrace"]);
    assert_eq!(got["collectives"][0]["op"], "all_reduce");
}

#[test]
fn correlation_ids_of_all_kinds() {
    let folder = demo("../kineto");
    let truth = read_json(&folder.join("correlation.truth.json"));
    let of = |name: &str| {
        report(
            &folder,
            &[
                "correlation.json",
                "--kernel-name",
                name,
                "--normalize",
                "none",
            ],
        )
    };
    for link in truth["links"].as_array().unwrap() {
        let name = link["kernel"].as_str().unwrap();
        let got = of(name);
        let frames = stacks(&got)[0].0.clone();
        let call = usize::from(frames[0].starts_with("[graph launch"));
        assert_eq!(json!(frames[call]), link["launch"], "{name}");
        assert_eq!(json!(frames[call + 1]), link["parent_of_launch"], "{name}");
        assert_eq!(
            got["stacks"][0]["latency_ns"]["min"], link["latency_ns"],
            "{name}"
        );
    }
    for name in truth["unlinked"].as_array().unwrap() {
        let got = of(name.as_str().unwrap());
        assert_eq!(got["untracked"]["kernels"], 1, "{name}");
        assert_eq!(got["outcome"], "kernel-present-but-untracked", "{name}");
    }
}
