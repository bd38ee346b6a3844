//! Our rows against the reference's, cell by cell, on the pair that comes with its outputs.
#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panic, and say when they are skipped"
)]

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::PathBuf;

use byte_source::Source;
use rca_cycles::compat::{self, Options, Report};

/// The reference data of these tests.
fn data() -> PathBuf {
    test_data::reference("deepdive/synthetic/kernel_x2")
}

fn text(path: PathBuf) -> String {
    let mut text = String::new();
    Source::open(path, &Default::default())
        .unwrap()
        .into_read()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    text
}

fn reports(side: &str, folder: &std::path::Path) -> Vec<Report> {
    let path = folder.join(side).join("result.json.gz");
    let source = Source::open(path, &Default::default()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    compat::analyse(&trace, &Options::default())
        .unwrap()
        .reports
}

/// Cells of a row in the columns of the file.
fn perf_cells(report: &Report) -> Vec<Vec<String>> {
    let four = |v: f64| format!("{v:.4}");
    report
        .rows
        .iter()
        .map(|r| {
            vec![
                r.cycle.to_string(),
                r.pid.to_string(),
                r.hostname.clone(),
                four(r.beta_pct),
                r.function_name.clone(),
                r.metric.map_or("N/A", |m| m.0).to_owned(),
                r.device.clone(),
                r.func_type.to_owned(),
                r.metric.map_or_else(String::new, |m| four(m.1)),
                r.metric.map_or_else(String::new, |m| four(m.2)),
                four(r.duration_us),
                r.interpolation.to_owned(),
                r.anchor_name.clone(),
                four(r.anchor_dur_us),
                four(r.cycle_start_us),
                r.instances.to_string(),
                r.simple_name.clone(),
            ]
        })
        .collect()
}

/// A line of CSV with quotes.
fn cells(line: &str) -> Vec<String> {
    let mut cells = vec![String::new()];
    let mut quoted = false;
    for c in line.chars() {
        match c {
            '"' => quoted = !quoted,
            ',' if !quoted => cells.push(String::new()),
            c => cells.last_mut().unwrap().push(c),
        }
    }
    cells
}

/// Rows by their key columns; numbers may differ in the last printed digit.
fn compare(ours: Vec<Vec<String>>, theirs: &str, key: &[usize]) {
    let of = |row: &Vec<String>| key.iter().map(|&k| row[k].clone()).collect::<Vec<_>>();
    let theirs: Vec<Vec<String>> = theirs.lines().skip(1).map(cells).collect();
    assert_eq!(ours.len(), theirs.len(), "number of rows");
    let mut index: BTreeMap<Vec<String>, Vec<String>> =
        ours.into_iter().map(|r| (of(&r), r)).collect();
    for row in &theirs {
        let mine = index
            .remove(&of(row))
            .unwrap_or_else(|| panic!("no row {:?}", of(row)));
        for (column, (a, b)) in mine.iter().zip(row).enumerate() {
            if a == b {
                continue;
            }
            let close = match (a.parse::<f64>(), b.parse::<f64>()) {
                (Ok(x), Ok(y)) => (x - y).abs() <= 1.01e-4,
                _ => false,
            };
            assert!(close, "column {column} of {row:?}: {a:?} instead of {b:?}");
        }
    }
    assert!(index.is_empty(), "rows too many: {:?}", index.keys().next());
}

fn same_lines(ours: &str, theirs: &str) {
    for (i, (a, b)) in ours.lines().zip(theirs.lines()).enumerate() {
        assert_eq!(a, b, "line {}", i + 1);
    }
    assert_eq!(ours.len(), theirs.len());
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn every_cell_is_the_references() {
    let folder = data();
    for side in ["normal", "abnormal"] {
        let reference = folder.join(format!("reference/{side}_perf_data"));
        let reports = reports(side, &folder);
        assert_eq!(
            reports.iter().map(|r| r.suffix).collect::<Vec<_>>(),
            ["_prefill", "_decode"]
        );
        for report in &reports {
            let file =
                |kind: &str| text(reference.join(format!("result{}_{kind}.xz", report.suffix)));
            compare(perf_cells(report), &file("perf_data.csv"), &[0, 1, 4, 5, 6]);
            let counters = report
                .counters
                .iter()
                .map(|c| {
                    vec![
                        c.name.clone(),
                        format!("{:.6}", c.ts_us),
                        format!("{:.6}", c.value),
                        c.hostname.clone(),
                    ]
                })
                .collect();
            compare(counters, &file("counters_data.csv"), &[0, 1]);
            same_lines(&report.text, &file("analysis.txt"));
            same_lines(
                report.representative_text.as_deref().unwrap_or_default(),
                &file("representative_analysis.txt"),
            );
        }
    }
}
