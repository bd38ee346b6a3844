//! Generates a Kineto trace of any size whose events have the mix of a prefill step of SGLang with
//! Python stacks.
//!
//! 88 % Python frames, 6 % operators with shapes, 2 % runtime calls, 1 % kernels, the rest flow
//! events; 253 bytes per event; stacks about 40 deep; kernels run after their launches; runtime
//! calls that launch nothing write an `f` without `s`.

use super::super::json::micros;
use super::super::rng::Rng;
use super::Written;
use anyhow::Result;
use std::fmt::Write as _;
use std::io::Write;

/// Number of events per launch, including everything around it.
const BLOCK: u64 = 113;
/// Number of launches per step.
const STEP: u64 = 530;
const PID: i64 = 251;

/// Frames around every launch, outermost first.
const FRAMES: &[&str] = &[
    "/sgl-workspace/sglang/python/sglang/srt/managers/scheduler.py(2919): _run_batch_inner",
    "/sgl-workspace/sglang/python/sglang/srt/managers/tp_worker.py(232): forward_batch_generation",
    "/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py(2570): forward",
    "/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py(2621): _forward_raw",
    "/sgl-workspace/sglang/python/sglang/srt/model_executor/model_runner.py(2490): forward_extend",
    "nn.Module: Qwen3ForCausalLM_0",
    "torch/nn/modules/module.py(1779): _call_impl",
    "/sgl-workspace/sglang/python/sglang/srt/models/qwen3.py(520): forward",
    "nn.Module: Qwen3Model_0",
    "torch/nn/modules/module.py(1779): _call_impl",
    "/sgl-workspace/sglang/python/sglang/srt/models/qwen2.py(371): forward",
];

/// Frames of one launch inside a layer.
const INNER: &[&str] = &[
    "torch/nn/modules/module.py(1779): _call_impl",
    "/sgl-workspace/sglang/python/sglang/srt/models/qwen3.py(301): forward",
    "nn.Module: RowParallelLinear_",
    "torch/nn/modules/module.py(1779): _call_impl",
    "/sgl-workspace/sglang/python/sglang/srt/layers/linear.py(1412): forward",
    "/sgl-workspace/sglang/python/sglang/srt/utils/kernel_shape_profiler.py(326): dispatch_wrapper",
    "torch/_ops.py(1244): __call__",
    "<built-in method rmsnorm of pybind11_builtins.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1 object at 0x7ed747e44870>",
    "/sgl-workspace/sglang/python/sglang/srt/utils/kernel_shape_profiler.py(302): impl",
    "aiter/ops/rmsnorm.py(76): rmsnorm2d_fwd_with_add",
    "torch_guard.py(283): wrapper_custom",
    "torch_guard.py(306): outer_wrapper",
];

/// Short calls that fill the Python rows.
const LEAVES: &[&str] = &[
    "inspect.py(2699): kind",
    "inspect.py(2687): name",
    "inspect.py(2691): default",
    "inspect.py(3006): parameters",
    "<built-in function next>",
    "<built-in function hasattr>",
    "<built-in function isinstance>",
    "<built-in function getattr>",
    "torch/utils/_device.py(99): __torch_function__",
    "torch/nn/modules/module.py(1951): __getattr__",
    "<built-in method append of list object at 0x7f1bafbe0340>",
    "<built-in method pop of dict object at 0x7f1931775d00>",
    "<built-in method items of mappingproxy object at 0x7ed6fdf41ed0>",
    "<built-in method _get_tracing_state of pybind11_builtins.pybind11_detail_function_record_v1_system_libstdcpp_gxx_abi_1xxx_use_cxx11_abi_1 object at 0x7f1abcd196b0>",
    "/sgl-workspace/sglang/python/sglang/srt/utils/kernel_shape_profiler.py(347): <genexpr>",
    "/sgl-workspace/sglang/python/sglang/srt/utils/kernel_shape_profiler.py(250): _stash_non_tensor_args",
];

const OPS: &[&str] = &[
    "sglang_profiler::rmsnorm2d_fwd_with_add_",
    "aiter::add_rmsnorm",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::view",
    "aten::as_strided",
    "aten::mm",
];

const KERNELS: &[&str] = &[
    "_ZN5aiter24add_rmsnorm_quant_kernelIDF16bDF16bLi256ELi16ELb1ELb0ELb1ELi1EEEvPT0_PT_PfS4_S4_S4_diiiiiiib",
    "Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT256x256x64_MI16x16x1_SN_LDSB1_AFC1_AFEM1",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<long>, std::array<char*, 1ul> >(int, at::native::FillFunctor<long>, std::array<char*, 1ul>)",
    "ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)",
];

struct Step {
    rng: Rng,
    ops: String,
    python: String,
    device: String,
    now: i64,
    gpu: i64,
    ids: u64,
    correlation: u64,
    external: u64,
    padding: String,
    written: Written,
}

/// Writes a trace of exactly `events` events.
pub(super) fn write(events: u64, padding: u64, out: &mut dyn Write) -> Result<Written> {
    let head = concat!(
        r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0, "name": "Generated", "warpSize": 64, "numSms": 304}], "#,
        r#""distributedInfo": {"backend": "nccl", "rank": 0, "world_size": 1, "pg_count": 1, "pg_config": [{"pg_name": "0", "#,
        r#""pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 1, "ranks": [0]}]}, "record_shapes": 1, "#,
        r#""with_stack": 1, "displayTimeUnit": "ms", "baseTimeNanoseconds": 1775078550000000000, "traceEvents": ["#
    );
    out.write_all(head.as_bytes())?;
    let mut step = Step {
        rng: Rng::new(1),
        ops: String::new(),
        python: String::new(),
        device: String::new(),
        now: 4_909_913_692_199_694,
        gpu: 0,
        ids: 1_094_810,
        correlation: 91_053,
        external: 219_581,
        padding: "x".repeat(usize::try_from(padding)?),
        written: Written::default(),
    };
    let mut first = true;
    while step.written.events < events {
        step.fill(events);
        for part in [&mut step.ops, &mut step.python, &mut step.device] {
            let text = part
                .strip_prefix(", ")
                .filter(|_| first)
                .unwrap_or(part.as_str());
            first &= text.is_empty();
            out.write_all(text.as_bytes())?;
            part.clear();
        }
    }
    out.write_all(b"], \"traceName\": \"generated.json\"}\n")?;
    Ok(step.written)
}

impl Step {
    /// Writes one step, or the rest of it.
    fn fill(&mut self, events: u64) {
        let outer = u64::try_from(FRAMES.len()).unwrap_or(0);
        let left = events - self.written.events;
        let launches = left
            .saturating_sub(outer)
            .checked_div(BLOCK)
            .unwrap_or(0)
            .min(STEP);
        if launches == 0 {
            // Too few events are left for a launch: fill up with single calls.
            for _ in 0..left {
                self.leaf();
            }
            return;
        }
        let start = self.now;
        let mut inner = String::new();
        std::mem::swap(&mut inner, &mut self.python);
        self.now += 500 * i64::try_from(FRAMES.len()).unwrap_or(0);
        for launch in 0..launches {
            self.launch(launch);
        }
        std::mem::swap(&mut inner, &mut self.python);
        self.now += 500 * i64::try_from(FRAMES.len()).unwrap_or(0);
        for (depth, name) in (0..).zip(FRAMES) {
            self.frame(name, start + 500 * depth, self.now - start - 1000 * depth);
        }
        self.python.push_str(&inner);
        self.now += 50_000;
    }

    fn head(&mut self, cat: &str, name: &str, row: (i64, i64), ts: i64, dur: i64) -> String {
        self.written.events += 1;
        let (pid, tid) = row;
        let (ts, dur) = (micros(ts), micros(dur));
        let (ts, dur) = (
            ts.trim_end_matches('0'),
            dur.trim_end_matches('0').trim_end_matches('.'),
        );
        let ts = ts.trim_end_matches('.');
        let mut text = format!(
            r#", {{"ph": "X", "cat": "{cat}", "name": "{name}", "pid": {pid}, "tid": {tid}, "ts": {ts}, "dur": {dur}, "args": {{"#
        );
        if !self.padding.is_empty() {
            let _ = write!(text, r#""padding": "{}", "#, self.padding);
        }
        text
    }

    fn frame(&mut self, name: &str, ts: i64, dur: i64) {
        let mut text = self.head("python_function", name, (PID, PID), ts, dur);
        self.ids += 1;
        let _ = write!(
            text,
            r#""Python parent id": {}, "Python id": {}, "Ev Idx": {}}}}}"#,
            self.ids - 1,
            self.ids,
            self.ids + 55_941
        );
        self.python.push_str(&text);
    }

    fn leaf(&mut self) {
        let name = *self.rng.pick(LEAVES);
        let dur = if self.rng.below(8) == 0 {
            self.rng.between(100, 900)
        } else {
            self.rng.between(10, 60)
        };
        self.frame(name, self.now, dur);
        self.now += dur + self.rng.between(60, 140);
    }

    /// Writes `BLOCK` events: a chain of frames, short calls around it, operators, a launch and
    /// another runtime call.
    fn launch(&mut self, launch: u64) {
        let layer = launch / 15;
        let start = self.now;
        let mut inside = String::new();
        std::mem::swap(&mut inside, &mut self.python);
        let depth = i64::try_from(INNER.len()).unwrap_or(0) + 1;
        self.now += 300 * depth;
        for _ in 0..44 {
            self.leaf();
        }
        self.launch_ops(launch);
        for _ in 0..43 {
            self.leaf();
        }
        self.now += 300 * depth;
        std::mem::swap(&mut inside, &mut self.python);
        let end = self.now;
        self.frame(
            &format!("nn.Module: Qwen3DecoderLayer_{layer}"),
            start,
            end - start,
        );
        for (i, name) in (1..).zip(INNER) {
            let (from, to) = (start + 300 * i, end - 300 * i);
            if name.ends_with('_') {
                self.frame(&format!("{name}{}", launch % 72), from, to - from);
            } else {
                self.frame(name, from, to - from);
            }
        }
        self.python.push_str(&inside);
    }

    fn launch_ops(&mut self, launch: u64) {
        let start = self.now;
        let rows = 15_360 - launch % 7;
        for (i, name) in (0..).zip(OPS) {
            let (ts, dur) = (start + 400 * i, 14_000 - 900 * i);
            let mut text = self.head("cpu_op", name, (PID, PID), ts, dur);
            self.external += 1;
            let _ = write!(
                text,
                r#""External id": {}, "Record function id": 0, "Concrete Inputs": ["", "", "1e-06", "False"], "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar", "Scalar"], "Input Strides": [[4096, 1], [1], [], []], "Input Dims": [[{rows}, 4096], [4096], [], []], "Ev Idx": {}}}}}"#,
                self.external,
                self.external - 186_369,
            );
            self.ops.push_str(&text);
        }
        let kernel = *self.rng.pick(KERNELS);
        let (call, took) = (start + 4_000, self.rng.between(3_000, 5_000));
        self.correlation += 1;
        let correlation = self.correlation;
        let mut text = self.head("cuda_runtime", "hipLaunchKernel", (PID, PID), call, took);
        let _ = write!(
            text,
            r#""External id": {}, "kernel": "{kernel}", "cid": 107, "correlation": {correlation}, "grid": [{rows}, 1, 1], "block": [256, 1, 1], "shared memory": 0}}}}"#,
            self.external,
        );
        self.flow(&mut text, "s", (PID, PID), correlation, call);
        let dur = self.rng.between(4_000, 60_000);
        self.gpu = self.gpu.max(call + took + 4_000);
        let ts = self.gpu;
        text.push_str(&self.head("kernel", kernel, (9, 2), ts, dur));
        let _ = write!(
            text,
            r#""External id": {}, "device": 9, "stream": 2, "correlation": {correlation}, "kind": "Dispatch Kernel", "grid": [{rows}, 1, 1], "block": [256, 1, 1]}}}}"#,
            self.external,
        );
        self.flow(&mut text, "f", (9, 2), correlation, ts);
        self.gpu += dur + self.rng.between(0, 900);
        self.written.kernels += 1;
        // A call that launches nothing, with the lone end that profilers write for it.
        self.correlation += 1;
        let (correlation, ts) = (self.correlation, call + took + 500);
        text.push_str(&self.head("cuda_runtime", "hipEventRecord", (PID, PID), ts, 800));
        let _ = write!(text, r#""cid": 63, "correlation": {correlation}}}}}"#);
        self.flow(&mut text, "f", (PID, PID), correlation, ts);
        self.device.push_str(&text);
        self.now = start + 15_000;
    }

    fn flow(&mut self, text: &mut String, phase: &str, row: (i64, i64), id: u64, ts: i64) {
        self.written.events += 1;
        let (pid, tid) = row;
        let ts = micros(ts);
        let ts = ts.trim_end_matches('0').trim_end_matches('.');
        let end = if phase == "f" { r#", "bp": "e"}"# } else { "}" };
        let _ = write!(
            text,
            r#", {{"ph": "{phase}", "id": {id}, "pid": {pid}, "tid": {tid}, "ts": {ts}, "cat": "ac2g", "name": "ac2g"{end}"#
        );
    }
}
