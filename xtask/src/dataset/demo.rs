//! The demonstration: two ranks of a tensor-parallel language model serve one prefill and four
//! decode steps.
//!
//! The last two decode steps are replays of a captured graph; a third file contains the capture.
//! Planted: rank 1 runs 850 µs late in one prefill layer and its host stalls for 1.2 ms in the
//! second decode step; its clock is 37.25 µs ahead; three kernels at the start have no launch in
//! the recording; half of the prefill's collectives overlap with computation.

use super::json::object;
use super::sim::{COMM, COMPUTE, Input, Kernel, Message, Sim};
use super::{Fixture, demo_truth};
use serving_synth::kineto::{self, Recorder};
use serving_synth::sim::Rank;

/// True time at which the recording starts, since the epoch.
pub(crate) const START: i64 = 1_775_078_550_000_000_000 + 365_627_865_000_000;
/// `baseTimeNanoseconds` of rank 0; each further rank has a base one second later.
const BASE: i64 = 1_775_078_550_000_000_000;
/// Clock offset of rank 1 (ahead), in nanoseconds.
pub(crate) const CLOCK_AHEAD: i64 = 37_250;
/// The function whose five calls are the five steps.
pub(crate) const STEP_FUNCTION: &str =
    "/sgl-workspace/sglang/python/sglang/srt/managers/tp_worker.py(232): forward_batch_generation";

const LAYERS: i64 = 18;
const HIDDEN: i64 = 4096;
const VOCABULARY: i64 = 32_000;
/// Heads of a rank, those of keys and values, and their size.
const HEADS: i64 = 16;
const KV_HEADS: i64 = 4;
const HEAD: i64 = 128;
/// Inner width of the MLP of a rank.
const INNER: i64 = 3072;
/// Blocks of the KV cache, and tokens of one.
const BLOCKS: i64 = 4096;
const BLOCK: i64 = 16;
const SRT: &str = "/sgl-workspace/sglang/python/sglang/srt";
const LAUNCH: (&str, i64) = ("cudaLaunchKernel", 211);
const LAUNCH_EX: (&str, i64) = ("cudaLaunchKernelExC", 430);
const DRIVER_LAUNCH_EX: (&str, i64) = ("cuLaunchKernelEx", 652);

/// Parameters of a forward pass.
#[derive(Clone, Copy)]
struct Pass {
    tokens: i64,
    /// Duration of the kernels in percent of those in a decode step.
    scale: i64,
    /// Collectives after the MLP go to their own stream and the next layer does not wait.
    overlap: bool,
    /// Layer in which the attention of rank 1 is slow.
    slow_layer: Option<i64>,
    /// Layer before which the host of rank 1 stalls.
    stall_layer: Option<i64>,
}

const PREFILL: Pass = Pass {
    tokens: 2048,
    scale: 2600,
    overlap: true,
    slow_layer: Some(5),
    stall_layer: None,
};
const DECODE: Pass = Pass {
    tokens: 32,
    scale: 100,
    overlap: false,
    slow_layer: None,
    stall_layer: None,
};

/// Returns the three traces and the truth about them.
pub(crate) fn build(seed: u64) -> Vec<Fixture> {
    let capture = capture(seed);
    let captured = capture.captured.clone().unwrap_or_default();
    let nodes: Vec<Kernel> = captured.iter().map(|(kernel, _)| kernel.clone()).collect();
    let sim = serve(seed, &nodes);
    let mut files = Vec::new();
    for rank in &sim.ranks {
        let name = format!("demo/demo-rank{}", rank.index);
        let written = kineto::write(rank, 2, &recorder(rank));
        let shows = format!(
            "rank {} of two serving a language model: one prefill, four decode steps, two of them as graph replays; \
             NCCL collectives with arguments, Python stacks, planted stragglers",
            rank.index
        );
        files.push(Fixture::gzip(
            &format!("{name}.json.gz"),
            &shows,
            written.text.as_bytes(),
        ));
        let truth = demo_truth::rank(&sim, rank, &written, &capture.ranks[0], &captured);
        files.push(Fixture::truth(&name, &truth));
    }
    files.push(Fixture::truth("demo/demo-ranks", &demo_truth::across(&sim)));
    let written = kineto::write(&capture.ranks[0], 2, &recorder(&capture.ranks[0]));
    let shows = "the recording of the graph's capture: its launch calls, in order, are the kernels of each replay";
    files.push(Fixture::gzip(
        "demo/demo-capture-rank0.json.gz",
        shows,
        written.text.as_bytes(),
    ));
    files.push(Fixture::truth(
        "demo/demo-capture-rank0",
        &demo_truth::capture(&capture.ranks[0], &written, &captured),
    ));
    files
}

/// Returns the recorder of a rank.
pub(crate) fn recorder(rank: &Rank) -> Recorder {
    Recorder {
        name: "demo",
        process: "sglang::scheduler",
        base_ns: BASE + rank.index * 1_000_000_000,
        ahead_ns: rank.index * CLOCK_AHEAD,
    }
}

/// Simulates one process that captures the decode pass.
fn capture(seed: u64) -> Sim {
    let mut sim = Sim::new(1, START - 60_000_000_000, seed ^ 0xcafe);
    let runner = format!("{SRT}/model_executor/cuda_graph_runner.py");
    sim.python(&format!("{runner}(925): capture"), |sim| {
        sim.annotation("capture_32_DECODE", |sim| {
            sim.python(&format!("{runner}(1201): capture_one_batch_size"), |sim| {
                // The warm-up kernel runs before the capture begins and is not a node of the graph.
                sim.op("aten::fill_", &[long(&[32]), Input::Scalar("0")], |sim| {
                    sim.launch(LAUNCH, &fill(), &[COMPUTE], 0)
                });
                sim.python("torch/cuda/graphs.py(240): __enter__", |sim| {
                    sim.runtime("cudaStreamBeginCapture", 289, 3_000);
                });
                sim.captured = Some(Vec::new());
                sim.python(&format!("{runner}(1147): run_once"), |sim| {
                    forward(sim, DECODE)
                });
                sim.python("torch/cuda/graphs.py(264): __exit__", |sim| {
                    sim.runtime("cudaStreamEndCapture", 290, 5_200);
                    sim.runtime("cudaGraphGetNodes", 301, 60_000);
                    sim.runtime("cudaGraphInstantiateWithFlags", 409, 1_562_000);
                    sim.runtime("cudaGraphDestroy", 313, 150_000);
                });
            });
        });
    });
    sim
}

/// Simulates two processes that serve five steps.
fn serve(seed: u64, nodes: &[Kernel]) -> Sim {
    let mut sim = Sim::new(2, START, seed);
    sim.orphans(&fill(), 3);
    sim.python(
        &format!("{SRT}/managers/scheduler.py(980): event_loop_normal"),
        |sim| {
            step(sim, "step[EXTEND bs=4 toks=2048]", |sim| {
                forward(sim, PREFILL)
            });
            step(sim, "step[DECODE bs=32]", |sim| forward(sim, DECODE));
            step(sim, "step[DECODE bs=32]", |sim| {
                forward(
                    sim,
                    Pass {
                        stall_layer: Some(9),
                        ..DECODE
                    },
                )
            });
            for _ in 0..2 {
                step(sim, "step[DECODE bs=32]", |sim| {
                    sim.python(
                        &format!("{SRT}/model_executor/cuda_graph_runner.py(820): replay"),
                        |sim| {
                            copy(sim, "Memcpy HtoD (Pinned -> Device)", 256);
                            sim.python("torch/cuda/graphs.py(138): replay", |sim| {
                                sim.graph_launch(nodes, 210_000)
                            });
                        },
                    );
                });
            }
        },
    );
    sim
}

/// Simulates `ranks` processes that serve `steps` decode steps; in every eighth step rank 1 stalls.
pub(crate) fn job(ranks: i64, steps: u64, seed: u64) -> Sim {
    let mut sim = Sim::new(ranks, START, seed);
    let outer = format!("{SRT}/managers/scheduler.py(980): event_loop_normal");
    sim.python(&outer, |sim| {
        for i in 0..steps {
            let stall_layer = (i % 8 == 5).then_some(9);
            let pass = Pass {
                stall_layer,
                ..DECODE
            };
            step(sim, "step[DECODE bs=32]", |sim| forward(sim, pass));
        }
    });
    sim
}

fn step(sim: &mut Sim, annotation: &str, body: impl FnOnce(&mut Sim)) {
    sim.think(90_000);
    sim.python(
        &format!("{SRT}/managers/scheduler.py(2919): _run_batch_inner"),
        |sim| {
            sim.python(STEP_FUNCTION, |sim| {
                sim.python(
                    &format!("{SRT}/model_executor/model_runner.py(2570): forward"),
                    |sim| {
                        sim.annotation(annotation, |sim| {
                            sim.python(
                                &format!(
                                    "{SRT}/model_executor/forward_batch_info.py(412): init_new"
                                ),
                                |sim| {
                                    sim.op("aten::to", &[long(&[32])], |sim| {
                                        copy(sim, "Memcpy HtoD (Pinned -> Device)", 128)
                                    });
                                },
                            );
                            body(sim);
                        });
                    },
                );
                sim.python(&format!("{SRT}/layers/sampler.py(71): forward"), sample);
            });
            sim.python(
                &format!("{SRT}/managers/scheduler.py(3044): process_batch_result"),
                |sim| {
                    sim.op("aten::item", &[long(&[32])], |sim| {
                        copy(sim, "Memcpy DtoH (Device -> Pinned)", 256);
                        sim.runtime("cudaEventRecord", 135, 1_200);
                        sim.synchronize();
                    });
                },
            );
        },
    );
}

fn forward(sim: &mut Sim, pass: Pass) {
    let tokens = pass.tokens;
    sim.python("nn.Module: LlamaForCausalLM_0", |sim| {
        sim.python(&format!("{SRT}/models/llama.py(462): forward"), |sim| {
            sim.python("nn.Module: VocabParallelEmbedding_0", |sim| {
                sim.op("aten::embedding", &embedding_inputs(tokens), |sim| {
                    let name = "void at::native::(anonymous namespace)::vectorized_gather_kernel<16, long>(char*, char*, long*, int, long, long, long, long)";
                    run(sim, pass, LAUNCH, name, 2_100, [tokens, 1, 1]);
                });
                all_reduce(sim, pass, COMPUTE);
            });
            for layer in 0..LAYERS {
                decoder_layer(sim, pass, layer);
            }
            norm(sim, pass, 2 * LAYERS, &[COMPUTE, COMM]);
            logits(sim, pass);
        });
    });
}

fn long(dims: &[i64]) -> Input {
    Input::Tensor(dims.to_vec(), "long int")
}

fn product_inputs(rows: i64, (inner, outer): (i64, i64)) -> [Input; 2] {
    [Input::bf16(&[rows, inner]), Input::bf16(&[inner, outer])]
}

fn embedding_inputs(tokens: i64) -> [Input; 5] {
    let table = Input::bf16(&[VOCABULARY / 2, HIDDEN]);
    let flags = ["-1", "False", "False"].map(Input::Scalar);
    let [padding, scale, sparse] = flags;
    [table, long(&[tokens]), padding, scale, sparse]
}

/// Queries, keys, their results, the table of angles, positions.
fn rope_inputs(tokens: i64) -> [Input; 7] {
    let (q, k) = (
        Input::bf16(&[tokens, HEADS, HEAD]),
        Input::bf16(&[tokens, KV_HEADS, HEAD]),
    );
    let table = Input::Tensor(vec![131_072, HEAD], "float");
    let style = Input::Scalar("False");
    [q.clone(), k.clone(), q, k, table, long(&[tokens]), style]
}

/// FlashAttention 3 over a paged cache: lengths at 7, page table at 14, scale at 23, causal at 24, window from 25 on.
fn attention_inputs(tokens: i64) -> Vec<Input> {
    let requests = if tokens > 100 { 4 } else { tokens };
    let lengths = |n: i64| Input::Tensor(vec![n], "int");
    let cache = Input::bf16(&[BLOCKS, BLOCK, KV_HEADS, HEAD]);
    let mut inputs = vec![Input::Nothing; 33];
    let filled = [
        (0, Input::bf16(&[tokens, HEADS, HEAD])),
        (1, cache.clone()),
        (2, cache),
        (7, lengths(requests + 1)),
        (11, lengths(requests)),
        (14, Input::Tensor(vec![requests, 128], "int")),
        (23, Input::Scalar("0.08838834764831845")),
        (24, Input::Scalar("True")),
        (25, Input::Scalar("-1")),
        (26, Input::Scalar("-1")),
    ];
    for (at, input) in filled {
        inputs[at] = input;
    }
    inputs
}

fn decoder_layer(sim: &mut Sim, pass: Pass, layer: i64) {
    let slow = if pass.slow_layer == Some(layer) {
        850_000
    } else {
        0
    };
    sim.python(&format!("nn.Module: DecoderLayer_{layer}"), |sim| {
        sim.python(&format!("{SRT}/models/llama.py(275): forward"), |sim| {
            norm(sim, pass, 2 * layer, &[COMPUTE]);
            sim.python(&format!("nn.Module: Attention_{layer}"), |sim| {
                sim.python(&format!("{SRT}/models/llama.py(184): forward"), |sim| {
                    linear(sim, pass, "QKVParallelLinear", layer, (HIDDEN, (HEADS + 2 * KV_HEADS) * HEAD), 7_800);
                    sim.python(&format!("nn.Module: RotaryEmbedding_{layer}"), |sim| {
                        let name = "void flashinfer::BatchQKApplyRotaryPosIdsCosSinCacheKernel<true, 128u, 8u, __nv_bfloat16, long>(__nv_bfloat16*, float*, long*, unsigned int)";
                        sim.op("sgl_kernel::apply_rope_pos_ids_cos_sin_cache", &rope_inputs(pass.tokens), |sim| {
                            // This one waits for the collective of the previous layer, if that
                            // still runs.
                            run_after(sim, pass, LAUNCH_EX, name, 1_900, &[COMPUTE, COMM], 0);
                        });
                    });
                    sim.python(&format!("nn.Module: RadixAttention_{layer}"), |sim| {
                        sim.op("sgl_kernel::fwd", &attention_inputs(pass.tokens), |sim| {
                            let name = "void flash::FlashAttnFwdSm90<flash::CollectiveMainloopFwdSm90<2, 128, cutlass::bfloat16_t, float>, flash::CollectiveEpilogueFwd>(flash::Params)";
                            run_after(sim, pass, LAUNCH_EX, name, 6_200, &[COMPUTE], slow);
                        });
                    });
                    linear(sim, pass, "RowParallelLinear", 2 * layer, (HEADS * HEAD, HIDDEN), 5_400);
                    all_reduce(sim, pass, COMPUTE);
                });
            });
            if pass.stall_layer == Some(layer) {
                sim.stall(1, "<built-in function collect>", 1_200_000);
            }
            norm(sim, pass, 2 * layer + 1, &[COMPUTE]);
            sim.python(&format!("nn.Module: MLP_{layer}"), |sim| {
                sim.python(&format!("{SRT}/models/llama.py(98): forward"), |sim| {
                    linear(sim, pass, "MergedColumnParallelLinear", layer, (HIDDEN, 2 * INNER), 13_600);
                    sim.op("sgl_kernel::silu_and_mul", &[Input::bf16(&[pass.tokens, INNER]), Input::bf16(&[pass.tokens, 2 * INNER])], |sim| {
                        let name = "void flashinfer::activation::act_and_mul_kernel<__nv_bfloat16, &(silu(float const&))>(__nv_bfloat16*, __nv_bfloat16 const*, int)";
                        run(sim, pass, LAUNCH_EX, name, 2_300, [pass.tokens, 1, 1]);
                    });
                    linear(sim, pass, "RowParallelLinear", 2 * layer + 1, (INNER, HIDDEN), 9_900);
                    all_reduce(sim, pass, if pass.overlap { COMM } else { COMPUTE });
                });
            });
        });
    });
}

fn norm(sim: &mut Sim, pass: Pass, module: i64, after: &[i64]) {
    sim.python(&format!("nn.Module: RMSNorm_{module}"), |sim| {
        let rows = Input::bf16(&[pass.tokens, HIDDEN]);
        sim.op("sgl_kernel::fused_add_rmsnorm", &[rows.clone(), rows, Input::bf16(&[HIDDEN]), Input::Scalar("1e-05"), Input::Scalar("False")], |sim| {
            let name = "void flashinfer::norm::FusedAddRMSNormKernel<8u, __nv_bfloat16>(__nv_bfloat16*, __nv_bfloat16*, __nv_bfloat16*, unsigned int, float)";
            run_after(sim, pass, LAUNCH_EX, name, 1_700, after, 0);
        });
    });
}

/// A matrix product with the transposed weight of `widths` inputs and outputs.
fn linear(sim: &mut Sim, pass: Pass, module: &str, index: i64, widths: (i64, i64), dur: i64) {
    sim.python(&format!("nn.Module: {module}_{index}"), |sim| {
        sim.python(&format!("{SRT}/layers/linear.py(1290): forward"), |sim| {
            sim.op("aten::mm", &product_inputs(pass.tokens, widths), |sim| {
                let tile = if pass.tokens > 100 { "128x256_64x4_2x1" } else { "64x8_64x16_4x1" };
                run(sim, pass, DRIVER_LAUNCH_EX, &format!("nvjet_tst_{tile}_v_bz_TNT"), dur, [132, 1, 1]);
                if pass.tokens < 100 && module == "RowParallelLinear" {
                    // The name contains "reduce", but it is not a collective.
                    let name = "void cublasLt::splitKreduce_kernel<32, 16, int, __nv_bfloat16, float, __nv_bfloat16>(cublasLt::cublasSplitKParams<float>)";
                    run(sim, pass, LAUNCH, name, 1_500, [64, 1, 1]);
                }
            });
        });
    });
}

fn all_reduce(sim: &mut Sim, pass: Pass, stream: i64) {
    let nelems = pass.tokens * HIDDEN;
    let message = Message {
        collective: "allreduce",
        nelems_in: nelems,
        nelems_out: nelems,
        seq: 0,
    };
    let protocol = if pass.tokens > 100 {
        "RING_SIMPLE"
    } else {
        "RING_LL"
    };
    let kernel = Kernel {
        name: format!(
            "ncclDevKernel_AllReduce_Sum_bf16_{protocol}(ncclDevKernelArgsStorage<4096ul>)"
        ),
        dur: 9_000 + nelems / 90,
        stream,
        grid: [24, 1, 1],
        block: 512,
        message: None,
        joins: false,
        slow: None,
    };
    let frames = ["tensor_model_parallel_all_reduce", "all_reduce"];
    collective(
        sim,
        pass,
        frames,
        (
            "torch/distributed/distributed_c10d.py(2810): all_reduce",
            "allreduce",
        ),
        &kernel,
        message,
    );
}

fn logits(sim: &mut Sim, pass: Pass) {
    let rows = if pass.tokens > 100 { 4 } else { pass.tokens };
    sim.python("nn.Module: LogitsProcessor_0", |sim| {
        sim.python(
            &format!("{SRT}/layers/logits_processor.py(232): forward"),
            |sim| {
                sim.op(
                    "aten::mm",
                    &product_inputs(rows, (HIDDEN, VOCABULARY / 2)),
                    |sim| {
                        run(
                            sim,
                            DECODE,
                            DRIVER_LAUNCH_EX,
                            "nvjet_tst_64x8_64x16_4x1_v_bz_TNT",
                            31_000,
                            [132, 1, 1],
                        );
                    },
                );
                let nelems = rows * VOCABULARY / 2;
                let message = Message {
                    collective: "_allgather_base",
                    nelems_in: nelems,
                    nelems_out: 2 * nelems,
                    seq: 0,
                };
                let kernel = Kernel {
                    name: "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
                        .to_owned(),
                    dur: 12_000 + nelems / 60,
                    stream: COMPUTE,
                    grid: [16, 1, 1],
                    block: 512,
                    message: None,
                    joins: false,
                    slow: None,
                };
                let frames = ["tensor_model_parallel_all_gather", "all_gather"];
                let api = (
                    "torch/distributed/distributed_c10d.py(3953): all_gather_into_tensor",
                    "_allgather_base",
                );
                collective(sim, pass, frames, api, &kernel, message);
            },
        );
    });
}

fn collective(
    sim: &mut Sim,
    pass: Pass,
    frames: [&str; 2],
    api: (&str, &str),
    kernel: &Kernel,
    message: Message,
) {
    let [op, group] = frames;
    let annotation = format!(
        "nccl:{}",
        if api.1 == "allreduce" {
            "all_reduce"
        } else {
            "_all_gather_base"
        }
    );
    let object = "pybind11_builtins.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1";
    sim.python(
        &format!("{SRT}/distributed/communication_op.py(11): {op}"),
        |sim| {
            sim.python(
                &format!("{SRT}/distributed/parallel_state.py(560): {group}"),
                |sim| {
                    sim.python("torch/distributed/c10d_logger.py(78): wrapper", |sim| {
                        sim.python(api.0, |sim| {
                            sim.python(
                                &format!(
                                    "<built-in method {} of {object} object at 0x7f31c4a2d9b0>",
                                    api.1
                                ),
                                |sim| {
                                    sim.op(
                                        &format!("c10d::{}_", api.1),
                                        &[Input::bf16(&[pass.tokens, HIDDEN])],
                                        |sim| {
                                            sim.op(
                                                "record_param_comms",
                                                &[Input::bf16(&[pass.tokens, HIDDEN])],
                                                |sim| {
                                                    if kernel.stream == COMM {
                                                        sim.runtime("cudaEventRecord", 135, 900);
                                                        sim.runtime(
                                                            "cudaStreamWaitEvent",
                                                            147,
                                                            1_100,
                                                        );
                                                    }
                                                    sim.runtime(
                                                        "cudaStreamGetCaptureInfo_v2",
                                                        381,
                                                        300,
                                                    );
                                                    sim.annotation(&annotation, |sim| {
                                                        sim.collective(
                                                            kernel,
                                                            Some(message),
                                                            &[COMPUTE, COMM],
                                                        )
                                                    });
                                                },
                                            );
                                        },
                                    );
                                },
                            );
                        });
                    });
                },
            );
        },
    );
}

fn sample(sim: &mut Sim) {
    let inputs = [
        Input::Tensor(vec![32, VOCABULARY], "float"),
        Input::Scalar("-1"),
        Input::Scalar("False"),
    ];
    sim.op("aten::argmax", &inputs, |sim| {
        let name = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>)";
        run(sim, DECODE, LAUNCH, name, 14_000, [32, 1, 1]);
    });
}

fn copy(sim: &mut Sim, name: &str, bytes: i64) {
    let kernel = Kernel {
        name: name.to_owned(),
        dur: 1_300,
        stream: COMPUTE,
        grid: [bytes, 1, 1],
        block: 0,
        message: None,
        joins: false,
        slow: None,
    };
    sim.launch(("cudaMemcpyAsync", 41), &kernel, &[COMPUTE, COMM], 0);
}

fn fill() -> Kernel {
    let name = "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>, std::array<char*, 1ul> >(int, at::native::FillFunctor<long>, std::array<char*, 1ul>)";
    Kernel {
        name: name.to_owned(),
        dur: 1_400,
        stream: COMPUTE,
        grid: [1, 1, 1],
        block: 256,
        message: None,
        joins: false,
        slow: None,
    }
}

fn run(sim: &mut Sim, pass: Pass, api: (&str, i64), name: &str, dur: i64, grid: [i64; 3]) {
    let kernel = Kernel {
        name: name.to_owned(),
        dur: dur * pass.scale / 100,
        stream: COMPUTE,
        grid,
        block: 256,
        message: None,
        joins: false,
        slow: None,
    };
    sim.launch(api, &kernel, &[COMPUTE], 0);
}

fn run_after(
    sim: &mut Sim,
    pass: Pass,
    api: (&str, i64),
    name: &str,
    dur: i64,
    after: &[i64],
    slow: i64,
) {
    let grid = [pass.tokens, 16, 1];
    let kernel = Kernel {
        name: name.to_owned(),
        dur: dur * pass.scale / 100,
        stream: COMPUTE,
        grid,
        block: 128,
        message: None,
        joins: false,
        slow: None,
    };
    sim.launch(api, &kernel, after, slow);
}

/// Returns the planted facts for the truth of the ranks.
pub(crate) fn planted() -> super::json::Json {
    object! {
        "clock_offset_ns_rank1": CLOCK_AHEAD,
        "slow_attention": object! { "rank": 1, "step": 0, "layer": 5, "extra_ns": 850_000 },
        "host_stall": object! { "rank": 1, "step": 2, "layer": 9, "stall_ns": 1_200_000 },
        "kernels_without_launch_per_rank": 3,
    }
}
