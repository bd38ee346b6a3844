//! Tests that every format reports the same results.

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::{Made, report, run_in, stdout};

/// Generates two stacks: 2 launches of 100 ns each, 1 launch of 100 ns.
fn two_stacks() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    let mut made = Made::default();
    let row = (1, 2);
    made.slice(row, (0, 1000), ("python_function", "main;x\ny"), json!({}))
        .slice(row, (500, 400), ("cpu_op", "<op>"), json!({}))
        .launched(row, 1, 100, 5000, "k")
        .launched(row, 2, 200, 5200, "k")
        .launched(row, 3, 600, 5400, "k");
    made.write(folder.path(), "t.json");
    folder
}

fn text(folder: &TempDir, more: &[&str]) -> String {
    let args = [&["t.json", "--kernel", "k"][..], more].concat();
    let out = run_in(folder.path(), &args);
    assert!(out.status.success());
    stdout(&out)
}

#[test]
fn folded_lines() {
    let folder = two_stacks();
    let folded = |value: &str| text(&folder, &["--format", "folded", "--value", value]);
    assert_eq!(
        folded("launches"),
        "main:x y;cudaLaunchKernel 2\nmain:x y;<op>;cudaLaunchKernel 1\n"
    );
    assert_eq!(
        folded("gpu_ns"),
        "main:x y;cudaLaunchKernel 200\nmain:x y;<op>;cudaLaunchKernel 100\n"
    );
    assert_eq!(
        folded("exposed_ns").lines().next().unwrap(),
        "main:x y;cudaLaunchKernel 0"
    );
}

#[test]
fn speedscope_indexes_shared_frames() {
    let folder = two_stacks();
    let got: Value = serde_json::from_str(&text(&folder, &["--format", "speedscope"])).unwrap();
    let frames = got["shared"]["frames"].as_array().unwrap();
    assert_eq!(frames.len(), 3);
    let profile = &got["profiles"][0];
    assert_eq!(profile["weights"], json!([2, 1]));
    assert_eq!(profile["endValue"], 3);
    assert_eq!(profile["samples"], json!([[0, 1], [0, 2, 1]]));
}

#[test]
fn csv_has_one_line_for_each_stack() {
    let folder = two_stacks();
    let csv = text(&folder, &["--format", "csv"]);
    assert!(csv.starts_with("rank,stack,launches,kernels,gpu_total_ns,"));
    assert!(csv.contains("\n0,0,2,2,200,100,100,100,100,100,"));
}

#[test]
fn figures_and_pages_are_escaped_and_static() {
    let folder = two_stacks();
    let svg = text(&folder, &["--format", "svg"]);
    assert!(svg.starts_with("<svg"));
    assert!(svg.contains("&lt;op&gt;"));
    assert!(!svg.contains("<script"));
    let html = text(&folder, &["--format", "html"]);
    assert!(html.starts_with("<!DOCTYPE html>"));
    assert!(html.contains("cudaLaunchKernel"));
    assert!(!html.contains("<op>"));
    let markdown = text(&folder, &["--format", "markdown"]);
    assert!(markdown.contains("### Stack 0: 2 launches"));
}

#[test]
fn top_minimum_and_sort() {
    let folder = two_stacks();
    let launches = |more: &[&str]| {
        let args = [&["t.json", "--kernel", "k"][..], more].concat();
        let got = report(folder.path(), &args);
        let all = got["stacks"].as_array().unwrap().clone();
        let counts: Vec<_> = all
            .iter()
            .map(|s| s["launches"].as_u64().unwrap())
            .collect();
        (
            counts,
            got["left_out"].as_u64().unwrap(),
            got["unique_stacks"].as_u64().unwrap(),
        )
    };
    assert_eq!(launches(&["--top", "1"]), (vec![2], 1, 2));
    assert_eq!(launches(&["--min-count", "2"]), (vec![2], 1, 2));
    assert_eq!(launches(&["--sort", "gpu"]), (vec![2, 1], 0, 2));
}

#[test]
fn text_has_what_the_stacks_cost_and_their_numbers() {
    let folder = two_stacks();
    let top_down = text(&folder, &[]);
    let head = "\nFound 2 distinct stacks:\n\nMost kernel time: #0 with 66.67 % of 300 ns.\n\n\
                Cost of the stacks (exposed: communication without computation, memcpy aside):\n";
    assert!(top_down.starts_with(head), "{top_down}");
    let block = "\n#0  2 launches\n    main;x\ny\n    cudaLaunchKernel\n\n#1  1 launch\n";
    assert!(
        top_down.contains("200 ns") && top_down.contains(block),
        "{top_down}"
    );
    for flag in [&["--leaf-first"][..], &["--order", "leaf-first"]] {
        let leaf_first = text(&folder, flag);
        assert!(leaf_first.contains("\n    cudaLaunchKernel\n    main;x\ny\n"));
    }
}

#[test]
fn a_comparison_shows_both_sides() {
    let folder = two_stacks();
    let mut made = Made::default();
    made.slice(
        (1, 2),
        (0, 1000),
        ("python_function", "main;x\ny"),
        json!({}),
    )
    .launched((1, 2), 1, 100, 5000, "k");
    made.write(folder.path(), "u.json");
    let got = report(
        folder.path(),
        &["t.json", "u.json", "--kernel", "k", "--diff"],
    );
    let rows = got["difference"].as_array().unwrap();
    assert_eq!(rows.len(), 2);
    assert!(
        rows.iter()
            .any(|r| r["launches"] == json!([2, 1]) && r["gpu_ns"] == json!([200, 100]))
    );
    assert!(rows.iter().any(|r| r["launches"] == json!([1, 0])));
    let svg = run_in(
        folder.path(),
        &[
            "t.json", "u.json", "--kernel", "k", "--diff", "--format", "svg",
        ],
    );
    assert!(stdout(&svg).starts_with("<svg"));
    let out = run_in(folder.path(), &["t.json", "--diff"]);
    assert_eq!(out.status.code(), Some(2));
}

#[test]
fn the_first_of_several_arrows_links_a_kernel() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = Made::default();
    let row = (1, 2);
    for (name, at) in [("first", 100), ("second", 200)] {
        made.slice(row, (at, 50), ("python_function", name), json!({}))
            .slice(
                row,
                (at + 10, 10),
                ("cuda_runtime", "cudaLaunchKernel"),
                json!({}),
            );
    }
    made.slice((0, 7), (5000, 100), ("kernel", "k"), json!({}));
    for (id, at) in [(1, 110), (2, 210)] {
        made.arrow(id, (row, at), ((0, 7), 5000));
    }
    made.write(folder.path(), "t.json");
    let got = report(folder.path(), &["t.json", "--kernel", "k"]);
    assert_eq!(got["unique_stacks"], 1);
    assert_eq!(got["stacks"][0]["frames"][0], "first", "{}", got["stacks"]);
}

#[test]
fn without_gpu_activity_the_report_says_why() {
    let folder = tempfile::tempdir().unwrap();
    let mut made = Made::default();
    made.slice((1, 2), (0, 1000), ("cpu_op", "aten::mm"), json!({}));
    made.write(folder.path(), "host.json");
    let out = stdout(&run_in(folder.path(), &["host.json"]));
    assert!(
        out.contains("no GPU activity: only the host was recorded"),
        "{out}"
    );
    assert!(!out.contains("window"), "{out}");
    let mut made = Made::default();
    made.slice((0, 7), (5000, 100), ("kernel", "k"), json!({}));
    made.write(folder.path(), "device.json");
    let out = stdout(&run_in(folder.path(), &["device.json", "--kernel", "k"]));
    assert!(out.contains("holds no launch call at all"), "{out}");
}

#[test]
fn an_unreadable_file_among_several_is_left_out_and_reported() {
    let folder = two_stacks();
    std::fs::rename(
        folder.path().join("t.json"),
        folder.path().join("rank0.json"),
    )
    .unwrap();
    std::fs::copy(
        folder.path().join("rank0.json"),
        folder.path().join("rank1.json"),
    )
    .unwrap();
    std::fs::write(folder.path().join("rank2.json"), "<html>").unwrap();
    let out = run_in(folder.path(), &[".", "--kernel", "k"]);
    assert_eq!(out.status.code(), Some(3));
    let error = String::from_utf8_lossy(&out.stderr);
    assert!(
        error.contains("rank2.json: this is an HTML page"),
        "{error}"
    );
    let text = stdout(&out);
    assert!(
        text.contains("All ranks") && text.contains("#0  4 launches on all ranks"),
        "{text}"
    );
    let all = text.find("All ranks").unwrap();
    assert!(text.find("Rank 1: ").is_some_and(|one| all < one), "{text}");
}
