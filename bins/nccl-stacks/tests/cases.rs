//! Compares every reference case with the original: outcome, window, counts, frames, exit code and
//! text.

use serde_json::{Value, json};

use crate::support::{data, json as read_json, run_in, texts};

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn all_reference_cases() {
    let data = data();
    let index = read_json(&data.join("cases/index.json"));
    let mut checked = 0;
    for entry in index.as_array().unwrap() {
        let id = entry["id"].as_str().unwrap();
        let case = read_json(&data.join(format!("cases/{id}.json")));
        let mut args = texts(&case["args"]);
        args.push("--compat");

        let mut with_json = args.clone();
        with_json.extend(["--format", "json"]);
        let out = run_in(&data, &with_json);
        let stderr = String::from_utf8_lossy(&out.stderr);
        assert_eq!(
            out.status.code().map(i64::from),
            case["exit_code"].as_i64(),
            "{id}: {stderr}"
        );
        let got: Value = serde_json::from_slice(&out.stdout).unwrap();
        assert_eq!(got["outcome"], case["outcome"], "{id}");
        checked += 1;
        if case["exit_code"] != 0 {
            assert!(!stderr.is_empty(), "{id} says why");
            continue;
        }
        if let Some(window) = case.get("window") {
            assert_eq!(got["window"]["start_ts"], window["start_ts"], "{id}");
            assert_eq!(got["window"]["duration"], window["duration"], "{id}");
            assert_eq!(got["matching_slices"], case["matching_slices"], "{id}");
        }
        let stacks: Vec<Value> = got["stacks"]
            .as_array()
            .unwrap()
            .iter()
            .map(|s| {
                let mut frames = texts(&s["frames"]);
                frames.reverse();
                json!({ "count": s["launches"], "frames_leaf_first": frames })
            })
            .collect();
        let none = json!([]);
        assert_eq!(json!(stacks), *case.get("stacks").unwrap_or(&none), "{id}");
        if got["outcome"] != "stacks" {
            let related = case.get("related_kernels").unwrap_or(&none);
            assert_eq!(got["related_kernels"], *related, "{id}");
            assert_eq!(got["kernels_in_window"], case["kernels_in_window"], "{id}");
            continue;
        }

        let want = std::fs::read_to_string(data.join(format!("cases/{id}.stacks.txt"))).unwrap();
        let out = run_in(&data, &args);
        let text = String::from_utf8(out.stdout).unwrap();
        let header = text.strip_suffix(&want).unwrap_or_else(|| {
            panic!("{id}: {text}");
        });
        let lines: Vec<&str> = header.lines().collect();
        let count = case["unique_stacks"].to_string();
        assert_eq!((lines.len(), lines[0], lines[2]), (3, "", ""), "{id}");
        assert!(lines[1].contains(&count), "{id}: {header}");

        args.extend(["--order", "leaf-first"]);
        let out = run_in(&data, &args);
        let text = String::from_utf8(out.stdout).unwrap();
        let mut blocks = String::new();
        for stack in case["stacks"].as_array().unwrap() {
            blocks.push_str(&texts(&stack["frames_leaf_first"]).join(" <-\n"));
            blocks.push_str(&format!("\nAppeared {} times\n\n", stack["count"]));
        }
        assert!(text.ends_with(&blocks), "{id}: {text}");
    }
    assert_eq!(checked, 27, "all cases of the index");
}
