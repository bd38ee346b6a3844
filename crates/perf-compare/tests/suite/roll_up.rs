//! What several functions show together: classes of kernels, waits, launches, copies that were not there before, late ranks.

use std::fmt::Write as _;
use std::path::Path;

use perf_compare::document::{Report, Status};
use perf_compare::{LoadOptions, Options, Side, compare, load};

const HEADER: &str = "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,\
interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name,copy_bytes,kernel_class\n";

/// Name, device, type, microseconds per cycle, calls, bytes, class.
type Row<'a> = (&'a str, &'a str, &'a str, f64, u32, &'a str, &'a str);

/// From -1 to 1, in no order.
fn noise(at: usize) -> f64 {
    let mixed = (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
    mixed as f64 / f64::from(1_u32 << 23) - 1.0
}

/// The table of `n` cycles: `of` gives the length of a cycle and its rows. Durations vary by 1 %.
fn table<'a>(n: usize, seed: usize, of: &dyn Fn(usize) -> (f64, Vec<Row<'a>>)) -> String {
    let mut text = HEADER.to_owned();
    let mut at = 0.0;
    for cycle in 0..n {
        let vary = |place: usize| 1.0 + 0.01 * noise(100_003 * seed + 1_009 * cycle + place);
        let (length, rows) = of(cycle);
        let length = length * vary(999);
        for (place, (name, device, kind, us, calls, bytes, class)) in rows.into_iter().enumerate() {
            let us = us * vary(place);
            let _ = writeln!(
                text,
                "{},1,h,1,{name},N/A,{device},{kind},,,{us:.4}, ,step,{length:.4},{at:.1},{calls},{name},{bytes},{class}",
                cycle + 1
            );
        }
        at += length;
    }
    text
}

fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 1_999;
    options.resamples = 299;
    options
}

/// Compares two sides of 30 cycles.
fn judge<'a>(of: &dyn Fn(usize, usize) -> (f64, Vec<Row<'a>>)) -> Report {
    let [a, b] = [0, 1].map(|side| {
        let text = table(30, side + 1, &|cycle| of(side, cycle));
        Side::from_csv("x", text.as_bytes(), None::<&[u8]>).unwrap()
    });
    compare(&a, &b, &options())
}

/// Compares two sides of 30 cycles whose steps have these names.
fn judge_named<'a>(names: [&str; 2], of: &dyn Fn(usize, usize) -> (f64, Vec<Row<'a>>)) -> Report {
    let [a, b] = [0, 1].map(|side| {
        let text = table(30, side + 1, &|cycle| of(side, cycle));
        let text = text.replace(",step,", &format!(",{},", names[side]));
        Side::from_csv("x", text.as_bytes(), None::<&[u8]>).unwrap()
    });
    compare(&a, &b, &options())
}

fn kernel<'a>(name: &'a str, us: f64, class: &'a str) -> Row<'a> {
    (name, "GPU 0", "gpu_compute", us, 10, "", class)
}

fn host<'a>(name: &'a str, kind: &'a str, us: f64, calls: u32) -> Row<'a> {
    (name, "Host", kind, us, calls, "", "")
}

/// Kernels of 10 ms: 6 of products in three kernels, 2 of attention, 1 of norms, 1 of others.
fn step<'a>(factor: &dyn Fn(&str) -> f64) -> (f64, Vec<Row<'a>>) {
    let kernels = [
        ("k1", 3_000.0, "gemm"),
        ("k2", 2_000.0, "gemm"),
        ("k3", 1_000.0, "moe_gemm"),
        ("k4", 2_000.0, "attention"),
        ("k5", 600.0, "norm"),
        ("k6", 400.0, "norm"),
        ("k7", 700.0, "elementwise"),
        ("k8", 300.0, "elementwise"),
    ];
    let rows: Vec<Row<'a>> = kernels
        .into_iter()
        .map(|(name, us, class)| kernel(name, us * factor(class), class))
        .collect();
    let length = rows.iter().map(|row| row.3).sum::<f64>() + 1_000.0;
    (length, rows)
}

#[test]
fn a_class_that_is_slower_alike_is_one_cause() {
    let report = judge(&|side, _| {
        step(&|class| match class {
            "gemm" | "moe_gemm" if side == 1 => 1.25,
            _ => 1.0,
        })
    });
    assert_eq!(report.verdict.cause, "gpu_kernel", "{}", report.headline);
    assert!(
        report
            .headline
            .starts_with("All gemm and moe_gemm kernels of GPU 0 are slower by 2"),
        "{}",
        report.headline
    );
    // By hand: 6 ms of products become 7.5 ms.
    let mut rows = report.verdict.evidence.iter();
    let row = rows.find(|row| row.metric == "kernel_class_us").unwrap();
    assert!((row.effect - 1_500.0).abs() < 60.0, "{row:?}");
    let back = judge(&|side, _| {
        step(&|class| match class {
            "gemm" | "moe_gemm" if side == 0 => 1.25,
            _ => 1.0,
        })
    });
    assert_eq!(
        (back.verdict.cause.as_str(), back.verdict.direction),
        ("gpu_kernel", "better")
    );
}

#[test]
fn all_kernels_are_slower_only_if_the_large_ones_are() {
    let small = judge(&|side, _| {
        step(&|class| match class {
            "norm" | "elementwise" if side == 1 => 2.0,
            _ => 1.0,
        })
    });
    assert_eq!(small.verdict.cause, "gpu_kernel", "{}", small.headline);
    assert!(
        small.headline.contains("norm and elementwise"),
        "{}",
        small.headline
    );
    let all = judge(&|side, _| step(&|_| if side == 1 { 1.16 } else { 1.0 }));
    assert_eq!(all.verdict.cause, "gpu_slow", "{}", all.headline);
}

#[test]
fn a_lock_in_a_function_that_takes_requests_waits_for_input_and_elsewhere_not() {
    // Three of five steps wait 8 ms for requests: the median of the waits is far from their mean.
    let of = |kind: &'static str| {
        judge(&|side, cycle| {
            let waits = if side == 1 && (cycle % 5 < 3 || kind == "blocked") {
                8_000.0
            } else {
                0.0
            };
            let (length, mut rows) = step(&|_| 1.0);
            rows.push(host("schedule", "python", 500.0, 1));
            rows.push(host(
                "<method 'acquire' of '_thread.lock' objects>",
                kind,
                waits + 2.0,
                1,
            ));
            (length + waits, rows)
        })
    };
    let idle = of("requests");
    assert_eq!(idle.verdict.cause, "waiting_for_input", "{}", idle.headline);
    assert!(idle.headline.contains("acquire"), "{}", idle.headline);
    let locked = of("blocked");
    assert_eq!(locked.verdict.cause, "host_code", "{}", locked.headline);
    assert!(
        locked.headline.contains("waits longer in") && locked.headline.contains("acquire"),
        "{}",
        locked.headline
    );
}

#[test]
fn copies_that_were_not_there_before_count_from_zero() {
    let report = judge(&|side, _| {
        let (length, mut rows) = step(&|_| 1.0);
        if side == 1 {
            rows.push((
                "Memcpy HtoD (Pageable -> Device)",
                "GPU 0",
                "gpu_memcpy_h2d",
                1_500.0,
                4,
                "4096",
                "",
            ));
        }
        (length + if side == 1 { 1_500.0 } else { 0.0 }, rows)
    });
    assert_eq!(
        report.verdict.cause, "workload_shift",
        "{}",
        report.headline
    );
    assert!(
        report
            .headline
            .starts_with("New copies to the GPU (4 per cycle)"),
        "{}",
        report.headline
    );
}

#[test]
fn graphs_that_are_launched_no_longer_are_named() {
    let report = judge(&|side, _| {
        let (length, mut rows) = step(&|_| 1.0);
        match side {
            0 => rows.push(host("cudaGraphLaunch", "launch", 500.0, 1)),
            _ => rows.push(host("model_forward", "python", 3_000.0, 1)),
        }
        rows.push(host(
            "cudaLaunchKernel",
            "launch",
            if side == 1 { 2_000.0 } else { 20.0 },
            if side == 1 { 400 } else { 4 },
        ));
        (length + if side == 1 { 2_000.0 } else { 0.0 }, rows)
    });
    assert_eq!(report.verdict.cause, "host_code", "{}", report.headline);
    assert!(
        report
            .headline
            .contains("1 -> 0 graph launches and 4 -> 400 other launch calls"),
        "{}",
        report.headline
    );
}

#[test]
fn time_in_which_nothing_was_recorded_is_not_blamed_on_code() {
    let report = judge(&|side, _| {
        let (length, mut rows) = step(&|_| 1.0);
        rows.push(host("aten::mm", "op", 60.0, 10));
        (length + if side == 1 { 4_000.0 } else { 0.0 }, rows)
    });
    assert_eq!(report.verdict.cause, "host_code", "{}", report.headline);
    assert_eq!(report.verdict.certainty, "possible");
    assert!(
        report
            .headline
            .contains("no function that was recorded on the host"),
        "{}",
        report.headline
    );
    assert!(report.verdict.doubt.is_some());
}

#[test]
fn new_functions_are_new() {
    let report = judge(&|side, _| {
        let (length, mut rows) = step(&|_| 1.0);
        rows.push(host("schedule", "python", 500.0, 1));
        if side == 1 {
            rows.push(host("hipFree", "python", 900.0, 2));
        }
        (length + if side == 1 { 900.0 } else { 0.0 }, rows)
    });
    assert!(
        report.headline.contains("hipFree is new ("),
        "{}",
        report.headline
    );
}

#[test]
fn one_run_cut_in_two_is_drift_although_all_kernels_are_slower() {
    // 60 cycles become 12 % longer in all; the second half is 6 % longer than the first.
    let report = judge(&|side, cycle| {
        let by = 1.0 + 0.12 * (30 * side + cycle) as f64 / 60.0;
        let (length, rows) = step(&|_| by);
        (length, rows)
    });
    assert!(
        report.cycle_time[0].continues_drift,
        "{:?}",
        report.cycle_time[0].effect
    );
    assert_eq!(report.verdict.cause, "drift", "{}", report.headline);
}

/// Two ranks in files of their own, the host of rank 1 by `late` microseconds longer.
fn ranks(folder: &Path, seed: usize, late: [f64; 2]) -> Side {
    std::fs::create_dir_all(folder).unwrap();
    for (rank, own) in late.into_iter().enumerate() {
        let longest = late[0].max(late[1]);
        let device = ["GPU 0", "GPU 1"][rank];
        let text = table(30, 10 * seed + rank, &|_| {
            let (length, rows) = step(&|_| 1.0);
            let mut rows: Vec<Row<'_>> = rows
                .into_iter()
                .map(|row| (row.0, device, row.2, row.3, row.4, row.5, row.6))
                .collect();
            rows.push(host("experts_forward", "python", 6_000.0 + own, 20));
            rows.push(host("schedule", "python", 4_000.0, 1));
            let wait = 50.0 + longest - own;
            rows.push((
                "ncclDevKernel_AllReduce",
                device,
                "gpu_comm",
                2_000.0 + wait,
                20,
                "",
                "",
            ));
            (length + 2_000.0 + longest, rows)
        });
        std::fs::write(folder.join(format!("rank{rank}_perf_data.csv")), text).unwrap();
    }
    load(folder, &LoadOptions::default()).unwrap()
}

#[test]
fn the_host_of_one_rank_is_late_without_records_of_threads() {
    let folder = tempfile::tempdir().unwrap();
    let a = ranks(&folder.path().join("a"), 1, [0.0, 0.0]);
    let b = ranks(&folder.path().join("b"), 2, [0.0, 1_500.0]);
    let report = compare(&a, &b, &options());
    assert_ne!(report.comparability.status, Status::NotComparable);
    assert_eq!(
        report.verdict.cause, "collective_straggler",
        "{}",
        report.headline
    );
    assert!(
        report.headline.starts_with("Rank 1 (GPU 1)"),
        "{}",
        report.headline
    );
    // On both ranks alike no rank is late.
    let both = ranks(&folder.path().join("c"), 3, [1_500.0, 1_500.0]);
    let report = compare(&a, &both, &options());
    assert_eq!(report.verdict.cause, "host_code", "{}", report.headline);
}

#[test]
fn a_shorter_step_for_fewer_requests_is_not_called_faster() {
    let names = ["step[DECODE bs=64 toks=64]", "step[DECODE bs=24 toks=24]"];
    let of = |factor: f64| {
        judge_named(names, &|side, _| {
            step(&|_| if side == 1 { factor } else { 1.0 })
        })
    };
    // By hand: 11 ms for 64 requests are 171.9 us each, 10.7 ms for 24 are 445.8.
    let told = of(0.97).headline;
    assert!(told.contains("64 -> 24 requests"), "{told}");
    assert!(
        told.contains("cycle time per request 171.") && told.contains("-> 445."),
        "{told}"
    );
    assert!(told.contains("(+159"), "{told}");
    // At one batch size nothing is said of requests.
    let same = judge_named([names[0]; 2], &|side, _| {
        step(&|_| if side == 1 { 1.2 } else { 1.0 })
    });
    assert!(!same.headline.contains("per request"), "{}", same.headline);
}

#[test]
fn layers_that_are_slower_alike_are_one_finding() {
    const LAYERS: usize = 61;
    let names: Vec<String> = (0..LAYERS)
        .map(|at| format!("nn.Module: DecoderLayer_{at}"))
        .collect();
    let of = |more: &dyn Fn(usize) -> f64| {
        judge(&|side, _| {
            let (mut length, mut rows) = step(&|_| 1.0);
            for (name, us) in [
                ("schedule", 900.0),
                ("sample", 700.0),
                ("detokenize", 600.0),
            ] {
                rows.push(host(name, "python", us, 1));
                length += us;
            }
            for (at, name) in names.iter().enumerate() {
                let us = 100.0 + if side == 1 { more(at) } else { 0.0 };
                length += us;
                rows.push(host(name, "python", us, 1));
            }
            (length, rows)
        })
    };
    // Each layer takes 20 us longer, less than half a percent of the step; all of them 1,220 us.
    let all = of(&|_| 20.0);
    assert_eq!(all.verdict.cause, "host_code", "{}", all.headline);
    assert!(
        all.headline
            .contains("61 host functions DecoderLayer_* slower"),
        "{}",
        all.headline
    );
    let first = &all.findings[0];
    assert_eq!(first.members, Some(LAYERS), "{first:?}");
    assert!((first.effect.delta - 1_220.0).abs() < 60.0, "{first:?}");
    let parts = all.findings.iter().filter(|f| f.part_of.is_some());
    assert_eq!(parts.count(), LAYERS);
    // One slow layer is that layer.
    let one = of(&|at| if at == 7 { 1_220.0 } else { 0.0 });
    assert!(
        one.headline.contains("DecoderLayer_7 slower"),
        "{}",
        one.headline
    );
    assert!(
        one.findings
            .iter()
            .all(|f| f.members.is_none() && f.part_of.is_none())
    );
    // Nor is there anything where nothing changed.
    let none = of(&|_| 0.0);
    assert_eq!(none.verdict.cause, "none", "{}", none.headline);
    assert!(none.findings.iter().all(|f| f.members.is_none()));
}

#[test]
fn twice_the_layers_for_the_same_requests_is_another_model() {
    let names = ["step[DECODE bs=32 toks=32]"; 2];
    let of = |times: u32, only: Option<&str>| {
        judge_named(names, &|side, _| {
            let (length, rows) = step(&|_| 1.0);
            let mut added = 0.0;
            let mut rows: Vec<Row<'_>> = rows
                .into_iter()
                .map(|mut row| {
                    if side == 1 && only.is_none_or(|name| name == row.0) {
                        added += row.3 * f64::from(times - 1);
                        row.3 *= f64::from(times);
                        row.4 *= times;
                    }
                    row
                })
                .collect();
            rows.push(("head", "GPU 0", "gpu_compute", 400.0, 1, "", "gemm"));
            (length + added, rows)
        })
    };
    let twice = of(2, None);
    assert_eq!(
        twice.comparability.status,
        Status::NotComparable,
        "{}",
        twice.headline
    );
    assert!(
        twice.headline.contains("2 times as often per step"),
        "{}",
        twice.headline
    );
    // One kernel that is called more often is no other model.
    let one = of(2, Some("k1"));
    assert_ne!(
        one.comparability.status,
        Status::NotComparable,
        "{}",
        one.headline
    );
}

#[test]
fn a_kernel_in_place_of_another_is_named_with_it() {
    let report = judge(&|side, _| {
        let (length, mut rows) = step(&|_| 1.0);
        if side == 1 {
            rows[0].0 = "fallback_kernel";
            rows[0].3 += 1_500.0;
        }
        (length + 1_500.0 * side as f64, rows)
    });
    assert_eq!(report.verdict.cause, "gpu_kernel", "{}", report.headline);
    let told = &report.headline;
    assert!(
        told.contains("fallback_kernel is new and k1 is gone (3.0"),
        "{told}"
    );
}

#[test]
fn the_launches_of_a_step_are_those_of_one_rank() {
    let folder = tempfile::tempdir().unwrap();
    let side = |name: &str, seed: usize, lost: bool| {
        let folder = folder.path().join(name);
        std::fs::create_dir_all(&folder).unwrap();
        for rank in 0..2 {
            let device = ["GPU 0", "GPU 1"][rank];
            let text = table(30, 10 * seed + rank, &|_| {
                let (length, rows) = step(&|_| 1.0);
                let mut rows: Vec<Row<'_>> = rows
                    .into_iter()
                    .map(|row| (row.0, device, row.2, row.3, row.4, row.5, row.6))
                    .collect();
                let (launch, calls, more) = match lost {
                    true => (host("cudaLaunchKernel", "launch", 2_000.0, 400), 0, 3_000.0),
                    false => (host("cudaLaunchKernel", "launch", 20.0, 4), 1, 0.0),
                };
                rows.push(launch);
                if calls > 0 {
                    rows.push(host("cudaGraphLaunch", "launch", 500.0, calls));
                } else {
                    rows.push(host("model_forward", "python", 3_000.0, 1));
                }
                (length + more, rows)
            });
            std::fs::write(folder.join(format!("rank{rank}_perf_data.csv")), text).unwrap();
        }
        load(&folder, &LoadOptions::default()).unwrap()
    };
    let report = compare(&side("a", 1, false), &side("b", 2, true), &options());
    let told = &report.headline;
    assert!(
        told.contains("1 -> 0 graph launches and 4 -> 400 other launch calls"),
        "{told}"
    );
}
