//! Compares the hand-written decoders with the declared messages, which the member `oracle`
//! compares with the full schema.

use perfetto_reader::proto::{EventType, LegacyEvent, Packet, Payload, Span, TrackEvent, schema};
use proptest::prelude::*;
use prost::Message;

fn texts(spans: &[Span], bytes: &[u8]) -> Vec<String> {
    spans
        .iter()
        .map(|s| String::from_utf8(s.bytes(bytes).to_vec()).unwrap())
        .collect()
}

fn text(span: Option<Span>, bytes: &[u8]) -> Option<String> {
    span.map(|s| String::from_utf8(s.bytes(bytes).to_vec()).unwrap())
}

/// Compares the decoded event with the message that it was encoded from.
fn assert_event(message: &schema::TrackEvent, event: &TrackEvent, bytes: &[u8]) {
    let kind = match message.r#type.unwrap_or(0) {
        0 => EventType::Unspecified,
        1 => EventType::SliceBegin,
        2 => EventType::SliceEnd,
        3 => EventType::Instant,
        4 => EventType::Counter,
        5 => EventType::State,
        n => EventType::Unknown(n.cast_unsigned()),
    };
    let (one, rare) = (&event.scalars, &event.rare);
    assert_eq!(one.kind, kind);
    assert_eq!(one.track_uuid, message.track_uuid);
    assert_eq!(one.name_iid, message.name_iid.unwrap_or(0));
    assert_eq!(text(one.name, bytes), message.name);
    let mut iids: Vec<u64> = event.more_category_iids.clone();
    if one.category_iid != 0 {
        iids.insert(0, one.category_iid);
    }
    assert_eq!(iids, message.category_iids);
    assert_eq!(texts(&event.categories, bytes), message.categories);
    assert_eq!(rare.counter_value, message.counter_value);
    let bits = |x: Option<f64>| x.map(f64::to_bits);
    assert_eq!(
        bits(rare.double_counter_value),
        bits(message.double_counter_value)
    );
    assert_eq!(event.extra_uuids, message.extra_counter_track_uuids);
    assert_eq!(
        event.extra_double_uuids,
        message.extra_double_counter_track_uuids
    );
    let signed: Vec<i64> = event.extra_values.iter().map(|n| n.cast_signed()).collect();
    assert_eq!(signed, message.extra_counter_values);
    let words: Vec<u64> = message
        .extra_double_counter_values
        .iter()
        .map(|x| x.to_bits())
        .collect();
    assert_eq!(event.extra_double_values, words);
    assert_eq!(event.flow_ids, message.flow_ids);
    assert_eq!(event.flow_ids_old, message.flow_ids_old);
    assert_eq!(event.terminating_flow_ids, message.terminating_flow_ids);
    assert_eq!(
        event.terminating_flow_ids_old,
        message.terminating_flow_ids_old
    );
    assert_eq!(rare.delta_us, message.timestamp_delta_us);
    assert_eq!(rare.absolute_us, message.timestamp_absolute_us.unwrap_or(0));
    assert_eq!(rare.thread_time_delta_us, message.thread_time_delta_us);
    assert_eq!(
        rare.thread_time_absolute_us,
        message.thread_time_absolute_us
    );
    assert_eq!(
        rare.instructions_delta,
        message.thread_instruction_count_delta
    );
    assert_eq!(
        rare.instructions_absolute,
        message.thread_instruction_count_absolute
    );
    assert_eq!(rare.correlation_id, message.correlation_id);
    assert_eq!(
        text(rare.correlation_text, bytes),
        message.correlation_id_str
    );
    assert_eq!(rare.correlation_iid, message.correlation_id_str_iid);
    assert_eq!(rare.source_location_iid, message.source_location_iid);
    assert_eq!(
        rare.source_location
            .map(|s| schema::SourceLocation::decode(s.bytes(bytes)).unwrap()),
        message.source_location
    );
    assert_eq!(
        rare.callstack
            .map(|s| schema::Callstack::decode(s.bytes(bytes)).unwrap()),
        message.callstack
    );
    let annotations: Vec<_> = event
        .annotations
        .iter()
        .map(|s| schema::DebugAnnotation::decode(s.bytes(bytes)).unwrap())
        .collect();
    assert_eq!(annotations, message.debug_annotations);
    match (&message.legacy_event, rare.legacy) {
        (Some(message), Some(span)) => assert_legacy(message, span.bytes(bytes)),
        (a, b) => assert!(a.is_none() && b.is_none()),
    }
}

fn assert_legacy(message: &schema::LegacyEvent, bytes: &[u8]) {
    let legacy = LegacyEvent::decode(bytes).unwrap();
    assert_eq!(legacy.name_iid, message.name_iid.unwrap_or(0));
    let phase = u8::try_from(message.phase.unwrap_or(0)).unwrap_or(0);
    assert_eq!(legacy.phase, phase);
    assert_eq!(legacy.duration_us, message.duration_us.unwrap_or(0));
    assert_eq!(
        legacy.thread_duration_us,
        message.thread_duration_us.unwrap_or(0)
    );
    assert_eq!(legacy.unscoped_id, message.unscoped_id);
    assert_eq!(legacy.local_id, message.local_id);
    assert_eq!(legacy.global_id, message.global_id);
    assert_eq!(text(legacy.id_scope, bytes), message.id_scope);
    assert_eq!(legacy.bind_id, message.bind_id);
    assert_eq!(
        legacy.bind_to_enclosing,
        message.bind_to_enclosing.unwrap_or(false)
    );
    let direction = message.flow_direction.unwrap_or(0).cast_unsigned();
    assert_eq!(legacy.flow_direction, direction);
    let scope = message.instant_event_scope.unwrap_or(0).cast_unsigned();
    assert_eq!(legacy.instant_scope, scope);
    assert_eq!(legacy.pid_override, message.pid_override);
    assert_eq!(legacy.tid_override, message.tid_override);
}

type Opt<T> = Option<T>;

prop_compose! {
    fn legacy_event()(
        ids in any::<(Opt<u64>, Opt<u64>, Opt<u64>, Opt<u64>, Opt<u64>)>(),
        times in any::<(Opt<i64>, Opt<i64>)>(),
        numbers in any::<(Opt<i32>, Opt<i32>, Opt<i32>, Opt<i32>)>(),
        phase in prop::option::of(0..200_i32),
        id_scope in prop::option::of("[a-z]{0,4}"),
        bind_to_enclosing: Opt<bool>,
    ) -> schema::LegacyEvent {
        schema::LegacyEvent {
            name_iid: ids.0,
            phase,
            duration_us: times.0,
            thread_duration_us: times.1,
            unscoped_id: ids.1,
            local_id: ids.2,
            global_id: ids.3,
            id_scope,
            bind_id: ids.4,
            bind_to_enclosing,
            flow_direction: numbers.0,
            instant_event_scope: numbers.1,
            pid_override: numbers.2,
            tid_override: numbers.3,
        }
    }
}

fn ids() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1..=u64::MAX, 0..3)
}

prop_compose! {
    fn track_event()(
        lists in (ids(), ids(), ids(), ids(), ids(), ids(), ids()),
        values in any::<(Vec<i64>, Vec<f64>, Opt<i64>, Opt<f64>)>(),
        times in any::<(Opt<i64>, Opt<i64>, Opt<i64>, Opt<i64>, Opt<i64>, Opt<i64>)>(),
        scalars in any::<(Opt<u64>, Opt<u64>, Opt<u64>, Opt<u64>, Opt<u64>)>(),
        texts in (
            prop::option::of("[a-zé]{0,5}"),
            prop::option::of("[a-z]{0,5}"),
            prop::collection::vec("[a-z]{0,5}", 0..3),
        ),
        kind in prop::option::of(0..8_i32),
        legacy_event in prop::option::of(legacy_event()),
        args in any::<Vec<(u64, i64)>>(),
        location in prop::option::of((any::<u64>(), "[a-z]{0,5}", any::<u32>())),
    ) -> schema::TrackEvent {
        schema::TrackEvent {
            category_iids: lists.0,
            categories: texts.2,
            name_iid: scalars.0,
            name: texts.0,
            r#type: kind,
            track_uuid: scalars.1,
            counter_value: values.2,
            double_counter_value: values.3,
            extra_counter_track_uuids: lists.1,
            extra_counter_values: values.0,
            extra_double_counter_track_uuids: lists.2,
            extra_double_counter_values: values.1,
            flow_ids: lists.3,
            flow_ids_old: lists.4,
            terminating_flow_ids: lists.5,
            terminating_flow_ids_old: lists.6,
            debug_annotations: args
                .into_iter()
                .map(|(iid, n)| schema::DebugAnnotation {
                    name_iid: Some(iid),
                    int_value: Some(n),
                    ..Default::default()
                })
                .collect(),
            legacy_event,
            timestamp_delta_us: times.0,
            timestamp_absolute_us: times.1,
            thread_time_delta_us: times.2,
            thread_time_absolute_us: times.3,
            thread_instruction_count_delta: times.4,
            thread_instruction_count_absolute: times.5,
            correlation_id: scalars.2,
            correlation_id_str: texts.1,
            correlation_id_str_iid: scalars.3,
            callstack: None,
            source_location: location.map(|(iid, file, line)| schema::SourceLocation {
                iid: Some(iid),
                file_name: Some(file),
                function_name: None,
                line_number: Some(line),
            }),
            source_location_iid: scalars.4,
        }
    }
}

proptest! {
    #[test]
    fn track_events_decode_alike(messages in prop::collection::vec(track_event(), 1..4)) {
        // One value is reused for all, as in the reader: nothing of the previous event may remain.
        let mut event = TrackEvent::default();
        for message in &messages {
            let bytes = message.encode_to_vec();
            event.decode(&bytes).unwrap();
            assert_event(message, &event, &bytes);
        }
    }

    #[test]
    fn envelopes_decode_alike(
        timestamp: Opt<u64>,
        clock in prop::option::of(1..=u32::MAX),
        sequence: Opt<u32>,
        flags in prop::option::of(0..4_u32),
        cleared: Opt<bool>,
        dropped: Opt<u32>,
        first: Opt<bool>,
        machine: Opt<u32>,
        pid: Opt<i32>,
        uuid: Opt<u64>,
    ) {
        let message = schema::TracePacket {
            timestamp,
            timestamp_clock_id: clock,
            trusted_packet_sequence_id: sequence,
            trusted_pid: pid,
            sequence_flags: flags,
            incremental_state_cleared: cleared,
            previous_packet_dropped: dropped,
            first_packet_on_sequence: first,
            machine_id: machine,
            track_event: uuid.map(|uuid| schema::TrackEvent {
                track_uuid: Some(uuid),
                ..Default::default()
            }),
            interned_data: uuid.map(|_| schema::InternedData::default()),
            ..Default::default()
        };
        let bytes = message.encode_to_vec();
        let packet = Packet::decode(&bytes).unwrap();
        prop_assert_eq!(packet.timestamp, timestamp);
        prop_assert_eq!(packet.clock_id, clock.unwrap_or(0));
        prop_assert_eq!(packet.sequence_id, sequence);
        let flags = flags.unwrap_or(0);
        prop_assert_eq!(packet.cleared, flags & 1 != 0 || cleared == Some(true));
        prop_assert_eq!(packet.needs_state, flags & 2 != 0);
        prop_assert_eq!(packet.dropped, dropped.unwrap_or(0));
        prop_assert_eq!(packet.first, first.unwrap_or(false));
        prop_assert_eq!(packet.machine_id, machine.unwrap_or(0));
        prop_assert_eq!(packet.interned, uuid.map(|_| &b""[..]));
        match (packet.payload, uuid) {
            (Payload::TrackEvent(inner), Some(uuid)) => {
                let mut event = TrackEvent::default();
                event.decode(inner).unwrap();
                prop_assert_eq!(event.scalars.track_uuid, Some(uuid));
            }
            (payload, uuid) => {
                prop_assert_eq!(payload, Payload::None);
                prop_assert_eq!(uuid, None);
            }
        }
    }
}

#[test]
fn every_payload_is_told_by_its_field() {
    let packet = |set: fn(&mut schema::TracePacket)| {
        let mut message = schema::TracePacket::default();
        set(&mut message);
        message.encode_to_vec()
    };
    let payload = |set| format!("{:?}", Packet::decode(&packet(set)).unwrap().payload);
    assert_eq!(
        [
            payload(|p| p.track_descriptor = Some(Default::default())),
            payload(|p| p.process_descriptor = Some(Default::default())),
            payload(|p| p.thread_descriptor = Some(Default::default())),
            payload(|p| p.process_tree = Some(Default::default())),
            payload(|p| p.trace_uuid = Some(Default::default())),
        ],
        [
            "TrackDescriptor([])",
            "ProcessDescriptor([])",
            "ThreadDescriptor([])",
            "ProcessTree([])",
            "TraceUuid([])",
        ]
    );
    let some = |set| Packet::decode(&packet(set)).map(|p| (p.zlib.is_some(), p.zstd.is_some()));
    assert_eq!(
        some(|p| p.compressed_packets = Some(vec![])),
        Ok((true, false))
    );
    assert_eq!(
        some(|p| p.zstd_compressed_packets = Some(vec![])),
        Ok((false, true))
    );
    let bytes = packet(|p| {
        p.clock_snapshot = Some(Default::default());
        p.trace_packet_defaults = Some(Default::default());
    });
    let decoded = Packet::decode(&bytes).unwrap();
    assert_eq!(
        (decoded.clock_snapshot, decoded.defaults),
        (Some(&b""[..]), Some(&b""[..]))
    );
}
