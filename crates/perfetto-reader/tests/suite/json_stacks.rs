//! Stacks of events: `stackFrames`, `sf` and `stack`.

use perfetto_reader::ArgPolicy;
use trace_model::{IssueKind, Place, Trace};

use crate::json_support::{options, try_read};

const TABLE: &str = r#""stackFrames": {
    "1": {"name": "main", "category": "app"},
    "2": {"name": "run\nof", "parent": "1"},
    "0x3": {"parent": 2, "name": "launch"},
    "4": {"parent": "4", "name": "own caller"},
    "5": {"parent": "99", "name": "orphan"},
    "6": {"parent": "1"}
}"#;

fn event(at: i64, more: &str) -> String {
    format!(r#"{{"ph":"X","cat":"c","name":"n","pid":1,"tid":{at},"ts":{at},"dur":1,{more}}}"#)
}

/// The stacks of all slices, in order.
fn stacks(trace: &Trace) -> Vec<Option<&str>> {
    let column = trace.arg_column("call chain");
    let slices = trace.slices();
    slices.map(|slice| column.get(slice)?.as_str()).collect()
}

fn document(table_first: bool, table: &str, events: &[String]) -> String {
    let events = format!(r#""traceEvents": [{}]"#, events.join(","));
    match table_first {
        true => format!("{{{table}, {events}}}"),
        false => format!("{{{events}, {table}}}"),
    }
}

#[test]
fn stacks_are_read_wherever_the_table_is() {
    let events = [
        event(1, r#""sf": 2"#),
        event(2, r#""sf": "0x3", "args": {"x": 1}"#),
        event(3, r#""stack": ["main", "0x1234", "leaf"]"#),
        event(4, r#""args": {"x": 2}"#),
        event(5, r#""sf": 6"#),
        event(6, r#""args": {"call chain": "its own"}, "sf": 2"#),
    ];
    let want = [
        Some("run\nmain"),
        Some("launch\nrun\nmain"),
        Some("leaf\n0x1234\nmain"),
        None,
        Some("[stack frame 6]\nmain"),
        Some("its own"),
    ];
    for table_first in [false, true] {
        let text = document(table_first, TABLE, &events);
        for (threads, chunk) in [(1, 0), (1, 7), (2, 64), (3, 300)] {
            let trace = try_read(text.as_bytes(), &options(threads, chunk)).unwrap();
            assert_eq!(stacks(&trace), want, "{table_first} {chunk}");
            let x = trace.arg_column("x");
            let x: Vec<_> = trace.slices().map(|slice| x.int(slice)).collect();
            assert_eq!(x, [None, Some(1), None, Some(2), None, None]);
            assert!(trace.diagnostics().is_clean());
        }
    }
}

#[test]
fn references_to_frames_that_are_missing_are_counted() {
    let events = [
        event(1, r#""sf": 77"#),
        event(2, r#""sf": 4"#),
        event(3, r#""sf": 5"#),
        event(4, r#""sf": 77"#),
        event(5, r#""sf": 1"#),
        event(6, r#""sf": true"#),
        event(7, r#""stack": "main""#),
        event(8, r#""stack": [1, 2]"#),
    ];
    let trace = try_read(document(false, TABLE, &events).as_bytes(), &options(1, 0)).unwrap();
    assert_eq!(
        stacks(&trace),
        [
            Some("[stack frame 77]"),
            Some("own caller"),
            Some("orphan"),
            Some("[stack frame 77]"),
            Some("main"),
            None,
            None,
            None,
        ]
    );
    let issues = trace.diagnostics().issues();
    let issue = |kind| issues.iter().find(|issue| issue.kind == kind).unwrap();
    let unknown = issue(IssueKind::UnknownStackFrame);
    assert_eq!(unknown.count, 4);
    assert_eq!(unknown.places.first(), Some(&Place::At(1_000)));
    assert_eq!(issue(IssueKind::JsonBadField).count, 3);
    // Without a table nothing is known of any frame.
    let events = format!("[{}]", event(1, r#""sf": 1"#));
    let trace = try_read(events.as_bytes(), &options(1, 0)).unwrap();
    assert_eq!(stacks(&trace), [Some("[stack frame 1]")]);
    assert_eq!(
        trace.diagnostics().count_of(IssueKind::UnknownStackFrame),
        1
    );
}

#[test]
fn bad_frames_are_counted_and_the_others_are_read() {
    let table = r#""stackFrames": {"1": {"name": "main"}, "2": 5, "3": {"parent": [], "name": "x"}, "4": {"name": "f", "parent": 1}}"#;
    let events = [event(1, r#""sf": 4"#), event(2, r#""sf": 2"#)];
    for chunk in [0, 11] {
        let text = document(true, table, &events);
        let trace = try_read(text.as_bytes(), &options(1, chunk)).unwrap();
        assert_eq!(stacks(&trace), [Some("f\nmain"), Some("[stack frame 2]")]);
        assert_eq!(trace.diagnostics().count_of(IssueKind::JsonBadField), 2);
    }
}

#[test]
fn stacks_that_nothing_asks_for_are_not_read() {
    let events = [event(1, r#""sf": 77, "args": {"x": 1}"#)];
    let text = document(false, r#""stackFrames": {"1": 5}"#, &events);
    let mut few = options(1, 0);
    few.args = ArgPolicy::Only(vec!["x".to_owned()]);
    let mut compat = options(1, 0);
    compat.compat = true;
    for options in [few, compat] {
        let trace = try_read(text.as_bytes(), &options).unwrap();
        assert_eq!(stacks(&trace), [None]);
        assert!(trace.diagnostics().is_clean());
    }
}
