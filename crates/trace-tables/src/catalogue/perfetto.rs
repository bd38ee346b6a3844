//! Views with the names and the columns of Perfetto's trace processor.

use super::ViewSpec;

const fn view(name: &'static str, doc: &'static str, sql: &'static str) -> ViewSpec {
    ViewSpec { name, sql, doc }
}

/// Views over the tables. `args` is a table with Perfetto's columns, and needs none. `instants` is our own.
pub const VIEWS: &[ViewSpec] = &[
    view(
        "instants",
        "One row for each slice without duration.",
        "SELECT file_id, rank, id, ts, track_id, category, name, depth, parent_id, arg_set_id, utid, upid FROM slices \
         WHERE dur = 0",
    ),
    view(
        "slice",
        "Perfetto's table of slices.",
        "SELECT id, ts, dur, track_id, category, name, depth, parent_id, arg_set_id, thread_ts, thread_dur, category AS cat \
         FROM slices",
    ),
    view(
        "thread",
        "Perfetto's table of threads.",
        "SELECT utid AS id, utid, tid, name, upid, is_main_thread FROM threads",
    ),
    view(
        "process",
        "Perfetto's table of processes.",
        "SELECT upid AS id, upid, pid, name FROM processes",
    ),
    view(
        "track",
        "Perfetto's table of tracks.",
        "SELECT id, name, type, parent_id FROM tracks",
    ),
    view(
        "thread_track",
        "Tracks of slices of a thread.",
        "SELECT id, name, type, parent_id, utid FROM tracks WHERE utid IS NOT NULL AND kind <> 'counter'",
    ),
    view(
        "process_track",
        "Tracks of slices of a process.",
        "SELECT id, name, type, parent_id, upid FROM tracks WHERE utid IS NULL AND upid IS NOT NULL AND kind <> 'counter'",
    ),
    view(
        "counter",
        "Perfetto's table of counter samples.",
        "SELECT id, ts, track_id, value FROM counters",
    ),
    view(
        "counter_track",
        "Tracks of counters.",
        "SELECT id, name, type, parent_id, unit FROM tracks WHERE kind = 'counter'",
    ),
    view(
        "thread_counter_track",
        "Tracks of counters of a thread.",
        "SELECT id, name, type, parent_id, unit, utid FROM tracks WHERE kind = 'counter' AND utid IS NOT NULL",
    ),
    view(
        "process_counter_track",
        "Tracks of counters of a process.",
        "SELECT id, name, type, parent_id, unit, upid FROM tracks WHERE kind = 'counter' AND utid IS NULL AND upid IS NOT NULL",
    ),
    view(
        "flow",
        "Perfetto's table of flows.",
        "SELECT id, slice_out, slice_in, trace_id FROM flows",
    ),
];
