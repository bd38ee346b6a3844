//! Tests both tools on pairs of recordings of a simulated engine with one planted change.

use std::fmt::Write as _;

use super::*;

/// Change of the abnormal side.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Change {
    Nothing,
    /// The engine does work between two steps that no frame shows, in µs per step.
    BetweenHidden(f64),
    /// Its scheduler takes longer between two steps, in µs per step.
    Scheduler(f64),
    /// In every tenth step the engine pauses between two steps for this time, in µs.
    Pause(f64),
    /// One kernel takes this factor of its time.
    Kernel(usize, f64),
    /// All kernels take this factor of their time.
    Gpu(f64),
    /// All host code takes this factor of its time.
    Host(f64),
    /// Requests come later: the engine waits for them between two steps, in µs per step.
    Idle(f64),
    /// Requests come later in every tenth step, in µs.
    IdleAtTimes(f64),
}

/// Marks that separate steps.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Marks {
    /// Calls of vLLM, as its profiler writes Python functions.
    Call,
    /// Ranges of vLLM.
    Ranges,
    /// Calls of TensorRT-LLM.
    Trt,
    /// Forward calls of a model, which no rule names.
    Model,
    /// No marks: no Python functions are recorded.
    Bare,
}

impl Marks {
    fn forward(self) -> &'static str {
        match self {
            Self::Trt => "tensorrt_llm/_torch/pyexecutor/py_executor.py(900): _forward_step",
            Self::Model => "transformers/models/qwen2/modeling_qwen2.py(800): forward",
            _ => "vllm/v1/worker/gpu_model_runner.py(3380): execute_model",
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Engine {
    seed: u64,
    marks: Marks,
    steps: usize,
    /// Number of kernels of a step, and their time, in µs.
    kernels: usize,
    kernel_us: f64,
    /// Time of the first kernel, an attention, in µs.
    first_us: f64,
    /// Host time of each launch, in µs.
    launch_us: f64,
    ranks: usize,
    /// The only rank that changes; `None` if all do.
    only: Option<usize>,
    /// `true` if files have the names of other ranks.
    is_misnamed: bool,
    /// `true` if the tokens are copied by a synchronous call.
    copies: bool,
    change: Change,
}

const ENGINE: Engine = Engine {
    seed: 1,
    marks: Marks::Call,
    steps: 40,
    kernels: 24,
    kernel_us: 60.0,
    first_us: 300.0,
    launch_us: 40.0,
    ranks: 1,
    only: None,
    is_misnamed: false,
    copies: true,
    change: Change::Nothing,
};

struct Random(u64);

impl Random {
    /// Returns about 1, within two percent.
    fn jitter(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        let one = f64::from(u32::try_from(self.0 >> 33).unwrap()) / f64::from(1_u32 << 31);
        0.98 + 0.04 * one
    }
}

const LOOP: &str = "vllm/v1/engine/core.py(700): run_busy_loop";
const SCHEDULE: &str = "vllm/v1/core/sched/scheduler.py(170): schedule";
const UPDATE: &str = "vllm/v1/core/sched/scheduler.py(900): update_from_output";
const LOCK: &str = "<built-in method acquire of _thread.lock object at 0x7f3a5c1b2d80>";

fn kernel_name(at: usize) -> String {
    match at {
        0 => "flash_fwd_splitkv_kernel".to_owned(),
        1 => "ampere_bf16_s16816gemm_bf16_128x64_ldg8".to_owned(),
        _ => format!("fused_elementwise_kernel_{at}"),
    }
}

impl Engine {
    /// Returns the recording of each rank; each is alone, as in data parallelism.
    fn record(&self) -> Vec<String> {
        let of_rank = |rank: usize| match self.only {
            Some(only) if only != rank => Self {
                change: Change::Nothing,
                ..*self
            },
            _ => *self,
        };
        (0..self.ranks)
            .map(|rank| of_rank(rank).rank(rank))
            .collect()
    }

    fn rank(&self, rank: usize) -> String {
        let mut r = Random(self.seed * 1000 + u64::try_from(rank).unwrap());
        for _ in 0..4 {
            r.jitter();
        }
        let mut out = String::new();
        let mut event = |cat: &str, name: &str, (ts, end): (f64, f64), args: &str| {
            if cat == "python_function" && self.marks == Marks::Bare {
                return;
            }
            let (pid, tid) = match cat {
                "kernel" | "gpu_memcpy" => (0, 7),
                _ => (100, 100),
            };
            let (ts, dur) = ((ts * 1e3).round() / 1e3, ((end - ts) * 1e3).round() / 1e3);
            write!(
                out,
                r#"{{"name":"{name}","cat":"{cat}","ph":"X","pid":{pid},"tid":{tid},"ts":{ts:.3},"dur":{dur:.3},"args":{{{args}}}}},"#
            )
            .unwrap();
        };
        let host = |us: f64| match self.change {
            Change::Host(times) => us * times,
            _ => us,
        };
        let (mut at, mut free, mut id) = (1_000.0, 0.0_f64, 0);
        let begin = at;
        for step in 0..self.steps {
            let is_paused = step % 10 == 7;
            let mark = at;
            let mut took = host(400.0) * r.jitter();
            if let Change::Scheduler(us) = self.change {
                took += us * r.jitter();
            }
            event("python_function", SCHEDULE, (at, at + took), "");
            at += took + 5.0;
            let forward = at;
            at += host(60.0) * r.jitter();
            event(
                "python_function",
                "vllm/v1/worker/gpu_model_runner.py(900): _prepare_inputs",
                (forward + 1.0, at),
                "",
            );
            for k in 0..self.kernels {
                id += 1;
                let took = host(self.launch_us) * r.jitter();
                let device = format!(r#""correlation":{id},"device":{rank},"stream":7"#);
                event("cpu_op", &format!("aten::op_{k}"), (at, at + took), "");
                event(
                    "cuda_runtime",
                    "cudaLaunchKernel",
                    (at + 2.0, at + 2.0 + 0.2 * took),
                    &format!(r#""correlation":{id}"#),
                );
                let us = if k == 0 {
                    self.first_us
                } else {
                    self.kernel_us
                };
                let us = us
                    * r.jitter()
                    * match self.change {
                        Change::Kernel(which, times) if which == k => times,
                        Change::Gpu(times) => times,
                        _ => 1.0,
                    };
                let start = (free + 1.0).max(at + 8.0);
                free = start + us;
                event("kernel", &kernel_name(k), (start, free), &device);
                at += took;
            }
            id += 1;
            let call = at;
            if self.copies {
                let start = (free + 1.0).max(at + 6.0);
                free = start + 2.0;
                at = free + 8.0;
                event(
                    "gpu_memcpy",
                    "Memcpy DtoH (Device -> Pageable)",
                    (start, free),
                    &format!(r#""correlation":{id},"device":{rank},"stream":7,"bytes":256"#),
                );
                event(
                    "cuda_runtime",
                    "cudaMemcpyAsync",
                    (call, at),
                    &format!(r#""correlation":{id}"#),
                );
            } else {
                at = (at + 3.0).max(free + 6.0);
                event("cuda_runtime", "cudaStreamSynchronize", (call, at), "");
            }
            event("python_function", self.marks.forward(), (forward, at), "");
            if self.marks == Marks::Ranges {
                event(
                    "user_annotation",
                    &format!(
                        "execute_8_context_0(sq0sk0)_generation_8(sq8sk{})",
                        800 + 8 * (step % 4)
                    ),
                    (forward, at),
                    "",
                );
            }
            let after = at + 3.0;
            at = after + host(200.0) * r.jitter();
            event("python_function", UPDATE, (after, at), "");
            match self.change {
                Change::BetweenHidden(us) => at += us * r.jitter(),
                Change::Pause(us) if is_paused => at += us * r.jitter(),
                _ => {}
            }
            // The engine polls for requests.
            let us = match self.change {
                Change::Idle(us) => us * r.jitter(),
                Change::IdleAtTimes(us) if is_paused => us * r.jitter(),
                _ => 30.0 * r.jitter(),
            };
            event("python_function", "queue.py(154): get", (at, at + us), "");
            event("python_function", LOCK, (at + 1.0, at + us - 1.0), "");
            at += us + 4.0;
            assert!(at > mark);
        }
        event("python_function", LOOP, (begin - 10.0, at + 10.0), "");
        let events = out.trim_end_matches(',');
        format!(
            r#"{{"schemaVersion":1,"with_stack":1,"distributedInfo":{{"backend":"nccl","rank":{rank},"world_size":{}}},"traceEvents":[{events}]}}"#,
            self.ranks
        )
    }

    fn write(&self, folder: &Path) {
        std::fs::create_dir_all(folder).unwrap();
        for (rank, json) in self.record().into_iter().enumerate() {
            let called = match self.is_misnamed {
                true => self.ranks - 1 - rank,
                false => rank,
            };
            std::fs::write(folder.join(format!("rank{called}.json")), json).unwrap();
        }
    }
}

/// Returns the answer of `batch` to a pair, after checking that `perf-compare` gives the same on
/// the tables that it wrote.
fn answer(normal: Engine, change: Change) -> Value {
    let folder = tempfile::tempdir().unwrap();
    let (root, out) = (folder.path().join("in"), folder.path().join("out"));
    normal.write(&root.join("case/normal"));
    let abnormal = Engine {
        seed: normal.seed + 500,
        change,
        ..normal
    };
    abnormal.write(&root.join("case/abnormal"));
    let output = run(&["batch", text(&root), "-o", text(&out), "--format", "json"]);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{errors}");
    let case = json(&output)["cases"][0].clone();
    let load = |side: &str| {
        let folder = out.join(format!("case/{side}_perf_data"));
        perf_compare::load(&folder, &perf_compare::LoadOptions::default()).unwrap()
    };
    let (a, b) = (load("normal"), load("abnormal"));
    let alone = perf_compare::compare(&a, &b, &perf_compare::Options::default());
    assert_eq!(case["headline"], alone.headline.as_str());
    assert_eq!(case["verdict"]["cause"], alone.verdict.cause.as_str());
    case
}

fn first(case: &Value) -> &str {
    case["culprits"][0]["name"].as_str().unwrap_or("")
}

fn assert_says(case: &Value, cause: &str, culprit: &str, words: &[&str]) {
    let shown = format!(
        "{}: {}\n{:#}",
        case["verdict"]["cause"], case["headline"], case["culprits"]
    );
    assert_eq!(case["verdict"]["cause"], cause, "{shown}");
    assert!(
        first(case).contains(culprit),
        "{culprit} is not first: {shown}"
    );
    let headline = case["headline"].as_str().unwrap();
    for word in words {
        assert!(headline.contains(word), "no {word:?}: {shown}");
    }
}

#[test]
fn time_between_steps_is_time_of_steps() {
    for marks in [Marks::Call, Marks::Ranges, Marks::Trt, Marks::Model] {
        let engine = Engine { marks, ..ENGINE };
        // Steps of about 2.5 ms become three times as long.
        let case = answer(engine, Change::BetweenHidden(5_000.0));
        assert_says(
            &case,
            "host_code",
            "run_busy_loop",
            &["run_busy_loop", "slower"],
        );
        let change = case["phases"][0]["effect_ns"].as_f64().unwrap();
        assert!((change - 5e6).abs() < 2e5, "{change}");
        let case = answer(engine, Change::Scheduler(2_000.0));
        assert_says(&case, "host_code", "schedule", &["schedule"]);
        let case = answer(engine, Change::Pause(60_000.0));
        assert_says(&case, "pauses", "run_busy_loop", &["pause"]);
    }
}

#[test]
fn time_between_steps_counts_without_any_function() {
    let engine = Engine {
        marks: Marks::Bare,
        ..ENGINE
    };
    let case = answer(engine, Change::BetweenHidden(5_000.0));
    let headline = case["headline"].as_str().unwrap();
    assert_eq!(case["verdict"]["cause"], "host_code", "{headline}");
    let change = case["phases"][0]["effect_ns"].as_f64().unwrap();
    assert!((change - 5e6).abs() < 2e5, "{change}: {headline}");
}

#[test]
fn a_rank_is_what_its_file_states() {
    let two = Engine {
        kernel_us: 120.0,
        ranks: 2,
        only: Some(1),
        is_misnamed: true,
        ..ENGINE
    };
    let case = answer(two, Change::Kernel(1, 6.0));
    assert_eq!(case["culprits"][0]["rank"], 1, "{:#}", case["culprits"]);
    let headline = case["headline"].as_str().unwrap();
    assert!(
        headline.contains("rank 1") || !headline.contains("rank"),
        "{headline}"
    );
}

#[test]
fn a_copy_that_waits_for_kernels_is_no_code_of_the_host() {
    let busy = Engine {
        kernel_us: 120.0,
        ..ENGINE
    };
    let case = answer(busy, Change::Kernel(1, 6.0));
    assert_says(&case, "gpu_kernel", "s16816gemm", &["GEMM kernel"]);
    let names = case["culprits"].as_array().unwrap();
    assert!(
        names.iter().all(|c| c["name"] != "cudaMemcpyAsync"),
        "{names:#?}"
    );
}

#[test]
fn attention_without_lengths_may_be_longer_sequences() {
    let busy = Engine {
        kernel_us: 120.0,
        ..ENGINE
    };
    let case = answer(busy, Change::Kernel(0, 2.0));
    assert_says(&case, "gpu_kernel", "flash_fwd", &["or longer sequences"]);
    assert_eq!(case["verdict"]["certainty"], "possible");
}

#[test]
fn a_slower_host_is_not_one_function() {
    let case = answer(ENGINE, Change::Host(1.4));
    assert_says(&case, "host_code", "", &["All host code", "slower"]);
    assert_eq!(first(&case), "all host code", "{:#}", case["culprits"]);
}

#[test]
fn an_engine_without_requests_waits_and_is_not_slow() {
    let case = answer(ENGINE, Change::Idle(4_000.0));
    assert_says(&case, "waiting_for_input", "acquire", &["waits for input"]);
    let case = answer(ENGINE, Change::IdleAtTimes(200_000.0));
    assert_says(&case, "pauses", "acquire", &["waits for input in them"]);
}

#[test]
fn kernels_of_a_gpu_are_slower_if_most_are() {
    // One kernel of two hundred takes nearly all of the time.
    let one = Engine {
        kernels: 200,
        kernel_us: 2.0,
        first_us: 9_000.0,
        launch_us: 8.0,
        ..ENGINE
    };
    let case = answer(one, Change::Kernel(0, 1.3));
    assert_says(&case, "gpu_kernel", "flash_fwd", &[]);
    let busy = Engine {
        kernel_us: 120.0,
        ..ENGINE
    };
    let case = answer(busy, Change::Gpu(1.2));
    assert_says(&case, "gpu_slow", "", &["All kernels"]);
}

#[test]
fn what_changed_on_all_ranks_is_of_none() {
    let two = Engine {
        kernel_us: 120.0,
        ranks: 2,
        ..ENGINE
    };
    let case = answer(two, Change::Kernel(1, 6.0));
    assert_says(&case, "gpu_kernel", "s16816gemm", &["on all 2 ranks"]);
    assert_eq!(case["culprits"][0]["rank"], Value::Null);
}

#[test]
fn no_change_has_no_culprit() {
    for marks in [Marks::Call, Marks::Ranges] {
        for seed in [3, 4] {
            let case = answer(
                Engine {
                    marks,
                    seed,
                    ..ENGINE
                },
                Change::Nothing,
            );
            assert_eq!(case["verdict"]["cause"], "none", "{}", case["headline"]);
            assert_eq!(case["culprits"], serde_json::json!([]));
        }
    }
    // Too few cycles prove nothing.
    let few = Engine { steps: 4, ..ENGINE };
    let case = answer(few, Change::Kernel(1, 20.0));
    assert_eq!(
        case["culprits"],
        serde_json::json!([]),
        "{}",
        case["headline"]
    );
}
