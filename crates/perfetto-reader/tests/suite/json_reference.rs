//! Tests behaviour that `compat` takes from the reference where the rules are easy to get wrong.

use crate::json_support::{dump, options, try_read, try_read_or_empty};
use perfetto_reader::ReadOptions;
use trace_model::{Trace, TrackKind};

fn compat(chunk_bytes: usize) -> ReadOptions {
    let mut options = options(1, chunk_bytes);
    options.compat = true;
    options
}

fn read(text: &str) -> Trace {
    try_read(text.as_bytes(), &compat(0)).expect("the input of the test is sound")
}

/// Returns name, depth, name of the track and number of the track, by order of appearance.
fn lanes(trace: &Trace) -> Vec<(String, u32, String, usize)> {
    let mut seen = Vec::new();
    let mut rows = Vec::new();
    for slice in trace.slices() {
        let id = slice.track_id();
        let lane = seen.iter().position(|&t| t == id).unwrap_or_else(|| {
            seen.push(id);
            seen.len() - 1
        });
        let text = |s: Option<&str>| s.unwrap_or("-").to_owned();
        let track = slice.track().name.map(|n| trace.text(n));
        let depth = u32::try_from(slice.depth()).expect("the input of the test is sound");
        rows.push((text(slice.name()), depth, text(track), lane));
    }
    rows
}

fn row(name: &str, depth: u32, track: &str, lane: usize) -> (String, u32, String, usize) {
    (name.to_owned(), depth, track.to_owned(), lane)
}

/// Returns process and thread number of each row of threads.
fn threads(trace: &Trace) -> Vec<(i64, i64)> {
    let mut rows: Vec<_> = trace
        .threads()
        .iter()
        .map(|t| (t.process.map_or(-1, |p| trace.process(p).pid.0), t.tid.0))
        .collect();
    rows.sort_unstable();
    rows
}

#[test]
fn an_async_lane_is_free_when_its_count_of_open_slices_is_zero() {
    // The end names another slice: it closes nothing, but the next identity takes the lane and
    // nests in what is still open on it.
    let text = r#"[{"ph":"b","ts":1,"name":"a","cat":"c","id":1,"pid":1},
        {"ph":"e","ts":2,"name":"other","cat":"c","id":1,"pid":1},
        {"ph":"b","ts":3,"name":"a","cat":"c","id":2,"pid":1},
        {"ph":"b","ts":4,"name":"z","cat":"c","id":1,"pid":1}]"#;
    let expected = [
        row("a", 0, "a", 0),
        row("a", 1, "a", 0),
        // Its own lane is taken: it gets a new one among those of `a`, named like the event.
        row("z", 0, "z", 1),
    ];
    assert_eq!(lanes(&read(text)), expected);
    // Lanes do not depend on how the file was cut for reading.
    let whole = dump(&read(text));
    for chunk in [16, 64, 100] {
        let trace = try_read_or_empty(text.as_bytes(), &compat(chunk))
            .expect("the input of the test is sound");
        assert_eq!(dump(&trace), whole, "pieces of {chunk}");
    }
}

#[test]
fn an_async_lane_is_not_free_before_its_end_in_the_order_of_the_file() {
    let text = r#"[{"ph":"b","ts":1,"name":"a","cat":"c","id":1,"pid":1},
        {"ph":"b","ts":5,"name":"a","cat":"c","id":2,"pid":1},
        {"ph":"e","ts":5,"name":"a","cat":"c","id":1,"pid":1}]"#;
    let expected = [row("a", 0, "a", 0), row("a", 0, "a", 1)];
    assert_eq!(lanes(&read(text)), expected);
}

#[test]
fn numbers_texts_and_empty_texts_are_different_async_ids() {
    let text = r#"[{"ph":"b","ts":1,"name":"a","cat":"c","id":1,"pid":1},
        {"ph":"b","ts":2,"name":"b","cat":"c","id":"1","pid":1},
        {"ph":"b","ts":3,"name":"d","cat":"c","id":"","pid":1},
        {"ph":"b","ts":4,"name":"no id","cat":"c","id":1.5,"pid":1},
        {"ph":"b","ts":5,"name":"l","cat":"c","id2":{"local":1},"pid":-1},
        {"ph":"b","ts":6,"name":"m","cat":"c","id2":{"local":1},"pid":8589934592}]"#;
    let expected = [
        row("a", 0, "a", 0),
        row("b", 0, "b", 1),
        row("d", 0, "d", 2),
        // Both processes are 0.
        row("l", 0, "l", 3),
        row("m", 1, "l", 3),
    ];
    assert_eq!(lanes(&read(text)), expected);
}

#[test]
fn dropped_events_have_threads_unless_their_time_is_bad() {
    let text = r#"[{"ph":"X","ts":1,"name":"no dur","pid":1,"tid":11},
        {"ph":"X","ts":1,"dur":-1,"name":"negative","pid":1,"tid":12},
        {"ph":"S","ts":1,"name":"old","id":1,"pid":1,"tid":13},
        {"ph":"N","ts":1,"name":"object","id":1,"pid":1,"tid":14},
        {"ph":"X","ts":-1,"dur":1,"name":"before zero","pid":1,"tid":15},
        {"ph":"C","name":"no time","pid":1,"tid":16,"args":{"a":1}},
        {"ph":"b","name":"no time","id":1,"pid":1,"tid":17}]"#;
    let trace = read(text);
    assert_eq!(trace.slices().len(), 0);
    assert_eq!(
        threads(&trace),
        [(1, 1), (1, 11), (1, 12), (1, 13), (1, 14)]
    );
}

#[test]
fn only_complete_slices_have_a_thread_duration_of_their_own() {
    let text = r#"[{"ph":"B","ts":1,"tts":1,"tdur":9,"name":"b","pid":1,"tid":1},
        {"ph":"i","ts":2,"tts":2,"name":"i","pid":1,"tid":1},
        {"ph":"X","ts":3,"dur":1,"tts":3,"tdur":7,"name":"x","pid":1,"tid":1}]"#;
    let times: Vec<_> = read(text)
        .slices()
        .map(|s| s.thread_time().expect("the input of the test is sound"))
        .collect();
    assert_eq!(times, [(1_000, None), (2_000, None), (3_000, Some(7_000))]);
}

#[test]
fn unknown_scopes_are_threads() {
    let text = r#"[{"ph":"i","ts":1,"name":"a","pid":1,"tid":2,"s":"x"},
        {"ph":"i","ts":2,"name":"b","pid":1,"tid":2,"s":"global"},
        {"ph":"i","ts":3,"name":"c","pid":1,"tid":2,"s":1},
        {"ph":"i","ts":4,"name":"no tid","pid":1,"s":"x"}]"#;
    let trace = read(text);
    let kinds: Vec<_> = trace.slices().map(|s| s.track().kind).collect();
    assert_eq!(kinds, [TrackKind::Thread; 3]);
}

#[test]
fn every_equal_member_of_a_counter_is_a_sample() {
    let text =
        r#"[{"ph":"C","ts":1,"name":"n","pid":1,"args":{"a":1,"a":" 2","b":".5","c":"1x"}}]"#;
    let trace = read(text);
    let values: Vec<_> = trace.counters().iter().map(|s| s.value).collect();
    assert_eq!(values, [1.0, 2.0, 0.5]);
}

#[test]
fn flow_ids_are_integers_or_hexadecimal_texts() {
    let text = r#"[{"ph":"X","ts":1,"dur":9,"name":"a","pid":1,"tid":1},
        {"ph":"s","ts":2,"name":"f","id":7.0,"pid":1,"tid":1},
        {"ph":"f","ts":3,"name":"f","id":7.0,"bp":"e","pid":1,"tid":1},
        {"ph":"s","ts":4,"name":"f","id":16,"pid":1,"tid":1},
        {"ph":"f","ts":5,"name":"f","id":"10","bp":"e","pid":1,"tid":1}]"#;
    let trace = read(text);
    let ids: Vec<_> = trace.flows().iter().map(|f| f.id).collect();
    assert_eq!(ids, [16]);
}

#[test]
fn what_is_called_by_a_text_is_renamed_by_every_event() {
    let text = r#"[{"ph":"M","name":"process_name","pid":"P","tid":"T","args":{"name":"new"}},
        {"ph":"M","name":"thread_name","pid":"P","tid":"T","args":{"name":"new"}},
        {"ph":"X","ts":1,"dur":1,"name":"x","pid":"P","tid":"T"}]"#;
    let trace = read(text);
    let name = |id: Option<trace_model::StrId>| id.map(|id| trace.text(id));
    assert_eq!(name(trace.processes()[0].name), Some("P"));
    assert!(trace.threads().iter().any(|t| name(t.name) == Some("T")));
    assert!(trace.threads().iter().all(|t| name(t.name) != Some("new")));
}
