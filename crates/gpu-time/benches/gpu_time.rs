//! Benchmarks the analyses over one million kernels of a trace with two million slices, on one
//! thread.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpu_time::{
    GpuWork, KernelOptions, KernelsBy, Rules, gpu_time, idle, kernels, launches, notes,
};
use trace_model::{
    Arg, FinishOptions, LaneId, Pid, Process, SliceData, Thread, Tid, Trace, TraceBuilder, Track,
    TrackKind,
};

const KERNELS: i64 = 1_000_000;
const STEP: i64 = 1_000;

fn lane(b: &mut TraceBuilder, pid: i64, tid: i64) -> LaneId {
    let process = b.process(Process::new(Pid(pid)));
    let thread = b.thread(Thread::new(Tid(tid), Some(process)));
    let mut track = Track::new(TrackKind::Thread);
    (track.process, track.thread) = (Some(process), Some(thread));
    let track = b.track(track);
    b.lane(Some(track))
}

/// Generates a call and a kernel every microsecond, on two streams, with three hundred names.
fn made() -> Trace {
    let mut b = TraceBuilder::new();
    let host = lane(&mut b, 100, 100);
    let streams = [lane(&mut b, 0, 7), lane(&mut b, 0, 8)];
    let correlation = b.string("args.correlation");
    let (device, stream) = (b.string("args.device"), b.string("args.stream"));
    for i in 0..KERNELS {
        let at = i * STEP;
        let (runtime, name) = (b.string("cuda_runtime"), b.string("cudaLaunchKernel"));
        let call = SliceData {
            name: Some(name),
            category: b.events.category(runtime),
            args: b.events.args(&[Arg::int(correlation, i + 1)]),
        };
        b.events.complete(host, at, 400, call);
        let side = usize::from(i % 5 == 0);
        let name = match side {
            1 => format!("ncclDevKernel_{}", i % 7),
            _ => format!("gemm_{}", i % 293),
        };
        let (category, name) = (b.string("kernel"), b.string(&name));
        let number = i64::from(side == 1) + 7;
        let kernel = SliceData {
            name: Some(name),
            category: b.events.category(category),
            args: b.events.args(&[
                Arg::int(device, 0),
                Arg::int(stream, number),
                Arg::int(correlation, i + 1),
            ]),
        };
        let dur = 500 + i % 400;
        b.events.complete(streams[side], at + 3_000, dur, kernel);
    }
    b.finish(&FinishOptions::default()).expect("fits")
}

fn benches(c: &mut Criterion) {
    let trace = made();
    let mut group = c.benchmark_group("gpu_time");
    group.sample_size(10);
    group.throughput(Throughput::Elements(KERNELS.unsigned_abs()));
    group.bench_function("work", |b| b.iter(|| GpuWork::new(&trace).events().len()));
    let work = GpuWork::new(&trace);
    group.bench_function("account", |b| b.iter(|| gpu_time(&work, Rules::Exact)));
    let time = gpu_time(&work, Rules::Exact);
    group.bench_function("notes", |b| {
        b.iter(|| notes(&work, Rules::Exact, work.events(), &time).len());
    });
    for by in [KernelsBy::Name, KernelsBy::Operator] {
        let mut options = KernelOptions::default();
        options.by = by;
        group.bench_function(format!("kernels by {by:?}"), |b| {
            b.iter(|| kernels(&work, work.events(), &options).groups.len());
        });
    }
    group.bench_function("idle", |b| b.iter(|| idle(&work, 10).rows.len()));
    group.bench_function("launches", |b| b.iter(|| launches(&work, 100).linked));
    group.finish();
}

criterion_group!(all, benches);
criterion_main!(all);
