//! Tests damaged and hostile protobuf traces: no panic, no hang, no memory for announced data, and
//! usable data is kept.

use std::io::Write as _;
use std::path::Path;

use byte_source::Source;
use perfetto_reader::proto::schema::*;
use perfetto_reader::{Error, ReadOptions, proto};
use proptest::prelude::*;
use prost::Message;
use trace_model::{IssueKind, Place, Trace as Model};

fn read(bytes: &[u8], compat: bool) -> Result<Model, Error> {
    let mut options = ReadOptions::default();
    options.compat = compat;
    options.max_bundle_bytes = 1 << 22;
    let source = Source::from_bytes("damaged", bytes.to_vec()).unwrap();
    proto::read(source, &options)
}

fn sample(name: &str) -> Vec<u8> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../testdata/perfetto");
    std::fs::read(folder.join(name)).unwrap()
}

/// Returns the offsets at which the packets of a trace end.
fn packet_ends(bytes: &[u8]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let mut fields = proto::Cursor::new(&bytes[at..]);
        fields.field().unwrap();
        at = bytes.len() - fields.remaining();
        ends.push(at);
    }
    ends
}

#[test]
fn every_cut_keeps_the_packets_before_it() {
    for name in ["sdk.pftrace", "rocprof.pftrace"] {
        let whole = sample(name);
        let ends = packet_ends(&whole);
        let all = read(&whole, false).unwrap();
        let total: u64 = all.meta().records.iter().map(|r| r.1).sum();
        let mut events = 0;
        for cut in 1..whole.len() {
            let trace = read(&whole[..cut], cut % 2 == 0).unwrap();
            let complete = ends.partition_point(|&end| end <= cut);
            let last = complete.checked_sub(1).map_or(0, |i| ends[i]);
            let tail = trace
                .diagnostics()
                .issues()
                .iter()
                .find(|i| i.kind == IssueKind::TruncatedTail);
            if last == cut {
                assert!(tail.is_none(), "{name} cut at {cut}");
            } else {
                let places = &tail.unwrap().places;
                assert_eq!(
                    places[..],
                    [Place::Byte(last as u64)],
                    "{name} cut at {cut}"
                );
            }
            let records: u64 = trace.meta().records.iter().map(|r| r.1).sum();
            assert!(records >= events && records <= total);
            events = records;
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn flipped_bytes_never_panic(
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..12),
        rocprof: bool,
        compat: bool,
    ) {
        let mut bytes = sample(if rocprof { "rocprof.pftrace" } else { "sdk.pftrace" });
        for (at, value) in flips {
            let at = at.index(bytes.len());
            bytes[at] ^= value;
        }
        match read(&bytes, compat) {
            Ok(trace) => {
                for slice in trace.slices() {
                    prop_assert!(slice.parent().is_none_or(|p| p.depth() + 1 == slice.depth()));
                    let _ = slice.args().count();
                }
            }
            Err(Error::Protobuf { byte, .. }) => prop_assert!(byte <= bytes.len() as u64),
            Err(other) => prop_assert!(false, "{}", other),
        }
    }

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 1..400), compat: bool) {
        let mut framed = vec![0x0a, u8::try_from(bytes.len() % 128).unwrap()];
        framed.extend(bytes);
        let _ = read(&framed, compat);
    }
}

fn framed(packet: &TracePacket) -> Vec<u8> {
    Trace {
        packet: vec![packet.clone()],
    }
    .encode_to_vec()
}

fn instant(annotations: Vec<DebugAnnotation>) -> TracePacket {
    TracePacket {
        timestamp: Some(5),
        trusted_packet_sequence_id: Some(1),
        track_event: Some(TrackEvent {
            r#type: Some(3),
            debug_annotations: annotations,
            ..Default::default()
        }),
        ..Default::default()
    }
}

/// Wraps `inner` as field `field` of a message that begins with `prefix`, `times` times.
fn nested(mut inner: Vec<u8>, prefix: &[u8], field: u8, times: usize) -> Vec<u8> {
    for _ in 0..times {
        let mut outer = prefix.to_vec();
        outer.push(field << 3 | 2);
        prost::encoding::encode_varint(inner.len() as u64, &mut outer);
        outer.extend(inner);
        inner = outer;
    }
    inner
}

fn wrapped(inner: Vec<u8>, field: u8) -> Vec<u8> {
    nested(inner, &[], field, 1)
}

#[test]
fn annotations_nested_without_end_are_cut_off() {
    const DEEP: usize = 20_000;
    for (what, value) in [
        (
            "dictionaries",
            nested(vec![0x20, 7], &[0x52, 1, b'y'], 11, DEEP),
        ),
        ("arrays", nested(vec![0x20, 7], &[], 12, DEEP)),
        (
            "arrays of the older form",
            wrapped(nested(vec![0x28, 7], &[0x08, 2], 4, DEEP), 8),
        ),
    ] {
        let annotation = [vec![0x52, 1, b'x'], value].concat();
        let event = [vec![0x48, 3], wrapped(annotation, 4)].concat();
        let packet = [vec![0x40, 5, 0x50, 1], wrapped(event, 11)].concat();
        let trace = read(&wrapped(packet, 1), false).unwrap();
        assert_eq!(trace.len(), 1, "{what}");
        assert_eq!(trace.slices().next().unwrap().args().len(), 0, "{what}");
        let dropped = trace.diagnostics().count_of(IssueKind::BadTrackEvent);
        assert_eq!(dropped, 1, "{what}");
    }
    let text = "[".repeat(100_000);
    let json = DebugAnnotation {
        name: Some("x".to_owned()),
        legacy_json_value: Some(text.clone()),
        ..Default::default()
    };
    let trace = read(&framed(&instant(vec![json])), false).unwrap();
    let slice = trace.slices().next().unwrap();
    assert_eq!(slice.arg("x").unwrap().as_str(), Some(text.as_str()));
}

#[test]
fn long_names_do_not_multiply() {
    let mut tree = DebugAnnotation {
        name: Some("leaf".to_owned()),
        int_value: Some(1),
        ..Default::default()
    };
    for _ in 0..40 {
        tree = DebugAnnotation {
            name: Some("n".repeat(100)),
            dict_entries: vec![tree; 2].into_iter().take(1).collect(),
            ..Default::default()
        };
    }
    let trace = read(&framed(&instant(vec![tree])), false).unwrap();
    assert_eq!(trace.slices().next().unwrap().args().len(), 0);
    assert_eq!(trace.diagnostics().count_of(IssueKind::BadTrackEvent), 1);
}

#[test]
fn announced_lengths_take_no_memory() {
    // A packet of 2^62 bytes, and inside of a good packet a name of 2^31 bytes.
    let mut giant = vec![0x0a];
    prost::encoding::encode_varint(1 << 62, &mut giant);
    giant.extend([0; 100]);
    let trace = read(&giant, false).unwrap();
    assert_eq!(trace.diagnostics().count_of(IssueKind::BadPacket), 1);
    assert_eq!(trace.diagnostics().count_of(IssueKind::TruncatedTail), 1);
    let mut inner = vec![0x12];
    prost::encoding::encode_varint(1 << 31, &mut inner);
    for field in [11_u8, 12, 60, 59, 6] {
        let mut packet = vec![0x50, 1, 0x68, 1];
        let tag = (u64::from(field) << 3) | 2;
        prost::encoding::encode_varint(tag, &mut packet);
        packet.push(u8::try_from(inner.len()).unwrap());
        packet.extend(&inner);
        let trace = read(&wrapped(packet, 1), false).unwrap();
        let bad = trace.diagnostics().count_of(IssueKind::BadPacket)
            + trace.diagnostics().count_of(IssueKind::BadTrackEvent);
        assert_eq!(bad, 1, "field {field}");
    }
}

#[test]
fn varints_of_more_than_ten_bytes_are_errors() {
    let mut top = vec![0x10];
    top.extend([0xff; 11]);
    match read(&[&[0x0a, 0][..], &top].concat(), false) {
        Err(Error::Protobuf { byte, packet, .. }) => assert_eq!((byte, packet), (2, 1)),
        other => panic!("{other:?}"),
    }
    let mut packet = vec![0x40];
    packet.extend([0xff; 11]);
    let trace = read(&wrapped(packet, 1), false).unwrap();
    assert_eq!(trace.diagnostics().count_of(IssueKind::BadPacket), 1);
}

#[test]
fn bombs_of_bundles_end_at_their_limit() {
    let zlib = |plain: &[u8]| {
        let mut out = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::best());
        out.write_all(plain).unwrap();
        out.finish().unwrap()
    };
    let bundle = |plain: &[u8]| {
        framed(&TracePacket {
            compressed_packets: Some(zlib(plain)),
            ..Default::default()
        })
    };
    let packets = framed(&instant(vec![])).repeat(100_000);
    let inner = bundle(&packets);
    // A thousand bundles inside one: each is small enough, all together are not.
    let trace = read(&bundle(&inner.repeat(1000)), false).unwrap();
    // The budget of 4 MiB is used up by packets, some of the bundles, and the outer one itself.
    let broken = trace.diagnostics().count_of(IssueKind::BadCompressedPacket);
    assert!((2..=1001).contains(&broken), "{broken}");
    let limit = (1 << 22) / framed(&instant(vec![])).len();
    let records = &trace.meta().records;
    let events = records.iter().find(|r| r.0 == "track_event").unwrap().1;
    assert!((100_000..limit as u64).contains(&events), "{events}");
}

#[test]
fn clocks_and_ids_at_the_ends_of_their_range_do_not_overflow() {
    let clock = |id, timestamp, unit| Clock {
        clock_id: Some(id),
        timestamp: Some(timestamp),
        is_incremental: Some(id == 64),
        unit_multiplier_ns: Some(unit),
    };
    let snapshot = |clocks| TracePacket {
        trusted_packet_sequence_id: Some(1),
        clock_snapshot: Some(ClockSnapshot {
            clocks,
            primary_trace_clock: None,
        }),
        ..Default::default()
    };
    let stamped = |ts, id| TracePacket {
        timestamp: Some(ts),
        timestamp_clock_id: Some(id),
        ..instant(vec![])
    };
    let high = u64::try_from(i64::MAX).unwrap();
    let packets = [
        snapshot(vec![
            clock(6, 0, 1),
            clock(64, high, 1),
            clock(3, 1 << 63, 1),
        ]),
        snapshot(vec![clock(6, 0, 1), clock(3, high, 1000)]),
        stamped(high, 64),
        stamped(u64::MAX, 64),
        stamped(u64::MAX, 3),
        stamped(high, 3),
        stamped(high, 6),
        stamped(u64::MAX, 6),
    ];
    let bytes: Vec<u8> = packets.iter().flat_map(framed).collect();
    let trace = read(&bytes, false).unwrap();
    assert_eq!(trace.diagnostics().count_of(IssueKind::BadClockSnapshot), 1);
    let refused = [IssueKind::NegativeTimestamp, IssueKind::FarTime]
        .map(|kind| trace.diagnostics().count_of(kind));
    assert_eq!(trace.len() as u64 + refused[0] + refused[1], 6);
}
