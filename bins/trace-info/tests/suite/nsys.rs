//! Exports of Nsight Systems: every cell that an independent computation over the same database gives.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use crate::support::{Csv, run};

/// An export with the folder of its expectations.
struct Case {
    export: PathBuf,
    expected: PathBuf,
}

/// Unpacks all exports of the reference data.
fn cases(folder: &Path) -> Vec<Case> {
    let data = test_data::reference("nsys");
    let mut found = Vec::new();
    let mut folders = vec![data.join("real"), data.join("synthetic")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            let name = path.to_str().unwrap();
            let Some(stem) = name.strip_suffix(".sqlite.xz") else {
                continue;
            };
            let expected = PathBuf::from(stem);
            let own = folder.join(found.len().to_string());
            fs::create_dir(&own).unwrap();
            let file = expected.file_name().unwrap().to_str().unwrap();
            let export = own.join(format!("{file}.sqlite"));
            let source =
                byte_source::Source::open(&path, &byte_source::OpenOptions::default()).unwrap();
            let mut bytes = Vec::new();
            source.into_read().unwrap().read_to_end(&mut bytes).unwrap();
            fs::write(&export, bytes).unwrap();
            found.push(Case { export, expected });
        }
    }
    assert!(found.len() >= 18, "{} exports", found.len());
    found
}

/// Equal texts, or numbers to nine digits.
fn is_same(want: &str, got: &str) -> bool {
    let empty = |text: &str| text.is_empty() || text == "nan";
    if want == got || (empty(want) && empty(got)) {
        return true;
    }
    match (want.parse::<f64>(), got.parse::<f64>()) {
        (Ok(want), Ok(got)) => (want - got).abs() <= 1e-9 * want.abs().max(1.0),
        _ => false,
    }
}

fn keyed<'c>(csv: &'c Csv, key: &[&str]) -> BTreeMap<Vec<&'c str>, &'c Vec<String>> {
    let places: Vec<usize> = key.iter().map(|name| csv.at(name)).collect();
    let rows = csv.rows.iter();
    rows.map(|row| (places.iter().map(|at| row[*at].as_str()).collect(), row))
        .collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn tables_equal_those_computed_over_the_database() {
    let folder = tempfile::tempdir().unwrap();
    let mut compared = 0;
    for case in cases(folder.path()) {
        let export = case.export.to_str().unwrap();
        for (file, words, key) in [
            ("gpu", &["gpu", "--rules", "exact"][..], &[][..]),
            (
                "gpu_per_device",
                &["gpu", "--rules", "exact", "--per-device"],
                &["device"],
            ),
            (
                "gpu_per_stream",
                &["gpu", "--rules", "exact", "--per-stream"],
                &["device", "stream"],
            ),
            ("kernels", &["kernels"], &["name", "category"]),
            (
                "launch",
                &["launch"],
                &["device", "stream", "kind", "metric"],
            ),
            ("idle", &["idle"], &["scope", "device", "stream"]),
        ] {
            let Ok(text) = fs::read_to_string(case.expected.join(format!("{file}.csv"))) else {
                continue;
            };
            let want = Csv::parse(&text);
            let output = run(words.iter().copied().chain([export, "--format", "csv"]));
            let err = String::from_utf8_lossy(&output.stderr);
            assert!(output.status.success(), "{export} {file}: {err}");
            let got = Csv::parse(&String::from_utf8(output.stdout).unwrap());
            let (wanted, mut found) = (keyed(&want, key), keyed(&got, key));
            // Parts of the latency that the other computation does not have.
            let is_part = |cell: &&str| ["queue_gap", "start_latency"].contains(cell);
            found.retain(|key, _| !key.last().is_some_and(is_part));
            assert_eq!(
                wanted.keys().collect::<Vec<_>>(),
                found.keys().collect::<Vec<_>>(),
                "{export} {file}"
            );
            for (row, cells) in wanted {
                for (column, want) in want.columns.iter().zip(cells) {
                    if column == "class" {
                        continue;
                    }
                    let got = &found[&row][got.at(column)];
                    assert!(
                        is_same(want, got),
                        "{export} {file} {row:?} {column}: {want}, not {got}"
                    );
                    compared += 1;
                }
            }
        }
    }
    assert!(compared > 5_000, "{compared} cells");
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn facts_equal_and_no_secret_is_shown() {
    let folder = tempfile::tempdir().unwrap();
    for case in cases(folder.path()) {
        let export = case.export.to_str().unwrap();
        let facts = fs::read_to_string(case.expected.join("facts.json")).unwrap();
        let facts: serde_json::Value = serde_json::from_str(&facts).unwrap();
        let output = run(["summary", export, "--json"]);
        let text = String::from_utf8(output.stdout).unwrap();
        let document: serde_json::Value = serde_json::from_str(&text).unwrap();
        let found = &document["traces"][0];
        let code = |code: &str| {
            let lists = [&found["reasons"], &found["remarks"]];
            let mut all = lists.into_iter().flat_map(|list| list.as_array().unwrap());
            let one = all.find(|finding| finding["code"] == code);
            one.map_or(0, |finding| finding["count"].as_u64().unwrap())
        };
        let bad = |kind: &str| facts["bad"][kind].as_u64().unwrap_or(0);
        for (what, want, got) in [
            (
                "base time",
                &facts["base_time_ns"],
                &found["file"]["base_time_ns"],
            ),
            ("start", &facts["t0"], &found["nsys"]["start_ns"]),
            ("calls", &facts["api_calls"], &found["nsys"]["api_calls"]),
            (
                "chains",
                &facts["backtraces"],
                &found["nsys"]["call_chains"],
            ),
            ("kernels", &facts["kernels"], &found["kernels"]["kernels"]),
            (
                "linked",
                &facts["kernels_linked"],
                &found["kernels"]["by_correlation"],
            ),
            (
                "unlinked",
                &facts["kernels_unlinked"],
                &found["kernels"]["unlinked"],
            ),
            (
                "in graphs",
                &facts["kernels_under_graph_launch"],
                &found["kernels"]["under_graph_launch"],
            ),
            (
                "graphs",
                &facts["graph_rows"],
                &found["nsys"]["graphs_whole"],
            ),
            (
                "graph launches",
                &facts["graph_launch_calls"],
                &found["nsys"]["graph_launches"],
            ),
        ] {
            assert_eq!(want, got, "{export}: {what}");
        }
        // Kernels that overlap on one stream are moved aside by us and not by the other computation.
        let moved = found["losses"]["overlapping"].as_u64();
        assert!(moved >= facts["spilled"].as_u64(), "{export}: {moved:?}");
        assert_eq!(bad("before"), code("before_recording"), "{export}");
        assert_eq!(bad("bad_value"), code("bad_value"), "{export}");
        assert_eq!(bad("negative"), code("slice_negative_duration"), "{export}");
        let assumed = facts["device_identity_assumed"].as_bool().unwrap();
        assert_eq!(assumed, code("device_identity_assumed") > 0, "{export}");
        for words in [
            &["summary", "-v"][..],
            &["tables", "--table", "args"],
            &["tables", "--table", "slice"],
            &["kernels"],
            &["comm", "--json"],
        ] {
            let output = run(words.iter().copied().chain([export]));
            for stream in [output.stdout, output.stderr] {
                let text = String::from_utf8_lossy(&stream).into_owned();
                assert!(!text.contains("PLANTED-SECRET"), "{export} {words:?}");
            }
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn a_parquet_folder_gives_what_the_database_gives() {
    let folder = tempfile::tempdir().unwrap();
    let parquet = test_data::reference("nsys").join("parquet/ranks_pqtdir");
    let all = cases(folder.path());
    let of = |case: &&Case| case.expected.ends_with("synthetic/ranks/ranks");
    let database = &all.iter().find(of).unwrap().export;
    for words in [
        &["gpu", "--per-stream", "--format", "csv"][..],
        &["kernels", "--format", "csv"],
        &["launch", "--format", "csv"],
        &["comm", "--table", "kernels", "--format", "csv"],
    ] {
        let lines = |path: &Path| -> Vec<String> {
            let output = run(words.iter().copied().chain([path.to_str().unwrap()]));
            let err = String::from_utf8_lossy(&output.stderr).into_owned();
            assert!(output.status.success(), "{words:?}: {err}");
            let text = String::from_utf8(output.stdout).unwrap();
            // Names of traces differ.
            let text = text.replace(path.to_str().unwrap(), "trace");
            let rest = |line: &str| line.split_once(',').map_or("", |(_, rest)| rest).to_owned();
            text.lines().map(rest).collect()
        };
        assert_eq!(lines(&parquet), lines(database), "{words:?}");
    }
}

/// Global id of a thread of process 10.
const THREAD: i64 = (1 << 48) | (10 << 24) | 10;

/// Writes an export with these tables.
pub(crate) fn export(folder: &Path, name: &str, tables: &str) -> String {
    let path = folder.join(name);
    let base = rusqlite::Connection::open(&path).unwrap();
    base.execute_batch(&format!(
        "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);
         INSERT INTO StringIds VALUES (1, 'cudaGraphLaunch'), (2, 'gemm'), (3, 'ncclDevKernel_AllReduce_Sum_bf16_RING_LL'), (4, 'cudaLaunchKernel');
         {tables}"
    ))
    .unwrap();
    path.to_str().unwrap().to_owned()
}

/// Kernels of process 10: start, end, correlation, name.
fn kernels(rows: &[(i64, i64, i64, i64)]) -> String {
    let process = THREAD & !0xff_ffff;
    let rows: Vec<String> = rows
        .iter()
        .map(|(start, end, id, name)| format!("({start}, {end}, 0, 1, 7, {id}, {process}, {name})"))
        .collect();
    format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER, streamId INTEGER,
         correlationId INTEGER, globalPid INTEGER, demangledName INTEGER);
         INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES {};",
        rows.join(", ")
    )
}

/// Launches of whole graphs, one a millisecond, each with half a millisecond of work.
fn graphs(count: i64) -> String {
    let process = THREAD & !0xff_ffff;
    let mut sql = "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER, end INTEGER, deviceId INTEGER, contextId INTEGER,
         streamId INTEGER, correlationId INTEGER, globalPid INTEGER, graphId INTEGER, graphExecId INTEGER);
         CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, globalTid INTEGER,
         correlationId INTEGER, nameId INTEGER);"
        .to_owned();
    for at in 0..count {
        let (start, id) = (at * 1_000_000, at + 1);
        sql += &format!(
            "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES ({start}, {}, 0, {THREAD}, {id}, 1);
             INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES ({}, {}, 0, 1, 7, {id}, {process}, 5, 6);",
            start + 5_000,
            start + 20_000,
            start + 520_000
        );
    }
    sql
}

pub(crate) fn out(words: &[&str]) -> String {
    let output = run(words);
    let err = String::from_utf8_lossy(&output.stderr);
    assert!(
        !err.contains("internal defect") && output.status.code() != Some(101),
        "{words:?}: {err}"
    );
    format!("{}{err}", String::from_utf8_lossy(&output.stdout))
}

#[test]
fn graphs_recorded_as_a_whole_are_not_said_to_be_without_communication() {
    let folder = tempfile::tempdir().unwrap();
    let whole = export(folder.path(), "whole.sqlite", &graphs(4));
    let flag = "`nsys profile --cuda-graph-trace=node`";
    let text = out(&["gpu", &whole]);
    let first: String = text.split("\n\n").take(2).collect();
    let first = first.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(first.contains(flag), "{text}");
    assert!(
        !text.contains("no communication") && !text.contains("exposed 0"),
        "{text}"
    );
    let comm = out(&["comm", &whole])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        comm.contains("4 graphs are recorded as a whole") && comm.contains(flag),
        "{comm}"
    );
    assert!(!comm.contains("torch.profiler"), "{comm}");
    // Beside a collective that is recorded, the graphs stay unknown.
    let both = graphs(4) + &kernels(&[(600_000, 700_000, 9, 3)]);
    let both = export(folder.path(), "both.sqlite", &both);
    let comm = out(&["comm", &both])
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ");
    assert!(
        comm.contains("4 graphs are recorded as a whole") && comm.contains(flag),
        "{comm}"
    );
    assert!(out(&["gpu", &both]).contains("at least"));
    // Without graphs nothing changes.
    let plain = export(
        folder.path(),
        "plain.sqlite",
        &kernels(&[(600_000, 700_000, 9, 2)]),
    );
    let text = out(&["gpu", &plain]);
    assert!(
        text.contains("no communication") && !text.contains(flag),
        "{text}"
    );
    let summary = out(&["summary", &whole]);
    let summary = summary.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(
        summary.contains("2 ms of busy time") || summary.contains("2.000 ms of busy time"),
        "{summary}"
    );
    assert!(!summary.contains("composition, (4)"), "{summary}");
}

#[test]
fn remedies_for_exports_are_flags_of_their_recorder() {
    let folder = tempfile::tempdir().unwrap();
    let plain = export(
        folder.path(),
        "a.sqlite",
        &kernels(&[(600_000, 700_000, 9, 2)]),
    );
    for command in ["ops", "memory", "comm"] {
        let text = out(&[command, &plain]);
        assert!(text.contains("nsys profile"), "{command}: {text}");
        for other in ["profile_memory", "ProfilerActivity", "torch.profiler"] {
            assert!(!text.contains(other), "{command}: {text}");
        }
    }
}

#[test]
fn impossible_times_are_counted_and_end_no_analysis() {
    let folder = tempfile::tempdir().unwrap();
    let far = 1_i64 << 62;
    let cases = [
        vec![(-far, 5, 1, 2), (far, far + 10, 2, 2)],
        vec![(-10, 5, 1, 2), (i64::MAX - 9, i64::MAX, 2, 2)],
        vec![(10, 20, 1, 2), (30, i64::MAX, 2, 2), (40, 50, 3, 2)],
        // Far apart and believed.
        vec![
            (-(1 << 60), 5 - (1 << 60), 1, 2),
            (1 << 60, (1 << 60) + 10, 2, 2),
        ],
    ];
    for (at, rows) in cases.iter().enumerate() {
        let file = export(folder.path(), &format!("{at}.sqlite"), &kernels(rows));
        // The same as Kineto writes it, in microseconds.
        let events: Vec<String> = rows
            .iter()
            .map(|(start, end, id, _)| {
                let us = |ns: i64| format!("{}.{:03}", ns / 1000, (ns % 1000).abs());
                format!(
                    r#"{{"ph":"X","cat":"kernel","name":"gemm","pid":0,"tid":7,"ts":{},"dur":{},"args":{{"device":0,"stream":7,"correlation":{id}}}}}"#,
                    us(*start),
                    us(end.saturating_sub(*start))
                )
            })
            .collect();
        let json = folder.path().join(format!("{at}.json"));
        fs::write(
            &json,
            format!(r#"{{"traceEvents":[{}]}}"#, events.join(",")),
        )
        .unwrap();
        for file in [file.as_str(), json.to_str().unwrap()] {
            for command in [
                "summary",
                "gpu",
                "kernels",
                "idle",
                "launch",
                "comm",
                "critical-path",
                "roofline",
                "memory",
            ] {
                let words: &[&str] = match command {
                    "roofline" => &["roofline", file, "--device", "h200"],
                    _ => &[command, file],
                };
                out(words);
            }
            out(&["diff", file, file]);
            let summary = out(&["summary", file, "-v"]);
            let is_counted = ["bad_value", "time_out_of_range", "trace_sorter_negative"]
                .iter()
                .any(|code| summary.contains(code));
            assert!(is_counted || at == 3, "{file}: {summary}");
        }
    }
}

/// Two ranks that one export holds were recorded by one clock, whatever the ends of their collectives look like.
#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn processes_of_one_export_have_one_clock() {
    let folder = tempfile::tempdir().unwrap();
    let mut several = 0;
    for case in cases(folder.path()) {
        let export = case.export.to_str().unwrap();
        let output = run(["comm", export, "--json"]);
        let Ok(document) = serde_json::from_slice::<serde_json::Value>(&output.stdout) else {
            continue;
        };
        let Some(ranks) = document["ranks"]["rows"].as_array() else {
            continue;
        };
        for rank in ranks {
            assert_eq!(
                rank["clock_ahead_ns"].as_i64().unwrap_or(0),
                0,
                "{export}: {rank}"
            );
        }
        several += usize::from(ranks.len() > 1);
    }
    assert!(several >= 3, "{several} exports with several ranks");
}

/// Inserts rows that a small generator makes: kernels of two processes and devices, some at once, some without a call, some before
/// their call; copies, fills and whole graphs between them; calls of the same id; rows that count for nothing.
fn mixed_work(is_reversed: bool, kind: &str) -> String {
    let mut state = 7_u64;
    let mut random = |below: u64| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        i64::try_from((state >> 33) % below).unwrap()
    };
    let pids = [THREAD & !0xff_ffff, (1 << 48) | (11 << 24)];
    let mut tables: [Vec<String>; 5] = Default::default();
    let mut at = 1_000_000;
    for id in 1..1500_i64 {
        at += random(9_000);
        let end = match random(12) {
            0 => at,
            1 => at + 60_000,
            2 => at - 5,
            _ => at + random(7_000),
        };
        let process = pids[usize::try_from(random(2)).unwrap()];
        let of = if process == pids[0] { 0 } else { 1 };
        let common = format!(
            "{at}, {end}, {of}, 1, {}, {id}, {process}",
            7 + random(2) * 6
        );
        let (table, own) = match random(6) {
            0 => (1, format!("{}, {}, 2", random(4), random(3))),
            1 => (2, format!("{}, NULL, NULL", random(3))),
            2 if id % 3 == 0 => (3, "5, 6, NULL".to_owned()),
            _ => (0, format!("{}, NULL, NULL", 2 + random(2))),
        };
        tables[table].push(format!("({common}, {own})"));
        let call = match random(9) {
            0 => continue,
            1 => at + 40,
            _ => at - 3_000 - random(9_000),
        };
        let thread = process | (process >> 24 & 0xff_ffff);
        let name = if random(7) == 0 { 1 } else { 4 };
        tables[4].push(format!(
            "({call}, {}, 0, {thread}, {id}, {name})",
            call + 900
        ));
        if random(20) == 0 {
            // Another call with the id, which is no launch and starts sooner.
            tables[4].push(format!(
                "({}, {}, 0, {thread}, {id}, 2)",
                call - 500,
                call + 990
            ));
        }
    }
    tables[0].push(format!(
        "('soon', 9, 0, 1, 7, 3, {}, 2, NULL, NULL)",
        pids[0]
    ));
    let names = [
        ("KERNEL", "demangledName, shortName, mangledName"),
        ("MEMCPY", "copyKind, srcKind, dstKind"),
        ("MEMSET", "memKind, a, b"),
        ("GRAPH_TRACE", "graphId, graphExecId, a"),
    ];
    let mut sql = String::new();
    for ((name, own), rows) in names.iter().zip(&mut tables) {
        if is_reversed {
            rows.reverse();
        }
        let common = "start, end, deviceId, contextId, streamId, correlationId, globalPid";
        let columns = format!("{common}, {own}").replace(", ", &format!(" {kind}, "));
        sql += &format!(
            "CREATE TABLE CUPTI_ACTIVITY_KIND_{name} ({columns} {kind});
             INSERT INTO CUPTI_ACTIVITY_KIND_{name} VALUES {};",
            rows.join(", ")
        );
    }
    sql + &format!(
        "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start {kind}, end {kind}, eventClass {kind}, globalTid {kind}, correlationId {kind},
         nameId {kind}); INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES {};
         CREATE TABLE OSRT_API (start {kind}, end {kind}, globalTid {kind}, nameId {kind}, spent AS (end - start));
         INSERT INTO OSRT_API VALUES (5, 9, {THREAD}, 4), (9, 5, {THREAD}, 4);",
        tables[4].join(", ")
    )
}

#[test]
fn answers_do_not_depend_on_whether_gpu_activities_are_kept() {
    let folder = tempfile::tempdir().unwrap();
    let make = |name: &str, is_reversed, kind| {
        let own = folder.path().join(name);
        fs::create_dir(&own).unwrap();
        export(&own, "a.sqlite", &mixed_work(is_reversed, kind))
    };
    // Rows out of order must be kept until they are sorted; the others are passed on.
    let kept = make("kept", true, "INTEGER");
    let passed = make("passed", false, "INTEGER");
    let texts = make("texts", false, "TEXT");
    for words in [
        &["gpu", "--format", "json"][..],
        &["gpu", "--format", "json", "--rules", "exact"],
        &["gpu", "--format", "csv", "--per-stream"],
        &["gpu", "--format", "csv", "--per-device"],
        &["kernels", "--format", "json"],
        &["kernels", "--format", "csv", "--by", "class"],
        &[
            "kernels",
            "--format",
            "csv",
            "--by",
            "stream,name",
            "--sort",
            "name",
        ],
        &["kernels"],
    ] {
        let of = |path: &str, threads: &str| {
            let text = out(&[words, &[path, "--threads", threads]].concat());
            text.replace(path, "a.sqlite")
        };
        let want = of(&kept, "1");
        assert!(want.contains("1"), "{want}");
        for (path, threads) in [(&passed, "1"), (&passed, "3"), (&texts, "2"), (&kept, "2")] {
            assert_eq!(of(path, threads), want, "{words:?} {path} {threads}");
        }
    }
    let notes = out(&["gpu", "--format", "json", &passed]);
    for code in [
        "\"unlinked\"",
        "\"skewed\"",
        "\"zero_duration\"",
        "\"concurrent\"",
    ] {
        assert!(notes.contains(code), "{code}: {notes}");
    }
}

#[test]
fn rows_left_out_for_their_times_are_said_by_every_command() {
    let folder = tempfile::tempdir().unwrap();
    let process = THREAD & !0xff_ffff;
    let bad = export(
        folder.path(),
        "bad.sqlite",
        &format!(
            "{} INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES ('soon', 9, 0, 1, 7, 3, {process}, 2);",
            kernels(&[(100, 200, 1, 2)])
        ),
    );
    let text = out(&["gpu", &bad, "--format", "csv"]);
    assert!(
        text.contains("warning: ") && text.contains("1 row whose start or end"),
        "{text}"
    );
}
