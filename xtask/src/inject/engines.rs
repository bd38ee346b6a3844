//! Engines: the program of a step, and the names of its parts that faults are planted in.
//!
//! Names of functions, ranges and kernels are those that the profilers of these engines write; times are made up.

use super::program::{Op, Program, TO_GPU, TO_HOST, Work, has_graph};

/// What one step serves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) step: usize,
    pub(crate) requests: u32,
    /// Tokens of all contexts.
    pub(crate) context: u32,
    /// Prompt tokens; 0 in a decode step.
    pub(crate) prompt: u32,
}

/// Names of the parts of a step: enough of each to find it.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    /// A large kernel, one of its class.
    pub(crate) matrix: String,
    pub(crate) attention: String,
    /// What all matrix kernels have in their names.
    pub(crate) matrices: &'static [&'static str],
    /// A function of the host while the GPU waits or works for this step.
    pub(crate) inside: String,
    /// A function of the host between two steps.
    pub(crate) between: String,
    /// The function that takes requests.
    pub(crate) requests: String,
}

/// A program of steps.
pub(crate) struct Engine {
    pub(crate) name: String,
    pub(crate) ranks: usize,
    pub(crate) gpu: &'static str,
    /// Functions that are open for the whole recording.
    pub(crate) outer: &'static [&'static str],
    pub(crate) parts: Parts,
    pub(crate) layers: usize,
    /// Names of steps state their requests and tokens.
    pub(crate) states_load: bool,
    /// Python functions are recorded.
    pub(crate) has_python: bool,
    pub(super) step: Step,
}

/// Makes the operations of the step with a number.
pub(crate) type Step = Box<dyn Fn(&Load, usize) -> Vec<Op>>;

impl Engine {
    pub(crate) fn new(
        name: &str,
        ranks: usize,
        gpu: &'static str,
        parts: Parts,
        step: Step,
    ) -> Self {
        Self {
            name: name.to_owned(),
            ranks,
            gpu,
            outer: &[],
            parts,
            layers: 6,
            states_load: false,
            has_python: true,
            step,
        }
    }

    /// The program of a step with so many layers.
    pub(crate) fn step(&self, load: &Load, layers: usize) -> Vec<Op> {
        (self.step)(load, layers)
    }

    pub(crate) fn has_graph(&self) -> bool {
        has_graph(&self.step(
            &Load {
                step: 0,
                requests: 32,
                context: 48_000,
                prompt: 0,
            },
            self.layers,
        ))
    }
}

const NCCL: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const NORM: &str = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*, float, int, int)";
const FLASH: &str = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4>>(Flash_fwd_params)";
const ROPE: &str = "void vllm::rotary_embedding_kernel<c10::BFloat16, true>(long const*, c10::BFloat16*, c10::BFloat16*, int, long)";
const CACHE: &str = "void vllm::reshape_and_cache_flash_kernel<__nv_bfloat16, __nv_bfloat16>(__nv_bfloat16 const*, long)";
const SILU: &str =
    "void vllm::act_and_mul_kernel<c10::BFloat16, true>(c10::BFloat16*, c10::BFloat16 const*, int)";
const ARGMAX: &str = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(at::native::ReduceOp<float>)";
const SOFTMAX: &str = "void at::native::(anonymous namespace)::cunn_SoftMaxForward<4, float, float, float>(float*, float const*, int)";

/// Kernels of a decoder layer with times for 32 tokens: operator, kernel, microseconds.
fn layer(
    load: &Load,
    ranks: usize,
    gemms: [&str; 4],
    attention: &str,
) -> Vec<(&'static str, Work)> {
    let tokens = f64::from(load.requests + load.prompt);
    let scale = 0.55 + 0.45 * tokens / 32.0;
    let read = 20.0 + 110.0 * f64::from(load.context) / 48_000.0 + f64::from(load.prompt) * 0.1;
    let kernel = Work::kernel;
    let mut all = vec![
        ("_C::fused_add_rms_norm", kernel(NORM, 11.0)),
        ("aten::mm", kernel(gemms[0], 58.0 * scale)),
        ("_C::rotary_embedding", kernel(ROPE, 7.0)),
        ("_C_cache_ops::reshape_and_cache_flash", kernel(CACHE, 6.0)),
        ("vllm::unified_attention", kernel(attention, read)),
        ("aten::mm", kernel(gemms[1], 41.0 * scale)),
    ];
    let joint = |all: &mut Vec<(&'static str, Work)>| {
        if ranks > 1 {
            all.push(("c10d::allreduce_", Work::collective(NCCL, 24.0)));
        }
    };
    joint(&mut all);
    all.extend([
        ("_C::fused_add_rms_norm", kernel(NORM, 11.0)),
        ("aten::mm", kernel(gemms[2], 150.0 * scale)),
        ("_C::silu_and_mul", kernel(SILU, 13.0 * scale)),
        ("aten::mm", kernel(gemms[3], 84.0 * scale)),
    ]);
    joint(&mut all);
    all
}

/// Launches all layers, as one graph or kernel by kernel.
fn model(p: &mut Program, layers: Vec<Vec<(&'static str, Work)>>, graph: Option<&str>, us: f64) {
    match graph {
        Some(replay) => p.call(replay, |p| {
            p.host(6.0);
            let all = layers.into_iter().flatten().map(|(_, work)| work);
            p.launch("cudaGraphLaunch", 110.0, all.collect());
        }),
        None => {
            for (at, layer) in layers.into_iter().enumerate() {
                p.call(&format!("nn.Module: LlamaDecoderLayer_{at}"), |p| {
                    for (operator, work) in layer {
                        p.operator(operator, us, work);
                    }
                });
            }
        }
    }
}

pub(crate) fn vllm(ranks: usize, graph: bool) -> Engine {
    const GEMMS: [&str; 4] = [
        "nvjet_tst_128x32_64x8_2x1_v_bz_TNT",
        "nvjet_tst_64x32_64x16_4x1_v_bz_TNT",
        "nvjet_tst_192x32_64x6_2x1_v_bz_TNT",
        "nvjet_tst_96x32_64x8_1x2_h_bz_splitK_TNT",
    ];
    let step = move |load: &Load, layers: usize| {
        let mut p = Program::default();
        let (n, prompt, context) = (load.requests, load.prompt, load.context);
        p.call("vllm/v1/engine/core.py(812): _process_engine_step", |p| {
            p.leaf("vllm/v1/engine/core.py(780): _process_input_queue", 14.0);
            p.call("vllm/v1/core/sched/scheduler.py(195): schedule", |p| {
                p.host(60.0);
                p.leaf("vllm/v1/core/kv_cache_manager.py(230): allocate_slots", 85.0);
            });
            p.call("vllm/v1/worker/gpu_model_runner.py(2480): execute_model", |p| {
                let name = format!(
                    "execute_{}_context_{}(sq{prompt}sk{prompt}sqsq0sqsk0)_generation_{n}(sq{n}sk{context}sqsq{n}sqsk{context})",
                    n + prompt,
                    u32::from(prompt > 0)
                );
                p.range(&name, "user_annotation", |p| {
                    p.call("vllm/v1/worker/gpu_model_runner.py(960): _prepare_inputs", |p| {
                        p.host(90.0);
                        p.copy(Work::copy(TO_GPU, 2.1, 4096));
                        p.leaf("vllm/v1/attention/backends/flash_attn.py(300): build", 55.0);
                    });
                    let layers = (0..layers).map(|_| layer(load, ranks, GEMMS, FLASH)).collect();
                    let replay = "torch/cuda/graphs.py(120): replay";
                    model(p, layers, (graph && prompt == 0).then_some(replay), 22.0);
                    p.operator("aten::linear", 9.0, Work::kernel("nvjet_tst_256x32_64x4_2x1_v_bz_TNT", 170.0));
                });
                p.call("vllm/v1/sample/sampler.py(61): forward", |p| {
                    p.host(35.0);
                    p.operator("aten::softmax", 9.0, Work::kernel(SOFTMAX, 22.0));
                    p.operator("aten::argmax", 9.0, Work::kernel(ARGMAX, 18.0));
                });
                p.call("vllm/v1/worker/gpu_model_runner.py(2150): _bookkeeping_sync", |p| {
                    p.host(30.0);
                    p.copy(Work::copy(TO_HOST, 2.4, 256));
                    p.mark();
                    p.wait("cudaEventSynchronize", false);
                    p.host(25.0);
                });
            });
            p.call("vllm/v1/core/sched/scheduler.py(1010): update_from_output", |p| {
                p.host(70.0);
                p.leaf("vllm/v1/core/sched/utils.py(48): check_stop", 50.0);
            });
        });
        p.0
    };
    let kind = if graph { "graphs" } else { "eager" };
    Engine {
        outer: &["vllm/v1/engine/core.py(720): run_busy_loop"],
        states_load: true,
        ..Engine::new(
            &format!("vllm-{kind}-{ranks}"),
            ranks,
            "NVIDIA H100 80GB HBM3",
            Parts {
                matrix: "nvjet_tst_192x32".to_owned(),
                attention: "flash_fwd_splitkv".to_owned(),
                matrices: &["nvjet"],
                inside: "allocate_slots".to_owned(),
                between: "update_from_output".to_owned(),
                requests: "_process_input_queue".to_owned(),
            },
            Box::new(step),
        )
    }
}

pub(crate) fn sglang(ranks: usize, overlap: bool) -> Engine {
    const GEMMS: [&str; 4] = [
        "nvjet_tst_112x32_64x10_2x1_v_bz_TNT",
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_warpgroupsize1x1x1_cublas",
        "nvjet_tst_256x32_64x4_2x1_v_bz_TNT",
        "nvjet_tst_160x32_64x8_1x2_h_bz_splitK_TNT",
    ];
    const ATTENTION: &str = "void flashinfer::BatchDecodeWithPagedKVCacheKernel<(flashinfer::PosEncodingMode)0, 2u, 4u, 8u, 16u, 1u, 8u>(Params)";
    let step = move |load: &Load, layers: usize| {
        let mut p = Program::default();
        let base = "sglang/srt/";
        let (n, prompt) = (load.requests, load.prompt);
        let at = |name: &str| format!("{base}{name}");
        p.leaf(&at("managers/scheduler.py(1102): recv_requests"), 25.0);
        p.call(
            &at("managers/scheduler.py(1700): get_next_batch_to_run"),
            |p| {
                p.host(60.0);
                p.leaf(
                    &at("managers/schedule_batch.py(1820): prepare_for_decode"),
                    80.0,
                );
            },
        );
        p.call(&at("managers/scheduler.py(1901): run_batch"), |p| {
            let name = match prompt {
                0 => format!("step[DECODE bs={n} toks={n}]"),
                _ => format!("step[EXTEND bs={n} toks={}]", n + prompt),
            };
            p.range(&name, "user_annotation", |p| {
                p.call(
                    &at("model_executor/forward_batch_info.py(410): init_new"),
                    |p| {
                        p.host(70.0);
                        p.copy(Work::copy(TO_GPU, 2.0, 4096));
                    },
                );
                p.leaf(
                    &at("layers/attention/flashinfer_backend.py(320): init_forward_metadata"),
                    60.0,
                );
                let layers = (0..layers)
                    .map(|_| layer(load, ranks, GEMMS, ATTENTION))
                    .collect();
                let replay = at("model_executor/cuda_graph_runner.py(1333): replay");
                model(p, layers, (prompt == 0).then_some(&replay), 20.0);
                p.call(&at("layers/sampler.py(60): forward"), |p| {
                    p.host(30.0);
                    p.operator("aten::argmax", 8.0, Work::kernel(ARGMAX, 16.0));
                });
            });
            p.copy(Work::copy(TO_HOST, 2.2, 384));
            if !overlap {
                p.mark();
            }
        });
        p.call(
            &at("managers/scheduler_output_processor_mixin.py(190): process_batch_result_decode"),
            |p| {
                p.host(12.0);
                p.wait("cudaEventSynchronize", overlap);
                p.host(60.0);
                p.leaf(&at("managers/scheduler_output_processor_mixin.py(540): stream_output_generation"), 90.0);
                p.leaf(&at("mem_cache/radix_cache.py(310): cache_unfinished_req"), 45.0);
            },
        );
        if overlap {
            p.mark();
        }
        p.0
    };
    let kind = if overlap { "-overlap" } else { "" };
    Engine {
        outer: &["sglang/srt/managers/scheduler.py(980): event_loop_normal"],
        states_load: true,
        ..Engine::new(
            &format!("sglang{kind}-{ranks}"),
            ranks,
            "NVIDIA H200",
            Parts {
                matrix: "nvjet_tst_256x32".to_owned(),
                attention: "BatchDecodeWithPagedKVCacheKernel".to_owned(),
                matrices: &["nvjet", "sm90_xmma_gemm"],
                inside: "init_forward_metadata".to_owned(),
                between: "stream_output_generation".to_owned(),
                requests: "recv_requests".to_owned(),
            },
            Box::new(step),
        )
    }
}

pub(crate) fn trt(ranks: usize) -> Engine {
    const GEMMS: [&str; 4] = [
        "nvjet_qqtst_128x32_128x7_2x1_v_bz_TNN",
        "nvjet_qqtst_64x32_128x9_4x1_v_bz_TNN",
        "nvjet_qqtst_192x32_128x5_2x1_v_bz_TNN",
        "nvjet_qqtst_96x32_128x8_4x1_v_bz_TNN",
    ];
    const ATTENTION: &str = "fmhaSm100fKernel_QkvE4m3OBfloat16H128PagedKvCausalP32VarSeqQ128Kv128PersistentSwapsAbForGen";
    let step = move |load: &Load, layers: usize| {
        let mut p = Program::default();
        let at = |name: &str| format!("tensorrt_llm/_torch/pyexecutor/{name}");
        p.leaf(
            &at("py_executor.py(1210): _fetch_and_activate_new_requests"),
            20.0,
        );
        p.call(
            &at("py_executor.py(1402): _prepare_and_schedule_batch"),
            |p| {
                p.host(40.0);
                p.leaf(&at("scheduler.py(210): schedule_request"), 80.0);
                p.leaf(&at("resource_manager.py(330): prepare_resources"), 70.0);
            },
        );
        p.call(&at("py_executor.py(1650): _forward_step"), |p| {
            let name = format!(
                "[Executor] _forward_step {}: {} ctx reqs, {} gen reqs",
                load.step + 400,
                u32::from(load.prompt > 0),
                load.requests
            );
            p.range(&name, "user_annotation", |p| {
                p.call(&at("model_engine.py(1430): _prepare_tp_inputs"), |p| {
                    p.host(110.0);
                    p.copy(Work::copy(TO_GPU, 2.0, 8192));
                });
                let layers = (0..layers)
                    .map(|_| layer(load, ranks, GEMMS, ATTENTION))
                    .collect();
                let replay = at("cuda_graph_runner.py(180): replay");
                model(p, layers, Some(&replay), 18.0);
            });
        });
        p.call(&at("py_executor.py(1720): _sample_async"), |p| {
            p.host(30.0);
            p.operator("aten::argmax", 8.0, Work::kernel("void tensorrt_llm::kernels::topKStage1<float, 128, 64>(float const*, float*, int*)", 20.0));
            p.copy(Work::copy(TO_HOST, 2.2, 512));
            p.mark();
        });
        p.call(&at("py_executor.py(1755): _update_requests"), |p| {
            p.host(10.0);
            p.wait("cudaEventSynchronize", false);
            p.host(70.0);
        });
        p.leaf(&at("py_executor.py(1890): _handle_responses"), 100.0);
        p.0
    };
    Engine {
        outer: &["tensorrt_llm/_torch/pyexecutor/py_executor.py(980): _executor_loop"],
        states_load: true,
        ..Engine::new(
            &format!("trt-llm-{ranks}"),
            ranks,
            "NVIDIA B200",
            Parts {
                matrix: "nvjet_qqtst_192x32".to_owned(),
                attention: "fmhaSm100f".to_owned(),
                matrices: &["nvjet_qqtst"],
                inside: "prepare_resources".to_owned(),
                between: "_handle_responses".to_owned(),
                requests: "_fetch_and_activate_new_requests".to_owned(),
            },
            Box::new(step),
        )
    }
}

/// Generation with transformers: no server, no graphs.
pub(crate) fn transformers() -> Engine {
    const GEMMS: [&str; 4] = [
        "ampere_bf16_s16816gemm_bf16_64x64_sliced1x2_ldg8_f2f_stages_64x5_tn",
        "ampere_bf16_s16816gemm_bf16_64x128_ldg8_f2f_stages_64x3_tn",
        "ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_32x6_tn",
        "ampere_bf16_s16816gemm_bf16_128x128_ldg8_f2f_stages_32x5_tn",
    ];
    let step = |load: &Load, layers: usize| {
        let mut p = Program::default();
        p.leaf(
            "transformers/generation/utils.py(590): prepare_inputs_for_generation",
            70.0,
        );
        p.call(
            "transformers/models/qwen2/modeling_qwen2.py(703): forward",
            |p| {
                p.host(40.0);
                for _ in 0..layers {
                    p.call(
                        "transformers/models/qwen2/modeling_qwen2.py(243): forward",
                        |p| {
                            p.host(15.0);
                            for (operator, work) in layer(load, 1, GEMMS, FLASH) {
                                p.operator(operator, 13.0, work);
                            }
                        },
                    );
                }
            },
        );
        p.call(
            "transformers/generation/stopping_criteria.py(510): __call__",
            |p| {
                p.host(35.0);
                p.operator("aten::argmax", 8.0, Work::kernel(ARGMAX, 16.0));
                p.range("aten::item", "cpu_op", |p| {
                    p.copy(Work::copy("Memcpy DtoH (Device -> Pageable)", 1.5, 1));
                    p.wait("cudaStreamSynchronize", false);
                });
            },
        );
        p.leaf(
            "transformers/generation/utils.py(1050): _update_model_kwargs_for_generation",
            60.0,
        );
        p.leaf("transformers/generation/streamers.py(110): put", 45.0);
        p.0
    };
    Engine {
        outer: &["transformers/generation/utils.py(2700): _sample"],
        ..Engine::new(
            "transformers",
            1,
            "NVIDIA A100-SXM4-80GB",
            Parts {
                matrix: "ampere_bf16_s16816gemm_bf16_128x64".to_owned(),
                attention: "flash_fwd_splitkv".to_owned(),
                matrices: &["s16816gemm"],
                inside: "stopping_criteria".to_owned(),
                between: "streamers".to_owned(),
                requests: String::new(),
            },
            Box::new(step),
        )
    }
}

/// An engine without Python: its ranges are marked.
pub(crate) fn native(ranks: usize) -> Engine {
    const GEMMS: [&str; 4] = [
        "cutlass_80_tensorop_f16_s16816gemm_f16_64x64_64x5_tn_align8",
        "cutlass_80_tensorop_f16_s16816gemm_f16_64x128_32x6_tn_align8",
        "cutlass_80_tensorop_f16_s16816gemm_f16_128x64_32x6_tn_align8",
        "cutlass_80_tensorop_f16_s16816gemm_f16_128x128_32x5_tn_align8",
    ];
    const ATTENTION: &str = "mymodel::paged_attention_v2<128, 16>(half*, half const*, int const*)";
    let step = move |load: &Load, layers: usize| {
        let mut p = Program::default();
        let mark = "user_annotation";
        p.range("engine::decode_iteration", mark, |p| {
            p.host(40.0);
            p.copy(Work::copy(TO_GPU, 2.0, 4096));
            p.range("engine::enqueue_model", mark, |p| {
                for _ in 0..layers {
                    for (_, work) in layer(load, ranks, GEMMS, ATTENTION) {
                        p.host(6.0);
                        p.launch("cudaLaunchKernel", 3.2, vec![work]);
                    }
                }
            });
            p.range("engine::sample_tokens", mark, |p| {
                p.host(12.0);
                let sampling = "mymodel::top_p_sampling_kernel(float const*, int*, float)";
                p.launch("cudaLaunchKernel", 3.2, vec![Work::kernel(sampling, 30.0)]);
                p.copy(Work::copy(TO_HOST, 2.0, 256));
                p.wait("cudaStreamSynchronize", false);
            });
            p.range("engine::detokenize", mark, |p| p.host(220.0));
        });
        p.range("engine::poll_requests", mark, |p| p.host(60.0));
        p.0
    };
    Engine {
        has_python: false,
        ..Engine::new(
            &format!("native-{ranks}"),
            ranks,
            "NVIDIA L40S",
            Parts {
                matrix: "cutlass_80_tensorop_f16_s16816gemm_f16_128x64".to_owned(),
                attention: "paged_attention_v2".to_owned(),
                matrices: &["s16816gemm"],
                inside: "engine::detokenize".to_owned(),
                between: "engine::detokenize".to_owned(),
                requests: "engine::poll_requests".to_owned(),
            },
            Box::new(step),
        )
    }
}
