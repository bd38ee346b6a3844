//! Tables of samples that say what each sample served.

use std::fs;
use std::path::Path;

use perf_compare::document::{Report, Statement};
use perf_compare::{LoadOptions, Options, compare, load};

use crate::simulate::Noise;

/// 120 cycles; each of four workloads costs 100 µs more than the one before, and the candidate serves
/// more of the large ones. `factor` is what the candidate's cycles are slower by.
fn table(file: &Path, large: bool, factor: f64, seed: u64, told: bool) {
    let mut noise = Noise::new(seed);
    let mut text = String::from("metric,unit,value,cycle");
    text += if told { ",workload\n" } else { "\n" };
    for cycle in 0..120_usize {
        let batch = match (cycle * 7 + cycle / 10) % 10 {
            0..=4 => usize::from(large) * 3,
            5..=7 => 1 + usize::from(large),
            8 => 2,
            _ => 3 * usize::from(!large),
        };
        let cost = [1_000.0, 1_100.0, 1_200.0, 1_300.0][batch];
        let value = cost * factor * (1.0 + 0.01 * noise.normal());
        text += &format!("cycle,us,{value},{cycle}");
        text += &if told {
            format!(",bs{batch}\n")
        } else {
            "\n".to_owned()
        };
    }
    fs::write(file, text).unwrap();
}

fn judge(factor: f64, seed: u64, told: bool) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = ["a.csv", "b.csv"].map(|name| folder.path().join(name));
    table(&a, false, 1.0, 2 * seed, told);
    table(&b, true, factor, 2 * seed + 1, told);
    let load = |path: &Path| load(path, &LoadOptions::default()).unwrap();
    let mut options = Options::default();
    options.permutations = 499;
    options.resamples = 199;
    compare(&load(&a), &load(&b), &options)
}

fn changed(report: &Report) -> bool {
    report
        .findings
        .iter()
        .any(|f| f.verdict == Statement::Changed)
}

#[test]
fn larger_batches_alone_are_no_change() {
    let called = (1..=10)
        .filter(|seed| changed(&judge(1.0, *seed, true)))
        .count();
    assert!(called <= 2, "{called} of 10");
    // Without the column nothing tells the batches apart, and the difference is real.
    assert!(changed(&judge(1.0, 1, false)));
    let report = judge(1.0, 1, true);
    // The smallest batches, 3 of 10, are served by the baseline alone.
    let note = "cycle: compared within 3 workloads; 36 samples of workloads that only the baseline has are left out";
    assert!(report.notes.iter().any(|n| n == note), "{:?}", report.notes);
}

#[test]
fn a_change_within_each_workload_is_found() {
    for seed in 1..=5 {
        let report = judge(1.05, seed, true);
        assert!(changed(&report), "{seed}");
        let effect = &report.findings[0].effect;
        let ratio = effect.ratio.unwrap();
        assert!((ratio - 1.05).abs() < 0.01, "{ratio}");
    }
}
