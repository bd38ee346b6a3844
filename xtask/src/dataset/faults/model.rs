//! A small model of a serving engine: iterations of host calls, kernels on a FIFO stream, and
//! collectives that wait for the last rank. It writes the trace and computes the truth.
//!
//! Integer arithmetic from a seed: the same bytes on every machine. Times are nanoseconds. This
//! file has no dependencies, so that tests of analyses can include it.

use std::fmt::Write as _;

/// A fault of the recorded system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    None,
    /// A kernel takes this many percent of its time.
    SlowKernel(&'static str, i64),
    /// A Python function takes this many percent of its time.
    SlowPython(i64),
    /// An additional kernel that takes this many permille of the iteration.
    NewKernel(i64),
    /// One rank takes this many percent of its compute time.
    SlowRank(usize, i64),
    /// The clock of the devices falls to this many percent.
    FrequencyCap(i64),
    /// Device memory is short: every iteration allocates and evicts.
    MemorySqueeze,
    /// The link is shared: collectives take this many percent.
    LinkContention(i64),
    /// The garbage collector stops the interpreter in every third iteration.
    CollectorPause,
    /// Writes take this many microseconds, and the host waits for them.
    SlowDisk(i64),
    /// In one of ten iterations a function takes eight times as long.
    Intermittent,
}

/// Output style of the trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Style {
    /// A list without an enclosing object.
    pub(crate) bare: bool,
    /// Events in random order.
    pub(crate) shuffled: bool,
    /// Numeric process ids instead of texts with the host name.
    pub(crate) int_pid: bool,
    /// Arguments in a text in `args.args`.
    pub(crate) nested_args: bool,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Config {
    pub(crate) seed: u64,
    pub(crate) iterations: usize,
    /// Every n-th iteration is a prefill; 0 for none.
    pub(crate) prefill_every: usize,
    pub(crate) period_ns: i64,
    /// Standard deviation of the period, permille.
    pub(crate) jitter: i64,
    pub(crate) ranks: usize,
    pub(crate) layers: usize,
    pub(crate) fault: Fault,
    pub(crate) python: bool,
    pub(crate) device: bool,
    pub(crate) counters: bool,
    /// The host of the next iteration runs while the device still works.
    pub(crate) overlap: bool,
    /// The recording begins and ends in the middle of an iteration.
    pub(crate) cut: bool,
    /// The outer frames of iterations were open when the recording began and are missing from it.
    pub(crate) outer_missing: bool,
    pub(crate) style: Style,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            seed: 1,
            iterations: 60,
            prefill_every: 0,
            period_ns: 30_000_000,
            jitter: 20,
            ranks: 1,
            layers: 8,
            fault: Fault::None,
            python: true,
            device: true,
            counters: true,
            overlap: false,
            cut: false,
            outer_missing: false,
            style: Style::default(),
        }
    }
}

/// One iteration on rank 0.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iteration {
    pub(crate) prefill: bool,
    pub(crate) start: i64,
    pub(crate) end: i64,
    /// `true` if the fault was active in it.
    pub(crate) faulty: bool,
    /// First and last correlation of its launches on rank 0.
    pub(crate) correlations: (i64, i64),
}

#[derive(Clone, Debug)]
pub(crate) struct Made {
    pub(crate) json: String,
    pub(crate) iterations: Vec<Iteration>,
}

pub(crate) const START: i64 = 1_700_000_000_000_000_000;
pub(crate) const KERNELS: [(&str, i64); 4] = [
    ("ampere_bf16_s16816gemm_bf16_128x64_ldg8", 340),
    ("_Z20paged_attention_kernPfS_i", 200),
    ("void silu_and_mul_kernel<float>(float*, int)", 130),
    ("void rms_norm_kernel<float>(float*, int)", 80),
];
pub(crate) const COLLECTIVE: &str = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL";
const HOST: &str = "node0";

/// SplitMix64 generator (Steele, Lea and Flood).
#[derive(Clone, Debug)]
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// Returns an approximately normal number in millionths of a standard deviation: the sum of
    /// twelve uniform numbers.
    fn normal(&mut self) -> i64 {
        let sum: u64 = (0..12).map(|_| self.below(1_000_000)).sum();
        i64::try_from(sum).unwrap_or(0) - 6_000_000
    }

    /// Returns `value` with a spread of `permille`.
    fn around(&mut self, value: i64, permille: i64) -> i64 {
        let off = self.normal() * permille / 1000;
        (value + value / 1000 * off / 1000).max(1)
    }
}

struct Writer {
    config: Config,
    events: Vec<(i64, i64, String)>,
}

impl Writer {
    fn pid(&self, rank: usize) -> String {
        let pid = 4000 + rank;
        if self.config.style.int_pid {
            pid.to_string()
        } else {
            format!("\"{HOST}({pid})\"")
        }
    }

    fn slice(
        &mut self,
        rank: usize,
        tid: &str,
        cat: &str,
        name: &str,
        (ts, end): (i64, i64),
        args: &str,
    ) {
        if cat == "python" && !self.config.python {
            return;
        }
        let args = if self.config.style.nested_args && !args.is_empty() {
            format!("{{\"args\":\"{{{}}}\"}}", args.replace('"', "\\\""))
        } else {
            format!("{{{args}}}")
        };
        let mut text = String::new();
        let _ = write!(
            text,
            "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":{},\"tid\":\"{tid}\",\"ts\":{},\"dur\":{},\"args\":{args}}}",
            self.pid(rank),
            micros(ts),
            micros(end - ts),
        );
        self.events.push((ts, end, text));
    }

    fn counter(&mut self, name: &str, tid: &str, ts: i64, value: i64) {
        self.counted(name, tid, ts, &value.to_string());
    }

    /// Writes a share in thousandths of a percent.
    fn share(&mut self, name: &str, tid: &str, ts: i64, value: i64) {
        self.counted(name, tid, ts, &micros(value));
    }

    fn counted(&mut self, name: &str, tid: &str, ts: i64, value: &str) {
        let text = format!(
            "{{\"ph\":\"C\",\"cat\":\"CAT_XPU\",\"name\":\"{name}\",\"pid\":\"{HOST}\",\"tid\":\"{tid}\",\"ts\":{},\"args\":{{\"value\":{value}}}}}",
            micros(ts)
        );
        self.events.push((ts, ts, text));
    }
}

fn micros(ns: i64) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

pub(crate) fn make(config: Config) -> Made {
    let mut rng = Rng(config.seed.wrapping_mul(0x5851_f42d_4c95_7f2d));
    let mut w = Writer {
        config,
        events: Vec::new(),
    };
    let mut free = vec![START; config.ranks];
    let mut correlation = vec![0_i64; config.ranks];
    let mut pending = vec![START; config.ranks];
    let mut iterations = Vec::with_capacity(config.iterations);
    let mut at = START;
    for i in 0..config.iterations {
        let prefill =
            config.prefill_every > 0 && i % config.prefill_every == config.prefill_every / 4;
        let scale = if prefill { 6 } else { 1 };
        let period = rng.around(config.period_ns * scale, config.jitter);
        let faulty = match config.fault {
            Fault::None => false,
            Fault::CollectorPause => i % 3 == 1,
            Fault::Intermittent => i % 10 == 7,
            _ => true,
        };
        let begin = Begin {
            at,
            period,
            prefill,
            faulty,
        };
        let first = correlation[0] + 1;
        let end = iteration(
            &mut w,
            &mut rng,
            begin,
            &mut free,
            &mut correlation,
            &mut pending,
        );
        iterations.push(Iteration {
            prefill,
            start: at,
            end,
            faulty,
            correlations: (first, correlation[0]),
        });
        at = end + period / 100;
    }
    if config.counters {
        counters(&mut w, &mut rng, at);
    }
    let range = match (config.cut, iterations.first(), iterations.last()) {
        (true, Some(first), Some(last)) => {
            let head = first.start + (first.end - first.start) * 2 / 5;
            let tail = last.start + (last.end - last.start) * 3 / 5;
            Some((head, tail))
        }
        _ => None,
    };
    // Events that began before or had not ended are not recorded.
    w.events
        .retain(|e| range.is_none_or(|(from, to)| e.0 >= from && e.1 <= to));
    if config.style.shuffled {
        for i in (1..w.events.len()).rev() {
            let j = usize::try_from(rng.below(i as u64 + 1)).unwrap_or(0);
            w.events.swap(i, j);
        }
    } else {
        w.events.sort_by_key(|e| (e.0, -e.1));
    }
    let list: Vec<&str> = w.events.iter().map(|e| e.2.as_str()).collect();
    let list = format!("[\n{}\n]", list.join(",\n"));
    Made {
        json: if config.style.bare {
            list
        } else {
            format!("{{\"traceEvents\":{list}}}\n")
        },
        iterations,
    }
}

#[derive(Clone, Copy)]
struct Begin {
    at: i64,
    period: i64,
    prefill: bool,
    faulty: bool,
}

/// Simulates one iteration on all ranks; returns the time at which rank 0 has finished it.
fn iteration(
    w: &mut Writer,
    rng: &mut Rng,
    begin: Begin,
    free: &mut [i64],
    correlation: &mut [i64],
    pending: &mut [i64],
) -> i64 {
    let Begin {
        at,
        period,
        prefill,
        faulty,
    } = begin;
    let config = w.config;
    let share = |permille: i64| period * permille / 1000;
    let ranks = config.ranks;
    let outer = !config.outer_missing;
    let host = |rank: usize, ns: i64| match config.fault {
        Fault::SlowRank(slow, percent) if slow == rank => ns * percent / 100,
        _ => ns,
    };
    let mut now = vec![0; ranks];
    let (mut run, mut forward) = (vec![0; ranks], vec![0; ranks]);
    for r in 0..ranks {
        let thread = format!("thread {}", 4000 + r);
        let recv = at + share(10);
        let next = recv + share(20);
        if outer {
            w.slice(
                r,
                &thread,
                "python",
                "Scheduler.recv_requests",
                (at, recv),
                "",
            );
            w.slice(
                r,
                &thread,
                "python",
                "Scheduler.get_next_batch_to_run",
                (recv, next),
                "",
            );
        }
        run[r] = next;
        forward[r] = next + share(10);
        now[r] = next + share(20);
    }
    let layers = i64::try_from(config.layers).unwrap_or(1);
    let layer_ns = share(700) / layers;
    for _ in 0..config.layers {
        for r in 0..ranks {
            layer(
                w,
                rng,
                r,
                (period, layer_ns, layers),
                faulty,
                &mut now[r],
                &mut free[r],
                &mut correlation[r],
            );
        }
        if ranks > 1 && config.device {
            let mut arrival = vec![0; ranks];
            for r in 0..ranks {
                correlation[r] += 1;
                let thread = format!("thread {}", 4000 + r);
                let args = format!("\"correlation\":{}", correlation[r]);
                w.slice(
                    r,
                    &thread,
                    "cuda_runtime",
                    "cudaLaunchKernel",
                    (now[r], now[r] + 4000),
                    &args,
                );
                arrival[r] = free[r].max(now[r] + 5000);
                now[r] += 5000;
            }
            let base = rng.around(share(60) / layers, 30);
            let base = match config.fault {
                Fault::LinkContention(percent) => base * percent / 100,
                _ => base,
            };
            let end = arrival.iter().max().copied().unwrap_or(at) + base;
            for r in 0..ranks {
                let args = format!("\"correlation\":{},\"device\":0", correlation[r]);
                w.slice(
                    r,
                    "device:0 stream:7",
                    "Kernel",
                    COLLECTIVE,
                    (arrival[r], end),
                    &args,
                );
                free[r] = end;
            }
        }
    }
    let mut last = at;
    for r in 0..ranks {
        let thread = format!("thread {}", 4000 + r);
        let phase = if prefill {
            "ModelRunner.forward_extend"
        } else {
            "ModelRunner.forward_decode"
        };
        if config.fault == Fault::MemorySqueeze {
            squeeze(
                w,
                rng,
                r,
                period,
                &mut now[r],
                &mut free[r],
                &mut correlation[r],
            );
        }
        let mut t = now[r] + host(r, share(10));
        w.slice(r, &thread, "python", phase, (forward[r] + share(5), t), "");
        w.slice(
            r,
            &thread,
            "python",
            "TpModelWorker.forward_batch_generation",
            (forward[r], t + share(5)),
            "",
        );
        t += share(5);
        let mut sampler = rng.around(share(50), 20);
        if let (Fault::SlowPython(percent), true) = (config.fault, faulty) {
            sampler = sampler * percent / 100;
        }
        if let (Fault::Intermittent, true) = (config.fault, faulty) {
            sampler *= 8;
        }
        w.slice(
            r,
            &thread,
            "python",
            "Sampler.forward",
            (t, t + sampler),
            "",
        );
        t += sampler;
        if config.device {
            // With overlap the host waits for the previous iteration.
            let waits_for = if config.overlap { pending[r] } else { free[r] };
            let done = (t + 20_000).max(waits_for + 10_000);
            w.slice(
                r,
                &thread,
                "cuda_runtime",
                "cudaStreamSynchronize",
                (t, done),
                "",
            );
            t = done;
        }
        pending[r] = free[r];
        t += share(5);
        if outer {
            w.slice(r, &thread, "python", "Scheduler.run_batch", (run[r], t), "");
        }
        let mut result = rng.around(share(60), 20);
        let mut pause = 0;
        if let (Fault::CollectorPause, true) = (config.fault, faulty) {
            pause = rng.around(share(200), 50);
        }
        let mut write = rng.around(20_000, 50);
        if let Fault::SlowDisk(us) = config.fault {
            write = rng.around(us * 1000, 50);
            result += write;
        }
        if outer {
            w.slice(
                r,
                &thread,
                "python",
                "Scheduler.process_batch_result",
                (t, t + result + pause),
                "",
            );
        }
        if pause > 0 {
            w.slice(
                r,
                &thread,
                "python",
                "gc.collect",
                (t + 1000, t + 1000 + pause),
                "",
            );
        }
        w.slice(
            r,
            "disk",
            "CAT_DISK",
            "write",
            (t + 2000, t + 2000 + write.min(result)),
            "",
        );
        let end = t + result + pause;
        on_cpu(w, rng, r, at, end);
        last = last.max(end);
    }
    last
}

#[expect(clippy::too_many_arguments, reason = "state of one rank, taken apart")]
fn layer(
    w: &mut Writer,
    rng: &mut Rng,
    r: usize,
    (period, layer_ns, layers): (i64, i64, i64),
    faulty: bool,
    now: &mut i64,
    free: &mut i64,
    correlation: &mut i64,
) {
    let config = w.config;
    let thread = format!("thread {}", 4000 + r);
    let (host_percent, device_percent) = match config.fault {
        Fault::SlowRank(slow, percent) if slow == r => (percent, percent),
        Fault::FrequencyCap(percent) => (100, 10_000 / percent),
        _ => (100, 100),
    };
    let start = *now;
    let length = rng.around(layer_ns, 20) * host_percent / 100;
    let middle = start + length * 60 / 100;
    for (k, (name, permille)) in KERNELS.iter().enumerate() {
        let k = i64::try_from(k).unwrap_or(0);
        let call = start + length * (5 + 22 * k) / 100;
        *correlation += 1;
        if !config.device {
            continue;
        }
        let args = format!("\"correlation\":{correlation}");
        w.slice(
            r,
            &thread,
            "cuda_runtime",
            "cudaLaunchKernel",
            (call, call + 4000),
            &args,
        );
        let mut dur = rng.around(period * permille / 1000 / layers, 30) * device_percent / 100;
        if let (Fault::SlowKernel(slow, percent), true) = (config.fault, faulty)
            && slow == *name
        {
            dur = dur * percent / 100;
        }
        let ts = (*free).max(call + 5000);
        let args = format!("\"correlation\":{correlation},\"device\":0");
        w.slice(
            r,
            "device:0 stream:7",
            "Kernel",
            name,
            (ts, ts + dur),
            &args,
        );
        *free = ts + dur;
    }
    if let (Fault::NewKernel(permille), true) = (config.fault, config.device) {
        *correlation += 1;
        let call = start + length * 95 / 100;
        let args = format!("\"correlation\":{correlation}");
        w.slice(
            r,
            &thread,
            "cuda_runtime",
            "cudaLaunchKernel",
            (call, call + 4000),
            &args,
        );
        let dur = rng.around(period * permille / 1000 / layers, 30);
        let ts = (*free).max(call + 5000);
        let args = format!("\"correlation\":{correlation},\"device\":0");
        w.slice(
            r,
            "device:0 stream:7",
            "Kernel",
            "void debug_copy_kernel<float>(float*)",
            (ts, ts + dur),
            &args,
        );
        *free = ts + dur;
    }
    w.slice(
        r,
        &thread,
        "python",
        "Qwen3DecoderLayer.forward",
        (start, start + length),
        "",
    );
    w.slice(
        r,
        &thread,
        "python",
        "Qwen3Attention.forward",
        (start + length / 50, middle),
        "",
    );
    w.slice(
        r,
        &thread,
        "python",
        "Qwen3MLP.forward",
        (middle + length / 100, start + length * 97 / 100),
        "",
    );
    *now = start + length + 1000;
}

/// Frees memory on the device: a slow allocation, and a memcpy to the host.
fn squeeze(
    w: &mut Writer,
    rng: &mut Rng,
    r: usize,
    period: i64,
    now: &mut i64,
    free: &mut i64,
    correlation: &mut i64,
) {
    let thread = format!("thread {}", 4000 + r);
    let call = rng.around(period / 20, 50);
    w.slice(
        r,
        &thread,
        "cuda_runtime",
        "cudaMalloc",
        (*now, *now + call),
        "",
    );
    *now += call;
    *correlation += 1;
    let args = format!("\"correlation\":{correlation}");
    w.slice(
        r,
        &thread,
        "cuda_runtime",
        "cudaMemcpyAsync",
        (*now, *now + 4000),
        &args,
    );
    let ts = (*free).max(*now + 5000);
    let dur = rng.around(period / 12, 50);
    let args = format!("\"correlation\":{correlation},\"device\":0");
    w.slice(
        r,
        "device:0 stream:7",
        "Memcpy",
        "Memcpy DtoH (Device -> Pinned)",
        (ts, ts + dur),
        &args,
    );
    *free = ts + dur;
    *now += 5000;
}

fn on_cpu(w: &mut Writer, rng: &mut Rng, r: usize, from: i64, to: i64) {
    let step = (to - from) / 20;
    for k in 0..20 {
        let ts = from + k * step;
        let dur = rng.around(step * 17 / 20, 30).min(step);
        w.slice(r, "cpu 0", "CAT_CPU", "oncpu", (ts, ts + dur), "");
        if k % 5 == 0 {
            let ts = ts + dur;
            w.slice(
                r,
                "cpu 0",
                "CAT_CPU",
                "runq",
                (ts, ts + rng.around(step / 15, 100)),
                "",
            );
        }
    }
}

fn counters(w: &mut Writer, rng: &mut Rng, end: i64) {
    let config = w.config;
    let mut ts = START;
    while ts <= end {
        let clock = match config.fault {
            Fault::FrequencyCap(percent) => 1410 * percent / 100,
            _ => 1410,
        };
        let used = match config.fault {
            Fault::MemorySqueeze => 84_000_000_000,
            _ => 70_000_000_000,
        };
        let link = match config.fault {
            Fault::LinkContention(_) => 260_000_000,
            _ => 100_000_000,
        };
        for r in 0..config.ranks {
            let tid = format!("CAT_XPU_{r}");
            w.counter("gpu_sm_util", &tid, ts, rng.around(60, 50));
            w.counter("gpu_frequency", &tid, ts, rng.around(clock, 1));
            w.counter("gpu_sm_frequency", &tid, ts, rng.around(clock, 1));
            w.counter("gpu_mem_used", &tid, ts, rng.around(used, 1));
            w.counter("gpu_link_transmit", &tid, ts, rng.around(link, 50));
            w.counter("gpu_link_receive", &tid, ts, rng.around(link, 50));
        }
        w.counter("cpu_frequency", "CAT_CPU_0", ts, rng.around(2900, 2));
        w.share("host_cpu_usage", "h", ts, rng.around(12_000, 20));
        w.share("process_cpu_usage_4000", "p", ts, rng.around(150_000, 20));
        ts += 100_000_000;
    }
}
