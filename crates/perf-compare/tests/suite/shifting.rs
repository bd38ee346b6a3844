//! Faults that move from rank to rank, come every so many steps, are in few of many calls, or change what launches kernels.

use std::fmt::Write as _;

use perf_compare::document::Report;
use perf_compare::{Options, Side, compare};

use crate::simulate::Noise;

const HEADER: &str = "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,\
interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name,copy_bytes,\
shortest_call_us,longest_call_us,longest_call\n";

/// A function in a cycle: its rank, name, device, type, and what each call took.
struct Row {
    rank: usize,
    name: &'static str,
    kind: &'static str,
    calls: Vec<f64>,
}

fn row(rank: usize, name: &'static str, kind: &'static str, calls: Vec<f64>) -> Row {
    Row {
        rank,
        name,
        kind,
        calls,
    }
}

/// One cycle: its name, length without noise, and functions.
struct Step {
    name: String,
    length: f64,
    rows: Vec<Row>,
}

fn side(seed: u64, n: usize, of: &dyn Fn(usize) -> Step) -> Side {
    let mut noise = Noise::new(seed);
    let (mut rows, mut at) = (HEADER.to_owned(), 0.0);
    for cycle in 0..n {
        let step = of(cycle);
        let all = 1.0 + 0.004 * noise.normal();
        let length = step.length * all;
        for Row {
            rank,
            name,
            kind,
            calls,
        } in step.rows
        {
            let times: Vec<f64> = (calls.iter())
                .map(|us| us * all * (1.0 + 0.004 * noise.normal()))
                .collect();
            let device = match kind.starts_with("gpu_") {
                true => format!("GPU {rank}"),
                false => "Host".to_owned(),
            };
            let (mut short, mut long, mut place) = (f64::INFINITY, 0.0, 0);
            for (at, us) in (1..).zip(&times) {
                short = us.min(short);
                if *us > long {
                    (long, place) = (*us, at);
                }
            }
            let single = match times.len() {
                1 => ",,".to_owned(),
                _ => format!("{short:.4},{long:.4},{place}"),
            };
            let bytes = match kind.contains("memcpy") {
                true => (times.len() << 20).to_string(),
                false => String::new(),
            };
            let _ = writeln!(
                rows,
                "{},{},h,1,{name},N/A,{device},{kind},,,{:.4}, ,{},{length:.4},{at:.1},{},{name},{bytes},{single}",
                cycle + 1,
                100 + rank,
                times.iter().sum::<f64>(),
                step.name,
                times.len()
            );
        }
        at += length;
    }
    Side::from_csv("x", rows.as_bytes(), None::<&[u8]>).unwrap()
}

fn judge(n: usize, of: &dyn Fn(usize, usize) -> Step) -> Report {
    let [a, b] = [0, 1].map(|own| side(3 + own as u64, n, &|cycle| of(own, cycle)));
    let mut options = Options::default();
    options.permutations = 999;
    options.resamples = 199;
    compare(&a, &b, &options)
}

const RANKS: usize = 4;
const LAYERS: usize = 6;

/// Layers of experts on four ranks: `factor` is that of a rank's experts in a layer. Ranks wait for the slowest after each layer.
fn experts(factor: &dyn Fn(usize, usize) -> f64) -> Step {
    let (experts, transfer) = (190.0, 35.0);
    let slowest = |layer: usize| {
        (0..RANKS)
            .map(|rank| factor(rank, layer))
            .fold(0.0, f64::max)
    };
    let length = (0..LAYERS).map(|layer| 100.0 + experts * slowest(layer) + transfer);
    let rows = (0..RANKS).flat_map(|rank| {
        let own = |layer: usize| experts * factor(rank, layer);
        let wait = |layer: usize| transfer + experts * slowest(layer) - own(layer);
        [
            row(rank, "gemm_qkv", "gpu_compute", vec![90.0; LAYERS]),
            row(
                rank,
                "moe_grouped_gemm",
                "gpu_compute",
                (0..LAYERS).map(own).collect(),
            ),
            row(
                rank,
                "ncclDevKernel_SendRecv",
                "gpu_comm",
                (0..LAYERS).map(wait).collect(),
            ),
            row(rank, "schedule", "python", vec![120.0]),
        ]
    });
    Step {
        name: "step".to_owned(),
        length: 300.0 + length.sum::<f64>(),
        rows: rows.collect(),
    }
}

fn chosen(n: usize) -> usize {
    (n.wrapping_mul(2_654_435_761) >> 7) % RANKS
}

#[test]
fn imbalance_that_moves_blames_no_rank() {
    let between =
        |cycle: usize| move |rank: usize, _| if chosen(cycle) == rank { 2.0 } else { 1.0 };
    let within = |cycle: usize| {
        move |rank: usize, layer: usize| match chosen(cycle * LAYERS + layer) == rank {
            true => 2.0,
            false => 1.0,
        }
    };
    let even = |_: usize, _: usize| 1.0;
    let report = judge(30, &|side, cycle| match side {
        0 => experts(&even),
        _ => experts(&between(cycle)),
    });
    let told = &report.headline;
    assert_eq!(report.verdict.cause, "collective_straggler", "{told}");
    assert!(told.contains("no rank is always late"), "{told}");
    assert!(
        (0..RANKS).all(|rank| told.contains(&format!("GPU {rank} in "))),
        "{told}"
    );
    assert!(told.contains("moe_grouped_gemm"), "{told}");
    let report = judge(30, &|side, cycle| match side {
        0 => experts(&even),
        _ => experts(&within(cycle)),
    });
    let told = &report.headline;
    assert_eq!(report.verdict.cause, "collective_straggler", "{told}");
    assert!(
        told.contains("no rank is always late") && told.contains("in each layer"),
        "{told}"
    );
    // On both sides alike it is nobody's fault, and one rank that is late in all steps is named.
    let same = judge(30, &|side, cycle| experts(&within(cycle + 40 * side)));
    assert_eq!(same.verdict.cause, "none", "{}", same.headline);
    let fixed = judge(30, &|side, _| {
        experts(&|rank, _| if side == 1 && rank == 2 { 1.5 } else { 1.0 })
    });
    assert!(!fixed.headline.contains("no rank"), "{}", fixed.headline);
}

/// A step of some kernels and functions of the host.
fn plain(rows: Vec<Row>) -> Step {
    let mut all = vec![
        row(0, "gemm_up", "gpu_compute", vec![150.0; 12]),
        row(0, "gemm_down", "gpu_compute", vec![90.0; 12]),
        row(0, "attention", "gpu_compute", vec![60.0; 12]),
        row(0, "rms_norm", "gpu_compute", vec![8.0; 24]),
        row(0, "schedule", "python", vec![150.0]),
        row(0, "cudaMemcpyAsync", "cuda_runtime", vec![6.0, 5.0]),
    ];
    all.extend(rows);
    Step {
        name: "step".to_owned(),
        length: 400.0 + all.iter().flat_map(|row| &row.calls).sum::<f64>(),
        rows: all,
    }
}

#[test]
fn one_of_many_calls_is_told_from_all_of_them() {
    let report = judge(24, &|side, _| {
        let slow = if side == 1 { 140.0 } else { 20.0 };
        let calls = (0..24).map(|at| if at == 16 { slow } else { 20.0 });
        plain(vec![row(0, "moe_topk", "gpu_compute", calls.collect())])
    });
    let told = &report.headline;
    assert_eq!(report.verdict.cause, "gpu_kernel", "{told}");
    assert!(
        told.contains("1 of its 24 calls per cycle, the 17th, is "),
        "{told}"
    );
    let report = judge(24, &|side, _| {
        let slow = if side == 1 { 900.0 } else { 30.0 };
        let calls = (0..10).map(|at| if at % 5 == 1 { slow } else { 30.0 });
        plain(vec![row(0, "append_output", "python", calls.collect())])
    });
    let told = &report.headline;
    assert_eq!(report.verdict.cause, "host_code", "{told}");
    assert!(
        told.contains("about 2 of its 10 calls per cycle are up to "),
        "{told}"
    );
    let report = judge(24, &|side, _| {
        let slow = if side == 1 { 40.0 } else { 20.0 };
        plain(vec![row(0, "moe_topk", "gpu_compute", vec![slow; 24])])
    });
    assert!(!report.headline.contains("of its"), "{}", report.headline);
}

#[test]
fn work_that_is_due_every_so_many_steps_is_named_with_its_distance() {
    let write = "<method 'write' of '_io.BufferedWriter' objects>";
    let every = |n: usize| {
        judge(32, &|side, cycle| match side == 1 && cycle % n == n / 2 {
            true => plain(vec![row(0, write, "python", vec![9_000.0])]),
            false => plain(Vec::new()),
        })
    };
    for (n, said) in [(10, "one every 10 cycles"), (14, "write")] {
        let report = every(n);
        let told = &report.headline;
        assert_eq!(report.verdict.cause, "pauses", "{told}");
        assert!(told.contains("write") && told.contains(said), "{told}");
    }
    // Due on both sides alike.
    let same = judge(32, &|side, cycle| match (cycle + side * 3) % 10 == 4 {
        true => plain(vec![row(0, write, "python", vec![9_000.0])]),
        false => plain(Vec::new()),
    });
    assert_eq!(same.verdict.cause, "none", "{}", same.headline);
}

#[test]
fn kernels_that_are_launched_one_by_one_need_no_graph_by_name() {
    let report = judge(24, &|side, _| {
        let calls = if side == 1 { 60 } else { 4 };
        plain(vec![
            row(0, "cudaLaunchKernel", "cuda_runtime", vec![4.0; calls]),
            row(0, "aten::op", "cpu_op", vec![20.0; calls]),
        ])
    });
    let told = &report.headline;
    assert_eq!(report.verdict.cause, "host_code", "{told}");
    assert!(
        told.contains("one by one")
            && told.contains("4 -> 60 calls")
            && told.contains("56 -> 0 kernels"),
        "{told}"
    );
}

#[test]
fn copies_for_the_same_stated_work_are_not_surely_other_work() {
    let of = |requests: [u32; 2]| {
        judge(24, &|side, _| {
            let n = requests[side];
            let calls = if side == 1 { 40 } else { 2 };
            let copy = row(
                0,
                "Memcpy HtoD (Pinned -> Device)",
                "gpu_memcpy_h2d",
                vec![45.0; calls],
            );
            Step {
                name: match n {
                    0 => "step".to_owned(),
                    n => format!("step[DECODE bs={n} toks={n}]"),
                },
                ..plain(vec![copy])
            }
        })
    };
    let stated = of([32, 32]);
    assert_eq!(
        stated.verdict.cause, "workload_shift",
        "{}",
        stated.headline
    );
    assert_eq!(stated.verdict.certainty, "possible");
    assert!(stated.verdict.doubt.is_some());
    let unknown = of([0, 0]);
    assert_eq!(unknown.verdict.doubt, None, "{}", unknown.headline);
}
