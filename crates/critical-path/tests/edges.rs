//! Tests of sparse, odd and contradictory recordings.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use byte_source::Source;
use critical_path::{
    Change, Flag, Graph, Group, Options, Part, PartOptions, Segment, Step, analyse, doubts, lines,
    marks, sentences,
};
use gpu_time::comm::{CommRules, Job, RankDigest, assign_ranks};
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
    let graph = Graph::new(vec![part], None);
    let alone = Part::steps_of(&index, &marks(&index, None));
    let times = |steps: &[Step]| -> Vec<_> {
        let all = steps.iter();
        all.map(|s| {
            (
                s.host_ns,
                s.device_ns,
                s.begin_ns,
                s.end_ns,
                s.flags.clone(),
            )
        })
        .collect()
    };
    assert_eq!(times(&alone), times(graph.steps(0)));
    graph
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
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.recordings[0].marks_without_work, 1);
    let notes = critical_path::doubts(&analysis);
    let note = notes.iter().find(|note| note.code == "marks_without_work");
    assert_eq!(note.unwrap().count, Some(1));
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
fn marks_of_the_engine_that_name_a_phase_name_the_steps_of_the_profiler() {
    let args: Vec<String> = (1..5)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let mut rows = vec![
        mark("ProfilerStep#1", 0.0, 50.0),
        mark("execute_context_1(2048)_generation_0(0)", 5.0, 40.0),
        // Two steps of the engine in one of the profiler.
        mark("ProfilerStep#2", 50.0, 100.0),
        mark("execute_context_0(0)_generation_8(8)", 55.0, 40.0),
        mark("execute_context_0(0)_generation_9(9)", 100.0, 40.0),
        mark("ProfilerStep#3", 150.0, 50.0),
    ];
    for (nth, args) in args.iter().enumerate() {
        let at = 50.0 * nth as f64;
        rows.push(launch(args, at + 10.0));
        rows.push(kernel(args, 7, at + 20.0, 10.0));
    }
    let graph = graph(&rows);
    check(&graph);
    let steps = graph.steps(0).iter();
    let found: Vec<(&str, (i64, i64))> = steps
        .map(|step| (step.name.as_str(), step.host_ns))
        .collect();
    let want = [
        ("execute_context_1(2048)_generation_0(0)", (0, 50_000)),
        ("execute_context_0(0)_generation_8(8)", (50_000, 100_000)),
        ("execute_context_0(0)_generation_9(9)", (100_000, 150_000)),
        ("ProfilerStep#3", (150_000, 200_000)),
    ];
    assert_eq!(found, want);
    let text = sentences(&analyse(&graph, &Options::default()).unwrap());
    assert!(
        text.iter().any(|line| line.starts_with("2 decode steps")),
        "{text:?}"
    );
    assert!(
        text.iter().any(|line| line.starts_with("1 prefill step ")),
        "{text:?}"
    );
}

#[test]
fn functions_of_the_interpreter_that_wait_are_blocked() {
    for name in [
        "<built-in function read>",
        "<built-in function waitpid>",
        "<method 'acquire' of '_thread.lock' objects>",
        "<built-in method time.sleep>",
        "time.sleep",
        "epoll_wait",
        "<built-in method recv of _socket.socket object at 0x7f>",
        "<built-in method poll of select.epoll object at 0x7f>",
    ] {
        for (holder, class) in [
            ("logger.py(10): flush_logs", "blocked"),
            ("core.py(700): _process_input_queue", "requests"),
        ] {
            let rows = [
                mark("ProfilerStep#1", 0.0, 100.0),
                launch("\"correlation\":1", 5.0),
                kernel("\"correlation\":1,\"stream\":7,\"device\":0", 7, 10.0, 50.0),
                ("python_function", holder, HOST, 100.0, 400.0, ""),
                ("python_function", name, HOST, 105.0, 390.0, ""),
                mark("ProfilerStep#2", 500.0, 100.0),
                launch("\"correlation\":2", 505.0),
                kernel(
                    "\"correlation\":2,\"stream\":7,\"device\":0",
                    7,
                    510.0,
                    30.0,
                ),
            ];
            let analysis = analyse(&graph(&rows), &Options::default()).unwrap();
            assert_eq!(analysis.steps[1].verdict, "wait-bound", "{name}");
            assert!(
                analysis.steps[1].classes.get(class) >= Some(&390_000),
                "{name} {class}: {:?}",
                analysis.steps[1].classes
            );
        }
    }
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

const STREAM_7: &str = "\"stream\":7,\"device\":0";

/// Kernels without any host event, of one length and with one gap between them, in microseconds.
fn kernels_alone(length: f64, gap: f64) -> Graph {
    let rows: Vec<Row<'_>> = (0..50)
        .map(|at| kernel(STREAM_7, 7, f64::from(at) * (length + gap), length))
        .collect();
    graph(&rows)
}

#[test]
fn gaps_without_host_events_are_unknown() {
    let graph = kernels_alone(5.0, 30.0);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let lag = analysis.recordings[0].lags["stream"];
    assert_eq!((lag.typical_ns, lag.samples), (1_000, 0));
    assert_eq!(analysis.window.verdict, "unknown");
    let first = &sentences(&analysis)[0];
    assert!(first.contains("unknown for 7"), "{first}");
}

#[test]
fn a_verdict_under_a_bad_model_is_not_stated_as_sure() {
    let analysis = analyse(&kernels_alone(60.0, 40.0), &Options::default()).unwrap();
    let first = &sentences(&analysis)[0];
    assert!(first.contains("perhaps gpu-bound"), "{first}");
    let notes = doubts(&analysis);
    assert!(
        notes
            .iter()
            .any(|note| note.text.contains("verdict and gains"))
    );
    let analysis = analyse(&kernels_alone(60.0, 1.0), &Options::default()).unwrap();
    let first = &sentences(&analysis)[0];
    assert!(!first.contains("perhaps"), "{first}");
}

#[test]
fn waiting_for_another_stream_is_no_latency() {
    // Two kernels with one of another stream between them, without recorded events: each is launched long before it starts.
    let args: Vec<String> = (0..30)
        .map(|id| {
            let stream = if id % 3 == 1 { 20 } else { 7 };
            format!(
                "\"correlation\":{},\"stream\":{stream},\"device\":0",
                id + 1
            )
        })
        .collect();
    let marks: Vec<String> = (0..10).map(|n| format!("ProfilerStep#{n}")).collect();
    let mut rows = Vec::new();
    for (step, args) in args.chunks(3).enumerate() {
        let at = 600.0 * step as f64;
        rows.push(("user_annotation", marks[step].as_str(), HOST, at, 590.0, ""));
        rows.push(launch(&args[0], at + 1.0));
        rows.push(kernel(&args[0], 7, at + 6.0, 50.0));
        rows.push(launch(&args[1], at + 5.0));
        rows.push(kernel(&args[1], 20, at + 57.0, 500.0));
        rows.push(launch(&args[2], at + 9.0));
        rows.push(kernel(&args[2], 7, at + 558.0, 20.0));
        let sync = (
            "cuda_runtime",
            "cudaDeviceSynchronize",
            HOST,
            at + 13.0,
            570.0,
            "",
        );
        rows.push(sync);
    }
    let graph = graph(&rows);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let lags = &analysis.recordings[0].lags;
    assert!(lags["stream"].typical_ns <= 2_000, "{:?}", lags["stream"]);
    assert!(lags["launch"].typical_ns <= 5_000, "{:?}", lags["launch"]);
    let queue: i64 = analysis
        .steps
        .iter()
        .filter_map(|step| step.classes.get("queue"))
        .sum();
    assert!(queue < 50_000, "{queue}");
    assert!(
        analysis.replay.model_error_pct.abs() < 5.0,
        "{:?}",
        analysis.replay
    );
}

#[test]
fn what_lies_behind_a_recording_without_steps_is_stated() {
    let args = [
        "\"correlation\":1,\"stream\":7,\"device\":0",
        "\"correlation\":2,\"stream\":20,\"device\":0",
    ];
    let graph = graph(&[
        launch(args[0], 0.0),
        kernel(args[0], 7, 6.0, 100.0),
        launch(args[1], 10.0),
        kernel(args[1], 20, 5_000.0, 10.0),
        ("cuda_runtime", "cudaFree", HOST, 5_020.0, 140.0, ""),
    ]);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    // The end is that of the stream that computes most.
    assert_eq!(analysis.window.duration_ns, 106_000);
    let first = &sentences(&analysis)[0];
    assert!(
        first.starts_with("The recording takes 106.0 µs to the last work of its main stream"),
        "{first}"
    );
    let lines = lines(&analysis, "whole");
    let outside = lines.iter().find(|line| line.0 == "outside");
    assert!(
        outside.is_some_and(|line| line.1.starts_with("5.054")),
        "{outside:?}"
    );
}

/// Two ranks with a collective in each of six steps; the host of rank 1 is late by 400 us in every other one.
fn a_late_rank() -> Graph {
    let (mut parts, mut digests) = (Vec::new(), Vec::new());
    for rank in 0..2_u32 {
        let mut rows = Vec::new();
        let (mut at, mut id) = (0_u32, 0);
        for step in 0..6_u32 {
            let late = if step % 2 == 0 { 400 } else { 0 };
            let own = if rank == 1 { late } else { 0 };
            let mut add = |category: &str,
                           name: &str,
                           tid: u32,
                           from: u32,
                           dur: u32,
                           args: &str| {
                let pid = u32::from(category != "kernel");
                rows.push(format!(
                    "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{from},\"dur\":{dur},\"args\":{{{args}}}}}"
                ));
            };
            let end = at + late + 171;
            add(
                "user_annotation",
                &format!("ProfilerStep#{step}"),
                10,
                at,
                end + 8 - at,
                "",
            );
            add("python_function", "slow_tokenize", 10, at, own + 9, "");
            for (nth, name) in [
                "sgemm_128x64_kernel",
                "ncclDevKernel_AllReduce_Sum_f16_RING_LL",
            ]
            .into_iter()
            .enumerate()
            {
                id += 1;
                let args = format!("\"correlation\":{id},\"stream\":7,\"device\":0");
                let (launched, start, stop) = match nth {
                    0 => (at + own + 10, at + own + 20, at + own + 70),
                    _ => (at + own + 15, at + own + 71, end),
                };
                add("cuda_runtime", "cudaLaunchKernel", 10, launched, 3, &args);
                add("kernel", name, 7, start, stop - start, &args);
            }
            add(
                "cuda_runtime",
                "cudaDeviceSynchronize",
                10,
                at + own + 20,
                end + 5 - at - own - 20,
                "",
            );
            at = end + 10;
        }
        let json = format!(
            "{{\"distributedInfo\":{{\"backend\":\"nccl\",\"rank\":{rank},\"world_size\":2}},\"traceEvents\":[{}]}}",
            rows.join(",")
        );
        let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
        let trace =
            perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
        let index = TraceIndex::new(&trace, Vocabulary::default());
        digests.push(RankDigest::of_part(
            &format!("rank{rank}.json"),
            &index,
            CommRules::Extended,
            |_| true,
        ));
        parts.push(Part::new(
            &index,
            rank,
            &marks(&index, None),
            PartOptions::default(),
        ));
    }
    assign_ranks(&mut digests).unwrap();
    let job = Job::new(&digests);
    Graph::new(parts, Some((&digests, &job)))
}

#[test]
fn waiting_for_other_ranks_is_touched_where_it_is_cut() {
    let mut options = Options::default();
    options.what_if.push("comm:wait=0".parse().unwrap());
    let analysis = analyse(&a_late_rank(), &options).unwrap();
    assert!(analysis.what_if[0].touched > 0);
}

#[test]
fn a_rank_as_fast_as_the_median_one_loses_what_it_was_late() {
    let mut options = Options::default();
    options.what_if.push("rank:1=median".parse().unwrap());
    options
        .what_if
        .push("host:slow_tokenize=0".parse().unwrap());
    let analysis = analyse(&a_late_rank(), &options).unwrap();
    assert_eq!(analysis.collectives, 6);
    let gain = analysis.what_if[0].gain_ns;
    assert!((gain - 1_200_000).abs() < 24_000, "{gain}");
}

#[test]
fn the_steps_of_all_ranks_are_steps_of_one_job() {
    let analysis = analyse(&a_late_rank(), &Options::default()).unwrap();
    assert_eq!(analysis.steps.len(), 12);
    let first = &sentences(&analysis)[0];
    assert!(
        first.starts_with("6 ProfilerStep#* steps of 2 ranks, median "),
        "{first}"
    );
}

#[test]
fn gaps_on_the_path_are_what_a_change_of_gaps_gains() {
    let args: Vec<String> = (1..13)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let mut rows = vec![mark("ProfilerStep#1", 0.0, 900.0)];
    let mut at = 100.0;
    for (nth, args) in args.iter().enumerate() {
        rows.push(launch(args, 4.0 * nth as f64));
        rows.push(kernel(args, 7, at, 50.0));
        at += if nth % 3 == 0 { 52.0 } else { 51.0 };
    }
    let mut options = Options::default();
    options.what_if.push("gap=0".parse().unwrap());
    let analysis = analyse(&graph(&rows), &options).unwrap();
    let queue = analysis.steps[0].classes["queue"];
    assert_eq!((queue, analysis.what_if[0].gain_ns), (15_000, 15_000));
    let unknown = analysis
        .limits
        .iter()
        .find(|row| row.group == Group::Unknown);
    assert_eq!(
        unknown.unwrap().gain_ns,
        analysis.window.groups.of(Group::Unknown)
    );
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

#[test]
fn without_calls_work_belongs_to_the_mark_in_which_it_starts() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 100.0),
        kernel("\"stream\":7,\"device\":0", 7, 10.0, 50.0),
        mark("ProfilerStep#2", 100.0, 100.0),
        kernel("\"stream\":7,\"device\":0", 7, 110.0, 50.0),
        kernel("\"stream\":7,\"device\":0", 7, 161.0, 20.0),
    ]);
    check(&graph);
    let steps: Vec<(i64, i64)> = graph
        .steps(0)
        .iter()
        .map(|step| (step.begin_ns, step.end_ns))
        .collect();
    assert_eq!(steps, [(10_000, 60_000), (60_000, 181_000)]);
}

/// Eight steps of one kernel of 900 us, each waited for; the clock of the device is `ahead` by microseconds.
fn waited_for(ahead: f64) -> Vec<Row<'static>> {
    let mut rows = Vec::new();
    for step in 0..8 {
        let at = 1000.0 * f64::from(step);
        let text = |text: String| -> &'static str { Box::leak(text.into_boxed_str()) };
        let ids = text(format!("\"correlation\":{}", 100 + step));
        let on = text(format!(
            "\"correlation\":{},\"device\":0,\"stream\":7",
            100 + step
        ));
        let sync = text(format!("\"correlation\":{}", 200 + step));
        let record = text(format!(
            "\"correlation\":{},\"device\":0,\"stream\":7,\"cuda_sync_kind\":\"Stream Synchronize\"",
            200 + step
        ));
        rows.push(mark(text(format!("ProfilerStep#{step}")), at, 990.0));
        rows.push(launch(ids, at + 10.0));
        rows.push(kernel(on, 7, at + 20.0 + ahead, 900.0));
        let wait = ("cuda_runtime", "cudaStreamSynchronize", HOST);
        rows.push((wait.0, wait.1, wait.2, at + 14.0, 910.0, sync));
        rows.push((
            "cuda_sync",
            "Stream Synchronize",
            (0, 7),
            at + 14.0,
            910.0,
            record,
        ));
    }
    rows
}

fn groups(rows: &[Row<'_>]) -> Vec<(Group, i64)> {
    let graph = graph(rows);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let groups = analysis.window.groups;
    Group::ALL.map(|group| (group, groups.of(group))).to_vec()
}

#[test]
fn a_device_clock_that_is_ahead_changes_no_class() {
    let (agrees, is_ahead) = (groups(&waited_for(0.0)), groups(&waited_for(7.5)));
    // 8 times 900 us on the device, whatever the clock.
    assert_eq!(agrees[0], (Group::Gpu, 7_200_000));
    for (group, ns) in &agrees {
        let other = is_ahead.iter().find(|found| found.0 == *group).unwrap();
        assert!((other.1 - ns).abs() <= 8 * 7_500, "{agrees:?} {is_ahead:?}");
    }
    // Synchronizations of work that had long ended tell no clock.
    let mut rows = waited_for(7.5);
    let events: Vec<[String; 2]> = (0..20)
        .map(|n| {
            let id = 300 + n;
            let record = "\"cuda_sync_kind\":\"Stream Synchronize\"";
            [
                format!("\"correlation\":{id}"),
                format!("\"correlation\":{id},\"device\":0,\"stream\":7,{record}"),
            ]
        })
        .collect();
    for (n, [call, record]) in events.iter().enumerate() {
        let at = 935.0 + 2.0 * n as f64;
        rows.push(("cuda_runtime", "cudaStreamSynchronize", HOST, at, 1.0, call));
        rows.push(("cuda_sync", "Stream Synchronize", (0, 7), at, 1.0, record));
    }
    let graph_ahead = graph(&rows);
    let ahead = analyse(&graph_ahead, &Options::default()).unwrap();
    assert_eq!(ahead.contradicted, 0);
    // One call that returns early proves no clock: a timeout, or a record that is wrong.
    let mut rows = waited_for(0.0);
    rows[3].4 = 890.0;
    let graph = graph(&rows);
    assert_eq!(
        analyse(&graph, &Options::default()).unwrap().contradicted,
        1
    );
}

#[test]
fn slices_that_begin_before_others_end_are_not_inside_them() {
    let rows = [
        mark("ProfilerStep#0", 0.0, 950.0),
        (
            "python_function",
            "scheduler.py(1): recv_requests",
            HOST,
            0.0,
            100.002,
            "",
        ),
        (
            "python_function",
            "model.py(1): forward",
            HOST,
            100.0,
            800.0,
            "",
        ),
        (
            "python_function",
            "model.py(9): layer",
            HOST,
            200.0,
            600.0,
            "",
        ),
        launch("\"correlation\":1", 880.0),
        kernel(
            "\"correlation\":1,\"device\":0,\"stream\":7",
            7,
            890.0,
            50.0,
        ),
    ];
    let graph = graph(&rows);
    check(&graph);
    let groups = analyse(&graph, &Options::default()).unwrap().window.groups;
    assert!(groups.of(Group::Wait) <= 100_002, "{groups:?}");
    assert!(groups.of(Group::Host) >= 700_000, "{groups:?}");
}

#[test]
fn pageable_memory_is_copied_by_the_call() {
    let with = |name: &'static str, length: f64| {
        let rows = [
            mark("ProfilerStep#0", 0.0, 1400.0),
            (
                "cuda_runtime",
                "cudaMemcpyAsync",
                HOST,
                10.0,
                1010.0,
                "\"correlation\":1",
            ),
            (
                "gpu_memcpy",
                name,
                (0, 7),
                15.0,
                length,
                "\"correlation\":1,\"device\":0,\"stream\":7",
            ),
            launch("\"correlation\":2", 1100.0),
            kernel(
                "\"correlation\":2,\"device\":0,\"stream\":7",
                7,
                1110.0,
                100.0,
            ),
        ];
        let graph = graph(&rows);
        check(&graph);
        let groups = analyse(&graph, &Options::default()).unwrap().window.groups;
        (groups.of(Group::Input), groups.of(Group::Launch))
    };
    let (input, launches) = with("Memcpy HtoD (Pageable -> Device)", 1000.0);
    assert!(
        input == 1_000_000 && launches < 50_000,
        "{input} {launches}"
    );
    // The last part may be on its way when the call returns.
    let (input, launches) = with("Memcpy HtoD (Pageable -> Device)", 1020.0);
    assert!(
        input >= 1_000_000 && launches < 50_000,
        "{input} {launches}"
    );
    let (input, launches) = with("Memcpy HtoD (Pinned -> Device)", 1000.0);
    assert!(input == 0 && launches > 1_000_000, "{input} {launches}");
}

/// The thread of the backward pass, in the process of [`HOST`].
const BACKWARD: (i64, i64) = (1, 11);

#[test]
fn a_hand_over_ends_with_the_annotation_and_explains_no_long_silence() {
    let ids: Vec<String> = (1..4)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    // The first thread waits inside `backward` until 700; the second one works from 30 to 400 and leaves 300 µs of silence.
    let rows = [
        mark("ProfilerStep#1", 0.0, 1_300.0),
        ("user_annotation", "backward", HOST, 8.0, 692.0, ""),
        launch(&ids[0], 10.0),
        kernel(&ids[0], 7, 15.0, 5.0),
        ("cpu_op", "Backward", BACKWARD, 30.0, 370.0, ""),
        (
            "cuda_runtime",
            "cudaLaunchKernel",
            BACKWARD,
            200.0,
            3.0,
            ids[1].as_str(),
        ),
        kernel(&ids[1], 7, 205.0, 5.0),
        ("user_annotation", "optimizer", HOST, 710.0, 500.0, ""),
        launch(&ids[2], 1_100.0),
        kernel(&ids[2], 7, 1_105.0, 5.0),
    ];
    let graph = graph(&rows);
    check(&graph);
    let step = &graph.steps(0)[0];
    let path = graph.path(0, step);
    let between = |class: &str| -> Vec<(i64, i64)> {
        let of_class = path.iter().filter(|segment| segment.class.name() == class);
        of_class
            .map(|segment| {
                (
                    segment.begin_ns - step.begin_ns,
                    segment.end_ns - step.begin_ns,
                )
            })
            .collect()
    };
    assert_eq!(between("handoff"), [(13_000, 30_000), (400_000, 500_000)]);
    assert_eq!(between("unexplained"), [(500_000, 700_000)]);
    // What the first thread does in its annotations is its own code.
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.window.groups.of(Group::Unknown), 200_000);
}

/// Two steps of one kernel, the first of which ends at 315 µs; the host synchronizes at `waits`, without a record. Another thread
/// works on another stream.
fn synchronised(name: &'static str, waits: f64) -> Graph {
    let id = |n: usize| format!("\"correlation\":{n},\"stream\":7,\"device\":0");
    let ids: Vec<String> = (1..5).map(id).collect();
    let other = "\"correlation\":9,\"stream\":20,\"device\":0";
    let rows = [
        mark("ProfilerStep#1", 0.0, 500.0),
        ("python_function", "forward", HOST, 1.0, 9.0, ""),
        launch(&ids[0], 10.0),
        kernel(&ids[0], 7, 15.0, 300.0),
        (
            "cuda_runtime",
            "cudaLaunchKernel",
            BACKWARD,
            20.0,
            3.0,
            other,
        ),
        kernel(other, 20, 25.0, 10.0),
        ("python_function", "prepare", HOST, 20.0, 290.0, ""),
        ("cuda_runtime", name, HOST, waits, 4.0, ""),
        mark("ProfilerStep#2", 500.0, 500.0),
        launch(&ids[1], 520.0),
        kernel(&ids[1], 7, 525.0, 20.0),
    ];
    let graph = graph(&rows);
    check(&graph);
    graph
}

#[test]
fn a_short_synchronisation_still_waits_for_the_stream_of_its_thread() {
    let step = |graph: &Graph, change: &str| {
        let mut options = Options::default();
        options.what_if.push(change.parse().unwrap());
        let analysis = analyse(graph, &options).unwrap();
        let steps = analysis.what_if[0].steps.clone();
        let edges = analysis.edges.get("sync/guess").copied();
        (edges, steps[0].predicted_ns + steps[1].predicted_ns)
    };
    for name in ["cudaEventSynchronize", "cudaStreamSynchronize"] {
        // The work ended at 315: the call returns at once, but without its host code the host waits for that end.
        let graph = synchronised(name, 330.0);
        let (edges, took) = step(&graph, "host:prepare=0");
        assert_eq!(edges, Some(1), "{name}");
        assert!(took > 450_000, "{name}: {took}");
        // The work has not ended: the call waited for something earlier.
        let graph = synchronised(name, 305.0);
        assert_eq!(step(&graph, "host=1").0, None, "{name}");
    }
}

#[test]
fn an_event_is_recorded_behind_the_last_kernel_of_a_graph() {
    let mut rows: Vec<Row<'_>> = Vec::new();
    let texts: Vec<[String; 2]> = (0..6)
        .map(|step| {
            [(1, 7), (4, 20)].map(|(id, stream)| {
                let id = 10 * step + id;
                format!("\"correlation\":{id},\"stream\":{stream},\"device\":0")
            })
        })
        .collect();
    let names: Vec<String> = (1..7).map(|n| format!("ProfilerStep#{n}")).collect();
    for ((step, [graph, copy]), name) in texts.iter().enumerate().zip(&names) {
        let t = 1_000.0 + 400.0 * step as f64;
        let done = t + 13.0 + 302.0;
        rows.push(("user_annotation", name, HOST, t, 400.0, ""));
        rows.push((
            "cuda_runtime",
            "cudaGraphLaunch",
            HOST,
            t + 1.0,
            10.0,
            graph,
        ));
        for n in 0..3 {
            rows.push(kernel(graph, 7, t + 13.0 + f64::from(n) * 101.0, 100.0));
        }
        rows.push(("cuda_runtime", "cudaEventRecord", HOST, t + 12.0, 1.0, ""));
        rows.push((
            "cuda_runtime",
            "cudaStreamWaitEvent",
            HOST,
            t + 14.0,
            1.0,
            "",
        ));
        rows.push(("cuda_runtime", "cudaMemcpyAsync", HOST, t + 16.0, 3.0, copy));
        rows.push((
            "gpu_memcpy",
            "Memcpy DtoH (Device -> Pinned)",
            (0, 20),
            done + 2.0,
            5.0,
            copy,
        ));
        let end = done + 11.0;
        rows.push((
            "cuda_runtime",
            "cudaDeviceSynchronize",
            HOST,
            t + 20.0,
            end - t - 20.0,
            "",
        ));
    }
    let graph = graph(&rows);
    check(&graph);
    let mut options = Options::default();
    options.what_if.push("kernel=0.1".parse().unwrap());
    let analysis = analyse(&graph, &options).unwrap();
    let (_, event) = analysis.recordings[0]
        .lags
        .iter()
        .find(|(name, _)| **name == "event")
        .unwrap();
    assert_eq!(event.typical_ns, 2_000);
    // Three kernels of 10 µs instead of 100.
    let step = &analysis.what_if[0].steps[2];
    assert_eq!(step.recorded_ns - step.predicted_ns, 270_000);
}

#[test]
fn a_constant_distance_from_a_kernel_amid_others_is_no_polling() {
    // A queue of kernels of 16 µs; the host computes for 310 µs, and ends as long after the end of one of them.
    let ids: Vec<String> = (1..100)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let mut rows = vec![mark("ProfilerStep#1", 0.0, 2_000.0)];
    for round in 0..4_u32 {
        let at = 400.0 * f64::from(round);
        for n in 0..23_u32 {
            let id = ids[(round * 23) as usize + n as usize].as_str();
            rows.push((
                "cuda_runtime",
                "cudaLaunchKernel",
                HOST,
                at + f64::from(n),
                0.5,
                id,
            ));
            rows.push(kernel(id, 7, at + 25.0 + 16.0 * f64::from(n), 15.5));
        }
        rows.push(("python_function", "compute", HOST, at + 24.0, 310.0, ""));
    }
    let graph = graph(&rows);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.edges.get("spin/guess"), None);
}

#[test]
fn a_recording_of_all_waits_has_no_others() {
    // The second kernel of stream 20 starts 3 µs after one of stream 7 ends, for no reason that is recorded.
    let id =
        |n: usize, stream: i64| format!("\"correlation\":{n},\"stream\":{stream},\"device\":0");
    let args = [id(1, 7), id(2, 20), id(3, 20)];
    let sync = "\"correlation\":8,\"cuda_sync_kind\":\"Stream Wait Event\",\"wait_on_stream\":7,\"stream\":20,\"device\":0,\
                \"wait_on_cuda_event_record_corr_id\":7";
    let edges = |with_records: bool| {
        let mut rows = vec![
            mark("ProfilerStep#1", 0.0, 200.0),
            launch(&args[0], 1.0),
            launch(&args[1], 5.0),
            launch(&args[2], 9.0),
            kernel(&args[0], 7, 10.0, 90.0),
            kernel(&args[1], 20, 12.0, 20.0),
            kernel(&args[2], 20, 103.0, 40.0),
        ];
        if with_records {
            rows.push((
                "cuda_runtime",
                "cudaEventRecord",
                HOST,
                150.0,
                1.0,
                "\"correlation\":7",
            ));
            rows.push((
                "cuda_runtime",
                "cudaStreamWaitEvent",
                HOST,
                152.0,
                1.0,
                "\"correlation\":8",
            ));
            rows.push(("cuda_sync", "Stream Wait Event", (0, 20), 152.5, 0.2, sync));
        }
        analyse(&graph(&rows), &Options::default()).unwrap().edges
    };
    assert_eq!(edges(false).get("event/timing"), Some(&1));
    assert_eq!(edges(true).get("event/timing"), None);
}

#[test]
fn work_without_flows_belongs_to_the_step_in_which_it_starts() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 100.0),
        launch("\"correlation\":1", 1.0),
        kernel("\"stream\":7,\"device\":0", 7, 10.0, 70.0),
        mark("ProfilerStep#2", 100.0, 100.0),
        launch("\"correlation\":2", 101.0),
        kernel("\"stream\":7,\"device\":0", 7, 110.0, 80.0),
    ]);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.window.verdict, "gpu-bound");
    assert_eq!(analysis.window.groups.of(Group::Host), 0);
    let codes: Vec<&str> = doubts(&analysis).iter().map(|note| note.code).collect();
    assert!(codes.contains(&"no_flows"), "{codes:?}");
}

#[test]
fn calls_without_gpu_activity_are_not_all_of_a_step() {
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 100.0),
        launch("\"correlation\":1", 1.0),
        mark("ProfilerStep#2", 100.0, 100.0),
        launch("\"correlation\":2", 150.0),
    ]);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let sentence = sentences(&analysis).concat();
    assert!(sentence.contains("there is no GPU activity"), "{sentence}");
    let codes: Vec<&str> = doubts(&analysis).iter().map(|note| note.code).collect();
    assert!(codes.contains(&"no_gpu_activity"), "{codes:?}");
}

#[test]
fn a_message_that_the_host_waits_for_does_not_come_earlier() {
    let ids: Vec<String> = (1..4)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let rows = [
        mark("ProfilerStep#1", 0.0, 500.0),
        launch(&ids[0], 5.0),
        kernel(&ids[0], 7, 10.0, 300.0),
        (
            "cuda_runtime",
            "cudaDeviceSynchronize",
            HOST,
            20.0,
            295.0,
            "",
        ),
        mark("ProfilerStep#2", 500.0, 3_500.0),
        ("osrt", "epoll_wait", HOST, 510.0, 3_000.0, ""),
        launch(&ids[1], 3_520.0),
        kernel(&ids[1], 7, 3_525.0, 300.0),
    ];
    let graph = graph(&rows);
    check(&graph);
    let mut options = Options::default();
    options.what_if.push("async".parse().unwrap());
    options.what_if.push("requests=0".parse().unwrap());
    let analysis = analyse(&graph, &options).unwrap();
    // The message arrives at 3510, whatever the host waited for before.
    assert_eq!(analysis.what_if[0].gain_ns, 0);
    assert_eq!(analysis.what_if[1].gain_ns, 3_000_000);
}

#[test]
fn marks_that_overlap_by_rounding_are_all_steps() {
    let ids: Vec<String> = (1..5)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let names: Vec<String> = (1..5).map(|n| format!("ProfilerStep#{n}")).collect();
    let mut rows: Vec<Row<'_>> = Vec::new();
    for (at, (id, name)) in ids.iter().zip(&names).enumerate() {
        let t = 100.0 * at as f64;
        rows.push(("user_annotation", name, HOST, t, 100.001, ""));
        rows.push(launch(id, t + 5.0));
        rows.push(kernel(id, 7, t + 10.0, 60.0));
    }
    let graph = graph(&rows);
    check(&graph);
    let hosts: Vec<(i64, i64)> = graph.steps(0).iter().map(|step| step.host_ns).collect();
    assert_eq!(
        hosts,
        [
            (0, 100_000),
            (100_000, 200_000),
            (200_000, 300_000),
            (300_000, 400_001)
        ]
    );
}

#[test]
fn a_worker_that_polls_for_its_scheduler_waits_for_requests() {
    let args = "\"correlation\":1,\"stream\":7,\"device\":0";
    let python = "python_function";
    let graph = graph(&[
        mark("ProfilerStep#1", 0.0, 700.0),
        (
            python,
            "multiproc_executor.py(600): worker_busy_loop",
            HOST,
            0.0,
            500.0,
            "",
        ),
        (
            python,
            "vllm/shm_broadcast.py(500): dequeue",
            HOST,
            1.0,
            498.0,
            "",
        ),
        (
            python,
            "vllm/shm_broadcast.py(430): acquire_read",
            HOST,
            2.0,
            496.0,
            "",
        ),
        (
            python,
            "<built-in function sched_yield>",
            HOST,
            10.0,
            480.0,
            "",
        ),
        launch(args, 510.0),
        kernel(args, 7, 520.0, 60.0),
    ]);
    check(&graph);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.window.verdict, "wait-bound");
}
