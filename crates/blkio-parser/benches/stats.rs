//! A made-up log of a million lines, on one thread: everything, and totals only.

use blkio_parser::synth::{Lines, Spec, write};
use blkio_parser::{Stats, StatsOptions, Wanted};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

fn stats(c: &mut Criterion) {
    let mut spec = Spec::default();
    spec.requests = 1_000_000;
    spec.mean_gap_ns = 60_000;
    spec.cache_bytes = 4 << 30;
    let mut text = Vec::new();
    let written = write(&spec, 1, Lines::Issue, &mut text);
    let dir = tempfile::tempdir();
    let (Ok(_), Ok(dir)) = (written, dir) else {
        return;
    };
    let path = dir.path().join("issue.txt");
    if std::fs::write(&path, &text).is_err() {
        return;
    }
    let mut group = c.benchmark_group("five-column");
    group.throughput(Throughput::Bytes(text.len() as u64));
    group.sample_size(10);
    for (name, wanted) in [("traffic", Wanted::TRAFFIC), ("all", Wanted::ALL)] {
        let mut options = StatsOptions::default();
        options.wanted = wanted;
        group.bench_function(name, |b| {
            b.iter(|| Stats::of_files(std::slice::from_ref(&path), &options));
        });
    }
    group.finish();
}

criterion_group!(benches, stats);
criterion_main!(benches);
