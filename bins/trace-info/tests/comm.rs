//! `trace-info comm` on the two ranks of the demo, of which everything is known.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// Relative: a header shows the path as given, and it shall fit wherever the workspace lies.
fn demo(name: &str) -> PathBuf {
    Path::new("../../testdata/demo").join(name)
}

/// Standard output of `trace-info comm` on both ranks, the second first.
fn comm(more: &[&str]) -> Vec<u8> {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .arg("comm")
        .args([demo("demo-rank1.json.gz"), demo("demo-rank0.json.gz")])
        .args(more)
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}");
    output.stdout
}

fn json(more: &[&str]) -> Value {
    serde_json::from_slice(&comm(&[&["--json"], more].concat())).unwrap()
}

fn rows<'d>(document: &'d Value, table: &str) -> &'d [Value] {
    document[table]["rows"].as_array().unwrap()
}

#[test]
fn clocks_waits_and_causes_are_those_that_were_planted() {
    let truth: Value =
        serde_json::from_slice(&std::fs::read(demo("demo-ranks.truth.json")).unwrap()).unwrap();
    let document = json(&[]);
    let ranks = rows(&document, "ranks");
    assert_eq!(ranks.len(), 2);
    let planted = truth["planted"]["clock_offset_ns_rank1"].as_i64().unwrap();
    let ahead = ranks[1]["clock_ahead_ns"].as_i64().unwrap();
    let error = ranks[1]["clock_error_ns"].as_i64().unwrap();
    assert!(
        (ahead - planted).abs() <= error,
        "{ahead} ± {error} for {planted}"
    );
    assert!(error < 80, "{error}");
    for (rank, row) in ranks.iter().enumerate() {
        let want = truth["wait_total_ns"][rank].as_i64().unwrap();
        let got = row["waited_ns"].as_i64().unwrap();
        // The end of a collective differs by up to 80 ns; there are 190 of them.
        assert!(
            (want - got).abs() < 1_000,
            "rank {rank} waited {got}, {want} planted"
        );
        assert_eq!(row["rank_source"], "file");
    }
    let late = rows(&document, "late");
    for (row, kind, name, extra) in [
        (&late[0], "slower_host", "collect", 1_200_000),
        (&late[1], "slower_kernels", "FlashAttnFwd", 850_000),
    ] {
        assert_eq!(
            (row["rank"].as_u64(), &row["cause"]),
            (Some(1), &Value::from(kind))
        );
        assert!(row["cause_name"].as_str().unwrap().contains(name), "{row}");
        let excess = row["here_ns"].as_i64().unwrap() - row["others_ns"].as_i64().unwrap();
        assert!((excess - extra).abs() < 20_000, "{row}");
    }
    // Those that the truth lists, in its order: as late, and the same rank last.
    let collectives: Vec<&Value> = rows(&document, "collectives")
        .iter()
        .filter(|c| c["type"] == "all_reduce" && !c["seq"].is_null())
        .collect();
    let mut compared = 0;
    for planted in truth["collectives"].as_array().unwrap() {
        let Some(ours) = collectives.iter().find(|c| c["seq"] == planted["seq"]) else {
            continue;
        };
        let error =
            ours["skew_ns"].as_i64().unwrap() - planted["start_spread_ns"].as_i64().unwrap();
        assert!(error.abs() <= 80, "{ours} {planted}");
        if planted["start_spread_ns"].as_i64().unwrap() > 100 {
            assert_eq!(ours["last_rank"], planted["last_rank"], "{ours}");
        }
        compared += 1;
    }
    assert!(compared > 100, "{compared}");
}

#[test]
fn exposed_and_overlapped_time_make_up_every_kernel() {
    let document = json(&[]);
    let kernels = rows(&document, "kernels");
    assert_eq!(kernels.len(), 380);
    let number = |row: &Value, key: &str| row[key].as_i64().unwrap();
    for row in kernels {
        assert_eq!(
            number(row, "exposed_ns") + number(row, "overlapped_ns"),
            number(row, "dur_ns")
        );
    }
    // 16 MiB over two ranks: bus and algorithm bandwidth are the same.
    let first = kernels
        .iter()
        .find(|k| k["message_bytes"] == 16 << 20)
        .unwrap();
    let rate = first["algbw_bytes_per_s"].as_f64().unwrap();
    let want = f64::from(16 << 20) / (first["dur_ns"].as_f64().unwrap() / 1e9);
    assert!((rate - want).abs() < want * 1e-12);
    assert_eq!(first["algbw_bytes_per_s"], first["busbw_bytes_per_s"]);
}

#[test]
fn of_a_rank_alone_no_waits_are_known() {
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .args(["comm", "--json"])
        .arg(demo("demo-rank0.json.gz"))
        .output()
        .unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let rank = &rows(&document, "ranks")[0];
    assert_eq!(rank["collectives"], 0);
    for unknown in ["waited_ns", "inflicted_ns", "avoidable_ns"] {
        assert!(rank[unknown].is_null(), "{unknown}: {rank}");
    }
}

#[test]
fn every_format_and_number_of_threads_says_the_same() {
    let once = comm(&["--threads", "1", "--json"]);
    assert_eq!(once, comm(&["--threads", "4", "--json"]));
    let csv = String::from_utf8(comm(&["--format", "csv", "--table", "ranks"])).unwrap();
    assert!(csv.starts_with("rank,source,rank_source,"));
    assert_eq!(csv.lines().count(), 3);
    let text = String::from_utf8(comm(&[])).unwrap();
    assert!(
        text.lines().all(|line| line.chars().count() <= 80),
        "{text}"
    );
    assert!(text.contains("rank 1, last in"), "{text}");
    let md = String::from_utf8(comm(&["--format", "md"])).unwrap();
    assert!(md.contains("\n## ranks\n"), "{md}");
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kernels.parquet");
    comm(&["--format", "parquet", "-o", path.to_str().unwrap()]);
    let file = std::fs::File::open(path).unwrap();
    let rows: usize = parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder::try_new(file)
        .unwrap()
        .build()
        .unwrap()
        .map(|batch| batch.unwrap().num_rows())
        .sum();
    assert_eq!(rows, 380);
}

#[test]
fn rules_of_another_analyser_have_its_columns() {
    let words = [
        "--rules",
        "tracelens",
        "--table",
        "collectives",
        "--format",
        "csv",
    ];
    let csv = String::from_utf8(comm(&words)).unwrap();
    assert!(csv.starts_with("collective_id,Process Group Name,"));
    let output = Command::new(env!("CARGO_BIN_EXE_trace-info"))
        .args(["comm", "--rules", "tracelens", "--table", "late"])
        .arg(demo("demo-rank0.json.gz"))
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(2));
}
