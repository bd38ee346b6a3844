//! What bounds a step is who waits for whom, not what takes most of it.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use critical_path::Group;
use rca_cycles::{Kind, Options, StepPaths, analyse, bottlenecks};
use trace_model::kernel::KernelClass;

/// Steps of 20 operators of 100 us that launch a kernel each; a stream runs one kernel at a time.
fn verdict(kernel_us: u32) -> (Option<Group>, Vec<Option<Group>>) {
    let mut events = Vec::new();
    let (mut at, mut free, mut id) = (1_000, 0, 0);
    for step in 0..20 {
        let start = at;
        for _ in 0..20 {
            id += 1;
            free = free.max(at + 15);
            events.push(format!(
                r#"{{"name":"aten::mm","cat":"cpu_op","ph":"X","pid":1,"tid":1,"ts":{at},"dur":99}},
                {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"correlation":{id}}}}},
                {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{free},"dur":{kernel_us},"args":{{"correlation":{id},"device":0}}}}"#,
                at + 5
            ));
            free += kernel_us;
            at += 100;
        }
        // The tokens of the step are read at its end.
        let wait = free.max(at) - at + 5;
        events.push(format!(
            r#"{{"name":"cudaStreamSynchronize","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{at},"dur":{wait}}},
            {{"name":"step[DECODE bs={step}]","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{start},"dur":{}}}"#,
            at + wait - start
        ));
        at += wait + 1;
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("eager.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let analysis = analyse(&trace, &Options::default()).unwrap();
    let paths = StepPaths::new(&trace, &analysis);
    let found = bottlenecks(&analysis, &paths)[0].verdict;
    let cycles = 0..analysis.cycles.len();
    let bounds = cycles.map(|at| paths.of_cycle(at).and_then(|step| step.groups.largest()));
    (found, bounds.collect())
}

#[test]
fn kernels_that_wait_for_their_launch_do_not_bound_the_step() {
    // The GPU works for most of the step in each case.
    for (kernel_us, want) in [(60, Group::Launch), (80, Group::Launch), (130, Group::Gpu)] {
        let (found, cycles) = verdict(kernel_us);
        assert_eq!(found, Some(want), "{kernel_us}");
        let like = cycles.iter().filter(|c| **c == Some(want)).count();
        assert!(like >= 18, "{kernel_us}: {cycles:?}");
    }
}

#[test]
fn operators_say_what_kernels_of_unknown_names_do() {
    let mut events = Vec::new();
    for step in 0..10 {
        let at = 1_000 + step * 1_000;
        events.push(format!(
            r#"{{"name":"step[DECODE bs=4]","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{at},"dur":900}}"#
        ));
        for (i, (op, kernel)) in [
            ("c10d::allreduce_", "quick_ring_v2"),
            ("aten::mm", "mystery_k1"),
        ]
        .into_iter()
        .enumerate()
        {
            let (id, at) = (step * 2 + i + 1, at + 100 + 400 * i);
            events.push(format!(
                r#"{{"name":"{op}","cat":"cpu_op","ph":"X","pid":1,"tid":1,"ts":{at},"dur":50}},
                {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"correlation":{id}}}}},
                {{"name":"{kernel}","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":300,"args":{{"correlation":{id},"device":0}}}}"#,
                at + 5,
                at + 20
            ));
        }
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("ops.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let analysis = analyse(&trace, &Options::default()).unwrap();
    let of = |name: &str| {
        let found = analysis.functions.iter().find(|f| f.name == name).unwrap();
        (found.kind, found.class)
    };
    assert_eq!(of("quick_ring_v2").0, Kind::Communication);
    assert_eq!(of("mystery_k1"), (Kind::Compute, Some(KernelClass::Gemm)));
    let paths = StepPaths::new(&trace, &analysis);
    let classes = &bottlenecks(&analysis, &paths)[0].classes;
    let names: Vec<&str> = classes.iter().map(|c| c.0.as_str()).collect();
    assert_eq!(names, ["collective", "gemm"]);
}

/// 48 steps of 10 ms, 4 of which take 25 ms longer, within the function of this name, or within none.
fn with_pauses(name: Option<&str>) -> (rca_cycles::Analysis, StepPaths) {
    let mut events = Vec::new();
    let mut at = 1_000;
    for step in 0..48 {
        let pause = if step % 12 == 5 { 25_000 } else { 0 };
        let id = step + 1;
        events.push(format!(
            r#"{{"name":"step[DECODE bs=4]","cat":"user_annotation","ph":"X","pid":1,"tid":1,"ts":{at},"dur":{}}},
            {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":1,"ts":{},"dur":5,"args":{{"correlation":{id}}}}},
            {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":{},"args":{{"correlation":{id},"device":0}}}}"#,
            9_900 + pause,
            at + 10,
            at + 20,
            8_000 + step * 7 % 40
        ));
        if let Some(name) = name.filter(|_| pause > 0) {
            events.push(format!(
                r#"{{"name":"{name}","cat":"cpu_op","ph":"X","pid":1,"tid":1,"ts":{},"dur":{pause}}}"#,
                at + 9_000
            ));
        }
        at += 10_000 + pause;
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("pauses.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let analysis = analyse(&trace, &Options::default()).unwrap();
    let paths = StepPaths::new(&trace, &analysis);
    (analysis, paths)
}

#[test]
fn few_slow_steps_are_stalls_with_or_without_a_recorded_cause() {
    for name in [Some("gc_collect"), None] {
        let (analysis, paths) = with_pauses(name);
        let found = bottlenecks(&analysis, &paths).remove(0).stalls.unwrap();
        assert_eq!(found.cycles, [5, 17, 29, 41]);
        assert!((found.excess_ns - 25_000_000).abs() < 300_000, "{found:?}");
        let called = found.function.map(|i| analysis.functions[i].name.as_str());
        assert_eq!(called, name);
    }
}

/// Steps that wait for something else than the device between their marks.
fn waiting(outer: &str, inner: &str) -> (rca_cycles::Analysis, StepPaths) {
    let mut events = Vec::new();
    for step in 0..20 {
        let (at, id) = (1_000 + step * 1_000, step + 1);
        for (cat, name, from, dur) in [
            (
                "user_annotation",
                "execute_context_0(0)_generation_8(8)",
                at,
                100,
            ),
            ("cuda_runtime", "cudaLaunchKernel", at + 10, 5),
            ("cuda_runtime", "cudaDeviceSynchronize", at + 20, 70),
            ("python_function", outer, at + 110, 880),
            ("python_function", inner, at + 115, 870),
        ] {
            events.push(format!(
                r#"{{"name":"{name}","cat":"{cat}","ph":"X","pid":1,"tid":1,"ts":{from},"dur":{dur},"args":{{"correlation":{id}}}}}"#
            ));
        }
        events.push(format!(
            r#"{{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":60,"args":{{"correlation":{id},"device":0,"stream":7}}}}"#,
            at + 20
        ));
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("waits.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let analysis = analyse(&trace, &Options::default()).unwrap();
    let paths = StepPaths::new(&trace, &analysis);
    (analysis, paths)
}

#[test]
fn steps_that_wait_for_requests_or_data_are_not_bound_by_the_host() {
    for (outer, inner, want) in [
        (
            "core.py(700): _process_input_queue",
            "<built-in method get of _queue.SimpleQueue object at 0x7f>",
            Group::Wait,
        ),
        (
            "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__",
            "<built-in method poll of select.poll object at 0x7f>",
            Group::Input,
        ),
        (
            "scheduler.py(1): schedule",
            "batch.py(1): prepare",
            Group::Host,
        ),
    ] {
        let (analysis, paths) = waiting(outer, inner);
        let found = &bottlenecks(&analysis, &paths)[0];
        assert_eq!(found.verdict, Some(want), "{found:#?}");
        // One period is waited, from the second step on.
        for step in (1..20).filter_map(|at| paths.of_cycle(at)) {
            assert_eq!(step.duration_ns, 1_000_000);
            assert!(step.groups.of(want) >= 870_000, "{step:?}");
        }
    }
}
