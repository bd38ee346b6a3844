//! The tool as a user runs it.
#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn blkio(dir: &Path, words: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_blkio"))
        .current_dir(dir)
        .args(words)
        .output()
        .unwrap()
}

fn json(output: &Output) -> Value {
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn a_made_up_run_through_all_commands() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let words = [
        "synth",
        "--events",
        "--seed",
        "7",
        "--truth",
        "truth.json",
        "-o",
        "a.txt",
    ];
    assert!(blkio(dir, &words).status.success());
    let truth: Value =
        serde_json::from_slice(&std::fs::read(dir.join("truth.json")).unwrap()).unwrap();
    let found = json(&blkio(
        dir,
        &[
            "stats", "a.txt", "--json", "--html", "a.html", "--out", "tables",
        ],
    ));
    assert_eq!(found["metrics"]["issues"], truth["requests"]);
    assert_eq!(
        found["metrics"]["pairing_newest"]["matching"]["pairs"],
        truth["events"]["pairs"]
    );
    assert!(
        std::fs::read_to_string(dir.join("a.html"))
            .unwrap()
            .contains("Address against time")
    );
    assert!(dir.join("tables/per_second.csv").exists());
    let info = json(&blkio(dir, &["info", "a.txt", "--json"]));
    assert_eq!(info["files"][0]["kind"], "collector");
    assert!(
        blkio(dir, &["convert", "a.txt", "a.parquet"])
            .status
            .success()
    );
    assert!(blkio(dir, &["convert", "a.txt", "a.csv"]).status.success());
    let rows = std::fs::read_to_string(dir.join("a.csv"))
        .unwrap()
        .lines()
        .count();
    let events = truth["requests"].as_u64().unwrap() + truth["events"]["pairs"].as_u64().unwrap();
    assert_eq!(rows as u64, events + 1);
    assert!(
        std::fs::read(dir.join("a.parquet"))
            .unwrap()
            .starts_with(b"PAR1")
    );
    let same = json(&blkio(dir, &["compare", "a.txt", "a.txt", "--json"]));
    assert_eq!(same["rows"][0]["change_pct"], 0.0);
    let threads = blkio(dir, &["stats", "a.txt", "--json", "--threads", "3"]);
    assert_eq!(
        threads.stdout,
        blkio(dir, &["stats", "a.txt", "--json", "--threads", "1"]).stdout
    );
}

#[test]
fn figures_of_a_result_folder() {
    let dir = tempfile::tempdir().unwrap();
    let run = dir.path().join("run");
    std::fs::create_dir(&run).unwrap();
    let log = "opt-6.7b-kv-offload-bs-64-ext4-bpftrace-block.txt";
    let made = blkio(&run, &["synth", "-o", log]);
    assert!(made.status.success());
    let gpu = "timestamp, utilization.gpu [%]\n2025/01/21 01:31:52.000, 10 %\n2025/01/21 01:31:52.200, 30 %\n";
    std::fs::write(run.join("opt-6.7b-kv-offload-bs-64-ext4-gpu.txt"), gpu).unwrap();
    let words = [
        "cheops25", "run", "--figure", "5", "--compat", "--json", "--out", "figures",
    ];
    let output = blkio(dir.path(), &words);
    if String::from_utf8_lossy(&output.stderr).contains("no fonts") {
        return;
    }
    let found = json(&output);
    assert_eq!(
        found["average_gpu_util_line"],
        "Average GPU Utilization: 20.00%"
    );
    let stem = "figures/opt-13b-model-offload-bs-64-ext4-bitesize-pre-sec-readwrite";
    for (extension, magic) in [
        ("svg", "<svg"),
        ("png", "\u{fffd}PNG"),
        ("pdf", "%PDF"),
        ("csv", "x,read,write"),
    ] {
        let bytes = std::fs::read(dir.path().join(format!("{stem}.{extension}"))).unwrap();
        assert!(
            String::from_utf8_lossy(&bytes).starts_with(magic),
            "{extension}"
        );
    }
    let missing = found["missing"].as_array().unwrap();
    assert!(missing.iter().any(|what| what == "engine log"));
}

#[test]
fn exit_codes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    let code = |words: &[&str]| blkio(dir, words).status.code();
    std::fs::write(
        dir.join("lossy.txt"),
        "1, R, 4096, 8, 8\nLost 9 events\n2, R\n",
    )
    .unwrap();
    std::fs::write(dir.join("empty.txt"), "").unwrap();
    assert_eq!(code(&["stats", "lossy.txt"]), Some(0));
    assert_eq!(code(&["stats", "lossy.txt", "--max-loss", "1"]), Some(3));
    assert_eq!(
        code(&["stats", "lossy.txt", "--max-malformed", "0"]),
        Some(3)
    );
    assert_eq!(code(&["stats", "lossy.txt", "--strict"]), Some(2));
    assert_eq!(code(&["stats", "empty.txt"]), Some(2));
    assert_eq!(code(&["stats", "absent.txt"]), Some(2));
    assert_eq!(code(&["stats"]), Some(2));
    assert_eq!(code(&["stacks", "lossy.txt"]), Some(2));
}
