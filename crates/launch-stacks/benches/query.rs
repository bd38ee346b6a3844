//! Measures the whole query over two million slices on one thread: the budget is 50 ms.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use launch_stacks::{KernelSelector, Linking, NameMatch, Pick, Query, WindowChoice, analyse};
use trace_model::{
    Arg, FinishOptions, FlowPoint, FlowRole, FlowSpace, LaneId, Pid, Process, SliceData, Thread,
    Tid, Trace, TraceBuilder, Track, TrackKind,
};

/// Number of slices per launch: four layers of Python, an operator, the call and the kernel, and
/// occasionally a call that launches nothing.
const PER_LAUNCH: i64 = 8;
const LAUNCHES: i64 = 250_000;
const STEP: i64 = 1_000;

fn lane(b: &mut TraceBuilder, pid: i64, tid: i64) -> LaneId {
    let process = b.process(Process::new(Pid(pid)));
    let thread = b.thread(Thread::new(Tid(tid), Some(process)));
    let mut track = Track::new(TrackKind::Thread);
    (track.process, track.thread) = (Some(process), Some(thread));
    let track = b.track(track);
    b.lane(Some(track))
}

fn made() -> Trace {
    let mut b = TraceBuilder::new();
    let (host, device) = (lane(&mut b, 100, 100), lane(&mut b, 0, 7));
    let correlation = b.string("args.correlation");
    let data = |b: &mut TraceBuilder, category: &str, name: &str, id: i64| {
        let category = b.string(category);
        SliceData {
            name: Some(b.string(name)),
            category: b.events.category(category),
            args: match id {
                0 => trace_model::ArgsRef::NONE,
                id => b.events.args(&[Arg::int(correlation, id)]),
            },
        }
    };
    for i in 0..LAUNCHES {
        let at = i * STEP;
        for depth in 0..4 {
            let name = format!("model.py({depth}): layer_{}", i % (40 + depth));
            let function = data(&mut b, "python_function", &name, 0);
            b.events
                .complete(host, at + depth, 900 - 2 * depth, function);
        }
        let op = data(&mut b, "cpu_op", "aten::mm", 0);
        b.events.complete(host, at + 10, 500, op);
        let call = data(&mut b, "cuda_runtime", "cudaLaunchKernel", i + 1);
        let flow = |role| FlowPoint {
            id: u64::try_from(i).unwrap_or(0),
            category: None,
            name: None,
            space: FlowSpace::Chrome,
            role,
        };
        b.events.complete(host, at + 20, 100, call);
        b.events.attach_flow(flow(FlowRole::Start));
        let other = data(&mut b, "cuda_runtime", "cudaEventQuery", LAUNCHES + i + 1);
        b.events.complete(host, at + 200, 100, other);
        let kernel = if i % 10 == 0 {
            "ncclDevKernel_AllReduce"
        } else {
            "gemm"
        };
        let kernel = data(&mut b, "kernel", kernel, i + 1);
        b.events.complete(device, at + 5_000, 950, kernel);
        b.events.attach_flow(flow(FlowRole::End));
    }
    b.finish(&FinishOptions::default()).expect("it fits")
}

fn queries(c: &mut Criterion) {
    let trace = made();
    let mut group = c.benchmark_group("query");
    group.throughput(Throughput::Elements((LAUNCHES * PER_LAUNCH).unsigned_abs()));
    group.sample_size(20);

    let mut collectives = Query::default();
    collectives.kernels = KernelSelector::collectives();
    collectives.stacks.extend = true;
    collectives.measure = true;
    group.bench_function("collectives_measured", |b| {
        b.iter(|| analyse(&trace, &collectives, &[]));
    });

    let mut window = collectives.clone();
    window.kernels = KernelSelector::from(NameMatch::glob("*"));
    window.windows = WindowChoice::Function(NameMatch::function("%layer_1"), Pick::First);
    group.bench_function("all_kernels_of_one_window", |b| {
        b.iter(|| analyse(&trace, &window, &[]));
    });

    let mut compat = Query::default();
    compat.kernels = KernelSelector::exact("ncclDevKernel_AllReduce");
    compat.linking = Linking::Flows;
    group.bench_function("compat", |b| b.iter(|| analyse(&trace, &compat, &[])));
    group.finish();
}

criterion_group!(benches, queries);
criterion_main!(benches);
