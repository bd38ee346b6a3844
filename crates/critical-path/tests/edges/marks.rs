//! Marks of steps: nested, overlapping, without work.

use critical_path::{Flag, Group, Options, analyse, sentences};

use super::{HOST, Row, check, graph, kernel, launch, mark};

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
