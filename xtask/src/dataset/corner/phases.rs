//! Every phase of the format, and rows whose ids are not plain numbers.

use super::super::Fixture;
use super::super::json::{Json, object};
use super::{document, pair, slice, x};

const ROW: (i64, i64) = (1, 1);

pub(super) fn build() -> Vec<Fixture> {
    let mut files = Vec::new();
    files.extend(phases());
    files.extend(rows());
    files
}

fn event(phase: &str, name: &str, cat: &str, ts: i64, more: Json) -> Json {
    let mut event = object! { "ph": phase };
    if !name.is_empty() {
        event.push("name", name);
    }
    if !cat.is_empty() {
        event.push("cat", cat);
    }
    event.push("pid", 1);
    event.push("tid", 1);
    event.push("ts", Json::micros(ts));
    if let Json::Obj(members) = more {
        for (key, value) in members {
            event.push(&key, value);
        }
    }
    event
}

fn phases() -> [Fixture; 2] {
    let none = || object! {};
    let id = |id: &str| object! { "id": id };
    let events = [
        // Duration events, with an end that has no begin and a begin that has no end.
        event(
            "B",
            "outer",
            "host",
            100_000,
            object! { "args": object! { "a": 1 } },
        ),
        event("B", "inner", "host", 110_000, none()),
        event(
            "E",
            "",
            "",
            120_000,
            object! { "args": object! { "result": "yes" } },
        ),
        event("E", "outer", "", 150_000, none()),
        event("E", "", "", 160_000, none()),
        event("B", "never closed", "host", 200_000, none()),
        // Instants of the three scopes.
        event(
            "i",
            "mark on the thread",
            "host",
            115_000,
            object! { "s": "t" },
        ),
        event(
            "i",
            "mark on the process",
            "host",
            115_000,
            object! { "s": "p" },
        ),
        event(
            "I",
            "mark everywhere",
            "host",
            115_000,
            object! { "s": "g" },
        ),
        // Asynchronous: identity is category and id.
        event("b", "request", "serving", 100_000, id("0x1")),
        event("b", "prefill", "serving", 110_000, id("0x1")),
        event("n", "first token", "serving", 130_000, id("0x1")),
        event("e", "prefill", "serving", 140_000, id("0x1")),
        event("e", "request", "serving", 190_000, id("0x1")),
        event("b", "request two", "serving", 120_000, id("0x2")),
        event("e", "request two", "serving", 180_000, id("0x2")),
        // Counters: one per member of args.
        event(
            "C",
            "memory",
            "",
            100_000,
            object! { "args": object! { "used": 10, "free": Json::fixed(5.5, 1) } },
        ),
        event(
            "C",
            "memory",
            "",
            200_000,
            object! { "args": object! { "used": "12", "free": "much" } },
        ),
        event(
            "C",
            "gpu",
            "",
            100_000,
            object! { "id": "0", "args": object! { "load": 97 } },
        ),
        // Complete event of duration 0, and phases without meaning here.
        event("X", "instantaneous", "host", 300_000, object! { "dur": 0 }),
        event("N", "object created", "host", 310_000, id("0x9")),
        event("P", "sample", "host", 310_000, none()),
        // Names may come last.
        event(
            "M",
            "process_name",
            "",
            0,
            object! { "args": object! { "name": "server" } },
        ),
        event(
            "M",
            "thread_name",
            "",
            0,
            object! { "args": object! { "name": "worker" } },
        ),
        event(
            "M",
            "process_labels",
            "",
            0,
            object! { "args": object! { "labels": "CPU" } },
        ),
        event(
            "M",
            "process_sort_index",
            "",
            0,
            object! { "args": object! { "sort_index": -5 } },
        ),
    ];
    let plain = |name: &str, ts: i64, dur: i64, depth: i64, parent: Option<&str>| {
        slice(name, ROW, (ts, dur), 0, depth, parent)
    };
    let on = |track: &str, name: &str, ts: i64, dur: i64, depth: i64, parent: Option<&str>| {
        object! { "track": track, "name": name, "ts_ns": ts, "dur_ns": dur, "depth": depth, "parent": parent }
    };
    let sample = |track: &str, ts: i64, value: &str| object! { "track": track, "ts_ns": ts, "value": Json::Raw(value.to_owned()) };
    let truth = object! {
        "thread_slices": Json::Arr(vec![
            plain("outer", 100_000, 50_000, 0, None),
            plain("inner", 110_000, 10_000, 1, Some("outer")),
            plain("mark on the thread", 115_000, 0, 2, Some("inner")),
            plain("never closed", 200_000, -1, 0, None),
            plain("instantaneous", 300_000, 0, 1, Some("never closed")),
        ]),
        "other_slices": Json::Arr(vec![
            on("process", "mark on the process", 115_000, 0, 0, None),
            on("global", "mark everywhere", 115_000, 0, 0, None),
            on("async 0x1", "request", 100_000, 90_000, 0, None),
            on("async 0x1", "prefill", 110_000, 30_000, 1, Some("request")),
            on("async 0x1", "first token", 130_000, 0, 2, Some("prefill")),
            on("async 0x2", "request two", 120_000, 60_000, 0, None),
        ]),
        "args": object! { "outer": object! { "args.a": "1" }, "inner": object! { "args.result": "yes" } },
        "counters": Json::Arr(vec![
            sample("memory used", 100_000, "10"),
            sample("memory free", 100_000, "5.5"),
            sample("gpu id: 0 load", 100_000, "97"),
            sample("memory used", 200_000, "12"),
        ]),
        "names": object! { "process": "server", "thread": "worker", "labels": "CPU", "sort_index": -5 },
        "dropped": object! { "end_without_begin": 1, "counter_is_no_number": 1, "phase_ignored": 2 },
        "never_closed": 1,
    };
    pair(
        "phases",
        "B E X i I b e n C M and phases that are ignored",
        document(&events),
        truth,
    )
}

/// Rows as profilers write them: strings, -1, a device whose stream is 0, an absent thread.
fn rows() -> [Fixture; 2] {
    let raw = |text: &str| Json::Raw(text.to_owned());
    let odd = |name: &str, cat: &str, pid: Json, tid: Json, ts: i64| {
        object! { "ph": "X", "cat": cat, "ts": Json::micros(ts), "dur": raw("1"), "pid": pid, "tid": tid, "name": name }
    };
    let events = [
        odd(
            "span",
            "Trace",
            "Spans".into(),
            "PyTorch Profiler".into(),
            1_000,
        ),
        odd("overhead", "overhead", (-1).into(), 0.into(), 1_000),
        odd("stream 0", "kernel", 2.into(), 0.into(), 1_000),
        odd("stream 2", "kernel", 2.into(), 2.into(), 1_500),
        odd(
            "main thread by zero",
            "python_function",
            251.into(),
            0.into(),
            1_000,
        ),
        odd(
            "main thread by number",
            "python_function",
            251.into(),
            251.into(),
            3_000,
        ),
        odd("a real pid", "cpu_op", raw("7.0"), raw("8.0"), 1_000),
        odd(
            "the same text is another row",
            "Trace",
            "251".into(),
            "251".into(),
            1_000,
        ),
        x("device 0", "kernel", (0, 0), 1_000, 1_000),
    ];
    let row = |pid: &str, tid: &str, slices: &[&str]| {
        object! { "pid": pid, "tid": tid, "slices": Json::list(slices.iter().copied()) }
    };
    let truth = object! {
        "note": "every row starts at depth 0; numbers as written, text in quotes",
        "rows": Json::Arr(vec![
            row("\"Spans\"", "\"PyTorch Profiler\"", &["span"]),
            row("-1", "0", &["overhead"]),
            row("2", "0", &["stream 0"]),
            row("2", "2", &["stream 2"]),
            row("251", "251", &["main thread by zero", "main thread by number"]),
            row("7", "8", &["a real pid"]),
            row("\"251\"", "\"251\"", &["the same text is another row"]),
            row("0", "0", &["device 0"]),
        ]),
    };
    pair(
        "rows",
        "rows named by strings, by -1, by a stream 0, without a thread",
        document(&events),
        truth,
    )
}
