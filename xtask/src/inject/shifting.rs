//! Kinds of faults that an independent examiner found answers wanting for: input that is late, imbalance that moves, mixes of
//! steps, shared GPUs, periodic work, one call of many, graphs that no name tells.

use super::engines::{Engine, Load};
use super::kinds::{Kind, any, in_turns};
use super::plant::{
    OfStep, Planted, call, copies, counted, host, is_gpu_only, new_operations, planted,
};
use super::program::{Op, TO_HOST, Work, without_graphs};
use super::replay::{Counters, Fault};
use super::trainers::{EXPERTS, QUEUE_GET};

/// A number that looks like chance, from the numbers of a step and of a seed.
fn mixed(step: usize, seed: u64) -> usize {
    let mixed =
        (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (seed.wrapping_mul(0x85eb) << 7));
    usize::try_from(mixed >> 33).unwrap_or(0)
}

fn trains(engine: &Engine) -> bool {
    engine.name.starts_with("training")
}

fn has_experts(engine: &Engine) -> bool {
    engine.name.starts_with("experts")
}

/// A wait for a batch in each step: as long as `us` in the abnormal side, short in the other.
fn late_input(
    engine: &Engine,
    frames: &[(&str, &'static str)],
    us: f64,
    place: &[&str],
) -> Planted {
    let with = |us: f64| {
        let mut ops: Vec<Op> = frames
            .iter()
            .map(|(name, cat)| Op::Open((*name).into(), cat))
            .collect();
        ops.push(Op::Host(us));
        ops.extend(frames.iter().map(|_| Op::Close));
        new_operations(&engine.parts.between, ops, 1)
    };
    let mut pair = planted(with(us), place);
    pair.normal.fault = with(18.0);
    pair
}

/// Steps of which some read prompts, as chance or bursts have it.
fn with_prompts(wanted: impl Fn(usize) -> bool + 'static, prompt: u32) -> OfStep {
    Box::new(move |step, _| Load {
        step,
        requests: 32,
        context: 48_000,
        prompt: if wanted(step) { prompt } else { 0 },
    })
}

const MIX: [&str; 2] = ["mix of steps", "prefill"];
const PYTHON: &str = "python_function";

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "loader_late",
        causes: &["waiting_for_input"],
        sizes: &[900.0, 5_000.0],
        fits: trains,
        plant: |_, x, _| planted(host(QUEUE_GET, None, x / 22.0), &["queue", "dataloader"]),
    },
    Kind {
        name: "batches_late",
        causes: &["waiting_for_input"],
        sizes: &[700.0, 1_600.0, 4_000.0],
        fits: |e| e.has_python && in_turns(e),
        plant: |e, x, _| {
            let simple = "<built-in method get of _queue.SimpleQueue object at 0x7f11c04a2b10>";
            let lock = "<method 'acquire' of '_thread.lock' objects>";
            match x {
                x if x < 1_000.0 => late_input(
                    e,
                    &[("input.py(31): prefetch", PYTHON), (simple, PYTHON)],
                    x,
                    &["queue"],
                ),
                x if x < 2_000.0 => {
                    late_input(e, &[("feed.py(18): get_batch", PYTHON)], x, &["get_batch"])
                }
                x => late_input(
                    e,
                    &[
                        ("feed.py(40): next_inputs", PYTHON),
                        ("queue.py(154): get", PYTHON),
                        ("threading.py(295): wait", PYTHON),
                        (lock, PYTHON),
                    ],
                    x,
                    &["queue", "wait", "acquire"],
                ),
            }
        },
    },
    Kind {
        name: "loader_late_at_times",
        causes: &["waiting_for_input", "pauses"],
        sizes: &[3.0, 5.0],
        fits: trains,
        plant: |_, x, _| {
            let every = if x > 4.0 { 5 } else { 3 };
            let fault = Fault {
                host: Some(Box::new(move |inside, _, step| {
                    match inside == QUEUE_GET && step % every == 1 {
                        true => 700.0,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let mut pair = planted(fault, &["queue", "dataloader"]);
            (pair.normal.steps, pair.abnormal.steps) = (40, 40);
            pair
        },
    },
    Kind {
        name: "marked_loader_late",
        causes: &["waiting_for_input"],
        sizes: &[900.0, 5_000.0],
        fits: |e| !e.has_python,
        plant: |e, x, _| {
            let range = "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__";
            late_input(e, &[(range, "user_annotation")], x, &["DataLoader"])
        },
    },
    Kind {
        name: "slow_expert_moves",
        causes: &["collective_straggler"],
        sizes: &[1.5, 3.0],
        fits: has_experts,
        plant: |e, x, seed| {
            let ranks = e.ranks;
            let fault = Fault {
                kernel: Some(Box::new(move |name, rank, step, _| {
                    match name.contains(EXPERTS) && mixed(step, seed) % ranks == rank {
                        true => x,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            planted(fault, &["moves", "no rank is always"])
        },
    },
    Kind {
        name: "slow_expert_moves_by_layer",
        causes: &["collective_straggler"],
        sizes: &[1.6, 2.5],
        fits: has_experts,
        plant: |e, x, seed| {
            let ranks = e.ranks;
            let fault = Fault {
                kernel: Some(Box::new(move |name, rank, step, call| {
                    match name.contains(EXPERTS) && mixed(step * 64 + call, seed) % ranks == rank {
                        true => x,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            planted(fault, &["moves", "no rank is always"])
        },
    },
    Kind {
        name: "more_prefills",
        causes: &["workload_shift"],
        sizes: &[2_500.0, 5_000.0],
        fits: |e| e.states_load && !has_experts(e),
        plant: |_, x, seed| {
            let prompt = if x > 3_000.0 { 5_000 } else { 2_500 };
            let mut pair = planted(Fault::default(), &MIX);
            pair.normal.load = with_prompts(move |step| mixed(step, seed) % 16 == 2, prompt);
            pair.abnormal.load = with_prompts(move |step| mixed(step, seed + 9) % 4 == 2, prompt);
            (pair.normal.steps, pair.abnormal.steps) = (48, 48);
            pair
        },
    },
    Kind {
        name: "prefills_in_bursts",
        causes: &["workload_shift"],
        sizes: &[2.0, 3.0],
        fits: |e| e.states_load && !has_experts(e),
        plant: |_, x, _| {
            let length = if x > 2.5 { 6 } else { 4 };
            let mut pair = planted(Fault::default(), &MIX);
            pair.normal.load = with_prompts(|step| step % 24 < 2, 3_000);
            pair.abnormal.load = with_prompts(move |step| step % 24 < length, 3_000);
            (pair.normal.steps, pair.abnormal.steps) = (48, 48);
            pair
        },
    },
    Kind {
        name: "gpu_shared_at_times",
        causes: &["pauses", "gpu_contention", "gpu_slow"],
        sizes: &[1_500.0, 4_000.0],
        fits: any,
        plant: |_, x, seed| {
            // Slices of time that go to another process, in a quarter of the steps: a kernel is stopped for one.
            let fault = Fault {
                kernel: Some(Box::new(move |name, _, step, call| {
                    let at = mixed(step, seed);
                    match is_gpu_only(name) && call == 2 && at % 4 == 1 {
                        true if name.len() % 5 == at / 4 % 5 => 1.0 + x / 40.0,
                        _ if is_gpu_only(name) && at % 4 == 1 => 1.15,
                        _ => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let mut pair = planted(fault, &["slow every now", "pause"]);
            (pair.normal.steps, pair.abnormal.steps) = (48, 48);
            pair
        },
    },
    Kind {
        name: "gpu_time_sliced",
        causes: &["gpu_contention", "gpu_slow", "pauses"],
        sizes: &[1_200.0, 2_500.0],
        fits: any,
        plant: |_, x, seed| {
            // In nearly every step some kernels, others each time, are stopped while another process has its turn.
            let fault = Fault {
                kernel: Some(Box::new(move |name, _, step, call| {
                    let at = mixed(step * 512 + call * 8 + name.len() % 8, seed);
                    match is_gpu_only(name) && at % 37 == 5 {
                        true => 1.0 + x / 40.0,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let mut pair = planted(
                fault,
                &["another process", "time of the GPU", "one kernel of GPU"],
            );
            (pair.normal.steps, pair.abnormal.steps) = (40, 40);
            pair
        },
    },
    Kind {
        name: "gpu_shared_at_times_counted",
        causes: &["pauses", "gpu_contention"],
        sizes: &[1.5, 2.2],
        fits: any,
        plant: |_, x, seed| {
            let fault = Fault {
                kernel: Some(Box::new(move |name, _, step, call| {
                    let shared = mixed(step / 2, seed) % 3 == 1;
                    match is_gpu_only(name) && shared && (call * 5 + step) % 4 < 3 {
                        true => x,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let counters = Counters {
                gpu_usage: 97.0,
                own_usage: 71.0,
                gpu_bytes: 7.1e10,
                ..Counters::default()
            };
            let mut pair = counted(
                fault,
                counters,
                &["slow every now", "pause", "process", "shared"],
            );
            (pair.normal.steps, pair.abnormal.steps) = (48, 48);
            pair
        },
    },
    Kind {
        name: "checkpoints",
        causes: &["pauses"],
        sizes: &[9_000.0, 60_000.0],
        fits: trains,
        plant: |e, x, _| {
            let every = if x > 20_000.0 { 12 } else { 8 };
            let mut pair = planted(
                new_operations(&e.parts.between, checkpoint(x), every),
                &["write", "save", "Memcpy", "serialization"],
            );
            (pair.normal.steps, pair.abnormal.steps) = (36, 36);
            pair
        },
    },
    Kind {
        name: "checkpoints_more_often",
        causes: &["pauses", "host_code"],
        sizes: &[12_000.0, 40_000.0],
        fits: |e| e.has_python && in_turns(e),
        plant: |e, x, _| {
            let mut pair = planted(
                new_operations(&e.parts.between, checkpoint(x), 5),
                &["write", "save", "Memcpy", "serialization"],
            );
            pair.normal.fault = new_operations(&e.parts.between, checkpoint(x), 20);
            (pair.normal.steps, pair.abnormal.steps) = (40, 40);
            pair
        },
    },
    Kind {
        name: "one_call_of_a_kernel",
        causes: &["gpu_kernel"],
        sizes: &[4.0, 7.0],
        fits: any,
        plant: |e, x, seed| {
            let name = e.parts.matrix.clone();
            let slow = mixed(0, seed) % e.layers;
            let place = format!("1 of its {} calls", e.layers);
            let fault = Fault {
                kernel: Some(Box::new(move |kernel, _, _, call| {
                    match call == slow && kernel.contains(&name) {
                        true => x,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            planted(fault, &[&place])
        },
    },
    Kind {
        name: "one_call_of_a_function",
        causes: &["host_code"],
        sizes: &[7.0, 20.0],
        fits: |e| e.has_python && in_turns(e),
        plant: |e, x, _| {
            let with = |factor: f64| {
                let mut ops = Vec::new();
                for at in 0..14 {
                    let us = if at == 9 { 60.0 * factor } else { 60.0 };
                    ops.extend(call("request.py(77): append_output", PYTHON, us));
                }
                new_operations(&e.parts.between, ops, 1)
            };
            let mut pair = planted(with(x), &["1 of its 14 calls"]);
            pair.normal.fault = with(1.0);
            pair
        },
    },
    Kind {
        name: "graphs_lost_unnamed",
        causes: &["host_code"],
        sizes: &[30.0, 80.0],
        fits: |e| e.has_graph() && in_turns(e),
        plant: |_, x, _| {
            // What replays a graph has no name that tells: an engine's own call, or none that was recorded.
            let api = if x > 50.0 { "" } else { "cuLaunchEngine" };
            let renamed = Fault {
                edit: Some(Box::new(move |ops, _| {
                    ops.into_iter()
                        .map(|op| match op {
                            Op::Launch(name, us, work) if name.contains("GraphLaunch") => {
                                Op::Launch(api.into(), us, work)
                            }
                            other => other,
                        })
                        .collect()
                })),
                ..Fault::default()
            };
            let fault = Fault {
                edit: Some(Box::new(move |ops, _| without_graphs(ops, x))),
                ..Fault::default()
            };
            let mut pair = planted(fault, &["raph", "one by one", "by itself"]);
            pair.normal.fault = renamed;
            pair
        },
    },
    Kind {
        name: "copies_of_stated_work",
        causes: &["host_code", "memory_pressure", "workload_shift"],
        sizes: &[8.0, 24.0],
        fits: |e| e.states_load,
        plant: |e, x, _| {
            let work = Work::copy(TO_HOST, 60.0, 2 << 20);
            let times = if x > 20.0 { 24 } else { 8 };
            planted(
                new_operations(&e.parts.between, copies(&work, times), 1),
                &["cop", "Memcpy"],
            )
        },
    },
    Kind {
        name: "null_mixed_steps",
        causes: &["none"],
        sizes: &[0.0, 0.0],
        fits: |e| e.states_load && !has_experts(e),
        plant: |_, _, _| {
            let mut pair = Planted::default();
            for side in [&mut pair.normal, &mut pair.abnormal] {
                side.load = with_prompts(|step| step % 9 == 4, 1_500);
                side.steps = 54;
            }
            pair
        },
    },
    Kind {
        name: "null_checkpoints",
        causes: &["none"],
        sizes: &[0.0],
        fits: trains,
        plant: |e, _, _| {
            let mut pair = Planted::default();
            for side in [&mut pair.normal, &mut pair.abnormal] {
                side.fault = new_operations(&e.parts.between, checkpoint(20_000.0), 9);
                side.steps = 36;
            }
            pair
        },
    },
    Kind {
        name: "null_experts",
        causes: &["none"],
        sizes: &[0.0, 0.0],
        fits: has_experts,
        plant: |e, _, seed| {
            // Tokens are never spread evenly: the busiest rank changes from step to step on both sides alike.
            let ranks = e.ranks;
            let uneven = || Fault {
                kernel: Some(Box::new(move |name: &str, rank, step, call| {
                    match name.contains(EXPERTS) && mixed(step * 64 + call, seed) % ranks == rank {
                        true => 1.4,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let mut pair = Planted::default();
            (pair.normal.fault, pair.abnormal.fault) = (uneven(), uneven());
            pair
        },
    },
];

/// What is saved: copied to the host, then written.
fn checkpoint(us: f64) -> Vec<Op> {
    let mut ops = vec![
        Op::Open("torch/serialization.py(943): save".into(), PYTHON),
        Op::Host(0.1 * us),
    ];
    ops.extend(copies(&Work::copy(TO_HOST, 0.05 * us, 64 << 20), 4));
    ops.push(Op::Wait("cudaStreamSynchronize".into(), false));
    ops.extend(call(
        "<method 'write' of '_io.BufferedWriter' objects>",
        PYTHON,
        0.7 * us,
    ));
    ops.push(Op::Close);
    ops
}
