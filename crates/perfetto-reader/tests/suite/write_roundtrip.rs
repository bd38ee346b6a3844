//! Tests that written traces read back unchanged.

use std::collections::BTreeMap;

use crate::write_support::{arrows, assert_same, read, samples, written};
use perfetto_reader::write::{CounterUnit, EventData, TraceWriter, TrackSpec, WriterOptions};
use proptest::prelude::*;
use trace_model::{
    Arg, ArgValue, ArgsRef, CategoryId, EndData, EndOrder, EventOrder, FinishOptions, FlowPoint,
    FlowRole, FlowSpace, LaneId, Pid, Process, SliceData, Thread, Tid, Trace, TraceBuilder, Track,
    TrackKind, Unit,
};

/// One random event: lane, time, kind, duration, name, arguments, flow.
#[derive(Clone, Debug)]
struct Event {
    lane: usize,
    ts: i64,
    kind: u8,
    dur: i64,
    name: Option<u8>,
    args: Vec<(u8, u8)>,
    flow: Option<(u8, bool)>,
}

fn event() -> impl Strategy<Value = Event> {
    (
        0..6_usize,
        0..40_i64,
        0..6_u8,
        0..12_i64,
        prop::option::of(0..5_u8),
        prop::collection::vec((0..8_u8, any::<u8>()), 0..4),
        prop::option::of((0..4_u8, any::<bool>())),
    )
        .prop_map(|(lane, ts, kind, dur, name, args, flow)| Event {
            lane,
            ts,
            kind,
            dur,
            name,
            args,
            flow,
        })
}

fn lanes(b: &mut TraceBuilder) -> Vec<LaneId> {
    let name = b.string("server");
    let process = b.process(Process {
        name: Some(name),
        ..Process::new(Pid(100))
    });
    let other = b.process(Process::new(Pid(-1)));
    let worker = b.string("worker");
    let main = b.thread(Thread::new(Tid(100), Some(process)));
    let thread = b.thread(Thread {
        name: Some(worker),
        ..Thread::new(Tid(101), Some(other))
    });
    let queue = b.string("queue 0");
    let tracks = [
        Track {
            thread: Some(main),
            process: Some(process),
            ..Track::new(TrackKind::Thread)
        },
        Track {
            thread: Some(thread),
            process: Some(other),
            ..Track::new(TrackKind::Thread)
        },
        Track {
            process: Some(process),
            name: Some(queue),
            uuid: Some(77),
            ..Track::new(TrackKind::ProcessChild)
        },
        Track {
            thread: Some(main),
            process: Some(process),
            name: Some(queue),
            ..Track::new(TrackKind::ThreadChildUnmerged)
        },
        Track {
            name: Some(queue),
            ..Track::new(TrackKind::Global)
        },
        Track {
            process: Some(other),
            ..Track::new(TrackKind::ProcessAsync)
        },
    ];
    tracks.map(|t| b.track(t)).map(|t| b.lane(Some(t))).to_vec()
}

fn random_args(b: &mut TraceBuilder, list: &[(u8, u8)]) -> ArgsRef {
    const KEYS: [&str; 8] = [
        "args.a",
        "args.b.c",
        "args.b.d[0]",
        "debug.est. x %",
        "correlation_id",
        "args.long",
        "args.p",
        "args.j",
    ];
    let mut out: Vec<Arg> = Vec::new();
    for &(key, value) in list {
        let at = usize::from(key);
        if out.iter().any(|a| a.key == b.string(KEYS[at])) {
            continue;
        }
        let key = b.string(KEYS[at]);
        let wide = u64::from(value) << 56 | 3;
        out.push(match at {
            0 => Arg::int(key, i64::from(value) - 128),
            1 => Arg::bool(key, value % 2 == 0),
            2 => Arg::real(key, f64::from(value) / 3.0),
            3 | 4 => Arg::uint(key, wide),
            5 => {
                let text = b.string(&"long ".repeat(usize::from(value)));
                Arg::text(key, text)
            }
            6 => Arg::pointer(key, wide),
            _ => {
                let text = b.string(&format!("[{value}, [], null]"));
                Arg::json(key, text)
            }
        });
    }
    b.events.args(&out)
}

fn small(n: i64) -> f64 {
    f64::from(i32::try_from(n).unwrap())
}

fn random_trace(events: &[Event], order: EventOrder) -> Trace {
    let mut b = TraceBuilder::new();
    let lanes = lanes(&mut b);
    let counter = b.string("power");
    let watts = b.string("W");
    let counter = b.track(Track {
        name: Some(counter),
        unit: Some(Unit::Watts),
        unit_name: Some(watts),
        ..Track::new(TrackKind::GlobalCounter)
    });
    let counter = b.lane(Some(counter));
    for e in events {
        let lane = lanes[e.lane];
        let name = e
            .name
            .map(|n| b.string(["", "aten::mm", "k", "x,y", "é"][usize::from(n)]));
        let category = match e.name {
            Some(n) if n > 0 => {
                let text = b.string(["", "cpu_op", "kernel", "a,b", ",odd"][usize::from(n)]);
                b.events.category(text)
            }
            _ => CategoryId::NONE,
        };
        let args = random_args(&mut b, &e.args);
        let data = SliceData {
            name,
            category,
            args,
        };
        match e.kind {
            0 | 1 => b.events.begin(lane, e.ts, data),
            2 => b.events.end(lane, e.ts, EndOrder::InPlace, EndData::ANY),
            3 => b.events.instant(lane, e.ts, data),
            4 => b.events.complete(lane, e.ts, e.dur, data),
            _ => {
                b.events.counter(counter, e.ts, small(e.dur) / 4.0);
                continue;
            }
        }
        if let Some((id, terminate)) = e.flow {
            b.events.attach_flow(FlowPoint {
                id: id.into(),
                category: None,
                name: None,
                space: FlowSpace::TrackEvent,
                role: if terminate {
                    FlowRole::Terminate
                } else {
                    FlowRole::Through
                },
            });
        }
    }
    let mut options = FinishOptions::default();
    options.order = order;
    b.finish(&options).unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn random_traces_read_back(events in prop::collection::vec(event(), 0..60), chrome: bool) {
        let order = if chrome { EventOrder::Chrome } else { EventOrder::File };
        let before = random_trace(&events, order);
        let after = written(&before);
        assert_same(&before, &after);
        // Once more: the trace that was read back can be expressed completely.
        let again = written(&after);
        prop_assert_eq!(assert_same(&after, &again), after.tracks().len());
    }
}

#[test]
fn counters_units_and_metadata_read_back() {
    let mut b = TraceBuilder::new();
    b.meta.base_time_ns = 1_700_000_000_000_000_000;
    let process = b.process(Process::new(Pid(7)));
    let mut expected = Vec::new();
    for (name, unit, unit_name) in [
        ("time", Some(Unit::Nanos), None),
        ("tokens", Some(Unit::Count), None),
        ("bytes", Some(Unit::Bytes), None),
        ("load", Some(Unit::Percent), None),
        ("plain", None, None),
        ("power", None, Some("mW")),
    ] {
        let name = b.string(name);
        let unit_name = unit_name.map(|u| b.string(u));
        let track = b.track(Track {
            name: Some(name),
            process: Some(process),
            unit,
            unit_name,
            ..Track::new(TrackKind::ProcessCounter)
        });
        let lane = b.lane(Some(track));
        for (ts, value) in [
            (1, -0.0),
            (2, 1e300),
            (3, f64::INFINITY),
            (4, 9e15),
            (5, -7.0),
        ] {
            b.events.counter(lane, ts, value);
        }
        expected.push(unit);
    }
    let before = b.finish(&FinishOptions::default()).unwrap();
    let after = written(&before);
    assert_eq!(samples(&before), samples(&after));
    assert_eq!(samples(&after).len(), 30);
    assert_eq!(after.meta().base_time_ns, 1_700_000_000_000_000_000);
}

#[test]
fn made_up_numbers_never_clash() {
    let mut b = TraceBuilder::new();
    let names = ["Spans", "PyTorch Profiler"].map(|n| b.string(n));
    for (pid, name, artificial) in [
        (1_i64 << 40, None, false),
        (1 << 30, None, false),
        (3, Some(names[0]), true),
        (3, Some(names[1]), true),
    ] {
        let process = b.process(Process {
            name,
            artificial,
            ..Process::new(Pid(pid))
        });
        let thread = b.thread(Thread::new(Tid(pid), Some(process)));
        let track = b.track(Track {
            thread: Some(thread),
            process: Some(process),
            ..Track::new(TrackKind::Thread)
        });
        let lane = b.lane(Some(track));
        let data = SliceData {
            name,
            category: CategoryId::NONE,
            args: ArgsRef::NONE,
        };
        b.events.instant(lane, 5, data);
    }
    let after = written(&b.finish(&FinishOptions::default()).unwrap());
    let pids: Vec<i64> = after.processes().iter().map(|p| p.pid.0).collect();
    assert_eq!(pids, [(1 << 30) + 1, 1 << 30, (1 << 30) + 2, (1 << 30) + 3]);
    let names: Vec<_> = after.slices().map(|s| s.name()).collect();
    assert_eq!(names, [None, None, Some("Spans"), Some("PyTorch Profiler")]);
    let tracks: std::collections::BTreeSet<_> = after.slices().map(|s| s.track_id()).collect();
    assert_eq!(tracks.len(), 4);
}

/// Returns start, duration, depth and name of the track of each slice.
fn places(trace: &Trace) -> Vec<(i64, i64, usize, String)> {
    trace
        .slices()
        .map(|s| {
            let track = s.track().name.map_or("", |n| trace.text(n)).to_owned();
            let dur = s.dur().map_or(-1, |d| d.get());
            (s.ts().nanos(), dur, s.depth(), track)
        })
        .collect()
}

#[test]
fn streamed_slices_nest_and_overlaps_go_to_siblings() {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
    let mut spec = TrackSpec::default();
    spec.name = Some("queue");
    let queue = w.track(&spec).unwrap();
    let data = EventData::default();
    for (ts, dur) in [
        (0, 100),
        (0, 50),
        (50, 50),
        (60, 70),
        (100, 10),
        (100, 0),
        (110, 5),
    ] {
        w.complete(queue, ts, dur, &data).unwrap();
    }
    assert!(w.complete(queue, 109, 1, &data).is_err());
    assert!(w.complete(queue, 200, -1, &data).is_err());
    let trace = read(w.finish().unwrap());
    let q = || "queue".to_owned();
    assert_eq!(
        places(&trace),
        [
            (0, 100, 0, q()),
            (0, 50, 1, q()),
            (50, 50, 1, q()),
            (60, 70, 0, q()),
            (100, 10, 0, q()),
            (100, 0, 1, q()),
            (110, 5, 0, q()),
        ]
    );
    let tracks: std::collections::BTreeSet<_> = trace.slices().map(|s| s.track_id()).collect();
    assert_eq!(tracks.len(), 2);
}

#[test]
fn streamed_begins_ends_counters_and_flows() {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
    let process = w.process(10, Some("p")).unwrap();
    let thread = w.thread(process, 10, 11, Some("t")).unwrap();
    let mut spec = TrackSpec::default();
    spec.name = Some("bytes");
    spec.parent = Some(process);
    let counter = w.counter_track(&spec, CounterUnit::Bytes).unwrap();
    let named = |name| EventData {
        name: Some(name),
        ..EventData::default()
    };
    w.begin(
        thread,
        10,
        &EventData {
            flows: &[5],
            ..named("a")
        },
    )
    .unwrap();
    w.begin(thread, 10, &named("b")).unwrap();
    w.counter(counter, 12, 2.5).unwrap();
    w.end(thread, 20).unwrap();
    w.end(thread, 20).unwrap();
    w.end(thread, 21).unwrap();
    // Late, and never closed.
    w.begin(
        thread,
        15,
        &EventData {
            terminating_flows: &[5],
            ..named("c")
        },
    )
    .unwrap();
    let trace = read(w.finish().unwrap());
    let slices: Vec<_> = trace
        .slices()
        .map(|s| (s.name().unwrap(), s.ts().nanos(), s.depth()))
        .collect();
    assert_eq!(slices, [("a", 10, 0), ("b", 10, 1), ("c", 15, 2)]);
    assert_eq!(arrows(&trace), BTreeMap::from([((0, 2), 1)]));
    assert_eq!(
        samples(&trace),
        [(12, "bytes".into(), 2.5_f64.to_bits(), "bytes".into())]
    );
    assert_eq!(trace.text(trace.threads()[0].name.unwrap()), "t");
}

#[test]
fn full_dictionaries_start_anew() {
    let mut w = TraceWriter::new(Vec::new(), WriterOptions::default()).unwrap();
    let process = w.process(1, None).unwrap();
    let count = 300_000_i64;
    for i in 0..count {
        let name = format!("request {i}");
        let text = format!("id {i}");
        let args = [("id", ArgValue::Str(&text))];
        let data = EventData {
            name: Some(&name),
            category: Some("serving"),
            args: &args,
            ..EventData::default()
        };
        w.complete(process, i * 10, 5, &data).unwrap();
    }
    let trace = read(w.finish().unwrap());
    assert_eq!(trace.len(), 300_000);
    for (i, s) in (0..count).zip(trace.slices()).step_by(997) {
        assert_eq!(s.name().unwrap(), format!("request {i}"));
        assert_eq!((s.ts().nanos(), s.category()), (i * 10, Some("serving")));
        assert_eq!(s.arg("id").unwrap().as_str().unwrap(), format!("id {i}"));
    }
    assert!(trace.diagnostics().is_clean());
}
