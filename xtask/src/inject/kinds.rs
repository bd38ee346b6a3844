//! Kinds of faults: what is planted, where, and which causes are right.

use super::changing;
use super::engines::{Engine, Load};
use super::plant::{
    OfStep, Planted, all_kernels, call, copies, counted, host, is_gpu_only, kernels, last_rank,
    new_operations, null, planted, steady,
};
use super::program::{ON_GPU, Op, TO_GPU, TO_HOST, Work, rework, without_graphs};
use super::replay::{Counters, Fault, Noise};
use super::shifting;

/// A kind of fault.
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    /// Right causes.
    pub(crate) causes: &'static [&'static str],
    /// Sizes; what they mean is the kind's.
    pub(crate) sizes: &'static [f64],
    /// Can it be planted there?
    pub(crate) fits: fn(&Engine) -> bool,
    pub(crate) plant: fn(&Engine, f64, u64) -> Planted,
}

/// The answer that stands for a refused comparison.
pub(crate) const REFUSED: &str = "not_comparable";

pub(super) fn any(_: &Engine) -> bool {
    true
}
pub(super) fn several(engine: &Engine) -> bool {
    engine.ranks > 1
}
fn alone(engine: &Engine) -> bool {
    engine.ranks == 1
}
/// Does host time that is added in a step delay it? An engine that is a step ahead hides much of it.
pub(super) fn in_turns(engine: &Engine) -> bool {
    !engine.name.contains("overlap")
}
fn graphs(engine: &Engine) -> bool {
    engine.has_graph() && in_turns(engine)
}
fn eager(engine: &Engine) -> bool {
    !engine.has_graph()
}
fn python(engine: &Engine) -> bool {
    engine.has_python
}
fn serves(engine: &Engine) -> bool {
    !engine.parts.requests.is_empty()
}
pub(super) fn stated(engine: &Engine) -> bool {
    engine.states_load
}

/// The texts that name a rank or its GPU.
fn of_rank(rank: usize) -> [String; 2] {
    [format!("rank {rank}"), format!("GPU {rank}")]
}

const MATRICES: [&str; 3] = ["GEMM", "gemm", "matrix"];
const WORKLOAD: [&str; 7] = [
    "batch", "requests", "tokens", "context", "prefill", "lengths", "mix",
];

/// All kinds, new ones behind the others: their places decide the halves.
pub(crate) fn all() -> impl Iterator<Item = &'static Kind> {
    KINDS.iter().chain(changing::KINDS).chain(shifting::KINDS)
}

const KINDS: &[Kind] = &[
    Kind {
        name: "kernel_slower",
        causes: &["gpu_kernel"],
        sizes: &[1.1, 1.3, 2.0],
        fits: any,
        plant: |e, x, _| {
            planted(
                kernels(vec![e.parts.matrix.clone()], x),
                &[&e.parts.matrix[..10]],
            )
        },
    },
    Kind {
        name: "attention_slower",
        causes: &["gpu_kernel"],
        sizes: &[1.25, 1.8],
        fits: any,
        plant: |e, x, _| {
            planted(
                kernels(vec![e.parts.attention.clone()], x),
                &["ttention", "fmha", "flash"],
            )
        },
    },
    Kind {
        name: "kernel_class_slower",
        causes: &["gpu_kernel"],
        sizes: &[1.2, 1.5],
        fits: any,
        plant: |e, x, _| {
            let names = e.parts.matrices.iter().map(|m| (*m).to_owned()).collect();
            planted(kernels(names, x), &MATRICES)
        },
    },
    Kind {
        name: "kernel_of_one_layer",
        causes: &["gpu_kernel"],
        sizes: &[3.0, 6.0],
        fits: any,
        plant: |e, x, _| {
            let name = e.parts.matrix.clone();
            let of = name.clone();
            let fault = Fault {
                kernel: Some(Box::new(move |kernel, _, _, call| {
                    if call == 3 && kernel.contains(&of) {
                        x
                    } else {
                        1.0
                    }
                })),
                ..Fault::default()
            };
            planted(fault, &[&name[..10], "layer"])
        },
    },
    Kind {
        name: "kernel_new",
        causes: &["gpu_kernel"],
        sizes: &[60.0, 400.0],
        fits: any,
        plant: |_, x, _| {
            let debug = Work::kernel("void debug_check_nan_kernel<float>(float const*, int*)", x);
            let fault = Fault {
                edit: Some(Box::new(move |mut ops, _| {
                    let last = ops.iter().rposition(
                        |op| matches!(op, Op::Launch(api, ..) if !api.contains("Memcpy")),
                    );
                    let at = last.unwrap_or(0);
                    ops.insert(
                        at,
                        Op::Launch("cudaLaunchKernel".into(), 3.2, vec![debug.clone()]),
                    );
                    ops
                })),
                ..Fault::default()
            };
            planted(fault, &["debug_check_nan"])
        },
    },
    Kind {
        name: "kernel_replaced",
        causes: &["gpu_kernel"],
        sizes: &[1.3, 2.5],
        fits: any,
        plant: |e, x, _| {
            let old = e.parts.matrix.clone();
            let new = "triton_gemm_fallback_kernel_0d1d2d3d";
            let by = old.clone();
            let fault = Fault {
                edit: Some(Box::new(move |ops, _| {
                    rework(ops, &|work| {
                        let other = Work {
                            name: new.into(),
                            us: work.us * x,
                            ..work.clone()
                        };
                        vec![if work.name.contains(&by) {
                            other
                        } else {
                            work.clone()
                        }]
                    })
                })),
                ..Fault::default()
            };
            planted(fault, &[&new[..12], &old[..10]])
        },
    },
    Kind {
        name: "kernel_called_more",
        causes: &["workload_shift", "gpu_kernel"],
        sizes: &[2.0, 4.0],
        fits: any,
        plant: |e, x, _| {
            let name = e.parts.matrix.clone();
            let by = name.clone();
            let times = if x > 3.0 { 4 } else { 2 };
            let fault = Fault {
                edit: Some(Box::new(move |ops, _| {
                    rework(ops, &|work| {
                        let n = if work.name.contains(&by) { times } else { 1 };
                        vec![work.clone(); n]
                    })
                })),
                ..Fault::default()
            };
            planted(fault, &[&name[..10]])
        },
    },
    Kind {
        name: "gpu_slower",
        causes: &["gpu_slow"],
        sizes: &[1.1, 1.3],
        fits: any,
        plant: |_, x, _| planted(all_kernels(None, x), &["GPU", "All kernels"]),
    },
    Kind {
        name: "gpu_clock_lower",
        causes: &["gpu_frequency"],
        sizes: &[1.15, 1.5],
        fits: any,
        plant: |_, x, _| {
            let counters = Counters {
                gpu_mhz: 1755.0 / x,
                ..Counters::default()
            };
            counted(all_kernels(None, x), counters, &["clock"])
        },
    },
    Kind {
        name: "gpu_shared",
        causes: &["gpu_contention"],
        sizes: &[1.3, 1.6],
        fits: any,
        plant: |_, x, _| {
            let fault = Fault {
                kernel: Some(Box::new(move |name, _, step, call| {
                    if is_gpu_only(name) && (call * 7 + step * 3) % 5 < 3 {
                        x * 1.2
                    } else {
                        1.0
                    }
                })),
                ..Fault::default()
            };
            let counters = Counters {
                gpu_usage: 99.0,
                own_usage: 48.0,
                gpu_bytes: 7.6e10,
                ..Counters::default()
            };
            counted(fault, counters, &["process", "shared"])
        },
    },
    Kind {
        name: "host_function_inside",
        causes: &["host_code"],
        sizes: &[4.0, 15.0],
        fits: any,
        plant: |e, x, _| planted(host(&e.parts.inside, None, x), &[&e.parts.inside]),
    },
    Kind {
        name: "host_function_between",
        causes: &["host_code"],
        sizes: &[6.0, 20.0],
        fits: python,
        plant: |e, x, _| planted(host(&e.parts.between, None, x), &[&e.parts.between]),
    },
    Kind {
        name: "host_slower",
        causes: &["host_code", "cpu_frequency", "cpu_contention"],
        sizes: &[1.5, 2.5],
        fits: any,
        plant: |_, x, _| {
            let mut fault = host("", None, x);
            fault.call = Some(Box::new(move |_| x));
            planted(fault, &["host"])
        },
    },
    Kind {
        name: "cpu_clock_lower",
        causes: &["cpu_frequency"],
        sizes: &[1.6, 2.4],
        fits: any,
        plant: |_, x, _| {
            let mut fault = host("", None, x);
            fault.call = Some(Box::new(move |_| x));
            let counters = Counters {
                cpu_mhz: 3400.0 / x,
                ..Counters::default()
            };
            counted(fault, counters, &["CPU clock"])
        },
    },
    Kind {
        name: "collector_pauses",
        causes: &["pauses"],
        sizes: &[6_000.0, 30_000.0],
        fits: python,
        plant: |e, x, _| {
            let mut pair = planted(
                new_operations(
                    &e.parts.between,
                    call("<built-in function collect>", "python_function", x),
                    8,
                ),
                &["collect", "pause"],
            );
            (pair.normal.steps, pair.abnormal.steps) = (48, 48);
            pair
        },
    },
    Kind {
        name: "hidden_pauses",
        causes: &["pauses"],
        sizes: &[8_000.0, 30_000.0],
        fits: any,
        plant: |_, x, _| {
            let fault = Fault {
                gap: Some(Box::new(move |step| if step % 7 == 3 { x } else { 0.0 })),
                ..Fault::default()
            };
            let mut pair = planted(fault, &["pause"]);
            (pair.normal.steps, pair.abnormal.steps) = (49, 49);
            pair
        },
    },
    Kind {
        name: "rank_late_on_host",
        causes: &["collective_straggler", "host_code"],
        sizes: &[10.0, 30.0],
        fits: |e| several(e) && in_turns(e),
        plant: |e, x, _| {
            let rank = last_rank(e);
            let [a, b] = of_rank(rank);
            planted(host(&e.parts.inside, Some(rank), x), &[&a, &b])
        },
    },
    Kind {
        name: "rank_late_on_gpu",
        causes: &["collective_straggler", "gpu_slow"],
        sizes: &[1.2, 1.5],
        fits: several,
        plant: |e, x, _| {
            let rank = last_rank(e);
            let [a, b] = of_rank(rank);
            planted(all_kernels(Some(rank), x), &[&a, &b])
        },
    },
    Kind {
        name: "collectives_slower",
        causes: &["collective_slow", "nvlink_contention"],
        sizes: &[2.5, 5.0],
        fits: several,
        plant: |_, x, _| planted(kernels(vec!["nccl".to_owned()], x), &["ollective"]),
    },
    Kind {
        name: "link_shared",
        causes: &["nvlink_contention"],
        sizes: &[2.5, 5.0],
        fits: several,
        plant: |_, x, _| {
            let counters = Counters {
                link: 1.5e11,
                ..Counters::default()
            };
            counted(
                kernels(vec!["nccl".to_owned()], x),
                counters,
                &["ink", "ollective"],
            )
        },
    },
    Kind {
        name: "network_shared",
        causes: &["network_contention"],
        sizes: &[3.0, 6.0],
        fits: several,
        plant: |_, x, _| {
            let counters = Counters {
                net: 2.2e9,
                ..Counters::default()
            };
            counted(
                kernels(vec!["nccl".to_owned()], x),
                counters,
                &["etwork", "ollective"],
            )
        },
    },
    Kind {
        name: "copies_more",
        causes: &["workload_shift", "memory_pressure"],
        sizes: &[10.0, 40.0],
        fits: any,
        plant: |e, x, _| {
            let work = Work::copy(TO_GPU, 40.0, 1 << 20);
            let times = if x > 20.0 { 40 } else { 10 };
            planted(
                new_operations(&e.parts.inside, copies(&work, times), 1),
                &["cop", "Memcpy"],
            )
        },
    },
    Kind {
        name: "copies_on_gpu",
        causes: &["workload_shift", "gpu_kernel"],
        sizes: &[200.0, 900.0],
        fits: any,
        plant: |e, x, _| {
            let work = Work::copy(ON_GPU, x, 200 << 20);
            planted(
                new_operations(&e.parts.inside, copies(&work, 1), 1),
                &["cop", "Memcpy"],
            )
        },
    },
    Kind {
        name: "blocks_swapped",
        causes: &["memory_pressure", "workload_shift"],
        // In every step, every second, third and fifth.
        sizes: &[1.0, 2.0, 3.0, 5.0],
        fits: any,
        plant: |e, x, _| {
            let mut new = copies(&Work::copy(TO_HOST, 45.0, 1 << 20), 20);
            new.extend(copies(&Work::copy(TO_GPU, 45.0, 1 << 20), 20));
            let every = match x {
                x if x > 4.0 => 5,
                x if x > 2.5 => 3,
                x if x > 1.5 => 2,
                _ => 1,
            };
            planted(
                new_operations(&e.parts.inside, new, every),
                &["cop", "Memcpy", "block", "swap"],
            )
        },
    },
    Kind {
        name: "copies_slower",
        causes: &["pcie_contention"],
        sizes: &[3.0, 6.0],
        fits: any,
        plant: |e, x, _| {
            let new = copies(&Work::copy(TO_GPU, 200.0, 8 << 20), 3);
            let slow = kernels(vec!["Memcpy HtoD".to_owned(), "Memcpy DtoH".to_owned()], x);
            let both = new_operations(&e.parts.inside, new.clone(), 1);
            let counters = Counters {
                pcie: 2.3e10,
                ..Counters::default()
            };
            let mut pair = counted(
                Fault {
                    kernel: slow.kernel,
                    ..both
                },
                counters,
                &["cop", "Memcpy"],
            );
            pair.normal.fault = new_operations(&e.parts.inside, new, 1);
            pair
        },
    },
    Kind {
        name: "context_longer",
        causes: &["workload_shift"],
        sizes: &[2.0, 4.0],
        fits: |e| e.name.starts_with("vllm"),
        plant: |_, x, _| {
            let mut pair = planted(Fault::default(), &WORKLOAD);
            let context = if x > 3.0 { 190_000 } else { 96_000 };
            pair.abnormal.load = steady(32, context);
            pair
        },
    },
    Kind {
        name: "batch_larger",
        causes: &["workload_shift"],
        sizes: &[1.5, 3.0],
        fits: stated,
        plant: |_, x, _| {
            let mut pair = planted(Fault::default(), &WORKLOAD);
            pair.abnormal.load = if x > 2.0 {
                steady(96, 140_000)
            } else {
                steady(48, 72_000)
            };
            pair
        },
    },
    Kind {
        name: "prefills_more_often",
        causes: &["workload_shift"],
        sizes: &[4.0, 5.0],
        fits: |e| e.name.starts_with("vllm") || e.name.starts_with("sglang"),
        plant: |_, x, _| {
            let mut pair = planted(Fault::default(), &WORKLOAD);
            let mix = |every: usize| -> OfStep {
                Box::new(move |step, _| Load {
                    step,
                    requests: 32,
                    context: 48_000,
                    prompt: if step % every == 2 { 1200 } else { 0 },
                })
            };
            pair.normal.load = mix(20);
            pair.abnormal.load = mix(if x > 4.5 { 3 } else { 4 });
            (pair.normal.steps, pair.abnormal.steps) = (80, 80);
            pair
        },
    },
    Kind {
        name: "allocations",
        causes: &["memory_pressure"],
        sizes: &[150.0, 500.0],
        fits: any,
        plant: |e, x, _| {
            let mut new = Vec::new();
            for _ in 0..4 {
                new.extend(call("cudaFree", "cuda_runtime", x));
                new.extend(call("cudaMalloc", "cuda_runtime", 0.6 * x));
            }
            planted(
                new_operations(&e.parts.inside, new, 1),
                &["cudaFree", "cudaMalloc", "allocat"],
            )
        },
    },
    Kind {
        name: "synchronisations",
        causes: &["host_code"],
        sizes: &[1.0, 2.0],
        fits: eager,
        plant: |e, x, _| {
            let kernel = if x > 1.5 {
                e.parts.matrix.clone()
            } else {
                e.parts.attention.clone()
            };
            let fault = Fault {
                edit: Some(Box::new(move |ops, _| {
                    let mut out = Vec::new();
                    for op in ops {
                        let found = matches!(&op, Op::Launch(_, _, work) if work.iter().any(|w| w.name.contains(&kernel)));
                        out.push(op);
                        if found {
                            out.push(Op::Wait("cudaStreamSynchronize".into(), false));
                        }
                    }
                    out
                })),
                ..Fault::default()
            };
            planted(fault, &["ynchroni"])
        },
    },
    Kind {
        name: "graphs_lost",
        causes: &["host_code"],
        sizes: &[30.0, 90.0],
        fits: graphs,
        plant: |_, x, _| {
            let fault = Fault {
                edit: Some(Box::new(move |ops, _| without_graphs(ops, x))),
                ..Fault::default()
            };
            planted(fault, &["raph", "aunch"])
        },
    },
    Kind {
        name: "launches_slower",
        causes: &["host_code", "cpu_contention"],
        sizes: &[8.0, 20.0],
        fits: eager,
        plant: |_, x, _| {
            let fault = Fault {
                call: Some(Box::new(
                    move |api| if api.contains("LaunchKernel") { x } else { 1.0 },
                )),
                ..Fault::default()
            };
            planted(fault, &["aunch"])
        },
    },
    Kind {
        name: "requests_late",
        causes: &["waiting_for_input"],
        sizes: &[60.0, 250.0],
        fits: |e| serves(e) && e.has_python && in_turns(e),
        plant: |e, x, _| {
            planted(
                host(&e.parts.requests, None, x),
                &[&e.parts.requests, "input", "request"],
            )
        },
    },
    Kind {
        name: "lock_waited_for",
        causes: &["host_code", "waiting_for_input"],
        sizes: &[800.0, 4_000.0],
        fits: python,
        plant: |e, x, _| {
            let lock = "<built-in method acquire of _thread.lock object at 0x7f3a21b90100>";
            let with = |us| new_operations(&e.parts.between, call(lock, "python_function", us), 1);
            let mut pair = planted(with(x), &["acquire", "lock"]);
            pair.normal.fault = with(6.0);
            pair
        },
    },
    Kind {
        name: "reads_slower",
        causes: &["disk_contention"],
        sizes: &[700.0, 3_000.0],
        fits: |e| serves(e) && e.has_python,
        plant: |e, x, _| {
            let with = |us| new_operations(&e.parts.requests, call("read", "CAT_DISK", us), 1);
            let mut pair = planted(with(x), &["read", "Read", "disk"]);
            pair.normal.fault = with(60.0);
            pair
        },
    },
    Kind {
        name: "profiler_of_one_side",
        causes: &["any"],
        sizes: &[1.4],
        fits: python,
        plant: |_, x, _| {
            let mut fault = host("", None, x);
            fault.call = Some(Box::new(move |_| x));
            let mut pair = planted(fault, &["with_stack"]);
            pair.normal.flags = &[];
            pair
        },
    },
    Kind {
        name: "other_gpu",
        causes: &[REFUSED],
        sizes: &[0.7],
        fits: alone,
        plant: |_, x, _| {
            let mut pair = planted(all_kernels(None, x), &["GPU"]);
            pair.abnormal.gpu = Some("NVIDIA GB300");
            pair
        },
    },
    Kind {
        name: "rank_files_missing",
        causes: &[REFUSED],
        sizes: &[1.0],
        fits: several,
        plant: |e, _, _| {
            let mut pair = planted(Fault::default(), &["rank"]);
            pair.abnormal.ranks = Some(e.ranks / 2);
            pair
        },
    },
    Kind {
        name: "other_depth",
        causes: &[REFUSED],
        sizes: &[1.5, 2.0],
        fits: stated,
        plant: |e, x, _| {
            let mut pair = planted(Fault::default(), &["model", "layer"]);
            pair.abnormal.layers = Some(if x > 1.7 {
                2 * e.layers
            } else {
                3 * e.layers / 2
            });
            pair
        },
    },
    Kind {
        name: "null_independent",
        causes: &["none"],
        sizes: &[0.0, 0.0],
        fits: any,
        plant: |_, _, _| null([Noise::Independent; 2]),
    },
    Kind {
        name: "null_correlated",
        causes: &["none", "drift"],
        sizes: &[0.0, 0.0],
        fits: any,
        plant: |_, _, _| null([Noise::Correlated; 2]),
    },
    Kind {
        name: "null_two_modes",
        causes: &["none"],
        sizes: &[0.0, 0.0],
        fits: any,
        plant: |_, _, _| null([Noise::TwoModes; 2]),
    },
    Kind {
        name: "null_heavy_tail",
        causes: &["none"],
        sizes: &[0.0, 0.0],
        fits: any,
        plant: |_, _, _| null([Noise::HeavyTail; 2]),
    },
    Kind {
        name: "null_drift",
        causes: &["none", "drift"],
        sizes: &[0.0],
        fits: any,
        plant: |_, _, _| null([Noise::Drift(0.0); 2]),
    },
    Kind {
        name: "null_drift_continued",
        causes: &["none", "drift"],
        sizes: &[0.0],
        fits: any,
        plant: |_, _, _| null([Noise::Drift(0.0), Noise::Drift(0.08)]),
    },
];
