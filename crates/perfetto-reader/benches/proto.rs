//! Measures reading and writing Perfetto protobuf: an inference step with launches and kernels.
#![allow(
    missing_docs,
    reason = "criterion's macros make undocumented functions"
)]

use byte_source::Source;
use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use perfetto_reader::write::{EventData, TraceWriter, TrackSpec, WriterOptions, write_trace};
use perfetto_reader::{ArgPolicy, ReadOptions, proto};
use trace_model::ArgValue;

/// Returns `steps` steps of 64 launches under two host slices, each with its kernel and a flow.
fn trace(steps: i64) -> Vec<u8> {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).expect("memory");
    let process = w.process(1, Some("server")).expect("memory");
    let host = w.thread(process, 1, 1, Some("scheduler")).expect("memory");
    let mut spec = TrackSpec::default();
    spec.name = Some("GPU 0 stream 7");
    spec.parent = Some(process);
    let stream = w.track(&spec).expect("memory");
    let named = |name, category| EventData {
        name: Some(name),
        category: Some(category),
        ..EventData::default()
    };
    let mut id = 0;
    for step in 0..steps {
        let start = step * 1_000_000;
        let outer = named("forward_batch", "python_function");
        w.complete(host, start, 700_000, &outer).expect("in order");
        for i in 0..64 {
            let at = start + i * 10_000;
            id += 1;
            let args = [("correlation", ArgValue::Int(id))];
            let flow = [id.cast_unsigned()];
            let op = named("aten::mm", "cpu_op");
            w.complete(host, at, 9_000, &op).expect("in order");
            let launch = EventData {
                args: &args,
                flows: &flow,
                ..named("cudaLaunchKernelExC", "cuda_runtime")
            };
            w.complete(host, at + 1_000, 5_000, &launch)
                .expect("in order");
            let kernel = EventData {
                args: &args,
                terminating_flows: &flow,
                ..named("cutlass_gemm", "kernel")
            };
            w.complete(stream, at + 4_000, 9_000, &kernel)
                .expect("in order");
        }
    }
    w.finish().expect("memory")
}

fn read(bytes: Vec<u8>, options: &ReadOptions) -> trace_model::Trace {
    let source = Source::from_bytes("bench", bytes).expect("not empty");
    proto::read(source, options).expect("a good trace")
}

fn bench(c: &mut Criterion) {
    let bytes = trace(1_000);
    let size = Throughput::Bytes(bytes.len() as u64);
    let mut group = c.benchmark_group("proto");
    group.throughput(size).sample_size(20);
    let mut without_args = ReadOptions::default();
    without_args.args = ArgPolicy::None;
    let mut kernels = ReadOptions::default();
    kernels.categories = Some(vec!["kernel".to_owned()]);
    for (name, options) in [
        ("read", ReadOptions::default()),
        ("read without arguments", without_args),
        ("read kernels only", kernels),
    ] {
        group.bench_function(name, |b| {
            b.iter_batched(
                || bytes.clone(),
                |bytes| read(bytes, &options),
                BatchSize::LargeInput,
            );
        });
    }
    let model = read(bytes.clone(), &ReadOptions::default());
    group.bench_function("write", |b| {
        b.iter(|| write_trace(&model, Vec::with_capacity(bytes.len())).expect("memory"));
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
