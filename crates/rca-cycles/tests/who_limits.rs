//! What bounds the steps of simulated engines, against what a shorter host or device does to their time.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use rca_cycles::{Limit, Options, StepPaths, analyse, bottlenecks, slack};

/// A stream of numbers from 0 to 1.
struct Random(u64);

impl Random {
    fn next(&mut self) -> f64 {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        f64::from(u32::try_from(self.0 >> 33).unwrap()) / f64::from(1_u32 << 31)
    }

    fn between(&mut self, low: f64, high: f64) -> f64 {
        low * (high / low).powf(self.next())
    }
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Waits {
    /// For the work of the step, at its end.
    End,
    /// For the work of the step before.
    Lag,
    /// Never.
    Never,
    /// By a copy in the middle that returns when it is done.
    Middle,
}

#[derive(Clone, Copy, Debug)]
struct Engine {
    graph: bool,
    waits: Waits,
    kernels: usize,
    kernel_us: f64,
    /// Host time of an operator, or of the launch of a graph.
    launch_us: f64,
    schedule_us: f64,
    after_us: f64,
    seed: u64,
}

impl Engine {
    fn random(seed: u64) -> Self {
        let mut r = Random(seed.wrapping_mul(77_777).wrapping_add(99));
        for _ in 0..4 {
            r.next();
        }
        let graph = r.next() < 0.5;
        let waits = [Waits::End, Waits::Lag, Waits::Never, Waits::Middle];
        Self {
            graph,
            waits: waits[(seed % 4) as usize],
            kernels: 40,
            kernel_us: r.between(8.0, 160.0),
            launch_us: if graph { 150.0 } else { r.between(12.0, 60.0) },
            schedule_us: r.between(100.0, 4_000.0),
            after_us: r.between(50.0, 800.0),
            seed,
        }
    }

    /// Host and device work for as long as each other, and the host looks at the step before.
    fn balanced(seed: u64) -> Self {
        let mut engine = Self::random(4 * seed + 1);
        engine.graph = true;
        engine.launch_us = 150.0;
        engine.schedule_us = engine.schedule_us.max(600.0);
        let host = engine.schedule_us + engine.launch_us + engine.after_us + 6.0;
        engine.kernel_us = host / 40.0 - 1.0;
        engine
    }

    /// The events, and the time of a step in us, with all times of the host and of the device times these.
    fn run(&self, host: f64, device: f64) -> (String, f64) {
        const STEPS: usize = 24;
        let mut r = Random(self.seed);
        let mut jitter = || 0.95 + 0.1 * r.next();
        let mut out: Vec<String> = Vec::new();
        let (mut at, mut free, mut id) = (1_000.0_f64, 0.0_f64, 0);
        let mut done: Vec<f64> = Vec::new();
        let mut event = |cat: &str, name: &str, ts: f64, end: f64, args: &str| {
            let (pid, tid) = if cat == "kernel" || cat == "gpu_memcpy" {
                (0, 7)
            } else {
                (1, 1)
            };
            let (ts, end) = ((ts * 1e3).round() / 1e3, (end * 1e3).round() / 1e3);
            let dur = end - ts;
            out.push(format!(
                r#"{{"name":"{name}","cat":"{cat}","ph":"X","pid":{pid},"tid":{tid},"ts":{ts:.3},"dur":{dur:.3},"args":{{{args}}}}}"#
            ));
        };
        for step in 0..STEPS {
            let begin = at;
            at += self.schedule_us * host * jitter();
            event(
                "python_function",
                "scheduler.py(1): schedule",
                begin,
                at,
                "",
            );
            let forward = at;
            let mut call = 0.0;
            for k in 0..self.kernels {
                let blocks = self.waits == Waits::Middle && k == self.kernels / 2;
                if !self.graph || k == 0 || blocks {
                    id += 1;
                    call = at;
                    at += self.launch_us * host * jitter();
                }
                let launched = if self.graph && !blocks {
                    at
                } else {
                    call + 4.0
                };
                let start = (free + 1.0).max(launched + 3.0);
                let args = format!(r#""correlation":{id},"device":0"#);
                if blocks {
                    free = start + 2.0;
                    let end = free + 6.0;
                    event(
                        "gpu_memcpy",
                        "Memcpy DtoH (Device -> Pageable)",
                        start,
                        free,
                        &args,
                    );
                    event("cuda_runtime", "cudaMemcpyAsync", call, end, &args);
                    at = at.max(end);
                    // The rest of a graph is another one.
                    id += 1;
                    call = at;
                    if self.graph {
                        at += self.launch_us * host * jitter();
                    }
                    let args = format!(r#""correlation":{id}"#);
                    let name = if self.graph {
                        "cudaGraphLaunch"
                    } else {
                        "cudaLaunchKernel"
                    };
                    event("cuda_runtime", name, call, call + 4.0, &args);
                    continue;
                }
                free = start + self.kernel_us * device * jitter();
                event("kernel", &format!("gemm_{}", k % 3), start, free, &args);
                let is_first = k == 0 || !self.graph;
                if is_first && !(self.waits == Waits::Middle && k == self.kernels / 2 + 1) {
                    let name = if self.graph {
                        "cudaGraphLaunch"
                    } else {
                        "cudaLaunchKernel"
                    };
                    let end = if self.graph { at } else { call + 4.0 };
                    event(
                        "cuda_runtime",
                        name,
                        call,
                        end,
                        &format!(r#""correlation":{id}"#),
                    );
                }
            }
            event("python_function", "model.py(1): forward", forward, at, "");
            done.push(free);
            let wanted = match self.waits {
                Waits::End | Waits::Middle => Some(free),
                Waits::Lag => step.checked_sub(1).map(|s| done[s]),
                Waits::Never => None,
            };
            if let Some(wanted) = wanted {
                let end = (at + 3.0).max(wanted + 4.0);
                event("cuda_runtime", "cudaEventSynchronize", at, end, "");
                at = end;
            }
            let after = at;
            at += self.after_us * host * jitter();
            event("python_function", "scheduler.py(9): update", after, at, "");
            event(
                "user_annotation",
                &format!("step[DECODE bs={step}]"),
                begin,
                at,
                "",
            );
            at += 2.0;
        }
        let steps = f64::from(u32::try_from(STEPS - 4).unwrap());
        let time = (free.max(at) - done[3]) / steps;
        (format!("[{}]", out.join(",")), time)
    }
}

#[test]
fn the_side_whose_time_shortens_the_steps_is_named() {
    let mut counts = [0_usize; 4];
    let mut wrong = Vec::new();
    let engines = (0..120)
        .map(Engine::random)
        .chain((0..12).map(Engine::balanced));
    for engine in engines {
        let (json, time) = engine.run(1.0, 1.0);
        let gain = |host: f64, device: f64| 100.0 * (1.0 - engine.run(host, device).1 / time);
        let (host, gpu) = (gain(0.9, 1.0), gain(1.0, 0.9));
        let source = Source::from_bytes("engine.json", json.into_bytes()).unwrap();
        let trace = perfetto_reader::read(source, &Default::default()).unwrap();
        let analysis = analyse(&trace, &Options::default()).unwrap();
        let found = &bottlenecks(&analysis, &StepPaths::new(&trace, &analysis))[0];
        let whole = slack(&trace, None).unwrap();
        let limit = found.limit.unwrap();
        let fits = |limit: Limit, mostly_host: bool| match limit {
            Limit::Gpu => gpu >= 1.5 * host && gpu >= 2.0,
            Limit::Host => host >= 1.5 * gpu && host >= 2.0,
            Limit::Balanced => host < 5.5 && gpu < 5.5,
            Limit::Turns => {
                let (more, less) = if mostly_host {
                    (host, gpu)
                } else {
                    (gpu, host)
                };
                less >= 1.0 && more >= 0.8 * less
            }
            _ => false,
        };
        let mostly_host = whole.mostly_host();
        if !fits(limit, mostly_host) || !fits(whole.limit().unwrap(), whole.mostly_host()) {
            wrong.push(format!(
                "{engine:?}: step {time:.0} us, host {host:.1} %, GPU {gpu:.1} %: {limit:?} {:?} (GPU free {:.3}, host waits {:.3}), trace {:?} {whole:?}",
                found.verdict, found.device_free, found.host_wait, whole.limit()
            ));
        }
        counts[match limit {
            Limit::Gpu => 0,
            Limit::Host => 1,
            Limit::Balanced => 2,
            _ => 3,
        }] += 1;
    }
    assert!(
        wrong.is_empty(),
        "{} wrong:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
    assert!(counts.iter().all(|n| *n >= 4), "{counts:?}");
}
