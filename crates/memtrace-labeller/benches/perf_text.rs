//! Lines as `cargo xtask dataset memtrace` makes them, on one thread: each grammar, and labelling what it gave.

use std::fmt::Write as _;
use std::hint::black_box;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use memtrace_labeller::perf_text::{Grammar, parse_line};
use memtrace_labeller::{InputOptions, LabelOptions, Labeller, Names, RowStream};

const LINES: u64 = 100_000;

fn text() -> String {
    let mut text = String::new();
    for at in 0..LINES {
        let (event, base, symbol) = match at % 5 {
            0 => ("cpu/mem-stores/P", 0x7f5c_4000_0000_u64, "llama_kv_store"),
            1 => (
                "cpu/mem-loads,ldlat=20/P",
                0x7f5c_4000_0000,
                "kv_read_block",
            ),
            _ => (
                "cpu/mem-loads,ldlat=20/P",
                0x7f3a_0000_0000,
                "ggml_vec_dot_q4_K_q8_K",
            ),
        };
        let address = base + at.wrapping_mul(0x9e37_79b9) % (1 << 28);
        // Writing to memory does not fail.
        let _ = writeln!(
            text,
            "       llama-cli    4242 [{:03}] {:>6}.{:09}: {event}: {address:>16x} {symbol}+0x10 (/usr/lib/libggml.so)",
            at & 3,
            100 + at / 100_000,
            at % 100_000 * 10_000
        );
    }
    text
}

fn lines(c: &mut Criterion) {
    let text = text();
    let mut group = c.benchmark_group("lines");
    group.throughput(Throughput::Bytes(text.len() as u64));
    for (name, grammar) in [
        ("native", Grammar::Native),
        ("mrm-0.1.0", Grammar::Mrm010),
        ("mrm-0.1.23", Grammar::Mrm023),
    ] {
        group.bench_function(name, |b| {
            b.iter(|| {
                let good = text
                    .lines()
                    .filter(|line| black_box(parse_line(line.as_bytes(), grammar)).is_ok());
                good.count()
            });
        });
    }
    group.finish();
}

fn labels(c: &mut Criterion) {
    let text = text().into_bytes();
    let mut names = Names::new();
    let mut rows = Vec::new();
    let Ok(source) = byte_source::Source::from_bytes("perf.txt", text) else {
        return;
    };
    let Ok(mut stream) = RowStream::open(source, &InputOptions::default()) else {
        return;
    };
    while let Ok(true) = stream.next_batch(&mut names, &mut rows) {}
    let mut group = c.benchmark_group("labels");
    group.throughput(Throughput::Elements(rows.len() as u64));
    group.bench_function("native", |b| {
        b.iter(|| {
            let mut labeller = Labeller::new(LabelOptions::native());
            for row in &rows {
                let mut row = *row;
                let _ = black_box(labeller.label(&mut row, &mut names));
            }
            labeller.region_map().len()
        });
    });
    group.finish();
}

criterion_group!(benches, lines, labels);
criterion_main!(benches);
