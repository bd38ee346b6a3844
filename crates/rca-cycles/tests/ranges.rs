//! Steps by marked ranges alone, whatever they are called.
#![expect(clippy::unwrap_used, reason = "helpers of tests fail by panic")]

use byte_source::Source;
use rca_cycles::{Analysis, Method, Options, Phase, analyse};

/// Ranges with thread, start and duration in microseconds, and a kernel launched in each.
fn analysed(ranges: &[(String, u32, i64, i64)], marker: Option<&str>) -> Analysis {
    let mut events = Vec::new();
    for (i, (name, tid, ts, dur)) in ranges.iter().enumerate() {
        let id = i + 1;
        events.push(format!(
            r#"{{"name":"{name}","cat":"user_annotation","ph":"X","pid":1,"tid":{tid},"ts":{ts},"dur":{dur}}},
            {{"name":"cudaLaunchKernel","cat":"cuda_runtime","ph":"X","pid":1,"tid":{tid},"ts":{ts},"dur":1,"args":{{"correlation":{id}}}}},
            {{"name":"gemm","cat":"kernel","ph":"X","pid":0,"tid":7,"ts":{},"dur":2,"args":{{"correlation":{id},"device":0}}}}"#,
            ts + 2
        ));
    }
    let json = format!("[{}]", events.join(","));
    let source = Source::from_bytes("ranges.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &Default::default()).unwrap();
    let mut options = Options::default();
    options.marker = marker.map(str::to_owned);
    analyse(&trace, &options).unwrap()
}

/// Starts and ends of the cycles, microseconds.
fn spans(analysis: &Analysis) -> Vec<(i64, i64)> {
    let cycles = analysis.cycles.iter();
    cycles
        .map(|c| (c.start_ns / 1000, c.end_ns / 1000))
        .collect()
}

fn range(name: impl Into<String>, tid: u32, ts: i64, dur: i64) -> (String, u32, i64, i64) {
    (name.into(), tid, ts, dur)
}

#[test]
fn parts_that_take_turns_are_one_step_and_so_are_layers() {
    let (mut phases, mut layers) = (Vec::new(), Vec::new());
    // A loop around all is no step.
    let around = range("serve", 1, 0, 100_000);
    phases.push(around.clone());
    layers.push(around);
    let mut want = Vec::new();
    for i in 0..9 {
        let at = 1_000 + i * 1_000 + i * i;
        phases.push(range("schedule", 1, at, 100));
        phases.push(range("forward", 1, at + 110, 500 + i));
        phases.push(range("sample", 1, at + 700, 100));
        for k in 0..8 {
            layers.push(range(format!("layer_{k}"), 1, at + k * 100, 100));
        }
        want.push((at, at + 1_001 + 2 * i));
    }
    // What follows the parts belongs to the step; after the last one it was not recorded.
    want[8].1 = want[8].0 + 800;
    for (ranges, anchor) in [(phases, "schedule"), (layers, "layer_0")] {
        let found = analysed(&ranges, None);
        assert_eq!((found.method, &*found.anchor), (Method::Ranges, anchor));
        assert_eq!(spans(&found), want);
        assert!(found.cycles.iter().all(|c| c.phase == Phase::Unknown));
    }
}

#[test]
fn numbered_steps_of_threads_that_take_turns_are_all_found() {
    let step = |i: i64| {
        let kind = if i % 4 == 0 { "prefill" } else { "decode" };
        let tid = u32::try_from(1 + i % 3).unwrap();
        range(
            format!("{kind}_step_{i} (decoder 2)"),
            tid,
            i * 50 + 10,
            40 + i % 5,
        )
    };
    let ranges: Vec<_> = (0..12).map(step).collect();
    let found = analysed(&ranges, None);
    assert_eq!(found.anchor, "decode_step_# (decoder #)");
    let mut want: Vec<(i64, i64)> = ranges.iter().map(|r| (r.2, r.2 + 50)).collect();
    want[11].1 = ranges[11].2 + ranges[11].3;
    assert_eq!(spans(&found), want);
    for (i, cycle) in found.cycles.iter().enumerate() {
        let prefill = i % 4 == 0;
        assert_eq!(cycle.phase == Phase::Prefill, prefill);
        assert_eq!(cycle.phase == Phase::Decode, !prefill);
    }
    // The name as the analysis says it, a pattern, and the name of one.
    let decodes = |marker: &str| analysed(&ranges, Some(marker)).cycles.len();
    assert_eq!(decodes(&found.anchor), 9);
    assert_eq!(decodes("prefill*"), 3);
    assert_eq!(decodes(&ranges[5].0), 1);
}

#[test]
fn ranges_are_the_functions_of_an_engine_without_python() {
    // Steps of 1 ms: two layers, one inside the forward range and one after it, and a poll between the steps.
    let mut ranges = Vec::new();
    for i in 0..9 {
        let at = i * 1_000;
        ranges.push(range(format!("decode_step_{i}"), 1, at, 900));
        ranges.push(range("forward", 1, at + 100, 500));
        ranges.push(range("layer_0", 1, at + 150, 200));
        ranges.push(range("layer_1", 1, at + 650, 100));
        ranges.push(range("poll", 1, at + 910, 60));
    }
    let own = |found: &Analysis, name: &str| {
        let mut functions = found.functions.iter();
        let function = functions.find(|f| f.name == name)?;
        Some(
            function
                .cells
                .iter()
                .map(|c| c.self_ns / 1000)
                .collect::<Vec<_>>(),
        )
    };
    let found = analysed(&ranges, None);
    assert_eq!(found.cycles.len(), 9);
    // The launch of 1 us is inside each; the second layer is none of the forward range.
    assert_eq!(own(&found, "forward"), Some(vec![500 - 200 - 1; 9]));
    assert_eq!(own(&found, "layer_0"), Some(vec![199; 9]));
    assert_eq!(own(&found, "layer_1"), Some(vec![99; 9]));
    // What follows the last step was not recorded as part of it.
    assert_eq!(own(&found, "poll"), Some(vec![59; 8]));
    // A name of one step is no function.
    assert_eq!(own(&found, "decode_step_3"), None);
}

#[test]
fn ranges_at_once_are_those_of_the_busiest_thread_and_rare_ones_are_no_steps() {
    let mut ranges = Vec::new();
    for i in 0..20 {
        ranges.push(range("tick", 1, i * 100, 90));
        if i % 2 == 0 {
            ranges.push(range("tick", 2, i * 100 + 30, 90));
        }
    }
    let found = analysed(&ranges, None);
    assert_eq!(found.cycles.len(), 20);
    assert_eq!(found.cycles[3].start_ns, 300_000);
    // Ranges that fill a hundredth of the time mark something else.
    let rare: Vec<_> = (0..20).map(|i| range("log", 1, i * 1_000, 10)).collect();
    assert_ne!(analysed(&rare, None).method, Method::Ranges);
}
