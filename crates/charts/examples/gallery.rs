//! Draws one figure of every kind, and a page with all of them, into a directory: `cargo run -p inferscope-charts --example gallery -- DIR`.
#![expect(
    clippy::unwrap_used,
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "made-up data"
)]

use std::path::PathBuf;

use charts::Svg;
use charts::flame::{DiffFlameGraph, DiffWidth, Direction, FlameGraph, FlameOptions};
use charts::html::{Page, Section};
use charts::plot::{Axis, Bar, BarChart, HeatMap, Histogram, LinePlot, Mark, RefLine, Series};
use report::{Column, Table, Unit};

/// Adds stacks of a small model; `slow` delays one collective.
fn stacks(slow: u64, mut add: impl FnMut(&[&str], u64)) {
    let layers = ["layers.0", "layers.1", "layers.2", "layers.3"];
    for (layer, &name) in (1_u64..).zip(&layers) {
        let forward = [
            "main",
            "EngineCore.step",
            "GPUModelRunner.execute_model",
            "LlamaModel.forward",
            name,
        ];
        let mut with = |rest: &[&str], value| add(&[&forward[..], rest].concat(), value);
        with(
            &[
                "self_attn",
                "vllm::unified_attention<c10::BFloat16, 128>(Params const&)",
            ],
            310_000 + layer * 9_000,
        );
        with(
            &[
                "self_attn",
                "qkv_proj",
                "aten::linear",
                "cutlass::gemm_kernel",
            ],
            220_000,
        );
        with(
            &[
                "self_attn",
                "o_proj",
                "aten::linear",
                "cutlass::gemm_kernel",
            ],
            140_000,
        );
        with(
            &[
                "self_attn",
                "o_proj",
                "all_reduce",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            ],
            90_000 + slow * layer,
        );
        with(
            &[
                "mlp",
                "gate_up_proj",
                "aten::linear",
                "cutlass::gemm_kernel",
            ],
            420_000,
        );
        with(&["mlp", "act_fn", "silu_and_mul"], 35_000);
        with(
            &["mlp", "down_proj", "aten::linear", "cutlass::gemm_kernel"],
            260_000,
        );
        with(
            &[
                "mlp",
                "down_proj",
                "all_reduce",
                "ncclDevKernel_AllReduce_Sum_bf16_RING_LL",
            ],
            88_000,
        );
        with(&["input_layernorm"], 300);
    }
    add(
        &["main", "EngineCore.step", "Scheduler.schedule"],
        if slow > 0 { 0 } else { 160_000 },
    );
    add(
        &["main", "EngineCore.step", "Sampler.forward", "aten::argmax"],
        95_000,
    );
}

/// Returns a pseudo-random number from 0 to 1.
fn noise(n: u64) -> f64 {
    let mut x = n.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^= x >> 29;
    x = x.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x ^= x >> 32;
    (x >> 11) as f64 / (1_u64 << 53) as f64
}

fn flames() -> Vec<(&'static str, Svg)> {
    let mut options = FlameOptions::default();
    options.title = "GPU time by host call stack".into();
    options.subtitle = "one decode step, rank 0".into();
    options.unit = Unit::Nanos;
    let mut graph = FlameGraph::new();
    stacks(0, |frames, value| graph.add(frames.iter().copied(), value));
    let flame = graph.draw(&options).svg;
    options.direction = Direction::Icicle;
    options.width_px = 700.0;
    let icicle = graph.draw(&options).svg;
    options.direction = Direction::Flame;
    options.width_px = 1200.0;
    options.title = "What changed between the runs".into();
    let mut diffs = [
        DiffFlameGraph::new(DiffWidth::Second),
        DiffFlameGraph::new(DiffWidth::Mean),
    ];
    for diff in &mut diffs {
        stacks(0, |frames, value| {
            diff.add_first(frames.iter().copied(), value)
        });
        stacks(80_000, |frames, value| {
            diff.add_second(frames.iter().copied(), value)
        });
    }
    vec![
        ("flame", flame),
        ("icicle", icicle),
        ("diff_second", diffs[0].draw(&options).svg),
        ("diff_mean", diffs[1].draw(&options).svg),
    ]
}

fn plots() -> Vec<(&'static str, Svg)> {
    let steps = |offset: f64, seed: u64| {
        (0..240_u64)
            .map(|i| (i as f64, offset + 2.0e6 * noise(i + seed).powi(6)))
            .collect()
    };
    let mut lines = LinePlot::new(
        "Decode step time",
        Axis::new("step", Unit::Count),
        Axis::from_zero("step time", Unit::Nanos),
    );
    lines.subtitle = "every rank, first 240 steps".into();
    for rank in 0..9_u64 {
        lines.series.push(Series::new(
            format!("rank {rank}"),
            Mark::Line,
            steps(9.0e6 + 0.7e6 * rank as f64, rank * 1000),
        ));
    }
    lines.ref_lines.push(RefLine::new("budget 16 ms", 16.0e6));

    let mut steps_plot = LinePlot::new(
        "Memory in use",
        Axis::new("time", Unit::Nanos),
        Axis::from_zero("allocated", Unit::Bytes),
    );
    let level = |i: u64| 20e9 + 40e9 * (i as f64 / 60.0).sqrt() + if i % 7 < 3 { 4e9 } else { 0.0 };
    steps_plot.series.push(Series::new(
        "KV cache",
        Mark::Step,
        (0..60).map(|i| (i as f64 * 2e7, level(i))).collect(),
    ));
    steps_plot.series.push(Series::new(
        "weights",
        Mark::Area,
        vec![(0.0, 16e9), (1.2e9, 16e9)],
    ));

    let mut scatter = LinePlot::new(
        "Bus bandwidth by message size",
        Axis::log("message", Unit::Bytes),
        Axis::from_zero("bus bandwidth", Unit::BytesPerSecond),
    );
    for (series, (name, peak)) in (0_u64..).zip([("all_reduce", 340e9), ("all_gather", 290e9)]) {
        let point = |i: u64| {
            let size = 2_f64.powf(10.0 + 18.0 * noise(i + series * 999));
            (
                size,
                peak * size / (size + 3e6) * (0.85 + 0.15 * noise(i + 7_777 + series)),
            )
        };
        scatter
            .series
            .push(Series::new(name, Mark::Dots, (0..250).map(point).collect()));
    }
    scatter.series[0].points.push((0.0, 5.0));

    let mut bars = BarChart::new("GPU time by kernel", "GPU time", Unit::Nanos);
    let kernels = [
        ("cutlass::gemm_kernel", 4_160_000.0),
        (
            "vllm::unified_attention<c10::BFloat16, 128, vllm::Fp8KVCacheDataType>(Params const&, long)",
            1_330_000.0,
        ),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", 712_000.0),
        ("silu_and_mul", 140_000.0),
        ("aten::argmax", 95_000.0),
    ];
    bars.bars = kernels.map(|(name, value)| Bar::new(name, value)).into();
    let mut stacked = BarChart::new("Where the step goes", "share of the step", Unit::Pct);
    stacked.parts = vec![
        "compute".into(),
        "exposed communication".into(),
        "idle".into(),
    ];
    stacked.bars = (0..4_u64)
        .map(|r| {
            Bar::stacked(
                format!("rank {r}"),
                vec![70.0 + r as f64, 20.0 - r as f64, 10.0],
            )
        })
        .collect();
    let mut signed = BarChart::new("Change of GPU time", "change", Unit::Nanos);
    signed.bars = vec![
        Bar::new("all_reduce", 812_000.0),
        Bar::new("gemm", -95_000.0),
        Bar::new("argmax", 0.0),
    ];

    let mut histogram = Histogram::new("Request sizes", "size", Unit::Bytes);
    (0..20_000).for_each(|i| {
        histogram.add(
            2_f64.powf(9.0 + 5.0 * (noise(i) + noise(i + 100_000) + noise(i + 200_000))) as u64,
        )
    });

    let cells: Vec<f64> = (0..120 * 40)
        .map(|i| {
            let (x, y) = ((i % 120) as f64, (i / 120) as f64);
            let ridge = (-((y - 8.0 - x / 5.0) / 4.0).powi(2)).exp() * 4000.0;
            if y < 5.0 {
                900.0
            } else {
                (ridge * noise(i as u64)).floor()
            }
        })
        .collect();
    let mut heat = HeatMap::new(
        "Pages touched",
        Axis::new("time", Unit::Seconds).range(0.0, 30.0),
        Axis::new("offset", Unit::Bytes).range(0.0, 40.0 * 1_073_741_824.0),
        120,
        cells,
        Unit::Count,
    );
    heat.subtitle = "reads per second and GiB".into();
    let linear = heat.draw();
    heat.log_colour = true;
    let empty = LinePlot::new(
        "Nothing here",
        Axis::new("time", Unit::Seconds),
        Axis::new("", Unit::None),
    )
    .draw();
    vec![
        ("lines", lines.draw()),
        ("steps", steps_plot.draw()),
        ("scatter", scatter.draw()),
        ("bars", bars.draw()),
        ("stacked", stacked.draw()),
        ("signed", signed.draw()),
        ("histogram", histogram.draw()),
        ("heat", linear),
        ("heat_log", heat.draw()),
        ("empty", empty),
    ]
}

fn main() -> std::io::Result<()> {
    let dir = PathBuf::from(std::env::args().nth(1).unwrap_or_else(|| "gallery".into()));
    std::fs::create_dir_all(&dir)?;
    let columns = vec![
        Column::text("kernel"),
        Column::uint("launches").unit(Unit::Count),
        Column::uint("gpu_ns").unit(Unit::Nanos).title("GPU time"),
        Column::real("share_pct").unit(Unit::Pct).title("share"),
        Column::bool("linked"),
    ];
    let mut table = Table::new("Kernels of the step", columns).unwrap();
    for row in 0..8_u64 {
        let name = format!(
            "void vllm::act_and_mul_kernel<c10::BFloat16, &vllm::silu_kernel<{row}>>(c10::BFloat16*, int)"
        );
        table
            .push(&[
                name.as_str().into(),
                (row * 1234).into(),
                (row * 987_654).into(),
                (row as f64 * 3.1).into(),
                (row % 2 == 0).into(),
            ])
            .unwrap();
    }
    let mut page = Page::new("Decode step, two runs")
        .subtitle("generated by the gallery example")
        .section(
            Section::new("Summary")
                .text("The second run waits in one collective.\n\nEverything else is as before.")
                .warning("12 events were dropped: the file ends inside a record.")
                .table(&table, 6)
                .code("$ nccl-stacks trace.json.gz --top 5\n  #1 <stack>"),
        );
    for (name, svg) in flames().into_iter().chain(plots()) {
        std::fs::write(dir.join(name).with_extension("svg"), svg.as_str())?;
        page = page.section(Section::new(name).figure(&svg, "A caption."));
    }
    std::fs::write(dir.join("page.html"), page.to_html())
}
