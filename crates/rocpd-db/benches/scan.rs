//! Scans and summaries of a database of 100 000 dispatches.

use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use rocpd_db::{Dispatch, Filter, OpenOptions, Order, RocpdSet, Summary, SummaryOptions};

fn scans(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let made = rocpd_synth::generate(folder.path(), &rocpd_synth::Shape::large(100_000))
        .expect("a database");
    let bytes = std::fs::metadata(&made[0].path)
        .expect("the database")
        .len();
    let set = RocpdSet::open(&[folder.path()], &OpenOptions::default()).expect("a set");
    let filter = Filter::default();
    let mut group = criterion.benchmark_group("rocpd");
    group.throughput(Throughput::Elements(100_000));
    for (name, order) in [
        ("dispatches", Order::Stored),
        ("dispatches by time", Order::Start),
    ] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let scan = set.scan::<Dispatch<'_>>(&filter, order).expect("a scan");
                scan.map(|record| record.expect("a record").duration_ns())
                    .fold(0, i64::wrapping_add)
            });
        });
    }
    group.throughput(Throughput::Bytes(bytes));
    group.bench_function("summary", |bencher| {
        bencher.iter(|| {
            let summary = Summary::collect(&set, &filter, &SummaryOptions::default());
            black_box(summary.expect("a summary").domains().len())
        });
    });
    group.finish();
}

criterion_group!(benches, scans);
criterion_main!(benches);
