//! Tests of small recordings with known answers.

use std::path::Path;

use byte_source::Source;
use gpu_time::{
    GpuWork, IdleCause, IdleScope, KernelOptions, KernelsBy, LaunchKind, Roles, Rules, Selection,
    Split, StepRule, gpu_time, granularity_ns, idle, kernels, launches, memory, notes, split,
    steps,
};
use perfetto_reader::ReadOptions;
use trace_model::Trace;

fn read(text: &str) -> Trace {
    let source = Source::from_bytes("made.json", text.as_bytes().to_vec()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

fn slice(cat: &str, name: &str, tid: i64, (ts, dur): (f64, f64), args: &str) -> String {
    let pid = if cat.starts_with("gpu_m") || cat == "kernel" {
        0
    } else {
        9
    };
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn kernel(name: &str, at: (f64, f64), id: i64) -> String {
    let args = format!(r#""device":0,"stream":7,"correlation":{id}"#);
    slice("kernel", name, 7, at, &args)
}

fn call(name: &str, at: (f64, f64), id: i64) -> String {
    slice(
        "cuda_runtime",
        name,
        1,
        at,
        &format!(r#""correlation":{id}"#),
    )
}

fn json(events: &[String]) -> String {
    format!("[{}]", events.join(","))
}

/// Builds five kernels with four gaps, one for every cause.
fn gaps() -> Trace {
    read(&json(&[
        call("cudaLaunchKernel", (0.0, 5.0), 1),
        call("cudaStreamSynchronize", (6.0, 16.0), 90),
        call("cudaLaunchKernel", (30.0, 4.0), 2),
        call("cudaLaunchKernel", (34.5, 1.5), 3),
        call("cudaLaunchKernel", (58.0, 8.0), 5),
        kernel("k1", (10.0, 10.0), 1),
        kernel("k2", (37.0, 8.0), 2),
        kernel("k3", (47.0, 3.0), 3),
        kernel("k4", (60.0, 2.0), 77),
        kernel("k5", (70.0, 1.0), 5),
    ]))
}

#[test]
fn every_cause_of_idle_time_is_told_from_the_others() {
    let trace = gaps();
    let found = idle(&GpuWork::new(&trace), 2);
    assert_eq!(found.rows.len(), 3);
    for row in &found.rows {
        let t = row.time;
        assert_eq!((row.span_ns, row.busy_ns), (61_000, 24_000));
        assert_eq!((t.gaps, t.idle_ns), (4, 37_000));
        // 20..37: waits until 22, calls at 30; 45..47 was called at 34.5; 50..60 has no call;
        // 62..70 was being called from 58 to 66.
        assert_eq!(t.synchronisation_ns, 2_000);
        assert_eq!(t.host_wait_ns, 8_000);
        // The last call returned after the device ran dry.
        assert_eq!(
            t.launch_call_ns + t.launch_latency_ns,
            7_000 + 4_000 + 4_000
        );
        assert!(t.launch_call_ns >= 4_000, "{t:?}");
        assert_eq!(t.kernel_wait_ns, 2_000);
        assert_eq!(t.blocked_ns, 0);
        assert_eq!(t.other_ns, 10_000);
    }
    assert_eq!(found.rows[2].scope, IdleScope::Stream);
    let longest: Vec<_> = found
        .gaps
        .iter()
        .map(|g| (g.before.as_str(), g.after.as_str(), g.cause()))
        .collect();
    assert_eq!(
        longest,
        [
            ("k1", "k2", IdleCause::HostWait),
            ("k3", "k4", IdleCause::Other)
        ]
    );
}

#[test]
fn the_way_to_the_device_is_divided() {
    let trace = gaps();
    let found = launches(&GpuWork::new(&trace), 0);
    assert_eq!(
        (found.linked, found.unlinked, found.unlinked_ns),
        (4, 1, 2_000)
    );
    let all = &found.rows[0];
    assert_eq!((all.kind, all.stream), (LaunchKind::All, None));
    // Latencies 10, 7, 12.5 and 12; k3 waits behind k2 from 36 to 45.
    assert_eq!(all.times.latency.sum_ns, 41_500);
    assert_eq!(all.times.in_call.sum_ns, 5_000 + 4_000 + 1_500 + 8_000);
    assert_eq!(all.times.queued.sum_ns, 9_000);
    assert_eq!(all.times.dispatch.sum_ns, 5_000 + 3_000 + 2_000 + 4_000);
    assert_eq!(all.times.negative, 0);
    let depth = found.depth[0];
    assert_eq!((depth.max, depth.span_ns), (2, 70_000));
    assert!((depth.mean - 41.5 / 70.0).abs() < 1e-12);
    // The queue is empty in 10..30 and 47..58.
    assert!((depth.empty_pct - 100.0 * 31.0 / 70.0).abs() < 1e-9);
}

#[test]
fn steps_own_what_they_launched_or_what_ran_in_them() {
    let step = |n: i64, at| slice("user_annotation", &format!("ProfilerStep#{n}"), 1, at, "");
    let trace = read(&json(&[
        step(0, (0.0, 20.0)),
        step(1, (20.0, 20.0)),
        call("cudaLaunchKernel", (1.0, 1.0), 1),
        call("cudaLaunchKernel", (18.0, 1.0), 2),
        call("cudaLaunchKernel", (25.0, 1.0), 3),
        kernel("a", (5.0, 5.0), 1),
        kernel("b", (19.0, 6.0), 2),
        kernel("c", (30.0, 4.0), 3),
        kernel("late", (90.0, 1.0), 8),
    ]));
    let work = GpuWork::new(&trace);
    let mut roles = Roles::new(&work, Rules::Exact);
    let mut how = Split::default();
    how.steps = Some(steps(&work, None));
    let busy = |parts: Vec<gpu_time::Part>| -> Vec<(Option<usize>, u64, i64)> {
        let row = |p: &gpu_time::Part| (p.step, p.time.gpu_events, p.time.busy_ns);
        parts.iter().map(row).collect()
    };
    let by_launch = busy(split(&work, &mut roles, work.events(), &how));
    let want = [(Some(0), 2, 11_000), (Some(1), 1, 4_000), (None, 1, 1_000)];
    assert_eq!(by_launch, want);
    how.step_rule = StepRule::Time;
    let by_time = busy(split(&work, &mut roles, work.events(), &how));
    let want = [(Some(0), 2, 6_000), (Some(1), 2, 9_000), (None, 1, 1_000)];
    assert_eq!(by_time, want);
}

#[test]
fn operators_and_modules_are_those_around_the_launch() {
    let python = |name: &str, at| slice("python_function", name, 1, at, "");
    let trace = read(&json(&[
        python("serve.py(3): main", (0.0, 100.0)),
        python("nn.Module: Decoder_12", (1.0, 50.0)),
        python("nn.Module: Mlp_3", (2.0, 20.0)),
        slice("cpu_op", "aten::linear", 1, (3.0, 10.0), ""),
        slice("cpu_op", "aten::mm", 1, (4.0, 8.0), ""),
        call("cudaLaunchKernel", (5.0, 1.0), 1),
        call("cudaGraphLaunch", (60.0, 1.0), 2),
        kernel("gemm", (30.0, 4.0), 1),
        kernel("x", (70.0, 3.0), 2),
        kernel("y", (75.0, 2.0), 2),
        kernel("z", (80.0, 1.0), 9),
    ]));
    let work = GpuWork::new(&trace);
    let names = |by, numbered| -> Vec<(String, i64)> {
        let mut options = KernelOptions::default();
        (options.by, options.numbered) = (by, numbered);
        let found = kernels(&work, work.events(), &options);
        assert_eq!(found.unlinked, Some(1));
        let row = |g: gpu_time::KernelGroup| (g.name, g.spread.sum_ns);
        found.groups.into_iter().map(row).collect()
    };
    let want = |list: &[(&str, i64)]| -> Vec<(String, i64)> {
        list.iter().map(|(n, t)| ((*n).to_owned(), *t)).collect()
    };
    assert_eq!(
        names(KernelsBy::Operator, false),
        want(&[
            ("cudaGraphLaunch", 5_000),
            ("aten::mm", 4_000),
            (gpu_time::NO_LAUNCH, 1_000)
        ])
    );
    assert_eq!(
        names(KernelsBy::Module, false),
        want(&[
            ("serve.py(3): main", 5_000),
            ("Decoder/Mlp", 4_000),
            (gpu_time::NO_LAUNCH, 1_000)
        ])
    );
    assert_eq!(names(KernelsBy::Module, true)[1].0, "Decoder_12/Mlp_3");
}

#[test]
fn allocations_are_followed() {
    let event = |ts: i64, total: i64, bytes: i64, reserved: i64| {
        format!(
            r#"{{"ph":"i","s":"t","cat":"cpu_instant_event","name":"[memory]","pid":9,"tid":1,"ts":{ts},"args":{{"Total Reserved":{reserved},"Total Allocated":{total},"Bytes":{bytes},"Addr":5,"Device Id":0,"Device Type":1}}}}"#
        )
    };
    let trace = read(&json(&[
        event(10, 100, 100, 512),
        event(20, 400, 300, 512),
        event(30, 300, -100, 512),
        event(40, 400, 100, 1024),
        event(50, 50, -350, 1024),
        r#"{"ph":"C","name":"KV cache memory","pid":9,"ts":15,"args":{"bytes":7}}"#.to_owned(),
    ]));
    let found = memory(&trace, 2);
    let row = &found.rows[0];
    assert_eq!((row.what.as_str(), row.device), ("cuda", Some(0)));
    assert_eq!((row.allocations, row.releases), (3, 2));
    assert_eq!((row.allocated_bytes, row.released_bytes), (500, 450));
    assert_eq!((row.peak_bytes, row.peak_at_ns), (400, 20_000));
    assert_eq!((row.last_bytes, row.first_bytes), (50, 100));
    assert_eq!(row.peak_reserved_bytes, Some(1024));
    let course: Vec<_> = found
        .series
        .iter()
        .map(|p| (p.peak_bytes, p.last_bytes))
        .collect();
    assert_eq!(course[..2], [(400, 400), (400, 50)]);
    assert_eq!((found.rows[1].peak_bytes, found.rows.len()), (7, 2));
}

#[test]
fn remarks_say_what_is_missing() {
    let trace = read(&json(&[
        call("cudaLaunchKernel", (0.0, 1.0), 1),
        kernel("a", (5.0, 5.0), 1),
        kernel("multimem_all_reduce_kernel", (20.0, 10.0), 2),
        kernel("zero", (40.0, 0.0), 3),
        kernel("negative", (50.0, -1.0), 4),
    ]));
    let work = GpuWork::new(&trace);
    let time = gpu_time(&work, Rules::Exact);
    let found = notes(&work, Rules::Exact, work.events(), &time);
    let of = |code: &str| {
        let note = found.iter().find(|n| n.code == code);
        note.map(|n| (n.count, n.ns))
    };
    assert_eq!(of("counted"), Some((Some(3), None)));
    assert_eq!(of("unlinked"), Some((Some(2), Some(10_000))));
    assert_eq!(of("zero_duration"), Some((Some(1), None)));
    assert_eq!(of("custom_collectives"), Some((Some(1), Some(10_000))));
    assert_eq!(of("slice_negative_duration"), Some((Some(1), None)));
    assert_eq!(of("clock"), Some((None, Some(5_000))));
    assert_eq!(granularity_ns(work.events()), Some(5_000));
    let extended = gpu_time(&work, Rules::Extended);
    assert_eq!((time.comm_ns, extended.comm_ns), (0, 10_000));
}

#[test]
fn a_trace_without_device_work_has_an_account_of_nothing() {
    let trace = read(&json(&[call("cudaMalloc", (0.0, 5.0), 1)]));
    let work = GpuWork::new(&trace);
    assert_eq!(gpu_time(&work, Rules::Exact), gpu_time::GpuTime::default());
    assert!(idle(&work, 5).rows.is_empty());
    assert_eq!(trace.meta().events, 1);
}

/// Checks that the recordings of the demonstration hold the planted faults.
#[test]
fn the_demonstration_holds_what_was_planted() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/demo");
    for rank in 0..2 {
        let source = folder.join(format!("demo-rank{rank}.json.gz"));
        let source = Source::open(&source, &Default::default()).unwrap();
        let trace = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
        let truth = folder.join(format!("demo-rank{rank}.truth.json"));
        let truth: serde_json::Value =
            serde_json::from_slice(&std::fs::read(truth).unwrap()).unwrap();
        let work = GpuWork::new(&trace);
        assert_eq!(work.selection(), Selection::Category);
        let time = gpu_time(&work, Rules::Extended);
        let counts = &truth["counts"];
        assert_eq!(time.kernels, counts["kernels"]);
        assert_eq!(time.memcpy, counts["copies"]);
        assert_eq!(trace.meta().events, counts["events"]);
        let device = &truth["devices"][0];
        assert_eq!(time.comm_ns, device["collective_union_ns"]);
        let found = kernels(&work, work.events(), &KernelOptions::default());
        let planted = truth["kernels"].as_array().unwrap();
        assert!(planted.len() > 5);
        for kernel in planted {
            let group = found
                .groups
                .iter()
                .find(|g| g.name == kernel["name"])
                .unwrap();
            assert_eq!(group.spread.count, kernel["count"]);
            assert_eq!(group.spread.sum_ns, kernel["gpu_ns"]);
        }
        let launched = launches(&work, 0);
        let kernels_unlinked = work
            .events()
            .iter()
            .filter(|e| e.kind == gpu_time::WorkKind::Kernel && work.launch_of(e).is_none());
        assert_eq!(kernels_unlinked.count() as u64, truth["links"]["unlinked"]);
        assert!(launched.linked > 1000);
    }
}

#[test]
fn other_producers_are_known_by_their_categories() {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perfetto/rocprof.pftrace");
    let source = Source::open(&path, &Default::default()).unwrap();
    let trace = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
    let work = GpuWork::new(&trace);
    let time = gpu_time(&work, Rules::Exact);
    assert_eq!(work.selection(), Selection::Vocabulary);
    assert_eq!((time.kernels, time.memcpy, time.comm_kernels), (6, 1, 3));
    assert_eq!((time.span_ns, time.busy_ns), (101_000, 55_000));
}
