//! The analyses of a made recording of 4,000 steps and about half a million slices, one thread.

use std::hint::black_box;
use std::time::Duration;

use byte_source::Source;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rca_cycles::compat::{self, PeriodMethod, Sight};
use rca_cycles::{Options, analyse, compare, reports};
use trace_model::Trace;

#[path = "../../../xtask/src/dataset/faults/model.rs"]
#[expect(dead_code, reason = "the corpus uses more of it")]
mod model;

use model::{Config, make};

fn trace(seed: u64) -> Trace {
    let made = make(Config {
        seed,
        iterations: 4_000,
        prefill_every: 20,
        ..Config::default()
    });
    let source = Source::from_bytes("made.json", made.json.into_bytes()).expect("a source");
    perfetto_reader::read(source, &Default::default()).expect("a trace")
}

fn analyses(criterion: &mut Criterion) {
    let (normal, abnormal) = (trace(1), trace(2));
    let slices = u64::try_from(normal.len()).unwrap_or(0);
    let mut group = criterion.benchmark_group("slices");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5))
        .throughput(Throughput::Elements(slices));
    let options = Options::default();
    group.bench_function("analyse", |bencher| {
        bencher.iter(|| black_box(analyse(&normal, &options).expect("cycles").cycles.len()));
    });
    let found = analyse(&normal, &options).expect("cycles");
    group.bench_function("tables of an analysis", |bencher| {
        bencher.iter(|| black_box(reports(&normal, &found).len()));
    });
    let reference = compat::Options::default();
    group.bench_function("the reference's analysis", |bencher| {
        bencher.iter(|| {
            black_box(
                compat::analyse(&normal, &reference)
                    .expect("cycles")
                    .reports
                    .len(),
            )
        });
    });
    group.bench_function("period of kernels", |bencher| {
        bencher.iter(|| {
            let found = compat::periods(&normal, &reference, PeriodMethod::Cuda, Sight::Full);
            black_box(found.map(|p| p.list.len()))
        });
    });
    let pair = compare::analyse_pair(&normal, &abnormal, &options).expect("cycles");
    group.bench_function("two sides compared", |bencher| {
        let how = compare::Options::default();
        bencher.iter(|| black_box(compare::compare(&pair, &how).culprits.len()));
    });
    group.finish();
}

criterion_group!(benches, analyses);
criterion_main!(benches);
