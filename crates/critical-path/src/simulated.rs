//! Tests with a simulated engine whose truth is known: predictions are compared with a second
//! simulation, slack and replay with brute force.

use std::fmt::Write as _;

use byte_source::Source;
use proptest::prelude::*;
use trace_model::kernel::{TraceIndex, Vocabulary};

use crate::class::EdgeKind;
use crate::effect::Effects;
use crate::replay::{Mode, Window};
use crate::{Analysis, Change, Graph, Group, Mark, Options, Part, PartOptions, analyse, marks};

const LAUNCH_CALL: i64 = 3_000;
const LAUNCH_LATENCY: i64 = 5_000;
const GAP: i64 = 1_000;
/// From the end of the work to the end of the call that waits for it.
const SYNC: i64 = 5_000;
/// Length of a synchronizing call that has nothing to wait for.
const UNWAITED: i64 = 500;

/// One action of the host.
#[derive(Clone, Copy, Debug)]
enum Does {
    /// Runs code: function, duration.
    Host(u8, i64),
    /// Launches a kernel: kernel, duration, stream.
    Launch(u8, i64, u8),
    /// Waits for all streams.
    Sync,
}

/// A change of speed.
#[derive(Clone, Copy, Debug)]
struct Speed {
    kernel: f64,
    host: f64,
}

const AS_IS: Speed = Speed {
    kernel: 1.0,
    host: 1.0,
};

#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "durations of a simulation"
)]
fn times(ns: i64, factor: f64) -> i64 {
    (ns as f64 * factor).round() as i64
}

/// Simulates steps; returns the trace, and the end of the work of each step on each stream.
fn simulate(steps: &[Vec<Does>], speed: Speed) -> (String, Vec<[i64; 2]>) {
    const KERNELS: [&str; 3] = [
        "rms_norm_kernel",
        "sgemm_128x64_kernel",
        "paged_attention_v2_kernel",
    ];
    let (mut now, mut id) = (1_000_000_i64, 0);
    let mut free = [0_i64; 2];
    let mut events = String::from("{\"traceEvents\":[");
    let mut ends = Vec::new();
    let mut event = |category: &str,
                     name: &str,
                     (pid, tid): (i64, i64),
                     from: i64,
                     to: i64,
                     args: &str| {
        let us = |ns: i64| format!("{}.{:03}", ns / 1000, ns % 1000);
        write!(
            events,
            "{{\"ph\":\"X\",\"cat\":\"{category}\",\"name\":\"{name}\",\"pid\":{pid},\"tid\":{tid},\"ts\":{},\"dur\":{},\"args\":{{{args}}}}},",
            us(from),
            us(to - from)
        )
        .unwrap();
    };
    for (at, step) in steps.iter().enumerate() {
        let begin = now;
        let mut own = [0; 2];
        for does in step {
            match *does {
                Does::Host(name, took) => {
                    let end = now + times(took, speed.host);
                    event(
                        "python_function",
                        &format!("f{name}"),
                        (1, 10),
                        now,
                        end,
                        "",
                    );
                    now = end;
                }
                Does::Launch(name, took, stream) => {
                    id += 1;
                    let issue = now + LAUNCH_CALL;
                    let args = format!("\"correlation\":{id}");
                    event(
                        "cuda_runtime",
                        "cudaLaunchKernel",
                        (1, 10),
                        now,
                        issue,
                        &args,
                    );
                    let at = usize::from(stream);
                    let queued = match free[at] {
                        0 => 0,
                        free => free + GAP,
                    };
                    let start = (issue + LAUNCH_LATENCY).max(queued);
                    let end = start + times(took, speed.kernel);
                    free[at] = end;
                    let (stream, args) = (
                        7 + i64::from(stream),
                        format!(
                            "\"correlation\":{id},\"device\":0,\"stream\":{}",
                            7 + stream
                        ),
                    );
                    event(
                        "kernel",
                        KERNELS[usize::from(name) % 3],
                        (0, stream),
                        start,
                        end,
                        &args,
                    );
                    own[at] = end;
                    now = issue;
                }
                Does::Sync => {
                    id += 1;
                    let done = free[0].max(free[1]);
                    let end = (now + UNWAITED).max(done + SYNC);
                    let args = format!("\"correlation\":{id}");
                    event(
                        "cuda_runtime",
                        "cudaDeviceSynchronize",
                        (1, 10),
                        now,
                        end,
                        &args,
                    );
                    now = end;
                }
            }
        }
        ends.push(own);
        event(
            "user_annotation",
            &format!("ProfilerStep#{}", at + 1),
            (1, 10),
            begin,
            now,
            "",
        );
    }
    let mut events = events.trim_end_matches(',').to_owned();
    events.push_str("]}");
    (events, ends)
}

fn graph(json: String) -> Graph {
    let source = Source::from_bytes("t.json", json.into_bytes()).unwrap();
    let trace = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default()).unwrap();
    let index = TraceIndex::new(&trace, Vocabulary::default());
    let marks: Vec<Mark> = marks(&index, None);
    let part = Part::new(&index, 0, &marks, PartOptions::default());
    Graph::new(vec![part], None)
}

fn nodes(graph: &Graph) -> std::ops::Range<u32> {
    0..crate::names::place(graph.time.len())
}

fn changed(graph: &Graph, change: &str) -> Analysis {
    let mut options = Options::default();
    options.what_if.push(change.parse().unwrap());
    analyse(graph, &options).unwrap()
}

fn does() -> impl Strategy<Value = Does> {
    prop_oneof![
        3 => (0_u8..3, 500_i64..40_000).prop_map(|(name, took)| Does::Host(name, took)),
        5 => (0_u8..3, 500_i64..60_000, prop_oneof![4 => Just(0_u8), 1 => Just(1_u8)])
            .prop_map(|(name, took, stream)| Does::Launch(name, took, stream)),
        1 => Just(Does::Sync),
    ]
}

/// Generates steps that each end with a launch on the first stream.
fn engine() -> impl Strategy<Value = Vec<Vec<Does>>> {
    let step =
        (prop::collection::vec(does(), 1..14), 500_i64..60_000).prop_map(|(mut step, took)| {
            step.push(Does::Launch(0, took, 0));
            step
        });
    prop::collection::vec(step, 1..6)
}

/// Computes times by visiting all paths that lead to a node, with one node delayed.
fn by_brute_force(graph: &Graph, node: u32, held: (u32, i64), known: &mut Vec<Option<i64>>) -> i64 {
    if let Some(time) = known[node as usize] {
        return time;
    }
    let recorded = graph.time[node as usize];
    let edges: Vec<_> = graph.edges(node).collect();
    let mut time = recorded;
    if !edges.is_empty() {
        let cost = |edge: &crate::graph::Edge| graph.cost(*edge, node, false);
        let explained = edges
            .iter()
            .map(|edge| graph.time[edge.from as usize] + cost(edge))
            .max()
            .unwrap_or(recorded);
        time = edges
            .iter()
            .map(|edge| {
                let arrival = by_brute_force(graph, edge.from, held, known) + cost(edge);
                match edge.kind {
                    EdgeKind::Input => arrival.max(recorded),
                    _ => arrival,
                }
            })
            .max()
            .unwrap_or(recorded)
            + (recorded - explained);
    }
    if node == held.0 {
        time += held.1;
    }
    known[node as usize] = Some(time);
    time
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn paths_cover_steps_and_nothing_else(steps in engine()) {
        let graph = graph(simulate(&steps, AS_IS).0);
        let mut begin = None;
        prop_assert_eq!(graph.steps(0).len(), steps.len());
        for step in graph.steps(0) {
            if let Some(before) = begin {
                prop_assert_eq!(step.begin_ns, before);
            }
            begin = Some(step.end_ns);
            let path = graph.path(0, step);
            let mut at = step.begin_ns;
            for segment in &path {
                prop_assert_eq!(segment.begin_ns, at);
                prop_assert!(segment.end_ns > at);
                at = segment.end_ns;
            }
            prop_assert_eq!(at, step.end_ns);
            let groups = graph.summary(0, step).groups;
            prop_assert_eq!(groups.total(), step.duration_ns());
            prop_assert_eq!(groups.of(Group::Unknown), 0, "{:?}", path);
        }
    }

    #[test]
    fn a_replay_without_a_change_is_the_identity(steps in engine()) {
        let graph = graph(simulate(&steps, AS_IS).0);
        let window = Window { begin_ns: i64::MIN / 2, end_ns: i64::MAX / 2 };
        let replay = graph.replay(&Change::of("", Vec::new()), window);
        prop_assert_eq!(&replay.time, &graph.time);
        let analysis = analyse(&graph, &Options::default()).unwrap();
        prop_assert_eq!(analysis.replay.identity_error_ns, 0);
    }

    #[test]
    fn limits_are_replays_without_the_group(steps in engine()) {
        let graph = graph(simulate(&steps, AS_IS).0);
        let analysis = analyse(&graph, &Options::default()).unwrap();
        let (begin_ns, end_ns) = (analysis.window.begin_ns, analysis.window.end_ns);
        let window = Window { begin_ns, end_ns };
        // A step that ends before its predecessor is hidden by it.
        let last = |time: &[i64]| graph.steps(0).iter().map(|step| time[step.node as usize]).max();
        for row in &analysis.limits {
            let effects = Effects::without(&graph, row.group);
            let replay = graph.run(&effects, window, Mode::Recorded);
            let predicted = row.predicted_ns;
            prop_assert_eq!(Some(predicted), last(&replay.time).map(|end| end - begin_ns), "{:?}", row.group);
        }
    }

    #[test]
    fn predictions_are_what_simulating_again_gives(
        steps in engine(),
        (kernel, host) in prop_oneof![
            Just((0.5, 1.0)), Just((0.1, 1.0)), Just((1.0, 0.5)), Just((1.0, 2.0)), Just((2.0, 1.0)), Just((0.5, 0.25)),
        ],
    ) {
        let graph = graph(simulate(&steps, AS_IS).0);
        let analysis = changed(&graph, &format!("kernel={kernel},host={host}"));
        let (_, ends) = simulate(&steps, Speed { kernel, host });
        // Steps end with their last work on the stream that computes most, or with the step before.
        let ops = &graph.parts[0].ops;
        let main = usize::from(ops.streams[ops.main as usize].1 == 8);
        let end = |own: &[i64; 2]| if own[main] > 0 { own[main] } else { own[1 - main] };
        let truth = ends.iter().map(end).max().unwrap() - 1_000_000;
        let predicted = analysis.what_if[0].predicted_ns;
        let off = (predicted - truth).abs();
        // The recording does not show the cost of a synchronization that no longer waits.
        let syncs = steps.iter().flatten().filter(|does| matches!(does, Does::Sync)).count();
        let unseen = UNWAITED * i64::try_from(syncs).unwrap();
        prop_assert!(off <= (truth / 50).max(unseen), "predicted {} truth {} of {}", predicted, truth, analysis.window.duration_ns);
    }

    #[test]
    fn slack_is_what_a_node_can_be_late(steps in engine(), pick in any::<prop::sample::Index>()) {
        let graph = graph(simulate(&steps, AS_IS).0);
        let chosen: Vec<_> = graph.steps(0).to_vec();
        let (first, last) = (&chosen[0], &chosen[chosen.len() - 1]);
        let window = Window { begin_ns: first.begin_ns, end_ns: last.end_ns };
        let slack = graph.slack(window);
        prop_assert!(slack.iter().all(|slack| *slack >= 0));
        // Nodes within the window, which its end limits.
        let inside: Vec<u32> = nodes(&graph)
            .filter(|node| graph.time[*node as usize] <= window.end_ns)
            .collect();
        let node = inside[pick.index(inside.len())];
        let late = |by: i64| {
            let mut known = vec![None; graph.time.len()];
            // Nodes that began after the end of the window may move.
            nodes(&graph)
                .filter(|node| graph.time[*node as usize] <= window.end_ns)
                .map(|end| by_brute_force(&graph, end, (node, by), &mut known))
                .max()
                .unwrap_or(0)
        };
        let own = slack[node as usize];
        prop_assert!(late(own) <= window.end_ns);
        prop_assert!(late(own + 1) > window.end_ns);
    }

    #[test]
    fn replays_are_the_longest_of_all_paths(steps in engine()) {
        let graph = graph(simulate(&steps, AS_IS).0);
        let mut known = vec![None; graph.time.len()];
        for node in nodes(&graph) {
            let time = by_brute_force(&graph, node, (u32::MAX, 0), &mut known);
            prop_assert_eq!(time, graph.time[node as usize]);
        }
    }
}

#[test]
fn what_takes_the_time_is_the_verdict() {
    let launch = |took: i64| Does::Launch(0, took, 0);
    let of = |step: Vec<Does>| {
        let graph = graph(simulate(&vec![step; 4], AS_IS).0);
        analyse(&graph, &Options::default()).unwrap().window.verdict
    };
    let eager: Vec<Does> = (0..40).map(|_| launch(500)).collect();
    assert_eq!(of(eager), "launch-bound");
    assert_eq!(of(vec![launch(90_000), launch(90_000)]), "gpu-bound");
    assert_eq!(
        of(vec![Does::Host(0, 90_000), launch(9_000), Does::Sync]),
        "host-bound"
    );
}

#[test]
fn ten_thousand_steps_take_no_more_than_their_number() {
    let steps: Vec<Vec<Does>> = (0..10_000)
        .map(|_| vec![Does::Host(0, 4_000), Does::Launch(1, 9_000, 0)])
        .collect();
    let graph = graph(simulate(&steps, AS_IS).0);
    let analysis = analyse(&graph, &Options::default()).unwrap();
    assert_eq!(analysis.steps.len(), 10_000);
    let total: i64 = analysis.steps.iter().map(|step| step.duration_ns).sum();
    assert_eq!(total, analysis.window.duration_ns);
}
