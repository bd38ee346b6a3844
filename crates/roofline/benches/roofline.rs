//! Benchmarks the analysis over 200,000 kernels of few shapes, beside the grouping of kernels by name, and the join of replays to a
//! capture of 10,000 launches, on one thread.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpu_time::{GpuWork, KernelOptions, kernels};
use roofline::{CallOptions, Knowledge, Options, analyse};
use trace_model::{
    Arg, ArgsRef, FinishOptions, LaneId, Pid, Process, SliceData, Thread, Tid, Trace, TraceBuilder,
    Track, TrackKind,
};

const KERNELS: i64 = 200_000;
const NODES: i64 = 10_000;
const STEP: i64 = 1_000;

fn lane(b: &mut TraceBuilder, pid: i64, tid: i64) -> LaneId {
    let process = b.process(Process::new(Pid(pid)));
    let thread = b.thread(Thread::new(Tid(tid), Some(process)));
    let mut track = Track::new(TrackKind::Thread);
    (track.process, track.thread) = (Some(process), Some(thread));
    let track = b.track(track);
    b.lane(Some(track))
}

fn data(b: &mut TraceBuilder, category: &str, name: &str, args: ArgsRef) -> SliceData {
    let category = b.string(category);
    SliceData {
        name: Some(b.string(name)),
        category: b.events.category(category),
        args,
    }
}

/// The arguments of a product with one of a few numbers of rows.
fn product(b: &mut TraceBuilder, at: i64) -> ArgsRef {
    let rows = 1 << (at % 7);
    let dims = b.string(&format!("[[{rows}, 4096], [4096, 4096]]"));
    let types = b.string(r#"["c10::BFloat16", "c10::BFloat16"]"#);
    let keys = (b.string("args.Input Dims"), b.string("args.Input type"));
    b.events
        .args(&[Arg::json(keys.0, dims), Arg::json(keys.1, types)])
}

/// Operators with one kernel each, one after the other.
fn eager() -> Trace {
    let mut b = TraceBuilder::new();
    let (host, device) = (lane(&mut b, 100, 100), lane(&mut b, 0, 7));
    let correlation = b.string("args.correlation");
    for i in 0..KERNELS {
        let at = i * STEP;
        let args = product(&mut b, i);
        let op = data(&mut b, "cpu_op", "aten::mm", args);
        b.events.complete(host, at, 900, op);
        let args = b.events.args(&[Arg::int(correlation, i + 1)]);
        let call = data(&mut b, "cuda_runtime", "cudaLaunchKernel", args);
        b.events.complete(host, at + 100, 300, call);
        let args = b.events.args(&[Arg::int(correlation, i + 1)]);
        let kernel = data(&mut b, "kernel", &format!("gemm_{}", i % 7), args);
        b.events.complete(device, at + 3_000, 500, kernel);
    }
    b.finish(&FinishOptions::default()).expect("fits")
}

/// One replay of a graph, or its capture.
fn graph(is_capture: bool) -> Trace {
    let mut b = TraceBuilder::new();
    let (host, device) = (lane(&mut b, 100, 100), lane(&mut b, 0, 7));
    let (correlation, stated) = (b.string("args.correlation"), b.string("args.kernel"));
    let (first, last) = match is_capture {
        true => ("hipStreamBeginCapture", "hipStreamEndCapture"),
        false => ("hipGraphLaunch", "hipStreamSynchronize"),
    };
    let args = b.events.args(&[Arg::int(correlation, 1)]);
    let call = data(&mut b, "cuda_runtime", first, args);
    b.events.complete(host, 0, 100, call);
    for i in 0..NODES {
        let at = (i + 1) * STEP;
        let name = format!("gemm_{}", i % 293);
        if is_capture {
            let args = product(&mut b, i);
            let op = data(&mut b, "cpu_op", "aten::mm", args);
            b.events.complete(host, at, 900, op);
            let name = b.string(&name);
            let args = b.events.args(&[Arg::text(stated, name)]);
            let call = data(&mut b, "cuda_runtime", "hipLaunchKernel", args);
            b.events.complete(host, at + 100, 300, call);
        } else {
            let args = b.events.args(&[Arg::int(correlation, 1)]);
            let kernel = data(&mut b, "kernel", &name, args);
            b.events.complete(device, at, 500, kernel);
        }
    }
    let call = data(&mut b, "cuda_runtime", last, ArgsRef::NONE);
    b.events.complete(host, (NODES + 1) * STEP, 100, call);
    b.finish(&FinishOptions::default()).expect("fits")
}

fn benches(c: &mut Criterion) {
    let knowledge = Knowledge::default();
    let mut options = Options::new(CallOptions::new(&knowledge));
    options.devices.key = Some("h200".to_owned());
    let mut group = c.benchmark_group("roofline");
    group.sample_size(10);
    let trace = eager();
    group.throughput(Throughput::Elements(KERNELS.unsigned_abs()));
    group.bench_function("kernels by name", |b| {
        b.iter(|| {
            let work = GpuWork::new(&trace);
            kernels(&work, work.events(), &KernelOptions::default())
                .groups
                .len()
        });
    });
    group.bench_function("calls, rows and sums", |b| {
        b.iter(|| {
            let work = GpuWork::new(&trace);
            let found = analyse(&work, &[], &options, |_| true);
            found.expect("the device is known").calls.rows.len()
        });
    });
    let (replay, capture) = (graph(false), graph(true));
    let (work, capture) = (GpuWork::new(&replay), GpuWork::new(&capture));
    group.throughput(Throughput::Elements(NODES.unsigned_abs()));
    group.bench_function("join of a capture", |b| {
        b.iter(|| {
            let found = analyse(&work, &[&capture], &options, |_| true);
            let found = found.expect("the device is known");
            assert_eq!(found.list.captures.matched, 1);
            found.calls.rows.len()
        });
    });
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
