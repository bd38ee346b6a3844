//! Measures rows per second of the CSV path, on rows shaped like slices of a trace.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use std::hint::black_box;
use std::io::{self, Write};

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use report::{
    Cell, Column, CsvOptions, CsvWriter, JsonLayout, JsonRowsWriter, RealFormat, RowSink,
};

const ROWS: u64 = 100_000;

struct Counted(u64);

impl Write for Counted {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0 += bytes.len() as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn slices(sink: &mut dyn RowSink) -> report::Result<()> {
    let columns = [
        Column::uint("id"),
        Column::int("ts"),
        Column::int("dur_ns"),
        Column::text("cat"),
        Column::text("name"),
        Column::uint("depth"),
        Column::uint("parent_id"),
    ];
    let names = [
        "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel>(c10::BFloat16*, c10::BFloat16 const*, int)",
        "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)",
        "aten::linear",
        "cudaLaunchKernel",
    ];
    sink.begin(&columns)?;
    for row in 0..ROWS {
        let name = names[usize::try_from(row % 4).unwrap()];
        let ts = 4_909_733_315_089_289 + i64::try_from(row).unwrap() * 977;
        let parent = if row % 3 == 0 {
            Cell::Null
        } else {
            Cell::UInt(row / 2)
        };
        sink.row(&[
            row.into(),
            ts.into(),
            (ts % 90_000).into(),
            "kernel".into(),
            name.into(),
            (row % 40).into(),
            parent,
        ])?;
    }
    sink.finish()
}

fn reals(sink: &mut dyn RowSink) -> report::Result<()> {
    sink.begin(&[Column::uint("row"), Column::real("value")])?;
    let mut value = 0.37_f64;
    for row in 0..ROWS {
        value = (value * 3.7).fract() + 1e-3;
        sink.row(&[row.into(), value.into()])?;
    }
    sink.finish()
}

fn rows_per_second(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("rows");
    group.throughput(Throughput::Elements(ROWS)).sample_size(20);
    group.bench_function("csv_slices", |b| {
        b.iter(|| {
            slices(&mut CsvWriter::new(
                black_box(Counted(0)),
                CsvOptions::default(),
            ))
            .unwrap()
        });
    });
    group.bench_function("json_slices", |b| {
        b.iter(|| {
            slices(&mut JsonRowsWriter::new(
                black_box(Counted(0)),
                JsonLayout::Array,
            ))
            .unwrap()
        });
    });
    for (name, format) in [
        ("shortest", RealFormat::Shortest),
        ("significant15", RealFormat::Significant15),
        ("fixed6", RealFormat::Fixed(6)),
    ] {
        group.bench_function(format!("csv_reals_{name}"), |b| {
            let options = CsvOptions {
                reals: Some(format),
                ..CsvOptions::default()
            };
            b.iter(|| reals(&mut CsvWriter::new(black_box(Counted(0)), options.clone())).unwrap());
        });
    }
    group.finish();
}

criterion_group!(benches, rows_per_second);
criterion_main!(benches);
