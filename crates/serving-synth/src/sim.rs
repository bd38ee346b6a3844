//! A small simulation of tensor-parallel inference: host threads, GPU streams and collectives that
//! wait for each other.
//!
//! All ranks run the same program in lockstep. Times are true nanoseconds, the same for all ranks;
//! each rank's clock error is applied only when its file is written. Because the simulation places
//! every kernel, it knows the answers exactly.

use crate::json::{Json, object};
use crate::rng::Rng;
use std::collections::BTreeMap;

/// Stream of compute kernels.
pub const COMPUTE: i64 = 7;
/// Stream of collectives that overlap with computation.
pub const COMM: i64 = 20;

/// One complete event of a rank.
#[derive(Clone, Debug)]
pub struct Slice {
    /// Category.
    pub cat: &'static str,
    /// Name.
    pub name: String,
    /// Thread or stream.
    pub tid: i64,
    /// `true` on a GPU row, where the pid is the device.
    pub on_gpu: bool,
    /// True begin.
    pub ts: i64,
    /// Duration.
    pub dur: i64,
    /// Index of the enclosing host slice.
    pub parent: Option<usize>,
    /// Arguments.
    pub args: Vec<(&'static str, Json)>,
    /// Correlation id; 0 for none.
    pub correlation: i64,
}

/// An input of an operator.
#[derive(Clone, Debug)]
pub enum Input {
    /// A contiguous tensor with its type.
    Tensor(Vec<i64>, &'static str),
    /// A number or a truth value.
    Scalar(&'static str),
    /// None, a text or a list.
    Nothing,
}

impl Input {
    /// A tensor of bfloat16.
    pub fn bf16(dims: &[i64]) -> Self {
        Self::Tensor(dims.to_vec(), "c10::BFloat16")
    }

    fn dims(&self) -> &[i64] {
        match self {
            Self::Tensor(dims, _) => dims,
            Self::Scalar(_) | Self::Nothing => &[],
        }
    }

    fn type_name(&self) -> &'static str {
        match self {
            Self::Tensor(_, name) => name,
            Self::Scalar(_) => "Scalar",
            Self::Nothing => "",
        }
    }

    fn concrete(&self) -> &'static str {
        match self {
            Self::Scalar(text) => text,
            Self::Tensor(..) | Self::Nothing => "",
        }
    }
}

/// Message of a collective.
#[derive(Clone, Debug)]
pub struct Message {
    /// Value of `Collective name`.
    pub collective: &'static str,
    /// Elements that go in.
    pub nelems_in: i64,
    /// Elements that come out.
    pub nelems_out: i64,
    /// Position in the process group, from 0.
    pub seq: i64,
}

impl Message {
    /// Returns the bytes by the convention of the collective; all messages are bfloat16.
    pub fn bytes(&self) -> i64 {
        2 * self.nelems_in.max(self.nelems_out)
    }
}

/// A kernel to launch: name, duration, location.
#[derive(Clone, Debug)]
pub struct Kernel {
    /// Name.
    pub name: String,
    /// Duration.
    pub dur: i64,
    /// Stream.
    pub stream: i64,
    /// Blocks; of a copy, its bytes.
    pub grid: [i64; 3],
    /// Threads of a block.
    pub block: i64,
    /// Its message, if it is a recorded collective.
    pub message: Option<Message>,
    /// `true` for a collective, with or without a recorded message: it ends on all ranks at once.
    pub joins: bool,
    /// A rank on which it takes this time, in permille of that on the others.
    pub slow: Option<(i64, i64)>,
}

impl Kernel {
    /// A kernel that is no collective.
    pub fn new(name: &str, dur: i64, stream: i64, grid: [i64; 3], block: i64) -> Self {
        Self {
            name: name.to_owned(),
            dur,
            stream,
            grid,
            block,
            message: None,
            joins: false,
            slow: None,
        }
    }

    /// Its time on a rank, of which `drawn` is that of this launch.
    fn dur_on(&self, rank: &Rank, drawn: i64) -> i64 {
        let slow = match self.slow {
            Some((index, permille)) if index == rank.index => permille,
            _ => 1000,
        };
        drawn * rank.pace / 1000 * slow / 1000
    }
}

/// A GPU activity and its origin.
#[derive(Clone, Debug)]
pub struct Activity {
    /// Index of the device slice.
    pub slice: usize,
    /// Index of the launching runtime call; `None` if it is before the recording.
    pub launch: Option<usize>,
    /// `true` if the launch has an `s`, that is: if it is not a graph launch.
    pub flow: bool,
    /// True time at which the device was ready for it (a collective then waits for the others).
    pub arrival: i64,
    /// Its message, if it is a recorded collective.
    pub message: Option<Message>,
    /// Position in its graph launch.
    pub node: Option<usize>,
}

/// One process with one GPU.
#[derive(Clone, Debug)]
pub struct Rank {
    /// Its number.
    pub index: i64,
    /// Its process.
    pub pid: i64,
    /// Slices in the order in which they were made.
    pub slices: Vec<Slice>,
    /// Activities in the order of their launches.
    pub activities: Vec<Activity>,
    /// Runtime calls that are known launches: these write `s`, the others write an `f` without `s`.
    pub launches: Vec<usize>,
    /// Time of its host thread.
    pub now: i64,
    /// Time of its kernels without communication, in permille of that of the other ranks.
    pub pace: i64,
    rng: Rng,
    open: Vec<usize>,
    free: BTreeMap<i64, i64>,
    correlation: i64,
    external: i64,
}

/// All ranks together.
#[derive(Clone, Debug)]
pub struct Sim {
    /// The ranks.
    pub ranks: Vec<Rank>,
    /// While a graph is captured, launches add nodes instead of running.
    pub captured: Option<Vec<(Kernel, usize)>>,
    seq: i64,
}

impl Rank {
    fn new(index: i64, start: i64, seed: u64) -> Self {
        Self {
            index,
            pid: 4242 + index,
            slices: Vec::new(),
            activities: Vec::new(),
            launches: Vec::new(),
            now: start + index * 1_370,
            pace: 1000,
            rng: Rng::new(seed ^ index.unsigned_abs().wrapping_mul(0x5851_f42d_4c95_7f2d)),
            open: Vec::new(),
            free: BTreeMap::new(),
            correlation: 1000 * (index + 1),
            external: 500 * (index + 1),
        }
    }

    fn push(&mut self, cat: &'static str, name: &str, dur: i64) -> usize {
        self.slices.push(Slice {
            cat,
            name: name.to_owned(),
            tid: self.pid,
            on_gpu: false,
            ts: self.now,
            dur,
            parent: self.open.last().copied(),
            args: Vec::new(),
            correlation: 0,
        });
        self.slices.len() - 1
    }

    fn open(&mut self, cat: &'static str, name: &str) -> usize {
        let gap = self.rng.between(150, 900);
        self.now += gap;
        let slice = self.push(cat, name, 0);
        self.open.push(slice);
        if matches!(cat, "cpu_op" | "user_annotation") {
            self.external += 1;
            self.slices[slice]
                .args
                .push(("External id", self.external.into()));
        }
        slice
    }

    fn close(&mut self) {
        self.now += self.rng.between(100, 600);
        if let Some(slice) = self.open.pop() {
            self.slices[slice].dur = self.now - self.slices[slice].ts;
        }
    }

    /// Returns the External id of the innermost open operator, which the runtime call and its
    /// kernel have.
    fn external_id(&self) -> Option<Json> {
        let of = |&slice: &usize| {
            let args = &self.slices[slice].args;
            args.iter()
                .find(|(key, _)| *key == "External id")
                .map(|(_, value)| value.clone())
        };
        self.open.iter().rev().find_map(of)
    }

    /// Adds a runtime call under the innermost open slice and returns its index.
    fn runtime(&mut self, name: &str, cbid: i64, dur: i64) -> usize {
        self.now += self.rng.between(200, 900);
        let call = self.push(
            if name.starts_with("cuda") {
                "cuda_runtime"
            } else {
                "cuda_driver"
            },
            name,
            dur,
        );
        self.now += dur;
        self.correlation += 1;
        let external = self.external_id();
        let slice = &mut self.slices[call];
        slice.correlation = self.correlation;
        slice.args.extend(external.map(|id| ("External id", id)));
        slice.args.push(("cbid", cbid.into()));
        slice.args.push(("correlation", self.correlation.into()));
        call
    }

    /// Returns a correlation from before the recording, one per activity without a launch.
    fn orphan(&self) -> i64 {
        17 + i64::try_from(self.activities.len()).unwrap_or(0)
    }

    fn ready(&self, launched: i64, streams: &[i64]) -> i64 {
        let busy = streams
            .iter()
            .filter_map(|stream| self.free.get(stream))
            .max();
        launched.max(busy.map_or(0, |end| end + 640))
    }

    fn activity(
        &mut self,
        cat: &'static str,
        kernel: &Kernel,
        arrival: i64,
        dur: i64,
        launch: Option<usize>,
    ) -> usize {
        let (correlation, external) = launch.map_or((self.orphan(), None), |call| {
            let args = &self.slices[call].args;
            let external = args
                .iter()
                .find(|(key, _)| *key == "External id")
                .map(|(_, value)| value.clone());
            (self.slices[call].correlation, external)
        });
        let mut args: Vec<(&'static str, Json)> = Vec::new();
        args.extend(external.map(|id| ("External id", id)));
        if cat == "kernel" {
            args.push(("queued", 0.into()));
        }
        args.push(("device", self.index.into()));
        args.push(("context", 1.into()));
        args.push(("stream", kernel.stream.into()));
        args.push(("correlation", correlation.into()));
        if cat == "kernel" {
            args.push(("registers per thread", (24 + kernel.block / 8).into()));
            args.push(("shared memory", (kernel.block * 96).into()));
            args.push(("grid", Json::list(kernel.grid)));
            args.push(("block", Json::list([kernel.block, 1, 1])));
            args.push(("est. achieved occupancy %", (kernel.grid[0] % 97).into()));
        } else {
            args.push(("bytes", kernel.grid[0].into()));
        }
        self.slices.push(Slice {
            cat,
            name: kernel.name.clone(),
            tid: kernel.stream,
            on_gpu: true,
            ts: arrival,
            dur,
            parent: None,
            args,
            correlation,
        });
        let end = self.free.entry(kernel.stream).or_insert(0);
        *end = (*end).max(arrival + dur);
        self.slices.len() - 1
    }

    /// Adds a Python call of `ns` under the innermost open slice.
    pub fn call(&mut self, name: &str, ns: i64) {
        self.open("python_function", name);
        self.now += ns;
        self.close();
    }

    /// Returns the time from which its device is idle, as far as work was submitted.
    pub fn idle_from(&self) -> i64 {
        self.free.values().copied().max().unwrap_or(0)
    }

    /// Returns the names from host slice `slice`, the innermost frame, outwards.
    pub fn stack(&self, slice: usize) -> Vec<&str> {
        std::iter::successors(Some(slice), |&at| self.slices[at].parent)
            .map(|at| self.slices[at].name.as_str())
            .collect()
    }
}

impl Sim {
    /// Creates `ranks` processes that start at the true time `start`.
    pub fn new(ranks: i64, start: i64, seed: u64) -> Self {
        Self {
            ranks: (0..ranks)
                .map(|index| Rank::new(index, start, seed))
                .collect(),
            captured: None,
            seq: 0,
        }
    }

    fn scope(
        &mut self,
        cat: &'static str,
        name: &str,
        args: &[(&'static str, Json)],
        body: impl FnOnce(&mut Self),
    ) {
        for rank in &mut self.ranks {
            let slice = rank.open(cat, name);
            rank.slices[slice].args.extend(args.iter().cloned());
        }
        body(self);
        self.ranks.iter_mut().for_each(Rank::close);
    }

    /// Adds a Python frame around `body`.
    pub fn python(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.scope("python_function", name, &[], body);
    }

    /// Adds an operator around `body`, with its inputs as PyTorch records them.
    pub fn op(&mut self, name: &str, inputs: &[Input], body: impl FnOnce(&mut Self)) {
        let lists = |of: fn(&Input) -> Vec<i64>| {
            Json::Arr(inputs.iter().map(|input| Json::list(of(input))).collect())
        };
        let args = [
            ("Record function id", Json::from(0)),
            (
                "Concrete Inputs",
                Json::list(inputs.iter().map(Input::concrete)),
            ),
            (
                "Input type",
                Json::list(inputs.iter().map(Input::type_name)),
            ),
            ("Input Strides", lists(|input| strides(input.dims()))),
            ("Input Dims", lists(|input| input.dims().to_vec())),
        ];
        self.scope("cpu_op", name, &args, body);
    }

    /// Adds a `record_function` range around `body`.
    pub fn annotation(&mut self, name: &str, body: impl FnOnce(&mut Self)) {
        self.scope(
            "user_annotation",
            name,
            &[("Record function id", Json::from(0))],
            body,
        );
    }

    /// Adds a runtime call that launches nothing.
    pub fn runtime(&mut self, name: &str, cbid: i64, dur: i64) {
        for rank in &mut self.ranks {
            let dur = rank.rng.around(dur, 30);
            rank.runtime(name, cbid, dur);
        }
    }

    /// Lets the host threads spend `ns` in Python, on all ranks.
    pub fn think(&mut self, ns: i64) {
        for rank in &mut self.ranks {
            rank.now += rank.rng.around(ns, 25);
        }
    }

    /// Adds a Python call of `ns` on one rank only: a planted stall of the host.
    pub fn stall(&mut self, rank: usize, name: &str, ns: i64) {
        if let Some(rank) = self.ranks.get_mut(rank) {
            rank.call(name, ns);
        }
    }

    /// Launches `kernel` through `api`; `slow` is added to its duration on rank 1. `after` are the streams it waits for.
    pub fn launch(&mut self, api: (&str, i64), kernel: &Kernel, after: &[i64], slow: i64) {
        for at in 0..self.ranks.len() {
            let rank = &mut self.ranks[at];
            let took = rank.rng.around(3_400, 20);
            let call = rank.runtime(api.0, api.1, took);
            rank.launches.push(call);
            if let Some(captured) = &mut self.captured {
                captured.push((kernel.clone(), call));
                continue;
            }
            let latency = rank.rng.between(1_100, 2_600);
            let launched = rank.slices[call].ts + took + latency;
            let arrival = rank.ready(launched, after);
            let mut dur = rank.rng.around(kernel.dur, 4);
            dur = kernel.dur_on(rank, dur);
            dur += if rank.index == 1 { slow } else { 0 };
            let cat = if kernel.name.starts_with("Mem") {
                "gpu_memcpy"
            } else {
                "kernel"
            };
            let slice = rank.activity(cat, kernel, arrival, dur, Some(call));
            rank.activities.push(Activity {
                slice,
                launch: Some(call),
                flow: true,
                arrival,
                message: None,
                node: None,
            });
        }
    }

    /// Launches a collective on all ranks: each starts when its own rank is ready, all end together after the last arrived.
    /// Without a message nothing of it is recorded but the kernel.
    pub fn collective(&mut self, kernel: &Kernel, message: Option<Message>, after: &[i64]) {
        let ranks = i64::try_from(self.ranks.len()).unwrap_or(i64::MAX);
        let message = message.map(|message| Message {
            seq: self.seq,
            ..message
        });
        self.seq += i64::from(message.is_some());
        let kernel = Kernel {
            message: message.clone(),
            joins: true,
            ..kernel.clone()
        };
        let args = message
            .as_ref()
            .map_or_else(Vec::new, |message| message_args(message, ranks.max(2)));
        let mut placed = Vec::new();
        for at in 0..self.ranks.len() {
            let rank = &mut self.ranks[at];
            // The enclosing record_param_comms operator carries the arguments too.
            if let Some(&comms) = rank
                .open
                .iter()
                .rev()
                .find(|&&slice| rank.slices[slice].name == "record_param_comms")
            {
                rank.slices[comms].args.extend(args.iter().cloned());
            }
            let took = rank.rng.around(4_100, 20);
            let call = rank.runtime("cudaLaunchKernelExC", 430, took);
            rank.launches.push(call);
            if let Some(captured) = &mut self.captured {
                captured.push((kernel.clone(), call));
                continue;
            }
            let launched = rank.slices[call].ts + took + rank.rng.between(1_100, 2_600);
            placed.push((rank.ready(launched, after), call));
        }
        if self.captured.is_some() {
            return;
        }
        let arrivals: Vec<i64> = placed.iter().map(|place| place.0).collect();
        let ends = self.ends(&arrivals, kernel.dur);
        for (rank, ((arrival, call), end)) in
            self.ranks.iter_mut().zip(placed.into_iter().zip(ends))
        {
            let slice = rank.activity("kernel", &kernel, arrival, end - arrival, Some(call));
            rank.slices[slice].args.extend(args.iter().cloned());
            rank.activities.push(Activity {
                slice,
                launch: Some(call),
                flow: true,
                arrival,
                message: message.clone(),
                node: None,
            });
        }
    }

    /// Returns the end of a collective on each rank: the same, except for a few tens of
    /// nanoseconds.
    fn ends(&mut self, arrivals: &[i64], dur: i64) -> Vec<i64> {
        let last = arrivals.iter().copied().max().unwrap_or(0);
        let common = last
            + self
                .ranks
                .first_mut()
                .map_or(dur, |rank| rank.rng.around(dur, 3));
        self.ranks
            .iter_mut()
            .map(|rank| common + rank.rng.between(-40, 40))
            .collect()
    }

    /// Replays `nodes` through one graph launch, whose call takes `call_ns`: all kernels have its correlation, none has an
    /// arrow from it.
    pub fn graph_launch(&mut self, nodes: &[Kernel], call_ns: i64) {
        let mut calls = Vec::new();
        for rank in &mut self.ranks {
            let took = rank.rng.around(call_ns, 10);
            let call = rank.runtime("cudaGraphLaunch", 311, took);
            calls.push((call, rank.slices[call].ts + took / 3));
        }
        for (node, kernel) in nodes.iter().enumerate() {
            let arrivals: Vec<i64> = self
                .ranks
                .iter()
                .zip(&calls)
                .map(|(rank, call)| rank.ready(call.1, &[kernel.stream]))
                .collect();
            let ends = match kernel.joins {
                true => self.ends(&arrivals, kernel.dur),
                false => {
                    let lengths = self.ranks.iter_mut().map(|rank| {
                        let drawn = rank.rng.around(kernel.dur, 4);
                        kernel.dur_on(rank, drawn)
                    });
                    lengths
                        .zip(&arrivals)
                        .map(|(dur, arrival)| arrival + dur)
                        .collect()
                }
            };
            for (at, rank) in self.ranks.iter_mut().enumerate() {
                let (launch, arrival) = (Some(calls[at].0), arrivals[at]);
                let slice = rank.activity("kernel", kernel, arrival, ends[at] - arrival, launch);
                rank.slices[slice]
                    .args
                    .retain(|(key, _)| *key != "External id");
                rank.slices[slice].args.push((
                    "graph node id",
                    (8_589_934_592 + i64::try_from(node).unwrap_or(0)).into(),
                ));
                rank.activities.push(Activity {
                    slice,
                    launch,
                    flow: false,
                    arrival,
                    message: None,
                    node: Some(node),
                });
            }
        }
    }

    /// Adds kernels that run at the start of the recording and were launched before it.
    pub fn orphans(&mut self, kernel: &Kernel, count: i64) {
        for rank in &mut self.ranks {
            for i in 0..count {
                let arrival = rank.now + 5_000 + i * 2 * kernel.dur;
                let slice = rank.activity("kernel", kernel, arrival, kernel.dur, None);
                let activity = Activity {
                    slice,
                    launch: None,
                    flow: false,
                    arrival,
                    message: None,
                    node: None,
                };
                rank.activities.push(activity);
            }
        }
    }

    /// Makes the host wait until its device is idle.
    pub fn synchronize(&mut self) {
        let idle: Vec<i64> = self.ranks.iter().map(Rank::idle_from).collect();
        self.wait(("cudaEventSynchronize", 137), &idle);
    }

    /// Makes the host of each rank wait in a call until its time in `until`.
    pub fn wait(&mut self, api: (&str, i64), until: &[i64]) {
        for (rank, &until) in self.ranks.iter_mut().zip(until) {
            let wait = (until - rank.now).max(0) + rank.rng.between(4_000, 9_000);
            rank.runtime(api.0, api.1, wait);
        }
    }
}

fn strides(dims: &[i64]) -> Vec<i64> {
    (0..dims.len())
        .map(|at| dims[at + 1..].iter().product())
        .collect()
}

fn message_args(message: &Message, group: i64) -> Vec<(&'static str, Json)> {
    let ranks: Vec<String> = (0..group).map(|rank| rank.to_string()).collect();
    vec![
        ("Collective name", message.collective.into()),
        ("In msg nelems", message.nelems_in.into()),
        ("Out msg nelems", message.nelems_out.into()),
        ("Group size", group.into()),
        ("dtype", "BFloat16".into()),
        ("In split size", "[]".into()),
        ("Out split size", "[]".into()),
        ("Process Group Name", "2".into()),
        ("Process Group Description", "tp".into()),
        (
            "Process Group Ranks",
            format!("[{}]", ranks.join(", ")).into(),
        ),
        ("Seq", message.seq.into()),
    ]
}

/// Returns the `distributedInfo` of a rank in a group of two.
pub fn distributed_info(rank: i64, world: i64) -> Json {
    let ranks = Json::list(0..world);
    let group = |name: &str, about: &str| {
        object! { "pg_name": name, "pg_desc": about, "backend_config": "cuda:nccl", "pg_size": world, "ranks": ranks.clone() }
    };
    object! {
        "backend": "nccl", "rank": rank, "world_size": world, "pg_count": 2,
        "pg_config": Json::Arr(vec![group("0", "default_pg"), group("2", "tp")]), "nccl_version": "2.27.3",
    }
}
