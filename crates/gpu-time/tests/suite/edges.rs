//! Tests of step ends, repeated names, and idle time that no launch latency explains.

use crate::support::{Maker, Value};
use gpu_time::{
    GpuWork, IdleBound, IdleVerdict, KernelOptions, KernelsBy, PLAUSIBLE_LATENCY_NS, Recorder,
    Roles, Rules, Split, StepRule, answer, idle, kernels, launches, split, steps,
};

#[test]
fn a_step_that_ends_where_work_starts_does_not_have_it() {
    let mut maker = Maker::new();
    maker.host((0, 100), "user_annotation", "ProfilerStep#1", &[]);
    maker.kernel(7, (40, 10), "inside", &[]);
    maker.kernel(7, (100, 50), "after", &[]);
    // A step that begins where work ends does not have it either.
    maker.host((150, 50), "user_annotation", "ProfilerStep#2", &[]);
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
    assert_eq!(found, [(Some(0), 1), (Some(1), 0), (None, 1)]);
}

#[test]
fn steps_by_a_pattern_are_the_outermost_slices_of_the_host() {
    let mut maker = Maker::new();
    for (at, ns, name) in [
        (0, 100, "step 1"),
        (10, 20, "step 1 again"),
        (100, 50, "warm up"),
        (150, 50, "decode"),
    ] {
        maker.host((at, ns), "user_annotation", name, &[]);
    }
    maker.kernel(7, (40, 10), "step_kernel", &[]);
    let trace = maker.finish();
    let work = GpuWork::new(&trace);
    let found = steps(&work, Some("step*|decode"));
    let found: Vec<_> = found
        .iter()
        .map(|step| (step.name.as_str(), step.range.start.nanos()))
        .collect();
    assert_eq!(found, [("step 1", 0), ("decode", 150)]);
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
        (60, 140, 400, [100, 200, 0, 0]),
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

/// Sixty kernels of `kernel_ns`, each of which starts `latency` after the return of its call or `gap`
/// after the end of the kernel before, whichever is later. Returns the sums of both delays: of kernels
/// that waited for their launch, and of those that waited for the queue.
fn launched(
    call_ns: i64,
    latency: i64,
    gap: i64,
    kernel_ns: i64,
) -> (trace_model::Trace, [i64; 2]) {
    let mut maker = Maker::new();
    let mut truth = [0; 2];
    let (mut at, mut end) = (1_000, None);
    for n in 0..60 {
        let id = [("correlation", Value::Int(n + 1))];
        maker.host((at, call_ns), "cuda_runtime", "cudaLaunchKernel", &id);
        at += call_ns;
        let ready = at + latency;
        let start = ready.max(end.map_or(0, |end| end + gap));
        maker.kernel(7, (start, kernel_ns), "k", &id);
        if let Some(end) = end {
            truth[usize::from(start > ready)] += start - end;
        }
        end = Some(start + kernel_ns);
    }
    (maker.finish(), truth)
}

#[test]
fn work_that_waits_for_its_launch_is_not_queued() {
    // Calls return before the kernel before ends, yet the latency of the launch has not passed.
    for (call_ns, latency, kernel_ns) in [
        (3_500, 4_500, 1_600),
        (5_000, 4_500, 2_600),
        (3_000, 20_000, 2_000),
    ] {
        let (trace, [by_launch, by_queue]) = launched(call_ns, latency, 900, kernel_ns);
        let work = GpuWork::new(&trace);
        let found = idle(&work, 0);
        let t = found.rows[0].time;
        assert_eq!(by_queue, 0);
        assert_eq!(t.launch_call_ns + t.launch_latency_ns, by_launch, "{t:?}");
        let verdict = IdleVerdict::of([&found]);
        assert_eq!(verdict.bound, IdleBound::Launch);
        let times = &launches(&work, 0).rows[0].times;
        assert_eq!((times.start_latency.count, times.queue_gap.count), (60, 0));
    }
    // The host is ahead: after the first, every kernel is ready when the one before ends.
    let (trace, [by_launch, by_queue]) = launched(2_000, 4_500, 4_000, 6_000);
    let work = GpuWork::new(&trace);
    let found = idle(&work, 0);
    let t = found.rows[0].time;
    assert_eq!((by_launch, t.launch_latency_ns + t.launch_call_ns), (0, 0));
    assert_eq!(t.kernel_wait_ns, by_queue);
    assert_eq!(IdleVerdict::of([&found]).bound, IdleBound::Gaps);
    assert_eq!(launches(&work, 0).rows[0].times.queue_gap.count, 59);
}

#[test]
fn what_the_host_did_in_a_gap_is_named_only_where_it_is_most_of_it() {
    type Slices<'a> = &'a [(i64, i64, &'a str, &'a str)];
    let cases: [(Slices<'_>, Option<&str>, bool); 5] = [
        // An operator of 4 us in 1 ms: nothing is recorded.
        (&[(0, 4_000, "cpu_op", "aten::mm")], None, true),
        (
            &[(0, 600_000, "python_function", "a.py(1): f")],
            Some("a.py(1): f"),
            false,
        ),
        // None has most of its own, but one covers most.
        (
            &[
                (0, 900_000, "python_function", "a.py(1): f"),
                (1_000, 400_000, "python_function", "a.py(9): g"),
                (450_000, 400_000, "python_function", "a.py(9): h"),
            ],
            Some("a.py(1): f"),
            false,
        ),
        (
            &[
                (0, 400_000, "python_function", "a.py(9): g"),
                (450_000, 400_000, "python_function", "a.py(9): h"),
            ],
            None,
            false,
        ),
        // A wait has its own name.
        (
            &[
                (0, 900_000, "python_function", "a.py(1): f"),
                (
                    1_000,
                    890_000,
                    "python_function",
                    "<built-in function sleep>",
                ),
            ],
            Some("<built-in function sleep> in a.py(1): f"),
            false,
        ),
    ];
    for (host, name, unrecorded) in cases {
        let mut maker = Maker::new();
        let id = |n| [("correlation", Value::Int(n))];
        maker.host((0, 5_000), "cuda_runtime", "cudaLaunchKernel", &id(1));
        maker.kernel(7, (8_000, 2_000), "first", &id(1));
        for (at, ns, category, text) in host {
            maker.host((10_000 + at, *ns), category, text, &[]);
        }
        maker.host(
            (1_010_000, 5_000),
            "cuda_runtime",
            "cudaLaunchKernel",
            &id(2),
        );
        maker.kernel(7, (1_018_000, 2_000), "second", &id(2));
        let trace = maker.finish();
        let found = idle(&GpuWork::new(&trace), 1);
        let gap = &found.gaps[0];
        assert_eq!(
            (gap.host.as_deref(), gap.unrecorded),
            (name, unrecorded),
            "{host:?}"
        );
        let said = answer::host_in_gaps(&[&found], Recorder::Torch).unwrap_or_default();
        assert_eq!(said.contains("with_stack=True"), unrecorded, "{said}");
        let waits = name.is_some_and(|name| name.contains("sleep"));
        assert_eq!(
            said.contains("waited mostly in <built-in function sleep>"),
            waits,
            "{said}"
        );
    }
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
