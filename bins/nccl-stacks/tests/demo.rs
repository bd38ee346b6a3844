//! Tests with the demonstration traces: planted windows, stacks, links, costs, late ranks.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::support::{demo, json as read_json, report, run_in, texts};

/// Stacks as {frames leaf first: (launches, kernels, gpu time)}.
type Found = BTreeMap<Vec<String>, (u64, u64, i64)>;

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap()
}

/// Returns the report's stacks without the frame that represents the graph.
fn found(report: &Value) -> Found {
    let mut all = Found::new();
    for stack in report["stacks"].as_array().unwrap() {
        let frames = texts(&stack["frames"]);
        let frames = frames
            .into_iter()
            .rev()
            .filter(|f| !f.starts_with("[graph launch"))
            .map(str::to_owned)
            .collect();
        let gpu = stack["gpu_ns"]["total"].as_i64().unwrap_or(0);
        let row = (number(&stack["launches"]), number(&stack["kernels"]), gpu);
        assert!(all.insert(frames, row).is_none());
    }
    all
}

fn planted(stacks: &Value, with_time: bool) -> Found {
    let mut all = Found::new();
    for stack in stacks.as_array().unwrap() {
        let frames = texts(&stack["frames_leaf_first"]);
        let frames = frames.into_iter().map(str::to_owned).collect();
        let gpu = stack["gpu_ns"].as_i64().unwrap();
        let row = (
            number(&stack["launches"]),
            number(&stack["kernels"]),
            if with_time { gpu } else { 0 },
        );
        assert!(all.insert(frames, row).is_none());
    }
    all
}

#[test]
fn windows_and_stacks_are_those_planted() {
    for rank in ["demo-rank0", "demo-rank1"] {
        let truth = read_json(&demo(&format!("{rank}.truth.json")));
        let trace = format!("{rank}.json.gz");
        for window in truth["windows"].as_array().unwrap() {
            let index = window["index"].to_string();
            let function = window["function"].as_str().unwrap();
            for kernel in window["kernels"].as_array().unwrap() {
                let name = kernel["name"].as_str().unwrap();
                let mut args = vec![
                    trace.as_str(),
                    "--function-name",
                    function,
                    "--index",
                    &index,
                    "--kernel-name",
                    name,
                ];
                args.extend(["--stack-depth", "99"]);
                let got = report(&demo(""), &args);
                assert_eq!(got["window"]["start_ts"], window["start_ns"]);
                assert_eq!(got["window"]["duration"], window["duration_ns"]);
                assert_eq!(found(&got), planted(&kernel["stacks"], true), "{name}");
                assert_eq!(got["total"]["kernels"], kernel["kernels"]);
                assert_eq!(got["total"]["gpu_ns"]["total"], kernel["gpu_ns"]);

                args.truncate(args.len() - 2);
                args.push("--compat");
                let got = report(&demo(""), &args);
                let want = planted(&kernel["compat_stacks_depth_12"], false);
                assert_eq!(found(&got), want, "{name}");
                if want.is_empty() {
                    assert_ne!(got["outcome"], "stacks");
                }
            }
        }
    }
}

#[test]
fn links_devices_and_collectives_are_those_planted() {
    for rank in ["demo-rank0", "demo-rank1"] {
        let truth = read_json(&demo(&format!("{rank}.truth.json")));
        let trace = format!("{rank}.json.gz");
        let all = report(&demo(""), &[&trace, "--kernel", "."]);
        let links = &truth["links"];
        let diagnostics = &all["diagnostics"];
        assert_eq!(diagnostics["selected_kernels"], links["kernels"]);
        assert_eq!(
            diagnostics["linked_by"]["correlation"],
            links["by_correlation"]
        );
        assert_eq!(
            diagnostics["under_graph_launch"],
            links["under_graph_launch"]
        );
        assert_eq!(all["untracked"]["kernels"], links["unlinked"]);
        assert_eq!(diagnostics["conflict_count"], 0);

        let got = report(&demo(""), &[&trace]);
        assert_eq!(got["devices"], truth["devices"]);
        let (got, want) = (
            got["collectives"].as_array().unwrap().clone(),
            truth["collectives"].as_array().unwrap().clone(),
        );
        assert_eq!(got.len(), want.len());
        for (got, want) in got.iter().zip(&want) {
            assert_eq!(got["kernel"], want["name"]);
            assert_eq!(got["ts_ns"], want["ts_ns"]);
            assert_eq!(got["dur_ns"], want["dur_ns"]);
            for key in ["bytes", "seq"] {
                assert_eq!(got[key], *want.get(key).unwrap_or(&Value::Null), "{key}");
            }
            for (key, planted) in [
                ("kernel_algbw_bytes_per_s", "algbw_gb_per_s"),
                ("kernel_busbw_bytes_per_s", "busbw_gb_per_s"),
            ] {
                let bandwidth = |v: &Value| v.as_f64().map(|x| (x / 1e3).round() / 1e6);
                let wanted = want.get(planted).and_then(Value::as_f64);
                assert_eq!(bandwidth(&got[key]), wanted, "{key}");
            }
            // A single rank does not show how long it waited.
            for key in ["algbw_bytes_per_s", "busbw_bytes_per_s", "shortest_dur_ns"] {
                assert_eq!(got[key], Value::Null, "{key}");
            }
        }
    }
}

#[test]
fn exposed_time_adds_up_over_the_stacks() {
    let truth = read_json(&demo("demo-rank0.truth.json"));
    let got = report(&demo(""), &["demo-rank0.json.gz"]);
    let sum: i64 = got["stacks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["exposed_ns"].as_i64().unwrap())
        .sum();
    assert_eq!(json!(sum), truth["devices"][0]["exposed_ns"]);
    let planted: i64 = truth["collectives"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["exposed_ns"].as_i64().unwrap())
        .sum();
    assert_eq!(sum, planted);
}

#[test]
fn late_ranks_are_found() {
    let truth = read_json(&demo("demo-ranks.truth.json"));
    // The order of the files does not matter: the files state their ranks.
    let got = report(&demo(""), &["demo-rank1.json.gz", "demo-rank0.json.gz"]);
    assert_eq!(got["ranks"], json!([0, 1]));
    assert_eq!(got["clock_ahead_ns"][0], 0);
    let ahead = got["clock_ahead_ns"][1].as_i64().unwrap();
    let middle = &truth["median_end_difference_ns"];
    let medians = [middle[0].as_i64().unwrap(), middle[1].as_i64().unwrap()];
    assert!(medians.contains(&ahead), "{ahead} of {medians:?}");

    // Maximum clock difference after alignment, plus the jitter of ends.
    const TOLERANCE_NS: i64 = 80;
    let close = |got: &Value, want: &Value| {
        let (got, want) = (got.as_i64().unwrap(), want.as_i64().unwrap());
        assert!((got - want).abs() <= TOLERANCE_NS, "{got} for {want}");
    };
    let waits = got["waits"].as_array().unwrap();
    let wanted = truth["collectives"].as_array().unwrap();
    assert_eq!(waits.len(), wanted.len());
    for (got, want) in waits.iter().zip(wanted) {
        assert_eq!(got["seq"], want["seq"]);
        close(&got["start_spread_ns"], &want["start_spread_ns"]);
        close(&got["transfer_ns"], &want["last_end_minus_last_start_ns"]);
        for rank in [0, 1] {
            close(&got["wait_ns"][rank], &want["wait_ns"][rank]);
        }
        if want["start_spread_ns"].as_i64().unwrap() > TOLERANCE_NS {
            assert_eq!(got["last_rank"], want["last_rank"]);
        }
    }
    let by_stack = got["waits_by_stack"].as_array().unwrap();
    for rank in [0, 1] {
        let sum: i64 = by_stack
            .iter()
            .map(|s| s["wait_ns"][rank].as_i64().unwrap())
            .sum();
        let each = truth["wait_total_ns"][rank].as_i64().unwrap();
        let jitter = TOLERANCE_NS * i64::try_from(wanted.len()).unwrap();
        assert!((sum - each).abs() <= jitter, "{sum} for {each}");
    }
}

#[test]
fn merged_stacks_show_what_each_rank_has() {
    let got = report(
        &demo(""),
        &[
            "demo-rank0.json.gz",
            "demo-rank1.json.gz",
            "--normalize",
            "smart",
        ],
    );
    let one: Vec<u64> = ["demo-rank0.json.gz", "demo-rank1.json.gz"]
        .iter()
        .map(|t| {
            let r = report(&demo(""), &[t, "--normalize", "smart"]);
            number(&r["total"]["kernels"])
        })
        .collect();
    let merged = got["merged"].as_array().unwrap();
    for rank in [0, 1] {
        let sum: u64 = merged.iter().map(|m| number(&m["kernels"][rank])).sum();
        assert_eq!(sum, one[rank]);
    }
    assert!(merged.iter().all(|m| m["missing_on_ranks"] == json!([])));
    assert!(merged.iter().all(|m| m["count_skew"] == 0));
}

/// The duration of the last rank to arrive contains no waiting.
#[test]
fn bandwidths_are_over_the_shortest_duration_of_all_ranks() {
    let got = report(&demo(""), &["demo-rank0.json.gz", "demo-rank1.json.gz"]);
    let ranks: Vec<_> = got["traces"].as_array().unwrap().iter().collect();
    let runs = |rank: usize| ranks[rank]["collectives"].as_array().unwrap();
    let mut known = 0;
    for (rank, other) in [(0, 1), (1, 0)] {
        for run in runs(rank).iter().filter(|run| !run["seq"].is_null()) {
            let same = |r: &&Value| r["group"] == run["group"] && r["seq"] == run["seq"];
            let Some(other) = runs(other).iter().find(same) else {
                continue;
            };
            let shortest = number(&run["dur_ns"]).min(number(&other["dur_ns"]));
            assert_eq!(run["shortest_dur_ns"], json!(shortest), "{run}");
            let rate = number(&run["bytes"]) as f64 / shortest as f64 * 1e9;
            let stated = run["algbw_bytes_per_s"].as_f64().unwrap();
            assert!((stated / rate - 1.0).abs() < 1e-9, "{run}");
            known += 1;
        }
    }
    assert!(known > 20, "{known}");
    let stacks = ranks[0]["stacks"].as_array().unwrap();
    assert!(stacks.iter().any(|s| s["busbw_bytes_per_s"].is_f64()));
}

#[test]
fn a_rank_alone_has_no_bandwidth_and_no_empty_table_of_ranks() {
    let text = |args: &[&str]| {
        let out = run_in(&demo(""), args);
        String::from_utf8(out.stdout).unwrap()
    };
    let alone = text(&["demo-rank0.json.gz"]);
    let alone = alone.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(alone.contains("cannot say, it needs all ranks"), "{alone}");
    assert!(!alone.contains("GB/s"), "{alone}");
    let none = [
        "demo-rank0.json.gz",
        "demo-rank1.json.gz",
        "--kernel",
        "no such",
    ];
    let none = text(&none);
    assert!(!none.contains("All ranks"), "{none}");
}

/// Members of an archive have names that include it, and the digests that the manifest has for the
/// files.
#[test]
fn members_of_an_archive_have_digests_of_their_own() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["demo-rank0.json.gz", "demo-rank1.json.gz"];
    let archive = folder.path().join("job.tar");
    let packed = std::process::Command::new("tar")
        .arg("-cf")
        .arg(&archive)
        .arg("-C")
        .arg(demo(""))
        .args(names)
        .status();
    assert!(packed.unwrap().success());
    let manifest = read_json(&demo("../MANIFEST.json"));
    let digest = |name: &str| {
        let path = format!("demo/{name}");
        let files = manifest["files"].as_array().unwrap();
        let file = files.iter().find(|file| file["path"] == path.as_str());
        file.unwrap()["sha256"].clone()
    };
    let report = report(folder.path(), &["job.tar"]);
    for (at, name) in names.into_iter().enumerate() {
        let trace = &report["traces"][at]["trace"];
        assert_eq!(trace["path"], format!("job.tar!{name}"));
        assert_eq!(trace["sha256"], digest(name));
    }
}
