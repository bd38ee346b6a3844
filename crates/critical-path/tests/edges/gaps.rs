//! Time without GPU activity, and what the model does not explain.

use critical_path::{Change, Graph, Group, Options, analyse, doubts, lines, sentences};

use super::{HOST, Row, check, graph, kernel, launch, mark};

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
    // Said once: much of it is a doubt, not a line.
    let doubts = doubts(&analysis);
    let outside = doubts.iter().find(|note| note.code == "outside");
    assert!(
        outside.is_some_and(|note| note.text.starts_with("5.054")),
        "{outside:?}"
    );
    assert!(
        lines(&analysis, "whole")
            .iter()
            .all(|line| line.0 != "outside")
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
