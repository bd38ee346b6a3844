//! What the first sentence says, and that it claims no more than was recorded.

use perf_compare::document::{Report, Statement, Status};
use perf_compare::{FailOn, Gate, Options, compare};

use crate::simulate::World;

fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    options
}

/// Both directions: baseline to candidate, and back.
fn judge(healthy: &World, change: impl Fn(&mut World)) -> [Report; 2] {
    let mut sick = healthy.clone();
    change(&mut sick);
    let (a, b) = (healthy.side(2), sick.side(3));
    [compare(&a, &b, &options()), compare(&b, &a, &options())]
}

fn slow_attention(w: &mut World) {
    w.kernel = |_, name| if name == "paged_attention" { 1.3 } else { 1.0 };
}

#[test]
fn exchanged_sides_give_the_mirrored_sentence() {
    let [there, back] = judge(&World::default(), slow_attention);
    for (report, words) in [
        (&there, ["slower per call", "+"]),
        (&back, ["faster per call", "-"]),
    ] {
        assert_eq!(report.verdict.cause, "gpu_kernel");
        assert!(
            report
                .headline
                .starts_with("Attention kernel paged_attention"),
            "{}",
            report.headline
        );
        for word in words {
            assert!(report.headline.contains(word), "{}", report.headline);
        }
        let text = report.to_text();
        assert!(
            text.replace("\n  ", " ").starts_with(&report.headline),
            "{text}"
        );
        assert!(!text.contains("of the baseline;"), "{text}");
        assert!(text.contains("p50") && text.contains("p99"), "{text}");
    }
    assert_eq!(
        [there.verdict.direction, back.verdict.direction],
        ["worse", "better"]
    );
}

#[test]
fn grown_work_is_no_fault() {
    let steps = World {
        context: 32_785,
        ..World::default()
    };
    let grown = |w: &mut World| {
        w.context = 65_570;
        w.kernel = |_, name| if name == "paged_attention" { 1.95 } else { 1.0 };
    };
    for report in judge(&steps, grown) {
        assert_ne!(report.comparability.status, Status::NotComparable);
        assert_eq!(
            report.verdict.cause, "workload_shift",
            "{}",
            report.headline
        );
        assert!(
            report.headline.contains("context tokens"),
            "{}",
            report.headline
        );
    }
    // A kernel that slows by more than the work grew is a fault for all that.
    let [report, _] = judge(&steps, |w| {
        w.context = 37_000;
        w.kernel = |_, name| if name == "paged_attention" { 1.6 } else { 1.0 };
    });
    assert_eq!(report.verdict.cause, "gpu_kernel", "{}", report.headline);
}

#[test]
fn what_was_not_recorded_is_not_ruled_out() {
    let blind = World {
        gpu_mhz: 0.0,
        ..World::default()
    };
    let [report, back] = judge(&blind, |w| w.kernel = |_, _| 1.14);
    assert_eq!(report.verdict.cause, "gpu_slow", "{}", report.headline);
    for word in ["GPU 0", "14", "record clocks"] {
        assert!(report.headline.contains(word), "{}", report.headline);
    }
    assert_eq!(back.verdict.cause, "gpu_slow", "{}", back.headline);
    let [report, _] = judge(&blind, slow_attention);
    let open = |cause: &str| report.verdict.not_judged.iter().any(|o| o.cause == cause);
    let out = |cause: &str| report.verdict.ruled_out.iter().any(|o| o.cause == cause);
    assert!(
        open("gpu_frequency") && !out("gpu_frequency"),
        "{:?}",
        report.verdict.ruled_out
    );
}

#[test]
fn pauses_are_counted_and_named() {
    let quiet = World {
        cycles: 48,
        ..World::default()
    };
    let [report, back] = judge(&quiet, |w| w.pause_us = 25_000.0);
    assert_eq!(report.verdict.cause, "pauses", "{}", report.headline);
    assert!(report.headline.contains("5 of 48"), "{}", report.headline);
    let pauses = report.cycle_time[0].pauses.as_ref().unwrap();
    assert_eq!(pauses.numbers, [6, 16, 26, 36, 46]);
    assert!(
        (pauses.excess_us[1].unwrap() - 25_000.0).abs() < 2_500.0,
        "{pauses:?}"
    );
    assert_eq!(report.gate(FailOn::Regressed, 0.0), Gate::Worse);
    assert_eq!(back.verdict.direction, "better");
    let both = World {
        pause_us: 25_000.0,
        ..quiet
    };
    let [report, _] = judge(&both, |_| {});
    assert_eq!(report.verdict.cause, "none", "{}", report.headline);
}

#[test]
fn the_same_input_twice() {
    let side = World::default().side(4);
    let report = compare(&side, &side, &options());
    assert!(report.identical && report.headline.starts_with("Identical input"));
    assert!(!judge(&World::default(), |_| {})[0].identical);
}

#[test]
fn equal_is_relative_to_the_function_itself() {
    // A third more of a function that takes a thousandth of the cycle.
    let [report, _] = judge(&World::default(), |w| w.copy_factor = 1.3);
    let copy = report
        .findings
        .iter()
        .find(|f| f.name.starts_with("Memcpy"))
        .unwrap();
    assert_eq!(copy.verdict, Statement::Small, "{copy:?}");
}

#[test]
fn another_maker_of_devices_is_not_comparable() {
    let with = |name: &'static str| World {
        extra: Some((name, 900.0)),
        ..World::default()
    };
    let (a, b) = (
        with("Cijk_Alik_Bljk_MT64").side(1),
        with("nvjet_tst_64x8").side(2),
    );
    let report = compare(&a, &b, &options());
    assert_eq!(report.comparability.status, Status::NotComparable);
    assert!(
        report.headline.starts_with("Not comparable"),
        "{}",
        report.headline
    );
}
