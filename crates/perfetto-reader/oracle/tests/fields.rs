//! Compares every field that the reader and writer declare with the full schema: messages encoded
//! here decode there under the same names with no byte left over, and messages encoded there decode
//! here.

use perfetto_reader::proto::schema;
use prost::Message;
use protobuf::{MessageFull, text_format};

/// Fields that the packaged schema does not have yet, because it is older than the format.
const NEWER: &[&str] = &[
    "TracePacket.zstd_compressed_packets",
    "TrackEvent.callstack",
    "TrackDescriptor.sibling_merge_behavior",
    "TrackDescriptor.sibling_merge_key",
    "TrackDescriptor.sibling_merge_key_int",
    "TrackDescriptor.state",
];

/// Compares one message that has only `field` set. Returns `true` if the full schema has the field.
fn known<Ours, Theirs>(field: &str, ours: &Ours) -> bool
where
    Ours: Message + Default + PartialEq,
    Theirs: MessageFull,
{
    let bytes = ours.encode_to_vec();
    let theirs = Theirs::parse_from_bytes(&bytes).expect("what we write is a message");
    if theirs
        .special_fields()
        .unknown_fields()
        .iter()
        .next()
        .is_some()
    {
        return false;
    }
    let shown = text_format::print_to_string(&theirs);
    let name = shown.split([':', ' ', '{']).next().unwrap_or_default();
    assert_eq!(
        name, field,
        "the full schema calls the field {name}: {shown}"
    );
    let back = theirs
        .write_to_bytes()
        .expect("a parsed message can be written");
    let again = Ours::decode(back.as_slice()).expect("what they write is a message");
    assert!(again == *ours, "{field} does not survive: {shown}");
    true
}

/// Returns a message with one field set.
fn only<M: Default>(set: impl FnOnce(&mut M)) -> M {
    let mut message = M::default();
    set(&mut message);
    message
}

macro_rules! conforms {
    ($ours:ident = $theirs:path { $($field:ident: $value:expr,)* }) => {$({
        let full = concat!(stringify!($ours), ".", stringify!($field)).replace("r#", "");
        let name = stringify!($field).trim_start_matches("r#");
        let ours = only(|message: &mut schema::$ours| message.$field = $value);
        assert_eq!(
            known::<schema::$ours, $theirs>(name, &ours),
            !NEWER.contains(&full.as_str()),
            "{full}: number or type differs from the full schema, or the list of newer fields is out of date"
        );
    })*};
}

#[test]
fn every_declared_field_has_the_number_and_type_of_the_full_schema() {
    use perfetto_protos::*;
    conforms!(
        Trace = trace::Trace {
            packet: vec![Default::default()],
        }
    );
    conforms!(
        TracePacket = trace_packet::TracePacket {
            timestamp: Some(7),
            timestamp_clock_id: Some(7),
            trusted_packet_sequence_id: Some(7),
            trusted_pid: Some(1),
            sequence_flags: Some(7),
            incremental_state_cleared: Some(true),
            previous_packet_dropped: Some(1), // a truth value in the packaged schema
            first_packet_on_sequence: Some(true),
            machine_id: Some(7),
            interned_data: Some(Default::default()),
            trace_packet_defaults: Some(Default::default()),
            track_event: Some(Default::default()),
            track_descriptor: Some(Default::default()),
            process_descriptor: Some(Default::default()),
            thread_descriptor: Some(Default::default()),
            clock_snapshot: Some(Default::default()),
            compressed_packets: Some(b"text".to_vec()),
            zstd_compressed_packets: Some(b"text".to_vec()),
            process_tree: Some(Default::default()),
            trace_uuid: Some(Default::default()),
        }
    );
    conforms!(
        TracePacketDefaults = trace_packet_defaults::TracePacketDefaults {
            timestamp_clock_id: Some(7),
            track_event_defaults: Some(Default::default()),
        }
    );
    conforms!(
        TrackEventDefaults = track_event::TrackEventDefaults {
            track_uuid: Some(7),
            extra_counter_track_uuids: vec![7, 9],
            extra_double_counter_track_uuids: vec![7, 9],
        }
    );
    conforms!(
        TrackEvent = track_event::TrackEvent {
            category_iids: vec![7, 9],
            categories: vec!["text".into()],
            name_iid: Some(7),
            name: Some("text".into()),
            r#type: Some(1),
            track_uuid: Some(7),
            counter_value: Some(-7),
            double_counter_value: Some(1.5),
            extra_counter_track_uuids: vec![7, 9],
            extra_counter_values: vec![-7, 9],
            extra_double_counter_track_uuids: vec![7, 9],
            extra_double_counter_values: vec![1.5],
            flow_ids: vec![7, 9],
            flow_ids_old: vec![7, 9],
            terminating_flow_ids: vec![7, 9],
            terminating_flow_ids_old: vec![7, 9],
            debug_annotations: vec![Default::default()],
            legacy_event: Some(Default::default()),
            timestamp_delta_us: Some(-7),
            timestamp_absolute_us: Some(-7),
            thread_time_delta_us: Some(-7),
            thread_time_absolute_us: Some(-7),
            thread_instruction_count_delta: Some(-7),
            thread_instruction_count_absolute: Some(-7),
            correlation_id: Some(7),
            correlation_id_str: Some("text".into()),
            correlation_id_str_iid: Some(7),
            callstack: Some(Default::default()),
            source_location: Some(Default::default()),
            source_location_iid: Some(7),
        }
    );
    conforms!(
        LegacyEvent = track_event::track_event::LegacyEvent {
            name_iid: Some(7),
            phase: Some(1),
            duration_us: Some(-7),
            thread_duration_us: Some(-7),
            unscoped_id: Some(7),
            local_id: Some(7),
            global_id: Some(7),
            id_scope: Some("text".into()),
            bind_id: Some(7),
            bind_to_enclosing: Some(true),
            flow_direction: Some(1),
            instant_event_scope: Some(1),
            pid_override: Some(1),
            tid_override: Some(1),
        }
    );
    conforms!(
        SourceLocation = source_location::SourceLocation {
            iid: Some(7),
            file_name: Some("text".into()),
            function_name: Some("text".into()),
            line_number: Some(7),
        }
    );
    conforms!(
        DebugAnnotation = debug_annotation::DebugAnnotation {
            name_iid: Some(7),
            name: Some("text".into()),
            bool_value: Some(true),
            uint_value: Some(7),
            int_value: Some(-7),
            double_value: Some(1.5),
            string_value: Some("text".into()),
            string_value_iid: Some(7),
            pointer_value: Some(7),
            nested_value: Some(Default::default()),
            legacy_json_value: Some("text".into()),
            dict_entries: vec![Default::default()],
            array_values: vec![Default::default()],
            proto_value: Some(b"text".to_vec()),
        }
    );
    conforms!(
        NestedValue = debug_annotation::debug_annotation::NestedValue {
            nested_type: Some(1),
            dict_keys: vec!["text".into()],
            dict_values: vec![Default::default()],
            array_values: vec![Default::default()],
            int_value: Some(-7),
            double_value: Some(1.5),
            bool_value: Some(true),
            string_value: Some("text".into()),
        }
    );
    conforms!(
        InternedData = interned_data::InternedData {
            event_categories: vec![Default::default()],
            event_names: vec![Default::default()],
            debug_annotation_names: vec![Default::default()],
            source_locations: vec![Default::default()],
            debug_annotation_string_values: vec![Default::default()],
        }
    );
    conforms!(
        InternedName = track_event::EventName {
            iid: Some(7),
            name: Some(b"text".to_vec()),
        }
    );
    conforms!(
        TrackDescriptor = track_descriptor::TrackDescriptor {
            uuid: Some(7),
            parent_uuid: Some(7),
            name: Some(b"text".to_vec()),
            static_name: Some(b"text".to_vec()),
            atrace_name: Some(b"text".to_vec()),
            process: Some(Default::default()),
            thread: Some(Default::default()),
            counter: Some(Default::default()),
            disallow_merging_with_system_tracks: Some(true),
            child_ordering: Some(1),
            sibling_order_rank: Some(1),
            sibling_merge_behavior: Some(1),
            sibling_merge_key: Some("text".into()),
            sibling_merge_key_int: Some(7),
            state: Some(b"text".to_vec()),
        }
    );
    conforms!(
        ProcessDescriptor = process_descriptor::ProcessDescriptor {
            pid: Some(1),
            cmdline: vec![b"text".to_vec()],
            legacy_sort_index: Some(1),
            process_name: Some(b"text".to_vec()),
            process_labels: vec![b"text".to_vec()],
        }
    );
    conforms!(
        ThreadDescriptor = thread_descriptor::ThreadDescriptor {
            pid: Some(1),
            tid: Some(1),
            legacy_sort_index: Some(1),
            thread_name: Some(b"text".to_vec()),
            reference_timestamp_us: Some(-7),
            reference_thread_time_us: Some(-7),
            reference_thread_instruction_count: Some(-7),
        }
    );
    conforms!(
        CounterDescriptor = counter_descriptor::CounterDescriptor {
            r#type: Some(1),
            unit: Some(1),
            unit_name: Some(b"text".to_vec()),
            unit_multiplier: Some(-7),
            is_incremental: Some(true),
        }
    );
    conforms!(
        ClockSnapshot = clock_snapshot::ClockSnapshot {
            clocks: vec![Default::default()],
            primary_trace_clock: Some(1),
        }
    );
    conforms!(
        Clock = clock_snapshot::clock_snapshot::Clock {
            clock_id: Some(7),
            timestamp: Some(7),
            is_incremental: Some(true),
            unit_multiplier_ns: Some(7),
        }
    );
    conforms!(
        ProcessTree = process_tree::ProcessTree {
            processes: vec![Default::default()],
            threads: vec![Default::default()],
        }
    );
    conforms!(
        TreeProcess = process_tree::process_tree::Process {
            pid: Some(1),
            cmdline: vec![b"text".to_vec()],
        }
    );
    conforms!(
        TreeThread = process_tree::process_tree::Thread {
            tid: Some(1),
            tgid: Some(1),
            name: Some(b"text".to_vec()),
        }
    );
    conforms!(
        TraceUuid = trace_uuid::TraceUuid {
            msb: Some(-7),
            lsb: Some(-7),
        }
    );
}
