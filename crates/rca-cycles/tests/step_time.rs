//! The time of a step on made recordings whose truth is known: hosts that wait and hosts that run ahead.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use critical_path::Group;
use rca_cycles::{Analysis, Options, StepPaths, analyse, bottlenecks};

/// An engine that marks its submission only, times in microseconds.
#[derive(Clone, Copy)]
struct Engine {
    steps: usize,
    kernels: i64,
    kernel: i64,
    /// From launch to launch on the host.
    launch: i64,
    /// Scheduling between the marks, not recorded.
    between: i64,
    /// How many steps the host may be ahead of the device.
    ahead: usize,
}

/// The recording, and when each step's work ended on the device.
fn record(e: Engine) -> (String, Vec<i64>) {
    let (mut events, mut ends) = (Vec::new(), Vec::<i64>::new());
    let (mut host, mut free, mut id) = (1_000, 0, 0);
    for step in 0..e.steps {
        let begin = host;
        for _ in 0..e.kernels {
            id += 1;
            let start = free.max(host + 5);
            free = start + e.kernel;
            events.push(format!(
                r#"{{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{host},"dur":3,"args":{{"correlation":{id}}}}},
                {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{start},"dur":{},"args":{{"correlation":{id},"device":0,"stream":7}}}}"#,
                e.kernel
            ));
            host += e.launch;
        }
        events.push(format!(
            r#"{{"name":"execute_8_context_0(0)_generation_8(sq8sk{})","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{begin},"dur":{}}}"#,
            800 + step * 8,
            host - begin
        ));
        events.push(format!(
            r#"{{"name":"model.py(1): forward","cat":"python_function","ph":"X","pid":1,"tid":1,"ts":{begin},"dur":{}}}"#,
            host - begin
        ));
        ends.push(free);
        // The tokens of an earlier step are waited for between the marks.
        if let Some(&wanted) = ends
            .len()
            .checked_sub(e.ahead + 1)
            .and_then(|i| ends.get(i))
        {
            let until = wanted.max(host);
            events.push(format!(
                r#"{{"name":"cudaStreamSynchronize","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{host},"dur":{}}}"#,
                until - host + 1
            ));
            host = until + 1;
        }
        host += e.between;
    }
    (format!("[{}]", events.join(",")), ends)
}

fn analysed(e: Engine) -> (Analysis, StepPaths, Vec<i64>) {
    let (json, ends) = record(e);
    let source = Source::from_bytes("engine.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let analysis = analyse(&trace, &Options::default()).unwrap();
    let paths = StepPaths::new(&trace, &analysis);
    (analysis, paths, ends)
}

fn median(mut list: Vec<i64>) -> i64 {
    list.sort_unstable();
    list[list.len() / 2]
}

/// Median times of a cycle and of a step.
fn times(a: &Analysis, paths: &StepPaths) -> [i64; 2] {
    let whole = a.cycles.iter().filter(|c| c.partial.is_none());
    let cycles = whole.map(rca_cycles::Cycle::length_ns).collect();
    let steps = (0..a.cycles.len()).filter_map(|at| paths.of_cycle(at));
    [
        median(cycles),
        median(steps.map(|step| step.duration_ns).collect()),
    ]
}

#[test]
fn a_step_takes_as_long_as_the_engine_needs_from_step_to_step() {
    for ahead in [0, 1, 3] {
        for (kernels, kernel, launch, between) in [
            (20, 500, 10, 400),
            (20, 10, 100, 400),
            (4, 200, 50, 5_000),
            (50, 30, 29, 50),
            (1, 9_000, 100, 10_000),
        ] {
            let e = Engine {
                steps: 24,
                kernels,
                kernel,
                launch,
                between,
                ahead,
            };
            let (a, paths, ends) = analysed(e);
            assert_eq!(a.cycles.len(), 24);
            let truth = median(ends[4..].windows(2).map(|w| (w[1] - w[0]) * 1000).collect());
            let found = times(&a, &paths);
            let case = format!("{kernels} x {kernel} launched in {launch}, {between}, {ahead}");
            for found in found {
                assert!(
                    (found - truth).abs() * 100 <= truth,
                    "{found} for {truth}: {case}"
                );
            }
            // A step ends with its work, to the nanosecond.
            for (at, end) in ends.iter().enumerate() {
                let step = paths.of_cycle(at).unwrap();
                assert_eq!(step.end_ns, end * 1000, "{case}");
                assert_eq!(step.groups.total(), step.duration_ns, "{case}");
            }
            for (i, c) in a.cycles.iter().enumerate() {
                assert_eq!(c.gaps.total_ns(), c.length_ns(), "{case}");
                assert!(c.host_active_ns <= c.host_ns.1 - c.host_ns.0, "{case}");
                if let Some(next) = a.cycles.get(i + 1) {
                    assert_eq!(c.end_ns, next.start_ns, "{case}");
                }
            }
            // More time between the marks is more time of the step, unless the device hides it.
            let slower = Engine {
                between: between + 10_000,
                ..e
            };
            let (b, slower, ends) = analysed(slower);
            let want = median(ends[4..].windows(2).map(|w| (w[1] - w[0]) * 1000).collect());
            for found in times(&b, &slower) {
                assert!((found - want).abs() * 100 <= want, "{case}");
            }
        }
    }
}

#[test]
fn a_host_that_runs_ahead_does_not_bound_the_step() {
    let e = Engine {
        steps: 1,
        kernels: 26,
        kernel: 6_000,
        launch: 1_000,
        between: 0,
        ahead: 1,
    };
    let (a, paths, _) = analysed(e);
    let c = &a.cycles[0];
    assert_eq!(c.length_ns(), 156_005_000);
    assert_eq!(c.host_ns.1 - c.host_ns.0, 26_000_000);
    assert_eq!(c.gaps.gpu_busy_ns, 156_000_000);
    let step = paths.of_cycle(0).unwrap();
    assert_eq!(step.duration_ns, 156_005_000);
    assert_eq!(step.groups.of(Group::Gpu), 156_000_000);
}

#[test]
fn what_limits_a_step_is_what_was_made_to() {
    // Kernels, their time, time from launch to launch, between the marks, steps ahead.
    for (shape, want) in [
        ((20, 500, 10, 400, 1), Group::Gpu),
        ((20, 500, 10, 400, 0), Group::Gpu),
        ((200, 10, 100, 50, 0), Group::Launch),
        ((200, 10, 100, 50, 2), Group::Launch),
        // The host does something between the marks that was not recorded.
        ((4, 200, 20, 9_000, 1), Group::Host),
    ] {
        let (kernels, kernel, launch, between, ahead) = shape;
        let (a, paths, _) = analysed(Engine {
            steps: 12,
            kernels,
            kernel,
            launch,
            between,
            ahead,
        });
        let found = bottlenecks(&a, &paths);
        let found = &found[0];
        assert_eq!(found.verdict, Some(want), "{shape:?}: {found:#?}");
        let calls = f64::from(i32::try_from(kernels).unwrap());
        assert!((found.launch_calls - calls).abs() < 0.5, "{found:#?}");
        assert_eq!(found.gpu_ns, kernels * kernel * 1000, "{shape:?}");
        assert!((0.0..=1.0).contains(&found.share));
    }
}

/// A recording of steps of 100 us with a kernel of 80 us each, waited for; `marks` are (name, begin, length) in steps of
/// 100 us, and `idle` are steps without any call.
fn marked(steps: i64, marks: &[(String, i64, i64)], idle: impl Fn(i64) -> bool) -> String {
    let mut events: Vec<String> = Vec::new();
    let mut add = |cat: &str, name: &str, (pid, tid): (i64, i64), at: i64, dur: i64, args: &str| {
        events.push(format!(
            r#"{{"name":"{name}","cat":"{cat}","ph":"X","pid":{pid},"tid":{tid},"ts":{at},"dur":{dur},"args":{{{args}}}}}"#
        ));
    };
    for (name, begin, length) in marks {
        let (at, dur) = (1_000 + begin * 100, length * 100 - 1);
        add("user_annotation", name, (1, 1), at, dur, "");
    }
    for step in 0..steps {
        let at = 1_000 + step * 100;
        add(
            "python_function",
            "model.py(1): forward",
            (1, 1),
            at + 1,
            90,
            "",
        );
        if idle(step) {
            continue;
        }
        let args = format!(r#""correlation":{}"#, step + 1);
        add("cuda_runtime", "cudaLaunchKernel", (1, 1), at + 2, 3, &args);
        let of_device = format!(r#"{args},"device":0,"stream":7"#);
        add("kernel", "gemm", (0, 7), at + 8, 80, &of_device);
        let wait = format!(r#""correlation":{}"#, step + 1_001);
        add(
            "cuda_runtime",
            "cudaDeviceSynchronize",
            (1, 1),
            at + 6,
            84,
            &wait,
        );
    }
    format!("[{}]", events.join(","))
}

fn of_json(json: String) -> (Analysis, StepPaths) {
    let source = Source::from_bytes("engine.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let analysis = analyse(&trace, &Options::default()).unwrap();
    let paths = StepPaths::new(&trace, &analysis);
    (analysis, paths)
}

#[test]
fn steps_of_the_engine_divide_those_of_the_profiler() {
    let mut marks: Vec<(String, i64, i64)> = (0..4)
        .map(|n| (format!("ProfilerStep#{n}"), n * 3, 3))
        .collect();
    marks.extend((0..12).map(|n| ("execute_context_0(0)_generation_16(16)".to_owned(), n, 1)));
    // An inner mark begins after the outer one.
    let (analysis, paths) = of_json(marked(12, &marks, |_| false));
    assert_eq!(analysis.cycles.len(), 12);
    assert_eq!(analysis.anchor, "execute_context_0(0)_generation_16(16)");
    let found = bottlenecks(&analysis, &paths);
    assert_eq!((found[0].steps, found[0].step_ns[0]), (12, 100_000));
}

#[test]
fn marks_of_one_engine_with_names_in_turn_are_all_steps() {
    let marks: Vec<(String, i64, i64)> = (0..10)
        .map(|n| match n % 2 {
            0 => ("execute_new_8_cached_24".to_owned(), n, 1),
            _ => ("execute_model".to_owned(), n, 1),
        })
        .collect();
    let (analysis, paths) = of_json(marked(10, &marks, |_| false));
    assert_eq!(analysis.cycles.len(), 10);
    let steps: usize = bottlenecks(&analysis, &paths).iter().map(|b| b.steps).sum();
    assert_eq!(steps, 10);
}

#[test]
fn marks_without_a_call_are_no_steps() {
    let mark = |n: i64| ("execute_context_0(0)_generation_16(16)".to_owned(), n, 1);
    let marks: Vec<(String, i64, i64)> = (0..12).map(mark).collect();
    let (analysis, paths) = of_json(marked(12, &marks, |step| step % 2 == 0));
    let found = bottlenecks(&analysis, &paths);
    // The steps fit into the recording.
    let steps = i64::try_from(found[0].steps).unwrap();
    assert_eq!((steps, found[0].step_ns[0]), (6, 200_000));
    assert_eq!(found[0].gpu_ns, 80_000);
    assert!(steps * found[0].step_ns[0] <= 1_200_000);
}

#[test]
fn work_that_runs_at_once_keeps_a_device_busy_once() {
    // In each step of 1000 us: kernels from 50 to 450, a collective beside them from 350 to 650, a copy from 630 to 700.
    let work = [
        ("gemm", "kernel", 7, 50, 450),
        (
            "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            "kernel",
            20,
            350,
            650,
        ),
        ("Memcpy DtoH (Device -> Pinned)", "gpu_memcpy", 7, 630, 700),
    ];
    let mut events = Vec::new();
    for step in 0..12 {
        let begin = 1_000 * (step + 1);
        events.push(format!(
            r#"{{"name":"execute_8_context_0(0)_generation_8(sq8sk800)","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{begin},"dur":100}}"#
        ));
        for (at, (name, cat, stream, from, to)) in (0..).zip(work) {
            let (id, call) = (step * 10 + at + 1, begin + 5 + 10 * at);
            let (start, dur) = (begin + from, to - from);
            events.push(format!(
                r#"{{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{call},"dur":3,"args":{{"correlation":{id}}}}},
                {{"name":"{name}","cat":"{cat}","ph":"X","pid":0,"tid":{stream},"ts":{start},"dur":{dur},"args":{{"correlation":{id},"device":0,"stream":{stream}}}}}"#
            ));
        }
    }
    let (analysis, _) = of_json(format!("[{}]", events.join(",")));
    let [times] = &analysis.device_times[..] else {
        panic!("one process works: {:?}", analysis.device_times);
    };
    assert_eq!(times.by_cycle_ns.len(), analysis.cycles.len());
    let whole = analysis.cycles.iter().zip(&times.by_cycle_ns);
    let whole: Vec<_> = whole.filter(|(cycle, _)| cycle.partial.is_none()).collect();
    assert!(whole.len() >= 10);
    for (cycle, &times) in whole {
        // From 50 to 700, and from 450 to 630; the sum of all work is 770.
        assert_eq!(times, (650_000, 180_000), "{cycle:?}");
    }
}
