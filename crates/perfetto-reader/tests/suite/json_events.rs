//! Tests the result of each phase and field of an event.

use crate::json_support::{dump, names, options, read, try_read};
use perfetto_reader::{ArgPolicy, ReadOptions};
use trace_model::{ArgValue, IssueKind, TimeRange, Timestamp, Trace, TrackKind};

fn count(trace: &Trace, kind: IssueKind) -> u64 {
    trace.diagnostics().count_of(kind)
}

fn compat() -> ReadOptions {
    let mut options = options(1, 0);
    options.compat = true;
    options
}

#[test]
fn begin_and_end_make_a_slice() {
    let trace = read(
        r#"[{"ph":"B","ts":10,"tts":4,"pid":1,"tid":2,"cat":"c","name":"outer","args":{"a":1}},
            {"ph":"B","ts":11,"pid":1,"tid":2,"name":"inner"},
            {"ph":"E","ts":12,"pid":1,"tid":2},
            {"ph":"E","ts":15.5,"tts":6.25,"pid":1,"tid":2,"args":{"b":"x"}},
            {"ph":"E","ts":16,"pid":1,"tid":2}]"#,
    );
    let rows: Vec<_> = trace.slices().collect();
    assert_eq!(names(&trace), ["outer", "inner"]);
    assert_eq!(rows[0].dur().unwrap().get(), 5_500);
    assert_eq!(rows[1].dur().unwrap().get(), 1_000);
    assert_eq!(rows[1].parent().unwrap().id(), rows[0].id());
    assert_eq!(rows[0].thread_time(), Some((4_000, Some(2_250))));
    let args: Vec<_> = rows[0].args().collect();
    assert_eq!(
        args,
        [("args.a", ArgValue::Int(1)), ("args.b", ArgValue::Str("x"))]
    );
    assert_eq!(count(&trace, IssueKind::EndWithoutBegin), 1);
}

#[test]
fn every_form_of_time() {
    let trace = read(
        r#"[{"ph":"X","ts":1712195495519689.123,"dur":"2.5","pid":1,"name":"exact"},
            {"ph":"X","ts":"3","dur":1e1,"pid":1,"name":"text"},
            {"ph":"X","ts":4.00049,"dur":0,"pid":1,"name":"rounded"},
            {"ph":"X","ts":null,"dur":1,"pid":1},{"ph":"X","ts":"3 ","dur":1,"pid":1},
            {"ph":"X","ts":NaN,"dur":1,"pid":1},{"ph":"X","dur":1,"pid":1},
            {"ph":"X","ts":1,"pid":1},{"ph":"X","ts":1,"dur":"x","pid":1},
            {"ph":"X","ts":1,"dur":-1,"pid":1},{"ph":"X","ts":-1,"dur":1,"pid":1},
            {"ph":"X","ts":1e30,"dur":1,"pid":1}]"#,
    );
    let rows: Vec<_> = trace
        .slices()
        .map(|s| (s.name().unwrap(), s.ts().nanos(), s.dur().unwrap().get()))
        .collect();
    assert_eq!(
        rows,
        [
            ("text", 3_000, 10_000),
            ("rounded", 4_000, 0),
            ("exact", 1_712_195_495_519_689_123, 2_500),
        ]
    );
    assert_eq!(count(&trace, IssueKind::RoundedTimestamp), 1);
    assert_eq!(count(&trace, IssueKind::JsonNoTimestamp), 5);
    assert_eq!(count(&trace, IssueKind::JsonNoDuration), 2);
    assert_eq!(count(&trace, IssueKind::NegativeDuration), 1);
    assert_eq!(count(&trace, IssueKind::NegativeTimestamp), 1);
}

#[test]
fn arguments_keep_their_kind() {
    let text = r#"[{"ph":"X","ts":1,"dur":1,"pid":1,"name":"a","args":{"int":-5,"big":18446744073709551615,
        "huge":1e400,"real":0.5,"whole":5.0,"yes":true,"no":false,"nothing":null,"nan":NaN,"inf":-Infinity,
        "text":"x\u0000y","list":[1,{"a":"]"}],"empty":{},"twice":1,"twice":"2","key":6,"k\u0065y":7,"gone":1,"gone":null,"External id":3}}]"#;
    let trace = read(text);
    let slice = trace.slices().next().unwrap();
    let args: Vec<_> = slice.args().map(|(k, v)| (k, format!("{v:?}"))).collect();
    let expected = [
        ("args.int", "Int(-5)"),
        ("args.big", "UInt(18446744073709551615)"),
        ("args.huge", "Real(inf)"),
        ("args.real", "Real(0.5)"),
        ("args.whole", "Real(5.0)"),
        ("args.yes", "Bool(true)"),
        ("args.no", "Bool(false)"),
        ("args.nan", "Real(NaN)"),
        ("args.inf", "Real(-inf)"),
        ("args.text", r#"Str("x\0y")"#),
        ("args.list", r#"Json("[1,{\"a\":\"]\"}]")"#),
        ("args.empty", r#"Json("{}")"#),
        ("args.twice", r#"Str("2")"#),
        ("args.key", "Int(7)"),
        ("args.External id", "Int(3)"),
    ];
    assert_eq!(args.len(), expected.len());
    for (found, expected) in args.iter().zip(expected) {
        assert_eq!((found.0, &*found.1), expected);
    }

    let mut options = options(1, 0);
    options.args = ArgPolicy::Only(vec!["External id".into(), "key".into(), "absent".into()]);
    let trace = try_read(text.as_bytes(), &options).unwrap();
    let args: Vec<_> = trace.slices().next().unwrap().args().collect();
    assert_eq!(
        args,
        [
            ("args.key", ArgValue::Int(7)),
            ("args.External id", ArgValue::Int(3))
        ]
    );
    options.args = ArgPolicy::None;
    let trace = try_read(text.as_bytes(), &options).unwrap();
    assert_eq!(trace.slices().next().unwrap().args().len(), 0);
}

#[test]
fn arguments_that_are_no_object_or_come_before_the_phase() {
    let trace = read(
        r#"[{"args":{"a":1},"ph":"X","ts":1,"dur":1,"pid":1},
            {"ph":"X","ts":2,"dur":1,"pid":1,"args":5},
            {"ph":"X","ts":4,"dur":1,"pid":1,"args":[1,2]},
            {"ph":"X","ts":6,"dur":1,"pid":1,"args":null},
            {"ph":"X","args":{"a":1},"ts":8,"dur":1,"pid":1,"args":{"b":2}}]"#,
    );
    let args: Vec<Vec<_>> = trace.slices().map(|s| s.args().collect()).collect();
    assert_eq!(
        args,
        [
            vec![("args.a", ArgValue::Int(1))],
            vec![("args", ArgValue::Int(5))],
            vec![("args", ArgValue::Json("[1,2]"))],
            vec![],
            vec![("args.b", ArgValue::Int(2))],
        ]
    );
    assert!(trace.diagnostics().issues().is_empty());
}

#[test]
fn instants_by_scope() {
    let trace = read(
        r#"[{"ph":"i","ts":1,"pid":1,"tid":2,"name":"thread"},
            {"ph":"I","ts":2,"pid":1,"tid":2,"s":"t","name":"thread too"},
            {"ph":"R","ts":3,"pid":1,"tid":2,"s":"p","name":"process"},
            {"ph":"i","ts":4,"pid":"Traces","tid":"","s":"g","name":"global"}]"#,
    );
    let kinds: Vec<_> = trace.slices().map(|s| s.track().kind).collect();
    let expected = [
        TrackKind::Thread,
        TrackKind::Thread,
        TrackKind::ProcessInstant,
        TrackKind::GlobalInstant,
    ];
    assert_eq!(kinds, expected);
    assert!(trace.slices().all(|s| s.dur().unwrap().get() == 0));
}

#[test]
fn async_events_nest_by_identity() {
    let trace = read(
        r#"[{"ph":"b","ts":5,"pid":1,"id":1,"cat":"r","name":"late"},
            {"ph":"b","ts":1,"pid":1,"id":"1","cat":"r","name":"request"},
            {"ph":"n","ts":2,"pid":9,"id":1,"cat":"r","name":"note"},
            {"ph":"e","ts":6,"pid":1,"id":1,"cat":"r","name":"late"},
            {"ph":"e","ts":9,"pid":1,"id":1,"cat":"r","name":"request"},
            {"ph":"b","ts":2,"pid":1,"id":1,"cat":"other","name":"own track"},
            {"ph":"b","ts":3,"pid":1,"id2":{"local":"0x1"},"cat":"r","name":"one"},
            {"ph":"b","ts":4,"pid":2,"id2":{"local":"0x1"},"cat":"r","name":"two"},
            {"ph":"b","ts":5,"pid":2,"id2":{"global":"0x1"},"cat":"r","name":"three"},
            {"ph":"b","ts":5,"pid":2,"cat":"r","name":"no id"}]"#,
    );
    assert_eq!(
        names(&trace),
        [
            "request",
            "note",
            "own track",
            "one",
            "two",
            "late",
            "three"
        ]
    );
    let rows: Vec<_> = trace.slices().collect();
    let label = |i: usize| trace.text(rows[i].track().name.unwrap());
    assert_eq!(label(5), "request");
    assert_eq!(rows[5].parent().unwrap().name(), Some("request"));
    assert_eq!(rows[1].parent().unwrap().name(), Some("request"));
    assert_eq!(rows[0].dur().unwrap().get(), 8_000);
    let kinds: Vec<_> = rows.iter().map(|r| r.track().kind).collect();
    assert_eq!(kinds[3..5], [TrackKind::ProcessAsync; 2]);
    assert_eq!(kinds[6], TrackKind::GlobalAsync);
    assert_ne!(rows[3].track_id(), rows[4].track_id());
    assert_eq!(count(&trace, IssueKind::JsonNoId), 1);
}

#[test]
fn old_async_events_are_read_unless_compatible() {
    let text = r#"[{"ph":"S","ts":1,"pid":1,"id":"7","cat":"a","name":"n"},
        {"ph":"T","ts":2,"pid":1,"id":"7","cat":"b","name":"n"},
        {"ph":"F","ts":3,"pid":1,"id":"7","cat":"a","name":"n"},
        {"ph":"N","ts":3,"pid":1,"id":"7","name":"object"}]"#;
    let trace = read(text);
    let rows: Vec<_> = trace
        .slices()
        .map(|s| (s.depth(), s.dur().unwrap().get()))
        .collect();
    assert_eq!(rows, [(0, 2_000), (1, 0)]);
    assert_eq!(count(&trace, IssueKind::JsonPhaseIgnored), 1);
    let trace = try_read(text.as_bytes(), &compat()).unwrap();
    assert!(trace.is_empty());
    assert_eq!(count(&trace, IssueKind::JsonPhaseIgnored), 4);
}

#[test]
fn counters_by_member() {
    let trace = read(
        r#"[{"ph":"C","ts":2,"pid":3,"name":"mem","args":{"used":5,"free":"7.5","bad":"x","also":true}},
            {"ph":"C","ts":1,"pid":3,"name":"mem","id":"0xa","args":{"used":-1,"used":4}},
            {"ph":"C","ts":1,"pid":3,"name":"mem","args":7}]"#,
    );
    let samples: Vec<_> = trace
        .counters()
        .iter()
        .map(|s| {
            (
                s.ts.nanos(),
                trace.text(trace.track(s.track).name.unwrap()),
                s.value,
            )
        })
        .collect();
    assert_eq!(
        samples,
        [
            (1_000, "mem id: 0xa used", 4.0),
            (2_000, "mem used", 5.0),
            (2_000, "mem free", 7.5),
        ]
    );
    assert_eq!(count(&trace, IssueKind::JsonBadCounter), 3);
}

#[test]
fn names_come_late_and_the_latest_counts() {
    let trace = read(
        r#"[{"ph":"M","name":"process_name","pid":1,"ts":9,"args":{"name":"second"}},
            {"ph":"X","ts":1,"dur":1,"pid":1,"tid":2,"name":"a"},
            {"ph":"M","name":"process_name","pid":1,"ts":3,"args":{"name":"first"}},
            {"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"worker"}},
            {"ph":"M","name":"process_labels","pid":1,"args":{"labels":"CPU"}},
            {"ph":"M","name":"process_sort_index","pid":1,"args":{"sort_index":5}},
            {"ph":"M","name":"thread_sort_index","pid":1,"tid":2,"args":{"sort_index":-6}}]"#,
    );
    let process = &trace.processes()[0];
    assert_eq!(process.name.map(|n| trace.text(n)), Some("second"));
    assert_eq!(process.labels.map(|n| trace.text(n)), Some("CPU"));
    assert_eq!(process.sort_index, Some(5));
    let thread = &trace.threads()[0];
    assert_eq!(thread.name.map(|n| trace.text(n)), Some("worker"));
    assert_eq!(thread.sort_index, Some(-6));
}

#[test]
fn process_and_thread_numbers_as_written() {
    let x = |pid: &str, tid: &str, cat: &str| {
        format!(r#"{{"ph":"X","ts":1,"dur":1,"name":"n","pid":{pid},"tid":{tid},"cat":"{cat}"}}"#)
    };
    let events = [
        x("2", "0", "kernel"),
        x("2", "2", "kernel"),
        x("5", "0", "cpu_op"),
        x("5", "5", "cpu_op"),
        x("-1", "-7", "overhead"),
        x("1.9", "3.9", "c"),
        x("\"Spans\"", "\"x\"", "Trace"),
        x("\"Spans\"", "0", "Trace"),
        x("5000000000", "1", "c"),
    ];
    let text = format!("[{}]", events.join(","));
    let rows = |trace: &Trace| -> Vec<(i64, i64, bool)> {
        let row = |t: &trace_model::Thread| {
            let process = trace.process(t.process.unwrap());
            (process.pid.0, t.tid.0, t.is_main)
        };
        trace.threads().iter().map(row).collect()
    };
    let trace = read(&text);
    assert_eq!(
        rows(&trace),
        [
            (2, 0, false),
            (2, 2, true),
            (5, 5, true),
            (-1, -7, false),
            (1, 3, false),
            (4_000_000_000, 4_000_000_001, false),
            (4_000_000_000, 0, false),
            (5_000_000_000, 1, false),
        ]
    );
    let trace = try_read(text.as_bytes(), &compat()).unwrap();
    let mut compatible = rows(&trace);
    compatible.sort_unstable();
    assert_eq!(
        compatible,
        [
            (0, 0, true),
            (0, 1, false),
            (1, 1, true),
            (1, 3, false),
            (2, 2, true),
            (5, 5, true),
            (4_000_000_000, 4_000_000_000, true),
            (4_000_000_000, 4_000_000_001, false),
        ]
    );
}

/// Returns arrows as names of both ends.
fn arrows(trace: &Trace) -> Vec<(&str, &str)> {
    let name = |id| trace.slice(id).name().unwrap_or("-");
    trace
        .flows()
        .iter()
        .map(|f| (name(f.from), name(f.to)))
        .collect()
}

#[test]
fn flows_of_both_versions() {
    let trace = read(
        r#"[{"ph":"X","ts":1,"dur":5,"pid":1,"tid":1,"name":"launch"},
            {"ph":"s","ts":1,"pid":1,"tid":1,"id":16,"cat":"ac2g","name":"ac2g"},
            {"ph":"X","ts":20,"dur":5,"pid":0,"tid":7,"cat":"kernel","name":"first"},
            {"ph":"f","bp":"e","ts":20,"pid":0,"tid":7,"id":"0x10","cat":"ac2g","name":"ac2g"},
            {"ph":"X","ts":30,"dur":5,"pid":0,"tid":7,"cat":"kernel","name":"second"},
            {"ph":"f","bp":"e","ts":30,"pid":0,"tid":7,"id":"10","cat":"ac2g","name":"ac2g"},
            {"ph":"f","bp":"e","ts":30,"pid":0,"tid":7,"id":16,"cat":"fwdbwd","name":"ac2g"},
            {"ph":"f","ts":2,"pid":1,"tid":1,"id":16,"cat":"ac2g","name":"ac2g"},
            {"ph":"X","ts":3,"dur":1,"pid":1,"tid":1,"name":"next"},
            {"ph":"X","ts":40,"dur":1,"pid":1,"tid":1,"name":"out","bind_id":"0x10","flow_out":true},
            {"ph":"X","ts":50,"dur":1,"pid":1,"tid":1,"name":"through","bind_id":16,"flow_in":true,"flow_out":true},
            {"ph":"X","ts":60,"dur":1,"pid":1,"tid":1,"name":"in","bind_id":16,"flow_in":true,"flow_out":false},
            {"ph":"s","ts":1,"pid":1,"tid":1,"id":"xyz","cat":"ac2g","name":"ac2g"}]"#,
    );
    assert_eq!(
        arrows(&trace),
        [
            ("launch", "next"),
            ("launch", "first"),
            ("launch", "second"),
            ("out", "through"),
            ("through", "in"),
        ]
    );
    assert_eq!(count(&trace, IssueKind::FlowEndWithoutStart), 1);
    assert_eq!(count(&trace, IssueKind::JsonNoId), 1);
}

#[test]
fn odd_fields_are_counted_and_do_no_harm() {
    let trace = read(
        r#"[{"ph":"X","ts":1,"dur":1,"pid":1,"name":5,"cat":{"a":1}},
            {"ph":"X","ts":2,"dur":1,"pid":true,"tid":[1],"name":null,"cat":null},
            {"ph":5,"ts":1},{"name":"x"},{"ph":"","ts":1},
            {"\u0070h":"X","ts":8,"dur":1,"pid":1,"n\u0061me":"escaped","unknown":{"a":[{}]}}]"#,
    );
    assert_eq!(names(&trace), ["-", "-", "escaped"]);
    assert_eq!(count(&trace, IssueKind::JsonBadField), 4);
    assert_eq!(count(&trace, IssueKind::JsonNoPhase), 3);
}

#[test]
fn projections_keep_what_is_asked_for() {
    let text = r#"[{"ph":"X","ts":1,"dur":50,"pid":1,"tid":1,"cat":"cpu_op","name":"op"},
        {"ph":"X","ts":2,"dur":5,"pid":1,"tid":1,"cat":"cuda_runtime","name":"launch"},
        {"ph":"s","ts":2,"pid":1,"tid":1,"id":1,"cat":"ac2g","name":"ac2g"},
        {"ph":"s","ts":3,"pid":1,"tid":1,"id":2,"cat":"ac2g","name":"ac2g"},
        {"ph":"X","ts":10,"dur":5,"pid":0,"tid":7,"cat":"kernel","name":"k1"},
        {"ph":"f","bp":"e","ts":10,"pid":0,"tid":7,"id":1,"cat":"ac2g","name":"ac2g"},
        {"ph":"f","bp":"e","ts":11,"pid":0,"tid":7,"id":2,"cat":"ac2g","name":"ac2g"},
        {"ph":"B","ts":20,"pid":1,"tid":2,"cat":"kernel","name":"kept"},
        {"ph":"B","ts":21,"pid":1,"tid":2,"cat":"other","name":"hidden"},
        {"ph":"E","ts":22,"pid":1,"tid":2},
        {"ph":"E","ts":29,"pid":1,"tid":2}]"#;
    let mut options = options(1, 0);
    options.categories = Some(vec!["kernel".into(), "cuda_runtime".into()]);
    let trace = try_read(text.as_bytes(), &options).unwrap();
    assert_eq!(names(&trace), ["launch", "k1", "kept"]);
    assert_eq!(arrows(&trace), [("launch", "k1")]);
    assert_eq!(trace.slices().last().unwrap().dur().unwrap().get(), 9_000);

    options.categories = None;
    let at = Timestamp::from_nanos;
    options.range = Some(TimeRange::new(at(2_000), at(21_000)));
    let trace = try_read(text.as_bytes(), &options).unwrap();
    assert_eq!(names(&trace), ["launch", "k1", "kept"]);
    assert_eq!(trace.slices().last().unwrap().dur().unwrap().get(), 9_000);
}

#[test]
fn categories_without_number() {
    let events: Vec<_> = (0..200)
        .map(|i| {
            format!(
                r#"{{"ph":"X","ts":{i},"dur":1,"pid":1,"cat":"c{}"}}"#,
                i % 100
            )
        })
        .collect();
    let trace = read(format!("[{}]", events.join(",")));
    let found: Vec<_> = trace
        .slices()
        .map(|s| s.category().unwrap().to_owned())
        .collect();
    let expected: Vec<_> = (0..200).map(|i| format!("c{}", i % 100)).collect();
    assert_eq!(found, expected);
    assert_eq!(trace.categories().len(), 100);
}

#[test]
fn order_of_members_and_blanks_do_not_matter() {
    let plain = r#"[{"ph":"X","cat":"kernel","name":"n","pid":1,"tid":2,"ts":1.5,"dur":2,"args":{"a":1,"b":[2]}}]"#;
    let spaced = "[\n{ \"args\"\t:\r\n{\"a\" : 1 , \"b\" : [2] } ,\n\"dur\": 2 , \"ts\" :1.5\n,\"tid\":2\n,\"pid\":1,\"name\":\"n\",\"cat\":\"kernel\",\"ph\":\"X\"\n}\n]\n";
    let rows = |text: &str| dump(&read(text)).lines().next().map(str::to_owned);
    assert_eq!(rows(spaced), rows(plain));
}
