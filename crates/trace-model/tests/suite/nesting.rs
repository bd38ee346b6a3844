//! Tests nesting and flow binding on minimal inputs, and against a planted tree.

use proptest::prelude::*;
use trace_model::{
    ArgsRef, CategoryId, EndData, EndOrder, EventOrder, FinishOptions, FlowBinding, FlowPoint,
    FlowRole, FlowSpace, IssueKind, LaneId, Nanos, OverlapPolicy, Pid, Process, SliceData, Thread,
    Tid, TimeRange, Timestamp, Trace, TraceBuilder, Track, TrackKind,
};

fn chrome() -> FinishOptions {
    let mut options = FinishOptions::default();
    options.order = EventOrder::Chrome;
    options
}

struct Timeline {
    builder: TraceBuilder,
    lanes: Vec<LaneId>,
}

impl Timeline {
    fn new(threads: i64) -> Self {
        let mut builder = TraceBuilder::new();
        let process = builder.process(Process::new(Pid(1)));
        let lanes = (0..threads)
            .map(|tid| {
                let thread = builder.thread(Thread::new(Tid(tid), Some(process)));
                let track = builder.track(Track {
                    thread: Some(thread),
                    process: Some(process),
                    ..Track::new(TrackKind::Thread)
                });
                builder.lane(Some(track))
            })
            .collect();
        Self { builder, lanes }
    }

    fn data(&mut self, name: &str) -> SliceData {
        let name = Some(self.builder.events.strings.intern(name));
        SliceData {
            name,
            category: CategoryId::NONE,
            args: ArgsRef::NONE,
        }
    }

    fn x(&mut self, lane: usize, ts: i64, dur: i64, name: &str) -> &mut Self {
        let data = self.data(name);
        self.builder
            .events
            .complete(self.lanes[lane], ts, dur, data);
        self
    }

    fn i(&mut self, lane: usize, ts: i64, name: &str) -> &mut Self {
        let data = self.data(name);
        self.builder.events.instant(self.lanes[lane], ts, data);
        self
    }

    fn b(&mut self, lane: usize, ts: i64, name: &str) -> &mut Self {
        let data = self.data(name);
        self.builder.events.begin(self.lanes[lane], ts, data);
        self
    }

    fn e(&mut self, lane: usize, ts: i64, name: Option<&str>) -> &mut Self {
        let name = name.map(|n| self.builder.events.strings.intern(n));
        let data = EndData {
            name,
            ..EndData::ANY
        };
        self.builder
            .events
            .end(self.lanes[lane], ts, EndOrder::First, data);
        self
    }

    fn flow(&mut self, lane: usize, ts: i64, id: u64, role: FlowRole) -> &mut Self {
        let point = FlowPoint {
            id,
            category: None,
            name: None,
            space: FlowSpace::Chrome,
            role,
        };
        self.builder.events.flow(self.lanes[lane], ts, point);
        self
    }

    fn finish(self, options: &FinishOptions) -> Trace {
        self.builder.finish(options).expect("a small trace fits")
    }
}

/// Name, start, duration, depth and parent's name.
type Row<'t> = (&'t str, i64, Option<i64>, usize, Option<&'t str>);

fn rows(trace: &Trace) -> Vec<Row<'_>> {
    trace
        .slices()
        .map(|s| {
            let parent = s.parent().and_then(|p| p.name());
            (
                s.name().unwrap_or(""),
                s.ts().nanos(),
                s.dur().map(Nanos::get),
                s.depth(),
                parent,
            )
        })
        .collect()
}

fn arrows(trace: &Trace) -> Vec<(&str, &str)> {
    let name = |id| trace.slice(id).name().unwrap_or("");
    trace
        .flows()
        .iter()
        .map(|f| (name(f.from), name(f.to)))
        .collect()
}

/// Perfetto's slice tracker examines the slice around unclosed ones only past its end: a slice that
/// starts exactly there leaves them open, and one that starts a nanosecond later closes them.
#[test]
fn unclosed_slices_are_cut_past_the_end_of_the_slice_around_them() {
    for (ts, cut, unclosed) in [(100, 0, None), (101, 1, Some(90))] {
        let mut t = Timeline::new(1);
        t.x(0, 0, 100, "around")
            .b(0, 10, "unclosed")
            .x(0, ts, 5, "next");
        let trace = t.finish(&chrome());
        let found = rows(&trace);
        assert_eq!(found[1], ("unclosed", 10, unclosed, 1, Some("around")));
        let next_depth = if cut == 0 { 2 } else { 0 };
        assert_eq!((found[2].0, found[2].3), ("next", next_depth), "at {ts}");
        let issues = trace.diagnostics();
        assert_eq!(issues.count_of(IssueKind::MisplacedEnd), cut, "at {ts}");
    }
}

/// A time range includes its start and excludes its end.
#[test]
fn slices_starting_in_a_range() {
    let mut t = Timeline::new(1);
    for ts in [10, 20, 20, 30] {
        t.i(0, ts, "at");
    }
    let trace = t.finish(&chrome());
    for ((start, end), want) in [
        ((10, 30), vec![10, 20, 20]),
        ((20, 21), vec![20, 20]),
        ((11, 20), vec![]),
        ((30, 31), vec![30]),
        ((20, 20), vec![]),
        ((25, 15), vec![]),
    ] {
        let at = Timestamp::from_nanos;
        let range = TimeRange::new(at(start), at(end));
        let found = trace.starting_in(range).map(|s| s.ts().nanos());
        assert_eq!(found.collect::<Vec<_>>(), want, "{start}..{end}");
    }
}

#[test]
fn longer_slice_of_equal_start_is_the_parent_and_touching_slices_are_siblings() {
    let mut t = Timeline::new(1);
    t.x(0, 100, 50, "inner")
        .x(0, 100, 100, "outer")
        .x(0, 150, 50, "touches")
        .x(0, 200, 5, "next");
    let trace = t.finish(&chrome());
    assert_eq!(
        rows(&trace),
        [
            ("outer", 100, Some(100), 0, None),
            ("inner", 100, Some(50), 1, Some("outer")),
            ("touches", 150, Some(50), 1, Some("outer")),
            ("next", 200, Some(5), 0, None),
        ]
    );
}

#[test]
fn instants_at_one_time_nest_into_each_other() {
    let mut t = Timeline::new(1);
    t.i(0, 5, "a").i(0, 5, "b");
    let trace = t.finish(&FinishOptions::default());
    assert_eq!(rows(&trace)[1], ("b", 5, Some(0), 1, Some("a")));
}

#[test]
fn partial_overlaps_spill_in_first_fit_order_and_keep_their_length() {
    let mut t = Timeline::new(1);
    t.x(0, 0, 10, "a")
        .x(0, 5, 10, "b")
        .x(0, 6, 20, "c")
        .x(0, 16, 4, "d")
        .x(0, 17, 20, "e");
    let trace = t.finish(&chrome());
    let lanes: Vec<_> = trace.slices().map(|s| s.track_id().index()).collect();
    // b overlaps a, c overlaps a and b; d nests on the emptied main track; e overlaps d, and c on
    // the second overflow track, but fits the first.
    assert_eq!(lanes, [0, 1, 2, 0, 1]);
    assert!(trace.slices().all(|s| s.depth() == 0));
    assert_eq!(
        trace.slices().map(|s| s.dur().unwrap().get()).sum::<i64>(),
        64
    );
    assert_eq!(trace.diagnostics().count_of(IssueKind::Overlap), 3);
    let overflow = trace.slices().nth(1).unwrap().track();
    assert_eq!(overflow.kind, TrackKind::ThreadOverflow);
    assert_eq!(overflow.thread, trace.tracks()[0].thread);
}

#[test]
fn old_policy_drops_overlaps_and_counts_them() {
    let mut t = Timeline::new(1);
    t.x(0, 0, 10, "a").x(0, 5, 10, "b");
    let mut options = chrome();
    options.overlap = OverlapPolicy::Drop;
    let trace = t.finish(&options);
    assert_eq!(trace.len(), 1);
    assert_eq!(trace.diagnostics().count_of(IssueKind::OverlapDropped), 1);
}

/// Kineto's recorders of one thread have clocks of their own: a slice that ends shortly after the
/// enclosing one is inside it, a slice that begins shortly before the end of another follows it. On
/// a device, kernels do overlap.
#[test]
fn small_overlaps_of_a_host_thread_are_imprecise_clocks() {
    let build = |category: &str, slices: &[(i64, i64, &'static str)], snap_ns| {
        let mut t = Timeline::new(1);
        let name = t.builder.string(category);
        let category = t.builder.events.category(name);
        for &(ts, dur, name) in slices {
            let data = SliceData {
                category,
                ..t.data(name)
            };
            t.builder.events.complete(t.lanes[0], ts, dur, data);
        }
        let mut options = chrome();
        options.snap_ns = snap_ns;
        t.finish(&options)
    };
    let nested = [(0, 100, "a"), (50, 51, "b"), (60, 40, "c"), (100, 10, "d")];
    let trace = build("cpu_op", &nested, 1);
    let found: Vec<_> = rows(&trace).iter().map(|r| (r.0, r.2, r.4)).collect();
    let want = [
        ("a", Some(100), None),
        ("b", Some(51), Some("a")),
        ("c", Some(40), Some("b")),
        ("d", Some(10), None),
    ];
    assert_eq!(found, want);
    let follows = [(0, 50, "a"), (40, 10, "inner"), (49, 30, "b"), (55, 5, "c")];
    let trace = build("python_function", &follows, 1);
    let found: Vec<_> = rows(&trace).iter().map(|r| (r.0, r.3, r.4)).collect();
    let want = [
        ("a", 0, None),
        ("inner", 1, Some("a")),
        ("b", 0, None),
        ("c", 1, Some("b")),
    ];
    assert_eq!(found, want);
    assert_eq!(trace.diagnostics().count_of(IssueKind::Snapped), 2);
    for (category, snap_ns) in [("python_function", 0), ("kernel", 1), ("gpu_memcpy", 1)] {
        let trace = build(category, &follows, snap_ns);
        assert_eq!(trace.diagnostics().count_of(IssueKind::Snapped), 0);
        assert_eq!(
            trace.diagnostics().count_of(IssueKind::Overlap),
            1,
            "{category}"
        );
    }
}

#[test]
fn an_end_closes_the_innermost_open_slice_of_its_name() {
    let mut t = Timeline::new(1);
    t.b(0, 0, "outer")
        .b(0, 1, "inner")
        .b(0, 2, "inner")
        .e(0, 5, Some("inner"));
    t.e(0, 7, Some("outer"))
        .e(0, 9, Some("inner"))
        .e(0, 10, None);
    let trace = t.finish(&chrome());
    // Closing `outer` over an open `inner` cuts that one when time has passed the outer's end.
    assert_eq!(
        rows(&trace),
        [
            ("outer", 0, Some(7), 0, None),
            ("inner", 1, Some(6), 1, Some("outer")),
            ("inner", 2, Some(3), 2, Some("inner")),
        ]
    );
    assert_eq!(trace.diagnostics().count_of(IssueKind::MisplacedEnd), 1);
    assert_eq!(trace.diagnostics().count_of(IssueKind::EndWithoutBegin), 2);
}

#[test]
fn unclosed_slices_end_with_the_closed_one_around_them() {
    let mut t = Timeline::new(1);
    t.x(0, 0, 100, "around")
        .b(0, 10, "forgotten")
        .x(0, 200, 1, "later");
    let trace = t.finish(&chrome());
    assert_eq!(
        rows(&trace),
        [
            ("around", 0, Some(100), 0, None),
            ("forgotten", 10, Some(90), 1, Some("around")),
            ("later", 200, Some(1), 0, None),
        ]
    );
    assert_eq!(trace.diagnostics().count_of(IssueKind::MisplacedEnd), 1);
}

#[test]
fn slices_that_all_overlap_fill_a_limited_number_of_tracks() {
    let mut t = Timeline::new(1);
    for i in 0..1100 {
        t.x(0, i, 5000, "x");
    }
    let trace = t.finish(&chrome());
    assert_eq!((trace.len(), trace.tracks().len()), (1025, 1025));
    let count = |kind| trace.diagnostics().count_of(kind);
    assert_eq!(count(IssueKind::Overlap), 1024);
    assert_eq!(count(IssueKind::OverlapDropped), 75);
}

#[test]
fn complete_slices_are_cut_only_as_the_reference_does() {
    for (cut_all, long) in [(false, Some(200)), (true, Some(80))] {
        let mut t = Timeline::new(1);
        t.x(0, 0, 100, "around").b(0, 10, "forgotten");
        t.x(0, 20, 200, "long").x(0, 150, 1, "x");
        let mut options = chrome();
        options.cut_all = cut_all;
        let trace = t.finish(&options);
        let durations: Vec<_> = rows(&trace).iter().map(|r| (r.0, r.2)).collect();
        let expected = [
            ("around", Some(100)),
            ("forgotten", Some(90)),
            ("long", long),
            ("x", Some(1)),
        ];
        assert_eq!(durations, expected);
    }
}

#[test]
fn a_closed_slice_below_others_takes_the_top_along_as_in_the_reference() {
    let mut t = Timeline::new(1);
    t.x(0, 0, 100, "a").b(0, 10, "b").x(0, 20, 60, "c");
    t.e(0, 30, None).x(0, 40, 5, "d");
    let trace = t.finish(&chrome());
    let parents: Vec<_> = rows(&trace).iter().map(|r| (r.0, r.4)).collect();
    let expected = [
        ("a", None),
        ("b", Some("a")),
        ("c", Some("b")),
        ("d", Some("b")),
    ];
    assert_eq!(parents, expected);
}

#[test]
fn a_begin_that_is_never_closed_stays_open_and_ends_with_the_trace() {
    let mut t = Timeline::new(2);
    t.b(0, 10, "open").x(1, 20, 70, "x");
    let trace = t.finish(&chrome());
    let open = trace.slices().next().unwrap();
    assert_eq!((open.dur(), open.end().nanos()), (None, 90));
    assert_eq!(trace.diagnostics().count_of(IssueKind::NeverClosed), 1);
}

#[test]
fn states_last_until_the_next_one() {
    let mut t = Timeline::new(1);
    for (ts, name) in [(0, "idle"), (10, "busy"), (15, "idle")] {
        let data = t.data(name);
        t.builder.events.state(t.lanes[0], ts, data);
    }
    let trace = t.finish(&FinishOptions::default());
    assert_eq!(
        rows(&trace),
        [
            ("idle", 0, Some(10), 0, None),
            ("busy", 10, Some(5), 0, None),
            ("idle", 15, None, 0, None)
        ]
    );
}

#[test]
fn depth_stops_at_the_limit() {
    let mut t = Timeline::new(1);
    for i in 0..600 {
        t.x(0, i, 10_000 - 2 * i, "deep");
    }
    let trace = t.finish(&chrome());
    assert_eq!(trace.len(), 512);
    assert_eq!(trace.diagnostics().count_of(IssueKind::TooDeep), 88);
}

#[test]
fn flows_chain_fan_out_and_report_what_has_no_start() {
    let mut t = Timeline::new(2);
    t.x(0, 10, 10, "launch")
        .x(1, 30, 10, "k1")
        .x(1, 50, 10, "k2")
        .x(1, 70, 5, "k3");
    t.flow(0, 12, 7, FlowRole::Start)
        .flow(1, 30, 7, FlowRole::End);
    t.flow(1, 50, 7, FlowRole::Step)
        .flow(1, 60, 7, FlowRole::EndAtNext);
    t.flow(1, 55, 8, FlowRole::End)
        .flow(0, 13, 7, FlowRole::Start);
    let trace = t.finish(&chrome());
    assert_eq!(
        arrows(&trace),
        [("launch", "k1"), ("launch", "k2"), ("k2", "k3")]
    );
    assert_eq!(
        trace.diagnostics().count_of(IssueKind::FlowEndWithoutStart),
        1
    );
    assert_eq!(trace.diagnostics().count_of(IssueKind::FlowDuplicate), 1);
}

#[test]
fn arrows_run_from_the_earlier_slice() {
    let mut t = Timeline::new(2);
    t.x(0, 10, 30, "late launch").x(1, 5, 10, "early kernel");
    t.flow(0, 12, 1, FlowRole::Start)
        .flow(1, 13, 1, FlowRole::End);
    assert_eq!(
        arrows(&t.finish(&chrome())),
        [("early kernel", "late launch")]
    );
}

#[test]
fn exact_binding_finds_the_spilled_slice() {
    let build = || {
        let mut t = Timeline::new(2);
        t.x(1, 0, 10, "main")
            .x(1, 5, 10, "spilled")
            .x(0, 1, 1, "launch");
        t.flow(0, 1, 3, FlowRole::Start)
            .flow(1, 5, 3, FlowRole::End);
        t
    };
    assert_eq!(arrows(&build().finish(&chrome())), [("launch", "spilled")]);
    let mut top = chrome();
    top.binding = FlowBinding::TopOfStack;
    assert_eq!(arrows(&build().finish(&top)), [("main", "launch")]);
}

#[test]
fn negative_times_and_unresolved_lanes_are_dropped_and_counted() {
    let mut t = Timeline::new(1);
    t.x(0, -5, 1, "early").x(0, 5, 1, "kept");
    let nowhere = t.builder.lane(None);
    let data = t.data("nowhere");
    t.builder.events.complete(nowhere, 6, 1, data);
    let trace = t.finish(&chrome());
    assert_eq!(trace.len(), 1);
    assert_eq!(
        trace.diagnostics().count_of(IssueKind::NegativeTimestamp),
        1
    );
    assert_eq!(trace.diagnostics().count_of(IssueKind::BadTrack), 1);
}

/// Generates a forest of properly nested slices with distinct bounds: (start, end, parent).
fn forest() -> impl Strategy<Value = Vec<(i64, i64, Option<usize>)>> {
    prop::collection::vec(prop::bool::ANY, 1..120).prop_map(|steps| {
        let mut nodes = Vec::new();
        let mut open: Vec<usize> = Vec::new();
        let mut clock = 0;
        for begin in steps {
            clock += 3;
            match (begin, open.pop()) {
                (false, Some(node)) => {
                    let node: &mut (i64, i64, Option<usize>) = &mut nodes[node];
                    node.1 = clock;
                }
                (_, top) => {
                    open.extend(top);
                    nodes.push((clock, 0, top));
                    open.push(nodes.len() - 1);
                }
            }
        }
        while let Some(node) = open.pop() {
            clock += 3;
            nodes[node].1 = clock;
        }
        nodes
    })
}

proptest! {
    #[test]
    fn a_planted_forest_is_recovered_from_any_file_order(
        nodes in forest(),
        shuffle in any::<prop::sample::Index>(),
        split in any::<prop::sample::Index>(),
    ) {
        let mut order: Vec<usize> = (0..nodes.len()).collect();
        order.rotate_left(shuffle.index(nodes.len()));
        order.reverse();
        let split = split.index(nodes.len());

        // One batch, and the same events in two parts appended.
        let mut whole = Timeline::new(1);
        let mut parts = Timeline::new(1);
        let mut late = Timeline::new(1);
        for (n, &node) in order.iter().enumerate() {
            let (start, end, _) = nodes[node];
            whole.x(0, start, end - start, &node.to_string());
            let part = if n < split { &mut parts } else { &mut late };
            part.x(0, start, end - start, &node.to_string());
        }
        let lanes = parts.lanes.clone();
        parts.builder.events.append(late.builder.events, &lanes);

        let whole = whole.finish(&chrome());
        let expected: Vec<_> = (0..nodes.len())
            .map(|i| (i.to_string(), nodes[i].2.map(|p| p.to_string())))
            .collect();
        for trace in [&whole, &parts.finish(&chrome())] {
            let found: Vec<_> = rows(trace)
                .into_iter()
                .map(|(name, _, _, _, parent)| (name.to_owned(), parent.map(str::to_owned)))
                .collect();
            prop_assert_eq!(&found, &expected);
        }
    }

    #[test]
    fn every_slice_of_a_track_nests_in_its_parent_and_none_is_lost(
        slices in prop::collection::vec((0..200_i64, 0..60_i64), 0..150),
    ) {
        let mut t = Timeline::new(1);
        for &(ts, dur) in &slices {
            t.x(0, ts, dur, "s");
        }
        let trace = t.finish(&chrome());
        prop_assert_eq!(trace.len(), slices.len());
        for track in trace.track_ids() {
            let ids = trace.slices_on(track);
            for (i, &a) in ids.iter().enumerate() {
                let a = trace.slice(a);
                if let Some(p) = a.parent() {
                    prop_assert!(p.ts() <= a.ts() && a.end() <= p.end());
                    prop_assert_eq!(p.depth() + 1, a.depth());
                }
                // Brute force: two slices of one track are disjoint or one encloses the other.
                for &b in &ids[i + 1..] {
                    let b = trace.slice(b);
                    prop_assert!(b.ts() >= a.end() || b.end() <= a.end());
                }
            }
        }
        let listed: usize = trace.track_ids().map(|t| trace.slices_on(t).len()).sum();
        prop_assert_eq!(listed, trace.len());
    }
}
