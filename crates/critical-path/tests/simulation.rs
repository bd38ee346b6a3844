//! Simulated engines whose truth is known: predictions are compared with a second simulation, verdicts with what was planted.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

mod support;

use critical_path::{Analysis, Graph, Options, analyse, sentences};

use support::graph_of;
use support::sim::{AS_IS, Does, Speed, World};

fn graph(world: &World, speed: &Speed) -> (Graph, i64) {
    let run = world.run(speed);
    (graph_of(run.files), run.took_ns)
}

fn predicted(world: &World, change: &str) -> Analysis {
    let (graph, took) = graph(world, &AS_IS);
    let mut options = Options::default();
    options.what_if.push(change.parse().unwrap());
    let analysis = analyse(&graph, &options).unwrap();
    assert_eq!(analysis.replay.identity_error_ns, 0);
    // The window is the time that was simulated.
    assert_eq!(analysis.window.duration_ns, took, "{change}");
    for step in &analysis.steps {
        assert_eq!(step.groups.total(), step.duration_ns);
    }
    analysis
}

/// Compares predictions with what simulating again gives.
fn check(world: &World, changes: &[(&str, Speed)]) {
    for (change, speed) in changes {
        let analysis = predicted(world, change);
        let truth = world.run(speed).took_ns;
        let found = analysis.what_if[0].predicted_ns;
        let allowed = analysis.window.duration_ns / 50;
        assert!(
            (found - truth).abs() <= allowed,
            "{change}: predicted {found}, truth {truth}, recorded {}\n{:?}",
            analysis.window.duration_ns,
            analysis.edges
        );
        assert!(analysis.what_if[0].touched > 0, "{change}");
    }
}

fn speed(change: impl FnOnce(&mut Speed)) -> Speed {
    let mut speed = AS_IS.clone();
    change(&mut speed);
    speed
}

fn kernels(factor: f64) -> Speed {
    speed(|speed| speed.kernel = factor)
}

fn host(factor: f64) -> Speed {
    speed(|speed| speed.host = factor)
}

#[test]
fn a_full_queue_holds_up_the_host() {
    // The host launches faster than the device works, up to 64 launches ahead.
    let mut step = vec![Does::Host("scheduler.py(1): schedule", 40_000)];
    step.extend((0..160).map(|_| Does::Launch("rms_norm_kernel", 30_000, 0)));
    let world = World {
        queue: 64,
        ..World::of(vec![step; 6])
    };
    let (graph, _) = graph(&world, &AS_IS);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let full = analysis.edges.get("queue_full/guess").copied();
    assert!(full >= Some(600), "{:?}", analysis.edges);
    assert_eq!(analysis.window.verdict, "gpu-bound");
    check(
        &world,
        &[
            ("kernel=0.5", kernels(0.5)),
            ("kernel=2", kernels(2.0)),
            ("kernel=0.1", kernels(0.1)),
            ("host=0.5", host(0.5)),
            ("host=20", host(20.0)),
        ],
    );
}

#[test]
fn work_without_a_recorded_launch_was_launched_where_it_fits() {
    // Every third launch is not recorded; the device idles between launches.
    let mut step = vec![Does::Host("scheduler.py(1): schedule", 60_000)];
    for nth in 0..30 {
        step.push(Does::Host("model.py(1): forward", 20_000));
        step.push(match nth % 3 {
            1 => Does::Unlinked("rms_norm_kernel", 9_000, 0),
            _ => Does::Launch("rms_norm_kernel", 9_000, 0),
        });
    }
    step.push(Does::Sync);
    let world = World::of(vec![step; 6]);
    let (graph, _) = graph(&world, &AS_IS);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let virtual_launches = analysis.edges.get("launch/guess").copied();
    assert!(virtual_launches >= Some(50), "{:?}", analysis.edges);
    check(
        &world,
        &[
            ("kernel=0.5", kernels(0.5)),
            ("host=0.5", host(0.5)),
            ("kernel=3,host=0.5", {
                speed(|speed| (speed.kernel, speed.host) = (3.0, 0.5))
            }),
        ],
    );
}

#[test]
fn unlinked_work_behind_other_work_belongs_to_its_step() {
    let mut step = vec![Does::Host("scheduler.py(1): schedule", 200_000)];
    step.push(Does::Launch("rms_norm_kernel", 30_000, 0));
    for _ in 0..8 {
        step.push(Does::Unlinked("rms_norm_kernel", 30_000, 0));
    }
    step.push(Does::Launch("rms_norm_kernel", 30_000, 0));
    step.push(Does::Sync);
    let world = World::of(vec![step; 5]);
    check(
        &world,
        &[("kernel=0.5", kernels(0.5)), ("host=0.5", host(0.5))],
    );
}

/// A tensor-parallel step: host code, products, collectives.
fn parallel(steps: usize) -> Vec<Vec<Does>> {
    let mut step = vec![Does::Host("scheduler.py(1): schedule", 150_000)];
    for _ in 0..12 {
        step.push(Does::Launch("sgemm_128x64_kernel", 40_000, 0));
        step.push(Does::AllReduce(25_000));
    }
    step.push(Does::Sync);
    vec![step; steps]
}

#[test]
fn a_rank_as_fast_as_the_median_one_is_what_simulating_it_gives() {
    let mut world = World::of(parallel(8));
    world.ranks = 4;
    // Host code of rank 2 is slow in half of the steps.
    world.late = Some((2, 300_000));
    let truth = speed(|speed| speed.late = false);
    check(
        &world,
        &[
            ("rank:2=median", truth.clone()),
            ("host:slow_tokenize=0", truth),
        ],
    );
    let (late, _) = graph(&world, &AS_IS);
    let analysis = analyse(&late, &Options::default()).unwrap();
    let first = sentences(&analysis).remove(0);
    for words in [
        "rank 2 holds up the others",
        "slow_tokenize takes 900.0 µs longer",
    ] {
        assert!(first.contains(words), "{first}");
    }
    let (in_time, _) = graph(&world, &speed(|speed| speed.late = false));
    let analysis = analyse(&in_time, &Options::default()).unwrap();
    assert_eq!(analysis.straggler, None);
    check(
        &world,
        &[
            ("kernel=0.5", kernels(0.5)),
            ("comm=0.5", speed(|speed| speed.comm = 0.5)),
            ("host=0.5", host(0.5)),
        ],
    );
}

#[test]
fn several_processes_of_one_recording_do_not_wait_for_each_other() {
    // A second process on another device, with less work of its own.
    let mut world = World::of(parallel(6));
    world.other_process = Some(vec![
        Does::Host("other.py(1): run", 90_000),
        Does::Launch("rms_norm_kernel", 70_000, 0),
        Does::Sync,
    ]);
    check(
        &world,
        &[("kernel=0.5", kernels(0.5)), ("host=0.5", host(0.5))],
    );
    let (graph, _) = graph(&world, &AS_IS);
    let mut options = Options::default();
    options.segments = true;
    let analysis = analyse(&graph, &options).unwrap();
    let others = analysis.segments.iter();
    let others = others.filter(|row| row.segment.name == "other.py(1): run");
    assert_eq!(others.count(), 0);
}

#[test]
fn every_verdict_is_that_of_what_was_planted() {
    use Does::{AllReduce, Data, FromHost, Host, Launch, Lock, Product, Requests, Sync, ToHost};
    let schedule = Host("scheduler.py(1): schedule", 20_000);
    let forward = Launch("rms_norm_kernel", 30_000, 0);
    let many = |does: Does, n: usize| vec![does; n];
    let mut ranks = World::of(vec![vec![
        schedule.clone(),
        AllReduce(300_000),
        AllReduce(300_000),
        Sync,
    ]]);
    ranks.ranks = 2;
    let plain = |step: Vec<Does>| World::of(vec![step; 8]);
    let with = |mut list: Vec<Does>, more: Vec<Does>| {
        list.extend(more);
        list
    };
    let cases: Vec<(World, &str, Option<&str>)> = vec![
        (
            plain(many(Product(4_096, 400_000), 3)),
            "gpu-bound",
            Some("compute"),
        ),
        (
            plain(many(Product(16, 400_000), 3)),
            "gpu-bound",
            Some("memory"),
        ),
        (
            plain(many(Launch("rms_norm_kernel", 400_000, 0), 3)),
            "gpu-bound",
            Some("memory"),
        ),
        (
            plain(many(Launch("paged_attention_v2_kernel", 400_000, 0), 3)),
            "gpu-bound",
            Some("mixed"),
        ),
        (
            plain(many(Launch("rms_norm_kernel", 1_000, 0), 80)),
            "launch-bound",
            None,
        ),
        (
            plain(vec![
                Host("scheduler.py(1): schedule", 900_000),
                forward.clone(),
                Sync,
            ]),
            "host-bound",
            None,
        ),
        (ranks, "communication-bound", None),
        (
            plain(vec![schedule.clone(), forward.clone(), ToHost(900_000)]),
            "sync-bound",
            None,
        ),
        (
            plain(vec![
                schedule.clone(),
                forward.clone(),
                Sync,
                Requests(800_000),
            ]),
            "wait-bound",
            None,
        ),
        (
            plain(vec![schedule.clone(), forward.clone(), Sync, Lock(800_000)]),
            "wait-bound",
            None,
        ),
        (
            plain(vec![schedule.clone(), forward.clone(), Sync, Data(800_000)]),
            "input-bound",
            None,
        ),
        (
            plain(with(vec![schedule, FromHost(900_000)], many(forward, 2))),
            "input-bound",
            None,
        ),
    ];
    for (at, (world, verdict, limit)) in cases.iter().enumerate() {
        let (graph, _) = graph(world, &AS_IS);
        let analysis = analyse(&graph, &Options::default()).unwrap();
        let found = &analysis.window;
        assert_eq!(found.verdict, *verdict, "case {at}: {:?}", found.groups);
        let of = found.limit.map(|limit| limit.name());
        assert_eq!(of, *limit, "case {at}");
        // The first step may begin differently.
        for step in analysis.steps.iter().skip(1) {
            assert_eq!(step.verdict, *verdict, "case {at} step {}", step.step);
        }
    }
}

#[test]
fn the_first_sentence_names_gaps_and_single_calls() {
    let launches = vec![Does::Launch("rms_norm_kernel", 900, 0); 4];
    let mut step = vec![Does::Graph(vec![("rms_norm_kernel", 2_000); 400])];
    step.extend(launches);
    let (graph, _) = graph(&World::of(vec![step; 6]), &AS_IS);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let first = sentences(&analysis).remove(0);
    assert!(
        first.contains("of the time in gaps between queued work)"),
        "{first}"
    );
    let mut steps = vec![vec![Does::Launch("rms_norm_kernel", 9_000, 0), Does::Sync]; 6];
    steps[2].insert(0, Does::LongCall(90_000_000));
    let (graph, _) = self::graph(&World::of(steps), &AS_IS);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    let first = sentences(&analysis).remove(0);
    assert!(
        first.contains("90.00 ms of it in one cudaLaunchKernel"),
        "{first}"
    );
}

#[test]
fn predictions_of_random_engines_are_what_simulating_again_gives() {
    for seed in 0..60 {
        let world = World::random(seed);
        for (change, speed) in [
            ("kernel=0.5", kernels(0.5)),
            ("kernel=2", kernels(2.0)),
            ("host=0.5", host(0.5)),
            ("kernel=0.25,host=0.5", {
                speed(|speed| (speed.kernel, speed.host) = (0.25, 0.5))
            }),
        ] {
            let analysis = predicted(&world, change);
            let truth = world.run(&speed).took_ns;
            let found = analysis.what_if[0].predicted_ns;
            assert!(
                (found - truth).abs() <= analysis.window.duration_ns / 50,
                "seed {seed} {change}: predicted {found}, truth {truth}, recorded {}",
                analysis.window.duration_ns
            );
        }
    }
}

#[test]
fn work_that_runs_beside_the_host_is_said_to_gain_little() {
    // The host never waits; kernels take most of the time from one end to the next.
    let step = vec![
        Does::Graph(vec![("rms_norm_kernel", 600_000)]),
        Does::Host("scheduler.py(1): schedule", 997_000),
    ];
    let (graph, _) = graph(&World::of(vec![step; 12]), &AS_IS);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.window.verdict, "gpu-bound");
    let first = sentences(&analysis).remove(0);
    assert!(first.contains("yet without GPU work only"), "{first}");
}

/// Steps of an eager model with kernels of these durations in turn, each shorter than the launch latency.
fn short_kernels(durations: &[i64]) -> Vec<Vec<Does>> {
    let mut step = vec![Does::Host("scheduler.py(1): schedule", 40_000)];
    for nth in 0..80 {
        step.push(Does::Host("aten::mm", 800));
        step.push(Does::Launch(
            "rms_norm_kernel",
            durations[nth % durations.len()],
            0,
        ));
    }
    step.push(Does::Sync);
    vec![step; 8]
}

#[test]
fn kernels_shorter_than_the_launch_latency_follow_their_launches() {
    // Each launch call ends before the work ahead does, and its own work begins a launch latency after it.
    for durations in [
        &[1_600][..],
        &[3_300],
        &[1_400, 2_600, 2_200, 2_600],
        &[2_900, 1_200],
    ] {
        let world = World::of(short_kernels(durations));
        check(
            &world,
            &[
                ("launch:call=0", speed(|speed| speed.call = 0.0)),
                ("launch:call=0.5", speed(|speed| speed.call = 0.5)),
                ("kernel=0.5", kernels(0.5)),
                ("kernel=3", kernels(3.0)),
            ],
        );
        // One graph launch in place of all.
        let analysis = predicted(&world, "graph");
        let kernels = (0..80).map(|nth| ("rms_norm_kernel", durations[nth % durations.len()]));
        let host = Does::Host("scheduler.py(1): schedule", 40_000 + 7_000);
        let step = vec![host, Does::Graph(kernels.collect()), Does::Sync];
        let truth = World::of(vec![step; 8]).run(&AS_IS).took_ns;
        let found = analysis.what_if[0].predicted_ns;
        assert!(
            (found - truth).abs() <= analysis.window.duration_ns / 50,
            "{durations:?}: predicted {found}, truth {truth}"
        );
    }
}

#[test]
fn a_gap_that_no_start_shows_widens_the_interval() {
    // The stream is idle at each launch: how soon queued work would follow is not recorded.
    let world = World::of(short_kernels(&[1_600]));
    let row = predicted(&world, "launch:call=0").what_if.remove(0);
    let truth = world.run(&speed(|speed| speed.call = 0.0)).took_ns;
    // 80 gaps a step, each 0.5 to 2 µs.
    let of_window = 8.0 * 79.0 * 1_000.0 * 100.0 / row.recorded_ns as f64;
    assert!(row.uncertainty_pct > of_window * 0.9, "{row:?}");
    assert!(row.uncertainty_pct < of_window * 1.1 + 1.0, "{row:?}");
    assert!((row.predicted_ns - truth).abs() * 50 <= row.recorded_ns);
    // Kernels that queue show it.
    let world = World::of(short_kernels(&[12_000]));
    let row = predicted(&world, "launch:call=0").what_if.remove(0);
    assert!(row.uncertainty_pct < 1.0, "{row:?}");
}

/// Returns a recording with only the events of which this is true; `keep` gets the begin.
fn clipped(file: &str, keep: impl Fn(i64) -> bool) -> String {
    let (head, events) = file.split_once("\"traceEvents\":[").unwrap();
    let events = events.trim_end_matches("]}").split(",\n");
    let kept: Vec<&str> = events.filter(|event| keep(begin_of(event))).collect();
    format!("{head}\"traceEvents\":[{}]}}", kept.join(",\n"))
}

#[expect(clippy::cast_possible_truncation, reason = "times of a simulation")]
fn begin_of(event: &str) -> i64 {
    let (_, rest) = event.split_once("\"ts\":").unwrap();
    let us: f64 = rest.split(',').next().unwrap().parse().unwrap();
    (us * 1000.0).round() as i64
}

/// Returns the begin of the mark of a step.
fn mark_of(file: &str, step: usize) -> i64 {
    let name = format!("\"ProfilerStep#{step}\"");
    begin_of(
        file.split(",\n")
            .find(|event| event.contains(&name))
            .unwrap(),
    )
}

#[test]
fn ranks_that_lack_steps_compare_in_the_steps_of_all() {
    let mut world = World::of(parallel(8));
    world.ranks = 4;
    // After steps 2, 4, 6 and 8 host code of rank 2 is slow.
    world.late = Some((2, 300_000));
    let mut run = world.run(&AS_IS);
    // Rank 1 was recorded from step 4 on, rank 0 up to step 6.
    let from = mark_of(&run.files[1], 4);
    run.files[1] = clipped(&run.files[1], |begin| begin >= from);
    let to = mark_of(&run.files[0], 7);
    run.files[0] = clipped(&run.files[0], |begin| begin < to);
    let mut options = Options::default();
    options.what_if.push("rank:2=median".parse().unwrap());
    let analysis = analyse(&graph_of(run.files), &options).unwrap();
    assert_eq!(analysis.replay.identity_error_ns, 0);
    let truth = world.run(&speed(|speed| speed.late = false)).took_ns;
    let found = analysis.what_if[0].predicted_ns;
    assert!(
        (found - truth).abs() * 50 <= run.took_ns,
        "predicted {found}, truth {truth}, recorded {}",
        run.took_ns
    );
    // All have steps 4 to 6; in these it is slow once before the last work.
    let first = sentences(&analysis).remove(0);
    let words = "slow_tokenize takes 300.0 µs longer on it in the 3 steps that all ranks recorded";
    assert!(first.contains(words), "{first}");
}

#[test]
fn ranks_that_are_late_in_turn_do_not_hold_up_the_others() {
    let mut world = World::of(parallel(8));
    world.ranks = 4;
    world.late = Some((0, 600_000));
    world.in_turn = true;
    let (graph, _) = graph(&world, &AS_IS);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.straggler, None);
}

#[test]
fn one_slow_step_does_not_decide_what_bounds_the_others() {
    let mut step = vec![Does::Host("scheduler.py(1): schedule", 40_000)];
    step.extend((0..20).map(|_| Does::Launch("rms_norm_kernel", 50_000, 0)));
    step.push(Does::Sync);
    let mut steps = vec![step; 12];
    steps[5].insert(0, Does::Host("gc.collect", 30_000_000));
    let (graph, _) = graph(&World::of(steps), &AS_IS);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    // Nothing is hidden: the budget of the window has all.
    assert_eq!(analysis.window.verdict, "host-bound");
    let first = sentences(&analysis).remove(0);
    for words in [
        "12 ProfilerStep#* steps, median 1.",
        ": gpu-bound",
        "not in these shares, 1 slow step takes 31.",
        "host-bound 9",
        "in one gc.collect",
    ] {
        assert!(first.contains(words), "{words:?} in {first}");
    }
}

#[test]
fn engines_in_one_recording_do_not_share_steps() {
    let world = World::of(parallel_of_one(9));
    let one = world.run(&AS_IS);
    let mut other = parallel_of_one(7);
    for step in &mut other {
        step.insert(0, Does::Host("scheduler.py(1): schedule", 333_000));
        step.push(Does::Launch("rms_norm_kernel", 2_000_000, 0));
    }
    // Another process with its own device, busier and with fewer steps.
    let other = World::of(other).run(&AS_IS).files.remove(0);
    let other = other
        .replace("\"pid\":1,\"tid\":10,", "\"pid\":5,\"tid\":50,")
        .replace("\"pid\":1000,", "\"pid\":1003,")
        .replace("\"device\":0,", "\"device\":3,")
        .replace("\"correlation\":", "\"correlation\":9000");
    let (_, events) = other.split_once("\"traceEvents\":[").unwrap();
    let both = format!("{},\n{events}", one.files[0].trim_end_matches("]}"));
    let alone = analyse(&graph_of(one.files), &Options::default()).unwrap();
    let analysis = analyse(&graph_of(vec![both]), &Options::default()).unwrap();
    assert_eq!(analysis.steps.len(), 9);
    for (got, want) in analysis.steps.iter().zip(&alone.steps) {
        assert_eq!(
            (got.begin_ns, got.end_ns, got.groups),
            (want.begin_ns, want.end_ns, want.groups)
        );
    }
    assert_eq!(analysis.recordings[0].other_engines, 1);
    let notes = critical_path::doubts(&analysis);
    assert!(notes.iter().any(|note| note.code == "other_engines"));
    assert_eq!(alone.recordings[0].other_engines, 0);
}

fn parallel_of_one(steps: usize) -> Vec<Vec<Does>> {
    let mut step = vec![Does::Host("scheduler.py(1): schedule", 150_000)];
    step.extend((0..12).map(|_| Does::Launch("sgemm_128x64_kernel", 40_000, 0)));
    step.push(Does::Sync);
    vec![step; steps]
}
