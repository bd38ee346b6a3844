//! Engines beside those that serve one model on equal ranks: training with a data loader, and experts on ranks of their own.

use super::engines::{Engine, Load, Parts};
use super::program::{Program, TO_GPU, TO_HOST, Work};

const NORM: &str = "void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float>(int, float, c10::BFloat16 const*)";
const FLASH: &str = "void pytorch_flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, 64, 4>>(pytorch_flash::Flash_fwd_params)";
const FLASH_BACK: &str = "void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<Flash_bwd_kernel_traits<128, 64, 64, 8>>(pytorch_flash::Flash_bwd_params)";
const ADAM: &str = "void at::native::(anonymous namespace)::multi_tensor_apply_kernel<FusedAdamMathFunctor<float, 4>>(float const*)";
const REDUCE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
const SEND: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

/// The function that waits for a batch, within those of the loader.
pub(super) const QUEUE_GET: &str = "multiprocessing/queues.py(103): get";

/// Training of a model: batches from worker processes, gradients of all ranks.
pub(crate) fn training(ranks: usize) -> Engine {
    const GEMMS: [&str; 3] = [
        "sm80_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x32_stage4_warpsize2x2x1_tensor16x8x16_kernel",
        "ampere_bf16_s16816gemm_bf16_256x128_ldg8_f2f_stages_32x3_tn",
        "ampere_bf16_s16816gemm_bf16_128x256_ldg8_f2f_stages_32x3_nt",
    ];
    let step = move |load: &Load, layers: usize| {
        let mut p = Program::default();
        let loader = |name: &str| format!("torch/utils/data/dataloader.py{name}");
        p.range(&format!("ProfilerStep#{}", load.step + 40), "user_annotation", |p| {
            p.call(&loader("(701): __next__"), |p| {
                p.host(9.0);
                p.call(&loader("(1448): _next_data"), |p| {
                    p.call(&loader("(1270): _try_get_data"), |p| p.leaf(QUEUE_GET, 22.0));
                    p.host(12.0);
                });
            });
            p.call("train.py(71): to_device", |p| {
                p.host(14.0);
                p.copy(Work::copy(TO_GPU, 60.0, 1 << 20));
            });
            p.call("train.py(88): forward", |p| {
                for _ in 0..layers {
                    p.call("model.py(140): forward", |p| {
                        p.operator("aten::native_layer_norm", 14.0, Work::kernel(NORM, 26.0));
                        p.operator("aten::mm", 13.0, Work::kernel(GEMMS[0], 210.0));
                        p.operator("aten::_scaled_dot_product_flash_attention", 18.0, Work::kernel(FLASH, 160.0));
                        p.operator("aten::mm", 13.0, Work::kernel(GEMMS[1], 330.0));
                    });
                }
            });
            p.call("torch/_tensor.py(570): backward", |p| {
                for _ in 0..layers {
                    p.operator("autograd::engine::evaluate_function: MmBackward0", 15.0, Work::kernel(GEMMS[2], 560.0));
                    p.operator("autograd::engine::evaluate_function: ScaledDotProductFlashAttentionBackward0", 17.0, Work::kernel(FLASH_BACK, 390.0));
                    if ranks > 1 {
                        let reduce = Work { stream: 20, ..Work::collective(REDUCE, 120.0) };
                        p.operator("c10d::allreduce_", 12.0, reduce);
                    }
                }
            });
            p.call("torch/optim/adamw.py(220): step", |p| {
                p.host(60.0);
                p.operator("aten::_fused_adamw_", 30.0, Work::kernel(ADAM, 240.0));
            });
            p.call("train.py(104): log_loss", |p| {
                p.host(20.0);
                p.range("aten::item", "cpu_op", |p| {
                    p.copy(Work::copy("Memcpy DtoH (Device -> Pageable)", 1.5, 4));
                    p.wait("cudaStreamSynchronize", false);
                });
            });
            p.leaf("train.py(118): update_progress", 60.0);
        });
        p.0
    };
    Engine {
        outer: &["train.py(60): train"],
        ..Engine::new(
            &format!("training-{ranks}"),
            ranks,
            "NVIDIA A100-SXM4-80GB",
            Parts {
                matrix: "ampere_bf16_s16816gemm_bf16_256x128".to_owned(),
                attention: "flash_fwd_kernel".to_owned(),
                matrices: &["gemm"],
                inside: "to_device".to_owned(),
                between: "update_progress".to_owned(),
                requests: String::new(),
            },
            Box::new(step),
        )
    }
}

/// A kernel of the experts of a rank.
pub(super) const EXPERTS: &str = "moe_grouped_gemm";

/// A model whose experts are on ranks of their own: tokens are sent to them and back in each layer.
pub(crate) fn experts(ranks: usize) -> Engine {
    const GEMMS: [&str; 2] = [
        "nvjet_tst_128x64_64x8_2x1_v_bz_TNT",
        "nvjet_tst_64x64_64x13_4x1_v_bz_TNT",
    ];
    const GROUPED: &str = "void cutlass::device_kernel<moe_grouped_gemm_sm90<cutlass::bfloat16_t, 128, 64, 64>>(moe_grouped_gemm_params)";
    const ROUTE: &str = "void vllm::moe::topkGatingSoftmax<8, 128, 4, 16, int>(float const*, bool const*, float*, int, int*)";
    const MLA: &str = "void flash_mla::flash_fwd_splitkv_mla_kernel<Flash_fwd_kernel_traits_mla<576, 64, 64, 8>>(Flash_fwd_mla_params)";
    let step = move |load: &Load, layers: usize| {
        let mut p = Program::default();
        let (n, context) = (load.requests, load.context);
        p.call("vllm/v1/engine/core.py(812): step", |p| {
            p.leaf("vllm/v1/core/sched/scheduler.py(195): schedule", 130.0);
            p.call("vllm/v1/worker/gpu_model_runner.py(2480): execute_model", |p| {
                let name = format!("execute_{n}_context_0(sq0sk0sqsq0sqsk0)_generation_{n}(sq{n}sk{context}sqsq{n}sqsk{context})");
                p.range(&name, "user_annotation", |p| {
                    p.leaf("vllm/v1/worker/gpu_model_runner.py(960): _prepare_inputs", 120.0);
                    for layer in 0..layers {
                        p.call(&format!("nn.Module: DeepseekV2DecoderLayer_{layer}"), |p| {
                            p.operator("aten::mm", 12.0, Work::kernel(GEMMS[0], 46.0));
                            p.operator("vllm::unified_mla_attention", 16.0, Work::kernel(MLA, 92.0));
                            p.operator("aten::mm", 12.0, Work::kernel(GEMMS[1], 38.0));
                            p.operator("_moe_C::topk_softmax", 11.0, Work::kernel(ROUTE, 8.0));
                            p.operator("c10d::alltoall_base_", 14.0, Work::collective(SEND, 34.0));
                            p.operator("vllm::moe_forward", 20.0, Work::kernel(GROUPED, 190.0));
                            p.operator("c10d::alltoall_base_", 14.0, Work::collective(SEND, 36.0));
                        });
                    }
                });
                p.call("vllm/v1/worker/gpu_model_runner.py(2150): _bookkeeping_sync", |p| {
                    p.host(30.0);
                    p.copy(Work::copy(TO_HOST, 2.4, 256));
                    p.wait("cudaEventSynchronize", false);
                });
            });
            p.leaf("vllm/v1/core/sched/scheduler.py(1010): update_from_output", 110.0);
        });
        p.0
    };
    Engine {
        outer: &["vllm/v1/engine/core.py(720): run_busy_loop"],
        states_load: true,
        ..Engine::new(
            &format!("experts-{ranks}"),
            ranks,
            "NVIDIA H200",
            Parts {
                matrix: EXPERTS.to_owned(),
                attention: "flash_fwd_splitkv_mla".to_owned(),
                matrices: &["nvjet"],
                inside: "_prepare_inputs".to_owned(),
                between: "update_from_output".to_owned(),
                requests: String::new(),
            },
            Box::new(step),
        )
    }
}
