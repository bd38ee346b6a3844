//! Compares the protobuf traces of `testdata/perfetto` with their planted truth.

use std::path::Path;

use byte_source::{OpenOptions, Source};
use perfetto_reader::ReadOptions;
use serde_json::Value;
use trace_model::{ArgValue, IssueKind, Slice, Trace};

fn load(name: &str) -> (Trace, Value) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perfetto");
    let truth = std::fs::read(folder.join(format!("{name}.truth.json"))).unwrap();
    let source = Source::open(
        folder.join(format!("{name}.pftrace")),
        &OpenOptions::default(),
    );
    let trace = perfetto_reader::read(source.unwrap(), &ReadOptions::default()).unwrap();
    (trace, serde_json::from_slice(&truth).unwrap())
}

/// Returns the name of the thread, else of the track.
fn track(slice: Slice<'_>) -> &str {
    let trace = slice.trace();
    let track = slice.track();
    let name = match track.thread {
        Some(thread) if track.name.is_none() => trace.thread(thread).name,
        _ => track.name,
    };
    name.map_or("", |n| trace.text(n))
}

fn assert_slices(trace: &Trace, truth: &Value) {
    let expected = truth["slices"].as_array().unwrap();
    for (slice, row) in trace.slices().zip(expected) {
        let text = |key: &str| row[key].as_str();
        assert_eq!(slice.name(), text("name"), "{row}");
        assert_eq!(slice.category(), text("cat"), "{row}");
        // The truth has `stream 7` for "GPU 0 stream 7", and `main` for a main thread without name.
        let (name, label) = (track(slice), text("track").unwrap());
        let is_main = slice
            .track()
            .thread
            .is_some_and(|t| trace.thread(t).is_main);
        assert!(
            name.ends_with(label) && !name.is_empty() || (is_main && label == "main"),
            "{name} is not {label}"
        );
        assert_eq!(slice.ts().nanos(), row["ts_ns"].as_i64().unwrap(), "{row}");
        let dur = slice.dur().map_or(-1, |d| d.get());
        assert_eq!(dur, row["dur_ns"].as_i64().unwrap(), "{row}");
        assert_eq!(
            slice.depth() as u64,
            row["depth"].as_u64().unwrap(),
            "{row}"
        );
        let parent = slice.parent().and_then(Slice::name);
        assert_eq!(parent, text("parent"), "{row}");
    }
    assert_eq!(trace.len(), expected.len());
}

fn assert_counters(trace: &Trace, truth: &Value) {
    let mut ours: Vec<_> = trace
        .counters()
        .iter()
        .map(|c| {
            let name = trace.text(trace.track(c.track).name.unwrap());
            (name.to_owned(), c.ts.nanos(), c.value.to_bits())
        })
        .collect();
    let mut expected: Vec<_> = truth["counters"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| {
            let name = c["track"].as_str().unwrap().to_owned();
            let value = c["value"].as_f64().unwrap();
            (name, c["ts_ns"].as_i64().unwrap(), value.to_bits())
        })
        .collect();
    ours.sort();
    expected.sort();
    assert_eq!(ours, expected);
}

#[test]
fn the_trace_of_the_tracing_library_is_as_planted() {
    let (trace, truth) = load("sdk");
    assert_slices(&trace, &truth);
    assert_counters(&trace, &truth);
    let mut flows: Vec<[&str; 2]> = trace
        .flows()
        .iter()
        .map(|f| [f.from, f.to].map(|id| trace.slice(id).name().unwrap()))
        .collect();
    let mut expected: Vec<[&str; 2]> = truth["flows"]
        .as_array()
        .unwrap()
        .iter()
        .map(|f| [0, 1].map(|i| f[i].as_str().unwrap()))
        .collect();
    flows.sort();
    expected.sort();
    assert_eq!(flows, expected);
    for (name, args) in truth["args"].as_object().unwrap() {
        let slice = trace.slices().find(|s| s.name() == Some(name)).unwrap();
        let ours: serde_json::Map<String, Value> = slice
            .args()
            .map(|(key, value)| {
                let text = match value {
                    ArgValue::Int(n) => n.to_string(),
                    ArgValue::UInt(n) => n.to_string(),
                    ArgValue::Real(x) => x.to_string(),
                    ArgValue::Bool(b) => b.to_string(),
                    ArgValue::Pointer(n) => format!("{n:#x}"),
                    other => other.as_str().unwrap().to_owned(),
                };
                (key.to_owned(), Value::from(text))
            })
            .collect();
        assert_eq!(&ours, args.as_object().unwrap());
    }
    let processes: Vec<String> = trace
        .processes()
        .iter()
        .map(|p| format!("{} ({})", p.name.map_or("", |n| trace.text(n)), p.pid))
        .collect();
    assert_eq!(Value::from(processes), truth["processes"]);
    let d = trace.diagnostics();
    let expected = |key: &str| truth["dropped"][key].as_u64().unwrap();
    assert_eq!(d.count_of(IssueKind::NeedsState), expected("needs_state"));
    assert_eq!(
        d.count_of(IssueKind::EndWithoutBegin),
        expected("end_without_begin")
    );
    assert_eq!(
        d.count_of(IssueKind::CounterTrack),
        expected("counter_without_track")
    );
    let truth_count = |key: &str| truth[key].as_u64().unwrap();
    assert_eq!(
        d.count_of(IssueKind::PacketLoss),
        truth_count("lost_packets")
    );
    assert_eq!(
        d.count_of(IssueKind::NeverClosed),
        truth_count("never_closed")
    );
}

#[test]
fn the_trace_of_rocprofv3_is_as_planted() {
    let (trace, truth) = load("rocprof");
    assert_slices(&trace, &truth);
    assert_counters(&trace, &truth);
    let corr_id = trace.arg_column("corr_id");
    for link in truth["links"].as_array().unwrap() {
        let kernel = trace
            .slices()
            .find(|s| {
                s.name() == link["kernel"].as_str()
                    && Some(s.ts().nanos()) == link["kernel_ts_ns"].as_i64()
            })
            .unwrap();
        assert_eq!(kernel.category(), Some("kernel_dispatch"));
        assert_eq!(corr_id.int(kernel), link["corr_id"].as_i64());
    }
}
