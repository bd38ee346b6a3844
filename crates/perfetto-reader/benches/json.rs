//! Measures reading a Kineto-like document in memory: with all arguments, four of them, none; and
//! as a stream, like gzip.

use std::fmt::Write as _;
use std::hint::black_box;

use byte_source::Source;
use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use perfetto_reader::{ArgPolicy, ReadOptions, json};

/// Returns a document of steps: Python frames around an operator, a launch and a kernel, about 250
/// bytes per event.
fn document(steps: usize) -> Vec<u8> {
    let mut out = String::from(r#"{"schemaVersion": 1, "traceEvents": ["#);
    for i in 0..steps {
        let ts = 4_909_913_692_000_u64 + 40 * i as u64;
        for depth in 0..20 {
            // Writing to a String cannot fail.
            let _ = write!(
                out,
                r#"{{"ph": "X", "cat": "python_function", "name": "/workspace/python/srt/layers/module_{}.py({}): forward", "pid": 251, "tid": 251, "ts": {ts}.{depth:03}, "dur": {}.5, "args": {{"Python parent id": {}, "Python id": {}, "Ev Idx": {}}}}}, "#,
                depth * 7 % 11,
                depth * 31,
                38 - depth,
                i * 20 + depth,
                i * 20 + depth + 1,
                i * 23 + depth,
            );
        }
        let _ = write!(
            out,
            r#"{{"ph": "X", "cat": "cuda_runtime", "name": "hipLaunchKernel", "pid": 251, "tid": 251, "ts": {ts}.100, "dur": 4.25, "args": {{"External id": {i}, "cid": 41, "correlation": {i}, "grid": [304, 1, 1], "block": [256, 1, 1], "shared memory": 0}}}}, {{"ph": "s", "id": {i}, "pid": 251, "tid": 251, "ts": {ts}.100, "cat": "ac2g", "name": "ac2g"}}, {{"ph": "X", "cat": "kernel", "name": "void at::native::elementwise_kernel<4, 128>(int)", "pid": 9, "tid": 2, "ts": {ts}.900, "dur": 3.125, "args": {{"External id": {i}, "device": 9, "stream": 2, "correlation": {i}, "kind": "Dispatch Kernel", "grid": [304, 1, 1], "block": [256, 1, 1]}}}}, {{"ph": "f", "id": {i}, "pid": 9, "tid": 2, "ts": {ts}.900, "cat": "ac2g", "name": "ac2g", "bp": "e"}}, "#
        );
    }
    out.truncate(out.len() - 2);
    out.push_str("]}");
    out.into_bytes()
}

fn read(c: &mut Criterion) {
    let document = document(4000);
    let mut group = c.benchmark_group("json");
    group.throughput(Throughput::Bytes(document.len() as u64));
    group.sample_size(10);
    let keys = ["External id", "correlation", "device", "stream"];
    let policies = [
        ("all arguments", ArgPolicy::All),
        (
            "four arguments",
            ArgPolicy::Only(keys.map(str::to_owned).to_vec()),
        ),
        ("no arguments", ArgPolicy::None),
    ];
    for (name, args) in policies {
        let mut options = ReadOptions::default();
        options.args = args;
        options.threads = 1;
        group.bench_function(name, |b| {
            b.iter(|| {
                let source = Source::from_bytes("bench.json", document.clone());
                let trace = json::read(source.expect("not empty"), &options);
                black_box(trace.expect("valid"))
            });
        });
    }
    let options = ReadOptions::default();
    group.bench_function("stream, no limit on threads", |b| {
        b.iter(|| {
            let stream = std::io::Cursor::new(document.clone());
            let source = Source::from_reader("bench.json", stream);
            let trace = json::read(source.expect("not empty"), &options);
            black_box(trace.expect("valid"))
        });
    });
    group.finish();
}

criterion_group!(benches, read);
criterion_main!(benches);
