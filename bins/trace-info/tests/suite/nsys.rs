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
            let (wanted, found) = (keyed(&want, key), keyed(&got, key));
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
            (
                "overlapping",
                &facts["spilled"],
                &found["losses"]["overlapping"],
            ),
        ] {
            assert_eq!(want, got, "{export}: {what}");
        }
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
            let rest = |line: &str| line.split_once(',').map_or("", |(_, rest)| rest).to_owned();
            text.lines().map(rest).collect()
        };
        assert_eq!(lines(&parquet), lines(database), "{words:?}");
    }
}
