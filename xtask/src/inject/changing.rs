//! Kinds of faults that come and go, grow, or hide: in work that ran at once before, among slow steps, behind other work.

use super::kinds::{Kind, any, in_turns, several, stated};
use super::plant::{all_kernels, is_gpu_only, kernels, planted, steady};
use super::program::{Work, rework};
use super::replay::{Fault, Noise};

pub(super) const KINDS: &[Kind] = &[
    Kind {
        name: "overlap_lost",
        causes: &["communication_exposed"],
        sizes: &[2.0, 5.0],
        fits: several,
        plant: |_, x, _| {
            // Collectives beside computation, on a stream of their own; then in the stream of the computation.
            let of = move |stream: u32| Fault {
                edit: Some(Box::new(move |ops, _| {
                    rework(ops, &|work| {
                        let other = Work {
                            stream,
                            us: work.us * x,
                            ..work.clone()
                        };
                        vec![if work.joint { other } else { work.clone() }]
                    })
                })),
                ..Fault::default()
            };
            let mut pair = planted(of(7), &["overlap"]);
            pair.normal.fault = of(20);
            pair
        },
    },
    Kind {
        name: "host_function_in_some_steps",
        causes: &["pauses", "host_code"],
        sizes: &[10.0, 30.0],
        fits: in_turns,
        plant: |e, x, seed| {
            let name = e.parts.inside.clone();
            let fault = Fault {
                host: Some(Box::new(move |inside, _, step| {
                    let mixed = (step as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15 ^ (seed << 7));
                    match inside.contains(&name) && (mixed >> 33) % 10 < 3 {
                        true => x,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let mut pair = planted(fault, &[&e.parts.inside]);
            (pair.normal.steps, pair.abnormal.steps) = (48, 48);
            pair
        },
    },
    Kind {
        name: "gpu_slower_in_stretches",
        causes: &["pauses", "gpu_slow"],
        sizes: &[1.3, 1.6],
        fits: any,
        plant: |_, x, _| {
            let fault = Fault {
                kernel: Some(Box::new(move |name, _, step, _| {
                    match is_gpu_only(name) && step / 4 % 2 == 1 {
                        true => x,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let mut pair = planted(fault, &["all kernels", "GPU"]);
            (pair.normal.steps, pair.abnormal.steps) = (48, 48);
            pair
        },
    },
    Kind {
        name: "host_function_grows",
        causes: &["drift", "host_code"],
        sizes: &[0.5, 1.5],
        fits: in_turns,
        plant: |e, x, _| {
            let name = e.parts.inside.clone();
            let fault = Fault {
                host: Some(Box::new(move |inside, _, step| {
                    match inside.contains(&name) {
                        true => 1.0 + x * step as f64,
                        false => 1.0,
                    }
                })),
                ..Fault::default()
            };
            let mut pair = planted(fault, &[&e.parts.inside]);
            (pair.normal.steps, pair.abnormal.steps) = (40, 40);
            pair
        },
    },
    Kind {
        name: "gpu_heats_up",
        causes: &["drift", "gpu_slow"],
        sizes: &[0.3, 0.6],
        fits: any,
        plant: |_, x, _| {
            let fault = Fault {
                kernel: Some(Box::new(move |name, _, step, _| match is_gpu_only(name) {
                    true => 1.0 + x * step as f64 / 40.0,
                    false => 1.0,
                })),
                ..Fault::default()
            };
            let mut pair = planted(fault, &["all kernels", "GPU"]);
            (pair.normal.steps, pair.abnormal.steps) = (40, 40);
            pair
        },
    },
    Kind {
        name: "gpu_slower_and_batch_larger",
        causes: &["gpu_slow", "workload_shift"],
        sizes: &[1.3, 1.5],
        fits: stated,
        plant: |_, x, _| {
            let mut pair = planted(all_kernels(None, x), &["GPU", "batch", "requests"]);
            pair.abnormal.load = steady(40, 60_000);
            pair
        },
    },
    Kind {
        name: "kernel_slower_among_slow_steps",
        causes: &["gpu_kernel"],
        sizes: &[1.5, 2.0],
        fits: any,
        plant: |e, x, _| {
            let name = e.parts.matrix.clone();
            let mut pair = planted(kernels(vec![name.clone()], x), &[&name[..10]]);
            pair.normal.noise = Noise::Correlated;
            pair.abnormal.noise = Noise::Correlated;
            pair
        },
    },
];
