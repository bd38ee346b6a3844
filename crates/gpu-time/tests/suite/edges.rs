//! Tests of step ends, repeated names, and idle time that no launch latency explains.

use crate::support::{Maker, Value};
use gpu_time::{
    GpuWork, KernelOptions, KernelsBy, PLAUSIBLE_LATENCY_NS, Roles, Rules, Split, StepRule, idle,
    kernels, launches, split, steps,
};

#[test]
fn a_step_that_ends_where_work_starts_does_not_have_it() {
    let mut maker = Maker::new();
    maker.host((0, 100), "user_annotation", "ProfilerStep#1", &[]);
    maker.kernel(7, (40, 10), "inside", &[]);
    maker.kernel(7, (100, 50), "after", &[]);
    let trace = maker.finish();
    let work = GpuWork::new(&trace);
    let mut how = Split::default();
    how.steps = Some(steps(&work, None));
    how.step_rule = StepRule::Time;
    let parts = split(
        &work,
        &mut Roles::new(&work, Rules::Exact),
        work.events(),
        &how,
    );
    let found: Vec<_> = parts.iter().map(|p| (p.step, p.time.kernels)).collect();
    assert_eq!(found, [(Some(0), 1), (None, 1)]);
}

#[test]
fn a_module_that_is_written_twice_in_a_row_is_one() {
    let mut maker = Maker::new();
    for (at, ns, name) in [
        (0, 100, "nn.Module: Model_0"),
        (1, 98, "nn.Module: Layer_3"),
        (2, 96, "nn.Module: Layer_3"),
        (3, 94, "nn.Module: Layer_4"),
    ] {
        maker.host((at, ns), "python_function", name, &[]);
    }
    let id = [("correlation", Value::Int(1))];
    maker.host((10, 5), "cuda_runtime", "cudaLaunchKernel", &id);
    maker.kernel(7, (30, 10), "gemm", &id);
    let trace = maker.finish();
    let work = GpuWork::new(&trace);
    let mut options = KernelOptions::default();
    options.by = KernelsBy::Module;
    let found = kernels(&work, work.events(), &options);
    assert_eq!(found.groups[0].name, "Model/Layer/Layer");
    options.numbered = true;
    let found = kernels(&work, work.events(), &options);
    assert_eq!(found.groups[0].name, "Model_0/Layer_3/Layer_4");
}

/// Builds a kernel that ends at 100, and one launched at `called` for `call_ns` that starts at
/// `start`.
fn gap(called: i64, call_ns: i64, start: i64) -> trace_model::Trace {
    let mut maker = Maker::new();
    let id = |n| [("correlation", Value::Int(n))];
    maker.host((0, 5), "cuda_runtime", "cudaLaunchKernel", &id(1));
    maker.kernel(7, (50, 50), "first", &id(1));
    maker.host(
        (called, call_ns),
        "cuda_runtime",
        "cudaLaunchKernel",
        &id(2),
    );
    maker.kernel(7, (start, 10), "second", &id(2));
    maker.finish()
}

#[test]
fn long_calls_and_blocked_streams_are_no_launch_latency() {
    let most = PLAUSIBLE_LATENCY_NS;
    // Start of the call, length of the call, start of the work; in call, latency, queued, blocked.
    for (called, call_ns, start, want) in [
        (200, 10, 210 + most, [10, most, 0, 0]),
        (200, 10, 211 + most, [10, 0, 0, most + 1]),
        (200, 9_000_000, 9_000_300, [9_000_000, 100, 0, 0]),
        (60, 10, 100 + most, [0, 0, most, 0]),
        (60, 10, 101 + most, [0, 0, 0, most + 1]),
        (60, 140, 400, [100, 0, 200, 0]),
    ] {
        let trace = gap(called, call_ns, start);
        let t = idle(&GpuWork::new(&trace), 1).rows[0].time;
        let found = [
            t.launch_call_ns,
            t.launch_latency_ns,
            t.kernel_wait_ns,
            t.blocked_ns,
        ];
        assert_eq!(found, want, "{called} {call_ns} {start}");
        assert_eq!(found.iter().sum::<i64>() + t.host_wait_ns, t.idle_ns);
    }
}

#[test]
fn launches_onto_an_idle_stream_are_apart_from_queued_ones() {
    let mut maker = Maker::new();
    let mut launch = |n: i64, at: i64, start: i64, ns: i64| {
        let id = [("correlation", Value::Int(n))];
        maker.host((at, 20), "cuda_runtime", "cudaLaunchKernel", &id);
        maker.kernel(7, (start, ns), "k", &id);
    };
    launch(1, 0, 30, 500);
    launch(2, 40, 533, 5);
    launch(3, 600, 640, 10);
    let trace = maker.finish();
    let found = launches(&GpuWork::new(&trace), 0);
    assert_eq!(
        (found.calls, found.onto_idle, found.longer_than_work),
        (3, 2, 2)
    );
    let all = &found.rows[0].times;
    assert_eq!(
        (all.start_latency.count, all.start_latency.sum_ns),
        (2, 10 + 20)
    );
    assert_eq!((all.queue_gap.count, all.queue_gap.sum_ns), (1, 3));
}

#[test]
fn steps_of_the_profiler_are_named_by_the_marks_of_the_engine() {
    let mut maker = Maker::new();
    let inner = |maker: &mut Maker, at: i64, name: &str| {
        maker.host((at, 30), "user_annotation", name, &[]);
        maker.host(
            (at + 5, 20),
            "user_annotation",
            "gpu_model_runner: forward",
            &[],
        );
    };
    maker.host((0, 100), "user_annotation", "ProfilerStep#1", &[]);
    inner(&mut maker, 20, "execute_context_1(64)_generation_0(0)");
    // Several engine steps divide one of the profiler.
    maker.host((100, 100), "user_annotation", "ProfilerStep#2", &[]);
    inner(&mut maker, 110, "execute_context_0(0)_generation_4(4)");
    inner(&mut maker, 150, "execute_context_0(0)_generation_4(4)");
    maker.host((200, 50), "user_annotation", "ProfilerStep#3", &[]);
    let trace = maker.finish();
    let found: Vec<_> = steps(&GpuWork::new(&trace), None)
        .into_iter()
        .map(|step| (step.name, step.range.start.nanos(), step.range.end.nanos()))
        .collect();
    let decode = "execute_context_0(0)_generation_4(4)";
    let want = [
        ("execute_context_1(64)_generation_0(0)", 0, 100),
        (decode, 100, 150),
        (decode, 150, 200),
        ("ProfilerStep#3", 200, 250),
    ];
    assert_eq!(
        found,
        want.map(|(name, from, to)| (name.to_owned(), from, to))
    );
}
