//! Links between calls and GPU activities: guessed, contradictory, lost.

use critical_path::{Flag, Graph, Group, Options, PartOptions, analyse, doubts, sentences};

use super::{HOST, Row, check, graph, graph_with, kernel, launch, mark};

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
    let text = "what bounds them cannot be said, as no GPU activity is recorded";
    assert!(sentence.contains(text), "{sentence}");
    let codes: Vec<&str> = doubts(&analysis).iter().map(|note| note.code).collect();
    assert!(codes.contains(&"no_gpu_activity"), "{codes:?}");
}

/// Five steps of 300 us in which ten kernels of 20 us run one after the other, launched ahead; only one in `one_of` of them has a link
/// to its call.
fn with_links(one_of: usize) -> Graph {
    let mut args: Vec<String> = Vec::new();
    for id in 1..51 {
        args.push(format!("\"correlation\":{id}"));
        let link = match id % one_of == 1 % one_of {
            true => format!("\"correlation\":{id},"),
            false => String::new(),
        };
        args.push(format!("{link}\"stream\":7,\"device\":0"));
    }
    let mut rows = Vec::new();
    let names = [
        "ProfilerStep#1",
        "ProfilerStep#2",
        "ProfilerStep#3",
        "ProfilerStep#4",
        "ProfilerStep#5",
    ];
    for (step, name) in names.into_iter().enumerate() {
        let at = 300.0 * step as f64;
        rows.push(mark(name, at, 299.0));
        for nth in 0..10 {
            let id = 10 * step + nth;
            rows.push(launch(&args[2 * id], at + 2.0 + 4.0 * nth as f64));
            rows.push(kernel(
                &args[2 * id + 1],
                7,
                at + 10.0 + 25.0 * nth as f64,
                24.0,
            ));
        }
        rows.push((
            "cuda_runtime",
            "cudaDeviceSynchronize",
            HOST,
            at + 45.0,
            220.0,
            "",
        ));
    }
    graph(&rows)
}

#[test]
fn links_of_which_many_are_lost_are_not_used() {
    let found = |one_of| {
        let analysis = analyse(&with_links(one_of), &Options::default()).unwrap();
        let codes: Vec<&str> = doubts(&analysis).iter().map(|note| note.code).collect();
        (
            analysis.window.verdict,
            analysis.recordings[0].lost_links,
            codes.contains(&"lost_links"),
        )
    };
    assert_eq!(found(1), ("gpu-bound", 0, false));
    // Without all links it is as busy as with them, and the host is unknown.
    assert_eq!(found(2), ("gpu-bound", 25, true));
    assert_eq!(found(5), ("gpu-bound", 40, true));
}

#[test]
fn a_recording_that_ends_before_the_work_of_its_last_step_is_cut() {
    let mut rows = Vec::new();
    let args: Vec<String> = (1..13)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    for (step, name) in ["ProfilerStep#1", "ProfilerStep#2"].into_iter().enumerate() {
        let at = 200.0 * step as f64;
        rows.push(mark(name, at, 150.0));
        for nth in 0..6 {
            let args = &args[6 * step + nth];
            rows.push(launch(args, at + 5.0 * nth as f64));
            rows.push(kernel(args, 7, at + 40.0 + 26.0 * nth as f64, 25.0));
        }
    }
    let whole = graph(&rows);
    assert!(whole.steps(0).iter().all(|step| step.flags.is_empty()));
    // The last three kernels are not recorded any more.
    let kept: Vec<Row<'_>> = rows
        .into_iter()
        .filter(|row| row.0 != "kernel" || row.3 < 300.0)
        .collect();
    let cut = graph(&kept);
    assert_eq!(cut.steps(0)[0].flags, []);
    assert_eq!(cut.steps(0)[1].flags, [Flag::Cut]);
    let analysis = analyse(&cut, &Options::default()).unwrap();
    let codes: Vec<&str> = doubts(&analysis).iter().map(|note| note.code).collect();
    assert!(codes.contains(&"cut"), "{codes:?}");
}

#[test]
fn steps_whose_work_was_not_recorded_are_told_and_their_waits_are_no_host_code() {
    // The work of the second and third step is missing; the calls that waited for it are there.
    let args: Vec<String> = (1..9)
        .map(|id| format!("\"correlation\":{id},\"stream\":7,\"device\":0"))
        .collect();
    let rows = |lost: &[usize]| {
        let mut rows: Vec<Row<'_>> = Vec::new();
        for step in 0..4 {
            let at = 1_100.0 * step as f64;
            rows.push(mark("ProfilerStep#1", at, 1_080.0));
            rows.push(launch(&args[step], at + 10.0));
            let sync = &args[4 + step];
            rows.push((
                "cuda_runtime",
                "cudaDeviceSynchronize",
                HOST,
                at + 20.0,
                1_050.0,
                sync,
            ));
            if !lost.contains(&step) {
                rows.push(kernel(&args[step], 7, at + 19.0, 1_040.0));
            }
        }
        rows
    };
    let whole = analyse(&graph(&rows(&[])), &Options::default()).unwrap();
    assert!(!doubts(&whole).iter().any(|note| note.code == "lost_work"));
    for lost in [[0, 1], [1, 2], [2, 3]] {
        let analysis = analyse(&graph(&rows(&lost)), &Options::default()).unwrap();
        for (at, step) in analysis.steps.iter().enumerate() {
            let is_lost = step.flags.contains(&Flag::Lost);
            assert_eq!(is_lost, lost.contains(&at), "{lost:?} {at}");
            let host = step.groups.of(Group::Host);
            assert!(host < 100_000, "{lost:?} {at}: {host} ns of host code");
        }
        let notes = doubts(&analysis);
        let note = notes.iter().find(|note| note.code == "lost_work").unwrap();
        let named = lost.map(|at| (at + 1).to_string()).join(", ");
        assert!(
            note.text
                .contains(&format!("steps {named} have no GPU activity")),
            "{}",
            note.text
        );
    }
}

#[test]
fn what_guesses_decide_is_uncertain() {
    // The host waits for the kernel by a guess alone: without it the call takes its time whatever the kernel does.
    let mut rows = Vec::new();
    let args: Vec<String> = (1..5)
        .map(|id| {
            format!(
                "\"correlation\":{id},\"stream\":{},\"device\":0",
                7 + id % 2
            )
        })
        .collect();
    for (step, name) in ["ProfilerStep#1", "ProfilerStep#2"].into_iter().enumerate() {
        let at = 400.0 * step as f64;
        rows.push(mark(name, at, 390.0));
        for nth in 0..2 {
            let args = &args[2 * step + nth];
            rows.push(launch(args, at + 5.0 + 5.0 * nth as f64));
            rows.push(kernel(
                args,
                7 + nth as i64,
                at + 20.0,
                300.0 - 10.0 * nth as f64,
            ));
        }
        rows.push((
            "cuda_runtime",
            "cudaEventSynchronize",
            HOST,
            at + 30.0,
            295.0,
            "",
        ));
    }
    let mut options = Options::default();
    options.what_if.push("kernel=0.1".parse().unwrap());
    let analysis = analyse(&graph(&rows), &options).unwrap();
    let found = &analysis.what_if[0];
    let guessed: u64 = analysis
        .edges
        .iter()
        .filter(|(kind, _)| kind.contains("guess"))
        .map(|(_, n)| n)
        .sum();
    assert!(guessed > 0, "{:?}", analysis.edges);
    assert!(
        found.gain_pct > 50.0 && found.uncertainty_pct > 10.0,
        "{found:?}"
    );
}
