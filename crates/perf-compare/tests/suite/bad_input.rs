//! Odd and broken input: each kind has a defined result, and none a panic.

use std::fs;
use std::path::Path;

use perf_compare::document::{Report, Statement, Status};
use perf_compare::{Error, LoadOptions, Options, Side, compare, load};

use crate::simulate::{HEADER, World};

fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 199;
    options.resamples = 99;
    options
}

fn side(rows: &str) -> Side {
    Side::from_csv("x", format!("{HEADER}{rows}").as_bytes(), None::<&[u8]>).unwrap()
}

fn rows(cycles: std::ops::Range<u32>, us: impl Fn(u32) -> String, length: &str) -> String {
    cycles
        .map(|c| format!("{c},1,,1,\"void f<a, \"\"b\"\">(int, int)\",N/A,GPU 0,gpu_compute,,,{}, ,step,{length},{c}.0,3,f\n", us(c)))
        .collect()
}

fn finite(report: &Report) {
    let json = report.to_json().unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["schema_version"], "1.6");
    let shown = report.to_text();
    assert!(shown.lines().count() <= 25, "{shown}");
    assert!(
        shown.lines().all(|line| line.chars().count() <= 80),
        "{shown}"
    );
    let _ = (
        report.to_csv().unwrap(),
        report.to_markdown(),
        report.to_junit(perf_compare::FailOn::Regressed, 2.0),
    );
}

fn judge(a: &Side, b: &Side) -> Report {
    let report = compare(a, b, &options());
    finite(&report);
    report
}

#[test]
fn no_rows_one_cycle_two_cycles() {
    let full = side(&rows(1..21, |c| format!("{}", 100 + c % 3), "1000.0"));
    let report = judge(&full, &side(""));
    assert_eq!(report.comparability.status, Status::NotComparable);
    assert_eq!(report.comparability.reasons[0].code, "no_data");
    for n in [1, 2] {
        let few = side(&rows(1..n + 1, |c| format!("{}", 100 + c % 3), "1000.0"));
        let report = judge(&full, &few);
        assert_eq!(report.comparability.status, Status::ComparableWithWarnings);
        assert!(
            report
                .findings
                .iter()
                .all(|f| f.verdict == Statement::Insufficient)
        );
        assert_eq!(report.cycle_time[0].verdict, Statement::Insufficient);
        assert_eq!(report.findings[0].effect.interval.is_some(), n == 2);
    }
}

#[test]
fn no_variance_and_huge_values() {
    let flat = side(&rows(1..11, |_| "100.0".to_owned(), "1000.0"));
    let report = judge(&flat, &flat);
    assert_eq!(report.findings[0].verdict, Statement::Equivalent);
    assert_eq!(report.findings[0].effect.p, Some(1.0));
    let double = side(&rows(1..11, |_| "200.0".to_owned(), "1100.0"));
    let report = judge(&flat, &double);
    assert_eq!(report.findings[0].verdict, Statement::Changed);
    assert_eq!(report.findings[0].effect.interval, Some([100.0, 100.0]));
    let huge = |factor: f64| {
        side(&rows(
            1..11,
            move |c| format!("{}", (1e13 + f64::from(c) * 1e9) * factor),
            "1e14",
        ))
    };
    let report = judge(&huge(1.0), &huge(2.0));
    assert_eq!(report.findings[0].verdict, Statement::Changed);
}

#[test]
fn blanks_rubbish_and_duplicates_are_counted() {
    let mut text = rows(1..11, |c| format!("{}", 100 + c), "1000.0");
    text.push_str("11,1,,1,f,N/A,GPU 0,gpu_compute,,,oops, ,step,1000.0,11.0,3,f\n");
    text.push_str("12,1,,1,f,N/A,GPU 0,gpu_compute,,,1, ,step,NaN,12.0,3,f\n");
    text.push_str("1,1,,1,\"void f<a, \"\"b\"\">(int, int)\",N/A,GPU 0,gpu_compute,,,999.0, ,step,1000.0,1.0,3,f\n");
    text.push_str("too,short\n");
    let report = judge(&side(&text), &side(&text));
    assert_eq!(
        report
            .notes
            .iter()
            .filter(|n| n.contains("2 rows could not be read"))
            .count(),
        2
    );
    assert!(
        report
            .notes
            .iter()
            .any(|n| n.contains("1 cycles without a positive length"))
    );
    assert!(report.notes.iter().any(|n| n.contains("1 rows repeat")));
    assert_eq!(report.findings[0].effect.delta, 0.0);
    assert_eq!(report.findings[0].name, "void f<a, \"b\">(int, int)");
}

#[test]
fn bytes_that_are_no_text() {
    let mut bytes = HEADER.as_bytes().to_vec();
    for c in 1..8 {
        bytes.extend(format!("{c},1,,1,caf").bytes());
        bytes.extend(b"\xe9\xff,N/A,GPU 0,gpu_compute,,,5.0, ,step,1000.0,1.0,3,f\n");
    }
    let side = Side::from_csv("x", &*bytes, None::<&[u8]>).unwrap();
    let report = judge(&side, &side);
    assert!(report.notes.iter().any(|n| n.contains("no UTF-8")));
}

#[test]
fn wrong_files_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let load = |path: &Path| load(path, &LoadOptions::default());
    assert!(matches!(load(folder.path()), Err(Error::NoPerfData { .. })));
    assert!(load(&folder.path().join("missing.csv")).is_err());
    let other = folder.path().join("other.csv");
    fs::write(&other, "a,b\n1,2\n").unwrap();
    assert!(matches!(
        load(&other),
        Err(Error::Column {
            column: "metric",
            ..
        })
    ));
    let perf = folder.path().join("x_perf_data.csv");
    fs::write(&perf, "cycle,pid\n1,2\n").unwrap();
    assert!(matches!(load(&perf), Err(Error::Column { .. })));
    fs::write(&perf, format!("{HEADER}1,1,,x,f\n")).unwrap();
    let mut strict = LoadOptions::default();
    strict.strict = true;
    assert!(matches!(
        perf_compare::load(&perf, &strict),
        Err(Error::Field { line: 2, .. })
    ));
}

#[test]
fn tables_of_samples() {
    let table = |unit: &str, scale: f64, shift: f64| {
        let mut text = String::from("metric,unit,value,group,run,cycle\n");
        for i in 0..20 {
            let noise = f64::from((i * 7) % 5) * 0.01;
            text.push_str(&format!(
                "ttft,{unit},{},chat,1,{i}\n",
                (10.0 + shift + noise) * scale
            ));
            text.push_str(&format!(
                "tokens,1/s,{},chat,1,{i}\n",
                100.0 - 5.0 * shift + noise
            ));
        }
        Side::from_samples_csv("t", text.as_bytes()).unwrap()
    };
    let report = judge(&table("ms", 1.0, 0.0), &table("ms", 1.0, 1.0));
    assert!(
        report
            .findings
            .iter()
            .all(|f| f.change == perf_compare::document::Change::Slower)
    );
    assert!(
        report
            .headline
            .contains("TTFT is 10.0 % higher (10.02 -> 11.02 ms)"),
        "{}",
        report.headline
    );
    assert!(
        report.headline.contains("tokens is 5.0 % lower"),
        "{}",
        report.headline
    );
    // The unit does not matter.
    let other = judge(&table("us", 1000.0, 0.0), &table("us", 1000.0, 1.0));
    let q = |r: &Report| {
        r.findings
            .iter()
            .map(|f| (f.name.clone(), f.q, f.verdict))
            .collect::<Vec<_>>()
    };
    assert_eq!(q(&report), q(&other));
    let mixed = judge(&table("ms", 1.0, 0.0), &table("us", 1000.0, 0.0));
    assert!(
        mixed
            .findings
            .iter()
            .all(|f| f.verdict == Statement::Equivalent)
    );
    assert_eq!(
        report.gate(perf_compare::FailOn::Regressed, 2.0),
        perf_compare::Gate::Worse
    );
    assert_eq!(
        mixed.gate(perf_compare::FailOn::Regressed, 2.0),
        perf_compare::Gate::Pass
    );
}

/// One number a side shows nothing, however far apart they are: that is not "no change".
#[test]
fn single_samples_say_nothing() {
    let side = |value: f64| {
        let text = format!("metric,unit,value,cycle\nmean_itl,ms,{value},1\n");
        Side::from_samples_csv("t", text.as_bytes()).unwrap()
    };
    let report = judge(&side(20.0), &side(24.0));
    assert_eq!(report.verdict.cause, "unknown");
    assert!(report.verdict.confidence <= 0.1);
    assert!(
        report.headline.starts_with(
            "Cannot say whether anything changed: no quantity has more than 1 sample on both sides"
        ),
        "{}",
        report.headline
    );
}

#[test]
fn a_saved_baseline_takes_the_place_of_the_recording() {
    let healthy = World {
        cycles: 20,
        ..World::default()
    };
    let slow = World {
        cycles: 20,
        kernel: |_, name| if name == "gemm_b" { 1.3 } else { 1.0 },
        ..World::default()
    };
    let baseline =
        Side::from_samples_csv("baseline", healthy.side(1).to_samples_csv().as_bytes()).unwrap();
    let report = judge(&baseline, &slow.side(2));
    let gemm = report.findings.iter().find(|f| f.name == "gemm_b").unwrap();
    assert_eq!(gemm.verdict, Statement::Changed);
    assert!((gemm.effect.ratio.unwrap() - 1.3).abs() < 0.02);
}
