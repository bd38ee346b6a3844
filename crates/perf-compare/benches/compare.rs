//! A pair of 2 x 3,800 rows: the published comparison, and the default one with 9,999 permutations.

#![expect(
    dead_code,
    reason = "the example that shares the simulator uses all of it"
)]

use std::fs;
use std::hint::black_box;
use std::time::Duration;

use criterion::{Criterion, criterion_group, criterion_main};
use perf_compare::{LoadOptions, Options, compare, compat, load};

#[path = "../examples/calibrate/simulate.rs"]
mod simulate;

use simulate::World;

fn pairs(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let case = folder.path().join("case");
    let healthy = World {
        cycles: 61,
        ranks: 2,
        ..World::default()
    };
    let slow = World {
        kernel: |_, name| if name == "gemm_b" { 1.2 } else { 1.0 },
        ..healthy.clone()
    };
    for (side, world, seed) in [("normal", &healthy, 1), ("abnormal", &slow, 2)] {
        let to = case.join(format!("{side}_perf_data"));
        fs::create_dir_all(&to).expect("a folder");
        let (perf, counters) = world.files(seed);
        fs::write(to.join("result_perf_data.csv"), perf).expect("a file");
        fs::write(to.join("result_counters_data.csv"), counters).expect("a file");
    }
    let mut group = criterion.benchmark_group("pair of 2 x 3800 rows");
    group
        .sample_size(10)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    group.bench_function("compat", |bencher| {
        let out = folder.path().join("out");
        bencher.iter(|| {
            let done = compat::run(
                std::slice::from_ref(&case),
                &out,
                &compat::Options::default(),
            );
            black_box(done.expect("results").pairs)
        });
    });
    group.bench_function("default", |bencher| {
        bencher.iter(|| {
            let side = |name| load(&case.join(name), &LoadOptions::default()).expect("a side");
            let (a, b) = (side("normal_perf_data"), side("abnormal_perf_data"));
            black_box(compare(&a, &b, &Options::default()).findings.len())
        });
    });
    group.finish();
}

criterion_group!(benches, pairs);
criterion_main!(benches);
