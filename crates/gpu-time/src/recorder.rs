//! What made a recording, and how it records what a recording lacks: the only place that names flags of recorders.

use serde::Serialize;
use trace_model::Trace;

/// What made a recording; recorders have different flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Recorder {
    /// PyTorch's profiler, also of unknown recordings.
    #[default]
    Torch,
    /// PyTorch's profiler in vLLM.
    Vllm,
    /// PyTorch's profiler in SGLang.
    Sglang,
    /// Nsight Systems.
    Nsys,
    /// ROCm's profilers: rocPD databases and rocprofv3's JSON.
    Rocm,
    /// The profiler of JAX, XLA and TensorFlow.
    Xla,
}

impl Recorder {
    /// Returns what made a recording, by its format, the names of its processes, and the files of the functions in it.
    ///
    /// Cost: a pass over the names of the trace.
    pub fn of(trace: &Trace) -> Self {
        match trace.meta().format {
            _ if trace.meta().is_nsys() => return Self::Nsys,
            "rocpd" | "rocprofv3-json" => return Self::Rocm,
            "xplane" => return Self::Xla,
            _ if xla(trace, "/device:") || xla(trace, "/host:") => return Self::Xla,
            _ => {}
        }
        let mut found = Self::Torch;
        for (_, text) in trace.strings().iter() {
            if text.contains("sglang/") || text.starts_with("step[") {
                return Self::Sglang;
            }
            if text.contains("vllm/") || text.starts_with("execute_context_") {
                found = Self::Vllm;
            }
        }
        found
    }
}

/// Returns `true` if a process of the trace has XLA's name of a host or device with this prefix.
pub(crate) fn xla(trace: &Trace, begin: &str) -> bool {
    let names = trace.processes().iter().filter_map(|p| p.name);
    let mut names = names.map(|name| trace.text(name));
    names.any(|name| name.starts_with(begin) || name.contains(&format!(" {begin}")))
}

/// Something that a recording may lack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Lack {
    /// Kernels, memcpys and memsets.
    GpuActivity,
    /// Calls of the runtime and operators.
    HostEvents,
    /// Operators of the framework.
    Operators,
    /// Python functions.
    PythonFunctions,
    /// Shapes of the inputs of operators.
    Sizes,
    /// Allocations of GPU memory.
    Memory,
    /// Kernels of graphs that are recorded as a whole.
    GraphKernels,
    /// The recording of the capture of the graphs.
    GraphCapture,
    /// Recordings of the other ranks.
    OtherRanks,
    /// Marks of steps.
    Steps,
}

/// Column of a [`Recorder`] in [`WAYS`].
const fn column(recorder: Recorder) -> usize {
    match recorder {
        Recorder::Torch => 0,
        Recorder::Vllm => 1,
        Recorder::Sglang => 2,
        Recorder::Nsys => 3,
        Recorder::Rocm => 4,
        Recorder::Xla => 5,
    }
}

/// What may be missing, its name, and how PyTorch, vLLM, SGLang, Nsight Systems, ROCm and XLA record it.
const WAYS: [(Lack, &str, [&str; 6]); 10] = [
    (
        Lack::GpuActivity,
        "GPU activity",
        [
            "torch.profiler with ProfilerActivity.CUDA",
            "--profiler-config '{\"profiler\": \"torch\", \"torch_profiler_dir\": \"DIR\"}', then vllm bench serve --profile",
            "curl -X POST HOST:PORT/start_profile -d '{\"activities\": [\"CPU\", \"GPU\"]}'",
            "nsys profile --trace=cuda,nvtx,osrt",
            "rocprofv3 --kernel-trace --memory-copy-trace",
            "device_tracer_level=1 in jax.profiler.ProfileOptions",
        ],
    ),
    (
        Lack::HostEvents,
        "host events",
        [
            "profile with ProfilerActivity.CPU and ProfilerActivity.CUDA",
            "--profiler-config '{\"profiler\": \"torch\", \"torch_profiler_dir\": \"DIR\"}', then vllm bench serve --profile",
            "curl -X POST HOST:PORT/start_profile -d '{\"activities\": [\"CPU\", \"GPU\"]}'",
            "nsys profile --trace=cuda,nvtx,osrt",
            "rocprofv3 --sys-trace",
            "host_tracer_level=2 and device_tracer_level=1 in jax.profiler.ProfileOptions",
        ],
    ),
    (
        Lack::Operators,
        "operators",
        [
            "profile with ProfilerActivity.CPU",
            "--profiler-config '{\"profiler\": \"torch\", \"torch_profiler_dir\": \"DIR\"}', then vllm bench serve --profile",
            "curl -X POST HOST:PORT/start_profile -d '{\"activities\": [\"CPU\", \"GPU\"]}'",
            "nsys profile --pytorch=autograd-nvtx",
            "rocprofv3 records no operators of a framework: record a few steps with torch.profiler as well",
            "host_tracer_level=2 in jax.profiler.ProfileOptions",
        ],
    ),
    (
        Lack::PythonFunctions,
        "Python functions",
        [
            "profile(..., with_stack=True)",
            "--profiler-config '{\"profiler\": \"torch\", \"torch_profiler_dir\": \"DIR\", \"torch_profiler_with_stack\": true}'",
            "curl -X POST HOST:PORT/start_profile -d '{\"activities\": [\"CPU\", \"GPU\"], \"with_stack\": true}'",
            "nsys profile --python-sampling=true --pytorch=functions-trace",
            "record with torch.profiler and with_stack=True as well",
            "python_tracer_level=1 in jax.profiler.ProfileOptions",
        ],
    ),
    (
        Lack::Sizes,
        "sizes of operators",
        [
            "profile(..., record_shapes=True)",
            "--profiler-config '{\"profiler\": \"torch\", \"torch_profiler_dir\": \"DIR\", \"torch_profiler_record_shapes\": true}'",
            "curl -X POST HOST:PORT/start_profile -d '{\"activities\": [\"CPU\", \"GPU\"], \"record_shapes\": true}'",
            "nsys records no sizes: record a few steps with torch.profiler and record_shapes=True",
            "rocprofv3 records no sizes: record a few steps with torch.profiler and record_shapes=True",
            "XLA's rows state no sizes: XProf shows those of the compiled program",
        ],
    ),
    (
        Lack::Memory,
        "memory",
        [
            "profile(..., profile_memory=True)",
            "--profiler-config '{\"profiler\": \"torch\", \"torch_profiler_dir\": \"DIR\", \"torch_profiler_with_memory\": true}'",
            "curl -X POST HOST:PORT/start_profile -d '{\"activities\": [\"MEM\"]}', whose snapshot trace-info memory reads",
            "nsys profile --cuda-memory-usage=true",
            "rocprofv3 --memory-allocation-trace",
            "jax.profiler.save_device_memory_profile, whose profile pprof shows",
        ],
    ),
    (
        Lack::GraphKernels,
        "kernels of graphs",
        [
            "record with ProfilerActivity.CUDA, which records the kernels of graphs",
            "record with the engine's profiler, which records the kernels of graphs",
            "record with the engine's profiler, which records the kernels of graphs",
            "nsys profile --cuda-graph-trace=node",
            "rocprofv3 --kernel-trace",
            "run without command buffers (XLA_FLAGS=--xla_gpu_enable_command_buffer=)",
        ],
    ),
    (
        Lack::GraphCapture,
        "capture of the graphs",
        [
            "profile the capture with record_shapes=True as well, and give it together with this recording",
            "start the profiler before the engine captures its graphs, with torch_profiler_record_shapes, and give that recording together with this one",
            "start with --enable-profile-cuda-graph, and give that recording together with this one",
            "nsys profile --cuda-graph-trace=node records the kernels of a graph, and nothing records their sizes: profile the capture with torch.profiler",
            "profile the capture with torch.profiler and record_shapes=True, and give it together with this recording",
            "run without command buffers (XLA_FLAGS=--xla_gpu_enable_command_buffer=)",
        ],
    ),
    (
        Lack::OtherRanks,
        "other ranks",
        [
            "export a trace on each rank and give all of them",
            "the profiler writes one file for each worker into torch_profiler_dir: give the folder",
            "the profiler writes one file for each rank: give the folder",
            "nsys profile records all processes of a node: export that report",
            "rocprofv3 writes one file for each process: give the folder",
            "each process writes a recording of its own: give all of them",
        ],
    ),
    (
        Lack::Steps,
        "steps of the engine",
        [
            "call prof.step() for each step, or mark steps with record_function",
            "record with the engine's own profiler, which names steps (execute_context_...)",
            "record with the engine's own profiler (step[...])",
            "mark steps with NVTX ranges (torch.cuda.nvtx.range), --trace=cuda,nvtx",
            "mark steps with roctx ranges, --marker-trace",
            "mark steps with jax.profiler.StepTraceAnnotation",
        ],
    ),
];

impl Lack {
    /// Returns what is missing under a name of [`Lack::name`].
    pub fn by_name(name: &str) -> Option<Self> {
        let found = WAYS.iter().find(|(_, its, _)| *its == name);
        found.map(|(lack, ..)| *lack)
    }

    /// Returns the name.
    pub fn name(self) -> &'static str {
        let found = WAYS.iter().find(|(lack, ..)| *lack == self);
        found.map_or("", |(_, name, _)| name)
    }

    /// Returns how the recorder at hand records it: a command, flags, or a clause in the imperative.
    ///
    /// ```
    /// use gpu_time::{Lack, Recorder};
    ///
    /// assert_eq!(Lack::HostEvents.how(Recorder::Rocm), "rocprofv3 --sys-trace");
    /// ```
    pub fn how(self, recorder: Recorder) -> &'static str {
        let found = WAYS.iter().find(|(lack, ..)| *lack == self);
        found
            .and_then(|(.., ways)| ways.get(column(recorder)).copied())
            .unwrap_or("")
    }
}

#[cfg(test)]
mod tests {
    use trace_model::{FinishOptions, Pid, Process, TraceBuilder};

    use super::*;

    const ALL: [Recorder; 6] = [
        Recorder::Torch,
        Recorder::Vllm,
        Recorder::Sglang,
        Recorder::Nsys,
        Recorder::Rocm,
        Recorder::Xla,
    ];

    #[test]
    fn each_lack_has_a_name_and_a_way_for_each_recorder() {
        for (lack, name, ways) in &WAYS {
            assert_eq!(Lack::by_name(name), Some(*lack));
            assert_eq!(lack.name(), *name);
            for (recorder, way) in ALL.into_iter().zip(ways) {
                assert!(!way.is_empty());
                assert_eq!(lack.how(recorder), *way);
            }
        }
        assert_eq!(Lack::by_name("luck"), None);
    }

    #[test]
    fn recorders_are_not_told_the_flags_of_others() {
        let flags = |recorder| match recorder {
            Recorder::Nsys => ["ProfilerActivity", "rocprofv3", "jax"],
            Recorder::Rocm => ["ProfilerActivity", "nsys", "jax"],
            Recorder::Xla => ["ProfilerActivity", "rocprofv3", "nsys"],
            _ => ["nsys", "rocprofv3", "jax"],
        };
        for (lack, ..) in WAYS {
            for recorder in ALL {
                let how = lack.how(recorder);
                let foreign = flags(recorder).into_iter().find(|flag| how.contains(flag));
                assert_eq!(foreign, None, "{recorder:?}: {how}");
            }
        }
    }

    fn trace(format: &'static str, text: &str) -> Trace {
        let mut builder = TraceBuilder::new();
        builder.meta.format = format;
        let mut process = Process::new(Pid(1));
        process.name = Some(builder.string(text));
        builder.process(process);
        builder.finish(&FinishOptions::default()).unwrap()
    }

    #[test]
    fn recorders_are_recognised() {
        for (format, text, want) in [
            ("chrome-json", "aten::mm", Recorder::Torch),
            (
                "chrome-json",
                "vllm/v1/engine/core.py(10): step",
                Recorder::Vllm,
            ),
            ("chrome-json", "step[DECODE bs=4]", Recorder::Sglang),
            ("nsys", "vllm/v1/engine/core.py(10): step", Recorder::Nsys),
            ("rocpd", "x", Recorder::Rocm),
            ("rocprofv3-json", "x", Recorder::Rocm),
            ("xplane", "x", Recorder::Xla),
            ("chrome-json", "/device:GPU:0 (pid 1)", Recorder::Xla),
            ("perfetto", "host1 /host:CPU", Recorder::Xla),
        ] {
            assert_eq!(Recorder::of(&trace(format, text)), want, "{format} {text}");
        }
    }
}
