//! Steps of recorded traces, found with the ranges hidden that the engines marked them with.

#![expect(
    clippy::unwrap_used,
    reason = "helpers of tests fail by panic, and say when they are skipped"
)]

use std::io::Read as _;
use std::path::PathBuf;

use byte_source::Source;
use rca_cycles::{Options, analyse};
use serde_json::Value;

fn traces() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in ["perfetto/traces", "peers/traces"] {
        let entries = std::fs::read_dir(test_data::reference(folder)).unwrap();
        found.extend(entries.map(|e| e.unwrap().path()));
    }
    found.sort();
    found
}

/// Starts and ends of the marked steps, ns, and the trace without any marked range, or without those.
fn hide(path: &PathBuf, all: bool) -> (Vec<(i64, i64)>, Vec<u8>) {
    let mut text = String::new();
    let source = Source::open(path, &Default::default()).unwrap();
    source
        .into_read()
        .unwrap()
        .read_to_string(&mut text)
        .unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let events = document["traceEvents"].as_array_mut().unwrap();
    let mut steps = Vec::new();
    events.retain(|e| {
        let category = e["cat"].as_str().unwrap_or("");
        let name = e["name"].as_str().unwrap_or("");
        let is_step = name.starts_with("ProfilerStep") || name.starts_with("execute_");
        if category == "user_annotation" && is_step {
            let ns = |v: &Value| {
                let micros: f64 = v.to_string().parse().unwrap();
                // Tests may round: a step lasts milliseconds.
                #[expect(clippy::cast_possible_truncation, reason = "times of traces fit")]
                let ns = (micros * 1000.0) as i64;
                ns
            };
            steps.push((ns(&e["ts"]), ns(&e["ts"]) + ns(&e["dur"])));
        }
        // What SGLang marks inside a step is the name of a step, too.
        let hidden = all || is_step || name.starts_with("step[");
        !category.ends_with("user_annotation") || !hidden
    });
    steps.sort_unstable();
    (steps, serde_json::to_vec(&document).unwrap())
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn hidden_steps_are_found() {
    for all in [true, false] {
        hidden_steps(all);
    }
}

fn hidden_steps(all: bool) {
    let (mut right, mut found, mut marked, mut poor) = (0, 0, 0, 0);
    let mut report = Vec::new();
    for path in traces() {
        let (steps, json) = hide(&path, all);
        if steps.is_empty() {
            continue;
        }
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let source = Source::from_bytes(name.clone(), json).unwrap();
        let trace = perfetto_reader::read(source, &Default::default()).unwrap();
        let analysis = analyse(&trace, &Options::default()).unwrap();
        let starts: Vec<i64> = analysis
            .cycles
            .iter()
            .filter(|c| c.partial.is_none())
            .map(|c| c.host_ns.0)
            .collect();
        // The reader may count from a base time.
        let base = trace.meta().base_time_ns;
        let mut lengths: Vec<i64> = steps.windows(2).map(|w| w[1].0 - w[0].0).collect();
        if lengths.is_empty() {
            lengths = steps.iter().map(|s| s.1 - s.0).collect();
        }
        lengths.sort_unstable();
        let reach = lengths[lengths.len() / 2] / 100;
        let hits = steps
            .iter()
            .filter(|s| starts.iter().any(|t| (t - s.0).abs() <= reach))
            .count();
        let worst = 2 * hits * 100 < (starts.len() + steps.len()) * 98;
        poor += usize::from(worst);
        right += hits;
        found += starts.len();
        marked += steps.len();
        report.push(format!(
            "{name}: {hits} of {} marked, {} found by {} at {:?}; off by {:?} of {reach} (base {base})",
            steps.len(),
            starts.len(),
            analysis.method.name(),
            analysis.anchor,
            steps
                .iter()
                .map(|s| starts.iter().map(|t| t - s.0).min_by_key(|d| d.abs()).unwrap_or(0))
                .collect::<Vec<_>>()
        ));
    }
    // F1 = 2 right / (found + marked), at least 0.98 of each trace and so of all.
    assert!(
        poor == 0 && right * 2 * 100 >= (found + marked) * 98,
        "{poor} traces below 0.98, {right} right of {found} found and {marked} marked:\n{}",
        report.join("\n")
    );
}
