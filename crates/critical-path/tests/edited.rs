//! Edits public recordings so that the effect is known, and compares predictions of the opposite change with it.

#![expect(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a failed step fails the test, and the errors of each recording are shown"
)]

mod support;

use std::io::Read as _;

use critical_path::{Options, analyse};
use serde_json::{Value, json};

use support::graph_of;

/// Maximum error in percent of the recorded window.
const CLOSE: f64 = 5.0;
/// Maximum number of places that are edited.
const PLACES: usize = 6;

fn read(name: &str) -> Value {
    let path = test_data::root().join(name);
    let mut text = String::new();
    let file = std::fs::File::open(path).unwrap();
    flate2::read::GzDecoder::new(file)
        .read_to_string(&mut text)
        .unwrap();
    serde_json::from_str(&text).unwrap()
}

/// One event with a length.
#[derive(Clone, Debug)]
struct Slice {
    at: usize,
    begin: f64,
    end: f64,
    category: String,
    name: String,
    correlation: Option<i64>,
}

fn slices(trace: &Value) -> Vec<Slice> {
    let events = trace["traceEvents"].as_array().unwrap();
    let each = events.iter().enumerate();
    let each = each.filter(|(_, event)| event["ph"] == "X");
    let each = each.filter_map(|(at, event)| {
        let begin = event["ts"].as_f64()?;
        Some(Slice {
            at,
            begin,
            end: begin + event["dur"].as_f64()?,
            category: event["cat"].as_str().unwrap_or("").to_lowercase(),
            name: event["name"].as_str().unwrap_or("").to_owned(),
            correlation: event["args"]["correlation"].as_i64(),
        })
    });
    each.collect()
}

fn is_device(slice: &Slice) -> bool {
    matches!(
        slice.category.as_str(),
        "kernel" | "gpu_memcpy" | "gpu_memset"
    )
}

/// Begin of the call and end of each GPU activity; the activity's begin without a call.
fn pending(all: &[Slice]) -> Vec<(f64, f64)> {
    let calls = all
        .iter()
        .filter(|slice| slice.category.starts_with("cuda_") || slice.category.starts_with("hip_"));
    let calls: std::collections::BTreeMap<i64, f64> = calls
        .filter_map(|slice| Some((slice.correlation?, slice.begin)))
        .collect();
    let work = all.iter().filter(|slice| is_device(slice));
    work.map(|slice| {
        let call = slice.correlation.and_then(|id| calls.get(&id)).copied();
        (call.unwrap_or(slice.begin), slice.end)
    })
    .collect()
}

/// Inserts `ns` microseconds at each of `places`: what begins behind one is later, what lies around it longer.
fn stretch(trace: &mut Value, places: &[f64], us: f64) {
    for event in trace["traceEvents"].as_array_mut().unwrap() {
        let Some(begin) = event["ts"].as_f64() else {
            continue;
        };
        let before = |at: f64| places.iter().filter(|place| **place <= at).count() as f64;
        if let Some(length) = event["dur"].as_f64() {
            let inside = places
                .iter()
                .filter(|place| **place > begin && **place < begin + length);
            event["dur"] = json!(length + us * inside.count() as f64);
        }
        event["ts"] = json!(begin + us * before(begin));
    }
}

fn check(name: &str, edited: &Value, change: &str, original: i64, wrong: &mut Vec<String>) {
    let graph = graph_of(vec![edited.to_string()]);
    let mut options = Options::default();
    options.what_if.push(change.parse().unwrap());
    let analysis = analyse(&graph, &options).unwrap();
    let found = analysis.what_if[0].predicted_ns;
    let recorded = analysis.window.duration_ns;
    let off = 100.0 * (found - original) as f64 / recorded as f64;
    let line = format!(
        "{name} {change:.40}: predicted {found}, truth {original}, recorded {recorded}: {off:.2} %"
    );
    println!("{line}");
    // The edit is large enough to tell.
    if off.abs() > CLOSE || recorded * 10 < original * 11 {
        wrong.push(line);
    }
}

const TRACES: &[&str] = &[
    "peers/traces/h100_qwen15.json.gz",
    "peers/traces/mi300_qwen15.json.gz",
    "peers/traces/hta_nccl_data.json.gz",
    "peers/traces/mi300_resnet_nccl.json.gz",
    "peers/traces/sampled_rank0.json.gz",
    "peers/traces/sglang_prefilldecode.json.gz",
    "perfetto/traces/b200_vllm_eager.json.gz",
    "perfetto/traces/h100_gaunernst_bert-small-uncased.json.gz",
    "perfetto/traces/mi300_Falconsai_nsfw_image_detection.json.gz",
    "perfetto/traces/sglang_Qwen3-8B_decode.json.gz",
    "perfetto/traces/vllm_decode_full.json.gz",
];

fn every<T: Clone>(list: &[T]) -> Vec<T> {
    let step = list.len().div_ceil(PLACES).max(1);
    list.iter().step_by(step).cloned().collect()
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn host_time_inserted_into_public_recordings_is_predicted_away() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for name in TRACES {
        let trace = read(name);
        let all = slices(&trace);
        let pending = pending(&all);
        let launches: Vec<&Slice> = all
            .iter()
            .filter(|slice| slice.name.contains("Launch") && slice.name.ends_with("Kernel"))
            .collect();
        let graph = graph_of(vec![trace.to_string()]);
        let Ok(analysis) = analyse(&graph, &Options::default()) else {
            continue;
        };
        // Before launches while the device is idle, and all that was launched is done.
        let idle = launches.iter().filter(|call| {
            let is_inside = |slice: &Slice| slice.begin < call.begin && slice.end > call.begin;
            !pending
                .iter()
                .any(|(launched, end)| *launched < call.begin && *end > call.begin)
                && !all.iter().any(|slice| is_inside(slice) && is_device(slice))
        });
        let idle: Vec<&Slice> = idle.copied().collect();
        // Only within the window.
        let inside = idle.len() / 8..idle.len() - idle.len() / 8;
        let idle = every(&idle[inside]);
        if idle.len() < 3 {
            continue;
        }
        seen += 1;
        let original = analysis.window.duration_ns;
        let us = original as f64 / 1e3 / idle.len() as f64 / 2.0;
        let mut places: Vec<f64> = idle.iter().map(|call| call.begin).collect();
        places.sort_by(f64::total_cmp);
        let mut edited = trace.clone();
        stretch(&mut edited, &places, us);
        for call in &idle {
            let event = &edited["traceEvents"][call.at];
            let planted = json!({
                "ph": "X", "cat": "python_function", "name": "planted_delay",
                "pid": event["pid"], "tid": event["tid"],
                "ts": event["ts"].as_f64().unwrap() - us, "dur": us, "args": {},
            });
            edited["traceEvents"].as_array_mut().unwrap().push(planted);
        }
        check(name, &edited, "host:planted_delay=0", original, &mut wrong);
    }
    assert!(seen >= 4, "only {seen} recordings have idle places");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
#[ignore = "needs INFERSCOPE_DATA"]
fn longer_kernels_that_the_host_waits_for_are_predicted_away() {
    let (mut wrong, mut seen) = (Vec::new(), 0);
    for name in TRACES {
        let trace = read(name);
        let all = slices(&trace);
        let pending = pending(&all);
        let syncs: Vec<&Slice> = all
            .iter()
            .filter(|slice| slice.name.contains("Synchronize") && slice.end - slice.begin > 20.0)
            .collect();
        let graph = graph_of(vec![trace.to_string()]);
        let Ok(analysis) = analyse(&graph, &Options::default()) else {
            continue;
        };
        // The last kernel of all, which the host waits for.
        let last = syncs.iter().filter_map(|sync| {
            let ended = all.iter().filter(|slice| is_device(slice));
            let ended = ended.filter(|slice| slice.end < sync.end && slice.end > sync.begin);
            let last = ended.max_by(|a, b| a.end.total_cmp(&b.end))?;
            let is_last = !pending
                .iter()
                .any(|(launched, end)| *launched < sync.end && *end > last.end);
            let alone = all.iter().filter(|slice| is_device(slice));
            let alone = alone.filter(|slice| slice.begin < last.end && slice.end >= last.end);
            (is_last && last.category == "kernel" && alone.count() == 1).then(|| last.clone())
        });
        let mut last: Vec<Slice> = last.collect();
        last.sort_by(|a, b| a.end.total_cmp(&b.end));
        last.dedup_by_key(|slice| slice.at);
        let inside = last.len() / 8..last.len() - last.len() / 8;
        let last = every(&last[inside]);
        if last.is_empty() {
            continue;
        }
        seen += 1;
        let original = analysis.window.duration_ns;
        let us = original as f64 / 1e3 / last.len() as f64 / 2.0;
        let places: Vec<f64> = last
            .iter()
            .map(|slice| slice.end - (slice.end - slice.begin) / 2.0)
            .collect();
        let mut edited = trace.clone();
        stretch(&mut edited, &places, us);
        let mut changes = Vec::new();
        for (nth, slice) in last.iter().enumerate() {
            let planted = format!("planted_kernel_{nth}_x");
            edited["traceEvents"][slice.at]["name"] = json!(planted);
            let length = slice.end - slice.begin;
            changes.push(format!("kernel:{planted}={:.9}", length / (length + us)));
        }
        check(name, &edited, &changes.join(","), original, &mut wrong);
    }
    assert!(seen >= 2, "only {seen} recordings have such kernels");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
