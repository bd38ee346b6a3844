//! A small simulation of an engine: host threads, streams with a queue of limited length, collectives, waits.

use std::fmt::Write as _;

const LAUNCH_CALL: i64 = 3_000;
const LAUNCH_LATENCY: i64 = 5_000;
const GAP: i64 = 1_000;
/// From the end of work to the end of the call that waits for it, and from a start to the end of a call that waits for room.
const BACK: i64 = 5_000;
const COPY_GAP: i64 = 2_000;

/// One action of the host.
#[derive(Clone, Debug)]
pub(crate) enum Does {
    /// Runs a function.
    Host(&'static str, i64),
    /// Launches a kernel: name, duration, stream.
    Launch(&'static str, i64, usize),
    /// The same, and the recording lacks the call.
    Unlinked(&'static str, i64, usize),
    /// Launches a graph of kernels.
    Graph(Vec<(&'static str, i64)>),
    /// Launches a kernel by a call that takes this long.
    LongCall(i64),
    /// Launches a product with this many rows.
    Product(i64, i64),
    /// Launches a collective.
    AllReduce(i64),
    /// Copies to the host, and waits for that.
    ToHost(i64),
    /// Copies to the device.
    FromHost(i64),
    /// Waits for all streams.
    Sync,
    /// Waits this long for requests.
    Requests(i64),
    /// Waits for a lock.
    Lock(i64),
    /// Waits for data.
    Data(i64),
}

/// A change of speed.
#[derive(Clone, Debug)]
pub(crate) struct Speed {
    pub(crate) kernel: f64,
    pub(crate) host: f64,
    pub(crate) comm: f64,
    /// Factor of launch calls.
    pub(crate) call: f64,
    /// `true` if the late rank is late.
    pub(crate) late: bool,
}

pub(crate) const AS_IS: Speed = Speed {
    kernel: 1.0,
    host: 1.0,
    comm: 1.0,
    call: 1.0,
    late: true,
};

/// An engine and its steps.
#[derive(Clone, Debug)]
pub(crate) struct World {
    pub(crate) steps: Vec<Vec<Does>>,
    pub(crate) ranks: usize,
    /// Maximum number of launches whose work has not begun.
    pub(crate) queue: usize,
    /// Rank whose host code is late in every other step, and by how much.
    pub(crate) late: Option<(usize, i64)>,
    /// `true` if each rank in turn is late, one in each step.
    pub(crate) in_turn: bool,
    /// A step of another process in the same recording.
    pub(crate) other_process: Option<Vec<Does>>,
}

/// What was simulated.
pub(crate) struct Run {
    pub(crate) files: Vec<String>,
    /// From the begin of the first step to the end of the work of the last one on the first stream.
    pub(crate) took_ns: i64,
}

struct Random(u64);

impl Random {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }

    fn ns(&mut self, least: i64, most: i64) -> i64 {
        least + i64::try_from(self.next(u64::try_from(most - least).unwrap())).unwrap()
    }
}

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "durations of a simulation"
)]
fn times(ns: i64, factor: f64) -> i64 {
    (ns as f64 * factor).round() as i64
}

/// A host thread with its device.
struct Thread {
    pid: i64,
    device: i64,
    now: i64,
    free: [i64; 2],
    /// Begins of all work in order.
    begins: Vec<i64>,
    events: String,
    id: u32,
    /// Time of a launch call.
    call_ns: i64,
}

impl Thread {
    fn new(pid: i64, device: i64) -> Self {
        Self {
            pid,
            device,
            now: 1_000_000,
            free: [0; 2],
            begins: Vec::new(),
            events: String::new(),
            id: 0,
            call_ns: LAUNCH_CALL,
        }
    }

    fn event(
        &mut self,
        cat: &str,
        name: &str,
        tid: Option<i64>,
        (from, to): (i64, i64),
        args: &str,
    ) {
        let us = |ns: i64| format!("{}.{:03}", ns / 1000, ns % 1000);
        // GPU activities are on the process of the device.
        let (pid, tid) = match tid {
            Some(stream) => (1000 + self.device, stream),
            None => (self.pid, self.pid * 10),
        };
        writeln!(
            self.events,
            "{{\"ph\":\"X\",\"cat\":\"{cat}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},\"args\":{{{args}}}}},",
            us(from),
            us(to - from)
        )
        .unwrap();
    }

    fn host(&mut self, name: &str, ns: i64) {
        let end = self.now + ns;
        self.event("python_function", name, None, (self.now, end), "");
        self.now = end;
    }

    /// A function that waits within another one.
    fn wait(&mut self, outer: &str, inner: &str, ns: i64) {
        let (begin, end) = (self.now, self.now + ns);
        self.event("python_function", outer, None, (begin, end), "");
        let within = (begin + 1_000, end - 1_000);
        self.event("python_function", inner, None, within, "");
        self.now = end;
    }

    /// Submits work; returns its earliest start.
    fn launch(&mut self, call: &str, queue: usize, gap: i64, stream: usize, recorded: bool) -> i64 {
        self.id += 1;
        let begin = self.now;
        let mut end = begin + self.call_ns;
        // The call returns when earlier work has begun, if the queue is full.
        if let Some(at) = self.begins.len().checked_sub(queue) {
            end = end.max(self.begins[at] + BACK);
        }
        if recorded {
            let args = format!(
                "\"correlation\":{}",
                self.device * 1_000_000 + i64::from(self.id)
            );
            self.event("cuda_runtime", call, None, (begin, end), &args);
        }
        self.now = end;
        let queued = match self.free[stream] {
            0 => 0,
            free => free + gap,
        };
        (end + LAUNCH_LATENCY).max(queued)
    }

    fn work(&mut self, cat: &str, name: &str, stream: usize, (start, end): (i64, i64), more: &str) {
        let number = 7 + i64::try_from(stream).unwrap();
        let id = self.device * 1_000_000 + i64::from(self.id);
        let args = format!(
            "\"correlation\":{id},\"device\":{},\"stream\":{number}{more}",
            self.device
        );
        self.event(cat, name, Some(number), (start, end), &args);
        self.free[stream] = end;
        self.begins.push(start);
    }

    fn sync(&mut self) {
        self.id += 1;
        let begin = self.now;
        let done = self.free[0].max(self.free[1]);
        let end = (begin + 500).max(done + BACK);
        let args = format!(
            "\"correlation\":{}",
            self.device * 1_000_000 + i64::from(self.id)
        );
        self.event(
            "cuda_runtime",
            "cudaDeviceSynchronize",
            None,
            (begin, end),
            &args,
        );
        self.now = end;
    }

    fn does(&mut self, does: &Does, queue: usize, speed: &Speed) {
        let kernel = |ns: i64| times(ns, speed.kernel);
        match *does {
            Does::Graph(ref kernels) => {
                let mut start = self.launch("cudaGraphLaunch", queue, GAP, 0, true);
                for &(name, ns) in kernels {
                    let end = start + kernel(ns);
                    self.work("kernel", name, 0, (start, end), "");
                    start = end + GAP;
                }
            }
            Does::LongCall(ns) => {
                self.id += 1;
                let call = (self.now, self.now + ns);
                let id = self.device * 1_000_000 + i64::from(self.id);
                let args = format!("\"correlation\":{id}");
                self.event("cuda_runtime", "cudaLaunchKernel", None, call, &args);
                let start = call.1 + LAUNCH_LATENCY;
                self.work("kernel", "rms_norm_kernel", 0, (start, start + 5_000), "");
                self.now = call.1;
            }
            Does::Host(name, ns) => self.host(name, times(ns, speed.host)),
            Does::Launch(name, ns, stream) => {
                let start = self.launch("cudaLaunchKernel", queue, GAP, stream, true);
                self.work("kernel", name, stream, (start, start + kernel(ns)), "");
            }
            Does::Unlinked(name, ns, stream) => {
                let start = self.launch("cudaLaunchKernel", queue, GAP, stream, false);
                self.work("kernel", name, stream, (start, start + kernel(ns)), "");
            }
            Does::Product(rows, ns) => {
                let begin = self.now;
                self.now += 500;
                let start = self.launch("cudaLaunchKernel", queue, GAP, 0, true);
                self.now += 500;
                let dims = format!("\"Input Dims\":[[{rows},512],[512,512]]");
                self.event("cpu_op", "aten::mm", None, (begin, self.now), &dims);
                let span = (start, start + kernel(ns));
                self.work("kernel", "sgemm_128x64_kernel", 0, span, "");
            }
            Does::ToHost(ns) => {
                let begin = self.now;
                self.id += 1;
                let queued = self.free[0] + COPY_GAP;
                let start = (begin + LAUNCH_CALL + LAUNCH_LATENCY).max(queued);
                let end = start + ns;
                let id = self.device * 1_000_000 + i64::from(self.id);
                let back = (begin, end + BACK);
                let args = format!("\"correlation\":{id}");
                self.event("cuda_runtime", "cudaMemcpyAsync", None, back, &args);
                let name = "Memcpy DtoH (Device -> Pageable)";
                self.work("gpu_memcpy", name, 0, (start, end), "");
                self.now = back.1;
            }
            Does::FromHost(ns) => {
                let start = self.launch("cudaMemcpyAsync", queue, COPY_GAP, 0, true);
                let name = "Memcpy HtoD (Pinned -> Device)";
                self.work("gpu_memcpy", name, 0, (start, start + ns), "");
            }
            Does::Sync => self.sync(),
            Does::Requests(ns) => self.wait(
                "core.py(700): _process_input_queue",
                "<built-in method get of _queue.SimpleQueue object at 0x7f>",
                ns,
            ),
            Does::Lock(ns) => self.wait(
                "logger.py(10): flush_logs",
                "<built-in method acquire of _thread.lock object at 0x7f>",
                ns,
            ),
            Does::Data(ns) => self.wait(
                "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
                "<built-in method poll of select.poll object at 0x7f>",
                ns,
            ),
            Does::AllReduce(_) => unreachable!("collectives are of all ranks"),
        }
    }
}

impl World {
    pub(crate) fn of(steps: Vec<Vec<Does>>) -> Self {
        Self {
            steps,
            ranks: 1,
            queue: usize::MAX,
            late: None,
            in_turn: false,
            other_process: None,
        }
    }

    /// Generates an engine: eager or with few launches, with or without waits, with a short or long queue, on one or two ranks.
    pub(crate) fn random(seed: u64) -> Self {
        const KERNELS: [&str; 3] = [
            "rms_norm_kernel",
            "sgemm_128x64_kernel",
            "paged_attention_v2_kernel",
        ];
        let mut r = Random(seed.wrapping_mul(77_777).wrapping_add(99));
        for _ in 0..4 {
            r.next(2);
        }
        let ranks = 1 + usize::try_from(r.next(2)).unwrap();
        let scale = [1, 4, 20][usize::try_from(r.next(3)).unwrap()];
        let host = [1, 3, 10][usize::try_from(r.next(3)).unwrap()];
        let mut step = vec![Does::Host(
            "scheduler.py(1): schedule",
            r.ns(5_000, 400_000),
        )];
        for _ in 0..20 + r.next(60) {
            let ns = r.ns(2_000, 12_000) * scale;
            match r.next(12) {
                0 | 1 => step.push(Does::Host("model.py(1): forward", r.ns(500, 9_000) * host)),
                2 if ranks > 1 => step.push(Does::AllReduce(ns)),
                3 if r.next(6) == 0 => step.push(Does::Sync),
                n => {
                    let kernel = KERNELS[usize::try_from(n % 3).unwrap()];
                    step.push(Does::Launch(kernel, ns, 0));
                }
            }
        }
        step.push(Does::Launch(KERNELS[0], 5_000 * scale, 0));
        if r.next(3) > 0 {
            step.push(Does::Sync);
        }
        let mut world = Self::of(vec![step; 5]);
        world.ranks = ranks;
        if r.next(3) == 0 {
            world.queue = 40;
        }
        world
    }

    pub(crate) fn run(&self, speed: &Speed) -> Run {
        let mut threads: Vec<Thread> = (0..self.ranks).map(|_| Thread::new(1, 0)).collect();
        for thread in &mut threads {
            thread.call_ns = times(LAUNCH_CALL, speed.call);
        }
        for (number, step) in self.steps.iter().enumerate() {
            let begins: Vec<i64> = threads.iter().map(|thread| thread.now).collect();
            for does in step {
                if let Does::AllReduce(ns) = does {
                    self.all_reduce(&mut threads, times(*ns, speed.comm));
                    continue;
                }
                for thread in &mut threads {
                    thread.does(does, self.queue, speed);
                }
            }
            for (rank, (thread, begin)) in threads.iter_mut().zip(begins).enumerate() {
                if let Some((late, ns)) = self.late
                    && speed.late
                    && match self.in_turn {
                        true => number % self.ranks == rank,
                        false => late == rank && number % 2 == 1,
                    }
                {
                    thread.host("slow_tokenize", times(ns, speed.host));
                }
                let name = format!("ProfilerStep#{}", number + 1);
                thread.event("user_annotation", &name, None, (begin, thread.now), "");
            }
        }
        let took = threads.iter().map(|thread| thread.free[0]).max().unwrap() - 1_000_000;
        let other = self.other_process.as_ref().map(|step| {
            let mut thread = Thread::new(2, 1);
            while thread.now < 1_000_000 + took {
                for does in step {
                    thread.does(does, self.queue, &AS_IS);
                }
            }
            thread.events
        });
        let files = threads.iter().enumerate().map(|(rank, thread)| {
            let events = format!("{}{}", thread.events, other.as_deref().unwrap_or(""));
            format!(
                "{{\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\"world_size\":{}}},\"traceEvents\":[{}]}}",
                self.ranks,
                events.trim_end().trim_end_matches(',')
            )
        });
        Run {
            files: files.collect(),
            took_ns: took,
        }
    }

    fn all_reduce(&self, threads: &mut [Thread], ns: i64) {
        let starts: Vec<i64> = threads
            .iter_mut()
            .map(|thread| thread.launch("cudaLaunchKernel", self.queue, GAP, 0, true))
            .collect();
        let end = starts.iter().max().unwrap() + ns;
        let ranks: Vec<String> = (0..self.ranks).map(|rank| rank.to_string()).collect();
        let more = format!(
            ",\"Collective name\":\"allreduce\",\"In msg nelems\":4096,\"Out msg nelems\":4096,\"dtype\":\"BFloat16\",\"Group size\":{},\"Process Group Name\":\"tp\",\"Process Group Ranks\":\"[{}]\"",
            self.ranks,
            ranks.join(", ")
        );
        for (thread, start) in threads.iter_mut().zip(starts) {
            let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)";
            thread.work("kernel", name, 0, (start, end), &more);
        }
    }
}
