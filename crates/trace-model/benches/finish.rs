//! Benchmarks sealing a trace: events of a Python-stack-heavy profile, in the order of the readers.
#![allow(
    missing_docs,
    reason = "criterion's macros make undocumented functions"
)]

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use trace_model::{
    ArgsRef, CategoryId, EventOrder, FinishOptions, FlowPoint, FlowRole, FlowSpace, Pid, Process,
    SliceData, Thread, Tid, TraceBuilder, Track, TrackKind,
};

/// Generates `n` complete events on 4 threads, nested 12 deep, out of order in blocks, one flow in
/// ten.
fn events(n: usize) -> TraceBuilder {
    let mut b = TraceBuilder::new();
    let process = b.process(Process::new(Pid(1)));
    let lanes: Vec<_> = (0..4)
        .map(|tid| {
            let thread = b.thread(Thread::new(Tid(tid), Some(process)));
            let track = b.track(Track {
                thread: Some(thread),
                process: Some(process),
                ..Track::new(TrackKind::Thread)
            });
            b.lane(Some(track))
        })
        .collect();
    let names: Vec<_> = (0..500)
        .map(|i| b.events.strings.intern(&format!("module.py({i}): forward")))
        .collect();
    let mut clock = 0_i64;
    let mut pushed = 0;
    while pushed < n {
        let lane = lanes[(pushed / 5_000) % lanes.len()];
        // Inner slices first, as profilers that write at the end of a call do.
        for depth in (0..12_i64).rev() {
            let data = SliceData {
                name: Some(names[(pushed * 7) % names.len()]),
                category: CategoryId::NONE,
                args: ArgsRef::NONE,
            };
            b.events
                .complete(lane, clock + depth * 10, 1_000 - depth * 20, data);
            pushed += 1;
            if pushed % 10 == 0 {
                let point = FlowPoint {
                    id: pushed as u64 / 20,
                    category: None,
                    name: None,
                    space: FlowSpace::Chrome,
                    role: if pushed % 20 == 0 {
                        FlowRole::Start
                    } else {
                        FlowRole::End
                    },
                };
                b.events.flow(lane, clock + depth * 10, point);
            }
        }
        clock += 1_000;
    }
    b
}

fn finish(c: &mut Criterion) {
    let mut group = c.benchmark_group("finish");
    group.sample_size(10);
    let n = 1_000_000;
    group.throughput(Throughput::Elements(n as u64));
    let mut options = FinishOptions::default();
    options.order = EventOrder::Chrome;
    group.bench_function("chrome", |b| {
        b.iter_batched(
            || events(n),
            |t| t.finish(&options).map(|t| t.len()),
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, finish);
criterion_main!(benches);
