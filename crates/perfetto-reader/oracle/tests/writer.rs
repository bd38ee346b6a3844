//! Decodes the writer's output with the full schema: no field is unknown there, and the values are
//! those that were written.

use perfetto_protos::trace::Trace;
use perfetto_protos::track_event::track_event::Type;
use perfetto_reader::write::{CounterUnit, EventData, TraceWriter, TrackSpec, WriterOptions};
use protobuf::reflect::{MessageRef, ReflectValueRef, RuntimeFieldType};
use protobuf::{Message, MessageDyn};
use trace_model::{ArgValue, ClockDomain};

/// Panics at a field that the full schema does not know, at any depth.
fn assert_known(message: &dyn MessageDyn, path: &str) {
    let unknown: Vec<u32> = message
        .special_fields_dyn()
        .unknown_fields()
        .iter()
        .map(|(number, _)| number)
        .collect();
    assert!(unknown.is_empty(), "{path}: unknown fields {unknown:?}");
    for field in message.descriptor_dyn().fields() {
        let path = format!("{path}.{}", field.name());
        let inner = |message: MessageRef<'_>| assert_known(&*message, &path);
        match field.runtime_field_type() {
            RuntimeFieldType::Singular(_) => {
                if let Some(ReflectValueRef::Message(m)) = field.get_singular(message) {
                    inner(m);
                }
            }
            RuntimeFieldType::Repeated(_) => {
                for value in field.get_repeated(message) {
                    if let ReflectValueRef::Message(m) = value {
                        inner(m);
                    }
                }
            }
            RuntimeFieldType::Map(..) => {}
        }
    }
}

fn written() -> Vec<u8> {
    let options = WriterOptions::new(ClockDomain::BootTime, Some(1_700_000_000_000_000_000));
    let mut w = TraceWriter::new(Vec::new(), options).expect("memory");
    let process = w.process(42, Some("server")).expect("memory");
    let thread = w
        .thread(process, 42, 43, Some("scheduler"))
        .expect("memory");
    let mut spec = TrackSpec::default();
    spec.name = Some("power");
    spec.parent = Some(process);
    let power = w
        .counter_track(&spec, CounterUnit::Named("W"))
        .expect("memory");
    let args = [
        ("n", ArgValue::Int(-7)),
        ("u", ArgValue::UInt(u64::MAX)),
        ("x", ArgValue::Real(0.5)),
        ("b", ArgValue::Bool(true)),
        ("p", ArgValue::Pointer(16)),
        ("t", ArgValue::Str("text")),
        ("d.list[0]", ArgValue::Int(1)),
        ("d.list[1]", ArgValue::Int(2)),
    ];
    let data = EventData {
        name: Some("launch"),
        category: Some("cpu_op,extra"),
        args: &args,
        flows: &[1 << 63],
        terminating_flows: &[5],
    };
    w.complete(thread, 1_000, 50, &data).expect("in order");
    w.instant(thread, 1_010, &EventData::default())
        .expect("memory");
    w.counter(power, 1_020, 2.5).expect("memory");
    w.counter(power, 1_030, -3.0).expect("memory");
    w.finish().expect("memory")
}

#[test]
fn the_full_schema_knows_every_field_and_agrees_on_its_meaning() {
    let trace = Trace::parse_from_bytes(&written()).expect("what we write is a trace");
    assert_known(&trace, "Trace");
    let packets = &trace.packet;
    assert!(packets.iter().all(|p| p.trusted_packet_sequence_id() == 1));
    let clocks = packets
        .iter()
        .find(|p| p.has_clock_snapshot())
        .map(|p| p.clock_snapshot().clone())
        .expect("a snapshot");
    let clocks: Vec<_> = clocks
        .clocks
        .iter()
        .map(|c| (c.clock_id(), c.timestamp(), c.is_incremental()))
        .collect();
    assert_eq!(
        clocks,
        [
            (6, 0, false),
            (64, 0, true),
            (1, 1_700_000_000_000_000_000, false)
        ]
    );
    let descriptors: Vec<_> = packets
        .iter()
        .filter(|p| p.has_track_descriptor())
        .map(|p| p.track_descriptor())
        .collect();
    assert_eq!(descriptors[0].process.pid(), 42);
    assert_eq!(descriptors[0].process.process_name(), "server");
    assert_eq!(descriptors[1].thread.tid(), 43);
    assert_eq!(descriptors[1].parent_uuid(), descriptors[0].uuid());
    assert_eq!(descriptors[2].counter.unit_name(), "W");
    let events: Vec<_> = packets
        .iter()
        .filter(|p| p.has_track_event())
        .map(|p| (p.timestamp(), p.track_event()))
        .collect();
    let kinds: Vec<_> = events
        .iter()
        .map(|(delta, e)| (*delta, e.type_()))
        .collect();
    assert_eq!(
        kinds,
        [
            (1_000, Type::TYPE_SLICE_BEGIN),
            (10, Type::TYPE_INSTANT),
            (10, Type::TYPE_COUNTER),
            (10, Type::TYPE_COUNTER),
            (20, Type::TYPE_SLICE_END),
        ]
    );
    let begin = events[0].1;
    assert_eq!(
        (begin.flow_ids[0], begin.terminating_flow_ids[0]),
        (1 << 63, 5)
    );
    assert_eq!(begin.category_iids, [1, 2]);
    let interned = packets
        .iter()
        .find(|p| p.interned_data.is_some())
        .map(|p| p.interned_data.clone())
        .expect("names");
    assert_eq!(interned.event_names[0].name(), "launch");
    assert_eq!(interned.event_categories[1].name(), "extra");
    let values = &begin.debug_annotations;
    assert_eq!(values[0].int_value(), -7);
    assert_eq!(values[1].uint_value(), u64::MAX);
    assert!((values[2].double_value() - 0.5).abs() < f64::EPSILON);
    assert!(values[3].bool_value());
    assert_eq!(values[4].pointer_value(), 16);
    assert_eq!(values[5].string_value_iid(), 1);
    assert_eq!(interned.debug_annotation_string_values[0].str(), b"text");
    let list = &values[6].dict_entries[0].array_values;
    assert_eq!((list[0].int_value(), list[1].int_value()), (1, 2));
    assert!((events[2].1.double_counter_value() - 2.5).abs() < f64::EPSILON);
    assert_eq!(events[3].1.counter_value(), -3);
}
