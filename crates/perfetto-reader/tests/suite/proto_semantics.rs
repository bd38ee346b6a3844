//! Tests sequences, clocks, tracks, counters and projections of protobuf traces, one difficulty
//! each.

use std::io::Write as _;

use byte_source::Source;
use perfetto_reader::proto::schema::*;
use perfetto_reader::{ArgPolicy, Error, ReadOptions, proto};
use prost::Message;
use trace_model::{ArgValue, IssueKind, TimeRange, Timestamp, Trace as Model, TrackKind};

/// Returns the bytes of packets with top-level framing.
fn framed(packets: &[TracePacket]) -> Vec<u8> {
    Trace {
        packet: packets.to_vec(),
    }
    .encode_to_vec()
}

fn read_with(packets: &[TracePacket], options: &ReadOptions) -> Model {
    let mut bytes = framed(packets);
    // An empty file has no format; an empty packet has no effect.
    bytes.extend([0x0a, 0x00]);
    proto::read(Source::from_bytes("test", bytes).unwrap(), options).unwrap()
}

fn read(packets: &[TracePacket]) -> Model {
    read_with(packets, &ReadOptions::default())
}

fn packet(sequence: u32) -> TracePacket {
    TracePacket {
        trusted_packet_sequence_id: Some(sequence),
        ..Default::default()
    }
}

fn cleared(sequence: u32) -> TracePacket {
    TracePacket {
        sequence_flags: Some(1),
        ..packet(sequence)
    }
}

fn event(ts: u64, kind: i32, uuid: u64, name: &str) -> TracePacket {
    TracePacket {
        timestamp: Some(ts),
        track_event: Some(TrackEvent {
            r#type: Some(kind),
            track_uuid: Some(uuid),
            name: (!name.is_empty()).then(|| name.to_owned()),
            ..Default::default()
        }),
        ..packet(1)
    }
}

fn begin(ts: u64, uuid: u64, name: &str) -> TracePacket {
    event(ts, 1, uuid, name)
}

fn end(ts: u64, uuid: u64) -> TracePacket {
    event(ts, 2, uuid, "")
}

fn instant(ts: u64, uuid: u64, name: &str) -> TracePacket {
    event(ts, 3, uuid, name)
}

fn with(mut packet: TracePacket, change: impl FnOnce(&mut TrackEvent)) -> TracePacket {
    change(packet.track_event.as_mut().unwrap());
    packet
}

fn track(descriptor: TrackDescriptor) -> TracePacket {
    TracePacket {
        track_descriptor: Some(descriptor),
        ..packet(1)
    }
}

fn named(uuid: u64, parent: u64, name: &str) -> TrackDescriptor {
    TrackDescriptor {
        uuid: Some(uuid),
        parent_uuid: (parent != 0).then_some(parent),
        name: (!name.is_empty()).then(|| name.into()),
        ..Default::default()
    }
}

fn thread(uuid: u64, pid: i32, tid: i32, name: &str) -> TrackDescriptor {
    TrackDescriptor {
        thread: Some(ThreadDescriptor {
            pid: Some(pid),
            tid: Some(tid),
            thread_name: Some(name.into()),
            ..Default::default()
        }),
        ..named(uuid, 0, "")
    }
}

fn process(uuid: u64, pid: i32, name: &str) -> TrackDescriptor {
    TrackDescriptor {
        process: Some(ProcessDescriptor {
            pid: Some(pid),
            process_name: Some(name.into()),
            ..Default::default()
        }),
        ..named(uuid, 0, "")
    }
}

fn counter(uuid: u64, parent: u64, descriptor: CounterDescriptor) -> TrackDescriptor {
    TrackDescriptor {
        counter: Some(descriptor),
        ..named(uuid, parent, "")
    }
}

fn snapshot(sequence: u32, clocks: &[(u32, u64)]) -> TracePacket {
    TracePacket {
        clock_snapshot: Some(ClockSnapshot {
            clocks: clocks
                .iter()
                .map(|&(id, ts)| Clock {
                    clock_id: Some(id),
                    timestamp: Some(ts),
                    ..Default::default()
                })
                .collect(),
            primary_trace_clock: None,
        }),
        ..packet(sequence)
    }
}

fn on_clock(mut packet: TracePacket, clock: u32) -> TracePacket {
    packet.timestamp_clock_id = Some(clock);
    packet
}

fn rows(trace: &Model) -> Vec<(&str, i64, i64)> {
    trace
        .slices()
        .map(|s| {
            let dur = s.dur().map_or(-1, |d| d.get());
            (s.name().unwrap_or("-"), s.ts().nanos(), dur)
        })
        .collect()
}

/// Returns kind, name, tid and parent of the track of each slice.
fn tracks(trace: &Model) -> Vec<(TrackKind, &str, i64, &str)> {
    trace
        .slices()
        .map(|s| {
            let track = s.track();
            let name = |t: &trace_model::Track| t.name.map_or("", |n| trace.text(n));
            let tid = track.thread.map_or(-1, |t| trace.thread(t).tid.0);
            let parent = track.parent.map_or("", |p| name(trace.track(p)));
            (track.kind, name(track), tid, parent)
        })
        .collect()
}

fn count(trace: &Model, kind: IssueKind) -> u64 {
    trace.diagnostics().count_of(kind)
}

fn zlib(plain: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::default());
    out.write_all(plain).unwrap();
    out.finish().unwrap()
}

#[test]
fn bundles_of_both_kinds_expand_in_place_two_levels_deep() {
    let bundle = |compressed| TracePacket {
        compressed_packets: Some(compressed),
        ..Default::default()
    };
    let inner = framed(&[instant(5, 1, "deep")]);
    let nested = framed(&[
        instant(5, 1, "outer"),
        TracePacket {
            zstd_compressed_packets: Some(zstd::bulk::compress(&inner, 3).unwrap()),
            ..Default::default()
        },
    ]);
    let too_deep = framed(&[bundle(zlib(&framed(&[bundle(zlib(&inner))])))]);
    let trace = read(&[
        instant(5, 1, "first"),
        bundle(zlib(&nested)),
        instant(5, 1, "last"),
        bundle(zlib(&too_deep)),
    ]);
    let names: Vec<_> = rows(&trace).iter().map(|r| r.0).collect();
    assert_eq!(names, ["first", "outer", "deep", "last"]);
    assert_eq!(count(&trace, IssueKind::BadCompressedPacket), 1);
    let records = &trace.meta().records;
    assert!(
        records.contains(&("compressed_packets".to_owned(), 4)),
        "{records:?}"
    );
    assert!(records.contains(&("zstd_compressed_packets".to_owned(), 1)));
}

#[test]
fn state_is_kept_apart_for_each_machine_and_sequence() {
    let interned = |sequence, machine, name: &str| TracePacket {
        interned_data: Some(InternedData {
            event_names: vec![InternedName {
                iid: Some(1),
                name: Some(name.into()),
            }],
            ..Default::default()
        }),
        machine_id: machine,
        ..cleared(sequence)
    };
    let named = |ts, sequence, machine| TracePacket {
        trusted_packet_sequence_id: Some(sequence),
        machine_id: machine,
        sequence_flags: Some(2),
        ..with(instant(ts, 1, ""), |e| e.name_iid = Some(1))
    };
    let trace = read(&[
        interned(1, None, "one"),
        interned(2, None, "two"),
        interned(1, Some(7), "other machine"),
        named(10, 1, None),
        named(11, 2, None),
        named(12, 1, Some(7)),
        named(13, 3, None),
    ]);
    assert_eq!(
        rows(&trace),
        [("one", 10, 0), ("two", 11, 0), ("other machine", 12, 0)]
    );
    assert_eq!(count(&trace, IssueKind::NeedsState), 1);
}

#[test]
fn losses_invalidate_until_the_next_clear() {
    let interned = |iid, name: &str, mut packet: TracePacket| {
        packet.interned_data = Some(InternedData {
            event_names: vec![InternedName {
                iid: Some(iid),
                name: Some(name.into()),
            }],
            ..Default::default()
        });
        packet
    };
    let lost = |reasons| TracePacket {
        previous_packet_dropped: Some(reasons),
        ..packet(1)
    };
    let needs = |ts, iid| TracePacket {
        sequence_flags: Some(2),
        ..with(instant(ts, 1, ""), |e| e.name_iid = Some(iid))
    };
    let trace = read(&[
        // The flag on the first packet of a sequence is normal.
        lost(1),
        interned(1, "a", cleared(1)),
        needs(10, 1),
        lost(1 | 64),
        interned(2, "dropped", packet(1)),
        needs(11, 1),
        with(instant(12, 1, ""), |e| e.name_iid = Some(1)),
        interned(2, "b", cleared(1)),
        needs(13, 2),
        needs(14, 1),
    ]);
    assert_eq!(
        rows(&trace),
        [("a", 10, 0), ("a", 12, 0), ("b", 13, 0), ("-", 14, 0)]
    );
    assert_eq!(count(&trace, IssueKind::PacketLoss), 1);
    assert_eq!(count(&trace, IssueKind::InternedWhileInvalid), 1);
    assert_eq!(count(&trace, IssueKind::NeedsState), 1);
    assert_eq!(count(&trace, IssueKind::UnknownInterned), 1);
    let issues = trace.diagnostics().issues();
    let loss = issues
        .iter()
        .find(|i| i.kind == IssueKind::PacketLoss)
        .unwrap();
    assert_eq!(loss.detail.as_deref(), Some("overwritten"));
}

#[test]
fn packets_wait_for_snapshots_that_come_later() {
    let trace = read(&[
        on_clock(instant(7, 1, "early"), 3),
        on_clock(instant(8, 1, "never"), 99),
        instant(1_005, 1, "boot"),
        snapshot(1, &[(3, 5), (6, 1_000)]),
        on_clock(instant(9, 1, "after"), 3),
    ]);
    assert_eq!(
        rows(&trace),
        [("early", 1_002, 0), ("after", 1_004, 0), ("boot", 1_005, 0)]
    );
    assert_eq!(count(&trace, IssueKind::ClockSync), 1);
}

#[test]
fn deltas_add_up_also_for_events_that_are_dropped() {
    let mut delta = snapshot(1, &[(6, 100), (64, 0)]);
    delta.clock_snapshot.as_mut().unwrap().clocks[1].is_incremental = Some(true);
    let mut options = ReadOptions::default();
    options.categories = Some(vec!["kept".to_owned()]);
    let of = |packet, category: &str| {
        on_clock(
            with(packet, |e| e.categories = vec![category.to_owned()]),
            64,
        )
    };
    let packets = [
        cleared(1),
        delta,
        of(instant(10, 1, "a"), "kept"),
        of(instant(10, 1, "b"), "dropped"),
        on_clock(track(named(9, 0, "a descriptor counts too")), 64),
        of(instant(10, 1, "c"), "kept"),
    ];
    assert_eq!(
        rows(&read_with(&packets, &options)),
        [("a", 110, 0), ("c", 130, 0)]
    );
}

#[test]
fn another_primary_clock_counts_if_it_comes_first() {
    let mut primary = snapshot(1, &[(3, 50), (6, 1_000)]);
    primary.clock_snapshot.as_mut().unwrap().primary_trace_clock = Some(3);
    let trace = read(&[
        primary.clone(),
        instant(7, 1, "x"),
        on_clock(instant(1_010, 1, "y"), 6),
    ]);
    assert_eq!(rows(&trace), [("x", 7, 0), ("y", 60, 0)]);
    assert_eq!(trace.meta().clock, trace_model::ClockDomain::Monotonic);
    let late = read(&[instant(7, 1, "x"), primary]);
    assert_eq!(count(&late, IssueKind::BadClockSnapshot), 1);
    assert_eq!(late.meta().clock, trace_model::ClockDomain::BootTime);
}

#[test]
fn descriptors_may_come_late_and_repeat() {
    let trace = read(&[
        begin(10, 5, "work"),
        end(20, 5),
        instant(15, 6, "queued"),
        instant(16, 7, "undeclared"),
        instant(17, 0, "nowhere"),
        track(TrackDescriptor {
            parent_uuid: Some(4),
            ..thread(5, 100, 101, "worker")
        }),
        track(process(4, 100, "server")),
        track(named(6, 5, "queue")),
        // Another parent: ignored.
        track(named(6, 4, "stolen")),
        // No numbers: ignored.
        track(TrackDescriptor {
            thread: Some(ThreadDescriptor::default()),
            ..named(8, 0, "")
        }),
    ]);
    assert_eq!(
        tracks(&trace),
        [
            (TrackKind::Thread, "", 101, ""),
            (TrackKind::ThreadChild, "queue", 101, ""),
            (TrackKind::Global, "undeclared", -1, ""),
            (TrackKind::Global, "Default Track", -1, ""),
        ]
    );
    assert_eq!(rows(&trace)[0], ("work", 10, 10));
    assert_eq!(trace.text(trace.processes()[0].name.unwrap()), "server");
    assert_eq!(count(&trace, IssueKind::TrackConflict), 1);
    assert_eq!(count(&trace, IssueKind::BadPacket), 1);
}

#[test]
fn chains_of_parents_must_end() {
    let mut packets = vec![
        track(named(1, 2, "loop a")),
        track(named(2, 1, "loop b")),
        track(named(3, 99, "orphan")),
    ];
    for i in 0..150 {
        packets.push(track(named(
            1_000 + i,
            if i == 0 { 0 } else { 999 + i },
            "chain",
        )));
    }
    packets.extend([1, 2, 3, 1_005, 1_149].map(|uuid| instant(10, uuid, "x")));
    let trace = read(&packets);
    assert_eq!(trace.len(), 1);
    assert_eq!(tracks(&trace)[0], (TrackKind::Global, "chain", -1, "chain"));
    assert_eq!(count(&trace, IssueKind::BadTrack), 4);
}

#[test]
fn numbers_that_are_used_again_make_new_threads() {
    let trace = read(&[
        track(thread(1, 10, 11, "first")),
        begin(10, 1, "a"),
        track(thread(2, 10, 11, "second")),
        instant(20, 2, "b"),
        track(TrackDescriptor {
            disallow_merging_with_system_tracks: Some(true),
            name: Some("apart".into()),
            ..thread(3, 10, 12, "third")
        }),
        instant(30, 3, "c"),
    ]);
    let names: Vec<_> = trace
        .threads()
        .iter()
        .map(|t| trace.text(t.name.unwrap()))
        .collect();
    assert_eq!(names, ["first", "second", "third"]);
    assert_eq!(trace.processes().len(), 1);
    let own: Vec<_> = trace
        .slices()
        .map(|s| (s.track().thread.unwrap().index(), s.depth()))
        .collect();
    assert_eq!(own, [(0, 0), (1, 0), (2, 0)]);
    assert_eq!(
        trace.slices().last().unwrap().track().kind,
        TrackKind::ThreadChildUnmerged
    );
}

#[test]
fn counters_multiply_add_up_and_reset() {
    let sample = |ts, uuid, value| with(event(ts, 4, uuid, ""), |e| e.counter_value = Some(value));
    let trace = read(&[
        cleared(1),
        track(process(1, 10, "p")),
        track(counter(
            2,
            1,
            CounterDescriptor {
                unit_multiplier: Some(1024),
                is_incremental: Some(true),
                unit: Some(3),
                ..Default::default()
            },
        )),
        sample(10, 2, 1),
        // Accumulated in file order, returned in order of time.
        sample(5, 2, 2),
        cleared(1),
        sample(20, 2, 4),
        sample(30, 99, 1),
        with(event(40, 4, 2, ""), |_| {}),
    ]);
    let values: Vec<_> = trace
        .counters()
        .iter()
        .map(|c| (c.ts.nanos(), c.value))
        .collect();
    assert_eq!(values, [(5, 3072.0), (10, 1024.0), (20, 4096.0)]);
    assert_eq!(count(&trace, IssueKind::CounterTrack), 1);
    assert_eq!(count(&trace, IssueKind::BadTrackEvent), 1);
}

#[test]
fn extra_counters_fill_the_thread_time_or_drop_the_event() {
    let defaults = TracePacket {
        trace_packet_defaults: Some(TracePacketDefaults {
            timestamp_clock_id: None,
            track_event_defaults: Some(TrackEventDefaults {
                track_uuid: Some(1),
                extra_counter_track_uuids: vec![2],
                extra_double_counter_track_uuids: vec![3],
            }),
        }),
        ..cleared(1)
    };
    let on_default = |packet: TracePacket, values: &[i64]| {
        with(packet, |e| {
            e.track_uuid = None;
            e.extra_counter_values = values.to_vec();
        })
    };
    let trace = read(&[
        track(thread(1, 10, 10, "t")),
        track(counter(
            2,
            1,
            CounterDescriptor {
                r#type: Some(1),
                ..Default::default()
            },
        )),
        track(counter(3, 1, CounterDescriptor::default())),
        defaults,
        with(on_default(begin(10, 0, "slice"), &[100]), |e| {
            e.extra_double_counter_values = vec![0.5];
        }),
        on_default(end(20, 0), &[160]),
        on_default(instant(30, 0, "too many"), &[1, 2]),
    ]);
    assert_eq!(rows(&trace), [("slice", 10, 10)]);
    assert_eq!(
        trace.slices().next().unwrap().thread_time(),
        Some((100, Some(60)))
    );
    let values: Vec<_> = trace
        .counters()
        .iter()
        .map(|c| (c.ts.nanos(), c.value))
        .collect();
    assert_eq!(values, [(10, 100.0), (10, 0.5), (20, 160.0)]);
    assert_eq!(count(&trace, IssueKind::BadTrackEvent), 1);
}

#[test]
fn states_last_until_the_next_one() {
    let trace = read(&[
        event(10, 5, 1, "idle"),
        event(30, 5, 1, "busy"),
        event(35, 5, 2, "other"),
    ]);
    assert_eq!(
        rows(&trace),
        [("idle", 10, 20), ("busy", 30, -1), ("other", 35, -1)]
    );
}

#[test]
fn older_times_count_from_the_thread_descriptor() {
    let descriptor = TracePacket {
        thread_descriptor: Some(ThreadDescriptor {
            pid: Some(10),
            tid: Some(11),
            reference_timestamp_us: Some(1_000),
            reference_thread_time_us: Some(500),
            ..Default::default()
        }),
        ..packet(1)
    };
    let legacy = |delta, phase: u8| TracePacket {
        track_event: Some(TrackEvent {
            name: Some("old".to_owned()),
            timestamp_delta_us: Some(delta),
            thread_time_delta_us: Some(1),
            legacy_event: Some(LegacyEvent {
                phase: Some(phase.into()),
                ..Default::default()
            }),
            ..Default::default()
        }),
        ..packet(1)
    };
    let trace = read(&[
        cleared(1),
        legacy(1, b'B'),
        descriptor,
        legacy(5, b'B'),
        legacy(7, b'E'),
    ]);
    assert_eq!(rows(&trace), [("old", 1_005_000, 7_000)]);
    assert_eq!(
        trace.slices().next().unwrap().thread_time(),
        Some((501_000, Some(1_000)))
    );
    assert_eq!(tracks(&trace)[0].2, 11);
    assert_eq!(count(&trace, IssueKind::NeedsState), 1);
}

#[test]
fn legacy_async_events_have_a_track_for_each_identity() {
    let legacy = |ts, phase: u8, category: &str, change: fn(&mut LegacyEvent)| {
        let mut event = LegacyEvent {
            phase: Some(phase.into()),
            ..Default::default()
        };
        change(&mut event);
        with(instant(ts, 0, "request"), |e| {
            e.r#type = None;
            e.track_uuid = None;
            e.categories = vec![category.to_owned()];
            e.legacy_event = Some(event);
        })
    };
    let trace = read(&[
        cleared(1),
        track(thread(1, 10, 11, "t")),
        legacy(10, b'b', "a", |e| e.unscoped_id = Some(5)),
        legacy(11, b'b', "b", |e| e.unscoped_id = Some(5)),
        legacy(12, b'b', "a", |e| e.local_id = Some(5)),
        legacy(20, b'e', "a", |e| e.unscoped_id = Some(5)),
        legacy(30, b'e', "b", |e| e.unscoped_id = Some(5)),
        legacy(40, b'e', "a", |e| e.local_id = Some(5)),
        legacy(50, b'b', "a", |_| {}),
        legacy(60, b'i', "a", |e| e.instant_event_scope = Some(1)),
        legacy(61, b'i', "a", |e| e.instant_event_scope = Some(2)),
        legacy(62, b'X', "a", |e| e.duration_us = Some(3)),
        legacy(63, b'X', "a", |e| e.duration_us = Some(-3)),
    ]);
    let durations: Vec<_> = rows(&trace).iter().map(|r| (r.1, r.2)).collect();
    assert_eq!(
        durations,
        [(10, 10), (11, 19), (12, 28), (60, 0), (61, 0), (62, 3_000)]
    );
    let kinds: Vec<_> = tracks(&trace).iter().map(|t| t.0).collect();
    assert_eq!(
        kinds,
        [
            TrackKind::GlobalAsync,
            TrackKind::GlobalAsync,
            TrackKind::ProcessAsync,
            TrackKind::GlobalInstant,
            TrackKind::ProcessInstant,
            TrackKind::Thread,
        ]
    );
    assert_eq!(count(&trace, IssueKind::BadTrackEvent), 1);
    assert_eq!(count(&trace, IssueKind::NegativeDuration), 1);
}

#[test]
fn flows_of_all_encodings_connect() {
    let flow = |packet, flows: &[u64], old: &[u64], ends: &[u64], ends_old: &[u64]| {
        with(packet, |e| {
            e.flow_ids = flows.to_vec();
            e.flow_ids_old = old.to_vec();
            e.terminating_flow_ids = ends.to_vec();
            e.terminating_flow_ids_old = ends_old.to_vec();
        })
    };
    let bound = |packet, id, direction| {
        with(packet, |e| {
            e.legacy_event = Some(LegacyEvent {
                bind_id: Some(id),
                flow_direction: Some(direction),
                ..Default::default()
            });
        })
    };
    let trace = read(&[
        flow(instant(10, 1, "a"), &[1], &[], &[], &[]),
        flow(instant(20, 2, "b"), &[], &[1], &[], &[]),
        flow(instant(30, 3, "c"), &[], &[], &[1], &[]),
        flow(instant(40, 4, "d"), &[1], &[], &[], &[]),
        flow(begin(45, 5, "e"), &[], &[], &[], &[]),
        flow(end(50, 5), &[], &[], &[], &[1]),
        // The same number as a bind id is another flow.
        bound(instant(60, 6, "f"), 1, 2),
        bound(instant(70, 7, "g"), 1, 1),
    ]);
    let names: Vec<_> = trace
        .flows()
        .iter()
        .map(|f| {
            [f.from, f.to]
                .map(|id| trace.slice(id).name().unwrap())
                .concat()
        })
        .collect();
    assert_eq!(names, ["ab", "bc", "de", "fg"]);
}

#[test]
fn annotations_of_every_kind_are_arguments() {
    let leaf = |name: &str| DebugAnnotation {
        name: Some(name.to_owned()),
        ..Default::default()
    };
    let int = |name: &str, n| DebugAnnotation {
        int_value: Some(n),
        ..leaf(name)
    };
    let element = |n| DebugAnnotation {
        name: None,
        ..int("", n)
    };
    let nested = NestedValue {
        nested_type: Some(1),
        dict_keys: vec!["k".to_owned(), "l".to_owned()],
        dict_values: vec![
            NestedValue {
                string_value: Some("v".to_owned()),
                ..Default::default()
            },
            NestedValue {
                nested_type: Some(2),
                array_values: vec![
                    NestedValue::default(),
                    NestedValue {
                        bool_value: Some(true),
                        ..Default::default()
                    },
                ],
                ..Default::default()
            },
        ],
        ..Default::default()
    };
    let list = vec![
        DebugAnnotation {
            uint_value: Some(u64::MAX),
            ..leaf("u")
        },
        DebugAnnotation {
            pointer_value: Some(16),
            ..leaf("p")
        },
        DebugAnnotation {
            double_value: Some(f64::NEG_INFINITY),
            ..leaf("r")
        },
        DebugAnnotation {
            nested_value: Some(nested),
            ..leaf("old")
        },
        DebugAnnotation {
            legacy_json_value: Some(
                r#"{"x":[1,{"y":null,"z":2.5}],"big":18446744073709551615}"#.to_owned(),
            ),
            ..leaf("json")
        },
        DebugAnnotation {
            legacy_json_value: Some("{broken".to_owned()),
            ..leaf("bad")
        },
        DebugAnnotation {
            proto_value: Some(vec![1, 255]),
            ..leaf("proto")
        },
        DebugAnnotation {
            dict_entries: vec![
                int("a.b[0]", 1),
                DebugAnnotation {
                    array_values: vec![element(7), DebugAnnotation::default(), element(8)],
                    ..leaf("l")
                },
                DebugAnnotation {
                    dict_entries: vec![],
                    ..leaf("empty")
                },
            ],
            ..leaf("d")
        },
        int("twice", 1),
        int("twice", 2),
        DebugAnnotation {
            name_iid: Some(9),
            ..Default::default()
        },
    ];
    let trace = read(&[
        cleared(1),
        with(instant(5, 1, "x"), |e| e.debug_annotations = list),
    ]);
    let slice = trace.slices().next().unwrap();
    let args: Vec<_> = slice.args().collect();
    assert_eq!(
        args,
        [
            ("debug.u", ArgValue::UInt(u64::MAX)),
            ("debug.p", ArgValue::Pointer(16)),
            ("debug.r", ArgValue::Real(f64::NEG_INFINITY)),
            ("debug.old.k", ArgValue::Str("v")),
            ("debug.old.l[0]", ArgValue::Bool(true)),
            ("debug.json.x[0]", ArgValue::Int(1)),
            ("debug.json.x[1].z", ArgValue::Real(2.5)),
            ("debug.json.big", ArgValue::UInt(u64::MAX)),
            ("debug.bad", ArgValue::Str("{broken")),
            ("debug.proto", ArgValue::Str("01ff")),
            ("debug.d.a_b_0_", ArgValue::Int(1)),
            ("debug.d.l[0]", ArgValue::Int(7)),
            ("debug.d.l[1]", ArgValue::Int(8)),
            ("debug.twice", ArgValue::Int(1)),
            ("debug.twice", ArgValue::Int(2)),
        ]
    );
    assert_eq!(slice.arg("twice"), Some(ArgValue::Int(2)));
    assert_eq!(count(&trace, IssueKind::UnknownInterned), 1);
}

#[test]
fn projections_keep_what_was_asked_for() {
    let in_category = |packet, category: &str| {
        with(packet, |e| {
            e.categories = category.split(',').map(str::to_owned).collect();
            e.debug_annotations = ["corr_id", "other"]
                .map(|name| DebugAnnotation {
                    name: Some(name.to_owned()),
                    int_value: Some(7),
                    ..Default::default()
                })
                .to_vec();
        })
    };
    let packets = [
        cleared(1),
        in_category(begin(10, 1, "outer"), "cpu"),
        in_category(begin(20, 1, "kernel"), "kernel,extra"),
        in_category(begin(25, 1, "inner"), "cpu"),
        in_category(instant(26, 1, "mark"), "kernel"),
        end(30, 1),
        end(40, 1),
        end(50, 1),
        in_category(begin(60, 1, "late"), "kernel"),
        end(70, 1),
    ];
    let mut options = ReadOptions::default();
    options.categories = Some(vec!["kernel".to_owned()]);
    options.args = ArgPolicy::Only(vec!["corr_id".to_owned()]);
    let trace = read_with(&packets, &options);
    assert_eq!(
        rows(&trace),
        [("kernel", 20, 20), ("mark", 26, 0), ("late", 60, 10)]
    );
    let depths: Vec<_> = trace.slices().map(|s| s.depth()).collect();
    assert_eq!(depths, [0, 1, 0]);
    for slice in trace.slices() {
        let args: Vec<_> = slice.args().collect();
        assert_eq!(args, [("debug.corr_id", ArgValue::Int(7))]);
    }
    options = ReadOptions::default();
    options.args = ArgPolicy::None;
    let at = Timestamp::from_nanos;
    options.range = Some(TimeRange::new(at(20), at(60)));
    let trace = read_with(&packets, &options);
    assert_eq!(
        rows(&trace),
        [("kernel", 20, 20), ("inner", 25, 5), ("mark", 26, 0)]
    );
    assert!(trace.slices().all(|s| s.args().len() == 0));
    assert_eq!(count(&trace, IssueKind::EndWithoutBegin), 0);
}

#[test]
fn other_packets_are_counted_by_kind() {
    let mut bytes = framed(&[instant(5, 1, "x")]);
    // A sys_stats packet (7) and one of field 777.
    bytes.extend([0x0a, 2, 0x3a, 0, 0x0a, 3, 0xca, 0x30, 0]);
    let source = Source::from_bytes("test", bytes).unwrap();
    let trace = proto::read(source, &ReadOptions::default()).unwrap();
    assert_eq!(trace.meta().format, "perfetto");
    assert_eq!(
        trace.meta().records,
        [("sys_stats", 1), ("track_event", 1), ("field 777", 1)].map(|(n, c)| (n.to_owned(), c))
    );
    assert_eq!(count(&trace, IssueKind::PacketIgnored), 2);
}

#[test]
fn strict_reading_names_the_first_loss() {
    let mut bytes = framed(&[instant(5, 1, "x"), instant(6, 1, "y")]);
    bytes.truncate(bytes.len() - 3);
    let mut options = ReadOptions::default();
    options.strict = true;
    let source = Source::from_bytes("test", bytes).unwrap();
    let error = perfetto_reader::read(source, &options).unwrap_err();
    match error {
        Error::Strict { issue } => {
            assert_eq!(issue.kind, IssueKind::TruncatedTail);
            assert_eq!(issue.detail.as_deref(), Some("3 bytes are missing"));
        }
        other => panic!("{other}"),
    }
}

#[test]
fn names_come_from_every_place_that_has_them() {
    let metadata = |ts, name: &str, text: &str| {
        with(instant(ts, 1, name), |e| {
            e.r#type = None;
            e.legacy_event = Some(LegacyEvent {
                phase: Some(b'M'.into()),
                ..Default::default()
            });
            e.debug_annotations = vec![DebugAnnotation {
                name: Some("name".to_owned()),
                string_value: Some(text.to_owned()),
                ..Default::default()
            }];
        })
    };
    let tree = TracePacket {
        process_tree: Some(ProcessTree {
            processes: vec![TreeProcess {
                pid: Some(20),
                cmdline: vec![b"/usr/bin/daemon".to_vec(), b"-v".to_vec()],
            }],
            threads: vec![TreeThread {
                tid: Some(21),
                tgid: Some(20),
                name: Some(b"cut in the middl\xc3".to_vec()),
            }],
        }),
        ..packet(2)
    };
    let trace = read(&[
        cleared(1),
        track(TrackDescriptor {
            thread: Some(ThreadDescriptor {
                pid: Some(10),
                tid: Some(11),
                ..Default::default()
            }),
            ..named(1, 0, "")
        }),
        track(TrackDescriptor {
            thread: Some(ThreadDescriptor {
                pid: Some(20),
                tid: Some(21),
                ..Default::default()
            }),
            ..named(2, 0, "")
        }),
        metadata(5, "thread_name", "python"),
        metadata(6, "process_name", "server"),
        tree,
    ]);
    let text = |id: Option<trace_model::StrId>| id.map(|n| trace.text(n));
    let threads: Vec<_> = trace.threads().iter().map(|t| text(t.name)).collect();
    let processes: Vec<_> = trace.processes().iter().map(|p| text(p.name)).collect();
    assert_eq!(threads, [Some("python"), Some("cut in the middl\u{fffd}")]);
    assert_eq!(processes, [Some("server"), Some("/usr/bin/daemon")]);
    assert_eq!(count(&trace, IssueKind::InvalidUtf8), 1);
}
