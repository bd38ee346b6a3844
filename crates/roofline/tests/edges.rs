//! Recordings that are odd: nothing fails, no time is lost.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use byte_source::Source;
use gpu_time::GpuWork;
use perfetto_reader::ReadOptions;
use roofline::{Analysis, Basis, Call, CallOptions, Knowledge, Options, analyse};
use trace_model::Trace;

fn read(events: &[String]) -> Trace {
    let text = format!("{{\"traceEvents\":[{}]}}", events.join(",\n"));
    let source = Source::from_bytes("t.json", text.into_bytes()).unwrap();
    perfetto_reader::read(source, &ReadOptions::default()).unwrap()
}

fn slice(cat: &str, name: &str, tid: i64, ts: i64, dur: i64, args: &str) -> String {
    let pid = if cat == "kernel" { 0 } else { 1 };
    format!(
        r#"{{"ph":"X","cat":"{cat}","name":"{name}","pid":{pid},"tid":{tid},"ts":{ts},"dur":{dur},"args":{{{args}}}}}"#
    )
}

fn op(name: &str, ts: i64, args: &str) -> String {
    slice("cpu_op", name, 1, ts, 8, args)
}

fn launch(ts: i64, id: i64) -> String {
    slice(
        "cuda_runtime",
        "cudaLaunchKernel",
        1,
        ts,
        1,
        &format!("\"correlation\":{id}"),
    )
}

fn kernel(name: &str, ts: i64, id: i64, device: i64) -> String {
    let args = format!("\"correlation\":{id},\"device\":{device},\"stream\":7");
    slice("kernel", name, 7 + device, ts, 10, &args)
}

const ADD: &str = r#""Input Dims":[[4],[4]],"Input type":["float","float"]"#;

fn analysed(trace: &Trace, captures: &[&Trace]) -> Analysis {
    let knowledge = Knowledge::default();
    let work = GpuWork::new(trace);
    let captures: Vec<GpuWork<'_>> = captures.iter().map(|t| GpuWork::new(t)).collect();
    let captures: Vec<&GpuWork<'_>> = captures.iter().collect();
    let options = Options::new(CallOptions::new(&knowledge));
    let found = analyse(&work, &captures, &options, |_| true).unwrap();
    // Every piece of work is in one call, and every call in one row.
    let kernels: u64 = found.calls.rows.iter().map(|row| row.kernels).sum();
    assert_eq!(kernels, work.events().len() as u64);
    let time = |calls: &[Call]| calls.iter().map(|call| call.time_ns).sum::<i64>();
    let rows: i64 = found.calls.rows.iter().map(|row| row.time_ns).sum();
    assert_eq!(rows, time(&found.list.calls));
    assert_eq!(rows, found.coverage.time_ns());
    found
}

#[test]
fn odd_arguments_are_unknown_with_a_reason() {
    let cases = [
        r#""Input Dims":[[-1],[4]],"Input type":["float","float"]"#,
        r#""Input Dims":[[4],[4]],"Input type":["float","weird"]"#,
        r#""Input Dims":"nonsense","Input type":3"#,
        r#""Input Dims":[[4],[5]],"Input type":["float","float"]"#,
        r#""Input Dims":[null,{}],"Input type":[null]"#,
        r#""Input Dims":[]"#,
        "",
    ];
    for case in cases {
        let events = [
            op("aten::add", 0, case),
            launch(2, 1),
            kernel("k", 50, 1, 0),
        ];
        let found = analysed(&read(&events), &[]);
        assert_eq!(found.calls.rows[0].basis(), Basis::Unknown, "{case}");
        assert_eq!(found.coverage.missing.len(), 1, "{case}");
        assert!(!found.coverage.missing[0].reason.is_empty(), "{case}");
    }
}

#[test]
fn one_operator_with_work_on_two_devices_is_one_call() {
    let events = [
        op("aten::add", 0, ADD),
        launch(2, 1),
        launch(4, 2),
        kernel("k", 50, 1, 0),
        kernel("k", 55, 2, 1),
    ];
    let found = analysed(&read(&events), &[]);
    assert_eq!(found.list.calls.len(), 1);
    let call = found.list.calls[0];
    // The union of 50..60 and 55..65.
    assert_eq!((call.kernels, call.time_ns), (2, 15_000));
}

#[test]
fn repeated_ids_and_missing_launches_keep_their_time() {
    let events = [
        op("aten::add", 0, ADD),
        launch(2, 1),
        op("aten::mul", 10, ADD),
        launch(12, 1),
        kernel("k", 50, 1, 0),
        kernel("lonely", 70, 99, 5),
        kernel("without", 90, 0, 0),
    ];
    let found = analysed(&read(&events), &[]);
    let ops: Vec<&str> = found
        .list
        .calls
        .iter()
        .map(|call| found.list.kind(call).unwrap().op.as_str())
        .collect();
    assert_eq!(ops, ["aten::add", "(none)", "(none)"]);
    // No device has properties: limits are empty, not assumed.
    assert!(found.calls.rows.iter().all(|row| row.pct().is_none()));
    assert_eq!(found.devices.iter().count(), 2);
}

#[test]
fn annotations_that_nest_give_the_lengths_with_sums() {
    let sums = "execute_2_context_0(sq0sk0sqsq0sqsk0)_generation_2(sq2sk30sqsq2sqsk30)";
    let attention =
        r#""Input Dims":[[2,4,8],[2,1,8],[2,1,8]],"Input type":["float","float","float"]"#;
    let events = [
        op("vllm::unified_attention", 0, attention),
        launch(2, 1),
        slice("user_annotation", sums, 1, 10, 100, ""),
        slice("user_annotation", "execute_new_0_cached_2", 1, 11, 90, ""),
        op("vllm::unified_attention", 20, attention),
        launch(22, 2),
        kernel("k", 500, 1, 0),
        kernel("k", 600, 2, 0),
    ];
    let found = analysed(&read(&events), &[]);
    let bases: Vec<Basis> = found
        .list
        .calls
        .iter()
        .map(|call| found.list.numbers(call).unwrap().basis)
        .collect();
    // What comes before the first annotation has no lengths.
    assert_eq!(bases, [Basis::Bound, Basis::Annotation]);
    assert_eq!(found.steps.len(), 1);
    assert_eq!(found.steps[0].name, sums);
}

#[test]
fn collectives_without_a_group_have_no_numbers() {
    let sizes =
        r#""Collective name":"allreduce","dtype":"Float","In msg nelems":8,"Out msg nelems":8"#;
    let events = [
        op("record_param_comms", 0, sizes),
        launch(2, 1),
        kernel("nccl", 50, 1, 0),
        op(
            "record_param_comms",
            20,
            &format!("{sizes},\"Group size\":4"),
        ),
        launch(22, 2),
        kernel("nccl", 90, 2, 0),
    ];
    let found = analysed(&read(&events), &[]);
    let links: Vec<Option<u128>> = found
        .list
        .calls
        .iter()
        .map(|call| found.list.numbers(call).map(|n| n.link_bytes))
        .collect();
    assert_eq!(links, [None, Some(2 * 3 * 32 / 4)]);
}

#[test]
fn a_capture_of_another_model_gives_no_numbers() {
    let graph = |id: i64| {
        slice(
            "cuda_runtime",
            "cudaGraphLaunch",
            1,
            5,
            2,
            &format!("\"correlation\":{id}"),
        )
    };
    let trace = read(&[graph(1), kernel("a", 50, 1, 0), kernel("b", 70, 1, 0)]);
    let begin = slice("cuda_runtime", "cudaStreamBeginCapture", 1, 1, 1, "");
    let end = slice("cuda_runtime", "cudaStreamEndCapture", 1, 90, 1, "");
    let node = |ts: i64, name: &str| {
        let args = format!("\"kernel\":\"{name}\"");
        slice("cuda_runtime", "cudaLaunchKernel", 1, ts, 1, &args)
    };
    let capture = |names: [&str; 2]| {
        read(&[
            begin.clone(),
            op("aten::add", 10, ADD),
            node(12, names[0]),
            op("aten::add", 30, ADD),
            node(32, names[1]),
            end.clone(),
        ])
    };
    let found = analysed(&trace, &[&capture(["x", "y"])]);
    assert_eq!(found.list.captures.unmatched, 1);
    assert!(found.coverage.is_empty());
    let found = analysed(&trace, &[&capture(["x", "y"]), &capture(["a", "b"])]);
    assert_eq!(found.list.captures.matched, 1);
    assert_eq!(found.coverage.by_basis[0].calls, 2);
}

#[test]
fn nothing_at_all_is_no_error() {
    let found = analysed(&read(&[]), &[]);
    assert!(found.calls.rows.is_empty() && found.steps.is_empty());
    assert_eq!(found.coverage.known_pct(), None);
}
