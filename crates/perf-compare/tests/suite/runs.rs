//! Several runs on each side: the claim is about the condition, and runs differ among themselves.

use std::fs;
use std::path::Path;

use perf_compare::document::{Change, Report, Statement};
use perf_compare::{LoadOptions, Options, compare, load};

use crate::simulate::{Noise, World};

/// Deviation between runs of one condition.
const BETWEEN: f64 = 0.03;

/// A folder with one subfolder per run; the whole run is faster or slower by chance, and by `factor`.
fn side(folder: &Path, runs: usize, factor: f64, seed: u64) {
    let mut noise = Noise::new(seed);
    for run in 0..runs {
        let by = factor * (1.0 + BETWEEN * noise.normal());
        let mut world = World {
            cycles: 12,
            jitter: 0.005,
            ..World::default()
        };
        world.host_us *= by;
        world.python_us *= by;
        let to = folder.join(format!("run{run}"));
        fs::create_dir_all(&to).unwrap();
        let (perf, counters) = world.files(seed * 100 + run as u64);
        fs::write(to.join("result_perf_data.csv"), perf).unwrap();
        fs::write(to.join("result_counters_data.csv"), counters).unwrap();
    }
}

fn judge(runs: usize, factor: f64, seed: u64) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = (folder.path().join("a"), folder.path().join("b"));
    side(&a, runs, 1.0, 2 * seed);
    side(&b, runs, factor, 2 * seed + 1);
    let load = |path: &Path| load(path, &LoadOptions::default()).unwrap();
    let mut options = Options::default();
    options.permutations = 199;
    options.resamples = 199;
    compare(&load(&a), &load(&b), &options)
}

fn called(report: &Report) -> bool {
    report.verdict.cause != "none"
        || report.cycle_time[0].verdict == Statement::Changed
        || report
            .findings
            .iter()
            .any(|f| f.verdict == Statement::Changed)
}

#[test]
fn runs_that_differ_by_chance_are_not_called() {
    let seeds = 20;
    let by_run = (1..=seeds)
        .filter(|seed| {
            let report = judge(6, 1.0, *seed);
            assert_eq!(report.claim, "the condition");
            assert_eq!(report.cycle_time[0].effect.n, [6, 6]);
            called(&report)
        })
        .count();
    // 5 % of 20 are 1; more than 4 happen less than three times in a thousand.
    assert!(by_run <= 4, "{by_run} of {seeds} called");
    // The test can fail: with one run a side most captures do differ, and are said to.
    let single = (1..=6).filter(|seed| {
        let report = judge(1, 1.0, *seed);
        assert_eq!(report.claim, "these two captures");
        called(&report)
    });
    assert!(single.count() >= 3);
}

#[test]
fn ten_percent_are_found_among_runs_that_differ() {
    for seed in 1..=5 {
        let report = judge(6, 1.2, seed);
        let cycle = &report.cycle_time[0];
        assert_eq!(
            (cycle.verdict, cycle.change),
            (Statement::Changed, Change::Slower),
            "seed {seed}: {:?}",
            cycle.effect
        );
        // 20 % of the host's part are 10 % of the cycle.
        let ratio = cycle.effect.ratio.unwrap();
        assert!((1.06..1.14).contains(&ratio), "{ratio}");
        assert_eq!(
            report.verdict.cause, "host_code",
            "{}",
            report.verdict.summary
        );
        assert_eq!(report.verdict.on_critical_path, Some(true));
    }
}

#[test]
fn too_few_runs_say_so() {
    let report = judge(3, 1.2, 1);
    assert_eq!(report.claim, "the condition");
    assert_eq!(report.cycle_time[0].verdict, Statement::Insufficient);
}
