//! Files that are damaged, incomplete or oddly spelled, and the usable part of each.

use super::super::Fixture;
use super::super::json::{Json, object};
use super::super::rng::Rng;
use super::{document, pair, x, x_args};

pub(super) fn build(seed: u64) -> Vec<Fixture> {
    let mut files = Vec::new();
    files.extend(truncated(seed));
    files.extend(missing());
    files.extend(odd_text());
    files.extend(bare_array());
    files
}

/// Output of a profiler that was killed while it wrote.
fn truncated(seed: u64) -> [Fixture; 2] {
    let mut rng = Rng::new(seed ^ 0x7c);
    let mut ts = 5_000;
    let mut events = Vec::new();
    for i in 0..40 {
        let dur = rng.between(10, 900);
        events.push(x_args(
            &format!("op{i}"),
            "cpu_op",
            (1, 1),
            ts,
            dur,
            object! { "External id": i, "brace": "}]" },
        ));
        ts += dur + rng.between(0, 50);
    }
    let text = document(&events);
    let line_end = |name: &str| {
        let at = text.find(name).unwrap_or(0);
        at + text[at..].find('\n').unwrap_or(0)
    };
    let cut = line_end("\"op29\"") + 60;
    let names: Vec<String> = (0..30).map(|i| format!("op{i}")).collect();
    let truth = object! {
        "complete_events": 30, "slices": names,
        // Offset of the comma after the last whole event, and the total number of bytes.
        "last_complete_event_ends_at": line_end("\"op29\"") - 1,
        "bytes": cut,
    };
    pair(
        "truncated",
        "cut in the middle of the 31st event",
        &text.as_bytes()[..cut],
        truth,
    )
}

/// Events with missing fields. Each name states the expected result.
fn missing() -> [Fixture; 2] {
    let lines = [
        x("kept", "cpu_op", (1, 1), 1_000, 500).line(),
        r#"{"cat": "cpu_op", "name": "dropped: no ph", "pid": 1, "tid": 1, "ts": 2.000, "dur": 0.500}"#.to_owned(),
        r#"{"ph": "X", "cat": "cpu_op", "name": "dropped: no ts", "pid": 1, "tid": 1, "dur": 0.500}"#.to_owned(),
        r#"{"ph": "X", "cat": "cpu_op", "name": "dropped: ts is no number", "pid": 1, "tid": 1, "ts": "soon", "dur": 1}"#.to_owned(),
        r#"{"ph": "X", "cat": "cpu_op", "name": "dropped: no dur", "pid": 1, "tid": 1, "ts": 3.000}"#.to_owned(),
        r#"{"ph": "X", "cat": "cpu_op", "name": "kept: numbers as strings", "pid": 1, "tid": 1, "ts": "4.25", "dur": "0.5"}"#.to_owned(),
        "{}".to_owned(),
        r#"{"ph": "X", "cat": "cpu_op", "pid": 1, "tid": 1, "ts": 5, "dur": 0.25}"#.to_owned(),
        r#"{"ph": "X", "name": "kept: no category", "pid": 1, "tid": 1, "ts": 6, "dur": 0.25, "args": {}}"#.to_owned(),
        r#"{"ph": "X", "cat": "", "name": "kept: empty category", "pid": 1, "tid": 1, "ts": 7, "dur": 0.25, "args": {"a": null}}"#.to_owned(),
        r#"{"ph": "X", "cat": "cpu_op", "name": "kept: no tid", "pid": 1, "ts": 8, "dur": 0.25}"#.to_owned(),
        r#"{"ph": "X", "cat": "cpu_op", "name": "kept: keys in another order", "dur": 0.25, "ts": 9, "tid": 1, "pid": 1}"#.to_owned(),
    ];
    let text = format!("{{\"traceEvents\": [\n{}\n]}}\n", lines.join(",\n"));
    let row = |name: Option<&str>, cat: Option<&str>, ts: i64, dur: i64| {
        object! { "name": name, "cat": cat, "pid": 1, "tid": 1, "ts_ns": ts, "dur_ns": dur }
    };
    let truth = object! {
        "slices": Json::Arr(vec![
            row(Some("kept"), Some("cpu_op"), 1_000, 500),
            row(Some("kept: numbers as strings"), Some("cpu_op"), 4_250, 500),
            row(None, Some("cpu_op"), 5_000, 250),
            row(Some("kept: no category"), None, 6_000, 250),
            row(Some("kept: empty category"), None, 7_000, 250),
            row(Some("kept: no tid"), Some("cpu_op"), 8_000, 250),
            row(Some("kept: keys in another order"), Some("cpu_op"), 9_000, 250),
        ]),
        "dropped": object! { "no_phase": 1, "no_timestamp": 2, "no_duration": 1 },
    };
    pair(
        "missing-fields",
        "events without ph, ts, dur, name, cat or tid; numbers as strings",
        text,
        truth,
    )
}

/// Strings and numbers that readers often get wrong, and one unreadable event.
fn odd_text() -> [Fixture; 2] {
    let event = |at: i64, name: &[u8], rest: &[u8]| {
        let mut line = br#"{"ph": "X", "cat": "cpu_op", "name": ""#.to_vec();
        line.extend(name);
        line.extend(format!("\", \"pid\": 1, \"tid\": 1, \"ts\": {at}, \"dur\": 0.5").as_bytes());
        line.extend(rest);
        line.push(b'}');
        line
    };
    let lines = [
        event(1, br"\ud83d\ude00 ok", b""),
        event(2, br"lone \ud83d surrogate", b""),
        event(3, b"not \xff utf-8", b""),
        event(4, b"raw \x01 control", b""),
        event(5, br"quote \u0022 slash \/ tab \t", b""),
        event(6, br"first", br#", "name": "last name wins""#),
        event(7, b"floats", br#", "args": {"nan": NaN, "inf": Infinity, "minus": -Infinity, "big": 18446744073709551615}"#),
        event(8, br"this one is broken: \q", b""),
        event(9, b"after the broken one", br#", "args": {"text": "} ] , {", "nested": {"a": [1, {"b": 2}]}}"#),
        event(10, "größer 模型".as_bytes(), b""),
    ];
    let mut bytes = b"\xef\xbb\xbf{\"traceEvents\": [\n".to_vec();
    bytes.extend(lines.join(b",\n".as_slice()));
    bytes.extend(b"\n], \"note\": \"}\"}\n");
    let names = [
        "\u{1f600} ok",
        "lone \u{fffd} surrogate",
        "not \u{fffd} utf-8",
        "raw \u{1} control",
        "quote \" slash / tab \t",
        "last name wins",
        "floats",
        "after the broken one",
        "größer 模型",
    ];
    let truth = object! {
        "names": Json::list(names),
        "skipped_events": 1,
        "args": object! {
            "floats": object! { "nan": "NaN", "inf": "Infinity", "minus": "-Infinity", "big": "18446744073709551615" },
            "after the broken one": object! { "text": "} ] , {", "nested.a[0]": "1", "nested.a[1].b": "2" },
        },
    };
    pair(
        "odd-text",
        "escapes, surrogates, invalid UTF-8, NaN, a duplicate key, one broken event, a byte order mark",
        bytes,
        truth,
    )
}

/// The array form may lack its closing bracket.
fn bare_array() -> [Fixture; 2] {
    let lines = [
        x("one", "a", (1, 1), 1_000, 10).line(),
        x("two", "a", (1, 1), 2_000, 10).line(),
    ];
    let text = format!("[\n{},\n", lines.join(",\n"));
    pair(
        "bare-array",
        "array form with a last comma and no closing bracket",
        text,
        object! { "slices": Json::list(["one", "two"]) },
    )
}
