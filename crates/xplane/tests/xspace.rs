//! Recordings that another encoder wrote, and a real one of JAX, compared with XLA's own conversion of it.
// `cfg(test)` is always on here; it tells clippy that helpers may unwrap as tests do.

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use byte_source::Source;
    use proptest::prelude::*;
    use prost::Message;
    use trace_model::kernel::{Activity, TraceIndex, Vocabulary};
    use trace_model::{IssueKind, TimeRange, Timestamp, Trace};
    use xplane::{LoadOptions, begins, read};

    // The public definition, tsl/profiler/protobuf/xplane.proto.
    #[derive(Clone, PartialEq, Message)]
    struct XSpace {
        #[prost(message, repeated, tag = "1")]
        planes: Vec<XPlane>,
        #[prost(string, repeated, tag = "4")]
        hostnames: Vec<String>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct XPlane {
        #[prost(int64, tag = "1")]
        id: i64,
        #[prost(string, tag = "2")]
        name: String,
        #[prost(message, repeated, tag = "3")]
        lines: Vec<XLine>,
        #[prost(btree_map = "int64, message", tag = "4")]
        event_metadata: BTreeMap<i64, XEventMetadata>,
        #[prost(btree_map = "int64, message", tag = "5")]
        stat_metadata: BTreeMap<i64, XStatMetadata>,
        #[prost(message, repeated, tag = "6")]
        stats: Vec<XStat>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct XLine {
        #[prost(int64, tag = "1")]
        id: i64,
        #[prost(string, tag = "2")]
        name: String,
        #[prost(int64, tag = "3")]
        timestamp_ns: i64,
        #[prost(message, repeated, tag = "4")]
        events: Vec<XEvent>,
        #[prost(int64, tag = "9")]
        duration_ps: i64,
        #[prost(int64, tag = "10")]
        display_id: i64,
        #[prost(string, tag = "11")]
        display_name: String,
    }
    #[derive(Clone, PartialEq, Message)]
    struct XEvent {
        #[prost(int64, tag = "1")]
        metadata_id: i64,
        #[prost(int64, tag = "2")]
        offset_ps: i64,
        #[prost(int64, tag = "3")]
        duration_ps: i64,
        #[prost(message, repeated, tag = "4")]
        stats: Vec<XStat>,
        #[prost(int64, optional, tag = "5")]
        num_occurrences: Option<i64>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct XStat {
        #[prost(int64, tag = "1")]
        metadata_id: i64,
        #[prost(oneof = "StatValue", tags = "2, 3, 4, 5, 6, 7")]
        value: Option<StatValue>,
    }
    #[derive(Clone, PartialEq, prost::Oneof)]
    enum StatValue {
        #[prost(double, tag = "2")]
        Double(f64),
        #[prost(uint64, tag = "3")]
        UInt(u64),
        #[prost(int64, tag = "4")]
        Int(i64),
        #[prost(string, tag = "5")]
        Text(String),
        #[prost(bytes, tag = "6")]
        Bytes(Vec<u8>),
        #[prost(uint64, tag = "7")]
        Ref(u64),
    }
    #[derive(Clone, PartialEq, Message)]
    struct XEventMetadata {
        #[prost(int64, tag = "1")]
        id: i64,
        #[prost(string, tag = "2")]
        name: String,
        #[prost(string, tag = "4")]
        display_name: String,
        #[prost(message, repeated, tag = "5")]
        stats: Vec<XStat>,
    }
    #[derive(Clone, PartialEq, Message)]
    struct XStatMetadata {
        #[prost(int64, tag = "1")]
        id: i64,
        #[prost(string, tag = "2")]
        name: String,
    }

    fn load(bytes: Vec<u8>, options: &LoadOptions) -> xplane::Result<Trace> {
        read(Source::from_bytes("t.xplane.pb", bytes).unwrap(), options)
    }

    fn named(names: &[(i64, &str)]) -> BTreeMap<i64, XEventMetadata> {
        let one = |(id, name): &(i64, &str)| {
            let of = XEventMetadata {
                id: *id,
                name: (*name).to_owned(),
                ..XEventMetadata::default()
            };
            (*id, of)
        };
        names.iter().map(one).collect()
    }

    fn stats(names: &[(i64, &str)]) -> BTreeMap<i64, XStatMetadata> {
        let one = |(id, name): &(i64, &str)| {
            (
                *id,
                XStatMetadata {
                    id: *id,
                    name: (*name).to_owned(),
                },
            )
        };
        names.iter().map(one).collect()
    }

    fn event(metadata_id: i64, offset_ps: i64, duration_ps: i64, stats: Vec<XStat>) -> XEvent {
        XEvent {
            metadata_id,
            offset_ps,
            duration_ps,
            stats,
            num_occurrences: None,
        }
    }

    fn stat(metadata_id: i64, value: StatValue) -> XStat {
        XStat {
            metadata_id,
            value: Some(value),
        }
    }

    /// A host that launches a kernel, and a device that runs it.
    fn space() -> XSpace {
        let host = XPlane {
            name: "/host:CPU".to_owned(),
            lines: vec![XLine {
                id: 77,
                name: "python".to_owned(),
                timestamp_ns: 1_000,
                events: vec![event(
                    1,
                    2_000_000,
                    500_499,
                    vec![stat(5, StatValue::UInt(42))],
                )],
                ..XLine::default()
            }],
            event_metadata: named(&[(1, "cuLaunchKernel")]),
            stat_metadata: stats(&[(5, "correlation_id")]),
            ..XPlane::default()
        };
        let mut kinds = named(&[(1, "gemm_fusion"), (2, "MemcpyD2D"), (3, "sum")]);
        kinds.get_mut(&1).unwrap().stats = vec![stat(7, StatValue::Double(0.5))];
        kinds.get_mut(&2).unwrap().display_name = "Memcpy".to_owned();
        let sum = XEvent {
            metadata_id: 3,
            num_occurrences: Some(4),
            ..XEvent::default()
        };
        let device = XPlane {
            name: "/device:GPU:1".to_owned(),
            lines: vec![
                XLine {
                    id: 13,
                    name: "Stream #13(Compute)".to_owned(),
                    timestamp_ns: 1_000,
                    events: vec![
                        event(
                            1,
                            9_000_500,
                            3_000_000,
                            vec![
                                stat(5, StatValue::UInt(42)),
                                stat(6, StatValue::Ref(8)),
                                stat(9, StatValue::Text("x".to_owned())),
                                stat(10, StatValue::Bytes(vec![1, 2])),
                                stat(11, StatValue::UInt(u64::MAX)),
                            ],
                        ),
                        event(2, 20_000_000, 0, vec![]),
                        sum,
                    ],
                    ..XLine::default()
                },
                XLine {
                    id: 1,
                    display_id: 2,
                    name: "hidden".to_owned(),
                    display_name: "XLA Modules".to_owned(),
                    timestamp_ns: 1_000,
                    events: vec![event(99, 9_000_000, 4_000_000, vec![])],
                    ..XLine::default()
                },
            ],
            event_metadata: kinds,
            stat_metadata: stats(&[
                (5, "correlation_id"),
                (6, "hlo_op"),
                (7, "occupancy"),
                (8, "dot.1"),
                (9, "text"),
                (10, "proto"),
                (11, "large"),
            ]),
            ..XPlane::default()
        };
        let environment = XPlane {
            name: "Task Environment".to_owned(),
            stat_metadata: stats(&[(1, "profile_start_time")]),
            stats: vec![stat(1, StatValue::UInt(1_700_000_000_000_000_123))],
            ..XPlane::default()
        };
        XSpace {
            planes: vec![host, device, environment],
            hostnames: vec!["secret-host".to_owned()],
        }
    }

    #[test]
    fn devices_are_gpu_rows_and_stats_are_arguments() {
        let bytes = space().encode_to_vec();
        assert!(begins(&bytes));
        let trace = load(bytes, &LoadOptions::default()).unwrap();
        assert_eq!(trace.meta().base_time_ns, 1_700_000_000_000_000_123);
        assert_eq!(trace.meta().format, "xplane");
        let index = TraceIndex::new(&trace, Vocabulary::default());
        let found: Vec<_> = trace
            .slices()
            .map(|s| {
                (
                    s.name().unwrap(),
                    s.ts().nanos(),
                    s.dur().unwrap().get(),
                    index.activity(s),
                )
            })
            .collect();
        assert_eq!(
            found,
            [
                ("cuLaunchKernel", 3_000, 500, Activity::Launch),
                ("event 99", 10_000, 4_000, Activity::GpuAnnotation),
                ("gemm_fusion", 10_001, 3_000, Activity::Kernel),
                ("Memcpy", 21_000, 0, Activity::GpuMemcpy),
            ]
        );
        let kernel = trace.slices().nth(2).unwrap();
        assert_eq!((index.device(kernel).0, index.stream(kernel).0), (1, 13));
        let (call, _) = index.launch_of(kernel).unwrap();
        assert_eq!(call.name(), Some("cuLaunchKernel"));
        let text = |key: &str| {
            trace
                .arg_column(key)
                .get(kernel)
                .map(|value| format!("{value:?}"))
        };
        assert!(text("hlo_op").unwrap().contains("dot.1"));
        assert!(text("occupancy").unwrap().contains("0.5"));
        assert!(text("large").unwrap().contains(&u64::MAX.to_string()));
        assert_eq!(text("proto"), None);
        let tids: Vec<i64> = trace.threads().iter().map(|thread| thread.tid.0).collect();
        assert_eq!(tids, [77, 13, 2]);
        assert!(
            trace
                .meta()
                .records
                .iter()
                .any(|(what, count)| what.contains("without time") && *count == 1)
        );
    }

    #[test]
    fn options_select_arguments_and_times() {
        let mut options = LoadOptions::default();
        options.args = Some(vec!["hlo_op".to_owned()]);
        options.range = Some(TimeRange::new(
            Timestamp::from_nanos(10_000),
            Timestamp::from_nanos(20_000),
        ));
        let trace = load(space().encode_to_vec(), &options).unwrap();
        assert_eq!(trace.slices().count(), 2);
        assert!(
            trace.arg_column("correlation_id").is_empty() && !trace.arg_column("hlo_op").is_empty()
        );
    }

    #[test]
    fn odd_times_are_counted_and_left_out() {
        let mut space = space();
        let line = &mut space.planes[0].lines[0];
        line.events = vec![
            event(1, 0, -5, vec![]),
            event(1, i64::MAX, i64::MAX, vec![]),
            event(1, 0, 1, vec![]),
        ];
        line.timestamp_ns = i64::MAX / 2;
        let trace = load(space.encode_to_vec(), &LoadOptions::default()).unwrap();
        let count = |kind| {
            trace
                .diagnostics()
                .issues()
                .iter()
                .find(|i| i.kind == kind)
                .map(|i| i.count)
        };
        assert_eq!(count(IssueKind::NegativeDuration), Some(1));
        assert_eq!(count(IssueKind::FarTime), Some(2));
    }

    const JAX: &[u8] = include_bytes!("data/jax_cpu.xplane.pb");
    const JAX_JSON: &[u8] = include_bytes!("data/jax_cpu.trace.json.gz");

    #[test]
    fn a_recording_of_jax_equals_its_own_conversion() {
        let trace = load(JAX.to_vec(), &LoadOptions::default()).unwrap();
        let json = Source::from_bytes("t.json.gz", JAX_JSON.to_vec()).unwrap();
        let json = perfetto_reader::read(json, &perfetto_reader::ReadOptions::default()).unwrap();
        let rows = |trace: &Trace| {
            let mut rows: Vec<(String, String, i64, i64)> = trace
                .slices()
                .map(|s| {
                    let thread = trace.thread(s.track().thread.unwrap()).name;
                    let thread = thread.map_or("", |name| trace.text(name)).to_owned();
                    (
                        thread,
                        s.name().unwrap().to_owned(),
                        s.ts().nanos(),
                        s.dur().unwrap().get(),
                    )
                })
                .collect();
            rows.sort();
            rows
        };
        assert!(trace.len() > 50);
        assert_eq!(rows(&trace), rows(&json));
        let process = |trace: &Trace| {
            let process = trace.processes().iter().find(|p| p.name.is_some()).unwrap();
            (process.pid.0, trace.text(process.name.unwrap()).to_owned())
        };
        assert_eq!(process(&trace), process(&json));
        assert!(trace.meta().base_time_ns > 1_700_000_000_000_000_000);
    }

    #[test]
    fn damage_is_an_error_with_its_place() {
        let bytes = space().encode_to_vec();
        let whole = load(bytes.clone(), &LoadOptions::default()).unwrap().len();
        for end in 1..bytes.len() {
            match load(bytes[..end].to_vec(), &LoadOptions::default()) {
                // Cut between two planes.
                Ok(trace) => assert!(trace.len() <= whole),
                Err(error) => {
                    let text = error.to_string();
                    assert!(
                        text.starts_with("t.xplane.pb: the XSpace is damaged at byte"),
                        "{text}"
                    );
                    assert!(text.contains(".trace.json.gz"), "{text}");
                }
            }
        }
        let mut options = LoadOptions::default();
        options.max_bytes = 10;
        let error = load(bytes, &options).unwrap_err().to_string();
        assert!(error.contains("more than 10 bytes"), "{error}");
    }

    proptest! {
        #[test]
        fn damaged_recordings_never_panic(at in any::<prop::sample::Index>(), by in any::<u8>()) {
            let mut bytes = JAX.to_vec();
            let at = at.index(bytes.len());
            bytes[at] = by;
            let _ = load(bytes, &LoadOptions::default());
        }

        #[test]
        fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 1..300)) {
            let _ = begins(&bytes);
            let _ = load(bytes, &LoadOptions::default());
        }
    }
}
