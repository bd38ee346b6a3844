//! Benchmarks joining the collectives of many ranks, and comparing two traces.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use gpu_time::GpuWork;
use gpu_time::comm::{CommRules, Job, RankDigest};
use gpu_time::diff::diff;
use trace_model::{
    Arg, FinishOptions, LaneId, Pid, Process, SliceData, Thread, Tid, Trace, TraceBuilder, Track,
    TrackKind,
};

const RANKS: i64 = 16;
const STEPS: i64 = 1_000;

fn lane(b: &mut TraceBuilder, pid: i64, tid: i64) -> LaneId {
    let process = b.process(Process::new(Pid(pid)));
    let thread = b.thread(Thread::new(Tid(tid), Some(process)));
    let mut track = Track::new(TrackKind::Thread);
    (track.process, track.thread) = (Some(process), Some(thread));
    let track = b.track(track);
    b.lane(Some(track))
}

/// Generates steps of a layer: an operator with a product, then an all-reduce that ends on all
/// ranks at the same time; some are missing.
fn made(rank: i64) -> Trace {
    let mut b = TraceBuilder::new();
    let (host, device) = (lane(&mut b, 100, 100), lane(&mut b, 0, 7));
    let correlation = b.string("args.correlation");
    let mut state = 1_u64;
    let mut begin = 1_000_000;
    for step in 0..STEPS {
        // The rhythm is the same for all ranks.
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        begin += 100_000 + i64::try_from(state >> 45).unwrap_or(0) % 20_000;
        let mut add = |lane, at, dur, category: &str, name: &str, id| {
            let category = b.string(category);
            let data = SliceData {
                name: Some(b.string(name)),
                category: b.events.category(category),
                args: b.events.args(&[Arg::int(correlation, id)]),
            };
            b.events.complete(lane, at, dur, data);
        };
        let late = (rank * 37 + step * 101) % 20_000;
        add(host, begin, 60_000, "cpu_op", "aten::mm", 0);
        add(
            host,
            begin + 10,
            20,
            "cuda_runtime",
            "cudaLaunchKernel",
            2 * step + 1,
        );
        add(
            device,
            begin + 100,
            30_000 + late,
            "kernel",
            "gemm",
            2 * step + 1,
        );
        if (step + rank) % 50 == 7 {
            continue;
        }
        add(
            host,
            begin + 100,
            20,
            "cuda_runtime",
            "cudaLaunchKernel",
            2 * step + 2,
        );
        let name = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL()";
        let start = 30_200 + late;
        add(
            device,
            begin + start,
            90_000 - start,
            "kernel",
            name,
            2 * step + 2,
        );
    }
    b.finish(&FinishOptions::default()).expect("it fits")
}

fn ranks(c: &mut Criterion) {
    let traces: Vec<Trace> = (0..RANKS).map(made).collect();
    let digests: Vec<RankDigest> = traces
        .iter()
        .zip(0..)
        .map(|(t, i)| RankDigest::new(&format!("rank{i}"), t, CommRules::Extended))
        .collect();
    let mut group = c.benchmark_group("comm");
    group.sample_size(10);
    group.throughput(Throughput::Elements((RANKS * STEPS).unsigned_abs()));
    group.bench_function("digest_one_rank", |b| {
        b.iter(|| RankDigest::new("rank0", &traces[0], CommRules::Extended));
    });
    group.bench_function("join_by_rhythm", |b| b.iter(|| Job::new(&digests)));
    group.finish();

    let (first, second) = (GpuWork::new(&traces[0]), GpuWork::new(&traces[1]));
    let mut group = c.benchmark_group("diff");
    group.sample_size(10);
    group.throughput(Throughput::Elements((4 * STEPS).unsigned_abs()));
    group.bench_function("two_traces", |b| b.iter(|| diff(&first, &second)));
    group.finish();
}

criterion_group!(benches, ranks);
criterion_main!(benches);
