//! The engine of a job: steps of a decoder with tensor parallelism.

use super::storage::Read;
use super::{Fault, Job, START};
use crate::sim::{COMM, COMPUTE, Input, Kernel, Message, Sim};

const V1: &str = "vllm/v1";
const LAUNCH: (&str, i64) = ("cudaLaunchKernel", 211);
const LAUNCH_EX: (&str, i64) = ("cudaLaunchKernelExC", 430);
const COPY: (&str, i64) = ("cudaMemcpyAsync", 41);
const STREAM_SYNC: (&str, i64) = ("cudaStreamSynchronize", 131);

const HIDDEN: i64 = 8192;
const INNER: i64 = 28_672;
const HEADS: i64 = 64;
const KV_HEADS: i64 = 8;
const HEAD: i64 = 128;
const VOCABULARY: i64 = 128_256;
const CONTEXT: i64 = 1024;
const BLOCK: i64 = 16;
/// Requests of a decode step, and tokens of a prefill.
const BATCH: i64 = 32;
const PROMPT: i64 = 2048;

/// Bandwidth of the device in bytes per microsecond, and its products in operations per microsecond.
const BANDWIDTH: i64 = 4_800_000;
const FLOPS: i64 = 989_000_000;
/// Share of the limit that healthy kernels reach, in percent.
const EFFICIENCY: i64 = 80;

/// A job, and what decides the shape of its engine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Plan {
    pub(super) job: Job,
    pub(super) is_eager: bool,
    /// A small model, whose kernels are shorter than their launches.
    pub(super) is_small: bool,
    /// All-reduces of the engine's own, without metadata.
    pub(super) is_custom: bool,
    pub(super) has_experts: bool,
}

/// A simulated job.
pub(super) struct Run {
    pub(super) sim: Sim,
    /// Time of each decode step: begin to begin.
    pub(super) times: Vec<i64>,
    /// The steps with the fault; all if empty.
    pub(super) steps: Vec<usize>,
    pub(super) rank: Option<usize>,
    pub(super) name: Option<String>,
    pub(super) reads: Vec<Read>,
}

/// A forward pass of one width.
#[derive(Clone, Copy)]
struct Pass {
    plan: Plan,
    tokens: i64,
    ranks: i64,
    /// Clock of all devices: time of kernels in permille.
    pace: i64,
}

pub(super) fn run(plan: impl Into<Plan>) -> Run {
    let plan: Plan = plan.into();
    let job = plan.job;
    let ranks = i64::try_from(job.ranks).unwrap_or(1);
    let mut sim = Sim::new(ranks, START, job.seed);
    let late = job.ranks.saturating_sub(1).min(1 + job.ranks / 3);
    let mut engine = Engine {
        plan,
        late,
        steps: Vec::new(),
        name: None,
        reads: Vec::new(),
        step: 0,
    };
    if job.fault == Fault::SlowDevice {
        sim.ranks[late].pace = 1000 + scaled(250, job.size);
    }
    let mut begins = Vec::new();
    sim.python(&format!("{V1}/engine/core.py(880): run_busy_loop"), |sim| {
        for step in 0..job.steps {
            begins.push(sim.ranks[0].now);
            engine.step = step;
            engine.step(sim);
        }
        begins.push(sim.ranks[0].now);
    });
    let rank = match job.fault {
        Fault::LateHost | Fault::LateHostCustom | Fault::SlowDevice | Fault::UnevenExperts => {
            Some(late)
        }
        _ => None,
    };
    let times = begins.windows(2).map(|pair| pair[1] - pair[0]).collect();
    Run {
        sim,
        times,
        steps: engine.steps,
        rank,
        name: engine.name,
        reads: engine.reads,
    }
}

const fn scaled(usual: i64, size: i64) -> i64 {
    usual * size / 100
}

struct Engine {
    plan: Plan,
    /// The rank that has the fault, if one has.
    late: usize,
    steps: Vec<usize>,
    name: Option<String>,
    reads: Vec<Read>,
    step: usize,
}

impl Engine {
    fn fault(&self) -> Fault {
        self.plan.job.fault
    }

    fn size(&self, usual: i64) -> i64 {
        scaled(usual, self.plan.job.size)
    }

    fn named(&mut self, name: &str) {
        self.name.get_or_insert_with(|| name.to_owned());
    }

    fn here(&mut self) {
        if self.steps.last() != Some(&self.step) {
            self.steps.push(self.step);
        }
    }

    fn pass(&self, sim: &Sim, tokens: i64) -> Pass {
        let drop = self.fault() == Fault::ClockDrop && self.step * 2 >= self.plan.job.steps;
        Pass {
            plan: self.plan,
            tokens,
            ranks: i64::try_from(sim.ranks.len()).unwrap_or(1),
            pace: 1000 + if drop { self.size(300) } else { 0 },
        }
    }

    /// One iteration of the busy loop.
    fn step(&mut self, sim: &mut Sim) {
        let is_prefill = self.fault() == Fault::Prefill && self.step % 6 == 3;
        let tokens = if is_prefill { PROMPT } else { BATCH };
        if self.fault() == Fault::NoRequests {
            let name = "<method 'get' of '_queue.SimpleQueue' objects>";
            self.named(name);
            let ns = self.size(9_000_000);
            sim.python(
                &format!("{V1}/engine/core.py(905): _process_input_queue"),
                |sim| {
                    sim.ranks.iter_mut().for_each(|rank| rank.call(name, ns));
                },
            );
        }
        sim.python(&format!("{V1}/engine/core.py(300): step"), |sim| {
            let schedule = format!("{V1}/core/sched/scheduler.py(180): schedule");
            sim.python(&schedule, |sim| {
                sim.think(60_000);
                if self.fault() == Fault::SlowScheduler {
                    self.named(&schedule);
                    sim.think(self.size(2_500_000));
                }
            });
            let mark = match is_prefill {
                true => format!("execute_context_1({PROMPT})_generation_0(0)"),
                false => format!("execute_context_0(0)_generation_{BATCH}({BATCH})"),
            };
            sim.annotation(&mark, |sim| {
                sim.python(
                    &format!("{V1}/worker/gpu_model_runner.py(2320): execute_model"),
                    |sim| self.execute(sim, tokens, is_prefill),
                );
            });
            sim.python(
                &format!("{V1}/core/sched/scheduler.py(870): update_from_output"),
                |sim| sim.think(40_000),
            );
        });
        if is_prefill {
            self.here();
        }
        self.pauses(sim);
    }

    /// What comes and goes.
    fn pauses(&mut self, sim: &mut Sim) {
        match self.fault() {
            Fault::Collector if self.step % 10 == 4 => {
                let name = "gc.py(1): <built-in function collect>";
                self.named(name);
                self.here();
                let ns = self.size(14_000_000);
                sim.ranks.iter_mut().for_each(|rank| rank.call(name, ns));
            }
            Fault::OneStep if self.step == self.plan.job.steps * 2 / 3 => {
                let name = "vllm/v1/metrics/loggers.py(120): log";
                self.named(name);
                self.here();
                let ns = self.size(30_000_000);
                sim.ranks.iter_mut().for_each(|rank| rank.call(name, ns));
            }
            _ => {}
        }
    }

    fn execute(&mut self, sim: &mut Sim, tokens: i64, is_prefill: bool) {
        let prepare = format!("{V1}/worker/gpu_model_runner.py(1190): _prepare_inputs");
        sim.python(&prepare, |sim| {
            sim.think(70_000);
            sim.op("aten::copy_", &[long(&[tokens])], |sim| {
                copy(sim, "Memcpy HtoD (Pinned -> Device)", tokens * 8);
            });
            match self.fault() {
                Fault::SlowFunction => {
                    self.named(&prepare);
                    sim.think(self.size(3_000_000));
                }
                Fault::LateHost | Fault::LateHostCustom => {
                    let name = format!("{V1}/sample/logits_processor.py(60): update_state");
                    let ns = self.size(1_500_000);
                    sim.ranks[self.late].call(&name, ns);
                    self.named(&name);
                }
                Fault::PageableCopy => {
                    self.named("Memcpy HtoD (Pageable -> Device)");
                    let bytes = self.size(16 << 20);
                    blocking_copy(sim, "Memcpy HtoD (Pageable -> Device)", bytes, 6_000);
                }
                Fault::Allocation => {
                    self.named("cudaMalloc");
                    let ns = self.size(1_400_000);
                    sim.runtime("cudaMalloc", 20, ns);
                    sim.runtime("cudaFree", 21, ns / 2);
                }
                Fault::DiskReads => self.read(sim),
                Fault::Offload => self.offload(sim),
                _ => {}
            }
        });
        let pass = self.pass(sim, tokens);
        match self.plan.is_eager || is_prefill {
            true => self.forward(sim, pass),
            false => self.replay(sim, pass),
        }
        self.sample(sim);
    }

    /// Reads a block of the cache from the disk, and waits.
    fn read(&mut self, sim: &mut Sim) {
        let name = "vllm/distributed/kv_transfer/kv_connector/v1/shared_storage_connector.py(140): <built-in function pread>";
        self.named(name);
        let (requests, each) = (8, self.size(450_000));
        let begin = sim.ranks[0].now + 30_000;
        for i in 0..requests {
            let at = i64::try_from(self.reads.len()).unwrap_or(0);
            self.reads.push(Read {
                issue_ns: begin + i * each,
                done_ns: begin + (i + 1) * each - 4_000,
                sector: 8_192_000 + at * 1024,
                sectors: 1024,
            });
        }
        let ns = 30_000 + requests * each;
        sim.ranks.iter_mut().for_each(|rank| rank.call(name, ns));
    }

    /// Moves blocks of the cache out, and others in.
    fn offload(&mut self, sim: &mut Sim) {
        let name = "vllm/v1/kv_offload/worker/cpu_gpu.py(90): transfer_async";
        self.named(name);
        let bytes = self.size(48 << 20);
        sim.python(name, |sim| {
            sim.op("_C_cache_ops::swap_blocks", &[], |sim| {
                // 50 GB/s is a PCIe 5 link at its best.
                for what in ["DtoH (Device -> Pinned)", "HtoD (Pinned -> Device)"] {
                    let name = format!("Memcpy {what}");
                    let kernel = Kernel::new(&name, bytes / 50, COMPUTE, [bytes, 1, 1], 0);
                    sim.launch(COPY, &kernel, &[COMPUTE, COMM], 0);
                }
            });
        });
    }

    fn sample(&mut self, sim: &mut Sim) {
        sim.python(&format!("{V1}/sample/sampler.py(60): forward"), |sim| {
            let inputs = [
                Input::Tensor(vec![BATCH, VOCABULARY], "float"),
                Input::Scalar("-1"),
                Input::Scalar("False"),
            ];
            sim.op("aten::argmax", &inputs, |sim| {
                let name = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4> >(at::native::ReduceOp<float, at::native::ArgMaxOps<float>, unsigned int, long, 4, 4>)";
                let kernel = Kernel::new(name, 11_000, COMPUTE, [BATCH, 1, 1], 256);
                sim.launch(LAUNCH, &kernel, &[COMPUTE, COMM], 0);
            });
            sim.op("aten::to", &[long(&[BATCH])], |sim| {
                copy(sim, "Memcpy DtoH (Device -> Pinned)", BATCH * 8);
                sim.runtime("cudaEventRecord", 135, 1_200);
                sim.synchronize();
            });
        });
    }

    /// Replays the graph of the pass, or its pieces.
    fn replay(&mut self, sim: &mut Sim, pass: Pass) {
        // One process captures; all ranks have the same nodes.
        let mut capture = Sim::new(1, START, 0);
        capture.captured = Some(Vec::new());
        self.forward(&mut capture, pass);
        let captured = capture.captured.unwrap_or_default();
        let nodes: Vec<Kernel> = captured.into_iter().map(|(kernel, _)| kernel).collect();
        let name = "vllm/compilation/cuda_graph.py(180): __call__";
        let pieces = match self.fault() {
            Fault::BrokenGraph => usize::try_from(2 * pass.plan.job.layers).unwrap_or(1),
            _ => 1,
        };
        let each = nodes.len().div_ceil(pieces).max(1);
        for piece in nodes.chunks(each) {
            sim.python(name, |sim| {
                if pieces > 1 {
                    sim.think(self.size(40_000));
                }
                sim.python("torch/cuda/graphs.py(138): replay", |sim| {
                    sim.graph_launch(piece, if pieces > 1 { 30_000 } else { 120_000 });
                });
            });
        }
        if pieces > 1 {
            self.named("cudaGraphLaunch");
        }
    }

    fn forward(&mut self, sim: &mut Sim, pass: Pass) {
        sim.python("nn.Module: LlamaForCausalLM_0", |sim| {
            for layer in 0..pass.plan.job.layers {
                sim.python(&format!("nn.Module: LlamaDecoderLayer_{layer}"), |sim| {
                    self.layer(sim, pass, layer);
                });
            }
            norm(sim, pass);
            product(
                sim,
                pass,
                "nn.Module: ParallelLMHead_0",
                (HIDDEN, VOCABULARY / pass.ranks),
                100,
            );
        });
    }

    fn layer(&mut self, sim: &mut Sim, pass: Pass, layer: i64) {
        let heads = HEADS / pass.ranks;
        let kv_heads = (KV_HEADS / pass.ranks).max(1);
        norm(sim, pass);
        let module = |name: &str| format!("nn.Module: {name}_{layer}");
        let qkv = (HIDDEN, (heads + 2 * kv_heads) * HEAD);
        product(sim, pass, &module("QKVParallelLinear"), qkv, 100);
        sim.python(&module("Attention"), |sim| {
            attention(sim, pass, heads, kv_heads)
        });
        product(
            sim,
            pass,
            &module("RowParallelLinear"),
            (heads * HEAD, HIDDEN),
            100,
        );
        self.all_reduce(sim, pass);
        match self.fault() {
            Fault::Item if layer % 2 == 0 => {
                self.named("aten::item");
                sim.op("aten::item", &[long(&[1])], |sim| {
                    sim.op("aten::_local_scalar_dense", &[long(&[1])], |sim| {
                        copy(sim, "Memcpy DtoH (Device -> Pageable)", 8);
                        let idle: Vec<i64> =
                            sim.ranks.iter().map(|rank| rank.idle_from()).collect();
                        sim.wait(STREAM_SYNC, &idle);
                        // What is then computed of the value on the host.
                        sim.think(self.size(60_000));
                    });
                });
            }
            Fault::Chain => self.chain(sim, pass),
            _ => {}
        }
        norm(sim, pass);
        let inner = INNER / pass.ranks;
        if pass.plan.has_experts {
            self.experts(sim, pass, inner);
        }
        let slow = match self.fault() {
            Fault::SlowKernel => {
                self.named("MergedColumnParallelLinear");
                100 + self.size(200)
            }
            _ => 100,
        };
        let up = (HIDDEN, 2 * inner);
        product(sim, pass, &module("MergedColumnParallelLinear"), up, slow);
        if self.fault() == Fault::Duplicate {
            self.named("MergedColumnParallelLinear");
            product(sim, pass, &module("MergedColumnParallelLinear"), up, 100);
        }
        let rows = [
            Input::bf16(&[pass.tokens, inner]),
            Input::bf16(&[pass.tokens, 2 * inner]),
        ];
        sim.op("_C::silu_and_mul", &rows, |sim| {
            let name = "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<c10::BFloat16>, true>(c10::BFloat16*, c10::BFloat16 const*, int)";
            kernel(sim, pass, LAUNCH_EX, name, 3 * pass.tokens * inner * 2, 0);
        });
        product(
            sim,
            pass,
            &module("RowParallelLinear"),
            (inner, HIDDEN),
            100,
        );
        self.all_reduce(sim, pass);
    }

    /// Elementwise kernels that could be one.
    fn chain(&mut self, sim: &mut Sim, pass: Pass) {
        self.named("elementwise chain");
        for op in ["mul", "add", "sub", "mul", "add", "neg", "exp", "mul"] {
            let rows = Input::bf16(&[pass.tokens, HIDDEN]);
            sim.op(&format!("aten::{op}"), &[rows.clone(), rows], |sim| {
                let name = format!(
                    "void at::native::vectorized_elementwise_kernel<4, at::native::{}Functor<c10::BFloat16>, std::array<char*, 3ul> >(int, at::native::{}Functor<c10::BFloat16>, std::array<char*, 3ul>)",
                    op.to_uppercase(),
                    op.to_uppercase()
                );
                let dur = self.size(9_000);
                let kernel = Kernel::new(&name, dur, COMPUTE, [pass.tokens, 1, 1], 256);
                sim.launch(LAUNCH, &kernel, &[COMPUTE, COMM], 0);
            });
        }
    }

    /// Grouped products of the experts, as long as the tokens that a rank got.
    fn experts(&mut self, sim: &mut Sim, pass: Pass, inner: i64) {
        let extra = match self.fault() {
            Fault::UnevenExperts => self.size(1600),
            _ => 0,
        };
        let name = "fused_moe_kernel";
        if extra > 0 {
            self.named(name);
        }
        let slow = (i64::try_from(self.late).unwrap_or(0), 1000 + extra);
        let inputs = [
            Input::bf16(&[pass.tokens, HIDDEN]),
            Input::bf16(&[16, 2 * inner, HIDDEN]),
            Input::bf16(&[16, HIDDEN, inner]),
        ];
        sim.op("vllm::moe_forward", &inputs, |sim| {
            let mut kernel = sized(pass, name, 4 * HIDDEN * inner, 0);
            kernel.slow = (extra > 0).then_some(slow);
            sim.launch(LAUNCH, &kernel, &[COMPUTE, COMM], 0);
        });
    }

    fn all_reduce(&mut self, sim: &mut Sim, pass: Pass) {
        if pass.ranks < 2 {
            return;
        }
        let nelems = pass.tokens * HIDDEN;
        let slow = match self.fault() {
            Fault::SlowLink => {
                self.named("all_reduce");
                100 + self.size(500)
            }
            _ => 100,
        };
        // 450 GB/s a direction, and a start of nine microseconds.
        let bytes = 2 * nelems * 2 * (pass.ranks - 1) / pass.ranks;
        let dur = (9_000 + bytes / 360) * slow / 100;
        if pass.plan.is_custom {
            let name = "void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*, vllm::RankSignals, vllm::Signal*, __nv_bfloat16*, int, int)";
            sim.op(
                "_C_custom_ar::all_reduce",
                &[Input::bf16(&[pass.tokens, HIDDEN])],
                |sim| {
                    let kernel = Kernel::new(name, dur, COMPUTE, [36, 1, 1], 512);
                    sim.collective(&kernel, None, &[COMPUTE, COMM]);
                },
            );
            return;
        }
        let message = Message {
            collective: "allreduce",
            nelems_in: nelems,
            nelems_out: nelems,
            seq: 0,
        };
        let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
        let rows = [Input::bf16(&[pass.tokens, HIDDEN])];
        sim.op("c10d::allreduce_", &rows, |sim| {
            sim.op("record_param_comms", &rows, |sim| {
                sim.annotation("nccl:all_reduce", |sim| {
                    let kernel = Kernel::new(name, dur, COMPUTE, [24, 1, 1], 512);
                    sim.collective(&kernel, Some(message), &[COMPUTE, COMM]);
                });
            });
        });
    }
}

fn long(dims: &[i64]) -> Input {
    Input::Tensor(dims.to_vec(), "long int")
}

/// A kernel that moves `bytes` and computes `flops`.
fn sized(pass: Pass, name: &str, bytes: i64, flops: i64) -> Kernel {
    let moving = bytes * 1000 / BANDWIDTH;
    let computing = flops / (FLOPS / 1000);
    let dur = moving.max(computing) * 100 / EFFICIENCY;
    let small = if pass.plan.is_small { 20 } else { 1 };
    let dur = (dur / small + 1_200) * pass.pace / 1000;
    Kernel::new(name, dur, COMPUTE, [pass.tokens, 1, 1], 256)
}

/// Launches a kernel that moves `bytes` and computes `flops`.
fn kernel(sim: &mut Sim, pass: Pass, api: (&str, i64), name: &str, bytes: i64, flops: i64) {
    if pass.plan.is_eager {
        // Python between two operators.
        sim.think(5_000);
    }
    let kernel = sized(pass, name, bytes, flops);
    sim.launch(api, &kernel, &[COMPUTE, COMM], 0);
}

fn norm(sim: &mut Sim, pass: Pass) {
    let rows = Input::bf16(&[pass.tokens, HIDDEN]);
    let inputs = [
        rows.clone(),
        rows,
        Input::bf16(&[HIDDEN]),
        Input::Scalar("1e-05"),
    ];
    sim.op("_C::fused_add_rms_norm", &inputs, |sim| {
        let name = "void vllm::fused_add_rms_norm_kernel<c10::BFloat16, 8>(c10::BFloat16*, c10::BFloat16*, c10::BFloat16 const*, float, int, int)";
        kernel(sim, pass, LAUNCH, name, 4 * pass.tokens * HIDDEN * 2, 0);
    });
}

/// A matrix product, `percent` as long as usual.
fn product(sim: &mut Sim, pass: Pass, module: &str, (inner, outer): (i64, i64), percent: i64) {
    let (rows, inner, outer) = match pass.plan.is_small {
        true => (pass.tokens, inner / 4, outer / 8),
        false => (pass.tokens, inner, outer),
    };
    let pass = Pass {
        plan: Plan {
            is_small: false,
            ..pass.plan
        },
        pace: pass.pace * percent / 100,
        ..pass
    };
    sim.python(module, |sim| {
        let inputs = [Input::bf16(&[rows, inner]), Input::bf16(&[inner, outer])];
        sim.op("aten::mm", &inputs, |sim| {
            let tile = if rows > 100 {
                "128x256_64x4_2x1"
            } else {
                "64x8_64x16_4x1"
            };
            let name = format!("nvjet_tst_{tile}_v_bz_TNT");
            let bytes = 2 * (inner * outer + rows * (inner + outer));
            kernel(
                sim,
                pass,
                ("cuLaunchKernelEx", 652),
                &name,
                bytes,
                2 * rows * inner * outer,
            );
        });
    });
}

fn attention(sim: &mut Sim, pass: Pass, heads: i64, kv_heads: i64) {
    let requests = pass.tokens.min(BATCH);
    let cache = Input::bf16(&[8192, BLOCK, kv_heads, HEAD]);
    let inputs = [
        Input::bf16(&[pass.tokens, heads, HEAD]),
        Input::bf16(&[pass.tokens, kv_heads, HEAD]),
        Input::bf16(&[pass.tokens, kv_heads, HEAD]),
        cache,
        Input::Tensor(vec![requests, CONTEXT / BLOCK], "int"),
    ];
    sim.op("vllm::unified_attention_with_output", &inputs, |sim| {
        let name = "void flash::flash_fwd_splitkv_kernel<Flash_fwd_kernel_traits<128, 64, 128, 4, false, false, cutlass::bfloat16_t>, true, false, false>(flash::Flash_fwd_params)";
        let bytes = requests * CONTEXT * 2 * kv_heads * HEAD * 2;
        kernel(sim, pass, LAUNCH_EX, name, bytes, 0);
    });
}

fn copy(sim: &mut Sim, name: &str, bytes: i64) {
    let kernel = Kernel::new(name, 1_400, COMPUTE, [bytes, 1, 1], 0);
    sim.launch(COPY, &kernel, &[COMPUTE, COMM], 0);
}

/// A copy of pageable memory at `rate` bytes per microsecond: the call returns when it is done.
fn blocking_copy(sim: &mut Sim, name: &str, bytes: i64, rate: i64) {
    let kernel = Kernel::new(name, bytes * 1000 / rate, COMPUTE, [bytes, 1, 1], 0);
    sim.launch(COPY, &kernel, &[COMPUTE, COMM], 0);
    let idle: Vec<i64> = sim.ranks.iter().map(|rank| rank.idle_from()).collect();
    sim.wait(STREAM_SYNC, &idle);
}
