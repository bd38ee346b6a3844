//! Tests the tables of hand-made traces, as CSV.

#![expect(clippy::unwrap_used, reason = "a failed step fails the test")]

use report::{CsvOptions, CsvWriter, JsonLayout, JsonRowsWriter};
use trace_model::{
    Arg, ArgsRef, CategoryId, EndData, EndOrder, FinishOptions, FlowPoint, FlowRole, FlowSpace,
    IssueKind, LaneId, Pid, Place, Process, SliceData, Thread, Tid, Trace, TraceBuilder, Track,
    TrackKind, Unit,
};
use trace_tables::{SCHEMA_VERSION, Table, TableOptions};

fn csv(trace: &Trace, table: Table, compat: bool) -> Vec<String> {
    let mut out = Vec::new();
    let options = CsvOptions {
        null: if compat { "\\N".into() } else { "".into() },
        ..CsvOptions::default()
    };
    table
        .write(
            trace,
            &TableOptions::compat(compat),
            &mut CsvWriter::new(&mut out, options),
        )
        .unwrap();
    let text = String::from_utf8(out).unwrap();
    text.lines().skip(1).map(str::to_owned).collect()
}

/// Returns the columns at `places` of each row (no cell of these has a comma).
fn cells(rows: &[String], places: &[usize]) -> Vec<String> {
    let pick = |row: &String| {
        let all: Vec<&str> = row.split(',').collect();
        places.iter().map(|&i| all[i]).collect::<Vec<_>>().join(" ")
    };
    rows.iter().map(pick).collect()
}

fn named(b: &mut TraceBuilder, name: &str) -> SliceData {
    SliceData {
        name: Some(b.string(name)),
        category: CategoryId::NONE,
        args: ArgsRef::NONE,
    }
}

const UNNAMED: SliceData = SliceData {
    name: None,
    category: CategoryId::NONE,
    args: ArgsRef::NONE,
};

fn thread(b: &mut TraceBuilder, pid: i64, tid: i64) -> LaneId {
    let process = Some(b.process(Process::new(Pid(pid))));
    let thread = Some(b.thread(Thread::new(Tid(tid), process)));
    let track = b.track(Track {
        thread,
        process,
        ..Track::new(TrackKind::Thread)
    });
    b.lane(Some(track))
}

fn requests(b: &mut TraceBuilder, count: u64, kind: TrackKind) -> Vec<LaneId> {
    let name = Some(b.string("request"));
    (0..count)
        .map(|uuid| {
            let track = b.track(Track {
                name,
                uuid: Some(uuid),
                ..Track::new(kind)
            });
            b.lane(Some(track))
        })
        .collect()
}

#[test]
fn async_tracks_of_one_name_share_the_lanes_that_are_free() {
    let mut b = TraceBuilder::new();
    let r = requests(&mut b, 4, TrackKind::Global);
    let (a, c) = (named(&mut b, "a"), named(&mut b, "c"));
    b.events.complete(r[0], 0, 100, a); // lane 0
    b.events.complete(r[1], 50, 100, a); // 0 is taken: lane 1
    b.events.complete(r[0], 60, 10, c); // nests on its own lane
    b.events.complete(r[2], 100, 20, a); // 0 is free again
    b.events.complete(r[0], 110, 20, a); // its lane is taken, and 1 too: a lane of a new number
    b.events.complete(r[3], 150, 10, a); // the first free one
    b.events.complete(r[2], 151, 1, a); // 2 lost its lane to 3; takes the next free one
    let trace = b.finish(&FinishOptions::default()).unwrap();
    // id, ts, depth, parent, lane
    assert_eq!(
        cells(&csv(&trace, Table::Slice, true), &[0, 1, 5, 6, 13]),
        [
            "0 0 0 \\N 0",
            "1 50 0 \\N 1",
            "2 60 1 0 0",
            "3 100 0 \\N 0",
            "4 110 0 \\N 4",
            "5 150 0 \\N 0",
            "6 151 0 \\N 1",
        ]
    );
}

#[test]
fn a_slice_that_never_ends_keeps_its_lane_and_unmerged_tracks_have_their_own() {
    let mut b = TraceBuilder::new();
    let merged = requests(&mut b, 2, TrackKind::GlobalAsync);
    let alone = requests(&mut b, 2, TrackKind::GlobalUnmerged);
    let a = named(&mut b, "a");
    b.events.begin(merged[0], 0, a);
    b.events.complete(merged[1], 1_000_000, 1, a);
    b.events.complete(alone[0], 0, 1, a);
    b.events.complete(alone[1], 2_000_000, 1, a);
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        cells(&csv(&trace, Table::Slice, true), &[1, 2, 7, 13]),
        [
            "0 -1 legacy_async_global_slice 0",
            "0 1 global_track_event 2",
            "1000000 1 legacy_async_global_slice 1",
            "2000000 1 global_track_event 3",
        ]
    );
}

#[test]
fn a_track_that_is_a_lane_already_is_left_as_it_is() {
    let mut b = TraceBuilder::new();
    let r = requests(&mut b, 2, TrackKind::Global);
    for track in b.tracks_mut() {
        track.is_lane = true;
    }
    b.events.complete(r[0], 0, 10, UNNAMED);
    b.events.complete(r[1], 50, 10, UNNAMED);
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(cells(&csv(&trace, Table::Slice, true), &[13]), ["0", "1"]);
}

#[test]
fn tracks_of_other_names_or_owners_share_nothing() {
    let mut b = TraceBuilder::new();
    let (one, other) = (b.string("one"), b.string("other"));
    let p = [1, 2].map(|pid| b.process(Process::new(Pid(pid))));
    let lanes = [(one, p[0]), (one, p[1]), (other, p[0]), (one, p[0])].map(|(name, process)| {
        let track = b.track(Track {
            name: Some(name),
            process: Some(process),
            ..Track::new(TrackKind::ProcessChild)
        });
        b.lane(Some(track))
    });
    for (i, lane) in (0..).zip(lanes) {
        b.events.complete(lane, i * 10, 5, UNNAMED);
    }
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        cells(&csv(&trace, Table::Slice, false), &[8, 9, 10, 13]),
        ["one 1  0", "one 2  1", "other 1  2", "one 1  0"]
    );
}

#[test]
fn overlapping_slices_of_an_async_track_are_drawn_on_another_lane_of_its_group() {
    let mut b = TraceBuilder::new();
    let r = requests(&mut b, 2, TrackKind::Global);
    b.events.complete(r[0], 0, 100, UNNAMED);
    b.events.complete(r[0], 50, 100, UNNAMED); // spills to track 2
    b.events.complete(r[1], 160, 10, UNNAMED); // lane 0 is free
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        cells(&csv(&trace, Table::Slice, true), &[1, 8, 13]),
        ["0 request 0", "50 request 2", "160 request 0"]
    );
}

#[test]
fn compat_shows_numbers_and_names_as_the_reference_does() {
    let mut b = TraceBuilder::new();
    b.meta.format = "chrome-json";
    let overhead = thread(&mut b, -1, 1 << 40);
    b.events.complete(overhead, 5, 1, UNNAMED);
    b.events.thread_time(77, Some(3));
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        csv(&trace, Table::Slice, true),
        ["0,5,1,\\N,[No name],0,\\N,thread_execution,\\N,0,0,77,3,0"]
    );
    assert_eq!(
        csv(&trace, Table::Slice, false),
        ["0,5,1,,,0,,thread_execution,,-1,1099511627776,77,3,0"]
    );
    assert_eq!(csv(&trace, Table::Thread, true), ["0,\\N,0,\\N"]);
    assert_eq!(csv(&trace, Table::Thread, false), ["1099511627776,,-1,"]);
    assert_eq!(csv(&trace, Table::Process, false), ["0,-1,,,,"]);
}

#[test]
fn threads_are_ordered_by_process_and_number_and_tracks_as_they_came() {
    let mut b = TraceBuilder::new();
    let late = thread(&mut b, 9, 1);
    thread(&mut b, 2, 30);
    thread(&mut b, 2, 4);
    let name = Some(b.string("python3, main"));
    b.processes_mut()[0].name = name;
    b.threads_mut()[0].name = name;
    let power = b.string("power");
    let counter = Track {
        name: Some(power),
        unit: Some(Unit::Watts),
        uuid: Some(u64::MAX),
        process: trace_model::ProcessId::new(0),
        ..Track::new(TrackKind::ProcessCounter)
    };
    b.track(counter);
    b.events.complete(late, 0, 1, UNNAMED);
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        csv(&trace, Table::Thread, false),
        ["4,,2,", "30,,2,", "1,\"python3, main\",9,\"python3, main\""]
    );
    assert_eq!(
        csv(&trace, Table::Track, false)[2..],
        [
            "2,thread,thread_execution,,,2,2,2,4,,",
            "3,counter,process_counter_track_event,power,,0,,9,,18446744073709551615,W",
        ]
    );
}

#[test]
fn flows_name_both_ends() {
    let mut b = TraceBuilder::new();
    let (cpu, gpu) = (thread(&mut b, 1, 1), thread(&mut b, 0, 7));
    let (launch, kernel) = (named(&mut b, "launch"), named(&mut b, "a \"b\", c"));
    b.events.complete(cpu, 10, 5, launch);
    b.events.complete(gpu, 20, 5, kernel);
    let ac2g = Some(b.string("ac2g"));
    for (lane, ts, role) in [(cpu, 10, FlowRole::Start), (gpu, 20, FlowRole::End)] {
        let point = FlowPoint {
            id: 3,
            category: ac2g,
            name: None,
            space: FlowSpace::Chrome,
            role,
        };
        b.events.flow(lane, ts, point);
    }
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        csv(&trace, Table::Flow, true),
        ["0,0,1,ac2g,\\N,10,launch,20,\"a \"\"b\"\", c\""]
    );
}

#[test]
fn counters_of_one_instant_are_ordered_by_name() {
    let mut b = TraceBuilder::new();
    let lanes = ["z", "a"].map(|name| {
        let name = Some(b.string(name));
        let unit_name = (name.map(|n| n.index()) == Some(1)).then(|| b.string("tokens"));
        let track = b.track(Track {
            name,
            unit_name,
            ..Track::new(TrackKind::GlobalCounter)
        });
        b.lane(Some(track))
    });
    for (lane, ts, value) in [(0, 5, 1.0), (0, 9, 0.1 + 0.2), (1, 9, -4.0), (0, 2, 1e300)] {
        b.events.counter(lanes[lane], ts, value);
    }
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        csv(&trace, Table::Counter, true),
        [
            "2,1e+300,global_counter_track_event,z,\\N,\\N,\\N",
            "5,1.0,global_counter_track_event,z,\\N,\\N,\\N",
            "9,-4.0,global_counter_track_event,a,tokens,\\N,\\N",
            "9,0.30000000000000004,global_counter_track_event,z,\\N,\\N,\\N",
        ]
    );
}

fn with_args(json: bool) -> Trace {
    let mut b = TraceBuilder::new();
    b.meta.format = if json { "chrome-json" } else { "perfetto" };
    let lane = thread(&mut b, 1, 1);
    let mut s = |text: &str| b.events.strings.intern(text);
    let list = [
        Arg::int(s("args.z"), -5),
        Arg::uint(s("args.big"), 1 << 63),
        Arg::real(s("args.f"), 0.1 + 0.2),
        Arg::bool(s("args.t"), true),
        Arg::text(s("args.nul"), s("a\0b")),
        Arg::pointer(s("args.p"), 0xdead_beef),
        Arg::json(s("args.grid"), s(r#"[4, {"x": 1.5}, null, []]"#)),
        Arg::int(s("args.l[1].q"), 1),
        Arg::json(s("args.odd"), s("[1,")),
    ];
    let first = b.events.args(&list);
    let second = b.events.args(&[Arg::text(list[0].key, list[0].key)]);
    let third = b.events.args(&[Arg::int(list[0].key, 6)]);
    for (ts, args) in [(0, first), (10, ArgsRef::NONE)] {
        b.events
            .complete(lane, ts, 1, SliceData { args, ..UNNAMED });
    }
    b.events.begin(
        lane,
        20,
        SliceData {
            args: second,
            ..UNNAMED
        },
    );
    let end = EndData {
        args: third,
        ..EndData::ANY
    };
    b.events.end(lane, 30, EndOrder::InPlace, end);
    b.finish(&FinishOptions::default()).unwrap()
}

#[test]
fn arguments_are_flattened_and_ordered_by_key() {
    assert_eq!(
        csv(&with_args(false), Table::Args, false),
        [
            "0,args.big,args.big,uint,9223372036854775808",
            "0,args.f,args.f,real,0.30000000000000004",
            "0,args.grid,args.grid[0],int,4",
            "0,args.grid.x,args.grid[1].x,real,1.5",
            "0,args.l.q,args.l[1].q,int,1",
            "0,args.nul,args.nul,string,a\0b",
            "0,args.odd,args.odd,json,\"[1,\"",
            "0,args.p,args.p,pointer,0xdeadbeef",
            "0,args.t,args.t,bool,true",
            "0,args.z,args.z,int,-5",
            "2,args.z,args.z,string,args.z",
            "2,args.z,args.z,int,6",
        ]
    );
}

#[test]
fn compat_shows_values_as_the_reference_does() {
    let rows = csv(&with_args(true), Table::Args, true);
    assert_eq!(rows[0], "0,args.big,args.big,real,-9.22337203685478e+18");
    assert_eq!(rows[1], "0,args.f,args.f,real,0.3");
    assert_eq!(rows[4], "0,args.l[1].q,args.l[1].q,int,1");
    assert_eq!(rows[5], "0,args.nul,args.nul,string,a");
}

#[test]
fn stats_count_every_kind_of_oddity() {
    let mut b = TraceBuilder::new();
    let lane = thread(&mut b, 1, 1);
    b.events.complete(lane, 0, 10, UNNAMED);
    b.events.complete(lane, 5, 10, UNNAMED);
    b.events.begin(lane, 40, UNNAMED);
    b.diagnostics
        .add(IssueKind::JsonEventSkipped, 3, [Place::Byte(9)]);
    let trace = b.finish(&FinishOptions::default()).unwrap();
    assert_eq!(
        csv(&trace, Table::Stats, true),
        [
            "json_event_skipped,\\N,error,trace,3",
            "slice_spill_overlapping_complete_event,\\N,error,analysis,1",
        ]
    );
    assert_eq!(
        csv(&trace, Table::Stats, false)[1],
        "slice_never_closed,,info,analysis,1"
    );
}

#[test]
fn an_empty_trace_has_empty_tables_and_every_table_is_found_by_its_name() {
    let trace = TraceBuilder::new()
        .finish(&FinishOptions::default())
        .unwrap();
    for table in Table::ALL {
        assert_eq!(csv(&trace, table, false), Vec::<String>::new(), "{table}");
        assert_eq!(table.name().parse(), Ok(table));
    }
    let error = "slices".parse::<Table>().unwrap_err();
    assert_eq!(
        error.to_string(),
        "no table `slices`: choose slice, flow, counter, track, process, thread, args or stats"
    );
}

#[test]
fn json_rows_have_the_same_values() {
    let mut b = TraceBuilder::new();
    let lane = thread(&mut b, 1, 2);
    b.events.complete(lane, 1_000, 50, UNNAMED);
    let trace = b.finish(&FinishOptions::default()).unwrap();
    let mut out = Vec::new();
    let mut sink = JsonRowsWriter::new(&mut out, JsonLayout::Document(SCHEMA_VERSION));
    Table::Slice
        .write(&trace, &TableOptions::default(), &mut sink)
        .unwrap();
    let document: serde_json::Value = serde_json::from_slice(&out).unwrap();
    assert_eq!(document["schema_version"], "1.0");
    let row = &document["rows"][0];
    assert_eq!((&row["ts"], &row["tid"]), (&1000.into(), &2.into()));
    assert!(row["name"].is_null());
}
