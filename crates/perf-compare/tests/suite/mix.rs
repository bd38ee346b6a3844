//! Phases of steps: their mix, and work compared phase by phase.

use std::fs;
use std::path::Path;

use perf_compare::document::Report;
use perf_compare::{LoadOptions, Options, compare, load};

use crate::simulate::World;

/// All steps of a recording.
const STEPS: usize = 59;

/// Writes the steps of one phase with its starts at `slots`, which are places in the order of time.
fn phase(folder: &Path, name: &str, world: &World, seed: u64, slots: &[usize]) {
    let world = World {
        cycles: slots.len(),
        ..world.clone()
    };
    let (perf, _) = world.files(seed);
    let mut reader = csv::Reader::from_reader(perf.as_bytes());
    let path = folder.join(format!("result_{name}_perf_data.csv"));
    let mut out = csv::Writer::from_path(path).unwrap();
    out.write_record(reader.headers().unwrap()).unwrap();
    let rows: Vec<csv::StringRecord> = reader.records().map(Result::unwrap).collect();
    let mut cycles: Vec<u64> = rows.iter().map(|row| row[0].parse().unwrap()).collect();
    cycles.dedup();
    for row in rows {
        let cycle: u64 = row[0].parse().unwrap();
        let at = cycles.iter().position(|c| *c == cycle).unwrap();
        let fields = row.iter().enumerate().map(|(i, field)| match i {
            0 => (slots[at] + 1).to_string(),
            14 => format!("{}", slots[at] * 1_000_000),
            _ => field.to_owned(),
        });
        out.write_record(fields).unwrap();
    }
    out.flush().unwrap();
}

/// A recording with this many prefill steps among [`STEPS`], scattered.
fn side(folder: &Path, prefills: usize, decode: &World, seed: u64) {
    fs::create_dir_all(folder).unwrap();
    let is_prefill = |slot: &usize| slot * 37 % STEPS < prefills;
    let (long, short): (Vec<usize>, Vec<usize>) = (0..STEPS).partition(is_prefill);
    let prefill = World {
        kernel: |_, _| 5.0,
        ..World::default()
    };
    phase(folder, "prefill", &prefill, seed, &long);
    phase(folder, "decode", decode, seed + 100, &short);
}

fn judge(prefills: [usize; 2], decode: [&World; 2], seed: u64) -> Report {
    let folder = tempfile::tempdir().unwrap();
    let [a, b] = [0, 1].map(|at| {
        let to = folder.path().join(at.to_string());
        side(&to, prefills[at], decode[at], 2 * seed + at as u64);
        load(&to, &LoadOptions::default()).unwrap()
    });
    let mut options = Options::default();
    options.permutations = 499;
    options.resamples = 199;
    compare(&a, &b, &options)
}

#[test]
fn another_mix_of_phases_is_named_and_mirrors() {
    let same = World::default();
    for seed in 1..=3 {
        let report = judge([5, 21], [&same, &same], seed);
        let told = &report.headline;
        assert_eq!(report.verdict.cause, "workload_shift", "{told}");
        assert_eq!(report.verdict.direction, "worse");
        assert!(told.contains("prefill 5 of 59 -> 21 of 59"), "{told}");
        let report = judge([21, 5], [&same, &same], seed);
        let told = &report.headline;
        assert_eq!(report.verdict.cause, "workload_shift", "{told}");
        assert_eq!(report.verdict.direction, "better");
        assert!(told.contains("prefill 21 of 59 -> 5 of 59"), "{told}");
        for prefills in [[5, 5], [5, 7], [9, 6]] {
            let report = judge(prefills, [&same, &same], seed);
            assert_eq!(report.verdict.cause, "none", "{}", report.headline);
            let Some(mix) = report.mix else { continue };
            assert!(!mix.established, "{}", report.headline);
            assert!(report.headline.contains("may be chance"));
        }
    }
}

#[test]
fn a_longer_mean_step_by_an_open_mix_is_not_called_unchanged() {
    let same = World::default();
    let report = judge([4, 9], [&same, &same], 1);
    let told = &report.headline;
    let mix = report.mix.as_ref().unwrap();
    assert!(!mix.established && mix.mean_us[1] > 1.1 * mix.mean_us[0]);
    assert_eq!(report.verdict.cause, "none", "{told}");
    assert!(report.verdict.confidence < 0.9);
    assert!(told.starts_with("The mean step is "), "{told}");
    assert!(!told.contains("No change"), "{told}");
    assert!(told.contains("prefill 4 of 59 -> 9 of 59"), "{told}");
}

#[test]
fn a_mean_step_that_is_much_longer_by_its_phases_is_a_shift_of_the_work() {
    let same = World::default();
    for (prefills, direction) in [([5, 13], "worse"), ([13, 5], "better")] {
        let report = judge(prefills, [&same, &same], 1);
        let (told, mix) = (&report.headline, report.mix.as_ref().unwrap());
        assert!(!mix.established && mix.large, "{mix:?}");
        assert_eq!(report.verdict.cause, "workload_shift", "{told}");
        assert_eq!(report.verdict.direction, direction, "{told}");
        assert_eq!(report.verdict.certainty, "possible");
        // Chance may do it, and the sentence says so before it says what differs.
        assert!(
            told.starts_with("The mix of steps differs, which may be chance (p = "),
            "{told}"
        );
        assert!(told.contains("times as many steps would tell"), "{told}");
        let [before, after] = prefills;
        assert!(
            told.contains(&format!("prefill {before} of 59 -> {after} of 59")),
            "{told}"
        );
        assert!(!told.contains("No change"), "{told}");
    }
}

#[test]
fn a_kernel_slower_in_one_phase_leads_and_the_mix_follows() {
    let same = World::default();
    let slow = World {
        kernel: |_, name| if name == "gemm_b" { 1.3 } else { 1.0 },
        ..World::default()
    };
    let report = judge([5, 21], [&same, &slow], 1);
    assert_eq!(report.verdict.cause, "gpu_kernel", "{}", report.headline);
    assert!(
        report.headline.contains("mix of steps changed too"),
        "{}",
        report.headline
    );
}
