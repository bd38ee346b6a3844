//! The program of a recorded step: what the busiest host thread of a Chrome trace did, and what its launches ran.

use std::collections::BTreeMap;
use std::io::Read as _;
use std::path::Path;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::engines::{Engine, Load, Parts};
use super::program::{Op, Work};

/// Longest stretch of a recording without any event that is host time; longer ones are waits for what was not recorded.
const LONGEST_US: f64 = 2_000.0;

struct Event {
    name: String,
    cat: String,
    ts: f64,
    dur: f64,
    correlation: i64,
    stream: u32,
    bytes: Option<u64>,
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_str()?.parse().ok())
}

fn is_gpu(cat: &str) -> bool {
    matches!(cat, "kernel" | "gpu_memcpy" | "gpu_memset")
}

fn is_call(cat: &str) -> bool {
    matches!(cat, "cuda_runtime" | "cuda_driver")
}

fn is_host(cat: &str) -> bool {
    is_call(cat) || matches!(cat, "python_function" | "cpu_op" | "user_annotation")
}

fn is_wait(name: &str) -> bool {
    name.contains("Synchronize") || matches!(name, "cudaMemcpy" | "hipMemcpyWithStream")
}

/// The categories that a program writes.
fn category(cat: &str) -> &'static str {
    match cat {
        "cpu_op" => "cpu_op",
        "user_annotation" => "user_annotation",
        "cuda_driver" => "cuda_driver",
        "cuda_runtime" => "cuda_runtime",
        _ => "python_function",
    }
}

/// Reads the complete events of the busiest host thread and of the GPUs.
fn read(path: &Path) -> Result<(Vec<Event>, Vec<Event>, String)> {
    let bytes = std::fs::read(path)?;
    let mut text = String::new();
    if bytes.starts_with(&[0x1f, 0x8b]) {
        flate2::read::MultiGzDecoder::new(&bytes[..]).read_to_string(&mut text)?;
    } else {
        text = String::from_utf8(bytes)?;
    }
    let document: Value = serde_json::from_str(&text)?;
    let device = document["deviceProperties"][0]["name"].as_str();
    let device = device.unwrap_or("unknown GPU").to_owned();
    let list = document["traceEvents"].as_array().or(document.as_array());
    let list = list.context("no list of events in it")?;
    let mut threads: BTreeMap<(String, String), Vec<Event>> = BTreeMap::new();
    let mut gpu = Vec::new();
    for event in list.iter().filter(|e| e["ph"] == "X") {
        let cat = event["cat"].as_str().unwrap_or("");
        let (Some(ts), Some(dur)) = (number(&event["ts"]), number(&event["dur"])) else {
            continue;
        };
        let args = &event["args"];
        let read = Event {
            name: event["name"].as_str().unwrap_or("").to_owned(),
            cat: cat.to_owned(),
            ts,
            dur,
            correlation: args["correlation"].as_i64().unwrap_or(-1),
            stream: args["stream"]
                .as_u64()
                .and_then(|s| u32::try_from(s).ok())
                .unwrap_or(7),
            bytes: args["bytes"].as_u64(),
        };
        if is_gpu(cat) {
            gpu.push(read);
        } else if is_host(cat) {
            let thread = (event["pid"].to_string(), event["tid"].to_string());
            threads.entry(thread).or_default().push(read);
        }
    }
    let host = threads
        .into_values()
        .max_by_key(Vec::len)
        .unwrap_or_default();
    Ok((host, gpu, device))
}

/// Turns the events of a thread into operations.
fn operations(mut host: Vec<Event>, gpu: Vec<Event>) -> Vec<Op> {
    let mut launched: BTreeMap<i64, Vec<Work>> = BTreeMap::new();
    let mut gpu = gpu;
    gpu.sort_by(|a, b| a.ts.total_cmp(&b.ts));
    for event in gpu {
        let joint = event.name.contains("nccl") || event.name.contains("multimem_all_reduce");
        launched.entry(event.correlation).or_default().push(Work {
            name: event.name.as_str().into(),
            stream: event.stream,
            us: event.dur.max(0.7),
            bytes: (event.cat == "gpu_memcpy").then(|| event.bytes.unwrap_or(4096)),
            joint,
        });
    }
    host.retain(|e| !e.name.starts_with("ProfilerStep"));
    host.sort_by(|a, b| a.ts.total_cmp(&b.ts).then(b.dur.total_cmp(&a.dur)));
    let mut ops = Vec::new();
    let mut open: Vec<f64> = Vec::new();
    let mut now = host.first().map_or(0.0, |e| e.ts);
    // Host time up to `ts`.
    let until = |ops: &mut Vec<Op>, now: &mut f64, ts: f64| {
        let gap = ts - *now;
        if gap > 0.4 {
            ops.push(Op::Host(if gap > LONGEST_US { 30.0 } else { gap - 0.3 }));
        }
        *now = now.max(ts);
    };
    for event in host {
        while let Some(end) = open.last().copied().filter(|end| *end <= event.ts) {
            until(&mut ops, &mut now, end);
            ops.push(Op::Close);
            open.pop();
        }
        until(&mut ops, &mut now, event.ts);
        let end = event.ts + event.dur;
        if is_call(&event.cat) {
            let work = launched.remove(&event.correlation).unwrap_or_default();
            let name = event.name.as_str();
            if !work.is_empty() {
                let most = if name.contains("Graph") {
                    1_600.0
                } else {
                    60.0
                };
                ops.push(Op::Launch(name.into(), event.dur.clamp(0.5, most), work));
            }
            if is_wait(name) {
                // A blocking memcpy is its launch and a wait.
                let api = if name.starts_with("hip") {
                    "hipStreamSynchronize"
                } else {
                    "cudaStreamSynchronize"
                };
                let api = if name.contains("Memcpy") { api } else { name };
                ops.push(Op::Wait(api.into(), false));
            } else if matches!(ops.last(), Some(Op::Host(_)) | None) {
                ops.push(Op::Host(event.dur.min(60.0)));
            }
            now = now.max(end);
        } else {
            let end = open.last().map_or(end, |outer| end.min(*outer));
            ops.push(Op::Open(event.name.as_str().into(), category(&event.cat)));
            open.push(end);
        }
    }
    while let Some(end) = open.pop() {
        until(&mut ops, &mut now, end);
        ops.push(Op::Close);
    }
    ops
}

/// Total time by name of the work that `wanted` accepts: the largest.
fn largest(ops: &[Op], wanted: &[&str]) -> Option<String> {
    let mut sums: BTreeMap<&str, f64> = BTreeMap::new();
    for op in ops {
        let Op::Launch(_, _, work) = op else { continue };
        for one in work.iter().filter(|one| one.bytes.is_none()) {
            let lower = one.name.to_ascii_lowercase();
            if wanted.iter().any(|part| lower.contains(part)) {
                *sums.entry(&one.name).or_default() += one.us;
            }
        }
    }
    let most = sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1))?;
    Some(most.0.to_owned())
}

const MATRICES: &[&str] = &["gemm", "cijk", "nvjet", "matmul", "bmm_"];

/// Makes an engine whose steps are the recorded one. What the recording does not have, the wait for the step's work and the
/// code between two steps, is added.
pub(crate) fn engine(path: &Path) -> Result<Engine> {
    let file = path.file_name().unwrap_or_default().to_string_lossy();
    let name = file.split('.').next().unwrap_or("recorded").to_owned();
    let (host, gpu, device) = read(path).with_context(|| path.display().to_string())?;
    let ops = operations(host, gpu);
    ensure!(!ops.is_empty(), "{file}: no host thread in it");
    let matrix = largest(&ops, MATRICES).with_context(|| format!("{file}: no matrix kernel"))?;
    let attention = largest(&ops, &["attn", "attention", "fmha", "flash"]);
    let wait = if device.contains("AMD") || matrix.starts_with("Cijk") {
        "hipEventSynchronize"
    } else {
        "cudaEventSynchronize"
    };
    const PREPARE: &str = "bench/steps.py(12): prepare_step";
    const RESULT: &str = "bench/steps.py(20): process_result";
    const NEXT: &str = "bench/steps.py(40): next_step";
    let leaf = |name: &str, us: f64| {
        [
            Op::Open(name.into(), "python_function"),
            Op::Host(us),
            Op::Close,
        ]
    };
    let mut all = leaf(PREPARE, 60.0).to_vec();
    all.extend(ops);
    all.extend([
        Op::Open(RESULT.into(), "python_function"),
        Op::Host(20.0),
        Op::Wait(wait.into(), false),
        Op::Host(30.0),
        Op::Close,
    ]);
    all.extend(leaf(NEXT, 80.0));
    Ok(Engine::new(
        &name,
        1,
        Box::leak(device.into_boxed_str()),
        Parts {
            attention: attention.unwrap_or_else(|| matrix.clone()),
            matrix,
            matrices: MATRICES_AS_WRITTEN,
            inside: "prepare_step".to_owned(),
            between: "next_step".to_owned(),
            requests: String::new(),
        },
        Box::new(move |_: &Load, _| all.clone()),
    ))
}

/// The same as names of kernels write them.
const MATRICES_AS_WRITTEN: &[&str] = &["gemm", "Cijk", "nvjet", "matmul", "bmm_"];
