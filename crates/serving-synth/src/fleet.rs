//! Jobs of any number of small ranks with planted differences: hosts of eight GPUs, a tensor-parallel group on each, and a data-parallel
//! group for each place on a host. With several stages, consecutive hosts are the stages of a pipeline, whose ranks send messages to those at
//! the same place of the next host, and data-parallel groups are those of the same stage.
//!
//! The text of a rank is made by itself: a first pass over all ranks keeps only when each collective ends, so that a job of thousands of
//! ranks needs little memory.

use std::fmt::Write as _;

use crate::rng::Rng;

/// Ranks of a host.
pub const PER_HOST: u32 = 8;

/// Bytes of the all-reduces of a layer and of a step.
const BYTES: [i64; 2] = [1 << 20, 1 << 22];

/// Transfer time of these.
const TRANSFER_NS: [i64; 2] = [24_000, 80_000];

/// Bytes and transfer time of a message from stage to stage.
const MESSAGE: (i64, i64) = (1 << 19, 12_000);

/// Offset of the times of a file to 1970.
const BASE_NS: i64 = 1_775_078_550_000_000_000;

/// Kernels of a layer: name, time, shape of the input.
const KERNELS: [(&str, i64, &str); 6] = [
    ("rms_norm_kernel", 4_000, "[[64, 4096]]"),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_qkv",
        22_000,
        "[[64, 4096], [4096, 1536]]",
    ),
    (
        "flash_fwd_splitkv_kernel",
        30_000,
        "[[64, 1, 8, 128], [64, 4096, 1, 128]]",
    ),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x128x64_up",
        40_000,
        "[[64, 4096], [4096, 3584]]",
    ),
    ("silu_and_mul_kernel", 5_000, "[[64, 3584]]"),
    (
        "sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize64x64x64_down",
        35_000,
        "[[64, 1792], [1792, 4096]]",
    ),
];

/// The kernel that a rank may run instead of the attention of the others, in the same time.
pub const OTHER_KERNEL: &str = "paged_attention_v2_fallback_kernel";

const SEND_RECV: &str = "ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)";

const ALL_REDUCE: &str =
    "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";

/// A job and what is planted in it.
#[derive(Clone, Debug)]
pub struct Fleet {
    /// Number of ranks, a multiple of [`PER_HOST`].
    pub ranks: u32,
    /// Steps.
    pub steps: u32,
    /// Layers, each with an all-reduce of the host's ranks.
    pub layers: u32,
    /// Seed.
    pub seed: u64,
    /// Python functions in each step, so that files reach a size.
    pub padding: u32,
    /// A rank whose kernels take this time, in permille.
    pub slow_gpu: Option<(u32, i64)>,
    /// A host whose tensor-parallel group transfers in this time, in permille.
    pub slow_link: Option<(u32, i64)>,
    /// A rank that runs [`OTHER_KERNEL`].
    pub other_kernel: Option<u32>,
    /// A host whose clock is ahead by this time.
    pub clock: Option<(u32, i64)>,
    /// A rank that records only this number of steps.
    pub cut: Option<(u32, u32)>,
    /// Hosts, from the first to before the last, whose ranks begin each step later by this time.
    pub late_hosts: Option<(u32, u32, i64)>,
    /// Ranks, from the first to before the last, that begin each step later by this time.
    pub late_ranks: Vec<(u32, u32, i64)>,
    /// Further ranks whose kernels take this time, in permille.
    pub slow_gpus: Vec<(u32, i64)>,
    /// Largest random delay of the begin of each step, of each rank.
    pub moving_start_ns: i64,
    /// Steps to which the slow device is limited, from the first to before the last.
    pub slow_steps: Option<(u32, u32)>,
    /// Largest random change of the work of each rank in a step, in percent.
    pub moving_load: i64,
    /// Without the groups over the hosts: each host is a replica of its own.
    pub is_apart: bool,
    /// Collectives of the host's ranks state no group, as in CUDA graphs; the head of each file lists its groups.
    pub graphs: bool,
    /// Stages of each pipeline of consecutive hosts: a divisor of the number of hosts; 1 for none.
    pub stages: u32,
}

impl Default for Fleet {
    fn default() -> Self {
        Self {
            ranks: 64,
            steps: 12,
            layers: 4,
            seed: 1,
            padding: 0,
            slow_gpu: None,
            slow_link: None,
            other_kernel: None,
            clock: None,
            cut: None,
            late_hosts: None,
            late_ranks: Vec::new(),
            slow_gpus: Vec::new(),
            moving_start_ns: 0,
            slow_steps: None,
            moving_load: 0,
            is_apart: false,
            graphs: false,
            stages: 1,
        }
    }
}

/// Ends of all collectives.
#[derive(Clone, Debug)]
pub struct Timeline<'f> {
    fleet: &'f Fleet,
    /// By host, step and layer.
    of_hosts: Vec<i64>,
    /// By stage, place on a host, and step.
    of_places: Vec<i64>,
    /// By receiver and step.
    of_messages: Vec<i64>,
}

/// A rank on its way through the job.
struct Walk<'f> {
    fleet: &'f Fleet,
    rank: u32,
    rng: Rng,
    /// Time of the host, and the time from which the GPU is free.
    host: i64,
    free: i64,
    correlation: i64,
    /// Current step, from 0, and the pace of its work in permille.
    step: u32,
    load: i64,
    /// Events, if they are wanted, and the lead of the clock.
    out: Option<(String, i64)>,
}

impl<'f> Walk<'f> {
    fn new(fleet: &'f Fleet, rank: u32) -> Self {
        let mut rng =
            Rng::new(fleet.seed ^ (u64::from(rank) + 1).wrapping_mul(0x5851_f42d_4c95_7f2d));
        let start = 1_000_000_000 + rng.between(0, 20_000);
        Self {
            fleet,
            rank,
            rng,
            host: start,
            free: start,
            correlation: 1000,
            step: 0,
            load: 1000,
            out: None,
        }
    }

    fn place(&self) -> u32 {
        self.rank % PER_HOST
    }

    fn event(&mut self, head: &str, tid: i64, ts: i64, dur: i64, args: &str) {
        let pid = match tid {
            7 => i64::from(self.place()),
            _ => 4000 + i64::from(self.rank),
        };
        if let Some((out, ahead)) = &mut self.out {
            let ts = ts + *ahead;
            // Writing into a String cannot fail.
            let _ = writeln!(
                out,
                ",\n{{\"ph\": \"X\", {head}, \"pid\": {pid}, \"tid\": {tid}, \"ts\": {}.{:03}, \"dur\": {}.{:03}, \"args\": {{{args}}}}}",
                ts.div_euclid(1000),
                ts.rem_euclid(1000),
                dur / 1000,
                dur % 1000
            );
        }
    }

    /// Launches a kernel, and returns when it can start.
    fn launch(&mut self, dims: &str) -> i64 {
        self.host += self.rng.between(3_000, 3_400);
        self.correlation += 1;
        let correlation = self.correlation;
        let op = "\"cat\": \"cpu_op\", \"name\": \"aten::op\"";
        let (host, id) = (self.host, correlation + 100_000);
        self.event(
            op,
            1,
            host - 1_500,
            2_600,
            &format!("\"External id\": {id}, \"Input Dims\": {dims}"),
        );
        let call = "\"cat\": \"cuda_runtime\", \"name\": \"cudaLaunchKernel\"";
        let args = format!("\"External id\": {id}, \"cbid\": 211, \"correlation\": {correlation}");
        self.event(call, 1, host - 1_000, 1_900, &args);
        (self.free + 700).max(self.host + 4_000)
    }

    fn kernel(&mut self, name: &str, start: i64, end: i64, more: &str) {
        let args = format!(
            "\"device\": {}, \"context\": 1, \"stream\": 7, \"correlation\": {}, \"External id\": {}{more}",
            self.place(),
            self.correlation,
            self.correlation + 100_000
        );
        let head = format!("\"cat\": \"kernel\", \"name\": \"{name}\"");
        self.event(&head, 7, start, end - start, &args);
        self.free = end;
    }

    fn begin_step(&mut self) {
        self.host = self.free + 6_000 + self.rng.between(0, 400);
        if let Some((first, end, ns)) = self.fleet.late_hosts
            && (first..end).contains(&(self.rank / PER_HOST))
        {
            self.host += self.rng.around(ns, 1);
        }
        for (first, end, ns) in &self.fleet.late_ranks {
            if (*first..*end).contains(&self.rank) {
                self.host += self.rng.around(*ns, 1);
            }
        }
        if self.fleet.moving_start_ns > 0 {
            self.host += self.rng.between(0, self.fleet.moving_start_ns);
        }
        let most = self.fleet.moving_load * 10;
        if most > 0 {
            self.load = 1000 + self.rng.between(-most, most);
        }
        for _ in 0..self.fleet.padding {
            let at = self.host;
            let head = "\"cat\": \"python_function\", \"name\": \"vllm/v1/worker/gpu_model_runner.py(812): _prepare_inputs\"";
            self.event(head, 1, at, 90, "\"Python id\": 7, \"Python parent id\": 3");
            self.host += 100;
        }
    }

    fn is_slow_step(&self) -> bool {
        let steps = self.fleet.slow_steps;
        steps.is_none_or(|(from, to)| (from..to).contains(&self.step))
    }

    /// Runs the kernels of a layer, and returns when the rank arrives at the all-reduce behind it.
    fn layer(&mut self) -> i64 {
        for (at, (name, ns, dims)) in KERNELS.iter().enumerate() {
            let start = self.launch(dims);
            let mut slow = self.fleet.slow_gpu.iter().chain(&self.fleet.slow_gpus);
            let pace = match slow.find(|(rank, _)| *rank == self.rank) {
                Some((_, permille)) if self.is_slow_step() => *permille,
                _ => 1000,
            };
            let ns = self.rng.around(*ns, 1) * pace / 1000 * self.load / 1000;
            let is_other = at == 2 && self.fleet.other_kernel == Some(self.rank);
            let name = if is_other { OTHER_KERNEL } else { name };
            self.kernel(name, start, start + ns, "");
        }
        self.launch("[[64, 4096]]")
    }

    /// Passes the all-reduce that ends at `end`: of the host's ranks, or of the ranks at the same place of all hosts.
    fn all_reduce(&mut self, arrival: i64, end: i64, of_host: bool, seq: i64) {
        let end = end + self.rng.between(0, 300);
        if self.out.is_some() {
            let host = self.rank / PER_HOST;
            let (name, first, step, count) = match of_host {
                true => (format!("tp:{host}"), host * PER_HOST, 1, PER_HOST),
                false => {
                    let peers = self.fleet.peers(self.rank);
                    let name = match self.fleet.stage(self.rank) {
                        0 => format!("dp:{}", self.place()),
                        stage => format!("dp:{stage}.{}", self.place()),
                    };
                    (name, peers.first, peers.step, peers.count)
                }
            };
            let elements = BYTES[usize::from(!of_host)] / 2;
            let more = format!(
                ", \"Collective name\": \"allreduce\", \"In msg nelems\": {elements}, \"Out msg nelems\": {elements}, \"Group size\": {count}, \
                 \"dtype\": \"BFloat16\", \"Process Group Name\": \"{name}\", \"Process Group Ranks\": \"{}\", \"Seq\": {seq}",
                members(first, step, count)
            );
            let is_bare = of_host && self.fleet.graphs;
            let more = if is_bare { "" } else { more.as_str() };
            self.kernel(ALL_REDUCE, arrival, end, more);
        }
        self.free = end;
    }

    /// Passes one side of the message between a rank and the one at its place on the next host.
    fn message(&mut self, arrival: i64, end: i64, is_send: bool) {
        let end = end + self.rng.between(0, 300);
        if self.out.is_some() {
            let (from, name) = match is_send {
                true => (self.rank, "send"),
                false => (self.rank - PER_HOST, "recv"),
            };
            let stages = self.fleet.stages;
            let replica = self.rank / PER_HOST / stages;
            let first = replica * stages * PER_HOST + self.place();
            let elements = MESSAGE.0 / 2;
            let more = format!(
                ", \"Collective name\": \"{name}\", \"In msg nelems\": {elements}, \"Out msg nelems\": {elements}, \"Group size\": {stages}, \
                 \"dtype\": \"BFloat16\", \"Process Group Name\": \"pp:{replica}.{}\", \"Process Group Ranks\": \"{}\", \"Seq\": {}, \
                 \"Src Rank\": {from}, \"Dst Rank\": {}",
                self.place(),
                members(first, PER_HOST, stages),
                self.step,
                from + PER_HOST,
            );
            self.kernel(SEND_RECV, arrival, end, &more);
        }
        self.free = end;
    }

    fn end_step(&mut self, begin: i64) {
        self.step += 1;
        let wait = self.free + 3_000 - self.host;
        let call = "\"cat\": \"cuda_runtime\", \"name\": \"cudaStreamSynchronize\"";
        let host = self.host + 500;
        self.correlation += 1;
        let args = format!("\"cbid\": 131, \"correlation\": {}", self.correlation);
        self.event(call, 1, host, wait, &args);
        let head =
            "\"cat\": \"user_annotation\", \"name\": \"execute_context_0(0)_generation_64(64)\"";
        self.event(head, 1, begin, host + wait + 1_000 - begin, "");
    }
}

/// Ranks of a group at equal distances.
#[derive(Clone, Copy)]
struct Peers {
    first: u32,
    step: u32,
    count: u32,
}

/// Returns the members of a group as PyTorch records them: lists of more than thirty are cut.
fn members(first: u32, step: u32, count: u32) -> String {
    let member = |n: u32| (first + n * step).to_string();
    if count <= 30 {
        let all: Vec<String> = (0..count).map(member).collect();
        return format!("[{}]", all.join(", "));
    }
    let all: Vec<String> = (0..29).map(member).collect();
    format!("[{}, ..., {}]", all.join(", "), member(count - 1))
}

impl Fleet {
    /// Returns the name of the file of a rank, in the folder of its host.
    pub fn name(rank: u32) -> String {
        format!("host{:03}/rank{rank}.json", rank / PER_HOST)
    }

    /// Returns the stage of a rank.
    fn stage(&self, rank: u32) -> u32 {
        rank / PER_HOST % self.stages
    }

    /// Returns the data-parallel group of a rank.
    fn peers(&self, rank: u32) -> Peers {
        Peers {
            first: rank % (PER_HOST * self.stages),
            step: PER_HOST * self.stages,
            count: self.ranks / PER_HOST / self.stages,
        }
    }

    /// Returns `true` if the ranks have data-parallel groups.
    fn has_peers(&self) -> bool {
        !self.is_apart && (self.stages == 1 || self.ranks / PER_HOST > self.stages)
    }

    /// Returns the list of groups in the head of a file: all ranks, those of the host, and those at the same place.
    fn groups(&self, rank: u32) -> String {
        let (host, place) = (rank / PER_HOST, rank % PER_HOST);
        let group = |name: String, ranks: Vec<u32>| {
            let list: Vec<String> = ranks.iter().map(u32::to_string).collect();
            format!(
                "{{\"pg_name\": \"{name}\", \"pg_size\": {}, \"ranks\": [{}]}}",
                ranks.len(),
                list.join(", ")
            )
        };
        let peers = self.peers(rank);
        let of_place = (peers.first..self.ranks).step_by(peers.step as usize);
        let first = host * PER_HOST;
        let all = [
            group("0".to_owned(), (0..self.ranks).collect()),
            group(format!("tp:{host}"), (first..first + PER_HOST).collect()),
            group(format!("dp:{place}"), of_place.collect()),
        ];
        format!(", \"pg_config\": [{}]", all.join(", "))
    }

    /// Runs the job.
    pub fn timeline(&self) -> Timeline<'_> {
        let (hosts, steps, layers) = (self.ranks / PER_HOST, self.steps, self.layers);
        let mut line = Timeline {
            fleet: self,
            of_hosts: vec![0; (hosts * steps * layers) as usize],
            of_places: vec![0; (PER_HOST * self.stages * steps) as usize],
            of_messages: vec![0; (self.ranks * steps) as usize],
        };
        let mut walks: Vec<Walk<'_>> = (0..self.ranks).map(|rank| Walk::new(self, rank)).collect();
        // When the ranks of the host before arrive at their messages.
        let mut sends = [0_i64; PER_HOST as usize];
        for step in 0..steps {
            for walk in &mut walks {
                walk.begin_step();
            }
            for host in 0..hosts {
                let first = host * PER_HOST;
                let stage = self.stage(first);
                for (rank, send) in (first..).zip(&sends).filter(|_| stage > 0) {
                    let arrival = walks[rank as usize].launch("[[64, 4096]]");
                    let end = arrival.max(*send) + MESSAGE.1;
                    line.of_messages[(rank * steps + step) as usize] = end;
                    walks[rank as usize].message(arrival, end, false);
                    walks[(rank - PER_HOST) as usize].message(*send, end, true);
                }
                let walks = &mut walks[first as usize..(first + PER_HOST) as usize];
                for layer in 0..layers {
                    let arrivals: Vec<i64> = walks.iter_mut().map(Walk::layer).collect();
                    let pace = match self.slow_link {
                        Some((slow, permille)) if slow == host => permille,
                        _ => 1000,
                    };
                    let last = arrivals.iter().copied().max().unwrap_or(0);
                    let end = last + TRANSFER_NS[0] * pace / 1000;
                    let at = line.of_host(host, step, layer);
                    line.of_hosts[at] = end;
                    for (walk, arrival) in walks.iter_mut().zip(arrivals) {
                        walk.all_reduce(arrival, end, true, 0);
                    }
                }
                if stage + 1 < self.stages {
                    for (send, walk) in sends.iter_mut().zip(walks) {
                        *send = walk.launch("[[64, 4096]]");
                    }
                }
            }
            let arrivals: Vec<i64> = walks
                .iter_mut()
                .map(|walk| walk.launch("[[64, 4096]]"))
                .collect();
            for place in (0..PER_HOST * self.stages).filter(|_| self.has_peers()) {
                let of_place = (place..self.ranks).step_by((PER_HOST * self.stages) as usize);
                let last = of_place.clone().map(|rank| arrivals[rank as usize]).max();
                let end = last.unwrap_or(0) + TRANSFER_NS[1];
                line.of_places[(place * steps + step) as usize] = end;
                for rank in of_place {
                    let arrival = arrivals[rank as usize];
                    walks[rank as usize].all_reduce(arrival, end, false, 0);
                }
            }
            for walk in &mut walks {
                walk.end_step(0);
            }
        }
        line
    }
}

impl Timeline<'_> {
    fn of_host(&self, host: u32, step: u32, layer: u32) -> usize {
        let fleet = self.fleet;
        ((host * fleet.steps + step) * fleet.layers + layer) as usize
    }

    /// Returns the recording of a rank.
    pub fn rank(&self, rank: u32) -> String {
        let fleet = self.fleet;
        let mut walk = Walk::new(fleet, rank);
        let ahead = match fleet.clock {
            Some((host, ns)) if host == rank / PER_HOST => ns,
            _ => 0,
        };
        let groups = match fleet.graphs {
            true => fleet.groups(rank),
            false => String::new(),
        };
        let head = format!(
            "{{\"schemaVersion\": 1, \"distributedInfo\": {{\"backend\": \"nccl\", \"rank\": {rank}, \"world_size\": {}{groups}}}, \
             \"displayTimeUnit\": \"ms\", \"baseTimeNanoseconds\": {BASE_NS}, \"traceEvents\": [\n\
             {{\"ph\": \"M\", \"name\": \"process_name\", \"ts\": 0.0, \"pid\": {}, \"tid\": 0, \"args\": {{\"name\": \"python\"}}}}",
            fleet.ranks,
            4000 + rank,
        );
        walk.out = Some((head, ahead));
        let steps = match fleet.cut {
            Some((cut, steps)) if cut == rank => steps,
            _ => fleet.steps,
        };
        let host = rank / PER_HOST;
        let (stage, place) = (fleet.stage(rank), rank % (PER_HOST * fleet.stages));
        let of_message =
            |rank: u32, step: u32| self.of_messages[(rank * fleet.steps + step) as usize];
        for step in 0..steps {
            let begin = walk.free + 1_000;
            walk.begin_step();
            if stage > 0 {
                let arrival = walk.launch("[[64, 4096]]");
                walk.message(arrival, of_message(rank, step), false);
            }
            for layer in 0..fleet.layers {
                let arrival = walk.layer();
                let end = self.of_hosts[self.of_host(host, step, layer)];
                let seq = i64::from(step * fleet.layers + layer);
                walk.all_reduce(arrival, end, true, seq);
            }
            if stage + 1 < fleet.stages {
                let arrival = walk.launch("[[64, 4096]]");
                walk.message(arrival, of_message(rank + PER_HOST, step), true);
            }
            let arrival = walk.launch("[[64, 4096]]");
            let end = self.of_places[(place * fleet.steps + step) as usize];
            if fleet.has_peers() {
                walk.all_reduce(arrival, end, false, i64::from(step));
            }
            walk.end_step(begin);
        }
        let (mut text, _) = walk.out.take().unwrap_or_default();
        text.push_str("\n]}\n");
        text
    }
}
