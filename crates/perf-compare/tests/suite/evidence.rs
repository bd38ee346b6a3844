//! The evidence of a cause must be as long as what it explains, and say what changed: calls, or time per call; on which ranks.

use perf_compare::document::Report;
use perf_compare::{Options, compare};

use crate::simulate::World;

fn judge(healthy: &World, change: impl Fn(&mut World)) -> Report {
    let [there, _] = judge_both(healthy, change);
    there
}

/// From the healthy server to the other, and back.
fn judge_both(healthy: &World, change: impl Fn(&mut World)) -> [Report; 2] {
    let mut sick = healthy.clone();
    change(&mut sick);
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    let (a, b) = (healthy.side(2), sick.side(3));
    [compare(&a, &b, &options), compare(&b, &a, &options)]
}

fn world(ranks: usize) -> World {
    World {
        ranks,
        gpu_mhz: 0.0,
        ..World::default()
    }
}

fn expect(report: &Report, cause: &str, words: &[&str]) {
    assert_eq!(
        report.verdict.cause, cause,
        "{}\n{:#?}",
        report.headline, report.verdict.ruled_out
    );
    for word in words {
        assert!(report.headline.contains(word), "{}", report.headline);
    }
}

#[test]
fn waits_that_are_short_against_the_change_are_not_its_cause() {
    let report = judge(&world(2), |w| {
        w.python_us += 10_000.0;
        w.late_us = 750.0;
    });
    expect(&report, "host_code", &["process_batch_result"]);
    // Half of the change is spent waiting, and all of it is in host code of both ranks.
    let report = judge(&world(2), |w| {
        w.python_us += 6_000.0;
        w.late_us = 4_000.0;
        w.host_us -= 3_700.0;
    });
    expect(&report, "host_code", &["process_batch_result"]);
    // Late by as much as the cycle takes longer.
    let report = judge(&world(2), |w| w.late_us = 4_000.0);
    expect(&report, "collective_straggler", &["comes late"]);
}

#[test]
fn more_calls_are_other_work_and_slower_calls_are_not() {
    for (ranks, place) in [(1, "GPU 0"), (2, "all 2 ranks")] {
        let report = judge(&world(ranks), |w| {
            w.calls = |name| if name == "silu_and_mul" { 4.0 } else { 1.0 };
        });
        expect(
            &report,
            "workload_shift",
            &[
                "silu_and_mul",
                place,
                "4 times as often (32 -> 128 per cycle)",
            ],
        );
        assert!(!report.headline.contains("slower"), "{}", report.headline);
        let text = report.to_text();
        assert!(text.contains("4 times as many calls of"), "{text}");
    }
    let report = judge(&world(1), |w| {
        w.kernel = |_, name| if name == "silu_and_mul" { 4.0 } else { 1.0 };
    });
    expect(&report, "gpu_kernel", &["silu_and_mul", "slower per call"]);
}

#[test]
fn one_kernel_of_one_rank_is_no_late_host() {
    let report = judge(&world(2), |w| {
        w.kernel = |rank, name| match (rank, name) {
            (1, "paged_attention") => 1.3,
            _ => 1.0,
        };
        w.late_us += 990.0;
    });
    expect(
        &report,
        "gpu_kernel",
        &["Attention kernel paged_attention on GPU 1", "30."],
    );
}

#[test]
fn gpus_that_are_all_slower_are_all_named() {
    let report = judge(&world(4), |w| w.kernel = |_, _| 1.14);
    expect(
        &report,
        "gpu_slow",
        &["All kernels of all 4 GPUs slower by 14"],
    );
    let report = judge(&world(1), |w| w.kernel = |_, _| 1.14);
    expect(&report, "gpu_slow", &["All kernels of GPU 0 slower"]);
}

#[test]
fn host_code_behind_the_gpu_is_known_and_costs_nothing() {
    let report = judge(&world(1), |w| {
        w.python_us += 4_000.0;
        w.host_us -= 4_000.0;
    });
    expect(
        &report,
        "host_code",
        &["process_batch_result", "hidden behind"],
    );
    assert_eq!(report.verdict.on_critical_path, Some(false));
}

#[test]
fn slower_attention_may_be_longer_sequences_where_lengths_are_unknown() {
    let slow: fn(usize, &str) -> f64 = |_, name| match name {
        "paged_attention" => 1.7,
        _ => 1.0,
    };
    let words = "longer sequences: lengths were not recorded";
    let report = judge(&world(1), |w| w.kernel = slow);
    expect(&report, "gpu_kernel", &[words]);
    let known = World {
        context: 32_785,
        ..world(1)
    };
    let report = judge(&known, |w| w.kernel = slow);
    expect(&report, "gpu_kernel", &["70."]);
    assert!(!report.headline.contains(words), "{}", report.headline);
}

#[test]
fn two_faults_at_once_are_both_named() {
    for (python, attention) in [(6_000.0, 1.6), (2_500.0, 2.0)] {
        let slow: fn(usize, &str) -> f64 = match attention {
            a if a > 1.8 => |_, name| if name == "paged_attention" { 2.0 } else { 1.0 },
            _ => |_, name| if name == "paged_attention" { 1.6 } else { 1.0 },
        };
        let report = judge(&world(1), |w| {
            w.kernel = slow;
            w.python_us += python;
        });
        let cause = if attention > 1.8 {
            "gpu_kernel"
        } else {
            "host_code"
        };
        expect(&report, cause, &["paged_attention", "process_batch_result"]);
    }
}

#[test]
fn exchanged_sides_have_the_same_cause_the_other_way() {
    type Case = (usize, &'static str, fn(&mut World), [&'static str; 2]);
    let cases: [Case; 4] = [
        (
            1,
            "workload_shift",
            |w| w.calls = |name| if name == "silu_and_mul" { 4.0 } else { 1.0 },
            ["4 times as often", "0.250 times as often"],
        ),
        (
            2,
            "collective_slow",
            |w| w.transfer_factor = 4.0,
            ["slower on all ranks alike", "faster on all ranks alike"],
        ),
        (
            2,
            "collective_straggler",
            |w| w.late_us = 4_000.0,
            ["comes late", "no longer comes late"],
        ),
        (
            1,
            "host_code",
            |w| w.python_us += 3_000.0,
            ["process_batch_result slower", "process_batch_result faster"],
        ),
    ];
    for (ranks, cause, change, words) in cases {
        let both = judge_both(&world(ranks), change);
        let directions = both.each_ref().map(|report| report.verdict.direction);
        assert_eq!(directions, ["worse", "better"], "{cause}");
        for (report, word) in both.iter().zip(words) {
            expect(report, cause, &[word]);
        }
    }
}

#[test]
fn slow_collectives_next_to_a_slow_host_function_are_both_named() {
    let report = judge(&world(2), |w| {
        w.transfer_factor = 6.0;
        w.python_us += 2_500.0;
    });
    let words = ["all ranks alike", "process_batch_result"];
    expect(&report, "collective_slow", &words);
}
