//! `blkio compare`.

use std::io::Write as _;
use std::path::Path;

use blkio_parser::document::{self, DocumentOptions};
use blkio_parser::{Stats, StatsOptions};
use serde_json::{Value, json};
use shell::{OrExit as _, Outcome};

use crate::NO_INPUT;
use crate::args::CompareArgs;

/// What is compared: a name and where it is in the document.
const ROWS: [(&str, &str); 18] = [
    ("read_ios", "/metrics/totals/read/ios"),
    ("read_bytes", "/metrics/totals/read/bytes"),
    ("write_ios", "/metrics/totals/write/ios"),
    ("write_bytes", "/metrics/totals/write/bytes"),
    ("span_s", "/extra/mean_rates/span_s"),
    ("read_bytes_per_s", "/extra/mean_rates/read_bytes_per_s"),
    ("write_bytes_per_s", "/extra/mean_rates/write_bytes_per_s"),
    (
        "read_latency_p50_ns",
        "/metrics/pairing_newest/latency_ns/read/p50",
    ),
    (
        "read_latency_p99_ns",
        "/metrics/pairing_newest/latency_ns/read/p99",
    ),
    (
        "read_latency_mean_ns",
        "/metrics/pairing_newest/latency_ns/read/mean",
    ),
    (
        "write_latency_p50_ns",
        "/metrics/pairing_newest/latency_ns/write/p50",
    ),
    (
        "write_latency_p99_ns",
        "/metrics/pairing_newest/latency_ns/write/p99",
    ),
    (
        "write_latency_mean_ns",
        "/metrics/pairing_newest/latency_ns/write/mean",
    ),
    (
        "mean_queue_depth",
        "/metrics/pairing_newest/queue_depth/time_weighted_mean",
    ),
    (
        "sequential_requests",
        "/metrics/sequentiality/all/sequential",
    ),
    (
        "multi_stream_requests",
        "/metrics/sequentiality/all/multi_stream_32",
    ),
    ("distinct_4k_blocks", "/metrics/working_set_4k_blocks/union"),
    (
        "reuse_distance_p50",
        "/metrics/reuse_distance_128k_blocks/p50",
    ),
];

fn document(path: &Path, args: &CompareArgs) -> anyhow::Result<Value> {
    let mut options = StatsOptions::default();
    options.read.threads = args.input.threads().get();
    options.read.strict = args.input.strict;
    options.read.open = args.input.open_options(None);
    let mut stats = Stats::of_files(&[path.to_owned()], &options).or_exit(NO_INPUT)?;
    if stats.traffic.issues == 0 {
        return Err(anyhow::anyhow!("{}: no requests", path.display())).or_exit(NO_INPUT);
    }
    Ok(document::stats(&mut stats, DocumentOptions::default()))
}

pub(crate) fn run(args: &CompareArgs) -> anyhow::Result<Outcome> {
    let base = document(&args.base, args)?;
    let other = document(&args.other, args)?;
    let rows: Vec<(&str, Option<f64>, Option<f64>)> = ROWS
        .iter()
        .map(|(name, place)| {
            let value = |d: &Value| d.pointer(place).and_then(Value::as_f64);
            (*name, value(&base), value(&other))
        })
        .collect();
    let change = |a: Option<f64>, b: Option<f64>| -> Option<f64> {
        let (a, b) = a.zip(b)?;
        (a.abs() > 0.0).then(|| (b / a - 1.0) * 100.0)
    };
    let mut out = args.output.open()?;
    match args.format.format() {
        shell::Format::Json => {
            let rows: Vec<Value> = rows
                .iter()
                .map(|(name, a, b)| json!({"what": name, "a": a, "b": b, "change_pct": change(*a, *b)}))
                .collect();
            let document = json!({
                "schema_version": 1,
                "a": args.base.display().to_string(),
                "b": args.other.display().to_string(),
                "rows": rows,
                "quality": {"a": base["quality"], "b": other["quality"]},
            });
            serde_json::to_writer_pretty(&mut out, &document)?;
            writeln!(out)?;
        }
        _ => {
            writeln!(out, "{:<24} {:>18} {:>18} {:>10}", "", "A", "B", "change")?;
            for (name, a, b) in rows {
                let cell = |v: Option<f64>| v.map_or("-".to_owned(), |v| format!("{v:.3}"));
                let change = change(a, b).map_or("-".to_owned(), |c| format!("{c:+.2} %"));
                writeln!(
                    out,
                    "{name:<24} {:>18} {:>18} {change:>10}",
                    cell(a),
                    cell(b)
                )?;
            }
        }
    }
    out.finish()?;
    Ok(Outcome::Fine)
}
