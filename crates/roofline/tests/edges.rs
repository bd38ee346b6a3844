//! Recordings that are odd: nothing fails, no time is lost.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use byte_source::Source;
use gpu_time::GpuWork;
use perfetto_reader::ReadOptions;
use roofline::{
    Analysis, Basis, By, CallOptions, Cause, Knowledge, NO_OPERATOR, OpSort, Options, analyse,
    kernel_details, ops,
};
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
    analysed_by(By::Call, trace, captures)
}

fn analysed_by(by: By, trace: &Trace, captures: &[&Trace]) -> Analysis {
    let knowledge = Knowledge::default();
    let work = GpuWork::new(trace);
    let captures: Vec<GpuWork<'_>> = captures.iter().map(|t| GpuWork::new(t)).collect();
    let captures: Vec<&GpuWork<'_>> = captures.iter().collect();
    let mut options = Options::new(CallOptions::new(&knowledge));
    options.by = by;
    let found = analyse(&work, &captures, &options, |_| true).unwrap();
    // Every piece of work is in one call, and every call in one row.
    let kernels: u64 = found.calls.rows.iter().map(|row| row.kernels).sum();
    assert_eq!(kernels, work.events().len() as u64);
    let time: i64 = found.list.calls(&work).map(|call| call.time_ns()).sum();
    let rows: i64 = found.calls.rows.iter().map(|row| row.time_ns).sum();
    assert_eq!(rows, time);
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
    let trace = read(&events);
    let found = analysed(&trace, &[]);
    assert_eq!(found.list.len(), 1);
    let work = GpuWork::new(&trace);
    let call = found.list.calls(&work).next().unwrap();
    // The union of 50..60 and 55..65.
    assert_eq!((call.kernels(), call.time_ns()), (2, 15_000));
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
    let trace = read(&events);
    let (found, work) = (analysed(&trace, &[]), GpuWork::new(&trace));
    let ops: Vec<&str> = found
        .list
        .calls(&work)
        .map(|call| found.list.kind(&call).unwrap().op.as_str())
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
    let trace = read(&events);
    let (found, work) = (analysed(&trace, &[]), GpuWork::new(&trace));
    let bases: Vec<Basis> = found
        .list
        .calls(&work)
        .map(|call| found.list.numbers(&call).unwrap().basis)
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
    let trace = read(&events);
    let (found, work) = (analysed(&trace, &[]), GpuWork::new(&trace));
    let links: Vec<Option<u128>> = found
        .list
        .calls(&work)
        .map(|call| found.list.numbers(&call).map(|n| n.link_bytes))
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

/// A replay of two kernels within `annotation`, if it is not empty.
fn replay(annotation: &str) -> Trace {
    let mut events = vec![
        slice(
            "cuda_runtime",
            "cudaGraphLaunch",
            1,
            5,
            2,
            "\"correlation\":1",
        ),
        kernel("a", 50, 1, 0),
        kernel("b", 70, 1, 0),
    ];
    if !annotation.is_empty() {
        events.push(slice("user_annotation", annotation, 1, 0, 20, ""));
    }
    read(&events)
}

/// Captures of these sizes, each of two products with so many rows.
fn captures(sizes: &[(&str, i64)]) -> Trace {
    let mut events = Vec::new();
    for (n, (annotation, rows)) in (0..).zip(sizes) {
        let at = 1000 * n;
        let product = format!(r#""Input Dims":[[{rows},8],[8,4]],"Input type":["float","float"]"#);
        if !annotation.is_empty() {
            events.push(slice("user_annotation", annotation, 1, at, 500, ""));
        }
        events.push(slice(
            "cuda_runtime",
            "cudaStreamBeginCapture",
            1,
            at + 1,
            1,
            "",
        ));
        for (more, name) in [(10, "a"), (30, "b")] {
            events.push(op("aten::mm", at + more, &product));
            let args = format!("\"kernel\":\"{name}\"");
            events.push(slice(
                "cuda_runtime",
                "cudaLaunchKernel",
                1,
                at + more + 2,
                1,
                &args,
            ));
        }
        events.push(slice(
            "cuda_runtime",
            "cudaStreamEndCapture",
            1,
            at + 90,
            1,
            "",
        ));
    }
    read(&events)
}

/// Rows of the products that a replay was joined to, and the basis of their numbers.
fn joined(annotation: &str, sizes: &[(&str, i64)]) -> (Option<u128>, Basis, Analysis) {
    let (trace, captured) = (replay(annotation), captures(sizes));
    let found = analysed(&trace, &[&captured]);
    let numbers = found.list.kinds[0].answer.as_ref().ok();
    let flops = numbers.and_then(|n| n.flops);
    let basis = numbers.map_or(Basis::Unknown, |n| n.basis);
    (flops.map(|n| n / (2 * 8 * 4)), basis, found)
}

#[test]
fn a_replay_is_joined_to_the_smallest_capture_that_holds_its_tokens() {
    let sizes = [
        ("capture_8_FULL", 8),
        ("capture_32_FULL", 32),
        ("capture_16_FULL", 16),
    ];
    for (tokens, rows) in [(1, 8), (8, 8), (9, 16), (16, 16), (17, 32), (32, 32)] {
        let (found, basis, _) = joined(&format!("step[DECODE bs={tokens}]"), &sizes);
        assert_eq!((found, basis), (Some(rows), Basis::Exact), "{tokens}");
    }
    // 33 tokens do not fit into any of them, whatever the names are.
    let (found, _, analysis) = joined("step[DECODE bs=33]", &sizes);
    assert_eq!(found, None);
    let counts = analysis.list.captures;
    assert_eq!(
        (counts.matched, counts.unmatched, counts.too_small),
        (0, 1, 1)
    );
    assert!(analysis.coverage.time_without(Cause::Graph) > 0);
    let (found, _, analysis) = joined("step[DECODE bs=64]", &[("capture_8_FULL", 8)]);
    assert_eq!((found, analysis.list.captures.too_small), (None, 1));
    // A capture without size may hold them.
    let (found, basis, _) = joined("step[DECODE bs=64]", &[("capture_8_FULL", 8), ("", 64)]);
    assert_eq!((found, basis), (Some(64), Basis::Exact));
}

#[test]
fn numbers_are_exact_only_if_all_captures_that_may_have_been_replayed_have_them() {
    let bytes = |rows: u128| 4 * (rows * 8 + 8 * 4 + rows * 4);
    for (annotation, sizes) in [
        ("", vec![("capture_8_FULL", 8), ("capture_32_FULL", 32)]),
        ("", vec![("", 8), ("", 32)]),
        ("step[DECODE bs=4]", vec![("", 8), ("", 32)]),
    ] {
        let (_, basis, analysis) = joined(annotation, &sizes);
        assert_eq!(basis, Basis::Estimate, "{annotation} {sizes:?}");
        let numbers = analysis.list.kinds[0].answer.as_ref().unwrap();
        assert_eq!(
            (numbers.bytes_low, numbers.bytes_high),
            (bytes(8), Some(bytes(32)))
        );
        assert!(numbers.note.contains("several captures fit"));
        assert_eq!(analysis.list.captures.unsure, 1);
    }
    // Alike, they leave no doubt about the numbers.
    let (rows, basis, _) = joined("", &[("", 8), ("", 8)]);
    assert_eq!((rows, basis), (Some(8), Basis::Exact));
    let (rows, basis, analysis) = joined("", &[("capture_8_FULL", 8), ("capture_8_FULL", 8)]);
    assert_eq!(
        (rows, basis, analysis.list.captures.unsure),
        (Some(8), Basis::Exact, 0)
    );
}

#[test]
fn a_memset_of_a_call_leaves_its_numbers_to_the_kernel() {
    let memset = slice(
        "gpu_memset",
        "Memset (Device)",
        7,
        45,
        2,
        r#""correlation":1,"device":0,"stream":7,"bytes":64"#,
    )
    .replace("\"pid\":1", "\"pid\":0");
    let launches = [launch(2, 1), launch(4, 2), launch(22, 3), launch(24, 4)];
    let mut events = vec![op("aten::add", 0, ADD), op("aten::add", 20, ADD)];
    events.extend(launches);
    // The first call is a memset and a kernel, the second two kernels of one name.
    events.extend([
        memset,
        kernel("one", 50, 2, 0),
        kernel("two", 70, 3, 0),
        kernel("two", 90, 4, 0),
    ]);
    let trace = read(&events);
    let found = analysed_by(By::Kernel, &trace, &[]);
    let rows: Vec<_> = found.rows.rows.iter().collect();
    let of = |name: &str| {
        let named = |row: &&&roofline::Row| found.rows.name(&found.list, row) == name;
        **rows.iter().find(named).unwrap()
    };
    let one = of("one");
    assert_eq!(
        (one.calls, one.bytes, one.basis()),
        (1, 3 * 16, Basis::Exact)
    );
    assert_eq!(one.time_ns, 10_000);
    // Two kernels serve one call, and none has its numbers alone.
    let two = of("two");
    assert_eq!(
        (two.calls, two.kernels, two.basis()),
        (1, 2, Basis::Unknown)
    );
    assert_eq!(of("Memset (Device)").basis(), Basis::Unknown);
    let work = GpuWork::new(&trace);
    let details = kernel_details(&work, &found, |_| true);
    let bases: Vec<_> = details
        .iter()
        .map(|row| (row.name.as_str(), row.basis.is_some()))
        .collect();
    assert_eq!(
        bases,
        [("two", false), ("one", true), ("Memset (Device)", false)]
    );
}

#[test]
fn operators_nest_by_their_times_whatever_overlaps_with_them() {
    for between in ["python_function", "user_annotation"] {
        let args = r#""Input Dims":[[4],[4]],"Input type":["float","float"]"#;
        let events = [
            slice("cpu_op", "aten::mul", 1, 0, 100, args),
            slice(between, "f", 1, 5, 10, ""),
            slice("cpu_op", "aten::add", 1, 10, 30, args),
            launch(20, 1),
            launch(60, 2),
            kernel("k", 200, 1, 0),
            kernel("k", 300, 2, 0),
        ];
        let trace = read(&events);
        let work = GpuWork::new(&trace);
        let knowledge = Knowledge::default();
        let rows = ops(&work, &knowledge.models, false, None, OpSort::Total);
        // As key_averages has it: the inner operator's time is not the outer one's own.
        let times: Vec<_> = rows
            .iter()
            .map(|row| {
                (
                    row.name.as_str(),
                    row.self_ns,
                    row.total_ns,
                    row.self_gpu_ns,
                    row.total_gpu_ns,
                )
            })
            .collect();
        assert_eq!(
            times,
            [
                ("aten::mul", 70_000, 100_000, 10_000, 20_000),
                ("aten::add", 30_000, 30_000, 10_000, 10_000)
            ],
            "{between}"
        );
        let found = analysed(&trace, &[]);
        let work = GpuWork::new(&trace);
        let calls = found.list.calls(&work);
        let calls: Vec<&str> = calls
            .map(|call| found.list.kind(&call).unwrap().op.as_str())
            .collect();
        assert_eq!(calls, ["aten::add", "aten::mul"], "{between}");
    }
}

#[test]
fn the_cause_of_work_without_operator_is_stated() {
    let events = [
        kernel("before", 10, 9, 0),
        launch(22, 1),
        kernel("outside", 50, 1, 0),
        slice(
            "cuda_runtime",
            "cudaGraphLaunch",
            1,
            30,
            2,
            "\"correlation\":2",
        ),
        kernel("replayed", 70, 2, 0),
    ];
    let found = analysed(&read(&events), &[]);
    assert!(found.list.kinds.iter().all(|kind| kind.op == NO_OPERATOR));
    for (name, cause) in [
        ("before", Cause::NoLaunch),
        ("outside", Cause::NoOperator),
        ("replayed", Cause::Graph),
    ] {
        let missing = found
            .coverage
            .missing
            .iter()
            .find(|m| m.op == name)
            .unwrap();
        assert_eq!(missing.cause, Some(cause));
        assert_eq!(found.coverage.time_without(cause), 10_000);
    }
}

#[test]
fn lower_bounds_count_with_what_is_certain() {
    // The extent of the kernel is not recorded: between nothing and both tensors.
    let fused = r#""Input Dims":[[1000000],[1000000]],"Input type":["float","float"]"#;
    let events = [
        op("triton_poi_fused_0", 0, fused),
        launch(2, 1),
        kernel("triton_poi_fused_0", 50, 1, 0),
    ];
    let trace = read(&events);
    let work = GpuWork::new(&trace);
    let knowledge = Knowledge::default();
    let mut options = Options::new(CallOptions::new(&knowledge));
    options.devices.key = Some("h200".to_owned());
    let found = analyse(&work, &[], &options, |_| true).unwrap();
    let row = found.calls.rows[0];
    assert_eq!((row.basis(), row.bytes), (Basis::Bound, 8_000_000));
    assert_eq!(
        (row.pct(), row.gbs(), row.gain_ns()),
        (Some(0.0), Some(0.0), Some(10_000.0))
    );
    assert_eq!((found.pct(), found.pct_ends()[0]), (Some(0.0), Some(0.0)));
    let details = kernel_details(&work, &found, |_| true);
    assert_eq!((details[0].pct(), details[0].gbs()), (Some(0.0), Some(0.0)));
}

#[test]
fn limits_are_those_of_the_devices_that_are_known() {
    let events = [
        op("aten::add", 0, ADD),
        launch(2, 1),
        op("aten::add", 20, ADD),
        launch(22, 2),
        kernel("k", 50, 1, 0),
        kernel("k", 90, 2, 1),
        kernel("k", 150, 2, 1),
    ];
    let text = format!(
        r#"{{"deviceProperties":[{{"id":0,"name":"NVIDIA H200"}},{{"id":1,"name":"Foo"}}],"traceEvents":[{}]}}"#,
        events.join(",")
    );
    let source = Source::from_bytes("t.json", text.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
    // Most time is on the device that is not known.
    let found = analysed(&trace, &[]);
    assert_eq!(found.main_device, 1);
    let names: Vec<&str> = found
        .limited_devices()
        .iter()
        .map(|d| d.name.as_str())
        .collect();
    assert_eq!(names, ["NVIDIA H200"]);
    let want = 100.0 * (48.0 / 4800.0) / 10_000.0;
    assert!((found.pct().unwrap() - want).abs() < 1e-12);
    assert_eq!(found.unlimited_ns(), 20_000);
}

#[test]
fn nothing_at_all_is_no_error() {
    let found = analysed(&read(&[]), &[]);
    assert!(found.calls.rows.is_empty() && found.steps.is_empty());
    assert_eq!(found.coverage.known_pct(), None);
}

/// A step that works on two devices at once is two rows, each with the needs, the time and the limit of its device.
#[test]
fn a_step_on_two_devices_has_a_row_for_each() {
    let product =
        r#""Input Dims":[[64,4096],[4096,4096]],"Input type":["c10::BFloat16","c10::BFloat16"]"#;
    let name = "execute_context_0(0)_generation_64(64)";
    let mut events = vec![slice("user_annotation", name, 1, 0, 100, "")];
    for (at, device) in [(0, 0), (20, 1), (40, 1)] {
        let id = at + 1;
        events.push(op("aten::mm", at + 1, product));
        events.push(launch(at + 2, id));
        events.push(kernel("gemm", 200 + at, id, device));
    }
    for second in ["NVIDIA H200", "NVIDIA A100-SXM4-80GB"] {
        let text = format!(
            r#"{{"deviceProperties":[{{"id":0,"name":"NVIDIA H200"}},{{"id":1,"name":"{second}"}}],"traceEvents":[{}]}}"#,
            events.join(",")
        );
        let source = Source::from_bytes("t.json", text.into_bytes()).unwrap();
        let trace = perfetto_reader::read(source, &ReadOptions::default()).unwrap();
        let found = analysed(&trace, &[]);
        let flops = 2 * 64 * 4096 * 4096;
        let rows: Vec<_> = found
            .steps
            .iter()
            .map(|step| {
                (
                    step.device,
                    step.needs.kernels,
                    step.busy_ns,
                    step.needs.matrix_flops(),
                )
            })
            .collect();
        assert_eq!(rows, [(0, 1, 10_000, flops), (1, 2, 20_000, 2 * flops)]);
        // 33.55 MB of weights at 4.8 TB/s take 6.99 us of 10.
        let (share, _) = found.steps[0].share_of_limit().unwrap();
        assert!((69.9..70.0).contains(&share), "{share}");
        let table = roofline::tables::steps(&[("", &found)]).unwrap();
        assert!(
            table
                .columns()
                .iter()
                .any(|column| column.name() == "device")
        );
        let answer = roofline::text::answer(&found);
        let wanted = match second {
            // The busier of two equal devices.
            "NVIDIA H200" => "the decode step (on device ",
            _ => "device 1 (NVIDIA A100",
        };
        assert!(answer.contains(wanted), "{second}: {answer}");
    }
}
