//! What people read on a terminal.

use std::collections::BTreeSet;

use super::*;

#[test]
fn kernels_can_be_told_apart_and_columns_are_aligned() {
    let trace = Path::new(env!("CARGO_MANIFEST_DIR"));
    let trace = trace.join("../../testdata/demo/demo-rank0.json.gz");
    let output = run(&["analyse", text(&trace)]);
    assert_eq!(output.status.code(), Some(0));
    let shown = String::from_utf8(output.stdout).unwrap();
    assert!(shown.lines().all(|line| line.chars().count() <= 80));
    let list = shown
        .lines()
        .skip_while(|line| !line.contains("GPU time by kernel"));
    let rows: Vec<&str> = list.skip(1).take_while(|l| !l.is_empty()).collect();
    assert!(rows.len() > 5, "{shown}");
    let ends: BTreeSet<Option<usize>> = rows.iter().map(|row| row.find(" % ")).collect();
    assert_eq!(ends.len(), 1, "{shown}");
    // Nothing takes more than all.
    let shares = shown
        .split(" %")
        .filter_map(|t| t.rsplit(' ').next()?.parse::<f64>().ok());
    assert!(shares.into_iter().all(|share| share <= 100.0), "{shown}");
    assert!(shown.contains("-bound"), "{shown}");
    let names = rows.iter().filter_map(|row| row.split(" x ").nth(1));
    let names: BTreeSet<&str> = names.collect();
    assert_eq!(names.len(), rows.len(), "{shown}");
    assert!(names.contains("cublasLt::splitKreduce_kernel  compute_kernel"));
}
