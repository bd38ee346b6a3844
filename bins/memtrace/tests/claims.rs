//! Tests that no table claims more than the recording shows.

use super::*;

const MS: u64 = 1_000_000;

fn write(dir: &Path, file: &str, text: &str) {
    std::fs::write(dir.join(file), text).unwrap();
}

fn null(document: &Value, table: &str, region_type: &str, columns: &[&str]) {
    for column in columns {
        let found = cell(document, table, region_type, column);
        assert!(found.is_null(), "{table} {column}: {found}");
    }
}

/// Lines of activations are stored every 20 ms and loaded 5 ms later; one access in seven is to
/// them.
#[test]
fn tables_do_not_contradict_the_verdict() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (mut text, mut state) = (String::new(), 1_u64);
    for round in 0..400_u64 {
        for (line, (event, delay)) in (0..64_u64).flat_map(|line| {
            [("mem-stores", 0), ("mem-loads", 5 * MS)].map(move |what| (line, what))
        }) {
            state = state
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1);
            if (state >> 33) % 7 == 0 {
                let at = round * 20 * MS + delay + line * 1000;
                let _ = writeln!(
                    text,
                    "c 1 [0] {}.{:09}: 7 cpu/{event}/P: {:x} ggml_add+0x1 (/x)",
                    at / (1000 * MS),
                    at % (1000 * MS),
                    (7_u64 << 20) + line * 64
                );
            }
        }
    }
    write(dir, "act.txt", &text);
    let found = json(&call(dir, &["analyse", "act.txt", "--json"]));
    assert_eq!(cell(&found, "verdict", "activation", "sampling"), "sampled");
    null(
        &found,
        "suitability",
        "activation",
        &["write_once_ratio_mean"],
    );
    null(
        &found,
        "types",
        "activation",
        &["write_once_ratio_by_addresses"],
    );
    null(&found, "write_once", "activation", &["write_once_ratio"]);
    null(&found, "iai", "activation", &["iai_p50_ns", "iai_mean_ns"]);
    for table in ["suitability", "retention_summary"] {
        assert_eq!(
            cell(&found, table, "activation", "retention_is"),
            "at least"
        );
    }
    for (own, of_verdict) in [
        ("suitability", "suitability"),
        ("confidence", "confidence"),
        ("write_once_high", "write_once_high"),
    ] {
        assert_eq!(
            cell(&found, "suitability", "activation", own),
            cell(&found, "verdict", "activation", of_verdict)
        );
    }
    // The reference has its own columns.
    let words = ["analyse", "act.txt", "--json", "--compat", "mrm-0.1"];
    let theirs = json(&call(dir, &words));
    assert_eq!(
        theirs["suitability"]["columns"].as_array().unwrap().len(),
        5
    );
    assert!(theirs["suitability"]["rows"][0][1].is_f64());
}

/// Allocations are not stores, and releases are not loads, whatever file they come from.
#[test]
fn allocations_say_nothing_of_reads() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // Twenty blocks are released after 1 s, one never.
    let mut raw = String::from("v 10400 3\nx 2 /a\nX ./a\nm 1 x 400000 0 2000\nt 401136 0\n");
    for block in 0..20 {
        let _ = writeln!(raw, "+ 1000 1 {:x}", 0x7f_0000 + block * 4096);
    }
    raw.push_str("+ 1000 1 900000\nc 3e8\n");
    for block in 0..20 {
        let _ = writeln!(raw, "- {:x}", 0x7f_0000 + block * 4096);
    }
    raw.push_str("c 1388\n+ 10 1 990000\n");
    write(dir, "raw.txt", &raw);
    write(dir, "nm.txt", "0000000000001130 T kv_update\n");
    let words = ["--symbols", "400000=nm.txt", "--json"];
    let tiers = [
        "--tier",
        "t:retention=1h,bandwidth=1TB/s,capacity=1GiB,endurance=1e9",
    ];
    let analyse = |input: &str| {
        let words = [&["analyse", input][..], &words, &tiers].concat();
        json(&call(dir, &words))
    };
    let export = [
        "export",
        "raw.txt",
        "--symbols",
        "400000=nm.txt",
        "--no-figures",
        "-o",
        "run",
    ];
    ok(&call(dir, &export));
    for input in ["raw.txt", "run"] {
        let found = analyse(input);
        assert_eq!(found["analysis"]["records"], "allocations", "{input}");
        let kind = "kv_cache";
        assert_eq!(cell(&found, "verdict", kind, "suitability"), "cannot_say");
        null(
            &found,
            "values",
            kind,
            &[
                "n_reads",
                "n_reads_before_store",
                "read_age_p50_ns",
                "read_age_p99_ns",
            ],
        );
        null(
            &found,
            "verdict",
            kind,
            &[
                "write_once_low",
                "read_age_p99_low_ns",
                "retention_p50_low_s",
                "retention_p99_high_s",
            ],
        );
        // Regions are pages that contained several blocks, and only the first line of a block is
        // known.
        let retention = ["retention_p50_s", "retention_p99_s", "retention_is"];
        null(&found, "retention_summary", kind, &retention);
        null(&found, "suitability", kind, &retention);
        null(
            &found,
            "types",
            kind,
            &["distinct_lines", "retention_mean_by_bytes_s"],
        );
        for table in ["read_freq", "refresh_need", "sampling", "iai"] {
            let rows = found[table]["rows"].as_array().unwrap();
            assert!(rows.is_empty(), "{table}: {rows:?}");
        }
        // Lifetimes of allocations are known: one that was not released lives at least until the
        // end.
        assert_eq!(cell(&found, "values", kind, "value_retention_p50_ns"), 1e9);
        let answer = found["answers"][0]["sentence"].as_str().unwrap();
        assert!(
            answer.contains("22 allocations live 1.000 s (median), >= "),
            "{answer}"
        );
        assert!(answer.contains("2 not released"), "{answer}");
        for word in ["read", "written"] {
            assert!(!answer.contains(word), "{answer}");
        }
        for fit in found["tiers"].as_array().unwrap() {
            let wanted = if fit["question"] == "capacity" {
                "fits"
            } else {
                "cannot say"
            };
            assert_eq!(fit["answer"], wanted, "{fit}");
        }
    }
}

/// A monitor of regions records neither loads nor stores.
#[test]
fn regions_of_damon_are_no_loads() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let mut text = String::from("base_time_absolute: 8 m 59.809 s\n\n");
    for at in 0..30 {
        let _ = writeln!(
            text,
            "monitoring_start: {at} s\nmonitoring_end: {} s\nmonitoring_duration: 1 s\ntarget_id: 1\nnr_regions: 1\n563ebaa00000-563ebc99e000(  31.617 MiB):\t3",
            at + 1
        );
    }
    write(dir, "damon.txt", &text);
    let range = format!(
        r#"[{{"addr_start": {}, "addr_end": {}, "region_type": "weight"}}]"#,
        0x563e_baa0_0000_u64, 0x563e_bc99_e000_u64
    );
    write(dir, "ranges.json", &range);
    ok(&call(
        dir,
        &[
            "label",
            "damon.txt",
            "--ranges",
            "ranges.json",
            "-o",
            "rows.parquet",
        ],
    ));
    for input in ["damon.txt", "rows.parquet"] {
        let found = json(&call(
            dir,
            &["analyse", input, "--ranges", "ranges.json", "--json"],
        ));
        assert_eq!(found["analysis"]["records"], "regions");
        assert_eq!(
            cell(&found, "verdict", "weight", "suitability"),
            "cannot_say"
        );
        assert_eq!(cell(&found, "read_freq", "weight", "total_reads"), 0);
        null(&found, "retention_summary", "weight", &["retention_p50_s"]);
        let answer = found["answers"][0]["sentence"].as_str().unwrap();
        assert!(answer.contains("MiB found accessed"), "{answer}");
        assert!(
            answer.contains("regions that were found accessed"),
            "{answer}"
        );
    }
}

/// Memory that an engine allocated during the recording was stored then, whether the store was
/// recorded or not.
#[test]
fn allocations_of_blocks_bound_what_was_stored() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (mut text, mut blocks) = (
        String::from("c 1 [0] 1.0: mem-loads: 10 main+0x1 (/x)\n"),
        Vec::new(),
    );
    // Each place has two consecutive blocks; for every other block no store was recorded.
    let mut oldest = Vec::new();
    for block in 0..20_u64 {
        let (alloc, place) = (2 + block * 3, block % 10);
        let address = 0x7f00_0000_0000 + place * 4096;
        if block % 2 == 0 {
            let _ = writeln!(
                text,
                "c 1 [0] {alloc}.5: mem-stores: {address:x} kv_update+0x1 (/x)"
            );
        } else {
            oldest.push(12);
        }
        for read in 1..=12 {
            let _ = writeln!(
                text,
                "c 1 [0] {}.0: mem-loads: {address:x} kv_read+0x1 (/x)",
                alloc + read
            );
        }
        blocks.push(format!(
            r#"{{"block_id": {place}, "alloc_ns": {alloc}000000000, "free_ns": {}000000000}}"#,
            alloc + 13
        ));
    }
    text.push_str("c 1 [0] 100.0: mem-loads: 10 main+0x1 (/x)\n");
    write(dir, "perf.txt", &text);
    let table = format!(
        r#"{{"base_address": {}, "block_bytes": 4096, "blocks": [{}]}}"#,
        0x7f00_0000_0000_u64,
        blocks.join(",")
    );
    write(dir, "table.json", &table);
    let of = |more: &[&str]| {
        let words = [
            &["analyse", "perf.txt", "--period", "1", "--json"][..],
            more,
        ]
        .concat();
        json(&call(dir, &words))
    };
    let found = of(&["--kv-table", "table.json"]);
    let kind = "kv_cache";
    let verdict = |column: &str| cell(&found, "verdict", kind, column).clone();
    assert_eq!(verdict("n_regions_begun_before"), 0);
    assert_eq!(verdict("n_regions_cut_by_end"), 0);
    assert_eq!(cell(&found, "values", kind, "n_reads_before_store"), 0);
    assert_eq!(
        cell(&found, "values", kind, "n_reads_since_allocation"),
        120
    );
    // Loads without a recorded store are between 0 and 12 s old, the others up to 11.5 s.
    assert_eq!(verdict("read_age_p99_high_ns"), 12e9);
    assert_eq!(cell(&found, "values", kind, "read_age_p50_ns"), 6e9);
    assert_eq!(verdict("retention_p99_low_s"), 12.0);
    assert_eq!(
        cell(&found, "retention_summary", kind, "retention_is"),
        "exact"
    );
    assert_eq!(verdict("suitability"), "high_mrm");
    let answer = found["answers"][0]["sentence"].as_str().unwrap();
    assert!(!answer.contains("before the recording"), "{answer}");
    // Without the table, half of the places were read before a store to them was recorded.
    let without = of(&[]);
    let begun = cell(&without, "verdict", kind, "n_regions_begun_before");
    assert!(begun.as_u64() > Some(0), "{begun}");
    assert_eq!(oldest.len(), 10);
}

/// Bytes per token and the most used tensors are verified by counting again.
#[test]
fn tokens_and_tensors_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let (mut text, mut state) = (String::new(), 7_u64);
    let mut of_tensor = [0_u64; 4];
    let mut tokens = std::collections::BTreeSet::new();
    for at in 0..3000_u64 {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        let random = state >> 33;
        // Later tensors are accessed more often.
        let tensor = (random % 10).isqrt();
        let token = random / 10 % 7;
        of_tensor[usize::try_from(tensor).unwrap()] += 1;
        tokens.insert(token);
        let address = tensor * 65_536 + random / 70 % 1024 * 64;
        let _ = writeln!(
            text,
            r#"{{"run_id": "r", "sample_id": {at}, "timestamp_ns": {}, "address": {address}, "address_page": {}, "op_type": "load", "token_index": {token}, "period": 5}}"#,
            at * 1000,
            address >> 12
        );
    }
    write(dir, "rows.jsonl", &text);
    let ranges: Vec<String> = (0..4)
        .map(|tensor| {
            format!(
                r#"{{"addr_start": {}, "addr_end": {}, "region_type": "weight", "name": "layer.{tensor}"}}"#,
                tensor * 65_536,
                (tensor + 1) * 65_536
            )
        })
        .collect();
    write(dir, "ranges.json", &format!("[{}]", ranges.join(",")));
    let input = ["rows.jsonl", "--ranges", "ranges.json"];
    let found = json(&call(
        dir,
        &[&["analyse"][..], &input, &["--json"]].concat(),
    ));
    let each = 3000 * 5 * 64 / tokens.len() as u64;
    assert_eq!(found["answers"][0]["bytes_per_token"], each);
    let mut expected: Vec<(u64, String)> = (0..4)
        .map(|tensor| (of_tensor[tensor], format!("layer.{tensor}")))
        .collect();
    expected.sort_by(|a, b| b.cmp(a));
    let hot = found["hottest_tensors"].as_array().unwrap();
    let hot: Vec<(u64, String)> = hot
        .iter()
        .map(|row| {
            let name = row["name"].as_str().unwrap().to_owned();
            (row["samples"].as_u64().unwrap(), name)
        })
        .collect();
    assert_eq!(hot, expected);
    // The page begins with the answer, and compares with the tiers.
    let tier = ["--tier", "small:capacity=1KiB"];
    ok(&call(
        dir,
        &[&["report"][..], &input, &tier, &["-o", "page"]].concat(),
    ));
    let page = std::fs::read_to_string(dir.join("page/report.html")).unwrap();
    let place = |text: &str| page.find(text).unwrap_or_else(|| panic!("no {text}"));
    assert!(page.contains("What-if by tier"));
    assert!(place("weight: ") < place("does not fit"));
    assert!(place("does not fit") < place("layer.3") && place("layer.3") < place("<svg"));
    let words = [
        &["export"][..],
        &input,
        &tier,
        &["--no-figures", "-o", "run"],
    ]
    .concat();
    ok(&call(dir, &words));
    let metadata = std::fs::read(dir.join("run/metadata.json")).unwrap();
    let metadata: Value = serde_json::from_slice(&metadata).unwrap();
    assert_eq!(metadata["tiers"][0]["answer"], "does not fit");
    assert_eq!(metadata["answers"], found["answers"]);
    fails(dir, &["compare", "run", "run", tier[0], tier[1]], 2);
}

#[test]
fn the_doctor_looks_at_the_disk_of_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    let output = call(
        folder.path(),
        &["doctor", "--json", "--out", "/proc/nothing"],
    );
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    let checks = found["checks"].as_array().unwrap();
    let disk = checks.iter().find(|check| check["name"] == "disk").unwrap();
    assert_eq!(disk["data"]["path"], "/proc/nothing");
    assert_eq!(disk["data"]["free_bytes"], 0);
    assert_eq!(disk["status"], "WARN");
}

/// The lifetimes are known here: weights until the end, KV blocks for 3 s, activations for a step
/// of 100 ms. The verdicts from text and Parquet are the same at any sampling rate, and correct if
/// there are any.
#[test]
fn recordings_are_judged_alike_from_text_and_parquet() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    let [weights, kv, activations] = [1_u64 << 32, 2 << 32, 3 << 32];
    let ranges: Vec<String> = [
        (weights, "weight"),
        (kv, "kv_cache"),
        (activations, "activation"),
    ]
    .iter()
    .map(|(start, kind)| {
        let end = start + (1 << 30);
        format!(r#"{{"addr_start": {start}, "addr_end": {end}, "region_type": "{kind}"}}"#)
    })
    .collect();
    write(dir, "ranges.json", &format!("[{}]", ranges.join(",")));
    for period in [1_u64, 10, 100] {
        let (mut text, mut state) = (String::new(), 88_172_645_463_325_252_u64);
        let mut access = |time: u64, event: &str, address: u64| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            if (state >> 20).is_multiple_of(period) {
                let (second, rest) = (time / (1000 * MS), time % (1000 * MS));
                let _ = writeln!(
                    text,
                    "c 1 [0] {second}.{rest:09}: {period} cpu/{event}/P: {address:x} f+0x1 (/x)"
                );
            }
        };
        for step in 0..120_u64 {
            let mut now = 1000 * MS + step * 100 * MS;
            let mut at = || {
                now += 1000;
                now
            };
            for line in 0..64 {
                if step == 0 {
                    access(at(), "mem-stores", weights + line * 64);
                }
                access(at(), "mem-loads", weights + line * 64);
            }
            for block in step.saturating_sub(30)..=step {
                for line in 0..8 {
                    let address = kv + block * 4096 + line * 512;
                    if block == step {
                        access(at(), "mem-stores", address);
                    }
                    access(at(), "mem-loads", address);
                }
            }
            for event in ["mem-stores", "mem-loads"] {
                for line in 0..64 {
                    access(at(), event, activations + line * 64);
                }
            }
        }
        write(dir, "perf.txt", &text);
        let label = [
            "label",
            "perf.txt",
            "--ranges",
            "ranges.json",
            "--kv-block",
            "4096",
        ];
        ok(&call(dir, &[&label[..], &["-o", "rows.parquet"]].concat()));
        let direct = [&["analyse"][..], &label[1..], &["--json"]].concat();
        let direct = json(&call(dir, &direct));
        let stored = json(&call(dir, &["analyse", "rows.parquet", "--json"]));
        assert_eq!(direct["answers"], stored["answers"], "{period}");
        assert_eq!(direct["verdict"], stored["verdict"], "{period}");
        for (kind, truth) in [
            ("weight", "high_mrm"),
            ("kv_cache", "medium_mrm"),
            ("activation", "low_mrm"),
        ] {
            let class = cell(&direct, "verdict", kind, "suitability");
            let confidence = cell(&direct, "verdict", kind, "confidence");
            assert!(
                class == truth || confidence == "none",
                "{kind} at {period}: {class}"
            );
            assert!(
                period > 1 || kind == "kv_cache" || class == truth,
                "{kind}: {class}"
            );
        }
    }
}

/// Forked workers have equal addresses: what one stores is no value of the other.
#[test]
fn equal_addresses_of_two_processes_are_different_memory() {
    let folder = tempfile::tempdir().unwrap();
    let dir = folder.path();
    // 64 pages, each stored to once and loaded 1, 2 and 3 s later; the second worker does the same half a second later.
    let mut lines: Vec<(u64, u64, String)> = Vec::new();
    for (process, start_ms) in [(11_u64, 0_u64), (22, 500)] {
        for page in 0..64_u64 {
            for (event, after_ms) in [
                ("mem-stores", 0),
                ("mem-loads", 1000),
                ("mem-loads", 2000),
                ("mem-loads", 3000),
            ] {
                let at_ns = (start_ms + page * 5 + after_ms) * MS;
                let line = format!(
                    "w {process}/{process} [0] {}.{:09}: 1 cpu/{event}/P: {:x} llama_kv_update+0x1 (/x)\n",
                    at_ns / (1000 * MS),
                    at_ns % (1000 * MS),
                    0x7f20_0000_0000 + page * 4096
                );
                lines.push((at_ns, process, line));
            }
        }
    }
    lines.sort();
    let text = |wanted: &dyn Fn(u64) -> bool| -> String {
        let own = lines.iter().filter(|(_, process, _)| wanted(*process));
        own.map(|(.., line)| line.as_str()).collect()
    };
    write(dir, "one.txt", &text(&|process| process == 11));
    write(dir, "both.txt", &text(&|_| true));
    // A single number may be a thread.
    write(
        dir,
        "threads.txt",
        &text(&|_| true)
            .replace("11/11", "11")
            .replace("22/22", "22"),
    );
    ok(&call(
        dir,
        &["export", "both.txt", "--no-figures", "-o", "run"],
    ));
    let analyse = |input: &str| json(&call(dir, &["analyse", input, "--json"]));
    let of = |found: &Value| {
        [
            ("verdict", "suitability"),
            ("verdict", "write_once_low"),
            ("verdict", "write_once_high"),
            ("values", "value_retention_p50_ns"),
            ("values", "read_age_p99_ns"),
            ("retention_summary", "retention_p50_s"),
        ]
        .map(|(table, column)| cell(found, table, "kv_cache", column).clone())
    };
    let one = analyse("one.txt");
    assert_eq!(cell(&one, "verdict", "kv_cache", "write_once_low"), 1.0);
    let page_count = |found: &Value| found["analysis"]["distinct_pages"].clone();
    for input in ["both.txt", "run"] {
        let both = analyse(input);
        assert_eq!(of(&both), of(&one), "{input}");
        assert_eq!(both["analysis"]["processes"], 2);
        assert_eq!(page_count(&both), 128);
    }
    let threads = analyse("threads.txt");
    assert_eq!(page_count(&threads), 64);
    assert!(threads["analysis"]["processes"].is_null());
    let said = ok(&call(dir, &["analyse", "threads.txt"]));
    assert!(
        said.contains("several numbers of threads or processes"),
        "{said}"
    );
    let said = ok(&call(dir, &["analyse", "both.txt"]));
    assert!(said.contains("2 processes: equal addresses"), "{said}");
}
