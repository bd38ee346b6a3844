//! Tests the document around the events, broken events, and odd texts.

use crate::json_support::{difference, dump, names, options, read, try_read};
use perfetto_reader::{ArgPolicy, Error, ReadOptions};
use proptest::prelude::*;
use trace_model::{IssueKind, Place, Trace};

fn count(trace: &Trace, kind: IssueKind) -> u64 {
    trace.diagnostics().count_of(kind)
}

fn first_byte(trace: &Trace, kind: IssueKind) -> Option<u64> {
    let issue = trace
        .diagnostics()
        .issues()
        .iter()
        .find(|i| i.kind == kind)?;
    match issue.places.first() {
        Some(&Place::Byte(byte)) => Some(byte),
        _ => None,
    }
}

const A: &str = r#"{"ph":"X","ts":1,"dur":5,"name":"a","pid":1,"tid":1}"#;
const B: &str = r#"{"ph":"X","ts":10,"dur":5,"name":"b","pid":1,"tid":1}"#;
const C: &str = r#"{"ph":"X","ts":20,"dur":5,"name":"c","pid":1,"tid":1}"#;

#[test]
fn both_forms_and_their_loose_ends() {
    for (text, expected) in [
        ("{}".to_owned(), vec![]),
        ("[]".to_owned(), vec![]),
        (" \n [ ] \n".to_owned(), vec![]),
        (r#"{"traceEvents":[]}"#.to_owned(), vec![]),
        (r#"{"metadata":{"traceEvents":[1]}}"#.to_owned(), vec![]),
        (format!("[{A},{B},{C}]"), vec!["a", "b", "c"]),
        (format!("[{A},{B},{C},]"), vec!["a", "b", "c"]),
        (format!("[,{A},,{B}]"), vec!["a", "b"]),
        (format!("[{A},{B}"), vec!["a", "b"]),
        (format!("[{A},{B},"), vec!["a", "b"]),
        (format!("[{{}},{A},{{ }},{B}]"), vec!["a", "b"]),
        (format!("\u{feff}[{A}]"), vec!["a"]),
        (
            format!(r#"{{"x":[{{}}],"traceEvents":[{A}],"y":"]}}"}}"#),
            vec!["a"],
        ),
        (
            format!(r#"{{"traceEvents":[{A}],"z":0,"traceEvents":[{B}]}}"#),
            vec!["a", "b"],
        ),
        (format!("{{\"trace\\u0045vents\":[{A}]}}"), vec!["a"]),
    ] {
        let trace = read(&text);
        assert_eq!(names(&trace), expected, "{text}");
        assert!(trace.diagnostics().issues().is_empty(), "{text}");
    }
}

#[test]
fn objects_without_events_are_named() {
    let refused = |text: &str| {
        let source = byte_source::Source::from_bytes("t.json", text.as_bytes().to_vec()).unwrap();
        let read = perfetto_reader::read(source, &perfetto_reader::ReadOptions::default());
        read.unwrap_err().to_string()
    };
    for (text, says) in [
        (
            r#"{"schema":"1.1.0","pid":7,"nodes":[]}"#,
            "an execution trace of PyTorch",
        ),
        (
            r#"{"$schema":"https://www.speedscope.app/file-format-schema.json","shared":{},"profiles":[]}"#,
            "a profile for speedscope",
        ),
        (
            r#"{"meta":{"interval":1},"libs":[],"threads":[]}"#,
            "samply",
        ),
        (
            r#"{"a":1,"b":{}}"#,
            "a JSON object without `traceEvents` (its keys: a, b)",
        ),
    ] {
        let found = refused(text);
        assert!(
            found.starts_with("t.json: ") && found.contains(says),
            "{found}"
        );
    }
}

#[test]
fn a_second_document_is_data_loss() {
    for second in [format!("[{B}]"), format!("{{\"traceEvents\":[{B}]}}")] {
        let trace = read(format!("{{\"traceEvents\":[{A}]}}\n{second}"));
        assert_eq!(names(&trace), ["a"]);
        assert_eq!(count(&trace, IssueKind::SecondDocument), 1);
        assert!(!trace.diagnostics().is_clean());
    }
}

#[test]
fn what_follows_the_document_is_a_warning() {
    let text = format!("[{A}]  x");
    let trace = read(&text);
    assert_eq!(names(&trace), ["a"]);
    assert_eq!(count(&trace, IssueKind::TrailingBytes), 1);
    assert_eq!(
        first_byte(&trace, IssueKind::TrailingBytes),
        Some(text.len() as u64 - 1)
    );
}

#[test]
fn an_unfinished_object_is_salvaged() {
    let text = format!(r#"{{"schemaVersion":1,"traceEvents":[{A},{B},{C}"#);
    for (cut, expected) in [(0, 3), (1, 2), (60, 1)] {
        let text = &text[..text.len() - cut];
        let trace = read(text);
        assert_eq!(trace.len(), expected);
        assert_eq!(count(&trace, IssueKind::TruncatedJson), 1);
        let issue = &trace.diagnostics().issues()[0];
        assert_eq!(
            issue.detail.as_deref(),
            Some(&*format!("{expected} events were kept"))
        );
    }
}

#[test]
fn an_error_before_the_events_says_where() {
    let error = try_read(b"{\n \"a\": 1,\n  b: 2}", &options(1, 0)).unwrap_err();
    match error {
        Error::Json {
            byte, line, column, ..
        } => assert_eq!((byte, line, column), (9, 2, 8)),
        other => panic!("{other}"),
    }
    let error = try_read(b"{\"traceEvents\": 5}", &options(1, 0)).unwrap_err();
    assert_eq!(
        error.to_string(),
        "test.json: traceEvents is not an array at byte 16 (line 1, column 17)"
    );
    assert!(matches!(
        try_read(b"  \n ", &options(1, 0)),
        Err(Error::Empty { .. })
    ));
    assert!(matches!(
        try_read(b"hello", &options(1, 0)),
        Err(Error::Json { .. })
    ));
}

#[test]
fn a_broken_event_does_not_take_others_along() {
    for broken in [
        r#"{"ph":"X","ts":2,"dur":1,"name":"bad \q escape","pid":1}"#,
        r#"{"ph":"X","ts":01,"dur":1,"name":"octal","pid":1}"#,
        r#"{"ph":"X","ts":2,"dur":1,"name":unquoted,"pid":1}"#,
        r#"{"ph":"X" "ts":2}"#,
        r#"{"ph":"X","ts":2,,"dur":1}"#,
        r#"{"ph":"X","ts":2,"args":{"a":[1,2}}"#,
        r#"{"ph":"X","ts":2,"args":{"a":1}"#,
        r#"{"ph":"X","ts":2,"name":"never closed,"dur":1}"#,
        r#"{"ph":"X","ts":2,"args":{"list":[{"x":1},{"y":}]}}"#,
        r#"{"ph":"X","ts":2,"name":"tor"#,
        r#"{"ph":"#,
        r#"[1,2,{"x":[]}]"#,
        "5",
        "\"text\"",
        "}",
    ] {
        for text in [
            format!("[{A},{broken},{B},{C}]"),
            format!(
                "{{\"traceEvents\": [\n{A},\n{broken},\n{B},\n{C}\n],\n\"traceName\": \"t\"}}\n"
            ),
        ] {
            let trace = read(&text);
            assert_eq!(names(&trace), ["a", "b", "c"], "{text}");
            assert!(count(&trace, IssueKind::JsonEventSkipped) >= 1, "{text}");
            let after_first = text.find(A).unwrap() + A.len();
            let at = (after_first + text[after_first..].find(broken).unwrap()) as u64;
            assert_eq!(
                first_byte(&trace, IssueKind::JsonEventSkipped),
                Some(at),
                "{text}"
            );
            assert_eq!(count(&trace, IssueKind::TruncatedJson), 0, "{text}");
        }
    }
}

#[test]
fn the_first_broken_event_is_located() {
    let trace = read(format!("[{A},\n  {{\"ph\":\"\\q\"}},{B}]"));
    let issue = &trace.diagnostics().issues()[0];
    assert_eq!(
        issue.detail.as_deref(),
        Some("first in line 2, column 3: a malformed escape sequence")
    );
}

#[test]
fn text_is_repaired_and_counted() {
    let event = |name: &str| format!(r#"{{"ph":"X","ts":1,"dur":1,"pid":1,"name":"{name}"}}"#);
    let trace = read(format!("[{}]", event(r"\ud83d\ude00 \u00e9 \ud83d")));
    assert_eq!(names(&trace), ["\u{1f600} \u{e9} \u{fffd}"]);
    assert_eq!(count(&trace, IssueKind::LoneSurrogate), 1);

    let mut bytes = format!("[{},{}]", event("x?y"), event("x?y")).into_bytes();
    for b in bytes.iter_mut().filter(|b| **b == b'?') {
        *b = 0xff;
    }
    let trace = read(&bytes);
    assert_eq!(names(&trace), ["x\u{fffd}y"; 2]);
    assert_eq!(count(&trace, IssueKind::InvalidUtf8), 2);

    // Raw control characters are accepted.
    let trace = read(format!("[{}]", event("a\tb\nc\u{1}")));
    assert_eq!(names(&trace), ["a\tb\nc\u{1}"]);
    assert!(trace.diagnostics().issues().is_empty());
}

#[test]
fn utf_16_is_transcoded() {
    let text = format!("[{A},{}]", B.replace("\"b\"", "\"\u{e9}\u{1f600}\""));
    for big in [false, true] {
        let mut bytes = if big {
            vec![0xfe, 0xff]
        } else {
            vec![0xff, 0xfe]
        };
        for unit in text.encode_utf16() {
            bytes.extend(if big {
                unit.to_be_bytes()
            } else {
                unit.to_le_bytes()
            });
        }
        let trace = read(&bytes);
        assert_eq!(names(&trace), ["a", "\u{e9}\u{1f600}"]);
        assert_eq!(count(&trace, IssueKind::Utf16Transcoded), 1);
    }
}

#[test]
fn metadata_is_kept() {
    let trace = read(
        r#"{"schemaVersion": 1, "deviceProperties": [{"id": 0}], "cuda_runtime_version": 12040,
        "unknown": {"x": [1, 2]}, "displayTimeUnit": "ms", "distributedInfo": {"backend": "nccl",
        "rank": 3, "world_size": 8, "pg_count": 1, "pg_config": [{"pg_name": "0",
        "pg_desc": "default_pg", "backend_config": "cuda:nccl", "pg_size": 2, "ranks": [3, 5]}]},
        "baseTimeNanoseconds": 1700000000000000001, "traceEvents": [], "traceName": "/tmp/\u0074"}"#,
    );
    let meta = trace.meta();
    assert_eq!(meta.base_time_ns, 1_700_000_000_000_000_001);
    assert_eq!(meta.rank().map(|r| r.0), Some(3));
    let distributed = meta.distributed.as_ref().unwrap();
    assert_eq!(distributed.world_size, Some(8));
    assert_eq!(distributed.backend.as_deref(), Some("nccl"));
    assert_eq!(distributed.groups.len(), 1);
    assert_eq!(distributed.groups[0].ranks, [3, 5]);
    assert_eq!(distributed.groups[0].description, "default_pg");
    assert_eq!(meta.entry("schemaVersion"), Some("1"));
    assert_eq!(meta.entry("deviceProperties"), Some(r#"[{"id": 0}]"#));
    assert_eq!(meta.entry("cuda_runtime_version"), Some("12040"));
    assert_eq!(meta.entry("displayTimeUnit"), Some("ms"));
    assert_eq!(meta.entry("traceName"), Some("/tmp/t"));
    assert_eq!(meta.entry("unknown"), None);
}

#[test]
fn nesting_in_arguments_has_a_limit_and_costs_one_event() {
    for (depth, kept) in [(60, 3), (100, 2), (100_000, 2)] {
        let deep = format!("{}{}", "[".repeat(depth), "]".repeat(depth));
        let odd =
            format!(r#"{{"ph":"X","ts":5,"dur":1,"name":"odd","pid":1,"args":{{"a":{deep}}}}}"#);
        let trace = read(format!("[{A},{odd},{B}]"));
        assert_eq!(trace.len(), kept, "{depth}");
        assert_eq!(count(&trace, IssueKind::JsonEventSkipped), 3 - kept as u64);
    }
    // Nested objects that are never closed: the cost is linear, and the following event is found.
    let unclosed = r#"{"ph":"#.repeat(50_000);
    let trace = read(format!("[{A},{unclosed},{B}]"));
    assert_eq!(names(&trace), ["a", "b"]);
}

#[test]
fn events_longer_than_a_piece_are_read() {
    let name = "n".repeat(300_000);
    let long = format!(r#"{{"ph":"X","ts":5,"dur":1,"pid":1,"name":"{name}"}}"#);
    let text = format!("[{A},{long},{B}]");
    for chunk in [1 << 10, 1 << 16] {
        let trace = try_read(text.as_bytes(), &options(2, chunk)).unwrap();
        assert_eq!(names(&trace), ["a", &name, "b"]);
    }
}

#[test]
fn every_truncation_gives_the_complete_events() {
    let events = [A, B, C].join(", ");
    let text = format!("{{\"a\": 1, \"traceEvents\": [{events}], \"traceName\": \"x\"}}");
    let start = text.find('[').unwrap();
    for cut in 0..=text.len() {
        let head = &text[..cut];
        let complete = head
            .get(start..)
            .map_or(0, |t| t.matches('}').count().min(3));
        for chunk in [0, 7] {
            match (
                cut,
                crate::json_support::try_read_or_empty(head.as_bytes(), &options(1, chunk)),
            ) {
                (0, None) => {}
                (_, Some(trace)) => {
                    assert_eq!(trace.len(), complete, "{cut}");
                    let truncated = u64::from(cut < text.len());
                    assert_eq!(count(&trace, IssueKind::TruncatedJson), truncated, "{cut}");
                }
                (_, None) => panic!("{cut}"),
            }
        }
    }
}

/// Returns a text with most features of the format.
fn rich_text() -> String {
    let mut events = vec![
        r#"{"ph":"M","name":"process_name","pid":1,"args":{"name":"p"}}"#.to_owned(),
        r#"{"ph":"M","name":"thread_name","pid":1,"tid":2,"args":{"name":"t \u00e9"}}"#.to_owned(),
    ];
    for i in 0..60 {
        let ts = 1000 + 7 * (i * 37 % 60);
        events.push(format!(
            r#"{{"ph": "X", "cat": "kernel", "name": "k{}", "pid": {}, "tid": 7, "ts": {ts}.{i:03}, "dur": 3.25, "args": {{"correlation": {i}, "grid": [{i}, 1], "s": "x\"y", "t": true}}}}"#,
            i % 7, i % 3
        ));
        events.push(format!(
            r#"{{"ph":"B","ts":{ts},"pid":1,"tid":2,"name":"b{i}","args":{{"a":{i}}}}}"#
        ));
        events.push(format!(r#"{{"ph":"E","ts":{},"pid":1,"tid":2}}"#, ts + 2));
        events.push(format!(
            r#"{{"ph":"s","id":{i},"ts":{ts},"pid":1,"tid":7,"cat":"ac2g","name":"ac2g"}}"#
        ));
        events.push(format!(r#"{{"ph":"f","bp":"e","id":"{i:x}","ts":{ts},"pid":2,"tid":7,"cat":"ac2g","name":"ac2g"}}"#));
        events.push(format!(
            r#"{{"ph":"C","ts":{ts},"pid":1,"name":"mem","args":{{"a":{i},"b":"1.5"}}}}"#
        ));
        events.push(format!(
            r#"{{"ph":"b","ts":{ts},"pid":1,"id":"0x{i:x}","cat":"r","name":"req"}}"#
        ));
        events.push(format!(
            r#"{{"ph":"e","ts":{},"pid":1,"id":"0x{i:x}","cat":"r","name":"req"}}"#,
            ts + 9
        ));
        events.push(format!(
            r#"{{"ph":"i","s":"g","ts":{ts},"pid":"Traces","tid":"Trace x","name":"mark"}}"#
        ));
    }
    format!(
        "{{\"schemaVersion\": 1, \"traceEvents\": [\n{}\n], \"traceName\": \"n\"}}\n",
        events.join(",\n")
    )
}

#[test]
fn pieces_and_threads_make_no_difference() {
    let text = rich_text();
    let whole = dump(&read(&text));
    for chunk in [16, 64, 100, 777, 4096, 1 << 16] {
        for threads in [1, 2, 5] {
            let trace = try_read(text.as_bytes(), &options(threads, chunk)).unwrap();
            assert_eq!(dump(&trace), whole, "{chunk} {threads}");
        }
    }
}

#[test]
fn streams_give_what_files_give() {
    let text = rich_text();
    let whole = dump(&read(&text));
    for (chunk, threads) in [(64, 1), (1000, 3), (0, 2)] {
        let stream = std::io::Cursor::new(text.clone().into_bytes());
        let source = byte_source::Source::from_reader("test.json", stream).unwrap();
        assert!(source.random_access().is_none());
        let trace = perfetto_reader::json::read(source, &options(threads, chunk)).unwrap();
        assert_eq!(dump(&trace), whole, "{chunk} {threads}");
    }
}

fn policies() -> Vec<ArgPolicy> {
    let keys = vec!["correlation".to_owned(), "s".to_owned()];
    vec![ArgPolicy::All, ArgPolicy::None, ArgPolicy::Only(keys)]
}

fn damaged(flips: &[(usize, u8)], cut: usize) -> Vec<u8> {
    let mut bytes = rich_text().into_bytes();
    for &(at, b) in flips {
        let len = bytes.len();
        bytes[at % len] = b;
    }
    bytes.truncate(cut.max(1));
    bytes
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Damage may cost events, but it never ends the reading, and the result does not depend on
    /// pieces or threads.
    #[test]
    fn damage_is_survived_alike_in_any_pieces(
        flips in prop::collection::vec(
            (any::<usize>(), prop_oneof![any::<u8>(), prop::sample::select(&b"{}[]\",:\\ "[..])]),
            1..8,
        ),
        cut in prop_oneof![Just(usize::MAX), 1..40_000_usize],
        chunk in 20..3000_usize,
        args in prop::sample::select(policies()),
    ) {
        let bytes = damaged(&flips, cut);
        let with = |mut options: ReadOptions| {
            options.args = args.clone();
            try_read(&bytes, &options)
        };
        let (whole, pieces) = (with(options(1, 0)), with(options(3, chunk)));
        match (whole, pieces) {
            (Ok(a), Ok(b)) => prop_assert_eq!(difference(&dump(&a), &dump(&b)), None),
            (Err(a), Err(b)) => prop_assert_eq!(a.to_string(), b.to_string()),
            (a, b) => prop_assert!(false, "{:?} {:?}", a.is_ok(), b.is_ok()),
        }
    }

    /// A damaged byte inside the events costs at most a few events around it.
    #[test]
    fn one_byte_costs_few_events(at in any::<prop::sample::Index>(), b in any::<u8>()) {
        let text = rich_text();
        let first = text.find('[').unwrap();
        let last = text.rfind(']').unwrap();
        let at = first + 1 + at.index(last - first - 1);
        let mut bytes = text.clone().into_bytes();
        bytes[at] = b;
        let trace = try_read(&bytes, &options(1, 0)).unwrap();
        let count = |t: &Trace| t.meta().records.iter().map(|(_, n)| n).sum::<u64>();
        prop_assert!(count(&trace) + 8 >= count(&read(&text)), "{} of {}", count(&trace), count(&read(&text)));
    }

    #[test]
    fn arbitrary_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 1..300), chunk in 1..80_usize) {
        let _ = try_read(&bytes, &options(2, chunk));
        let mut text = b"[{\"ph\":\"X\",\"ts\":".to_vec();
        text.extend(&bytes);
        let _ = try_read(&text, &options(1, chunk));
    }

    #[test]
    fn arbitrary_structure_never_panics(text in r#"(\{|\}|\[|\]|"|:|,|\\|"ph":"X"|"ts":1|"dur":2|"args":| |1e9|-){0,80}"#) {
        for options in [options(1, 0), options(2, 5)] {
            let _ = try_read(format!("[{text}").as_bytes(), &options);
            let _ = try_read(format!("{{{text}").as_bytes(), &options);
        }
    }
}

#[test]
fn what_is_too_long_to_be_an_event_is_searched_for_the_next() {
    let long = "x".repeat(65 << 20);
    let text = format!(r#"[{A},{{"ph":"X","name":"{long}"}},{B},{C}]"#);
    for chunk in [0, 3 << 20] {
        let trace = try_read(text.as_bytes(), &options(1, chunk)).unwrap();
        assert_eq!(names(&trace), ["a", "b", "c"]);
        assert_eq!(count(&trace, IssueKind::JsonEventSkipped), 1);
    }
}
