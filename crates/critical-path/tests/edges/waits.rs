//! What a thread waits for: synchronisation, events, polling, messages, other threads.

use critical_path::{Graph, Group, Options, analyse};

use super::{HOST, Row, check, graph, kernel, launch, mark};

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
