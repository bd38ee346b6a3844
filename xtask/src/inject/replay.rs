//! Replays programs: host threads, GPU streams in order, collectives that end on all ranks together; effects of a fault
//! follow from the replay.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use super::engines::{Engine, Load};
use super::program::{Op, Work};
use serving_synth::json::Json;
use serving_synth::rng::Rng;

/// How steps vary beyond the scatter of each piece of work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Noise {
    Independent,
    /// First-order autoregressive with 0.9.
    Correlated,
    /// A third of the steps on a second level.
    TwoModes,
    HeavyTail,
    /// 8 % over the recording, from this on.
    Drift(f64),
}

/// Factor of a piece of work: name, rank, step, which call of this name in the step.
type OfKernel = Box<dyn Fn(&str, usize, usize, usize) -> f64>;
/// Factor of host time: the innermost range, rank, step.
type OfHost = Box<dyn Fn(&str, usize, usize) -> f64>;

/// Factor of a runtime call.
type OfCall = Box<dyn Fn(&str) -> f64>;

/// Makes other operations of those of the step with a number.
type Edit = Box<dyn Fn(Vec<Op>, usize) -> Vec<Op>>;

/// What is planted.
#[derive(Default)]
pub(crate) struct Fault {
    pub(crate) kernel: Option<OfKernel>,
    pub(crate) host: Option<OfHost>,
    /// Factor of the time of a runtime call.
    pub(crate) call: Option<OfCall>,
    /// Other operations in a step.
    pub(crate) edit: Option<Edit>,
    /// Microseconds after a step in which the host does nothing that is recorded.
    pub(crate) gap: Option<Box<dyn Fn(usize) -> f64>>,
}

/// Values of counters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    pub(crate) gpu_mhz: f64,
    pub(crate) gpu_usage: f64,
    pub(crate) own_usage: f64,
    pub(crate) gpu_bytes: f64,
    pub(crate) pcie: f64,
    pub(crate) link: f64,
    pub(crate) net: f64,
    pub(crate) cpu_mhz: f64,
    pub(crate) host_usage: f64,
}

impl Default for Counters {
    fn default() -> Self {
        Self {
            gpu_mhz: 1755.0,
            gpu_usage: 90.0,
            own_usage: 90.0,
            gpu_bytes: 6e10,
            pcie: 2e9,
            link: 5e9,
            net: 1e7,
            cpu_mhz: 3400.0,
            host_usage: 18.0,
        }
    }
}

/// One side of a pair.
pub(crate) struct Side<'a> {
    pub(crate) engine: &'a Engine,
    pub(crate) seed: u64,
    pub(crate) steps: usize,
    pub(crate) noise: Noise,
    pub(crate) fault: &'a Fault,
    /// What a step serves.
    pub(crate) load: &'a dyn Fn(usize, &mut Rng) -> Load,
    pub(crate) counters: Option<Counters>,
    /// Settings of the profiler that are on.
    pub(crate) flags: &'a [&'a str],
    pub(crate) gpu: &'a str,
    pub(crate) layers: usize,
}

/// The recording of each rank, and the mean step in microseconds.
pub(crate) struct Recording {
    pub(crate) files: Vec<String>,
    pub(crate) mean_step_us: f64,
}

fn uniform(rng: &mut Rng) -> f64 {
    f64::from(u32::try_from(rng.bits() >> 32).unwrap_or(0)) / 4_294_967_296.0
}

/// About normal: the sum of twelve uniform numbers, which every machine computes alike.
fn normal(rng: &mut Rng) -> f64 {
    (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
}

/// A factor about 1 that is never small.
fn around(rng: &mut Rng, spread: f64) -> f64 {
    (1.0 + spread * normal(rng)).max(0.2)
}

struct Rank {
    now: f64,
    start: f64,
    pid: u64,
    free: BTreeMap<u32, f64>,
    open: Vec<(std::rc::Rc<str>, &'static str, f64)>,
    marked: [f64; 2],
    correlation: u64,
    events: String,
    calls: BTreeMap<std::rc::Rc<str>, usize>,
}

fn quoted(text: &str) -> String {
    Json::Str(text.to_owned()).line()
}

impl Rank {
    fn event(&mut self, cat: &str, name: &str, row: (u64, u64), ts: f64, dur: f64, args: &str) {
        let _ = writeln!(
            self.events,
            "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":{},\"pid\":{},\"tid\":{},\"ts\":{ts:.3},\"dur\":{dur:.3},\"args\":{{{args}}}}},",
            quoted(name),
            row.0,
            row.1
        );
    }

    fn busy_until(&self) -> f64 {
        self.free.values().copied().fold(0.0, f64::max)
    }
}

impl Side<'_> {
    pub(crate) fn record(&self) -> Recording {
        let mut rng = Rng::new(self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
        let start = 4.9e9;
        let mut ranks: Vec<Rank> = (0..self.engine.ranks)
            .map(|rank| Rank {
                now: start + 7.0 * uniform(&mut rng),
                start,
                pid: 4000 + rank as u64,
                free: BTreeMap::new(),
                open: Vec::new(),
                marked: [0.0; 2],
                correlation: 1000,
                events: String::new(),
                calls: BTreeMap::new(),
            })
            .collect();
        let mut level = [0.0_f64; 2];
        let mut began = ranks[0].now;
        for step in 0..self.steps {
            let load = (self.load)(step, &mut rng);
            let mut ops = self.engine.step(&load, self.layers);
            if let Some(edit) = &self.fault.edit {
                ops = edit(ops, step);
            }
            let (host, gpu) = self.factors(&mut rng, &mut level, step);
            for rank in &mut ranks {
                rank.calls.clear();
                rank.marked[0] = rank.marked[1];
            }
            let scale: Vec<[f64; 2]> = ranks
                .iter()
                .map(|_| {
                    [
                        host * around(&mut rng, 0.006),
                        gpu * around(&mut rng, 0.003),
                    ]
                })
                .collect();
            for op in &ops {
                self.run(op, step, &scale, &mut ranks, &mut rng);
            }
            if step == 0 {
                began = ranks[0].now;
            }
            if let Some(gap) = &self.fault.gap {
                for rank in &mut ranks {
                    rank.now += gap(step);
                }
            }
        }
        let mean_step_us = (ranks[0].now - began) / (self.steps - 1).max(1) as f64;
        let files = (0..ranks.len())
            .map(|rank| self.file(rank, &ranks[rank], &mut rng))
            .collect();
        Recording {
            files,
            mean_step_us,
        }
    }

    /// Factors of a step for the host and the GPU.
    fn factors(&self, rng: &mut Rng, level: &mut [f64; 2], step: usize) -> (f64, f64) {
        let host = around(rng, 0.02);
        let gpu = around(rng, 0.008);
        match self.noise {
            Noise::Independent => (host, gpu),
            Noise::Correlated => {
                if step == 0 {
                    *level = [normal(rng), normal(rng)];
                }
                let innovation = (1.0_f64 - 0.81).sqrt();
                for value in level.iter_mut() {
                    *value = 0.9 * *value + innovation * normal(rng);
                }
                (1.0 + 0.03 * level[0], 1.0 + 0.02 * level[1])
            }
            Noise::TwoModes => match uniform(rng) < 0.35 {
                true => (host * 1.05, gpu * 1.18),
                false => (host, gpu),
            },
            Noise::HeavyTail => {
                let far = normal(rng).abs() / (uniform(rng) + uniform(rng)).max(0.05);
                (host * (1.0 + 0.03 * far), gpu * (1.0 + 0.01 * far))
            }
            Noise::Drift(from) => {
                let all = 1.0 + from + 0.08 * step as f64 / self.steps as f64;
                (host * all, gpu * all)
            }
        }
    }

    fn run(&self, op: &Op, step: usize, scale: &[[f64; 2]], ranks: &mut [Rank], rng: &mut Rng) {
        match op {
            Op::Open(name, cat) => {
                for rank in ranks {
                    rank.open.push((name.clone(), cat, rank.now));
                    rank.now += 0.3;
                }
            }
            Op::Close => {
                for rank in ranks {
                    rank.now += 0.25;
                    if let Some((name, cat, begin)) = rank.open.pop() {
                        let row = (rank.pid, rank.pid);
                        rank.event(cat, &name, row, begin, rank.now - begin, "");
                    }
                }
            }
            Op::Host(us) => {
                let common = around(rng, 0.06);
                for (at, rank) in ranks.iter_mut().enumerate() {
                    let inside = rank.open.last().map_or("", |open| &open.0);
                    let fault = self
                        .fault
                        .host
                        .as_ref()
                        .map_or(1.0, |f| f(inside, at, step));
                    rank.now += us * scale[at][0] * common * fault;
                }
            }
            Op::Launch(api, us, work) => self.launch((api, *us, work), step, scale, ranks, rng),
            Op::Wait(api, for_last) => {
                for rank in ranks {
                    let until = match for_last {
                        true => rank.marked[0],
                        false => rank.busy_until(),
                    };
                    let begin = rank.now;
                    rank.correlation += 1;
                    rank.now = (begin + 2.0).max(until + 3.0);
                    let args = format!("\"cbid\":131,\"correlation\":{}", rank.correlation);
                    let row = (rank.pid, rank.pid);
                    rank.event("cuda_runtime", api, row, begin, rank.now - begin, &args);
                }
            }
            Op::Mark => {
                for rank in ranks {
                    rank.marked[1] = rank.busy_until();
                }
            }
        }
    }

    fn launch(
        &self,
        (api, us, work): (&str, f64, &[Work]),
        step: usize,
        scale: &[[f64; 2]],
        ranks: &mut [Rank],
        rng: &mut Rng,
    ) {
        let common = around(rng, 0.08) * self.fault.call.as_ref().map_or(1.0, |f| f(api));
        let mut launched = Vec::with_capacity(ranks.len());
        for (rank, scale) in ranks.iter_mut().zip(scale) {
            let (begin, took) = (rank.now, us * scale[0] * common);
            rank.correlation += 1;
            rank.now += took;
            launched.push(begin);
            let cat = if api.starts_with("cu") && !api.starts_with("cuda") {
                "cuda_driver"
            } else {
                "cuda_runtime"
            };
            let args = format!("\"cbid\":211,\"correlation\":{}", rank.correlation);
            let row = (rank.pid, rank.pid);
            // A call without a name is one that was not recorded.
            if !api.is_empty() {
                rank.event(cat, api, row, begin, took, &args);
            }
        }
        for one in work {
            let common = around(rng, 0.02);
            let mut begins = Vec::with_capacity(ranks.len());
            let mut takes = Vec::with_capacity(ranks.len());
            for (at, rank) in ranks.iter_mut().enumerate() {
                let call = rank.calls.entry(one.name.clone()).or_insert(0);
                let fault = self.fault.kernel.as_ref();
                let fault = fault.map_or(1.0, |f| f(&one.name, at, step, *call));
                *call += 1;
                let gpu = if one.bytes.is_none() {
                    scale[at][1]
                } else {
                    1.0
                };
                let free = rank.free.get(&one.stream).copied().unwrap_or(0.0);
                begins.push((launched[at] + 4.5).max(free + 0.9));
                takes.push(one.us * common * gpu * fault);
            }
            let most = |values: &[f64]| values.iter().copied().fold(0.0, f64::max);
            let together = most(&begins) + most(&takes);
            for (at, rank) in ranks.iter_mut().enumerate() {
                let end = match one.joint {
                    true => together + 0.02 * at as f64,
                    false => begins[at] + takes[at],
                };
                rank.free.insert(one.stream, end);
                let mut args = format!(
                    "\"device\":{at},\"stream\":{},\"correlation\":{}",
                    one.stream, rank.correlation
                );
                let cat = match one.bytes {
                    Some(bytes) => {
                        let _ = write!(args, ",\"bytes\":{bytes}");
                        "gpu_memcpy"
                    }
                    None => {
                        args += ",\"grid\":[128,1,1],\"block\":[256,1,1]";
                        "kernel"
                    }
                };
                let row = (at as u64, u64::from(one.stream));
                rank.event(cat, &one.name, row, begins[at], end - begins[at], &args);
            }
        }
    }

    fn file(&self, at: usize, rank: &Rank, rng: &mut Rng) -> String {
        let mut text = String::from("{\"schemaVersion\":1,\"deviceProperties\":[");
        for id in 0..self.engine.ranks {
            let comma = if id > 0 { "," } else { "" };
            let _ = write!(
                text,
                "{comma}{{\"id\":{id},\"name\":\"{}\",\"totalGlobalMem\":85018279936}}",
                self.gpu
            );
        }
        text.push(']');
        for flag in ["record_shapes", "with_stack", "profile_memory"] {
            let on = u8::from(self.flags.contains(&flag));
            let _ = write!(text, ",\"{flag}\":{on}");
        }
        let world = self.engine.ranks;
        if world > 1 {
            let all: Vec<String> = (0..world).map(|r| r.to_string()).collect();
            let _ = write!(
                text,
                ",\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{at},\"world_size\":{world},\"pg_count\":1,\"pg_config\":[{{\"pg_name\":\"0\",\"pg_desc\":\"default_pg\",\"backend_config\":\"cuda:nccl\",\"pg_size\":{world},\"ranks\":[{}]}}]}}",
                all.join(",")
            );
        }
        text += ",\"traceEvents\":[\n";
        let pid = rank.pid;
        let _ = writeln!(
            text,
            "{{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":{pid},\"tid\":0,\"ts\":{:.3},\"args\":{{\"name\":\"python3\"}}}},",
            rank.start
        );
        for (depth, name) in self.engine.outer.iter().enumerate() {
            let room = 150.0 - 5.0 * depth as f64;
            let (ts, dur) = (rank.start - room, rank.now - rank.start + 2.0 * room);
            let _ = writeln!(
                text,
                "{{\"ph\":\"X\",\"cat\":\"python_function\",\"name\":{},\"pid\":{pid},\"tid\":{pid},\"ts\":{ts:.3},\"dur\":{dur:.3},\"args\":{{}}}},",
                quoted(name)
            );
        }
        if let Some(counters) = &self.counters {
            counters.write(at, rank, rng, &mut text);
        }
        text += rank.events.trim_end_matches(",\n");
        text += "\n]}\n";
        text
    }
}

impl Counters {
    /// Writes a sample of each counter every 8 ms.
    fn write(&self, at: usize, rank: &Rank, rng: &mut Rng, out: &mut String) {
        let gpu = format!("CAT_XPU_{at}");
        let process = format!("process_cpu_usage_{}", rank.pid);
        let rows: [(&str, &str, &str, f64, f64); 14] = [
            ("CAT_XPU", "gpu_sm_frequency", &gpu, self.gpu_mhz, 0.003),
            ("CAT_XPU", "gpu_usage", &gpu, self.gpu_usage, 0.01),
            ("CAT_XPU", "process_gpu_usage", &gpu, self.own_usage, 0.01),
            ("CAT_XPU", "gpu_mem_used", &gpu, self.gpu_bytes, 0.0005),
            ("CAT_XPU", "gpu_pcie_transmit", &gpu, self.pcie, 0.1),
            ("CAT_XPU", "gpu_pcie_receive", &gpu, self.pcie, 0.1),
            ("CAT_XPU", "gpu_link_transmit", &gpu, self.link, 0.1),
            ("CAT_XPU", "gpu_link_receive", &gpu, self.link, 0.1),
            ("CAT_CPU", "cpu_frequency", "CAT_CPU_0", self.cpu_mhz, 0.01),
            (
                "CAT_CPU",
                "host_cpu_usage",
                "CAT_CPU_0",
                self.host_usage,
                0.08,
            ),
            ("CAT_PROCESS", &process, "CAT_PROCESS", 105.0, 0.03),
            ("CAT_NET", "net_tx_rate", "eth0", self.net, 0.2),
            ("CAT_NET", "net_rx_rate", "eth0", self.net, 0.2),
            ("CAT_MEMORY", "host_mem_usage", "CAT_MEMORY_0", 41.0, 0.01),
        ];
        for (cat, name, tid, value, spread) in rows {
            let mut ts = rank.start;
            while ts < rank.now {
                let value = value * around(rng, spread);
                let _ = writeln!(
                    out,
                    "{{\"ph\":\"C\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":{},\"tid\":\"{tid}\",\"ts\":{ts:.3},\"args\":{{\"value\":{value:.3},\"hostname\":\"node0\"}}}},",
                    rank.pid
                );
                ts += 8000.0;
            }
        }
    }
}
