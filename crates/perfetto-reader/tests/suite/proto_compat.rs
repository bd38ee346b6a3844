//! Tests properties of protobuf traces that only the reference's tables show, compared with
//! Perfetto's trace processor 55.3.

use byte_source::Source;
use perfetto_reader::proto::schema::*;
use perfetto_reader::{ReadOptions, proto};
use prost::Message;
use trace_model::{ArgValue, Trace as Model};

fn packet(sequence: u32) -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(sequence),
        sequence_flags: Some(1),
        ..Default::default()
    }
}

fn event(ts: u64, event: TrackEvent) -> TracePacket {
    TracePacket {
        timestamp: Some(ts),
        sequence_flags: None,
        track_event: Some(event),
        ..packet(1)
    }
}

fn begin(name: &str) -> TrackEvent {
    TrackEvent {
        r#type: Some(1),
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

fn track(descriptor: TrackDescriptor) -> TracePacket {
    TracePacket {
        sequence_flags: None,
        track_descriptor: Some(descriptor),
        // Another writer, so that this does not affect the thread of the first.
        trusted_packet_sequence_id: Some(2),
        ..Default::default()
    }
}

fn described(pid: i32, tid: i32) -> TracePacket {
    TracePacket {
        sequence_flags: None,
        thread_descriptor: Some(ThreadDescriptor {
            pid: Some(pid),
            tid: Some(tid),
            ..Default::default()
        }),
        ..packet(1)
    }
}

fn counter(uuid: u64, parent: u64, incremental: bool) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid),
        parent_uuid: Some(parent),
        counter: Some(CounterDescriptor {
            is_incremental: Some(incremental),
            ..Default::default()
        }),
        ..Default::default()
    }
}

fn read(packets: Vec<TracePacket>, compat: bool) -> Model {
    let bytes = Trace { packet: packets }.encode_to_vec();
    let mut options = ReadOptions::default();
    options.compat = compat;
    proto::read(Source::from_bytes("test", bytes).unwrap(), &options).unwrap()
}

fn tids(trace: &Model) -> Vec<Option<i64>> {
    trace
        .slices()
        .map(|slice| {
            let thread = slice.track().thread?;
            Some(trace.thread(thread).tid.0)
        })
        .collect()
}

#[test]
fn the_last_thread_of_a_generation_holds_for_all_its_events() {
    let packets = || {
        vec![
            packet(1),
            event(5, begin("before")),
            described(10, 11),
            event(10, begin("between")),
            described(10, 12),
            event(20, begin("after")),
            packet(1),
            event(30, begin("cleared")),
            packet(1),
            described(10, 13),
        ]
    };
    let trace = read(packets(), true);
    assert_eq!(tids(&trace), [Some(12); 4]);
    let depths: Vec<_> = trace.slices().map(|slice| slice.depth()).collect();
    assert_eq!(depths, [0, 1, 2, 3]);
    let read_so_far = [None, Some(11), Some(12), Some(12)];
    assert_eq!(tids(&read(packets(), false)), read_so_far);
}

#[test]
fn counters_of_an_event_without_a_track_go_with_it() {
    let sampled = |uuid| TrackEvent {
        track_uuid: Some(uuid),
        extra_counter_track_uuids: vec![7],
        extra_counter_values: vec![3],
        ..begin("x")
    };
    let packets = || {
        vec![
            packet(1),
            track(counter(7, 0, false)),
            track(TrackDescriptor {
                uuid: Some(4),
                parent_uuid: Some(99),
                ..Default::default()
            }),
            event(10, sampled(4)),
            event(20, sampled(5)),
        ]
    };
    let times = |compat| -> Vec<i64> {
        let trace = read(packets(), compat);
        trace
            .counters()
            .iter()
            .map(|sample| sample.ts.nanos())
            .collect()
    };
    assert_eq!(times(true), [20]);
    assert_eq!(times(false), [10, 20]);
}

#[test]
fn the_value_of_a_counter_event_adds_up_before_extra_ones() {
    let both = TrackEvent {
        r#type: Some(4),
        track_uuid: Some(7),
        double_counter_value: Some(0.5),
        extra_counter_track_uuids: vec![7],
        extra_counter_values: vec![2],
        ..Default::default()
    };
    for compat in [true, false] {
        let packets = vec![
            packet(1),
            track(counter(7, 0, true)),
            event(10, both.clone()),
        ];
        let trace = read(packets, compat);
        let values: Vec<f64> = trace.counters().iter().map(|sample| sample.value).collect();
        assert_eq!(values, [0.5, 2.5]);
    }
}

#[test]
fn cpu_times_count_on_threads_only() {
    let timed = |uuid| TrackEvent {
        track_uuid: Some(uuid),
        thread_time_absolute_us: Some(40),
        ..begin("x")
    };
    let thread = TrackDescriptor {
        uuid: Some(3),
        thread: Some(ThreadDescriptor {
            pid: Some(10),
            tid: Some(11),
            ..Default::default()
        }),
        ..Default::default()
    };
    // The descriptor comes last: the kind of a track is known only at the end.
    let packets = || {
        vec![
            packet(1),
            event(10, timed(8)),
            event(20, timed(3)),
            track(thread.clone()),
        ]
    };
    let times = |compat| -> Vec<Option<i64>> {
        let trace = read(packets(), compat);
        trace
            .slices()
            .map(|slice| slice.thread_time().map(|t| t.0))
            .collect()
    };
    assert_eq!(times(true), [None, Some(40_000)]);
    assert_eq!(times(false), [Some(40_000); 2]);
}

#[test]
fn a_flow_event_names_the_track_that_it_is_refused_on() {
    let flow = TrackEvent {
        track_uuid: Some(7),
        legacy_event: Some(LegacyEvent {
            phase: Some(i32::from(b'f')),
            unscoped_id: Some(3),
            ..Default::default()
        }),
        ..Default::default()
    };
    let named = TrackEvent {
        track_uuid: Some(7),
        ..begin("b")
    };
    let name = |packets| {
        let trace = read(packets, true);
        let slice = trace.slices().last().unwrap();
        let name = slice.track().name?;
        Some(trace.text(name).to_owned())
    };
    let late = || event(20, named.clone());
    assert_eq!(name(vec![packet(1), late()]).as_deref(), Some("b"));
    assert_eq!(name(vec![packet(1), event(10, flow), late()]), None);
}

#[test]
fn numbers_that_end_a_text_of_json_are_not_complete() {
    let annotation = |name: &str, text: &str| DebugAnnotation {
        name: Some(name.to_owned()),
        legacy_json_value: Some(text.to_owned()),
        ..Default::default()
    };
    let list = DebugAnnotation {
        name: Some("list".to_owned()),
        array_values: ["{}", "12", "\"s\""]
            .map(|text| DebugAnnotation {
                name: None,
                ..annotation("", text)
            })
            .into(),
        ..Default::default()
    };
    let noted = TrackEvent {
        debug_annotations: vec![annotation("n", "12"), annotation("m", "12 "), list],
        ..begin("x")
    };
    let trace = read(vec![packet(1), event(10, noted)], true);
    let slice = trace.slices().last().unwrap();
    let args: Vec<_> = slice.args().collect();
    let wanted = [
        ("debug.m", ArgValue::Int(12)),
        ("debug.list[2]", ArgValue::Str("s")),
    ];
    assert_eq!(args, wanted);
}
