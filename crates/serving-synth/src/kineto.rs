//! Writes one simulated rank in the form of a Kineto trace.

use crate::json::{Json, object};
use crate::sim::{COMM, COMPUTE, Rank, distributed_info};
use std::collections::{BTreeMap, BTreeSet};

/// Text of a trace and counts of its contents.
pub struct Written {
    /// The trace.
    pub text: String,
    /// Events.
    pub events: i64,
    /// Phase `X`.
    pub slices: i64,
    /// `s` events: one per launch call that is not a graph launch, including captured ones.
    pub flow_starts: i64,
    /// `f` events whose id has no `s`.
    pub flow_ends_without_start: i64,
}

/// How a rank was recorded.
#[derive(Clone, Debug)]
pub struct Recorder {
    /// Name of the recording, without rank and ending.
    pub name: &'static str,
    /// Name of the process.
    pub process: &'static str,
    /// `baseTimeNanoseconds`.
    pub base_ns: i64,
    /// How far its clock is ahead.
    pub ahead_ns: i64,
}

impl Recorder {
    /// Converts a true time to the recorder's clock, relative to its base.
    pub fn local(&self, time: i64) -> i64 {
        time + self.ahead_ns - self.base_ns
    }
}

struct Events<'a> {
    rank: &'a Rank,
    recorder: &'a Recorder,
    lines: Vec<String>,
    slices: i64,
}

/// Writes the trace of `rank` in a group of `world`.
pub fn write(rank: &Rank, world: i64, recorder: &Recorder) -> Written {
    let mut events = Events {
        rank,
        recorder,
        lines: Vec::new(),
        slices: 0,
    };
    events.host();
    let (flow_starts, flow_ends_without_start) = events.device();
    events.rest();
    let head = object! {
        "schemaVersion": 1,
        "deviceProperties": Json::Arr((0..world).map(device).collect()),
        "cupti_version": 26, "cuda_runtime_version": 12_080, "cuda_driver_version": 12_080,
        "distributedInfo": distributed_info(rank.index, world),
        "record_shapes": 1, "with_stack": 1,
        "trace_id": format!("5D1E0F6A3B7C4D{:02X}9A2B8C7D6E5F4A3B", 16 + rank.index),
        "displayTimeUnit": "ms", "baseTimeNanoseconds": recorder.base_ns,
    };
    let mut text = head.line();
    text.pop();
    text.push_str(", \"traceEvents\": [\n");
    text.push_str(&events.lines.join(",\n"));
    text.push_str(&format!(
        "\n], \"traceName\": \"{}-rank{}.json\"}}\n",
        recorder.name, rank.index
    ));
    let count = i64::try_from(events.lines.len()).unwrap_or(i64::MAX);
    Written {
        text,
        events: count,
        slices: events.slices,
        flow_starts,
        flow_ends_without_start,
    }
}

impl Events<'_> {
    fn slice(&mut self, index: usize, more: &[(&str, Json)]) {
        let slice = &self.rank.slices[index];
        let pid = if slice.on_gpu {
            self.rank.index
        } else {
            self.rank.pid
        };
        let mut args = Json::Obj(Vec::new());
        for (key, value) in &slice.args {
            args.push(key, value.clone());
        }
        for (key, value) in more {
            args.push(key, value.clone());
        }
        let event = object! {
            "ph": "X", "cat": slice.cat, "name": &slice.name, "pid": pid, "tid": slice.tid,
            "ts": Json::micros(self.recorder.local(slice.ts)), "dur": Json::micros(slice.dur), "args": args,
        };
        self.push_slice(&event);
    }

    fn push_slice(&mut self, event: &Json) {
        self.lines.push(event.line());
        self.slices += 1;
    }

    fn flow(&mut self, phase: &str, index: usize) {
        let slice = &self.rank.slices[index];
        let pid = if slice.on_gpu {
            self.rank.index
        } else {
            self.rank.pid
        };
        let mut event = object! {
            "ph": phase, "id": slice.correlation, "pid": pid, "tid": slice.tid,
            "ts": Json::micros(self.recorder.local(slice.ts)), "cat": "ac2g", "name": "ac2g",
        };
        if phase == "f" {
            event.push("bp", "e");
        }
        self.lines.push(event.line());
    }

    /// Writes operators and annotations first, then Python frames: Kineto writes one table after
    /// the other.
    fn host(&mut self) {
        let of = |cats: &[&str]| -> Vec<usize> {
            (0..self.rank.slices.len())
                .filter(|&at| cats.contains(&self.rank.slices[at].cat))
                .collect()
        };
        let (ops, frames) = (of(&["cpu_op", "user_annotation"]), of(&["python_function"]));
        let mut index = 0;
        for &op in &ops {
            self.slice(op, &[("Ev Idx", Json::from(index))]);
            index += 1;
        }
        let python_ids: BTreeMap<usize, usize> = frames
            .iter()
            .enumerate()
            .map(|(id, &frame)| (frame, id + 1))
            .collect();
        let mut modules = BTreeMap::new();
        for &frame in &frames {
            let mut above = self.rank.slices[frame].parent;
            while let Some(at) = above.filter(|at| !python_ids.contains_key(at)) {
                above = self.rank.slices[at].parent;
            }
            let parent = above
                .and_then(|at| python_ids.get(&at))
                .map_or_else(Json::null, |&id| id.into());
            let mut args = vec![
                ("Python parent id", parent),
                ("Python id", python_ids[&frame].into()),
            ];
            let name = self.rank.slices[frame].name.clone();
            if name.starts_with("nn.Module") {
                let next = modules.len();
                args.push((
                    "Python module id",
                    (*modules.entry(name).or_insert(next)).into(),
                ));
            }
            args.push(("Ev Idx", index.into()));
            self.slice(frame, &args);
            index += 1;
        }
    }

    /// Writes runtime calls and the activities they started, each followed by its flow event.
    /// Returns the numbers of `s` and of lone `f`.
    fn device(&mut self) -> (i64, i64) {
        let rank = self.rank;
        let launches: BTreeSet<usize> = rank.launches.iter().copied().collect();
        let (mut starts, mut lone) = (0, 0);
        for activity in &rank.activities {
            self.slice(activity.slice, &[]);
            self.flow("f", activity.slice);
            lone += i64::from(!activity.flow);
            if let Some(message) = &activity.message {
                let kernel = &rank.slices[activity.slice];
                let what = if message.collective == "allreduce" {
                    "all_reduce"
                } else {
                    "_all_gather_base"
                };
                let event = object! {
                    "ph": "X", "cat": "gpu_user_annotation", "name": format!("nccl:{what}"), "pid": rank.index, "tid": kernel.tid,
                    "ts": Json::micros(self.recorder.local(kernel.ts - 1)), "dur": Json::micros(kernel.dur + 2),
                    "args": object! { "External id": kernel.correlation + 100_000 },
                };
                self.push_slice(&event);
            }
        }
        for at in 0..rank.slices.len() {
            let slice = &rank.slices[at];
            if !matches!(slice.cat, "cuda_runtime" | "cuda_driver") {
                continue;
            }
            self.slice(at, &[]);
            if launches.contains(&at) {
                self.flow("s", at);
                starts += 1;
            } else {
                self.flow("f", at);
                lone += 1;
            }
        }
        (starts, lone)
    }

    /// Writes names, the span of the recording, and the overhead row.
    fn rest(&mut self) {
        let rank = self.rank;
        let first = rank.slices.iter().map(|slice| slice.ts).min().unwrap_or(0) - 40_000;
        let last = rank
            .slices
            .iter()
            .map(|slice| slice.ts + slice.dur)
            .max()
            .unwrap_or(0)
            + 90_000;
        let (start, end) = (
            Json::micros(self.recorder.local(first)),
            Json::micros(self.recorder.local(last)),
        );
        self.push_slice(&object! {
            "ph": "X", "cat": "overhead", "name": "Activity Buffer Request", "pid": -1, "tid": 0,
            "ts": start.clone(), "dur": Json::micros(21_500),
        });
        let mut meta = |name: &str, pid: i64, tid: i64, key: &str, value: Json| {
            let args = Json::Obj(vec![(key.to_owned(), value)]);
            let event = object! { "name": name, "ph": "M", "ts": start.clone(), "pid": pid, "tid": tid, "args": args };
            self.lines.push(event.line());
        };
        meta(
            "process_name",
            rank.pid,
            0,
            "name",
            self.recorder.process.into(),
        );
        meta("process_labels", rank.pid, 0, "labels", "CPU".into());
        meta(
            "process_sort_index",
            rank.pid,
            0,
            "sort_index",
            rank.pid.into(),
        );
        meta(
            "thread_name",
            rank.pid,
            rank.pid,
            "name",
            format!(
                "thread {} ({}_TP{})",
                rank.pid, self.recorder.process, rank.index
            )
            .into(),
        );
        meta(
            "process_name",
            rank.index,
            0,
            "name",
            self.recorder.process.into(),
        );
        meta(
            "process_labels",
            rank.index,
            0,
            "labels",
            format!("GPU {}", rank.index).into(),
        );
        for stream in [COMPUTE, COMM] {
            meta(
                "thread_name",
                rank.index,
                stream,
                "name",
                format!("stream {stream}").into(),
            );
        }
        self.push_slice(&object! {
            "ph": "X", "cat": "Trace", "ts": start.clone(), "dur": Json::micros(last - first), "pid": "Spans",
            "tid": "PyTorch Profiler", "name": "PyTorch Profiler (0)", "args": object! { "Op count": 0 },
        });
        let iteration = object! {
            "name": "Iteration Start: PyTorch Profiler", "ph": "i", "s": "g", "pid": "Traces", "tid": "Trace PyTorch Profiler", "ts": start,
        };
        let window_end = object! { "name": "Record Window End", "ph": "i", "s": "g", "pid": "", "tid": "", "ts": end };
        self.lines.extend([iteration.line(), window_end.line()]);
    }
}

fn device(id: i64) -> Json {
    object! {
        "id": id, "name": "NVIDIA H200", "totalGlobalMem": 150_754_820_096_i64, "computeMajor": 9, "computeMinor": 0,
        "maxThreadsPerBlock": 1024, "maxThreadsPerMultiprocessor": 2048, "regsPerBlock": 65_536, "warpSize": 32,
        "sharedMemPerBlock": 49_152, "numSms": 132, "regsPerMultiprocessor": 65_536, "sharedMemPerBlockOptin": 232_448,
        "sharedMemPerMultiprocessor": 233_472,
    }
}
