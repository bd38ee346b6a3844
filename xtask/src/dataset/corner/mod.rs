//! Chrome JSON traces with one difficulty each, small enough to read, and their correct reading.
//!
//! The truth is planted by hand or by construction, never computed by a reader. Names of slices are
//! unique within a file, so that a parent can be given by name. `lane` 0 is the row itself, 1 and
//! up are the lanes of slices that overlap partially.

mod broken;
mod links;
mod order;
mod phases;

use super::Fixture;
use super::json::{Json, object};

/// Returns all files of `testdata/kineto/`.
pub(crate) fn build(seed: u64) -> Vec<Fixture> {
    let mut files = order::build(seed);
    files.extend(broken::build(seed));
    files.extend(links::build());
    files.extend(phases::build());
    files
}

/// Returns a complete event.
fn x(name: &str, cat: &str, row: (i64, i64), ts: i64, dur: i64) -> Json {
    object! {
        "ph": "X", "cat": cat, "name": name, "pid": row.0, "tid": row.1, "ts": Json::micros(ts), "dur": Json::micros(dur),
    }
}

/// Returns a complete event with arguments.
fn x_args(name: &str, cat: &str, row: (i64, i64), ts: i64, dur: i64, args: Json) -> Json {
    let mut event = x(name, cat, row, ts, dur);
    event.push("args", args);
    event
}

/// Returns a document in object form, one event per line.
fn document(events: &[Json]) -> String {
    let lines: Vec<String> = events.iter().map(Json::line).collect();
    format!(
        "{{\"schemaVersion\": 1, \"displayTimeUnit\": \"ms\", \"traceEvents\": [\n{}\n]}}\n",
        lines.join(",\n")
    )
}

/// Returns the truth about a slice.
fn slice(
    name: &str,
    row: (i64, i64),
    time: (i64, i64),
    lane: i64,
    depth: i64,
    parent: Option<&str>,
) -> Json {
    object! {
        "name": name, "pid": row.0, "tid": row.1, "ts_ns": time.0, "dur_ns": time.1, "lane": lane, "depth": depth, "parent": parent,
    }
}

/// Returns a trace and its truth.
fn pair(name: &str, shows: &str, bytes: impl Into<Vec<u8>>, mut truth: Json) -> [Fixture; 2] {
    if let Json::Obj(members) = &mut truth {
        members.insert(0, ("schema".to_owned(), 1.into()));
    }
    let name = format!("kineto/{name}");
    [
        Fixture::plain(&format!("{name}.json"), shows, bytes),
        Fixture::truth(&name, &truth),
    ]
}
