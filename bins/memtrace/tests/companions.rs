//! Tests companion files of a trace: when memory was unmapped, and which blocks an engine
//! allocated.

use super::*;

/// A page of the KV cache, then (unmapped and mapped again) of activations; nothing else identifies
/// the last access.
const REUSED: &str = "c 1 [0] 1.0: cpu/mem-stores/P: 7f0000001000 kv_update+0x1 (/x)\n\
    c 1 [0] 2.0: cpu/mem-loads/P: 7f0000001000 memcpy+0x1 (/x)\n\
    c 1 [0] 6.0: cpu/mem-stores/P: 7f0000001000 ggml_add+0x1 (/x)\n\
    c 1 [0] 9.0: cpu/mem-loads/P: 7f0000001000 memcpy+0x1 (/x)\n";

fn labels(dir: &Path, words: &[&str]) -> Vec<(String, u64)> {
    let rows = ok(&call(dir, words));
    let label = |line: &str| {
        let row: Value = serde_json::from_str(line).unwrap();
        let kind = row["region_type"].as_str().unwrap().to_owned();
        (kind, row["region_id"].as_u64().unwrap())
    };
    rows.lines().map(label).collect()
}

fn named(labels: &[(&str, u64)]) -> Vec<(String, u64)> {
    labels
        .iter()
        .map(|(kind, id)| ((*kind).to_owned(), *id))
        .collect()
}

#[test]
fn what_a_page_was_ends_when_it_is_unmapped() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::write(dir.join("perf.txt"), REUSED).unwrap();
    let log = "Attaching 1 probe...\n5000000000 munmap 7f0000000000 65536\n5500000000 mmap 0x7f0000000000 65536\n";
    std::fs::write(dir.join("log"), log).unwrap();
    let always = [("kv_cache", 2); 4];
    assert_eq!(labels(dir, &["label", "perf.txt"]), named(&always));
    let until = [
        ("kv_cache", 2),
        ("kv_cache", 2),
        ("activation", 3),
        ("activation", 3),
    ];
    assert_eq!(
        labels(dir, &["label", "perf.txt", "--unmaps", "log"]),
        named(&until)
    );
    // The order of the rows does not matter if the log distinguishes them.
    let mut lines: Vec<&str> = REUSED.lines().collect();
    lines.rotate_left(2);
    std::fs::write(dir.join("late.txt"), lines.join("\n")).unwrap();
    let turned = [
        ("activation", 2),
        ("activation", 2),
        ("kv_cache", 3),
        ("kv_cache", 3),
    ];
    assert_eq!(
        labels(dir, &["label", "late.txt", "--unmaps", "log"]),
        named(&turned)
    );
    // The reference ignores the log.
    let theirs = [
        "label", "perf.txt", "--unmaps", "log", "--compat", "mrm-0.1",
    ];
    assert_eq!(labels(dir, &theirs), named(&always));
    std::fs::write(dir.join("bad"), "5 munmap\n").unwrap();
    assert!(fails(dir, &["label", "perf.txt", "--unmaps", "bad"], 3).contains("bad: line 1"));
    fails(dir, &["label", "perf.txt", "--unmaps", "nothing"], 3);
}

#[test]
fn blocks_live_from_their_allocation_until_they_are_freed() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    std::fs::write(dir.join("perf.txt"), REUSED.replace("ggml_add", "memcpy")).unwrap();
    let table = r#"{"base_address": 139637976727552, "block_bytes": 2048, "blocks": [
        {"block_id": 2, "alloc_ns": 500000000, "free_ns": 3000000000},
        {"block_id": 2, "alloc_ns": 5000000000, "free_ns": null}]}"#;
    std::fs::write(dir.join("blocks.json"), table).unwrap();
    let words = [
        "export",
        "-i",
        "perf.txt",
        "--kv-table",
        "blocks.json",
        "--no-figures",
        "-o",
        "run",
    ];
    ok(&call(dir, &words));
    let found = labels(dir, &["convert", "run/trace.parquet"]);
    let twice = [
        ("kv_cache", 2),
        ("kv_cache", 2),
        ("kv_cache", 3),
        ("kv_cache", 3),
    ];
    assert_eq!(found, named(&twice));
    // A region around the blocks changes nothing: the blocks say more.
    let around = r#"{"regions": [{"addr_start": 139637976727552, "addr_end": 139637976793088, "region_type": "kv_cache"}]}"#;
    std::fs::write(dir.join("around.json"), around).unwrap();
    let alone = ["label", "perf.txt", "--kv-table", "blocks.json"];
    let both = [&alone[..], &["--ranges", "around.json"]].concat();
    assert_eq!(labels(dir, &both), labels(dir, &alone));
    let report = [
        "report",
        "--input",
        "perf.txt",
        "--kv-table",
        "blocks.json",
        "-o",
        "rep",
    ];
    ok(&call(dir, &report));
    assert!(dir.join("rep/report.html").is_file());
    std::fs::write(dir.join("bad.json"), table.replace("3000000000", "3")).unwrap();
    let said = fails(dir, &["label", "perf.txt", "--kv-table", "bad.json"], 3);
    assert!(said.contains("block 2 is freed before"), "{said}");
}

#[test]
fn tables_are_chosen_by_metric() {
    let folder = folder();
    let dir = folder.path();
    let tables = |words: &[&str]| -> Vec<String> {
        let found = json(&call(dir, words));
        let tables = found.as_object().unwrap().iter();
        let is_table = |value: &Value| value.get("rows").is_some_and(Value::is_array);
        let tables = tables.filter(|(_, value)| is_table(value));
        let mut names: Vec<String> = tables.map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    };
    let metrics = ["--metrics", "write_once_ratio,working_set_size", "--json"];
    let expected = [
        "working_set_per_region",
        "working_set_summary",
        "write_once",
    ];
    let native = tables(&[&["analyse", "-i", "perf.txt"], &metrics[..]].concat());
    assert_eq!(native, expected);
    let theirs = [
        &["analyse", "perf.txt", "--compat", "mrm-0.1"],
        &metrics[..],
    ]
    .concat();
    assert_eq!(tables(&theirs), expected);
    let text = ok(&call(
        dir,
        &["analyse", "perf.txt", "--metrics", "read_frequency"],
    ));
    assert!(
        text.contains("read freq\n") && !text.contains("retention"),
        "{text}"
    );
    let said = fails(dir, &["analyse", "perf.txt", "--metrics", "speed"], 2);
    assert!(said.contains("retention_duration"), "{said}");
}

/// A container that is truncated before its first byte of content is bad data, and a file that is
/// not text is not a missing file.
#[test]
fn broken_files_are_told_from_missing_ones() {
    let folder = folder();
    let dir = folder.path();
    std::fs::write(dir.join("cut.zst"), [0x28, 0xb5, 0x2f, 0xfd, 0x24]).unwrap();
    fails(dir, &["analyse", "cut.zst"], 3);
    assert!(fails(dir, &["check", "nothing"], 3).contains("no such file"));
    fails(dir, &["analyse", "perf.txt", "--kv-block", "0"], 2);
    std::fs::write(dir.join("bad.yaml"), [0xff, 0xfe, 0x00]).unwrap();
    for (file, what) in [
        ("bad.yaml", "utf-8"),
        ("nothing.yaml", "Config file not found: nothing.yaml"),
        (".", ".: "),
    ] {
        let output = call(dir, &["validate", "--config", file]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1));
        assert!(
            said.contains("[ERROR]") && said.contains(what),
            "{file}: {said}"
        );
    }
}

#[test]
fn limits_of_suitability_are_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // One word stored once and read 11 times over 11 s.
    let mut text = "c 1 [0] 1.0: mem-stores: 7f0000001000 kv_update+0x1 (/x)\n".to_owned();
    for second in 2..=12 {
        let _ = writeln!(
            text,
            "c 1 [0] {second}.0: mem-loads: 7f0000001000 kv_read+0x1 (/x)"
        );
    }
    // Long after the last load, so that the end of the recording truncates nothing.
    text.push_str("c 1 [0] 60.0: mem-loads: 7f0000009000 main+0x1 (/x)\n");
    std::fs::write(dir.join("perf.txt"), text).unwrap();
    let class = |limits: &[&str]| {
        let words = [&["analyse", "perf.txt", "--period", "1", "--json"], limits].concat();
        cell(
            &json(&call(dir, &words)),
            "suitability",
            "kv_cache",
            "suitability",
        )
        .clone()
    };
    assert_eq!(class(&[]), "high_mrm");
    assert_eq!(
        class(&["--threshold", "high_retention_s=11.5"]),
        "medium_mrm"
    );
    let low = [
        "--threshold",
        "high_retention_s=11.5",
        "--threshold",
        "medium_retention_s=11.5",
    ];
    assert_eq!(class(&low), "low_mrm");
    for wrong in ["high=1", "high_retention_s=x", "high_retention_s=-1", "1"] {
        let said = fails(dir, &["analyse", "perf.txt", "--threshold", wrong], 2);
        assert!(said.contains("--threshold"), "{said}");
    }
}

/// Rows with a type belong to the same blocks as rows without one.
#[test]
fn tables_of_blocks_hold_for_rows_with_types() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (base, mut blocks) = (0x7f10_0000_0000_u64, Vec::new());
    let (mut typed, mut plain) = (String::new(), String::new());
    // In milliseconds: block, allocation, release; only block 0 has a recorded store.
    for (block, alloc, free) in [
        (0_u64, 1000_u64, 4000_u64),
        (1, 2000, 5250),
        (2, 3000, 6500),
    ] {
        blocks.push(format!(
            r#"{{"block_id": {block}, "alloc_ns": {alloc}000000, "free_ns": {free}000000}}"#
        ));
        let stores = (block == 0).then_some((alloc + 1, "store")).into_iter();
        let loads = (1..=5).map(|load| (alloc + load * 500, "load"));
        for (ms, op) in stores.chain(loads) {
            let address = base + 4096 * block + 64 * (ms % 7);
            for (text, kind) in [(&mut typed, "kv_cache"), (&mut plain, "unknown")] {
                let _ = writeln!(
                    text,
                    r#"{{"run_id":"r","sample_id":{ms},"timestamp_ns":{ms}000000,"address":{address},"address_page":{},"op_type":"{op}","symbol":"s","dso":"","region_type":"{kind}","period":1}}"#,
                    address >> 12
                );
            }
        }
    }
    std::fs::write(dir.join("typed.jsonl"), typed).unwrap();
    std::fs::write(dir.join("plain.jsonl"), plain).unwrap();
    let table = format!(
        r#"{{"base_address": {base}, "block_bytes": 4096, "blocks": [{}]}}"#,
        blocks.join(",")
    );
    std::fs::write(dir.join("kv.json"), table).unwrap();
    ok(&call(
        dir,
        &["label", "typed.jsonl", "-o", "labelled.parquet"],
    ));
    let of = |input: &str, more: &[&str]| {
        let words = [&["analyse", input, "--kv-table", "kv.json", "--json"], more].concat();
        json(&call(dir, &words))["verdict"]["rows"].clone()
    };
    let expected = of("plain.jsonl", &[]);
    assert_eq!(expected[0]["n_regions_begun_before"], 0, "{expected}");
    assert_eq!(expected[0]["retention_p99_low_s"].as_f64(), Some(2.5));
    for (input, more) in [
        ("typed.jsonl", &[][..]),
        ("typed.jsonl", &["--relabel"]),
        ("labelled.parquet", &[]),
        ("labelled.parquet", &["--relabel"]),
    ] {
        assert_eq!(of(input, more), expected, "{input} {more:?}");
    }
    let said = call(
        dir,
        &["analyse", "labelled.parquet", "--kv-block", "64", "--json"],
    );
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("--kv-block not used"), "{said}");
}
