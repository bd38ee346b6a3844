//! Measures the throughput of compressed sources, compared with the bare inflater and a plain file.
//!
//! The content is 64 MiB of generated Kineto-like JSON with a `gzip -6` ratio of about 6. Real
//! traces compress better (13 to 20), so the rates are conservative.

use std::hint::black_box;
use std::io::{Cursor, Read as _, Write as _};

use byte_source::{ChunkOptions, Source};
use criterion::{Criterion, Throughput, criterion_group, criterion_main};

const BYTES: usize = 64 << 20;

fn content() -> Vec<u8> {
    let mut state = 1_u64;
    let mut out = Vec::with_capacity(BYTES + 512);
    let mut ts = 0;
    let mut event = 0;
    while out.len() < BYTES {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        ts += state >> 55;
        let (dur, stream) = ((state >> 50) & 0xfff, (state >> 40) & 7);
        writeln!(
            out,
            "{{\"ph\": \"X\", \"cat\": \"kernel\", \"name\": \"void gemm_kernel_{stream}<float, 128>\", \
             \"pid\": 0, \"tid\": {stream}, \"ts\": {ts}.{dur:03}, \"dur\": {dur}, \
             \"args\": {{\"External id\": {event}, \"correlation\": {event}, \"stream\": {stream}}}}},",
        )
        .expect("memory takes everything");
        event += 1;
    }
    out.truncate(BYTES);
    out
}

fn drain(source: Source) -> u64 {
    let mut chunks = source
        .into_chunks(ChunkOptions::default())
        .expect("a thread starts");
    let mut sum = 0;
    while let Some(chunk) = chunks.next().expect("the content is sound") {
        sum += u64::from(black_box(chunk.data())[0]);
    }
    sum
}

fn inflate(criterion: &mut Criterion) {
    let content = content();
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    encoder
        .write_all(&content)
        .expect("memory takes everything");
    let gzip = encoder.finish().expect("memory takes everything");
    let zstd = zstd::encode_all(&content[..], 3).expect("memory takes everything");

    let mut group = criterion.benchmark_group("inflate");
    group.sample_size(10);
    group.throughput(Throughput::Bytes(BYTES as u64));
    group.bench_function("bare gzip", |bencher| {
        let mut buffer = vec![0; 1 << 20];
        bencher.iter(|| {
            let mut decoder = flate2::read::MultiGzDecoder::new(Cursor::new(&gzip));
            let mut total = 0;
            loop {
                match decoder.read(&mut buffer).expect("the content is sound") {
                    0 => break total,
                    count => total += count,
                }
            }
        });
    });
    group.bench_function("gzip chunks", |bencher| {
        bencher.iter_batched(
            || Source::from_bytes("t", gzip.clone()).expect("the content is sound"),
            drain,
            criterion::BatchSize::PerIteration,
        );
    });
    group.bench_function("zstd chunks", |bencher| {
        bencher.iter_batched(
            || Source::from_bytes("t", zstd.clone()).expect("the content is sound"),
            drain,
            criterion::BatchSize::PerIteration,
        );
    });
    group.bench_function("plain chunks", |bencher| {
        bencher.iter_batched(
            || Source::from_bytes("t", content.clone()).expect("the content is sound"),
            drain,
            criterion::BatchSize::PerIteration,
        );
    });
    group.finish();
}

criterion_group!(benches, inflate);
criterion_main!(benches);
