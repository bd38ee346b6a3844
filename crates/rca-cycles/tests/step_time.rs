//! The time of a step on made recordings whose truth is known: hosts that wait and hosts that run ahead.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use rca_cycles::{Analysis, Bound, Options, Verdict, analyse, bottlenecks};

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

fn analysed(e: Engine) -> (Analysis, Vec<i64>) {
    let (json, ends) = record(e);
    let source = Source::from_bytes("engine.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    (analyse(&trace, &Options::default()).unwrap(), ends)
}

fn median(mut list: Vec<i64>) -> i64 {
    list.sort_unstable();
    list[list.len() / 2]
}

fn step_time(a: &Analysis) -> i64 {
    let whole = a.cycles.iter().filter(|c| c.partial.is_none());
    median(whole.map(rca_cycles::Cycle::length_ns).collect())
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
            let (a, ends) = analysed(e);
            assert_eq!(a.cycles.len(), 24);
            let truth = median(ends[4..].windows(2).map(|w| (w[1] - w[0]) * 1000).collect());
            let found = step_time(&a);
            let case = format!("{kernels} x {kernel} launched in {launch}, {between}, {ahead}");
            assert!(
                (found - truth).abs() * 100 <= truth,
                "{found} for {truth}: {case}"
            );
            for (i, c) in a.cycles.iter().enumerate() {
                assert_eq!(c.gaps.total_ns(), c.length_ns(), "{case}");
                assert_eq!(c.critical_path.time_ns.values().sum::<i64>(), c.length_ns());
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
            let (b, ends) = analysed(slower);
            let want = median(ends[4..].windows(2).map(|w| (w[1] - w[0]) * 1000).collect());
            assert!((step_time(&b) - want).abs() * 100 <= want, "{case}");
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
    let (a, _) = analysed(e);
    let c = &a.cycles[0];
    assert_eq!(c.length_ns(), 156_005_000);
    assert_eq!(c.host_ns.1 - c.host_ns.0, 26_000_000);
    assert_eq!(c.gaps.gpu_busy_ns, 156_000_000);
    assert_eq!(c.critical_path.bound(), Some(Bound::Gpu));
}

#[test]
fn what_limits_a_step_is_what_was_made_to() {
    // Kernels, their time, time from launch to launch, between the marks, steps ahead.
    for (shape, want) in [
        ((20, 500, 10, 400, 1), Verdict::Gpu),
        ((20, 500, 10, 400, 0), Verdict::Gpu),
        ((200, 10, 100, 50, 0), Verdict::Launch),
        ((200, 10, 100, 50, 2), Verdict::Launch),
        ((4, 200, 20, 9_000, 1), Verdict::Unrecorded),
    ] {
        let (kernels, kernel, launch, between, ahead) = shape;
        let (a, _) = analysed(Engine {
            steps: 12,
            kernels,
            kernel,
            launch,
            between,
            ahead,
        });
        let found = bottlenecks(&a);
        let found = &found[0];
        assert_eq!(found.verdict, want, "{shape:?}: {found:#?}");
        let calls = f64::from(i32::try_from(kernels).unwrap());
        assert!((found.launch_calls - calls).abs() < 0.5, "{found:#?}");
        assert_eq!(found.gpu_ns, kernels * kernel * 1000, "{shape:?}");
        assert!((0.0..=1.0).contains(&found.share));
    }
}
