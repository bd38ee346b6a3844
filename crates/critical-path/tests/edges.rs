//! Tests of sparse, odd and contradictory recordings.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use byte_source::Source;
use critical_path::{
    Change, Flag, Graph, Group, Options, Part, PartOptions, Segment, analyse, marks,
};
use proptest::prelude::*;
use trace_model::kernel::{TraceIndex, Vocabulary};

/// One slice: category, name, (pid, tid), begin and length in microseconds, arguments.
type Row<'a> = (&'a str, &'a str, (i64, i64), f64, f64, &'a str);

fn graph_with(rows: &[Row<'_>], options: PartOptions) -> Graph {
    let rows: Vec<String> = rows
        .iter()
        .map(|(category, name, (pid, tid), ts, dur, args)| {
            format!(
                "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{{args}}}}}"
            )
        })
        .collect();
    let json = format!("{{\"traceEvents\":[{}]}}", rows.join(","));
    let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
    let index = TraceIndex::new(&trace, Vocabulary::default());
    let part = Part::new(&index, 0, &marks(&index, None), options);
    Graph::new(vec![part], None)
}

fn graph(rows: &[Row<'_>]) -> Graph {
    graph_with(rows, PartOptions::default())
}

const HOST: (i64, i64) = (1, 10);

fn mark(number: &'static str, ts: f64, dur: f64) -> Row<'static> {
    ("user_annotation", number, HOST, ts, dur, "")
}

fn launch(args: &str, ts: f64) -> Row<'_> {
    ("cuda_runtime", "cudaLaunchKernel", HOST, ts, 3.0, args)
}

fn kernel(args: &str, stream: i64, ts: f64, dur: f64) -> Row<'_> {
    ("kernel", "rms_norm_kernel", (0, stream), ts, dur, args)
}

/// Checks that the path covers every step exactly, and that a replay without a change is the
/// identity.
fn check(graph: &Graph) {
    for step in graph.steps(0) {
        let path: Vec<Segment> = graph.path(0, step);
        let mut at = step.begin_ns;
        for segment in &path {
            assert_eq!(segment.begin_ns, at, "{path:?}");
            at = segment.end_ns;
        }
        assert_eq!(at, step.end_ns, "{path:?}");
    }
    if let Ok(analysis) = analyse(graph, &Options::default()) {
        assert_eq!(analysis.replay.identity_error_ns, 0);
    }
}

#[test]
fn without_device_work_a_step_ends_with_its_last_call() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 50.0),
        launch("", 10.0),
        ("cuda_runtime", "cudaMalloc", HOST, 20.0, 10.0, ""),
        mark("ProfilerStep#2", 60.0, 40.0),
        launch("", 70.0),
    ]);
    check(&graph);
    let steps = graph.steps(0);
    assert_eq!(steps.len(), 2);
    assert_eq!((steps[0].begin_ns, steps[0].end_ns), (0, 30_000));
    assert_eq!((steps[1].begin_ns, steps[1].end_ns), (30_000, 73_000));
    assert!(steps.iter().all(|step| step.flags == [Flag::Host]));
    assert_eq!(graph.summary(0, &steps[1]).verdict(), "host-bound");
}

#[test]
fn a_mark_without_calls_is_no_step_but_ends_the_one_before() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 50.0),
        launch("\"correlation\":1", 10.0),
        kernel("\"correlation\":1,\"stream\":7,\"device\":0", 7, 20.0, 10.0),
        mark("ProfilerStep#2", 60.0, 40.0),
    ]);
    check(&graph);
    assert_eq!(graph.steps(0).len(), 1);
    assert_eq!(graph.steps(0)[0].host_ns, (0, 60_000));
}

#[test]
fn marks_within_others_and_across_them_are_no_steps() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 50.0),
        mark("execute_model", 5.0, 20.0),
        launch("\"correlation\":1", 10.0),
        kernel("\"correlation\":1,\"stream\":7,\"device\":0", 7, 20.0, 10.0),
        (
            "user_annotation",
            "step[DECODE bs=1]",
            (1, 11),
            8.0,
            80.0,
            "",
        ),
        mark("ProfilerStep#2", 50.0, 40.0),
        launch("\"correlation\":2", 60.0),
        kernel("\"correlation\":2,\"stream\":7,\"device\":0", 7, 70.0, 10.0),
    ]);
    check(&graph);
    let names: Vec<&str> = graph
        .steps(0)
        .iter()
        .map(|step| step.name.as_str())
        .collect();
    assert_eq!(names, ["ProfilerStep#1", "ProfilerStep#2"]);
}

#[test]
fn a_step_that_ends_before_the_one_before_it_takes_no_time() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 10.0),
        launch("\"correlation\":1", 2.0),
        kernel("\"correlation\":1,\"stream\":7,\"device\":0", 7, 10.0, 90.0),
        mark("ProfilerStep#2", 10.0, 10.0),
        launch("\"correlation\":2", 12.0),
        kernel(
            "\"correlation\":2,\"stream\":20,\"device\":0",
            20,
            20.0,
            5.0,
        ),
        mark("ProfilerStep#3", 20.0, 10.0),
        launch("\"correlation\":3", 22.0),
        kernel("\"correlation\":3,\"stream\":7,\"device\":0", 7, 101.0, 9.0),
    ]);
    check(&graph);
    let steps = graph.steps(0);
    assert_eq!(steps[1].flags, [Flag::Hidden]);
    assert_eq!(steps[1].duration_ns(), 0);
    let total: i64 = steps.iter().map(|step| step.duration_ns()).sum();
    assert_eq!(total, 110_000);
}

#[test]
fn clocks_that_contradict_are_counted_and_make_no_dependency() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 50.0),
        launch("\"correlation\":1", 10.0),
        kernel("\"correlation\":1,\"stream\":7,\"device\":0", 7, 8.0, 10.0),
        launch("\"correlation\":2", 15.0),
        kernel("\"correlation\":2,\"stream\":7,\"device\":0", 7, 20.0, 10.0),
    ]);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.contradicted, 1);
    assert_eq!(analysis.edges["launch"], 1);
}

#[test]
fn work_of_no_length_and_equal_times_have_an_order() {
    let args: Vec<String> = (1..40)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let mut rows = vec![mark("ProfilerStep#1", 0.0, 50.0)];
    for args in &args {
        rows.push(("cuda_runtime", "cudaLaunchKernel", HOST, 10.0, 0.0, args));
        rows.push(kernel(args, 7, 10.0, 0.0));
        rows.push(("cuda_runtime", "cudaDeviceSynchronize", HOST, 10.0, 0.0, ""));
    }
    let last = "\"correlation\":99,\"stream\":7,\"device\":0";
    rows.push(launch(last, 20.0));
    rows.push(kernel(last, 7, 30.0, 10.0));
    let graph = graph(&rows);
    check(&graph);
    assert_eq!(graph.steps(0)[0].duration_ns(), 40_000);
}

#[test]
fn guesses_can_be_left_out() {
    let rows = [
        mark("ProfilerStep#1", 0.0, 90.0),
        launch("\"correlation\":1", 5.0),
        ("cuda_runtime", "cudaEventRecord", HOST, 9.0, 1.0, ""),
        ("cuda_runtime", "cudaStreamWaitEvent", HOST, 11.0, 1.0, ""),
        launch("\"correlation\":2", 13.0),
        kernel("\"correlation\":1,\"stream\":7,\"device\":0", 7, 10.0, 30.0),
        kernel(
            "\"correlation\":2,\"stream\":20,\"device\":0",
            20,
            42.0,
            40.0,
        ),
    ];
    let with = analyse(&graph(&rows), &Options::default()).unwrap();
    assert_eq!(with.edges.get("event/guess"), Some(&1));
    let mut options = PartOptions::default();
    options.guesses = false;
    let without = graph_with(&rows, options);
    check(&without);
    let without = analyse(&without, &Options::default()).unwrap();
    assert!(without.edges.keys().all(|kind| !kind.contains('/')));
    assert!(without.window.groups.of(Group::Unknown) > 0);
}

#[test]
fn code_that_polls_is_found_by_equal_ends() {
    // Without a call the host waits until its kernel is done, three times.
    let args: Vec<String> = (1..4)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let mut rows = vec![mark("ProfilerStep#1", 0.0, 2_000.0)];
    for (round, args) in args.iter().enumerate() {
        let at = 400.0 * round as f64;
        rows.push(launch(args, at + 10.0));
        rows.push(kernel(args, 7, at + 20.0, 300.0 - 40.0 * round as f64));
        rows.push((
            "python_function",
            "poll_done",
            HOST,
            at + 14.0,
            310.0 - 40.0 * round as f64,
            "",
        ));
    }
    rows.push(("python_function", "work", HOST, 1_300.0, 50.0, ""));
    let last = "\"correlation\":9,\"stream\":7,\"device\":0";
    rows.push(launch(last, 1_360.0));
    rows.push(kernel(last, 7, 1_370.0, 10.0));
    let graph = graph(&rows);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.edges.get("spin/guess"), Some(&3));
}

#[test]
fn what_touches_nothing_and_losses_are_said() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 50.0),
        launch("\"correlation\":1", 10.0),
        kernel("\"correlation\":1,\"stream\":7,\"device\":0", 7, 20.0, 10.0),
    ]);
    let mut options = Options::default();
    for change in ["kernel:no_such=0", "kernel=2", "rank:7=0.5"] {
        options.what_if.push(change.parse::<Change>().unwrap());
    }
    let found = analyse(&graph, &options).unwrap().what_if;
    assert_eq!((found[0].touched, found[0].gain_ns), (0, 0));
    assert_eq!(found[1].gain_ns, -10_000);
    assert_eq!(found[2].touched, 0);
}

const CATEGORIES: &[(&str, &[&str])] = &[
    (
        "cuda_runtime",
        &[
            "cudaLaunchKernel",
            "cudaGraphLaunch",
            "cudaMemcpyAsync",
            "hipMemcpyWithStream",
            "cudaMalloc",
        ],
    ),
    (
        "cuda_runtime",
        &[
            "cudaDeviceSynchronize",
            "cudaStreamSynchronize",
            "cudaEventSynchronize",
        ],
    ),
    (
        "cuda_runtime",
        &["cudaEventRecord", "cudaStreamWaitEvent", "cudaEventQuery"],
    ),
    (
        "kernel",
        &[
            "rms_norm_kernel",
            "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
            "sgemm_128x64_kernel",
        ],
    ),
    (
        "gpu_memcpy",
        &[
            "Memcpy DtoH (Device -> Pageable)",
            "Memcpy HtoD (Pinned -> Device)",
            "Memcpy DtoD",
        ],
    ),
    ("gpu_memset", &["Memset (Device)"]),
    (
        "cuda_sync",
        &[
            "Event Sync",
            "Stream Sync",
            "Context Sync",
            "Stream Wait Event",
        ],
    ),
    (
        "python_function",
        &[
            "f",
            "scheduler.py(5): recv_requests",
            "<built-in method poll of zmq.Socket object at 0x7f>",
        ],
    ),
    (
        "cpu_op",
        &[
            "aten::mm",
            "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__",
        ],
    ),
    (
        "user_annotation",
        &["ProfilerStep#1", "step[DECODE bs=1]", "other"],
    ),
    ("overhead", &["Instrumentation"]),
];

/// Generates slices without any structure.
fn noise() -> impl Strategy<Value = Vec<String>> {
    let one = (
        (0..CATEGORIES.len(), any::<prop::sample::Index>()),
        (0_i64..2, 0_i64..3),
        (
            0_i64..900,
            prop_oneof![Just(0_i64), 0..40_i64, 100..400_i64],
        ),
        (0_i64..12, 0_i64..12, 0_i64..3),
    );
    let row = one.prop_map(|((category, name), (pid, tid), (ts, dur), (id, event, stream))| {
        let (category, names) = CATEGORIES[category];
        let name = names[name.index(names.len())];
        let device = ["kernel", "gpu_memcpy", "gpu_memset", "cuda_sync"].contains(&category);
        let (pid, tid) = if device { (0, 7 + stream) } else { (pid + 1, 10 + tid) };
        format!(
            "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{ts},\"dur\":{dur},\"args\":{{\"correlation\":{id},\"stream\":{},\"device\":0,\"wait_on_stream\":{},\"wait_on_cuda_event_record_corr_id\":{event}}}}}",
            7 + stream,
            7 + (stream + 1) % 3,
        )
    });
    prop::collection::vec(row, 0..60)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn slices_without_sense_have_paths_and_replays(rows in noise(), whole in any::<bool>(), guesses in any::<bool>()) {
        let json = format!("{{\"traceEvents\":[{}]}}", rows.join(","));
        let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
        let trace = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let found = if whole { Vec::new() } else { marks(&index, None) };
        let mut options = PartOptions::default();
        options.guesses = guesses;
        let graph = Graph::new(vec![Part::new(&index, 0, &found, options)], None);
        check(&graph);
        let mut options = Options::default();
        options.ops = true;
        options.segments = true;
        options.opportunities = 5;
        for change in ["kernel=0", "host=0,launch=0", "graph", "async", "fuse:*norm*", "requests=0", "unexplained=0", "rank:0=0", "comm:wait=0"] {
            options.what_if.push(change.parse::<Change>().unwrap());
        }
        if let Ok(analysis) = analyse(&graph, &options) {
            prop_assert!(analysis.ops.iter().all(|op| op.slack_ns >= 0));
            for row in &analysis.steps {
                prop_assert_eq!(row.groups.total(), row.duration_ns);
            }
            // A reduction never makes the window longer.
            for row in &analysis.what_if {
                if row.change != "graph" && row.change != "async" {
                    prop_assert!(row.gain_ns >= 0, "{}: {}", row.change, row.gain_ns);
                }
                prop_assert!(row.predicted_ns >= 0);
            }
        }
    }
}
