//! The published comparison results, reproduced.
//!
//! Needs the published recordings (`INFERSCOPE_DATA`, by default `../shared/data` beside the workspace).

use std::collections::BTreeMap;
use std::fs;

use perf_compare::compat::{Options, run};

use crate::data::{recordings, text};

type Lines = Vec<(String, Vec<String>)>;

/// Rows by function, metric and device, and the header.
fn table(text: &str) -> (Vec<String>, Lines) {
    let mut csv = csv::Reader::from_reader(text.as_bytes());
    let header = csv.headers().unwrap().iter().map(str::to_owned).collect();
    let lines = csv
        .records()
        .map(|record| {
            let record = record.unwrap();
            let key = format!("{}|{}|{}", &record[0], &record[1], &record[2]);
            (key, record.iter().skip(3).map(str::to_owned).collect())
        })
        .collect();
    (header, lines)
}

/// Cells that differ by more than the printed digits allow, and those that differ in a printed digit.
fn compare(ours: &str, theirs: &str) -> (Vec<String>, usize) {
    let (header, ours) = table(ours);
    let (expected_header, theirs) = table(theirs);
    assert_eq!(header, expected_header);
    let by_key: BTreeMap<&String, &Vec<String>> = ours.iter().map(|(k, v)| (k, v)).collect();
    assert_eq!(by_key.len(), ours.len(), "a key comes twice");
    assert_eq!(ours.len(), theirs.len());
    let (mut wrong, mut unequal) = (Vec::new(), 0);
    for (key, cells) in &theirs {
        let found = by_key
            .get(key)
            .unwrap_or_else(|| panic!("{key} is missing"));
        for ((x, y), column) in found.iter().zip(cells).zip(&header[3..]) {
            unequal += usize::from(x != y);
            let number = |text: &str| text.parse::<f64>().ok();
            let near = match (number(x), number(y)) {
                (Some(x), Some(y)) => (x - y).abs() <= 1.1e-6 * y.abs().max(1.0),
                (None, None) => x == y,
                _ => false,
            };
            if !near {
                wrong.push(format!("{key} {column}: {x}, published {y}"));
            }
        }
    }
    let scores: Vec<f64> = ours
        .iter()
        .map(|(_, cells)| cells[0].parse().unwrap())
        .collect();
    assert!(scores.is_sorted_by(|a, b| a >= b), "not sorted by score");
    (wrong, unequal)
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_published_table() {
    let data = recordings();
    let out = tempfile::tempdir().unwrap();
    let summary = run(&[data.join("Processed")], out.path(), &Options::default()).unwrap();
    assert_eq!(summary.pairs, 5, "four published pairs and the twin rank");
    let mut checked = 0;
    for entry in fs::read_dir(data.join("Results")).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let Some(name) = name.strip_suffix(".xz") else {
            continue;
        };
        assert!(out.path().join(name).is_file(), "{name} was not written");
        if name.ends_with(".csv") {
            let ours = fs::read_to_string(out.path().join(name)).unwrap();
            assert!(!ours.contains('\r'));
            let (wrong, unequal) = compare(&ours, &text(&path).replace("\r\n", "\n"));
            assert_eq!(unequal, 0, "{name}: cells unequal in print");
            assert!(
                wrong.is_empty(),
                "{name}: {} cells: {wrong:#?}",
                wrong.len()
            );
            checked += 1;
        }
    }
    assert_eq!(checked, 4);
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn the_synthetic_case_with_prefill_and_decode() {
    let data = recordings();
    let from = data.join("synthetic/kernel_x2/reference");
    let temporary = tempfile::tempdir().unwrap();
    let case = temporary.path().join("kernel_x2");
    for side in ["normal_perf_data", "abnormal_perf_data"] {
        fs::create_dir_all(case.join(side)).unwrap();
        for entry in fs::read_dir(from.join(side)).unwrap() {
            let entry = entry.unwrap();
            fs::copy(entry.path(), case.join(side).join(entry.file_name())).unwrap();
        }
    }
    let out = temporary.path().join("out");
    let summary = run(&[case], &out, &Options::default()).unwrap();
    assert_eq!(summary.pairs, 2);
    for kind in ["prefill", "decode"] {
        let name = format!("kernel_x2_{kind}_pid4000_strict_comparison.csv");
        let ours = fs::read_to_string(out.join(&name)).unwrap();
        let theirs = text(&data.join(format!("synthetic/kernel_x2/reference/compare/{name}.xz")));
        let (wrong, unequal) = compare(&ours, &theirs.replace("\r\n", "\n"));
        assert_eq!(unequal, 0, "{name}: cells unequal in print");
        assert!(wrong.is_empty(), "{name}: {wrong:#?}");
    }
}
