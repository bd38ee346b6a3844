//! A made-up server with known truth: cycles, kernels, ranks, counters, and whatever trouble is planted.

use std::fmt::Write as _;

use perf_compare::Side;

/// Reproducible normal numbers (SplitMix64, Box and Muller).
pub(crate) struct Noise(u64);

impl Noise {
    pub(crate) fn new(seed: u64) -> Self {
        let mut noise = Self(seed.wrapping_mul(0x2545_f491_4f6c_dd1d) ^ 0x5851_f42d_4c95_7f2d);
        noise.bits();
        noise
    }

    fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Between 0 and 1, neither included.
    pub(crate) fn uniform(&mut self) -> f64 {
        let high = u32::try_from(self.bits() >> 32).unwrap_or(0);
        (f64::from(high) + 0.5) / 4_294_967_296.0
    }

    pub(crate) fn normal(&mut self) -> f64 {
        let (u, v) = (self.uniform(), self.uniform());
        (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
    }
}

/// How successive cycles vary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Process {
    /// Independent normal.
    Independent,
    /// First-order autoregressive, correlation 0.6.
    Correlated,
    /// Independent log-normal, skewed to the right.
    LogNormal,
    /// Normal, and 5 % of the cycles far out.
    Outliers,
    /// First-order autoregressive, correlation 0.9.
    Slow,
    /// First-order autoregressive, correlation 0.95.
    Persistent,
    /// Two levels, each kept with probability 0.95, and noise.
    Regimes,
    /// Sum of independent normal steps.
    RandomWalk,
}

/// Processes whose neighbours resemble each other so much that few cycles say little.
pub(crate) const SLOW: [Process; 4] = [
    Process::Slow,
    Process::Persistent,
    Process::Regimes,
    Process::RandomWalk,
];

pub(crate) const PROCESSES: [Process; 4] = [
    Process::Independent,
    Process::Correlated,
    Process::LogNormal,
    Process::Outliers,
];

impl Process {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent normal",
            Self::Correlated => "AR(1), 0.6",
            Self::LogNormal => "log-normal",
            Self::Outliers => "5 % outliers",
            Self::Slow => "AR(1), 0.9",
            Self::Persistent => "AR(1), 0.95",
            Self::Regimes => "two levels, kept with 0.95",
            Self::RandomWalk => "random walk",
        }
    }

    /// Deviations with mean 0 and, outliers apart, variance 1.
    pub(crate) fn series(self, noise: &mut Noise, n: usize) -> Vec<f64> {
        let mut state = noise.normal();
        (0..n)
            .map(|_| match self {
                Self::Independent => noise.normal(),
                Self::Correlated => {
                    state = 0.6 * state + 0.8 * noise.normal();
                    state
                }
                Self::LogNormal => {
                    // ln X normal with sigma 0.8: mean e^0.32, deviation e^0.32 sqrt(e^0.64 - 1).
                    let x = (0.8 * noise.normal()).exp();
                    let mean = 0.32_f64.exp();
                    (x - mean) / (mean * (0.64_f64.exp() - 1.0).sqrt())
                }
                Self::Outliers => {
                    let far = noise.uniform() < 0.05;
                    noise.normal() * if far { 8.0 } else { 1.0 }
                }
                Self::Slow => {
                    state = 0.9 * state + (1.0_f64 - 0.81).sqrt() * noise.normal();
                    state
                }
                Self::Persistent => {
                    state = 0.95 * state + (1.0_f64 - 0.95 * 0.95).sqrt() * noise.normal();
                    state
                }
                Self::Regimes => {
                    state = state.signum() * if noise.uniform() < 0.05 { -1.0 } else { 1.0 };
                    0.85 * state + 0.5 * noise.normal()
                }
                Self::RandomWalk => {
                    state += 0.3 * noise.normal();
                    state
                }
            })
            .collect()
    }
}

/// Kernels of one rank: name, microseconds per cycle, calls.
pub(crate) const KERNELS: [(&str, f64, f64); 10] = [
    ("gemm_a<128, 64>", 5200.0, 64.0),
    ("gemm_b", 3400.0, 64.0),
    ("paged_attention", 3300.0, 64.0),
    ("silu_and_mul", 900.0, 32.0),
    ("rms_norm", 700.0, 65.0),
    ("rotary", 500.0, 32.0),
    ("reshape_and_cache", 400.0, 32.0),
    ("softmax", 300.0, 1.0),
    ("top_k", 250.0, 1.0),
    ("copy_kernel", 200.0, 2.0),
];

/// Everything that can be planted. The default is a healthy server.
#[derive(Debug, Clone)]
pub(crate) struct World {
    pub(crate) cycles: usize,
    pub(crate) ranks: usize,
    pub(crate) process: Process,
    /// Relative deviation of durations.
    pub(crate) jitter: f64,
    /// Factor on each kernel of each rank.
    pub(crate) kernel: fn(usize, &str) -> f64,
    /// Factor on the calls of each kernel.
    pub(crate) calls: fn(&str) -> f64,
    /// A kernel besides the others: name and microseconds.
    pub(crate) extra: Option<(&'static str, f64)>,
    /// Microseconds of the host part, run queue and writes per cycle.
    pub(crate) host_us: f64,
    pub(crate) run_queue_us: f64,
    pub(crate) disk_us: f64,
    /// A function of the program on the host.
    pub(crate) python_us: f64,
    pub(crate) copy_factor: f64,
    pub(crate) transfer_factor: f64,
    /// How late the last rank comes.
    pub(crate) late_us: f64,
    pub(crate) cpu_mhz: f64,
    pub(crate) host_cpu_pct: f64,
    pub(crate) gpu_mhz: f64,
    pub(crate) gpu_usage: f64,
    pub(crate) process_gpu_usage: f64,
    pub(crate) gpu_mem_pct: f64,
    pub(crate) link_bps: f64,
    pub(crate) pcie_bps: f64,
    pub(crate) net_bps: f64,
    pub(crate) swap: f64,
    pub(crate) mem_available: f64,
    pub(crate) mem_usage: f64,
    /// Small kernels besides the others, of 20 microseconds each, and the factor on the first of them.
    pub(crate) functions: usize,
    pub(crate) first_function: f64,
    /// Relative growth of the host part with every cycle, and cycles that went before.
    pub(crate) drift: f64,
    pub(crate) before: usize,
    /// Context tokens of the first step, written into the names of steps; none unless positive.
    pub(crate) context: usize,
    /// Microseconds by which every tenth cycle is longer.
    pub(crate) pause_us: f64,
    /// First process number.
    pub(crate) pid: i64,
    pub(crate) anchor: &'static str,
}

impl Default for World {
    fn default() -> Self {
        Self {
            cycles: 57,
            ranks: 1,
            process: Process::Independent,
            jitter: 0.02,
            kernel: |_, _| 1.0,
            calls: |_| 1.0,
            extra: None,
            host_us: 14_000.0,
            run_queue_us: 900.0,
            disk_us: 1500.0,
            python_us: 1200.0,
            copy_factor: 1.0,
            transfer_factor: 1.0,
            late_us: 300.0,
            cpu_mhz: 3500.0,
            host_cpu_pct: 9.0,
            gpu_mhz: 1410.0,
            gpu_usage: 40.0,
            process_gpu_usage: 40.0,
            gpu_mem_pct: 85.0,
            link_bps: 4e6,
            pcie_bps: 3e6,
            net_bps: 5e5,
            swap: 0.0,
            mem_available: 1e9,
            mem_usage: 6.0,
            functions: 0,
            first_function: 1.0,
            drift: 0.0,
            before: 0,
            context: 0,
            pause_us: 0.0,
            pid: 4000,
            anchor: "Scheduler.run_batch",
        }
    }
}

pub(crate) const HEADER: &str = "cycle,pid,hostname,beta_pct,function_name,metric_name,device,func_type,mu_pct,sigma_pct,duration,\
interpolation_status,anchor_name,anchor_dur_us,cycle_start_ts,instances_count,simple_name\n";

/// One row of the table, but for its cycle.
struct Row {
    rank: usize,
    name: String,
    device: String,
    func_type: &'static str,
    us: f64,
    calls: f64,
    counters: Vec<(&'static str, f64)>,
}

impl World {
    /// The two CSV files.
    pub(crate) fn files(&self, seed: u64) -> (String, String) {
        let mut noise = Noise::new(seed);
        let mut perf = HEADER.to_owned();
        let mut counters = String::from("counter_name,timestamp,value,hostname\n");
        let mut series = || self.process.series(&mut noise, self.cycles);
        let host = series();
        let kernels: Vec<Vec<f64>> = (0..self.ranks * KERNELS.len()).map(|_| series()).collect();
        let others: Vec<Vec<f64>> = (0..8).map(|_| series()).collect();
        let small: Vec<Vec<f64>> = (0..12).map(|_| series()).collect();
        let many: Vec<Vec<f64>> = (0..self.functions).map(|_| series()).collect();
        let mut start = 1_700_000_000_000_000.0;
        for cycle in 0..self.cycles {
            let vary = |us: f64, by: f64| (us * (1.0 + self.jitter * by)).max(0.0);
            let mut rows = Vec::new();
            let device = |rank: usize| format!("GPU {rank}");
            // A clock of 0 was not recorded.
            let clock = if self.gpu_mhz > 0.0 {
                ("gpu_sm_frequency", self.gpu_mhz * 100.0)
            } else {
                ("N/A", f64::NAN)
            };
            let anchor = if self.context > 0 {
                let tokens = self.context + 32 * cycle;
                format!(
                    "execute_32_context_0(sq0sk0sqsq0sqsk0)_generation_32(sq32sk{tokens}sqsq32sqsk{tokens})"
                )
            } else {
                self.anchor.to_owned()
            };
            let gpu = vec![
                clock,
                ("gpu_usage", self.gpu_usage),
                ("process_gpu_usage", self.process_gpu_usage),
                ("gpu_mem_used", self.gpu_mem_pct),
                ("gpu_link_transmit", self.link_bps * 100.0),
                ("gpu_pcie_transmit", self.pcie_bps * 100.0),
            ];
            let mut slowest = 0.0_f64;
            for rank in 0..self.ranks {
                let mut busy = 0.0;
                for (at, (name, us, calls)) in KERNELS.iter().enumerate() {
                    let by = kernels[rank * KERNELS.len() + at][cycle];
                    let calls = calls * (self.calls)(name);
                    let us = vary(us * (self.calls)(name) * (self.kernel)(rank, name), by);
                    busy += us;
                    rows.push(Row {
                        rank,
                        name: (*name).to_owned(),
                        device: device(rank),
                        func_type: "gpu_compute",
                        us,
                        calls,
                        counters: if at < 3 { gpu.clone() } else { vec![gpu[0]] },
                    });
                }
                if let Some((name, us)) = self.extra {
                    busy += us;
                    rows.push(Row {
                        rank,
                        name: name.to_owned(),
                        device: device(rank),
                        func_type: "gpu_compute",
                        us: vary(us, others[6][cycle]),
                        calls: 1.0,
                        counters: vec![gpu[0]],
                    });
                }
                for (at, series) in many.iter().enumerate() {
                    let us = if at == 0 {
                        400.0 * self.first_function
                    } else {
                        20.0
                    };
                    let us = vary(us, series[cycle]);
                    busy += us;
                    rows.push(Row {
                        rank,
                        name: format!("function_{at}"),
                        device: device(rank),
                        func_type: "gpu_compute",
                        us,
                        calls: 1.0,
                        counters: Vec::new(),
                    });
                }
                let copy = vary(120.0 * self.copy_factor, others[0][cycle]);
                rows.push(Row {
                    rank,
                    name: "Memcpy HtoD (Pinned -> Device)".to_owned(),
                    device: device(rank),
                    func_type: "gpu_memcpy_h2d",
                    us: copy,
                    calls: 6.0,
                    counters: vec![gpu[5]],
                });
                slowest = slowest.max(busy + copy);
            }
            if self.ranks > 1 {
                let transfer = vary(640.0 * self.transfer_factor, others[1][cycle]);
                for rank in 0..self.ranks {
                    // The last rank comes late, the others wait for it.
                    let wait = if rank + 1 == self.ranks {
                        0.0
                    } else {
                        vary(self.late_us, others[2][cycle])
                    };
                    rows.push(Row {
                        rank,
                        name: "ncclDevKernel_AllReduce_Sum_bf16_RING_LL".to_owned(),
                        device: device(rank),
                        func_type: "gpu_comm",
                        us: transfer + wait,
                        calls: 64.0,
                        counters: vec![gpu[4]],
                    });
                }
                slowest += transfer + self.late_us;
            }
            let python = vary(self.python_us, others[3][cycle]);
            let run_queue = vary(self.run_queue_us, others[4][cycle]);
            let disk = vary(self.disk_us, others[5][cycle]);
            let grown = 1.0 + self.drift * (self.before + cycle) as f64;
            let host_us = vary(self.host_us * grown, host[cycle]);
            let length = host_us
                + slowest
                + python
                + (run_queue - 900.0).max(0.0)
                + (disk - 1500.0).max(0.0)
                + if cycle % 10 == 5 { self.pause_us } else { 0.0 };
            for rank in 0..self.ranks {
                let mut on_host = |name: &str, func_type, us, calls, counters| {
                    rows.push(Row {
                        rank,
                        name: name.to_owned(),
                        device: "Host".to_owned(),
                        func_type,
                        us,
                        calls,
                        counters,
                    });
                };
                on_host(
                    "oncpu",
                    "oncpu",
                    1.4 * (host_us + python),
                    900.0,
                    vec![("cpu_frequency", self.cpu_mhz * 100.0)],
                );
                on_host("runq", "runq", run_queue, 900.0, Vec::new());
                on_host("write", "disk_read_and_write", disk, 1200.0, Vec::new());
                on_host(
                    "Scheduler.process_batch_result",
                    "python",
                    python,
                    1.0,
                    Vec::new(),
                );
            }
            for row in &rows {
                let mut counters = row.counters.clone();
                if counters.is_empty() {
                    counters.push(("N/A", f64::NAN));
                }
                for (metric, value) in counters {
                    let value = if value.is_nan() {
                        String::new()
                    } else {
                        format!("{value:.4}")
                    };
                    let _ = writeln!(
                        perf,
                        "{},{},,{:.4},\"{}\",{metric},{},{},{value},0.0,{:.4}, ,{},{length:.4},{start:.4},{},x",
                        cycle + 1,
                        self.pid + i64::try_from(row.rank).unwrap_or(0),
                        row.us / length * 100.0,
                        row.name,
                        row.device,
                        row.func_type,
                        row.us,
                        anchor,
                        row.calls
                    );
                }
            }
            let mut sample = |name: String, value: f64, by: usize| {
                let value = value * (1.0 + 0.01 * small[by][cycle].clamp(-3.0, 3.0));
                let _ = writeln!(counters, "{name},{:.6},{value:.6},", start + length / 2.0);
            };
            sample("cpu_frequency".to_owned(), self.cpu_mhz, 0);
            sample("host_cpu_usage".to_owned(), self.host_cpu_pct, 1);
            sample("host_mem_available".to_owned(), self.mem_available, 2);
            sample("host_mem_usage".to_owned(), self.mem_usage, 3);
            sample(format!("process_mem_swap_{}", self.pid), self.swap, 4);
            sample("net_tx_rate".to_owned(), self.net_bps, 5);
            sample("net_rx_rate".to_owned(), self.net_bps, 6);
            start += length + 1.0;
        }
        (perf, counters)
    }

    /// As a side of a comparison.
    pub(crate) fn side(&self, seed: u64) -> Side {
        let (perf, counters) = self.files(seed);
        Side::from_csv("simulated", perf.as_bytes(), Some(counters.as_bytes()))
            .expect("the simulator writes what is read")
    }
}
