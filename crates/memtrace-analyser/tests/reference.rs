//! The tables against the recorded results of the reference, every case of both versions.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use std::fs;
use std::path::Path;

use byte_source::OpenOptions;
use memtrace_analyser::{Analyser, Analysis, AnalysisOptions};
use memtrace_labeller::{InputOptions, LabelOptions, Labeller, Names, Phases, RowStream};
use serde_json::Value;
use support::{data, read};

fn analyse(folder: &Path, case: &str, version: &str, memory_bytes: u64) -> Analysis {
    let mut names = Names::new();
    let truth = read(&folder.join(format!("inputs/{case}.truth.json")));
    let phases = Phases::from_json(case, &truth, &mut names).unwrap();
    let text = folder.join(format!("inputs/{case}.perf.txt.gz"));
    let path = if text.exists() {
        text
    } else {
        folder.join(format!("inputs/{case}.rows.jsonl.gz"))
    };
    let options = if version == "0.1.0" {
        InputOptions::mrm_010()
    } else {
        InputOptions::mrm_023()
    };
    let mut stream = RowStream::open_path(path, &OpenOptions::default(), &options).unwrap();
    if stream.format().name() == "perf-script" {
        stream = stream.with_phases(phases);
    }
    let mut labeller = Labeller::new(LabelOptions::mrm());
    let mut options = AnalysisOptions::mrm();
    options.memory_bytes = memory_bytes;
    let mut analyser = Analyser::new(options);
    let mut rows = Vec::new();
    while stream.next_batch(&mut names, &mut rows).unwrap() {
        for row in &mut rows {
            labeller.label(row, &mut names).unwrap();
        }
        analyser.push(&rows).unwrap();
        rows.clear();
    }
    analyser.finish(&names).unwrap()
}

fn close(ours: &Value, theirs: &Value, tolerance_ns: f64) -> bool {
    match (ours.as_f64(), theirs.as_f64()) {
        (Some(a), Some(b)) => {
            ours == theirs
                || (a - b).abs() <= 1e-9 * b.abs()
                || (a - b).abs() <= tolerance_ns && ours.is_u64()
                || (a - b).abs() <= tolerance_ns / 1e9
        }
        _ => ours == theirs,
    }
}

fn compare(what: &str, ours: &Value, theirs: &Value, tolerance_ns: f64) {
    let keys =
        |value: &Value| -> Vec<String> { value.as_object().unwrap().keys().cloned().collect() };
    assert_eq!(keys(ours), keys(theirs), "{what}: tables");
    for (table, theirs) in theirs.as_object().unwrap() {
        let ours = &ours[table];
        assert_eq!(ours["columns"], theirs["columns"], "{what}: {table}");
        let (ours, rows) = (
            ours["rows"].as_array().unwrap(),
            theirs["rows"].as_array().unwrap(),
        );
        assert_eq!(ours.len(), rows.len(), "{what}: rows of {table}");
        for (ours, theirs) in ours.iter().zip(rows) {
            let same = ours
                .as_array()
                .unwrap()
                .iter()
                .zip(theirs.as_array().unwrap())
                .all(|(ours, theirs)| close(ours, theirs, tolerance_ns));
            assert!(same, "{what}: {table}: ours {ours}, reference {theirs}");
        }
    }
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_case_gives_the_tables_of_the_reference() {
    let folder = data();
    let mut seen = 0;
    for version in ["0.1.0", "0.1.23"] {
        for entry in fs::read_dir(folder.join(format!("expected_{version}"))).unwrap() {
            let case = entry.unwrap().file_name().into_string().unwrap();
            let expected = folder.join(format!("expected_{version}/{case}/analysis.json.gz"));
            let theirs = support::json(&expected);
            let analysis = analyse(&folder, &case, version, 1 << 30);
            let mut text = Vec::new();
            analysis.write_json_tables(&mut text).unwrap();
            let ours: Value = serde_json::from_slice(&text).unwrap();
            let tolerance_ns = if case == "epoch_ns" { 256.0 } else { 0.0 };
            compare(
                &format!("{case} of {version}"),
                &ours,
                &theirs,
                tolerance_ns,
            );
            // With next to no memory everything is spilled, and nothing changes.
            assert_eq!(
                analyse(&folder, &case, version, 1),
                analysis,
                "{case}: spilled"
            );
            seen += 1;
        }
    }
    assert!(seen >= 30, "only {seen} cases");
}
