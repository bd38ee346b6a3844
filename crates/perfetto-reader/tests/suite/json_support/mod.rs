//! Reads texts, and formats traces as text with every row.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    clippy::allow_attributes,
    reason = "each test binary uses its part"
)]

use std::fmt::Write as _;

use byte_source::Source;
use perfetto_reader::{Error, ReadOptions, json};
use trace_model::{Slice, Trace};

/// Reads `text` as JSON.
pub fn try_read(text: &[u8], options: &ReadOptions) -> Result<Trace, Error> {
    json::read(
        Source::from_bytes("test.json", text.to_vec()).expect("the test's own input is sound"),
        options,
    )
}

/// Reads `text` as JSON that is sound outside of its events.
pub fn read(text: impl AsRef<[u8]>) -> Trace {
    try_read(text.as_ref(), &options(1, 0)).expect("the test's own input is sound")
}

pub fn options(threads: usize, chunk_bytes: usize) -> ReadOptions {
    let mut options = ReadOptions::default();
    options.threads = threads;
    options.chunk_bytes = chunk_bytes;
    options
}

/// Returns the names of all slices in order.
pub fn names(trace: &Trace) -> Vec<&str> {
    trace.slices().map(|s| s.name().unwrap_or("-")).collect()
}

/// Formats one row, without its number.
pub fn slice_text(slice: Slice<'_>) -> String {
    let trace = slice.trace();
    let mut args: Vec<_> = slice.args().map(|(k, v)| format!("{k}={v:?}")).collect();
    args.sort();
    let track = slice.track();
    let thread = track.thread.map(|t| trace.thread(t));
    let process = track.process.map(|p| trace.process(p));
    format!(
        "{} {:?} {:?} {:?} depth {} parent {:?} {:?} {:?} {:?} time {:?} [{}]",
        slice.ts(),
        slice.dur(),
        slice.category(),
        slice.name(),
        slice.depth(),
        slice.parent().map(|p| p.id()),
        track.kind,
        process.map(|p| (p.pid, p.artificial, p.name.map(|n| trace.text(n)))),
        thread.map(|t| (t.tid, t.artificial, t.name.map(|n| trace.text(n)))),
        slice.thread_time(),
        args.join(", "),
    )
}

/// Formats the whole contents of a trace.
pub fn dump(trace: &Trace) -> String {
    let mut out = String::new();
    for slice in trace.slices() {
        writeln!(out, "{} {}", slice.track_id(), slice_text(slice))
            .expect("the test's own input is sound");
    }
    for flow in trace.flows() {
        writeln!(out, "{flow:?}").expect("the test's own input is sound");
    }
    for sample in trace.counters().iter() {
        writeln!(out, "{sample:?}").expect("the test's own input is sound");
    }
    let tables = (trace.processes(), trace.threads(), trace.tracks());
    writeln!(out, "{tables:#?}").expect("the test's own input is sound");
    for (id, text) in trace.strings().iter() {
        writeln!(out, "{id} {text:?}").expect("the test's own input is sound");
    }
    writeln!(out, "{:#?}\n{:#?}", trace.meta(), trace.diagnostics())
        .expect("the test's own input is sound");
    out
}

/// Reads `text`; returns `None` if it is empty.
pub fn try_read_or_empty(text: &[u8], options: &ReadOptions) -> Option<Trace> {
    let source = Source::from_bytes("test.json", text.to_vec()).ok()?;
    match json::read(source, options) {
        Ok(trace) => Some(trace),
        Err(Error::Empty { .. }) => None,
        Err(other) => panic!("{other}"),
    }
}

/// Returns the first line that differs, from both.
pub fn difference(a: &str, b: &str) -> Option<(String, String)> {
    let (mut a, mut b) = (a.lines(), b.lines());
    loop {
        match (a.next(), b.next()) {
            (None, None) => return None,
            (x, y) if x == y => {}
            (x, y) => return Some((x.unwrap_or("").to_owned(), y.unwrap_or("").to_owned())),
        }
    }
}
