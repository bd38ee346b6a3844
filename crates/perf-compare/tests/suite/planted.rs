//! One planted cause after the other on a simulated server, and properties that no pair may break.

use perf_compare::document::{Change, Report, Statement, Status};
use perf_compare::{Options, compare};

use crate::simulate::World;

fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    options
}

fn judge(change: impl Fn(&mut World), ranks: usize, seed: u64) -> Report {
    let healthy = World {
        ranks,
        cycles: 30,
        ..World::default()
    };
    let mut sick = World {
        pid: 9000,
        ..healthy.clone()
    };
    change(&mut sick);
    compare(
        &healthy.side(2 * seed),
        &sick.side(2 * seed + 1),
        &options(),
    )
}

/// Asserts the cause for several seeds, with one rank and with two.
fn expect(cause: &str, ranks: &[usize], change: impl Fn(&mut World)) {
    for &ranks in ranks {
        for seed in 1..=3 {
            let report = judge(&change, ranks, seed);
            assert_eq!(
                report.verdict.cause, cause,
                "{ranks} ranks, seed {seed}: {}\n{:#?}",
                report.verdict.summary, report.verdict.ruled_out
            );
            assert!(
                report.verdict.confidence >= 0.4,
                "{}",
                report.verdict.confidence
            );
        }
    }
}

#[test]
fn nothing_planted() {
    expect("none", &[1, 2, 4], |_| {});
}

#[test]
fn host_causes() {
    expect("cpu_frequency", &[1, 2], |w| {
        w.cpu_mhz = 1200.0;
        w.host_us *= 1.8;
        w.python_us *= 1.8;
        w.disk_us *= 1.8;
    });
    expect("cpu_frequency", &[1], |w| {
        w.cpu_mhz = 2900.0;
        w.host_us *= 1.15;
    });
    expect("cpu_contention", &[1, 2], |w| {
        w.host_cpu_pct = 85.0;
        w.run_queue_us = 6000.0;
        w.host_us *= 1.1;
        w.cpu_mhz = 3100.0;
    });
    expect("cpu_contention", &[1], |w| w.run_queue_us = 4000.0);
    expect("memory_pressure", &[1], |w| {
        w.mem_available = 2e7;
        w.mem_usage = 97.0;
        w.swap = 5e8;
        w.host_us *= 1.2;
    });
    expect("disk_contention", &[1], |w| w.disk_us = 6000.0);
    expect("host_code", &[1], |w| w.python_us *= 3.0);
    expect("host_code", &[1], |w| w.host_us *= 1.15);
}

#[test]
fn device_causes() {
    expect("gpu_frequency", &[1, 2], |w| {
        w.gpu_mhz = 600.0;
        w.kernel = |_, _| 2.1;
    });
    expect("gpu_frequency", &[1], |w| {
        w.gpu_mhz = 1200.0;
        w.kernel = |_, _| 1.12;
    });
    expect("gpu_contention", &[1, 2], |w| {
        w.gpu_usage = 95.0;
        w.gpu_mem_pct = 95.0;
        w.kernel = |_, _| 1.6;
    });
    expect("gpu_contention", &[1], |w| w.kernel = |_, _| 1.5);
    expect("gpu_kernel", &[1, 2], |w| {
        w.kernel = |_, name| if name == "paged_attention" { 2.0 } else { 1.0 }
    });
    expect("gpu_kernel", &[1], |w| {
        w.kernel = |_, name| if name == "paged_attention" { 1.1 } else { 1.0 }
    });
    expect("gpu_kernel", &[1], |w| {
        w.extra = Some(("void debug_copy<float, 4>(float*, int)", 900.0))
    });
    expect("workload_shift", &[1], |w| {
        w.calls = |name| {
            if name.starts_with("gemm") || name == "rms_norm" {
                2.0
            } else {
                1.0
            }
        };
    });
    expect("workload_shift", &[1], |w| {
        w.kernel = |_, name| match name {
            "paged_attention" => 3.0,
            "reshape_and_cache" => 1.8,
            "gemm_a<128, 64>" | "gemm_b" => 1.15,
            "rotary" | "rms_norm" | "silu_and_mul" => 1.5,
            _ => 1.0,
        };
    });
}

#[test]
fn link_and_rank_causes() {
    expect("nvlink_contention", &[2], |w| {
        w.link_bps = 6e10;
        w.transfer_factor = 1.8;
        w.kernel = |_, _| 1.2;
        w.gpu_mem_pct = 95.0;
    });
    expect("pcie_contention", &[1, 2], |w| {
        w.pcie_bps = 1.2e10;
        w.copy_factor = 4.0;
    });
    expect("network_contention", &[2], |w| {
        w.net_bps = 2.4e9;
        w.transfer_factor = 4.0;
    });
    expect("collective_straggler", &[2, 4], |w| {
        w.late_us = 4000.0;
        w.kernel = |rank, _| if rank == 1 { 1.3 } else { 1.0 };
    });
    expect("collective_straggler", &[2], |w| w.late_us = 4000.0);
}

#[test]
fn an_improvement_has_the_same_cause_the_other_way() {
    let sick = World {
        cycles: 30,
        gpu_mhz: 600.0,
        kernel: |_, _| 2.1,
        ..World::default()
    };
    let healthy = World {
        cycles: 30,
        ..World::default()
    };
    let report = compare(&sick.side(1), &healthy.side(2), &options());
    assert_eq!(
        (report.verdict.cause.as_str(), report.verdict.direction),
        ("gpu_frequency", "better")
    );
    assert_eq!(report.cycle_time[0].change, Change::Faster);
}

#[test]
fn new_and_gone_functions() {
    let extra = World {
        cycles: 30,
        extra: Some(("debug_copy", 900.0)),
        ..World::default()
    };
    let plain = World {
        cycles: 30,
        ..World::default()
    };
    let report = compare(&plain.side(1), &extra.side(2), &options());
    let new = &report.findings[0];
    assert_eq!(
        (new.name.as_str(), new.change, new.verdict),
        ("debug_copy", Change::New, Statement::Changed)
    );
    assert!((new.effect.delta - 900.0).abs() < 10.0);
    let report = compare(&extra.side(1), &plain.side(2), &options());
    assert_eq!(
        (report.findings[0].name.as_str(), report.findings[0].change),
        ("debug_copy", Change::Gone)
    );
}

#[test]
fn another_anchor_is_not_comparable_but_has_a_cause() {
    let healthy = World {
        cycles: 30,
        ..World::default()
    };
    let sick = World {
        anchor: "Layer.forward",
        cpu_mhz: 900.0,
        ..healthy.clone()
    };
    let report = compare(&healthy.side(1), &sick.side(2), &options());
    assert_eq!(report.comparability.status, Status::NotComparable);
    assert!(report.findings.is_empty());
    assert_eq!(report.verdict.cause, "cpu_frequency");
    let mut forced = options();
    forced.force = true;
    let report = compare(&healthy.side(1), &sick.side(2), &forced);
    assert!(report.comparability.forced && !report.findings.is_empty());
}

#[test]
fn exchanging_sides_flips_signs_and_nothing_else() {
    let one = World {
        cycles: 25,
        ..World::default()
    };
    let two = World {
        cycles: 31,
        kernel: |_, name| if name == "gemm_b" { 1.2 } else { 1.0 },
        ..World::default()
    };
    let (a, b) = (one.side(1), two.side(2));
    let (there, back) = (compare(&a, &b, &options()), compare(&b, &a, &options()));
    let set = |report: &Report| {
        let mut all: Vec<(String, bool)> = report
            .findings
            .iter()
            .map(|f| (f.name.clone(), f.verdict == Statement::Changed))
            .collect();
        all.sort();
        all
    };
    assert_eq!(set(&there), set(&back));
    for finding in &there.findings {
        let other = back
            .findings
            .iter()
            .find(|f| f.name == finding.name)
            .unwrap();
        assert!((finding.effect.delta + other.effect.delta).abs() < 1e-6);
        assert_eq!(finding.effect.p, other.effect.p);
        let (i, j) = (
            finding.effect.interval.unwrap(),
            other.effect.interval.unwrap(),
        );
        assert!((i[0] + j[1]).abs() < 1e-6 * (1.0 + i[0].abs()));
    }
}

#[test]
fn threads_row_order_and_process_numbers_do_not_matter() {
    let world = World {
        cycles: 20,
        ranks: 2,
        ..World::default()
    };
    let slow = World {
        kernel: |_, name| if name == "gemm_b" { 1.2 } else { 1.0 },
        ..world.clone()
    };
    let (a, b) = (world.side(1), slow.side(2));
    let json = |report: &Report| report.to_json().unwrap();
    let with = |threads: usize| {
        let mut options = options();
        options.threads = threads;
        json(&compare(&a, &b, &options))
    };
    let one = with(1);
    assert_eq!(one, with(2));
    assert_eq!(one, with(5));

    let (perf, counters) = slow.files(2);
    let (header, rows) = perf.split_once('\n').unwrap();
    let mut lines: Vec<&str> = rows.lines().collect();
    lines.reverse();
    let turned = format!("{header}\n{}\n", lines.join("\n"));
    let turned =
        perf_compare::Side::from_csv("simulated", turned.as_bytes(), Some(counters.as_bytes()))
            .unwrap();
    assert_eq!(json(&compare(&a, &turned, &options())), one);

    let renamed = World { pid: 77, ..slow };
    let mut renamed = compare(&a, &renamed.side(2), &options());
    let mut plain = compare(&a, &b, &options());
    for role in renamed.roles.iter_mut().chain(&mut plain.roles) {
        role.pids = [0, 0];
    }
    assert_eq!(json(&renamed), json(&plain));
}
