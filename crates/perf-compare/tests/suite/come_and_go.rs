//! Faults that come and go, grow, or hide: in every second cycle, more in each cycle, behind slow neighbours, behind other work, in
//! work that ran at once before.

use std::fmt::Write as _;

use perf_compare::document::{Report, Statement};
use perf_compare::{FailOn, Gate, Options, Side, compare};

use crate::simulate::Noise;

const HEADER: &str = "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,\
interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name,copy_bytes,device_busy_us,exposed_comm_us\n";

/// Name, device, type, microseconds, calls, bytes.
type Row = (&'static str, &'static str, &'static str, f64, u32, u64);

/// One cycle: the work of its step, microseconds beside its functions, what ran, and how long devices were busy and did nothing but
/// communicate.
#[derive(Clone, Default)]
struct Step {
    name: String,
    beside: f64,
    rows: Vec<Row>,
    device: Option<(f64, f64)>,
}

const KERNELS: [(&str, f64); 8] = [
    ("gemm_qkv", 400.0),
    ("gemm_up", 700.0),
    ("gemm_down", 350.0),
    ("paged_attention", 300.0),
    ("rms_norm_kernel", 60.0),
    ("silu_and_mul_kernel", 50.0),
    ("rotary_kernel", 40.0),
    ("argmax_kernel", 30.0),
];

/// A step of these kernels, each times a factor, a function of the host, and half a millisecond beside.
fn step(factor: impl Fn(&str) -> f64) -> Step {
    let kernels = KERNELS.iter().map(|(name, us)| {
        let us = us * factor(name);
        (*name, "GPU 0", "gpu_compute", us, 12, 0)
    });
    let host = ("schedule", "Host", "python", 150.0, 1, 0);
    Step {
        name: "step".to_owned(),
        beside: 500.0,
        rows: kernels.chain([host]).collect(),
        device: None,
    }
}

/// Cycles as long as all functions and what is beside them, times 1 % of noise and `common` for all of a cycle.
fn side(seed: u64, n: usize, common: &dyn Fn(usize) -> f64, of: &dyn Fn(usize) -> Step) -> Side {
    let mut noise = Noise::new(seed);
    let (mut rows, mut at) = (HEADER.to_owned(), 0.0);
    for cycle in 0..n {
        let step = of(cycle);
        let all = common(cycle);
        let times: Vec<f64> = (step.rows.iter())
            .map(|row| row.3 * all * (1.0 + 0.01 * noise.normal()))
            .collect();
        let overlapped = step.device.map_or(0.0, |(busy, _)| {
            let on_gpu = step
                .rows
                .iter()
                .zip(&times)
                .filter(|(row, _)| row.1 == "GPU 0");
            on_gpu.map(|(_, us)| us).sum::<f64>() - busy
        });
        let length = step.beside * all + times.iter().sum::<f64>() - overlapped;
        let device = step.device.map_or(",".to_owned(), |(busy, exposed)| {
            format!("{busy},{exposed}")
        });
        for ((name, place, kind, _, calls, bytes), us) in step.rows.iter().zip(times) {
            let bytes = if *bytes > 0 {
                bytes.to_string()
            } else {
                String::new()
            };
            let _ = writeln!(
                rows,
                "{},1,h,1,{name},N/A,{place},{kind},,,{us:.4}, ,{},{length:.4},{at:.1},{calls},{name},{bytes},{device}",
                cycle + 1,
                step.name
            );
        }
        at += length;
    }
    Side::from_csv("x", rows.as_bytes(), None::<&[u8]>).unwrap()
}

fn judge(seed: u64, n: usize, of: &dyn Fn(usize, usize) -> Step) -> Report {
    let steady = |_: usize| 1.0;
    let [a, b] = [(0, 0), (1, 1)]
        .map(|(own, of_side)| side(2 * seed + own, n, &steady, &|at| of(of_side, at)));
    compare(&a, &b, &options())
}

fn options() -> Options {
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 299;
    options
}

/// Correlation 0.9 from cycle to cycle, 5 % wide.
fn slow(seed: u64, n: usize) -> Vec<f64> {
    let mut noise = Noise::new(seed);
    let mut state = noise.normal();
    let next = |_| {
        state = 0.9 * state + (1.0_f64 - 0.81).sqrt() * noise.normal();
        1.0 + 0.05 * state
    };
    (0..n).map(next).collect()
}

#[test]
fn lost_overlap_is_named_with_its_numbers() {
    // 600 us of collectives beside 1930 us of kernels, then after them.
    let of = |is_lost: bool| {
        let mut step = step(|_| 1.0);
        step.rows
            .push(("ncclDevKernel_AllReduce", "GPU 0", "gpu_comm", 600.0, 24, 0));
        step.device = Some(if is_lost {
            (2530.0, 600.0)
        } else {
            (1935.0, 5.0)
        });
        step
    };
    for seed in 1..=3 {
        let report = judge(seed, 30, &|side, _| of(side == 1));
        let told = &report.headline;
        assert_eq!(report.verdict.cause, "communication_exposed", "{told}");
        assert!(
            told.starts_with("Communication overlaps with computation no longer: 5"),
            "{told}"
        );
        assert!(told.contains("99 % -> 0 %"), "{told}");
        let row = |metric: &str| {
            report
                .counters
                .iter()
                .find(|row| row.metric == metric)
                .unwrap()
        };
        // The cycle without what the GPU did: as long as before, whatever the sum of kernels is.
        let idle = row("device_idle_us");
        assert!(
            (idle.baseline - 650.0).abs() < 20.0 && idle.effect.abs() < 20.0,
            "{idle:?}"
        );
        let back = judge(seed, 30, &|side, _| of(side == 0));
        assert_eq!(
            back.verdict.cause, "communication_exposed",
            "{}",
            back.headline
        );
        assert_eq!(back.verdict.direction, "better");
        let same = judge(seed, 30, &|_, _| of(false));
        assert_eq!(same.verdict.cause, "none", "{}", same.headline);
        // Slower collectives are not the overlap's.
        let slower = judge(seed, 30, &|side, _| {
            let mut step = of(false);
            if side == 1 {
                step.rows.last_mut().unwrap().3 = 2900.0;
                step.device = Some((2930.0, 1000.0));
            }
            step
        });
        assert_ne!(
            slower.verdict.cause, "communication_exposed",
            "{}",
            slower.headline
        );
    }
}

/// Steps of so many requests and context tokens each.
fn serving(requests: u32, factor: impl Fn(&str) -> f64) -> Step {
    let context = 1200 * requests;
    Step {
        name: format!(
            "execute_context_0(sq0sk0sqsq0sqsk0)_generation_{requests}(sq{requests}sk{context}sqsq{requests}sqsk{context})"
        ),
        ..step(factor)
    }
}

#[test]
fn all_kernels_slower_is_told_apart_from_more_work() {
    // Attention follows its work: half as much again, and all kernels are 1.4 times slower.
    let follows = |name: &str| if name == "paged_attention" { 1.35 } else { 1.0 };
    for seed in 1..=3 {
        let report = judge(seed, 30, &|side, _| match side {
            0 => serving(16, |_| 1.0),
            _ => serving(24, |name| 1.4 * follows(name)),
        });
        let told = &report.headline;
        assert_eq!(report.verdict.cause, "gpu_slow", "{told}");
        assert_eq!(report.verdict.certainty, "possible");
        // 1.4 x 1.35 / (1.5 x 1.08) is the least, 1.4 the most.
        let [low, high] = report
            .workload
            .as_ref()
            .unwrap()
            .kernels_beyond_pct
            .unwrap();
        assert!(
            (low - 16.7).abs() < 2.0 && (high - 40.0).abs() < 2.0,
            "{low} {high}"
        );
        assert!(
            told.contains(" % beyond what the work of a step explains"),
            "{told}"
        );

        // More work alone, and one kernel alone, are not all kernels.
        let work = judge(seed, 30, &|side, _| match side {
            0 => serving(16, |_| 1.0),
            _ => serving(24, follows),
        });
        assert_eq!(work.verdict.cause, "workload_shift", "{}", work.headline);
        let kernel = judge(seed, 30, &|side, _| match side {
            0 => serving(16, |_| 1.0),
            _ => serving(24, |name| {
                follows(name) * if name == "gemm_up" { 2.0 } else { 1.0 }
            }),
        });
        assert_ne!(kernel.verdict.cause, "gpu_slow", "{}", kernel.headline);
        assert!(kernel.headline.contains("gemm_up"), "{}", kernel.headline);
    }
}

#[test]
fn what_is_slow_every_now_and_then_is_named() {
    let host = |is_slow: bool| {
        let mut step = step(|_| 1.0);
        if is_slow {
            step.rows.last_mut().unwrap().3 += 900.0;
        }
        step
    };
    let gpu = |is_slow: bool| step(|_| if is_slow { 1.5 } else { 1.0 });
    // In every second cycle, in every third by chance, in stretches of five.
    let kinds: [fn(usize) -> bool; 3] = [
        |at| at % 2 == 1,
        |at| at * 37 % 101 < 33,
        |at| at / 5 % 2 == 1,
    ];
    for (seed, is_slow) in (1..).zip(kinds) {
        let report = judge(seed, 40, &|side, at| host(side == 1 && is_slow(at)));
        let told = &report.headline;
        assert_eq!(report.verdict.cause, "pauses", "{told}");
        assert!(
            told.contains("of 40 cycles of the candidate are slow every now and then"),
            "{told}"
        );
        assert!(
            told.contains("in them: schedule +9") || told.contains("in them: schedule +8"),
            "{told}"
        );
        let often = (0..40).filter(|at| is_slow(*at)).count();
        assert!(told.starts_with(&format!("{often} of 40")), "{told}");
        let back = judge(seed, 40, &|side, at| host(side == 0 && is_slow(at)));
        assert_eq!(back.verdict.direction, "better", "{}", back.headline);
        let report = judge(seed, 40, &|side, at| gpu(side == 1 && is_slow(at)));
        assert!(
            report.headline.contains("all kernels of GPU 0, slower by "),
            "{}",
            report.headline
        );
        // On both sides it is no change.
        let same = judge(seed, 40, &|_, at| host(is_slow(at)));
        assert_eq!(same.verdict.cause, "none", "{}", same.headline);
        // Nor where those steps did more, as their names have it.
        let more = judge(seed, 40, &|side, at| {
            let is_more = side == 1 && is_slow(at);
            serving(if is_more { 48 } else { 16 }, |_| {
                if is_more { 1.5 } else { 1.0 }
            })
        });
        assert_ne!(more.verdict.cause, "pauses", "{}", more.headline);
    }
}

#[test]
fn two_levels_that_come_by_chance_on_both_sides_are_no_fault() {
    let mut called = 0;
    for seed in 0..60 {
        let level = |own: usize| -> Vec<bool> {
            let mut noise = Noise::new(900 + 2 * seed + own as u64);
            let mut state = noise.uniform() < 0.5;
            let next = |_| {
                state ^= noise.uniform() < 0.1;
                state
            };
            (0..40).map(next).collect()
        };
        let levels = [level(0), level(1)];
        let report = judge(seed, 40, &|side, at| {
            step(|_| if levels[side][at] { 1.15 } else { 1.0 })
        });
        called += u32::from(!["none", "drift"].contains(&report.verdict.cause.as_str()));
    }
    // 5 % of 60 and two standard errors.
    assert!(called <= 6, "{called} of 60");
}

#[test]
fn what_grows_within_the_candidate_is_named() {
    for seed in 1..=3 {
        let leak = judge(seed, 36, &|side, at| {
            let mut step = step(|_| 1.0);
            if side == 1 {
                step.rows.last_mut().unwrap().3 += 30.0 * at as f64;
            }
            step
        });
        let told = &leak.headline;
        assert_eq!(
            (leak.verdict.cause.as_str(), leak.verdict.direction),
            ("drift", "worse"),
            "{told}"
        );
        assert!(told.contains("what grows: schedule +"), "{told}");
        let grown = &leak.cycle_time[0].growth.as_ref().unwrap().functions[0];
        // From the middle of the first cycles to that of the last: 33 cycles.
        assert!((grown.excess_us - 990.0).abs() < 60.0, "{grown:?}");
        let heat = judge(seed, 36, &|side, at| {
            step(|_| {
                1.0 + if side == 1 {
                    0.4 * at as f64 / 36.0
                } else {
                    0.0
                }
            })
        });
        assert_eq!(heat.verdict.cause, "drift", "{}", heat.headline);
        assert!(
            heat.headline.contains("all kernels of GPU 0"),
            "{}",
            heat.headline
        );
        // Both sides alike: that is no growth of the candidate.
        let both = judge(seed, 36, &|_, at| step(|_| 1.0 + 0.4 * at as f64 / 36.0));
        assert!(both.cycle_time[0].growth.is_none(), "{}", both.headline);
    }
    // What wanders does not grow.
    let mut called = 0;
    for seed in 0..60 {
        let common = [slow(3 * seed, 40), slow(3 * seed + 1, 40)];
        let [a, b] = [0, 1].map(|own| {
            let all = &common[own];
            side(seed + own as u64, 40, &|at| all[at], &|_| step(|_| 1.0))
        });
        let report = compare(&a, &b, &options());
        called += u32::from(report.cycle_time[0].growth.is_some());
        called += u32::from(report.verdict.cause == "pauses");
    }
    assert!(called <= 3, "{called} of 60");
}

#[test]
fn contexts_that_grow_on_both_sides_hide_no_leak() {
    let leak = judge(4, 36, &|side, at| {
        let mut step = step(|_| 1.0);
        step.name = format!("execute_context_0(0)_generation_4({})", 400 + 4 * at);
        if side == 1 {
            step.rows.last_mut().unwrap().3 += 30.0 * at as f64;
        }
        step
    });
    let told = &leak.headline;
    assert!(told.contains("what grows: schedule +"), "{told}");
}

#[test]
fn what_begins_within_the_candidate_is_named() {
    for seed in 1..=3 {
        // One kernel from a cycle on, all kernels from the middle on, and a function of the host for a while.
        let kernel = judge(seed, 40, &|side, at| {
            let is_slow = side == 1 && at >= 27;
            step(|name| match name {
                "gemm_up" if is_slow => 1.5,
                _ => 1.0,
            })
        });
        let clock = judge(seed, 26, &|side, at| {
            step(|_| if side == 1 && at >= 13 { 1.25 } else { 1.0 })
        });
        let host = judge(seed, 40, &|side, at| {
            let mut step = step(|_| 1.0);
            if side == 1 && (12..24).contains(&at) {
                step.rows.last_mut().unwrap().3 += 400.0;
            }
            step
        });
        for (report, when, what) in [
            (&kernel, "from cycle 28 on", "what takes longer: gemm_up +"),
            (&clock, "from cycle 14 on", "all kernels of GPU 0"),
            (&host, "in cycles 13 to 24", "what takes longer: schedule +"),
        ] {
            let told = &report.headline;
            assert_eq!(report.verdict.cause, "drift", "{told}");
            assert!(told.contains(when) && told.contains(what), "{told}");
            assert_eq!(report.gate(FailOn::Regressed, 0.0), Gate::Worse, "{told}");
        }
        // Other work of the steps explains it, and so does a baseline that does the same.
        let work = judge(seed, 40, &|side, at| {
            let is_more = side == 1 && at >= 27;
            let mut step = step(|_| if is_more { 1.3 } else { 1.0 });
            let tokens = if is_more { 8 } else { 4 };
            step.name = format!("execute_context_0(0)_generation_{tokens}({tokens})");
            step
        });
        assert!(work.cycle_time[0].growth.is_none(), "{}", work.headline);
        let both = judge(seed, 40, &|_, at| {
            step(|_| if at >= 27 { 1.3 } else { 1.0 })
        });
        assert!(both.cycle_time[0].growth.is_none(), "{}", both.headline);
    }
}

#[test]
fn kernels_that_are_slower_by_other_factors_at_the_same_work_are_no_other_requests() {
    let name = "execute_context_0(0)_generation_8(8)";
    for seed in 1..=3 {
        // Each call waits for 10 us, as where another process takes slices.
        let shared = judge(seed, 30, &|side, _| {
            let mut step = step(|_| 1.0);
            step.name = name.to_owned();
            for row in step.rows.iter_mut().filter(|row| row.1 == "GPU 0") {
                row.3 = row.3 * if side == 1 { 1.1 } else { 1.0 } + 60.0 * side as f64;
            }
            step
        });
        assert_eq!(shared.verdict.cause, "gpu_slow", "{}", shared.headline);
        assert_ne!(shared.verdict.certainty, "sure");
        // Longer contexts make attention slower, and nothing else.
        let longer = judge(seed, 30, &|side, _| {
            let mut step = step(|name| match name {
                "paged_attention" if side == 1 => 2.0,
                _ => 1.0,
            });
            step.name = name.to_owned();
            step
        });
        assert_ne!(longer.verdict.cause, "gpu_slow", "{}", longer.headline);
    }
}

#[test]
fn one_kernel_among_slow_neighbours_is_told_by_the_others() {
    let (mut missed, mut false_ones) = (Vec::new(), 0);
    for seed in 0..20 {
        let common = [slow(5 * seed + 71, 36), slow(5 * seed + 72, 36)];
        let of = |factor: f64| {
            let [a, b] = [0, 1].map(|own| {
                let all = &common[own];
                let factor = if own == 1 { factor } else { 1.0 };
                let of = |name: &str| if name == "gemm_up" { factor } else { 1.0 };
                side(seed + 31 * own as u64, 36, &|at| all[at], &|_| step(of))
            });
            compare(&a, &b, &options())
        };
        let report = of(1.5);
        if report.verdict.cause != "gpu_kernel" || !report.headline.contains("gemm_up") {
            missed.push(report.headline.clone());
        }
        let null = of(1.0);
        for (report, own) in [(&report, "gemm_up"), (&null, "")] {
            let mut others = report.findings.iter();
            let is_false = others
                .any(|f| f.verdict == Statement::Changed && f.class == "kernel" && f.name != own);
            false_ones += u32::from(is_false);
        }
    }
    assert!(missed.len() <= 3, "{missed:#?}");
    // 5 % of 40 pairs and two standard errors.
    assert!(false_ones <= 5, "{false_ones} of 40");
}

#[test]
fn swapped_blocks_are_memory_and_no_other_work() {
    let copies = |to_host: u64, to_device: u64| {
        let mut step = step(|_| 1.0);
        step.rows.push((
            "Memcpy HtoD (Pinned -> Device)",
            "GPU 0",
            "gpu_memcpy_h2d",
            5.0,
            2,
            4096,
        ));
        let us = |bytes: u64| bytes as f64 / 2e4;
        if to_host > 0 {
            step.rows.push((
                "Memcpy DtoH (Device -> Pinned)",
                "GPU 0",
                "gpu_memcpy_d2h",
                us(to_host),
                20,
                to_host,
            ));
        }
        if to_device > 0 {
            step.rows.push((
                "Memcpy HtoD (Pageable -> Device)",
                "GPU 0",
                "gpu_memcpy_h2d",
                us(to_device),
                20,
                to_device,
            ));
            step.rows.push((
                "vllm/v1/kv_offload.py(88): swap_in",
                "Host",
                "python",
                60.0,
                1,
                0,
            ));
        }
        step
    };
    let swapped = judge(5, 30, &|side, _| {
        if side == 1 {
            copies(20 << 20, 19 << 20)
        } else {
            copies(0, 0)
        }
    });
    let told = &swapped.headline;
    assert_eq!(swapped.verdict.cause, "memory_pressure", "{told}");
    assert!(
        told.contains("20.00 MiB out and 19.00 MiB in more"),
        "{told}"
    );
    assert!(told.contains("swap_in is new"), "{told}");
    // One way only is more to copy.
    let one_way = judge(5, 30, &|side, _| {
        if side == 1 {
            copies(0, 19 << 20)
        } else {
            copies(0, 0)
        }
    });
    assert_eq!(
        one_way.verdict.cause, "workload_shift",
        "{}",
        one_way.headline
    );
}

#[test]
fn a_new_call_that_reads_a_value_back_is_named() {
    let report = judge(6, 30, &|side, _| {
        let mut step = step(|_| 1.0);
        if side == 1 {
            step.beside += 700.0;
            step.rows.push((
                "<built-in method item of Tensor object>",
                "Host",
                "python",
                25.0,
                12,
                0,
            ));
            step.rows
                .push(("cudaStreamSynchronize", "Host", "cpu_sync", 900.0, 12, 0));
        }
        step
    });
    let told = &report.headline;
    assert_eq!(report.verdict.cause, "host_code", "{told}");
    assert!(told.contains("cudaStreamSynchronize is new"), "{told}");
    assert!(
        told.contains("item of Tensor object>, which is new"),
        "{told}"
    );
}

#[test]
fn few_samples_of_a_slow_counter_are_no_cause() {
    // A counter of one sample a second that wanders, in cycles of 40 ms: three samples or so on a side.
    let mut called = Vec::new();
    for seed in 0..80 {
        let side = |own: u64| {
            let mut noise = Noise::new(1000 + 2 * seed + own);
            let (mut rows, mut level) = (HEADER.to_owned(), 66.0);
            for cycle in 0..80 {
                level += 1.2 * noise.normal();
                let length = 40_000.0 * (1.0 + 0.01 * noise.normal());
                let write = 300.0 * (1.0 + 0.02 * noise.normal());
                let status = if cycle % 25 == 3 { " " } else { "**" };
                for (name, place, kind, us, metric) in [
                    ("gemm", "GPU 0", "gpu_compute", 30_000.0, "N/A"),
                    ("write", "Host", "disk_read_and_write", write, "disk_usage"),
                ] {
                    let level = if metric == "N/A" {
                        String::new()
                    } else {
                        format!("{level}")
                    };
                    let _ = writeln!(
                        rows,
                        "{},1,h,1,{name},{metric},{place},{kind},{level},0,{us:.3},{status},step,{length:.3},{},1,{name},,,",
                        cycle + 1,
                        cycle * 40_000
                    );
                }
            }
            Side::from_csv("x", rows.as_bytes(), None::<&[u8]>).unwrap()
        };
        let report = compare(&side(0), &side(1), &options());
        if report.verdict.cause != "none" {
            called.push(report.headline);
        }
    }
    assert!(called.len() <= 4, "{called:#?}");
}
