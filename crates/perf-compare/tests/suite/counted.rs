//! Work that is counted: copies, calls that wait for the GPU, and processes that name their GPUs alike.

use std::fmt::Write as _;

use perf_compare::document::Report;
use perf_compare::{Options, Side, compare};

use crate::simulate::Noise;

const HEADER: &str = "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,\
interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name,copy_bytes\n";

/// What a step of an engine does: its work in microseconds, and what is planted.
#[derive(Clone, Copy)]
struct Engine {
    ranks: usize,
    /// Kernels of a step.
    gpu_us: f64,
    /// Code of the host between two steps.
    host_us: f64,
    cycles: usize,
}

const ENGINES: [Engine; 3] = [
    Engine {
        ranks: 1,
        gpu_us: 3_200.0,
        host_us: 400.0,
        cycles: 32,
    },
    Engine {
        ranks: 2,
        gpu_us: 7_900.0,
        host_us: 650.0,
        cycles: 45,
    },
    Engine {
        ranks: 4,
        gpu_us: 21_000.0,
        host_us: 1_500.0,
        cycles: 60,
    },
];

/// What is planted in a cycle.
#[derive(Clone, Copy, Default)]
struct Planted {
    /// Copies of a MiB and 45 us each to the host, back, and within the GPU.
    out: usize,
    back: usize,
    within: usize,
    /// Calls that wait for the GPU beside the one at the end of a step, and the time for which the GPU is idle after each.
    waits: usize,
    idle_us: f64,
    /// Time that the GPU was idle already, in which copies hide.
    hides: bool,
    /// What a step takes less because the one before it did more.
    less_us: f64,
    /// This rank has kernels that are slower by a third.
    slow_rank: Option<usize>,
    /// Each process calls its own GPU the first.
    one_name: bool,
}

const COPY_US: f64 = 45.0;

fn side(engine: Engine, seed: u64, of: &dyn Fn(usize) -> Planted) -> Side {
    let mut noise = Noise::new(seed);
    let (mut rows, mut at) = (HEADER.to_owned(), 0.0);
    for cycle in 0..engine.cycles {
        let planted = of(cycle);
        let all = 1.0 + 0.004 * noise.normal();
        let slowest = if planted.slow_rank.is_some() {
            4.0 / 3.0
        } else {
            1.0
        };
        let copies = [
            ("Memcpy DtoH", "gpu_memcpy_d2h", planted.out),
            ("Memcpy HtoD", "gpu_memcpy_h2d", planted.back),
            ("Memcpy DtoD", "gpu_memcpy_d2d", planted.within),
        ];
        let copied = COPY_US * (planted.out + planted.back + planted.within) as f64;
        let idle = planted.idle_us * planted.waits as f64;
        let (gpu, transfer) = (engine.gpu_us * all, 180.0 * all);
        let hidden = if planted.hides { copied } else { 0.0 };
        let length = gpu * slowest + transfer + engine.host_us * all + copied - hidden + idle
            - planted.less_us;
        for rank in 0..engine.ranks {
            let gpu_name = match planted.one_name {
                true => "GPU 0".to_owned(),
                false => format!("GPU {rank}"),
            };
            let mut row = |name: &str, device: &str, kind: &str, us: f64, calls: usize| {
                let us = us * (1.0 + 0.002 * noise.normal());
                let bytes = match kind.contains("memcpy") {
                    true => (calls << 20).to_string(),
                    false => String::new(),
                };
                let _ = writeln!(
                    rows,
                    "{},{},h,1,{name},N/A,{device},{kind},,,{us:.4}, ,step,{length:.4},{at:.1},{calls},{name},{bytes}",
                    cycle + 1,
                    100 + rank
                );
            };
            let own = match planted.slow_rank {
                Some(slow) if slow == rank => 4.0 / 3.0,
                _ => 1.0,
            };
            for (name, part) in [
                ("gemm_a", 0.5),
                ("gemm_b", 0.3),
                ("flash_fwd", 0.15),
                ("norm", 0.05),
            ] {
                row(name, &gpu_name, "gpu_compute", gpu * part * own, 12);
            }
            if engine.ranks > 1 {
                // All wait for the slowest.
                let wait = gpu * (slowest - own) + transfer;
                row("ncclDevKernel_AllReduce", &gpu_name, "gpu_comm", wait, 4);
            }
            for (name, kind, n) in copies.into_iter().filter(|(_, _, n)| *n > 0) {
                row(name, &gpu_name, kind, COPY_US * n as f64, n);
            }
            row("schedule", "Host", "python", engine.host_us * all, 1);
            let waits = 1 + planted.waits;
            let each = "cudaStreamSynchronize";
            row(
                each,
                "Host",
                "cpu_sync",
                length - engine.host_us * all,
                waits,
            );
        }
        at += length;
    }
    Side::from_csv("x", rows.as_bytes(), None::<&[u8]>).unwrap()
}

fn judge(engine: Engine, seed: u64, of: &dyn Fn(usize, usize) -> Planted) -> Report {
    let [a, b] = [0, 1].map(|own| side(engine, 2 * seed + own as u64, &|at| of(own, at)));
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 199;
    compare(&a, &b, &options)
}

/// Blocks of each side: the copies that every step makes anyway, more in every `every`-th step of the candidate, and a next
/// step that has less left to do.
fn swapped(side: usize, at: usize, every: usize, blocks: [usize; 2], less_us: f64) -> Planted {
    let usual = Planted {
        out: 1,
        back: 1,
        ..Planted::default()
    };
    match side == 1 && at % every == every / 2 {
        true => Planted {
            out: 1 + blocks[0],
            back: 1 + blocks[1],
            ..usual
        },
        false if side == 1 && at % every == (every / 2 + 1) % every => Planted { less_us, ..usual },
        false => usual,
    }
}

/// Returns the number of copies that a time has room for.
fn copies_in(us: f64) -> usize {
    (1_u32..)
        .take_while(|n| f64::from(*n) * COPY_US <= us)
        .count()
}

#[test]
fn blocks_that_are_swapped_in_some_steps_are_no_pauses() {
    for (n, engine) in ENGINES.into_iter().enumerate() {
        for every in 1..=5 {
            let seed = 10 * (n as u64 + 1) + every as u64;
            // At least a fifth of a step.
            let blocks = 8 + copies_in(engine.gpu_us / 5.0);
            for less_us in [0.0, 0.04 * engine.gpu_us] {
                let report = judge(engine, seed, &|side, at| {
                    swapped(side, at, every, [blocks, blocks], less_us)
                });
                let told = format!("{} ranks, every {every}: {}", engine.ranks, report.headline);
                assert_eq!(report.verdict.cause, "memory_pressure", "{told}");
                assert_eq!(report.verdict.direction, "worse", "{told}");
                assert_ne!(report.verdict.on_critical_path, Some(false), "{told}");
                assert!(report.headline.starts_with("Blocks are moved"), "{told}");
                if every > 1 {
                    assert!(report.headline.contains(" cycles (0 of "), "{told}");
                }
            }
        }
    }
}

#[test]
fn copies_in_one_direction_in_some_steps_are_more_work() {
    for (n, engine) in ENGINES.into_iter().enumerate() {
        for every in 2..=4 {
            let seed = 100 * (n as u64 + 1) + every as u64;
            let blocks = 8 + copies_in(engine.gpu_us / 3.0);
            let report = judge(engine, seed, &|side, at| {
                swapped(side, at, every, [0, blocks], 0.0)
            });
            let told = format!("{} ranks, every {every}: {}", engine.ranks, report.headline);
            assert_eq!(report.verdict.cause, "workload_shift", "{told}");
            assert!(report.headline.contains("copies to the GPU"), "{told}");
        }
    }
}

#[test]
fn copies_that_hide_are_found_and_are_possible_at_most() {
    for (n, engine) in ENGINES.into_iter().enumerate() {
        for copies in [4, 8] {
            let seed = 1_000 * (n as u64 + 1) + copies as u64;
            let of = |side: usize, swap: bool| Planted {
                within: if (side == 1) == swap { copies } else { 0 },
                hides: true,
                ..Planted::default()
            };
            let report = judge(engine, seed, &|side, _| of(side, true));
            let told = &report.headline;
            assert_eq!(report.verdict.cause, "workload_shift", "{told}");
            assert_eq!(report.verdict.certainty, "possible", "{told}");
            assert_eq!(report.verdict.on_critical_path, Some(false), "{told}");
            assert!(told.contains("copies within the GPU"), "{told}");
            assert!(told.contains("unchanged"), "{told}");
        }
    }
}

#[test]
fn waiting_for_the_gpu_more_often_is_code_of_the_host() {
    for (n, engine) in ENGINES.into_iter().enumerate() {
        for part in [0.01, 0.018, 0.05] {
            for waits in [2, 6] {
                let seed = 7 * (n as u64 + 1) + waits as u64;
                let idle_us = part * engine.gpu_us / waits as f64;
                let report = judge(engine, seed, &|side, _| Planted {
                    waits: if side == 1 { waits } else { 0 },
                    idle_us,
                    ..Planted::default()
                });
                let told = format!("{} ranks, {part}: {}", engine.ranks, report.headline);
                assert_eq!(report.verdict.cause, "host_code", "{told}");
                assert!(report.headline.contains("cudaStreamSynchronize"), "{told}");
            }
        }
    }
}

#[test]
fn a_slow_rank_is_named_where_every_process_has_a_gpu_0() {
    for (n, engine) in ENGINES.into_iter().filter(|e| e.ranks > 1).enumerate() {
        for slow in 0..engine.ranks {
            let report = judge(engine, 3 + 9 * n as u64 + slow as u64, &|side, _| Planted {
                slow_rank: (side == 1).then_some(slow),
                one_name: true,
                ..Planted::default()
            });
            let told = &report.headline;
            assert_eq!(report.verdict.cause, "collective_straggler", "{told}");
            assert!(told.starts_with(&format!("Rank {slow} (GPU 0) ")), "{told}");
            let pids: Vec<i64> = report.roles.iter().map(|role| role.pids[1]).collect();
            let own = pids.iter().position(|pid| *pid == 100 + slow as i64);
            let ranks = own.map(|at| report.roles[at].ranks[1].clone());
            assert_eq!(ranks, Some(Some(format!("rank {slow}"))), "{told}");
        }
    }
}

#[test]
fn what_both_sides_do_alike_is_no_cause() {
    for (n, engine) in ENGINES.into_iter().enumerate() {
        for seed in 0..3 {
            let seed = 50 * (n as u64 + 1) + seed;
            let plans: [&dyn Fn(usize) -> Planted; 3] = [
                &|at| swapped(1, at, 3, [20, 20], 30.0),
                &|_| Planted {
                    waits: 4,
                    idle_us: 20.0,
                    ..Planted::default()
                },
                &|_| Planted {
                    within: 3,
                    one_name: true,
                    ..Planted::default()
                },
            ];
            for plan in plans {
                let report = judge(engine, seed, &|_, at| plan(at));
                assert_eq!(report.verdict.cause, "none", "{}", report.headline);
            }
        }
    }
}
